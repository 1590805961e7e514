//! A comparison as CSV (RFC 4180): a line a pair, figures in base units.

use super::Pair;

/// The header; new columns go to the end.
const HEADER: [&str; 20] = [
    "gauge",
    "test",
    "name",
    "at",
    "unit",
    "statistic",
    "a",
    "b",
    "ratio",
    "ci95_low",
    "ci95_high",
    "a_median",
    "b_median",
    "median_ratio",
    "verdict",
    "a_samples",
    "b_samples",
    "a_runs",
    "b_runs",
    "reasons",
];

pub(super) fn render(pairs: &[Pair]) -> String {
    let figure =
        |x: Option<f64>| x.filter(|x| x.is_finite()).map(|x| x.to_string()).unwrap_or_default();
    let mut rows = vec![HEADER.map(str::to_owned).to_vec()];
    for pair in pairs {
        let at: Vec<String> = pair
            .at
            .iter()
            .map(|(key, value)| {
                format!("{key}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            })
            .collect();
        rows.push(vec![
            pair.gauge.clone(),
            pair.test.clone(),
            pair.name.clone(),
            at.join("; "),
            pair.unit.to_string(),
            pair.statistic.to_owned(),
            figure(pair.a.value),
            figure(pair.b.value),
            figure(pair.ratio),
            figure(pair.ci95.map(|[low, _]| low)),
            figure(pair.ci95.map(|[_, high]| high)),
            figure(pair.a.median),
            figure(pair.b.median),
            figure(pair.median_ratio),
            pair.verdict.name().to_owned(),
            pair.a.samples.to_string(),
            pair.b.samples.to_string(),
            pair.a.runs.to_string(),
            pair.b.runs.to_string(),
            pair.reasons.join("; "),
        ]);
    }
    crate::csv::written(&rows)
}
