//! Buffers in host and device memory, and the copies between these buffers.

use super::{Node, SMALL};
use crate::driver::{BufferCopy, DeviceBuffer, DeviceError, HostMemory, OpenDevice, Queue};
use nodegauge_kernels::numbers::{fill_words, first_wrong_word};
use nodegauge_measure::Fraction;
use nodegauge_measure::clock;
use nodegauge_measure::samples::Sample;
use nodegauge_placement::numa::count_pages_by_numa_node;
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
pub(super) enum Endpoint {
    Host(usize),
    Device(usize),
}

/// Copy by one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeviceCopy {
    pub(super) device: usize,
    pub(super) from: Endpoint,
    pub(super) to: Endpoint,
}

impl DeviceCopy {
    /// Returns the index of the host buffer if the source or the destination is on the host.
    pub(super) fn host(&self) -> Option<usize> {
        [self.from, self.to].into_iter().find_map(|end| match end {
            Endpoint::Host(host) => Some(host),
            Endpoint::Device(_) => None,
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
    pub(super) device_copies: Vec<DeviceCopy>,
}

impl CopyCell {
    /// True if the figure is the time until the host detects that a small copy is complete.
    pub(super) fn is_latency(&self) -> bool {
        self.bytes <= SMALL
    }

    /// Returns the clock that measures the time: the host's clock for latencies and for several queues, otherwise the
    /// device's clock.
    pub(super) fn clock(&self) -> &'static str {
        if self.is_latency() || self.device_copies.len() > 1 { "host" } else { "device" }
    }
}

/// Buffer in host memory, with its NUMA node.
pub(super) struct HostBuffer {
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
pub(super) struct LinkRig {
    pub(super) cells: Vec<CopyCell>,
    /// Descriptions of copies that delivered wrong data.
    pub(super) wrong_copies: Vec<String>,
    queues: HashMap<(usize, usize), Box<dyn Queue>>,
    pub(super) host_buffers: Vec<HostBuffer>,
    /// Buffers in device memory, each with the index of its device.
    pub(super) device_buffers: Vec<(usize, DeviceBuffer)>,
    devices: Vec<Rc<dyn OpenDevice>>,
}

impl LinkRig {
    pub(super) fn new(devices: &[Rc<dyn OpenDevice>]) -> Self {
        Self {
            cells: Vec::new(),
            wrong_copies: Vec::new(),
            queues: HashMap::new(),
            host_buffers: Vec::new(),
            device_buffers: Vec::new(),
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
        self.device_buffers.push((device, memory));
        Ok(self.device_buffers.len() - 1)
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
        let pages = count_pages_by_numa_node(at, bytes, MAX_QUERIED_PAGES).ok();
        let on_node = pages.map(|pages| {
            let on = pages.nodes.get(&node.0).copied().unwrap_or(0);
            Fraction(on as f64 / (pages.nodes.values().sum::<u64>().max(1)) as f64)
        });
        let bound = (!only).then_some(node.0.0);
        self.host_buffers.push(HostBuffer {
            memory,
            pinned,
            node: bound,
            on_node,
            cpus: node.clone(),
        });
        Ok(self.host_buffers.len() - 1)
    }

    /// Adds a cell with copies that run simultaneously.
    pub(super) fn add_cell(
        &mut self,
        name: &'static str,
        bytes: u64,
        device_copies: Vec<DeviceCopy>,
    ) {
        let copies = (MIN_SAMPLE_BYTES / bytes.max(1)).clamp(1, MAX_COPIES) as usize;
        self.cells.push(CopyCell { name, bytes, copies, device_copies });
    }

    /// Takes a sample of a cell. The sample is the time per copy and direction.
    pub(super) fn take_sample(&mut self, cell: usize) -> Result<Sample, DeviceError> {
        let bytes = self.cells[cell].bytes as usize;
        let copies = self.cells[cell].copies;
        let device_copies = self.cells[cell].device_copies.clone();
        let latency = self.cells[cell].is_latency();
        let node = device_copies
            .iter()
            .find_map(DeviceCopy::host)
            .map(|host| self.host_buffers[host].cpus.clone());
        let _binding = node.map(|node| NodeBinding::new(&node, false));
        for (number, leg) in device_copies.iter().enumerate() {
            self.queue(leg.device, number)?;
        }
        let each: Vec<Option<BufferCopy<'_>>> = device_copies
            .iter()
            .map(|leg| leg_copy(&self.host_buffers, &self.device_buffers, *leg))
            .collect();
        let mut queues = leg_queues(&mut self.queues, &device_copies);
        let mut begins = Vec::with_capacity(device_copies.len());
        let mut ends = Vec::with_capacity(device_copies.len());
        // Only calls of the driver are made between the readings of the clock.
        let begun = clock::now();
        for queue in &mut queues {
            begins.push(queue.enqueue_event()?);
        }
        for _ in 0..copies {
            for (queue, copy) in queues.iter_mut().zip(&each) {
                if let Some(copy) = copy {
                    // SAFETY: the reasons in `LinkRig::copy` apply.
                    unsafe { queue.copy(*copy, bytes) }?;
                }
                if latency {
                    queue.wait()?;
                }
            }
        }
        for queue in &mut queues {
            ends.push(queue.enqueue_event()?);
            queue.submit()?;
        }
        for queue in &mut queues {
            queue.wait()?;
        }
        let host = (clock::now() - begun).as_secs_f64();
        let seconds = match self.cells[cell].clock() {
            "device" => {
                self.queue(device_copies[0].device, 0)?.seconds_between(&begins[0], &ends[0])?.0
            }
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
    fn copy(&mut self, number: usize, leg: DeviceCopy, bytes: usize) -> Result<(), DeviceError> {
        self.queue(leg.device, number)?;
        let copy = leg_copy(&self.host_buffers, &self.device_buffers, leg);
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
        let mut cells: Vec<Vec<DeviceCopy>> = Vec::new();
        for cell in &self.cells {
            if !cells.contains(&cell.device_copies) {
                cells.push(cell.device_copies.clone());
            }
        }
        let node = self.host_buffers[0].cpus.clone();
        let bytes = MAX_CHECKED_BYTES.min(self.device_buffers[0].1.bytes) & !7;
        // Host buffer from which the device buffers are filled and into which they are read.
        let here = self.add_host_buffer(0, &node, true, bytes, false)?;
        let mut copies = 0;
        for device_copies in cells {
            for (leg, copy) in device_copies.iter().zip(copies..) {
                let filled = if let Endpoint::Host(host) = leg.from { host } else { here };
                fill_words(self.words(filled, bytes), copy);
                self.fetch(Endpoint::Host(here), leg.from, bytes)?;
            }
            for (number, leg) in device_copies.iter().enumerate() {
                self.copy(number, *leg, bytes)?;
            }
            for (number, leg) in device_copies.iter().enumerate() {
                self.queue(leg.device, number)?.wait()?;
            }
            for (leg, copy) in device_copies.iter().zip(copies..) {
                let arrived = if let Endpoint::Host(host) = leg.to { host } else { here };
                self.fetch(leg.to, Endpoint::Host(here), bytes)?;
                if let Some(at) = first_wrong_word(self.words(arrived, bytes), copy) {
                    let from = self.name(leg.from);
                    let to = self.name(leg.to);
                    let together =
                        if device_copies.len() > 1 { " (simultaneous copies)" } else { "" };
                    let from_byte = at * 8;
                    let way = format!("{from} to {to}{together} from byte {from_byte} on");
                    if !self.wrong_copies.contains(&way) {
                        self.wrong_copies.push(way);
                    }
                }
            }
            copies += device_copies.len() as u64;
        }
        Ok(())
    }

    /// Copies between a device and the host and waits for the end of the copy. Does nothing if neither or both buffers
    /// are on a device.
    fn fetch(&mut self, from: Endpoint, to: Endpoint, bytes: usize) -> Result<(), DeviceError> {
        let ((Endpoint::Device(memory), Endpoint::Host(_))
        | (Endpoint::Host(_), Endpoint::Device(memory))) = (from, to)
        else {
            return Ok(());
        };
        let device = self.device_buffers[memory].0;
        self.copy(0, DeviceCopy { device, from, to }, bytes)?;
        self.queue(device, 0)?.wait()
    }

    /// Returns the first `bytes` bytes of a host buffer as numbers.
    fn words(&mut self, host: usize, bytes: usize) -> &mut [u64] {
        let memory = &mut self.host_buffers[host].memory;
        assert!(bytes <= memory.bytes, "{bytes} B do not fit in a buffer of {} B", memory.bytes);
        // SAFETY: the memory is long enough and page-aligned, and no copy is in progress.
        unsafe { std::slice::from_raw_parts_mut(memory.start.cast().as_ptr(), bytes / 8) }
    }

    /// Returns the name of a source or destination.
    fn name(&self, end: Endpoint) -> String {
        match end {
            Endpoint::Host(_) => "host".to_owned(),
            Endpoint::Device(memory) => self.devices[self.device_buffers[memory].0].info().id(),
        }
    }
}

/// Returns the buffers of a copy; `None` if both buffers are on the host.
fn leg_copy<'a>(
    host_buffers: &'a [HostBuffer],
    device_buffers: &'a [(usize, DeviceBuffer)],
    leg: DeviceCopy,
) -> Option<BufferCopy<'a>> {
    match (leg.from, leg.to) {
        (Endpoint::Host(from), Endpoint::Device(to)) => {
            Some(BufferCopy::HostToDevice(&host_buffers[from].memory, &device_buffers[to].1))
        }
        (Endpoint::Device(from), Endpoint::Host(to)) => {
            Some(BufferCopy::DeviceToHost(&device_buffers[from].1, &host_buffers[to].memory))
        }
        (Endpoint::Device(from), Endpoint::Device(to)) => {
            Some(BufferCopy::DeviceToDevice(&device_buffers[from].1, &device_buffers[to].1))
        }
        (Endpoint::Host(_), Endpoint::Host(_)) => None,
    }
}

/// Returns the existing queues of these copies, in the order of the copies.
fn leg_queues<'a>(
    queues: &'a mut HashMap<(usize, usize), Box<dyn Queue>>,
    device_copies: &[DeviceCopy],
) -> Vec<&'a mut Box<dyn Queue>> {
    let mut found = Vec::new();
    for ((device, number), queue) in queues {
        if device_copies.get(*number).is_some_and(|leg| leg.device == *device) {
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
