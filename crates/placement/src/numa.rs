//! Where memory goes: the grammar of `--numa`, NUMA policies of address ranges, and the question on
//! which nodes pages really are.
//!
//! A policy is set before the pages are first touched and never moves any. Where pages really are,
//! [`pages_by_node`] asks the kernel.

use crate::cpus::{joined, number_ranges};
use crate::error::PlacementError;
use crate::grammar;
use nodegauge_machine::{NodeId, Topology};
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use nodegauge_os::{PolicyMode, SysError};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

const WHAT: &str = "numa";
const EXAMPLE: &str = "--numa local, --numa interleave:0,2-3, --numa bind:0 or --numa preferred:1";

/// What `--numa` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NumaSpec {
    /// `local`: on the node of the CPU that touches a page first.
    Local,
    /// `interleave[:NODES]`: page by page round the nodes; all nodes when none is named.
    Interleave(NodeList),
    /// `bind:NODES`: on these nodes only.
    Bind(NodeList),
    /// `preferred:NODE`: on this node while it has room.
    Preferred(u32),
}

/// NUMA nodes as they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeList {
    /// `all`.
    All,
    /// Single nodes and ranges, first and last.
    Ranges(Vec<(u32, u32)>),
}

/// Where the pages of a range of memory go when they are first touched.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum MemoryPolicy {
    /// Nothing said: the policy of the process, which is mostly local.
    #[default]
    Default,
    /// On the node of the CPU that touches a page first.
    Local,
    /// Page by page round these nodes.
    Interleave(Vec<NodeId>),
    /// On these nodes only.
    Bind(Vec<NodeId>),
    /// On this node while it has room.
    Preferred(NodeId),
}

impl FromStr for NumaSpec {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(WHAT, EXAMPLE, text);
        cursor.skip_blanks();
        let at = cursor.position();
        let word = cursor.take_while(|c| c.is_ascii_alphabetic()).to_ascii_lowercase();
        let spec = match word.as_str() {
            "local" => Self::Local,
            "interleave" if cursor.eat(':') => Self::Interleave(node_list(&mut cursor)?),
            "interleave" => Self::Interleave(NodeList::All),
            "bind" => {
                cursor.expect(':', "expected ':' and nodes after bind")?;
                Self::Bind(node_list(&mut cursor)?)
            }
            "preferred" => {
                cursor.expect(':', "expected ':' and a node after preferred")?;
                cursor.skip_blanks();
                Self::Preferred(grammar::number(&mut cursor, "expected a node number")?)
            }
            _ => {
                let problem = "expected local, interleave, bind or preferred";
                return Err(cursor.error_at(at, problem));
            }
        };
        cursor.skip_blanks();
        let problem = match spec {
            Self::Local | Self::Preferred(_) => "expected the end",
            Self::Interleave(_) | Self::Bind(_) => "expected ',' or the end",
        };
        cursor.finish(problem)?;
        Ok(spec)
    }
}

fn node_list(cursor: &mut Cursor<'_>) -> Result<NodeList, SyntaxError> {
    cursor.skip_blanks();
    let at = cursor.position();
    match cursor.take_while(|c| c.is_ascii_alphabetic()).to_ascii_lowercase().as_str() {
        "all" => return Ok(NodeList::All),
        "" => {}
        _ => return Err(cursor.error_at(at, "expected a node number or all")),
    }
    let problem = "expected a node number or all";
    grammar::list(cursor, None, "expected ',' or the end", |cursor| {
        let first = grammar::number(cursor, problem)?;
        let last =
            grammar::last(cursor, first, grammar::number, "expected the last node after '-'")?;
        Ok((first, last))
    })
    .map(NodeList::Ranges)
}

impl fmt::Display for NumaSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Interleave(NodeList::All) => f.write_str("interleave"),
            Self::Interleave(nodes) => write!(f, "interleave:{nodes}"),
            Self::Bind(nodes) => write!(f, "bind:{nodes}"),
            Self::Preferred(node) => write!(f, "preferred:{node}"),
        }
    }
}

impl fmt::Display for NodeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Ranges(ranges) = self else { return f.write_str("all") };
        f.write_str(&joined(ranges.iter().map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        })))
    }
}

impl NumaSpec {
    /// The policy on a machine.
    ///
    /// # Errors
    /// When a node does not exist.
    pub fn resolve(&self, topology: &Topology) -> Result<MemoryPolicy, PlacementError> {
        Ok(match self {
            Self::Local => MemoryPolicy::Local,
            Self::Interleave(nodes) => MemoryPolicy::Interleave(nodes.resolve(topology)?),
            Self::Bind(nodes) => MemoryPolicy::Bind(nodes.resolve(topology)?),
            Self::Preferred(node) => MemoryPolicy::Preferred(existing(topology, *node)?),
        })
    }
}

impl NodeList {
    fn resolve(&self, topology: &Topology) -> Result<Vec<NodeId>, PlacementError> {
        let mut nodes: Vec<NodeId> = match self {
            Self::All => {
                let first = topology.nodes.first().map_or(0, |node| node.id.0);
                existing(topology, first)?;
                // As numactl's `all` but for memory of devices, which must be asked for by number.
                topology.host_nodes().map(|node| node.id).collect()
            }
            Self::Ranges(ranges) => ranges
                .iter()
                .flat_map(|(first, last)| *first..=*last)
                .map(|node| existing(topology, node))
                .collect::<Result<_, _>>()?,
        };
        nodes.sort_unstable();
        nodes.dedup();
        Ok(nodes)
    }
}

fn existing(topology: &Topology, node: u32) -> Result<NodeId, PlacementError> {
    let found = topology.nodes.iter().find(|known| known.id.0 == node);
    found.map(|known| known.id).ok_or_else(|| {
        let all = number_ranges(topology.nodes.iter().map(|node| node.id.0));
        let nodes = match topology.nodes.len() {
            0 => "none".to_owned(),
            1 => format!("node {all} only"),
            _ => format!("nodes {all}"),
        };
        PlacementError::new(format!("NUMA node {node} does not exist: this machine has {nodes}"))
    })
}

impl MemoryPolicy {
    /// `default`, `local`, `bind`, `interleave` or `preferred`, as the record says it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Local => "local",
            Self::Interleave(_) => "interleave",
            Self::Bind(_) => "bind",
            Self::Preferred(_) => "preferred",
        }
    }

    /// The nodes that the policy names; `None` for those that name none.
    pub fn nodes(&self) -> Option<Vec<NodeId>> {
        match self {
            Self::Default | Self::Local => None,
            Self::Interleave(nodes) | Self::Bind(nodes) => Some(nodes.clone()),
            Self::Preferred(node) => Some(vec![*node]),
        }
    }

    /// Sets the policy of an address range, which starts on a page boundary, for pages that are
    /// touched from now on. [`MemoryPolicy::Default`] leaves everything as it is.
    ///
    /// # Errors
    /// When the kernel refuses: the range is not mapped (`EFAULT`) or not aligned, a node is not
    /// allowed (`EINVAL`), or a container forbids the call (`EPERM`).
    pub fn apply_to(&self, address: usize, bytes: usize) -> Result<(), SysError> {
        self.given(|mode, nodes| nodegauge_os::mbind(address, bytes, mode, nodes))
    }

    /// Sets the policy of the calling thread and of what it forks, as numactl does. [`MemoryPolicy::Default`]
    /// leaves everything as it is.
    ///
    /// # Errors
    /// When the kernel refuses, as [`MemoryPolicy::apply_to`].
    pub fn apply_to_thread(&self) -> Result<(), SysError> {
        self.given(nodegauge_os::set_policy_of_thread)
    }

    /// Gives the kernel's mode and nodes to `set`, unless nothing is said.
    fn given(
        &self,
        set: impl FnOnce(libc::c_int, &[u32]) -> Result<(), SysError>,
    ) -> Result<(), SysError> {
        let mode = match self {
            Self::Default => return Ok(()),
            Self::Local => libc::MPOL_LOCAL,
            Self::Interleave(_) => libc::MPOL_INTERLEAVE,
            Self::Bind(_) => libc::MPOL_BIND,
            Self::Preferred(_) => libc::MPOL_PREFERRED,
        };
        let nodes: Vec<u32> = self.nodes().unwrap_or_default().iter().map(|node| node.0).collect();
        set(mode, &nodes)
    }

    /// The policy that the kernel has for the mapping that holds `address`; `None` for one that is
    /// not known here.
    ///
    /// # Errors
    /// When the address is not mapped, or a container forbids the call.
    pub fn of(address: usize) -> Result<Option<Self>, SysError> {
        let (mode, nodes) = nodegauge_os::policy_at(address)?;
        Ok(Self::of_kernel(mode, nodes))
    }

    /// The policy that this process was started with, as by numactl, where it names nodes: it holds wherever
    /// nothing else is asked for.
    pub fn inherited() -> Option<Self> {
        let (mode, nodes) = nodegauge_os::policy_of_thread().ok()?;
        Self::of_kernel(mode, nodes).filter(|policy| policy.nodes().is_some())
    }

    /// What is said where that policy is honoured.
    pub fn inherited_in_words(&self) -> String {
        format!("memory policy {self} honoured, with which this process was started")
    }

    fn of_kernel(mode: Option<PolicyMode>, nodes: Vec<u32>) -> Option<Self> {
        let nodes: Vec<NodeId> = nodes.into_iter().map(NodeId).collect();
        match mode {
            Some(PolicyMode::Default) => Some(Self::Default),
            Some(PolicyMode::Local) => Some(Self::Local),
            Some(PolicyMode::Interleave) => Some(Self::Interleave(nodes)),
            Some(PolicyMode::Bind) => Some(Self::Bind(nodes)),
            Some(PolicyMode::Preferred) => nodes.first().map(|node| Self::Preferred(*node)),
            Some(PolicyMode::PreferredMany | PolicyMode::WeightedInterleave) | None => None,
        }
    }
}

impl fmt::Display for MemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        match self.nodes() {
            Some(nodes) => write!(f, ":{}", number_ranges(nodes.iter().map(|node| node.0))),
            None => Ok(()),
        }
    }
}

/// On which nodes pages are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageNodes {
    /// Pages on each node.
    pub nodes: BTreeMap<NodeId, u64>,
    /// Pages that are not there (never touched, swapped out) or that the kernel does not tell of.
    pub unknown: u64,
}

/// Asks the kernel on which node each page of an address range is; of at most `sample` pages, counted
/// in pages of the base size, one from each of as many parts of equal length. Where in its part a
/// page is changes from part to part: of pages at equal distances an interleaving over two nodes would
/// show one node alone.
///
/// # Errors
/// When the kernel has no `move_pages`, or a container forbids it.
pub fn pages_by_node(address: usize, bytes: usize, sample: usize) -> Result<PageNodes, SysError> {
    let page = nodegauge_os::page_bytes();
    let first = address / page;
    let count = address.saturating_add(bytes).div_ceil(page).saturating_sub(first);
    let asked = count.min(sample);
    let pages: Vec<usize> = (0..asked).map(|k| (first + sampled(k, asked, count)) * page).collect();
    let mut result = PageNodes::default();
    for status in nodegauge_os::nodes_of_pages(&pages)? {
        match u32::try_from(status) {
            Ok(node) => *result.nodes.entry(NodeId(node)).or_default() += 1,
            Err(_) => result.unknown += 1,
        }
    }
    Ok(result)
}

/// The index of page `k` of `asked` out of `count`, which is not less.
fn sampled(k: usize, asked: usize, count: usize) -> usize {
    let start = |k: usize| (k as u128 * count as u128 / asked as u128) as usize;
    let length = start(k + 1) - start(k);
    // Multiples of the golden ratio fill the unit interval evenly and follow no power of two.
    let within = (k as f64 * 0.618_033_988_749_895).fract();
    start(k) + ((within * length as f64) as usize).min(length.saturating_sub(1))
}

#[cfg(test)]
mod tests;
