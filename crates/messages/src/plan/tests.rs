use super::*;
use crate::options::DEFAULT_BUFFER_LIMIT;
use nodegauge_machine::TopologySource;

fn machine(text: &str) -> Topology {
    Topology::load(&TopologySource::Synthetic(text.to_owned())).unwrap()
}

fn here(launch: &Launch) -> Vec<Vec<u32>> {
    match &launch.ranks {
        RankLocations::ThisNode(cpus) => {
            cpus.iter().map(|rank| rank.iter().map(|c| c.0).collect()).collect()
        }
        RankLocations::Hosts(_) => Vec::new(),
    }
}

#[test]
fn two_cores_get_two_launches() {
    let topology = machine("Package:1 L3Cache:1 L2Cache:2 Core:1 PU:1");
    let (launches, notices) =
        launches(&topology, &MessageOptions::default(), &RankPairs::EachDistance, None).unwrap();
    assert_eq!(launches.len(), 2);
    assert_eq!(launches[0].distance, Some(Distance::Cache));
    assert_eq!(
        launches[0].patterns,
        [Pattern::Latency, Pattern::Bw, Pattern::Bibw, Pattern::MultiLat, Pattern::MbwMr]
    );
    assert_eq!(launches[1].threads, SideThreads::SINGLE);
    assert_eq!(notices[0].id, NoticeId::FewerThreads);
}

#[test]
fn each_distance_and_all_cores_have_a_launch() {
    let topology = machine("Package:2 NUMANode:4 L3Cache:4 L2Cache:4 L1dCache:1 Core:1 PU:1");
    let (launches, notices) =
        launches(&topology, &MessageOptions::default(), &RankPairs::EachDistance, None).unwrap();
    let distances: Vec<_> = launches.iter().map(|launch| launch.distance).collect();
    let some = |d| Some(d);
    assert_eq!(
        distances,
        [
            some(Distance::Cache),
            some(Distance::Node),
            some(Distance::Socket),
            some(Distance::OtherSocket),
            None,
            some(Distance::Cache)
        ]
    );
    assert_eq!(launches[4].ranks(), 128);
    // One thread sends and two threads receive. Each thread has its own core near the first thread of its rank.
    assert_eq!(here(&launches[5]), [vec![0], vec![1, 2]]);
    assert!(notices.is_empty());
}

#[test]
fn option_selects_distance_or_cpus_of_the_ranks() {
    let topology = machine("Package:2 NUMANode:1 Core:2 PU:2");
    let options = MessageOptions { patterns: vec![Pattern::Bw], ..MessageOptions::default() };
    let of = |rank_pairs| launches(&topology, &options, &rank_pairs, None);
    let (launches, _) = of(RankPairs::Distances(vec![Distance::OtherSocket])).unwrap();
    assert_eq!(here(&launches[0]), [[0], [4]]);
    let error = of(RankPairs::Distances(vec![Distance::Cache])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no hardware threads of this node have the distance 'same cache'\nhint: distances on this node: same core, same node, other socket"
    );
    let (cpu_launches, _) = of(RankPairs::Cpus(CpuId(1), CpuId(7))).unwrap();
    assert_eq!(
        (here(&cpu_launches[0]), cpu_launches[0].distance),
        (vec![vec![1], vec![7]], Some(Distance::OtherSocket))
    );
    assert!(
        of(RankPairs::Cpus(CpuId(1), CpuId(8)))
            .unwrap_err()
            .to_string()
            .contains("may not use cpu 8")
    );
}

#[test]
fn matrix_measures_every_pair_of_cores_once() {
    let topology = machine("Package:1 Core:5 PU:2");
    let (launches, _) =
        launches(&topology, &MessageOptions::default(), &RankPairs::All, None).unwrap();
    assert_eq!((launches.len(), launches[0].steps.len(), launches[0].ranks()), (1, 10, 5));
    assert_eq!(launches[0].patterns, [Pattern::Latency, Pattern::Bw, Pattern::Bibw]);
}

#[test]
fn single_cpu_is_refused_and_odd_rank_count_is_reduced() {
    let one = machine("Package:1 Core:1 PU:1");
    let error =
        launches(&one, &MessageOptions::default(), &RankPairs::EachDistance, None).unwrap_err();
    assert!(error.to_string().starts_with("messages require two ranks"));
    let three = machine("Package:1 Core:3 PU:1");
    let options = MessageOptions { patterns: vec![Pattern::MultiLat], ..MessageOptions::default() };
    let (launches, notices) = launches(&three, &options, &RankPairs::EachDistance, None).unwrap();
    assert_eq!(launches[0].ranks(), 2);
    assert_eq!(notices[0].message, "2 of 3 ranks are used, because pairs require an even number");
}

/// Returns a plan for collectives on two sockets of 64 cores.
fn collectives(patterns: &[Pattern], memory_limit: u64) -> Result<MessagesPlan, MessagesError> {
    let topology = machine("Package:2 Core:64 PU:1");
    let patterns = patterns.to_vec();
    let options = MessageOptions { patterns, memory_limit, ..MessageOptions::default() };
    MessagesPlan::without_transport(&topology, options, RankPairs::EachDistance, None)
}

#[test]
fn buffers_larger_than_memory_are_refused() {
    let gib = 1 << 30;
    let plan = collectives(&[Pattern::Alltoall, Pattern::Bcast], DEFAULT_BUFFER_LIMIT).unwrap();
    // Each of 128 ranks sends and receives 1 MiB for each of 128 ranks.
    assert_eq!((plan.buffer_bytes(), plan.notices.len()), (32 * gib, 0));
    assert!(plan.check_memory(Some(32 * gib)).is_ok() && plan.check_memory(None).is_ok());
    let error = plan.check_memory(Some(16 * gib)).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "the buffers of alltoall among 128 ranks need 32 GiB, but 16 GiB of memory"
        ),
        "{error}"
    );
    // Only the receive buffer has a block per rank. The buffers of the other patterns hold one message.
    let bytes = |pattern| collectives(&[pattern], DEFAULT_BUFFER_LIMIT).unwrap().buffer_bytes();
    assert_eq!(bytes(Pattern::Allgather), 129 * (128 << 20));
    assert_eq!(bytes(Pattern::Bcast), 2 * (128 << 20));
    assert_eq!(bytes(Pattern::Barrier), 0);
}

#[test]
fn sizes_beyond_the_memory_limit_are_omitted_with_a_notice() {
    let plan = collectives(&[Pattern::Alltoall, Pattern::Bcast], 32 << 20).unwrap();
    let sizes = |pattern| plan.launches[0].valid_sizes(pattern, &plan.options).into_iter().max();
    assert_eq!((sizes(Pattern::Alltoall), sizes(Pattern::Bcast)), (Some(256 << 10), Some(1 << 20)));
    assert_eq!(
        plan.notices[0].message,
        "alltoall among 128 ranks is measured only up to 256 KiB: buffers of larger sizes exceed 32 MiB (--mem-limit)"
    );
    // Requested sizes above the customary maximum are measured up to the same memory limit.
    let topology = machine("Package:1 Core:2 PU:1");
    let asked = |bytes: &[u64]| {
        let patterns = vec![Pattern::Alltoall];
        let sizes_asked = Some(bytes.to_vec());
        let options = MessageOptions {
            patterns,
            sizes: sizes_asked,
            has_named_patterns: true,
            ..MessageOptions::default()
        };
        MessagesPlan::without_transport(&topology, options, RankPairs::EachDistance, None)
    };
    let asked_plan = asked(&[8, 4 << 20, 1 << 30]).unwrap();
    assert_eq!(
        asked_plan.launches[0].valid_sizes(Pattern::Alltoall, &asked_plan.options),
        [8, 4 << 20]
    );
    assert!(
        asked_plan.notices[0]
            .message
            .starts_with("alltoall among 2 ranks is measured only up to 4 MiB")
    );
    assert!(asked(&[1 << 30]).unwrap_err().to_string().contains("larger than 512 MiB for every"));
    let error = collectives(&[Pattern::Alltoall], 100).unwrap_err().to_string();
    assert!(error.contains("is larger than 100 B for every size\nhint: use smaller"), "{error}");
}
