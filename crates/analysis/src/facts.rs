//! Facts of a machine, one row per fact: the name, the value with its unit, and the records between which it is
//! compared. `compare`, `fleet diff`, the inventory and the reasons of `fleet rank`, saved choices and the page of
//! `machine` read this table.
//!
//! Differences are listed in the order of the rows. A test fails for a field of the record without a row. Lists of
//! parts have no row: `fleet diff` compares their parts one by one ([`PART_LISTS`]).

use nodegauge_measure::record::{Device, Machine, PageSettings, SystemSettings};
use nodegauge_measure::{Bytes, BytesPerSec, FlopsPerSec, Fraction, Hertz, TransfersPerSec};
use std::collections::BTreeSet;
use std::fmt;

/// Property of a machine.
#[derive(Debug, Clone, Copy)]
pub struct Fact {
    /// Name in differences and on pages.
    pub name: &'static str,
    /// Short name in a reason of 20 characters; `None` if the fact does not explain a low figure.
    pub short: Option<ShortName>,
    /// Fields of the record's machine (with all fields below them) from which the value is derived.
    pub fields: &'static [&'static str],
    /// Records between which the value is compared.
    pub compared: ComparedRecords,
    /// True if the fact affects which configuration is fastest. A saved choice then applies only to machines with the
    /// same value.
    pub is_identity: bool,
    value: fn(&Machine) -> Option<FactValue>,
}

/// Records between which a fact is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparedRecords {
    /// Runs on one node, and nodes of one kind.
    BetweenRunsAndNodes,
    /// Only runs. The fact is the name of a node, a circumstance of a run, or a sum of parts that are compared one by
    /// one between nodes.
    BetweenRuns,
    /// Only nodes of one kind. On good nodes, the processor or the memory determines the fact, so a difference between
    /// runs would repeat that of the processor or the memory.
    BetweenNodes,
    /// No records. The value changes constantly, or it was measured.
    NoRecords,
}

/// Short name of a fact in a reason of 20 characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShortName {
    /// Name of a part of a node that the inventory counts.
    Part(&'static str),
    /// Name of a setting of firmware or kernel.
    Setting(&'static str),
}

/// Value of a fact, which is printed with its unit.
#[derive(Debug, Clone, PartialEq)]
pub enum FactValue {
    /// Text.
    Words(String),
    /// Number of parts.
    Count(u32),
    /// Size, bytes.
    Size(u64),
    /// Size of memory, bytes; the kernel reserves a varying part of it.
    MemorySize(u64),
    /// Data rate.
    Bandwidth(BytesPerSec),
    /// Transfers per second of a memory channel.
    Transfers(TransfersPerSec),
    /// Clock frequency.
    Clock(Hertz),
    /// Rate of floating-point operations.
    Arithmetic(FlopsPerSec),
    /// Setting that is on or off.
    Switch(bool),
}

impl fmt::Display for FactValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => f.write_str(words),
            Self::Count(count) => count.fmt(f),
            Self::Size(bytes) | Self::MemorySize(bytes) => Bytes(*bytes).fmt(f),
            Self::Bandwidth(rate) => rate.fmt(f),
            Self::Transfers(rate) => rate.fmt(f),
            Self::Clock(clock) => clock.fmt(f),
            Self::Arithmetic(rate) => rate.fmt(f),
            Self::Switch(true) => f.write_str("on"),
            Self::Switch(false) => f.write_str("off"),
        }
    }
}

impl Fact {
    const fn new(
        name: &'static str,
        fields: &'static [&'static str],
        value: fn(&Machine) -> Option<FactValue>,
    ) -> Self {
        let compared = ComparedRecords::BetweenRunsAndNodes;
        Self { name, short: None, fields, compared, is_identity: false, value }
    }

    const fn identity(self) -> Self {
        Self { is_identity: true, ..self }
    }

    const fn part(self, word: &'static str) -> Self {
        Self { short: Some(ShortName::Part(word)), ..self }
    }

    const fn setting(self, word: &'static str) -> Self {
        Self { short: Some(ShortName::Setting(word)), ..self }
    }

    const fn between_runs(self) -> Self {
        Self { compared: ComparedRecords::BetweenRuns, ..self }
    }

    const fn between_nodes(self) -> Self {
        Self { compared: ComparedRecords::BetweenNodes, ..self }
    }

    const fn nowhere(self) -> Self {
        Self { compared: ComparedRecords::NoRecords, ..self }
    }

    /// Returns the value with its unit; `None` if it is unknown.
    pub fn text(&self, machine: &Machine) -> Option<String> {
        (self.value)(machine).map(|value| value.to_string())
    }

    /// Returns the value for a comparison of nodes; it is equal on nodes of one kind, because the size of memory is
    /// rounded. `None` if it is unknown.
    pub fn node_text(&self, machine: &Machine) -> Option<String> {
        let value = match (self.value)(machine)? {
            FactValue::MemorySize(bytes) => FactValue::MemorySize(rounded_memory(bytes)),
            value => value,
        };
        Some(value.to_string())
    }

    /// Returns the number of parts; `None` if it is unknown, or if the fact does not count parts.
    pub fn count(&self, machine: &Machine) -> Option<u32> {
        match (self.value)(machine)? {
            FactValue::Count(count) => Some(count),
            _ => None,
        }
    }

    /// True if the value is compared between runs.
    pub fn distinguishes_runs(&self) -> bool {
        matches!(self.compared, ComparedRecords::BetweenRunsAndNodes | ComparedRecords::BetweenRuns)
    }

    /// True if the value is compared between nodes of one kind.
    pub fn distinguishes_nodes(&self) -> bool {
        matches!(
            self.compared,
            ComparedRecords::BetweenRunsAndNodes | ComparedRecords::BetweenNodes
        )
    }

    /// Returns the short name of a part; empty for other facts.
    pub fn part_name(&self) -> &'static str {
        match self.short {
            Some(ShortName::Part(word)) => word,
            _ => "",
        }
    }

    /// Returns the short name of a setting; `None` for other facts.
    pub fn setting_name(&self) -> Option<&'static str> {
        match self.short {
            Some(ShortName::Setting(word)) => Some(word),
            _ => None,
        }
    }
}

/// Declares each fact as a constant, and the list of all facts.
macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident = $fact:expr;)*) => {
        $($(#[$doc])* pub const $name: Fact = $fact;)*

        /// All facts, in the order in which differences are listed.
        pub const FACTS: &[Fact] = &[$($name),*];
    };
}

facts! {
    /// Host name.
    HOST = Fact::new("host", &["host"], |m| words(&m.host)).identity().between_runs();
    /// Product name of the processor.
    PROCESSOR = Fact::new("processor", &["processor.model"], |m| words(&m.processor.model)).identity();
    /// Architecture of the processor.
    ARCHITECTURE =
        Fact::new("architecture", &["processor.architecture"], |m| words(&m.processor.architecture))
            .between_nodes();
    /// Microarchitecture of the processor.
    MICROARCHITECTURE =
        Fact::new("microarchitecture", &["processor.microarchitecture"], |m| {
            words(&m.processor.microarchitecture)
        })
        .between_nodes();
    /// Vendor, family, model and stepping of the processor.
    IDENTIFICATION =
        Fact::new("processor identification", &["processor.identification"], |m| {
            words(&m.processor.identification)
        })
        .between_nodes();
    /// Number of processor packages.
    SOCKETS = Fact::new("sockets", &["processor.sockets"], |m| count(m.processor.sockets)).identity();
    /// Number of physical cores.
    CORES =
        Fact::new("cores", &["processor.cores"], |m| count(m.processor.cores)).identity().part("cores");
    /// Number of hardware threads.
    HARDWARE_THREADS =
        Fact::new("hardware threads", &["processor.threads"], |m| count(m.processor.threads))
            .identity()
            .part("SMT");
    /// Number of hardware threads per core.
    THREADS_PER_CORE =
        Fact::new("hardware threads per core", &["processor.threads_per_core"], |m| {
            count(m.processor.threads_per_core)
        })
        .between_nodes();
    /// Classes of cores with equal speed.
    CORE_CLASSES = Fact::new("classes of cores", &["processor.core_classes"], core_classes).between_nodes();
    /// Instruction-set extensions.
    INSTRUCTION_SETS =
        Fact::new("instruction sets", &["processor.isa"], |m| list(&m.processor.isa)).identity();
    /// Double-precision operations per core and cycle.
    FLOPS_PER_CYCLE = Fact::new(
        "FLOP per cycle",
        &[
            "processor.flops_per_cycle",
            "processor.flops_basis",
            "processor.flops_per_cycle_without_fma",
            "processor.flops_per_cycle_single",
        ],
        |m| m.processor.flops_per_cycle.map(FactValue::Count),
    )
    .between_nodes();
    /// Write-allocate behaviour of regular stores.
    WRITE_ALLOCATE =
        Fact::new("write-allocate", &["processor.write_allocate"], |m| {
            m.processor.write_allocate.map(FactValue::Switch)
        })
        .between_nodes();
    /// Frequency range of the kernel's frequency control.
    FREQUENCY_RANGE =
        Fact::new("frequency range", &["processor.min_hz", "processor.max_hz"], frequency_range)
            .between_nodes();
    /// Clock frequency from which the peak is computed.
    CLOCK =
        Fact::new("clock", &["processor.hz", "processor.hz_basis"], |m| {
            m.processor.hz.map(FactValue::Clock)
        })
        .nowhere();
    /// Clock frequency measured while every core runs scalar code.
    MEASURED_CLOCK =
        Fact::new("measured clock", &["processor.measured_hz"], |m| {
            m.processor.measured_hz.map(FactValue::Clock)
        })
        .nowhere();
    /// Theoretical peak of double-precision arithmetic.
    PEAK = Fact::new("theoretical peak", &["peak_flops"], |m| {
        m.peak_flops.as_ref().map(|peak| FactValue::Arithmetic(FlopsPerSec(peak.value)))
    })
    .nowhere();
    /// Number and size of the last-level caches.
    LAST_LEVEL_CACHES =
        Fact::new("last-level caches", &[], last_level_caches).identity().between_runs();
    /// Measured capacity of the last-level caches.
    MEASURED_CACHE = Fact::new("measured last-level cache", &["measured_cache"], |m| {
        m.measured_cache.map(|measured| FactValue::Size(measured.bytes))
    })
    .nowhere();
    /// Number of NUMA nodes.
    NUMA_NODES = Fact::new("NUMA nodes", &[], |m| count(m.numa_nodes.len() as u32))
        .identity()
        .part("NUMA")
        .between_runs();
    /// Size of the memory.
    MEMORY = Fact::new("memory", &["memory.bytes"], |m| m.memory.bytes.map(FactValue::MemorySize))
        .part("DIMM");
    /// Memory that a process can allocate now.
    AVAILABLE_MEMORY = Fact::new("available memory", &["memory.available"], |m| {
        m.memory.available.map(FactValue::Size)
    })
    .nowhere();
    /// Memory limit of the control group.
    MEMORY_LIMIT = Fact::new("memory limit", &["memory.cgroup_limit"], |m| {
        m.memory.cgroup_limit.map(FactValue::Size)
    })
    .between_runs();
    /// Memory limit of a process.
    PROCESS_MEMORY_LIMIT = Fact::new("memory limit per process", &["memory.process_limit"], |m| {
        m.memory.process_limit.map(FactValue::Size)
    })
    .between_runs();
    /// Swap space in use.
    SWAP = Fact::new("swap in use", &["memory.swap_used"], |m| m.memory.swap_used.map(FactValue::Size))
        .nowhere();
    /// Number of memory modules.
    MEMORY_MODULES = Fact::new("memory modules", &[], |m| count(m.memory.dimms.len() as u32))
        .part("DIMM")
        .between_runs();
    /// Number of memory channels.
    MEMORY_CHANNELS = Fact::new("memory channels", &["memory.channels"], |m| {
        m.memory.channels.map(FactValue::Count)
    })
    .identity()
    .part("channel");
    /// Channels without a module.
    EMPTY_CHANNELS =
        Fact::new("channels without a module", &["memory.empty_channels"], |m| {
            list(&m.memory.empty_channels)
        })
        .between_nodes();
    /// Transfer rate of a memory channel.
    MEMORY_SPEED = Fact::new("memory speed", &["memory.transfers_per_s"], |m| {
        m.memory.transfers_per_s.map(FactValue::Transfers)
    })
    .part("MT/s");
    /// Technology of the memory.
    MEMORY_TECHNOLOGY =
        Fact::new("memory technology", &["memory.technology"], |m| words(&m.memory.technology))
            .between_nodes();
    /// Theoretical bandwidth of the memory.
    THEORETICAL_BANDWIDTH = Fact::new("theoretical bandwidth", &["memory.theoretical"], |m| {
        m.memory.theoretical.as_ref().map(|known| FactValue::Bandwidth(BytesPerSec(known.value)))
    });
    /// Name and release of the kernel.
    KERNEL = Fact::new("kernel", &["kernel"], |m| words(&m.kernel)).identity().setting("kernel");
    /// Hypervisor.
    VIRTUAL_MACHINE = Fact::new("virtual machine", &["virtual"], hypervisor).identity();
    /// Vendor, version and date of the firmware.
    FIRMWARE = Fact::new(
        "firmware",
        &[
            "circumstances.firmware.vendor",
            "circumstances.firmware.version",
            "circumstances.firmware.date",
        ],
        firmware,
    )
    .setting("BIOS");
    /// Product name of the board.
    BOARD = Fact::new("board", &["circumstances.firmware.board"], |m| {
        words(&circumstances(m)?.firmware.as_ref()?.board)
    })
    .between_nodes();
    /// Revision of the microcode.
    MICROCODE = Fact::new("microcode", &["circumstances.microcode"], |m| {
        words(&circumstances(m)?.microcode)
    })
    .setting("microcode");
    /// Clock source of the kernel.
    CLOCK_SOURCE = Fact::new("clock source", &["circumstances.clocksource"], |m| {
        words(&circumstances(m)?.clocksource)
    });
    /// Setting of boost clocks above the base clock.
    BOOST = Fact::new("boost", &["circumstances.boost"], |m| {
        circumstances(m)?.boost.map(FactValue::Switch)
    })
    .setting("boost");
    /// Mode of simultaneous multithreading, i.e. several hardware threads per core.
    SMT = Fact::new("SMT", &["circumstances.smt"], |m| {
        circumstances(m)?.smt.map(FactValue::Switch)
    })
    .setting("SMT");
    /// Setting for moving pages to the NUMA nodes that use them.
    NUMA_BALANCING = Fact::new("NUMA balancing", &["circumstances.numa_balancing"], |m| {
        circumstances(m)?.numa_balancing.map(FactValue::Switch)
    })
    .setting("NUMA bal");
    /// Frequency governor.
    GOVERNOR = Fact::new("governor", &["governor"], |m| words(&m.governor)).setting("governor");
    /// Size of base pages.
    BASE_PAGES = Fact::new("base pages", &["pages.base"], |m| Some(FactValue::Size(pages(m)?.base)))
        .between_nodes();
    /// Mode of transparent huge pages.
    TRANSPARENT_HUGE_PAGES =
        Fact::new("transparent huge pages", &["pages.thp"], |m| words(&pages(m)?.thp))
            .identity()
            .setting("THP");
    /// Defragmentation for transparent huge pages.
    THP_DEFRAGMENTATION =
        Fact::new("THP defragmentation", &["pages.thp_defrag"], |m| words(&pages(m)?.thp_defrag));
    /// Reserved huge pages.
    RESERVED_HUGE_PAGES =
        Fact::new("reserved huge pages", &[], reserved_huge_pages).identity().between_runs();
    /// Share of the free memory in blocks of at least the size of a huge page.
    FREE_IN_HUGE_BLOCKS =
        Fact::new("free memory in huge blocks", &["memory.free_in_large_blocks"], |m| {
            m.memory.free_in_large_blocks.map(half)
        })
        .between_runs();
    /// Time since the system was booted, in coarse steps.
    TIME_SINCE_BOOT = Fact::new("time since boot", &["circumstances.uptime_seconds"], |m| {
        circumstances(m)?.uptime_seconds.map(since_boot)
    })
    .between_runs();
    /// Boot parameters that affect speed.
    BOOT_PARAMETERS =
        Fact::new("boot parameters", &["circumstances.boot_parameters"], boot_parameters);
    /// Accelerators.
    DEVICES = Fact::new("devices", &[], |m| device_values(m, device_title)).between_runs();
    /// Drivers of the accelerators.
    DRIVERS = Fact::new("driver of devices", &[], |m| device_values(m, driver)).between_runs();
    /// Error correction (ECC) of the accelerators' memory.
    ECC = Fact::new("ECC of devices", &[], |m| device_values(m, ecc)).between_runs();
    /// Memory policy that the process inherited.
    INHERITED_POLICY =
        Fact::new("inherited memory policy", &["circumstances.inherited"], inherited_policy)
            .between_runs();
    /// Environment variables that OpenMP runtimes and BLAS libraries read.
    ENVIRONMENT = Fact::new("environment", &["circumstances.environment"], environment).nowhere();
    /// Source of the description.
    SOURCE = Fact::new("source of the description", &["source"], |m| {
        Some(FactValue::Words(m.source.name().to_owned()))
    })
    .nowhere();
}

/// List of parts in the record.
#[derive(Debug, Clone, Copy)]
pub struct PartList {
    /// Path of the list.
    pub path: &'static str,
    /// Fields that identify a part, so that the other parts keep their names if one is lost.
    pub identified_by: &'static [&'static str],
}

/// Lists whose parts are compared one by one between nodes of one kind.
pub const PART_LISTS: [PartList; 6] = [
    PartList { path: "caches", identified_by: &["level", "type"] },
    PartList { path: "devices", identified_by: &["address"] },
    PartList { path: "disks", identified_by: &["name"] },
    PartList { path: "memory.dimms", identified_by: &["slot"] },
    PartList { path: "numa_nodes", identified_by: &["id"] },
    PartList { path: "pages.huge", identified_by: &["bytes"] },
];

/// Describes the changes from `then` to `now` in the facts that affect which configuration is fastest.
pub fn machine_changes(then: &Machine, now: &Machine) -> Vec<String> {
    let mut changes = Vec::new();
    for fact in FACTS.iter().filter(|fact| fact.is_identity) {
        let before = text_or_unknown(fact, then);
        let after = text_or_unknown(fact, now);
        if before != after {
            changes.push(format!("{}: {before}, now {after}", fact.name));
        }
    }
    changes
}

fn text_or_unknown(fact: &Fact, machine: &Machine) -> String {
    fact.text(machine).unwrap_or_else(|| "unknown".to_owned())
}

/// Rounds a memory size in bytes to two significant digits of its size in GiB, because the kernel reserves a varying
/// part of the memory.
pub fn rounded_memory(bytes: u64) -> u64 {
    let gib = bytes as f64 / f64::from(1 << 30);
    if gib <= 0.0 {
        return bytes;
    }
    let step = 10f64.powf(gib.log10().floor() - 1.0);
    ((gib / step).round() * step * f64::from(1 << 30)) as u64
}

fn words(known: &Option<String>) -> Option<FactValue> {
    known.clone().map(FactValue::Words)
}

/// Joins the words of a list; `None` for an empty list.
fn list(items: &[String]) -> Option<FactValue> {
    (!items.is_empty()).then(|| FactValue::Words(items.join(" ")))
}

/// Returns a count; `None` for zero, which means unknown.
fn count(n: u32) -> Option<FactValue> {
    (n > 0).then_some(FactValue::Count(n))
}

fn circumstances(machine: &Machine) -> Option<&SystemSettings> {
    machine.circumstances.as_ref()
}

fn pages(machine: &Machine) -> Option<&PageSettings> {
    machine.pages.as_ref()
}

fn frequency_range(machine: &Machine) -> Option<FactValue> {
    let (min, max) = machine.processor.min_hz.zip(machine.processor.max_hz)?;
    Some(FactValue::Words(format!("{min} to {max}")))
}

fn core_classes(machine: &Machine) -> Option<FactValue> {
    let classes = machine.processor.core_classes.iter();
    let parts: Vec<String> =
        classes.map(|class| format!("{} {}", class.cores, class.name)).collect();
    list(&parts)
}

fn last_level_caches(machine: &Machine) -> Option<FactValue> {
    let level = machine.caches.iter().map(|cache| cache.level).filter(|level| *level >= 3).max()?;
    let mut parts = Vec::new();
    for cache in machine.caches.iter().filter(|cache| cache.level == level) {
        parts.push(format!("{} x {}", cache.count, Bytes(cache.bytes?)));
    }
    Some(FactValue::Words(parts.join(" and ")))
}

/// Returns the hypervisor, or `no` on bare metal. Returns `None` for a machine without a host name, because a
/// description does not contain the hypervisor.
fn hypervisor(machine: &Machine) -> Option<FactValue> {
    machine.host.as_ref()?;
    let name = machine.virtualisation.as_deref().unwrap_or("no");
    Some(FactValue::Words(name.to_owned()))
}

/// Describes the firmware: `Dell Inc. 2.19.0 of 2024-03-14`.
fn firmware(machine: &Machine) -> Option<FactValue> {
    let known = circumstances(machine)?.firmware.as_ref()?;
    let date = known.date.as_ref().map(|date| format!("of {date}"));
    let parts = [known.vendor.clone(), known.version.clone(), date];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    list(&parts)
}

fn reserved_huge_pages(machine: &Machine) -> Option<FactValue> {
    let mut kinds = Vec::new();
    for huge in pages(machine)?.huge.iter().filter(|huge| huge.total > 0) {
        kinds.push(format!("{} of {}", huge.total, Bytes(huge.bytes)));
    }
    Some(FactValue::Words(if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }))
}

fn half(share: Fraction) -> FactValue {
    let part = if share.0 < 0.5 { "less than half" } else { "at least half" };
    FactValue::Words(part.to_owned())
}

/// Describes the time since boot in coarse steps, so that consecutive runs do not differ.
fn since_boot(seconds: u64) -> FactValue {
    const DAY: u64 = 86400;
    let step = match seconds {
        0..3600 => "less than an hour",
        3600..DAY => "less than a day",
        DAY..604_800 => "less than a week",
        604_800..2_592_000 => "less than 30 days",
        _ => "30 days or more",
    };
    FactValue::Words(step.to_owned())
}

/// Returns the boot parameters. Returns `None` for a record without the time since boot, because the version that wrote
/// it did not read boot parameters.
fn boot_parameters(machine: &Machine) -> Option<FactValue> {
    let known = circumstances(machine)?;
    known.uptime_seconds?;
    list(&known.boot_parameters).or_else(|| Some(FactValue::Words("none".to_owned())))
}

/// Returns the distinct values of a property of the accelerators.
fn device_values(machine: &Machine, value: fn(&Device) -> Option<String>) -> Option<FactValue> {
    let computing = machine.devices.iter().filter(|device| device.is_accelerator());
    let values: BTreeSet<String> = computing.filter_map(value).collect();
    let values: Vec<String> = values.into_iter().collect();
    (!values.is_empty()).then(|| FactValue::Words(values.join(", ")))
}

fn device_title(device: &Device) -> Option<String> {
    Some(device.title())
}

fn driver(device: &Device) -> Option<String> {
    Some(format!("{} {}", device.driver.as_ref()?, device.driver_version.as_ref()?))
}

fn ecc(device: &Device) -> Option<String> {
    device.memory.as_ref()?.ecc.map(|is_on| FactValue::Switch(is_on).to_string())
}

fn inherited_policy(machine: &Machine) -> Option<FactValue> {
    let inherited = circumstances(machine)?.inherited.as_ref()?;
    let nodes: Vec<String> = inherited.nodes.iter().map(u32::to_string).collect();
    let separator = if nodes.is_empty() { "" } else { ":" };
    let policy = inherited.policy.as_ref()?;
    Some(FactValue::Words(format!("{policy}{separator}{}", nodes.join(","))))
}

fn environment(machine: &Machine) -> Option<FactValue> {
    let variables = circumstances(machine)?.environment.iter();
    let assignments: Vec<String> =
        variables.map(|(name, value)| format!("{name}={value}")).collect();
    list(&assignments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::keys::Registry;
    use nodegauge_measure::record::Firmware;
    use serde_json::Value;

    /// Fields whose entries are compared one by one.
    const ENTRIES: [&str; 2] = ["circumstances.mitigations", "software"];

    /// Returns the properties of a type in the schema; `None` if it has none.
    fn properties<'a>(
        schema: &'a Value,
        of: &'a Value,
    ) -> Option<&'a serde_json::Map<String, Value>> {
        let either = of["anyOf"].as_array().into_iter().flatten().chain([of]);
        let name = either.filter_map(|one| one["$ref"].as_str()).next();
        let known =
            name.map_or(of, |name| &schema["$defs"][name.rsplit('/').next().unwrap_or(name)]);
        known["properties"].as_object()
    }

    /// Appends the paths of the fields at and below `path` that have no row.
    fn without_row(schema: &Value, of: &Value, path: &str, found: &mut Vec<String>) {
        let is_in_row = FACTS.iter().any(|fact| fact.fields.contains(&path));
        let is_list = PART_LISTS.iter().any(|list| list.path == path) || ENTRIES.contains(&path);
        if is_in_row || is_list {
            return;
        }
        let Some(fields) = properties(schema, of) else {
            found.push(path.to_owned());
            return;
        };
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        for (name, field) in fields {
            without_row(schema, field, &format!("{prefix}{name}"), found);
        }
    }

    #[test]
    fn every_field_of_the_machine_has_a_row() {
        let schema = nodegauge_measure::schema::record_schema(&Registry::new(Vec::new()));
        let mut found = Vec::new();
        without_row(&schema, &schema["$defs"]["Machine"], "", &mut found);
        assert_eq!(found, Vec::<String>::new());
        let machine = properties(&schema, &schema["$defs"]["Machine"]).unwrap();
        assert!(machine.contains_key("processor"));
        for fact in FACTS {
            for field in fact.fields {
                let mut of = &schema["$defs"]["Machine"];
                for name in field.split('.') {
                    of = &properties(&schema, of).unwrap_or_else(|| panic!("{field}"))[name];
                }
                assert!(!of.is_null(), "{field} is no field of the record");
            }
        }
    }

    #[test]
    fn fact_names_are_unique() {
        let names: BTreeSet<&str> = FACTS.iter().map(|fact| fact.name).collect();
        assert_eq!(names.len(), FACTS.len());
        for part in [MEMORY_MODULES, MEMORY_CHANNELS, MEMORY_SPEED, NUMA_NODES, CORES, MEMORY] {
            assert!(!part.part_name().is_empty(), "{}", part.name);
        }
    }

    #[test]
    fn facts_are_printed_with_units() {
        let mut machine = Machine { host: Some("n01".to_owned()), ..Machine::default() };
        machine.memory.bytes = Some(376_900 << 20);
        machine.memory.transfers_per_s = Some(TransfersPerSec(4.8e9));
        let firmware = Firmware {
            vendor: Some("Dell Inc.".to_owned()),
            version: Some("2.19.0".to_owned()),
            date: Some("2024-03-14".to_owned()),
            board: Some("0H3K7P".to_owned()),
        };
        let known =
            SystemSettings { smt: Some(false), firmware: Some(firmware), ..Default::default() };
        machine.circumstances = Some(known);
        let text = |fact: Fact| fact.text(&machine).unwrap();
        assert_eq!(text(MEMORY_SPEED), "4800 MT/s");
        assert_eq!(text(SMT), "off");
        assert_eq!(text(FIRMWARE), "Dell Inc. 2.19.0 of 2024-03-14");
        assert_eq!(text(VIRTUAL_MACHINE), "no");
        assert_eq!(MEMORY.node_text(&machine).unwrap(), "370 GiB");
        assert_eq!(SOCKETS.text(&machine), None);
        assert_eq!(BOOT_PARAMETERS.text(&machine), None);
    }

    #[test]
    fn reserved_memory_does_not_change_the_rounded_memory_size() {
        assert_eq!(rounded_memory(376_900 << 20), rounded_memory(376_100 << 20));
        assert_ne!(rounded_memory(376 << 30), rounded_memory(345 << 30));
    }

    #[test]
    fn only_identity_facts_are_reported_as_changes() {
        let then = Machine { kernel: Some("Linux 6.1.0".to_owned()), ..Machine::default() };
        let mut now = then.clone();
        now.memory.available = Some(7);
        now.governor = Some("powersave".to_owned());
        assert!(machine_changes(&then, &now).is_empty());
        now.kernel = Some("Linux 6.12.1".to_owned());
        assert_eq!(machine_changes(&then, &now), ["kernel: Linux 6.1.0, now Linux 6.12.1"]);
    }
}
