use super::*;
use nodegauge_measure::schedule::shuffle::Shuffler;
use proptest::prelude::*;

/// Returns `count` sizes: 4 and 6 KiB times powers of two, in bytes.
fn sizes(count: usize) -> impl Iterator<Item = u64> {
    (0..count).map(|i| (if i % 2 == 0 { 4096 } else { 6144 }) << (i / 2))
}

/// Returns the dots of curves with these values, at the sizes of [`sizes`].
fn curves(all: &[&[f64]]) -> Vec<CurvePoint> {
    let values = |i: usize| all.iter().map(|curve| curve[i]).collect();
    sizes(all[0].len())
        .enumerate()
        .map(|(i, bytes)| CurvePoint { bytes, values: values(i), cached: None })
        .collect()
}

/// Returns the L1 and L2 of one thread, and a last-level cache with the share of one thread.
fn reported(l1_kib: u64, l2_kib: u64, whole_kib: u64, l3_kib: u64) -> [MachineCache; 3] {
    let cache = |level, total_bytes, bytes| MachineCache {
        level,
        total_bytes: total_bytes << 10,
        bytes: bytes << 10,
    };
    [cache(1, l1_kib, l1_kib), cache(2, l2_kib, l2_kib), cache(3, whole_kib, l3_kib)]
}

/// Returns the caches of a Sapphire Rapids guest with two virtual CPUs. The system reports an L3 of 105 MiB, which is
/// shared with busy guests.
fn sapphire_rapids(threads: u64) -> [MachineCache; 3] {
    reported(48, 2048, 105 << 10, (105 << 10) / threads)
}

/// Nanoseconds per load on the Sapphire Rapids guest, on huge pages, for 4 KiB to 512 MiB. Lines evicted to L3 are lost
/// before the chase uses them again.
const CHASE_1: [f64; 35] = [
    2.056, 2.036, 2.046, 2.034, 2.037, 2.176, 2.049, 2.076, 6.452, 6.742, 6.828, 6.794, 6.662,
    7.686, 7.561, 7.966, 6.659, 7.276, 25.81, 156.9, 170.1, 158.3, 169.8, 152.6, 160.8, 162.3,
    174.7, 160.5, 166.6, 167.8, 171.9, 165.8, 169.5, 173.4, 189.8,
];

/// Nanoseconds per load when the measurement of [`CHASE_1`] was repeated some minutes later.
const CHASE_2: [f64; 35] = [
    2.037, 2.048, 2.038, 2.023, 2.041, 2.107, 2.485, 2.226, 6.72, 6.528, 7.053, 7.131, 6.511,
    6.582, 7.807, 6.6, 6.341, 44.59, 142.6, 50.03, 172.0, 156.2, 166.0, 154.9, 164.7, 166.9, 163.3,
    173.8, 172.3, 168.6, 170.1, 180.7, 179.3, 198.9, 186.7,
];

/// GB/s of read, write, copy and triad on the Sapphire Rapids guest, with two threads, for 4 KiB to 256 MiB per thread.
const LADDER_1: [[f64; 33]; 4] = [
    [
        291.0, 298.9, 296.7, 302.9, 303.3, 299.3, 308.0, 259.9, 190.4, 181.6, 191.2, 192.4, 193.1,
        190.8, 190.4, 191.1, 197.8, 187.2, 154.5, 37.43, 44.58, 45.22, 35.19, 35.95, 26.37, 25.75,
        24.99, 29.39, 27.14, 24.6, 22.96, 24.12, 23.77,
    ],
    [
        210.0, 210.9, 201.2, 202.1, 202.0, 192.9, 198.4, 77.11, 80.01, 79.11, 77.67, 75.44, 74.99,
        77.01, 76.07, 75.97, 76.25, 74.0, 66.76, 35.08, 39.61, 39.95, 38.94, 36.82, 27.32, 20.53,
        20.46, 23.63, 19.15, 20.32, 19.04, 20.85, 19.57,
    ],
    [
        407.2, 413.5, 408.6, 406.6, 406.7, 410.8, 402.9, 181.2, 133.7, 133.1, 131.7, 129.9, 131.2,
        132.7, 134.4, 129.8, 134.1, 127.2, 123.0, 40.45, 42.59, 42.93, 41.68, 41.53, 36.21, 22.77,
        26.43, 24.28, 22.87, 22.1, 22.36, 23.96, 21.65,
    ],
    [
        471.6, 481.0, 464.0, 498.2, 497.6, 485.9, 475.4, 165.2, 164.4, 166.1, 160.0, 163.4, 160.6,
        169.3, 163.0, 161.2, 165.3, 160.5, 123.2, 42.81, 43.64, 43.52, 44.44, 43.53, 40.27, 29.36,
        28.45, 25.52, 25.49, 27.32, 24.97, 24.84, 24.82,
    ],
];

/// GB/s when the measurement of [`LADDER_1`] was repeated some minutes later.
const LADDER_2: [[f64; 33]; 4] = [
    [
        322.0, 336.8, 322.9, 310.8, 307.8, 320.8, 306.7, 245.6, 186.3, 192.3, 192.0, 181.4, 186.4,
        178.3, 183.1, 183.5, 168.8, 163.6, 102.1, 39.98, 37.63, 33.3, 38.31, 35.95, 25.16, 18.24,
        20.22, 22.44, 23.78, 22.54, 22.16, 23.8, 22.87,
    ],
    [
        240.8, 220.6, 281.5, 251.9, 247.7, 232.6, 269.0, 66.83, 66.31, 69.83, 75.25, 69.82, 71.08,
        69.25, 68.16, 69.77, 68.14, 64.99, 47.86, 34.53, 31.94, 33.45, 36.02, 33.34, 27.61, 21.38,
        17.71, 19.78, 18.93, 17.02, 20.55, 19.35, 18.96,
    ],
    [
        489.2, 477.5, 584.9, 477.7, 467.0, 462.6, 522.6, 135.0, 117.8, 125.3, 127.9, 120.9, 116.2,
        117.5, 117.4, 118.9, 110.1, 118.8, 68.37, 38.21, 40.32, 39.36, 39.78, 37.8, 25.84, 22.86,
        24.06, 20.78, 19.64, 20.4, 23.82, 19.65, 20.89,
    ],
    [
        414.5, 451.4, 422.2, 422.1, 417.4, 410.3, 392.4, 170.6, 137.7, 144.7, 152.4, 144.8, 135.5,
        145.5, 134.4, 139.3, 137.7, 138.5, 91.18, 41.48, 39.38, 40.24, 39.93, 41.71, 33.79, 28.18,
        23.92, 26.26, 22.35, 23.94, 22.52, 24.64, 23.54,
    ],
];

/// Nanoseconds per load on a Zen 5 guest, on huge pages, for 4 KiB to 128 MiB. Other guests share the last-level cache,
/// so its level ends well below the reported 32 MiB.
const ZEN5: [f64; 31] = [
    0.93, 0.93, 0.93, 0.93, 0.93, 0.93, 0.93, 0.93, 2.1, 2.8, 3.2, 3.3, 3.3, 3.3, 3.3, 3.4, 3.9,
    6.5, 9.6, 10.4, 11.0, 11.3, 13.0, 27.0, 48.0, 66.0, 82.0, 92.0, 98.0, 101.0, 103.0,
];

/// Nanoseconds per load on a Zen 4 guest with caches of 32 KiB, 1 MiB and 32 MiB. The level of the last cache ends at 5
/// to 12 MiB. The program multichase measured 1.09 ns at 16 KiB, 3.8 ns at 64 KiB, 7.5 ns at 1 MiB, 11.3 ns at 4 MiB,
/// and 98 to 102 ns from 16 MiB on.
const ZEN4: [f64; 31] = [
    1.09, 1.09, 1.09, 1.09, 1.09, 1.09, 1.1, 3.2, 3.8, 3.8, 3.8, 3.8, 3.8, 3.9, 4.0, 4.6, 7.5,
    10.6, 11.1, 11.2, 11.3, 14.0, 35.0, 70.0, 98.0, 99.0, 101.0, 102.0, 102.0, 101.0, 102.0,
];

/// Returns the name, the first and the last working set in KiB of each level.
fn found(dots: &[CurvePoint], reported: &[MachineCache], guest: bool) -> Vec<(String, u64, u64)> {
    let kib = |i: usize| dots[i].bytes >> 10;
    let named = name_levels(dots, find_levels(dots), reported, guest).into_iter();
    named.map(|n| (n.name, kib(n.level.first), kib(n.level.last))).collect()
}

fn texts(dots: &[CurvePoint], reported: &[MachineCache]) -> Vec<String> {
    disagreements(dots, &name_levels(dots, find_levels(dots), reported, true), reported)
}

#[track_caller]
fn has_levels(dots: &[CurvePoint], reported: &[MachineCache], expected: &[(&str, u64, u64)]) {
    let found = found(dots, reported, true);
    let found: Vec<(&str, u64, u64)> = found.iter().map(|(n, x, y)| (n.as_str(), *x, *y)).collect();
    assert_eq!(found, expected);
}

#[test]
fn memory_is_not_named_a_cache_if_the_reported_size_is_wrong() {
    let caches = sapphire_rapids(1);
    for (curve, l2, memory) in [(CHASE_1, 1536, 3), (CHASE_2, 1024, 4)] {
        let dots = curves(&[&curve]);
        let expected = [("L1", 4, 48), ("L2", 64, l2), ("memory", memory << 10, 512 << 10)];
        has_levels(&dots, &caches, &expected);
        let l3 = format!(
            "L3 of 105 MiB, as reported by the system, is not detected: working sets of {memory} MiB to 512 MiB \
             have the speed of memory"
        );
        assert_eq!(texts(&dots, &caches).last(), Some(&l3));
    }
}

#[test]
fn plateau_of_a_shared_cache_is_named() {
    let caches = sapphire_rapids(2);
    for (ladder, memory) in [(LADDER_1, 24), (LADDER_2, 32)] {
        let dots = curves(&ladder.each_ref().map(|curve| &curve[..]));
        let expected = [
            ("L1", 4, 32),
            ("L2", 64, 1536),
            ("L3", 3 << 10, 12 << 10),
            ("memory", memory << 10, 256 << 10),
        ];
        has_levels(&dots, &caches, &expected);
        assert_eq!(
            texts(&dots, &caches),
            [
                "L3 of 105 MiB, 52.5 MiB per thread, as reported by the system: in the curve, its level ends \
              between 12 MiB and 16 MiB"
            ]
        );
    }
}

#[test]
fn cache_levels_of_zen_guests_are_named() {
    let caches = reported(48, 1024, 32 << 10, 32 << 10);
    let l3 = "L3 of 32 MiB, as reported by the system: in the curve, its level ends between";
    let dots = curves(&[&ZEN5]);
    has_levels(
        &dots,
        &caches,
        &[
            ("L1", 4, 48),
            ("L2", 128, 768),
            ("L3", 2 << 10, 6 << 10),
            ("memory", 48 << 10, 128 << 10),
        ],
    );
    assert_eq!(texts(&dots, &caches), [format!("{l3} 6 MiB and 8 MiB")]);
    let (zen4_dots, zen4_caches) = (curves(&[&ZEN4]), reported(32, 1024, 32 << 10, 32 << 10));
    has_levels(
        &zen4_dots,
        &zen4_caches,
        &[("L1", 4, 32), ("L2", 64, 512), ("L3", 1536, 4 << 10), ("memory", 16 << 10, 128 << 10)],
    );
    assert_eq!(texts(&zen4_dots, &zen4_caches).last(), Some(&format!("{l3} 4 MiB and 6 MiB")));
}

#[test]
fn last_level_is_ambiguous_if_all_sets_fit() {
    let caches = sapphire_rapids(1);
    let dots = curves(&[&CHASE_1[..29]]);
    let last = |guest| found(&dots, &caches, guest).pop().unwrap().0;
    assert_eq!((last(true).as_str(), last(false).as_str()), ("L3 or memory", "L3"));
    assert!(texts(&dots, &caches).is_empty());
}

/// Nanoseconds per load on the Sapphire Rapids guest under load from other programs. Memory has several levels,
/// depending on how many pages the TLB covers, and the sizes of the first memory level match L3.
const CHASE_BUSY: [f64; 35] = [
    2.46, 2.54, 2.55, 2.51, 2.5, 2.6, 2.85, 6.22, 7.02, 6.78, 6.89, 6.85, 6.91, 8.24, 17.2, 9.14,
    11.3, 145.9, 345.3, 143.3, 152.5, 438.0, 146.8, 476.5, 148.5, 148.6, 164.6, 195.0, 189.6,
    193.6, 239.6, 235.9, 255.2, 252.2, 233.7,
];

#[test]
fn loads_as_slow_as_flushed_lines_are_memory() {
    let caches = sapphire_rapids(1);
    let with = |cached: &dyn Fn(u64) -> bool| {
        let mut dots = curves(&[&CHASE_BUSY]);
        dots.iter_mut().for_each(|dot| dot.cached = Some(cached(dot.bytes)));
        dots
    };
    let dots = with(&|bytes| bytes < 3 << 19);
    let found = found(&dots, &caches, true);
    let names: Vec<&str> = found.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names[..2], ["L1", "L2"], "{found:?}");
    assert!(names.len() > 3 && names[2..].iter().all(|name| *name == "memory"), "{found:?}");
    assert!(
        texts(&dots, &caches).iter().any(|text| text.starts_with("L3 of 105 MiB, as reported"))
    );
    // A cache that is larger than the hypervisor reports is still named as a cache.
    let sizes = reported(48, 2048, 4 << 10, 4 << 10);
    let mut zen5_dots = curves(&[&ZEN5]);
    zen5_dots.iter_mut().for_each(|dot| dot.cached = Some(dot.bytes < 16 << 20));
    let named = name_levels(&zen5_dots, find_levels(&zen5_dots), &sizes, true);
    assert_eq!(named.iter().map(|n| &*n.name).collect::<Vec<_>>(), ["L1", "L2", "L3", "memory"]);
}

#[test]
fn flat_curve_has_one_level_and_slope_has_none() {
    let dots = curves(&[&[5.0, 5.1, 5.0, 4.9, 5.0, 5.05]]);
    assert_eq!(find_levels(&dots).iter().map(|level| level.last).collect::<Vec<_>>(), [5]);
    assert!(find_levels(&[]).is_empty());
    let slope: Vec<f64> = (0..20).map(|i| 1.25f64.powi(i)).collect();
    let found = find_levels(&curves(&[&slope]));
    assert!(found.is_empty(), "{found:?}");
    // If no caches are reported, a plateau that continues to the end is memory.
    assert_eq!(name_levels(&dots, find_levels(&dots), &[], true)[0].name, "memory");
}

#[test]
fn level_that_ends_between_unmeasured_sets_belongs_to_the_cache_that_holds_its_sets() {
    let caches = reported(32, 1024, 32 << 10, 32 << 10);
    let measured = |is_measured: &dyn Fn(u64) -> bool| {
        let mut dots = curves(&[&ZEN4]);
        dots.retain(|dot| is_measured(dot.bytes));
        dots
    };
    // No set between 512 KiB and 64 MiB was measured, so the level of L2 may end anywhere between them.
    let dots = measured(&|bytes| bytes <= 512 << 10 || bytes >= 64 << 20);
    has_levels(&dots, &caches, &[("L1", 4, 32), ("L2", 64, 512), ("memory", 64 << 10, 128 << 10)]);
    // One set per octave was measured.
    let octaves = measured(&|bytes| bytes.is_power_of_two());
    let expected = [("L1", 4, 32), ("L2", 64, 512), ("memory", 16 << 10, 128 << 10)];
    has_levels(&octaves, &caches, &expected);
    // No cache certainly holds the last set.
    let cache = |end, next| fitting_cache(&caches, end, next).map(|cache| cache.level);
    assert_eq!(cache(48 << 20, 256 << 20), None);
    assert_eq!((cache(512 << 10, 64 << 20), cache(3 << 20, 12 << 20)), (Some(2), Some(3)));
}

#[test]
fn cache_without_a_plateau_is_reported() {
    let mut values = vec![1.0; 8];
    values.extend([100.0; 23]);
    let (dots, caches) = (curves(&[&values]), reported(48, 1024, 32 << 10, 32 << 10));
    let not_seen = |cache: &str| {
        format!(
            "{cache}, as reported by the system, is not detected: working sets of 64 KiB to 128 MiB have the speed of \
             memory"
        )
    };
    assert_eq!(texts(&dots, &caches), [not_seen("L2 of 1 MiB"), not_seen("L3 of 32 MiB")]);
}

/// Returns a curve whose levels have these lengths in dots; each level is higher than the previous one by a factor. The
/// curve has the given noise, and some outliers in one direction, as other load causes them.
fn noisy(lengths: &[usize], factors: &[f64], noise: f64, seed: u64) -> Vec<f64> {
    let mut random: Vec<usize> = (0..1000).collect();
    Shuffler::new(seed).shuffle(&mut random);
    let mut random = random.into_iter().map(|n| n as f64 / 1000.0);
    let mut next = || random.next().unwrap_or(0.5);
    let mut height = 1.0;
    let mut values = Vec::new();
    for (length, factor) in lengths.iter().zip(factors) {
        for _ in 0..*length {
            let outlier = if next() < 0.05 { 1.0 + 3.0 * next() } else { 1.0 };
            values.push(height * (1.0 + noise * (2.0 * next() - 1.0)) * outlier);
        }
        height *= factor;
    }
    values
}

/// Checks that the levels of 95 % of 400 noisy curves with four levels are found exactly.
#[test]
fn levels_are_found_despite_noise_and_outliers() {
    let lengths = [8, 10, 6, 9];
    let (mut right, all) = (0usize, 400);
    for seed in 0..all {
        let curve = noisy(&lengths, &[3.2, 5.0, 4.0, 1.0], 0.05, seed + 1);
        let found = find_levels(&curves(&[&curve]));
        let near = |x: usize, y: usize| x.abs_diff(y) <= 1;
        let as_made = |(i, level): (usize, &Plateau)| {
            let first: usize = lengths[..i].iter().sum();
            near(level.first, first) && near(level.last + 1, first + lengths[i])
        };
        let whole = found.len() == lengths.len() && found.iter().enumerate().all(as_made);
        right += usize::from(whole);
    }
    assert!(right * 20 >= all as usize * 19, "{right} of {all}");
}

proptest! {
    /// Checks that steps of at least 50 % are found at the correct position with noise of 3 %, in one curve and in two.
    #[test]
    fn steps_are_found_despite_noise(
        lengths in proptest::collection::vec(4usize..9, 2..5),
        factors in proptest::collection::vec(1.5f64..5.0, 5),
        noise in proptest::collection::vec(-0.03f64..0.03, 40),
    ) {
        let mut values = Vec::new();
        let mut height = 1.0;
        for (length, factor) in lengths.iter().zip(&factors) {
            values.extend(std::iter::repeat_n(height, *length));
            height *= factor;
        }
        for (value, deviation) in values.iter_mut().zip(&noise) {
            *value *= 1.0 + deviation;
        }
        let rates: Vec<f64> = values.iter().map(|seconds| 7.0 / seconds).collect();
        for all in [&[&values[..]][..], &[&values, &rates]] {
            let found = find_levels(&curves(all));
            prop_assert_eq!(found.len(), lengths.len());
            let mut end = 0;
            for (level, length) in found.iter().zip(&lengths) {
                prop_assert_eq!(level.first, end);
                end += length;
                prop_assert_eq!(level.last + 1, end);
            }
        }
    }
}
