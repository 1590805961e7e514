//! Software of the node: distribution, kernel parameters, versions of kernel modules, mounts, and the libraries
//! that the dynamic loader finds.

mod loader;

use crate::mounts;
use crate::root::SysRoot;
use nodegauge_measure::record::{InstalledLibrary, MountedFileSystem, Software};
use object::Object;
use object::read::{File, ReadCache};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Kernel parameters that affect the speed of programs, or that permit programs to increase their speed.
const SYSCTL: [&str; 22] = [
    "kernel.kptr_restrict",
    "kernel.nmi_watchdog",
    "kernel.numa_balancing",
    "kernel.perf_event_paranoid",
    "kernel.randomize_va_space",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_rt_runtime_us",
    "kernel.timer_migration",
    "kernel.watchdog",
    "kernel.yama.ptrace_scope",
    "net.core.default_qdisc",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "vm.compaction_proactiveness",
    "vm.dirty_background_ratio",
    "vm.dirty_ratio",
    "vm.max_map_count",
    "vm.overcommit_memory",
    "vm.stat_interval",
    "vm.swappiness",
    "vm.zone_reclaim_mode",
];

/// Kernel modules of networks, accelerators, file systems and shared memory.
const MODULES: [&str; 22] = [
    "amdgpu",
    "beegfs",
    "bnxt_en",
    "efa",
    "gdrdrv",
    "hfi1",
    "i40e",
    "ib_core",
    "ice",
    "irdma",
    "kfd",
    "knem",
    "lnet",
    "lustre",
    "mlx4_core",
    "mlx5_core",
    "mmfslinux",
    "nvidia",
    "nvidia_peermem",
    "xe",
    "xpmem",
    "zfs",
];

/// Names, up to `.so`, of libraries for languages, messages, networks, linear algebra and accelerators.
const LIBRARIES: [&str; 42] = [
    "libOpenCL",
    "libamdhip64",
    "libarmpl",
    "libblas",
    "libblis",
    "libc",
    "libcublas",
    "libcuda",
    "libcudart",
    "libfabric",
    "libfftw3",
    "libgcc_s",
    "libgfortran",
    "libgomp",
    "libhdf5",
    "libhwloc",
    "libibverbs",
    "libiomp5",
    "liblapack",
    "libm",
    "libmkl_rt",
    "libmlx5",
    "libmpi",
    "libmpi_cray",
    "libmpich",
    "libmvec",
    "libnccl",
    "libnuma",
    "libnvidia-ml",
    "libomp",
    "libopenblas",
    "libpmi2",
    "libpmix",
    "libpsm2",
    "librccl",
    "librdmacm",
    "libstdc++",
    "libtbb",
    "libucp",
    "libucs",
    "libuct",
    "libze_loader",
];

/// Describes the software of the node.
pub(crate) fn software(root: &SysRoot) -> Software {
    let mounts = mounts::data_mounts(root);
    Software {
        distribution: distribution(root),
        sysctl: known(&SYSCTL, |name| root.text(&format!("proc/sys/{}", name.replace('.', "/")))),
        modules: known(&MODULES, |name| root.text(&format!("sys/module/{name}/version"))),
        libraries: libraries(root, &mounts),
        mounts,
    }
}

/// Returns the names that have a value, with their values; a tab between numbers is replaced by a blank.
fn known(names: &[&str], value: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let mut known = BTreeMap::new();
    for name in names {
        let Some(text) = value(name) else { continue };
        let words: Vec<&str> = text.split_whitespace().collect();
        known.insert((*name).to_owned(), words.join(" "));
    }
    known
}

/// Returns the name of the distribution (os-release(5)).
fn distribution(root: &SysRoot) -> Option<String> {
    let text = root.text("etc/os-release").or_else(|| root.text("usr/lib/os-release"))?;
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}

/// Returns the libraries in the dynamic loader's cache that are also in [`LIBRARIES`]. Libraries on network file
/// systems are omitted, because reading them may block.
fn libraries(
    root: &SysRoot,
    mounts: &BTreeMap<String, MountedFileSystem>,
) -> BTreeMap<String, InstalledLibrary> {
    let cache = root.bytes("etc/ld.so.cache").unwrap_or_default();
    let mut found = BTreeMap::new();
    let entries = loader::entries(&cache);
    for entry in &entries {
        let stem = entry.name.split(".so").next().unwrap_or_default();
        let is_known = LIBRARIES.contains(&stem) && !found.contains_key(entry.name);
        // A name without a version is a link for the linker if there is one with a version.
        let versioned = format!("{}.", entry.name);
        if entry.name.ends_with(".so") && entries.iter().any(|one| one.name.starts_with(&versioned))
        {
            continue;
        }
        if !is_known || mounts::is_remote(mounts, Path::new(entry.path)) {
            continue;
        }
        let listed = root.path(entry.path);
        let Ok(file) = std::fs::canonicalize(&listed) else { continue };
        // In a recorded tree, the file is shown as on the node.
        let on_node = file.strip_prefix(root.path("")).unwrap_or(&file);
        let library = InstalledLibrary {
            file: Path::new("/").join(on_node).display().to_string(),
            build_id: build_id(&file),
        };
        found.insert(entry.name.to_owned(), library);
    }
    found
}

/// Number of kept bytes of a build ID, enough to distinguish the builds of a site.
const BUILD_BYTES: usize = 6;

/// Returns the shortened build ID from the notes of an ELF file.
fn build_id(file: &Path) -> Option<String> {
    let cache = ReadCache::new(std::fs::File::open(file).ok()?);
    let image = File::parse(&cache).ok()?;
    let id = image.build_id().ok()??;
    let mut text = String::new();
    for byte in id.iter().take(BUILD_BYTES) {
        let _ = write!(text, "{byte:02x}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_library_of_this_node_is_listed() {
        let here = software(&SysRoot::live());
        let cache = std::fs::read("/etc/ld.so.cache").unwrap_or_default();
        if loader::entries(&cache).iter().any(|entry| entry.name == "libc.so.6") {
            let library = &here.libraries["libc.so.6"];
            assert!(Path::new(&library.file).is_file(), "{library}");
        }
        assert!(here.sysctl.contains_key("vm.swappiness"), "{:?}", here.sysctl);
    }

    #[test]
    fn software_is_read_from_recorded_tree() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, bytes: &[u8]| {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        write("etc/os-release", b"NAME=x\nPRETTY_NAME=\"Rocky Linux 9.4\"\n");
        write("proc/sys/net/ipv4/tcp_congestion_control", b"cubic\n");
        write("sys/module/mlx5_core/version", b"24.10-1.1.4\n");
        write("opt/ompi/libmpi.so.40.30.4", b"not ELF");
        let link = folder.path().join("opt/ompi/libmpi.so.40");
        std::os::unix::fs::symlink("libmpi.so.40.30.4", link).unwrap();
        let entries = [("libmpi.so.40", "/opt/ompi/libmpi.so.40"), ("libz.so.1", "/lib/libz.so.1")];
        write("etc/ld.so.cache", &loader::tests::cache(&entries));
        let found = software(&SysRoot::recorded(folder.path()));
        assert_eq!(found.distribution.as_deref(), Some("Rocky Linux 9.4"));
        assert_eq!(found.sysctl["net.ipv4.tcp_congestion_control"], "cubic");
        assert_eq!(found.modules["mlx5_core"], "24.10-1.1.4");
        let libraries: Vec<String> =
            found.libraries.iter().map(|(name, library)| format!("{name}: {library}")).collect();
        assert_eq!(libraries, ["libmpi.so.40: /opt/ompi/libmpi.so.40.30.4"]);
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(software(&SysRoot::recorded(empty.path())), Software::default());
    }
}
