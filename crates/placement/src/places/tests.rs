use super::*;
use crate::error::PlacementError;
use crate::tests::machine;
use proptest::prelude::*;

fn parse(text: &str) -> PlacesSpec {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Formats the places of `text` on a machine with CPUs 0-31, each as `{...}`.
fn resolved(text: &str) -> String {
    let topology = machine("Package:2 NUMANode:1 Core:8 PU:2");
    let places = parse(text).resolve(&topology).unwrap_or_else(|error| panic!("{error}"));
    places.iter().map(Place::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn equivalent_place_specifications_resolve_equally() {
    let expected = "{0:4} {4:4} {8:4} {12:4}";
    assert_eq!(resolved("{0,1,2,3},{4,5,6,7},{8,9,10,11},{12,13,14,15}"), expected);
    assert_eq!(resolved("{0:4},{4:4},{8:4},{12:4}"), expected);
    assert_eq!(resolved("{0:4}:4:4"), expected);
}

#[test]
fn strides_and_exclusions_are_resolved() {
    assert_eq!(resolved("0:4:8"), "{0} {8} {16} {24}");
    assert_eq!(resolved("3, 1, 3"), "{3} {1} {3}");
    assert_eq!(resolved("6:3:-2"), "{6} {4} {2}");
    assert_eq!(resolved("{0,4:2:8,!4}"), "{0,12}");
    assert_eq!(resolved("{!0,0,1}"), "{1}");
    assert_eq!(resolved("{0:2}:3:2,!{2:2}"), "{0:2} {4:2}");
    assert_eq!(resolved("0:4,!2"), "{0} {1} {3}");
    assert_eq!(resolved("{ 0 : 2 } : 2 : +4"), "{0:2} {4:2}");
    assert_eq!(resolved("0:3:0"), "{0} {0} {0}");
}

#[test]
fn abstract_places_follow_topology() {
    assert_eq!(resolved("cores(2)"), "{0:2} {2:2}");
    assert_eq!(resolved("THREADS(3)"), "{0} {1} {2}");
    assert_eq!(resolved("sockets"), "{0:16} {16:16}");
    assert_eq!(resolved("numa_domains"), "{0:16} {16:16}");
    let rome = machine(crate::tests::ROME);
    let caches = parse("ll_caches").resolve(&rome).unwrap();
    assert_eq!((caches.len(), caches[31].to_string()), (32, "{124:4}".to_owned()));
    assert_eq!(parse("numa_domains").resolve(&rome).unwrap().len(), 8);
}

#[test]
fn abstract_places_exclude_unusable_cpus() {
    let mut topology = machine("Package:2 NUMANode:1 Core:2 PU:2");
    for thread in &mut topology.threads {
        thread.allowed = [1, 4, 5].contains(&thread.cpu.0);
    }
    let places = |text: &str| {
        parse(text).resolve(&topology).unwrap().iter().map(Place::to_string).collect::<Vec<_>>()
    };
    assert_eq!(places("cores"), ["{1}", "{4:2}"]);
    assert_eq!(places("sockets"), ["{1}", "{4:2}"]);
    let error = parse("{4:3}").resolve(&topology).unwrap_err();
    assert_eq!(error.to_string(), "cpu 6 is not among the CPUs that this process may use (1,4-5)");
}

#[test]
fn places_error_states_the_limits_of_the_machine() {
    let topology = machine("Package:2 NUMANode:1 Core:4 PU:1");
    let error = |text: &str| parse(text).resolve(&topology).unwrap_err().to_string();
    for (text, expected) in [
        ("0:9", "cpu 8 is not on this machine, whose CPUs are 0-7; this process may use 0-7"),
        ("0:2:-1", "cpu -1 is not on this machine, whose CPUs are 0-7; this process may use 0-7"),
        (
            "4294967295",
            "cpu 4294967295 is not on this machine, whose CPUs are 0-7; this process may use 0-7",
        ),
        (
            "cores(9)",
            "places \"cores(9)\": this process may use 8 cores, not 9\nhint: e.g. --places 'cores(8)'",
        ),
        (
            "ll_caches",
            "places \"ll_caches\": this machine has no cache beyond level 1\nhint: use cores, threads or sockets",
        ),
        (
            "!3,0:4",
            "places \"!3,0:4\": !3 excludes nothing\nhint: an exclusion must follow the place that it removes, or be in the same braces as the CPU that it removes",
        ),
        (
            "{0:2,!5}",
            "places \"{0:2,!5}\": !5 excludes nothing\nhint: an exclusion must follow the place that it removes, or be in the same braces as the CPU that it removes",
        ),
        ("0,!0", "places \"0,!0\": no CPU is left after the exclusions"),
        ("{0,!0}", "places \"{0,!0}\": no CPU is left after the exclusions"),
        (
            "{0:8}:65536:0,{0:8}:65536:0,{0:8}:65536:0",
            "places \"{0:8}:65536:0,{0:8}:65536:0,{0:8}:65536:0\": more than 65536 places, or more than 1048576 CPUs in total",
        ),
        (
            "0:65536:0,0",
            "places \"0:65536:0,0\": more than 65536 places, or more than 1048576 CPUs in total",
        ),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
    let mut nothing = topology.clone();
    nothing.threads.iter_mut().for_each(|thread| thread.allowed = false);
    assert_eq!(parse("cores").resolve(&nothing), Err(PlacementError::no_cpus()));
}

#[test]
fn invalid_places_are_reported_with_column() {
    for (text, at, problem) in [
        ("", 0, "expected a place: a number or '{'"),
        ("core", 0, "expected threads, cores, sockets, ll_caches, numa_domains, a number or '{'"),
        ("cores4", 0, "expected threads, cores, sockets, ll_caches, numa_domains, a number or '{'"),
        ("cores(", 6, "expected a number of places after '('"),
        ("cores(0)", 6, "expected at least 1"),
        ("cores(4", 7, "expected ')' after the number of places"),
        ("cores,threads", 5, "expected nothing after an abstract name"),
        ("{0:4}:x:8", 6, "expected a count after ':'"),
        ("{0:4}:4:", 8, "expected a stride after ':'"),
        ("{0:4}:4:--8", 9, "expected a stride after ':'"),
        ("{0:0}", 3, "expected at least 1"),
        ("{}", 1, "expected a CPU number"),
        ("{0,1", 4, "expected ',' or '}'"),
        ("{0;1}", 2, "expected ',' or '}'"),
        ("{0-3}", 2, "expected ',' or '}'"),
        ("{0},", 4, "expected a place: a number or '{'"),
        ("{0}{1}", 3, "expected ',', ':' or the end after a place"),
        ("0-3", 1, "expected ',', ':' or the end after a place"),
        ("!", 1, "expected a place after '!'"),
        ("{0}:4,!{1}:2", 10, "expected ',' or the end after an excluded place"),
        ("{!x}", 2, "expected a CPU number after '!'"),
        ("0:4000000000", 2, "expected at most 65536"),
        ("0:2:99999", 4, "expected at most 65536"),
        ("4294967296", 0, "this number is too large"),
        ("99999999999999999999", 0, "this number is too large"),
    ] {
        let error = text.parse::<PlacesSpec>().unwrap_err();
        assert_eq!((error.at, error.problem.as_str()), (at, problem), "{text}");
    }
}

#[test]
fn places_error_has_column_and_example() {
    assert_eq!(
        "{0:4}:x:8".parse::<PlacesSpec>().unwrap_err().to_string(),
        "places \"{0:4}:x:8\": expected a count after ':', found 'x'\n  {0:4}:x:8\n        ^\nhint: e.g. --places cores, --places '{0:4}:4:8' or --places 0:96:2"
    );
}

#[test]
fn places_are_printed_canonically() {
    for (text, canonical) in [
        (" Cores ( 4 ) ", "cores(4)"),
        ("{0:1:1}", "{0}"),
        ("{ 0 , 1 } : 4 : 1", "{0,1}:4"),
        ("0:96:2", "0:96:2"),
        ("{0}:1:7", "{0}"),
        ("0:2:-0", "0:2:0"),
    ] {
        assert_eq!(parse(text).to_string(), canonical);
    }
}

fn numbers() -> impl Strategy<Value = (u32, i32)> {
    prop_oneof![Just((1, 1)), (2..=MAX_COUNT, -(MAX_COUNT as i32)..=MAX_COUNT as i32)]
}

fn place() -> impl Strategy<Value = PlaceExpr> {
    let item = prop_oneof![
        4 => (any::<u32>(), numbers())
            .prop_map(|(first, (count, stride))| ListEntry::Include { first, count, stride }),
        1 => any::<u32>().prop_map(ListEntry::Exclude),
    ];
    prop_oneof![
        any::<u32>().prop_map(PlaceExpr::Cpu),
        prop::collection::vec(item, 1..4).prop_map(PlaceExpr::Set),
    ]
}

fn spec() -> impl Strategy<Value = PlacesSpec> {
    let item = prop_oneof![
        4 => (place(), numbers())
            .prop_map(|(first, (count, stride))| ListEntry::Include { first, count, stride }),
        1 => place().prop_map(ListEntry::Exclude),
    ];
    prop_oneof![
        (prop::sample::select(PlaceName::ALL.to_vec()), prop::option::of(1..=MAX_COUNT))
            .prop_map(|(name, count)| PlacesSpec::Abstract { name, count }),
        prop::collection::vec(item, 1..5).prop_map(PlacesSpec::Explicit),
    ]
}

proptest! {
    #[test]
    fn places_round_trip(spec in spec()) {
        prop_assert_eq!(parse(&spec.to_string()), spec);
    }

    #[test]
    fn places_parsing_and_resolving_never_panic(text in "[0-9{}:,!()a-z_ -]{0,24}|.{0,16}") {
        if let Ok(spec) = text.parse::<PlacesSpec>() {
            let _ = spec.resolve(&machine("Package:1 Core:4 PU:2"));
        }
    }

    #[test]
    fn printed_place_resolves_to_same_cpus(numbers in prop::collection::btree_set(0u32..32, 1..9)) {
        let place = Place::new(numbers.into_iter().map(CpuId)).unwrap();
        prop_assert_eq!(resolved(&place.to_string()), place.to_string());
    }
}
