//! `nodegauge doctor`.

use crate::args::DoctorArgs;
use crate::commands::machine::description;
use crate::failure::{Exit, Failure};
use crate::output::{self, Sink};
use crate::session;
use nodegauge_machine::{DescribeOptions, SysRoot};

pub(crate) fn execute(args: &DoctorArgs) -> Result<Exit, Failure> {
    let (topology, machine) = session::this_machine(&DescribeOptions::default())?;
    let findings = nodegauge_machine::examine(&topology, &SysRoot::live(), &machine);
    if let Some(sink) = args.json.as_deref().map(Sink::from) {
        sink.write(&session::json(&description(machine, findings.clone()))?)?;
        if sink == Sink::Stdout {
            return Ok(Exit::Success);
        }
    }
    output::print(&nodegauge_report::machine::findings(&findings, output::style()));
    Ok(Exit::Success)
}
