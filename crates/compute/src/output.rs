//! Parser and writer of the output of xhpl and hpcc: result lines with residuals. This module does no I/O.
//!
//! A result line begins with its variant, `WR11C2R4`: W, the mapping R or C, and digits. Other lines may also begin
//! with W. The rate has five digits and is computed from a time with more digits than the printed time. Progress lines
//! begin differently and are not results.

use nodegauge_measure::{FlopsPerSec, Seconds};
use std::fmt::Write;

/// One result line and the residual that follows it.
#[derive(Debug, Clone, PartialEq)]
pub struct HplRow {
    /// Encoded variant (T/V), e.g. `WR11C2R4`.
    pub variant: String,
    /// Order of the system, N.
    pub n: usize,
    /// Panel width, NB.
    pub nb: usize,
    /// Number of rows of the process grid, P.
    pub p: usize,
    /// Number of columns of the process grid, Q.
    pub q: usize,
    /// Seconds, with two decimals.
    pub seconds: Seconds,
    /// Rate in FLOP/s.
    pub rate: FlopsPerSec,
    /// The scaled residual; `None` if none was printed.
    pub residual: Option<f64>,
    /// True for PASSED, false for FAILED; `None` if neither was printed.
    pub passed: Option<bool>,
}

/// Parsed output of xhpl or hpcc.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HplOutput {
    /// Version of HPL, e.g. `2.3`.
    pub version: Option<String>,
    /// Results in the order of the output.
    pub rows: Vec<HplRow>,
    /// Error messages of HPL.
    pub errors: Vec<String>,
    /// True if the output contains HPL's last line.
    pub ended: bool,
}

/// Parses the output of xhpl or hpcc.
pub fn read(text: &str) -> HplOutput {
    let mut output = HplOutput::default();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("HPLinpack ")
            && let Some(version) = rest.split_whitespace().next()
            && version.starts_with(|c: char| c.is_ascii_digit())
        {
            output.version = Some(version.to_owned());
        } else if let Some(row) = row(line) {
            output.rows.push(row);
        } else if line.starts_with("||Ax-b||_oo/(eps*") {
            if let (Some(row), Some((_, value))) = (output.rows.last_mut(), line.split_once('=')) {
                let mut words = value.split_whitespace();
                row.residual = words.next().and_then(|word| word.parse().ok());
                row.passed = match words.next_back() {
                    Some("PASSED") => Some(true),
                    Some("FAILED") => Some(false),
                    _ => None,
                };
            }
        } else if let Some(error) = line.trim().strip_prefix(">>>") {
            output.errors.push(error.trim_end_matches("<<<").trim().to_owned());
        } else if line.starts_with("End of Tests.") {
            output.ended = true;
        }
    }
    output
}

fn row(line: &str) -> Option<HplRow> {
    let after = line.strip_prefix("WR").or_else(|| line.strip_prefix("WC"))?;
    if !after.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let [variant, n, nb, p, q, seconds, gflops] = words[..] else { return None };
    // Only finite numbers are accepted, because a record with other numbers could not be read back.
    let finite = |word: &str| word.parse().ok().filter(|number: &f64| number.is_finite());
    let rate = finite(gflops).map(|gflops| gflops * 1e9).filter(|rate| rate.is_finite())?;
    Some(HplRow {
        variant: variant.to_owned(),
        n: n.parse().ok()?,
        nb: nb.parse().ok()?,
        p: p.parse().ok()?,
        q: q.parse().ok()?,
        seconds: Seconds(finite(seconds)?),
        rate: FlopsPerSec(rate),
        residual: None,
        passed: None,
    })
}

/// Formats rows as HPL prints them, for scripts that parse HPL's output. Before every row, a line contains the name of
/// the program, in the format of the lines in which HPL describes its input. The `variant` of a native run encodes the
/// algorithm: row-major, look-ahead, recursive.
pub fn write(rows: &[(String, HplRow)]) -> String {
    let double = "=".repeat(80);
    let single = "-".repeat(80);
    let count = |verdict| rows.iter().filter(|(_, row)| row.passed == Some(verdict)).count();
    let passed = count(true);
    let failed = count(false);
    let mut out = String::new();
    for (program, row) in rows {
        let HplRow { variant, n, nb, p, q, seconds: Seconds(seconds), rate, .. } = row;
        let gflops = exponent(rate.0 / 1e9, 4);
        let _ = writeln!(
            out,
            "{double}\nProgram: {program}\n{double}\nT/V                N    NB     P     Q               Time                 Gflops\n{single}\n{variant:<8} {n:>11} {nb:>5} {p:>5} {q:>5} {seconds:>18.2} {gflops:>22}"
        );
        if let (Some(residual), Some(is_passed)) = (row.residual, row.passed) {
            let verdict = if is_passed { "PASSED" } else { "FAILED" };
            let residual = exponent(residual, 8);
            let _ = writeln!(
                out,
                "{single}\n||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)= {residual:>16} ...... {verdict}"
            );
        }
    }
    let _ = writeln!(
        out,
        "{double}\n\nFinished {:>6} tests with the following results:\n         {passed:>6} tests completed and passed residual checks,\n         {failed:>6} tests completed and failed residual checks,\n         {:>6} tests skipped because of illegal input values.\n{single}\n\nEnd of Tests.\n{double}",
        rows.len(),
        0
    );
    out
}

/// Formats `x` as C's `%.{digits}e`.
fn exponent(x: f64, digits: usize) -> String {
    let text = format!("{x:.digits$e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, unsigned) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{mantissa}e{sign}{unsigned:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str = include_str!("../tests/outputs/three-nb.txt");
    const FAILED: &str = include_str!("../tests/outputs/failed.txt");
    const PROGRESS: &str = include_str!("../tests/outputs/progress.txt");
    const TOO_FEW: &str = include_str!("../tests/outputs/too-few-ranks.txt");

    #[test]
    fn every_result_line_is_read_with_its_residual() {
        let output = read(THREE);
        assert_eq!(output.version.as_deref(), Some("2.3"));
        assert!(output.ended && output.errors.is_empty());
        let nbs: Vec<usize> = output.rows.iter().map(|row| row.nb).collect();
        assert_eq!(nbs, [128, 192, 256]);
        let row = &output.rows[1];
        assert_eq!((row.n, row.p, row.q, row.seconds), (8000, 1, 2, Seconds(3.80)));
        assert_eq!(row.rate, FlopsPerSec(89.775e9));
        assert_eq!((row.residual, row.passed), (Some(2.95206088e-03), Some(true)));
    }

    #[test]
    fn failed_is_told_from_passed_and_norms_are_no_results() {
        let output = read(FAILED);
        assert_eq!(output.rows.len(), 1);
        assert_eq!(output.rows[0].passed, Some(false));
        assert_eq!(output.rows[0].residual, Some(2.75856071e-03));
    }

    #[test]
    fn progress_is_never_a_result() {
        let output = read(PROGRESS);
        assert!(PROGRESS.contains("Fraction="));
        assert!(output.rows.len() == 1 && output.rows[0].passed == Some(true));
    }

    #[test]
    fn what_hpl_refuses_is_kept() {
        let output = read(TOO_FEW);
        assert!(output.rows.is_empty() && !output.ended);
        assert_eq!(output.errors[0], "Need at least 4 processes for these tests");
    }

    #[test]
    fn what_is_written_in_hpls_form_is_read_back() {
        let rows = read(THREE).rows;
        let of = |row: &HplRow| ("xhpl (HPL 2.3)".to_owned(), row.clone());
        let text = write(&rows.iter().map(of).collect::<Vec<_>>());
        assert_eq!(read(&text).rows, rows);
        assert_eq!(text.matches("\nProgram: xhpl (HPL 2.3)\n").count(), rows.len());
        // The lines are equal to those of HPL.
        for line in THREE.lines().filter(|line| line.starts_with("WR") || line.starts_with("||Ax"))
        {
            assert!(text.lines().any(|written| written == line), "{line}");
        }
    }
}
