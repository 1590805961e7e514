//! The hardware threads of a node and what they share, as plain data.
//!
//! hwloc does the discovery (this machine, an XML file, or a synthetic description); what
//! placement and the gauges need of it is copied into [`Topology`], so that everything above works
//! on any machine that can be described. Numbers are the operating system's (hwloc's `P#`);
//! last-level caches, which Linux may leave unnumbered, fall back to hwloc's logical index.

use crate::ids::{CpuId, NodeId};
use hwlocality::Topology as Hwloc;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::{CacheType, ObjectType};
use hwlocality::topology::builder::BuildFlags;
use nodegauge_measure::Failure;
use nodegauge_measure::record::Cache;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Which machine to describe.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TopologySource {
    /// The one this runs on.
    #[default]
    Live,
    /// An XML file that `lstopo FILE.xml` wrote.
    Xml(PathBuf),
    /// An hwloc synthetic description, e.g. `Package:2 NUMANode:4 Core:8 PU:1`.
    Synthetic(String),
}

impl TopologySource {
    /// `live`, `xml` or `synthetic`, as the record says it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Xml(_) => "xml",
            Self::Synthetic(_) => "synthetic",
        }
    }
}

impl FromStr for TopologySource {
    type Err = std::convert::Infallible;

    /// `synthetic:DESCRIPTION`, else the path of an XML file.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.strip_prefix("synthetic:") {
            Some(description) => Self::Synthetic(description.trim().to_owned()),
            None => Self::Xml(PathBuf::from(text)),
        })
    }
}

/// One hardware thread and where it is. Indices of cores and caches point into [`Topology`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HardwareThread {
    /// Its number.
    pub cpu: CpuId,
    /// Index into [`Topology::cores`].
    pub core: usize,
    /// Index into [`Topology::llcs`]; `None` when the machine has no cache beyond level 1.
    pub llc: Option<usize>,
    /// Index into [`Topology::sockets`].
    pub socket: usize,
    /// Index into [`Topology::nodes`]: the nearest node.
    pub node: Option<usize>,
    /// Which thread of its core it is, from 0.
    pub sibling: u32,
    /// Whether this process may run on it (cpuset, affinity mask).
    pub allowed: bool,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyNode {
    /// Its number.
    pub id: NodeId,
    /// Its memory as the kernel reports it, bytes; `None` when a description does not say.
    pub bytes: Option<u64>,
    /// Its hardware threads, in numeric order.
    pub cpus: Vec<CpuId>,
}

/// A machine as placement sees it. Threads are in hwloc's logical order: by socket, then NUMA
/// node, then cache, then core, so that neighbours share most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Where the description comes from.
    pub source: TopologySource,
    /// Every hardware thread, in logical order.
    pub threads: Vec<HardwareThread>,
    /// The operating system's number of each core; unique within its socket only.
    pub cores: Vec<u32>,
    /// The number of each last-level cache.
    pub llcs: Vec<u32>,
    /// The operating system's number of each socket.
    pub sockets: Vec<u32>,
    /// The NUMA nodes, by number.
    pub nodes: Vec<TopologyNode>,
    /// The caches, level 1 first.
    pub caches: Vec<Cache>,
    /// Processor name as hwloc found it.
    pub processor_model: Option<String>,
    /// Vendor, family and model numbers as hwloc found them.
    pub identification: Option<(String, u32, u32)>,
}

impl Topology {
    /// Describes the machine that `source` names.
    ///
    /// # Errors
    /// When hwloc cannot read it; a synthetic description is checked first, so that the error
    /// points at the wrong character.
    pub fn load(source: &TopologySource) -> Result<Self, Failure> {
        let builder = Hwloc::builder();
        let words = |cause: &dyn fmt::Display| cause.to_string();
        let hwloc = match source {
            TopologySource::Live => builder
                .with_flags(BuildFlags::INCLUDE_DISALLOWED)
                .map_err(|cause| words(&cause))
                .and_then(|builder| builder.build().map_err(|cause| words(&cause)))
                .map_err(|cause| {
                    Failure::missing(format!("hwloc cannot read this machine's topology: {cause}"))
                })?,
            TopologySource::Xml(path) => {
                let shown = path.display();
                let text = std::fs::read_to_string(path).map_err(|cause| {
                    Failure::usage(format!("cannot read topology file {shown}: {cause}"))
                })?;
                match newer_xml_version(&text) {
                    Some(version) => Err(format!(
                        "it is of hwloc {version}, newer than the installed hwloc 2 reads"
                    )),
                    None => builder.from_xml(&text).map_err(|cause| words(&cause)),
                }
                .and_then(|builder| builder.build().map_err(|cause| words(&cause)))
                .map_err(|cause| {
                    Failure::usage(format!(
                        "{shown} is not an XML topology that hwloc reads: {cause}\nhint: write one with `lstopo FILE.xml`"
                    ))
                })?
            }
            TopologySource::Synthetic(description) => {
                crate::synthetic::check(description).map_err(Failure::usage)?;
                let built = builder.from_synthetic(description).ok();
                built.and_then(|builder| builder.build().ok()).ok_or_else(|| {
                    let problem = "hwloc does not accept this order of levels";
                    Failure::usage(crate::synthetic::refused(description, problem))
                })?
            }
        };
        Ok(Self::from_hwloc(&hwloc, source))
    }

    /// Copies what is needed out of hwloc's tree.
    fn from_hwloc(hwloc: &Hwloc, source: &TopologySource) -> Self {
        let mut numbering = Numbering::default();
        let llc_type = last_level_cache(hwloc);
        let affinity = match source {
            TopologySource::Live => nodegauge_os::affinity().ok(),
            _ => None,
        };
        let affinity = affinity.map(|cpus| cpus.into_iter().map(CpuId).collect::<Vec<_>>());
        let allowed_set = hwloc.allowed_cpuset();
        let mut siblings: BTreeMap<usize, u32> = BTreeMap::new();
        let nodes = nodes(hwloc, source);
        let mut threads = Vec::new();
        for pu in hwloc.objects_with_type(ObjectType::PU) {
            let Some(os) = pu.os_index() else { continue };
            let cpu = CpuId(os as u32);
            let core = numbering.index(pu, ObjectType::Core);
            let sibling = siblings.entry(core).or_insert(0);
            let socket = numbering.index(pu, ObjectType::Package);
            let llc = llc_type
                .filter(|kind| pu.first_ancestor_with_type(*kind).is_some())
                .map(|kind| numbering.index(pu, kind));
            threads.push(HardwareThread {
                cpu,
                core,
                llc,
                socket,
                // The smallest node that holds the thread is the nearest.
                node: (0..nodes.len())
                    .filter(|i| nodes[*i].cpus.binary_search(&cpu).is_ok())
                    .min_by_key(|i| nodes[*i].cpus.len()),
                sibling: *sibling,
                allowed: allowed_set.is_set(os)
                    && affinity.as_ref().is_none_or(|mask| mask.contains(&cpu)),
            });
            *sibling += 1;
        }
        let package = hwloc.objects_with_type(ObjectType::Package).next();
        let info = |key: &str| {
            package
                .and_then(|object| object.info(key))
                .map(|text| text.to_string_lossy().trim().to_owned())
                .filter(|text| !text.is_empty())
        };
        let number = |key: &str| info(key).and_then(|text| text.parse().ok());
        Self {
            source: source.clone(),
            threads,
            cores: numbering.take(ObjectType::Core),
            llcs: llc_type.map(|kind| numbering.take(kind)).unwrap_or_default(),
            sockets: numbering.take(ObjectType::Package),
            nodes,
            caches: cache_levels(hwloc, source),
            processor_model: info("CPUModel"),
            identification: info("CPUVendor")
                .zip(number("CPUFamilyNumber"))
                .zip(number("CPUModelNumber"))
                .map(|((vendor, family), model)| (vendor, family, model)),
        }
    }

    /// The threads that this process may use, in logical order.
    pub fn allowed(&self) -> impl Iterator<Item = &HardwareThread> {
        self.threads.iter().filter(|thread| thread.allowed)
    }

    /// The thread with the operating system's number `cpu`.
    pub fn thread(&self, cpu: CpuId) -> Option<&HardwareThread> {
        self.threads.iter().find(|thread| thread.cpu == cpu)
    }

    /// Hardware threads of the core that has most.
    pub fn threads_per_core(&self) -> u32 {
        self.threads.iter().map(|thread| thread.sibling + 1).max().unwrap_or(1)
    }

    /// Sum of the last-level caches that the given threads can reach, bytes, and how many there
    /// are; `None` when sizes are not known. Without a shared cache, the largest cache counts.
    pub fn llc_in_use(&self, cpus: &[CpuId]) -> Option<(u64, usize)> {
        let last = self.caches.iter().rfind(|cache| cache.kind != "instruction")?;
        let mut used: Vec<usize> = cpus
            .iter()
            .filter_map(|cpu| self.thread(*cpu))
            .map(|thread| thread.llc.unwrap_or(thread.core))
            .collect();
        used.sort_unstable();
        used.dedup();
        Some((last.bytes? * used.len() as u64, used.len()))
    }
}

/// Gives objects their index in order of first appearance, and keeps their numbers.
#[derive(Default)]
struct Numbering {
    seen: BTreeMap<(String, usize), usize>,
    numbers: BTreeMap<String, Vec<u32>>,
}

impl Numbering {
    /// Index of the ancestor of `pu` of type `kind`; a machine without such objects is one object.
    fn index(&mut self, pu: &TopologyObject, kind: ObjectType) -> usize {
        let object = pu.first_ancestor_with_type(kind);
        let logical = object.map_or(0, TopologyObject::logical_index);
        let name = kind.to_string();
        let numbers = self.numbers.entry(name.clone()).or_default();
        *self.seen.entry((name, logical)).or_insert_with(|| {
            let number = object.and_then(TopologyObject::os_index).unwrap_or(logical);
            numbers.push(number as u32);
            numbers.len() - 1
        })
    }

    fn take(&mut self, kind: ObjectType) -> Vec<u32> {
        self.numbers.remove(&kind.to_string()).unwrap_or_default()
    }
}

/// The type of the largest level of data or unified cache beyond level 1.
fn last_level_cache(hwloc: &Hwloc) -> Option<ObjectType> {
    [ObjectType::L5Cache, ObjectType::L4Cache, ObjectType::L3Cache, ObjectType::L2Cache]
        .into_iter()
        .find(|kind| hwloc.objects_with_type(*kind).next().is_some())
}

fn nodes(hwloc: &Hwloc, source: &TopologySource) -> Vec<TopologyNode> {
    // hwloc invents 1 GiB a node for a synthetic machine that does not say.
    let known = match source {
        TopologySource::Synthetic(text) => text.contains("memory="),
        TopologySource::Live | TopologySource::Xml(_) => true,
    };
    let mut nodes: Vec<TopologyNode> = hwloc
        .objects_with_type(ObjectType::NUMANode)
        .filter_map(|object| {
            let mut cpus: Vec<CpuId> =
                object.cpuset()?.iter_set().map(|index| CpuId(usize::from(index) as u32)).collect();
            cpus.sort_unstable();
            Some(TopologyNode {
                id: NodeId(object.os_index()? as u32),
                bytes: known.then(|| object.total_memory()),
                cpus,
            })
        })
        .collect();
    nodes.sort_by_key(|node| node.id);
    nodes
}

fn cache_levels(hwloc: &Hwloc, source: &TopologySource) -> Vec<Cache> {
    const TYPES: [ObjectType; 8] = [
        ObjectType::L1Cache,
        ObjectType::L1ICache,
        ObjectType::L2Cache,
        ObjectType::L2ICache,
        ObjectType::L3Cache,
        ObjectType::L3ICache,
        ObjectType::L4Cache,
        ObjectType::L5Cache,
    ];
    TYPES
        .iter()
        .filter_map(|kind| {
            let objects: Vec<&TopologyObject> = hwloc.objects_with_type(*kind).collect();
            let Some(ObjectAttributes::Cache(first)) = objects.first()?.attributes() else {
                return None;
            };
            let cores = |cache: &&TopologyObject| {
                cache.cpuset().map_or(0, |set| {
                    hwloc
                        .objects_with_type(ObjectType::Core)
                        .filter(|core| core.is_inside_cpuset(set))
                        .count()
                })
            };
            let level = first.depth() as u32;
            // hwloc invents sizes for a synthetic machine that does not say.
            let known = match source {
                TopologySource::Synthetic(text) => {
                    crate::synthetic::says_size_of_level(text, level)
                }
                TopologySource::Live | TopologySource::Xml(_) => true,
            };
            Some(Cache {
                level,
                kind: match first.cache_type() {
                    CacheType::Instruction => "instruction".to_owned(),
                    CacheType::Data => "data".to_owned(),
                    _ => "unified".to_owned(),
                },
                bytes: first.size().map(std::num::NonZero::get).filter(|_| known),
                line: first.line_size().map(|line| line.get() as u32).filter(|_| known),
                count: objects.len() as u32,
                cores: objects.iter().map(cores).max().unwrap_or(0) as u32,
            })
        })
        .collect()
}

/// The version of an hwloc XML text when it is 3 or later, which hwloc 2 refuses without a reason.
fn newer_xml_version(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("<topology version=\"")?;
    let (version, _) = rest.split_once('"')?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major >= 3).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synthetic(text: &str) -> Topology {
        Topology::load(&TopologySource::Synthetic(text.to_owned())).unwrap()
    }

    #[test]
    fn t2k_has_no_shared_cache_and_one_node_a_socket() {
        let t2k = synthetic("Package:4 NUMANode:1 Core:4 PU:1");
        assert_eq!((t2k.sockets.len(), t2k.cores.len(), t2k.nodes.len()), (4, 16, 4));
        assert!(t2k.llcs.is_empty());
        assert_eq!(t2k.thread(CpuId(5)).map(|t| (t.socket, t.node)), Some((1, Some(1))));
        assert_eq!(t2k.nodes[0].bytes, None);
    }

    #[test]
    fn rome_in_nps4_has_32_caches_on_8_nodes() {
        let rome = synthetic(
            "Package:2 NUMANode:4 L3Cache:4(size=16777216) L2Cache:4 L1dCache:1 Core:1 PU:1",
        );
        assert_eq!((rome.threads.len(), rome.llcs.len(), rome.nodes.len()), (128, 32, 8));
        assert_eq!(rome.thread(CpuId(127)).map(|t| (t.llc, t.node)), Some((Some(31), Some(7))));
        let l3 = rome.caches.last().unwrap();
        assert_eq!((l3.level, l3.count, l3.cores), (3, 32, 4));
        assert_eq!(l3.bytes, Some(16 << 20));
        assert_eq!(rome.llc_in_use(&[CpuId(0), CpuId(3), CpuId(4)]), Some((32 << 20, 2)));
    }

    #[test]
    fn xeon_phi_has_four_threads_a_core_and_private_last_level_caches() {
        let phi = synthetic("Package:1 NUMANode:1 L2Cache:61 L1dCache:1 Core:1 PU:4");
        assert_eq!((phi.threads.len(), phi.threads_per_core(), phi.llcs.len()), (244, 4, 61));
        assert_eq!(phi.thread(CpuId(7)).map(|t| (t.core, t.sibling)), Some((1, 3)));
    }

    #[test]
    fn this_machine_has_threads_that_this_process_may_use() {
        let live = Topology::load(&TopologySource::Live).unwrap();
        assert!(live.allowed().count() >= 1);
        assert!(live.threads.iter().all(|thread| thread.core < live.cores.len()));
    }

    #[test]
    fn xml_of_hwloc_3_is_refused_with_its_version() {
        assert_eq!(newer_xml_version("<topology version=\"3.0\">"), Some("3.0"));
        assert_eq!(newer_xml_version("<topology version=\"2.0\">"), None);
    }
}
