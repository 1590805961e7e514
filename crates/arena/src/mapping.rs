//! Memory mappings for arrays, on pages of a chosen kind. [`Mapping::page_size_shares`] reads the actual page sizes
//! from the kernel.

use nodegauge_machine::{NumaNodeId, SysRoot, memory};
use nodegauge_measure::record::HugePages;
use nodegauge_measure::{Bytes, Failure, Fraction, UnknownName};
use nodegauge_os::{MapError, Mapping, PageSize, page_bytes};
use nodegauge_placement::MemoryPolicy;
use nodegauge_placement::cpus::number_ranges;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::str::FromStr;

/// Kind of pages that is requested for the arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RequestedPages {
    /// Base pages, with transparent huge pages disabled.
    Base,
    /// Transparent huge pages, requested with madvise.
    Transparent,
    /// Reserved huge pages of 2 MiB.
    Huge2M,
    /// Reserved huge pages of 1 GiB.
    Huge1G,
}

impl RequestedPages {
    /// All kinds of pages, smallest first.
    pub const ALL: [Self; 4] = [Self::Base, Self::Transparent, Self::Huge2M, Self::Huge1G];

    /// Returns the name in options and records. The name of base pages is their size, which is not always 4 KiB on Arm.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => match page_bytes() {
                4096 => "4k",
                0x4000 => "16k",
                0x1_0000 => "64k",
                _ => "base",
            },
            Self::Transparent => "thp",
            Self::Huge2M => "2m",
            Self::Huge1G => "1g",
        }
    }

    /// Returns the size of a reserved huge page; `None` for kinds of pages that need no reservation.
    pub fn reserved_page_size(self) -> Option<Bytes> {
        match self {
            Self::Base | Self::Transparent => None,
            Self::Huge2M => Some(Bytes::mib(2)),
            Self::Huge1G => Some(Bytes::gib(1)),
        }
    }
}

impl fmt::Display for RequestedPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for RequestedPages {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|pages| pages.name() == text).ok_or_else(|| UnknownName {
            what: "kind of page",
            given: text.to_owned(),
            known: Self::ALL.into_iter().map(Self::name).collect(),
        })
    }
}

/// Error while arrays are mapped.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// There are too few reserved huge pages.
    #[error(
        "cannot put {wanted} on {pages} pages: reserved pages of {page}{}: {free} of {total} free, {needed} needed",
        node_suffix(nodes)
    )]
    NoHugePages {
        /// Number of bytes to map.
        wanted: Bytes,
        /// Requested kind of pages.
        pages: RequestedPages,
        /// Size of a page.
        page: Bytes,
        /// Number of reserved pages.
        total: u64,
        /// Number of free reserved pages.
        free: u64,
        /// Number of required pages.
        needed: u64,
        /// NUMA nodes to which the memory is bound; empty if the pages may be on any NUMA node.
        nodes: Vec<NumaNodeId>,
    },
    /// The kernel refused the mapping.
    #[error("cannot map {wanted} of memory: {cause}")]
    Map {
        /// Number of bytes to map.
        wanted: Bytes,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The kernel refused the requested page size.
    #[error("madvise for {pages} pages failed: {cause}")]
    Advice {
        /// Requested kind of pages.
        pages: RequestedPages,
        /// Error of the operating system.
        cause: io::Error,
    },
}

impl ArrayError {
    /// Returns the remedy as a hint.
    fn hint(&self) -> String {
        match self {
            Self::NoHugePages { page, needed, nodes, .. } => {
                let system = match nodes.first() {
                    Some(node) => format!("devices/system/node/node{node}"),
                    None => "kernel/mm".to_owned(),
                };
                let kib = page.0 >> 10;
                format!(
                    "as root, echo {needed} > /sys/{system}/hugepages/hugepages-{kib}kB/nr_hugepages; or use \
                     --pages thp"
                )
            }
            Self::Map { .. } => "use a smaller --size".to_owned(),
            Self::Advice { .. } => format!("use --pages {}", RequestedPages::Base),
        }
    }
}

impl From<ArrayError> for Failure {
    fn from(error: ArrayError) -> Self {
        Self::missing(&error).hint(error.hint())
    }
}

/// Private memory mapping on pages of one kind. Creating the mapping touches no page.
#[derive(Debug)]
pub struct PagedMapping {
    mapping: Mapping,
    pages: RequestedPages,
}

impl PagedMapping {
    /// Returns the share of the memory on pages of each size in bytes; see [`Mapping::page_size_shares`].
    ///
    /// # Errors
    /// Fails if the kernel does not report the pages.
    pub fn page_size_shares(&self) -> io::Result<BTreeMap<u64, Fraction>> {
        let shares = Mapping::page_size_shares(self)?.into_iter();
        Ok(shares.map(|(bytes, share)| (bytes, Fraction(share))).collect())
    }

    /// Maps at least `wanted` bytes in whole pages. The mapping starts at a multiple of 2 MiB or of the page size,
    /// whichever is larger. Each page is allocated when a thread first writes to the page.
    ///
    /// # Errors
    /// Fails if there are too few reserved huge pages, or not enough memory.
    pub fn map(wanted: Bytes, pages: RequestedPages) -> Result<Self, ArrayError> {
        let granule = pages.reserved_page_size().unwrap_or(Bytes::mib(2));
        let wanted = Bytes(wanted.0.next_multiple_of(granule.0));
        let size = match pages {
            RequestedPages::Base => PageSize::Base,
            RequestedPages::Transparent => PageSize::Transparent,
            RequestedPages::Huge2M | RequestedPages::Huge1G => {
                PageSize::Reserved(granule.0 as usize)
            }
        };
        // The size was compared with the available memory earlier.
        let mapping = Mapping::anonymous(wanted.0 as usize, size);
        mapping.map(|mapping| Self { mapping, pages }).map_err(refused(wanted, pages))
    }

    /// Checks that enough huge pages are reserved for `count` mappings of `wanted` bytes, if the kind of pages
    /// requires a reservation.
    ///
    /// # Errors
    /// Fails if fewer huge pages are reserved.
    pub fn check(wanted: Bytes, pages: RequestedPages, count: u64) -> Result<(), ArrayError> {
        let Some(page) = pages.reserved_page_size() else { return Ok(()) };
        let wanted = Bytes(wanted.0.next_multiple_of(page.0));
        Mapping::check_reserved_pages(wanted.0 as usize, page.0 as usize, count)
            .map_err(refused(wanted, pages))
    }

    /// Checks that the NUMA nodes to which a policy binds memory have enough free reserved pages for `count`
    /// mappings of `wanted` bytes. When memory is mapped, the kernel checks the pages of all NUMA nodes and ignores
    /// the policy. If a page is missing on the NUMA nodes of the policy, the kernel ends the program at first
    /// touch.
    ///
    /// # Errors
    /// Fails if these nodes have fewer free pages.
    pub fn check_bound(
        wanted: Bytes,
        pages: RequestedPages,
        policy: &MemoryPolicy,
        count: u64,
    ) -> Result<(), ArrayError> {
        let (Some(page), MemoryPolicy::Bind(nodes)) = (pages.reserved_page_size(), policy) else {
            return Ok(());
        };
        let root = SysRoot::live();
        let pools = nodes.iter().flat_map(|node| memory::numa_node_huge_pages(&root, *node));
        let pools: Vec<HugePages> = pools.filter(|pool| pool.bytes == page.0).collect();
        let total = pools.iter().map(|pool| pool.total).sum();
        let free = pools.iter().map(|pool| pool.free).sum();
        let needed = count * wanted.0.div_ceil(page.0);
        if pools.len() < nodes.len() || free >= needed {
            return Ok(());
        }
        let wanted = Bytes(count * wanted.0.next_multiple_of(page.0));
        let nodes = nodes.clone();
        Err(ArrayError::NoHugePages { wanted, pages, page, total, free, needed, nodes })
    }

    /// Returns the requested kind of pages.
    pub fn requested_pages(&self) -> RequestedPages {
        self.pages
    }
}

/// Describes the NUMA nodes to which memory is bound, for the end of a message; empty if memory is not bound.
fn node_suffix(nodes: &[NumaNodeId]) -> String {
    let numbers = number_ranges(nodes.iter().map(|node| node.0));
    match nodes.len() {
        0 => String::new(),
        1 => format!(" on NUMA node {numbers}"),
        _ => format!(" on NUMA nodes {numbers}"),
    }
}

/// Returns a function that makes an [`ArrayError`] from the failure of a mapping of this size and kind of pages.
fn refused(wanted: Bytes, pages: RequestedPages) -> impl Fn(MapError) -> ArrayError {
    move |error| match error {
        MapError::NoReservedPages { total, free, needed, .. } => {
            let page = pages.reserved_page_size().unwrap_or(Bytes(page_bytes() as u64));
            let nodes = Vec::new();
            ArrayError::NoHugePages { wanted, pages, page, total, free, needed, nodes }
        }
        MapError::Refused(cause) if cause.call == "madvise" => {
            ArrayError::Advice { pages, cause: cause.into() }
        }
        MapError::Refused(cause) => ArrayError::Map { wanted, cause: cause.into() },
    }
}

impl Deref for PagedMapping {
    type Target = Mapping;
    fn deref(&self) -> &Mapping {
        &self.mapping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_huge_pages_are_reported_with_numa_nodes() {
        let error = |nodes: &[u32]| {
            let nodes = nodes.iter().copied().map(NumaNodeId).collect();
            let error = ArrayError::NoHugePages {
                wanted: Bytes::mib(4),
                pages: RequestedPages::Huge2M,
                page: Bytes::mib(2),
                total: 8,
                free: 1,
                needed: 2,
                nodes,
            };
            Failure::from(error).to_string()
        };
        assert_eq!(
            error(&[]),
            "cannot put 4 MiB on 2m pages: reserved pages of 2 MiB: 1 of 8 free, 2 needed\n\
             hint: as root, echo 2 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages; or use --pages thp"
        );
        let bound = error(&[1, 2]);
        assert!(
            bound.contains("reserved pages of 2 MiB on NUMA nodes 1-2: 1 of 8 free"),
            "{bound}"
        );
        assert!(bound.contains("/sys/devices/system/node/node1/hugepages/"), "{bound}");
    }

    #[test]
    fn only_reserved_pages_on_existing_bound_numa_nodes_are_checked() {
        let check = |pages, policy: &MemoryPolicy| {
            PagedMapping::check_bound(Bytes::mib(1 << 30), pages, policy, 1)
        };
        let node = NumaNodeId(0);
        assert!(check(RequestedPages::Huge2M, &MemoryPolicy::Preferred(node)).is_ok());
        assert!(check(RequestedPages::Transparent, &MemoryPolicy::Bind(vec![node])).is_ok());
        // Another check refuses NUMA nodes that do not exist.
        let far = MemoryPolicy::Bind(vec![NumaNodeId(9999)]);
        assert!(check(RequestedPages::Huge2M, &far).is_ok());
    }
}
