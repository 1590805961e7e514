//! Paths of the family of curves. A path consists of the threads that load memory, and of this memory.

use crate::{CurveSetup, matrix};
use nodegauge_machine::{CpuId, NumaNodeId};
use nodegauge_measure::{Failure, SyntaxError};
use nodegauge_placement::MemoryPolicy;
use nodegauge_placement::numactl::{NumberRange, parse_numa_node_ranges};
use std::str::FromStr;

/// Choice of NUMA nodes: `--from` and `--to`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum NodeChoice {
    /// The other options determine the threads or the memory.
    #[default]
    FromOptions,
    /// Each node is measured.
    All,
    /// Each node of these ranges is measured.
    Ranges(Vec<NumberRange>),
}

impl FromStr for NodeChoice {
    type Err = SyntaxError;

    /// Parses `all` or a list of nodes such as `0,2-3`.
    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        if text == "all" {
            return Ok(Self::All);
        }
        // The syntax is that of numactl's options, which are not options of this program.
        parse_numa_node_ranges(text)
            .map(Self::Ranges)
            .map_err(|error| SyntaxError { example: "all or 0,2-3", ..error })
    }
}

impl NodeChoice {
    /// Returns the chosen nodes among `known`; a single `None` if the other options determine them.
    ///
    /// Fails if a listed node is not among `known`. `what` describes what the known nodes have, for the message.
    fn nodes(&self, known: &[NumaNodeId], what: &str) -> Result<Vec<Option<NumaNodeId>>, Failure> {
        let ranges = match self {
            Self::FromOptions => return Ok(vec![None]),
            Self::All => return Ok(known.iter().copied().map(Some).collect()),
            Self::Ranges(ranges) => ranges,
        };
        let mut nodes = Vec::new();
        for (first, last) in ranges {
            for number in *first..=*last {
                let node = NumaNodeId(number);
                if !known.contains(&node) {
                    let all: Vec<String> = known.iter().map(ToString::to_string).collect();
                    let text = format!("this machine has no NUMA node {number} with {what}");
                    let hint = format!("NUMA nodes with {what}: {}", all.join(", "));
                    return Err(Failure::usage(text).hint(hint));
                }
                if !nodes.contains(&Some(node)) {
                    nodes.push(Some(node));
                }
            }
        }
        Ok(nodes)
    }
}

/// Threads that load memory, and the memory that they load.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MemoryPath {
    /// Node whose cores load the memory; `None` for the threads of the placement.
    pub from: Option<NumaNodeId>,
    /// Node whose memory is loaded; `None` for the memory policy of the options.
    pub to: Option<NumaNodeId>,
    /// CPUs of each thread.
    pub places: Vec<Vec<CpuId>>,
    /// Policy of the memory.
    pub policy: MemoryPolicy,
}

impl MemoryPath {
    /// Returns the path with the threads and the memory policy of the options.
    pub(crate) fn from_placement(setup: CurveSetup<'_>) -> Self {
        Self {
            from: None,
            to: None,
            places: setup.placement.thread_cpus(),
            policy: setup.options.policy.clone(),
        }
    }

    /// Returns the paths from each chosen node of threads to each chosen node of memory.
    ///
    /// Fails if a chosen node does not exist, has no CPUs to load with, or has no memory.
    pub(crate) fn all(setup: CurveSetup<'_>) -> Result<Vec<Self>, Failure> {
        let topology = &setup.site.topology;
        let (readers, memories) = matrix::readers_and_memories(topology);
        let nodes_with_cpus: Vec<NumaNodeId> = readers.iter().map(|one| one.node).collect();
        let from = setup.options.from.nodes(&nodes_with_cpus, "CPUs")?;
        let to = setup.options.to.nodes(&memories, "memory")?;
        let mut paths = Vec::new();
        for initiator in from {
            for memory in &to {
                let mut path = Self::from_placement(setup);
                if let Some(of_node) = readers.iter().find(|one| Some(one.node) == initiator) {
                    path.from = initiator;
                    path.places = of_node.cpus.iter().map(|cpu| vec![*cpu]).collect();
                }
                if let Some(node) = memory {
                    path.to = Some(*node);
                    // Memory cannot be bound on a machine without NUMA nodes.
                    let is_known = topology.nodes.iter().any(|known| known.id == *node);
                    path.policy = if is_known {
                        MemoryPolicy::Bind(vec![*node])
                    } else {
                        MemoryPolicy::Default
                    };
                }
                paths.push(path);
            }
        }
        Ok(paths)
    }

    /// Returns the CPUs of all threads of the path.
    pub(crate) fn cpus(&self) -> Vec<CpuId> {
        self.places.iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numa_node_choice_is_all_or_a_list() {
        let known = [NumaNodeId(0), NumaNodeId(1), NumaNodeId(4)];
        let chosen = |text: &str| {
            let choice: NodeChoice = text.parse().unwrap();
            let nodes = choice.nodes(&known, "memory").map_err(|failure| failure.to_string());
            nodes.map(|nodes| nodes.into_iter().flatten().map(|node| node.0).collect::<Vec<_>>())
        };
        assert_eq!(chosen("all"), Ok(vec![0, 1, 4]));
        assert_eq!(chosen("4,0-1,1"), Ok(vec![4, 0, 1]));
        let refused = chosen("0-2").unwrap_err();
        assert!(refused.starts_with("this machine has no NUMA node 2 with memory"), "{refused}");
        assert_eq!(NodeChoice::FromOptions.nodes(&known, "memory").unwrap(), [None]);
        assert!("al".parse::<NodeChoice>().is_err());
        assert_eq!("1-".parse::<NodeChoice>().unwrap_err().example, "all or 0,2-3");
    }
}
