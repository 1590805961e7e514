//! Every row against a scalar oracle: lengths around the vector step, odd offsets, guard words.

use super::*;

/// Longest share that is tried: beyond four steps of the longest row, plus head and tail.
const MAX: usize = 4 * 16 * 8 + 3;

#[test]
fn every_row_of_this_processor_agrees_with_the_scalar_oracle() {
    let mut skipped = Vec::new();
    let mut checked = 0;
    for row in rows() {
        if !row.isa.available() {
            skipped.push(row.isa.name());
            continue;
        }
        // Lengths 0..=4 steps + 1 in strides that meet every remainder, and the longest.
        let lane = row.isa.vector_bits().max(512) as usize / 8 / row.element.bytes() as usize;
        let step = row.unroll as usize * lane;
        let lengths = (0..=(4 * step + 1).min(MAX)).step_by(3).chain([1, step, step + 1, MAX]);
        let outcome = oracle::check(row.kernel, row.element, lengths, &mut |args| {
            // SAFETY: the row's instruction set is there, and the oracle's buffers hold `n` elements
            // each and do not overlap.
            unsafe { row.run(args) }
        });
        assert_eq!(outcome, Ok(()), "{}", row.name);
        checked += 1;
    }
    skipped.dedup();
    assert!(checked >= 2 * 9 * 4, "only {checked} rows were checked; skipped {skipped:?}");
}

#[test]
fn the_oracle_finds_what_is_wrong() {
    let wrong = |kernel, run: &mut dyn FnMut(&Args)| {
        let outcome = oracle::check(kernel, Element::F64, [9], &mut |args| {
            run(args);
            0.0
        });
        outcome.unwrap_err().what
    };
    // SAFETY: the oracle's buffers hold `n` elements, and a guard behind them.
    let put = |args: &Args, i: usize, x: f64| unsafe { *args.c.cast::<f64>().add(i) = x };
    // SAFETY: as above.
    let copy = |args: &Args, n| unsafe { args.c.copy_from(args.a, 8 * n) };
    assert_eq!(wrong(Kernel::Copy, &mut |args| copy(args, args.n - 1)), "c[8]");
    assert_eq!(wrong(Kernel::Copy, &mut |args| copy(args, args.n + 1)), "c[9]");
    assert_eq!(
        wrong(Kernel::Write, &mut |args| (0..9).for_each(|i| put(args, i, f64::NAN))),
        "c[0]"
    );
    assert_eq!(wrong(Kernel::Read, &mut |_| ()), "the sum");
}

#[test]
fn rows_have_names_of_their_own() {
    let mut names: Vec<&str> = rows().map(|row| row.name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn every_shape_that_can_be_asked_for_has_a_row_for_every_kernel() {
    for isa in available_isas() {
        for spec in &KERNELS {
            for element in Element::ALL {
                for (unroll, prefetch) in
                    [(1, Prefetch::Off), (8, Prefetch::Off), (4, Prefetch::Near(512))]
                {
                    if isa == Isa::Portable && prefetch != Prefetch::Off {
                        continue;
                    }
                    let stores = Stores::Regular;
                    let shape = Shape { isa, stores, unroll, prefetch };
                    assert!(find(spec.kernel, *element, shape).is_some(), "{} {shape}", spec.name);
                }
            }
        }
    }
}

#[test]
fn the_table_of_kernels_is_in_the_order_of_its_type() {
    for (i, spec) in KERNELS.iter().enumerate() {
        assert_eq!(spec.kernel as usize, i);
        assert_eq!(spec.name.parse::<Kernel>().unwrap(), spec.kernel);
    }
}

#[test]
fn bytes_are_counted_as_stream_counts_them() {
    // STREAM 5.10: 16, 16, 24, 24 bytes an iteration; with write-allocate 24, 24, 32, 32.
    let counted: Vec<u64> = STREAM.iter().map(|k| k.counted(Element::F64)).collect();
    let moved: Vec<u64> = STREAM.iter().map(|k| k.moved(Element::F64, Stores::Regular)).collect();
    assert_eq!(counted, [16, 16, 24, 24]);
    assert_eq!(moved, [24, 24, 32, 32]);
    assert_eq!(Kernel::Triad.moved(Element::F64, Stores::NonTemporal), 24);
    assert_eq!(Kernel::Nstream.counted(Element::F32), 16);
    assert_eq!(Kernel::Update.moved(Element::F64, Stores::Regular), 16);
}

#[test]
fn a_wrong_name_lists_the_right_ones() {
    let error = "tirad".parse::<Kernel>().unwrap_err();
    assert!(error.to_string().starts_with("unknown kernel 'tirad': expected copy, scale, add"));
}

#[test]
fn prefetch_distances_print_and_parse_back() {
    for prefetch in [Prefetch::Off, Prefetch::Near(512), Prefetch::FarNear(4096, 512)] {
        assert_eq!(prefetch.to_string().parse(), Ok(prefetch));
    }
    for (text, at) in [("", 0), ("of", 0), ("0", 0), ("512,", 4), ("512;64", 3), ("1,2,3", 3)] {
        assert_eq!(text.parse::<Prefetch>().unwrap_err().at, at, "{text}");
    }
}

#[test]
fn a_sum_of_many_equal_values_does_not_drift() {
    // A full mantissa, and enough blocks that plain addition of their sums would be off by 3e-12.
    const N: usize = 1 << 25;
    let value = 2.0 * 15f64.powi(20) / 7.0;
    let mut data = vec![value; N];
    let a: *mut u8 = data.as_mut_ptr().cast();
    let args = Args { a, b: a, c: a, n: N, scalar: 3.0, near: 0, far: 0 };
    let isa = available_isas()[0];
    let shape = Shape { isa, stores: Stores::Regular, unroll: 4, prefetch: Prefetch::Off };
    let row = find(Kernel::Read, Element::F64, shape).unwrap();
    // SAFETY: the array has N elements, and the kernel only reads `a`.
    let sum = unsafe { row.run(&args) };
    let error = (sum / (value * N as f64) - 1.0).abs();
    assert!(error < 1e-13, "relative error {error:e}");
}
