//! The arguments of `watch`.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::DatabaseArgs;
use super::values::{parse_label, parse_seconds, parse_time_between};
use clap::{Args as ClapArgs, ValueEnum};
use nodegauge_measure::SyntaxError;
use std::time::Duration;

/// Arguments of `watch`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct WatchArgs {
    /// Time between the starts of two samples, e.g. 90s, 10m, 1h
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = span, help_heading = "How long")]
    pub(crate) every: Duration,
    /// Duration of the whole series, e.g. 24h, 7days
    #[arg(long = "for", value_name = "TIME", default_value = "24h", value_parser = span, help_heading = "How long")]
    pub(crate) whole: Duration,
    /// Budget of each of the two measurements of a sample, stream and memory latency
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = parse_seconds, help_heading = "How long")]
    pub(crate) budget: Duration,
    /// Put a label on the records (repeatable); the first label names the series [default: watch=START_TIME]
    ///
    /// A series that has not ended is continued: the series with this label or, without --label, the latest series of
    /// this host.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label, help_heading = "Output")]
    pub(crate) label: Vec<(String, String)>,
    /// Start a new series, even if a saved series has not ended
    #[arg(long, help_heading = "How long")]
    pub(crate) anew: bool,
    /// Action when a sample is due while other programs use the node
    #[arg(long, value_name = "WHAT", value_enum, default_value = "skip", help_heading = "How")]
    pub(crate) when_busy: WhenBusy,
    /// Print only errors
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) db: DatabaseArgs,
}

/// Longest time that an option accepts, in seconds: 100 years, so that sums of times cannot overflow.
const MAX_SECONDS: f64 = 3_155_760_000.0;

/// Parses a time such as `10m`.
fn span(text: &str) -> Result<Duration, SyntaxError> {
    parse_time_between(0.0, MAX_SECONDS, text)
}

/// Treatment of a sample that is due while other programs use the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhenBusy {
    /// Wait for some time, then skip the measurement and report it
    Skip,
    /// Measure; the figures contain the effect of the other load
    Measure,
}
