//! Exporter of JUnit XML, which Jenkins (`junit-10.xsd` of the xUnit plugin) and GitLab read. Each run becomes a suite,
//! with one test case for completeness, one per figure, and one per condition.

use super::{Document, ExportInput, Exporter};
use crate::figures::{self, Conditions, IdentifiedFigure};
use crate::markup::{Markup, element, text};
use crate::{head, run};
use nodegauge_analysis::facts;
use nodegauge_measure::Failure;
use nodegauge_measure::keys::Registry;
use nodegauge_measure::record::{Record, Status};

/// Exporter of the format `junit`.
pub(super) struct Junit;

impl Exporter for Junit {
    fn name(&self) -> &'static str {
        "junit"
    }

    fn purpose(&self) -> &'static str {
        "JUnit XML for Jenkins and GitLab: a test case per figure and `--expect`; exit code 1 if a test case fails"
    }

    fn extension(&self) -> &'static str {
        "xml"
    }

    fn export(&self, export: &ExportInput<'_>) -> Result<Vec<Document>, Failure> {
        let text = document(export.records, export.conditions, export.registry);
        Ok(Document::single(text))
    }

    fn reports_failures(&self) -> bool {
        true
    }
}

/// Test case with its result.
struct Case {
    class: String,
    name: String,
    /// XML element, type and message of the failure, if any.
    failed: Option<(&'static str, &'static str, String)>,
    output: String,
}

/// Returns the document, with one suite per run.
fn document(records: &[Record], conditions: Conditions<'_>, registry: &Registry) -> String {
    let several = records.len() > 1;
    // Some tools identify a suite over several builds by its name, so the name of the only run must be the same in all
    // builds.
    let alone =
        |record: &Record| record.machine.host.clone().unwrap_or_else(|| "nodegauge".to_owned());
    let run_names =
        if several { run::run_names(records) } else { records.iter().map(alone).collect() };
    let suites: Vec<(&Record, &String, Vec<Case>)> = records
        .iter()
        .zip(&run_names)
        .map(|(record, name)| {
            let mut cases = cases(record, conditions, registry);
            // Some tools do not show the suite of a test case, so the name of the test case contains the suite name.
            cases
                .iter_mut()
                .filter(|_| several)
                .for_each(|case| case.name += &format!(" [{name}]"));
            (record, name, cases)
        })
        .collect();
    let [tests, failures, errors] = counts(suites.iter().flat_map(|(.., cases)| cases));
    let seconds = records.iter().map(|record| record.seconds.0).sum::<f64>();
    let seconds = format!("{seconds:.3}");
    let attributes = [
        ("name", "nodegauge"),
        ("tests", &tests),
        ("failures", &failures),
        ("errors", &errors),
        ("time", &seconds),
    ];
    let suites = suites.iter().map(|(record, name, cases)| suite(record, name, cases));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n",
        element("testsuites", &attributes, suites)
    )
}

/// Returns the numbers of test cases, failures and errors.
fn counts<'a>(cases: impl Iterator<Item = &'a Case> + Clone) -> [String; 3] {
    let [failures, errors] = ["failure", "error"].map(|kind| {
        let failed = cases.clone().filter_map(|case| case.failed.as_ref());
        failed.filter(|(element, ..)| *element == kind).count()
    });
    [cases.count(), failures, errors].map(|count| count.to_string())
}

fn suite(record: &Record, name: &str, cases: &[Case]) -> Markup {
    let [tests, failures, errors] = counts(cases.iter());
    let seconds = format!("{:.3}", record.seconds.0);
    let attributes = [
        ("name", name),
        ("tests", &tests),
        ("failures", &failures),
        ("errors", &errors),
        ("skipped", "0"),
        ("time", &seconds),
        ("timestamp", &record.started),
        ("hostname", record.machine.host.as_deref().unwrap_or_default()),
    ];
    let mut known = vec![
        ("id".to_owned(), record.id.clone()),
        ("version".to_owned(), record.tool.version.clone()),
    ];
    for fact in [facts::PROCESSOR, facts::KERNEL] {
        known.extend(fact.text(&record.machine).map(|text| (fact.name.to_owned(), text)));
    }
    let labels = record.labels.iter().map(|(key, value)| (format!("label.{key}"), value.clone()));
    let command = ("command".to_owned(), run::repeat_command(record));
    let properties = known.into_iter().chain([command]).chain(labels);
    let properties = properties
        .map(|(key, value)| element("property", &[("name", &key), ("value", &value)], []));
    let cases = cases.iter().map(case);
    element(
        "testsuite",
        &attributes,
        std::iter::once(element("properties", &[], properties)).chain(cases),
    )
}

fn case(case: &Case) -> Markup {
    let failed = case.failed.as_ref().map(|(kind, of, words)| {
        let first = words.lines().next().unwrap_or_default();
        element(kind, &[("type", of), ("message", first)], [text(words)])
    });
    let output =
        (!case.output.is_empty()).then(|| element("system-out", &[], [text(&case.output)]));
    let inside = failed.into_iter().chain(output);
    element("testcase", &[("classname", &case.class), ("name", &case.name)], inside)
}

fn cases(record: &Record, conditions: Conditions<'_>, registry: &Registry) -> Vec<Case> {
    let complete = Case {
        class: "run".to_owned(),
        name: "complete".to_owned(),
        failed: (!record.complete).then_some((
            "error",
            "incomplete",
            head::INCOMPLETE_RUN.to_owned(),
        )),
        output: String::new(),
    };
    let mut cases = vec![complete];
    cases.extend(
        figures::measured_figures(record, registry)
            .iter()
            .map(|one| figure(one, conditions.strict)),
    );
    for expectation in conditions.expect {
        let judged = expectation.check(&record.measurements, conditions.accept_suspect, registry);
        let words = judged.in_words(expectation);
        let mut case = Case {
            class: "expect".to_owned(),
            name: expectation.to_string(),
            failed: None,
            output: String::new(),
        };
        if judged.is_met() {
            case.output = words;
        } else {
            case.failed = Some(("failure", "unmet", words));
        }
        cases.push(case);
    }
    cases
}

/// Returns the test case of a figure. An invalid figure fails; with `strict`, a suspect figure fails, too.
fn figure(figure: &IdentifiedFigure<'_>, strict: bool) -> Case {
    let validity = &figure.m.validity;
    let fails = match validity.status {
        Status::Invalid => true,
        Status::Suspect => strict,
        Status::Valid => false,
    };
    let why = match validity.reasons.as_slice() {
        [] => "no reason is given".to_owned(),
        reasons => reasons.join("\n"),
    };
    Case {
        class: format!("{}.{}", figure.m.gauge, figure.m.test),
        name: figure.title(),
        failed: fails.then(|| ("failure", validity.status.name(), why)),
        output: figure.evidence().join("\n"),
    }
}
