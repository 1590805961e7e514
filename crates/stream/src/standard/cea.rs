//! Output of CEA's mpi_stream on several processes: the Triad rate of each process, with its host. The samples of a
//! host's figure are the rates of its processes.

use crate::GAUGE;
use crate::config::StreamConfig;
use nodegauge_gauge::view::group_by_key;
use nodegauge_measure::figure_names::stream::TEST;
use nodegauge_measure::record::{Category, Measurement, QuotedStatistic};
use nodegauge_measure::{Unit, printed};

/// Line that precedes the rates of the processes.
const BEGIN: &str = "Triad Rate (MB/s):";
/// Label of the maximum rate in the summary.
const MAX_LABEL: &str = "TRIAD_MAX ";
/// Label of the minimum rate in the summary.
const MIN_LABEL: &str = "TRIAD_MIN ";
/// Label of the mean rate in the summary.
const MEAN_LABEL: &str = "TRIAD_AVG ";

/// Maximum difference between a rate of the summary and that of the printed rates, MB/s: all have six decimals.
const ROUNDED: f64 = 1.1e-6;

/// Returns the figures of a text; `None` if the text is not an output of this program. The error is a text for the end
/// of a sentence.
pub(super) fn figures(
    text: &str,
    version: Option<String>,
) -> Option<Result<Vec<Measurement>, String>> {
    let mut lines =
        printed::whole_lines(text).lines().map(str::trim).skip_while(|line| *line != BEGIN);
    lines.next()?;
    let mut rates: Vec<(&str, f64)> = Vec::new();
    for line in lines {
        let mut words = line.split_whitespace();
        let (Some(host), Some(rate), None) = (words.next(), words.next(), words.next()) else {
            break;
        };
        let Some(rate) = rate.parse().ok().filter(|rate: &f64| printed::can_be_figure(*rate))
        else {
            return Some(Err(format!("the rate of a process cannot be read: {line:?}")));
        };
        rates.push((host, rate));
    }
    Some(checked(text, &rates).map(|()| measurements(text, &rates, version)))
}

/// Checks that the rates agree with the printed summary.
fn checked(text: &str, rates: &[(&str, f64)]) -> Result<(), String> {
    let values: Vec<f64> = rates.iter().map(|(_, rate)| *rate).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    for (label, own) in [(MAX_LABEL, most), (MIN_LABEL, least), (MEAN_LABEL, mean)] {
        let printed = summary_rate(text, label)?;
        let error = (printed - own).abs();
        if error.is_nan() || error > ROUNDED {
            return Err(format!("{} does not follow from the rates above it", label.trim()));
        }
    }
    Ok(())
}

/// Returns the rate in a line of the summary.
fn summary_rate(text: &str, label: &str) -> Result<f64, String> {
    let line = text.lines().map(str::trim).find(|line| line.starts_with(label));
    let words = line.and_then(|line| line.split_once('=')).map(|(_, words)| words.trim());
    let mut words = words.unwrap_or_default().split_whitespace();
    let value = words.next().and_then(|word| word.parse().ok());
    let is_rate = words.next() == Some("MB/s");
    value
        .filter(|_| is_rate)
        .ok_or_else(|| format!("the line {:?} of its summary is missing", label.trim()))
}

/// Returns the count after a label.
fn count(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(label))?;
    line.trim().split([' ', ',']).next()?.parse().ok()
}

/// Returns the figure of each host: the mean rate of its processes.
fn measurements(text: &str, rates: &[(&str, f64)], version: Option<String>) -> Vec<Measurement> {
    let mut all = Vec::new();
    for (host, own) in group_by_key(rates.iter(), |(host, _)| *host) {
        let own: Vec<f64> = own.into_iter().map(|(_, rate)| rate * 1e6).collect();
        let mut config = StreamConfig {
            engine: Some("mpi_stream".to_owned()),
            engine_version: version.clone(),
            threads: count(text, "Number of Threads requested ="),
            ntimes: count(text, "Each test is run"),
            ..StreamConfig::default()
        };
        config.of.host = Some(host.to_owned());
        let m = Measurement::new(GAUGE, TEST, "triad", Unit::BytesPerSecond);
        let m = m.with_category(Category::Reference).with_samples(QuotedStatistic::Mean, own);
        all.push(m.with_config(&config));
    }
    all
}
