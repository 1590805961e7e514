//! Reporters: threads whose speed shows how busy the memory is while other threads, or a program, use it.
//!
//! A reporter is a chain of dependent loads or a loop that reads at full rate. As the load grows, the latency of
//! the chain rises and the bandwidth of the loop falls. Only time in which a thread had its CPU counts, so that a
//! thread that loses its CPU is not mistaken for busy memory.

use crate::chase::{Chain, Chase};
use crate::load::LoadGenerator;
use crate::pool::WitnessedPool;
use nodegauge_arena::ArenaError;
use nodegauge_measure::interference::ThreadCounts;
use nodegauge_measure::samples::Sample;
use nodegauge_os::CacheLine;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Kind of the reporting threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReporterKind {
    /// One thread follows a chain of dependent loads.
    Chain,
    /// All reporting threads read memory at full rate.
    Readers,
}

/// Known load on the CPUs that the program will use later.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnownLoad {
    /// Number of iterations of the wait loop between two blocks; `None` for no load.
    pub spins: Option<u64>,
    /// Duration of the load.
    pub time: Duration,
    /// Number of the block at which the load begins.
    pub start: usize,
}

/// Reporting threads of a pool. The other threads load the memory or run a program.
pub struct Reporters<'r> {
    /// Arrays of all threads.
    pub load: LoadGenerator<'r>,
    /// Number of workers that do not report; they precede the reporting workers.
    pub other_workers: usize,
}

/// Result of one worker in a measurement with reporters.
enum WorkerResult<T> {
    /// Result of a worker that does not report.
    Other(T),
    /// New position of the chain, and the seconds per load.
    Chased(Chain, f64),
    /// Number of bytes that the worker has read per second.
    Read(f64),
    /// The worker had no work.
    Nothing,
}

impl Reporters<'_> {
    /// Runs `work` on the first worker, e.g. to start a program, while the reporters measure. Returns the result of
    /// `work`, and a sample whose only part is the time of the reporters: the seconds per load of the chain, or per
    /// byte of all readers.
    ///
    /// # Errors
    /// Fails if a worker fails, or the user ends the run.
    pub fn measure<T: Send>(
        &self,
        pool: &mut WitnessedPool,
        chase: &mut Chase<'_>,
        reporter: ReporterKind,
        work: impl Fn() -> T + Sync,
    ) -> Result<(Option<T>, Sample), ArenaError> {
        let mut made = Vec::new();
        let sample = pool.take_sample(|pool| {
            let (seconds, others) =
                self.run_reporters(pool, chase, reporter, |worker| (worker == 0).then(&work))?;
            made = others;
            Ok((vec![seconds], Vec::new()))
        })?;
        Ok((made.into_iter().flatten().next(), sample))
    }

    /// Runs a known load on the workers that do not report. The first part of the sample is the time of the reporters,
    /// as in [`Self::measure`]; if there is a load, the second part is the seconds per byte of the load.
    ///
    /// # Errors
    /// Fails if a worker fails, or the user ends the run.
    pub fn calibrate(
        &self,
        pool: &mut WitnessedPool,
        chase: &mut Chase<'_>,
        reporter: ReporterKind,
        known: KnownLoad,
    ) -> Result<Sample, ArenaError> {
        pool.take_sample(|pool| {
            let (seconds, rates) = self.run_reporters(pool, chase, reporter, |worker| {
                self.run_known_load(worker, known)
            })?;
            let mut parts = vec![seconds];
            parts.extend(known.spins.map(|_| 1.0 / rates.iter().sum::<f64>()));
            Ok((parts, Vec::new()))
        })
    }

    /// Follows the chain with the first worker for `time`, while the reporters read. The parts of the sample are the
    /// seconds per load of the chain and the seconds per byte of all readers.
    ///
    /// # Errors
    /// Fails if a worker fails, or the user ends the run.
    pub fn measure_chase(
        &self,
        pool: &mut WitnessedPool,
        chase: &mut Chase<'_>,
        time: Duration,
    ) -> Result<Sample, ArenaError> {
        let mut own = chase.clone();
        pool.take_sample(|pool| {
            let chasing: &Chase<'_> = &own;
            let (seconds, made) =
                self.run_reporters(pool, chase, ReporterKind::Readers, |worker| {
                    let begun = Instant::now();
                    (worker == 0).then(|| chasing.run_until(&|| begun.elapsed() >= time))
                })?;
            Ok((vec![own.end_stretch(made), seconds], Vec::new()))
        })
    }

    /// Loads the memory with one worker for the duration of a known load. Returns the number of bytes moved per second.
    fn run_known_load(&self, worker: usize, known: KnownLoad) -> f64 {
        let begun = Instant::now();
        match known.spins {
            Some(spins) => {
                let bytes = self
                    .load
                    .process_until(worker, known.start, spins, || begun.elapsed() >= known.time);
                bytes as f64 / begun.elapsed().as_secs_f64().max(1e-9)
            }
            None => {
                // A CPU that sleeps may lower the clock of the caches, so that the memory of an idle node looks busy.
                while begun.elapsed() < known.time {
                    std::hint::spin_loop();
                }
                0.0
            }
        }
    }

    /// Runs `work` on the workers that do not report. The reporters run until worker 0 has ended. Returns the time of
    /// the reporters and the results of the other workers.
    fn run_reporters<T: Send>(
        &self,
        pool: &mut WitnessedPool,
        chase: &mut Chase<'_>,
        reporter: ReporterKind,
        work: impl Fn(usize) -> T + Sync,
    ) -> Result<(f64, Vec<T>), ArenaError> {
        let ended = CacheLine(AtomicBool::new(false));
        let chasing: &Chase<'_> = chase;
        let results = pool.run(|worker| {
            if worker < self.other_workers {
                let made = work(worker);
                // The first worker may run a program on the CPUs of all of them.
                if worker == 0 {
                    ended.0.store(true, Ordering::Relaxed);
                }
                return WorkerResult::Other(made);
            }
            match reporter {
                ReporterKind::Chain if worker == self.other_workers => {
                    let (chain, seconds) = chasing.run_until(&|| ended.0.load(Ordering::Relaxed));
                    WorkerResult::Chased(chain, seconds)
                }
                ReporterKind::Chain => WorkerResult::Nothing,
                ReporterKind::Readers => {
                    let before = ThreadCounts::now();
                    let bytes =
                        self.load.process_until(worker, 0, 0, || ended.0.load(Ordering::Relaxed));
                    let running = (ThreadCounts::now() - before).cpu_nanos.max(1);
                    WorkerResult::Read(bytes as f64 / (running as f64 * 1e-9))
                }
            }
        })?;
        let mut seconds = f64::NAN;
        let mut rate = 0.0;
        let mut others = Vec::new();
        for result in results {
            match result {
                WorkerResult::Other(made) => others.push(made),
                WorkerResult::Chased(chain, step) => {
                    seconds = chase.end_stretch([Some((chain, step))]);
                }
                WorkerResult::Read(of_reader) => rate += of_reader,
                WorkerResult::Nothing => {}
            }
        }
        if reporter == ReporterKind::Readers {
            seconds = 1.0 / rate;
        }
        Ok((seconds, others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chase::{ChainPosition, ChaseOrder, Cycle};
    use crate::region::MemoryRegion;
    use nodegauge_arena::RequestedPages;
    use nodegauge_placement::MemoryPolicy;

    #[test]
    fn reporters_measure_while_another_worker_runs() {
        let bytes = 1 << 20;
        let mut pool = WitnessedPool::start(&[Vec::new(), Vec::new()], None).unwrap();
        let pages = RequestedPages::Base;
        let policy = MemoryPolicy::Default;
        let read = MemoryRegion::allocate(&mut pool, 0..2, bytes, pages, &policy).unwrap();
        let chased = MemoryRegion::allocate(&mut pool, 0..1, bytes, pages, &policy).unwrap();
        let cycle = Cycle::new(bytes, ChaseOrder::default()).unwrap();
        // SAFETY: the chain is the only data that is written to the region.
        let mut chase = unsafe { Chase::write(&chased, ChainPosition::default(), &cycle, bytes) };
        let reporters =
            Reporters { load: LoadGenerator::new(read.buffers(), 256), other_workers: 1 };
        let is_time = |seconds: &f64| seconds.is_finite() && *seconds > 0.0;
        let time = Duration::from_millis(2);
        for reporter in [ReporterKind::Chain, ReporterKind::Readers] {
            let (made, sample) = reporters
                .measure(&mut pool, &mut chase, reporter, || std::thread::sleep(time))
                .unwrap();
            assert_eq!((made, sample.seconds.len()), (Some(()), 1));
            assert!(sample.seconds.iter().all(is_time), "{sample:?}");
            let known = KnownLoad { spins: Some(100), time, start: 255 };
            let loaded = reporters.calibrate(&mut pool, &mut chase, reporter, known).unwrap();
            assert_eq!(loaded.seconds.len(), 2);
            assert!(loaded.seconds.iter().all(is_time), "{loaded:?}");
            let none = KnownLoad { spins: None, ..known };
            let unloaded = reporters.calibrate(&mut pool, &mut chase, reporter, none).unwrap();
            assert_eq!(unloaded.seconds.len(), 1);
        }
        let sample = reporters.measure_chase(&mut pool, &mut chase, time).unwrap();
        assert!(sample.seconds.len() == 2 && sample.seconds.iter().all(is_time), "{sample:?}");
    }
}
