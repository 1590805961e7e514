//! The user's own BabelStream and nvbandwidth beside the native figures: on the same device, with arrays and copies
//! as long.

use crate::GAUGE;
use crate::babelstream::BabelStreamOutput;
use crate::config::DeviceConfig;
use crate::info::{Class, DeviceInfo};
use crate::nvbandwidth::NvbandwidthOutput;
use nodegauge_kernels::Element;
use nodegauge_measure::record::{Category, Measurement};
use nodegauge_measure::{Failure, Notice, NoticeId};
use nodegauge_toolchain::program::{self, Run};
use nodegauge_toolchain::{CommandLine, ToolchainError, find_program, with_path_hint};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time for a run.
const LIMIT: Duration = Duration::from_secs(3600);
/// BabelStream's passes on devices, as it has them by itself, and on processors.
const REPEATS: [u64; 2] = [100, 20];
/// Native samples behind a program's run, which others are before.
pub const BEHIND: usize = 3;
/// The smallest copy that nvbandwidth's unit allows, bytes.
const MIB: u64 = 1 << 20;

/// A program of the user's.
#[derive(Debug, Clone, PartialEq)]
pub struct UsersProgram {
    path: PathBuf,
}

impl UsersProgram {
    /// Finds the program at `path`, or in `PATH` if it is a name without `/`.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn find(path: &Path, what: &str) -> Result<Self, Failure> {
        let path = find_program(path).ok_or_else(|| {
            let hint = format!("give the path of {what} that you have built");
            Failure::missing(format!("there is no program {}", path.display()))
                .hint(with_path_hint(path, &hint))
        })?;
        Ok(Self { path })
    }

    /// What it prints; `None` when the user ended it.
    fn run(
        &self,
        arguments: &[String],
        environment: Vec<(String, Option<String>)>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<String>, Failure> {
        let command = CommandLine::new(self.path.display().to_string(), arguments.iter().cloned());
        let run = Run::new(command, LIMIT).with_environment(environment);
        let ended = program::run(&run, interrupted)?;
        match ended.success("run it by hand") {
            Err(ToolchainError::Interrupted) => Ok(None),
            ended => Ok(Some(ended?.stdout)),
        }
    }

    fn unreadable(&self, why: &str) -> Failure {
        Failure::missing(format!("{}: {why}", self.path.display())).hint("run it by hand")
    }

    /// BabelStream's figures on a device, with arrays of `elements` elements; none when the user ended it.
    ///
    /// # Errors
    /// When it does not run, or its results are wrong.
    pub fn babelstream(
        &self,
        device: &DeviceInfo,
        (element, elements): (Element, u64),
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<Measurement>, Failure> {
        let repeats = REPEATS[usize::from(device.class == Class::Cpu)];
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
            .unwrap_or_else(|| Err("it does not print what BabelStream prints".to_owned()));
        let output = read.map_err(|why| self.unreadable(&why))?;
        // Each of its models numbers devices by itself.
        let other = output.device.as_ref().is_some_and(|name| !name.contains(&device.name));
        let on = if other { None } else { Some(device.config()) };
        Ok(output.measurements(on.as_ref()))
    }

    /// nvbandwidth's figures of the links that `device links` calls by `names`, of CUDA's devices that it is shown
    /// alone, with copies of `bytes` bytes; none when the user ended it.
    ///
    /// # Errors
    /// When it does not run.
    pub fn nvbandwidth(
        &self,
        names: &[&str],
        devices: &[&DeviceInfo],
        bytes: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<Measurement>, Failure> {
        let mebibytes = (bytes / MIB).max(1);
        let mut arguments = vec!["-b".to_owned(), mebibytes.to_string(), "-t".to_owned()];
        arguments.extend(NvbandwidthOutput::cases_of(names));
        let shown: Option<Vec<&str>> = devices.iter().map(|info| info.uuid.as_deref()).collect();
        let shown = shown.map(|uuids| ("CUDA_VISIBLE_DEVICES".to_owned(), Some(uuids.join(","))));
        let text = self.run(&arguments, shown.into_iter().collect(), interrupted)?;
        let Some(text) = text else { return Ok(Vec::new()) };
        let read = NvbandwidthOutput::read(&text)
            .unwrap_or_else(|| Err("it does not print what nvbandwidth prints".to_owned()));
        let output = read.map_err(|why| self.unreadable(&why))?;
        Ok(output.measurements(Some(mebibytes * MIB), devices))
    }
}

/// What tells figures of one name apart that a program has as well.
const ALIKE: [&str; 5] = ["device", "element", "message_bytes", "peer", "host_memory"];

/// How native figures stand to those of a program, a ratio each.
pub fn compare(measurements: &[Measurement]) -> Option<Notice> {
    let of = |m: &Measurement| ALIKE.map(|key| m.config.get(key).cloned());
    let mut ratios = Vec::new();
    for theirs in measurements.iter().filter(|m| m.category == Category::Reference) {
        let same = |m: &&Measurement| {
            m.category != Category::Reference && m.name == theirs.name && of(m) == of(theirs)
        };
        // Of several NUMA nodes of the host, nvbandwidth takes the near one by itself.
        let native = measurements.iter().filter(same).filter_map(|m| m.value).reduce(f64::max);
        let Some((native, value)) = native.zip(theirs.value) else { continue };
        let device = theirs.read_config::<DeviceConfig>().device.unwrap_or_default();
        ratios.push(format!("{device} {} {:.3}", theirs.name, native / value));
    }
    let text = format!("native over the program's: {}", ratios.join(", "));
    (!ratios.is_empty()).then(|| Notice::new(NoticeId::Reference, GAUGE, text))
}
