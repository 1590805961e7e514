//! Quotation of other programs' output in errors, pages and records. A program may print lines of any length, so only a
//! few lines are quoted, each with at most a few hundred characters.

use nodegauge_measure::legible;
use std::time::Duration;

/// Words by which compilers and linkers mark errors.
const ERRORS: [&str; 3] = ["error", "undefined reference", "cannot find"];
/// Maximum number of quoted lines.
const LINES: usize = 6;

/// Returns the last lines that are not blank.
pub fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    join(&lines[lines.len().saturating_sub(LINES)..])
}

/// Returns the last line that is not blank; empty if there is none.
pub fn last_line(text: &str) -> String {
    text.lines().rfind(|line| !line.trim().is_empty()).map(legible::quote_line).unwrap_or_default()
}

/// Returns the first lines in which a compiler or linker reports an error; without such lines, the first lines of
/// the text.
pub fn first_errors(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let errors = lines.iter().copied();
    let errors: Vec<&str> =
        errors.filter(|line| ERRORS.iter().any(|words| line.contains(words))).take(LINES).collect();
    if errors.is_empty() { join(&lines[..lines.len().min(LINES)]) } else { join(&errors) }
}

fn join(lines: &[&str]) -> String {
    lines.iter().map(|line| legible::quote_line(line)).collect::<Vec<_>>().join("\n")
}

/// Quotes the last lines of a program's output for the end of a message; empty if there are none.
pub fn quoted_lines(error_tail: &str) -> String {
    if error_tail.is_empty() { String::new() } else { format!(":\n{error_tail}") }
}

/// Returns the end of a message about a program that reached its time limit.
pub fn time_limit_message(limit: Duration) -> String {
    killed("took longer than", limit)
}

/// Returns the end of a reason that begins with the name of a program. The program reached its time limit without a
/// result.
pub fn limit_exceeded_clause(limit: Duration) -> String {
    killed("exceeded", limit)
}

fn killed(what: &str, limit: Duration) -> String {
    if limit.is_zero() {
        return "was not started, because no time is left".to_owned();
    }
    format!("{what} {} s and was killed", in_tenths(limit))
}

/// Returns the reason for a program that did not respond within its time limit.
pub fn no_response_reason(limit: Duration) -> String {
    if limit.is_zero() {
        return "no response, because no time is left".to_owned();
    }
    format!("no response within {} s", in_tenths(limit))
}

fn in_tenths(limit: Duration) -> f64 {
    (limit.as_secs_f64() * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_or_errors_of_output_are_quoted() {
        assert_eq!(last_lines("1\n2\n\n3\n4\n5\n6\n7\n"), "2\n3\n4\n5\n6\n7");
        assert_eq!(last_line("1\n2\n \n"), "2");
        assert_eq!(first_errors("a.c: In main\na.c:1: error: x\nnote"), "a.c:1: error: x");
        let link = "ld: cannot find -lomp\nclang: error: linker command failed";
        assert_eq!(first_errors(link), link);
        assert_eq!(first_errors("one\n\ntwo\n"), "one\ntwo");
    }

    #[test]
    fn long_line_is_shortened() {
        let endless = format!("error: {}", "y".repeat(1 << 20));
        for quoted in [last_lines(&endless), last_line(&endless), first_errors(&endless)] {
            assert!(quoted.starts_with("error: yyy") && quoted.len() < 600, "{}", quoted.len());
            assert!(quoted.contains(" characters)..."), "{quoted}");
        }
    }

    #[test]
    fn time_limit_is_printed_in_tenths() {
        let message = |seconds| time_limit_message(Duration::from_secs_f64(seconds));
        assert_eq!(message(60.0), "took longer than 60 s and was killed");
        assert_eq!(
            limit_exceeded_clause(Duration::from_millis(7324)),
            "exceeded 7.3 s and was killed"
        );
        assert_eq!(message(0.0), "was not started, because no time is left");
    }
}
