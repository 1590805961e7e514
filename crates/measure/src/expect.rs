//! `--expect 'triad>=300GB/s'`: a condition on a measurement, for acceptance scripts.
//!
//! Grammar: `[GAUGE.|TEST.]NAME OP VALUE UNIT`, with `OP` of `>=`, `<=`, `>`, `<`, and `%` for a
//! share of the measurement's known limit. A measurement that is missing, invalid or without the
//! limit that is asked about does not meet the condition.

use crate::grammar::{Cursor, SyntaxError};
use crate::quantity::{BytesPerSec, FlopsPerSec, Seconds};
use crate::record::{Measurement, Status};
use std::fmt;
use std::str::FromStr;

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
    /// The longer ones first, so that reading takes the longest.
    const ALL: [(&'static str, Self); 4] =
        [(">=", Self::AtLeast), ("<=", Self::AtMost), (">", Self::Above), ("<", Self::Below)];

    fn holds(self, value: f64, bound: f64) -> bool {
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
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scope) = &self.scope {
            write!(f, "{scope}.")?;
        }
        write!(f, "{}{}{}{}", self.name, self.comparison, self.bound, self.unit)
    }
}

impl FromStr for Expectation {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("expectation", "--expect 'triad>=300GB/s'", text);
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        cursor.skip_blanks();
        let mut name = cursor.take_while(word);
        if name.is_empty() {
            return Err(cursor.error("expected the name of a measurement"));
        }
        let mut scope = None;
        if cursor.eat('.') {
            scope = Some(name.to_owned());
            name = cursor.take_while(word);
            if name.is_empty() {
                return Err(cursor.error("expected the name of a measurement after '.'"));
            }
        }
        cursor.skip_blanks();
        let comparison = Comparison::ALL
            .iter()
            .find(|(op, _)| cursor.rest().starts_with(op))
            .map(|(op, comparison)| {
                op.chars().for_each(|c| {
                    cursor.eat(c);
                });
                *comparison
            })
            .ok_or_else(|| cursor.error("expected >=, <=, > or <"))?;
        cursor.skip_blanks();
        let at = cursor.position();
        let digits = cursor.take_while(|c| c.is_ascii_digit() || c == '.');
        let bound: f64 = digits.parse().map_err(|_| cursor.error_at(at, "expected a number"))?;
        cursor.skip_blanks();
        let at = cursor.position();
        let typed = cursor.rest().trim_end();
        let unit = UNITS
            .iter()
            .map(|(unit, ..)| *unit)
            .chain([PERCENT])
            .find(|unit| *unit == typed)
            .ok_or_else(|| {
                cursor
                    .error_at(at, "expected a unit such as GB/s, GFLOP/s, us, x, or % of the limit")
            })?;
        Ok(Self { scope, name: name.to_owned(), comparison, bound, unit })
    }
}

/// How a condition fared.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It holds.
    Met(f64),
    /// It does not.
    NotMet(f64),
    /// There is no such measurement; these there are.
    NoSuch(Vec<String>),
    /// The measurement gave no valid result.
    NoValue,
    /// The measurement has another unit.
    OtherUnit(String),
    /// A share of the limit was asked for, and no limit is known.
    NoLimit,
}

impl Verdict {
    /// Whether the condition holds.
    pub fn is_met(&self) -> bool {
        matches!(self, Self::Met(_))
    }

    /// One line for people.
    pub fn in_words(&self, expectation: &Expectation) -> String {
        let shown = |value: f64| match expectation.unit {
            PERCENT => format!("{value:.1} % of the limit"),
            unit => match UNITS.iter().find(|(name, ..)| *name == unit) {
                Some((_, "B/s", _)) => BytesPerSec(value).to_string(),
                Some((_, "FLOP/s", _)) => FlopsPerSec(value).to_string(),
                Some((_, "s", _)) => Seconds(value).to_string(),
                _ => format!("{value:.4} {unit}"),
            },
        };
        let rest = match self {
            Self::Met(value) => format!("met, measured {}", shown(*value)),
            Self::NotMet(value) => format!("not met, measured {}", shown(*value)),
            Self::NoSuch(known) if known.is_empty() => "not met, nothing was measured".to_owned(),
            Self::NoSuch(known) => {
                format!("not met, no such measurement; there are {}", known.join(", "))
            }
            Self::NoValue => "not met, there is no valid result".to_owned(),
            Self::OtherUnit(unit) => format!("not met, the measurement is in {unit}"),
            Self::NoLimit => {
                "not met, no limit is known\nhint: give --dimms COUNTxMT/s, or a bound in units"
                    .to_owned()
            }
        };
        format!("expectation {expectation} {rest}")
    }
}

impl Expectation {
    /// Holds the condition against measurements. Of several with the name, all must meet it; the
    /// first that does not decides.
    pub fn check(&self, measurements: &[Measurement]) -> Verdict {
        let named = |m: &&Measurement| {
            m.name == self.name
                && self.scope.as_ref().is_none_or(|scope| m.gauge == *scope || m.test == *scope)
        };
        let mut verdict = None;
        for measurement in measurements.iter().filter(named) {
            let one = self.check_one(measurement);
            if !one.is_met() {
                return one;
            }
            verdict.get_or_insert(one);
        }
        verdict.unwrap_or_else(|| {
            let mut known: Vec<String> = Vec::new();
            for m in measurements {
                if !known.contains(&m.name) {
                    known.push(m.name.clone());
                }
            }
            Verdict::NoSuch(known)
        })
    }

    fn check_one(&self, measurement: &Measurement) -> Verdict {
        let Some(value) =
            measurement.value.filter(|_| measurement.validity.status != Status::Invalid)
        else {
            return Verdict::NoValue;
        };
        let (value, bound) = if self.unit == PERCENT {
            match &measurement.limit {
                Some(limit) => (limit.fraction * 100.0, self.bound),
                None => return Verdict::NoLimit,
            }
        } else {
            match UNITS.iter().find(|(name, ..)| *name == self.unit) {
                Some((_, base, factor)) if *base == measurement.unit => {
                    (value, self.bound * factor)
                }
                _ => return Verdict::OtherUnit(measurement.unit.clone()),
            }
        };
        if self.comparison.holds(value, bound) {
            Verdict::Met(value)
        } else {
            Verdict::NotMet(value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Category, Limit, Validity};
    use proptest::prelude::*;

    fn triad(value: Option<f64>, fraction: Option<f64>) -> Measurement {
        Measurement {
            gauge: "memory".to_owned(),
            test: "stream".to_owned(),
            name: "triad".to_owned(),
            unit: "B/s".to_owned(),
            value,
            summary: None,
            samples: Vec::new(),
            disturbed: Vec::new(),
            regimes: Vec::new(),
            config: serde_json::Map::new(),
            moved: None,
            category: Category::Variant,
            limit: fraction.map(|fraction| Limit {
                value: 1e11,
                basis: "option".to_owned(),
                fraction,
            }),
            validity: Validity::valid(),
        }
    }

    fn check(text: &str, measurement: Measurement) -> Verdict {
        text.parse::<Expectation>().unwrap().check(&[measurement])
    }

    #[test]
    fn conditions_hold_or_do_not() {
        let measured = || triad(Some(78.4e9), Some(0.784));
        assert!(check("triad>=78GB/s", measured()).is_met());
        assert!(check("stream.triad > 70 GiB/s", measured()).is_met());
        assert!(check("memory.triad>=78%", measured()).is_met());
        assert_eq!(check("triad>=80%", measured()), Verdict::NotMet(78.4));
        assert_eq!(check("triad<100ns", measured()), Verdict::OtherUnit("B/s".to_owned()));
        assert_eq!(check("triad>=80%", triad(Some(1.0), None)), Verdict::NoLimit);
        assert_eq!(check("triad>=1GB/s", triad(None, None)), Verdict::NoValue);
        assert_eq!(check("tirad>=1GB/s", measured()), Verdict::NoSuch(vec!["triad".to_owned()]));
        assert!(!check("hpl.triad>=1GB/s", measured()).is_met());
    }

    #[test]
    fn a_verdict_reads_well() {
        let expectation: Expectation = "triad>=300GB/s".parse().unwrap();
        let verdict = expectation.check(&[triad(Some(78.412e9), None)]);
        assert_eq!(
            verdict.in_words(&expectation),
            "expectation triad>=300GB/s not met, measured 78.41 GB/s"
        );
    }

    #[test]
    fn a_wrong_condition_is_pointed_at() {
        for (text, at) in [
            ("", 0),
            (">=3GB/s", 0),
            ("triad=300GB/s", 5),
            ("triad>=GB/s", 7),
            ("triad>=300", 10),
            ("triad>=300GBs", 10),
            ("stream.>=3GB/s", 7),
            ("triad>=1.2.3GB/s", 7),
        ] {
            assert_eq!(text.parse::<Expectation>().unwrap_err().at, at, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_back(
            scope in proptest::option::of("[a-z]{1,8}"),
            name in "[a-z_]{1,12}",
            op in 0usize..4,
            bound in 0.0f64..1e6,
            unit in 0usize..UNITS.len(),
        ) {
            let comparison = Comparison::ALL[op].1;
            let expectation = Expectation { scope, name, comparison, bound, unit: UNITS[unit].0 };
            prop_assert_eq!(expectation.to_string().parse::<Expectation>(), Ok(expectation));
        }

        #[test]
        fn nothing_typed_makes_the_parser_fail_badly(text in ".{0,20}") {
            let _ = text.parse::<Expectation>();
        }
    }
}
