//! Pages of `machine` and `doctor`.

use crate::devices;
use nodegauge_analysis::facts::{self, Fact};
use nodegauge_gauge::view::{Block, ColumnList, Note, Page, Section, Table, Tone};
use nodegauge_machine::{number_ranges, uptime_in_words};
use nodegauge_measure::legible::join_lines;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{
    Cache, ClockBasis, CoreClass, Dimm, Disk, Finding, InheritedBinding, Machine, NumaNode,
    Severity, SystemSettings, TheoreticalValue,
};
use nodegauge_measure::{Bytes, BytesPerSec, FlopsPerSec};
use std::fmt::Display;

/// Identifier of the section that describes the node.
pub(crate) const MACHINE_SECTION: &str = "machine";

/// Returns the page that describes the node: one paragraph per topic and, for several NUMA nodes, their distances.
pub fn page(machine: &Machine) -> Page {
    let mut section = Section::new(MACHINE_SECTION);
    section.note_if("host", machine.host.clone());
    if machine.is_imported() {
        section.note(MACHINE_SECTION, imported(machine));
        return Page { sections: vec![section], ..Page::default() };
    }
    section.note("processor", processor(machine));
    for class in &machine.processor.core_classes {
        section.note("cores", class_in_words(class));
    }
    section.note_if("isa", facts::INSTRUCTION_SETS.text(machine));
    section.push_lines("peak", peak(machine));
    for cache in &machine.caches {
        section.note("cache", cache_in_words(cache));
    }
    section.push_lines("memory", memory(machine));
    for dimm in &machine.memory.dimms {
        let technology = dimm.technology.as_ref().map(|t| format!(" {t}")).unwrap_or_default();
        let rate = dimm.transfers_per_s.map(|rate| format!(" at {rate}"));
        let rate = rate.unwrap_or_default();
        let bus = bus(dimm);
        let text = format!("{}: {}{technology}{rate}{bus}", dimm.slot, Bytes(dimm.bytes));
        section.note("dimm", text);
    }
    let empty = &machine.memory.empty_channels;
    section.note_if("empty", (!empty.is_empty()).then(|| empty.join(", ")));
    nodes(&mut section, machine);
    devices::add_notes(&mut section, machine);
    for disk in &machine.disks {
        section.note("disk", disk_in_words(disk));
    }
    section.note_if("pages", pages(machine));
    section.note_if(
        "kernel",
        (machine.source == nodegauge_measure::record::MachineSource::Live).then(|| kernel(machine)),
    );
    if let Some(known) = &machine.circumstances {
        section.note_if(facts::FIRMWARE.name, firmware(machine));
        section.note("state", state(machine, known));
        section.note_if("inherited", known.inherited.as_ref().map(inherited_in_words));
        let variables = known.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let variables = join_lines(variables);
        if !variables.is_empty() {
            section.push_lines("variables", variables);
        }
    }
    let devices = table_section("devices", devices::table(machine));
    let distances = table_section("distances", distance_table(machine));
    Page { sections: vec![section, devices, distances], ..Page::default() }
}

/// Returns a section that contains the table, if there is one.
fn table_section(id: &'static str, table: Option<Table>) -> Section {
    let mut section = Section::new(id);
    section.blocks.extend(table.map(Block::from));
    section
}

/// Adds one note per NUMA node. NUMA nodes without memory share one note, because machines with coherent devices
/// reserve many of them for partitions of a device.
fn nodes(section: &mut Section, machine: &Machine) {
    let has_several = machine.numa_nodes.len() > 1;
    let (empty, with_memory): (Vec<&NumaNode>, Vec<&NumaNode>) =
        machine.numa_nodes.iter().partition(|node| has_several && node.bytes == Some(0));
    let shows_memory_kinds = shows_memory_kinds(machine);
    for node in with_memory {
        let bytes = node.bytes.filter(|bytes| *bytes > 0);
        let mut memory = bytes.map_or("memory unknown".to_owned(), |b| Bytes(b).to_string());
        if let Some(kind) = &node.kind
            && shows_memory_kinds
        {
            let rank = if kind.starts_with("tier ") { "memory " } else { "" };
            memory += &format!(" of {rank}{kind}");
        }
        if let Some(figure) = &node.theoretical {
            memory +=
                &format!(", {}{} theoretical", bound_prefix(figure), BytesPerSec(figure.value));
        }
        if let Some(cache) = node.cache_bytes {
            memory += &format!(" behind a memory-side cache of {}", Bytes(cache));
        }
        let free = node.free.map(|free| format!(", {} free", Bytes(free))).unwrap_or_default();
        let owner = match &node.device {
            Some(device) => format!("memory of device {device}"),
            None => cpus_in_words(machine, node),
        };
        section.note("node", format!("{}: {memory}{free}, {owner}", node.id));
    }
    let empty: Vec<u32> = empty.iter().map(|node| node.id).collect();
    let text = format!("{}: no memory, not counted", number_ranges(&empty));
    section.note_if("node", (!empty.is_empty()).then_some(text));
}

/// True if the page names the kind of memory, because a NUMA node has memory other than DRAM.
pub(crate) fn shows_memory_kinds(machine: &Machine) -> bool {
    let kinds = machine.numa_nodes.iter().filter(|node| node.device.is_none());
    kinds.filter_map(|node| node.kind.as_deref()).any(|kind| kind != "DRAM")
}

/// Describes the CPUs of a NUMA node: those that this process may use, and the others.
fn cpus_in_words(machine: &Machine, node: &NumaNode) -> String {
    if node.cpus.is_empty() {
        return "no cpus".to_owned();
    }
    let unusable = &node.unusable_cpus;
    let usable: Vec<u32> =
        node.cpus.iter().filter(|cpu| !unusable.contains(cpu)).copied().collect();
    let mut parts = Vec::new();
    if !usable.is_empty() {
        parts.push(format!("cpus {}", number_ranges(&usable)));
    }
    if !unusable.is_empty() {
        parts.push(format!("cpus {} {}", number_ranges(unusable), unusable_in_words(machine)));
    }
    parts.join(", ")
}

/// Returns the reason why CPUs cannot be used. In a description of another machine, offline CPUs cannot be
/// distinguished from CPUs that are not allowed.
fn unusable_in_words(machine: &Machine) -> &'static str {
    if machine.is_described() { "not allowed here, or offline" } else { "not allowed here" }
}

/// Describes a class of cores with equal speed: `fast: 10 cores, cpus 5-9,15-19, capacity 997 to 1024`.
fn class_in_words(class: &CoreClass) -> String {
    let cores = count_in_words(class.cores as usize, "core");
    let mut parts = vec![format!("{cores}, cpus {}", number_ranges(&class.cpus))];
    if !class.designs.is_empty() {
        parts.push(class.designs.join(" and "));
    }
    if let Some([min, max]) = class.capacities {
        parts.push(format!("capacity {}", range_in_words(min, max)));
    }
    if let Some([min, max]) = class.clocks {
        parts.push(format!("at most {}", range_in_words(min, max)));
    }
    format!("{}: {}", class.name, parts.join(", "))
}

/// Formats a range, or a single value if both ends are equal.
fn range_in_words<T: PartialEq + Display>(min: T, max: T) -> String {
    if min == max { min.to_string() } else { format!("{min} to {max}") }
}

/// Describes the processor: model, counts and clock.
fn processor(machine: &Machine) -> String {
    let p = &machine.processor;
    let model = facts::PROCESSOR.text(machine);
    let mut text = model.unwrap_or_else(|| "unknown processor".to_owned());
    if let Some(architecture) = facts::MICROARCHITECTURE.text(machine) {
        text.push_str(&format!(" ({architecture})"));
    }
    for (n, what) in [(p.sockets, "socket"), (p.cores, "core"), (p.threads, "hardware thread")] {
        text.push_str(&format!(", {}", count_in_words(n as usize, what)));
    }
    let unusable: usize = machine.numa_nodes.iter().map(|node| node.unusable_cpus.len()).sum();
    if unusable > 0 {
        text.push_str(&format!(
            ", {} {}",
            count_in_words(unusable, "cpu"),
            unusable_in_words(machine)
        ));
    }
    if let Some(hz) = p.hz {
        let basis = p.hz_basis.as_ref().map_or("?", ClockBasis::as_str);
        text.push_str(&format!(", {hz} ({basis})"));
    }
    if let Some(measured) = p.measured_hz.filter(|_| p.hz_basis != Some(ClockBasis::Measured)) {
        text.push_str(&format!(", {measured} measured with scalar work on all cores"));
    }
    if let Some(range) = facts::FREQUENCY_RANGE.text(machine) {
        text.push_str(&format!(", {range} by frequency control"));
    }
    text
}

fn peak(machine: &Machine) -> String {
    let p = &machine.processor;
    match (&machine.peak_flops, p.flops_per_cycle) {
        (Some(peak), Some(per_cycle)) => {
            let basis = p.flops_basis.as_deref().unwrap_or("?");
            let mut text = format!(
                "{}{} double precision: {}; {per_cycle} FLOP per cycle: {basis}",
                bound_prefix(peak),
                FlopsPerSec(peak.value),
                peak.basis
            );
            if let Some(others) = p.other_peaks_in_words(peak) {
                text = join_lines([text, others]);
            }
            text
        }
        (None, Some(per_cycle)) => {
            format!("unknown, because the clock is unknown; {per_cycle} FLOP per cycle and core")
        }
        _ => "unknown: the table does not contain this processor".to_owned(),
    }
}

fn cache_in_words(cache: &Cache) -> String {
    let size = cache.bytes.map_or("size unknown".to_owned(), |bytes| Bytes(bytes).to_string());
    let shared = match cache.cores {
        0 | 1 => "one per core".to_owned(),
        n => match cache.least_cores {
            Some(0) => format!("each shared by up to {n} cores"),
            Some(min) => format!("each shared by {min} to {n} cores"),
            None => format!("each shared by {n} cores"),
        },
    };
    format!("L{} {}: {} x {size}, {shared}", cache.level, cache.kind, cache.count)
}

/// Describes the memory: size, available memory, and theoretical bandwidth with its basis.
fn memory(machine: &Machine) -> String {
    let m = &machine.memory;
    let mut parts = vec![facts::MEMORY.text(machine).unwrap_or_else(|| "size unknown".to_owned())];
    if let Some(available) = facts::AVAILABLE_MEMORY.text(machine) {
        parts.push(format!("{available} available now"));
    }
    if let Some(limit) = facts::MEMORY_LIMIT.text(machine) {
        parts.push(format!("limited to {limit} by the control group"));
    }
    if let Some(limit) = facts::PROCESS_MEMORY_LIMIT.text(machine) {
        parts.push(format!("limited to {limit} per process (ulimit)"));
    }
    if let Some(swap) = m.swap_used.filter(|swap| *swap > 0) {
        parts.push(format!("{} of swap in use", Bytes(swap)));
    }
    parts.push(theoretical(machine));
    parts.extend(shares(machine));
    join_lines(parts)
}

fn bound_prefix(figure: &TheoreticalValue) -> &'static str {
    if figure.at_most { "at most " } else { "" }
}

/// Describes the theoretical bandwidth and the factors from which it is computed.
fn theoretical(machine: &Machine) -> String {
    let m = &machine.memory;
    let Some(figure) = &m.theoretical else {
        return "theoretical bandwidth unknown: give --dimms COUNTxMT/s, e.g. --dimms 16x3200"
            .to_owned();
    };
    let factors = match (m.channels, m.transfers_per_s) {
        (Some(channels), Some(rate)) => {
            let technology = m.technology.as_deref().unwrap_or("DDR");
            let bytes = (figure.value / (f64::from(channels) * rate.0)).round();
            let channels = count_in_words(channels as usize, "channel");
            format!(" = {channels} x {technology}-{:.0} x {bytes} B", rate.0 / 1e6)
        }
        _ => String::new(),
    };
    let basis = figure.detail.as_ref().unwrap_or(&figure.basis);
    let rate = BytesPerSec(figure.value);
    format!("{}{rate} theoretical{factors} ({basis})", bound_prefix(figure))
}

/// Describes the theoretical bandwidth per channel, NUMA node, socket and core. A guest has only some of the cores and
/// sees virtual NUMA nodes, so only the channel is known.
fn shares(machine: &Machine) -> Option<String> {
    let figure = machine.memory.theoretical.as_ref()?;
    let channels = machine.memory.channels.filter(|count| *count > 0)?;
    let own_nodes =
        machine.numa_nodes.iter().filter(|node| !node.cpus.is_empty() && node.bytes != Some(0));
    let nodes = own_nodes.count() as u32;
    let sockets = machine.processor.sockets;
    let has_even_nodes = nodes > 1 && channels.is_multiple_of(nodes);
    // With fewer NUMA nodes than sockets, some sockets may have no memory.
    let has_even_sockets = sockets > 1 && channels.is_multiple_of(sockets) && sockets < nodes;
    let is_host = machine.virtualisation.is_none();
    let parts = [
        (true, channels, "channel"),
        (is_host && has_even_nodes, nodes, "NUMA node"),
        (is_host && has_even_sockets, sockets, "socket"),
        (is_host && machine.processor.cores > 0, machine.processor.cores, "core"),
    ];
    let shown = parts.into_iter().filter(|(is_known, ..)| *is_known);
    let words = shown.map(|(_, count, part)| {
        format!("{} per {part}", BytesPerSec(figure.value / f64::from(count)))
    });
    Some(words.collect::<Vec<_>>().join(", "))
}

/// Describes the bus width and error correction of a memory module.
fn bus(dimm: &Dimm) -> String {
    let Some(data) = dimm.data_bits else { return String::new() };
    match dimm.total_bits {
        Some(total) if total > data => format!(", {total}/{data} bit (ECC)"),
        Some(_) => format!(", {data} bit (no ECC)"),
        None => format!(", {data} bit"),
    }
}

fn disk_in_words(disk: &Disk) -> String {
    let model = disk.model.as_deref().unwrap_or("model unknown");
    let kind = match disk.rotational {
        Some(true) => ", rotating",
        Some(false) => ", not rotating",
        None => "",
    };
    format!("{}: {model}, {}{kind}", disk.name, Bytes(disk.bytes))
}

fn pages(machine: &Machine) -> Option<String> {
    let pages = machine.pages.as_ref()?;
    let mut parts = vec![format!("base {}", Bytes(pages.base))];
    let thp = &facts::TRANSPARENT_HUGE_PAGES;
    parts.push(match thp.text(machine) {
        Some(mode) => format!("{}: {mode}", thp.name),
        // Without any size of huge pages, the kernel reports nothing about pages, so the mode is unknown.
        None if pages.huge.is_empty() => "transparent huge pages unknown".to_owned(),
        None => "no transparent huge pages".to_owned(),
    });
    for huge in &pages.huge {
        parts.push(format!(
            "{} pages: {} reserved, {} free",
            Bytes(huge.bytes),
            huge.total,
            huge.free
        ));
    }
    if let Some(share) = machine.memory.free_in_large_blocks {
        let share = share.in_whole_percent();
        parts.push(format!("{share} of the free memory in blocks of 2 MiB or more"));
    }
    Some(parts.join("; "))
}

/// Describes the firmware: `Dell Inc. 2.19.0 of 2024-03-14; board 0H3K7P`; `None` if it is unknown.
fn firmware(machine: &Machine) -> Option<String> {
    let board = facts::BOARD.text(machine).map(|name| format!("board {name}"));
    let parts: Vec<String> = [facts::FIRMWARE.text(machine), board].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Settings that are listed by name in one paragraph of the page.
const SETTINGS: [Fact; 5] =
    [facts::MICROCODE, facts::CLOCK_SOURCE, facts::BOOST, facts::SMT, facts::NUMA_BALANCING];

/// Describes the state of the node: settings and conditions that affect its speed, as far as they are known.
fn state(machine: &Machine, known: &SystemSettings) -> String {
    let mut parts = Vec::new();
    for fact in SETTINGS {
        parts.extend(fact.text(machine).map(|text| format!("{} {text}", fact.name)));
    }
    let mitigations =
        known.mitigations.values().filter(|what| what.starts_with("Mitigation")).count();
    if mitigations > 0 {
        parts.push(count_in_words(mitigations, "mitigation") + " in the kernel");
    }
    if let Some(seconds) = known.uptime_seconds {
        parts.push(format!("up for {}", uptime_in_words(seconds)));
    }
    if !known.boot_parameters.is_empty() {
        let parameters = known.boot_parameters.join(" ");
        parts.push(format!("{} {parameters}", facts::BOOT_PARAMETERS.name));
    }
    if parts.is_empty() { "not reported by the system".to_owned() } else { parts.join("; ") }
}

/// Describes the CPUs and the memory policy that the process inherited from its parent. They apply unless options
/// override them.
pub(crate) fn inherited_in_words(known: &InheritedBinding) -> String {
    let named = match known.nodes.as_slice() {
        [] => String::new(),
        named => format!(" ({})", nodes_in_words(named)),
    };
    let policy = known.policy.as_deref().unwrap_or("unknown");
    let cpus = number_ranges(&known.cpus);
    let memory = nodes_in_words(&known.memory_nodes);
    format!("memory policy {policy}{named}, cpus {cpus}, memory of {memory}")
}

/// Returns the names of NUMA nodes: `NUMA node 0`, `NUMA nodes 0-3`.
fn nodes_in_words(nodes: &[u32]) -> String {
    match nodes {
        [node] => format!("NUMA node {node}"),
        nodes => format!("NUMA nodes {}", number_ranges(nodes)),
    }
}

fn kernel(machine: &Machine) -> String {
    let kernel = facts::KERNEL.text(machine);
    let mut parts = vec![kernel.unwrap_or_else(|| "unknown".to_owned())];
    parts.push(match &machine.virtualisation {
        Some(hypervisor) => format!("virtual machine ({hypervisor})"),
        // If the name of the kernel cannot be read, virtualisation cannot be detected.
        None if machine.kernel.is_none() => "virtualisation unknown".to_owned(),
        None => "no virtualisation detected".to_owned(),
    });
    parts.push(match facts::GOVERNOR.text(machine) {
        Some(governor) => format!("frequency governor {governor}"),
        None => "frequency governor unknown".to_owned(),
    });
    parts.join("; ")
}

/// Returns the findings that disturb measurements, most severe first.
pub fn findings_section(findings: &[Finding]) -> Section {
    let mut section = Section::new("findings");
    if findings.is_empty() {
        section.push(Block::Text("no condition found that disturbs measurements".to_owned()));
    }
    for finding in findings {
        section.push(self::finding_note(finding));
        if let Some(cost) = &finding.cost {
            section.push(Note::new("cost", cost.as_str()).nested());
        }
        section.push(Note::new("remedy", finding.remedy.as_str()).nested());
    }
    section
}

/// Returns the note on a finding, with its severity.
pub(crate) fn finding_note(finding: &Finding) -> Note {
    let (label, tone) = match finding.severity {
        Severity::Critical => ("critical", Tone::Bad),
        Severity::Warning => ("warning", Tone::Warning),
        Severity::Info => ("info", Tone::Plain),
    };
    Note::new(label, finding.text.as_str()).tone(tone)
}

/// Describes processor, last-level caches and memory in short form, for the summary page.
pub(crate) fn brief_section(machine: &Machine) -> Section {
    let mut section = Section::new(MACHINE_SECTION);
    if machine.is_imported() {
        section.note(MACHINE_SECTION, imported(machine));
        return section;
    }
    section.note("machine", processor(machine));
    section.note_if("", facts::CORE_CLASSES.text(machine).map(|text| format!("cores: {text}")));
    let cache = machine.caches.iter().rev().find(|cache| cache.contains_data());
    let thp = facts::TRANSPARENT_HUGE_PAGES.text(machine);
    let theoretical = match &machine.memory.theoretical {
        Some(figure) => {
            let rate = BytesPerSec(figure.value);
            format!("{}{rate} theoretical ({})", bound_prefix(figure), figure.basis)
        }
        None => theoretical(machine),
    };
    let parts = [
        cache.map(cache_in_words),
        facts::MEMORY.text(machine).map(|size| format!("{size} of memory")),
        thp.map(|mode| format!("THP {mode}")),
        machine.virtualisation.as_ref().map(|hypervisor| format!("{hypervisor} guest")),
        Some(theoretical),
    ];
    section.note("", parts.into_iter().flatten().collect::<Vec<_>>().join("; "));
    section.note_if("", devices::brief_description(machine));
    section
}

/// Label of the note about caches whose size differs from the reported one.
pub(crate) const CACHES_LABEL: &str = "caches";

/// Returns a note if the measured size of the last-level caches differs from the reported size.
pub(crate) fn measured_cache_note(machine: &Machine) -> Option<Note> {
    let measured = machine.measured_cache.as_ref()?;
    let reported = measured.reported.filter(|reported| *reported != measured.bytes)?;
    let text = format!(
        "last-level cache: {} measured, {} reported; automatic sizes use the measured value",
        Bytes(measured.bytes),
        Bytes(reported)
    );
    Some(Note::new(CACHES_LABEL, text.as_str()))
}

/// Describes the machine of imported figures, for which only the user's description is known.
fn imported(machine: &Machine) -> String {
    let memory = machine.memory.theoretical.as_ref();
    let parts = [
        machine.processor.model.as_ref().map(|model| {
            format!("{model}, {}", count_in_words(machine.processor.sockets as usize, "socket"))
        }),
        memory.map(|figure| {
            format!("{}{} theoretical", bound_prefix(figure), BytesPerSec(figure.value))
        }),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return "unknown: the figures were imported".to_owned();
    }
    format!("{} (given by the user; the figures were imported)", parts.join("; "))
}

/// Returns the table of NUMA distances; `None` with fewer than two NUMA nodes.
fn distance_table(machine: &Machine) -> Option<Table> {
    let nodes = &machine.numa_nodes;
    let rows = nodes.iter().map(|node| Some((node.id, node.distances.as_ref()?)));
    let rows: Vec<_> = rows.collect::<Option<_>>().filter(|_| nodes.len() > 1)?;
    let columns =
        ColumnList::new().left("distance", |(id, _): &(u32, &Vec<_>)| format!("node {id}"));
    let columns = columns.columns_for_each(
        nodes.iter().enumerate(),
        |(_, node)| node.id.to_string(),
        |(_, distances), (to, _)| distances.get(*to).map(ToString::to_string).unwrap_or_default(),
    );
    Some(columns.table(rows))
}
