//! Lengths of published runs: two EPYC 9654, two EPYC 7H12, two EPYC 7F52, Xeon Phi 7110P.

use super::*;
use nodegauge_machine::{DescribeOptions, SysRoot, Topology, TopologySource};

const GENOA: &str =
    "Package:2 NUMANode:1 L3Cache:12(size=33554432) L2Cache:8 L1dCache:1 Core:1 PU:1";
const ROME: &str = "Package:2 NUMANode:4 L3Cache:4(size=16777216) L2Cache:4 L1dCache:1 Core:1 PU:1";
const SMALL_ROME: &str =
    "Package:2 NUMANode:1 L3Cache:16(size=16777216) L2Cache:1 L1dCache:1 Core:1 PU:1";
const PHI: &str = "Package:1 NUMANode:1 L2Cache:61(size=524288) L1dCache:1 Core:1 PU:4";

/// Returns a described machine with a processor and memory.
fn site(text: &str, processor: Option<&str>, memory: Option<Bytes>) -> MeasuredNode {
    let source = TopologySource::Synthetic(text.to_owned());
    let topology = Topology::load(&source).unwrap();
    let options =
        DescribeOptions { processor: processor.map(str::to_owned), ..DescribeOptions::default() };
    let machine = nodegauge_machine::describe(&topology, &SysRoot::live(), &options);
    MeasuredNode::new(topology, machine, SysRoot::live()).with_plan_memory(memory)
}

fn plan_of(site: &MeasuredNode, request: &StreamRequest) -> Result<LengthPlan, Failure> {
    let newest = |_: &str, _: &str| None;
    let more = LengthRequest { rate: None, is_memory_given: true, newest: &newest };
    LengthPlan::new(request, site, &more)
}

fn sized(size: &str) -> StreamRequest {
    let mut request = StreamRequest::default();
    request.cell.arrays.size = size.parse().unwrap();
    request
}

fn compiled_by(command: &str, request: StreamRequest) -> StreamRequest {
    StreamRequest { compilers: vec![command.parse().unwrap()], ..request }
}

fn elements(plan: &LengthPlan) -> Vec<u64> {
    plan.lengths.iter().map(|length| length.elements).collect()
}

#[test]
fn planned_lengths_follow_the_rule_or_the_memory_share_or_are_given() {
    // 4 x 768 MiB / 8 B; the published length is slightly longer.
    let genoa = site(GENOA, Some("EPYC 9654"), None);
    let plan = plan_of(&genoa, &sized("430080000elements")).unwrap();
    assert_eq!(elements(&plan), [402_653_184, 430_080_000]);
    let given = plan.chosen_length();
    assert_eq!(
        (given.times_llc, given.follows_rule),
        (Some(430_080_000.0 * 8.0 / 805_306_368.0), Some(true))
    );
    assert_eq!(plan.theoretical.as_ref().map(|limit| limit.value), Some(921.6e9));
    // 4 x 512 MiB / 8 B.
    let rome = site(ROME, Some("EPYC 7H12"), None);
    let rome_plan = plan_of(&rome, &sized("800000000elements")).unwrap();
    assert_eq!(elements(&rome_plan), [268_435_456, 800_000_000]);
    // 0.6 x 377.81 GB / 24 B; the published 10^10 elements are 63.5 % of that memory.
    let small = site(SMALL_ROME, Some("EPYC 7F52"), Some(Bytes(377_810_000_000)));
    let small_plan = plan_of(&small, &sized("10000000000elements")).unwrap();
    assert_eq!(elements(&small_plan), [268_435_456, 9_445_250_000, 10_000_000_000]);
    let share = small_plan.chosen_length().memory_share.unwrap();
    assert_eq!(share.to_string(), "63.5 %");
    let by_share = plan_of(&small, &sized("60%")).unwrap();
    assert_eq!(elements(&by_share), [268_435_456, 9_445_250_000]);
    assert_eq!(by_share.chosen_length().elements, 9_445_250_000);
    assert_eq!(plan_of(&small, &sized("auto")).unwrap().chosen_length().elements, 268_435_456);
    // 4 x 30.5 MiB / 8 B; the published length is four times as long.
    let phi = site(PHI, Some("Xeon Phi 7110P"), None);
    let phi_plan = plan_of(&phi, &sized("64000000elements")).unwrap();
    assert_eq!(elements(&phi_plan), [15_990_784, 64_000_000]);
    assert!(phi_plan.chosen_length().compile.to_string().starts_with("icc -O3 -mmic -fopenmp "));
}

#[test]
fn fewer_threads_use_fewer_caches() {
    let genoa = site(GENOA, None, None);
    let mut request = StreamRequest::default();
    request.cell.job.process.places = Some("{0},{1},{2},{8}".parse().unwrap());
    let plan = plan_of(&genoa, &request).unwrap();
    assert_eq!(plan.caches.map(|caches| caches.count), Some(2));
    assert_eq!(elements(&plan), [4 * (2 << 25) / 8]);
}

#[test]
fn time_is_predicted_from_the_best_known_rate() {
    let genoa = site(GENOA, Some("EPYC 9654"), None);
    let seconds = |plan: &LengthPlan| plan.chosen_length().seconds.unwrap().0;
    let request = compiled_by("gcc -O3 -DNTIMES=10 -DSTREAM_ARRAY_SIZE=430080000", sized("auto"));
    let newest = |_: &str, _: &str| None;
    let rate = Some(BytesPerSec(700e9));
    let given = LengthRequest { rate, is_memory_given: false, newest: &newest };
    let plan = LengthPlan::new(&request, &genoa, &given).unwrap();
    assert!((seconds(&plan) / (10.0 * 80.0 * 430_080_000.0 / 700e9) - 1.0).abs() < 1e-12);
    // The published share of the theoretical bandwidth, else the theoretical bandwidth.
    let published = plan_of(&genoa, &request).unwrap();
    let basis = &published.rate.as_ref().unwrap().basis;
    assert!(basis.contains("as published for 2 x EPYC 9654"), "{basis}");
    let bound = plan_of(&site(GENOA, Some("EPYC 9554"), None), &request).unwrap();
    let limit = bound.theoretical.as_ref().unwrap().value;
    assert!(bound.rate.as_ref().unwrap().is_bound);
    assert!((seconds(&bound) / (10.0 * 80.0 * 430_080_000.0 / limit) - 1.0).abs() < 1e-12);
    assert_eq!(plan_of(&site(GENOA, None, None), &request).unwrap().rate, None);
}

#[test]
fn compile_command_has_macros_memory_model_and_march() {
    let command = |processor: Option<&str>, request: &StreamRequest| {
        let plan = plan_of(&site(GENOA, processor, None), request).unwrap();
        plan.chosen_length().compile.to_string()
    };
    assert_eq!(
        command(Some("EPYC 9654"), &sized("430080000elements")),
        "gcc -O3 -march=znver4 -fopenmp -DSTREAM_ARRAY_SIZE=430080000 -DNTIMES=20 -DOFFSET=0 -mcmodel=medium -o stream stream.c"
    );
    assert_eq!(
        command(None, &sized("1000000elements")),
        "gcc -O3 -march=native -fopenmp -DSTREAM_ARRAY_SIZE=1000000 -DNTIMES=20 -DOFFSET=0 -o stream stream.c"
    );
    let published = "clang -DSTREAM_TYPE=double -DSTREAM_ARRAY_SIZE=430080000 -O3 -mcmodel=large -fopenmp ./stream.c";
    assert_eq!(
        command(Some("EPYC 9654"), &compiled_by(published, sized("auto"))),
        "clang -DSTREAM_TYPE=double -DSTREAM_ARRAY_SIZE=430080000 -O3 -mcmodel=large -fopenmp -DNTIMES=20 -DOFFSET=0 -o stream stream.c"
    );
}

#[test]
fn impossible_plan_is_refused_with_a_hint() {
    let refused = |site: &MeasuredNode, request: &StreamRequest| {
        let failure = plan_of(site, request).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Usage, "{failure}");
        assert!(failure.hint.is_some(), "{failure}");
        failure.message
    };
    let little = site(GENOA, None, Some(Bytes::gib(8)));
    let message = refused(&little, &StreamRequest::default());
    let expected = "STREAM's rule requires 3 arrays of 402653184 elements, 9 GiB in total, but only 8 GiB of memory is available, of which 80 % may be used";
    assert_eq!(message, expected);
    assert!(
        refused(&little, &sized("4GiB")).starts_with("3 arrays of 4 GiB need 12 GiB, but only")
    );
    // A given length that fits is planned.
    assert!(plan_of(&little, &sized("1GiB")).is_ok());
    let without_caches = site("Package:4 Core:4 PU:1", None, None);
    let unknown = refused(&without_caches, &StreamRequest::default());
    assert_eq!(unknown, "neither the caches nor the memory of the machine is known");
    let tune = StreamRequest { tune: true, ..StreamRequest::default() };
    assert_eq!(refused(&little, &tune), "--plan cannot be used with --tune");
    let mut swept = StreamRequest::default();
    swept.cell.job.process.threads = Some("1,2".parse().unwrap());
    assert_eq!(refused(&little, &swept), "--plan plans one configuration, not a sweep");
}
