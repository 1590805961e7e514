//! `--expect 'triad>=300GB/s'`: a condition on a measurement, for acceptance scripts.
//!
//! Grammar: `[GAUGE.|TEST.]NAME OP VALUE UNIT [@SIZE]`. `OP` is `>=`, `<=`, `>` or `<`. The unit `%` is a share of the
//! measurement's limit. `@SIZE` restricts the condition to measurements with this message, block or array size. The
//! unit is required, because without it `triad>=300` would mean 300 bytes per second. A measurement does not meet the
//! condition if it is missing or invalid, or if its limit is required but unknown.

use crate::conclusion::Obstacle;
use crate::identity;
use nodegauge_measure::grammar::{Cursor, SyntaxError};
use nodegauge_measure::keys::{self, Registry, Role};
use nodegauge_measure::quantity::{Bytes, read_bytes};
use nodegauge_measure::record::{Measurement, Status};
use nodegauge_measure::{Failure, Fraction, ScaledUnit, Unit};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use strsim::jaro_winkler;

mod figures;
pub use figures::PossibleFigures;

/// Comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// Operator `>=`.
    AtLeast,
    /// Operator `<=`.
    AtMost,
    /// Operator `>`.
    Above,
    /// Operator `<`.
    Below,
}

impl Operator {
    const ALL: [(&'static str, Self); 4] =
        [(">=", Self::AtLeast), ("<=", Self::AtMost), (">", Self::Above), ("<", Self::Below)];

    /// Compares a value with a bound.
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::AtLeast => value >= bound,
            Self::AtMost => value <= bound,
            Self::Above => value > bound,
            Self::Below => value < bound,
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(_, op)| op == self).map_or("?", |(text, _)| text))
    }
}

/// Units of bounds.
const UNITS: [&str; 20] = [
    "TB/s", "GB/s", "MB/s", "kB/s", "B/s", "GiB/s", "MiB/s", "TFLOP/s", "GFLOP/s", "MFLOP/s",
    "FLOP/s", "s", "ms", "us", "ns", "Mmsg/s", "msg/s", "kop/s", "op/s", "x",
];
/// Unit of a bound that is a share of the limit.
const PERCENT: &str = "%";
/// Maximum number of suggestions in the message about an unknown name.
const OFFERED: usize = 8;

/// Expectation: a condition on a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// Gauge or test before the `.`, if given.
    pub scope: Option<String>,
    /// Name of the measurement.
    pub name: String,
    /// Comparison operator.
    pub comparison: Operator,
    /// Bound of the value, in `unit`.
    pub bound: f64,
    /// Unit as typed: one of `UNITS`, or `%`.
    pub unit: &'static str,
    /// Message, block or array size, if given.
    pub size: Option<Bytes>,
}

/// Displays the condition in the syntax of the option; parsing the text returns an equal condition.
impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, comparison, bound, unit, .. } = self;
        if let Some(scope) = &self.scope {
            write!(f, "{scope}.")?;
        }
        write!(f, "{name}{}{comparison}{bound}{unit}", separator(name))?;
        match self.size {
            Some(size) => write!(f, "@{}", size.exact_text()),
            None => Ok(()),
        }
    }
}

/// Returns the separator between a name and an operator: a space if the two could otherwise be parsed as an arrow
/// (`->`) in the name.
pub(crate) fn separator(name: &str) -> &'static str {
    if name.ends_with('-') { " " } else { "" }
}

impl FromStr for Expectation {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("expectation", "--expect 'triad>=300GB/s'", text);
        cursor.skip_blanks();
        let (scope, name) = read_scoped_name(&mut cursor)?;
        cursor.skip_blanks();
        let comparison = read_comparison(&mut cursor)?;
        cursor.skip_blanks();
        let at = cursor.position();
        let digits = cursor.take_while(|c| c.is_ascii_digit() || c == '.');
        let bound: f64 = digits.parse().map_err(|_| cursor.error_at(at, "expected a number"))?;
        if !bound.is_finite() {
            return Err(cursor.error_at(at, "this number is too large"));
        }
        cursor.skip_blanks();
        let unit = read_unit(&mut cursor)?;
        cursor.skip_blanks();
        let mut size = None;
        if cursor.eat('@') {
            cursor.skip_blanks();
            size = Some(read_bytes(&mut cursor)?);
            cursor.skip_blanks();
        }
        cursor.finish(match size {
            Some(_) => "expected nothing after the size",
            None => "expected only @SIZE after the unit",
        })?;
        Ok(Self { scope, name, comparison, bound, unit, size })
    }
}

/// Parses the name of a measurement, with an optional gauge or test before a dot.
pub(crate) fn read_scoped_name(
    cursor: &mut Cursor<'_>,
) -> Result<(Option<String>, String), SyntaxError> {
    let first = read_name(cursor);
    if first.is_empty() {
        return Err(cursor.error("expected the name of a figure"));
    }
    if !cursor.eat('.') {
        return Ok((None, first.to_owned()));
    }
    let scope = first.to_owned();
    let name = read_name(cursor);
    if name.is_empty() {
        return Err(cursor.error("expected the name of a figure after '.'"));
    }
    Ok((Some(scope), name.to_owned()))
}

/// Parses a name. In `n0->n1` the arrow is part of the name; in `n0->=1` the name is `n0-`, and `>=` is the operator.
fn read_name<'a>(cursor: &mut Cursor<'a>) -> &'a str {
    let text = cursor.rest();
    let mut length = cursor.take_while(is_name_character).len();
    while text[..length].ends_with('-')
        && cursor.rest().strip_prefix('>').is_some_and(|rest| rest.starts_with(is_name_character))
    {
        cursor.eat('>');
        length += 1 + cursor.take_while(is_name_character).len();
    }
    &text[..length]
}

/// True for a character of a name. The names of mixes contain a colon, e.g. `2:1`.
fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-:".contains(c)
}

pub(crate) fn read_comparison(cursor: &mut Cursor<'_>) -> Result<Operator, SyntaxError> {
    let at = cursor.position();
    let typed = cursor.take_while(|c| "<>=!".contains(c));
    Operator::ALL
        .iter()
        .find(|(text, _)| *text == typed)
        .map(|(_, comparison)| *comparison)
        .ok_or_else(|| cursor.error_at(at, "expected >=, <=, > or <"))
}

fn read_unit(cursor: &mut Cursor<'_>) -> Result<&'static str, SyntaxError> {
    let at = cursor.position();
    let typed = cursor.take_while(|c| c.is_alphabetic() || c == '/' || c == '%');
    unit_names().find(|unit| *unit == typed).ok_or_else(|| {
        match unit_names().find(|unit| unit.eq_ignore_ascii_case(typed)) {
            Some(unit) => {
                cursor.error_at(at, format!("expected {unit} (units are case-sensitive)"))
            }
            None => cursor
                .error_at(at, "expected a unit such as GB/s, GFLOP/s, us, x, or % of the limit"),
        }
    })
}

/// Returns the names of all units that a bound may have.
fn unit_names() -> impl Iterator<Item = &'static str> {
    UNITS.into_iter().chain([PERCENT])
}

/// Result of the check of a condition.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedExpectation {
    /// Verdict on the decisive figure.
    pub verdict: ExpectationVerdict,
    /// Title of the decisive figure, e.g. `bw 1 KiB, distance same core`; empty if the condition applies to only one
    /// figure.
    pub title: String,
    /// Number of figures that do not meet the condition.
    misses: usize,
}

/// Verdict on a condition. Values are in the unit of the measurement, or percent of its limit.
#[derive(Debug, Clone, PartialEq)]
pub enum ExpectationVerdict {
    /// The condition is met.
    Met(f64),
    /// The condition is not met.
    NotMet(f64),
    /// There is no such measurement; contains the names of the existing measurements, most similar first.
    NoSuch(Vec<String>),
    /// The figure is suspect for this reason, so it is unknown whether the condition is met.
    Suspect(f64, String),
    /// The measurement has no valid result.
    NoValue,
    /// The measurement has another unit.
    OtherUnit(Unit),
    /// The bound is a share of the limit, and the limit is unknown.
    NoLimit,
}

impl ExpectationVerdict {
    /// Returns the value that was compared with the bound; 0 if there is none.
    fn value(&self) -> f64 {
        match self {
            Self::Met(value) | Self::NotMet(value) | Self::Suspect(value, _) => *value,
            _ => 0.0,
        }
    }

    /// Returns the rank of the verdict among the verdicts on several figures; the lowest rank is decisive. Verdicts
    /// without a comparison come first, then conditions that are not met.
    fn rank(&self) -> u8 {
        match self {
            Self::NotMet(_) => 1,
            Self::Suspect(..) => 2,
            Self::Met(_) => 3,
            _ => 0,
        }
    }
}

/// Formats a list of names, shortened: `available: triad, copy and 3 more`.
fn listed(known: &[String]) -> String {
    let shown = known.iter().take(OFFERED).cloned().collect::<Vec<_>>().join(", ");
    let more = match known.len().saturating_sub(OFFERED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("available: {shown}{more}")
}

impl CheckedExpectation {
    /// True if the condition is met.
    pub fn is_met(&self) -> bool {
        matches!(self.verdict, ExpectationVerdict::Met(_))
    }

    /// Returns the message for the user: one line, and a second line with a hint if there is a remedy.
    pub fn in_words(&self, expectation: &Expectation) -> String {
        self.failure(expectation, "").to_string()
    }

    /// Returns the result as a failure, with a hint if there is a remedy. The message begins with `run`.
    pub fn failure(&self, expectation: &Expectation, run: &str) -> Failure {
        let text = format!("{run}{}", self.sentence(expectation));
        Failure::unmet(text).hint_if(self.hint().map(str::to_owned))
    }

    /// Returns the remedy, if there is one.
    fn hint(&self) -> Option<&'static str> {
        match &self.verdict {
            ExpectationVerdict::Suspect(..) => {
                Some("use --accept-suspect to accept suspect figures as results")
            }
            ExpectationVerdict::NoLimit => {
                Some("give --dimms COUNTxMT/s, or a bound with a unit such as GB/s")
            }
            _ => None,
        }
    }

    fn sentence(&self, expectation: &Expectation) -> String {
        let expected = expectation.in_words();
        let title = match (self.title.as_str(), self.misses) {
            ("", _) => String::new(),
            (title, 0 | 1) => format!(" ({title})"),
            (title, misses) => format!(" ({title}, and {} more)", misses - 1),
        };
        let measured = format!("measured {}{title}", expectation.shown(self.verdict.value()));
        match &self.verdict {
            ExpectationVerdict::Met(_) => {
                format!("expectation met: {expected}, {measured}")
            }
            ExpectationVerdict::NotMet(_) => {
                format!("expected {expected}, {measured}")
            }
            ExpectationVerdict::Suspect(_, why) => {
                let why = Obstacle::new(why.as_str()).in_words();
                format!("expected {expected}, {measured}, which is suspect: {why}")
            }
            ExpectationVerdict::NoSuch(known) if known.is_empty() => {
                format!("expected {expected}, but nothing was measured")
            }
            ExpectationVerdict::NoSuch(known) => {
                format!("expected {expected}, but there is no such measurement; {}", listed(known))
            }
            ExpectationVerdict::NoValue => {
                format!("expected {expected}, but there is no valid result{title}")
            }
            ExpectationVerdict::OtherUnit(unit) => {
                format!("expected {expected}, but the measurement is in {unit}{title}")
            }
            ExpectationVerdict::NoLimit => {
                format!("expected {expected}, but the limit is unknown{title}")
            }
        }
    }
}

impl Expectation {
    /// Checks the condition. All measurements to which it applies must meet it. The verdict is that of the measurement
    /// furthest from the bound, whose title is formed from the keys of `registry`. A suspect figure does not meet the
    /// condition unless `accept_suspect` is true.
    pub fn check(
        &self,
        measurements: &[Measurement],
        accept_suspect: bool,
        registry: &Registry,
    ) -> CheckedExpectation {
        let named: Vec<&Measurement> =
            measurements.iter().filter(|m| self.applies_to(m, registry)).collect();
        let verdicts: Vec<ExpectationVerdict> =
            named.iter().map(|m| self.verdict(m, accept_suspect)).collect();
        let misses = verdicts.iter().filter(|v| !matches!(v, ExpectationVerdict::Met(_))).count();
        let numbered = verdicts.iter().enumerate();
        let Some((at, _)) = numbered.min_by(|(_, a), (_, b)| self.by_distance(a, b)) else {
            let verdict = ExpectationVerdict::NoSuch(self.similar_names(measurements, registry));
            return CheckedExpectation { verdict, title: String::new(), misses };
        };
        let title = match named.len() {
            1 => String::new(),
            _ => format!(
                "{}{}",
                named[at].name,
                identity::identities(&named, registry)[at].name_suffix
            ),
        };
        CheckedExpectation { verdict: verdicts[at].clone(), title, misses }
    }

    /// Orders verdicts by distance from the bound; the decisive verdict comes first.
    fn by_distance(&self, a: &ExpectationVerdict, b: &ExpectationVerdict) -> Ordering {
        let cmp_value = match self.comparison {
            Operator::AtLeast | Operator::Above => a.value().total_cmp(&b.value()),
            Operator::AtMost | Operator::Below => b.value().total_cmp(&a.value()),
        };
        a.rank().cmp(&b.rank()).then(cmp_value)
    }

    /// Returns the verdict on a measurement to which the condition applies.
    fn verdict(&self, m: &Measurement, accept_suspect: bool) -> ExpectationVerdict {
        let value = match self.figure(m) {
            Ok(value) => value,
            Err(verdict) => return verdict,
        };
        let bound = self.bound * self.factor();
        let is_suspect = m.validity.status == Status::Suspect && !accept_suspect;
        match (self.comparison.holds(value, bound), is_suspect) {
            (_, true) => {
                let why = m.validity.reasons.first();
                ExpectationVerdict::Suspect(value, why.cloned().unwrap_or_default())
            }
            (false, false) => ExpectationVerdict::NotMet(value),
            (true, false) => ExpectationVerdict::Met(value),
        }
    }

    /// True if the condition applies to this measurement.
    fn applies_to(&self, m: &Measurement, registry: &Registry) -> bool {
        m.name == self.name
            && !m.is_published()
            && match &self.scope {
                Some(scope) if m.test == *scope => true,
                Some(scope) => m.gauge == *scope && !m.needs_scope(),
                None => !m.needs_scope(),
            }
            && self.size.is_none_or(|size| figure_size(m, registry) == Some(size))
    }

    /// Returns the value of a measurement that is compared with the bound: the value itself, or the share of the limit
    /// in percent.
    fn figure(&self, m: &Measurement) -> Result<f64, ExpectationVerdict> {
        let value = m
            .value
            .filter(|value| value.is_finite() && m.validity.status != Status::Invalid)
            .ok_or(ExpectationVerdict::NoValue)?;
        match ScaledUnit::from_symbol(self.unit) {
            Some(scaled) if scaled.unit == m.unit => Ok(value),
            Some(_) => Err(ExpectationVerdict::OtherUnit(m.unit)),
            None => m
                .limit
                .as_ref()
                .map(|limit| limit.fraction.0 * 100.0)
                .ok_or(ExpectationVerdict::NoLimit),
        }
    }

    /// Returns the names of the measurements, most similar first. They include scope and size if the condition does.
    fn similar_names(&self, measurements: &[Measurement], registry: &Registry) -> Vec<String> {
        let mut known: Vec<String> = Vec::new();
        for m in measurements.iter().filter(|m| !m.is_published()) {
            let scope = (self.scope.is_some() || m.needs_scope()).then_some(m.test.as_str());
            let name = spelt(scope, &m.name, self.size.and_then(|_| figure_size(m, registry)));
            if !known.contains(&name) {
                known.push(name);
            }
        }
        self.nearest(known).0
    }

    /// Sorts names by similarity, most similar first. Returns the names and the greatest similarity.
    fn nearest(&self, mut known: Vec<String>) -> (Vec<String>, f64) {
        let asked = spelt(self.scope.as_deref(), &self.name, self.size);
        known.sort_by(|a, b| jaro_winkler(&asked, b).total_cmp(&jaro_winkler(&asked, a)));
        let max = known.first().map_or(0.0, |name| jaro_winkler(&asked, name));
        (known, max)
    }

    /// Formats the condition for a message.
    fn in_words(&self) -> String {
        let Self { name, comparison, bound, unit, .. } = self;
        let scope = self.scope.as_ref().map(|scope| format!("{scope}.")).unwrap_or_default();
        let of = if *unit == PERCENT { " of the limit" } else { "" };
        let at = self.size.map(|size| format!(" at {size}")).unwrap_or_default();
        format!("{scope}{name} {comparison} {bound} {unit}{of}{at}")
    }

    /// Formats a value for display, with all digits if the rounded value would equal the rounded bound.
    fn shown(&self, value: f64) -> String {
        let bound = self.bound * self.factor();
        let rounded = self.rounded(value);
        if value != bound && rounded == self.rounded(bound) {
            return format!("{} {}", value / self.factor(), self.unit);
        }
        rounded
    }

    /// Formats a value in the unit of the record, or a share in percent.
    fn rounded(&self, value: f64) -> String {
        match ScaledUnit::from_symbol(self.unit) {
            Some(scaled) => scaled.unit.in_words(value),
            None => Fraction(value / 100.0).to_string(),
        }
    }

    /// Returns the factor that converts the unit of the bound to the base unit; 1 for percent.
    fn factor(&self) -> f64 {
        ScaledUnit::from_symbol(self.unit).map_or(1.0, ScaledUnit::factor)
    }
}

/// Returns the name of a measurement in the syntax of a condition: `mpi.bw@8B`.
fn spelt(scope: Option<&str>, name: &str, size: Option<Bytes>) -> String {
    let scope = scope.map(|scope| format!("{scope}.")).unwrap_or_default();
    let size = size.map(|size| format!("@{}", size.exact_text())).unwrap_or_default();
    format!("{scope}{name}{size}")
}

/// Returns the size of a measurement to which `@SIZE` refers. If the measurement has keys with the role [`Role::Size`],
/// it is the last of them in the declaration of its kind, such as the block size of a file. Otherwise it is the size of
/// the arrays, i.e. the first identity key in bytes.
pub(crate) fn figure_size(m: &Measurement, registry: &Registry) -> Option<Bytes> {
    let mut sizes: Vec<(usize, u64)> = Vec::new();
    let mut identities: Vec<(usize, u64)> = Vec::new();
    for (name, value) in &m.config {
        let Some(key) = registry.key(&m.gauge, &m.test, name) else { continue };
        let Some(bytes) = value.as_u64() else { continue };
        let position = registry.position(&m.gauge, &m.test, name);
        match key.role {
            Role::Size => sizes.push((position, bytes)),
            Role::Identity if keys::is_size(name) => identities.push((position, bytes)),
            _ => {}
        }
    }
    let size = sizes.iter().max().or_else(|| identities.iter().min());
    size.map(|(_, bytes)| Bytes(*bytes))
}

#[cfg(test)]
mod tests;
