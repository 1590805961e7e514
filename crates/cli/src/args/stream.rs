//! Options of `stream`, a struct for those of each mode.

// Doc comments here are help texts, in which brackets are grammar and no links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::device::OnDeviceArgs;
use super::ranks::{RANKS, RankArgs};
use super::{ArrayArgs, Common, PlacementArgs};
use crate::failure::Failure;
use clap::Args as ClapArgs;
use nodegauge_stream::axis::StreamAxis;
use nodegauge_stream::compiled::CompilerChoice as Compiler;
use nodegauge_stream::view::Statistic;
use std::path::PathBuf;

/// `stream`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct StreamArgs {
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) ranks: RankArgs,
    #[command(flatten)]
    pub(crate) arrays: ArrayArgs,
    #[command(flatten)]
    pub(crate) on: OnDeviceArgs,
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,
    #[command(flatten)]
    pub(crate) tune: TuneArgs,
    /// Do not use what --tune chose before
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) untuned: bool,
    #[command(flatten)]
    pub(crate) standard: StandardArgs,
    #[command(flatten)]
    pub(crate) compilers: CompilerArgs,
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// A sweep.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct SweepArgs {
    /// Go through values of an option, by turns: ranks=1,2,4, policy=0-5, rank-map,
    /// threads=1,2-32:2, per-cache=1,2, places=A;B, stores, pages, size=..,
    /// prefetch=.., 'compiler=native;gcc -O3' (at most two axes)
    ///
    /// What this node cannot do is left out, with the reason. stores, pages and rank-map alone mean all kinds.
    #[arg(long = "sweep", value_name = "AXIS=VALUES", help_heading = "What")]
    pub(crate) axes: Vec<StreamAxis>,
}

/// The search for the best configuration.
#[derive(Debug, Clone, ClapArgs)]
#[group(conflicts_with_all = ["axes", "source", "choices", "stream_text"], conflicts_with_all = RANKS)]
pub(crate) struct TuneArgs {
    /// Find the best threads, places, pages, stores, prefetch, vector width and unroll, then measure
    ///
    /// The choice is remembered in the history, and taken by later runs for all that they leave
    /// open, until the machine changes.
    #[arg(long, help_heading = "How")]
    pub(crate) tune: bool,
}

/// The user's own stream.c.
#[derive(Debug, Clone, ClapArgs)]
#[group(conflicts_with = "axes", conflicts_with_all = RANKS)]
pub(crate) struct StandardArgs {
    /// Compile and run this unmodified stream.c (or stream.f) too, by turns, as a standard result
    ///
    /// It is compiled with the array length of the native run (stream.f has its own) and runs with
    /// its threads where the native ones are. Example: --standard ~/stream.c --compiler gcc
    #[arg(long = "standard", value_name = "STREAM.C", help_heading = "What")]
    pub(crate) source: Option<PathBuf>,
}

/// The user's compilers, alone or as an axis of a sweep.
#[derive(Debug, Clone, ClapArgs)]
#[group(conflicts_with_all = RANKS)]
pub(crate) struct CompilerArgs {
    /// Run what this compiler makes of the same loops, by turns (repeatable): 'CC FLAGS', or all that
    /// are installed; with --standard what it makes of that source
    ///
    /// Words are split as in a shell. A compiler without flags gets -O3 -march=native or what it has
    /// instead, with --standard -fopenmp too. all is every compiler that is known and installed, each
    /// with several flags. One that is named is also shown with -DPAGES=4 and 8, pages side by side in
    /// the same source. With --standard and without this: gcc and clang. Example:
    /// --compiler 'gcc -O2' --compiler clang
    #[arg(long = "compiler", value_name = "'CC FLAGS'", help_heading = "What")]
    pub(crate) choices: Vec<Compiler>,
}

/// Tables as stream.c has them: of one configuration, and of a sweep.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct TableArgs {
    /// Print the classic table of stream.c, headed as a variant; with --standard what the user's own
    /// stream.c printed in its fastest run
    #[arg(long, conflicts_with = "axes", help_heading = "Output")]
    pub(crate) stream_text: bool,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Refusal of `--show` where there is no sweep.
pub(crate) fn no_sweep() -> Failure {
    Failure::usage("--show is of sweeps, and this is none")
        .hint("leave out --show; a run of one configuration has --stream-text")
}

/// In which statistics a sweep is shown.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ShowArgs {
    /// Show a sweep in columns of stream.c's table: best (rate, MB/s), avg, min, max (times, s)
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Output")]
    pub(crate) show: Vec<Statistic>,
}
