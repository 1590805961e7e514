//! `nodegauge explain`.

use crate::args::StreamArgs;
use crate::commands::{places, stream};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress::Progress;
use crate::session::{self, Found, Session};
use nodegauge_machine::SysRoot;
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
    if args.standard.is_some() {
        return Err(Failure::usage("--standard is for stream only"));
    }
    let describe = session::describe_options(args.common.dimms, args.common.processor.as_deref())?;
    let (topology, machine) = session::this_machine(&describe)?;
    let planned = places::plan(&args.placement, &topology)?;
    let [placement] = planned.placements.as_slice() else {
        return Err(Failure::usage("explain takes one thread count\nhint: e.g. --threads 4"));
    };
    let options = stream::options(args, &planned, BUDGET);
    nodegauge_memory::stream::plan(&topology, &machine, placement, &options)?;
    let session = Session::begin(&args.common)?;
    let findings = nodegauge_machine::examine(&topology, &SysRoot::live(), &machine);
    let mut progress = Progress::new(args.common.quiet, session.signals.clone());
    let explanation = explain::run(&topology, &machine, placement, &options, &mut progress)?;
    progress.finish();
    let mut notices = planned.notices.clone();
    notices.extend(explanation.notices.iter().cloned());
    let record = session.record(
        &args.common,
        Found {
            machine,
            findings,
            notices,
            measurements: explanation.measurements(),
            complete: explanation.complete,
        },
    );
    let text = nodegauge_report::explain::render(&record, output::style());
    session.end(&args.common, &record, &text)
}
