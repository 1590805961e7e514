//! Description of a node in the record. Unknown values are `null`.

use super::{Device, Software, TheoreticalValue};
use crate::Bytes;
use crate::{FlopsPerSec, Fraction, Hertz, TransfersPerSec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Description of a node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Host name; `null` for a machine that is known from a description only.
    pub host: Option<String>,
    /// Processors of the node.
    pub processor: Processor,
    /// Caches, in ascending order of level.
    pub caches: Vec<Cache>,
    /// Measured last-level cache; absent if it was not measured, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_cache: Option<MeasuredCache>,
    /// NUMA nodes, in the order of their numbers.
    pub numa_nodes: Vec<NumaNode>,
    /// Main memory of the node.
    pub memory: Memory,
    /// Theoretical peak of double-precision arithmetic, FLOP/s.
    pub peak_flops: Option<TheoreticalValue>,
    /// Kernel name and release, e.g. `Linux 6.1.0`.
    pub kernel: Option<String>,
    /// Hypervisor, e.g. `kvm`; `null` on bare metal or if unknown.
    #[serde(rename = "virtual")]
    pub virtualisation: Option<String>,
    /// Page sizes and huge pages; `null` for a machine that is known from a description only.
    #[serde(default)]
    pub pages: Option<PageSettings>,
    /// Frequency governor of CPU 0, if the kernel reports one.
    #[serde(default)]
    pub governor: Option<String>,
    /// Other settings that affect the speed of the node; absent for a machine that is known from a description only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circumstances: Option<SystemSettings>,
    /// Software of the node; absent in older records and for a machine that is known from a description only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<Software>,
    /// Accelerators and high-speed network adapters, in order of their PCI addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// Disks, in the order of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<Disk>,
    /// Origin of this description.
    #[serde(default)]
    pub source: MachineSource,
}

/// Measured capacity of the last-level caches, for all CPUs that the process may use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredCache {
    /// Capacity, bytes.
    pub bytes: u64,
    /// Total size of the last-level caches that the system reports, bytes; `null` if it is unknown.
    pub reported: Option<u64>,
}

impl MeasuredCache {
    /// Returns the capacity in bytes of those caches whose total size the system reports as `reported`, in proportion
    /// to the size of all caches. If one of the sizes is unknown, returns the capacity of all caches.
    pub fn part_capacity(&self, reported: Option<u64>) -> u64 {
        match (reported, self.reported) {
            (Some(part), Some(all)) if all > 0 => {
                (u128::from(self.bytes) * u128::from(part) / u128::from(all)) as u64
            }
            _ => self.bytes,
        }
    }

    /// Returns the capacity of all caches, extrapolated from some of them, which have the capacity `measured` and for
    /// which the system reports the total size `reported`, both in bytes. The result is at least the known capacity.
    #[must_use]
    pub fn extrapolated_from_part(&self, measured: u64, reported: Option<u64>) -> Self {
        let all = match (reported, self.reported) {
            (Some(part), Some(all)) if part > 0 => {
                (u128::from(measured) * u128::from(all) / u128::from(part)) as u64
            }
            _ => measured,
        };
        Self { bytes: all.max(self.bytes), ..*self }
    }
}

/// Origin of the description of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MachineSource {
    /// The running system was detected.
    Live,
    /// The description is an XML file that `lstopo` wrote.
    Xml,
    /// The description is a synthetic topology in hwloc's syntax.
    Synthetic,
    /// The record is imported output of another program, perhaps from another machine. Only values
    /// that the user provides are known.
    Import,
    /// The origin is absent, as in older records, or has a name that this version does not support.
    #[default]
    #[serde(rename = "", other)]
    Unknown,
}

impl MachineSource {
    /// Returns the name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Xml => "xml",
            Self::Synthetic => "synthetic",
            Self::Import => "import",
            Self::Unknown => "",
        }
    }
}

impl Machine {
    /// Returns the total size of the last-level caches; `None` if the size of one of them is unknown. Caches of one level
    /// may have different sizes.
    pub fn last_level_cache_bytes(&self) -> Option<Bytes> {
        let data_caches = self.caches.iter().filter(|cache| cache.contains_data());
        let last = data_caches.clone().map(|cache| cache.level).max()?;
        let mut total = 0;
        for cache in data_caches.filter(|cache| cache.level == last) {
            total += cache.bytes? * u64::from(cache.count);
        }
        Some(Bytes(total))
    }

    /// True if the machine is not the running system but is known from a description only.
    pub fn is_described(&self) -> bool {
        matches!(self.source, MachineSource::Xml | MachineSource::Synthetic)
    }

    /// True if the figures of the record were imported.
    pub fn is_imported(&self) -> bool {
        self.source == MachineSource::Import
    }
}

/// Settings of firmware, kernel and environment that affect the speed of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SystemSettings {
    /// Microcode revision of CPU 0.
    pub microcode: Option<String>,
    /// Mitigation of each vulnerability of the processor; the key is the kernel's name of the vulnerability.
    pub mitigations: BTreeMap<String, String>,
    /// Clock source of the kernel, e.g. `tsc`.
    pub clocksource: Option<String>,
    /// True if cores may run above their base clock.
    pub boost: Option<bool>,
    /// True if cores run more than one hardware thread.
    pub smt: Option<bool>,
    /// True if the kernel moves pages to the NUMA nodes that use them.
    pub numa_balancing: Option<bool>,
    /// Environment variables of this process that OpenMP runtimes and BLAS libraries read.
    pub environment: BTreeMap<String, String>,
    /// Time since the system was booted, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime_seconds: Option<u64>,
    /// Boot parameters of the kernel that affect speed, e.g. `mitigations=off`. Other parameters are not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boot_parameters: Vec<String>,
    /// Binding and memory policy that the process inherited; absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherited: Option<InheritedBinding>,
    /// Firmware of the node; absent in older records and if the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<Firmware>,
}

/// Firmware of the node, and the board for which it is made, as SMBIOS names them. Serial numbers
/// are not recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Firmware {
    /// Vendor of the firmware, e.g. `American Megatrends International, LLC.`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Version of the firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Release date of the firmware, `YYYY-MM-DD`, or as the firmware writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Product name of the board.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board: Option<String>,
}

/// Binding and memory policy that the measuring process inherited, as `numactl --show` prints them. They apply unless
/// an option requests another binding or policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct InheritedBinding {
    /// Memory policy by numactl's name, e.g. `interleave`; `null` if the kernel does not report it.
    pub policy: Option<String>,
    /// NUMA nodes of the policy.
    pub nodes: Vec<u32>,
    /// CPUs that the process may run on.
    pub cpus: Vec<u32>,
    /// NUMA nodes on which the process may allocate memory.
    pub memory_nodes: Vec<u32>,
}

/// Returns the product name of a processor without trademark signs: `Intel Xeon Platinum 8480+`.
pub fn product_name(model: &str) -> String {
    let model = model.replace("(R)", "").replace("(TM)", "").replace(" CPU", "");
    model.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Processors of a node; all counts are totals over all sockets.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Processor {
    /// Product name that the processor or the firmware reports.
    pub model: Option<String>,
    /// Architecture: `x86_64`, `aarch64`, ...
    #[serde(default)]
    pub architecture: Option<String>,
    /// Microarchitecture, e.g. `Zen 4`; `null` if the processor is not in the table.
    pub microarchitecture: Option<String>,
    /// Vendor, family, model and stepping that the processor reports.
    #[serde(default)]
    pub identification: Option<String>,
    /// Number of processor packages.
    pub sockets: u32,
    /// Number of physical cores.
    pub cores: u32,
    /// Number of hardware threads.
    pub threads: u32,
    /// Number of hardware threads per core.
    #[serde(default)]
    pub threads_per_core: u32,
    /// Classes of cores of equal speed, the fastest first; absent if all cores are of one class, or if their speed is
    /// unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub core_classes: Vec<CoreClass>,
    /// Instruction-set extensions that nodegauge uses, e.g. `sse2`, `avx2`, `avx512f`.
    #[serde(default)]
    pub isa: Vec<String>,
    /// True if a regular store that misses the caches is known to read the cache line first (write-allocate). Absent if
    /// the processor may avoid this read, as Intel processors since Ice Lake and Arm processors do, or if the behaviour
    /// is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_allocate: Option<bool>,
    /// Double-precision operations per core and cycle.
    pub flops_per_cycle: Option<u32>,
    /// Derivation of `flops_per_cycle`, e.g. `2 FMA units x 4 lanes x 2`.
    #[serde(default)]
    pub flops_basis: Option<String>,
    /// Double-precision operations per core and cycle of a program without fused multiply-adds; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops_per_cycle_without_fma: Option<u32>,
    /// Single-precision operations per core and cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops_per_cycle_single: Option<u32>,
    /// Lowest clock frequency of the kernel's frequency control, Hz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_hz: Option<Hertz>,
    /// Highest clock frequency of the kernel's frequency control, Hz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hz: Option<Hertz>,
    /// Clock frequency from which the peak is computed, Hz.
    pub hz: Option<Hertz>,
    /// Source of `hz`, e.g. `catalog: base clock`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub hz_basis: Option<ClockBasis>,
    /// Clock frequency measured while every core runs scalar code, Hz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_hz: Option<Hertz>,
}

impl Processor {
    /// Describes the peaks in single precision and without fused multiply-adds, which are
    /// proportional to `peak`, the peak in double precision; `None` if these are unknown.
    pub fn other_peaks_in_words(&self, peak: &TheoreticalValue) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(ratio) = self.ratio_to_peak(self.flops_per_cycle_single) {
            parts.push(format!("{} single precision", FlopsPerSec(peak.value * ratio)));
        }
        if let Some(ratio) = self.ratio_without_fma() {
            parts.push(format!("{} double precision without FMA", FlopsPerSec(peak.value * ratio)));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Returns the ratio of the peak without fused multiply-adds to the peak with them; `None` if it is unknown. Cores
    /// with separate units for additions have a ratio of 1.
    pub fn ratio_without_fma(&self) -> Option<f64> {
        self.ratio_to_peak(self.flops_per_cycle_without_fma)
    }

    /// Returns the ratio of a number of operations per cycle to that of the peak in double precision.
    fn ratio_to_peak(&self, per_cycle: Option<u32>) -> Option<f64> {
        Some(f64::from(per_cycle?) / f64::from(self.flops_per_cycle?))
    }
}

/// Source of a clock frequency; a string in the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ClockBasis {
    /// The clock was measured on this node.
    Measured,
    /// The clock is the base clock from the catalog of processors.
    Catalog,
    /// The clock is the base clock in the name of the processor.
    Name,
    /// The clock is the base clock that the kernel's frequency control reports.
    Kernel,
    /// The source is text that another version of nodegauge wrote.
    Other(String),
}

impl ClockBasis {
    /// Returns the text in records.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Measured => "measured: chain of dependent adds",
            Self::Catalog => "catalog: base clock",
            Self::Name => "processor name: base clock",
            Self::Kernel => "kernel: base clock",
            Self::Other(words) => words,
        }
    }
}

impl From<String> for ClockBasis {
    fn from(words: String) -> Self {
        let known = [Self::Measured, Self::Catalog, Self::Name, Self::Kernel];
        known.into_iter().find(|basis| basis.as_str() == words).unwrap_or(Self::Other(words))
    }
}

impl From<ClockBasis> for String {
    fn from(basis: ClockBasis) -> Self {
        basis.as_str().to_owned()
    }
}

/// Kind of content of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// The cache contains data only.
    Data,
    /// The cache contains instructions only.
    Instruction,
    /// The cache contains data and instructions.
    Unified,
}

impl fmt::Display for CacheKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "data",
            Self::Instruction => "instruction",
            Self::Unified => "unified",
        })
    }
}

impl Cache {
    /// True if the cache contains data, with or without instructions.
    pub fn contains_data(&self) -> bool {
        self.kind != CacheKind::Instruction
    }
}

/// Cores of equal speed, on a node whose cores differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreClass {
    /// Name in `--cores`: `fast`, `slow`, and between them `class2`, `class3`, ...
    pub name: String,
    /// Number of cores.
    pub cores: u32,
    /// Hardware threads of the cores in the class, by their numbers in the operating system.
    pub cpus: Vec<u32>,
    /// Names of the designs, such as `IntelAtom`; empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub designs: Vec<String>,
    /// Lowest and highest capacity that Linux reports; the fastest core has 1024. Absent if
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacities: Option<[u32; 2]>,
    /// Lowest and highest maximum clock, Hz; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clocks: Option<[Hertz; 2]>,
}

/// Caches of one level and kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cache {
    /// Level of the cache: 1, 2, 3, ...
    pub level: u32,
    /// Kind of content: data, instructions, or both.
    #[serde(rename = "type")]
    pub kind: CacheKind,
    /// Size of one cache, bytes; `null` if a description does not contain it.
    pub bytes: Option<u64>,
    /// Number of caches of this level, kind and size on the node.
    pub count: u32,
    /// Number of cores that share one cache; the largest number if it differs between the caches.
    pub cores: u32,
    /// Smallest number of cores that share one of the caches; absent if the number is the same for
    /// all caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_cores: Option<u32>,
    /// Line size in bytes.
    #[serde(default)]
    pub line: Option<u32>,
}

/// A NUMA node of the machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct NumaNode {
    /// Number of the NUMA node in the operating system.
    pub id: u32,
    /// Total memory, bytes; `null` if unknown.
    pub bytes: Option<u64>,
    /// Free memory, bytes.
    #[serde(default)]
    pub free: Option<u64>,
    /// Memory available without swapping, including reclaimable page cache, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<u64>,
    /// Size of the memory-side caches, such as HBM in cache mode, bytes; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// Hardware threads of the NUMA node, by their numbers in the operating system.
    pub cpus: Vec<u32>,
    /// Hardware threads of the NUMA node on which this process may not run because of its cpuset or
    /// affinity mask; on a described machine, the hardware threads that are offline. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unusable_cpus: Vec<u32>,
    /// Kind of the memory as hwloc names it: `DRAM`, `HBM`, `MCDRAM`, `NVM`, `CXL-DRAM`; without a
    /// name, its rank among the kinds of the machine, e.g. `tier 1`. Absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Theoretical bandwidth of memory that the machine's theoretical bandwidth leaves out: memory on the package,
    /// behind CXL, or of a device, B/s; absent for DRAM and if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theoretical: Option<TheoreticalValue>,
    /// PCI address of the device to which the memory belongs; absent for memory of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Relative distances to all NUMA nodes, in NUMA node order, if the kernel reports them.
    #[serde(default)]
    pub distances: Option<Vec<u32>>,
}

/// Main memory of a node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// Installed memory, bytes; in a virtual machine, the memory of the guest.
    pub bytes: Option<u64>,
    /// Memory that a process can allocate now, within the limits of its cgroup and of the process, bytes.
    pub available: Option<u64>,
    /// Lowest cgroup limit, bytes; `null` if there is none.
    #[serde(default)]
    pub cgroup_limit: Option<u64>,
    /// Lowest limit of the memory of a process (`ulimit -v`, `ulimit -d`), bytes; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_limit: Option<u64>,
    /// Swap space in use, bytes.
    #[serde(default)]
    pub swap_used: Option<u64>,
    /// Number of memory channels of all sockets.
    pub channels: Option<u32>,
    /// Transfers per second and channel.
    pub transfers_per_s: Option<TransfersPerSec>,
    /// Technology of the memory: `DDR4`, `DDR5`, ...
    #[serde(default)]
    pub technology: Option<String>,
    /// Installed memory modules that the firmware lists.
    #[serde(default)]
    pub dimms: Vec<Dimm>,
    /// Channels without a module, if the firmware names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub empty_channels: Vec<String>,
    /// Share of the free memory in blocks that the kernel can use as huge pages immediately (2 MiB or more), 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_in_large_blocks: Option<Fraction>,
    /// Theoretical bandwidth: channels x transfers/s x 8 B.
    pub theoretical: Option<TheoreticalValue>,
}

/// An installed memory module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dimm {
    /// Name of the slot, as the firmware reports it.
    pub slot: String,
    /// Size of the module in bytes.
    pub bytes: u64,
    /// Current transfer rate of the module, transfers per second.
    pub transfers_per_s: Option<TransfersPerSec>,
    /// Technology of the module: `DDR5`, ...
    pub technology: Option<String>,
    /// Name of the module's channel; absent if the names of the slots do not identify it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Width of the data bus in bits, e.g. 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_bits: Option<u32>,
    /// Width of the bus in bits including error correction, e.g. 72; equal to `data_bits` without
    /// ECC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bits: Option<u32>,
}

/// A disk of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// Name in the kernel, e.g. `nvme0n1`.
    pub name: String,
    /// Model that the disk reports; `null` if unknown, e.g. for many virtual disks.
    pub model: Option<String>,
    /// Capacity, bytes.
    pub bytes: u64,
    /// True if the kernel treats the disk as rotating; `null` if unknown.
    pub rotational: Option<bool>,
}

/// Sizes of pages, and settings of huge pages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PageSettings {
    /// Size of base pages, bytes.
    pub base: u64,
    /// Transparent huge pages: `always`, `madvise` or `never`; `null` without kernel support.
    pub thp: Option<String>,
    /// Defragmentation setting for transparent huge pages, by the kernel's name.
    pub thp_defrag: Option<String>,
    /// Reserved huge pages, by page size.
    pub huge: Vec<HugePages>,
}

/// Huge pages of one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HugePages {
    /// Size of a huge page, bytes.
    pub bytes: u64,
    /// Number of reserved huge pages of this size.
    pub total: u64,
    /// Number of reserved pages that are free.
    pub free: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_marks_machine_as_imported_or_described() {
        let of = |source: MachineSource| {
            let machine = Machine { source, ..Machine::default() };
            (machine.is_imported(), machine.is_described())
        };
        assert_eq!(of(MachineSource::Import), (true, false));
        assert_eq!(of(MachineSource::Xml), (false, true));
        assert_eq!(of(MachineSource::Synthetic), (false, true));
        assert_eq!(of(Machine::default().source), (false, false));
    }

    #[test]
    fn clock_basis_round_trips_through_text() {
        let known =
            [ClockBasis::Measured, ClockBasis::Catalog, ClockBasis::Name, ClockBasis::Kernel];
        for basis in known {
            assert!(basis.as_str().contains(": "), "{basis:?}");
            assert_eq!(ClockBasis::from(String::from(basis.clone())), basis);
        }
        let other = ClockBasis::Other("another source".to_owned());
        assert_eq!(ClockBasis::from("another source".to_owned()), other);
        assert_eq!(other.as_str(), "another source");
    }
}
