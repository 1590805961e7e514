//! `--fail-on 'triad<-5%'`: a condition on a comparison, for acceptance scripts.
//!
//! Grammar: `slower`, which a measurement meets if it is slower by more than the noise; or `[GAUGE.|TEST.]NAME OP
//! [+|-]PERCENT% [@SIZE]` where `OP` is `>=`, `<=`, `>` or `<`, as in `--expect`. The percentage is the change of the
//! printed figure from A to B. It is negative for a rate that decreased or a time that became shorter. With the name
//! `any` the condition applies to every measurement. The percentage is then the change in speed, so that one condition
//! applies to rates and times.
//!
//! A change beyond the bound fails if it exceeds the noise, or if the noise is unknown. A change within the noise is
//! reported and does not fail. A figure that is suspect, not comparable, or missing in B fails, because a condition
//! without figures must not pass.

use super::{Comparison, Pair, UnpairedFigure, Verdict};
use crate::conclusion::Obstacle;
use crate::expect::{self, Operator};
use nodegauge_measure::Bytes;
use nodegauge_measure::grammar::{Cursor, SyntaxError};
use nodegauge_measure::quantity::{change_in_words, read_bytes};
use nodegauge_measure::stats::BetterDirection;
use std::fmt;
use std::str::FromStr;

/// Name with which a condition applies to every measurement.
const ANY: &str = "any";
/// Text of the condition that is met if any measurement is slower.
const SLOWER: &str = "slower";
/// Maximum number of names in a message.
const SHOWN: usize = 8;

/// Condition under which a comparison fails.
#[derive(Debug, Clone, PartialEq)]
pub enum Threshold {
    /// A measurement is slower by more than the noise.
    Slower,
    /// The change of a measurement is beyond a bound.
    Change {
        /// Gauge or test before the `.`, if given.
        scope: Option<String>,
        /// Name of the measurement, or `any`.
        name: String,
        /// Comparison operator.
        operator: Operator,
        /// Bound of the change, percent.
        percent: f64,
        /// Message, block or array size, if given.
        size: Option<Bytes>,
    },
}

impl FromStr for Threshold {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor =
            Cursor::new("condition", "--fail-on 'triad<-5%' or --fail-on slower", text);
        cursor.skip_blanks();
        let (scope, name) = expect::read_scoped_name(&mut cursor)?;
        cursor.skip_blanks();
        if cursor.at_end() && scope.is_none() && name == SLOWER {
            return Ok(Self::Slower);
        }
        let operator = expect::read_comparison(&mut cursor)?;
        cursor.skip_blanks();
        let at = cursor.position();
        let negative = cursor.eat('-');
        if !negative {
            cursor.eat('+');
        }
        let digits = cursor.take_while(|c| c.is_ascii_digit() || c == '.');
        let percent: f64 = digits
            .parse()
            .map_err(|_| cursor.error_at(at, "expected a change in percent, such as -5%"))?;
        if !percent.is_finite() {
            return Err(cursor.error_at(at, "this number is too large"));
        }
        cursor.skip_blanks();
        cursor.expect('%', "expected % after the number")?;
        cursor.skip_blanks();
        let mut size = None;
        if cursor.eat('@') {
            cursor.skip_blanks();
            size = Some(read_bytes(&mut cursor)?);
            cursor.skip_blanks();
        }
        cursor.finish("expected only @SIZE after the percentage")?;
        let percent = if negative { -percent } else { percent };
        Ok(Self::Change { scope, name, operator, percent, size })
    }
}

/// Displays the condition in the syntax of the option; parsing the text returns an equal condition.
impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Change { scope, name, operator, percent, size } = self else {
            return f.write_str(SLOWER);
        };
        if let Some(scope) = scope {
            write!(f, "{scope}.")?;
        }
        write!(f, "{name}{}{operator}{percent}%", expect::separator(name))?;
        match size {
            Some(size) => write!(f, "@{}", size.exact_text()),
            None => Ok(()),
        }
    }
}

/// Measurement without a verdict because a figure is suspect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuspectPair {
    /// Name of the measurement.
    pub title: String,
    /// Reason why the figure is suspect.
    pub doubt: String,
}

/// Result of the check of a condition.
#[derive(Debug, Clone, PartialEq)]
pub enum ThresholdResult {
    /// The condition is not met; the comparison does not fail.
    Passed,
    /// The changes of these measurements are beyond the bound but within the noise. They are reported, and the
    /// comparison does not fail.
    Noise(Vec<String>),
    /// These measurements meet the condition; the comparison fails.
    Met(Vec<String>),
    /// The figures of these measurements are suspect, e.g. because a node was too busy. The comparison fails, although
    /// no measurement is known to be slower.
    Suspect(Vec<SuspectPair>),
    /// The condition requires a verdict, but these measurements have none. They are reported, and the comparison does
    /// not fail.
    Undecided(Vec<String>),
    /// A and B have no such measurement in common. Contains the names of the measurements that they have in common.
    NoSuch(Vec<String>),
}

impl ThresholdResult {
    /// True if the comparison fails.
    pub fn fails(&self) -> bool {
        matches!(self, Self::Met(_) | Self::Suspect(_) | Self::NoSuch(_))
    }

    /// Returns the message for the user on one line; `None` if there is nothing to report.
    pub fn in_words(&self, threshold: &Threshold) -> Option<String> {
        match self {
            Self::Passed => None,
            Self::Noise(pairs) => {
                Some(format!("{threshold} is met, but only within noise: {}", listed(pairs)))
            }
            Self::Undecided(pairs) => {
                Some(format!("{threshold} cannot be decided for {}", listed(pairs)))
            }
            Self::Suspect(pairs) => {
                // The suspect figures of a run usually have the same cause, so it is printed once.
                let mut texts: Vec<String> = Vec::new();
                let mut doubts: Vec<&str> = Vec::new();
                for SuspectPair { doubt, .. } in pairs {
                    if doubts.contains(&doubt.as_str()) {
                        continue;
                    }
                    doubts.push(doubt);
                    let same = pairs.iter().filter(|pair| pair.doubt == *doubt);
                    let titles: Vec<String> = same.map(|pair| pair.title.clone()).collect();
                    texts.push(format!(
                        "{}: {}",
                        titles.join(", "),
                        Obstacle::new(doubt).in_words()
                    ));
                }
                Some(format!("{threshold} cannot be judged: {}", listed(&texts)))
            }
            Self::Met(pairs) => Some(format!("{threshold}: {}", listed(pairs))),
            Self::NoSuch(known) => Some(format!(
                "{threshold}: A and B have no such measurement in common; available: {}",
                listed(known)
            )),
        }
    }
}

/// Joins texts for a message. At most [`SHOWN`] texts are listed, and the others are counted.
fn listed(texts: &[String]) -> String {
    let shown = texts.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    match texts.len().saturating_sub(SHOWN) {
        0 => shown,
        n => format!("{shown}; and {n} more"),
    }
}

impl Threshold {
    /// Checks if a comparison meets the condition.
    pub fn check(&self, comparison: &Comparison) -> ThresholdResult {
        let mut named: Vec<&Pair> = comparison.pairs.iter().collect();
        named.retain(|pair| self.applies_to(&pair.gauge, &pair.test, &pair.name, pair.size));
        let mut lost: Vec<&UnpairedFigure> = comparison.only_a.iter().collect();
        lost.retain(|of| self.applies_to(&of.gauge, &of.test, &of.name, of.size));
        if named.is_empty() && lost.is_empty() {
            let known = comparison.pairs.iter().map(Pair::title).collect();
            return ThresholdResult::NoSuch(known);
        }
        let mut met: Vec<String> =
            lost.iter().map(|of| format!("{} is missing in B", of.title)).collect();
        let mut suspect = Vec::new();
        let mut noise = Vec::new();
        let mut undecided = Vec::new();
        for pair in named {
            let title = pair.title();
            let why = pair.reasons.first().map(ToString::to_string).unwrap_or_default();
            let Some(ratio) = pair.ratio else {
                met.push(format!("{title} is not comparable: {why}"));
                continue;
            };
            if let Some(doubt) = &pair.suspect {
                suspect.push(SuspectPair { title, doubt: doubt.clone() });
                continue;
            }
            let text = format!("{title} {}", change_in_words(ratio));
            match (self.holds(pair, ratio), pair.verdict) {
                (true, Verdict::WithinNoise) => noise.push(text),
                (true, _) => met.push(text),
                (false, Verdict::CannotTell) if *self == Self::Slower => undecided.push(title),
                (false, _) => {}
            }
        }
        if met.is_empty() && !suspect.is_empty() {
            return ThresholdResult::Suspect(suspect);
        }
        match (met.is_empty(), noise.is_empty(), undecided.is_empty()) {
            (false, ..) => ThresholdResult::Met(met),
            (true, false, _) => ThresholdResult::Noise(noise),
            (true, true, false) => ThresholdResult::Undecided(undecided),
            (true, true, true) => ThresholdResult::Passed,
        }
    }

    /// True if the condition applies to this measurement.
    fn applies_to(&self, gauge: &str, test: &str, of: &str, at: Option<Bytes>) -> bool {
        let Self::Change { scope, name, size, .. } = self else { return true };
        (name == ANY || of == *name)
            && scope.as_ref().is_none_or(|scope| gauge == *scope || test == *scope)
            && size.is_none_or(|size| at == Some(size))
    }

    fn holds(&self, pair: &Pair, ratio: f64) -> bool {
        match self {
            Self::Slower => pair.verdict == Verdict::Slower,
            Self::Change { name, operator, percent, .. } => {
                let of_speed = name == ANY && pair.unit.direction() == Some(BetterDirection::Lower);
                let ratio = if of_speed { ratio.recip() } else { ratio };
                operator.holds((ratio - 1.0) * 100.0, *percent)
            }
        }
    }
}
