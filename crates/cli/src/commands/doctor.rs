//! Implementation of the command `nodegauge doctor`.

use crate::args::DoctorArgs;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::session;
use nodegauge_machine::{DescribeOptions, SysRoot};

pub(crate) fn execute(args: &DoctorArgs) -> Result<Exit, Failure> {
    let options = DescribeOptions::default();
    let (topology, machine) = match &args.described.topology {
        Some(source) => {
            let topology = session::load_topology(source)?;
            let machine = nodegauge_machine::describe(&topology, &SysRoot::live(), &options);
            (topology, machine)
        }
        None => session::this_machine(&options)?,
    };
    let findings = nodegauge_machine::examine(&topology, &SysRoot::live(), &machine);
    let record = session::description_record(machine, findings.clone());
    if output::write_documents(&[(args.json.as_deref(), &|| output::json(&record))])? {
        return Ok(Exit::Success);
    }
    output::show_section(&nodegauge_report::machine::findings_section(&findings));
    Ok(Exit::Success)
}
