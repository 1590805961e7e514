//! Implementation of the command `nodegauge noise`.

use crate::args::noise::NoiseArgs;
use crate::failure::{Exit, Failure};
use crate::session;
use nodegauge_noise::{NoiseGauge, NoiseOptions, NoisePlan};

pub(crate) fn execute(args: &NoiseArgs) -> Result<Exit, Failure> {
    if args.common.against.is_some() {
        return Err(
            Failure::usage("no published figures of noise exist").hint("use --against with stream")
        );
    }
    let site = session::this_node(&args.common)?;
    let options = NoiseOptions {
        placement: args.placement.options(),
        budget: args.common.budget,
        samples: args.common.samples.map(|n| n as usize),
    };
    let plan = NoisePlan::new(&site, options)?;
    session::conduct_plan(&args.common, site, Box::new(plan), &NoiseGauge)
}
