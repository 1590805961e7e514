//! Implementation of the command `nodegauge sweep`.

use crate::args::sweep::SweepArgs;
use crate::failure::{Exit, Failure};
use crate::progress::Progress;
use crate::session::{self, StdoutContent};
use nodegauge_gauge::{MeasuredNode, PlannedRun};
use nodegauge_placement::JobPlacementOptions;
use nodegauge_programs::{
    FigureSource, ProgramCellOptions, ProgramGauge, ProgramOptions, ProgramSweep, SweepLimits,
    fastest_command,
};
use nodegauge_toolchain::mpi::MpiProgram;
use nodegauge_toolchain::{CommandLine, required_program};
use std::path::Path;

/// Value of `--launcher` for ranks without MPI.
const NONE: &str = "none";
const HINT: &str = "give the program and its arguments after --, e.g. nodegauge sweep policy=0-5 -- ./solver input";

pub(crate) fn execute(args: &SweepArgs) -> Result<Exit, Failure> {
    let common = &args.common;
    if common.against.is_some() {
        return Err(Failure::usage("no published figures of your program exist")
            .hint("use --against with stream"));
    }
    let figure = match &args.figure {
        Some(pattern) => FigureSource::from_pattern(pattern, args.unit.unwrap_or_default())?,
        None => FigureSource::elapsed(),
    };
    let (name, arguments) = args.program.split_first().ok_or_else(|| Failure::usage(HINT))?;
    let path = Path::new(name);
    required_program(path, HINT)?;
    let site = session::this_node(common)?;
    let job =
        JobPlacementOptions { process: args.placement.options(), ranks: args.ranks.options() };
    let options = ProgramOptions {
        cell: ProgramCellOptions { job, ..ProgramCellOptions::default() },
        axes: args.axes.clone(),
    };
    let limits = SweepLimits {
        budget: common.budget,
        samples: common.samples.map(|n| n as usize),
        run: args.limit.unwrap_or(SweepLimits::RUN_TIME_LIMIT),
    };
    let program = CommandLine::new(name.clone(), arguments.to_vec());
    let plan =
        ProgramSweep::new(&site, program, &options, figure, limits, || match &args.launcher {
            Some(command) if command.program() == NONE => Ok(None),
            named => {
                let hint = "or --launcher none to start copies of the program without MPI";
                MpiProgram::find(path, named.as_ref(), args.allow_run_as_root, hint).map(Some)
            }
        })?;
    let commands = plan.commands(&site.topology);
    let figures = plan.possible_figures(&site);
    let measure = |node: &MeasuredNode, progress: &mut Progress| {
        session::measure(Box::new(plan), node, progress)
    };
    if !args.emit {
        return session::conduct(
            common,
            site,
            &figures,
            measure,
            StdoutContent::page_renderer(&ProgramGauge),
        );
    }
    session::conduct(common, site, &figures, measure, |record, _| {
        StdoutContent::Table(fastest_command(record, &commands).unwrap_or_default())
    })
}
