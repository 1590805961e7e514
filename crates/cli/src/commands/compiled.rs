//! `nodegauge stream --compiler`, and the hidden command as which nodegauge starts itself to try a
//! kernel.

use crate::args::StreamArgs;
use crate::commands::{places, stream};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::session;
use nodegauge_gauge::Planned;
use nodegauge_memory::compiled::{CompiledPlan, self_test};
use nodegauge_memory::kernels::{Element, Kernel};
use std::path::Path;
use std::time::Duration;

/// Time for everything but compiling unless the user says otherwise: a dozen variants have some ten
/// turns each.
const BUDGET: Duration = Duration::from_secs(30);

/// Tries a kernel of a shared object. Ends with a failure, or dies, when it is no good.
pub(crate) fn test_kernel(
    library: &Path,
    kernel: Kernel,
    element: Element,
) -> Result<Exit, Failure> {
    // SAFETY: this process exists to try the library, and nothing is lost with it.
    match unsafe { self_test::run(library, kernel, element) } {
        Ok(()) => {
            output::print(self_test::PASSED);
            Ok(Exit::Success)
        }
        Err(wrong) => {
            output::error(&wrong);
            Ok(Exit::Unmet)
        }
    }
}

pub(crate) fn execute(args: &StreamArgs) -> Result<Exit, Failure> {
    let site = session::site(&args.common)?;
    let planned = places::plan(&args.placement, &site.topology)?;
    let options = stream::options(&args.arrays, &args.common, &planned, BUDGET);
    let (placement, notices) = stream::one_placement(planned, "--compiler")?;
    let plan = CompiledPlan::new(&site, placement, options, &args.compiler, notices)?;
    session::conduct(&args.common, site, |site, p| Box::new(plan).run(site, p), stream::shown)
}
