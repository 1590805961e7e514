use super::*;
use crate::tests::{ROME, T2K, machine};

const SMT: &str = "Package:2 NUMANode:1 L3Cache:1 Core:4 PU:2";

fn cpus(placement: &Placement) -> Vec<String> {
    placement.threads.iter().map(|thread| cpus::format_ranges(&thread.cpus)).collect()
}

fn request(threads: Option<u32>, places: &str, bind: Option<Binding>) -> PlacementRequest {
    let places = (!places.is_empty()).then(|| places.parse().unwrap());
    PlacementRequest { threads, places, bind, ..PlacementRequest::default() }
}

#[test]
fn default_places_use_first_sibling_of_each_core() {
    let topology = machine(SMT);
    let all = plan(&topology, &PlacementRequest::default()).unwrap();
    assert_eq!(cpus(&all), ["0", "2", "4", "6", "8", "10", "12", "14"]);
    assert_eq!((all.bind, all.places.as_str(), all.notices.len()), (Binding::Spread, "cores", 0));
    let two = plan(&topology, &request(Some(2), "", None)).unwrap();
    assert_eq!(cpus(&two), ["0", "8"]);
    let ten = plan(&topology, &request(Some(10), "", None)).unwrap();
    assert_eq!(cpus(&ten), ["0", "1", "3", "4", "6", "8", "9", "11", "12", "14"]);
    assert_eq!(ten.places, "threads");
    assert_eq!(ten.cpus().len(), 10);
}

#[test]
fn fastest_core_class_is_used_by_default() {
    // The machine has four small cores and four large cores with two hardware threads each, as in a phone or a laptop.
    let mut topology = machine("Package:1 L3Cache:1 Core:8 PU:2");
    topology.threads.retain(|thread| thread.core >= 4 || thread.index_in_core == 0);
    for thread in &mut topology.threads {
        thread.speed_class = Some(usize::from(thread.core >= 4));
    }
    let all = plan(&topology, &PlacementRequest::default()).unwrap();
    assert_eq!(cpus(&all), ["8", "10", "12", "14"]);
    assert_eq!(all.places, "{8},{10},{12},{14}");
    assert!(
        all.notices[0]
            .contains("the 4 fastest (8,10,12,14) of 8 cores, not the slower ones (0,2,4,6);"),
        "{all:?}"
    );
    let again = plan(&topology, &request(None, &all.places, None)).unwrap();
    assert_eq!(cpus(&again), cpus(&all));
    assert_eq!(cpus(&plan(&topology, &request(Some(2), "", None)).unwrap()), ["8", "12"]);
    let unbound = plan(&topology, &request(None, "", Some(Binding::None))).unwrap();
    assert_eq!((unbound.threads.len(), unbound.cpus().len()), (8, 12));
    let text = "cores differ in speed: threads are not bound and may run on every core";
    assert_eq!(unbound.notices, [text]);
    let six = plan(&topology, &request(Some(6), "", None)).unwrap();
    assert!(six.notices[0].contains("the slowest cores determine the time"), "{six:?}");
    let asked = plan(&topology, &request(None, "cores", None)).unwrap();
    assert_eq!((asked.threads.len(), asked.notices.len()), (8, 0));
}

#[test]
fn slowest_class_is_not_used_if_faster_classes_have_enough_cores() {
    let mut topology = machine("Package:1 Core:10 PU:1");
    // Four fast cores, four of a middle class, and two slow cores.
    for thread in &mut topology.threads {
        thread.speed_class = Some(2 - thread.core / 4);
    }
    let five = plan(&topology, &request(Some(5), "", Some(Binding::Close))).unwrap();
    assert_eq!(five.cpus().iter().map(|cpu| cpu.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(five.notices[0].ends_with("the slowest cores determine the time"), "{five:?}");
    assert!(five.notices[1].contains("the 8 fastest (0-7) of 10 cores, not the slower ones (8-9)"));
    let spread = plan(&topology, &request(Some(5), "", None)).unwrap();
    assert!(spread.cpus().iter().all(|cpu| cpu.0 < 8), "{spread:?}");
    assert_eq!(plan(&topology, &request(Some(9), "", None)).unwrap().threads.len(), 9);
}

#[test]
fn cores_outside_the_last_level_caches_have_a_notice() {
    let mut topology = machine("Package:1 L3Cache:2 Core:2 PU:1");
    for thread in &mut topology.threads {
        thread.llc = thread.llc.filter(|cache| *cache == 0);
    }
    let notice = "no thread is placed on CPUs 2-3, which have no L3 cache";
    let by_name = plan(&topology, &request(None, "ll_caches", None)).unwrap();
    assert_eq!((by_name.threads.len(), by_name.notices), (1, vec![notice.to_owned()]));
    let per_cache = PlacementRequest { per_cache: Some(1), ..PlacementRequest::default() };
    assert_eq!(plan(&topology, &per_cache).unwrap().notices, [notice]);
    assert!(plan(&topology, &request(None, "cores", None)).unwrap().notices.is_empty());
}

#[test]
fn single_fast_core_is_described_in_the_singular() {
    let mut topology = machine("Package:1 Core:2 PU:1");
    for thread in &mut topology.threads {
        thread.speed_class = Some(thread.core);
    }
    let one = plan(&topology, &PlacementRequest::default()).unwrap();
    assert!(
        one.notices[0].contains("threads use the fastest (1) of 2 cores, not the slower one (0);"),
        "{one:?}"
    );
}

#[test]
fn places_that_share_cpus_have_one_thread_per_cpu() {
    let topology = machine("Package:1 Core:2 PU:1");
    let repeated = plan(&topology, &request(None, "{0},{0},{1}", None)).unwrap();
    assert_eq!(repeated.threads.len(), 2);
    assert_eq!(plan(&topology, &request(None, "0:500:0", None)).unwrap().threads.len(), 1);
    let kmp = Some("proclist=[0,0,0],explicit".parse().unwrap());
    let listed = plan(&topology, &PlacementRequest { kmp, ..PlacementRequest::default() });
    assert_eq!(listed.unwrap().threads.len(), 2);
}

#[test]
fn unusable_cpus_are_not_used() {
    let mut topology = machine(SMT);
    for thread in &mut topology.threads {
        thread.allowed = [1, 6, 7, 8].contains(&thread.cpu.0);
    }
    let all = plan(&topology, &PlacementRequest::default()).unwrap();
    assert_eq!(cpus(&all), ["1", "6", "8"]);
}

#[test]
fn default_places_use_cores_before_siblings() {
    let topology = machine(SMT);
    let with = |threads, bind| plan(&topology, &request(Some(threads), "", Some(bind))).unwrap();
    assert_eq!(cpus(&with(3, Binding::Close)), ["0", "2", "4"]);
    assert_eq!(cpus(&with(9, Binding::Close))[7..], ["7", "8"]);
    assert_eq!(cpus(&with(2, Binding::Primary)), ["0-1", "0-1"]);
    assert!(with(2, Binding::Primary).notices.is_empty());
    let unbound = with(2, Binding::None);
    assert_eq!(cpus(&unbound), ["0-15", "0-15"]);
    assert_eq!(unbound.places, "none");
    assert_eq!(plan(&topology, &request(None, "", Some(Binding::None))).unwrap().threads.len(), 8);
}

#[test]
fn each_place_has_one_thread_by_default() {
    let topology = machine(SMT);
    let sockets = plan(&topology, &request(None, "sockets", None)).unwrap();
    assert_eq!(cpus(&sockets), ["0-7", "8-15"]);
    assert!(sockets.notices.is_empty());
}

#[test]
fn deviation_from_request_has_notice() {
    let topology = machine(SMT);
    let notices = |request: &PlacementRequest| plan(&topology, request).unwrap().notices;
    assert_eq!(
        notices(&request(Some(2), "cores", None)),
        [
            "bind close: 2 threads on the first 2 of 8 places, as OpenMP does when places are given without a policy"
        ]
    );
    assert_eq!(
        notices(&request(Some(4), "sockets", Some(Binding::Spread))),
        ["4 threads share 2 places"]
    );
    assert_eq!(
        notices(&request(Some(4), "cores", Some(Binding::None))),
        ["places cores have no effect: threads are not bound"]
    );
    assert!(notices(&request(Some(4), "cores", Some(Binding::Spread))).is_empty());
}

#[test]
fn conflicting_options_are_refused() {
    let topology = machine(ROME);
    let kmp = |text: &str| Some(text.parse().unwrap());
    let both = |request: PlacementRequest| plan(&topology, &request).unwrap_err().to_string();
    assert_eq!(
        both(PlacementRequest { per_cache: Some(1), ..request(None, "cores", None) }),
        "--per-cache and --places both decide where threads go\nhint: give only one of these options"
    );
    for (request, first, second) in [
        (
            PlacementRequest { per_cache: Some(1), ..request(None, "", Some(Binding::Close)) },
            "--per-cache",
            "--bind",
        ),
        (
            PlacementRequest {
                per_cache: Some(1),
                kmp: kmp("scatter"),
                ..PlacementRequest::default()
            },
            "--per-cache",
            "KMP_AFFINITY",
        ),
        (
            PlacementRequest { kmp: kmp("scatter"), ..request(None, "cores", None) },
            "KMP_AFFINITY",
            "--places",
        ),
        (
            PlacementRequest { kmp: kmp("scatter"), ..request(None, "", Some(Binding::Close)) },
            "KMP_AFFINITY",
            "--bind",
        ),
    ] {
        let expected = PlacementError::conflict("threads go", first, second);
        assert_eq!(plan(&topology, &request).unwrap_err(), expected);
    }
    let verbose = PlacementRequest {
        kmp: kmp("verbose"),
        ..request(Some(4), "cores", Some(Binding::Spread))
    };
    assert_eq!(cpus(&plan(&topology, &verbose).unwrap()), ["0", "32", "64", "96"]);
}

#[test]
fn too_many_or_no_threads_are_refused() {
    let topology = machine("Package:1 NUMANode:1 Core:2 PU:1");
    let text = |request: &PlacementRequest| plan(&topology, request).unwrap_err().to_string();
    let many = "cannot place 500 threads: this process may use 2 hardware threads (0-1)\nhint: use 2 or fewer, e.g. --threads 2";
    assert_eq!(text(&request(Some(500), "", None)), many);
    assert_eq!(text(&request(Some(500), "cores", Some(Binding::None))), many);
    let kmp = Some("compact".parse().unwrap());
    assert_eq!(
        text(&PlacementRequest { kmp, threads: Some(500), ..PlacementRequest::default() }),
        many
    );
    assert_eq!(
        text(&PlacementRequest {
            per_cache: Some(1),
            threads: Some(500),
            ..PlacementRequest::default()
        }),
        many
    );
    assert_eq!(
        text(&request(Some(0), "", None)),
        "cannot place 0 threads\nhint: request at least 1"
    );
    let one = plan(&machine("Package:1 Core:1 PU:1"), &request(Some(2), "", None)).unwrap_err();
    assert!(one.to_string().contains("may use 1 hardware thread (0)"), "{one}");
    let mut nothing = topology.clone();
    nothing.threads.iter_mut().for_each(|thread| thread.allowed = false);
    let error = plan(&nothing, &PlacementRequest::default()).unwrap_err();
    assert_eq!(error.to_string(), "this process may not use any CPU of this machine");
}

#[test]
fn thread_place_has_cores_sockets_and_numa_nodes() {
    let t2k = machine(T2K);
    let sockets = plan(&t2k, &request(None, "sockets", None)).unwrap();
    let second = &sockets.threads[1];
    assert_eq!(second.cores(&t2k).len(), 4);
    assert_eq!((second.sockets(&t2k), second.numa_nodes(&t2k)), (vec![1], vec![1]));
    assert_eq!(second.numa_node_ids(&t2k), [NumaNodeId(1)]);
    assert!(second.llcs(&t2k).is_empty());
}
