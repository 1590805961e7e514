//! Conclusion and ranking of a sweep, for every gauge with sweeps: which combination is the fastest, and how much
//! faster it is than the next or than the baseline, with the interval of the ratio; or the reason why this is unknown,
//! and the remedy.

use super::sentence::quotable_figures;
use nodegauge_analysis::conclusion::{CANNOT_TELL, Obstacle, detectable_difference};
use nodegauge_analysis::ratio::closing::{interval_in_words, single_run_ratio, times_as_fast};
use nodegauge_analysis::ratio::paired::PairedRounds;
use nodegauge_analysis::ratio::speed::{self, SpeedVerdict};
use nodegauge_measure::record::{Measurement, QuotedStatistic, Status};
use nodegauge_measure::stats::BetterDirection;

/// Maximum number of combinations in a ranking.
const MAX_RANKED: usize = 10;
/// Instruction with which the interval of a ratio becomes narrower.
const NARROWER: &str = "use a larger --budget or --samples";

/// Rounds of a combination: the runs of all combinations in one round are compared with each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RoundPairing<'r> {
    /// The samples of the combinations are not paired.
    UnpairedFigure,
    /// The combination is the baseline of the others.
    Baseline,
    /// Speed relative to the baseline in each round.
    Relative(&'r [f64]),
}

/// Combination of a sweep with its figure.
#[derive(Debug, Clone)]
pub struct SweptRow<'r> {
    /// Values on all axes: `threads 4, pages thp`.
    pub name: String,
    /// Figure of the combination.
    pub figure: &'r Measurement,
    /// Rounds of the combination.
    pub rounds: RoundPairing<'r>,
}

/// Combinations of a sweep, in the order of the sweep. They are compared by a statistic of their samples.
#[derive(Debug, Clone)]
pub struct SweptRows<'r> {
    rows: Vec<SweptRow<'r>>,
    quoted: QuotedStatistic,
    /// Phrase for sentences that names the measured kernel, e.g. ` in triad`; may be empty.
    what: String,
}

/// Speed of a combination divided by that of another one.
#[derive(Debug, Clone, PartialEq)]
struct SpeedRatio {
    ratio: f64,
    ci95: Option<[f64; 2]>,
    verdict: SpeedVerdict,
    /// Reason why there is no verdict.
    obstacle: Option<Obstacle>,
}

impl SpeedRatio {
    /// Formats the ratio: `1.42 times as fast as threads 1 (95 %: 1.38 to 1.47)`.
    fn in_words(&self, than: &str) -> String {
        format!("{}{}", times_as_fast(self.ratio, self.ci95, than), self.interval())
    }

    /// Formats the interval; empty if there is none.
    fn interval(&self) -> String {
        match self.ci95 {
            Some(ends) => format!(" (95 %: {})", interval_in_words(ends)),
            None => String::new(),
        }
    }
}

impl SweptRow<'_> {
    /// Returns the speed by a statistic of the samples; `None` for an invalid figure or a figure without a value.
    fn speed(&self, quoted: QuotedStatistic) -> Option<f64> {
        let m = self.figure;
        let value = m.value.filter(|_| m.validity.status != Status::Invalid)?;
        let value = quoted.statistic(&m.samples, m.unit).unwrap_or(value);
        Some(if m.unit.direction() == Some(BetterDirection::Lower) { value.recip() } else { value })
    }
}

impl<'r> SweptRows<'r> {
    /// Returns combinations that are compared by the statistic `quoted`.
    pub fn new(rows: Vec<SweptRow<'r>>, quoted: QuotedStatistic) -> Self {
        Self { rows, quoted, what: String::new() }
    }

    /// Sets the kernel that the figures measure.
    #[must_use]
    pub fn with_kernel(self, name: &str) -> Self {
        Self { what: format!(" in {name}"), ..self }
    }

    /// Returns the combinations that a sentence may quote, fastest first: the valid ones, or the suspect ones if none
    /// is valid.
    fn ranked(&self) -> Vec<&SweptRow<'r>> {
        let mut ranked = Vec::new();
        for row in quotable_figures(&self.rows, |row| row.figure) {
            ranked.extend(row.speed(self.quoted).map(|speed| (speed, row)));
        }
        ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        ranked.into_iter().map(|(_, row)| row).collect()
    }

    /// Compares two combinations: round by round if they have rounds, otherwise by the samples of the run.
    fn compared(&self, fast: &SweptRow<'_>, slow: &SweptRow<'_>) -> Option<SpeedRatio> {
        let others = self.rows.iter().filter(|row| row.speed(self.quoted).is_some()).count() - 1;
        let rounds = ratios(fast.rounds, slow.rounds);
        let found = match rounds.and_then(|paired| paired.compare(others)) {
            Some(found) => (found.ratio, Some(found.ci95)),
            None => single_run_ratio(slow.figure, fast.figure, self.quoted)?,
        };
        let doubt = Obstacle::from_figures([fast.figure, slow.figure]);
        let ci95 = found.1.filter(|_| doubt.is_none());
        let verdict = SpeedVerdict::from_interval(ci95, speed::NEGLIGIBLE_DIFFERENCE);
        let obstacle = match (verdict, ci95) {
            (_, None) => Some(doubt.unwrap_or_else(|| {
                Obstacle::new("too few samples for an interval").with_remedy(NARROWER)
            })),
            (SpeedVerdict::CannotTell, _) => {
                Some(Obstacle::new("the interval contains 1").with_remedy(NARROWER))
            }
            _ => None,
        };
        Some(SpeedRatio { ratio: found.0, ci95, verdict, obstacle })
    }

    /// Returns the first sentence of the page: the fastest combination with its ratio to the next, the interval and the
    /// verdict. If the two cannot be distinguished, the sentence names both and the remedy. Returns `None` for fewer
    /// than two combinations.
    pub fn headline(&self) -> Option<String> {
        let ranked = self.ranked();
        let [best, next, ..] = ranked.as_slice() else { return None };
        let found = self.compared(best, next)?;
        let is_pair = ranked.len() == 2;
        let which = if is_pair { next.name.clone() } else { format!("the next, {}", next.name) };
        let what = &self.what;
        Some(match (found.verdict, &found.obstacle) {
            (SpeedVerdict::Faster, _) => {
                let verdict = if is_pair {
                    "faster".to_owned()
                } else {
                    format!("fastest of {}", ranked.len())
                };
                format!("{}{what} is {}: {verdict}", best.name, found.in_words(&which))
            }
            (SpeedVerdict::NoDifference, _) => format!(
                "no difference{what} between the two fastest ({} and {}): {} times{}; {}",
                best.name,
                next.name,
                digits(&found),
                found.interval(),
                detectable_difference(speed::NEGLIGIBLE_DIFFERENCE)
            ),
            (_, obstacle) => {
                let why = obstacle.as_ref().map_or_else(String::new, Obstacle::in_words);
                format!(
                    "{CANNOT_TELL} whether {} or {} is {}{what}: {} times{}; {why}",
                    best.name,
                    next.name,
                    if is_pair { "faster" } else { "the fastest" },
                    digits(&found),
                    found.interval(),
                )
            }
        })
    }

    /// True if the headline contains no conclusion because figures are suspect.
    pub fn is_doubted(&self) -> bool {
        Obstacle::from_figures(self.ranked().into_iter().map(|row| row.figure)).is_some()
    }

    /// Returns the end of a sentence that compares the combination `fastest` with the next fastest combination that is
    /// not the baseline; `None` if there is none. `fastest` must be faster than the baseline.
    pub fn comparison_with_next(&self, fastest: &str) -> Option<String> {
        let ranked = self.ranked();
        let best = ranked.iter().find(|row| row.name == fastest)?;
        let is_other = |row: &&&SweptRow<'_>| {
            row.name != fastest && !matches!(row.rounds, RoundPairing::Baseline)
        };
        let next = ranked.iter().find(is_other)?;
        let found = self.compared(best, next)?;
        Some(match found.verdict {
            SpeedVerdict::Faster => found.in_words(&format!("the next, {}", next.name)),
            SpeedVerdict::NoDifference => {
                format!("no difference from the next, {}{}", next.name, found.interval())
            }
            _ => format!(
                "not distinguished from {}: {} times{}",
                next.name,
                digits(&found),
                found.interval()
            ),
        })
    }

    /// Returns the comparison of the two fastest combinations of a larger sweep, for a sentence that names no fastest
    /// combination; `None` for fewer than three.
    pub fn leaders_comparison(&self) -> Option<String> {
        let ranked = self.ranked();
        let [best, next, _, ..] = ranked.as_slice() else { return None };
        let found = self.compared(best, next)?;
        let against = match found.verdict {
            SpeedVerdict::Faster => found.in_words(&format!("the next, {}", next.name)),
            _ => format!("not distinguished from {}{}", next.name, found.interval()),
        };
        Some(format!("{}, the fastest in the ranking, is {against}", best.name))
    }

    /// Returns the combinations of a larger sweep, fastest first, with their speeds relative to the fastest; `None` for
    /// fewer than three, or if figures are suspect.
    pub fn ranking(&self) -> Option<String> {
        let ranked = self.ranked();
        let [best, others @ ..] = ranked.as_slice() else { return None };
        if others.len() < 2 || self.is_doubted() {
            return None;
        }
        let mut words = vec![best.name.clone()];
        for row in others.iter().take(MAX_RANKED - 1) {
            let found = self.compared(row, best)?;
            words.push(format!("{} {}{}", row.name, digits(&found), found.interval()));
        }
        let more = ranked.len() - words.len();
        if more > 0 {
            words.push(format!("and {more} more"));
        }
        Some(words.join("; "))
    }
}

/// Formats a ratio with the number of digits that its interval justifies.
fn digits(found: &SpeedRatio) -> String {
    let words = times_as_fast(found.ratio, found.ci95, "");
    words.split(' ').next().unwrap_or_default().to_owned()
}

/// Returns the ratio of the speeds in each round; `None` if the rounds are not paired.
fn ratios(fast: RoundPairing<'_>, slow: RoundPairing<'_>) -> Option<PairedRounds> {
    match (fast, slow) {
        (RoundPairing::Relative(fast), RoundPairing::Baseline) => {
            Some(PairedRounds::from_ratios(fast.to_vec()))
        }
        (RoundPairing::Baseline, RoundPairing::Relative(slow)) => {
            Some(PairedRounds::from_quotients(&vec![1.0; slow.len()], slow))
        }
        (RoundPairing::Relative(fast), RoundPairing::Relative(slow))
            if fast.len() == slow.len() =>
        {
            Some(PairedRounds::from_quotients(fast, slow))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Unit;

    /// Returns a figure with 24 samples, which differ from `centre` by at most `spread`.
    fn figure(centre: f64, spread: f64) -> Measurement {
        let samples =
            (0..24).map(|i| centre * (1.0 + spread * f64::from(i % 5 - 2) / 2.0)).collect();
        let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
        m.with_samples(QuotedStatistic::Median, samples)
    }

    fn rows<'r>(figures: &'r [(&str, Measurement)]) -> SweptRows<'r> {
        let row = |(name, figure): &'r (&str, Measurement)| SweptRow {
            name: (*name).to_owned(),
            figure,
            rounds: RoundPairing::UnpairedFigure,
        };
        SweptRows::new(figures.iter().map(row).collect(), QuotedStatistic::Median)
    }

    #[test]
    fn headline_has_ratio_interval_and_verdict() {
        let all = [("regular", figure(29e9, 0.004)), ("nontemporal", figure(41.2e9, 0.004))];
        let text = rows(&all).with_kernel("triad").headline().unwrap();
        assert!(text.starts_with("nontemporal in triad is 1.4"), "{text}");
        assert!(text.contains(" times as fast as regular (95 %: 1.4"), "{text}");
        assert!(text.ends_with("): faster"), "{text}");
        assert_eq!(rows(&all).ranking(), None);
        let three = [all[0].clone(), all[1].clone(), ("slow", figure(10e9, 0.004))];
        let fastest = rows(&three).headline().unwrap();
        assert!(fastest.contains(" as the next, regular (95 %: "), "{fastest}");
        assert!(fastest.ends_with(": fastest of 3"), "{fastest}");
        let ranking = rows(&three).ranking().unwrap();
        assert!(ranking.starts_with("nontemporal; regular 0.70"), "{ranking}");
        assert!(ranking.contains("; slow 0.24"), "{ranking}");
    }

    #[test]
    fn headline_names_two_indistinguishable_combinations() {
        let even = [("a", figure(40e9, 0.001)), ("b", figure(40.01e9, 0.001))];
        let none = rows(&even).headline().unwrap();
        assert!(
            none.starts_with("no difference between the two fastest (b and a): 1.00"),
            "{none}"
        );
        assert!(none.ends_with("a difference of more than 1 % would have been found"), "{none}");
        let wide =
            [("a", figure(40e9, 0.15)), ("b", figure(40.4e9, 0.15)), ("c", figure(9e9, 0.1))];
        let unknown = rows(&wide).headline().unwrap();
        assert!(
            unknown.starts_with("cannot tell whether b or a is the fastest: 1.01"),
            "{unknown}"
        );
        assert!(
            unknown.ends_with("the interval contains 1; use a larger --budget or --samples"),
            "{unknown}"
        );
    }

    #[test]
    fn suspect_figures_give_a_reason_instead_of_a_verdict() {
        let mut all = [("a", figure(40e9, 0.001)), ("b", figure(80e9, 0.001))];
        for (_, m) in &mut all {
            m.validity.mark_suspect("other load took 36 % of the time of a thread");
        }
        let text = rows(&all).headline().unwrap();
        assert_eq!(
            text,
            "cannot tell whether b or a is faster: 2.00 times; other load took 36 % of the time of a \
             thread; repeat the run on an idle node"
        );
        assert!(rows(&all).is_doubted());
        assert_eq!(rows(&all[..1]).headline(), None);
    }

    #[test]
    fn rounds_of_two_combinations_are_compared_in_pairs() {
        let figures = [1.0, 0.5, 0.4].map(|seconds| {
            let m = Measurement::new("program", "sweep", "elapsed", Unit::Seconds);
            m.with_samples(QuotedStatistic::Median, vec![seconds; 6])
        });
        // The drift of the machine is in all combinations.
        let [twice, more] = [[1.9, 2.0, 2.1, 2.4, 1.8, 2.0], [2.4, 2.5, 2.62, 3.0, 2.25, 2.5]];
        let relative =
            [RoundPairing::Baseline, RoundPairing::Relative(&twice), RoundPairing::Relative(&more)];
        let names = ["one", "two", "three"];
        let mut all = Vec::new();
        for ((name, figure), rounds) in names.into_iter().zip(&figures).zip(relative) {
            all.push(SweptRow { name: name.to_owned(), figure, rounds });
        }
        let swept = SweptRows::new(all, QuotedStatistic::Median);
        let text = swept.headline().unwrap();
        assert!(text.starts_with("three is 1.25"), "{text}");
        let next = swept.comparison_with_next("three").unwrap();
        assert!(next.starts_with("1.25") && next.contains("as the next, two (95 %: 1.2"), "{next}");
    }
}
