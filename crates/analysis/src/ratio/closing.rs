//! Result of a comparison as a sentence: `MPICH moves 1 MiB 1.12 times as fast as Open MPI (1.08 to 1.15 in this run)`.

use super::bests::{self, Ratio};
use super::speed::{self, SpeedVerdict};
use super::spread_in_run;
use crate::conclusion::{CANNOT_TELL, Obstacle, detectable_difference};
use nodegauge_measure::Unit;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Status};
use nodegauge_measure::stats::{self, BetterDirection, UPPER_TAIL};

/// Maximum number of figures that are compared with the fastest.
const MAX_COMPARED_FIGURES: usize = 3;

/// Reason why a ratio has no interval and hence no verdict.
const TOO_FEW_SAMPLES: &str = "too few samples for an interval";

/// Figure that a sentence compares with another figure of the same run.
#[derive(Debug, Clone, Copy)]
pub struct Contender<'a> {
    /// Name of the program or setting in the sentence.
    pub name: &'a str,
    /// Figure to compare.
    pub figure: &'a Measurement,
}

/// Formats a ratio: `1.12 times as fast as A`.
pub fn times_as_fast(ratio: f64, ci95: Option<[f64; 2]>, than: &str) -> String {
    format!("{} times as fast as {than}", digits(ratio, ci95))
}

/// Formats an interval: `1.08 to 1.15`.
pub fn interval_in_words(ci95: [f64; 2]) -> String {
    let [low, high] = ci95.map(|end| digits(end, Some(ci95)));
    format!("{low} to {high}")
}

fn digits(value: f64, ci95: Option<[f64; 2]>) -> String {
    let significant_decimals = ci95.map_or(2, bests::significant_decimals).max(2);
    format!("{value:.significant_decimals$}")
}

/// Returns a sentence that compares how fast two programs do `what`, e.g. `moves 1 MiB`. It compares the statistic
/// `quoted` of the samples of one run, so the spread between runs may be larger than the interval. Returns `None` if a
/// figure has no value, or if neither direction of the unit is better.
pub fn single_run_sentence(
    a: Contender<'_>,
    b: Contender<'_>,
    what: &str,
    quoted: QuotedStatistic,
) -> Option<String> {
    let (ratio, ci95) = single_run_ratio(a.figure, b.figure, quoted)?;
    // The sentence begins with the faster program.
    if ratio < 1.0 {
        let inverse = ci95.map(|[low, high]| [high.recip(), low.recip()]);
        return Some(sentence(b, a, what, ratio.recip(), inverse));
    }
    Some(sentence(a, b, what, ratio, ci95))
}

/// Formats the sentence of [`single_run_sentence`]; `ratio` is the speed of `faster` divided by the speed of `slower`.
fn sentence(
    slower: Contender<'_>,
    faster: Contender<'_>,
    what: &str,
    ratio: f64,
    ci95: Option<[f64; 2]>,
) -> String {
    let both = [slower, faster];
    let doubted = both.into_iter().find(|of| of.figure.validity.status != Status::Valid);
    let interval = ci95.filter(|_| doubted.is_none());
    let because = match (interval, doubted) {
        (_, Some(of)) => {
            let status = of.figure.validity.status.name();
            let why =
                Obstacle::from_figures([of.figure]).map(|why| format!(": {}", why.in_words()));
            format!("the figure of {} is {status}{}", of.name, why.unwrap_or_default())
        }
        (None, _) => Obstacle::new(TOO_FEW_SAMPLES).in_words(),
        (Some(ends), _) => format!("{} in this run", interval_in_words(ends)),
    };
    match SpeedVerdict::from_interval(interval, speed::NEGLIGIBLE_DIFFERENCE) {
        SpeedVerdict::Faster => {
            let times = times_as_fast(ratio, ci95, slower.name);
            format!("{} {what} {times} ({because})", faster.name)
        }
        SpeedVerdict::NoDifference => {
            let found = detectable_difference(speed::NEGLIGIBLE_DIFFERENCE);
            format!(
                "no difference: {} {what} {} times as fast as {} ({because}); {found}",
                faster.name,
                digits(ratio, ci95),
                slower.name
            )
        }
        _ => {
            let times = digits(ratio, ci95);
            format!(
                "{CANNOT_TELL} whether {} {what} faster than {}: {times} times ({because})",
                faster.name, slower.name
            )
        }
    }
}

/// Returns sentences that compare the fastest of several figures with each of the next fastest ones.
pub fn several_figures_sentences(
    all: &[(String, &Measurement)],
    what: &str,
    quoted: QuotedStatistic,
) -> Vec<String> {
    let mut measured: Vec<(f64, &(String, &Measurement))> = Vec::new();
    for one in all {
        measured.extend(quoted_speed(one.1, quoted).map(|speed| (speed, one)));
    }
    measured.sort_by(|(x, _), (y, _)| y.total_cmp(x));
    let Some(((_, (fastest, best)), others)) = measured.split_first() else { return Vec::new() };
    let best = Contender { name: fastest, figure: best };
    let mut sentences = Vec::new();
    for (_, (name, figure)) in others.iter().take(MAX_COMPARED_FIGURES) {
        sentences.extend(single_run_sentence(Contender { name, figure }, best, what, quoted));
    }
    sentences
}

/// Returns the speed of a figure by the statistic `quoted` of its samples (the reciprocal for times); `None` without a
/// result.
fn quoted_speed(m: &Measurement, quoted: QuotedStatistic) -> Option<f64> {
    let value = m.value.and(quoted.statistic(&m.samples, m.unit).or(m.value))?;
    Some(as_speed(value, m.unit))
}

/// Returns the speeds of the samples of a figure.
fn sample_speeds(m: &Measurement) -> Vec<f64> {
    m.samples.iter().map(|sample| as_speed(*sample, m.unit)).collect()
}

fn as_speed(value: f64, unit: Unit) -> f64 {
    if unit.direction() == Some(BetterDirection::Lower) { value.recip() } else { value }
}

/// Returns the speed of b divided by the speed of a, with the 95 % confidence interval if there are enough samples.
pub fn single_run_ratio(
    a: &Measurement,
    b: &Measurement,
    quoted: QuotedStatistic,
) -> Option<(f64, Option<[f64; 2]>)> {
    a.unit.direction().filter(|_| a.unit == b.unit)?;
    a.value.zip(b.value)?;
    if quoted == QuotedStatistic::Best
        && let Some(ratio) = Ratio::from_bests(&sample_speeds(a), &sample_speeds(b))
    {
        return Some((ratio.value, ratio.interval));
    }
    let ratio = quoted_speed(b, quoted)? / quoted_speed(a, quoted)?;
    let n = a.samples.len().min(b.samples.len());
    let error = [a, b].map(|m| spread_in_run(&m.samples, quoted, m.unit));
    let known = n >= bests::MIN_ROUNDS && error.iter().all(|error| *error > 0.0);
    let ci95 = known.then(|| {
        let student_quantile = stats::student_quantile(UPPER_TAIL, (n - 1) as f64);
        let half = student_quantile * error[0].hypot(error[1]) * bests::few_samples_factor(n);
        [ratio * (-half).exp(), ratio * half.exp()]
    });
    Some((ratio, ci95))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::record::Validity;

    fn figure(unit: Unit, quoted: QuotedStatistic, samples: Vec<f64>) -> Measurement {
        Measurement::new("messages", "mpi", "bw", unit).with_samples(quoted, samples)
    }

    /// Returns samples around `centre` with uniform noise of 1 %.
    fn samples(seed: u64, n: usize, centre: f64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..n).map(|_| centre * (0.02 * (random.f64() - 0.5)).exp()).collect()
    }

    fn sentence(a: &Measurement, b: &Measurement, quoted: QuotedStatistic) -> String {
        let side = |name, figure| Contender { name, figure };
        single_run_sentence(side("Open MPI", a), side("MPICH", b), "moves 1 MiB", quoted).unwrap()
    }

    #[test]
    fn faster_side_is_named_first() {
        for (unit, b) in [(Unit::BytesPerSecond, 1.12), (Unit::Seconds, 1.0 / 1.12)] {
            for quoted in [QuotedStatistic::Mean, QuotedStatistic::Median, QuotedStatistic::Best] {
                let [a, b] = [1.0, b].map(|centre| figure(unit, quoted, samples(3, 40, centre)));
                let expected = "MPICH moves 1 MiB 1.12";
                for text in
                    [sentence(&a, &b, quoted), sentence(&b, &a, quoted).replace("Open MPI", "x")]
                {
                    let names = text.replace("MPICH", "y");
                    assert!(
                        names.contains("moves 1 MiB 1.12") && text.ends_with("in this run)"),
                        "{text}"
                    );
                }
                assert!(
                    sentence(&a, &b, quoted).starts_with(expected),
                    "{}",
                    sentence(&a, &b, quoted)
                );
            }
        }
    }

    #[test]
    fn undetected_difference_is_reported_with_the_detectable_one() {
        let of = |samples: Vec<f64>| figure(Unit::BytesPerSecond, QuotedStatistic::Mean, samples);
        let (a, b) = (of(samples(1, 40, 1.0)), of(samples(2, 40, 1.0005)));
        // The noise of the second figure is ten times as large.
        let noisy = of(samples(2, 40, 1.0).into_iter().map(|x| x.powi(10)).collect());
        let text = sentence(&a, &noisy, QuotedStatistic::Mean);
        assert!(text.starts_with("cannot tell whether ") && text.contains(" to "), "{text}");
        let even = sentence(&a, &b, QuotedStatistic::Mean);
        assert!(even.starts_with("no difference: "), "{even}");
        assert!(even.ends_with("a difference of more than 1 % would have been found"), "{even}");
        let doubled_text =
            sentence(&of(vec![1.0, 1.0]), &of(vec![2.0, 2.0]), QuotedStatistic::Mean);
        assert!(
            doubled_text.contains("than Open MPI: 2.00 times (too few samples for an interval;"),
            "{doubled_text}"
        );
        let mut doubted = of(samples(2, 40, 2.0));
        doubted.validity = Validity { status: Status::Suspect, reasons: vec!["busy".to_owned()] };
        let doubted_text = sentence(&a, &doubted, QuotedStatistic::Mean);
        assert!(
            doubted_text.starts_with("cannot tell")
                && doubted_text.ends_with("(the figure of MPICH is suspect: busy)"),
            "{doubted_text}"
        );
        let factor = figure(Unit::Factor, QuotedStatistic::Mean, vec![1.0; 9]);
        let side = |figure| Contender { name: "x", figure };
        assert_eq!(
            single_run_sentence(side(&factor), side(&factor), "is", QuotedStatistic::Mean),
            None
        );
    }

    #[test]
    fn intervals_of_means_and_medians_contain_the_true_ratio_in_9_of_10_runs() {
        for (quoted, n) in
            [(QuotedStatistic::Mean, 8), (QuotedStatistic::Mean, 24), (QuotedStatistic::Median, 24)]
        {
            let held = |seed: u64| {
                let of = |run_seed, centre| {
                    figure(Unit::BytesPerSecond, quoted, samples(run_seed, n, centre))
                };
                let (a, b) = (of(2 * seed, 1.0), of(2 * seed + 1, 1.08));
                let [low, high] = single_run_ratio(&a, &b, quoted).unwrap().1.unwrap();
                low <= 1.08 && 1.08 <= high
            };
            let held = (0..300).filter(|seed| held(*seed)).count() as f64 / 300.0;
            assert!(held >= 0.9, "{quoted:?} of {n}: held in {held}");
        }
    }
}
