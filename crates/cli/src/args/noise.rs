//! Arguments of `noise`.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::{MeasuringArgs, PlacementArgs, budgets};
use clap::Args as ClapArgs;
use nodegauge_noise::NoisePlan;

/// Arguments of `noise`.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_time(NoisePlan::BUDGET)))]
pub(crate) struct NoiseArgs {
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}
