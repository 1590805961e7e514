//! Test `device links`: copies between host and device in each direction and in both directions simultaneously, with
//! pageable and pinned memory of each NUMA node; copies between devices; and simultaneous copies of all devices.

mod rig;

use crate::config::LinkConfig;
use crate::driver::{DeviceError, OpenDevice};
use crate::evidence::DeviceEvidence;
use crate::info::DeviceInfo;
use crate::prediction::{PredictedCopies, measure_host_rates};
use crate::reference::{self, UsersProgram};
use crate::state::DeviceStates;
use crate::{GAUGE, drivers, host_memory, nvbandwidth};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::series::{ReferenceProgramRun, Series};
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_machine::{CpuId, NumaNodeId, Topology};
use nodegauge_measure::record::{Measurement, QuotedStatistic, Validity};
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{Budget, RunLimits, Turn, policy};
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, Observer, Outcome, Unit};
use rig::{CopyCell, DeviceCopy, Endpoint, LinkRig};
use std::rc::Rc;
use std::time::Duration;

/// Name of this test in records.
pub use crate::names::LINKS as TEST;
pub use crate::names::{DEVICE_TO_DEVICE, TO_DEVICE, TO_HOST};
/// Name of the figure for simultaneous copies in both directions.
pub const BOTH_WAYS: &str = "both_ways";
/// Suffix of the names of latencies. A latency is the time until the host detects that a small copy is complete.
pub const LATENCY_SUFFIX: &str = "_latency";
/// Prefix of the names of figures that are sums over simultaneous copies of all devices.
pub const ALL_PREFIX: &str = "all_";
/// Maximum size in bytes of copies that are reported as a time instead of a rate.
const SMALL: u64 = 8;
/// Default sizes of copies in bytes.
pub const DEFAULT_COPY_SIZES: [u64; 7] =
    [SMALL, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 128 << 20, 1 << 30];
/// Largest size in bytes that can be requested.
pub const MAX_SIZE: u64 = 1 << 40;
/// Maximum share (0 to 1) of the free memory of host and device that is used.
const SHARE: f64 = 0.5;
/// Minimum share of the host memory on its NUMA node; below this share, a figure is suspect.
const MIN_LOCAL_SHARE: f64 = 0.99;

/// Options of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkOptions {
    /// Sizes of copies in bytes. If empty, the sizes in [`DEFAULT_COPY_SIZES`] that fit into memory are used.
    pub sizes: Vec<u64>,
    /// Time budget of the whole run.
    pub budget: Budget,
    /// Exact number of samples, regardless of the time budget.
    pub samples: Option<usize>,
}

/// Planned run.
pub struct LinkPlan {
    devices: Vec<DeviceInfo>,
    options: LinkOptions,
    nvbandwidth: Option<UsersProgram>,
    notices: Vec<Notice>,
}

/// NUMA node of the host with its CPUs.
type Node = (NumaNodeId, Vec<CpuId>);

impl LinkPlan {
    /// Default time budget.
    pub const BUDGET: Duration = Duration::from_secs(20);

    /// Plans a run on `devices`.
    pub fn new(devices: Vec<DeviceInfo>, options: LinkOptions, mut notices: Vec<Notice>) -> Self {
        if devices.len() == 1 {
            let text = "copies between devices are not measured, because there is only one device"
                .to_owned();
            notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
        }
        Self { devices, options, nvbandwidth: None, notices }
    }

    /// Returns the plan with an additional run of nvbandwidth on the CUDA devices. Native copies are measured before
    /// and after this run.
    #[must_use]
    pub fn with_reference_program(mut self, nvbandwidth: Option<UsersProgram>) -> Self {
        if nvbandwidth.is_some() && !self.devices.iter().any(is_cuda_device) {
            let text = "nvbandwidth is not run, because no CUDA device was chosen";
            self.notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text.to_owned()));
        }
        Self { nvbandwidth, ..self }
    }

    /// Returns the sizes of copies that fit into memory, in ascending order.
    ///
    /// # Errors
    /// Fails if a requested size does not fit.
    fn sizes(
        &self,
        site: &MeasuredNode,
        devices: &[Rc<dyn OpenDevice>],
        nodes: usize,
    ) -> Result<Vec<u64>, Failure> {
        let mut max = u64::MAX;
        let mut shared = 0;
        for device in devices {
            let info = device.info();
            shared += if info.shares_host_memory { 2 } else { 0 };
            let free = device.free_memory()?.unwrap_or(info.memory).as_f64() * SHARE;
            max = max.min(info.largest_allocation.0).min(free as u64 / 2);
        }
        if let Some(available) = host_memory::remaining_memory(site) {
            let buffers = (3 * nodes * devices.len() + shared) as u64;
            max = max.min((available.as_f64() * SHARE) as u64 / buffers);
        }
        let mut sizes = self.options.sizes.clone();
        sizes.sort_unstable();
        sizes.dedup();
        match sizes.last() {
            None => Ok(DEFAULT_COPY_SIZES.into_iter().filter(|size| *size <= max).collect()),
            Some(largest) if *largest > max => Err(Failure::missing(format!(
                "copies of {} do not fit in memory; the maximum is {}",
                Bytes(*largest),
                Bytes(max),
            ))
            .hint(format!("use a smaller size, e.g. --sizes {}", size_value(max)))),
            Some(_) => Ok(sizes),
        }
    }

    /// Returns the sizes of copies. If the user set the budget and the time is short, the largest sizes are left out.
    ///
    /// Fails if the user set the budget and the smallest copies, or the copies that the user chose, exceed it.
    fn admitted(
        &self,
        sizes: Vec<u64>,
        nodes: &[Node],
        limits: &RunLimits,
    ) -> Result<Vec<u64>, Failure> {
        if !limits.must_be_kept() {
            return Ok(sizes);
        }
        let cpu: Vec<CpuId> = nodes.iter().flat_map(|(_, cpus)| cpus).copied().take(1).collect();
        let rates = measure_host_rates(&cpu, Bytes(sizes.last().copied().unwrap_or(SMALL)))?;
        let is_given = !self.options.sizes.is_empty();
        let devices = self.devices.len();
        let mut run = PredictedCopies { sizes, devices, nodes: nodes.len(), is_given, rates };
        limits.admit(&mut run)?;
        Ok(run.sizes)
    }
}

/// Returns the host's NUMA nodes that have allowed CPUs, in ascending order of node numbers.
fn nodes(site: &MeasuredNode) -> Vec<Node> {
    let topology = &site.topology;
    let all = topology.nodes.iter().enumerate().map(|(at, node)| (node.id, allowed(topology, at)));
    let found: Vec<Node> = all.filter(|(_, node_cpus)| !node_cpus.is_empty()).collect();
    if found.is_empty() { vec![(NumaNodeId(0), allowed(topology, 0))] } else { found }
}

/// Returns the allowed CPUs of the NUMA node with this index.
fn allowed(topology: &Topology, at: usize) -> Vec<CpuId> {
    let here = topology.allowed_threads().filter(|thread| thread.node.unwrap_or(0) == at);
    here.map(|thread| thread.cpu).collect()
}

/// True if the driver of the device is CUDA, so that nvbandwidth can measure the device.
fn is_cuda_device(info: &DeviceInfo) -> bool {
    info.driver == nvbandwidth::DRIVER
}

/// Returns the index in `nodes` of the NUMA node to which a device is attached; 0 if this is unknown.
fn near_node(site: &MeasuredNode, info: &DeviceInfo, nodes: &[Node]) -> usize {
    let mut all = site.machine.devices.iter();
    let device = all.find(|device| Some(&device.address) == info.pci.as_ref());
    let node = device.and_then(|device| device.numa_node);
    nodes.iter().position(|(id, _)| Some(id.0) == node).unwrap_or(0)
}

impl PlannedRun for LinkPlan {
    fn expected_cost(&self) -> ExpectedCost {
        ExpectedCost { time: Some(self.options.budget.time), memory: None }
    }

    fn possible_figures(&self, _: &MeasuredNode) -> Vec<PossibleFigures> {
        let mut names: Vec<String> = [TO_DEVICE, TO_HOST, BOTH_WAYS].map(str::to_owned).to_vec();
        if self.devices.len() > 1 {
            names.extend(names.clone().into_iter().map(|name| format!("{ALL_PREFIX}{name}")));
            names.push(DEVICE_TO_DEVICE.to_owned());
        }
        let sizes = match self.options.sizes.as_slice() {
            [] => DEFAULT_COPY_SIZES.to_vec(),
            sizes => sizes.to_vec(),
        };
        let latencies =
            [TO_DEVICE, TO_HOST, DEVICE_TO_DEVICE].map(|name| format!("{name}{LATENCY_SUFFIX}"));
        vec![
            PossibleFigures::new(GAUGE, TEST, names, &[Unit::BytesPerSecond]).with_sizes(sizes),
            PossibleFigures::new(GAUGE, TEST, latencies, &[Unit::Seconds]),
        ]
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let mut limits = RunLimits::from_budget(self.options.budget, self.options.samples);
        let devices = drivers::open_devices(&self.devices)?;
        let nodes = nodes(site);
        let fitting = self.sizes(site, &devices, nodes.len())?;
        let mut found = Outcome { notices: self.notices.clone(), ..Outcome::default() };
        let sizes = self.admitted(fitting.clone(), &nodes, &limits)?;
        let left_out: Vec<String> =
            fitting[sizes.len()..].iter().map(|size| Bytes(*size).to_string()).collect();
        found.notices.extend(Notice::no_time_for(GAUGE, &left_out, " copies"));
        // The first stages measure each device with the host. The last stages measure copies between devices, and
        // simultaneous copies of all devices.
        let mut stages: Vec<Vec<usize>> = (0..devices.len()).map(|at| vec![at]).collect();
        if devices.len() > 1 {
            stages.push((0..devices.len()).collect());
        }
        let count = stages.len();
        for (number, of) in stages.into_iter().enumerate() {
            if !found.is_complete() {
                break;
            }
            let left = limits.budget.saturating_sub(limits.elapsed());
            let share = RunLimits::new(left.div_f64((count - number) as f64), limits.samples);
            let devices: Vec<Rc<dyn OpenDevice>> =
                of.iter().map(|at| devices[*at].clone()).collect();
            let nvbandwidth = self.nvbandwidth.as_ref();
            let stage =
                Stage { site, devices: &devices, nodes: &nodes, sizes: &sizes, nvbandwidth };
            match stage.measure(share, observer) {
                Err(failure) if found.measurements.is_empty() => return Err(failure),
                Err(failure) => found.failure = Some(failure),
                Ok((more, time_outside_budget)) => {
                    found.extend(more);
                    limits.started += time_outside_budget;
                }
            }
        }
        found.set_run_time(&limits, Duration::ZERO);
        found.notices.extend(reference::comparison_notice(&found.measurements));
        Ok(found)
    }
}

/// Devices that are measured together: one device with the host, or several devices with each other and with the host.
struct Stage<'a> {
    site: &'a MeasuredNode,
    devices: &'a [Rc<dyn OpenDevice>],
    nodes: &'a [Node],
    sizes: &'a [u64],
    nvbandwidth: Option<&'a UsersProgram>,
}

impl Stage<'_> {
    /// Measures the stage. Returns the outcome, and the time of nvbandwidth, which is not part of the budget.
    fn measure(
        &self,
        limits: RunLimits,
        observer: &mut dyn Observer,
    ) -> Result<(Outcome, Duration), Failure> {
        let ids: Vec<String> = self.devices.iter().map(|device| device.info().id()).collect();
        observer.begin_phase(&format!("{}: preparing copies", ids.join(", ")));
        let mut watched: Vec<DeviceStates> =
            self.devices.iter().map(|device| DeviceStates::new(device.state())).collect();
        let mut rig = match self.devices {
            [device] => self.with_host(device)?,
            _ => self.prepare_joint_copies()?,
        };
        observer.begin_phase(&format!("{}: measuring copies, interleaved", ids.join(", ")));
        let mut series = Series::new(policy::LINKS, limits, rig.cells.len());
        let largest = self.sizes.last().copied().unwrap_or(SMALL);
        let compared: Vec<usize> =
            (0..rig.cells.len()).filter(|cell| rig.cells[*cell].bytes == largest).collect();
        let mut turn = |turn: Turn| -> Result<Vec<Sample>, DeviceError> {
            let sample = rig.take_sample(turn.cell)?;
            for (device_state, device) in watched.iter_mut().zip(self.devices) {
                device_state.record_state(device.state());
            }
            Ok(vec![sample])
        };
        series.run(&mut turn, observer, None)?;
        let infos = self.devices.iter().map(|device| device.info());
        let of_cuda: Vec<&DeviceInfo> = infos.filter(|info| is_cuda_device(info)).collect();
        let (names, min) = match self.devices.len() {
            1 => (&[TO_DEVICE, TO_HOST][..], 1),
            _ => (&[DEVICE_TO_DEVICE][..], 2),
        };
        let mut reference = Vec::new();
        if let Some(program) = self.nvbandwidth.filter(|_| of_cuda.len() >= min) {
            let run = ReferenceProgramRun {
                phase: &format!("{}: nvbandwidth", ids.join(", ")),
                compared: &compared,
                run: &mut |interrupted| {
                    program.run_nvbandwidth(names, &of_cuda, largest, interrupted)
                },
            };
            reference = series.run_reference_program(run, &mut turn, observer);
        }
        let mut unchecked = None;
        if series.failure().is_none() {
            unchecked = rig.check().err().map(Failure::from);
        }
        let regime = series.samples_by_regime(&[]);
        let stopped = series.stop_reason().to_string();
        let evidence =
            DeviceEvidence { site: self.site, series: &series, regime: &regime, stopped: &stopped };
        let native = rig
            .cells
            .iter()
            .enumerate()
            .filter_map(|(number, cell)| self.figure(number, cell, &rig, &evidence, &watched));
        let measurements = native.chain(reference).collect();
        let mut outcome = Outcome { measurements, failure: unchecked, ..Outcome::default() };
        series.store_end(&mut outcome);
        Ok((outcome, series.time_outside_budget()))
    }

    /// Returns the size of each buffer in bytes: the largest copy, but at least 8 bytes for the verification.
    fn largest(&self) -> usize {
        self.sizes.last().copied().unwrap_or(SMALL).max(SMALL) as usize
    }

    /// Prepares copies between the host and one device. All sizes are copied with memory of the near NUMA node, and the
    /// smallest and largest sizes also with memory of the other nodes.
    fn with_host(&self, device: &Rc<dyn OpenDevice>) -> Result<LinkRig, DeviceError> {
        let mut rig = LinkRig::new(self.devices);
        let largest = self.largest();
        let here = [rig.add_device_buffer(0, largest)?, rig.add_device_buffer(0, largest)?];
        let near = near_node(self.site, device.info(), self.nodes);
        for (at, node) in self.nodes.iter().enumerate() {
            let one = self.nodes.len() == 1;
            let pageable = rig.add_host_buffer(0, node, one, largest, false)?;
            let pinned = [
                rig.add_host_buffer(0, node, one, largest, true)?,
                rig.add_host_buffer(0, node, one, largest, true)?,
            ];
            let ends = [self.sizes.first(), self.sizes.last()];
            for bytes in self.sizes.iter().filter(|size| at == near || ends.contains(&Some(size))) {
                for host in [pageable, pinned[0]] {
                    let to = DeviceCopy {
                        device: 0,
                        from: Endpoint::Host(host),
                        to: Endpoint::Device(here[0]),
                    };
                    let back = DeviceCopy {
                        device: 0,
                        from: Endpoint::Device(here[0]),
                        to: Endpoint::Host(host),
                    };
                    rig.add_cell(TO_DEVICE, *bytes, vec![to]);
                    rig.add_cell(TO_HOST, *bytes, vec![back]);
                    if host == pinned[0] && *bytes > SMALL {
                        let other_back = DeviceCopy {
                            device: 0,
                            from: Endpoint::Device(here[1]),
                            to: Endpoint::Host(pinned[1]),
                        };
                        rig.add_cell(BOTH_WAYS, *bytes, vec![to, other_back]);
                    }
                }
            }
        }
        Ok(rig)
    }

    /// Prepares copies between devices of the same driver, and simultaneous copies of all devices with the host. Each
    /// device uses memory of its near NUMA node.
    fn prepare_joint_copies(&self) -> Result<LinkRig, DeviceError> {
        let mut rig = LinkRig::new(self.devices);
        let largest = self.largest();
        let mut hosts = Vec::new();
        for (at, device) in self.devices.iter().enumerate() {
            let node = &self.nodes[near_node(self.site, device.info(), self.nodes)];
            let one = self.nodes.len() == 1;
            let memories =
                [rig.add_device_buffer(at, largest)?, rig.add_device_buffer(at, largest)?];
            let pinned = [
                rig.add_host_buffer(at, node, one, largest, true)?,
                rig.add_host_buffer(at, node, one, largest, true)?,
            ];
            hosts.push((memories, pinned));
        }
        let mut there = Vec::new();
        let mut back = Vec::new();
        let mut both = Vec::new();
        for (device, (memories, pinned)) in hosts.iter().enumerate() {
            let to = DeviceCopy {
                device,
                from: Endpoint::Host(pinned[0]),
                to: Endpoint::Device(memories[0]),
            };
            let from = DeviceCopy {
                device,
                from: Endpoint::Device(memories[1]),
                to: Endpoint::Host(pinned[1]),
            };
            there.push(to);
            back.push(from);
            both.extend([to, from]);
        }
        let all = 0..self.devices.len();
        let last = self.sizes.last().copied().unwrap_or(SMALL);
        for bytes in both_ends(self.sizes[0], last).into_iter().filter(|size| *size > SMALL) {
            rig.add_cell(ALL_NAMES[0], bytes, there.clone());
            rig.add_cell(ALL_NAMES[1], bytes, back.clone());
            rig.add_cell(ALL_NAMES[2], bytes, both.clone());
        }
        for (from, target) in
            all.clone().flat_map(|from| all.clone().map(move |target| (from, target)))
        {
            let [driver, other] = [from, target].map(|at| &self.devices[at].info().driver);
            if from != target && driver == other {
                let from_memory = hosts[from].0[0];
                let to_memory = hosts[target].0[1];
                let leg = DeviceCopy {
                    device: from,
                    from: Endpoint::Device(from_memory),
                    to: Endpoint::Device(to_memory),
                };
                for bytes in both_ends(SMALL, last) {
                    rig.add_cell(DEVICE_TO_DEVICE, bytes, vec![leg]);
                }
            }
        }
        Ok(rig)
    }

    fn figure(
        &self,
        number: usize,
        cell: &CopyCell,
        rig: &LinkRig,
        evidence: &DeviceEvidence<'_>,
        watched: &[DeviceStates],
    ) -> Option<Measurement> {
        let DeviceEvidence { series, regime, stopped, .. } = *evidence;
        let leg = cell.device_copies.first()?;
        let info = self.devices[leg.device].info();
        let host = cell
            .device_copies
            .iter()
            .find_map(DeviceCopy::host)
            .map(|host| &rig.host_buffers[host]);
        let peer = match (leg.from, leg.to) {
            (Endpoint::Device(_), Endpoint::Device(to)) => {
                Some(self.devices[rig.device_buffers[to].0].info().id())
            }
            _ => None,
        };
        let all = cell.name.starts_with(ALL_PREFIX);
        let mut validity = Validity::valid();
        if !rig.wrong_copies.is_empty() {
            let ways = rig.wrong_copies.join(", ");
            validity.mark_invalid(format!("copied data differ from the source: {ways}"));
        }
        for (device_state, device) in watched.iter().zip(self.devices) {
            device_state.judge(&device.info().id(), &mut validity);
        }
        let on_node = host.and_then(|host| host.on_node);
        if let (Some(share), Some(node)) =
            (on_node.filter(|share| share.0 < MIN_LOCAL_SHARE), host.and_then(|host| host.node))
        {
            let share = share.in_whole_percent();
            validity
                .mark_suspect(format!("only {share} of the host buffer is on NUMA node {node}"));
        }
        let mut on = watched[leg.device].config(info);
        if all {
            on.device = Some("all".to_owned());
            on.device_name = None;
            on.pci = None;
            on.uuid = None;
            on.slice = None;
        }
        on.stopped = Some(stopped.clone());
        let config = LinkConfig {
            on,
            engine: Some("native".to_owned()),
            message_bytes: Some(cell.bytes),
            peer,
            host_memory: host
                .map(|host| if host.pinned { "pinned" } else { "pageable" }.to_owned()),
            host_node: host.filter(|_| !all).and_then(|host| host.node).map(u64::from),
            on_node,
            devices: all.then_some(self.devices.len() as u64),
            copies: Some(cell.copies as u64),
            clock: Some(cell.clock().to_owned()),
            ..LinkConfig::default()
        };
        let moved = cell.bytes as f64 * cell.device_copies.len() as f64;
        let is_latency = cell.is_latency();
        let m = if is_latency {
            let name = format!("{}{LATENCY_SUFFIX}", cell.name);
            Measurement::new(GAUGE, TEST, name, Unit::Seconds)
        } else {
            Measurement::new(GAUGE, TEST, cell.name, Unit::BytesPerSecond)
        };
        let m = series.figure(regime, (number, 0), m, QuotedStatistic::Median, &|seconds| {
            if is_latency { seconds } else { moved / seconds }
        })?;
        Some(series.judge_figure(number, m.with_config(&config).with_validity(validity)))
    }
}

/// Returns the smallest and the largest size, without duplicates.
fn both_ends(first: u64, last: u64) -> Vec<u64> {
    let mut ends = vec![first, last];
    ends.dedup();
    ends
}

/// Names of the sums over all devices, which consist of [`ALL_PREFIX`] and the name of the copy.
const ALL_NAMES: [&str; 3] = ["all_host_to_device", "all_device_to_host", "all_both_ways"];

/// Returns the largest value of `--sizes` that is at most `bytes`, in whole MiB, KiB or bytes.
fn size_value(bytes: u64) -> String {
    match (bytes >> 20, bytes >> 10) {
        (0, 0) => bytes.to_string(),
        (0, kibi) => format!("{kibi}KiB"),
        (mebi, _) => format!("{mebi}MiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_size_is_positive_and_at_most_the_maximum() {
        let values = [(3 << 20) + 5, (1 << 20) - 1, 1023, 1].map(size_value);
        assert_eq!(values, ["3MiB", "1023KiB", "1023", "1"]);
    }
}
