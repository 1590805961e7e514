//! Energy and throttling, from the kernel's counters below a root directory.
//!
//! Energy comes from RAPL (the powercap tree) or from hwmon's energy counters; both count microjoules. Throttling
//! comes from the numbers of thermal and power events that Intel's drivers count. If counters are missing or may
//! not be read by this user, the result contains the reason.

use crate::UnavailableReason;
use crate::root::SysRoot;
use nodegauge_measure::Joules;
use nodegauge_measure::quantity::count_in_words;

/// Energy counters of a node; each package is counted once.
#[derive(Debug, Clone, PartialEq)]
pub struct EnergyMeter {
    root: SysRoot,
    counters: Vec<Counter>,
    /// Source of the counters, e.g. `RAPL, 2 packages`.
    pub basis: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Counter {
    file: String,
    /// Value in microjoules at which the counter wraps around.
    range: Option<u64>,
}

impl Counter {
    fn is_readable(&self, root: &SysRoot) -> bool {
        root.value::<u64>(&self.file).is_some()
    }
}

/// Returns the counters of the RAPL zones that are processor packages.
fn rapl(root: &SysRoot) -> Vec<Counter> {
    const ZONES: &str = "sys/class/powercap";
    let mut counters = Vec::new();
    for zone in root.names(ZONES) {
        // `intel-rapl:0` is a package, `intel-rapl:0:0` is a part of that package, and `intel-rapl-mmio` duplicates
        // the same counter.
        let is_whole = zone.starts_with("intel-rapl:") && zone.matches(':').count() == 1;
        if is_whole && begins_with(root, &format!("{ZONES}/{zone}/name"), "package") {
            counters.push(Counter {
                file: format!("{ZONES}/{zone}/energy_uj"),
                range: root.value(&format!("{ZONES}/{zone}/max_energy_range_uj")),
            });
        }
    }
    counters
}

/// Returns the counters of sockets from the driver amd_energy.
fn hwmon(root: &SysRoot) -> Vec<Counter> {
    let mut counters = Vec::new();
    for chip in root.names("sys/class/hwmon") {
        let folder = format!("sys/class/hwmon/{chip}");
        if root.text(&format!("{folder}/name")).as_deref() != Some("amd_energy") {
            continue;
        }
        for file in root.names(&folder) {
            let Some(name) = file.strip_suffix("_label") else { continue };
            if begins_with(root, &format!("{folder}/{file}"), "Esocket") {
                counters.push(Counter { file: format!("{folder}/{name}_input"), range: None });
            }
        }
    }
    counters
}

/// True if the text of `file` begins with `prefix`.
fn begins_with(root: &SysRoot, file: &str, prefix: &str) -> bool {
    root.text(file).is_some_and(|text| text.starts_with(prefix))
}

/// Values of all counters at one time, in microjoules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnergyReading(Vec<u64>);

impl EnergyMeter {
    /// Finds the energy counters of the processor packages.
    ///
    /// # Errors
    /// Fails if there are no readable counters; the text contains the reason.
    pub fn find(root: &SysRoot) -> Result<Self, UnavailableReason> {
        let rapl = rapl(root);
        let hwmon = hwmon(root);
        for (kind, counters) in [("RAPL", &rapl), ("amd_energy", &hwmon)] {
            if !counters.is_empty() && counters.iter().all(|counter| counter.is_readable(root)) {
                let basis = format!("{kind}, {}", count_in_words(counters.len(), "package"));
                return Ok(Self { root: root.clone(), counters: counters.clone(), basis });
            }
        }
        Err(UnavailableReason(match rapl.first().or(hwmon.first()) {
            Some(counter) => format!("/{} cannot be read by this user", counter.file),
            None => "this node has neither RAPL nor hwmon energy counters".to_owned(),
        }))
    }

    /// Reads all counters; `None` if a counter can no longer be read.
    pub fn read(&self) -> Option<EnergyReading> {
        self.counters
            .iter()
            .map(|c| self.root.value(&c.file))
            .collect::<Option<_>>()
            .map(EnergyReading)
    }

    /// Returns the energy between two readings. Each counter is assumed to have wrapped around at most once.
    pub fn joules(&self, from: &EnergyReading, to: &EnergyReading) -> Option<Joules> {
        let mut sum = 0u64;
        for ((counter, first), last) in self.counters.iter().zip(&from.0).zip(&to.0) {
            sum += match last.checked_sub(*first) {
                Some(difference) => difference,
                None => counter.range?.checked_sub(*first)? + last,
            };
        }
        Some(Joules(sum as f64 * 1e-6))
    }
}

/// Returns how often the processor has reduced its speed for thermal or power reasons since boot, summed over CPUs;
/// `None` if the kernel does not count this.
pub fn throttle_event_count(root: &SysRoot) -> Option<u64> {
    const CPUS: &str = "sys/devices/system/cpu";
    const COUNTS: [&str; 3] =
        ["core_throttle_count", "package_throttle_count", "core_power_limit_count"];
    let cpus = root.names(CPUS);
    let counts: Vec<u64> = cpus
        .iter()
        .filter(|name| name.strip_prefix("cpu").is_some_and(|id| id.parse::<u32>().is_ok()))
        .flat_map(|cpu| {
            COUNTS.map(|file| root.value::<u64>(&format!("{CPUS}/{cpu}/thermal_throttle/{file}")))
        })
        .flatten()
        .collect();
    (!counts.is_empty()).then(|| counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, SysRoot) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = SysRoot::recorded(folder.path());
        (folder, root)
    }

    #[test]
    fn package_energy_is_summed_across_wraparound() {
        let (folder, root) = tree(&[
            ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
            ("sys/class/powercap/intel-rapl:0/energy_uj", "900\n"),
            ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "1000\n"),
            ("sys/class/powercap/intel-rapl:0:0/name", "core\n"),
            ("sys/class/powercap/intel-rapl:0:0/energy_uj", "1\n"),
            ("sys/class/powercap/intel-rapl:1/name", "psys\n"),
        ]);
        let meter = EnergyMeter::find(&root).unwrap();
        assert_eq!(meter.basis, "RAPL, 1 package");
        let before = meter.read().unwrap();
        std::fs::write(folder.path().join("sys/class/powercap/intel-rapl:0/energy_uj"), "50")
            .unwrap();
        let joules = meter.joules(&before, &meter.read().unwrap()).unwrap();
        assert!((joules.0 - 150e-6).abs() < 1e-12);
    }

    #[test]
    fn amd_energy_counters_are_read() {
        let (_folder, root) = tree(&[
            ("sys/class/hwmon/hwmon1/name", "amd_energy\n"),
            ("sys/class/hwmon/hwmon1/energy1_label", "Ecore000\n"),
            ("sys/class/hwmon/hwmon1/energy1_input", "5\n"),
            ("sys/class/hwmon/hwmon1/energy2_label", "Esocket0\n"),
            ("sys/class/hwmon/hwmon1/energy2_input", "7\n"),
        ]);
        assert_eq!(EnergyMeter::find(&root).unwrap().read(), Some(EnergyReading(vec![7])));
    }

    #[test]
    fn missing_energy_counters_have_reason() {
        let (_folder, root) = tree(&[("sys/class/powercap/intel-rapl:0/name", "package-0")]);
        let reason = EnergyMeter::find(&root).unwrap_err();
        assert!(reason.0.ends_with("energy_uj cannot be read by this user"), "{reason}");
        let (_empty_folder, empty_root) = tree(&[("proc/version", "")]);
        assert!(EnergyMeter::find(&empty_root).unwrap_err().0.contains("neither RAPL nor hwmon"));
        assert_eq!(throttle_event_count(&empty_root), None);
    }

    #[test]
    fn throttling_is_summed_over_cpus() {
        let (_folder, root) = tree(&[
            ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "2"),
            ("sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count", "3"),
        ]);
        assert_eq!(throttle_event_count(&root), Some(5));
    }
}
