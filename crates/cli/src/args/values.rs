//! Parsers of values that several options have: times, shares, numbers, labels.

use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use std::time::Duration;

/// Shortest time that most options accept, in seconds.
const LEAST_SECONDS: f64 = 0.1;
/// Longest time that an option accepts, in seconds.
const MOST_SECONDS: f64 = 1e6;
/// Maximum whole number, up to which a number in floating point is exact.
const MOST_COUNT: f64 = 9_007_199_254_740_992.0;

/// Parses a time in seconds such as `10`, `2.5` or `10s`.
pub(super) fn seconds(text: &str) -> Result<Duration, SyntaxError> {
    seconds_from(LEAST_SECONDS, text)
}

/// Parses a time of at least `least` seconds.
pub(super) fn seconds_from(least: f64, text: &str) -> Result<Duration, SyntaxError> {
    let mut cursor = Cursor::new("seconds", "10 or 2.5", text);
    let value = decimal(&mut cursor, "expected a number of seconds")?;
    cursor.take_while(|c| c == 's');
    cursor.finish("expected the end after the seconds")?;
    if (least..=MOST_SECONDS).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        let problem = format!("expected between {least} and {MOST_SECONDS} seconds");
        Err(cursor.error_at(0, problem))
    }
}

/// Parses a share of the memory.
pub(super) fn fraction(text: &str) -> Result<f64, SyntaxError> {
    fraction_up_to(1.0, text)
}

/// Parses a share of the memory of at most `most`.
pub(super) fn fraction_up_to(most: f64, text: &str) -> Result<f64, SyntaxError> {
    let mut cursor = Cursor::new("share", "0.8", text);
    let value = decimal(&mut cursor, "expected a number")?;
    cursor.finish("expected the end after the number")?;
    if value > 0.0 && value <= most {
        Ok(value)
    } else {
        Err(cursor.error_at(0, format!("expected a share above 0 and at most {most}")))
    }
}

/// Parses a whole number such as `1000000` or `1e6`.
pub(super) fn count(text: &str) -> Result<u64, SyntaxError> {
    let mut cursor = Cursor::new("number", "1000000 or 1e6", text);
    cursor.skip_blanks();
    let start = cursor.position();
    let value = decimal(&mut cursor, "expected a whole number")?;
    cursor.skip_blanks();
    cursor.finish("expected the end after the number")?;
    if value.fract() != 0.0 || value < 1.0 {
        return Err(cursor.error_at(start, "expected a whole number of at least 1"));
    }
    if value > MOST_COUNT {
        return Err(cursor.error_at(start, "this number is too large"));
    }
    Ok(value as u64)
}

/// Parses a label.
pub(super) fn label(text: &str) -> Result<(String, String), SyntaxError> {
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
    fn label_needs_a_key() {
        assert_eq!(label("nps=4"), Ok(("nps".to_owned(), "4".to_owned())));
        assert_eq!(label("nps="), Ok(("nps".to_owned(), String::new())));
        assert!(label("=4").is_err() && label("nps").is_err());
    }

    #[test]
    fn budgets_are_positive() {
        assert_eq!(seconds("2.5"), Ok(Duration::from_millis(2500)));
        assert_eq!(seconds("1e1s"), Ok(Duration::from_secs(10)));
        assert!(seconds("0").is_err() && seconds("-1").is_err() && seconds("soon").is_err());
        assert_eq!(seconds_from(0.001, "0.01"), Ok(Duration::from_millis(10)));
    }

    #[test]
    fn counts_are_integers() {
        assert_eq!(count("1e6"), Ok(1_000_000));
        assert_eq!(count(" 31 "), Ok(31));
        for wrong in ["0", "-1", "1.5", "1e30", "1e", "many", "", "nan", "inf"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }
}
