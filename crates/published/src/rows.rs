//! Published figures and their configurations, and the figures of a run that are compared with them.

use crate::catalog::PublishedConfig;
use nodegauge_measure::figure_names::stream;
use nodegauge_measure::keys::shared;
use nodegauge_measure::record::{Category, Measurement, Record};

/// Published figure with its configuration.
pub(crate) type PublishedRow<'a> = (&'a Measurement, PublishedConfig);

/// Returns the native STREAM figures of the run that belong to the same gauge as the published figures (processor or
/// device).
pub(crate) fn native_figures<'a>(record: &'a Record, gauge: &str) -> Vec<&'a Measurement> {
    let native = record.measurements.iter().filter(|m| {
        let engine = m.read_key::<shared::engine>();
        stream::is_test(&m.test)
            && m.gauge == gauge
            && m.category == Category::Variant
            && engine.as_deref() != Some("compiled")
    });
    native.collect()
}

/// Formats a figure as a share of its limit.
pub(crate) fn limit_share_text(m: &Measurement) -> Option<String> {
    Some(m.limit.as_ref()?.fraction.to_string())
}

/// Describes the settings and the source of a published figure.
pub(crate) fn origin((_, config): &PublishedRow<'_>) -> String {
    let compiler = config.compiler.as_ref().map(|compiler| compiler.command.clone());
    let parts = [config.node.clone(), config.placement.clone(), compiler];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let [machine, source] =
        [&config.machine, &config.source].map(|text| text.as_deref().unwrap_or("?"));
    format!("{machine}: {}; {source}", parts.join(", "))
}
