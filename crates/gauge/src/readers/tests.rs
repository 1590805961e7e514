use super::*;
use nodegauge_measure::Unit;
use nodegauge_measure::record::{QuotedStatistic, Status};

/// Reader of a program that begins its output with its name and prints figures as `=VALUE`.
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

    fn mark(&self, line: &str) -> Option<RunMark> {
        let is_end = line == format!("end of {}", self.program);
        match line {
            _ if line == self.program => Some(RunMark::TITLE),
            _ if line == format!("{{ \"{}\": 1 }}", self.program) => Some(RunMark::DOCUMENT),
            _ if line == format!("{} table", self.program) => Some(RunMark::once(1)),
            _ => is_end.then_some(RunMark::once(2)),
        }
    }

    fn last_phase(&self) -> Option<u8> {
        Some(2)
    }

    fn takes_description(&self) -> bool {
        self.takes_description
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let mut figures = Vec::new();
        for value in text.lines().filter_map(|line| line.strip_prefix('=')) {
            let value: f64 = value.parse().map_err(|_| format!("{value:?} is not a number"))?;
            let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
            figures.push(m.with_samples(QuotedStatistic::Single, vec![value]));
        }
        Ok(figures.into())
    }
}

const ALPHA: NamedReader = NamedReader { program: "alpha", takes_description: true };
const BETA: NamedReader = NamedReader { program: "beta", takes_description: false };

fn read_as(text: &str, known: &GivenRunProperties) -> Result<Vec<ParsedRun>, ReadError> {
    read(&[&ALPHA, &BETA], text, &ReadContext { machine: &Machine::default(), known })
}

/// Returns the program, the first line and the values of each run in a text.
fn runs_of(text: &str) -> Vec<(&'static str, usize, Vec<f64>)> {
    let runs = read_as(text, &GivenRunProperties::default()).unwrap();
    let values = |run: &ParsedRun| {
        let printed = run.printed.clone().unwrap_or_default();
        printed.measurements.iter().filter_map(|m| m.value).collect()
    };
    runs.iter().map(|run| (run.program, run.line, values(run))).collect()
}

#[test]
fn error_names_the_recognised_program() {
    assert_eq!(runs_of("beta\n=5\n"), [("beta", 1, vec![5.0])]);
    let of = |text: &str| {
        let run = read_as(text, &GivenRunProperties::default()).unwrap().remove(0);
        let words = run.in_words();
        run.printed.unwrap_err().into_failure("x.txt", &words).single_line()
    };
    let message = of("noise\nbeta\n=many\n");
    assert!(message.starts_with("x.txt, output of beta, line 2"), "{message}");
    assert!(message.contains("\"many\" is not a number"), "{message}");
    assert!(of("beta\n").contains("it contains no figures"));
    let unknown = read_as("gamma\n=5\n", &GivenRunProperties::default()).unwrap_err();
    let unknown = unknown.into_failure("x.txt").single_line();
    assert!(unknown.starts_with("x.txt is not the output of alpha or beta"), "{unknown}");
}

#[test]
fn program_names_are_joined_as_alternatives() {
    assert_eq!(programs(&[&BETA]), "beta");
    assert_eq!(programs(&[&ALPHA, &BETA]), "alpha or beta");
}

#[test]
fn runs_are_separated_despite_lines_between_them() {
    let text = "slurm: start\nbeta\n=5\n+ ./alpha\nalpha\n=6\nmotd\nbeta\n=7\n";
    let expected = [("beta", 2, vec![5.0]), ("alpha", 5, vec![6.0]), ("beta", 8, vec![7.0])];
    assert_eq!(runs_of(text), expected);
    // A title that is printed twice begins only one run. A killed run ends where the next one begins.
    assert_eq!(runs_of("beta\nbeta\n=5\n").len(), 1);
    assert_eq!(runs_of("beta\n=5\nbeta\n=6\n").len(), 2);
    assert_eq!(runs_of("beta\nbeta table\nbeta\nbeta table\n=5\n").len(), 2);
    // A run whose title is missing begins with its table.
    assert_eq!(runs_of("beta\n=1\nend of beta\nbeta table\n=2\n").len(), 2);
    let tagged = "[1,1]<stdout>:beta\n[1,0]<stdout>:alpha\n[1,1]<stdout>:=5\n[1,0]<stdout>:=6\n";
    assert_eq!(runs_of(tagged), [("alpha", 2, vec![6.0]), ("beta", 1, vec![5.0])]);
}

#[test]
fn mixed_lines_of_two_programs_are_refused() {
    let mixed =
        read_as("alpha\nbeta\n=1\nalpha table\n=2\nbeta table\n", &GivenRunProperties::default());
    let message = mixed.unwrap_err().into_failure("x.txt").single_line();
    assert!(message.starts_with("x.txt has lines of alpha between lines of beta"), "{message}");
    // A document is a separate run, so a table of the same program after it begins another run.
    let document = "{ \"alpha\": 1 }\nbeta\n=2\nend of beta\nalpha table\n=3\n";
    assert_eq!(runs_of(document).len(), 3);
    let with_table = "{ \"alpha\": 1 }\nalpha table\n=3\n";
    assert_eq!(runs_of(with_table).len(), 2);
    // After its end, a program may run again.
    let again = "alpha\n=1\nend of alpha\nbeta\n=2\nend of beta\nalpha table\n=3\n";
    assert_eq!(runs_of(again).len(), 3);
}

#[test]
fn described_properties_are_refused_for_other_programs() {
    let known = GivenRunProperties { threads: Some(2), ..GivenRunProperties::default() };
    assert!(read_as("alpha\n=5\n", &known).is_ok());
    let refused = read_as("beta\n=5\n", &known).unwrap_err().into_failure("x.txt").single_line();
    assert!(refused.starts_with("--threads: x.txt is output of beta, not of alpha"), "{refused}");
}

#[test]
fn figure_that_is_not_positive_is_invalid() {
    let run = read_as("alpha\n=0\n=-1\n=7\n", &GivenRunProperties::default()).unwrap().remove(0);
    let run = run.printed.unwrap();
    let values: Vec<Option<f64>> = run.measurements.iter().map(|m| m.value).collect();
    assert_eq!(values, [None, None, Some(7.0)]);
    assert_eq!(run.measurements[0].validity.status, Status::Invalid);
}
