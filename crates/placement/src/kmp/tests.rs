use super::*;
use crate::cpus::format_ranges;
use crate::error::PlacementError;
use crate::tests::{PHI, ROME, T2K, machine};
use nodegauge_machine::{CpuId, Topology};
use proptest::prelude::*;

fn parse(text: &str) -> KmpAffinity {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn resolved(topology: &Topology, text: &str, threads: u32) -> Vec<String> {
    let masks = parse(text).resolve(topology, threads).unwrap_or_else(|error| panic!("{error}"));
    masks.iter().map(|mask| format_ranges(mask)).collect()
}

#[test]
fn scatter_uses_60_xeon_phi_cores_for_60_threads() {
    let phi = machine(PHI);
    let masks = resolved(&phi, "scatter", 60);
    assert_eq!(masks[..3], ["0-3", "4-7", "8-11"]);
    assert_eq!(masks[59], "236-239");
    let fine = resolved(&phi, "granularity=fine,scatter", 62);
    assert_eq!(fine[..2], ["0", "4"]);
    assert_eq!(fine[60..], ["240", "1"]);
}

#[test]
fn compact_fills_each_xeon_phi_core() {
    let phi = machine(PHI);
    assert_eq!(resolved(&phi, "compact", 5), ["0-3", "0-3", "0-3", "0-3", "4-7"]);
    assert_eq!(resolved(&phi, "granularity=thread,compact", 5), ["0", "1", "2", "3", "4"]);
    assert_eq!(resolved(&phi, "granularity=fine,compact,1", 3), ["0", "4", "8"]);
    assert_eq!(resolved(&phi, "granularity=fine,compact,0,4", 2), ["4", "5"]);
}

#[test]
fn balanced_puts_consecutive_threads_on_one_core() {
    let phi = machine(PHI);
    assert_eq!(resolved(&phi, "granularity=fine,balanced", 3), ["0", "4", "8"]);
    let masks = resolved(&phi, "granularity=fine,balanced", 122);
    assert_eq!(masks[..4], ["0", "1", "4", "5"]);
    let balanced = resolved(&phi, "granularity=fine,balanced", 63);
    assert_eq!(balanced[..5], ["0", "1", "4", "5", "8"]);
    assert_eq!(balanced[62], "240");
    assert_eq!(resolved(&phi, "balanced", 245).len(), 245);
}

#[test]
fn scatter_distributes_by_outermost_level_first() {
    let t2k = machine(T2K);
    assert_eq!(resolved(&t2k, "scatter", 6), ["0", "4", "8", "12", "1", "5"]);
    assert_eq!(resolved(&t2k, "compact", 5), ["0", "1", "2", "3", "4"]);
    // The order with one permuted level is between scatter and compact: nodes first, then sockets.
    let rome = machine(ROME);
    assert_eq!(resolved(&rome, "scatter", 6), ["0", "64", "16", "80", "32", "96"]);
    assert_eq!(resolved(&rome, "scatter", 10)[8..], ["4", "68"]);
    assert_eq!(resolved(&rome, "scatter,4", 3), ["0", "1", "2"]);
}

#[test]
fn granularity_selects_object_of_thread() {
    let rome = machine(ROME);
    let phi = machine(PHI);
    let t2k = machine(T2K);
    for (topology, granularity, mask) in [
        (&rome, "l3_cache", "0-3"),
        (&rome, "l1_cache", "0"),
        (&rome, "ll_cache", "0-3"),
        (&rome, "tile", "0"),
        (&rome, "node", "0-15"),
        (&rome, "socket", "0-63"),
        (&phi, "tile", "0-3"),
        (&phi, "l3_cache", "0-3"),
        (&t2k, "l3_cache", "0"),
        (&t2k, "package", "0-3"),
    ] {
        let text = format!("granularity={granularity},compact");
        assert_eq!(resolved(topology, &text, 1), [mask], "{granularity}");
    }
}

#[test]
fn granularity_has_the_words_of_libomp() {
    for refused in ["l2", "l3", "numa", "llc", "dice", "sockets"] {
        assert!(format!("granularity={refused},compact").parse::<KmpAffinity>().is_err());
    }
    for unknown in ["die", "module", "proc_group"] {
        let affinity = parse(&format!("granularity={unknown},compact"));
        let notice = format!(
            "KMP_AFFINITY: granularity {unknown} is unknown on this machine; core is used instead"
        );
        assert_eq!(affinity.notices(), [notice]);
    }
    assert!(parse("granularity=l1_cache,compact").notices().is_empty());
}

#[test]
fn proclist_entry_places_one_thread() {
    let t2k = machine(T2K);
    let text = "proclist=[3,0,{1,2},4-12:4,7-6:-1],explicit";
    assert_eq!(parse(text).default_threads(&t2k), 8);
    assert_eq!(resolved(&t2k, text, 9), ["3", "0", "1-2", "4", "8", "12", "7", "6", "3"]);
    let phi = machine(PHI);
    assert_eq!(resolved(&phi, "explicit,proclist=[5]", 1), ["4-7"]);
    assert_eq!(resolved(&phi, "granularity=fine,proclist=[5]", 1), ["5"]);
}

#[test]
fn kmp_types_without_binding_allow_all_cpus() {
    let t2k = machine(T2K);
    for text in ["none", "disabled", "verbose"] {
        assert_eq!(resolved(&t2k, text, 2), ["0-15", "0-15"]);
    }
}

#[test]
fn default_thread_count_depends_on_granularity() {
    let phi = machine(PHI);
    assert_eq!(parse("scatter").default_threads(&phi), 61);
    assert_eq!(parse("granularity=fine,scatter").default_threads(&phi), 244);
}

#[test]
fn modifiers_without_effect_are_reported() {
    let notices = |text: &str| parse(text).notices();
    assert!(notices("compact,1,0").is_empty());
    assert!(notices("respect,balanced").is_empty());
    assert_eq!(
        notices("norespect,balanced,1,2"),
        [
            "KMP_AFFINITY: norespect has no effect: only CPUs that this process may use are used",
            "KMP_AFFINITY: permute and offset have no effect on balanced",
        ]
    );
}

#[test]
fn kmp_error_states_the_limits_of_the_machine() {
    let t2k = machine(T2K);
    let error = |text: &str| parse(text).resolve(&t2k, 2).unwrap_err().to_string();
    assert_eq!(
        error("compact,3"),
        "KMP_AFFINITY: permute 3 is out of range: this machine has 3 levels (socket, core, thread)\nhint: permute is 0 to 2"
    );
    assert_eq!(
        error("proclist=[12-16],explicit"),
        "cpu 16 is not on this machine, whose CPUs are 0-15; this process may use 0-15"
    );
    let mut nothing = t2k.clone();
    nothing.threads.iter_mut().for_each(|thread| thread.allowed = false);
    assert_eq!(parse("scatter").resolve(&nothing, 1), Err(PlacementError::no_cpus()));
}

#[test]
fn kmp_affinity_assigns_usable_cpus_only() {
    let mut phi = machine(PHI);
    phi.threads.iter_mut().for_each(|thread| thread.allowed = (4..11).contains(&thread.cpu.0));
    assert_eq!(resolved(&phi, "norespect,granularity=fine,scatter", 4), ["4", "8", "5", "9"]);
    assert_eq!(parse("norespect,scatter").notices().len(), 1);
    assert_eq!(parse("balanced,1").notices().len(), 1);
}

#[test]
fn kmp_modifiers_are_printed_canonically() {
    for (text, canonical) in [
        ("Verbose,granularity=THREAD,compact,1,0", "verbose,granularity=fine,compact,1"),
        ("compact,0,3,gran = core", "granularity=core,compact,0,3"),
        ("explicit,proclist=[ 0-6:2 , {1, 3} ]", "proclist=[0-6:2,{1,3}],explicit"),
        ("proclist=[3-3:2]", "proclist=[3],explicit"),
        ("nowarnings,noreset,respect,scatter", "nowarnings,respect,noreset,scatter"),
        ("verbose", "verbose"),
    ] {
        assert_eq!(parse(text).to_string(), canonical);
    }
}

#[test]
fn invalid_kmp_affinity_is_reported_with_its_column() {
    let words = "expected compact, scatter, balanced, explicit, none, disabled or a modifier";
    let numbers = "permute and offset require the type compact, scatter or balanced";
    for (text, at, problem) in [
        ("", 0, words),
        ("compat", 0, words),
        ("verbose,", 8, words),
        ("compact scatter", 8, "expected ',' or the end"),
        ("compact,scatter", 8, "a type is already given"),
        ("compact,1,2,3", 12, "permute and offset are already given"),
        ("compact,x", 8, words),
        ("none,1", 5, numbers),
        ("verbose,1", 8, numbers),
        ("granularity", 11, "expected '='"),
        (
            "granularity=socks,compact",
            12,
            "expected fine, core, tile, module, l1_cache, l2_cache, l3_cache, ll_cache, die, numa_domain or socket",
        ),
        ("explicit", 8, "expected proclist=[...] with the type explicit"),
        ("proclist=[0],compact", 0, "a proclist requires the type explicit"),
        ("proclist=0,explicit", 9, "expected '[' before the CPUs"),
        ("proclist=[],explicit", 10, "expected a CPU number or '{'"),
        ("proclist=[0;1],explicit", 11, "expected ',' or ']'"),
        ("proclist=[{}],explicit", 11, "expected a CPU number"),
        ("proclist=[{0-1}],explicit", 12, "expected ',' or '}'"),
        ("proclist=[0-],explicit", 12, "expected the last CPU after '-'"),
        ("proclist=[0-4:],explicit", 14, "expected a stride after ':'"),
        ("proclist=[0-4:0],explicit", 14, "expected a stride other than 0"),
        (
            "proclist=[4-0],explicit",
            12,
            "a range must begin with the smaller number unless the stride is negative",
        ),
        (
            "proclist=[0-4:-1],explicit",
            12,
            "with a negative stride, a range must begin with the larger number",
        ),
        ("proclist=[0],proclist=[1],explicit", 13, "a proclist is already given"),
        ("compact,99999999999", 8, "this number is too large"),
    ] {
        let error = text.parse::<KmpAffinity>().unwrap_err();
        assert_eq!((error.at, error.problem.as_str()), (at, problem), "{text}");
    }
}

fn numbers() -> impl Strategy<Value = KmpNumbers> {
    (0u32..5, any::<u32>()).prop_map(|(permute, offset)| KmpNumbers { permute, offset })
}

fn item() -> impl Strategy<Value = ProcItem> {
    prop_oneof![
        (any::<u32>(), any::<u32>(), 1i32..).prop_map(|(first, last, stride)| ProcItem::Range {
            first,
            last,
            stride: match first.cmp(&last) {
                std::cmp::Ordering::Less => stride,
                std::cmp::Ordering::Equal => 1,
                std::cmp::Ordering::Greater => -stride,
            }
        }),
        prop::collection::vec(any::<u32>(), 1..4).prop_map(ProcItem::Set),
    ]
}

fn affinity() -> impl Strategy<Value = KmpAffinity> {
    let kind = prop_oneof![
        numbers().prop_map(|numbers| KmpKind::Ordered(KmpOrder::Compact, numbers)),
        numbers().prop_map(|numbers| KmpKind::Ordered(KmpOrder::Scatter, numbers)),
        numbers().prop_map(|numbers| KmpKind::Ordered(KmpOrder::Balanced, numbers)),
        prop::collection::vec(item(), 1..4).prop_map(KmpKind::Explicit),
        Just(KmpKind::None),
        Just(KmpKind::Disabled),
    ];
    let flags = prop::array::uniform4(prop::option::of(any::<bool>()));
    let meanings: Vec<Granularity> = Granularity::WORDS.iter().map(|(_, g)| *g).collect();
    let granularity = prop::option::of(prop::sample::select(meanings));
    (flags, granularity, kind).prop_map(|(flags, granularity, kind)| KmpAffinity {
        flags,
        granularity,
        kind: Some(kind),
    })
}

proptest! {
    #[test]
    fn kmp_affinity_round_trips(affinity in affinity()) {
        prop_assert_eq!(parse(&affinity.to_string()), affinity);
    }

    #[test]
    fn kmp_parsing_and_resolving_never_panic(
        text in "((no)?(verbose|respect)|compact|scatter|balanced|proclist=\\[[0-9{},:-]{0,8}\\]|gran=(fine|l3_cache)|[0-9]{1,3}|,){0,6}|.{0,16}",
        threads in 0u32..40,
    ) {
        if let Ok(affinity) = text.parse::<KmpAffinity>() {
            let topology = machine("Package:2 L3Cache:2 Core:2 PU:2");
            let _ = affinity.resolve(&topology, threads);
            let _ = affinity.default_threads(&topology);
        }
    }

    #[test]
    fn all_cpus_are_used_before_reuse(
        threads in 1u32..80,
        kind in prop::sample::select(vec!["compact", "compact,1", "scatter", "scatter,2", "balanced"]),
    ) {
        let topology = machine("Package:2 NUMANode:2 L3Cache:2 Core:2 PU:2");
        let masks = parse(&format!("granularity=fine,{kind}")).resolve(&topology, threads).unwrap();
        let mut uses = std::collections::BTreeMap::<CpuId, u32>::new();
        masks.iter().flatten().for_each(|cpu| *uses.entry(*cpu).or_default() += 1);
        let max = uses.values().copied().max().unwrap();
        prop_assert_eq!(max, threads.div_ceil(32));
        prop_assert_eq!(uses.len() as u32, threads.min(32));
    }
}
