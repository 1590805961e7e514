//! Verdict on a pair of figures: checks that the figures are comparable, selects the counting runs of A and B,
//! estimates the spread between runs, and judges the ratio.

use super::figures::{self, MatchedSamples, SideFigures};
use super::pairing::{self, PairedMeasurement};
use super::settings;
use super::{ComparisonDesign, Pair, PairReason, Side, Verdict, join_distinct};
use crate::expect;
use crate::facts::machine_changes;
use crate::identity::NumberedMeasurement;
use crate::ratio;
use crate::ratio::paired::PairedRounds;
use crate::ratio::speed::SpeedVerdict;
use nodegauge_measure::Bytes;
use nodegauge_measure::keys::{self, Registry, Role};
use nodegauge_measure::quantity::number_form;
use nodegauge_measure::record::{Measurement, Record, Status};
use nodegauge_measure::stats::BetterDirection;

/// Judge of pairs of figures, with the properties of the comparison on which all verdicts depend.
pub(super) struct PairJudge<'a> {
    design: ComparisonDesign,
    /// True if all runs had the same command.
    pub has_same_command: bool,
    /// True if A and B consist of the same runs.
    has_same_runs: bool,
    regimes_matter: bool,
    /// Saved runs that are not compared: first those with the command, version and machine of A, then those of B.
    others: [Vec<&'a Record>; 2],
    /// Reason why the spread between runs is unknown.
    unknown_spread: PairReason,
}

impl<'a> PairJudge<'a> {
    pub fn new(a: &'a Side, b: &'a Side, design: ComparisonDesign) -> Self {
        let has_same_command = settings::is_same_command(&[&a.runs, &b.runs]);
        let compared: Vec<&str> = a.runs.iter().chain(&b.runs).map(|run| run.id.as_str()).collect();
        let others = [a, b].map(|side| others_like(side, &compared));
        let has_same_runs = shared_run_count(a, b) == a.runs.len().max(b.runs.len());
        let regimes_matter = regimes_matter(a, b);
        let unknown_spread = unknown_spread(a, b, has_same_command);
        Self { design, has_same_command, has_same_runs, regimes_matter, others, unknown_spread }
    }

    /// Compares a measurement that A and B have, and returns the pair with its verdict.
    pub fn judge(&self, point: &PairedMeasurement<'_>, registry: &Registry) -> Pair {
        let first = point.first();
        let mut pair = Pair {
            gauge: first.gauge.clone(),
            test: first.test.clone(),
            name: first.name.clone(),
            name_in_words: first.name_in_words(),
            unit: first.unit,
            keys_in_words: point.keys_in_words.clone(),
            at: point.at.clone(),
            size: expect::figure_size(first, registry),
            a: SideFigures::from_side(&point.sides[0]),
            b: SideFigures::from_side(&point.sides[1]),
            statistic: first.quoted.name(),
            ratio: None,
            ci95: None,
            visible: None,
            basis: None,
            needed: None,
            median_ratio: None,
            verdict: Verdict::NotComparable,
            suspect: None,
            reasons: obstacles(point, self.has_same_command, registry)
                .into_iter()
                .map(PairReason::from)
                .collect(),
        };
        if !pair.reasons.is_empty() {
            return pair;
        }
        match self.comparable(point, &mut pair) {
            Ok(matched) => self.set_verdict(&mut pair, first, matched),
            Err(reason) => pair.reasons.push(reason.into()),
        }
        let unsettled = pair.verdict == Verdict::CannotTell && pair.suspect.is_none();
        if unsettled && figures::ranges_are_apart([&point.sides[0], &point.sides[1]]) {
            pair.reasons.push(APART.to_owned().into());
        }
        pair
    }

    /// Returns the samples of A and B that can be compared, and adds remarks to `pair`.
    ///
    /// Fails with the reason if no samples can be compared.
    fn comparable(
        &self,
        point: &PairedMeasurement<'_>,
        pair: &mut Pair,
    ) -> Result<MatchedSamples, String> {
        let mut sides = Vec::new();
        let mut similar_runs = Vec::new();
        for ((name, runs), others) in ["A", "B"].into_iter().zip(&point.sides).zip(&self.others) {
            let all = runs.len();
            let usable = figures::usable_measurements(name, runs)?;
            if usable.len() < all {
                let failed = all - usable.len();
                let text = format!("runs of {name} without a valid figure: {failed} of {all}");
                pair.reasons.push(text.into());
            }
            let suspect = usable.iter().filter(|(_, m)| m.validity.status == Status::Suspect);
            let why = suspect.clone().find_map(|(_, m)| m.validity.reasons.first());
            let believed: Vec<NumberedMeasurement<'_>> =
                usable.iter().copied().filter(|(_, m)| self.trusts(m)).collect();
            let left_out = usable.len() - believed.len();
            let doubt = why.map(|why| {
                if believed.is_empty() || left_out == 0 {
                    format!("{name} is suspect: {why}")
                } else {
                    let verb = number_form(left_out, "is", "are");
                    format!("{left_out} of {all} runs of {name} {verb} suspect and left out: {why}")
                }
            });
            if believed.is_empty() && pair.suspect.is_none() {
                pair.suspect.clone_from(&doubt);
            }
            pair.reasons.extend(doubt.map(PairReason::from));
            let alike =
                others.iter().filter_map(|run| pairing::corresponding_measurement(point, run));
            let alike = alike.filter(|m| self.trusts(m));
            similar_runs.push(alike.map(|m| (0, m)).collect::<Vec<NumberedMeasurement<'_>>>());
            sides.push(if believed.is_empty() { usable } else { believed });
        }
        let matched = figures::match_samples(
            [&sides[0], &sides[1]],
            [&similar_runs[0], &similar_runs[1]],
            self.regimes_matter,
        )?;
        pair.reasons.splice(0..0, matched.remark.clone().map(PairReason::from));
        Ok(matched)
    }

    /// True if the figure is valid, or if the comparison accepts suspect figures.
    fn trusts(&self, m: &Measurement) -> bool {
        m.validity.status == Status::Valid || self.design.accept_suspect
    }

    /// Sets the ratio, the interval and the verdict of `pair`.
    fn set_verdict(&self, pair: &mut Pair, first: &Measurement, matched: MatchedSamples) {
        let MatchedSamples { a, b, similar_runs: [like_a, like_b], .. } = matched;
        for (figure, chosen) in [(&mut pair.a, &a), (&mut pair.b, &b)] {
            *figure = SideFigures { status: figure.status, ..chosen.figure() };
        }
        pair.ratio = quotient(pair.b.value, pair.a.value).filter(|ratio| ratio.is_finite());
        pair.median_ratio = quotient(pair.b.median, pair.a.median);
        let interval = if self.design.is_interleaved {
            PairedRounds::from_ratios(a.block_ratios(&b)).interval()
        } else if self.has_same_runs {
            None
        } else {
            let a = a.to_side_runs(&like_a, first.quoted, first.unit);
            let b = b.to_side_runs(&like_b, first.quoted, first.unit);
            ratio::interval(&a, &b)
        };
        if let Some(interval) = interval {
            if self.design.is_interleaved {
                // The ratio is computed only from complete blocks.
                pair.ratio = Some(interval.ratio);
            }
            pair.ci95 = Some(interval.ci95);
            pair.visible = Some(interval.visible);
            pair.basis = Some(interval.basis);
            pair.needed = interval.needed;
        }
        pair.verdict = match (interval, pair.unit.direction()) {
            _ if pair.suspect.is_some() => Verdict::CannotTell,
            (None, _) if self.has_same_runs => Verdict::WithinNoise,
            (None, _) => {
                pair.reasons.insert(0, self.unknown_spread.clone());
                Verdict::CannotTell
            }
            (Some(known), direction) => {
                match (direction, SpeedVerdict::from_interval(Some(known.ci95), 0.0)) {
                    (_, SpeedVerdict::NoDifference | SpeedVerdict::CannotTell) => {
                        Verdict::WithinNoise
                    }
                    (Some(BetterDirection::Higher), SpeedVerdict::Faster) => Verdict::Faster,
                    (Some(BetterDirection::Lower), SpeedVerdict::Slower) => Verdict::Faster,
                    (Some(_), _) => Verdict::Slower,
                    (None, SpeedVerdict::Faster) => Verdict::Higher,
                    (None, SpeedVerdict::Slower) => Verdict::Lower,
                }
            }
        };
    }
}

/// Returns the other saved runs with the same command, version and machine as a side. `compared` contains the
/// identifiers of the compared runs.
fn others_like<'a>(side: &'a Side, compared: &[&str]) -> Vec<&'a Record> {
    let Some(first) = side.runs.first() else { return Vec::new() };
    let others = side.others.iter().filter(|run| !compared.contains(&run.id.as_str()));
    others.filter(|run| is_repeated(first, run)).collect()
}

/// True if both runs had the same command and version on the same machine with the same facts; false for imported runs.
fn is_repeated(first: &Record, run: &Record) -> bool {
    let asked = settings::relevant_command(first);
    asked.is_some()
        && asked == settings::relevant_command(run)
        && run.tool == first.tool
        && machine_changes(&first.machine, &run.machine).is_empty()
}

/// Remark on figures whose ranges over the passes do not overlap.
const APART: &str = "the ranges within A and within B do not overlap: the difference exceeds the spread within a run, \
                     but the spread between runs may be larger";

/// Returns the reason why the spread between runs is unknown, with the command that measures it.
fn unknown_spread(a: &Side, b: &Side, same: bool) -> PairReason {
    let [host_a, host_b] = [a, b].map(|side| side.runs.first().map(|run| &run.machine.host));
    let here = host_a == host_b;
    let how = match (side_command(a), side_command(b)) {
        (Some(of_a), Some(of_b)) if !same && here => {
            format!("nodegauge compare --run '{of_a}' '{of_b}'")
        }
        _ => "make three runs of A with one --label, and three of B with another".to_owned(),
    };
    PairReason { text: "the run-to-run spread is unknown".to_owned(), remedy: Some(how) }
}

/// Returns the quotient of two numbers; `None` if one is unknown.
fn quotient(numerator: Option<f64>, denominator: Option<f64>) -> Option<f64> {
    Some(numerator? / denominator?)
}

/// Returns the command of a side for a shell; `None` for imported runs and for a command with quotes.
fn side_command(side: &Side) -> Option<String> {
    let asked = settings::relevant_command(side.runs.first()?)?.join(" ");
    (!asked.contains('\'')).then(|| if asked.is_empty() { "run".to_owned() } else { asked })
}

/// Describes how A and B differ in the property `what`, which `of` returns; `None` if they agree.
fn differing(
    point: &PairedMeasurement<'_>,
    what: &str,
    of: impl Fn(&Measurement) -> Option<String>,
) -> Option<String> {
    let mut known: Vec<String> = Vec::new();
    for side in &point.sides {
        let words = join_distinct(side.iter().map(|(_, m)| of(m)));
        if !words.is_empty() && !known.contains(&words) {
            known.push(words);
        }
    }
    (known.len() > 1).then(|| format!("{what}: {}", known.join(" against ")))
}

/// Returns the value of an identity key as text. Sizes are exact, because different sizes may look equal when rounded.
fn identity_in_words(m: &Measurement, key: &str) -> Option<String> {
    let value = m.config.get(key)?;
    let bytes = value.as_u64().filter(|_| keys::is_size(key));
    bytes.map(|bytes| Bytes(bytes).exact_text()).or_else(|| keys::scalar_text(value))
}

/// Returns the name of the category of a figure.
fn figure_category(m: &Measurement) -> Option<String> {
    serde_json::to_value(m.category).ok()?.as_str().map(str::to_owned)
}

/// Returns the reasons why the figures of A and B are not comparable; empty if they are comparable.
pub(super) fn obstacles(
    point: &PairedMeasurement<'_>,
    is_same_command: bool,
    registry: &Registry,
) -> Vec<String> {
    let mut reasons = Vec::new();
    reasons.extend(differing(point, "category", figure_category));
    let first = point.first();
    let identities = first.config.keys().filter_map(|name| {
        let key = registry.key(&first.gauge, &first.test, name)?;
        // If all runs had the same command, different values of an identity key do not prevent a comparison.
        (key.role == Role::Identity && !is_same_command).then_some(key)
    });
    for key in identities {
        reasons.extend(differing(point, key.words, |m| identity_in_words(m, key.name)));
    }
    reasons
}

/// Returns the number of runs of A that also belong to B.
pub(super) fn shared_run_count(a: &Side, b: &Side) -> usize {
    a.runs.iter().filter(|run| b.runs.iter().any(|other| other.id == run.id)).count()
}

/// True if core-to-core round trips identify regimes, i.e. if all runs were made in virtual machines on the same
/// processor model. On bare metal, bound threads do not move; different round trips then result from different
/// settings.
fn regimes_matter(a: &Side, b: &Side) -> bool {
    let mut all = a.runs.iter().chain(&b.runs).map(|run| &run.machine);
    let model = all.clone().next().and_then(|machine| machine.processor.model.as_ref());
    all.all(|machine| machine.virtualisation.is_some() && machine.processor.model.as_ref() == model)
}
