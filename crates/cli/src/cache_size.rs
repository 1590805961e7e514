//! Capacity of the last-level caches for the size rule. It is measured once per machine and saved in the cache folder.
//!
//! Both the name and the content of the file identify the machine, so another machine, other CPUs or a changed topology
//! never use it. A file that is missing, unreadable, implausible, or owned by another user is ignored, and the capacity
//! is measured again. A result from a busy node is not saved. If a run has lengthened its arrays because a cache held a
//! part of them, the capacity is measured again, and the larger result is saved.

use nodegauge_curves::cache_size;
use nodegauge_gauge::MeasuredNode;
use nodegauge_machine::Topology;
use nodegauge_measure::Bytes;
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::keys::{Key, SharedKey, shared};
use nodegauge_measure::quantity::read_bytes;
use nodegauge_measure::record::{Cache, MeasuredCache, Measurement};
use nodegauge_os::{OutputFile, TrustedFolder, read_trusted_file};
use nodegauge_toolchain::{cache_file_name, cache_folder};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Environment variable with the reported size of a last-level cache, for tests of machines that report too much.
pub(crate) const REPORTED_VARIABLE: &str = "NODEGAUGE_REPORTED_CACHE";
/// First part of the name of a file with a cache capacity.
const KIND: &str = "caches";
/// Maximum size of a file with a cache capacity, in bytes.
const MAX_BYTES: u64 = 1 << 16;
/// Range of plausible capacities of the last-level caches.
const PLAUSIBLE_SIZES: std::ops::RangeInclusive<Bytes> = Bytes::kib(64)..=Bytes::gib(1 << 10);

/// Returns the maximum time for measuring the capacity; `budget` is the user's, if given.
pub(crate) fn max_time(budget: Option<Duration>) -> Duration {
    if budget.is_some() { cache_size::USUAL_TIME } else { cache_size::MAX_TIME }
}

/// Machine properties that determine which caches are usable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct MachineIdentity {
    host: Option<String>,
    /// Identifier of the installation, or of this boot.
    id: Option<String>,
    processor: Option<String>,
    virtualisation: Option<String>,
    /// CPUs that this process may use, each with its core and last-level cache.
    cpus: Vec<(u32, usize, Option<usize>)>,
    caches: Vec<Cache>,
}

impl MachineIdentity {
    fn from_site(site: &MeasuredNode) -> Self {
        let MeasuredNode { topology, machine, root, .. } = site;
        let id = root.text("etc/machine-id");
        let id = id.or_else(|| root.text("proc/sys/kernel/random/boot_id"));
        let id = id.map(|text| text.trim().to_owned());
        let cpus = topology.allowed_threads().map(|thread| (thread.cpu.0, thread.core, thread.llc));
        Self {
            host: machine.host.clone(),
            id: id.filter(|id| !id.is_empty()),
            processor: machine.processor.model.clone(),
            virtualisation: machine.virtualisation.clone(),
            cpus: cpus.collect(),
            caches: topology.caches.clone(),
        }
    }
}

/// Content of the file with the cache capacity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RememberedCache {
    machine: MachineIdentity,
    measured: MeasuredCache,
}

/// File with the cache capacity of a machine.
struct CacheSizeFile {
    path: PathBuf,
    identity: MachineIdentity,
    /// Total size in bytes of the last-level caches that the machine reports.
    reported: Option<u64>,
}

impl CacheSizeFile {
    /// Returns the file of a machine, in the user's cache folder.
    fn in_user_cache(site: &MeasuredNode) -> Option<Self> {
        Self::in_folder(site, &cache_folder(nodegauge_os::environment_variable)?)
    }

    /// Returns the file of a machine, in a given cache folder.
    fn in_folder(site: &MeasuredNode, folder: &Path) -> Option<Self> {
        let identity = MachineIdentity::from_site(site);
        let name = cache_file_name(KIND, &serde_json::to_string(&identity).ok()?);
        let cpus: Vec<_> = site.topology.allowed_threads().map(|thread| thread.cpu).collect();
        let reported = site.topology.llc_bytes_and_count(&cpus).map(|(bytes, _)| bytes);
        Some(Self { path: folder.join(format!("{name}.json")), identity, reported })
    }

    /// Returns the saved capacity; `None` if there is none, or if it cannot be trusted.
    fn read(&self) -> Option<MeasuredCache> {
        let text = read_trusted_file(&self.path, MAX_BYTES).ok()?;
        let RememberedCache { machine, measured } = serde_json::from_slice(&text).ok()?;
        let is_ours = machine == self.identity && measured.reported == self.reported;
        (is_ours && PLAUSIBLE_SIZES.contains(&Bytes(measured.bytes))).then_some(measured)
    }

    /// Writes a capacity. It is not a failure if the folder cannot be written: the next run measures again.
    fn write(&self, measured: MeasuredCache) -> Option<()> {
        TrustedFolder::create(self.path.parent()?).ok()?;
        let machine = self.identity.clone();
        let content = serde_json::to_vec(&RememberedCache { machine, measured }).ok()?;
        let mut file = OutputFile::create(&self.path, &[]).ok()?;
        file.write_all(&content).ok()?;
        file.finish().ok()
    }
}

/// Returns the cache capacity of this machine. It is read from the file, or measured within `max_time`; `None` if it is
/// unknown.
pub(crate) fn find_cache_capacity(
    site: &MeasuredNode,
    max_time: Duration,
) -> Option<MeasuredCache> {
    let file = CacheSizeFile::in_user_cache(site);
    if let Some(remembered) = file.as_ref().and_then(CacheSizeFile::read) {
        return Some(remembered);
    }
    let found = cache_size::measure(&site.topology, &site.machine, max_time)?;
    if !found.is_busy {
        file.and_then(|file| file.write(found.cache));
    }
    Some(found.cache)
}

/// Measures the capacity again if the arrays of a run were lengthened because a cache held a part of them, and saves a
/// larger result. The longer arrays alone are not sufficient: on a busy node, the check of the arrays may be wrong, and
/// would then lengthen the arrays of all later runs.
pub(crate) fn remember_larger_cache(
    site: &MeasuredNode,
    figures: &[Measurement],
    max_time: Duration,
) {
    let Some(known) = site.machine.measured_cache else { return };
    let is_refuted = figures.iter().any(|m| is_larger(m, known));
    let MeasuredNode { topology, machine, .. } = site;
    let again = if is_refuted { cache_size::measure(topology, machine, max_time) } else { None };
    let at_rest = again.filter(|found| !found.is_busy).map(|found| found.cache);
    if let Some(larger) = at_rest.filter(|found| found.bytes > known.bytes) {
        CacheSizeFile::in_user_cache(site).and_then(|file| file.write(larger));
    }
}

/// True if the arrays of a figure are compared with a larger capacity than the known one.
fn is_larger(m: &Measurement, known: MeasuredCache) -> bool {
    let Some(measured) = key_bytes(m, shared::measured_cache_bytes::KEY) else { return false };
    let part = key_bytes(m, shared::reported_cache_bytes::KEY);
    known.extrapolated_from_part(measured, part).bytes > known.bytes
}

/// Returns the value of a key in bytes.
fn key_bytes(m: &Measurement, key: Key) -> Option<u64> {
    m.config.get(key.name)?.as_u64()
}

/// Replaces the reported size of the last-level caches by the size in the environment variable, if it is set.
pub(crate) fn replace_reported_size(mut topology: Topology) -> Topology {
    if let Some(size) = reported_by_variable()
        && let Some(last) = topology.caches.iter_mut().rfind(|cache| cache.contains_data())
    {
        last.bytes = Some(size.0);
    }
    topology
}

/// Returns the size in the environment variable; `None` if it is not set or invalid.
pub(crate) fn reported_by_variable() -> Option<Bytes> {
    let text = nodegauge_os::environment_variable(REPORTED_VARIABLE)?.into_string().ok()?;
    let mut cursor = Cursor::new("size", "300MiB", &text);
    let size = read_bytes(&mut cursor).ok().filter(|size| PLAUSIBLE_SIZES.contains(size))?;
    cursor.finish("expected nothing after the unit").ok()?;
    Some(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::{SysRoot, TopologySource};
    use nodegauge_measure::Unit;
    use nodegauge_measure::record::Machine;
    use std::os::unix::fs::PermissionsExt;

    /// Returns a machine with two cores and a last-level cache of this size.
    fn site(host: &str, cache: &str) -> MeasuredNode {
        let text = format!("Package:1 L3Cache:1(size={cache}) Core:2 PU:1");
        let topology = Topology::load(&TopologySource::Synthetic(text)).unwrap();
        let machine = Machine { host: Some(host.to_owned()), ..Machine::default() };
        MeasuredNode::new(topology, machine, SysRoot::live())
    }

    fn measured(site: &MeasuredNode, mib: u64) -> MeasuredCache {
        let cpus: Vec<_> = site.topology.allowed_threads().map(|thread| thread.cpu).collect();
        let reported = site.topology.llc_bytes_and_count(&cpus).map(|(bytes, _)| bytes);
        MeasuredCache { bytes: mib << 20, reported }
    }

    #[test]
    fn foreign_or_invalid_cache_size_file_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let a = site("a", "300MiB");
        let file = CacheSizeFile::in_folder(&a, folder.path()).unwrap();
        assert_eq!(file.read(), None);
        let known = measured(&a, 32);
        file.write(known).unwrap();
        assert_eq!(file.read(), Some(known));
        for other in [site("b", "300MiB"), site("a", "200MiB")] {
            let of_other = CacheSizeFile::in_folder(&other, folder.path()).unwrap();
            assert_eq!(of_other.read(), None);
            // The file name may be wrong; the content is compared.
            std::fs::copy(&file.path, &of_other.path).unwrap();
            assert_eq!(of_other.read(), None);
        }
        let others_may_write = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(&file.path, others_may_write).unwrap();
        assert_eq!(file.read(), None);
        std::fs::remove_file(&file.path).unwrap();
        for wrong in [0, 1 << 24] {
            file.write(measured(&a, wrong)).unwrap();
            assert_eq!(file.read(), None);
        }
        for text in ["", "{", "[1, 2]"] {
            std::fs::write(&file.path, text).unwrap();
            assert_eq!(file.read(), None);
        }
    }

    #[test]
    fn measured_capacity_scales_to_all_caches() {
        let known = MeasuredCache { bytes: 32 << 20, reported: Some(300 << 20) };
        let larger = known.extrapolated_from_part(32 << 20, Some(150 << 20));
        assert_eq!(larger.bytes, 64 << 20);
        assert_eq!(known.extrapolated_from_part(8 << 20, Some(300 << 20)), known);
        let node = site("a", "300MiB");
        let figure = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
        remember_larger_cache(&node, &[figure], max_time(None));
        assert_eq!(node.machine.measured_cache, None);
    }
}
