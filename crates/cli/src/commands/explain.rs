//! `nodegauge explain`.

use crate::args::ExplainArgs;
use crate::failure::{Exit, Failure};
use crate::resolve;
use crate::session;
use nodegauge_stream::Stream;
use nodegauge_stream::ablation::AblationPlan;
use nodegauge_stream::stream::Arrangement;

pub(crate) fn execute(args: &ExplainArgs) -> Result<Exit, Failure> {
    if args.common.against.is_some() {
        return Err(Failure::usage("no published figures exist for the measurements of explain")
            .hint("use --against with stream"));
    }
    let site = session::site(&args.common)?;
    let team = resolve::one_team(&args.placement, &site.topology, "explain")?;
    let (budget, share) = (AblationPlan::BUDGET, AblationPlan::SHARE);
    let options = args.arrays.options(&args.common, team.policy, budget, share);
    let arrangement = Arrangement::new(&site, &team.request, options, team.notices)?;
    let plan = Box::new(AblationPlan::new(arrangement));
    session::conduct_plan(&args.common, site, plan, &Stream::PLAIN)
}
