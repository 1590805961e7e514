//! Watch on the CPUs during measurements: a figure is suspect if this process lost a CPU while the figure was measured.

use nodegauge_machine::{CpuId, SysRoot, number_ranges, usable_cpus};
use nodegauge_measure::Outcome;
use nodegauge_measure::quantity::number_form;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Interval between two readings during a measurement. A reading takes about a tenth of a millisecond.
const INTERVAL: Duration = Duration::from_secs(1);

/// CPUs before a measurement, and the CPUs that have been missing since.
pub struct CpuWatch {
    root: SysRoot,
    before: BTreeSet<CpuId>,
    missing: RefCell<BTreeSet<CpuId>>,
    looked: Cell<Instant>,
}

impl CpuWatch {
    /// Reads the CPUs, and begins the watch before a measurement.
    pub fn begin(root: &SysRoot) -> Self {
        Self {
            root: root.clone(),
            before: usable_cpus(root).unwrap_or_default(),
            missing: RefCell::default(),
            looked: Cell::new(Instant::now()),
        }
    }

    /// Reads the CPUs if the last reading is at least a second old, so that it can be called after every sample.
    pub fn read_if_due(&self) {
        if self.looked.get().elapsed() >= INTERVAL {
            self.read();
        }
    }

    fn read(&self) {
        self.looked.set(Instant::now());
        // If a reading fails, no CPUs are compared.
        let Some(now) = usable_cpus(&self.root) else { return };
        self.missing.borrow_mut().extend(self.before.difference(&now));
    }

    /// Reads the CPUs after the measurement. If a CPU was missing in any reading, all figures of this run become
    /// suspect.
    pub fn end(self, found: &mut Outcome) {
        self.read();
        let missing = self.missing.into_inner();
        if missing.is_empty() {
            return;
        }
        let cpus = number_ranges(missing.iter().map(|cpu| cpu.0));
        let noun = number_form(missing.len(), "cpu", "cpus");
        let doubt = format!(
            "{noun} {cpus} went offline or left the cpuset of this process during the run, and the kernel moved its threads"
        );
        found.doubt_own_figures(&doubt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Unit;
    use nodegauge_measure::record::{Measurement, QuotedStatistic, Status};

    /// Returns the reasons for doubt of a figure whose measurement sees these three sets of online CPUs in succession.
    fn doubts(online: [&str; 3]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sys/devices/system/cpu/online");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        write(online[0]);
        let watch = CpuWatch::begin(&SysRoot::recorded(folder.path()));
        write(online[1]);
        watch.read();
        write(online[2]);
        let figure = Measurement::new("stream", "stream", "triad", Unit::BytesPerSecond);
        let measurements = vec![figure.with_value(QuotedStatistic::Best, 1e9)];
        let mut found = Outcome { measurements, ..Outcome::default() };
        watch.end(&mut found);
        found.measurements.remove(0).validity.reasons
    }

    #[test]
    fn cpu_that_leaves_the_cpuset_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("sys/devices/system/cpu/online", "0-7");
        write("proc/self/cgroup", "0::/job");
        write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
        let cpuset = "sys/fs/cgroup/job/cpuset.cpus.effective";
        write(cpuset, "0-3");
        let watch = CpuWatch::begin(&SysRoot::recorded(folder.path()));
        write(cpuset, "0-2,6");
        let figure = Measurement::new("stream", "stream", "triad", Unit::BytesPerSecond);
        let measurements = vec![figure.with_value(QuotedStatistic::Best, 1e9)];
        let mut found = Outcome { measurements, ..Outcome::default() };
        watch.end(&mut found);
        let validity = &found.measurements[0].validity;
        assert_eq!(validity.status, Status::Suspect);
        assert!(validity.reasons[0].starts_with("cpu 3 went offline or left"), "{validity:?}");
    }

    #[test]
    fn removed_cpu_is_reported() {
        assert!(doubts(["0-3", "0-3", "0-3"]).is_empty());
        assert!(doubts(["0-1", "0-3", "0-3"]).is_empty());
        let after = doubts(["0-3", "0-3", "0-1"]);
        assert!(after[0].starts_with("cpus 2-3 went offline or left the cpuset"), "{after:?}");
        // A CPU that was missing only for a while is named, too.
        let meanwhile = doubts(["0-3", "0,2-3", "0-3"]);
        assert!(meanwhile[0].starts_with("cpu 1 went offline"), "{meanwhile:?}");
    }
}
