//! Bandwidths for a roofline: Read, Triad and kernels with known operations per byte, in each cache and in main memory.
//! The fastest of them is the roof of a level. On some processors, which write lines back during loads, kernels that
//! overwrite what they read move more bytes per second than Read or Triad.
//!
//! Each memory level is measured with a working set of a certain size per thread. For the first cache, the working set
//! is half as large as the cache. For any other cache, its size is the geometric mean of the sizes per thread of the
//! previous cache and of this cache. The mean leaves a margin: a thread gets a smaller share of a last-level cache than
//! reported if other programs, possibly in other guests, use the cache. Stores are regular in caches; in memory, Triad
//! uses the faster kind of store, as in STREAM. The kernels under the roof write arrays that they also read, so that
//! the moved bytes equal the counted bytes, whether or not the processor makes write-allocates.

use crate::config::CurveConfig;
use crate::levels::MachineCache;
use crate::prediction::CurveTimes;
use crate::run::{CurveRun, FigureOutline, TimeConversion};
use crate::{CurveSetup, Mode, ladder, notice};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_arena::ArenaError;
use nodegauge_chase::traffic::{self, WorkingSetLoop};
use nodegauge_chase::{RegionBuffers, WitnessedPool};
use nodegauge_gauge::roofline::{BANDWIDTH_TEST, GAUGE, KERNEL_TEST, MEMORY_LEVEL};
use nodegauge_kernels::{Kernel, Stores};
use nodegauge_measure::record::QuotedStatistic;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{PredictedTime, policy};
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, Unit};

/// Kernels that measure the ceilings.
const CEILINGS: [Kernel; 5] =
    [Kernel::Read, Kernel::Triad, Kernel::Update, Kernel::Axpy, Kernel::Nstream];
/// Kernels that are also shown as points under the ceilings.
const KERNELS: [Kernel; 3] = [Kernel::Update, Kernel::Axpy, Kernel::Nstream];

/// Level of the memory hierarchy, with a working set that fits in this level and not in the previous one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Level {
    pub name: String,
    /// Size of the level per thread, as the system reports it.
    pub reported_bytes: Option<u64>,
    /// Working set of each thread, bytes.
    pub working_set: u64,
}

impl Level {
    /// Measures a sample of the loops. The working set of a cache is refilled before the sample, so that the cache
    /// contains it.
    pub(crate) fn take_sample(
        &self,
        loops: &[WorkingSetLoop],
        pool: &mut WitnessedPool,
        buffers: RegionBuffers<'_>,
    ) -> Result<Sample, ArenaError> {
        match self.reported_bytes {
            Some(_) => traffic::refill_and_sample(loops, pool, buffers, self.working_set),
            None => traffic::take_sample(loops, pool, buffers),
        }
    }
}

/// Planned measurement of ceilings.
pub(super) struct Ceilings {
    levels: Vec<Level>,
    threads: u64,
    /// Kernels that are also shown as points under the ceilings.
    points: &'static [Kernel],
    suffix: &'static str,
}

impl Ceilings {
    /// Returns the figure name of a kernel in a level.
    fn name(&self, level: &Level, kernel: Kernel) -> String {
        format!("{}_{kernel}{}", level.name, self.suffix)
    }

    /// Returns the figure names of these kernels in every level.
    fn names(&self, kernels: &[Kernel]) -> Vec<String> {
        let mut names = Vec::new();
        for level in &self.levels {
            names.extend(kernels.iter().map(|kernel| self.name(level, *kernel)));
        }
        names
    }
}

/// Plans the measurement of the ceilings and, if requested, of kernels that are shown as points under them.
pub(super) fn plan(setup: CurveSetup<'_>, notices: &mut Vec<Notice>) -> Result<Ceilings, Failure> {
    let sets = ladder::working_sets(setup, 1.0, notices)?;
    let caches = ladder::reported_caches(&setup.site.topology, setup.placement);
    let mut left_out = Vec::new();
    let levels = levels(&caches, sets[sets.len() - 1], &mut left_out);
    if !left_out.is_empty() {
        let text = format!(
            "no roof for {}: the part of the cache that one thread can use is not larger than the next smaller cache",
            left_out.join(", ")
        );
        notices.push(notice(NoticeId::LeftOut, text));
    }
    let points: &[Kernel] = if setup.options.show_kernels { &KERNELS } else { &[] };
    let threads = setup.threads();
    let suffix = setup.options.suffix;
    Ok(Ceilings { levels, threads, points, suffix })
}

/// Returns a level for each cache, and a level for main memory with a working set of `largest` bytes. Caches for which
/// there is no suitable working set are omitted, and their names are added to `left_out`.
pub(crate) fn levels(
    caches: &[MachineCache],
    largest: u64,
    left_out: &mut Vec<String>,
) -> Vec<Level> {
    /// Minimum ratio of a working set to the size of the previous level.
    const MIN_GROWTH: f64 = 1.25;
    let mut levels = Vec::new();
    let mut before = 0;
    for cache in caches.iter().filter(|cache| cache.bytes < largest) {
        let name = format!("L{}", cache.level);
        let working_set = match before {
            0 => cache.bytes as f64 / 2.0,
            before => (before as f64 * cache.bytes as f64).sqrt(),
        };
        let working_set = working_set as u64 & !4095;
        if working_set as f64 >= MIN_GROWTH * before as f64
            && working_set >= ladder::MIN_WORKING_SET
        {
            levels.push(Level { name, reported_bytes: Some(cache.bytes), working_set });
        } else {
            left_out.push(name);
        }
        before = cache.bytes;
    }
    levels.push(Level {
        name: MEMORY_LEVEL.to_owned(),
        reported_bytes: None,
        working_set: largest,
    });
    levels
}

impl Mode for Ceilings {
    fn memory(&self) -> Bytes {
        Bytes(self.levels[self.levels.len() - 1].working_set * self.threads)
    }

    fn figures(&self) -> Vec<PossibleFigures> {
        let of = |test, names, units| {
            PossibleFigures::new(GAUGE, test, self.names(names), units).with_known_limit(true)
        };
        vec![
            of(BANDWIDTH_TEST, &CEILINGS, &[Unit::BytesPerSecond]),
            of(KERNEL_TEST, self.points, &[Unit::FlopsPerSecond]),
        ]
    }

    fn predicted(&self, times: &CurveTimes<'_>) -> PredictedTime {
        times.predict_loops(self.memory(), CEILINGS.len() as u32)
    }

    fn measure(&self, run: &mut CurveRun<'_>) -> Result<(), ArenaError> {
        let largest = self.levels[self.levels.len() - 1].working_set;
        run.observer.begin_phase(&format!("preparing {} for each thread", Bytes(largest)));
        let mut pool = run.start_thread_pool()?;
        let everyone = 0..pool.workers();
        let region = run.allocate_buffers(&mut pool, everyone, largest)?;
        let buffers = region.buffers();
        run.observer.begin_phase("choosing the fastest loops for each level");
        let all = (self.levels.len() * CEILINGS.len()) as f64;
        let mut tried = 0.0;
        let mut cells: Vec<(&Level, Vec<WorkingSetLoop>)> = Vec::new();
        for level in &self.levels {
            let mut loops = Vec::new();
            for kernel in CEILINGS {
                tried += 1.0;
                let stores: &[Stores] = match (level.reported_bytes, kernel) {
                    (None, Kernel::Triad) => &[Stores::Regular, Stores::NonTemporal],
                    _ => &[Stores::Regular],
                };
                let bytes = level.working_set as usize;
                let until = tried / all;
                let fastest =
                    run.find_fastest_loop(until, &mut pool, buffers, kernel, stores, bytes)?;
                loops.extend(fastest.map(|variant| WorkingSetLoop::new(variant, bytes)));
            }
            cells.push((level, loops));
        }
        run.observer.begin_phase("checking every element");
        for traffic in cells.iter_mut().flat_map(|(_, loops)| loops) {
            traffic.prepare(&mut pool, buffers)?;
        }
        let mut first = Vec::new();
        for (level, loops) in &cells {
            first.push(vec![level.take_sample(loops, &mut pool, buffers)?]);
        }
        let phase = "measuring all levels, interleaved";
        let judged =
            run.take_samples_after_warm_up(policy::CURVES_AFTER_SETUP, first, phase, |i| {
                let (level, loops) = &cells[i];
                level.take_sample(loops, &mut pool, buffers)
            })?;
        let (config, doubts) = run.config_and_validity(&pool, &region);
        for (i, (level, loops)) in cells.iter().enumerate() {
            for (part, traffic) in loops.iter().enumerate() {
                let config = CurveConfig {
                    element: Some("f64".to_owned()),
                    array_bytes: Some(traffic.array_bytes()),
                    set_bytes: Some(level.working_set * self.threads),
                    thread_bytes: Some(level.working_set),
                    level: Some(level.name.clone()),
                    level_reported_bytes: level.reported_bytes,
                    ..config.clone()
                };
                let limited = level.reported_bytes.is_none();
                let bandwidth = FigureOutline {
                    name: self.name(level, traffic.kernel()),
                    quoted: QuotedStatistic::Best,
                    value: TimeConversion::Loop(traffic, limited),
                    config: config.clone(),
                    validity: doubts.clone(),
                };
                run.add_figure(&judged, i, part, bandwidth);
                if !self.points.contains(&traffic.kernel()) {
                    continue;
                }
                let point = FigureOutline {
                    name: self.name(level, traffic.kernel()),
                    quoted: QuotedStatistic::Best,
                    value: TimeConversion::Work(traffic),
                    config: CurveConfig {
                        flops_per_byte: Some(traffic.flops_per_byte()),
                        ..config
                    },
                    validity: doubts.clone(),
                };
                run.add_figure(&judged, i, part, point);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_set_of_a_level_exceeds_the_previous_level() {
        let cache =
            |level, kib: u64| MachineCache { level, total_bytes: kib << 10, bytes: kib << 10 };
        let of = |caches: &[MachineCache]| {
            let mut left_out = Vec::new();
            let levels = levels(caches, 512 << 20, &mut left_out);
            let sets: Vec<(String, u64)> =
                levels.into_iter().map(|level| (level.name, level.working_set >> 10)).collect();
            (sets, left_out)
        };
        let names = |sets: &[(&str, u64)]| -> Vec<(String, u64)> {
            sets.iter().map(|(name, kib)| ((*name).to_owned(), *kib)).collect()
        };
        let (sets, left_out) = of(&[cache(1, 32), cache(2, 1024), cache(3, 32 << 10)]);
        assert_eq!(sets, names(&[("L1", 16), ("L2", 180), ("L3", 5792), ("memory", 512 << 10)]));
        assert!(left_out.is_empty());
        // If a thread's share of the L3 cache is 1.5 MiB and L2 has 1 MiB, the working set is between the two sizes. If
        // the share is 1 MiB, there is no working set for L3.
        let (of_three, _) = of(&[cache(1, 32), cache(2, 1024), cache(3, 1792)]);
        assert_eq!(of_three[2].1, 1352);
        let (of_equal, equal_left_out) = of(&[cache(1, 32), cache(2, 1024), cache(3, 1024)]);
        assert_eq!((of_equal.len(), equal_left_out), (3, vec!["L3".to_owned()]));
        // If no cache is known, memory is the only level.
        assert_eq!(of(&[]).0, names(&[("memory", 512 << 10)]));
    }
}
