//! Implementation of the command `nodegauge mpi`.

use crate::args::MpiArgs;
use crate::failure::{Exit, Failure};
use crate::session::{self, StdoutContent};
use nodegauge_gauge::PlannedRun;
use nodegauge_measure::schedule::Budget;
use nodegauge_messages::{
    MessageGauge, MessageOptions, MessageRequest, MessagesPlan, MpiRequest, osu,
};
use nodegauge_report::{run, text};

pub(crate) fn execute(args: &MpiArgs) -> Result<Exit, Failure> {
    let node = session::this_node(&args.common)?;
    let request = MessageRequest {
        mpi: MpiRequest {
            mpicc: args.mpicc.clone(),
            launcher: args.launcher.clone(),
            osu: args.osu.clone(),
            transport: args.transport.clone(),
            lower_bound: !args.no_floor,
        },
        pairs: args.pairs.clone(),
        hosts: args.hosts.clone(),
        ranks: args.ranks.map(|ranks| ranks as usize),
        size_time_limit: args.size_limit,
        samples: args.common.samples,
    };
    // All usage errors are reported before the history is opened.
    let plan = MessagesPlan::new(&node, options(args), &request)?;
    let figures = plan.possible_figures(&node);
    session::conduct(
        &args.common,
        node,
        &figures,
        |node, progress| session::measure(Box::new(plan), node, progress),
        |record, style| {
            if args.osu_text {
                StdoutContent::Table(osu::print::format_tables(record))
            } else {
                StdoutContent::Text(text::page(&run::gauge_page(record, &MessageGauge), style))
            }
        },
    )
}

fn options(args: &MpiArgs) -> MessageOptions {
    let usual = MessageOptions::default();
    MessageOptions {
        patterns: args.patterns.list.clone(),
        has_named_patterns: args.patterns.named,
        sizes: args.sizes.as_ref().map(|sizes| sizes.0.clone()),
        window: args.window,
        iterations: args.iterations,
        warm_up: args.warm_up,
        buffers: args.buffers,
        validation_rounds: args.validate,
        threads: args.threads,
        timing: args.timing,
        memory_limit: args.mem_limit.map_or(usual.memory_limit, |limit| limit.0),
        as_root: args.allow_run_as_root,
        budget: args.common.budget.map(|time| Budget { time, is_set_by_user: true }),
        ..usual
    }
}
