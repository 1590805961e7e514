//! `nodegauge machine`.

use crate::args::MachineArgs;
use crate::failure::{Exit, Failure};
use crate::output::{self, Sink};
use crate::session;
use nodegauge_machine::{SysRoot, Topology};
use nodegauge_measure::record::{self, Machine, Record};

pub(crate) fn execute(args: &MachineArgs) -> Result<Exit, Failure> {
    let options = session::describe_options(args.dimms, args.processor.as_deref())?;
    let topology = Topology::load(&args.described.topology.clone().unwrap_or_default())?;
    let machine = nodegauge_machine::describe(&topology, &SysRoot::live(), &options);
    if let Some(sink) = args.json.as_deref().map(Sink::from) {
        sink.write(&session::json(&description(machine.clone(), Vec::new()))?)?;
        if sink == Sink::Stdout {
            return Ok(Exit::Success);
        }
    }
    let style = output::style();
    let mut text = nodegauge_report::machine::render(&machine, style);
    if let Some(distances) = nodegauge_report::machine::distances(&machine, style) {
        text.push('\n');
        text.push_str(&distances);
    }
    output::print(&text);
    Ok(Exit::Success)
}

/// A record that describes and measures nothing.
pub(crate) fn description(machine: Machine, findings: Vec<record::Finding>) -> Record {
    Record {
        schema: record::SCHEMA.to_owned(),
        id: record::new_id(),
        started: record::now_rfc3339(),
        seconds: 0.0,
        complete: true,
        tool: session::tool(),
        command: std::env::args().skip(1).collect(),
        labels: Default::default(),
        machine,
        findings,
        notices: Vec::new(),
        measurements: Vec::new(),
    }
}
