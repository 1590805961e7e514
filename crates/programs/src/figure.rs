//! Figure of a run of the program: its elapsed time, or a number from its output.

use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::{Failure, ScaledUnit, SyntaxError, Unit, printed};
use nodegauge_toolchain::program::ProgramOutput;
use regex_lite::{Regex, RegexBuilder};
use std::ops::Range;
use std::str::FromStr;

/// Maximum number of characters of the output that a message quotes.
const QUOTED: usize = 60;

/// Unit of a number in the output of a program, which may have a prefix: `GB/s`, `ms`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureUnit(ScaledUnit);

impl FigureUnit {
    /// Returns the unit of the figure in the record.
    pub fn unit(self) -> Unit {
        self.0.unit
    }
}

impl Default for FigureUnit {
    /// Returns the unit for a plain number, for which higher is better.
    fn default() -> Self {
        Self(ScaledUnit::base(Unit::Factor))
    }
}

impl FromStr for FigureUnit {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let found = ScaledUnit::from_symbol(text).filter(|scaled| !scaled.prefix.is_binary());
        found.map(Self).ok_or_else(|| {
            let known: Vec<&str> = Unit::ALL.iter().map(|unit| unit.symbol()).collect();
            let problem = format!("expected {}, with or without a prefix", known.join(", "));
            Cursor::new("unit", "--unit GB/s or --unit ms", text).error(problem)
        })
    }
}

/// Source of the figure of a run.
#[derive(Debug, Clone, Default)]
pub struct FigureSource {
    pattern: Option<Regex>,
    /// Unit of the figure.
    pub unit: FigureUnit,
}

impl FigureSource {
    /// Returns a source whose figure is the elapsed time of a run.
    pub fn elapsed() -> Self {
        Self { pattern: None, unit: FigureUnit(ScaledUnit::base(Unit::Seconds)) }
    }

    /// Returns a source whose figure is the number that the group of a regular expression matches.
    ///
    /// Fails if the expression has a syntax error, or if it does not have exactly one group.
    pub fn from_pattern(pattern: &str, unit: FigureUnit) -> Result<Self, Failure> {
        const HINT: &str = "e.g. --figure 'Triad: +([0-9.]+)'";
        let compiled = RegexBuilder::new(pattern)
            .multi_line(true)
            .build()
            .map_err(|cause| Failure::usage(format!("--figure {pattern:?}: {cause}")).hint(HINT))?;
        match compiled.captures_len() - 1 {
            1 => Ok(Self { pattern: Some(compiled), unit }),
            groups => Err(Failure::usage(format!(
                "--figure {pattern:?} has {groups} groups: expected one, around the number"
            ))
            .hint(format!("{HINT}; write other groups as (?:...)"))),
        }
    }

    /// Returns the regular expression; `None` if the figure is the elapsed time.
    pub fn pattern(&self) -> Option<&str> {
        self.pattern.as_ref().map(Regex::as_str)
    }

    /// Returns the figure of a successful run, in the unit of the figure. The error is the reason why there is no
    /// figure.
    pub fn read(&self, output: &ProgramOutput) -> Result<f64, String> {
        match &self.pattern {
            None => Ok(output.seconds.0),
            Some(pattern) => Ok(number(pattern, &output.stdout)? * self.unit.0.factor()),
        }
    }

    /// Converts a figure to a cost, which is proportional to the time per unit of work.
    pub fn cost(&self, figure: f64) -> f64 {
        if self.unit.unit() == Unit::Seconds { figure } else { figure.recip() }
    }
}

/// Returns the number that the group matches. The expression must match exactly once.
fn number(pattern: &Regex, text: &str) -> Result<f64, String> {
    let mut found = pattern.captures_iter(text).filter_map(|groups| groups.get(1));
    let Some(first) = found.next() else {
        let lines = count_in_words(text.lines().count(), "line");
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        return Err(format!(
            "no match of --figure in {lines} of output; the last is {:?}",
            shortened(last)
        ));
    };
    if let Some(second) = found.next() {
        let matches = 2 + found.count();
        return Err(format!(
            "{matches} matches of --figure instead of one: {:?}, {:?}",
            shortened(first.as_str()),
            shortened(second.as_str())
        ));
    }
    let whole = whole_number(text, first.range());
    if whole != first.as_str() {
        return Err(format!(
            "--figure matches only {:?} of {:?}: expected a complete number with a decimal point",
            shortened(first.as_str()),
            shortened(whole)
        ));
    }
    // Fortran prints exponents with D.
    let word = first.as_str().trim().replace(['D', 'd'], "e");
    match word.parse::<f64>() {
        Ok(value) if printed::can_be_figure(value) => Ok(value),
        _ => {
            let quoted = shortened(first.as_str());
            Err(format!("--figure matches {quoted:?}: expected a number above 0"))
        }
    }
}

/// True for a separator of thousands or of decimals.
fn is_separator(byte: &u8) -> bool {
    b",.'".contains(byte)
}

fn is_exponent(byte: &u8) -> bool {
    b"eEdD".contains(byte)
}

fn is_digit(byte: Option<&u8>) -> bool {
    byte.is_some_and(u8::is_ascii_digit)
}

/// Returns the complete number around a match: the match with adjacent digits, also beyond a separator as in `1,500`,
/// and with an exponent as in `1.5e9`. It shows whether the match is only a part of a number, which would have another
/// value.
fn whole_number(text: &str, matched: Range<usize>) -> &str {
    let bytes = text.as_bytes();
    let mut start = matched.start;
    let mut end = matched.end;
    if is_digit(bytes.get(start)) && !matched.is_empty() {
        loop {
            start -= digits(bytes[..start].iter().rev());
            match &bytes[..start] {
                [.., digit, separator] if is_separator(separator) && is_digit(Some(digit)) => {
                    start -= 2;
                }
                _ => break,
            }
        }
    }
    if is_digit(bytes[matched].last()) {
        loop {
            end += digits(bytes[end..].iter());
            end += match &bytes[end..] {
                [separator, digit, ..] if is_separator(separator) && is_digit(Some(digit)) => 2,
                [mark, digit, ..] if is_exponent(mark) && is_digit(Some(digit)) => 2,
                [mark, b'+' | b'-', digit, ..] if is_exponent(mark) && is_digit(Some(digit)) => 3,
                _ => break,
            };
        }
    }
    &text[start..end]
}

/// Returns the number of digits at the beginning of `bytes`.
fn digits<'a>(bytes: impl Iterator<Item = &'a u8>) -> usize {
    bytes.take_while(|byte| byte.is_ascii_digit()).count()
}

/// Shortens a text for a message.
fn shortened(text: &str) -> String {
    text.chars().take(QUOTED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::UnitPrefix;

    fn of(pattern: &str, text: &str) -> Result<f64, String> {
        let source = FigureSource::from_pattern(pattern, FigureUnit::default()).unwrap();
        number(source.pattern.as_ref().unwrap(), text)
    }

    #[test]
    fn figure_needs_a_single_match_and_a_positive_number() {
        assert_eq!(of("^Triad: +([0-9.]+)", "Copy: 1\nTriad:   12345.6  0.1\n"), Ok(12345.6));
        assert_eq!(of(r"t = (\S+)", "t = 1.5D-03\n"), Ok(0.0015));
        let none = of(r"rate (\d+)", "one\ntwo\n\n").unwrap_err();
        assert_eq!(none, "no match of --figure in 3 lines of output; the last is \"two\"");
        let two = of(r"rate (\d+)", "rate 1 rate 2 rate 3").unwrap_err();
        assert_eq!(two, "3 matches of --figure instead of one: \"1\", \"2\"");
        for text in ["rate nan", "rate -1", "rate 0", "rate fast", "rate 1e308", "rate 5e-324"] {
            assert!(of(r"rate (\S+)", text).unwrap_err().contains("expected a number"), "{text}");
        }
    }

    #[test]
    fn figure_that_matches_part_of_a_number_is_refused() {
        for (pattern, text, part, whole) in [
            ("x=([0-9.]+)", "x=1,500", "1", "1,500"),
            ("x=([0-9.]+)", "x=1,500,000.5 s", "1", "1,500,000.5"),
            ("x=([0-9.]+)", "x=1'500", "1", "1'500"),
            ("x=([0-9.]+)", "x=1.5e9", "1.5", "1.5e9"),
            ("x=([0-9.]+)", "x=1.5D-03", "1.5", "1.5D-03"),
            (r"x=(\d+)", "x=1.5", "1", "1.5"),
            ("([0-9.]+) GB/s", "1,500 GB/s", "500", "1,500"),
            (r"x=.*(\d+)", "x= 15", "5", "15"),
            (r"x=(\S+)", "x=1,500", "1,500", "1,500"),
        ] {
            let error = of(pattern, text).unwrap_err();
            let expected = if part == whole {
                format!("--figure matches {part:?}: expected a number above 0")
            } else {
                format!(
                    "--figure matches only {part:?} of {whole:?}: expected a complete number with a \
                     decimal point"
                )
            };
            assert_eq!(error, expected, "{text}");
        }
        for (pattern, text, value) in [
            ("x=([0-9.]+)", "x=1, y=2", 1.0),
            (r"x=(\d+\.\d+)", "x=1.5.", 1.5),
            ("x=([0-9.]+)", "x=1.5e", 1.5),
            ("x=([0-9.]+)", "x=1.5GB/s, 3 runs", 1.5),
            ("time ([0-9.]+)s", "time 2.5s", 2.5),
            (": ([0-9.]+)", "t4: 2.5", 2.5),
        ] {
            assert_eq!(of(pattern, text), Ok(value), "{text}");
        }
    }

    #[test]
    fn figure_pattern_needs_one_group() {
        for (pattern, reason) in [
            ("rate", "has 0 groups"),
            ("(a)(b)", "has 2 groups"),
            ("(a", "open group without closing"),
            ("(a{1000}){1000}", "size limit"),
        ] {
            let error = FigureSource::from_pattern(pattern, FigureUnit::default()).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }

    #[test]
    fn figure_units_accept_prefixes() {
        let of = |text: &str| text.parse::<FigureUnit>();
        assert_eq!(of("GB/s"), Ok(FigureUnit(ScaledUnit::GB_PER_S)));
        assert_eq!(of("ms"), Ok(FigureUnit(ScaledUnit::new(UnitPrefix::Milli, Unit::Seconds))));
        assert_eq!(of("msg/s").unwrap().unit(), Unit::MessagesPerSecond);
        assert!(of("furlongs").unwrap_err().to_string().contains("FLOP/s"));
    }
}
