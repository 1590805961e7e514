//! Parser and writer of the output of xhpl and hpcc: result lines with residuals. This module does no I/O.
//!
//! A result line begins with its variant, `WR11C2R4`: W, the mapping R or C, and digits. Other lines may also begin
//! with W. The rate has five digits and is computed from the unrounded time. Progress lines begin differently and are
//! not results.

use nodegauge_gauge::readers::RunMark;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::{FlopsPerSec, Seconds, printed};
use std::collections::BTreeMap;
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
    /// Time of the solve, seconds, with two decimals.
    pub seconds: Seconds,
    /// Rate in FLOP/s.
    pub rate: FlopsPerSec,
    /// Scaled residual; `None` if none was printed.
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
    /// Number of tests that HPL reports at the end.
    pub finished_tests: Option<usize>,
    /// Number of tests that HPL reports as skipped, without a result.
    pub skipped_tests: usize,
    /// True if the output contains HPL's last line.
    pub ended: bool,
    /// True if a result line of another program than NVIDIA's HPL has a variant that names no algorithm, e.g. `WR0` of
    /// rocHPL-MxP.
    pub has_bare_variant: bool,
    /// True if the output has a line of rocHPL-MxP, whose output is otherwise that of HPL.
    pub is_mixed_precision: bool,
    /// True if a last line without a line end was not read, because it may be cut in the middle of a number.
    pub is_truncated: bool,
}

impl HplOutput {
    /// Returns the reason why the output may be incomplete.
    pub fn incomplete_reason(&self) -> Option<String> {
        let rows = self.rows.len();
        if self.is_truncated {
            return Some(format!("the last line has no line end: {}", printed::TRUNCATION_REASON));
        }
        if !self.ended {
            return Some(format!(
                "HPL's last line \"{END}\" is missing: {}",
                printed::TRUNCATION_REASON
            ));
        }
        let solved =
            self.finished_tests.map(|finished| finished.saturating_sub(self.skipped_tests));
        solved.filter(|solved| *solved != rows).map(|finished| {
            format!("HPL finished {}, but the output has {rows}", count_in_words(finished, "test"))
        })
    }
}

/// Phase of the last line of a run.
pub(crate) const END_PHASE: u8 = 2;

/// Returns the position of a line in the order of the lines of a run: title, tables of results, last line.
pub(crate) fn mark(line: &str) -> Option<RunMark> {
    match line.as_bytes().first()? {
        b'H' => title_version(line).map(|_| RunMark::TITLE),
        b'W' => encoded_variant(line).map(|_| RunMark::repeated(1)),
        b'E' => line.starts_with(END).then_some(RunMark::once(END_PHASE)),
        _ => None,
    }
}

/// Last line of HPL's output.
const END: &str = "End of Tests.";

/// Length of a variant that names no algorithm, such as `WR0`.
const BARE: usize = 3;

/// First characters of the lines in which rocHPL-MxP prints when its solve began and ended.
const MIXED_PRECISION: &str = "HPLMXP_pdgesv()";

/// Words after the number of tests without a result.
const SKIPPED: &str = "tests skipped because of illegal input values.";

/// First words of the titles of HPL, and of NVIDIA's variant.
const TITLES: [&str; 2] = ["HPLinpack ", "HPL-NVIDIA "];

/// Returns the version in HPL's title: `2.3`, or `NVIDIA 23.5.0`.
pub(crate) fn title_version(line: &str) -> Option<String> {
    let line = line.trim_start();
    let (title, rest) =
        TITLES.iter().find_map(|title| Some((*title, line.strip_prefix(title)?)))?;
    let version = rest.split_whitespace().next()?.trim_start_matches('v');
    version.starts_with(|c: char| c.is_ascii_digit()).then_some(())?;
    let vendor = title.trim_end().split_once('-').map(|(_, vendor)| format!("{vendor} "));
    Some(vendor.unwrap_or_default() + version)
}

/// Returns the encoded variant at the beginning of a result line: `WR11C2R4`, `WC0`.
fn encoded_variant(line: &str) -> Option<&str> {
    let after = line.strip_prefix("WR").or_else(|| line.strip_prefix("WC"))?;
    after.starts_with(|c: char| c.is_ascii_digit()).then_some(())?;
    let variant = line.split_whitespace().next()?;
    let is_code = variant.bytes().all(|byte| byte.is_ascii_alphanumeric());
    // A sentence may begin with such a word, too.
    let is_row = line.split_whitespace().nth(1)?.bytes().all(|byte| byte.is_ascii_digit());
    (is_code && is_row).then_some(variant)
}

/// True if a line contains words, i.e. is not a rule.
fn is_word(line: &str) -> bool {
    line.contains(char::is_alphanumeric)
}

/// Parses a number. Only finite numbers are accepted, because a record with other numbers could not be read again.
fn finite(word: &str) -> Option<f64> {
    word.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Returns the number of rows with this verdict.
fn count(rows: &[(String, HplRow)], verdict: bool) -> usize {
    rows.iter().filter(|(_, row)| row.passed == Some(verdict)).count()
}

/// Parses the output of xhpl or hpcc.
pub fn read(text: &str) -> HplOutput {
    // The last line is a rule after the last line with words.
    let is_truncated = printed::unterminated_line(text).is_some_and(is_word);
    let mut output = HplOutput { is_truncated, ..HplOutput::default() };
    let mut residuals: BTreeMap<usize, usize> = BTreeMap::new();
    for line in printed::whole_lines(text).lines() {
        if let Some(version) = title_version(line) {
            output.version = Some(version);
        } else if let Some(row) = row(line) {
            output.has_bare_variant |= row.variant.len() == BARE && !line.contains('(');
            output.rows.push(row);
        } else if line.starts_with(MIXED_PRECISION) {
            output.is_mixed_precision = true;
        } else if encoded_variant(line).is_some() {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            output.errors.push(format!("the numbers of a result contradict each other: {line}"));
        } else if line.starts_with(RESIDUAL) || line.starts_with(HPL_1_RESIDUAL) {
            if let (Some(row), Some((_, value))) = (output.rows.last_mut(), line.split_once('=')) {
                row.add_residual(value);
                if line.starts_with(HPL_1_RESIDUAL) {
                    *residuals.entry(output.rows.len() - 1).or_default() += 1;
                }
            }
        } else if let Some(error) = line.trim().strip_prefix(">>>") {
            output.errors.push(error.trim_end_matches("<<<").trim().to_owned());
        } else if let Some(rest) = line.strip_prefix("Finished ") {
            let number = rest.split_whitespace().next().and_then(|word| word.parse().ok());
            output.finished_tests =
                number.filter(|_| rest.contains("tests with the following results"));
        } else if let Some(number) = line.trim().strip_suffix(SKIPPED) {
            output.skipped_tests = number.trim().parse().unwrap_or_default();
        } else if line.starts_with(END) {
            output.ended = true;
        }
    }
    for (at, count) in residuals {
        // If a residual is missing, the result may have failed.
        let passed = &mut output.rows[at].passed;
        *passed = passed.filter(|passed| !passed || count == HPL_1_RESIDUAL_COUNT);
    }
    output
}

/// Beginning of the line with the residual of a result.
const RESIDUAL: &str = "||Ax-b||_oo/(eps*";
/// Beginning of the lines with residuals of HPL 1.
const HPL_1_RESIDUAL: &str = "||Ax-b||_oo / ( eps *";
/// Number of residuals that HPL 1 prints for each result.
const HPL_1_RESIDUAL_COUNT: usize = 3;

/// Parses a result line. NVIDIA's variant prints the rate per device in parentheses after the rate.
fn row(line: &str) -> Option<HplRow> {
    let variant = encoded_variant(line)?;
    let line = line.replace(['(', ')'], " ");
    let words: Vec<&str> = line.split_whitespace().collect();
    let (words, per_device) = match words[..] {
        [ref row @ .., each] if row.len() == 7 => (row.to_vec(), Some(finite(each)?)),
        _ => (words, None),
    };
    let [_, n, nb, p, q, seconds, gflops] = words[..] else { return None };
    let gflops = finite(gflops)?;
    let rate = Some(gflops * 1e9).filter(|rate| printed::can_be_figure(*rate))?;
    let row = HplRow {
        variant: variant.to_owned(),
        n: n.parse().ok()?,
        nb: nb.parse().ok()?,
        p: p.parse().ok()?,
        q: q.parse().ok()?,
        seconds: Seconds(finite(seconds)?),
        rate: FlopsPerSec(rate),
        residual: None,
        passed: None,
    };
    let devices = gflops / per_device.unwrap_or(gflops);
    let is_count = (devices - devices.round()).abs() < 2e-3 * devices && devices >= 1.0 - 1e-3;
    (is_count && row.is_consistent()).then_some(row)
}

impl HplRow {
    /// Adds a residual and its verdict, as printed after the equals sign. A result passes only if all of its residuals
    /// do.
    fn add_residual(&mut self, printed: &str) {
        let mut words = printed.split_whitespace();
        let residual: Option<f64> = words.next().and_then(|word| word.parse().ok());
        let passed = match words.next_back() {
            Some("PASSED") => Some(true),
            Some("FAILED") => Some(false),
            _ => None,
        };
        if self.residual.is_none() && self.passed.is_none() {
            self.residual = residual;
            self.passed = passed;
            return;
        }
        self.residual = self.residual.zip(residual).map(|(one, other)| one.max(other));
        self.passed = match (self.passed, passed) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        };
    }

    /// True if the rate follows from N and the time, within the printed digits.
    fn is_consistent(&self) -> bool {
        /// Error of the printed time, seconds; the time has two decimals.
        const TIME: f64 = 0.006;
        /// Relative error of the printed rate; some versions print only three digits.
        const RATE: f64 = 6e-3;
        let n = self.n as f64;
        let operations = n * n * (2.0 / 3.0 * n + 1.5);
        let Seconds(seconds) = self.seconds;
        let FlopsPerSec(rate) = self.rate;
        let least = operations / (seconds + TIME);
        let most = if seconds > TIME { operations / (seconds - TIME) } else { f64::INFINITY };
        rate > least * (1.0 - RATE) && rate < most * (1.0 + RATE)
    }
}

/// Formats rows as HPL prints them, for scripts that parse HPL's output. Each row is preceded by a line with the name
/// of the program, in the format of HPL's description of its input. The `variant` of a native run encodes the
/// algorithm: row-major, look-ahead, recursive.
pub fn format_rows(rows: &[(String, HplRow)]) -> String {
    let double = "=".repeat(80);
    let single = "-".repeat(80);
    let passed = count(rows, true);
    let failed = count(rows, false);
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
        "{double}\n\nFinished {:>6} tests with the following results:\n         {passed:>6} tests completed and passed residual checks,\n         {failed:>6} tests completed and failed residual checks,\n         {:>6} {SKIPPED}\n{single}\n\nEnd of Tests.\n{double}",
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
    fn failed_results_are_read_and_norms_are_ignored() {
        let output = read(FAILED);
        assert_eq!(output.rows.len(), 1);
        assert_eq!(output.rows[0].passed, Some(false));
        assert_eq!(output.rows[0].residual, Some(2.75856071e-03));
    }

    #[test]
    fn progress_lines_are_not_results() {
        let output = read(PROGRESS);
        assert!(PROGRESS.contains("Fraction="));
        assert!(output.rows.len() == 1 && output.rows[0].passed == Some(true));
    }

    #[test]
    fn error_messages_of_hpl_are_kept() {
        let output = read(TOO_FEW);
        assert!(output.rows.is_empty() && !output.ended);
        assert_eq!(output.errors[0], "Need at least 4 processes for these tests");
    }

    #[test]
    fn missing_parts_of_truncated_output_are_reported() {
        let reason = |text: &str| read(text).incomplete_reason();
        let missing = "HPL's last line \"End of Tests.\" is missing: the output may be cut";
        assert_eq!(reason(THREE), None);
        assert_eq!(reason(THREE.trim_end()), None);
        let first_test = THREE.find("T/V                N    NB     P     Q ").unwrap();
        let second_test = first_test + THREE[first_test + 1..].find("T/V").unwrap();
        assert_eq!(read(&THREE[..second_test]).rows.len(), 1);
        assert_eq!(reason(&THREE[..=second_test]).as_deref(), Some(missing));
        let in_a_rate = THREE.find("8.8289e+01").unwrap() + 4;
        let cut = read(&THREE[..in_a_rate]);
        assert_eq!((cut.rows.len(), cut.is_truncated), (0, true));
        let without_rows: String = THREE
            .lines()
            .filter(|line| !line.contains(" 192 "))
            .map(|l| format!("{l}\n"))
            .collect();
        assert_eq!(
            reason(&without_rows).as_deref(),
            Some("HPL finished 3 tests, but the output has 2")
        );
        let skipped = without_rows.replace("0 tests skipped", "1 tests skipped");
        assert_eq!(reason(&skipped), None);
    }

    #[test]
    fn hpl_output_format_round_trips() {
        let rows = read(THREE).rows;
        let of = |row: &HplRow| ("xhpl (HPL 2.3)".to_owned(), row.clone());
        let text = format_rows(&rows.iter().map(of).collect::<Vec<_>>());
        assert_eq!(read(&text).rows, rows);
        assert_eq!(text.matches("\nProgram: xhpl (HPL 2.3)\n").count(), rows.len());
        // The lines are equal to those of HPL.
        for line in THREE.lines().filter(|line| line.starts_with("WR") || line.starts_with("||Ax"))
        {
            assert!(text.lines().any(|written| written == line), "{line}");
        }
    }
}
