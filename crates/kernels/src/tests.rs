//! Tests that compare every loop with the oracle, and the table of kernels with the loops, the C source and the
//! documentation.

use super::oracle::Oracle;
use super::*;

/// Maximum length of a share to test: more than four iterations of the most unrolled loop, with elements before and
/// after them.
const MAX: usize = 4 * 16 * 8 + 3;

/// Returns lengths of zero, one and two groups of pages, with additional elements before and after the groups.
fn around_groups(element: Element, pages: usize) -> impl Iterator<Item = usize> {
    let group = pages * pass::PAGE_DISTANCE_BYTES / element.bytes() as usize;
    let all = [group - 1, group, group + 17, group + 8 * 64 + 5, 2 * group + 31];
    // For small groups, all lengths are tested; for larger groups, only lengths just below one group and just above two
    // groups.
    all.into_iter().filter(move |n| pages <= 2 || *n < group || *n > 2 * group)
}

/// True if the loops of an instruction set are tested. The variable `NODEGAUGE_ORACLE=portable,sse2` selects
/// instruction sets, for tools that do not support the others.
fn tried(isa: Isa) -> bool {
    match std::env::var("NODEGAUGE_ORACLE") {
        Ok(names) => names.split(',').any(|name| name.parse() == Ok(isa)),
        Err(_) => true,
    }
}

/// Returns the lengths of shares with which a loop is tested: from 0 to 2 steps + 1, with a stride that covers
/// every remainder, around 3 and 4 steps, the maximum, and around groups of pages.
fn lengths(variant: &Variant) -> impl Iterator<Item = usize> {
    let (element, shape) = (variant.element(), variant.shape());
    let lanes = shape.isa.vector_bits().max(512) as usize / 8 / element.bytes() as usize;
    let step = shape.unroll as usize * lanes;
    let longer = [1, step, step + 1, 3 * step - 1, 3 * step + 1, 4 * step - 1, 4 * step, MAX];
    let lengths = (0..=2 * step + 1).step_by(3).chain(longer).map(|n| n.min(MAX));
    let groups = around_groups(element, shape.side_by_side.pages().into());
    lengths.chain(groups.filter(move |_| shape.side_by_side > SideBySidePages::ONE))
}

#[test]
fn loops_agree_with_oracle() {
    let all: Vec<Variant> =
        variants::variants().filter(|variant| tried(variant.shape().isa)).collect();
    let mut checked = 0;
    for kernel in KERNELS.iter().map(|spec| spec.kernel) {
        for element in Element::ALL.iter().copied() {
            let mut oracle = Oracle::new(kernel, element);
            let of_kernel =
                |variant: &&Variant| (variant.kernel(), variant.element()) == (kernel, element);
            for variant in all.iter().filter(of_kernel) {
                let outcome = oracle.check(lengths(variant), &mut |args| {
                    // SAFETY: the oracle's buffers have `n` elements each and do not overlap.
                    unsafe { variant.run(args) }
                });
                assert_eq!(outcome, Ok(()), "{kernel} of {element}, {}", variant.shape());
                checked += 1;
            }
        }
    }
    assert_eq!(checked, all.len());
    assert!(checked >= 2 * 9 * 4, "only {checked} variants were checked");
}

#[test]
fn resident_loops_agree_with_oracle() {
    // Numbers of lines around the longest step (8 vectors of one line each), and around one and two groups of pages.
    let steps = [1, 2, 3, 7, 8, 9, 15, 16, 17, 64, 65, 513];
    let cases = |pages: usize| {
        let group = pages * pass::PAGE_DISTANCE_BYTES / CACHE_LINE_BYTES;
        let groups = [group - 1, group, group + 1, 2 * group + 7].into_iter();
        let lines = steps.into_iter().chain(groups.filter(move |_| pages > 1));
        lines.flat_map(|lines| [0, 1, 2, 5].map(|times| (lines, times)))
    };
    let mut checked = 0;
    for kernel in KERNELS.iter().map(|spec| spec.kernel) {
        let mut oracle = Oracle::new(kernel, Element::F64);
        let all = Stores::ALL.iter().flat_map(|stores| resident_loops(kernel, *stores));
        for variant in all.filter(|variant| tried(variant.shape().isa)) {
            let pages = variant.shape().side_by_side.pages().into();
            let outcome = oracle.check_resident(cases(pages), &mut |args| {
                // SAFETY: the oracle's buffers have `n` elements each, start at a line, and do not overlap.
                unsafe { variant.run(args) }
            });
            assert_eq!(outcome, Ok(()), "{kernel}, {}", variant.shape());
            checked += 1;
        }
    }
    assert!(checked >= 8 * 4, "only {checked} variants were checked");
}

#[test]
fn widest_resident_loops_are_first() {
    let widths: Vec<u32> = resident_loops(Kernel::Copy, Stores::Regular)
        .iter()
        .map(|variant| variant.shape().isa.vector_bits())
        .collect();
    assert!(widths.windows(2).all(|pair| pair[0] >= pair[1]) && !widths.is_empty());
    assert!(resident_loops(Kernel::Read, Stores::NonTemporal).is_empty());
}

#[test]
fn oracle_finds_wrong_elements() {
    let wrong = |kernel, run: &mut dyn FnMut(&LoopArgs)| {
        let outcome = Oracle::new(kernel, Element::F64).check([9], &mut |args| {
            run(args);
            0.0
        });
        outcome.unwrap_err().what
    };
    // SAFETY: the oracle's buffers have `n` elements, followed by guard elements.
    let put = |args: &LoopArgs, i: usize, x: f64| unsafe {
        *args.at[2].cast::<f64>().add(i).as_ptr() = x
    };
    // SAFETY: the oracle's buffers have `n` elements, followed by guard elements.
    let copy = |args: &LoopArgs, n| unsafe { args.at[2].copy_from(args.at[0], 8 * n) };
    assert_eq!(wrong(Kernel::Copy, &mut |args| copy(args, args.n - 1)), "c[8]");
    assert_eq!(wrong(Kernel::Copy, &mut |args| copy(args, args.n + 1)), "c[9]");
    assert_eq!(
        wrong(Kernel::Write, &mut |args| (0..9).for_each(|i| put(args, i, f64::NAN))),
        "c[0]"
    );
    assert_eq!(wrong(Kernel::Read, &mut |_| ()), "the sum");
}

#[test]
fn loop_shapes_are_distinct() {
    let mut seen = std::collections::HashSet::new();
    for variant in variants::variants() {
        let what = (variant.kernel(), variant.element(), variant.shape());
        assert!(seen.insert(what), "{what:?}");
    }
}

#[test]
fn each_pass_kernel_has_the_basic_loop_shapes() {
    for isa in available_isas() {
        for spec in KERNELS.iter().filter(|spec| spec.has_pass_loops()) {
            for element in Element::ALL {
                for (unroll, side_by_side, prefetch) in [
                    (1, 1, Prefetch::Off),
                    (8, 1, Prefetch::Off),
                    (1, 8, Prefetch::Off),
                    (4, 1, Prefetch::Near(512)),
                ] {
                    if isa == Isa::Portable && prefetch != Prefetch::Off {
                        continue;
                    }
                    let stores = Stores::Regular;
                    let side_by_side = SideBySidePages::new(side_by_side).unwrap();
                    let shape = KernelShape { isa, stores, unroll, side_by_side, prefetch };
                    assert!(find(spec.kernel, *element, shape).is_some(), "{} {shape}", spec.name);
                }
            }
        }
    }
}

/// Removes the indices and multiplication signs from a loop body, in C or as a formula.
fn plain(text: &str) -> String {
    text.replace("[j]", "").replace(" * ", " ")
}

#[test]
fn formulas_match_declared_reads_writes_and_flops() {
    for spec in KERNELS {
        let (left, right) = spec.formula.split_once('=').unwrap();
        let adds_to_left = left.ends_with('+');
        let left = left.trim_end_matches('+').trim();
        let mut words: Vec<&str> = right.split_whitespace().collect();
        if adds_to_left {
            words.extend(["+", left]);
        }
        let sums = words.iter().filter(|word| **word == "+").count();
        let products = words.windows(2).filter(|pair| !pair.contains(&"+")).count();
        assert_eq!(spec.flops as usize, sums + products, "{}", spec.name);
        let scalars = words.iter().filter(|word| **word == "s").count();
        assert_eq!(spec.scalars as usize, scalars, "{}", spec.name);
        let mut reads = words.clone();
        reads.retain(|word| !["+", "s", "sum"].contains(word));
        reads.sort_unstable();
        let named: Vec<&str> = spec.reads.iter().map(|array| array.name()).collect();
        assert_eq!(named, reads, "{}", spec.name);
        assert_eq!(spec.writes.map_or("sum", Array::name), left, "{}", spec.name);
    }
}

#[test]
fn c_loops_match_kernel_table() {
    let made = |start: &str| -> Vec<(String, String)> {
        let lines = C_SOURCE.lines().filter_map(|line| line.strip_prefix(start));
        lines
            .map(|line| {
                let (name, body) = line.trim_end_matches(')').split_once(", ").unwrap();
                (name.to_owned(), plain(body))
            })
            .collect()
    };
    let mut in_c = made("MAP(");
    in_c.extend(made("SUM(").into_iter().map(|(name, term)| (name, format!("sum += {term}"))));
    in_c.sort_unstable();
    let passes = KERNELS.iter().filter(|spec| spec.has_pass_loops());
    let mut expected: Vec<(String, String)> =
        passes.map(|spec| (spec.name.to_owned(), spec.formula.to_owned())).collect();
    expected.sort_unstable();
    assert_eq!(in_c, expected);
}

/// Checks the source of the loops for SVE, because only the program for 64-bit Arm contains them.
#[test]
fn every_kernel_has_sve_code() {
    let (_, lines) = include_str!("sve.rs").split_once("\nscalable! {\n").unwrap();
    let (lines, _) = lines.split_once("\n}\n").unwrap();
    let in_assembler: Vec<&str> =
        lines.lines().map(|line| line.trim().split(':').next().unwrap()).collect();
    let expected: Vec<String> = KERNELS.iter().map(|spec| format!("{:?}", spec.kernel)).collect();
    assert_eq!(in_assembler, expected);
}

#[test]
fn kernel_chapter_matches_table() {
    let chapter =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kernels.md"))
            .unwrap();
    let rows: Vec<String> = chapter
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`') && line.contains('='))
        .map(str::to_owned)
        .collect();
    let expected: Vec<String> = KERNELS
        .iter()
        .map(|spec| {
            let moved = spec.words_per_iteration() + u32::from(spec.write_allocates());
            let used = match spec.loops {
                LoopKinds::Passes => "stream",
                LoopKinds::ResidentLoop => "memory",
                LoopKinds::Both => "stream, memory",
            };
            format!(
                "| {} | `{}` | {} | {} | {} | {moved} | {} | {} | {used} |",
                spec.name,
                spec.formula,
                spec.reads.len(),
                u32::from(spec.writes.is_some()),
                spec.words_per_iteration(),
                spec.flops,
                spec.scalars,
            )
        })
        .collect();
    assert_eq!(rows, expected);
}

#[test]
fn kernels_are_found_by_name() {
    for spec in KERNELS.iter().filter(|spec| spec.has_pass_loops()) {
        assert_eq!(spec.name.parse::<Kernel>().unwrap(), spec.kernel);
    }
    assert!("blend".parse::<Kernel>().is_err());
}

#[test]
fn bytes_are_counted_by_stream_rule() {
    // STREAM 5.10 counts 16, 16, 24 and 24 bytes per iteration; with write-allocate 24, 24, 32 and 32 bytes move.
    let counted: Vec<u64> = STREAM.iter().map(|k| k.counted_bytes(Element::F64)).collect();
    let moved: Vec<u64> =
        STREAM.iter().map(|k| k.moved_bytes(Element::F64, Stores::Regular)).collect();
    assert_eq!(counted, [16, 16, 24, 24]);
    assert_eq!(moved, [24, 24, 32, 32]);
    assert_eq!(Kernel::Triad.moved_bytes(Element::F64, Stores::NonTemporal), 24);
    assert_eq!(Kernel::Nstream.counted_bytes(Element::F32), 16);
    assert_eq!(Kernel::Update.moved_bytes(Element::F64, Stores::Regular), 16);
    assert_eq!(Kernel::VectorTriad.counted_bytes(Element::F64), 4 * 8);
    assert_eq!(Kernel::VectorTriad.moved_bytes(Element::F64, Stores::Regular), 5 * 8);
    assert_eq!(Kernel::VectorTriad.moved_bytes(Element::F64, Stores::NonTemporal), 4 * 8);
}

#[test]
fn fourth_array_is_allocated_only_if_used() {
    assert_eq!(array_count([]), 3);
    assert_eq!(array_count([Kernel::Copy]), 3);
    let passes = KERNELS.iter().filter(|spec| spec.has_pass_loops()).map(|spec| spec.kernel);
    let four: Vec<Kernel> = passes.filter(|kernel| array_count([*kernel]) == 4).collect();
    assert_eq!(four, [Kernel::VectorTriad]);
    assert_eq!(array_count([Kernel::Copy, Kernel::VectorTriad, Kernel::Triad]), 4);
}

#[test]
fn unknown_kernel_name_lists_known_names() {
    let error = "tirad".parse::<Kernel>().unwrap_err();
    assert!(error.to_string().starts_with("unknown kernel 'tirad': expected copy, scale, add"));
}

#[test]
fn prefetch_distances_round_trip() {
    for prefetch in [Prefetch::Off, Prefetch::Near(512), Prefetch::FarNear(4096, 512)] {
        assert_eq!(prefetch.to_string().parse(), Ok(prefetch));
    }
    for (text, at) in [("", 0), ("of", 0), ("0", 0), ("512,", 4), ("512;64", 3), ("1,2,3", 3)] {
        assert_eq!(text.parse::<Prefetch>().unwrap_err().at, at, "{text}");
    }
}

#[test]
fn page_counts_round_trip() {
    for pages in [1, 4, 64] {
        let known = SideBySidePages::new(pages).unwrap();
        assert_eq!(known.to_string().parse(), Ok(known));
    }
    for text in ["", "0", "65", "300", "4x", "-1"] {
        assert!(text.parse::<SideBySidePages>().is_err(), "{text}");
    }
}

#[test]
fn sum_of_many_equal_values_is_accurate() {
    // The value has a full mantissa, and the blocks are so many that plain addition of their sums would have an error
    // of 3e-12.
    const N: usize = 1 << 25;
    let value = 2.0 * 15f64.powi(20) / 7.0;
    let mut data = vec![value; N];
    let at = [std::ptr::NonNull::from(&mut data[..]).cast(); MAX_ARRAYS];
    let args = LoopArgs { at, n: N, scalar: SCALAR, repeats: 1 };
    let isa = available_isas()[0];
    let shape = KernelShape {
        isa,
        stores: Stores::Regular,
        unroll: 4,
        side_by_side: SideBySidePages::ONE,
        prefetch: Prefetch::Off,
    };
    let variant = find(Kernel::Read, Element::F64, shape).unwrap();
    // SAFETY: the array has N elements, and the kernel only reads `a`.
    let sum = unsafe { variant.run(&args) };
    let error = (sum / (value * N as f64) - 1.0).abs();
    assert!(error < 1e-13, "relative error {error:e}");
}

/// Checks that loops contain no calls. A loop that loads vectors with a function call would reach only a third of the
/// memory bandwidth, which no other test would detect.
#[cfg(target_arch = "x86_64")]
#[test]
fn loops_contain_no_calls() {
    use iced_x86::{Decoder, DecoderOptions, FlowControl};
    /// Maximum number of bytes to decode; all these functions are shorter.
    const MAX_CODE: usize = 64 << 10;
    let (mut loops, mut calling) = (0, Vec::new());
    for build in variants::builds() {
        let start = build.run as usize as u64;
        // SAFETY: the bytes are code of this program. Decoding ends with the function, long before the end of the code
        // section.
        let code = unsafe { std::slice::from_raw_parts(start as *const u8, MAX_CODE) };
        let decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let (mut calls, mut backward, mut furthest) = (Vec::new(), Vec::new(), start);
        for instruction in decoder {
            let (ip, target) = (instruction.ip(), instruction.near_branch_target());
            let flow = instruction.flow_control();
            match flow {
                FlowControl::Call | FlowControl::IndirectCall => calls.push(ip),
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
                    if (start..=ip).contains(&target) =>
                {
                    backward.push((target, ip));
                }
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                    furthest = furthest.max(target);
                }
                _ => {}
            }
            let ends = matches!(
                flow,
                FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::Exception
            );
            // Functions are separated by the instruction `int3`.
            if flow == FlowControl::Interrupt || ends && ip >= furthest {
                break;
            }
        }
        // Only innermost loops are checked; an outer loop may contain the exit.
        let holds = |(from, to): &(u64, u64), ip: u64| (*from..=*to).contains(&ip);
        let innermost = backward.iter().filter(|outer| {
            !backward
                .iter()
                .any(|inner| inner != *outer && holds(outer, inner.0) && holds(outer, inner.1))
        });
        let innermost: Vec<_> = innermost.collect();
        let within = |call: &u64| innermost.iter().any(|range| holds(range, *call));
        let (kernel, shape) = (build.kernel, build.shape);
        if calls.iter().any(within) {
            calling.push(format!("{kernel} of {} ({shape})", build.element));
        }
        assert!(!backward.is_empty(), "{kernel} ({shape}) has no loop");
        loops += 1;
    }
    assert_eq!(calling, [""; 0], "their loops call functions");
    assert!(loops > 500, "only {loops} functions were read");
}
