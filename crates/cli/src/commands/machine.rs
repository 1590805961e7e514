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
    if write_json(
        args.json.as_deref(),
        serde_json::to_string_pretty(&description(machine.clone(), Vec::new())),
    )? {
        return Ok(Exit::Success);
    }
    output::show(&nodegauge_report::machine::page(&machine));
    Ok(Exit::Success)
}

/// Writes a document where `--json` says, if it is given; whether standard output is taken by it.
pub(crate) fn write_json(
    json: Option<&str>,
    document: serde_json::Result<String>,
) -> Result<bool, Failure> {
    let Some(sink) = json.map(Sink::from) else { return Ok(false) };
    let text = document.map_err(|error| Failure::missing(format!("cannot write JSON: {error}")))?;
    sink.write(&(text + "\n"))?;
    Ok(sink == Sink::Stdout)
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
