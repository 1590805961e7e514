//! `nodegauge mpi`.

use crate::args::MpiArgs;
use crate::failure::{Exit, Failure};
use crate::session::{self, Shown};
use nodegauge_gauge::Planned;
use nodegauge_messages::{MessageOptions, Messages, MessagesPlan, MpiRequest, RankPairs, osu};
use nodegauge_report::{run, text};

pub(crate) fn execute(args: &MpiArgs) -> Result<Exit, Failure> {
    let node = session::site(&args.common)?;
    let between = if args.hosts.is_empty() {
        args.pairs.clone().unwrap_or_default()
    } else {
        RankPairs::hosts(&args.hosts)?
    };
    let options = options(args, &between);
    let request = MpiRequest {
        mpicc: args.mpicc.clone(),
        launcher: args.launcher.clone(),
        osu: args.osu.clone(),
        transport: args.transport.clone(),
        floor: !args.no_floor,
    };
    let ranks = args.ranks.map(|ranks| ranks as usize);
    let rounds = args.common.samples.unwrap_or(osu::ROUNDS);
    // All errors of usage are reported before the history is opened.
    let plan = MessagesPlan::new(&node, options, between, ranks, &request, rounds)?;
    let figures = plan.figures(&node);
    session::conduct(
        &args.common,
        node,
        &figures,
        |node, progress| Box::new(plan).run(node, progress),
        |record, style| {
            if args.osu_text {
                Shown::Table(osu::print::tables(record))
            } else {
                Shown::Text(text::page(&run::own(record, &Messages), style))
            }
        },
    )
}

fn options(args: &MpiArgs, between: &RankPairs) -> MessageOptions {
    let usual = MessageOptions::default();
    let mut options = MessageOptions {
        patterns: args.patterns.list.clone(),
        named: args.patterns.named,
        sizes: args.sizes.as_ref().map(|sizes| sizes.0.clone()),
        window: args.window,
        iterations: args.iterations,
        warm_up: args.warm_up,
        // With OSU, `--samples` is the number of rounds.
        samples: args.common.samples.filter(|_| args.osu.is_empty()),
        size_limit: args.size_limit.unwrap_or(if args.osu.is_empty() {
            usual.size_limit
        } else {
            osu::SIZE_LIMIT
        }),
        buffers: args.buffers,
        validate: args.validate,
        threads: args.threads,
        timing: args.timing,
        memory_limit: args.mem_limit.map_or(usual.memory_limit, |limit| limit.0),
        as_root: args.allow_run_as_root,
        budget: args.common.budget,
        ..usual
    };
    // A matrix measures every pair of cores: by default at only two sizes.
    if *between == RankPairs::All {
        options.sizes.get_or_insert_with(|| vec![8, 1 << 20]);
    }
    options
}
