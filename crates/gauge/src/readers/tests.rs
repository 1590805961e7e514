use super::*;
use nodegauge_measure::Unit;
use nodegauge_measure::record::{Quoted, Status};

/// Reader of a program whose runs begin with its name, and whose figures follow an equals sign.
struct NamedReader {
    program: &'static str,
    takes_description: bool,
}

impl Reader for NamedReader {
    fn program(&self) -> &'static str {
        self.program
    }

    fn doubts(&self) -> &'static str {
        "a figure that is not positive"
    }

    fn runs(&self, text: &str) -> Vec<usize> {
        printed::marked_lines(text, |line| line == self.program)
    }

    fn takes_description(&self) -> bool {
        self.takes_description
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, UnreadOutput> {
        let mut figures = Vec::new();
        for value in text.lines().filter_map(|line| line.strip_prefix('=')) {
            let value: f64 = value.parse().map_err(|_| format!("{value:?} is not a number"))?;
            let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
            figures.push(m.sampled(Quoted::Single, vec![value]));
        }
        Ok(figures.into())
    }
}

const ALPHA: NamedReader = NamedReader { program: "alpha", takes_description: true };
const BETA: NamedReader = NamedReader { program: "beta", takes_description: false };

fn read_as(text: &str, known: &KnownRun) -> Result<PrintedRun, ReadError> {
    read(&[&ALPHA, &BETA], text, &ReadContext { machine: &Machine::default(), known })
}

/// Returns the failure of a text in one line.
fn failure(text: &str) -> String {
    read_as(text, &KnownRun::default()).unwrap_err().into_failure("x.txt").single_line()
}

#[test]
fn error_is_that_of_the_recognised_program() {
    let run = read_as("beta\n=5\n", &KnownRun::default()).unwrap();
    assert_eq!(run.measurements[0].value, Some(5.0));
    let message = failure("beta\n=many\n");
    assert!(message.starts_with("x.txt, output of beta"), "{message}");
    assert!(message.contains("\"many\" is not a number"), "{message}");
    assert!(failure("beta\n").contains("it contains no figures"));
    let unknown = failure("gamma\n=5\n");
    assert!(unknown.starts_with("x.txt is not the output of alpha or beta"), "{unknown}");
}

#[test]
fn programs_are_alternatives() {
    assert_eq!(programs(&[&BETA]), "beta");
    assert_eq!(programs(&[&ALPHA, &BETA]), "alpha or beta");
}

#[test]
fn several_runs_are_named_with_their_lines() {
    let message = failure("beta\n=5\nalpha\n=6\nbeta\n");
    assert!(message.contains("3 runs (1 of alpha, 2 of beta)"), "{message}");
    assert!(message.contains("lines 1, 3, 5"), "{message}");
    let many = failure(&"beta\n".repeat(30));
    assert!(many.contains("9, 10 and 20 other lines"), "{many}");
}

#[test]
fn given_properties_are_refused_for_other_programs() {
    let known = KnownRun { threads: Some(2), ..KnownRun::default() };
    assert!(read_as("alpha\n=5\n", &known).is_ok());
    let refused = read_as("beta\n=5\n", &known).unwrap_err().into_failure("x.txt").single_line();
    assert!(refused.starts_with("--threads: x.txt is output of beta, not of alpha"), "{refused}");
}

#[test]
fn figure_that_is_not_positive_is_missing() {
    let run = read_as("alpha\n=0\n=-1\n=7\n", &KnownRun::default()).unwrap();
    let values: Vec<Option<f64>> = run.measurements.iter().map(|m| m.value).collect();
    assert_eq!(values, [None, None, Some(7.0)]);
    assert_eq!(run.measurements[0].validity.status, Status::Invalid);
}
