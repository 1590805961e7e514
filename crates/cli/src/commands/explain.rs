//! `nodegauge explain`.

use crate::args::ExplainArgs;
use crate::commands::{places, stream};
use crate::failure::{Exit, Failure};
use crate::session;
use nodegauge_gauge::Planned;
use nodegauge_memory::ablation::AblationPlan;
use std::time::Duration;

/// Time for everything unless the user says otherwise: the steps share it.
const BUDGET: Duration = Duration::from_secs(20);

pub(crate) fn execute(args: &ExplainArgs) -> Result<Exit, Failure> {
    let site = session::site(&args.common)?;
    let planned = places::plan(&args.placement, &site.topology)?;
    let options = stream::options(&args.arrays, &args.common, &planned, BUDGET);
    let (placement, notices) = stream::one_placement(planned, "explain")?;
    let plan = AblationPlan::new(&site, placement, options, notices)?;
    session::conduct(&args.common, site, |site, p| Box::new(plan).run(site, p), stream::shown)
}
