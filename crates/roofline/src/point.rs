//! Points that the user gives: operations, bytes and time of a program.

use nodegauge_gauge::roofline::{MEMORY_LEVEL, RooflinePoint, RooflinePointConfig};
use nodegauge_measure::Seconds;
use nodegauge_measure::grammar::{Cursor, SyntaxError};
use nodegauge_measure::record::{Category, Validity};
use std::str::FromStr;

/// Point of the form `NAME,FLOPS,BYTES,SECONDS`, or `NAME,FLOPS,BYTES,SECONDS,LEVEL` if the bytes are not those of main
/// memory.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenPoint {
    /// Name of the point.
    pub name: String,
    /// Number of floating-point operations.
    pub flops: f64,
    /// Number of bytes transferred to and from the memory level.
    pub bytes: f64,
    /// Elapsed time in seconds.
    pub seconds: Seconds,
    /// Memory level: `memory`, or a cache (`L1`, `L2`, ...).
    pub level: String,
}

impl GivenPoint {
    /// Converts the point for a roofline. `basis` describes the source of the counts.
    pub fn roofline_point(&self, basis: &str) -> RooflinePoint {
        let Self { name, flops, bytes, seconds, level } = self.clone();
        let config = RooflinePointConfig {
            flops_per_byte: Some(flops / bytes),
            level: Some(level),
            flops: Some(flops),
            bytes: Some(bytes),
            seconds: Some(seconds),
            basis: Some(basis.to_owned()),
        };
        let rate = flops / seconds.0;
        let validity = Validity::valid();
        RooflinePoint { name, rate, config, category: Category::Reference, validity }
    }
}

/// Parses a comma and a number above zero. `problem` describes the number in the error.
fn positive(cursor: &mut Cursor<'_>, problem: &str) -> Result<f64, SyntaxError> {
    cursor.expect(',', &format!("expected ',' followed by {}", &problem["expected ".len()..]))?;
    let at = cursor.position();
    let digits = cursor.take_while(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let value: f64 = digits.parse().map_err(|_| cursor.error_at(at, problem))?;
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(cursor.error_at(at, "expected a number above 0"))
    }
}

impl FromStr for GivenPoint {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("point", "--point spmv,2.4e9,1.9e10,0.8", text);
        // Names have the syntax of figure names in conditions, so that a condition can refer to a point.
        let name = cursor.take_while(|c| c.is_ascii_alphanumeric() || "_-:".contains(c)).to_owned();
        if name.is_empty() {
            return Err(cursor.error("expected a name of letters, digits, '_', '-' and ':'"));
        }
        let flops = positive(&mut cursor, "expected a number of operations, e.g. 2.4e9")?;
        let bytes = positive(&mut cursor, "expected a number of bytes, e.g. 1.9e10")?;
        let seconds = positive(&mut cursor, "expected a number of seconds, e.g. 0.8")?;
        let mut level = MEMORY_LEVEL.to_owned();
        if cursor.eat(',') {
            let at = cursor.position();
            let given = cursor.take_while(|c| c.is_ascii_alphanumeric());
            let cache = given.strip_prefix('L').filter(|n| matches!(n.as_bytes(), [b'1'..=b'9']));
            if given != MEMORY_LEVEL && cache.is_none() {
                return Err(cursor.error_at(at, "expected memory, L1, L2, ..."));
            }
            given.clone_into(&mut level);
        }
        cursor.finish("expected nothing after the level")?;
        if !(flops / bytes).is_normal() || !(flops / seconds).is_normal() {
            return Err(cursor.error_at(
                0,
                "expected numbers of similar magnitude: FLOPS/BYTES or \
                 FLOPS/SECONDS is not a normal number",
            ));
        }
        Ok(Self { name, flops, bytes, seconds: Seconds(seconds), level })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn point_is_parsed_and_errors_have_a_column() {
        let point: GivenPoint = "spmv,2.4e9,1.92e10,0.8".parse().unwrap();
        assert_eq!(
            (point.level.as_str(), point.flops, point.seconds),
            (MEMORY_LEVEL, 2.4e9, Seconds(0.8))
        );
        let made = point.roofline_point("given");
        assert_eq!((made.rate, made.config.flops_per_byte), (3e9, Some(0.125)));
        assert_eq!("x:1,1,2,3,L2".parse::<GivenPoint>().unwrap().level, "L2");
        for (text, at) in [
            ("", 0),
            (",1,1,1", 0),
            ("a b,1,1,1", 1),
            ("a", 1),
            ("a,x,1,1", 2),
            ("a,1,0,1", 4),
            ("a,1,1", 5),
            ("a,1,1,-3", 6),
            ("a,1,1,inf", 6),
            ("a,nan,1,1", 2),
            ("a,1,1,1,L0", 8),
            ("a,1,1,1,disk", 8),
            ("a,1,1,1,L2 ", 10),
            ("a,1e300,1e-300,1", 0),
        ] {
            let error = text.parse::<GivenPoint>().unwrap_err();
            assert_eq!(error.at, at, "{error}");
        }
    }
}
