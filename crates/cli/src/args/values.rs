//! Parsers for values that several options share: times, shares, numbers, labels.

use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::quantity::read_bytes;
use nodegauge_measure::{Bytes, SyntaxError};
use std::time::Duration;

/// Shortest time that most options accept, in seconds.
const MIN_SECONDS: f64 = 0.1;
/// Longest time that an option accepts, in seconds.
const MAX_SECONDS: f64 = 1e6;
/// Maximum whole number that a floating-point number represents exactly.
const MAX_COUNT: f64 = 9_007_199_254_740_992.0;

/// Units of time, with their length in seconds.
const TIME_UNITS: &[(&[&str], f64)] = &[
    (&["ms"], 1e-3),
    (&["s", "sec", "secs", "second", "seconds"], 1.0),
    (&["m", "min", "mins", "minute", "minutes"], 60.0),
    (&["h", "hour", "hours"], 3600.0),
    (&["d", "day", "days"], 86_400.0),
    (&["w", "week", "weeks"], 604_800.0),
    (&["y", "year", "years"], 31_557_600.0),
];

/// Parses a time such as `10` (seconds), `2.5s`, `10m` or `1h30m`.
pub(super) fn parse_seconds(text: &str) -> Result<Duration, SyntaxError> {
    parse_seconds_from(MIN_SECONDS, text)
}

/// Parses a time of at least `least` seconds.
pub(super) fn parse_seconds_from(least: f64, text: &str) -> Result<Duration, SyntaxError> {
    parse_time_between(least, MAX_SECONDS, text)
}

/// Parses a time from `least` to `most` seconds. Numbers with units are added; a number without a unit is in seconds.
pub(super) fn parse_time_between(
    least: f64,
    most: f64,
    text: &str,
) -> Result<Duration, SyntaxError> {
    let mut cursor = Cursor::new("time", "10 (seconds), 90s, 10m or 2h", text);
    let mut total = 0.0;
    let mut parts = 0;
    loop {
        cursor.skip_blanks();
        let value = decimal(&mut cursor, "expected a number of seconds, or a time such as 10m")?;
        cursor.skip_blanks();
        if cursor.at_end() && parts == 0 {
            total = value;
            break;
        }
        let at = cursor.position();
        let unit = cursor.take_while(char::is_alphabetic);
        let known = TIME_UNITS.iter().find(|(names, _)| names.contains(&unit));
        let (_, factor) =
            known.ok_or_else(|| cursor.error_at(at, "expected a unit such as s, m, h or d"))?;
        total += value * factor;
        parts += 1;
        cursor.skip_blanks();
        if cursor.at_end() {
            break;
        }
    }
    if (least..=most).contains(&total) {
        Ok(Duration::from_secs_f64(total))
    } else {
        let problem = format!("expected between {least} and {most} seconds");
        Err(cursor.error_at(0, problem))
    }
}

/// Parses a working set: a number with a unit. A bare number is refused, because it could mean bytes or elements.
pub(super) fn parse_working_set(text: &str) -> Result<Bytes, SyntaxError> {
    let mut cursor = Cursor::new("size", "--size 256MiB", text);
    let size = read_bytes(&mut cursor)?;
    if text.ends_with(|last: char| last.is_ascii_digit() || last == '.') {
        return Err(cursor.error("expected a unit such as MiB"));
    }
    cursor.finish("expected nothing after the unit")?;
    Ok(size)
}

/// Parses a share of the memory.
pub(super) fn parse_fraction(text: &str) -> Result<f64, SyntaxError> {
    parse_fraction_up_to(1.0, text)
}

/// Parses a share of the memory of at most `most`.
pub(super) fn parse_fraction_up_to(most: f64, text: &str) -> Result<f64, SyntaxError> {
    let mut cursor = Cursor::new("share", "0.8", text);
    let value = decimal(&mut cursor, "expected a number")?;
    cursor.finish("expected nothing after the number")?;
    if value > 0.0 && value <= most {
        Ok(value)
    } else {
        Err(cursor.error_at(0, format!("expected a share above 0 and at most {most}")))
    }
}

/// Parses a whole number such as `1000000` or `1e6`.
pub(super) fn parse_whole_number(text: &str) -> Result<u64, SyntaxError> {
    let mut cursor = Cursor::new("number", "1000000 or 1e6", text);
    cursor.skip_blanks();
    let start = cursor.position();
    let value = decimal(&mut cursor, "expected a whole number")?;
    cursor.skip_blanks();
    cursor.finish("expected nothing after the number")?;
    if value.fract() != 0.0 || value < 1.0 {
        return Err(cursor.error_at(start, "expected a whole number of at least 1"));
    }
    if value > MAX_COUNT {
        return Err(cursor.error_at(start, "this number is too large"));
    }
    Ok(value as u64)
}

/// Parses a label `KEY=VALUE`; returns the key and the value without blanks around them.
pub(super) fn parse_label(text: &str) -> Result<(String, String), SyntaxError> {
    let mut cursor = Cursor::new("label", "nps=4", text);
    let key = cursor.take_while(|c| c != '=').trim();
    if key.is_empty() {
        return Err(cursor.error_at(0, "expected KEY=VALUE"));
    }
    cursor.expect('=', "expected KEY=VALUE")?;
    Ok((key.to_owned(), cursor.rest().trim().to_owned()))
}

/// Consumes a number that may have a fraction and an exponent.
fn decimal(cursor: &mut Cursor<'_>, problem: &str) -> Result<f64, SyntaxError> {
    let text = cursor.rest();
    let start = cursor.position();
    cursor.take_while(|c| c.is_ascii_digit() || c == '.');
    let mut exponent = cursor.clone();
    if exponent.eat('e') || exponent.eat('E') {
        let _ = exponent.eat('-') || exponent.eat('+');
        if !exponent.take_while(|c| c.is_ascii_digit()).is_empty() {
            *cursor = exponent;
        }
    }
    let number = &text[..cursor.position() - start];
    number.parse().map_err(|_| cursor.error_at(start, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_needs_a_name_and_an_equals_sign() {
        assert_eq!(parse_label("nps=4"), Ok(("nps".to_owned(), "4".to_owned())));
        assert_eq!(parse_label("nps="), Ok(("nps".to_owned(), String::new())));
        assert!(parse_label("=4").is_err() && parse_label("nps").is_err());
    }

    #[test]
    fn budgets_are_positive_durations() {
        assert_eq!(parse_seconds("2.5"), Ok(Duration::from_millis(2500)));
        assert_eq!(parse_seconds("1e1s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_seconds("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(parse_seconds("1h 30min"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_seconds("250ms"), Ok(Duration::from_millis(250)));
        assert!(
            parse_seconds("1h30").is_err()
                && parse_seconds("3x").is_err()
                && parse_seconds("10 20").is_err()
        );
        assert!(
            parse_seconds("0").is_err()
                && parse_seconds("-1").is_err()
                && parse_seconds("soon").is_err()
        );
        assert_eq!(parse_seconds_from(0.001, "0.01"), Ok(Duration::from_millis(10)));
    }

    #[test]
    fn counts_are_positive_integers() {
        assert_eq!(parse_whole_number("1e6"), Ok(1_000_000));
        assert_eq!(parse_whole_number(" 31 "), Ok(31));
        for wrong in ["0", "-1", "1.5", "1e30", "1e", "many", "", "nan", "inf"] {
            assert!(parse_whole_number(wrong).is_err(), "{wrong}");
        }
    }
}
