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
use crate::ranks::RankPlan;
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
            "there is no device to place ranks near: none is listed that computes\nhint: see `nodegauge machine`, or describe a machine with devices by --topology FILE.xml",
        ));
    }
    if ranks * each > count && each > 1 || each > count {
        let most = count / each.max(1);
        return Err(PlacementError::new(format!(
            "cannot give {} of {each} devices each: there are {count}\nhint: ask for {}",
            counted(ranks, "rank"),
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

/// Gives each rank of a plan `each` devices: by its number where the plan was made for them, else near to it.
pub(crate) fn give(
    topology: &Topology,
    plan: &mut RankPlan,
    each: u32,
    by_number: bool,
) -> Result<(), PlacementError> {
    let devices: Vec<&PciDevice> = topology.accelerators().collect();
    let shares = share(plan.ranks.len(), each as usize, devices.len())?;
    let mut held: BTreeMap<usize, usize> = BTreeMap::new();
    let is_near = |rank: usize, device: usize| {
        plan.ranks[rank].bound_cpus().and_then(|cpus| devices[device].is_near(&cpus))
    };
    let chosen: Vec<Vec<usize>> = match by_number {
        true => shares,
        false => (0..plan.ranks.len())
            .map(|rank| {
                let mut all: Vec<usize> = (0..devices.len()).collect();
                let held_by = |device: &usize| held.get(device).copied().unwrap_or(0);
                // Every device has as many ranks as another before one is far from its own.
                let room = plan.ranks.len() * each as usize;
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
    if plan.ranks.len() * each as usize > devices.len() {
        let (ranks, count) = (plan.ranks.len(), devices.len());
        notices.push(format!("{ranks} ranks share {}", counted(count, "device")));
    }
    for (rank, devices) in devices_of.iter().enumerate() {
        for device in devices.iter().filter(|device| device.near == Some(false)) {
            notices.push(format!("rank {rank} is far from its device {}", device.address));
        }
    }
    plan.notices.extend(notices);
    plan.devices = devices_of;
    plan.device_count = devices.len();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ranks::{RankMap, RankPlan, RankRequest, plan_ranks};
    use nodegauge_machine::{Topology, TopologySource};

    fn topology(name: &str) -> Topology {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../machine/tests/topologies");
        Topology::load(&TopologySource::Xml(format!("{folder}/{name}.xml").into())).unwrap()
    }

    fn planned(name: &str, request: RankRequest) -> RankPlan {
        plan_ranks(&topology(name), &request).unwrap()
    }

    fn request(ranks: u32, each: u32) -> RankRequest {
        RankRequest { ranks, devices: Some(each), ..RankRequest::default() }
    }

    /// Device, its node and the CPUs of each rank.
    fn table(plan: &RankPlan) -> Vec<(Vec<u32>, Option<u32>, Vec<u32>)> {
        let row = |(rank, devices): (&crate::RankPlace, &Vec<super::RankDevice>)| {
            let cpus = rank.placement.cpus().iter().map(|cpu| cpu.0).collect();
            let numbers = devices.iter().map(|device| device.number).collect();
            (numbers, devices[0].numa_node, cpus)
        };
        plan.ranks.iter().zip(&plan.devices).map(row).collect()
    }

    fn all_near(plan: &RankPlan) -> bool {
        plan.devices.iter().flatten().all(|device| device.near == Some(true))
    }

    #[test]
    fn eight_dies_of_mi250x_have_ranks_on_the_nodes_that_are_near() {
        // Frontier: the first two dies are near the last node, and so on.
        let plan = planned("mi250x", RankRequest { threads: Some(2), ..request(8, 1) });
        assert!(all_near(&plan));
        let row = |device, node, cpus: [u32; 2]| (vec![device], Some(node), cpus.to_vec());
        assert_eq!(
            table(&plan),
            [
                row(0, 3, [12, 13]),
                row(1, 3, [14, 15]),
                row(2, 1, [4, 5]),
                row(3, 1, [6, 7]),
                row(4, 0, [0, 1]),
                row(5, 0, [2, 3]),
                row(6, 2, [8, 9]),
                row(7, 2, [10, 11]),
            ]
        );
        // Ranks that were placed by core keep their cores and get the device that is near.
        let plan = planned(
            "mi250x",
            RankRequest { map: Some(RankMap::Core), threads: Some(2), ..request(8, 1) },
        );
        assert!(all_near(&plan));
        let devices: Vec<u32> = plan.devices.iter().map(|devices| devices[0].number).collect();
        assert_eq!(devices, [4, 5, 2, 3, 6, 7, 0, 1]);
    }

    #[test]
    fn four_a100_in_the_reverse_order_of_the_nodes() {
        let plan = planned("four-a100", request(4, 1));
        let nodes: Vec<_> = table(&plan).into_iter().map(|(_, node, cpus)| (node, cpus)).collect();
        assert_eq!(
            nodes,
            [(Some(3), vec![6]), (Some(2), vec![4]), (Some(1), vec![2]), (Some(0), vec![0])]
        );
        assert!(all_near(&plan));
    }

    #[test]
    fn fewer_ranks_are_spread_and_more_share() {
        let plan = planned("dgx-h100", request(4, 2));
        let numbers: Vec<_> = table(&plan).into_iter().map(|(numbers, ..)| numbers).collect();
        assert_eq!(numbers, [[0, 1], [2, 3], [4, 5], [6, 7]]);
        let plan = planned("dgx-h100", request(2, 1));
        assert_eq!(table(&plan)[1].0, [4]);
        let plan = planned("dgx-h100", request(16, 1));
        assert_eq!(plan.notices, ["16 ranks share 8 devices"]);
        let cpus: std::collections::BTreeSet<_> =
            table(&plan).into_iter().map(|(.., cpus)| cpus).collect();
        assert_eq!((cpus.len(), all_near(&plan)), (16, true));
    }

    #[test]
    fn what_cannot_be_given_is_refused() {
        let refused = |name: &str, request: RankRequest| {
            plan_ranks(&topology(name), &request).unwrap_err().to_string()
        };
        assert!(refused("two-kinds", request(1, 1)).starts_with("there is no device to place"));
        assert_eq!(
            refused("four-a100", request(4, 2)),
            "cannot give 4 ranks of 2 devices each: there are 4\nhint: ask for --ranks 2 or fewer"
        );
        assert!(refused("four-a100", request(1, 5)).ends_with("--devices 4 or fewer"));
    }

    #[test]
    fn a_rank_that_is_far_is_said_to_be() {
        let cpus = "0,1".parse().ok();
        let plan = planned("dgx-h100", RankRequest { cpus, ..request(2, 4) });
        assert_eq!(plan.notices.len(), 4, "{:?}", plan.notices);
        assert!(plan.notices[0].starts_with("rank 1 is far from its device 0000:9d:00.0"));
    }
}
