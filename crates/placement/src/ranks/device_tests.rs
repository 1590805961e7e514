use super::{RankMap, RankPlan, RankRequest, plan_ranks};
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

/// Returns for each rank the numbers of its devices, the NUMA node of the first device, and the CPUs.
fn table(plan: &RankPlan) -> Vec<(Vec<u32>, Option<u32>, Vec<u32>)> {
    let row = |(rank, devices): (&crate::RankPlace, &Vec<crate::RankDevice>)| {
        let cpus = rank.placement.cpus().iter().map(|cpu| cpu.0).collect();
        let numbers = devices.iter().map(|device| device.number).collect();
        (numbers, devices[0].numa_node, cpus)
    };
    plan.ranks.iter().zip(&plan.devices).map(row).collect()
}

fn are_all_near(plan: &RankPlan) -> bool {
    plan.devices.iter().flatten().all(|device| device.near == Some(true))
}

#[test]
fn ranks_of_eight_mi250x_dies_are_near_devices() {
    // On Frontier, the first two dies are near the last node, and so on.
    let plan = planned("mi250x", RankRequest { threads: Some(2), ..request(8, 1) });
    assert!(are_all_near(&plan));
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
    // Ranks that the map `core` has placed keep their cores and get the near device.
    let two_nodes = planned(
        "mi250x",
        RankRequest { map: Some(RankMap::Core), threads: Some(2), ..request(8, 1) },
    );
    assert!(are_all_near(&two_nodes));
    let devices: Vec<u32> = two_nodes.devices.iter().map(|devices| devices[0].number).collect();
    assert_eq!(devices, [4, 5, 2, 3, 6, 7, 0, 1]);
}

#[test]
fn ranks_of_four_a100_are_near_devices() {
    let plan = planned("four-a100", request(4, 1));
    let nodes: Vec<_> = table(&plan).into_iter().map(|(_, node, cpus)| (node, cpus)).collect();
    assert_eq!(
        nodes,
        [(Some(3), vec![6]), (Some(2), vec![4]), (Some(1), vec![2]), (Some(0), vec![0])]
    );
    assert!(are_all_near(&plan));
}

#[test]
fn many_ranks_share_devices() {
    let plan = planned("dgx-h100", request(4, 2));
    let numbers: Vec<_> = table(&plan).into_iter().map(|(numbers, ..)| numbers).collect();
    assert_eq!(numbers, [[0, 1], [2, 3], [4, 5], [6, 7]]);
    let two_ranks = planned("dgx-h100", request(2, 1));
    assert_eq!(table(&two_ranks)[1].0, [4]);
    let sixteen = planned("dgx-h100", request(16, 1));
    assert_eq!(sixteen.notices, ["16 ranks share 8 devices"]);
    let cpus: std::collections::BTreeSet<_> =
        table(&sixteen).into_iter().map(|(.., cpus)| cpus).collect();
    assert_eq!((cpus.len(), are_all_near(&sixteen)), (16, true));
    // Ranks that share the near cores of a device have parts of them in the order of the ranks.
    let of_first_node = table(&sixteen).into_iter().filter(|(_, node, _)| *node == Some(0));
    let of_first_node: Vec<Vec<u32>> = of_first_node.map(|(.., own)| own).collect();
    assert!(of_first_node.is_sorted(), "{of_first_node:?}");
    assert_eq!(of_first_node[0], [0]);
}

#[test]
fn impossible_device_placement_is_refused() {
    let refused = |name: &str, request: RankRequest| {
        plan_ranks(&topology(name), &request).unwrap_err().to_string()
    };
    assert!(refused("two-kinds", request(1, 1)).starts_with("cannot place ranks near devices"));
    assert_eq!(
        refused("four-a100", request(4, 2)),
        "cannot place 4 ranks with 2 devices per rank: 8 devices are required; the machine has 4\nhint: use --ranks 2 or fewer"
    );
    assert!(refused("four-a100", request(1, 5)).ends_with("--devices 4 or fewer"));
}

#[test]
fn rank_far_from_its_device_is_reported() {
    let cpus = "0,1".parse().ok();
    let plan = planned("dgx-h100", RankRequest { cpus, ..request(2, 4) });
    assert_eq!(plan.notices.len(), 4, "{:?}", plan.notices);
    assert!(plan.notices[0].starts_with("rank 1 is far from its device 0000:9d:00.0"));
}
