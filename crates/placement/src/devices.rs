//! Assignment of devices to ranks, and placement of ranks on cores near their devices.
//!
//! The module performs no system calls. Devices are numbered as drivers number them: per vendor, in bus order. If no
//! other option places the ranks, rank r gets the r-th device, because programs usually select the device by the number
//! of the rank on the node. The cores near a device are divided among the ranks whose devices are near the same cores.
//! If other options place the ranks, each rank gets the near device with the fewest ranks.

use crate::bind::Binding;
use crate::cpus;
use crate::error::PlacementError;
use crate::plan::Placement;
use nodegauge_machine::topology::{HardwareThread, PciDevice};
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::quantity::count_in_words;
use serde::Serialize;
use std::collections::BTreeSet;

/// Device that is assigned to a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RankDevice {
    /// Number of the device among the devices of its vendor.
    pub number: u32,
    /// Address of the device on the bus.
    pub address: String,
    /// PCI ID of the vendor.
    #[serde(skip)]
    pub vendor: u16,
    /// Number of the nearest NUMA node.
    pub numa_node: Option<u32>,
    /// True if CPUs of the rank are near the device; `null` if unknown.
    pub near: Option<bool>,
}

/// Returns for each of `ranks` ranks the indices of its devices. Each rank gets `each` of `count` devices. If
/// `each` is 1, several ranks may share a device.
fn share(ranks: usize, each: usize, count: usize) -> Result<Vec<Vec<usize>>, PlacementError> {
    if count == 0 {
        return Err(PlacementError::new(
            "cannot place ranks near devices: the machine has no compute device",
        )
        .hint(
            "see `nodegauge machine`, or describe a machine with devices by --topology FILE.xml",
        ));
    }
    if ranks * each > count && each > 1 || each > count {
        let max = count / each.max(1);
        return Err(PlacementError::new(format!(
            "cannot place {} with {each} devices per rank: {} devices are required; the machine has {count}",
            count_in_words(ranks, "rank"),
            ranks * each,
        ))
        .hint(format!(
            "use {}",
            if max == 0 {
                format!("--devices {count} or fewer")
            } else {
                format!("--ranks {max} or fewer")
            },
        )));
    }
    Ok((0..ranks)
        .map(|rank| {
            // If the numbers do not divide, the last ranks get the last devices.
            let first = (rank * count / ranks).min(count - each);
            (first..first + each).collect()
        })
        .collect())
}

/// Returns the number of devices whose nearest CPUs are `cpus`.
fn count_on(cpus: &[CpuId], devices: &[&PciDevice]) -> usize {
    devices.iter().filter(|device| device.cpus == cpus).count()
}

/// Places ranks of `threads` threads near their devices, with `each` devices per rank.
pub(crate) fn place_near_devices(
    topology: &Topology,
    ranks: u32,
    threads: u32,
    each: u32,
) -> Result<Vec<Placement>, PlacementError> {
    let devices: Vec<&PciDevice> = topology.accelerators().collect();
    let shares = share(ranks as usize, each as usize, devices.len())?;
    let firsts: Vec<&PciDevice> = shares.iter().map(|share| devices[share[0]]).collect();
    let mut used: BTreeSet<CpuId> = BTreeSet::new();
    let placed = firsts.iter().enumerate().map(|(rank, device)| {
        let sharers = count_on(&device.cpus, &firsts);
        let index = count_on(&device.cpus, &firsts[..rank]);
        let near_device =
            |thread: &&HardwareThread| device.cpus.is_empty() || device.cpus.contains(&thread.cpu);
        let near: Vec<&HardwareThread> = topology.allowed_threads().filter(near_device).collect();
        let mut cores: Vec<usize> = near.iter().map(|thread| thread.core).collect();
        cores.dedup();
        let own = &cores[index * cores.len() / sharers..(index + 1) * cores.len() / sharers];
        // The order is: the rank's own cores, with first hardware threads before second ones; other near cores; all
        // other cores.
        let mut order: Vec<(bool, bool, u32, usize, CpuId)> = topology
            .allowed_threads()
            .enumerate()
            .map(|(at, thread)| {
                let is_near = near.iter().any(|near| near.cpu == thread.cpu);
                (!own.contains(&thread.core), !is_near, thread.index_in_core, at, thread.cpu)
            })
            .filter(|(.., cpu)| !used.contains(cpu))
            .collect();
        order.sort_unstable();
        let taken = order.into_iter().map(|(.., cpu)| cpu).take(threads as usize);
        let taken: Vec<CpuId> = cpus::sort_and_deduplicate(taken);
        used.extend(&taken);
        Placement::new(
            Binding::Close,
            "near devices",
            taken.into_iter().map(|cpu| vec![cpu]).collect(),
        )
    });
    Ok(placed.collect())
}

/// Returns for each rank the indices of its devices. Devices that have less than an equal share of the ranks are
/// preferred, and among these, devices near the rank's CPUs.
fn nearest(devices: &[&PciDevice], ranks: &[Option<Vec<CpuId>>], each: usize) -> Vec<Vec<usize>> {
    // An equal number of ranks per device has priority over the distance.
    let share = (ranks.len() * each).div_ceil(devices.len());
    let mut held = vec![0_usize; devices.len()];
    let mut chosen = Vec::new();
    for cpus in ranks {
        let mut candidates: Vec<usize> = (0..devices.len()).collect();
        candidates.sort_by_key(|at| {
            let is_far = cpus.as_ref().and_then(|cpus| devices[*at].is_near(cpus)) == Some(false);
            (held[*at] >= share, is_far, held[*at], *at)
        });
        candidates.truncate(each);
        candidates.sort_unstable();
        for at in &candidates {
            held[*at] += 1;
        }
        chosen.push(candidates);
    }
    chosen
}

impl RankDevice {
    /// Describes the device at index `at` for a rank that is bound to `cpus`.
    fn new(devices: &[&PciDevice], at: usize, cpus: Option<&[CpuId]>) -> Self {
        let device = devices[at];
        let same_vendor = devices[..at].iter().filter(|other| other.vendor == device.vendor);
        Self {
            number: same_vendor.count() as u32,
            address: device.address.clone(),
            vendor: device.vendor,
            numa_node: device.node.map(|node| node.0),
            near: cpus.and_then(|cpus| device.is_near(cpus)),
        }
    }
}

/// Returns the devices of ranks that are bound to these CPUs, with `each` devices per rank, and notices. With
/// `by_number`, devices are assigned in the order of rank numbers. Otherwise each rank gets devices near its CPUs.
pub(crate) fn assign(
    topology: &Topology,
    ranks: &[Option<Vec<CpuId>>],
    each: u32,
    by_number: bool,
) -> Result<(Vec<Vec<RankDevice>>, Vec<String>), PlacementError> {
    let devices: Vec<&PciDevice> = topology.accelerators().collect();
    let shares = share(ranks.len(), each as usize, devices.len())?;
    let chosen = if by_number { shares } else { nearest(&devices, ranks, each as usize) };
    let mut devices_of = Vec::new();
    for (cpus, indices) in ranks.iter().zip(&chosen) {
        let own = indices.iter().map(|at| RankDevice::new(&devices, *at, cpus.as_deref()));
        devices_of.push(own.collect::<Vec<_>>());
    }
    let mut notices = Vec::new();
    if ranks.len() * each as usize > devices.len() {
        notices.push(format!(
            "{} ranks share {}",
            ranks.len(),
            count_in_words(devices.len(), "device")
        ));
    }
    for (rank, own) in devices_of.iter().enumerate() {
        for device in own.iter().filter(|device| device.near == Some(false)) {
            notices.push(format!("rank {rank} is far from its device {}", device.address));
        }
    }
    Ok((devices_of, notices))
}
