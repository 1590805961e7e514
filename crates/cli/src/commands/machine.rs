//! `nodegauge machine`.

use crate::args::MachineArgs;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::session;
use nodegauge_machine::{SysRoot, Topology};

pub(crate) fn execute(args: &MachineArgs) -> Result<Exit, Failure> {
    let options = session::describe_options(args.dimms, args.processor.as_deref())?;
    let topology = Topology::load(&args.described.topology.clone().unwrap_or_default())?;
    let machine = nodegauge_machine::describe(&topology, &SysRoot::live(), &options);
    let record = || output::json(&session::description(machine.clone(), Vec::new()));
    if output::documents(&[(args.json.as_deref(), &record)])? {
        return Ok(Exit::Success);
    }
    output::show(&nodegauge_report::machine::page(&machine));
    Ok(Exit::Success)
}
