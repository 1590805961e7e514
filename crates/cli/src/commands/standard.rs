//! `nodegauge stream --standard`: builds the user's stream.c and lets it run beside the native
//! kernels.

use crate::args::StreamArgs;
use crate::commands::{places, stream};
use crate::failure::{Exit, Failure};
use crate::session;
use nodegauge_gauge::Planned;
use nodegauge_memory::standard::StandardPlan;
use std::path::Path;
use std::time::Duration;

/// Time for everything unless the user says otherwise: some rounds of native parts and runs of
/// stream.c, each a few seconds.
const BUDGET: Duration = Duration::from_secs(30);

pub(crate) fn execute(args: &StreamArgs, path: &Path) -> Result<Exit, Failure> {
    let site = session::site(&args.common)?;
    let planned = places::plan(&args.placement, &site.topology)?;
    let options = stream::options(&args.arrays, &args.common, &planned, BUDGET);
    let (placement, notices) = stream::one_placement(planned, "--standard")?;
    let choices = args.compiler.clone();
    let plan = StandardPlan::new(&site, placement, options, path, choices, notices)?;
    session::conduct(&args.common, site, |site, p| Box::new(plan).run(site, p), stream::shown)
}
