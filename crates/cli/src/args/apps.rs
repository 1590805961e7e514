//! Options of `apps`.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::values::{parse_fraction, parse_time_between, parse_whole_number};
use super::{MeasuringArgs, PlacementArgs, budgets, examples};
use clap::{Args as ClapArgs, Subcommand};
use nodegauge_apps::hpcg::{GridPoints, HpcgPlan};
use nodegauge_apps::iccg::{IccgMethod, IccgOptions, MatrixFormat};
use nodegauge_apps::sweep::WorkersAxis;
use nodegauge_apps::trapezoid::TrapezoidPlan;
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use nodegauge_placement::{Policies, RankMap};
use nodegauge_toolchain::CommandLine;
use std::path::PathBuf;
use std::time::Duration;

/// Application to run.
#[derive(Debug, Subcommand)]
pub(crate) enum AppsCommand {
    /// Pi by the trapezoid rule: compute-bound, uses no memory, should not depend on placement
    #[command(after_long_help = examples::section(&[
        "nodegauge apps trapezoid",
        "nodegauge apps trapezoid --n 1e6 --policy none",
    ]))]
    Trapezoid(TrapezoidArgs),
    /// Conjugate gradients for 3-D elasticity: a solver that depends on memory and its placement
    #[command(after_long_help = examples::section(&[
        "nodegauge apps iccg",
        "nodegauge apps iccg --elements 32,32,32 --preconditioner diagonal",
    ]))]
    Iccg(IccgArgs),
    /// The 27-point problem with a multigrid preconditioner, as HPCG defines it
    #[command(after_long_help = examples::section(&[
        "nodegauge apps hpcg",
        "nodegauge apps hpcg --grid 64 --policy none",
    ]))]
    Hpcg(HpcgArgs),
}

/// Options for the ranks of an application, which are single-threaded processes.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct AppRankArgs {
    /// Ranks: processes with one thread each [default: one per core]
    #[arg(long, short = 'r', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Where")]
    pub(crate) ranks: Option<u32>,
    /// Socket or core of each rank: block, cyclic, core, spread, even (see stream --rank-map) [default: block with a
    /// policy, else spread]
    #[arg(long, value_name = "MAP", help_heading = "Where")]
    pub(crate) rank_map: Option<RankMap>,
    /// Rank policies to compare, e.g. 0,3 or 0-5 (see stream --policy), or `none` to measure only threads
    ///
    /// A policy can have its own rank map: 4,4/even.
    #[arg(long, value_name = "POLICIES", value_parser = policies, help_heading = "Where")]
    pub(crate) policy: Option<Policies>,
}

/// Option for a sweep over the workers (threads or ranks).
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct AppSweepArgs {
    /// Compare several values, e.g. policy=0-5 or threads=1-8 (at most three axes)
    ///
    /// Axes: policy=0-5 or policy=4,4/even, ranks=1,2,4, rank-map, threads=1-8, per-cache=1,2, cores=fast,all,
    /// places=A;B, bind=close,spread, workers=threads,ranks. Values that this node does not support are left out, with
    /// the reason. rank-map and workers without values mean all kinds.
    #[arg(long = "sweep", value_name = "AXIS=VALUES", help_heading = "Where")]
    pub(crate) axes: Vec<WorkersAxis>,
}

/// Arguments of `apps trapezoid`.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_time(TrapezoidPlan::BUDGET)))]
pub(crate) struct TrapezoidArgs {
    /// Numbers of intervals [default: 1e6,1e7,1e9]
    #[arg(long = "n", value_name = "COUNTS", value_delimiter = ',', value_parser = parse_whole_number, help_heading = "What")]
    pub(crate) points: Vec<u64>,
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) ranks: AppRankArgs,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

/// Arguments of `apps iccg`.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_time(IccgOptions::BUDGET)))]
pub(crate) struct IccgArgs {
    /// Hexahedra along x, y, z [default: a cube whose matrix is four times the last-level caches]
    #[arg(long, value_name = "NX,NY,NZ", value_parser = elements, help_heading = "What")]
    pub(crate) elements: Option<MeshElements>,
    /// Block-IC(0) with this ordering: multicolour, cm-rcm, rcm, natural, domain (no coupling between the domains
    /// of threads); or diagonal
    #[arg(long, value_name = "NAME", default_value = "domain", help_heading = "What")]
    pub(crate) preconditioner: IccgMethod,
    /// Storage of the matrix: bcsr, sell [default: the faster one]
    #[arg(long, value_name = "NAME", help_heading = "What")]
    pub(crate) storage: Option<MatrixFormat>,
    /// Relative residual (norm of residual / norm of right-hand side) at which the solver stops
    #[arg(long, value_name = "X", default_value = "1e-8", help_heading = "What")]
    pub(crate) tolerance: f64,
    /// Maximum number of iterations
    #[arg(long, value_name = "N", default_value = "10000", help_heading = "What")]
    pub(crate) iterations: usize,
    /// Maximum share of the available memory to use
    #[arg(long, value_name = "SHARE", default_value = "0.8", value_parser = parse_fraction, help_heading = "What")]
    pub(crate) memory_fraction: f64,
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) ranks: AppRankArgs,
    #[command(flatten)]
    pub(crate) sweep: AppSweepArgs,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

/// Arguments of `apps hpcg`.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_time(HpcgPlan::BUDGET)))]
pub(crate) struct HpcgArgs {
    /// Points of the domain of each thread or rank: N or NX,NY,NZ, multiples of 8 [default: 104]
    #[arg(long, value_name = "POINTS", value_parser = grid, help_heading = "What")]
    pub(crate) grid: Option<GridPoints>,
    /// No effect: every matrix has a column index for each coefficient, as the rules of HPCG require
    #[arg(long, hide = true)]
    pub(crate) rules: bool,
    /// Maximum share of the available memory to use
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = parse_fraction, help_heading = "What")]
    pub(crate) memory_fraction: f64,
    /// Also run this xhpcg under MPI for comparison, one rank per domain
    #[arg(long, value_name = "PROGRAM", help_heading = "Reference programs")]
    pub(crate) xhpcg: Option<PathBuf>,
    /// Duration of the timed phase of the reference program, which runs at least one set of iterations
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = phase, requires = "xhpcg", help_heading = "Reference programs")]
    pub(crate) xhpcg_seconds: Duration,
    /// Launcher of the ranks, e.g. 'mpirun.openmpi' or 'srun --mpi=pmix' [default: detected]
    #[arg(long, value_name = "COMMAND", requires = "xhpcg", help_heading = "Reference programs")]
    pub(crate) launcher: Option<CommandLine>,
    /// Also start ranks as root (in containers)
    #[arg(long, requires = "xhpcg", help_heading = "Rarely needed")]
    pub(crate) allow_run_as_root: bool,
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) ranks: AppRankArgs,
    #[command(flatten)]
    pub(crate) sweep: AppSweepArgs,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

/// Parses the duration of xhpcg's timed phase, which is a whole number of seconds.
fn phase(text: &str) -> Result<Duration, SyntaxError> {
    parse_time_between(1.0, 86_400.0, text)
}

/// Numbers of elements along x, y and z.
pub(crate) type MeshElements = [usize; 3];

/// Parses the numbers of elements along three axes, such as `60,60,60`.
fn elements(text: &str) -> Result<MeshElements, SyntaxError> {
    let mut cursor = Cursor::new("elements", "--elements 60,60,60", text);
    let x = axis_count(&mut cursor, "expected the elements along x")?;
    cursor.expect(',', "expected ',' and the elements along y")?;
    let y = axis_count(&mut cursor, "expected the elements along y")?;
    cursor.expect(',', "expected ',' and the elements along z")?;
    let z = axis_count(&mut cursor, "expected the elements along z")?;
    cursor.finish("expected nothing after three numbers")?;
    Ok([x, y, z])
}

/// Maximum number of elements or points along one axis.
const MAX_AXIS_COUNT: u32 = 1 << 16;

/// Parses the number of elements or points along one axis.
fn axis_count(cursor: &mut Cursor<'_>, problem: &str) -> Result<usize, SyntaxError> {
    cursor.skip_blanks();
    let count = cursor.count(MAX_AXIS_COUNT, problem)?;
    cursor.skip_blanks();
    Ok(count as usize)
}

/// Parses one number of points for all axes, or three numbers, one per axis.
fn grid(text: &str) -> Result<GridPoints, SyntaxError> {
    let mut cursor = Cursor::new("points", "--grid 104 or --grid 104,104,208", text);
    let x = axis_count(&mut cursor, "expected a number of points")?;
    if cursor.at_end() {
        return Ok([x; 3]);
    }
    cursor.expect(',', "expected ',' and the points along y, or the end")?;
    let y = axis_count(&mut cursor, "expected the number of points along y")?;
    cursor.expect(',', "expected ',' and the points along z")?;
    let z = axis_count(&mut cursor, "expected the number of points along z")?;
    cursor.finish("expected nothing after three numbers")?;
    Ok([x, y, z])
}

/// Parses a list of policy numbers; `none` is an empty list.
fn policies(text: &str) -> Result<Policies, SyntaxError> {
    if text == "none" { Ok(Policies::default()) } else { text.parse() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mesh_size_needs_three_numbers() {
        assert_eq!(elements("60, 8,9"), Ok([60, 8, 9]));
        for wrong in ["60", "1,2", "1,2,3,4", "a,b,c", "-1,2,3", ""] {
            assert!(elements(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn grid_is_one_number_or_three() {
        assert_eq!((grid("104"), grid("16, 24,32")), (Ok([104; 3]), Ok([16, 24, 32])));
        for wrong in ["0", "-8", "16,16", "16x16x16", "70000", "", "16,16,16,16"] {
            assert!(grid(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn policies_are_numbers_or_none() {
        let of = |text: &str| policies(text).map(|of| of.0.len()).ok();
        let all = ["none", "0,3,5", "0-5", "1..3,5", "6", "", "0,,1", "5-0", "0.5"].map(of);
        let lengths = [Some(0), Some(3), Some(6), Some(4), None, None, None, None, None];
        assert_eq!(all, lengths);
    }
}
