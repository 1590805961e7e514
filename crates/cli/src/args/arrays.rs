//! Options for the arrays and loops of STREAM's kernels, and the arguments of `explain`.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::values::parse_fraction;
use super::{MeasuringArgs, PlacementArgs, budgets};
use clap::Args as ClapArgs;
use nodegauge_arena::RequestedPages;
use nodegauge_kernels::size::SizeSpec;
use nodegauge_kernels::{Element, Kernel, Prefetch, SideBySidePages, Stores};
use nodegauge_measure::{Fraction, UnknownName};
use nodegauge_stream::ArrayOptions;
use nodegauge_stream::ablation::AblationPlan;
use std::str::FromStr;

/// Arguments of `explain`.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_time(AblationPlan::BUDGET)))]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) arrays: ArrayArgs,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

/// Options for kernels and their arrays.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ArrayArgs {
    /// Length of each array: auto, 4xLLC, 2GiB, '10M elements', 60%
    ///
    /// auto is four times the capacity of the last-level caches that the threads use, which is measured; at least a
    /// million elements, and limited by the available memory. 4xLLC is STREAM's rule, with the reported cache sizes.
    /// 60% is that share of the available memory for all arrays together. Example: --size 2GiB
    #[arg(
        long,
        value_name = "SIZE",
        allow_negative_numbers = true,
        default_value = "auto",
        help_heading = "What"
    )]
    pub(crate) size: SizeSpec,
    /// Maximum share of the available memory for the arrays
    #[arg(long, value_name = "SHARE", default_value = "0.8", value_parser = parse_fraction, help_heading = "What")]
    pub(crate) memory_fraction: f64,
    /// Type of the elements: f64, f32
    #[arg(long, value_name = "TYPE", default_value = "f64", help_heading = "What")]
    pub(crate) element: Element,
    /// Place arrays one after another, padded by N elements, as stream.c does [default: staggered]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1 << 30), help_heading = "Rarely needed")]
    pub(crate) offset: Option<u64>,
    /// Names of the kernels to run.
    #[arg(
        long,
        help = kernel_names(),
        value_name = "NAMES",
        value_delimiter = ',',
        help_heading = "What"
    )]
    pub(crate) kernels: Vec<Kernel>,
    /// Stores: auto, regular, nontemporal or nt
    #[arg(long, value_name = "KIND", default_value = "auto", value_parser = parse_or_auto::<Stores>, help_heading = "How")]
    pub(crate) stores: OrAuto<Stores>,
    /// Pages: auto, 4k, thp, 2m, 1g
    #[arg(long, value_name = "KIND", default_value = "auto", value_parser = parse_or_auto::<RequestedPages>, help_heading = "How")]
    pub(crate) pages: OrAuto<RequestedPages>,
    /// Software prefetch: auto, off, BYTES ahead, or FAR,NEAR
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true, default_value = "auto", value_parser = parse_or_auto::<Prefetch>, help_heading = "How")]
    pub(crate) prefetch: OrAuto<Prefetch>,
    /// Number of 4 KiB pages that a loop traverses at the same time, line by line: auto, 1, 2, 4, 8, ...
    #[arg(long, value_name = "PAGES", default_value = "auto", value_parser = parse_or_auto::<SideBySidePages>, help_heading = "How")]
    pub(crate) side_by_side: OrAuto<SideBySidePages>,
}

impl ArrayArgs {
    /// Returns the options for the arrays.
    pub(crate) fn options(&self) -> ArrayOptions {
        ArrayOptions {
            size: self.size,
            memory_fraction: Fraction(self.memory_fraction),
            element: self.element,
            offset: self.offset,
            kernels: self.kernels.clone(),
            stores: self.stores.0,
            pages: self.pages.0,
            prefetch: self.prefetch.0,
            side_by_side: self.side_by_side.0,
        }
    }
}

/// Value of an option that also accepts `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OrAuto<T>(pub(crate) Option<T>);

pub(crate) fn parse_or_auto<T: FromStr>(text: &str) -> Result<OrAuto<T>, ValueError>
where
    T::Err: Into<ValueError>,
{
    match text {
        "auto" => Ok(OrAuto(None)),
        _ => text
            .parse()
            .map(|value| OrAuto(Some(value)))
            .map_err(|error: T::Err| with_auto(error.into())),
    }
}

/// Error for an invalid value.
type ValueError = Box<dyn std::error::Error + Send + Sync>;

/// Adds `auto` to the names that the error lists.
fn with_auto(error: ValueError) -> ValueError {
    match error.downcast::<UnknownName>() {
        Ok(unknown) => {
            let known = [&["auto"], &unknown.known[..]].concat();
            Box::new(UnknownName { known, ..*unknown })
        }
        Err(error) => error,
    }
}

/// Returns the help of `--kernels`.
fn kernel_names() -> String {
    let passes = nodegauge_kernels::KERNELS.iter().filter(|spec| spec.has_pass_loops());
    format!(
        "Kernels: {} [default: copy,scale,add,triad]",
        passes.map(|spec| spec.name).collect::<Vec<_>>().join(", ")
    )
}
