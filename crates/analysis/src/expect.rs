//! `--expect 'triad>=300GB/s'`: a condition on a measurement, for acceptance scripts.
//!
//! Grammar: `[GAUGE.|TEST.]NAME OP VALUE UNIT [@SIZE]`, with `OP` of `>=`, `<=`, `>`, `<`, `%` for
//! a share of the measurement's known limit, and `@SIZE` for the measurements of that message,
//! block or array size alone. The unit must be there: 300 bytes per second are always reached. A
//! measurement that is missing, invalid or without the limit that is asked about does not meet the
//! condition.

use crate::identity;
use nodegauge_measure::grammar::{Cursor, SyntaxError};
use nodegauge_measure::keys::{self, Registry, Role};
use nodegauge_measure::quantity::{Bytes, read_bytes, significant};
use nodegauge_measure::record::{Measurement, Status};
use nodegauge_measure::{Failure, Unit};
use std::fmt;
use std::str::FromStr;

mod figures;
pub use figures::Figures;

/// How a figure is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `>=`
    AtLeast,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `<`
    Below,
}

impl Comparison {
    const ALL: [(&'static str, Self); 4] =
        [(">=", Self::AtLeast), ("<=", Self::AtMost), (">", Self::Above), ("<", Self::Below)];

    pub(crate) fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::AtLeast => value >= bound,
            Self::AtMost => value <= bound,
            Self::Above => value > bound,
            Self::Below => value < bound,
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(_, op)| op == self).map_or("?", |(text, _)| text))
    }
}

/// The units that a bound may have: name, the record's unit, factor to it.
const UNITS: [(&str, &str, f64); 20] = [
    ("TB/s", "B/s", 1e12),
    ("GB/s", "B/s", 1e9),
    ("MB/s", "B/s", 1e6),
    ("kB/s", "B/s", 1e3),
    ("B/s", "B/s", 1.0),
    ("GiB/s", "B/s", 1_073_741_824.0),
    ("MiB/s", "B/s", 1_048_576.0),
    ("TFLOP/s", "FLOP/s", 1e12),
    ("GFLOP/s", "FLOP/s", 1e9),
    ("MFLOP/s", "FLOP/s", 1e6),
    ("FLOP/s", "FLOP/s", 1.0),
    ("s", "s", 1.0),
    ("ms", "s", 1e-3),
    ("us", "s", 1e-6),
    ("ns", "s", 1e-9),
    ("Mmsg/s", "msg/s", 1e6),
    ("msg/s", "msg/s", 1.0),
    ("kop/s", "op/s", 1e3),
    ("op/s", "op/s", 1.0),
    ("x", "x", 1.0),
];
/// The unit of a share of the limit.
const PERCENT: &str = "%";
/// Most names that are shown where one is not found.
const OFFERED: usize = 8;

/// The record's unit and the factor to it of a unit of the table; `None` for `%`.
fn base_of(unit: &str) -> Option<(&'static str, f64)> {
    UNITS.iter().find(|(name, ..)| *name == unit).map(|(_, base, factor)| (*base, *factor))
}

/// A condition on a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// Gauge or test before the point, when given.
    pub scope: Option<String>,
    /// The measurement.
    pub name: String,
    /// How it is compared.
    pub comparison: Comparison,
    /// The bound, in `unit`.
    pub bound: f64,
    /// The unit as typed: one of the table's, or `%`.
    pub unit: &'static str,
    /// Message, block or array size, when given.
    pub size: Option<Bytes>,
}

/// As it is typed: what is printed parses back to the same.
impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, comparison, bound, unit, .. } = self;
        if let Some(scope) = &self.scope {
            write!(f, "{scope}.")?;
        }
        write!(f, "{name}{}{comparison}{bound}{unit}", blank(name))?;
        match self.size {
            Some(size) => write!(f, "@{}", exact(size)),
            None => Ok(()),
        }
    }
}

/// What a name needs behind it so that a comparison is not taken for an arrow in it.
pub(crate) fn blank(name: &str) -> &'static str {
    if name.ends_with('-') { " " } else { "" }
}

/// [`exact`], of a number of bytes.
pub(crate) fn exact_bytes(bytes: u64) -> String {
    exact(Bytes(bytes))
}

/// A size in the largest unit that it is a whole number of.
pub(crate) fn exact(size: Bytes) -> String {
    [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
        .into_iter()
        .find(|(step, _)| size.0 > 0 && size.0.is_multiple_of(*step))
        .map_or_else(|| format!("{}B", size.0), |(step, unit)| format!("{}{unit}", size.0 / step))
}

impl FromStr for Expectation {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("expectation", "--expect 'triad>=300GB/s'", text);
        cursor.skip_blanks();
        let (scope, name) = read_scoped(&mut cursor)?;
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
            None => "expected nothing after the unit, or @ and a size",
        })?;
        Ok(Self { scope, name, comparison, bound, unit, size })
    }
}

/// Reads the name of a measurement, with its gauge or test before a point where there is one.
pub(crate) fn read_scoped(
    cursor: &mut Cursor<'_>,
) -> Result<(Option<String>, String), SyntaxError> {
    let name = read_name(cursor);
    if name.is_empty() {
        return Err(cursor.error("expected the name of a measurement"));
    }
    if !cursor.eat('.') {
        return Ok((None, name.to_owned()));
    }
    let scope = name.to_owned();
    let name = read_name(cursor);
    if name.is_empty() {
        return Err(cursor.error("expected the name of a measurement after '.'"));
    }
    Ok((Some(scope), name.to_owned()))
}

/// Reads a name; `n0->n1` is one, `n0->=1` has a comparison in it.
fn read_name<'a>(cursor: &mut Cursor<'a>) -> &'a str {
    // Mixes of reads and writes are `2:1`.
    let word = |c: char| c.is_ascii_alphanumeric() || "_-:".contains(c);
    let text = cursor.rest();
    let mut length = cursor.take_while(word).len();
    while text[..length].ends_with('-')
        && cursor.rest().strip_prefix('>').is_some_and(|rest| rest.starts_with(word))
    {
        cursor.eat('>');
        length += 1 + cursor.take_while(word).len();
    }
    &text[..length]
}

pub(crate) fn read_comparison(cursor: &mut Cursor<'_>) -> Result<Comparison, SyntaxError> {
    let at = cursor.position();
    let typed = cursor.take_while(|c| "<>=!".contains(c));
    Comparison::ALL
        .iter()
        .find(|(text, _)| *text == typed)
        .map(|(_, comparison)| *comparison)
        .ok_or_else(|| cursor.error_at(at, "expected >=, <=, > or <"))
}

fn read_unit(cursor: &mut Cursor<'_>) -> Result<&'static str, SyntaxError> {
    let at = cursor.position();
    let typed = cursor.take_while(|c| c.is_alphabetic() || c == '/' || c == '%');
    let known = || UNITS.iter().map(|(unit, ..)| *unit).chain([PERCENT]);
    known().find(|unit| *unit == typed).ok_or_else(|| {
        match known().find(|unit| unit.eq_ignore_ascii_case(typed)) {
            Some(unit) => cursor.error_at(at, format!("expected {unit}, upper and lower case so")),
            None => cursor
                .error_at(at, "expected a unit such as GB/s, GFLOP/s, us, x, or % of the limit"),
        }
    })
}

/// How a condition fared.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Whether it holds, and why not.
    pub verdict: Verdict,
    /// Which of several figures that is about: `bw 1 KiB, distance same core`; empty of a single one.
    pub of: String,
    /// How many of them do not meet it.
    misses: usize,
}

/// How a condition fared. Figures are in the measurement's unit, or percent of its limit.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It holds.
    Met(f64),
    /// It does not.
    NotMet(f64),
    /// There is no such measurement; these there are, nearest first.
    NoSuch(Vec<String>),
    /// It holds of a figure that is suspect, for this reason.
    Suspect(f64, String),
    /// The measurement gave no valid result.
    NoValue,
    /// The measurement has another unit.
    OtherUnit(Unit),
    /// A share of the limit was asked for, and no limit is known.
    NoLimit,
}

impl Verdict {
    /// What was compared; 0 where nothing could be.
    fn value(&self) -> f64 {
        match self {
            Self::Met(value) | Self::NotMet(value) | Self::Suspect(value, _) => *value,
            _ => 0.0,
        }
    }

    /// Which of several decides: one that cannot be compared, then one that misses.
    fn rank(&self) -> u8 {
        match self {
            Self::NotMet(_) => 1,
            Self::Suspect(..) => 2,
            Self::Met(_) => 3,
            _ => 0,
        }
    }
}

/// `there are triad, copy and 3 more`.
fn listed(known: &[String]) -> String {
    let shown = known.iter().take(OFFERED).cloned().collect::<Vec<_>>().join(", ");
    let more = match known.len().saturating_sub(OFFERED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("there {} {shown}{more}", if known.len() == 1 { "is" } else { "are" })
}

impl Judged {
    /// Whether the condition holds.
    pub fn is_met(&self) -> bool {
        matches!(self.verdict, Verdict::Met(_))
    }

    /// Returns one line for people, with a hint on a second one where something can be done.
    pub fn in_words(&self, expectation: &Expectation) -> String {
        Failure::unmet(self.sentence(expectation))
            .hint_if(self.hint().map(str::to_owned))
            .to_string()
    }

    /// Returns what can be done about it.
    fn hint(&self) -> Option<&'static str> {
        match &self.verdict {
            Verdict::Suspect(..) => Some("--accept-suspect takes it for a result"),
            Verdict::NoLimit => Some("give --dimms COUNTxMT/s, or a bound in units"),
            _ => None,
        }
    }

    fn sentence(&self, expectation: &Expectation) -> String {
        let expected = expectation.in_words();
        let of = match (self.of.as_str(), self.misses) {
            ("", _) => String::new(),
            (of, 0 | 1) => format!(" ({of})"),
            (of, misses) => format!(" ({of}, and {} more)", misses - 1),
        };
        let measured = |value: &f64| format!("measured {}{of}", expectation.shown(*value));
        match &self.verdict {
            Verdict::Met(value) => format!("as expected {expected}, {}", measured(value)),
            Verdict::NotMet(value) => format!("expected {expected}, {}", measured(value)),
            Verdict::Suspect(value, why) => {
                format!("expected {expected}, {}, which is suspect: {why}", measured(value))
            }
            Verdict::NoSuch(known) if known.is_empty() => {
                format!("expected {expected}, but nothing was measured")
            }
            Verdict::NoSuch(known) => {
                format!("expected {expected}, but there is no such measurement; {}", listed(known))
            }
            Verdict::NoValue => format!("expected {expected}, but there is no valid result{of}"),
            Verdict::OtherUnit(unit) => {
                format!("expected {expected}, but the measurement is in {unit}{of}")
            }
            Verdict::NoLimit => format!("expected {expected}, but no limit is known{of}"),
        }
    }
}

impl Expectation {
    /// Holds the condition against measurements. Of several that it names, all must meet it, and
    /// the verdict is on the one that is furthest from doing so, which the keys of `registry` tell from the
    /// others. A suspect one meets nothing, unless `accept_suspect`.
    pub fn check(
        &self,
        measurements: &[Measurement],
        accept_suspect: bool,
        registry: &Registry,
    ) -> Judged {
        let named: Vec<&Measurement> =
            measurements.iter().filter(|m| self.names(m, registry)).collect();
        let verdicts: Vec<Verdict> =
            named.iter().map(|m| self.verdict(m, accept_suspect)).collect();
        let misses = verdicts.iter().filter(|v| !matches!(v, Verdict::Met(_))).count();
        let furthest = |(_, a): &(usize, &Verdict), (_, b): &(usize, &Verdict)| {
            let by_value = match self.comparison {
                Comparison::AtLeast | Comparison::Above => a.value().total_cmp(&b.value()),
                Comparison::AtMost | Comparison::Below => b.value().total_cmp(&a.value()),
            };
            a.rank().cmp(&b.rank()).then(by_value)
        };
        let Some((at, _)) = verdicts.iter().enumerate().min_by(furthest) else {
            let verdict = Verdict::NoSuch(self.near(measurements, registry));
            return Judged { verdict, of: String::new(), misses };
        };
        let of = match named.len() {
            1 => String::new(),
            _ => format!("{}{}", named[at].name, identity::identities(&named, registry)[at].words),
        };
        Judged { verdict: verdicts[at].clone(), of, misses }
    }

    /// The verdict on one that it names.
    fn verdict(&self, m: &Measurement, accept_suspect: bool) -> Verdict {
        let value = match self.figure(m) {
            Ok(value) => value,
            Err(verdict) => return verdict,
        };
        let bound = self.bound * base_of(self.unit).map_or(1.0, |(_, factor)| factor);
        match (self.comparison.holds(value, bound), m.validity.status) {
            (false, _) => Verdict::NotMet(value),
            (true, Status::Suspect) if !accept_suspect => {
                let why = m.validity.reasons.first();
                Verdict::Suspect(value, why.cloned().unwrap_or_default())
            }
            (true, _) => Verdict::Met(value),
        }
    }

    /// Whether it is about this measurement.
    fn names(&self, m: &Measurement, registry: &Registry) -> bool {
        m.name == self.name
            && !m.is_published()
            && match &self.scope {
                Some(scope) if m.test == *scope => true,
                Some(scope) => m.gauge == *scope && !m.needs_scope(),
                None => !m.needs_scope(),
            }
            && self.size.is_none_or(|size| size_of(m, registry) == Some(size))
    }

    /// What of a measurement is compared: its value, or the share of its limit in percent.
    fn figure(&self, m: &Measurement) -> Result<f64, Verdict> {
        let value = m
            .value
            .filter(|value| value.is_finite() && m.validity.status != Status::Invalid)
            .ok_or(Verdict::NoValue)?;
        match base_of(self.unit) {
            Some((base, _)) if base == m.unit.symbol() => Ok(value),
            Some(_) => Err(Verdict::OtherUnit(m.unit)),
            None => m.limit.as_ref().map(|limit| limit.fraction * 100.0).ok_or(Verdict::NoLimit),
        }
    }

    /// The measurements by as much of their name as was given, those most like it first.
    fn near(&self, measurements: &[Measurement], registry: &Registry) -> Vec<String> {
        let spelt = |scope: Option<&str>, name: &str, size: Option<Bytes>| {
            let scope = scope.map(|scope| format!("{scope}.")).unwrap_or_default();
            let size = size.map(|size| format!("@{}", exact(size))).unwrap_or_default();
            format!("{scope}{name}{size}")
        };
        let mut known: Vec<String> = Vec::new();
        for m in measurements.iter().filter(|m| !m.is_published()) {
            let scope = (self.scope.is_some() || m.needs_scope()).then_some(m.test.as_str());
            let name = spelt(scope, &m.name, self.size.and_then(|_| size_of(m, registry)));
            if !known.contains(&name) {
                known.push(name);
            }
        }
        self.nearest(known).0
    }

    /// Names with the likest first, and how like it is.
    fn nearest(&self, mut known: Vec<String>) -> (Vec<String>, f64) {
        let scope = self.scope.as_ref().map(|scope| format!("{scope}.")).unwrap_or_default();
        let size = self.size.map(|size| format!("@{}", exact(size))).unwrap_or_default();
        let asked = format!("{scope}{}{size}", self.name);
        let likeness = |name: &String| strsim::jaro_winkler(&asked, name);
        known.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
        let most = known.first().map_or(0.0, likeness);
        (known, most)
    }

    /// The condition, for people.
    fn in_words(&self) -> String {
        let Self { name, comparison, bound, unit, .. } = self;
        let scope = self.scope.as_ref().map(|scope| format!("{scope}.")).unwrap_or_default();
        let of = if *unit == PERCENT { " of the limit" } else { "" };
        let at = self.size.map(|size| format!(" at {size}")).unwrap_or_default();
        format!("{scope}{name} {comparison} {bound} {unit}{of}{at}")
    }

    /// A figure for people. One that would look like the bound is given in full.
    fn shown(&self, value: f64) -> String {
        let unit = base_of(self.unit).and_then(|(base, _)| Unit::of_symbol(base));
        let rounded = |value: f64| match unit {
            Some(unit) => unit.in_words(value),
            None => format!("{} %", significant(value)),
        };
        let factor = base_of(self.unit).map_or(1.0, |(_, factor)| factor);
        let bound = self.bound * factor;
        if value != bound && rounded(value) == rounded(bound) {
            format!("{} {}", value / factor, self.unit)
        } else {
            rounded(value)
        }
    }
}

/// Returns the size of a measurement that `@SIZE` means: of the sizes that it is quoted at ([`Role::Size`]) the one
/// that its kind declares last, such as the block of a file; without one, the size of its arrays, which is the first
/// of its identities in bytes.
pub(crate) fn size_of(m: &Measurement, registry: &Registry) -> Option<Bytes> {
    let mut sizes: Vec<(usize, u64)> = Vec::new();
    let mut identities: Vec<(usize, u64)> = Vec::new();
    for (name, value) in &m.config {
        let Some(key) = registry.key(&m.gauge, &m.test, name) else { continue };
        let Some(bytes) = value.as_u64() else { continue };
        let place = registry.place(&m.gauge, &m.test, name);
        match key.role {
            Role::Size => sizes.push((place, bytes)),
            Role::Identity if keys::is_size(name) => identities.push((place, bytes)),
            _ => {}
        }
    }
    let size = sizes.iter().max().or_else(|| identities.iter().min());
    size.map(|(_, bytes)| Bytes(*bytes))
}

#[cfg(test)]
mod tests;
