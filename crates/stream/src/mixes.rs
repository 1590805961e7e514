//! Comparison of Triad with other mixes of reads and writes: the other kernels of the run, and the newest `memory mix`
//! that is saved for this machine. A note reports a mix with a clearly higher rate. Nothing is measured for the
//! comparison.

use crate::GAUGE;
use crate::config::StreamConfig;
use crate::kernels::Kernel;
use nodegauge_analysis::facts::machine_changes;
use nodegauge_arena::names::MIX;
use nodegauge_gauge::MeasuredNode;
use nodegauge_measure::keys::shared;
use nodegauge_measure::record::{Measurement, Record, Status};
use nodegauge_measure::{BytesPerSec, Notice, NoticeId, regime};

/// Bandwidths of mixes that an earlier run measured on this machine.
#[derive(Debug, Clone)]
pub struct SavedMixes {
    measurements: Vec<Measurement>,
    /// Date and identifier of the earlier run.
    from: String,
}

/// Returns the newest saved mixes if the machine has not changed. `newest` returns the newest record that contains a
/// figure with the given test and name.
pub fn find_saved(
    site: &MeasuredNode,
    newest: &dyn Fn(&str, &str) -> Option<Record>,
) -> Option<SavedMixes> {
    let record = newest(MIX, "1:1")?;
    if !machine_changes(&record.machine, &site.machine).is_empty() {
        return None;
    }
    let (day, _) = record.started.split_once('T').unwrap_or((&record.started, ""));
    let from = format!("memory mix of {day}, run {}", record.id);
    let mixes = record.measurements.into_iter().filter(|m| m.test == MIX);
    Some(SavedMixes { measurements: mixes.collect(), from })
}

/// Returns a note about the fastest mix other than Triad's, if the median of that mix is above the 95th percentile of
/// Triad's samples in the same regime. Both figures must be valid.
pub(crate) fn notice(run: &[Measurement], saved: Option<&SavedMixes>) -> Option<Notice> {
    let triad = run.iter().find(|m| is_good(m) && m.name == Kernel::Triad.name())?;
    let of_triad = triad.summary.as_ref()?;
    let own_mix = kernel_mix(Kernel::Triad);
    let mut others: Vec<(&Measurement, String, &str)> = Vec::new();
    for m in run.iter().filter(|m| is_good(m)) {
        let Ok(kernel) = m.name.parse::<Kernel>() else { continue };
        if kernel_mix(kernel) != own_mix && counts_all(m, kernel) {
            others.push((m, format!("{kernel}, {}", kernel_mix(kernel)), "this run"));
        }
    }
    if let Some(saved) = saved {
        for m in saved.measurements.iter().filter(|m| is_good(m) && is_alike(m, triad)) {
            if mix_name(m) != own_mix {
                others.push((m, mix_name(m).to_owned(), &saved.from));
            }
        }
    }
    let (most, mix, from) = others
        .into_iter()
        .filter(|(m, ..)| median(m) > of_triad.p95)
        .max_by(|(x, ..), (y, ..)| median(x).total_cmp(&median(y)))?;
    let text = format!(
        "Triad's mix ({own_mix}) is not the fastest on this node: the mix {mix} (reads to writes) reaches {} ({from}; \
         medians), {:.2} x Triad; the bandwidth limit of a program depends on its own mix",
        BytesPerSec(median(most)),
        median(most) / of_triad.median,
    );
    Some(Notice::new(NoticeId::Method, GAUGE, text))
}

fn is_good(m: &Measurement) -> bool {
    m.value.is_some() && m.validity.status == Status::Valid
}

/// True unless the two figures belong to different regimes.
fn is_alike(m: &Measurement, other: &Measurement) -> bool {
    let trips = [m, other].map(|of| of.read_key::<shared::round_trip_s>());
    match trips {
        [Some(one), Some(two)] => regime::may_share_regime(one, two),
        _ => true,
    }
}

fn median(m: &Measurement) -> f64 {
    m.summary.as_ref().map_or(f64::NAN, |summary| summary.median)
}

/// Returns the ratio of arrays that a kernel reads to arrays that it writes, e.g. `2:1`.
fn kernel_mix(kernel: Kernel) -> String {
    format!("{}:{}", kernel.spec().reads.len(), usize::from(kernel.writes()))
}

/// True if STREAM counts all bytes that the kernel moves.
fn counts_all(m: &Measurement, kernel: Kernel) -> bool {
    let config: StreamConfig = m.read_config();
    !kernel.spec().write_allocates() || config.stores.as_deref() == Some("nontemporal")
}

/// Returns the mix of a saved figure, without the kind of store.
fn mix_name(m: &Measurement) -> &str {
    m.name.trim_end_matches("-nt")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_arena::names::STREAM;
    use nodegauge_measure::Unit;
    use nodegauge_measure::record::QuotedStatistic;

    fn figure(test: &str, name: &str, stores: Option<&str>, middle: f64) -> Measurement {
        let config = StreamConfig {
            stores: stores.map(str::to_owned),
            round_trip_s: Some(100e-9),
            ..StreamConfig::default()
        };
        let samples = (-10..=10).map(|i| middle * (1.0 + f64::from(i) / 100.0)).collect();
        Measurement::new(GAUGE, test, name, Unit::BytesPerSecond)
            .with_samples(QuotedStatistic::Best, samples)
            .with_config(&config)
    }

    fn stream(name: &str, stores: Option<&str>, middle: f64) -> Measurement {
        figure(STREAM, name, stores, middle)
    }

    #[test]
    fn kernel_faster_than_triad_is_reported_with_its_source() {
        let nt = Some("nontemporal");
        let triad = || stream("triad", nt, 40e9);
        let text = |run: &[Measurement], saved: Option<&SavedMixes>| {
            notice(run, saved).map(|notice| notice.message).unwrap_or_default()
        };
        let run = [triad(), stream("copy", nt, 43e9), stream("update", Some("regular"), 50e9)];
        let reported = text(&run, None);
        assert!(
            reported.contains("update, 1:1 (reads to writes) reaches 50.00 GB/s (this run"),
            "{reported}"
        );
        assert!(reported.contains("1.25 x Triad"), "{reported}");
        // There is no note for a rate within the spread of Triad, for Triad's own mix, for a kernel that moves more
        // bytes than are counted, and for suspect figures.
        assert_eq!(text(&[triad(), stream("add", nt, 60e9)], None), "");
        let mut doubtful = stream("copy", nt, 60e9);
        doubtful.validity.mark_suspect("disturbed");
        assert_eq!(text(&[triad(), doubtful], None), "");
        assert_eq!(text(&[triad(), stream("copy", nt, 43e9)], None), "");
        assert_eq!(text(&[triad(), stream("copy", Some("regular"), 60e9)], None), "");
        let mixes = |trip: f64| {
            let mut mix = figure(MIX, "1:1-nt", nt, 60e9);
            mix.config.insert("round_trip_s".to_owned(), trip.into());
            SavedMixes {
                measurements: vec![mix],
                from: "memory mix of 2026-01-02, run X".to_owned(),
            }
        };
        let doubled = text(&run, Some(&mixes(100e-9)));
        assert!(
            doubled.contains("1:1 (reads to writes) reaches 60.00 GB/s (memory mix of"),
            "{doubled}"
        );
        // Figures of different regimes are not compared.
        assert!(text(&run, Some(&mixes(400e-9))).contains("update"));
        assert_eq!(text(&run[1..], None), "");
    }
}
