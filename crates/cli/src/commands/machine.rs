//! Implementation of the command `nodegauge machine`.

use crate::args::MachineArgs;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::session;
use nodegauge_machine::SysRoot;
use nodegauge_measure::Bytes;

pub(crate) fn execute(args: &MachineArgs) -> Result<Exit, Failure> {
    let options = session::description_options(args.dimms, args.processor.as_deref())?;
    let source = args.described.topology.clone().unwrap_or_default();
    let topology = session::load_topology(&source)?;
    let mut machine = nodegauge_machine::describe(&topology, &SysRoot::live(), &options);
    machine.memory.bytes = args.memory.map(|Bytes(given)| given).or(machine.memory.bytes);
    let file = args.json.as_deref();
    let is_printed = output::write_documents(&[(file, &|| {
        output::json(&session::description_record(machine.clone(), Vec::new()))
    })])?;
    if is_printed {
        return Ok(Exit::Success);
    }
    output::show(&nodegauge_report::machine::page(&machine));
    Ok(Exit::Success)
}
