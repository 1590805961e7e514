//! Tests with the golden records of every gauge, whose figures are changed to suspect figures, or get few, single or
//! widely spread samples. Headline, trust and closing line must agree in all renderers.

use super::GAUGES;
use nodegauge_gauge::view::{Block, Page};
use nodegauge_measure::Notice;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Record, Status, Validity, doubt};
use nodegauge_report::{export, run};

/// Reason why figures are suspect in these tests.
const LOAD: &str = "other load took 36 % of the time of a thread";
/// Words of conclusions about a difference, an extreme, a limit or a trend.
const CLAIMS: [&str; 9] = [
    "is fastest",
    "times as fast",
    "saturate",
    "is the fastest",
    "the fastest",
    "no difference",
    "does not affect",
    "at up to",
    "of the speed of shared memory",
];

/// Text that recommends or concludes something from measured figures.
struct Recommendation {
    /// Source file below `crates`.
    source: &'static str,
    /// Words in the text.
    words: &'static str,
}

/// Notices and headings that recommend something because of measured figures, or that name their cause.
const RECOMMENDATIONS: [Recommendation; 10] = [
    Recommendation { source: "compute/src/choose.rs", words: "set this variable for your own" },
    Recommendation { source: "compute/src/result.rs", words: "another BLAS library or other" },
    Recommendation { source: "compute/src/result.rs", words: "a larger N reduces the loss" },
    Recommendation { source: "compute/src/result.rs", words: "check the populated channels" },
    Recommendation { source: "messages/src/figures/lower_bound.rs", words: "try a higher eager" },
    Recommendation { source: "messages/src/figures/lower_bound.rs", words: "check that the MPI" },
    Recommendation { source: "stream/src/ablation.rs", words: "is faster than the best loop for" },
    Recommendation { source: "stream/src/sweep/trend.rs", words: "saturates at" },
    Recommendation { source: "stream/src/sweep/trend.rs", words: "still grows at" },
    Recommendation {
        source: "curves/src/loaded.rs",
        words: "latency is twice the idle latency of",
    },
];

/// Asserts that no notice about suspect figures recommends anything without saying that they are suspect.
pub(super) fn recommends_nothing(name: &str, notices: &[Notice]) {
    for Notice { message: text, .. } in notices {
        let is_open = text.contains("cannot tell") || text.contains("(suspect)");
        let known = RECOMMENDATIONS.iter().find(|known| text.contains(known.words));
        assert!(known.is_none() || is_open, "{name}: {text}");
    }
}

/// When a text in the table moves or changes, change the table. The function with the text must check whether the
/// figures permit a conclusion.
#[test]
fn recommendations_depend_on_validity() {
    for Recommendation { source, words } in RECOMMENDATIONS {
        let path = format!("{}/../{source}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(words), "{source} has no text '{words}'");
        let asks = ["Obstacle::", "conclusion::sentence_or_obstacle", "Status::Valid", "doubted("];
        assert!(asks.iter().any(|call| text.contains(call)), "{source}: '{words}' is not judged");
    }
}

/// Returns the records that gauges of this program measured.
fn measured() -> Vec<(String, Record)> {
    let mut all = super::tests::golden();
    all.retain(|(_, record)| !record.machine.is_imported());
    all
}

/// Returns the record with a change in each figure that it measured itself.
fn changed(record: &Record, change: impl Fn(Measurement) -> Measurement) -> Record {
    let mut record = record.clone();
    for m in &mut record.measurements {
        if m.value.is_some() && !m.is_published() {
            *m = change(m.clone());
        }
    }
    record
}

/// Returns the headline, the closing lines with recommendations, and the picture titles of a page.
fn conclusions(page: &Page) -> Vec<String> {
    let closing = page.sections.iter().filter(|section| section.is_summary());
    let blocks = closing.flat_map(|section| &section.blocks);
    let notes = blocks.filter_map(|block| match block {
        Block::Note(note) => Some(note.text.clone()),
        _ => None,
    });
    let pictures = page.sections.iter().flat_map(|section| &section.blocks);
    let titles = pictures.filter_map(|block| match block {
        Block::Picture(picture) => Some(picture.title.clone()),
        _ => None,
    });
    page.conclusion.iter().cloned().chain(notes).chain(titles).collect()
}

/// Asserts that a page of suspect figures has no conclusion without saying that they are suspect.
fn draws_no_conclusion(name: &str, record: &Record) {
    let page = run::page(record, &GAUGES, true);
    for text in conclusions(&page) {
        let lower = text.to_lowercase();
        for part in lower.split("; ") {
            let is_open = lower.contains("cannot tell") || part.contains("(suspect)");
            let is_claim = CLAIMS.iter().any(|claim| part.contains(claim));
            assert!(!is_claim || is_open, "{name}: {text}");
        }
    }
    let markdown = export::markdown_page(&page);
    let html = export::html_page(&page, "page");
    // Renderers put blanks of their own between numbers and units.
    let plain =
        |text: &str| text.replace('\u{a0}', " ").replace("&#160;", " ").replace("&nbsp;", " ");
    for start in page.conclusion.iter().filter_map(|text| text.get(..20)) {
        let is_plain = start.chars().all(|c| c.is_ascii_alphanumeric() || c == ' ');
        let is_shown = [&markdown, &html].into_iter().all(|text| plain(text).contains(start));
        assert!(!is_plain || is_shown, "{name}: {start}");
    }
}

#[test]
fn suspect_figures_give_no_conclusion() {
    for (name, record) in measured() {
        let suspect = changed(&record, |mut m| {
            m.validity = Validity::valid();
            m.validity.mark_suspect(LOAD);
            m
        });
        draws_no_conclusion(&name, &suspect);
        let page = run::page(&suspect, &GAUGES, true);
        let has_own = suspect.measurements.iter().any(|m| m.value.is_some() && !m.is_published());
        let is_invalid = |m: &Measurement| m.validity.status == Status::Invalid;
        if has_own && !suspect.measurements.iter().any(is_invalid) {
            let trust = page.head.map(|head| head.trust).unwrap_or_default();
            assert!(trust.contains(LOAD), "{name}: {trust}");
        }
    }
}

#[test]
fn validity_rule_applies_to_every_gauge() {
    for (name, record) in measured() {
        let judged = |samples: &dyn Fn(f64) -> Vec<f64>| {
            changed(&record, |m| {
                let quoted = m.quoted;
                let value = m.value.unwrap_or(1.0);
                let mut m = m.with_samples(quoted, samples(value));
                m.limit = None;
                m.disturbed = Vec::new();
                m.validity = Validity::valid();
                m.with_validity(Validity::valid())
            })
        };
        let few = judged(&|value| vec![value; 2]);
        let wide = judged(&|value| (0..6).map(|i| value * 2f64.powi(i)).collect());
        let even = judged(&|value| vec![value; 8]);
        for m in even.measurements.iter().filter(|m| m.value.is_some() && !m.is_published()) {
            assert_eq!(m.validity.status, Status::Valid, "{name}: {}", m.name);
        }
        for doubted in [few, wide] {
            let is_judged = |m: &&Measurement| {
                let is_exempt = m.is_reported() || doubt::doubt_rule(m.quoted).is_none();
                m.value.is_some() && !m.is_published() && !is_exempt
            };
            for m in doubted.measurements.iter().filter(is_judged) {
                assert_eq!(m.validity.status, Status::Suspect, "{name}: {}", m.name);
            }
            let all = doubted.measurements.iter().filter(|m| m.value.is_some());
            if all.clone().all(|m| m.validity.status == Status::Suspect) {
                draws_no_conclusion(&name, &doubted);
            }
        }
    }
}

#[test]
fn single_values_are_exempt_from_the_validity_rule() {
    for (name, record) in measured() {
        let single = changed(&record, |m| {
            let value = m.value.unwrap_or(1.0);
            let mut m = m.with_samples(QuotedStatistic::Single, vec![value]);
            m.limit = None;
            m.disturbed = Vec::new();
            m.validity = Validity::valid();
            m.with_validity(Validity::valid())
        });
        let own = single.measurements.iter().filter(|m| m.value.is_some());
        assert!(own.clone().all(|m| m.validity.status == Status::Valid), "{name}");
        run::page(&single, &GAUGES, true);
    }
}
