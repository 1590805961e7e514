//! Tests of invalid option values: every error message points to the invalid character.

use crate::failure::Failure;
use nodegauge_measure::SyntaxError;

#[test]
fn invalid_value_is_reported_with_its_column() {
    let mut section = Vec::new();
    let mut checked = 0;
    let lines = include_str!("grammars.txt").lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let parts: Vec<&'static str> = line.split(" | ").map(str::trim).collect();
        assert_eq!(parts.len(), 3, "{line}");
        if !line.starts_with(' ') {
            section = parts;
            continue;
        }
        let (command, option) = section[0].rsplit_once(' ').unwrap();
        let option = format!("{option}={}", parts[0]);
        let words = ["nodegauge"].into_iter().chain(command.split(' ')).chain([&option[..]]);
        let error = super::command().try_get_matches_from(words).unwrap_err();
        let expected = SyntaxError {
            what: section[1],
            input: parts[0].to_owned(),
            at: parts[1].parse().unwrap(),
            problem: parts[2].to_owned(),
            example: section[2],
            suggestion: None,
        };
        let failure = super::hints::failure(&error, &[]).unwrap();
        assert_eq!(failure.message, Failure::from(&expected).message, "{line}");
        let hint = failure.hint.unwrap_or_default();
        let is_name = hint.starts_with("did you mean ");
        assert!(is_name || hint == format!("e.g. {}", expected.example), "{line}: {hint}");
        checked += 1;
    }
    assert!(checked > 60, "{checked}");
}
