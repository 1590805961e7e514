//! Placement of memory: the grammar of `--numa`, NUMA policies of address ranges, and the query for
//! the nodes that hold the pages.
//!
//! A policy is set before the pages are first touched; it never moves pages. [`pages_by_node`] asks the
//! kernel for the actual nodes.

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

/// Parsed value of `--numa`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NumaSpec {
    /// `local`: on the node of the CPU that first touches the page.
    Local,
    /// `interleave[:NODES]`: page by page, round-robin over the nodes; over all nodes if none is named.
    Interleave(NodeList),
    /// `bind:NODES`: only on these nodes.
    Bind(NodeList),
    /// `preferred:NODE`: on this node while it has room.
    Preferred(u32),
}

/// List of NUMA nodes as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeList {
    /// `all`.
    All,
    /// Single nodes and ranges, each with its first and last node.
    Ranges(Vec<(u32, u32)>),
}

/// NUMA policy of a memory range: the nodes on which pages are allocated at first touch.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum MemoryPolicy {
    /// No policy set: the policy of the process applies, which usually is local.
    #[default]
    Default,
    /// On the node of the CPU that first touches the page.
    Local,
    /// Page by page, round-robin over these nodes.
    Interleave(Vec<NodeId>),
    /// Only on these nodes.
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
        f.write_str(&joined(ranges.iter().map(|(first, last)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        })))
    }
}

impl NumaSpec {
    /// Resolves the policy on a machine.
    ///
    /// # Errors
    /// Fails when a node does not exist.
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
                // Like `all` of numactl, but without device memory, which must be named by number.
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
        let all = number_ranges(topology.nodes.iter().map(|known| known.id.0));
        let nodes = match topology.nodes.len() {
            0 => "none".to_owned(),
            1 => format!("node {all} only"),
            _ => format!("nodes {all}"),
        };
        PlacementError::new(format!("NUMA node {node} does not exist: this machine has {nodes}"))
    })
}

impl MemoryPolicy {
    /// Returns the name in the record: `default`, `local`, `bind`, `interleave` or `preferred`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Local => "local",
            Self::Interleave(_) => "interleave",
            Self::Bind(_) => "bind",
            Self::Preferred(_) => "preferred",
        }
    }

    /// Returns the nodes that the policy names; `None` for a policy without nodes.
    pub fn nodes(&self) -> Option<Vec<NodeId>> {
        match self {
            Self::Default | Self::Local => None,
            Self::Interleave(nodes) | Self::Bind(nodes) => Some(nodes.clone()),
            Self::Preferred(node) => Some(vec![*node]),
        }
    }

    /// Sets the policy of an address range, which starts on a page boundary, for pages that are first
    /// touched later. [`MemoryPolicy::Default`] changes nothing.
    ///
    /// # Errors
    /// Fails when the kernel refuses: the range is not mapped (`EFAULT`) or not aligned, a node is not
    /// allowed (`EINVAL`), or a container forbids the call (`EPERM`).
    pub fn apply_to(&self, address: usize, bytes: usize) -> Result<(), SysError> {
        self.set_with(|mode, nodes| nodegauge_os::mbind(address, bytes, mode, nodes))
    }

    /// Sets the policy of the calling thread and of processes that it forks, like numactl.
    /// [`MemoryPolicy::Default`] changes nothing.
    ///
    /// # Errors
    /// Fails when the kernel refuses the call, as in [`MemoryPolicy::apply_to`].
    pub fn apply_to_thread(&self) -> Result<(), SysError> {
        self.set_with(nodegauge_os::set_policy_of_thread)
    }

    /// Calls `set` with the kernel's mode and nodes, unless the policy is the default.
    fn set_with(
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

    /// Returns the kernel's policy for the mapping that contains `address`; `None` for a policy that this
    /// type cannot represent.
    ///
    /// # Errors
    /// Fails when the address is not mapped, or a container forbids the call.
    pub fn of(address: usize) -> Result<Option<Self>, SysError> {
        let (mode, nodes) = nodegauge_os::policy_at(address)?;
        Ok(Self::of_kernel(mode, nodes))
    }

    /// Returns the policy that this process inherited, e.g. from numactl, if it names nodes. It applies
    /// unless another policy is requested.
    pub fn inherited() -> Option<Self> {
        let (mode, nodes) = nodegauge_os::policy_of_thread().ok()?;
        Self::of_kernel(mode, nodes).filter(|policy| policy.nodes().is_some())
    }

    /// Returns the notice for an inherited policy.
    pub fn inherited_in_words(&self) -> String {
        format!("memory policy {self} honoured: inherited by this process")
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

/// Number of pages on each NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageNodes {
    /// Pages on each node.
    pub nodes: BTreeMap<NodeId, u64>,
    /// Pages that are absent (never touched, swapped out) or whose node the kernel does not report.
    pub unknown: u64,
}

/// Asks the kernel for the NUMA node of each page of an address range. At most `sample` pages are
/// queried, counted in pages of the base size: the range is divided into that many parts of equal
/// length, and one page per part is queried. The position of the page within its part varies, because
/// pages at equal distances would show only one node of an interleaving over two nodes.
///
/// # Errors
/// Fails when the kernel has no `move_pages`, or a container forbids it.
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

/// Returns the index of sampled page `k` of `asked` among `count` pages; `count` is at least `asked`.
fn sampled(k: usize, asked: usize, count: usize) -> usize {
    let start = |part: usize| (part as u128 * count as u128 / asked as u128) as usize;
    let length = start(k + 1) - start(k);
    // Multiples of the golden ratio fill the unit interval evenly and match no power of two.
    let within = (k as f64 * 0.618_033_988_749_895).fract();
    start(k) + ((within * length as f64) as usize).min(length.saturating_sub(1))
}

#[cfg(test)]
mod tests;
