//! Options of numactl, as other names for `--numa` and `--places`.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use clap::Args as ClapArgs;
use nodegauge_machine::SysRoot;
use nodegauge_measure::{Failure, SyntaxError};
use nodegauge_placement::{NumaSpec, PlacesSpec, numactl};

/// Options with the names of numactl, for users who know that program.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct NumactlArgs {
    /// Option of numactl: same as --numa bind:NODES
    #[arg(long, value_name = "NODES", value_parser = bound, conflicts_with_all = ["numa", "interleave"], hide = true)]
    membind: Option<NumaSpec>,
    /// Option of numactl: same as --numa interleave:NODES
    #[arg(long, value_name = "NODES", value_parser = interleaved, conflicts_with = "numa", hide = true)]
    interleave: Option<NumaSpec>,
    /// Option of numactl: same as --places with one place per CPU
    #[arg(long, value_name = "CPUS", value_parser = numactl::parse_physcpubind, conflicts_with_all = ["places", "cpunodebind"], hide = true)]
    physcpubind: Option<PlacesSpec>,
    /// Option of numactl: same as --places with the CPUs of these NUMA nodes
    #[arg(long, value_name = "NODES", value_parser = numa_node_cpus, conflicts_with = "places", hide = true)]
    cpunodebind: Option<PlacesSpec>,
}

impl NumactlArgs {
    /// Returns the memory policy.
    pub(crate) fn numa(&self) -> Option<&NumaSpec> {
        self.membind.as_ref().or(self.interleave.as_ref())
    }

    /// Returns the places of the threads.
    pub(crate) fn places(&self) -> Option<&PlacesSpec> {
        self.physcpubind.as_ref().or(self.cpunodebind.as_ref())
    }
}

fn bound(text: &str) -> Result<NumaSpec, SyntaxError> {
    format!("bind:{text}").parse()
}

fn interleaved(text: &str) -> Result<NumaSpec, SyntaxError> {
    format!("interleave:{text}").parse()
}

/// Converts NUMA nodes of this machine to one place per CPU of these nodes.
fn numa_node_cpus(text: &str) -> Result<PlacesSpec, Failure> {
    let nodes = numactl::parse_numa_node_ranges(text)?;
    let root = SysRoot::live();
    let mut all = Vec::new();
    for node in nodes.iter().flat_map(|(first, last)| *first..=*last) {
        let cpus = root.numbers(&format!("sys/devices/system/node/node{node}/cpulist"));
        let cpus = cpus.filter(|cpus| !cpus.is_empty()).ok_or_else(|| {
            Failure::usage(format!("NUMA node {node} has no CPUs on this machine"))
                .hint("nodegauge machine shows the NUMA nodes")
        })?;
        all.extend(cpus.into_iter().map(|cpu| (cpu, cpu)));
    }
    Ok(numactl::range_places(&all)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numactl_options_give_placements() {
        assert_eq!(bound("0,2"), "bind:0,2".parse());
        assert_eq!(interleaved("all"), "interleave:all".parse());
        assert_eq!(numactl::parse_physcpubind("0-3,8"), "0:4,8:1".parse());
        for wrong in ["3-0", "x", "0,"] {
            assert!(numactl::parse_physcpubind(wrong).is_err(), "{wrong}");
        }
    }
}
