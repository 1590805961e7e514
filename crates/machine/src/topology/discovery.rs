//! Discovery of the topology by hwloc in a child process, and conversion of hwloc's tree. A separate process is
//! necessary because hwloc crashes on some files, takes minutes for some descriptions, and loads plug-ins into the
//! process that calls it.

use super::core_kinds::{self, CoreKind};
use super::{HardwareThread, Topology, TopologyNumaNode, TopologySource};
use crate::ids::CpuId;
use crate::root::SysRoot;
use crate::{memory, pci};
use caches::CoreCaches;
use hwlocality::Topology as Hwloc;
use hwlocality::bitmap::BitmapRef;
use hwlocality::cpu::cpuset::CpuSet;
use hwlocality::cpu::kind::CpuKind;
use hwlocality::object::TopologyObject;
use hwlocality::object::types::ObjectType;
use hwlocality::topology::builder::{BuildFlags, TypeFilter};
use hwlocality::topology::export::xml::XMLExportFlags;
use memory_nodes::HwlocNumaNodes;
use nodegauge_measure::{Failure, legible};
use nodegauge_os::{AnswerLimits, ChildAnswer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::CStr;

use std::string::FromUtf8Error;
use std::time::Duration;

mod caches;
mod io_objects;
mod memory_nodes;

/// Limits for reading a description. The CPU time is thousands of times longer than the largest machine needs, and
/// does not depend on other load.
const LIMITS: AnswerLimits =
    AnswerLimits { elapsed: Duration::from_secs(60), cpu_seconds: Some(5) };
/// Limits for the live machine, which hwloc reads file by file: one day.
const LIMITS_LIVE: AnswerLimits =
    AnswerLimits { elapsed: Duration::from_secs(24 * 3600), cpu_seconds: None };

/// Reason of the failure if a limit is exceeded.
const TOO_LONG: &str = "hwloc takes too long to read it";

/// Environment variable with a list of plug-ins that hwloc must not load. Disabling components with
/// `hwloc_topology_set_components` would be too late, because hwloc loads all plug-ins when it creates a topology.
const BLACKLIST: &CStr = c"HWLOC_PLUGINS_BLACKLIST";
/// Environment variable with an XML file that hwloc reads instead of the machine.
const XML_FILE: &CStr = c"HWLOC_XMLFILE";
/// Environment variable that selects the parser of hwloc: 0 is the parser that is a part of hwloc.
const PARSER: &CStr = c"HWLOC_LIBXML_IMPORT";
/// Plug-ins that are linked with libraries of device vendors. Such libraries run their own code when they are loaded.
const VENDOR_PLUGINS: &CStr =
    c"hwloc_opencl hwloc_cuda hwloc_nvml hwloc_rsmi hwloc_levelzero hwloc_gl";

/// Loads the topology of the machine that `source` specifies; see [`Topology::load`].
pub(super) fn load(source: &TopologySource) -> Result<Topology, Failure> {
    match source {
        TopologySource::Live => described(source, "")
            .map(|topology| with_kernels_view(topology, &SysRoot::live()))
            .map_err(|cause| unreadable_machine(&cause)),
        TopologySource::Xml(path) => {
            let shown = legible::path(path);
            let bytes =
                nodegauge_os::read_file(path, nodegauge_os::MAX_TEXT_BYTES).map_err(|cause| {
                    Failure::usage(format!("cannot read topology file {shown}: {cause}"))
                })?;
            let text = String::from_utf8(bytes).map_err(|cause| not_utf8(&shown, &cause))?;
            if let Some(version) = newer_xml_version(&text) {
                return Err(unreadable(
                    &shown,
                    format!(
                        "it was written by hwloc {version}; the installed hwloc 2 cannot read it"
                    ),
                    &format!(
                        "convert it with the lstopo that wrote it: `lstopo -i {shown} --export-xml-flags v2 NEW.xml`"
                    ),
                ));
            }
            described(source, &text).map_err(|cause| {
                let is_whole = text.trim_end().ends_with("</topology>");
                unreadable(&shown, cause, if is_whole { WRITE_HINT } else { CUT_OFF_HINT })
            })
        }
        TopologySource::Synthetic(description) => {
            crate::synthetic::check(description)?;
            described(source, description).map_err(|cause| match cause.as_str() {
                TOO_LONG => Failure::usage(format!("synthetic topology \"{description}\""))
                    .cause(cause)
                    .hint("describe fewer hardware threads"),
                _ => crate::synthetic::refusal_error(description, &cause).into(),
            })
        }
    }
}

/// Returns this machine's topology as an XML text; see [`Topology::live_xml`].
pub(super) fn live_xml() -> Result<String, Failure> {
    in_child(LIMITS_LIVE, || {
        // An XML of an earlier measurement is not the machine. SAFETY: the environment is that of this child process,
        // which has one thread.
        unsafe { libc::unsetenv(XML_FILE.as_ptr()) };
        export_xml().map_err(|cause| cause.to_string())
    })
    .map_err(|cause| unreadable_machine(&cause))
}

/// Returns the failure of reading this machine.
fn unreadable_machine(cause: &str) -> Failure {
    Failure::missing(format!("hwloc cannot read this machine's topology: {cause}"))
}

/// Hint for a file that hwloc cannot read.
const WRITE_HINT: &str = "write a new file with `lstopo FILE.xml`";
/// Hint for a file that lacks its end.
const CUT_OFF_HINT: &str = "the file does not end with </topology>: copy it again, or write a new file with `lstopo FILE.xml`";

/// Returns the failure for a file that cannot be read; `shown` is its name for messages.
fn unreadable(shown: &str, cause: String, hint: &str) -> Failure {
    Failure::usage(format!("{shown} is not an XML topology that hwloc can read"))
        .cause(cause)
        .hint(hint)
}

/// Returns the failure for a file whose text is not UTF-8.
fn not_utf8(shown: &str, text: &FromUtf8Error) -> Failure {
    let bytes = text.as_bytes();
    let is_utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let (encoding, name) =
        if is_utf16 { ("UTF-16", "UTF-16") } else { ("an encoding other than UTF-8", "LATIN1") };
    Failure::usage(format!("cannot read topology file {shown}: it is in {encoding}"))
        .hint(format!("convert it, e.g. `iconv -f {name} -t UTF-8 {shown} > NEW.xml`"))
}

/// Returns the topology of the live machine or of a description, as hwloc determines it in a child process.
fn described(source: &TopologySource, text: &str) -> Result<Topology, String> {
    let topology = match source {
        TopologySource::Live => in_child(LIMITS_LIVE, || built(source, text)),
        TopologySource::Synthetic(_) => in_child(LIMITS, || built(source, text)),
        TopologySource::Xml(_) => match in_child(LIMITS, || built_by_own_parser(source, text)) {
            Err(cause) if cause != TOO_LONG => in_child(LIMITS, || built(source, text)),
            first => first,
        },
    }?;
    Ok(Topology { source: source.clone(), ..topology })
}

/// Returns the topology of an XML text, as hwloc's own parser reads it. That parser reads everything that hwloc writes,
/// in half the time of libxml2, but not every XML that others have changed. The process must be a child process.
fn built_by_own_parser(source: &TopologySource, text: &str) -> Result<Topology, String> {
    // SAFETY: the environment is that of this child process, which has one thread.
    unsafe { libc::setenv(PARSER.as_ptr(), c"0".as_ptr(), 1) };
    built(source, text)
}

/// Runs `body`, which uses hwloc, in a child process.
fn in_child<T: Serialize + DeserializeOwned>(
    limits: AnswerLimits,
    body: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    // SAFETY: in the child process, hwloc reads the kernel's files or text in memory and uses the allocator; the parent
    // process never uses hwloc. The child has its own copy of the environment, which no thread of the parent changes.
    let answer = unsafe {
        nodegauge_os::ask_child(limits, || {
            libc::setenv(BLACKLIST.as_ptr(), VENDOR_PLUGINS.as_ptr(), 1);
            serde_json::to_vec(&body()).unwrap_or_default()
        })
    };
    match answer.map_err(|cause| cause.to_string())? {
        ChildAnswer::Answered(output) => {
            serde_json::from_slice(&output).unwrap_or_else(|_| Err("hwloc crashed".to_owned()))
        }
        ChildAnswer::TimedOut => Err(TOO_LONG.to_owned()),
    }
}

/// Returns the XML of this machine, with the object types that `lstopo` exports.
fn export_xml() -> Result<String, Box<dyn Error>> {
    let hwloc = Hwloc::builder()
        .with_common_type_filter(TypeFilter::KeepAll)?
        .with_io_type_filter(TypeFilter::KeepImportant)?
        .build()?;
    Ok(hwloc.export_xml(XMLExportFlags::empty())?.as_str().to_owned())
}

fn built(source: &TopologySource, text: &str) -> Result<Topology, String> {
    match load_hwloc(source, text) {
        Ok(hwloc) => Ok(convert(&hwloc, source)),
        // hwloc does not report the reason for a failure.
        Err(_) if matches!(source, TopologySource::Synthetic(_)) => {
            Err("hwloc does not accept this order of levels".to_owned())
        }
        Err(cause) => Err(plain_cause(&cause.to_string())),
    }
}

/// Returns the cause of a failure of hwloc without the debugging text of the bindings, which contains the meaning of the
/// error number as `description: Some("Invalid argument")`.
fn plain_cause(cause: &str) -> String {
    let described = cause.split_once(" failed with errno ").and_then(|(_, error)| {
        let (_, rest) = error.split_once("description: Some(\"")?;
        rest.split_once('"')
    });
    match described {
        Some((meaning, _)) => format!("hwloc cannot load it: {}", meaning.to_lowercase()),
        None => cause.to_owned(),
    }
}

/// Loads the topology with hwloc.
fn load_hwloc(source: &TopologySource, text: &str) -> Result<Hwloc, Box<dyn Error>> {
    // Without a filter, hwloc leaves out caches in front of memory.
    let builder = Hwloc::builder().with_type_filter(ObjectType::MemCache, TypeFilter::KeepAll)?;
    let builder = match source {
        TopologySource::Live => builder.with_flags(BuildFlags::INCLUDE_DISALLOWED)?,
        TopologySource::Synthetic(_) => builder.from_synthetic(text)?,
        TopologySource::Xml(_) => builder
            .with_flags(BuildFlags::INCLUDE_DISALLOWED)?
            .from_xml(text)?
            .with_io_type_filter(TypeFilter::KeepImportant)?,
    };
    Ok(builder.build()?)
}

/// Adds the data that hwloc does not provide: devices, which hwloc lists only with vendors' plug-ins, and NUMA
/// nodes of device memory, which older versions of hwloc hide.
fn with_kernels_view(mut topology: Topology, root: &SysRoot) -> Topology {
    topology.devices = pci::list_devices(root);
    let of_devices = pci::device_numa_nodes(root);
    for (id, bytes) in memory::numa_node_sizes(root) {
        if topology.nodes.iter().all(|node| node.id != id) && bytes > 0 {
            let hidden = TopologyNumaNode { id, bytes: Some(bytes), ..TopologyNumaNode::default() };
            topology.nodes.push(hidden);
        }
    }
    for node in &mut topology.nodes {
        node.device = of_devices.get(&node.id).cloned().or(node.device.take());
    }
    topology.nodes.sort_by_key(|node| node.id);
    topology
}

/// Converts hwloc's tree to a [`Topology`].
fn convert(hwloc: &Hwloc, source: &TopologySource) -> Topology {
    let mut numbering = Numbering::default();
    let llc_type = caches::last_level_cache_type(hwloc);
    let affinity = match source {
        TopologySource::Live => nodegauge_os::affinity().ok(),
        _ => None,
    };
    let affinity = affinity.map(|cpus| cpus.into_iter().map(CpuId).collect::<Vec<_>>());
    let allowed_set = hwloc.allowed_cpuset();
    let mut kind_sets = Vec::new();
    let mut kinds = Vec::new();
    for found in hwloc.cpu_kinds().into_iter().flatten() {
        kinds.push(core_kind(&found));
        kind_sets.push(found.cpuset);
    }
    let speed_classes = core_kinds::classes(&kinds);
    let mut siblings: BTreeMap<usize, u32> = BTreeMap::new();
    let nodes = HwlocNumaNodes::from_hwloc(hwloc, source);
    let mut threads = Vec::new();
    for pu in hwloc.objects_with_type(ObjectType::PU) {
        let Some(os) = pu.os_index() else { continue };
        let cpu = CpuId(os as u32);
        let core = numbering.core(pu);
        let index_in_core = siblings.entry(core).or_insert(0);
        let socket = numbering.index(pu, ObjectType::Package);
        let llc = llc_type
            .filter(|kind| pu.first_ancestor_with_type(*kind).is_some())
            .map(|kind| numbering.index(pu, kind));
        threads.push(HardwareThread {
            cpu,
            core,
            llc,
            socket,
            node: nodes.nearest(cpu),
            index_in_core: *index_in_core,
            speed_class: kind_sets
                .iter()
                .position(|cpus| cpus.is_set(os))
                .and_then(|kind| speed_classes[kind]),
            allowed: allowed_set.is_set(os)
                && affinity.as_ref().is_none_or(|mask| mask.contains(&cpu)),
        });
        *index_in_core += 1;
    }
    let mut core_classes = core_kinds::describe_classes(&kinds, &speed_classes);
    core_kinds::complete_classes(&mut threads, &mut core_classes);
    let mut nodes = nodes.into_numa_nodes(&threads);
    caches::add_memory_side_caches(hwloc, &mut nodes);
    let package = hwloc.objects_with_type(ObjectType::Package).next();
    let CoreCaches { caches, last: last_caches } = CoreCaches::from_hwloc(hwloc, source, &threads);
    Topology {
        source: source.clone(),
        caches,
        last_caches,
        threads,
        cores: numbering.take(ObjectType::Core),
        lacks_cores: hwloc.objects_with_type(ObjectType::Core).next().is_none(),
        llcs: llc_type.map(|kind| numbering.take(kind)).unwrap_or_default(),
        sockets: numbering.take(ObjectType::Package),
        core_classes,
        nodes,
        devices: io_objects::devices(hwloc),
        processor_model: package.and_then(|package| info(package, "CPUModel")),
        identification: package.and_then(identification),
    }
}

/// Returns the text of an object under `key` in hwloc; `None` if it is empty.
fn info(object: &TopologyObject, key: &str) -> Option<String> {
    let text = object.info(key)?.to_string_lossy().trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Returns the vendor, the family and the model of a processor.
fn identification(package: &TopologyObject) -> Option<(String, u32, u32)> {
    let vendor = info(package, "CPUVendor")?;
    let family = info(package, "CPUFamilyNumber")?.parse().ok()?;
    let model = info(package, "CPUModelNumber")?.parse().ok()?;
    Some((vendor, family, model))
}

/// Reads the speed of a kind of cores. The names of the entries are in hwloc's documentation.
fn core_kind(found: &CpuKind<'_>) -> CoreKind {
    CoreKind {
        rank: found.efficiency,
        capacity: kind_info(found, "LinuxCapacity").and_then(|value| positive(&value)),
        clock: kind_info(found, "FrequencyMaxMHz").and_then(|value| positive(&value)),
        design: kind_info(found, "CoreType"),
    }
}

/// Parses a positive number that fits in 32 bits; `None` for any other text, such as `nan`.
fn positive(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value| (1.0..=f64::from(u32::MAX)).contains(value))
}

/// Returns the text of a kind of cores under `name` in hwloc.
fn kind_info(found: &CpuKind<'_>, name: &str) -> Option<String> {
    let info = found.infos.iter().find(|info| info.name().to_bytes() == name.as_bytes())?;
    Some(info.value().to_string_lossy().into_owned())
}

/// Assigns indices to objects in order of first appearance, and stores their numbers.
#[derive(Default)]
struct Numbering {
    seen: BTreeMap<(String, usize), usize>,
    numbers: BTreeMap<String, Vec<u32>>,
}

impl Numbering {
    /// Returns the index of the ancestor of `pu` with the type `kind`. A machine without such objects is treated as
    /// one object.
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

    /// Returns the index of the core of `pu`. If no cores are reported, as in sandboxes and some guests, each
    /// hardware thread counts as a core.
    fn core(&mut self, pu: &TopologyObject) -> usize {
        if pu.first_ancestor_with_type(ObjectType::Core).is_some() {
            return self.index(pu, ObjectType::Core);
        }
        let numbers = self.numbers.entry(ObjectType::Core.to_string()).or_default();
        numbers.push(pu.os_index().unwrap_or_default() as u32);
        numbers.len() - 1
    }

    fn take(&mut self, kind: ObjectType) -> Vec<u32> {
        self.numbers.remove(&kind.to_string()).unwrap_or_default()
    }
}

/// Returns the CPUs of a set, in numeric order; none without a set.
fn cpus(set: Option<BitmapRef<'_, CpuSet>>) -> Vec<CpuId> {
    let Some(set) = set else { return Vec::new() };
    // The set of a node without a bound is infinite.
    if set.weight().is_none() {
        return Vec::new();
    }
    let mut cpus: Vec<CpuId> =
        set.iter_set().map(|index| CpuId(usize::from(index) as u32)).collect();
    cpus.sort_unstable();
    cpus
}

/// Returns the version of an hwloc XML text if it is 3 or later. hwloc 2 refuses these texts without giving a reason.
pub(super) fn newer_xml_version(text: &str) -> Option<&str> {
    const ELEMENT: &str = "<topology";
    let mut rest = text;
    loop {
        let start = rest.find(ELEMENT)?;
        let comment = rest.find("<!--").filter(|comment| *comment < start);
        let Some(comment) = comment else {
            rest = &rest[start + ELEMENT.len()..];
            break;
        };
        let inside = &rest[comment..];
        rest = &inside[inside.find("-->")?..];
    }
    let (tag, _) = rest.split_once('>')?;
    let (_, value) = tag.split_once(" version")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
    let (version, _) = value[1..].split_once(quote)?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major >= 3).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn cause_of_hwloc_is_a_plain_sentence() {
        let raw = "hwloc_topology_load failed with errno Some(Errno { code: 22, description: Some(\"Invalid argument\") })";
        assert_eq!(plain_cause(raw), "hwloc cannot load it: invalid argument");
        assert_eq!(plain_cause("hwloc rejected the text"), "hwloc rejected the text");
    }

    #[test]
    fn speed_that_is_no_positive_number_is_unknown() {
        assert_eq!(["4800", "1024.5"].map(positive), [Some(4800.0), Some(1024.5)]);
        assert_eq!(["nan", "-1", "inf", "0", "1e99", ""].map(positive), [None; 6]);
    }

    #[test]
    fn hidden_numa_node_is_device_memory() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("sys/devices/system/node/online", "0-2");
        for (node, kib) in [(0, 499_750_400), (1, 100_218_928), (2, 0)] {
            let text = format!("Node {node} MemTotal: {kib} kB\nNode {node} MemFree: 0 kB\n");
            put(&format!("sys/devices/system/node/node{node}/meminfo"), &text);
        }
        put("proc/driver/nvidia/gpus/0009:01:00.0/numa_status", "Node:\t\t1\nStatus:\t\tonline\n");
        let source = TopologySource::Synthetic("Package:1 NUMANode:1 Core:4 PU:1".to_owned());
        let plain = load(&source).unwrap();
        let nodes = with_kernels_view(plain, &SysRoot::recorded(folder.path())).nodes;
        let seen: Vec<_> = nodes.iter().map(|node| (node.id.0, node.device.as_deref())).collect();
        // The third node has no memory and is reserved for slices of the device.
        assert_eq!(seen, [(0, None), (1, Some("0009:01:00.0"))]);
        assert_eq!((nodes[1].bytes, nodes[1].cpus.len()), (Some(100_218_928 << 10), 0));
    }
}
