//! Buffers in host and device memory, and the copies between these buffers.

use super::{Node, SMALL};
use crate::driver::{Copy, DeviceBuffer, DeviceError, HostMemory, OpenDevice, Queue};
use nodegauge_kernels::numbers::{fill_words, first_wrong_word};
use nodegauge_measure::Fraction;
use nodegauge_measure::clock;
use nodegauge_measure::samples::Sample;
use nodegauge_placement::numa::pages_by_node;
use nodegauge_placement::{MemoryPolicy, pin};
use std::collections::HashMap;
use std::rc::Rc;

/// Minimum number of bytes per sample. A sample repeats its copy until this number is reached, at most [`MAX_COPIES`]
/// times.
const MIN_SAMPLE_BYTES: u64 = 16 << 20;
const MAX_COPIES: u64 = 256;
/// Maximum number of pages per buffer whose NUMA nodes are queried.
const MAX_QUERIED_PAGES: usize = 4096;
/// Maximum number of bytes that the verification copies and compares.
const MAX_CHECKED_BYTES: usize = 16 << 20;

/// Source or destination of a copy, given by the index of its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Host(usize),
    Device(usize),
}

/// Copy by one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leg {
    pub(super) device: usize,
    pub(super) from: End,
    pub(super) to: End,
}

impl Leg {
    /// Returns the index of the host buffer if the source or the destination is on the host.
    pub(super) fn host(&self) -> Option<usize> {
        [self.from, self.to].into_iter().find_map(|end| match end {
            End::Host(host) => Some(host),
            End::Device(_) => None,
        })
    }
}

/// Copies that run simultaneously and repeatedly, which the schedule measures as one cell.
#[derive(Debug)]
pub(super) struct CopyCell {
    pub(super) name: &'static str,
    pub(super) bytes: u64,
    /// Number of copies per sample and direction.
    pub(super) copies: usize,
    pub(super) legs: Vec<Leg>,
}

impl CopyCell {
    /// True if the figure is the time until the host detects that a small copy is complete.
    pub(super) fn is_latency(&self) -> bool {
        self.bytes <= SMALL
    }

    /// Returns the clock that measures the time: the host's clock for latencies and for several queues, otherwise the
    /// device's clock.
    pub(super) fn clock(&self) -> &'static str {
        if self.is_latency() || self.legs.len() > 1 { "host" } else { "device" }
    }
}

/// Buffer in host memory, with its NUMA node.
pub(super) struct Host {
    memory: HostMemory,
    pub(super) pinned: bool,
    /// NUMA node to which the memory was bound.
    pub(super) node: Option<u32>,
    /// Share of the memory on this NUMA node, as the kernel reports it.
    pub(super) on_node: Option<Fraction>,
    /// NUMA node whose CPUs use the memory, with these CPUs.
    cpus: Node,
}

/// All queues, buffers and copies of a stage. The fields are dropped in order; the devices are dropped last.
pub(super) struct Rig {
    pub(super) cells: Vec<CopyCell>,
    /// Descriptions of copies that delivered wrong data.
    pub(super) wrong: Vec<String>,
    queues: HashMap<(usize, usize), Box<dyn Queue>>,
    pub(super) hosts: Vec<Host>,
    /// Buffers in device memory, each with the index of its device.
    pub(super) memories: Vec<(usize, DeviceBuffer)>,
    devices: Vec<Rc<dyn OpenDevice>>,
}

impl Rig {
    pub(super) fn new(devices: &[Rc<dyn OpenDevice>]) -> Self {
        Self {
            cells: Vec::new(),
            wrong: Vec::new(),
            queues: HashMap::new(),
            hosts: Vec::new(),
            memories: Vec::new(),
            devices: devices.to_vec(),
        }
    }

    /// Allocates a buffer in the memory of a device and fills it with zeros. Returns its index.
    pub(super) fn add_device_buffer(
        &mut self,
        device: usize,
        bytes: usize,
    ) -> Result<usize, DeviceError> {
        DeviceError::check_end_request()?;
        let memory = self.devices[device].allocate(bytes)?;
        self.devices[device].fill(&memory)?;
        self.memories.push((device, memory));
        Ok(self.memories.len() - 1)
    }

    /// Allocates a buffer in host memory on a NUMA node and returns its index. A CPU of the node touches the memory
    /// first. The memory is bound to the node, unless `only` is true because the host has only one node.
    pub(super) fn add_host_buffer(
        &mut self,
        device: usize,
        node: &Node,
        only: bool,
        bytes: usize,
        pinned: bool,
    ) -> Result<usize, DeviceError> {
        let _binding = NodeBinding::new(node, !only);
        DeviceError::check_end_request()?;
        let memory = self.devices[device].host(bytes, pinned)?;
        let at = memory.start.as_ptr() as usize;
        let pages = pages_by_node(at, bytes, MAX_QUERIED_PAGES).ok();
        let on_node = pages.map(|pages| {
            let on = pages.nodes.get(&node.0).copied().unwrap_or(0);
            Fraction(on as f64 / (pages.nodes.values().sum::<u64>().max(1)) as f64)
        });
        let bound = (!only).then_some(node.0.0);
        self.hosts.push(Host { memory, pinned, node: bound, on_node, cpus: node.clone() });
        Ok(self.hosts.len() - 1)
    }

    /// Adds a cell with copies that run simultaneously.
    pub(super) fn add_cell(&mut self, name: &'static str, bytes: u64, legs: Vec<Leg>) {
        let copies = (MIN_SAMPLE_BYTES / bytes.max(1)).clamp(1, MAX_COPIES) as usize;
        self.cells.push(CopyCell { name, bytes, copies, legs });
    }

    /// Takes a sample of a cell. The sample is the time per copy and direction.
    pub(super) fn take_sample(&mut self, cell: usize) -> Result<Sample, DeviceError> {
        let bytes = self.cells[cell].bytes as usize;
        let copies = self.cells[cell].copies;
        let legs = self.cells[cell].legs.clone();
        let latency = self.cells[cell].is_latency();
        let node = legs.iter().find_map(Leg::host).map(|host| self.hosts[host].cpus.clone());
        let _binding = node.map(|node| NodeBinding::new(&node, false));
        for (number, leg) in legs.iter().enumerate() {
            self.queue(leg.device, number)?;
        }
        let each: Vec<Option<Copy<'_>>> =
            legs.iter().map(|leg| leg_copy(&self.hosts, &self.memories, *leg)).collect();
        let mut queues = leg_queues(&mut self.queues, &legs);
        let mut begins = Vec::with_capacity(legs.len());
        let mut ends = Vec::with_capacity(legs.len());
        // Only calls of the driver are made between the readings of the clock.
        let begun = clock::now();
        for queue in &mut queues {
            begins.push(queue.mark()?);
        }
        for _ in 0..copies {
            for (queue, copy) in queues.iter_mut().zip(&each) {
                if let Some(copy) = copy {
                    // SAFETY: the reasons in `Rig::copy` apply.
                    unsafe { queue.copy(*copy, bytes) }?;
                }
                if latency {
                    queue.wait()?;
                }
            }
        }
        for queue in &mut queues {
            ends.push(queue.mark()?);
            queue.submit()?;
        }
        for queue in &mut queues {
            queue.wait()?;
        }
        let host = (clock::now() - begun).as_secs_f64();
        let seconds = match self.cells[cell].clock() {
            "device" => self.queue(legs[0].device, 0)?.between(&begins[0], &ends[0])?.0,
            _ => host,
        };
        Ok(Sample::from_times(vec![seconds / copies as f64]))
    }

    /// Returns the queue of a device for the copy with index `leg`. The queue is created on first use.
    fn queue(&mut self, device: usize, leg: usize) -> Result<&mut Box<dyn Queue>, DeviceError> {
        use std::collections::hash_map::Entry;
        match self.queues.entry((device, leg)) {
            Entry::Occupied(queue) => Ok(queue.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(self.devices[device].queue()?)),
        }
    }

    /// Enqueues a copy in its queue.
    fn copy(&mut self, number: usize, leg: Leg, bytes: usize) -> Result<(), DeviceError> {
        self.queue(leg.device, number)?;
        let copy = leg_copy(&self.hosts, &self.memories, leg);
        match (self.queues.get_mut(&(leg.device, number)), copy) {
            // SAFETY: both buffers belong to the rig and live until the queue is done. Each sample waits for its
            // queues, and nothing else uses the buffers.
            (Some(queue), Some(copy)) => unsafe { queue.copy(copy, bytes) },
            _ => Ok(()),
        }
    }

    /// Verifies the copies of each cell: runs all copies of the cell simultaneously on distinct numbers, and compares
    /// every number at the destination with its source.
    pub(super) fn check(&mut self) -> Result<(), DeviceError> {
        let mut cells: Vec<Vec<Leg>> = Vec::new();
        for cell in &self.cells {
            if !cells.contains(&cell.legs) {
                cells.push(cell.legs.clone());
            }
        }
        let node = self.hosts[0].cpus.clone();
        let bytes = MAX_CHECKED_BYTES.min(self.memories[0].1.bytes) & !7;
        // Host buffer from which the device buffers are filled and into which they are read.
        let here = self.add_host_buffer(0, &node, true, bytes, false)?;
        let mut copies = 0;
        for legs in cells {
            for (leg, copy) in legs.iter().zip(copies..) {
                let filled = if let End::Host(host) = leg.from { host } else { here };
                fill_words(self.words(filled, bytes), copy);
                self.fetch(End::Host(here), leg.from, bytes)?;
            }
            for (number, leg) in legs.iter().enumerate() {
                self.copy(number, *leg, bytes)?;
            }
            for (number, leg) in legs.iter().enumerate() {
                self.queue(leg.device, number)?.wait()?;
            }
            for (leg, copy) in legs.iter().zip(copies..) {
                let arrived = if let End::Host(host) = leg.to { host } else { here };
                self.fetch(leg.to, End::Host(here), bytes)?;
                if let Some(at) = first_wrong_word(self.words(arrived, bytes), copy) {
                    let from = self.name(leg.from);
                    let to = self.name(leg.to);
                    let together = if legs.len() > 1 { " (simultaneous copies)" } else { "" };
                    let from_byte = at * 8;
                    let way = format!("{from} to {to}{together} from byte {from_byte} on");
                    if !self.wrong.contains(&way) {
                        self.wrong.push(way);
                    }
                }
            }
            copies += legs.len() as u64;
        }
        Ok(())
    }

    /// Copies between a device and the host and waits for the end of the copy. Does nothing if neither or both buffers
    /// are on a device.
    fn fetch(&mut self, from: End, to: End, bytes: usize) -> Result<(), DeviceError> {
        let ((End::Device(memory), End::Host(_)) | (End::Host(_), End::Device(memory))) =
            (from, to)
        else {
            return Ok(());
        };
        let device = self.memories[memory].0;
        self.copy(0, Leg { device, from, to }, bytes)?;
        self.queue(device, 0)?.wait()
    }

    /// Returns the first `bytes` bytes of a host buffer as numbers.
    fn words(&mut self, host: usize, bytes: usize) -> &mut [u64] {
        let memory = &mut self.hosts[host].memory;
        assert!(bytes <= memory.bytes, "{bytes} B do not fit in a buffer of {} B", memory.bytes);
        // SAFETY: the memory is long enough and page-aligned, and no copy is in progress.
        unsafe { std::slice::from_raw_parts_mut(memory.start.cast().as_ptr(), bytes / 8) }
    }

    /// Returns the name of a source or destination.
    fn name(&self, end: End) -> String {
        match end {
            End::Host(_) => "host".to_owned(),
            End::Device(memory) => self.devices[self.memories[memory].0].info().id(),
        }
    }
}

/// Returns the buffers of a copy; `None` if both buffers are on the host.
fn leg_copy<'a>(
    hosts: &'a [Host],
    memories: &'a [(usize, DeviceBuffer)],
    leg: Leg,
) -> Option<Copy<'a>> {
    match (leg.from, leg.to) {
        (End::Host(from), End::Device(to)) => Some(Copy::In(&hosts[from].memory, &memories[to].1)),
        (End::Device(from), End::Host(to)) => Some(Copy::Out(&memories[from].1, &hosts[to].memory)),
        (End::Device(from), End::Device(to)) => {
            Some(Copy::Across(&memories[from].1, &memories[to].1))
        }
        (End::Host(_), End::Host(_)) => None,
    }
}

/// Returns the existing queues of these copies, in the order of the copies.
fn leg_queues<'a>(
    queues: &'a mut HashMap<(usize, usize), Box<dyn Queue>>,
    legs: &[Leg],
) -> Vec<&'a mut Box<dyn Queue>> {
    let mut found = Vec::new();
    for ((device, number), queue) in queues {
        if legs.get(*number).is_some_and(|leg| leg.device == *device) {
            found.push((*number, queue));
        }
    }
    found.sort_unstable_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, queue)| queue).collect()
}

/// Binds the calling thread to the CPUs of a NUMA node and, if `bound` is true, its memory to the node. Dropping the
/// value restores both settings.
struct NodeBinding {
    cpus: Option<Vec<nodegauge_machine::CpuId>>,
    memory: Option<Option<MemoryPolicy>>,
}

impl NodeBinding {
    fn new((node, cpus): &Node, bound: bool) -> Self {
        let affinity = pin::current_affinity().ok();
        let cpus = affinity.filter(|_| pin::pin_current_thread(cpus).is_ok());
        let policy = MemoryPolicy::inherited();
        let is_bound = bound && MemoryPolicy::Bind(vec![*node]).apply_to_thread().is_ok();
        let memory = is_bound.then_some(policy);
        Self { cpus, memory }
    }
}

impl Drop for NodeBinding {
    fn drop(&mut self) {
        if let Some(cpus) = &self.cpus {
            let _ = pin::pin_current_thread(cpus);
        }
        match &self.memory {
            Some(Some(policy)) => drop(policy.apply_to_thread()),
            Some(None) => drop(nodegauge_os::set_thread_policy(libc::MPOL_DEFAULT, &[])),
            None => {}
        }
    }
}
