//! Comparison of native figures with the user's builds of BabelStream and nvbandwidth, on the same device and with
//! arrays or copies of the same size.

use crate::GAUGE;
use crate::babelstream::BabelStreamOutput;
use crate::config::DeviceConfig;
use crate::info::{DeviceClass, DeviceInfo};
use crate::nvbandwidth::NvbandwidthOutput;
use nodegauge_kernels::Element;
use nodegauge_measure::record::{Category, Measurement};
use nodegauge_measure::{Failure, Notice, NoticeId};
use nodegauge_toolchain::program::{self, ProgramJob};
use nodegauge_toolchain::{CommandLine, ToolchainError, required_program};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout of a run.
const LIMIT: Duration = Duration::from_secs(3600);
/// Number of passes of BabelStream: on devices (BabelStream's default), and on CPUs.
const REPEATS: [u64; 2] = [100, 20];
/// Smallest copy of nvbandwidth in bytes, because its size option is in MiB.
const MIB: u64 = 1 << 20;

/// External program whose path the user gives.
#[derive(Debug, Clone, PartialEq)]
pub struct UsersProgram {
    path: PathBuf,
}

impl UsersProgram {
    /// Finds the program at `path`. If `path` is a name without `/`, the program is searched for in `PATH`.
    ///
    /// # Errors
    /// Fails if the program is not found.
    pub fn find(path: &Path, what: &str) -> Result<Self, Failure> {
        let hint = format!("give the path of your build of {what}");
        let path = required_program(path, &hint)?;
        Ok(Self { path })
    }

    /// Runs the program and returns its standard output; `None` if the user interrupted it.
    fn run(
        &self,
        arguments: &[String],
        environment: Vec<(String, Option<String>)>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<String>, Failure> {
        let command = CommandLine::new(self.path.display().to_string(), arguments.iter().cloned());
        let run = ProgramJob::new(command, LIMIT).with_environment(environment);
        let ended = program::run(&run, interrupted)?;
        match ended.require_success("run the program manually") {
            Err(ToolchainError::Interrupted) => Ok(None),
            ended => Ok(Some(ended?.stdout)),
        }
    }

    fn unreadable(&self, why: &str) -> Failure {
        Failure::missing(format!("{}: {why}", self.path.display())).hint("run the program manually")
    }

    /// Runs BabelStream on a device with arrays of `elements` elements. Returns the figures, or no figures if the user
    /// interrupted the run.
    ///
    /// # Errors
    /// Fails if BabelStream does not run or reports wrong results, or if its output cannot be parsed.
    pub fn run_babelstream(
        &self,
        device: &DeviceInfo,
        element: Element,
        elements: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<Measurement>, Failure> {
        let repeats = REPEATS[usize::from(device.class == DeviceClass::Cpu)];
        let mut arguments: Vec<String> = Vec::new();
        for (name, value) in
            [("--device", device.index as u64), ("--arraysize", elements), ("--numtimes", repeats)]
        {
            arguments.extend([name.to_owned(), value.to_string()]);
        }
        arguments.extend((element == Element::F32).then(|| "--float".to_owned()));
        let Some(text) = self.run(&arguments, Vec::new(), interrupted)? else {
            return Ok(Vec::new());
        };
        let read = BabelStreamOutput::read(&text)
            .unwrap_or_else(|| Err("the output is not in BabelStream's format".to_owned()));
        let output = read.map_err(|why| self.unreadable(&why))?;
        // The numbering of devices depends on BabelStream's programming model, so device names are compared.
        let other = output.device.as_ref().is_some_and(|name| !name.contains(&device.name));
        let on = if other { None } else { Some(device.config()) };
        Ok(output.measurements(on.as_ref()))
    }

    /// Runs the test cases of nvbandwidth that correspond to the given figure names of `device links`, with copies of
    /// `bytes` bytes. Returns the figures, or no figures if the user interrupted the run. Only the given CUDA devices
    /// are visible to nvbandwidth.
    ///
    /// # Errors
    /// Fails if nvbandwidth does not run, or if its output cannot be parsed.
    pub fn run_nvbandwidth(
        &self,
        names: &[&str],
        devices: &[&DeviceInfo],
        bytes: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<Measurement>, Failure> {
        let mebibytes = (bytes / MIB).max(1);
        let mut arguments = vec!["-b".to_owned(), mebibytes.to_string(), "-t".to_owned()];
        arguments.extend(NvbandwidthOutput::test_cases(names));
        let shown: Option<Vec<&str>> = devices.iter().map(|info| info.uuid.as_deref()).collect();
        let shown = shown.map(|uuids| ("CUDA_VISIBLE_DEVICES".to_owned(), Some(uuids.join(","))));
        let text = self.run(&arguments, shown.into_iter().collect(), interrupted)?;
        let Some(text) = text else { return Ok(Vec::new()) };
        let read = NvbandwidthOutput::read(&text)
            .unwrap_or_else(|| Err("the output is not in nvbandwidth's format".to_owned()));
        let output = read.map_err(|why| self.unreadable(&why))?;
        Ok(output.measurements(Some(mebibytes * MIB), devices))
    }
}

/// Configuration keys that identify corresponding figures of nodegauge and of other programs.
const IDENTIFYING_KEYS: [&str; 5] = ["device", "element", "message_bytes", "peer", "host_memory"];

/// Returns a notice with the ratios of native figures to those of an external program.
pub fn comparison_notice(measurements: &[Measurement]) -> Option<Notice> {
    let mut ratios = Vec::new();
    for theirs in measurements.iter().filter(|m| m.category == Category::Reference) {
        let natives = measurements.iter().filter(|m| m.category != Category::Reference);
        let same = natives.filter(|m| {
            m.name == theirs.name
                && IDENTIFYING_KEYS.iter().all(|key| m.config.get(*key) == theirs.config.get(*key))
        });
        // nvbandwidth uses host memory of the near NUMA node, so its figure is compared with the largest native figure.
        let native = same.filter_map(|m| m.value).reduce(f64::max);
        let Some((native, value)) = native.zip(theirs.value) else { continue };
        let device = theirs.read_config::<DeviceConfig>().device.unwrap_or_default();
        ratios.push(format!("{device} {} {:.3}", theirs.name, native / value));
    }
    let text = format!("ratios of native figures to the program's figures: {}", ratios.join(", "));
    (!ratios.is_empty()).then(|| Notice::new(NoticeId::Reference, GAUGE, text))
}
