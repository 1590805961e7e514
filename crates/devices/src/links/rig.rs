//! Memories of host and devices, and the copies between them.

use super::{Node, SMALL};
use crate::driver::{Copy, Device, DeviceError, HostMemory, Memory, Queue};
use nodegauge_measure::clock;
use nodegauge_measure::samples::Sample;
use nodegauge_placement::numa::pages_by_node;
use nodegauge_placement::{MemoryPolicy, pin};
use std::collections::HashMap;
use std::rc::Rc;

/// Bytes of a sample at least, in as many copies as that takes, but not more than [`MOST_COPIES`].
const A_SAMPLE: u64 = 16 << 20;
const MOST_COPIES: u64 = 256;
/// Pages of which the kernel is asked where they are.
const PAGES_ASKED: usize = 4096;
/// Bytes that are sent to see that they arrive.
const CHECKED: usize = 16 << 20;

/// An end of a copy, by its place in the rig.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Host(usize),
    Device(usize),
}

/// A copy that a device makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leg {
    pub(super) device: usize,
    pub(super) from: End,
    pub(super) to: End,
}

impl Leg {
    /// The host's memory.
    pub(super) fn host(&self) -> Option<usize> {
        [self.from, self.to].into_iter().find_map(|end| match end {
            End::Host(host) => Some(host),
            End::Device(_) => None,
        })
    }
}

/// Copies that go at once, again and again.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) name: &'static str,
    pub(super) bytes: u64,
    /// Copies of a sample, each way.
    pub(super) copies: usize,
    pub(super) legs: Vec<Leg>,
}

impl Cell {
    /// Whether it is the time until the host knows that a small copy is done.
    pub(super) fn is_latency(&self) -> bool {
        self.bytes <= SMALL
    }

    /// Whose clock takes the time: the host's where several queues are waited for.
    pub(super) fn clock(&self) -> &'static str {
        if self.is_latency() || self.legs.len() > 1 { "host" } else { "device" }
    }
}

/// Memory of the host, with where it is.
pub(super) struct Host {
    memory: HostMemory,
    pub(super) pinned: bool,
    /// Its node, where it was bound to one.
    pub(super) node: Option<u32>,
    /// Share of it there, as the kernel says.
    pub(super) on_node: Option<f64>,
    /// CPUs of the node.
    cpus: Node,
}

/// Everything between which copies go. Fields are dropped in their order: devices last.
pub(super) struct Rig {
    pub(super) cells: Vec<Cell>,
    /// Ways on which something else arrived than was sent.
    pub(super) wrong: Vec<String>,
    queues: HashMap<(usize, usize), Box<dyn Queue>>,
    pub(super) hosts: Vec<Host>,
    /// Each with its device.
    pub(super) memories: Vec<(usize, Memory)>,
    devices: Vec<Rc<dyn Device>>,
}

impl Rig {
    pub(super) fn new(devices: &[Rc<dyn Device>]) -> Self {
        Self {
            cells: Vec::new(),
            wrong: Vec::new(),
            queues: HashMap::new(),
            hosts: Vec::new(),
            memories: Vec::new(),
            devices: devices.to_vec(),
        }
    }

    /// Memory of a device.
    pub(super) fn memory(&mut self, device: usize, bytes: usize) -> Result<usize, DeviceError> {
        self.memories.push((device, self.devices[device].allocate(bytes)?));
        Ok(self.memories.len() - 1)
    }

    /// Memory of the host on a node, touched by one of its CPUs; bound to it unless it is the only one.
    pub(super) fn host(
        &mut self,
        device: usize,
        node: &Node,
        only: bool,
        bytes: usize,
        pinned: bool,
    ) -> Result<usize, DeviceError> {
        let _here = Here::at(node, !only);
        let memory = self.devices[device].host(bytes, pinned)?;
        let at = memory.start.as_ptr() as usize;
        let got = pages_by_node(at, bytes, PAGES_ASKED).ok();
        let on_node = got.map(|got| {
            let on = got.nodes.get(&node.0).copied().unwrap_or(0);
            on as f64 / (got.nodes.values().sum::<u64>().max(1)) as f64
        });
        let bound = (!only).then_some(node.0.0);
        self.hosts.push(Host { memory, pinned, node: bound, on_node, cpus: node.clone() });
        Ok(self.hosts.len() - 1)
    }

    /// Adds a cell.
    pub(super) fn cell(&mut self, name: &'static str, bytes: u64, legs: Vec<Leg>) {
        let copies = (A_SAMPLE / bytes.max(1)).clamp(1, MOST_COPIES) as usize;
        self.cells.push(Cell { name, bytes, copies, legs });
    }

    /// A sample of a cell: the time of a copy, each way.
    pub(super) fn turn(&mut self, cell: usize) -> Result<Sample, DeviceError> {
        let Cell { bytes, copies, legs, .. } = &self.cells[cell];
        let (bytes, copies, legs) = (*bytes as usize, *copies, legs.clone());
        let latency = self.cells[cell].is_latency();
        let node = legs.iter().find_map(Leg::host).map(|host| self.hosts[host].cpus.clone());
        let _here = node.map(|node| Here::at(&node, false));
        for (number, leg) in legs.iter().enumerate() {
            self.queue(leg.device, number)?;
        }
        let mut begins = Vec::new();
        let begun = clock::now();
        for (number, leg) in legs.iter().enumerate() {
            begins.push(self.queue(leg.device, number)?.mark()?);
        }
        for _ in 0..copies {
            for (number, leg) in legs.iter().enumerate() {
                self.copy(number, *leg, bytes)?;
                if latency {
                    self.queue(leg.device, number)?.wait()?;
                }
            }
        }
        let mut ends = Vec::new();
        for (number, leg) in legs.iter().enumerate() {
            let queue = self.queue(leg.device, number)?;
            ends.push(queue.mark()?);
            queue.submit()?;
        }
        for (number, leg) in legs.iter().enumerate() {
            self.queue(leg.device, number)?.wait()?;
        }
        let host = (clock::now() - begun).as_secs_f64();
        let seconds = match self.cells[cell].clock() {
            "device" => self.queue(legs[0].device, 0)?.between(&begins[0], &ends[0])?.0,
            _ => host,
        };
        Ok(Sample::of_times(vec![seconds / copies as f64]))
    }

    /// The queue of a device for the leg of this number.
    fn queue(&mut self, device: usize, leg: usize) -> Result<&mut Box<dyn Queue>, DeviceError> {
        use std::collections::hash_map::Entry;
        match self.queues.entry((device, leg)) {
            Entry::Occupied(queue) => Ok(queue.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(self.devices[device].queue()?)),
        }
    }

    /// Puts a copy in the queue of a leg.
    fn copy(&mut self, number: usize, leg: Leg, bytes: usize) -> Result<(), DeviceError> {
        self.queue(leg.device, number)?;
        let (hosts, memories) = (&self.hosts, &self.memories);
        let copy = match (leg.from, leg.to) {
            (End::Host(from), End::Device(to)) => Copy::In(&hosts[from].memory, &memories[to].1),
            (End::Device(from), End::Host(to)) => Copy::Out(&memories[from].1, &hosts[to].memory),
            (End::Device(from), End::Device(to)) => {
                Copy::Across(&memories[from].1, &memories[to].1)
            }
            (End::Host(_), End::Host(_)) => return Ok(()),
        };
        match self.queues.get_mut(&(leg.device, number)) {
            // SAFETY: both memories are the rig's and outlive its queues, which are waited for at the end of
            // each turn; nobody else uses them.
            Some(queue) => unsafe { queue.copy(copy, bytes) },
            None => Ok(()),
        }
    }

    /// Sends numbers of its own on each way that was measured, on all ways of a cell at once, and holds every one
    /// that arrives against what was sent.
    pub(super) fn check(&mut self) -> Result<(), DeviceError> {
        let mut cells: Vec<Vec<Leg>> = Vec::new();
        for cell in &self.cells {
            if !cells.contains(&cell.legs) {
                cells.push(cell.legs.clone());
            }
        }
        let (node, bytes) =
            (self.hosts[0].cpus.clone(), CHECKED.min(self.memories[0].1.bytes) & !7);
        // What devices' memories are filled from and read into.
        let here = self.host(0, &node, true, bytes, false)?;
        // No two copies have a number in common, so that none is taken for what another one left.
        let number =
            |copy: u64, at: usize| (copy << 40 | at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut copies = 0;
        for legs in cells {
            for (leg, copy) in legs.iter().zip(copies..) {
                let filled = if let End::Host(host) = leg.from { host } else { here };
                let words = self.words(filled, bytes).iter_mut().enumerate();
                words.for_each(|(at, word)| *word = number(copy, at));
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
                let mut words = self.words(arrived, bytes).iter().enumerate();
                if let Some((at, _)) = words.find(|(at, word)| **word != number(copy, *at)) {
                    let (from, to) = (self.name(leg.from), self.name(leg.to));
                    let together = if legs.len() > 1 { " with others at once" } else { "" };
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

    /// A copy between a device and the host; nothing where neither end is a device's.
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

    /// The first `bytes` bytes of memory of the host, as numbers.
    fn words(&mut self, host: usize, bytes: usize) -> &mut [u64] {
        let memory = &mut self.hosts[host].memory;
        assert!(bytes <= memory.bytes, "{bytes} bytes of {}", memory.bytes);
        // SAFETY: so long, page-aligned, and no copy is under way.
        unsafe { std::slice::from_raw_parts_mut(memory.start.cast().as_ptr(), bytes / 8) }
    }

    /// What an end is called.
    fn name(&self, end: End) -> String {
        match end {
            End::Host(_) => "host".to_owned(),
            End::Device(memory) => self.devices[self.memories[memory].0].info().id(),
        }
    }
}

/// The calling thread on a node's CPUs, and with `bound` its memory there; dropped, everything is as before.
struct Here {
    cpus: Option<Vec<nodegauge_machine::CpuId>>,
    memory: Option<Option<MemoryPolicy>>,
}

impl Here {
    fn at((node, cpus): &Node, bound: bool) -> Self {
        let before = pin::current_affinity().ok();
        let cpus = before.filter(|_| pin::pin_current_thread(cpus).is_ok());
        let before = MemoryPolicy::inherited();
        let bind = || MemoryPolicy::Bind(vec![*node]).apply_to_thread().is_ok();
        let memory = (bound && bind()).then_some(before);
        Self { cpus, memory }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        if let Some(cpus) = &self.cpus {
            let _ = pin::pin_current_thread(cpus);
        }
        match &self.memory {
            Some(Some(policy)) => drop(policy.apply_to_thread()),
            Some(None) => drop(nodegauge_os::set_policy_of_thread(libc::MPOL_DEFAULT, &[])),
            None => {}
        }
    }
}
