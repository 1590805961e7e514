//! Memory modules, channels, and the theoretical bandwidth. The source is the user's option (`--dimms 16x3200`),
//! otherwise firmware (SMBIOS type 17), otherwise the catalog's entry for the processor. Without any of these
//! sources, the theoretical bandwidth is unknown.
//!
//! Firmware lists slots, not channels; the basis of the bandwidth states how channels were counted. The module list in
//! the SMBIOS tables of a hypervisor is ignored, because it does not describe real modules.

use crate::catalog::SocketMemory;
use crate::memory::is_known_not_dram;
use crate::root::SysRoot;
use crate::topology::Topology;
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::record::{Dimm, Machine, Memory, NumaNode, TheoreticalValue};
use nodegauge_measure::{Bytes, SyntaxError, TransfersPerSec, quantity};
use smbioslib::{
    MemoryDeviceTechnology, MemoryDeviceType, MemorySize, MemorySizeExtended, MemorySpeed,
    MemorySpeedExtended, SMBiosData, SMBiosMemoryDevice, SMBiosString,
};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Number of bytes per transfer of a DDR channel.
const CHANNEL_BYTES: u32 = 8;

/// Accepted transfer rates in MT/s, from DDR-200 to beyond MRDIMM. These limits also detect swapped numbers such as
/// `3200x16`.
const MTS: std::ops::RangeInclusive<u64> = 200..=20_000;

/// Maximum number of modules per channel on any board. If the slot names suggest more modules per channel, the names
/// were misinterpreted.
const MODULES_PER_CHANNEL: usize = 3;

/// Populated channels and their speed, as the user types them: `16x3200` means sixteen channels at 3200 MT/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DimmSpec {
    /// Number of populated channels of all sockets.
    pub channels: u32,
    /// Speed in million transfers per second.
    pub mt_per_s: u32,
}

impl FromStr for DimmSpec {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("dimms", "--dimms 16x3200 (channels x MT/s)", text);
        let channels = cursor.number("expected the number of populated channels")?;
        let channels = u32::try_from(channels)
            .ok()
            .filter(|count| (1..=1024).contains(count))
            .ok_or_else(|| cursor.error_at(0, "expected 1 to 1024 channels"))?;
        cursor.expect('x', "expected 'x' after the number of channels")?;
        let at = cursor.position();
        let mt_per_s = cursor.number("expected the speed of the modules in MT/s")?;
        let mt_per_s = u32::try_from(mt_per_s)
            .ok()
            .filter(|_| MTS.contains(&mt_per_s))
            .ok_or_else(|| cursor.error_at(at, "expected 200 to 20000 MT/s"))?;
        cursor.finish("expected nothing after the MT/s")?;
        Ok(Self { channels, mt_per_s })
    }
}

impl fmt::Display for DimmSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.channels, self.mt_per_s)
    }
}

/// Memory modules that the firmware lists.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MemoryModules {
    /// Populated slots, in the order of the firmware's list.
    pub dimms: Vec<Dimm>,
    /// Number of populated channels.
    pub channels: u32,
    /// Method by which the channels were counted, as text.
    pub basis: &'static str,
    /// Number of bytes per transfer of a channel.
    pub channel_bytes: u32,
    /// Transfers per second of all channels, which is the speed of the slowest module.
    pub transfers_per_s: Option<TransfersPerSec>,
    /// Memory technology, e.g. `DDR5`; `None` if the modules differ.
    pub technology: Option<String>,
    /// Channels whose slots are all empty, in the order of the firmware's list; empty if the names of the slots do
    /// not identify channels.
    pub empty_channels: Vec<String>,
}

/// Reads the modules from the firmware's table, which only root can read. Returns `None` if the table cannot be read or
/// lists no modules.
pub fn modules(root: &SysRoot) -> Option<MemoryModules> {
    parse(root.bytes("sys/firmware/dmi/tables/DMI")?)
}

/// Names of a slot in the firmware's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModuleLocator {
    /// Device locator, e.g. `DIMM_A1`.
    pub(crate) slot: String,
    /// Bank locator, e.g. `P0 CHANNEL A`.
    pub(crate) bank: String,
}

/// Returns the names of all populated slots; empty if the firmware's table cannot be read.
pub(crate) fn locators(root: &SysRoot) -> Vec<ModuleLocator> {
    let table = root.bytes("sys/firmware/dmi/tables/DMI").unwrap_or_default();
    let data = SMBiosData::from_vec_and_version(table, None);
    let slots = data.defined_struct_iter::<SMBiosMemoryDevice<'_>>().filter_map(|d| slot(&d));
    slots.map(|slot| slot.locator).collect()
}

/// Populated slot in the firmware's list.
struct DimmSlot {
    dimm: Dimm,
    locator: ModuleLocator,
}

/// Parses the modules of an SMBIOS structure table.
pub fn parse(table: Vec<u8>) -> Option<MemoryModules> {
    let data = SMBiosData::from_vec_and_version(table, None);
    let devices: Vec<SMBiosMemoryDevice<'_>> = data.defined_struct_iter().collect();
    let mut slots: Vec<DimmSlot> = devices.iter().filter_map(slot).collect();
    if slots.is_empty() {
        return None;
    }
    let empty: Vec<ModuleLocator> =
        devices.iter().filter(|device| is_empty(device)).map(locator).collect();
    let counted = count_channels(&mut slots, &empty);
    let first = slots.first().and_then(|slot| slot.dimm.technology.clone());
    let uniform = slots.iter().all(|slot| slot.dimm.technology == first);
    let speeds: Option<Vec<TransfersPerSec>> =
        slots.iter().map(|slot| slot.dimm.transfers_per_s).collect();
    let bits = slots.iter().filter_map(|slot| slot.dimm.data_bits).max();
    Some(MemoryModules {
        channels: counted.channels,
        basis: counted.basis,
        channel_bytes: bits.map_or(CHANNEL_BYTES, |bits| bits / 8),
        transfers_per_s: speeds
            .and_then(|speeds| speeds.into_iter().min_by(TransfersPerSec::total_cmp))
            .filter(|_| uniform),
        technology: first.filter(|_| uniform),
        empty_channels: counted.empty,
        dimms: slots.into_iter().map(|slot| slot.dimm).collect(),
    })
}

/// True if the firmware reports a slot without a module.
fn is_empty(device: &SMBiosMemoryDevice<'_>) -> bool {
    matches!(device.size(), Some(MemorySize::NotInstalled))
}

/// Returns the names of a slot.
fn locator(device: &SMBiosMemoryDevice<'_>) -> ModuleLocator {
    ModuleLocator { slot: text(&device.device_locator()), bank: text(&device.bank_locator()) }
}

/// Returns the description of a populated slot; `None` if the slot is empty or does not contain main memory.
fn slot(device: &SMBiosMemoryDevice<'_>) -> Option<DimmSlot> {
    let bytes = match device.size()? {
        MemorySize::NotInstalled | MemorySize::Unknown => return None,
        MemorySize::Kilobytes(kib) => u64::from(kib) << 10,
        MemorySize::Megabytes(mib) => u64::from(mib) << 20,
        MemorySize::SeeExtendedSize => match device.extended_size()? {
            MemorySizeExtended::Megabytes(mib) => u64::from(mib) << 20,
            MemorySizeExtended::SeeSize => return None,
        },
    };
    let persistent = device.memory_technology().is_some_and(|technology| {
        matches!(
            technology.value,
            MemoryDeviceTechnology::NvdimmF
                | MemoryDeviceTechnology::NvdimmP
                | MemoryDeviceTechnology::IntelOptaneDcPersistentMemory
        )
    });
    let kind = device.memory_type()?.value;
    if persistent || !is_main_memory(&kind) {
        return None;
    }
    let configured = match device.configured_memory_speed() {
        Some(MemorySpeed::SeeExtendedSpeed) => match device.extended_configured_memory_speed() {
            Some(MemorySpeedExtended::MTs(mts)) => Some(mts),
            Some(MemorySpeedExtended::SeeSpeed) | None => None,
        },
        Some(MemorySpeed::MTs(mts)) => Some(u32::from(mts)),
        Some(MemorySpeed::Unknown) | None => None,
    };
    let locator = locator(device);
    let data_bits = device.data_width().filter(|bits| (8..=512).contains(bits)).map(u32::from);
    let total_bits = device.total_width().map(u32::from);
    Some(DimmSlot {
        dimm: Dimm {
            slot: locator.slot.clone(),
            bytes,
            transfers_per_s: configured.map(|mts| TransfersPerSec(f64::from(mts) * 1e6)),
            technology: technology(&kind),
            channel: None,
            data_bits,
            total_bits: total_bits.filter(|total| data_bits.is_some_and(|data| *total >= data)),
        },
        locator,
    })
}

fn text(string: &SMBiosString) -> String {
    string.to_utf8_lossy().map_or_else(String::new, |text| text.trim().to_owned())
}

fn is_main_memory(kind: &MemoryDeviceType) -> bool {
    !matches!(
        kind,
        MemoryDeviceType::Rom
            | MemoryDeviceType::Flash
            | MemoryDeviceType::Eeprom
            | MemoryDeviceType::Feprom
            | MemoryDeviceType::Eprom
            | MemoryDeviceType::Vram
            | MemoryDeviceType::LogicalNonVolatileDevice
    )
}

fn technology(kind: &MemoryDeviceType) -> Option<String> {
    let name = match kind {
        MemoryDeviceType::Ddr => "DDR",
        MemoryDeviceType::Ddr2 | MemoryDeviceType::Ddr2Fbdimm => "DDR2",
        MemoryDeviceType::Ddr3 => "DDR3",
        MemoryDeviceType::Ddr4 => "DDR4",
        MemoryDeviceType::Ddr5 => "DDR5",
        MemoryDeviceType::Mrdimm => "MRDIMM",
        MemoryDeviceType::Lpddr4 => "LPDDR4",
        MemoryDeviceType::Lpddr5 => "LPDDR5",
        MemoryDeviceType::Hbm => "HBM",
        MemoryDeviceType::Hbm2 => "HBM2",
        MemoryDeviceType::Hbm3 => "HBM3",
        _ => return None,
    };
    Some(name.to_owned())
}

/// Text for a channel count that is assumed, because the names of the slots do not identify the channels.
const ASSUMED: &str = "one module per channel assumed";

/// Function that returns the name of the channel to which a slot belongs; `None` if the names of the slot have
/// another form.
type Scheme = fn(&ModuleLocator) -> Option<String>;

/// Number of memory channels in a list of slots, with the method of counting.
struct ChannelCount {
    /// Number of channels with a module.
    channels: u32,
    /// Method by which the channels were counted, as text.
    basis: &'static str,
    /// Names of the channels without a module.
    empty: Vec<String>,
}

/// Counts the channels of populated slots. If the names of all slots have the same known form, they identify the
/// channels: each module gets the name of its channel, and the result lists the channels all of whose slots are in
/// `empty`. Otherwise one module per channel is assumed, and the returned basis states this.
fn count_channels(slots: &mut [DimmSlot], empty: &[ModuleLocator]) -> ChannelCount {
    let schemes: [(Scheme, &'static str); 2] =
        [(channel_in_bank, "channels by bank locator"), (channel_in_slot, "channels by slot name")];
    for (scheme, basis) in schemes {
        let named: Option<Vec<String>> = slots.iter().map(|slot| scheme(&slot.locator)).collect();
        let Some(named) = named else { continue };
        let mut modules: BTreeMap<&str, usize> = BTreeMap::new();
        for name in &named {
            *modules.entry(name).or_default() += 1;
        }
        if modules.values().any(|count| *count > MODULES_PER_CHANNEL) {
            continue;
        }
        let mut without: Vec<String> = Vec::new();
        for name in empty.iter().filter_map(scheme) {
            if !modules.contains_key(name.as_str()) && !without.contains(&name) {
                without.push(name);
            }
        }
        let channels = modules.len() as u32;
        for (slot, name) in slots.iter_mut().zip(named) {
            slot.dimm.channel = Some(name);
        }
        return ChannelCount { channels, basis, empty: without };
    }
    ChannelCount { channels: slots.len() as u32, basis: ASSUMED, empty: Vec::new() }
}

/// Returns the channel in a bank or slot name such as `P0 CHANNEL A` or `NODE 1 CHANNEL 2 DIMM 0`.
fn channel_in_bank(locator: &ModuleLocator) -> Option<String> {
    [&locator.bank, &locator.slot].into_iter().find_map(|name| {
        let upper = name.to_ascii_uppercase();
        let word = upper.find("CHANNEL")? + "CHANNEL".len();
        let rest = &name[word..];
        let id = rest.trim_start_matches([' ', '_', '-']);
        let length = id.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(id.len());
        let end = word + (rest.len() - id.len()) + length;
        (length > 0).then(|| name[..end].to_owned())
    })
}

/// Returns the channel in a slot name that ends with a letter for the channel and a digit for the slot of this
/// channel, e.g. `CPU1_DIMM_A2`, `P1-DIMMA1` or `PROC 1 DIMM_B1`.
fn channel_in_slot(locator: &ModuleLocator) -> Option<String> {
    let name = locator.slot.to_uppercase();
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[head.len()..];
    // If the number exceeds three, the letter denotes the socket (`A1` to `A16`).
    let place: usize = digits.parse().ok()?;
    let letter = head.chars().next_back().filter(char::is_ascii_uppercase)?;
    let before = &head[..head.len() - letter.len_utf8()];
    let marked = before.ends_with(['_', '-', ' ']) || before.ends_with("DIMM");
    (place <= MODULES_PER_CHANNEL && marked && before.contains("DIMM"))
        .then(|| format!("{before}{letter}"))
}

/// Modules of one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelModules<'a> {
    /// Name of the channel.
    pub channel: &'a str,
    /// Number of modules.
    pub modules: usize,
    /// Capacity of all modules of the channel, bytes.
    pub bytes: u64,
}

/// Groups modules by channel, in the order of the firmware's list; empty if the channel of a module is unknown.
pub fn group_by_channel(dimms: &[Dimm]) -> Vec<ChannelModules<'_>> {
    let mut channels: Vec<ChannelModules<'_>> = Vec::new();
    for dimm in dimms {
        let Some(name) = dimm.channel.as_deref() else { return Vec::new() };
        match channels.iter_mut().find(|known| known.channel == name) {
            Some(known) => {
                known.modules += 1;
                known.bytes += dimm.bytes;
            }
            None => {
                channels.push(ChannelModules { channel: name, modules: 1, bytes: dimm.bytes });
            }
        }
    }
    channels
}

/// Describes what else limits the theoretical bandwidth of these modules: several modules per channel, channels of
/// different capacities, empty channels.
fn population(modules: &MemoryModules) -> String {
    let channels = group_by_channel(&modules.dimms);
    let counts = channels.iter().map(|channel| channel.modules);
    let capacities = channels.iter().map(|channel| channel.bytes);
    let mut text = String::new();
    if let (Some(min), Some(max)) = (counts.clone().min(), counts.max())
        && max > 1
    {
        let range = if min == max { max.to_string() } else { format!("{min} to {max}") };
        text += &format!(", {range} modules per channel");
    }
    if let (Some(min), Some(max)) = (capacities.clone().min(), capacities.max())
        && min < max
    {
        text += &format!(", {} to {} per channel", Bytes(min), Bytes(max));
    }
    if !modules.empty_channels.is_empty() {
        text += &format!(", {} empty", modules.empty_channels.len());
    }
    text
}

/// Assumption about the channels of a processor in the catalog.
pub(crate) const EVERY_CHANNEL: &str = "every channel populated";

/// Determines the channels, the speed and the theoretical bandwidth of a node's memory from the first available
/// source: the option, the firmware, or the catalog entry of the processor. In a `guest`, the value of the catalog
/// is an upper bound, and `sockets` must be the result of [`max_guest_sockets`].
pub fn describe_memory(
    option: Option<DimmSpec>,
    firmware: Option<&MemoryModules>,
    catalog: Option<(&SocketMemory, &str)>,
    sockets: u32,
    guest: bool,
) -> Memory {
    let by_firmware = firmware.and_then(|modules| Some((modules, modules.transfers_per_s?)));
    let (channels, bytes, transfers, technology, basis, detail);
    let mut at_most = false;
    if let Some(spec) = option {
        let all = possible_sockets(sockets, guest);
        let known = catalog.map(|(memory, of)| (memory.channels * all, of));
        // If there are more modules than any board has, the catalog's entry does not describe this machine.
        let is_of_modules =
            |max: u32| (max + 1..=max * MODULES_PER_CHANNEL as u32).contains(&spec.channels);
        let exceeded = known.filter(|(max, _)| is_of_modules(*max));
        (channels, bytes) = (exceeded.map_or(spec.channels, |(max, _)| max), CHANNEL_BYTES);
        transfers = TransfersPerSec(f64::from(spec.mt_per_s) * 1e6);
        technology = firmware.and_then(|modules| modules.technology.clone());
        basis = "option";
        let limited = exceeded.map_or_else(String::new, |(max, of)| {
            format!("; a node with {of} has {max} channels, so the given number counts modules")
        });
        detail = format!(
            "{} x {} MT/s x {bytes} B, from --dimms {spec}{limited}",
            quantity::count_in_words(channels as usize, "channel"),
            spec.mt_per_s
        );
    } else if let Some((modules, speed)) = by_firmware {
        let counted;
        (channels, counted) = populated(modules, catalog.map(|(memory, _)| memory), sockets);
        (bytes, transfers) = (modules.channel_bytes, speed);
        technology = modules.technology.clone();
        basis = "DMI";
        let population = population(modules);
        let all = quantity::count_in_words(channels as usize, "channel");
        detail = format!("{all} x {speed} x {bytes} B ({counted}{population})");
    } else if let Some((memory, of)) = catalog {
        let part = match (guest, sockets) {
            (false, _) => EVERY_CHANNEL,
            (true, 1) => "one whole socket, of which the guest has only a part",
            (true, _) => "whole sockets, of which the guest has only a part",
        };
        at_most = guest || memory.at_most;
        let note = memory.note.as_ref().map_or_else(String::new, |note| format!("; {note}"));
        channels = memory.channels * sockets;
        (bytes, transfers) = (memory.channel_bytes, memory.transfers_per_s);
        technology = Some(memory.technology.clone());
        basis = "catalog";
        detail = format!(
            "catalog: {of}, {sockets} x {} channels of {}-{:.0}, {part}{note}",
            memory.channels,
            memory.technology,
            transfers.0 / 1e6
        );
    } else {
        return Memory::default();
    }
    Memory {
        channels: Some(channels),
        transfers_per_s: Some(transfers),
        technology,
        theoretical: Some(TheoreticalValue {
            value: f64::from(channels) * transfers.0 * f64::from(bytes),
            basis: basis.to_owned(),
            detail: Some(detail),
            at_most,
        }),
        ..Memory::default()
    }
}

/// Returns the number of sockets whose memory a guest may use. It is one if the hypervisor reports one socket per
/// core, as many do, or fewer NUMA nodes with CPUs than sockets.
pub fn max_guest_sockets(topology: &Topology) -> u32 {
    let sockets = topology.sockets.len();
    let nodes = topology.host_numa_nodes().filter(|node| !node.cpus.is_empty()).count();
    if topology.cores.len() <= sockets { 1 } else { sockets.min(nodes).max(1) as u32 }
}

/// Returns the largest number of sockets whose channels a user may have counted. A guest may see only one socket of
/// a node with two sockets.
fn possible_sockets(sockets: u32, guest: bool) -> u32 {
    if guest { sockets.max(2) } else { sockets.max(1) }
}

/// Returns the theoretical bandwidth of the NUMA nodes in `holding`, which contain the data; `None` if it is unknown.
/// NUMA nodes whose memory is not DRAM have their own bandwidth. The bandwidth of the whole machine is returned if
/// the NUMA nodes are unknown, if they have no cores (memory behind a link), or if a hypervisor reports them.
pub fn node_bandwidth(machine: &Machine, holding: &[u32]) -> Option<TheoreticalValue> {
    let of_data = machine.numa_nodes.iter().filter(|node| holding.contains(&node.id));
    let others: Vec<&NumaNode> = of_data.filter(|node| has_own_bandwidth(node)).collect();
    if !others.is_empty() {
        return own_bandwidth(machine, holding, &others);
    }
    dram_bandwidth(machine, holding)
}

/// True if the memory of a NUMA node is not behind the channels of the processors.
fn has_own_bandwidth(node: &NumaNode) -> bool {
    node.theoretical.is_some() || is_known_not_dram(node)
}

/// Returns the theoretical bandwidth of the NUMA nodes in `holding`. The NUMA nodes in `others` have their own
/// bandwidth; the remaining ones have DRAM.
fn own_bandwidth(
    machine: &Machine,
    holding: &[u32],
    others: &[&NumaNode],
) -> Option<TheoreticalValue> {
    let mut parts = Vec::new();
    for node in others {
        parts.push(node.theoretical.clone()?);
    }
    let dram: Vec<u32> =
        holding.iter().copied().filter(|id| others.iter().all(|node| node.id != *id)).collect();
    if !dram.is_empty() {
        parts.push(dram_bandwidth(machine, &dram)?);
    }
    let mut figure = parts.pop()?;
    for part in parts {
        // The limit does not depend on how the data are distributed over kinds of memory.
        figure.at_most |= part.at_most || part.basis != figure.basis;
        figure.value += part.value;
        if part.basis != figure.basis {
            figure.basis = format!("{} + {}", part.basis, figure.basis);
        }
        figure.detail = None;
    }
    Some(figure)
}

/// Returns the theoretical bandwidth of NUMA nodes with DRAM.
fn dram_bandwidth(machine: &Machine, holding: &[u32]) -> Option<TheoreticalValue> {
    let mut figure = machine.memory.theoretical.clone()?;
    let nodes = machine.numa_nodes.iter().filter(|node| !node.cpus.is_empty());
    let nodes: Vec<_> = nodes.filter(|node| node.bytes != Some(0)).collect();
    let all = nodes.len() as u32;
    let some = holding.len() as u32;
    let known = holding.iter().all(|id| nodes.iter().any(|node| node.id == *id));
    let whole = some == 0 || some >= all || !known || machine.virtualisation.is_some();
    let Some(channels) = machine.memory.channels.filter(|_| !whole) else { return Some(figure) };
    // If the channels cannot be divided evenly among the nodes, the larger number per node is assumed.
    let part = (channels.div_ceil(all) * some).min(channels);
    figure.value *= f64::from(part) / f64::from(channels);
    figure.at_most |= !channels.is_multiple_of(all);
    figure.basis += &format!(", {some} of {all} NUMA nodes");
    figure.detail = None;
    Some(figure)
}

/// Returns the number of populated channels, and the method by which they were counted. If one module per channel
/// was assumed, the number is at most the number of channels of the processors.
fn populated(
    modules: &MemoryModules,
    catalog: Option<&SocketMemory>,
    sockets: u32,
) -> (u32, &'static str) {
    match catalog.map(|memory| memory.channels * sockets) {
        Some(max) if modules.basis == ASSUMED && modules.channels > max => {
            (max, "more modules than channels, every channel assumed to be populated")
        }
        _ => (modules.channels, modules.basis),
    }
}

#[cfg(test)]
mod tests;
