//! Series to which the samples of `watch` belong: a saved series that has not ended, or a new one.

use super::WatchRequest;
use humantime::format_duration;
use nodegauge_gauge::MeasuredNode;
use nodegauge_gauge::view::sentence;
use nodegauge_history::LabelledRuns;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::{Failure, record};
use std::time::SystemTime;

/// Default label of a series.
const LABEL: &str = "watch";

/// Series of samples, identified by the first label of its records.
pub(super) struct SampleSeries {
    pub(super) labels: Vec<(String, String)>,
    pub(super) start: SystemTime,
    /// Number of saved runs of the series.
    pub(super) samples: usize,
}

impl SampleSeries {
    /// Returns the saved series to continue, or a new one.
    ///
    /// Fails if the history cannot be opened, or if the series has already ended.
    pub(super) fn new(request: &WatchRequest, site: &MeasuredNode) -> Result<Self, Failure> {
        let now = SystemTime::now();
        let named = request.labels.first();
        let key = named.map_or(LABEL, |(key, _)| key.as_str());
        let value = named.map(|(_, value)| value.as_str());
        // The history is opened for writing before the first measurement, so that an error is reported early.
        let store = request.history.open()?;
        let host = site.machine.host.as_deref();
        let saved = store.runs_with_label(host, key, value)?.filter(|_| !request.starts_new_series);
        let mut labels = request.labels.clone();
        if let Some(saved) = saved {
            let start = record::parse_rfc3339(&saved.first_start).unwrap_or(now);
            if start + request.duration > now {
                if labels.is_empty() {
                    labels.push((LABEL.to_owned(), saved.value));
                }
                return Ok(Self { labels, start, samples: saved.runs });
            }
            if let Some(label) = named {
                return Err(has_ended(request, label, &saved));
            }
        }
        if labels.is_empty() {
            labels.push((LABEL.to_owned(), record::now_rfc3339()));
        }
        Ok(Self { labels, start: now, samples: 0 })
    }

    /// Describes the series for the first line of the output.
    pub(super) fn in_words(&self, request: &WatchRequest) -> String {
        let (key, value) = &self.labels[0];
        let end = record::format_rfc3339(self.start + request.duration).unwrap_or_default();
        let end = sentence::start_minute(&end);
        let goes_on = match self.samples {
            0 => String::new(),
            n => format!("; continues after {}", count_in_words(n, "run")),
        };
        let every = format_duration(request.every);
        format!("{:11}{key}={value}: a sample every {every} until {end} UTC{goes_on}\n", "watch")
    }
}

/// Returns the failure for a series that has already ended.
fn has_ended(
    request: &WatchRequest,
    (key, value): &(String, String),
    saved: &LabelledRuns,
) -> Failure {
    Failure::usage(format!(
        "series {key}={value} has ended: --for {}, {} since {}",
        format_duration(request.duration),
        count_in_words(saved.runs, "run"),
        saved.first_start,
    ))
    .hint("use a longer --for, another --label, or --anew")
}
