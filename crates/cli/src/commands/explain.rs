//! `nodegauge explain`.

use crate::args::StreamArgs;
use crate::commands::{places, ranks, stream};
use crate::failure::{Exit, Failure};
use crate::session::{self, Found, Shown};
use nodegauge_memory::explain;
use std::time::Duration;

/// Time for everything unless the user says otherwise: the steps share it.
const BUDGET: Duration = Duration::from_secs(20);

pub(crate) fn execute(args: &StreamArgs) -> Result<Exit, Failure> {
    if args.stream_text {
        return Err(Failure::usage("--stream-text is for stream only"));
    }
    if !args.sweep.is_empty() {
        return Err(Failure::usage("--sweep is for stream only"));
    }
    if args.tune {
        return Err(Failure::usage("--tune is for stream only"));
    }
    if args.standard.is_some() {
        return Err(Failure::usage("--standard is for stream only"));
    }
    ranks::refuse(&args.ranks, "explain")?;
    if !args.compiler.is_empty() {
        return Err(Failure::usage("--compiler is for stream only"));
    }
    let node = session::site(&args.common)?;
    let planned = places::plan(&args.placement, &node.topology)?;
    let [placement] = planned.placements.as_slice() else {
        return Err(Failure::usage("explain takes one thread count\nhint: e.g. --threads 4"));
    };
    let options = stream::options(args, &planned, BUDGET);
    nodegauge_memory::stream::plan(&node.topology, &node.machine, placement, &options)?;
    session::conduct(
        &args.common,
        node,
        |node, progress| {
            let explanation =
                explain::run(&node.topology, &node.machine, placement, &options, progress)?;
            let measurements = explanation.measurements();
            let mut notices = planned.notices.clone();
            notices.extend(explanation.notices);
            let interrupted = !explanation.complete;
            Ok(Found { measurements, notices, interrupted, ..Found::default() })
        },
        |record, style| Shown::Text(nodegauge_report::explain::render(record, style)),
    )
}
