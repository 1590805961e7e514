//! Description of a node for the record, from all available sources.
//!
//! For a live machine, the sources are the kernel, the processor and the firmware, and the clock is measured. For a
//! described machine (XML, synthetic), the sources are the topology and the catalog entry of the processor. The
//! state of such a machine (host, pages, free memory) stays unknown.

use crate::catalog::{self, Microarchitecture, ProcessorEntry};
use crate::dimms::{self, DimmSpec};
use crate::ids::CpuId;
use crate::processor::{self, ProcessorIdentity, ReportedProcessor};
use crate::root::SysRoot;
use crate::topology::{SpeedClass, Topology, TopologyNumaNode, TopologySource};
use crate::{cgroup, clock, devices, disks, host, memory, process_limits, software};
use nodegauge_measure::Hertz;
use nodegauge_measure::record::{ClockBasis, CoreClass, Machine, Memory, NumaNode, Processor};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) mod peak;
pub(crate) mod theory;

/// Information about the machine that the user gives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DescribeOptions {
    /// Populated channels and their speed (`--dimms`).
    pub dimms: Option<DimmSpec>,
    /// Name of the processor, for a machine whose description does not contain it, e.g. a synthetic one.
    pub processor: Option<String>,
    /// True to omit what uses the CPUs or may take seconds: the measurement of the clock, and the query of NVIDIA's
    /// library.
    pub passive: bool,
}

/// Describes the machine with this topology. The files of a live machine are read below `root`.
pub fn describe(topology: &Topology, root: &SysRoot, options: &DescribeOptions) -> Machine {
    let live = matches!(topology.source, TopologySource::Live);
    let chip = chip(topology, root, options);
    let entry = catalog::find(chip.name.as_deref(), chip.identity.as_ref());
    let guest = if live { host::hypervisor(root, &chip) } else { None };
    let may_measure = live && root.is_live() && !options.passive;
    let measured = may_measure.then(|| measured_clock(topology)).flatten();
    let reported = |file| live.then(|| host::frequency_from_file(root, file)).flatten();
    let clocks = Clocks { kernel: reported("base_frequency"), measured };
    let mut processor = processor(topology, &chip, entry.as_ref(), clocks);
    processor.min_hz = reported("cpuinfo_min_freq");
    processor.max_hz = reported("cpuinfo_max_freq");
    let cpus: Vec<u32> = topology.threads.iter().map(|thread| thread.cpu.0).take(1).collect();
    let mut machine = Machine {
        host: if live { host::name(root) } else { None },
        caches: topology.caches.clone(),
        measured_cache: None,
        numa_nodes: numa_nodes(topology, live.then_some(root)),
        memory: system_memory_entry(topology, root, options, entry.as_ref(), guest.is_some()),
        peak_flops: peak::sum_over_cores(&processor),
        kernel: if live { host::kernel(root) } else { None },
        virtualisation: guest,
        pages: live.then(|| memory::pages(root)),
        governor: if live { host::governors(root, &cpus).into_keys().next() } else { None },
        circumstances: live.then(|| host::circumstances(root, variables(root))),
        software: live.then(|| software::software(root)),
        devices: devices::describe_devices(topology, root, options.passive),
        disks: if live { disks::disks(root) } else { Vec::new() },
        source: topology.source.machine_source(),
        processor,
    };
    theory::add_numa_node_bandwidths(&mut machine, entry.as_ref(), live.then_some(root));
    if let Some(figure) = theory::figure_without_dram(&machine) {
        machine.memory.theoretical = Some(figure);
        machine.memory.channels = None;
        return machine;
    }
    let theoretical = machine.memory.theoretical.take();
    let sockets = theory::sockets_with_memory(topology);
    machine.memory.theoretical =
        theoretical.map(|figure| theory::with_scope(&machine, figure, sockets));
    machine
}

/// Returns the environment variables of this process; none for a recorded machine.
fn variables(root: &SysRoot) -> impl Iterator<Item = (String, String)> {
    let own = root.is_live().then(std::env::vars_os).into_iter().flatten();
    own.filter_map(|(name, value)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    })
}

/// Returns the identification of the processor, from the processor itself, or from hwloc and the user for a
/// described machine.
fn chip(topology: &Topology, root: &SysRoot, options: &DescribeOptions) -> ReportedProcessor {
    let mut chip = match topology.source {
        TopologySource::Live => processor::read(root),
        TopologySource::Xml(_) | TopologySource::Synthetic(_) => ReportedProcessor::default(),
    };
    if chip.identity.is_none() {
        chip.identity = topology.identification.clone().map(|(vendor, family, model)| {
            ProcessorIdentity { vendor, family, model, stepping: None }
        });
    }
    let given = options.processor.clone().map(|name| match catalog::find_by_name(&name) {
        Ok(ProcessorEntry { model: Some(model), .. }) => model,
        Ok(_) | Err(_) => name,
    });
    chip.name = given.or(chip.name).or_else(|| topology.processor_model.clone());
    chip
}

/// Measures the clock while all available cores are busy.
fn measured_clock(topology: &Topology) -> Option<Hertz> {
    let threads = topology.threads.iter().filter(|thread| thread.allowed);
    let one_per_core: BTreeMap<usize, CpuId> =
        threads.rev().map(|thread| (thread.core, thread.cpu)).collect();
    clock::all_core_clock(&one_per_core.into_values().collect::<Vec<_>>())
}

/// Clocks of a live machine, by source.
#[derive(Clone, Copy, Default)]
struct Clocks {
    /// Base clock that the kernel reports.
    kernel: Option<Hertz>,
    /// Clock that was measured with all cores busy.
    measured: Option<Hertz>,
}

/// Returns the clock from which the peak is computed, with its source. This is the base clock, which every core
/// sustains under any load; if it is unknown, the measured clock.
fn clock(
    chip: &ReportedProcessor,
    entry: Option<&ProcessorEntry>,
    clocks: Clocks,
) -> Option<(Hertz, ClockBasis)> {
    let catalog = entry.and_then(|entry| Some((entry.base?, ClockBasis::Catalog)));
    let named = chip.name.as_deref().and_then(catalog::clock_in_name);
    catalog
        .or(named.map(|clock| (clock, ClockBasis::Name)))
        .or(clocks.kernel.map(|clock| (clock, ClockBasis::Kernel)))
        .or(clocks.measured.map(|clock| (clock, ClockBasis::Measured)))
}

fn processor(
    topology: &Topology,
    chip: &ReportedProcessor,
    entry: Option<&ProcessorEntry>,
    clocks: Clocks,
) -> Processor {
    let clock = clock(chip, entry, clocks);
    // The name in the catalog is the most reliable source, because several processors may share a model number.
    let row = entry
        .and_then(|entry| catalog::microarchitecture_named(&entry.microarchitecture))
        .or_else(|| catalog::microarchitecture(chip.identity.as_ref()?));
    let throughput = row.and_then(|row| row.throughput(chip.name.as_deref(), chip.isa.as_deref()));
    Processor {
        model: chip.name.clone(),
        architecture: chip.architecture.clone(),
        microarchitecture: row.map(|row| row.name.clone()),
        identification: chip.identity.as_ref().map(ProcessorIdentity::to_string),
        sockets: topology.sockets.len() as u32,
        cores: topology.cores.len() as u32,
        threads: topology.threads.len() as u32,
        threads_per_core: topology.threads_per_core(),
        core_classes: core_classes(topology),
        isa: chip.isa.clone().unwrap_or_default(),
        write_allocate: row.and_then(Microarchitecture::write_allocate),
        flops_per_cycle: throughput.as_ref().map(|throughput| throughput.per_cycle),
        flops_per_cycle_without_fma: throughput.as_ref().map(|t| t.without_fma()),
        flops_per_cycle_single: throughput.as_ref().map(|t| t.single_precision()),
        flops_basis: throughput.map(|throughput| throughput.basis),
        hz: clock.as_ref().map(|(hz, _)| *hz),
        hz_basis: clock.map(|(_, basis)| basis),
        measured_hz: clocks.measured,
        min_hz: None,
        max_hz: None,
    }
}

fn numa_nodes(topology: &Topology, root: Option<&SysRoot>) -> Vec<NumaNode> {
    topology
        .nodes
        .iter()
        .map(|node| {
            let memory = root.and_then(|root| memory::numa_node_memory(root, node.id));
            // hwloc reports 0 bytes of a live node whose size the kernel does not tell.
            let by_topology = node.bytes.filter(|bytes| *bytes > 0 || root.is_none());
            NumaNode {
                id: node.id.0,
                bytes: memory.map(|(total, ..)| total).or(by_topology),
                free: memory.map(|(_, free, _)| free),
                available: memory.map(|(.., available)| available),
                cache_bytes: root
                    .and_then(|root| memory::memory_side_cache_bytes(root, node.id))
                    .or(node.cache_bytes),
                cpus: numbers(node.cpus.iter().chain(&node.absent_cpus)),
                unusable_cpus: unusable(topology, node),
                kind: node.kind.clone(),
                theoretical: None,
                device: node.device.clone(),
                distances: root.and_then(|root| memory::numa_distances(root, node.id)),
            }
        })
        .collect()
}

/// Returns the numbers of CPUs in numeric order.
fn numbers<'a>(cpus: impl Iterator<Item = &'a CpuId>) -> Vec<u32> {
    let mut numbers: Vec<u32> = cpus.map(|cpu| cpu.0).collect();
    numbers.sort_unstable();
    numbers
}

/// Returns the CPUs of a NUMA node that this process may not use.
fn unusable(topology: &Topology, node: &TopologyNumaNode) -> Vec<u32> {
    let allowed_threads: BTreeSet<CpuId> =
        topology.allowed_threads().map(|thread| thread.cpu).collect();
    let all = node.cpus.iter().chain(&node.absent_cpus);
    numbers(all.filter(|cpu| !allowed_threads.contains(cpu)))
}

/// Returns the classes of cores, the fastest first.
fn core_classes(topology: &Topology) -> Vec<CoreClass> {
    let classes = topology.core_classes.iter().enumerate().rev();
    let described = classes.map(|(index, class)| core_class(topology, index, class));
    described.filter(|class| class.cores > 0).collect()
}

/// Returns the description of the class of cores with this index.
fn core_class(topology: &Topology, index: usize, class: &SpeedClass) -> CoreClass {
    let threads = topology.threads.iter().filter(|thread| thread.speed_class == Some(index));
    let cores: BTreeSet<usize> = threads.clone().map(|thread| thread.core).collect();
    let cpus: Vec<CpuId> = threads.map(|thread| thread.cpu).collect();
    CoreClass {
        name: topology.speed_class_name(index),
        cores: cores.len() as u32,
        cpus: numbers(cpus.iter()),
        designs: class.designs.clone(),
        capacities: class.capacities,
        clocks: class.clocks.map(|bounds| bounds.map(|mhz| Hertz(f64::from(mhz) * 1e6))),
    }
}

fn system_memory_entry(
    topology: &Topology,
    root: &SysRoot,
    options: &DescribeOptions,
    entry: Option<&ProcessorEntry>,
    guest: bool,
) -> Memory {
    let live = matches!(topology.source, TopologySource::Live);
    let info = if live { memory::info(root) } else { memory::MemInfo::default() };
    let limits = if live { cgroup::limits(root) } else { cgroup::CgroupLimits::default() };
    let own = if live { process_limits::limits(root) } else { Default::default() };
    // In a guest, the firmware's list of modules does not describe real modules.
    let firmware = if live && !guest { dimms::modules(root) } else { None };
    let sockets = if guest {
        dimms::max_guest_sockets(topology)
    } else {
        theory::sockets_with_memory(topology)
    };
    let known = entry.and_then(|entry| {
        let of = match &entry.model {
            Some(model) => model.clone(),
            None => format!("generation {}", entry.generation),
        };
        entry.memory.as_ref().map(|memory| (memory, of))
    });
    let bandwidth = dimms::describe_memory(
        options.dimms,
        firmware.as_ref(),
        known.as_ref().map(|(memory, of)| (*memory, of.as_str())),
        sockets,
        guest,
    );
    let mut bandwidth =
        if guest { bandwidth } else { theory::without_empty_nodes(topology, bandwidth) };
    // Guests have processors without a model number. A description does not contain the hypervisor.
    let is_anonymous = entry.is_some_and(|entry| entry.model.is_none());
    if let (TopologySource::Xml(_), true, Some(figure)) =
        (&topology.source, is_anonymous, &mut bandwidth.theoretical)
    {
        figure.at_most |= figure.basis == "catalog";
    }
    let modules = firmware.unwrap_or_default();
    // In a guest whose memory grows, the kernel's sum over the nodes may be out of date. `/proc/meminfo` is up to date.
    let described: Option<u64> = topology.host_numa_nodes().map(|node| node.bytes).sum();
    // The kernel's total includes device memory that is a NUMA node.
    let of_devices = topology.nodes.iter().filter(|node| node.device.is_some());
    let of_devices: u64 = of_devices.filter_map(|node| node.bytes).sum();
    let total = info.total.map(|total| total.saturating_sub(of_devices));
    Memory {
        bytes: if live { total } else { described.filter(|bytes| *bytes > 0) },
        available: if live { memory::remaining_bytes(root) } else { None },
        cgroup_limit: limits.memory,
        process_limit: own.memory,
        swap_used: info.swap_used,
        dimms: modules.dimms,
        empty_channels: modules.empty_channels,
        free_in_large_blocks: live.then(|| memory::free_share_in_large_blocks(root)).flatten(),
        ..bandwidth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(topology: &str, options: &DescribeOptions) -> Machine {
        let topology = Topology::load(&TopologySource::Synthetic(topology.to_owned())).unwrap();
        describe(&topology, &SysRoot::live(), options)
    }

    fn named(processor: &str) -> DescribeOptions {
        DescribeOptions { processor: Some(processor.to_owned()), ..DescribeOptions::default() }
    }

    const GENOA: &str = "Package:2 NUMANode:1 L3Cache:12 L2Cache:8 L1dCache:1 Core:1 PU:1";

    #[test]
    fn two_genoa_processors_have_their_published_peaks() {
        let machine = described(GENOA, &named("EPYC 9654"));
        let peak = machine.peak_flops.unwrap();
        assert_eq!(peak.value, 7.3728e12);
        assert_eq!(peak.basis, "192 cores x 2.400 GHz (catalog: base clock) x 16 FLOP/cycle");
        assert_eq!(peak.detail.as_deref(), Some("2 FMA units x 4 lanes x 2"));
        assert_eq!(machine.processor.microarchitecture.as_deref(), Some("Zen 4"));
        let theoretical = machine.memory.theoretical.unwrap();
        assert_eq!((theoretical.value, theoretical.basis.as_str()), (921.6e9, "catalog"));
    }

    #[test]
    fn single_precision_and_non_fma_peaks_follow_the_execution_units() {
        let per_cycle = |processor: &str| {
            let p = described(GENOA, &named(processor)).processor;
            let figures =
                [p.flops_per_cycle, p.flops_per_cycle_single, p.flops_per_cycle_without_fma];
            figures.map(Option::unwrap)
        };
        // AMD's cores have units for additions next to those for multiply-adds.
        assert_eq!(per_cycle("EPYC 7F52"), [16, 32, 16]);
        assert_eq!(per_cycle("Xeon Platinum 8480+"), [32, 64, 16]);
        assert_eq!(per_cycle("Xeon Phi 7110P"), [16, 32, 8]);
        assert_eq!(per_cycle("Opteron 8356"), [4, 8, 4]);
        // Units without vectors are as fast in both precisions.
        assert_eq!(per_cycle("POWER5+"), [4, 4, 2]);
        assert_eq!(described(GENOA, &named("Z80")).processor.flops_per_cycle_single, None);
    }

    #[test]
    fn described_machine_has_unknown_state() {
        let machine = described(GENOA, &named("EPYC 9654"));
        assert_eq!((machine.host, machine.kernel, machine.virtualisation), (None, None, None));
        assert_eq!((machine.pages, machine.governor, machine.circumstances), (None, None, None));
        assert_eq!((machine.memory.bytes, machine.memory.available), (None, None));
        assert_eq!(machine.memory.swap_used, None);
        assert_eq!(machine.source, nodegauge_measure::record::MachineSource::Synthetic);
    }

    #[test]
    fn unnamed_processor_has_no_peak() {
        let machine = described("Package:4 NUMANode:1 Core:4 PU:1", &DescribeOptions::default());
        assert_eq!((machine.peak_flops, machine.memory.theoretical), (None, None));
        assert_eq!(machine.processor.cores, 16);
        let named_machine = described("Package:4 NUMANode:1 Core:4 PU:1", &named("Opteron 8356"));
        assert_eq!(named_machine.peak_flops.map(|peak| peak.value), Some(147.2e9));
        // A node of SR11000/J2 has the same peak.
        let node = described("Package:8 L3Cache:1(size=37748736) Core:2 PU:1", &named("POWER5+"));
        assert_eq!(node.peak_flops.map(|peak| peak.value), Some(147.2e9));
    }

    #[test]
    fn dimms_option_takes_precedence_over_the_catalog() {
        let options = DescribeOptions {
            dimms: Some(DimmSpec { channels: 16, mt_per_s: 3200 }),
            ..named("EPYC 9654")
        };
        let theoretical = described(GENOA, &options).memory.theoretical.unwrap();
        assert_eq!((theoretical.value, theoretical.basis.as_str()), (409.6e9, "option"));
    }

    #[test]
    fn processor_name_outside_the_catalog_is_kept() {
        let machine = described(GENOA, &named("Z80"));
        assert_eq!(machine.processor.model.as_deref(), Some("Z80"));
        assert_eq!((machine.processor.hz, machine.peak_flops), (None, None));
    }

    #[test]
    fn xeon_phi_has_a_peak_above_a_teraflop() {
        let machine = described(
            "Package:1 NUMANode:1 L2Cache:61 L1dCache:1 Core:1 PU:4",
            &named("Xeon Phi 7110P"),
        );
        let peak = machine.peak_flops.unwrap();
        assert!((peak.value - 1073.6e9).abs() < 1.0);
        assert_eq!(machine.memory.theoretical.map(|figure| figure.value), Some(352e9));
    }
}
