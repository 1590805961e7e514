//! Environment of the processor, from the kernel's files: kernel, host name, hypervisor, container, frequency control
//! and SMT.

use crate::processor::ReportedProcessor;
use crate::root::{SysRoot, list};
use nodegauge_measure::Hertz;
use nodegauge_measure::record::{Firmware, InheritedBinding, SystemSettings};
use std::collections::BTreeMap;

/// Returns the kernel's name and release, e.g. `Linux 6.1.0`.
pub fn kernel(root: &SysRoot) -> Option<String> {
    let name = root.text("proc/sys/kernel/ostype").unwrap_or_else(|| "Linux".to_owned());
    Some(format!("{name} {}", root.text("proc/sys/kernel/osrelease")?))
}

/// Returns the host name.
pub fn name(root: &SysRoot) -> Option<String> {
    root.non_empty_text("proc/sys/kernel/hostname")
}

/// Manufacturer names of virtual machines in the firmware, with the short names of the hypervisors.
const MAKERS: [(&str, &str); 9] = [
    ("QEMU", "kvm"),
    ("KVM", "kvm"),
    ("Amazon EC2", "kvm"),
    ("Google", "kvm"),
    ("OpenStack", "kvm"),
    ("VMware", "vmware"),
    ("Microsoft", "hyperv"),
    ("Xen", "xen"),
    ("innotek", "virtualbox"),
];

/// Manufacturers of virtual and physical machines. For these, only the processor shows whether this is a guest.
const MIXED_MAKERS: [&str; 3] = ["Amazon EC2", "Google", "Microsoft"];

/// Returns the hypervisor, e.g. `kvm`. The processor reports if there is a hypervisor, and usually its name.
/// Otherwise the name comes from the firmware; if it is unknown, it is `hypervisor`. `None` means bare metal, as
/// far as is known.
pub fn hypervisor(root: &SysRoot, chip: &ReportedProcessor) -> Option<String> {
    match chip.hypervisor.as_deref() {
        Some("") => Some(
            kernel_hypervisor(root)
                .or_else(|| maker(root).map(|(_, name)| name.to_owned()))
                .unwrap_or_else(|| "hypervisor".to_owned()),
        ),
        Some(name) => Some(name.to_owned()),
        // An x86 processor has a hypervisor bit. If the bit is not set, there is no hypervisor.
        None if chip.architecture.as_deref() == Some("x86_64") => None,
        None => maker(root)
            .filter(|(prefix, _)| !MIXED_MAKERS.contains(prefix))
            .map(|(_, name)| name.to_owned())
            .or_else(|| kernel_hypervisor(root)),
    }
}

/// Returns the hypervisor that the kernel reports.
fn kernel_hypervisor(root: &SysRoot) -> Option<String> {
    root.non_empty_text("sys/hypervisor/type")
}

/// Returns the entry of [`MAKERS`] for the manufacturer in the firmware.
fn maker(root: &SysRoot) -> Option<(&'static str, &'static str)> {
    let maker = root.text(&format!("{DMI}/sys_vendor"))?;
    MAKERS.into_iter().find(|(prefix, _)| maker.starts_with(prefix))
}

/// Returns the container runtime of this process (`docker`, `podman`, `kubernetes`, `lxc`), detected from files and
/// variables that the runtime creates; `None` if no runtime is detected.
pub fn container(root: &SysRoot) -> Option<&'static str> {
    let groups = root.text("proc/1/cgroup").unwrap_or_default();
    let environment = root.bytes("proc/1/environ").unwrap_or_default();
    let environment = String::from_utf8_lossy(&environment);
    let contains =
        |word: &str| groups.contains(word) || environment.contains(&format!("container={word}"));
    if root.exists("var/run/secrets/kubernetes.io") || groups.contains("kubepods") {
        Some("kubernetes")
    } else if root.exists(".dockerenv") || contains("docker") {
        Some("docker")
    } else if root.exists("run/.containerenv") || contains("podman") {
        Some("podman")
    } else if contains("lxc") {
        Some("lxc")
    } else {
        None
    }
}

/// Returns the frequency governors, each with its CPUs; empty if the kernel reports no governor.
pub fn governors(root: &SysRoot, cpus: &[u32]) -> BTreeMap<String, Vec<u32>> {
    let mut governors: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for cpu in cpus {
        let file = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        match root.text(&file) {
            Some(governor) => governors.entry(governor).or_default().push(*cpu),
            // If the first CPU has no such file, the other CPUs have none either.
            None if governors.is_empty() => break,
            None => {}
        }
    }
    governors
}

/// Returns the value in a file of CPU 0's frequency control, converted from kHz to Hz.
pub fn frequency_from_file(root: &SysRoot, file: &str) -> Option<Hertz> {
    let khz: f64 = root.value(&format!("sys/devices/system/cpu/cpu0/cpufreq/{file}"))?;
    Some(Hertz(khz * 1e3))
}

/// True if the kernel allows clocks above the base clock; `None` if it does not report this.
pub fn is_turbo_enabled(root: &SysRoot) -> Option<bool> {
    if let Some(off) = root.value::<u8>("sys/devices/system/cpu/intel_pstate/no_turbo") {
        return Some(off == 0);
    }
    let on: u8 = root.value("sys/devices/system/cpu/cpufreq/boost")?;
    Some(on != 0)
}

/// True if cores currently run more than one thread; `None` if the kernel does not report this.
pub fn is_smt_active(root: &SysRoot) -> Option<bool> {
    root.value::<u8>("sys/devices/system/cpu/smt/active").map(|active| active != 0)
}

/// Prefixes of the environment variables that OpenMP runtimes and BLAS libraries read.
const RUNTIMES: [&str; 12] = [
    "OMP_",
    "GOMP_",
    "KMP_",
    "LIBOMP_",
    "ACC_",
    "OPENBLAS_",
    "GOTO_",
    "BLIS_",
    "MKL_",
    "ARMPL_",
    "NVPL_",
    "FLEXIBLAS",
];

/// True if OpenMP runtimes or BLAS libraries read an environment variable of this name.
pub fn is_runtime_variable(name: &str) -> bool {
    RUNTIMES.iter().any(|prefix| name.starts_with(prefix))
}

/// Prefixes of the kernel's boot parameters that affect speed. Other parameters are not read, because they may contain
/// names of the site, or secrets.
const BOOT_PARAMETERS: [&str; 46] = [
    "amd_iommu",
    "amd_pstate",
    "audit",
    "clocksource",
    "cma",
    "cpufreq.",
    "cpuidle.",
    "default_hugepagesz",
    "hugepages",
    "hugepagesz",
    "hugetlb",
    "idle",
    "init_on_",
    "intel_idle.",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "irqaffinity",
    "isolcpus",
    "kernelcore",
    "kpti",
    "l1tf",
    "maxcpus",
    "mds",
    "mem=",
    "memmap",
    "mitigations",
    "movable",
    "nmi_watchdog",
    "noht",
    "nohz",
    "nopti",
    "nosmt",
    "nospec",
    "nowatchdog",
    "nr_cpus",
    "numa",
    "page_poison",
    "pcie_aspm",
    "preempt",
    "processor.",
    "pti",
    "rcu_nocb",
    "spec",
    "transparent_hugepage",
    "tsc",
];

/// Returns the boot parameters of the kernel that affect speed, in their order.
fn boot_parameters(root: &SysRoot) -> Vec<String> {
    let line = root.text("proc/cmdline").unwrap_or_default();
    line.split_whitespace()
        .filter(|word| BOOT_PARAMETERS.iter().any(|prefix| word.starts_with(prefix)))
        .map(str::to_owned)
        .collect()
}

/// Returns the time since the system was booted in whole seconds.
fn uptime(root: &SysRoot) -> Option<u64> {
    let text = root.text("proc/uptime")?;
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    (seconds >= 0.0).then_some(seconds as u64)
}

/// Formats the time since the system was booted: `2 h`.
pub fn uptime_in_words(seconds: u64) -> String {
    match seconds {
        0..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86400),
    }
}

/// Returns the version of the processor's microcode.
fn microcode(root: &SysRoot) -> Option<String> {
    if let Some(version) = root.text("sys/devices/system/cpu/cpu0/microcode/version") {
        return Some(version);
    }
    let cpuinfo = root.text("proc/cpuinfo")?;
    let rest = cpuinfo.lines().find_map(|line| line.strip_prefix("microcode")?.split_once(':'));
    rest.map(|(_, version)| version.trim().to_owned())
}

/// Returns the vulnerabilities that affect the processor, with the state of their mitigation.
fn mitigations(root: &SysRoot) -> BTreeMap<String, String> {
    const VULNERABILITIES: &str = "sys/devices/system/cpu/vulnerabilities";
    let mut mitigations = BTreeMap::new();
    for name in root.names(VULNERABILITIES) {
        if let Some(state) = root.text(&format!("{VULNERABILITIES}/{name}"))
            && state != "Not affected"
        {
            mitigations.insert(name, state);
        }
    }
    mitigations
}

/// Returns the settings of the firmware, the kernel and `environment` that affect the speed of the node.
pub fn circumstances(
    root: &SysRoot,
    environment: impl Iterator<Item = (String, String)>,
) -> SystemSettings {
    SystemSettings {
        microcode: microcode(root),
        mitigations: mitigations(root),
        clocksource: root.text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        boost: is_turbo_enabled(root),
        smt: is_smt_active(root),
        numa_balancing: root.value::<u8>("proc/sys/kernel/numa_balancing").map(|mode| mode != 0),
        environment: environment.filter(|(name, _)| is_runtime_variable(name)).collect(),
        uptime_seconds: uptime(root),
        boot_parameters: boot_parameters(root),
        inherited: inherited_settings(root),
        firmware: firmware(root),
    }
}

/// Folder with the texts of SMBIOS that every user can read.
const DMI: &str = "sys/class/dmi/id";

/// Returns the firmware and its board; `None` if the kernel reports neither, as on most ARM boards and in containers.
fn firmware(root: &SysRoot) -> Option<Firmware> {
    let date = root.non_empty_text(&format!("{DMI}/bios_date"));
    let found = Firmware {
        vendor: root.non_empty_text(&format!("{DMI}/bios_vendor")),
        version: root.non_empty_text(&format!("{DMI}/bios_version")),
        date: date.map(|date| iso_date(&date).unwrap_or(date)),
        board: root.non_empty_text(&format!("{DMI}/board_name")),
    };
    (found != Firmware::default()).then_some(found)
}

/// Converts an SMBIOS date, `MM/DD/YYYY`, to `YYYY-MM-DD`; `None` for other texts.
fn iso_date(date: &str) -> Option<String> {
    let parts: Vec<&str> = date.split('/').collect();
    let [month, day, year] = parts[..] else { return None };
    let is_date = has_digits(month, 2) && has_digits(day, 2) && has_digits(year, 4);
    is_date.then(|| format!("{year}-{month}-{day}"))
}

/// True if `text` consists of `count` decimal digits.
fn has_digits(text: &str, count: usize) -> bool {
    text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the CPUs and the memory policy that this process has inherited. A recorded machine has no memory policy.
pub fn inherited_settings(root: &SysRoot) -> Option<InheritedBinding> {
    let status = root.text("proc/self/status")?;

    // A container may deny this system call.
    let policy = root.is_live().then(nodegauge_os::thread_policy).and_then(Result::ok);
    let (mode, nodes) = policy.unwrap_or_default();
    Some(InheritedBinding {
        policy: mode.map(|mode| mode.name().to_owned()),
        nodes,
        cpus: list_in(&status, "Cpus_allowed_list:")?,
        memory_nodes: list_in(&status, "Mems_allowed_list:")?,
    })
}

/// Returns the numbers in the line of `status` that begins with `key`.
fn list_in(status: &str, key: &str) -> Option<Vec<u32>> {
    list(status.lines().find_map(|line| line.strip_prefix(key))?)
}

/// Returns the CPUs that are present but offline.
pub fn offline_cpus(root: &SysRoot) -> Option<Vec<u32>> {
    let present = root.numbers("sys/devices/system/cpu/present")?;
    let online = root.numbers("sys/devices/system/cpu/online")?;
    Some(present.into_iter().filter(|cpu| online.binary_search(cpu).is_err()).collect())
}

/// True if the effective user ID of this process is root; `None` if unknown.
pub fn is_root(root: &SysRoot) -> Option<bool> {
    let status = root.text("proc/self/status")?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    // The order of the IDs is: real, effective, saved, file system.
    Some(ids.split_whitespace().nth(1)? == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chip(architecture: &str, hypervisor: Option<&str>) -> ReportedProcessor {
        ReportedProcessor {
            architecture: Some(architecture.to_owned()),
            hypervisor: hypervisor.map(str::to_owned),
            ..ReportedProcessor::default()
        }
    }

    fn made_by(maker: &str) -> (tempfile::TempDir, SysRoot) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sys/class/dmi/id");
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("sys_vendor"), format!("{maker}\n")).unwrap();
        let root = SysRoot::recorded(folder.path());
        (folder, root)
    }

    #[test]
    fn guest_is_detected_from_cpu_and_firmware() {
        let (_folder, root) = made_by("Microsoft Corporation");
        let named = |chip| hypervisor(&root, &chip);
        assert_eq!(named(chip("x86_64", Some(""))).as_deref(), Some("hyperv"));
        assert_eq!(named(chip("x86_64", Some("kvm"))).as_deref(), Some("kvm"));
        // The same manufacturer also sells laptops, which are not virtual machines.
        assert_eq!(named(chip("x86_64", None)), None);
        assert_eq!(named(chip("aarch64", None)), None);
        let (_qemu_folder, qemu_root) = made_by("QEMU");
        assert_eq!(hypervisor(&qemu_root, &chip("aarch64", None)).as_deref(), Some("kvm"));
        let (_dell_folder, dell_root) = made_by("Dell Inc.");
        assert_eq!(
            hypervisor(&dell_root, &chip("x86_64", Some(""))).as_deref(),
            Some("hypervisor")
        );
    }

    #[test]
    fn properties_of_empty_tree_are_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let root = SysRoot::recorded(folder.path());
        assert_eq!((kernel(&root), name(&root), container(&root)), (None, None, None));
        assert!(governors(&root, &[0, 1]).is_empty());
        assert_eq!(
            (is_turbo_enabled(&root), is_smt_active(&root), offline_cpus(&root), is_root(&root)),
            (None, None, None, None)
        );
        assert_eq!(firmware(&root), None);
    }

    #[test]
    fn firmware_date_is_converted_only_from_us_format() {
        assert_eq!(iso_date("12/01/2023").as_deref(), Some("2023-12-01"));
        for other in ["2023-12-01", "12/01/23", "1/2/2023", "12/01/2023/4", ""] {
            assert_eq!(iso_date(other), None, "{other}");
        }
    }

    #[test]
    fn circumstances_are_read_from_files_and_variables() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/cpuinfo", "processor\t: 0\nmicrocode\t: 0x2b000603\n");
        write("proc/sys/kernel/numa_balancing", "2\n");
        write("sys/devices/system/cpu/smt/active", "0\n");
        write("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n");
        write("sys/devices/system/cpu/vulnerabilities/retbleed", "Mitigation: Enhanced IBRS\n");
        let file = "sys/devices/system/clocksource/clocksource0/current_clocksource";
        write(file, "hpet\n");
        write("sys/class/dmi/id/bios_vendor", "Dell Inc.\n");
        write("sys/class/dmi/id/bios_version", "2.19.0\n");
        write("sys/class/dmi/id/bios_date", "03/14/2024\n");
        write("sys/class/dmi/id/board_name", "\n");
        write("sys/class/dmi/id/board_serial", ".ABC123.\n");
        write("proc/self/status", "Uid:\t0\nCpus_allowed_list:\t0-3,8\nMems_allowed_list:\t0,2\n");
        let variables = [("OMP_PLACES", "cores"), ("HOME", "/root"), ("OPENBLAS_CORETYPE", "ZEN")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = circumstances(&SysRoot::recorded(folder.path()), variables.into_iter());
        assert_eq!(found.microcode.as_deref(), Some("0x2b000603"));
        assert_eq!(found.clocksource.as_deref(), Some("hpet"));
        assert_eq!((found.boost, found.smt, found.numa_balancing), (None, Some(false), Some(true)));
        assert_eq!(found.mitigations.into_keys().collect::<Vec<_>>(), ["retbleed"]);
        let (cpus, memory_nodes) = (vec![0, 1, 2, 3, 8], vec![0, 2]);
        let inherited = InheritedBinding { cpus, memory_nodes, ..InheritedBinding::default() };
        assert_eq!(found.inherited, Some(inherited));
        let firmware = Firmware {
            vendor: Some("Dell Inc.".to_owned()),
            version: Some("2.19.0".to_owned()),
            date: Some("2024-03-14".to_owned()),
            board: None,
        };
        assert_eq!(found.firmware, Some(firmware));
        let names: Vec<String> = found.environment.into_keys().collect();
        assert_eq!(names, ["OMP_PLACES", "OPENBLAS_CORETYPE"]);
    }
}
