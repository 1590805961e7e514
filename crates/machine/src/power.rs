//! Energy and throttling: what the kernel counts of them, below a root.
//!
//! Energy comes from RAPL (the powercap tree) or from hwmon's energy counters; both count
//! microjoules. Throttling comes from the counts of thermal and power events that Intel's drivers
//! keep. A node without them, or a user who may not read them, gets the reason in words.

use crate::root::SysRoot;

/// Energy counters of a node, each counted once.
#[derive(Debug, Clone, PartialEq)]
pub struct EnergyMeter {
    root: SysRoot,
    counters: Vec<Counter>,
    /// Where they come from: `RAPL, 2 packages`.
    pub basis: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Counter {
    file: String,
    /// Value at which it starts again, microjoules.
    range: Option<u64>,
}

/// A reading of all counters, microjoules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnergyReading(Vec<u64>);

impl EnergyMeter {
    /// Finds the counters of the packages.
    ///
    /// # Errors
    /// In words, when there are none that can be read.
    pub fn find(root: &SysRoot) -> Result<Self, String> {
        let zones: Vec<String> = root
            .names("sys/class/powercap")
            .into_iter()
            // `intel-rapl:0` is a package; `intel-rapl:0:0` a part of it, `intel-rapl-mmio` the
            // same counter again.
            .filter(|zone| zone.starts_with("intel-rapl:") && zone.matches(':').count() == 1)
            .filter(|zone| {
                root.text(&format!("sys/class/powercap/{zone}/name"))
                    .is_some_and(|name| name.trim().starts_with("package"))
            })
            .collect();
        let rapl: Vec<Counter> = zones
            .iter()
            .map(|zone| Counter {
                file: format!("sys/class/powercap/{zone}/energy_uj"),
                range: root.value(&format!("sys/class/powercap/{zone}/max_energy_range_uj")),
            })
            .collect();
        let hwmon: Vec<Counter> = root
            .names("sys/class/hwmon")
            .into_iter()
            .filter(|chip| {
                root.text(&format!("sys/class/hwmon/{chip}/name"))
                    .is_some_and(|name| name.trim() == "amd_energy")
            })
            .flat_map(|chip| {
                let folder = format!("sys/class/hwmon/{chip}");
                let names = root.names(&folder);
                let labelled = names.into_iter().filter_map(|file| {
                    let label = file.strip_suffix("_label")?.to_owned();
                    root.text(&format!("{folder}/{file}"))?
                        .trim()
                        .starts_with("Esocket")
                        .then_some(label)
                });
                labelled
                    .map(|name| Counter { file: format!("{folder}/{name}_input"), range: None })
                    .collect::<Vec<_>>()
            })
            .collect();
        for (kind, counters) in [("RAPL", &rapl), ("amd_energy", &hwmon)] {
            let readable = |counter: &Counter| root.value::<u64>(&counter.file).is_some();
            if !counters.is_empty() && counters.iter().all(readable) {
                let packages = if counters.len() == 1 { "package" } else { "packages" };
                let basis = format!("{kind}, {} {packages}", counters.len());
                return Ok(Self { root: root.clone(), counters: counters.clone(), basis });
            }
        }
        Err(match rapl.first().or(hwmon.first()) {
            Some(counter) => format!("/{} is not readable by this user", counter.file),
            None => "this node shows neither RAPL nor hwmon energy counters".to_owned(),
        })
    }

    /// Reads all counters; `None` when one cannot be read any more.
    pub fn read(&self) -> Option<EnergyReading> {
        self.counters
            .iter()
            .map(|c| self.root.value(&c.file))
            .collect::<Option<_>>()
            .map(EnergyReading)
    }

    /// Energy between two readings, joules. A counter that starts again does so once between them.
    pub fn joules(&self, from: &EnergyReading, to: &EnergyReading) -> Option<f64> {
        let mut sum = 0u64;
        for ((counter, from), to) in self.counters.iter().zip(&from.0).zip(&to.0) {
            sum += match to.checked_sub(*from) {
                Some(difference) => difference,
                None => counter.range?.checked_sub(*from)? + to,
            };
        }
        Some(sum as f64 * 1e-6)
    }
}

/// Events since boot in which the processor slowed itself down: thermal and power, summed over
/// CPUs; `None` when the kernel does not count them.
pub fn throttle_events(root: &SysRoot) -> Option<u64> {
    let cpus = root.names("sys/devices/system/cpu");
    let counts: Vec<u64> = cpus
        .iter()
        .filter(|name| name.strip_prefix("cpu").is_some_and(|id| id.parse::<u32>().is_ok()))
        .flat_map(|cpu| {
            ["core_throttle_count", "package_throttle_count", "core_power_limit_count"].map(
                |file| {
                    root.value::<u64>(&format!(
                        "sys/devices/system/cpu/{cpu}/thermal_throttle/{file}"
                    ))
                },
            )
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
    fn packages_are_counted_once_and_over_their_range() {
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
        assert!((joules - 150e-6).abs() < 1e-12);
    }

    #[test]
    fn sockets_of_amd_energy_serve_too() {
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
    fn what_is_missing_is_said() {
        let (_folder, root) = tree(&[("sys/class/powercap/intel-rapl:0/name", "package-0")]);
        let reason = EnergyMeter::find(&root).unwrap_err();
        assert!(reason.ends_with("energy_uj is not readable by this user"), "{reason}");
        let (_folder, root) = tree(&[("proc/version", "")]);
        assert!(EnergyMeter::find(&root).unwrap_err().contains("neither RAPL nor hwmon"));
        assert_eq!(throttle_events(&root), None);
    }

    #[test]
    fn throttling_is_summed_over_cpus() {
        let (_folder, root) = tree(&[
            ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "2"),
            ("sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count", "3"),
        ]);
        assert_eq!(throttle_events(&root), Some(5));
    }
}
