//! Every row against a scalar oracle: lengths around the vector step, odd offsets, guard words.

use super::*;

/// Longest share that is tried: beyond four steps of the longest row, plus head and tail.
const MAX: usize = 4 * 16 * 8 + 3;
/// Elements before and after the share that must stay as they were.
const GUARD: usize = 16;

/// An array of elements with guards, starting `offset` elements after a 64-byte boundary.
struct Guarded<T> {
    buffer: Vec<T>,
    start: usize,
}

impl<T: Copy> Guarded<T> {
    fn new(offset: usize, value: impl Fn(usize) -> T, guard: T) -> Self {
        let mut buffer = vec![guard; MAX + 2 * GUARD + 64];
        let aligned = buffer.as_ptr().align_offset(64);
        let start = aligned + GUARD + offset;
        for i in 0..MAX {
            buffer[start + i] = value(i);
        }
        Self { buffer, start }
    }
    fn pointer(&mut self) -> *mut u8 {
        self.buffer[self.start..].as_mut_ptr().cast()
    }
}

/// Runs one row and its scalar oracle on the same data and compares everything.
macro_rules! check_row {
    ($row:expr, $type:ty, $tolerance:expr) => {{
        let row: &Row = $row;
        // Lengths 0..=4 steps + 1 in strides that meet every remainder, and the longest.
        let step = row.unroll as usize * (row.isa.vector_bits().max(512) / 8) as usize
            / size_of::<$type>();
        let lengths = (0..=(4 * step + 1).min(MAX)).step_by(3).chain([1, step, step + 1, MAX]);
        for n in lengths {
            for offset in [0usize, 1, 3] {
                let guard = -7.5 as $type;
                let mut a = Guarded::new(offset, |i| 1.0 + i as $type, guard);
                let mut b = Guarded::new((offset * 5) % 8, |i| 2.0 + (i % 7) as $type, guard);
                let mut c = Guarded::new((offset * 3) % 8, |i| 0.5 * i as $type, guard);
                let s = 3.0 as $type;
                let (mut ea, mut eb, mut ec) =
                    (a.buffer.clone(), b.buffer.clone(), c.buffer.clone());
                let mut sum = 0.0f64;
                for i in 0..n {
                    let (ia, ib, ic) = (a.start + i, b.start + i, c.start + i);
                    match row.kernel {
                        Kernel::Copy => ec[ic] = ea[ia],
                        Kernel::Scale => eb[ib] = s * ec[ic],
                        Kernel::Add => ec[ic] = ea[ia] + eb[ib],
                        Kernel::Triad => ea[ia] = eb[ib] + s * ec[ic],
                        Kernel::Write => ec[ic] = s,
                        Kernel::Update => ea[ia] *= s,
                        Kernel::Nstream => ea[ia] += eb[ib] + s * ec[ic],
                        Kernel::Read => sum += f64::from(ea[ia]),
                        Kernel::Dot => sum += f64::from(ea[ia] * eb[ib]),
                    }
                }
                let args = Args {
                    a: a.pointer(),
                    b: b.pointer(),
                    c: c.pointer(),
                    n,
                    scalar: 3.0,
                    near: 512,
                    far: 4096,
                };
                // SAFETY: the row's instruction set is there (checked by the caller), the three
                // buffers hold n elements each after their start and do not overlap.
                let got = unsafe { row.run(&args) };
                let near = |x: $type, y: $type| (x - y).abs() <= $tolerance * y.abs().max(1.0);
                for (name, got, expected) in
                    [("a", &a.buffer, &ea), ("b", &b.buffer, &eb), ("c", &c.buffer, &ec)]
                {
                    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
                        assert!(
                            near(*g, *e),
                            "{} n={n} offset={offset}: {name}[{i}] is {g}, not {e}",
                            row.name
                        );
                    }
                }
                let allowed = 1e-6 * sum.abs().max(1.0);
                assert!((got - sum).abs() <= allowed, "{} n={n}: sum {got}, not {sum}", row.name);
            }
        }
    }};
}

#[test]
fn every_row_of_this_processor_agrees_with_the_scalar_oracle() {
    let mut skipped = Vec::new();
    let mut checked = 0;
    for row in rows() {
        if !row.isa.available() {
            skipped.push(row.isa.name());
            continue;
        }
        // One rounding may differ by fused multiply-add: two units in the last place.
        match row.element {
            Element::F64 => check_row!(row, f64, 4.0 * f64::EPSILON),
            Element::F32 => check_row!(row, f32, 4.0 * f32::EPSILON),
        }
        checked += 1;
    }
    skipped.dedup();
    assert!(checked >= 2 * 9 * 4, "only {checked} rows were checked; skipped {skipped:?}");
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
