//! Options for planning without a measurement, for this node or for another machine.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::{ConditionArgs, MeasuringArgs};
use crate::failure::Failure;
use clap::Args as ClapArgs;
use nodegauge_machine::TopologySource;
use nodegauge_measure::Bytes;

/// Options that describe the machine to plan for.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct PlanForArgs {
    /// Plan for another machine: FILE.xml of lstopo, or 'synthetic:Package:2 Core:4 PU:1'
    #[arg(long, value_name = "MACHINE", help_heading = "Where")]
    pub(crate) topology: Option<TopologySource>,
    /// Memory to plan for instead of this node's available memory, e.g. 768GiB
    #[arg(long, value_name = "BYTES", help_heading = "Where")]
    pub(crate) memory: Option<Bytes>,
}

impl PlanForArgs {
    /// Refuses these options if the command measures. `has_rate` is true if `--rate` is given; `plans` names the
    /// options with which the command plans instead.
    pub(crate) fn refuse_without_plan(&self, has_rate: bool, plans: &str) -> Result<(), Failure> {
        let given = [
            ("--topology", self.topology.is_some()),
            ("--memory", self.memory.is_some()),
            ("--rate", has_rate),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => {
                Err(Failure::usage(format!("{option} requires {plans}"))
                    .hint(format!("add {plans}")))
            }
            None => Ok(()),
        }
    }
}

/// Refuses options that require a measurement if `--plan` is given. `others` contains further options of the command,
/// and whether they are given.
pub(crate) fn refuse_with_plan(
    common: &MeasuringArgs,
    others: &[(&str, bool)],
) -> Result<(), Failure> {
    let ConditionArgs { expect, reference, strict, accept_suspect } = &common.conditions;
    let given = [
        ("--csv", common.csv.is_some()),
        ("--expect", !expect.is_empty()),
        ("--reference", reference.is_some()),
        ("--strict", *strict),
        ("--accept-suspect", *accept_suspect),
        ("--against", common.against.is_some()),
    ];
    match given.iter().chain(others).find(|(_, given)| *given) {
        Some((option, _)) => Err(Failure::usage(format!("--plan cannot be used with {option}"))
            .hint(format!("leave out {option}: a plan measures nothing"))),
        None => Ok(()),
    }
}
