//! Latency under load: one thread (the chaser) measures latency with a pointer chase while all other threads (the
//! loaders) read memory at increasing shares of their full rate.
//!
//! A loader reads its memory in blocks of 4 KiB and waits after each block. The waits are computed from the time of a
//! block at full rate, so that the loads cover the curve on a machine of any speed. With share s, an undisturbed loader
//! would read at s times its full rate. The actual rate is measured.

use crate::GAUGE;
use crate::config::CurveConfig;
use crate::memory_chase::{self, ChasedMemory, SetRange};
use crate::prediction::CurveTimes;
use crate::run::{CurveRun, FigureOutline, Value};
use crate::{CurveSetup, Mode, notice, refuse_below, too_large};
use nodegauge_analysis::conclusion::Obstacle;
use nodegauge_arena::ArenaError;
use nodegauge_chase::{BLOCK, Load, wait_loop_time};
use nodegauge_measure::quantity::counted;
use nodegauge_measure::record::{Measurement, Quoted, Status};
use nodegauge_measure::schedule::{PredictedTime, policy};
use nodegauge_measure::{Bytes, BytesPerSec, Failure, Notice, NoticeId, Seconds, Unit, stats};

/// Shares of the loaders' full rate, percent; at 0 the loaders are idle.
///
/// Most shares are near the full rate, because a wait also delays loads that would otherwise overlap.
const SHARES: [u32; 11] = [0, 10, 30, 50, 65, 80, 90, 94, 97, 99, 100];
/// Duration of a sample, seconds.
const SAMPLE_SECONDS: f64 = 4e-3;
/// Latency at the knee of the curve, as a multiple of the idle latency.
const KNEE: f64 = 2.0;
/// Name of the figure for the read rate at which latency is twice the idle latency.
const AT_KNEE: &str = "bandwidth_at_2x_idle";

/// Returns the suffix of figure names that begin with `latency_` and `bandwidth_`: `idle`, or e.g. `load50`.
fn step(share: u32) -> String {
    if share == 0 { "idle".to_owned() } else { format!("load{share}") }
}

/// Returns the names of the figures of a kind at all loads.
fn names_of(kind: &str) -> [String; SHARES.len()] {
    SHARES.map(|share| format!("{kind}_{}", step(share)))
}

/// Returns the names of all figures.
pub(super) fn names() -> Vec<String> {
    let rates = names_of("bandwidth").into_iter().skip(1);
    names_of("latency").into_iter().chain(rates).chain([AT_KNEE.to_owned()]).collect()
}

/// Times from which the pauses of the loaders follow.
struct LoaderTimes {
    /// Time of a block at full rate, seconds.
    block: f64,
    /// Time of an iteration of the wait loop, seconds.
    turn: f64,
}

impl LoaderTimes {
    /// Returns the iterations of the wait loop between two blocks at a share of the full rate; `None` without load.
    fn turns(&self, share: u32) -> Option<u64> {
        let wait = self.block * (100.0 / f64::from(share) - 1.0);
        (share > 0).then(|| (wait / self.turn.max(1e-12)) as u64)
    }
}

/// Planned measurement of latency under load.
pub(super) struct Loaded {
    /// Working set of the chaser.
    chased: SetRange,
    /// Buffer of each loader, bytes.
    buffer: u64,
}

/// Plans the measurement of latency under load.
pub(super) fn plan(setup: CurveSetup<'_>, notices: &mut Vec<Notice>) -> Result<Loaded, Failure> {
    let threads = setup.threads();
    if threads < 2 {
        return Err(Failure::usage(format!(
            "latency under load requires at least two threads, one that measures and one \
                 that loads the memory; found {threads}"
        ))
        .hint("--threads 2"));
    }
    let loaders = threads - 1;
    let set = setup.largest(notices);
    refuse_below(Bytes(loaders * BLOCK as u64 * 16), set)?;
    let usable = setup.usable();
    let needed = set * 2;
    if needed > usable {
        return Err(too_large("loaded latency", needed, usable));
    }
    let chased = SetRange::of(setup, set, Bytes(usable.0 - set.0));
    Ok(Loaded { chased, buffer: (set.0 / loaders).next_multiple_of(BLOCK as u64) })
}

impl Mode for Loaded {
    fn memory(&self) -> Bytes {
        self.chased.first * 2
    }

    fn predicted(&self, times: &CurveTimes<'_>) -> PredictedTime {
        times.loops(self.chased.first, 1) + times.chase(self.chased.first)
    }

    fn measure(&self, run: &mut CurveRun<'_>) -> Result<(), ArenaError> {
        let CurveSetup { options, placement, .. } = run.setup;
        let threads = placement.threads.len();
        let loaders = threads - 1;
        run.observer.phase(&format!("preparing one chaser and {}", counted(loaders, "loader")));
        let mut pool = run.pool()?;
        let chased =
            ChasedMemory::beyond_caches(run, self.chased, &mut pool, &mut |with, bytes| {
                run.map(with, 0..1, bytes)
            })?;
        let loaded = run.map(&mut pool, 1..threads, self.buffer)?;
        let mut chase = chased.chase();
        let blocks = (self.buffer as usize / BLOCK).max(1);
        let load = Load::new(loaded.buffers(), blocks);
        chase.warm(&mut pool, SAMPLE_SECONDS)?;
        // Calibration: time of a block at full rate, and of an iteration of the wait loop.
        let full = load.sample(&mut pool, &mut chase, Some(0), 0)?;
        let block = (BLOCK as f64 * loaders as f64 * full.seconds[1]).min(1.0);
        let times = LoaderTimes { block, turn: wait_loop_time() };
        let mut at = 0;
        let phase = "measuring latency under all loads, interleaved";
        let judged = run.samples(policy::CURVES, SHARES.len(), phase, |i| {
            // Loaders continue at another position of their buffers, where no data of the last sample is in a cache.
            at += blocks / 7 + 1;
            match times.turns(SHARES[i]) {
                None => chase.idle_sample(&mut pool),
                turns => load.sample(&mut pool, &mut chase, turns, at),
            }
        })?;

        let (mut config, doubts) = run.common(&pool, &chased.region);
        config.add_order(options.order);
        config.set_bytes = Some(chased.bytes());
        config.loader_bytes = Some(self.buffer);
        config.kernel = Some(load.variant().kernel().name().to_owned());
        config.isa = Some(load.variant().shape().isa.name().to_owned());
        let idle = SHARES.iter().position(|share| *share == 0).unwrap_or(0);
        let flushed = memory_chase::flushed(&judged, idle, 1);
        let mut curve: Vec<LoadPoint> = Vec::new();
        for (i, share) in SHARES.into_iter().enumerate() {
            config.loaders = Some(if share > 0 { loaders as u64 } else { 0 });
            let first = run.outcome.measurements.len();
            let parts = [("latency", Value::Seconds), ("bandwidth", Value::Rate)];
            for (part, (kind, value)) in
                parts.into_iter().enumerate().take(1 + (share > 0) as usize)
            {
                let figure = FigureOutline {
                    name: format!("{kind}_{}", step(share)),
                    quoted: Quoted::Median,
                    value,
                    config: CurveConfig {
                        flushed_s: if share == 0 { flushed } else { None },
                        load_share: Some(f64::from(share) / 100.0),
                        wait_s: times.turns(share).map(|turns| turns as f64 * times.turn),
                        ..config.clone()
                    },
                    validity: doubts.clone(),
                };
                run.add(&judged, i, part, figure);
            }
            let seconds = stats::median(&judged.seconds(i, 0));
            if seconds.is_finite() {
                let figures = &run.outcome.measurements[first..];
                let rate = if share > 0 { 1.0 / stats::median(&judged.seconds(i, 1)) } else { 0.0 };
                let doubt = Obstacle::among(figures).map(|obstacle| obstacle.reason);
                curve.push(LoadPoint { rate, latency: seconds, doubt });
            }
        }
        if run.outcome.is_interrupted() && curve.len() < SHARES.len() {
            return Ok(());
        }
        let text = knee_in_words(&curve);
        run.outcome.notices.extend(text.map(|text| notice(NoticeId::Saturation, text)));
        if let Knee::At { rate, doubt } = knee(&curve) {
            // The figure is derived from the points of the curve and has no samples.
            config.engine = Some("native".to_owned());
            config.stopped = run.outcome.stop.map(|stop| stop.to_string());
            config.basis = Some("linear interpolation between the two nearest loads".to_owned());
            let test = run.curve.test();
            let unit = Unit::BytesPerSecond;
            let m = Measurement::new(GAUGE, test, AT_KNEE, unit);
            let mut m = m.value(Quoted::Single, rate).config(&config);
            // The figure is at most as valid as the points between which it lies.
            doubt.into_iter().for_each(|reason| m.doubt(Status::Suspect, reason));
            run.outcome.measurements.push(m);
        }
        Ok(())
    }
}

/// Point of the curve of latency over load.
#[derive(Debug, Clone, PartialEq)]
struct LoadPoint {
    /// Read rate of the loaders, bytes per second; 0 without load.
    rate: f64,
    /// Time per load, seconds.
    latency: f64,
    /// First reason why a figure of the point is suspect; `None` if they are valid.
    doubt: Option<String>,
}

/// Load at which latency is twice the idle latency.
#[derive(Debug, Clone, PartialEq)]
enum Knee {
    /// Latency stays below it.
    Below,
    /// Latency is twice the idle latency at this read rate. The reason is one why a point is suspect on which the rate
    /// depends.
    At { rate: f64, doubt: Option<String> },
    /// Latency falls again at a higher load, so that there is no such rate.
    Falls,
}

/// Returns the read rate of the loaders at which latency is twice the idle latency, by linear interpolation between the
/// two points that enclose this latency. The first point is the idle point.
fn knee(curve: &[LoadPoint]) -> Knee {
    let Some(idle) = curve.first() else { return Knee::Below };
    let target = KNEE * idle.latency;
    let mut pairs = curve.windows(2);
    let enclosing = pairs.position(|pair| pair[0].latency < target && pair[1].latency >= target);
    let Some(at) = enclosing else { return Knee::Below };
    if curve[at + 1..].iter().any(|point| point.latency < target) {
        return Knee::Falls;
    }
    let low = &curve[at];
    let high = &curve[at + 1];
    let part = (target - low.latency) / (high.latency - low.latency);
    let doubt = [idle, low, high].into_iter().find_map(|point| point.doubt.clone());
    Knee::At { rate: low.rate + (high.rate - low.rate) * part, doubt }
}

/// Returns the sentence that the load of twice the idle latency is unknown, with the reason.
fn no_knee(why: &str) -> String {
    Obstacle::new(why).cannot_tell("at which load latency is twice the idle latency")
}

fn knee_in_words(curve: &[LoadPoint]) -> Option<String> {
    let idle = curve.first()?;
    let last = curve.last()?;
    let doubt_of_ends = [idle, last].into_iter().find_map(|point| point.doubt.clone());
    let idle_words = Seconds(idle.latency);
    Some(match (knee(curve), doubt_of_ends) {
        (Knee::At { rate, doubt: None }, _) => format!(
            "latency is twice the idle latency of {idle_words} when the loaders read at {}",
            BytesPerSec(rate)
        ),
        (Knee::At { doubt: Some(doubt), .. }, _) | (Knee::Below, Some(doubt)) => no_knee(&doubt),
        (Knee::Falls, _) => no_knee("latency falls again at a higher load"),
        (Knee::Below, None) => format!(
            "latency stays below twice the idle latency of {idle_words}: at the full load of {} it is {:.2} times as high",
            BytesPerSec(last.rate),
            last.latency / idle.latency
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Vec<LoadPoint> {
        let point = |(rate, latency): &(f64, f64)| LoadPoint {
            rate: *rate,
            latency: *latency,
            doubt: None,
        };
        points.iter().map(point).collect()
    }

    const RISING: [(f64, f64); 5] =
        [(0.0, 100e-9), (10e9, 120e-9), (20e9, 150e-9), (30e9, 250e-9), (32e9, 400e-9)];

    #[test]
    fn knee_lies_between_the_enclosing_steps() {
        let rising = curve(&RISING);
        let Knee::At { rate, doubt: None } = knee(&rising) else { panic!("no knee") };
        assert!((rate - 25e9).abs() < 1.0);
        assert_eq!(knee(&rising[..3]), Knee::Below);
        assert_eq!(knee(&[]), Knee::Below);
        assert!(knee_in_words(&rising).unwrap().contains("25.00 GB/s"));
        assert!(knee_in_words(&rising[..3]).unwrap().contains("1.50 times"));
    }

    #[test]
    fn suspect_points_give_no_knee() {
        for suspect in [0, 2, 3] {
            let mut rising = curve(&RISING);
            rising[suspect].doubt = Some("disturbed".to_owned());
            let Knee::At { doubt: Some(_), .. } = knee(&rising) else { panic!("valid knee") };
            let words = knee_in_words(&rising).unwrap();
            assert!(
                words.starts_with("cannot tell at which load") && words.ends_with(": disturbed")
            );
        }
        let mut rising = curve(&RISING);
        rising[1].doubt = Some("disturbed".to_owned());
        assert!(matches!(knee(&rising), Knee::At { doubt: None, .. }));
    }

    #[test]
    fn falling_latency_has_no_knee() {
        let mut points = RISING;
        points[4].1 = 130e-9;
        assert_eq!(knee(&curve(&points)), Knee::Falls);
        assert!(knee_in_words(&curve(&points)).unwrap().contains("falls again"));
    }
}
