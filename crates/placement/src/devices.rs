//! Ranks that each have devices: which, and the cores near to them.
//!
//! Pure. Devices are numbered as drivers do, those of a maker in the order of the bus. Where nothing else says
//! where ranks go, rank r has the r-th device, as programs expect that choose by their number on the node; the
//! cores near to a device are shared out among the ranks whose devices are near to the same cores. Ranks
//! that were placed otherwise each get the device near to them that fewest ranks have.

use crate::bind::Bind;
use crate::cpus;
use crate::error::PlacementError;
use crate::plan::Placement;
use nodegauge_machine::topology::{HardwareThread, PciDevice};
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::quantity::counted;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A device of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RankDevice {
    /// Its number among those of its maker.
    pub number: u32,
    /// Its place on the bus.
    pub address: String,
    /// Number of its maker.
    #[serde(skip)]
    pub vendor: u16,
    /// The NUMA node that it is near to.
    pub numa_node: Option<u32>,
    /// Whether CPUs of the rank are near to it; `null` where that is not known.
    pub near: Option<bool>,
}

/// The devices that each of `ranks` has when each has `each` of `count`: as many ranks as there are devices for, or
/// several that share one.
fn share(ranks: usize, each: usize, count: usize) -> Result<Vec<Vec<usize>>, PlacementError> {
    if count == 0 {
        return Err(PlacementError::new(
            "there is no device to place ranks near: none is listed that computes",
        )
        .hint(
            "see `nodegauge machine`, or describe a machine with devices by --topology FILE.xml",
        ));
    }
    if ranks * each > count && each > 1 || each > count {
        let most = count / each.max(1);
        return Err(PlacementError::new(format!(
            "cannot give {} of {each} devices each: there are {count}",
            counted(ranks, "rank"),
        ))
        .hint(format!(
            "ask for {}",
            if most == 0 {
                format!("--devices {count} or fewer")
            } else {
                format!("--ranks {most} or fewer")
            },
        )));
    }
    Ok((0..ranks)
        .map(|rank| rank * count / ranks)
        .map(|first| {
            // The last ranks of a number that does not divide that of the devices end with the last device.
            let first = first.min(count - each);
            (first..first + each).collect()
        })
        .collect())
}

/// Where ranks of `threads` threads go that have `each` devices and no other order; by rank its threads' CPUs.
pub(crate) fn place(
    topology: &Topology,
    (ranks, threads, each): (u32, u32, u32),
) -> Result<Vec<Placement>, PlacementError> {
    let devices: Vec<&PciDevice> = topology.accelerators().collect();
    let shares = share(ranks as usize, each as usize, devices.len())?;
    let firsts: Vec<&PciDevice> = shares.iter().map(|share| devices[share[0]]).collect();
    let mut used: BTreeSet<CpuId> = BTreeSet::new();
    let placed = firsts.iter().enumerate().map(|(rank, device)| {
        let alike = |other: &&&PciDevice| other.cpus == device.cpus;
        let (of, at) =
            (firsts.iter().filter(alike).count(), firsts[..rank].iter().filter(alike).count());
        let near =
            |thread: &&HardwareThread| device.cpus.is_empty() || device.cpus.contains(&thread.cpu);
        let near: Vec<&HardwareThread> = topology.allowed().filter(near).collect();
        let mut cores: Vec<usize> = near.iter().map(|thread| thread.core).collect();
        cores.dedup();
        let own = &cores[at * cores.len() / of..(at + 1) * cores.len() / of];
        // Its own cores, each core before its siblings; then what is near; then what is left.
        let mut order: Vec<(bool, bool, u32, usize, CpuId)> = topology
            .allowed()
            .enumerate()
            .map(|(at, thread)| {
                let is_near = near.iter().any(|near| near.cpu == thread.cpu);
                (!own.contains(&thread.core), !is_near, thread.sibling, at, thread.cpu)
            })
            .filter(|(.., cpu)| !used.contains(cpu))
            .collect();
        order.sort_unstable();
        let taken = order.into_iter().map(|(.., cpu)| cpu).take(threads as usize);
        let taken: Vec<CpuId> = cpus::sorted(taken);
        used.extend(&taken);
        Placement::new(
            Bind::Close,
            "near devices",
            taken.into_iter().map(|cpu| vec![cpu]).collect(),
        )
    });
    Ok(placed.collect())
}

/// The devices of ranks that are bound to these CPUs, `each` of them, and what the user should know: by the ranks'
/// numbers where they were placed for them, else near to them.
pub(crate) fn give(
    topology: &Topology,
    ranks: &[Option<Vec<CpuId>>],
    each: u32,
    by_number: bool,
) -> Result<(Vec<Vec<RankDevice>>, Vec<String>), PlacementError> {
    let devices: Vec<&PciDevice> = topology.accelerators().collect();
    let shares = share(ranks.len(), each as usize, devices.len())?;
    let mut held: BTreeMap<usize, usize> = BTreeMap::new();
    let is_near = |rank: usize, device: usize| {
        ranks[rank].as_ref().and_then(|cpus| devices[device].is_near(cpus))
    };
    let chosen: Vec<Vec<usize>> = match by_number {
        true => shares,
        false => (0..ranks.len())
            .map(|rank| {
                let mut all: Vec<usize> = (0..devices.len()).collect();
                let held_by = |device: &usize| held.get(device).copied().unwrap_or(0);
                // Every device has as many ranks as another before one is far from its own.
                let room = ranks.len() * each as usize;
                let full = |device: &usize| held_by(device) >= room.div_ceil(devices.len());
                all.sort_by_key(|device| {
                    (full(device), is_near(rank, *device) == Some(false), held_by(device), *device)
                });
                all.truncate(each as usize);
                all.sort_unstable();
                all.iter().for_each(|device| *held.entry(*device).or_default() += 1);
                all
            })
            .collect(),
    };
    let number = |at: usize| {
        let maker = devices[at].vendor;
        devices[..at].iter().filter(|device| device.vendor == maker).count() as u32
    };
    let given = |(rank, chosen): (usize, &Vec<usize>)| -> Vec<RankDevice> {
        let device = |at: &usize| RankDevice {
            number: number(*at),
            address: devices[*at].address.clone(),
            vendor: devices[*at].vendor,
            numa_node: devices[*at].node.map(|node| node.0),
            near: is_near(rank, *at),
        };
        chosen.iter().map(device).collect()
    };
    let devices_of: Vec<Vec<RankDevice>> = chosen.iter().enumerate().map(given).collect();
    let mut notices = Vec::new();
    if ranks.len() * each as usize > devices.len() {
        let (all, count) = (ranks.len(), devices.len());
        notices.push(format!("{all} ranks share {}", counted(count, "device")));
    }
    for (rank, devices) in devices_of.iter().enumerate() {
        for device in devices.iter().filter(|device| device.near == Some(false)) {
            notices.push(format!("rank {rank} is far from its device {}", device.address));
        }
    }
    Ok((devices_of, notices))
}
