//! Placement of memory: the grammar of `--numa`, NUMA policies of address ranges, and the query for the NUMA nodes on
//! which pages are located.
//!
//! A policy must be set before the pages are first touched, because it never moves pages. [`count_pages_by_numa_node`]
//! asks the kernel for the actual NUMA nodes of the pages.

use crate::cpus::{join_with_commas, number_ranges};
use crate::error::PlacementError;
use crate::grammar;
use nodegauge_machine::{NumaNodeId, Topology};
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
    /// Policy `local`: a page is on the NUMA node of the CPU that touches it first.
    Local,
    /// Policy `interleave[:NODES]`: pages are distributed round-robin over the NUMA nodes; over all NUMA nodes if no
    /// NUMA node is given.
    Interleave(NumaNodeList),
    /// Policy `bind:NODES`: pages are only on these NUMA nodes.
    Bind(NumaNodeList),
    /// Policy `preferred:NODE`: pages are on this NUMA node until it is full, and then on other NUMA nodes.
    Preferred(u32),
}

/// List of NUMA nodes as the user types it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NumaNodeList {
    /// All NUMA nodes (`all`).
    All,
    /// Single NUMA nodes and ranges; each pair is the first and the last NUMA node of a range.
    Ranges(Vec<(u32, u32)>),
}

/// NUMA policy of a memory range, which determines the NUMA nodes on which pages are allocated when they are first
/// touched.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum MemoryPolicy {
    /// No policy is set. The policy of the process applies, which usually is local allocation.
    #[default]
    Default,
    /// A page is on the NUMA node of the CPU that touches it first.
    Local,
    /// Pages are distributed round-robin over these NUMA nodes.
    Interleave(Vec<NumaNodeId>),
    /// Pages are only on these NUMA nodes.
    Bind(Vec<NumaNodeId>),
    /// Pages are on this NUMA node until it is full, and then on other NUMA nodes.
    Preferred(NumaNodeId),
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
            "interleave" => Self::Interleave(NumaNodeList::All),
            "bind" => {
                cursor.expect(':', "expected ':' and NUMA nodes after bind")?;
                Self::Bind(node_list(&mut cursor)?)
            }
            "preferred" => {
                cursor.expect(':', "expected ':' and a NUMA node after preferred")?;
                cursor.skip_blanks();
                Self::Preferred(grammar::number(&mut cursor, "expected the number of a NUMA node")?)
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

fn node_list(cursor: &mut Cursor<'_>) -> Result<NumaNodeList, SyntaxError> {
    cursor.skip_blanks();
    let at = cursor.position();
    match cursor.take_while(|c| c.is_ascii_alphabetic()).to_ascii_lowercase().as_str() {
        "all" => return Ok(NumaNodeList::All),
        "" => {}
        _ => return Err(cursor.error_at(at, "expected the number of a NUMA node, or all")),
    }
    let problems =
        ["expected the number of a NUMA node, or all", "expected the last NUMA node after '-'"];
    grammar::ranges(cursor, grammar::number, problems).map(NumaNodeList::Ranges)
}

impl fmt::Display for NumaSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Interleave(NumaNodeList::All) => f.write_str("interleave"),
            Self::Interleave(nodes) => write!(f, "interleave:{nodes}"),
            Self::Bind(nodes) => write!(f, "bind:{nodes}"),
            Self::Preferred(node) => write!(f, "preferred:{node}"),
        }
    }
}

impl fmt::Display for NumaNodeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Ranges(ranges) = self else { return f.write_str("all") };
        f.write_str(&join_with_commas(ranges.iter().map(|(first, last)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        })))
    }
}

impl NumaSpec {
    /// Converts the parsed value into a policy for this machine.
    ///
    /// # Errors
    /// Fails when a NUMA node does not exist, has no memory, or may not be used.
    pub fn resolve(&self, topology: &Topology) -> Result<MemoryPolicy, PlacementError> {
        Ok(match self {
            Self::Local => MemoryPolicy::Local,
            Self::Interleave(nodes) => MemoryPolicy::Interleave(nodes.resolve(topology)?),
            Self::Bind(nodes) => MemoryPolicy::Bind(nodes.resolve(topology)?),
            Self::Preferred(node) => MemoryPolicy::Preferred(usable_node(topology, *node)?),
        })
    }
}

impl NumaNodeList {
    fn resolve(&self, topology: &Topology) -> Result<Vec<NumaNodeId>, PlacementError> {
        let mut nodes: Vec<NumaNodeId> = match self {
            Self::All => {
                let first = topology.nodes.first().map_or(0, |node| node.id.0);
                existing_node(topology, first)?;
                // As for numactl, `all` means all nodes, but not those of device memory, which the user must give by
                // number.
                topology.host_numa_nodes().map(|node| node.id).collect()
            }
            Self::Ranges(ranges) => ranges
                .iter()
                .flat_map(|(first, last)| *first..=*last)
                .map(|node| usable_node(topology, node))
                .collect::<Result<_, _>>()?,
        };
        nodes.sort_unstable();
        nodes.dedup();
        Ok(nodes)
    }
}

fn existing_node(topology: &Topology, node: u32) -> Result<NumaNodeId, PlacementError> {
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

/// Returns the NUMA node with this number, if a memory policy can use it.
fn usable_node(topology: &Topology, node: u32) -> Result<NumaNodeId, PlacementError> {
    let id = existing_node(topology, node)?;
    let usable = usable_nodes(topology, &[id]);
    if !usable.is_empty() {
        return Ok(id);
    }
    let is_forbidden = topology.nodes.iter().any(|known| known.id == id && known.is_forbidden);
    let problem = if is_forbidden {
        format!("this process may not use the memory of NUMA node {node}")
    } else {
        format!("NUMA node {node} has no memory")
    };
    let others = topology.nodes.iter().map(|known| known.id).collect::<Vec<_>>();
    let others = number_ranges(usable_nodes(topology, &others).iter().map(|known| known.0));
    Err(PlacementError::new(problem).hint(format!("NUMA nodes with usable memory: {others}")))
}

/// Returns the NUMA nodes of `nodes` whose memory this process may use. All are returned if no NUMA node of the machine
/// has such memory, because their sizes are then unknown.
pub(crate) fn usable_nodes(topology: &Topology, nodes: &[NumaNodeId]) -> Vec<NumaNodeId> {
    let with_memory = topology.nodes.iter().filter(|node| node.has_usable_memory());
    let usable: Vec<NumaNodeId> = with_memory.map(|node| node.id).collect();
    let is_known = !usable.is_empty();
    nodes.iter().copied().filter(|node| !is_known || usable.contains(node)).collect()
}

impl MemoryPolicy {
    /// Returns the name of the policy in the record: `default`, `local`, `bind`, `interleave` or `preferred`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Local => "local",
            Self::Interleave(_) => "interleave",
            Self::Bind(_) => "bind",
            Self::Preferred(_) => "preferred",
        }
    }

    /// Returns the NUMA nodes of the policy; `None` for a policy without NUMA nodes.
    pub fn numa_nodes(&self) -> Option<Vec<NumaNodeId>> {
        match self {
            Self::Default | Self::Local => None,
            Self::Interleave(nodes) | Self::Bind(nodes) => Some(nodes.clone()),
            Self::Preferred(node) => Some(vec![*node]),
        }
    }

    /// Sets the policy for pages of an address range that are first touched later. The range must start on a page
    /// boundary. [`MemoryPolicy::Default`] changes nothing.
    ///
    /// # Errors
    /// Fails when the kernel refuses the call because the range is not mapped (`EFAULT`), the range is not aligned or a
    /// NUMA node is not allowed (`EINVAL`), or a container forbids the call (`EPERM`).
    pub fn apply_to(&self, address: usize, bytes: usize) -> Result<(), SysError> {
        self.set_with(|mode, nodes| nodegauge_os::mbind(address, bytes, mode, nodes))
    }

    /// Sets the policy of the calling thread and of the processes that it forks, as numactl does.
    /// [`MemoryPolicy::Default`] changes nothing.
    ///
    /// # Errors
    /// Fails when the kernel refuses the call, as in [`MemoryPolicy::apply_to`].
    pub fn apply_to_thread(&self) -> Result<(), SysError> {
        self.set_with(nodegauge_os::set_thread_policy)
    }

    /// Calls `set` with the mode and the NUMA nodes in the kernel's form. Does nothing if the policy is the default.
    fn set_with(
        &self,
        set: impl FnOnce(libc::c_int, &[u32]) -> Result<(), SysError>,
    ) -> Result<(), SysError> {
        match self.in_kernel_form() {
            Some((mode, nodes)) => set(mode, &nodes),
            None => Ok(()),
        }
    }

    /// Returns the mode and the NUMA nodes in the kernel's form; `None` for the default policy.
    pub fn in_kernel_form(&self) -> Option<(libc::c_int, Vec<u32>)> {
        let mode = match self {
            Self::Default => return None,
            Self::Local => libc::MPOL_LOCAL,
            Self::Interleave(_) => libc::MPOL_INTERLEAVE,
            Self::Bind(_) => libc::MPOL_BIND,
            Self::Preferred(_) => libc::MPOL_PREFERRED,
        };
        Some((mode, self.numa_nodes().unwrap_or_default().iter().map(|node| node.0).collect()))
    }

    /// Returns the kernel's policy for the mapping that contains `address`; `None` for a policy that this type
    /// cannot represent.
    ///
    /// # Errors
    /// Fails when the address is not mapped, or a container forbids the call.
    pub fn from_address(address: usize) -> Result<Option<Self>, SysError> {
        let (mode, nodes) = nodegauge_os::policy_at(address)?;
        Ok(Self::from_kernel(mode, nodes))
    }

    /// Returns the policy that this process inherited, e.g. from numactl, if it names NUMA nodes. It applies unless
    /// the user requests another policy.
    pub fn inherited() -> Option<Self> {
        let (mode, nodes) = nodegauge_os::thread_policy().ok()?;
        Self::from_kernel(mode, nodes).filter(|policy| policy.numa_nodes().is_some())
    }

    /// Returns the text of the notice for an inherited policy.
    pub fn inherited_in_words(&self) -> String {
        format!("memory policy {self} honoured: inherited by this process")
    }

    fn from_kernel(mode: Option<PolicyMode>, nodes: Vec<u32>) -> Option<Self> {
        let nodes: Vec<NumaNodeId> = nodes.into_iter().map(NumaNodeId).collect();
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
        match self.numa_nodes() {
            Some(nodes) => write!(f, ":{}", number_ranges(nodes.iter().map(|node| node.0))),
            None => Ok(()),
        }
    }
}

/// Number of pages on each NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageCounts {
    /// Number of pages per NUMA node.
    pub nodes: BTreeMap<NumaNodeId, u64>,
    /// Number of pages whose NUMA node is unknown: never touched, swapped out, or not reported by the kernel.
    pub unknown: u64,
}

/// Asks the kernel for the NUMA node of each page of an address range. At most `sample` pages of the base page size are
/// queried: the range is divided into `sample` parts of equal length, and one page per part is queried. The position of
/// the page within its part varies, because pages at equal distances could all be on one NUMA node if the memory is
/// interleaved over two NUMA nodes.
///
/// # Errors
/// Fails when the kernel does not support `move_pages`, or a container forbids this call.
pub fn count_pages_by_numa_node(
    address: usize,
    bytes: usize,
    sample: usize,
) -> Result<PageCounts, SysError> {
    let page = nodegauge_os::page_bytes();
    let first = address / page;
    let count = address.saturating_add(bytes).div_ceil(page).saturating_sub(first);
    let asked = count.min(sample);
    let pages: Vec<usize> = (0..asked).map(|k| (first + sampled(k, asked, count)) * page).collect();
    let mut result = PageCounts::default();
    for status in nodegauge_os::page_numa_nodes(&pages)? {
        match u32::try_from(status) {
            Ok(node) => *result.nodes.entry(NumaNodeId(node)).or_default() += 1,
            Err(_) => result.unknown += 1,
        }
    }
    Ok(result)
}

/// Returns the index of sampled page number `k`, if `asked` of `count` pages are sampled. `count` must
/// be at least `asked`.
fn sampled(k: usize, asked: usize, count: usize) -> usize {
    let start = part_start(k, asked, count);
    let length = part_start(k + 1, asked, count) - start;
    // Multiples of the golden ratio fill the unit interval evenly and do not coincide with powers of two.
    let within = (k as f64 * 0.618_033_988_749_895).fract();
    start + ((within * length as f64) as usize).min(length.saturating_sub(1))
}

/// Returns the first index of part `number` if `count` indices are divided into `parts` parts.
fn part_start(number: usize, parts: usize, count: usize) -> usize {
    (number as u128 * count as u128 / parts as u128) as usize
}

#[cfg(test)]
mod tests;
