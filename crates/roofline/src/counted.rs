//! Counts of a program's operations and bytes, from hardware counters of the processor and of the memory controllers.

use crate::GivenPoint;
use nodegauge_gauge::roofline::{MEMORY_LEVEL, RooflinePoint};
use nodegauge_machine::SysRoot;
use nodegauge_machine::counters::{FlopCounters, MemoryCounters};
use nodegauge_measure::Failure;
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::program::{self, ProgramJob};
use std::path::PathBuf;
use std::time::Duration;

/// Hardware counters for the operations of a program and for the memory traffic of the node.
pub struct RooflineCounters {
    operations: FlopCounters,
    memory: MemoryCounters,
}

impl RooflineCounters {
    /// Starts counting. Child processes that this thread starts later are included.
    ///
    /// Fails if the machine has no such counters, or if the kernel does not permit their use.
    pub fn start() -> Result<Self, Failure> {
        let operations = FlopCounters::start(&SysRoot::live())
            .map_err(|why| Failure::missing(format!("--perf: {why}")))?;
        let memory = MemoryCounters::open(&SysRoot::live())
            .map_err(|why| Failure::missing(format!("--perf: {why}")))?;
        Ok(Self { operations, memory })
    }
}

/// Runs a program once and returns its point on the roofline.
///
/// Fails if the program or the counters fail, or if nothing was counted.
pub(crate) fn count_program(
    command: CommandLine,
    interrupted: &dyn Fn() -> bool,
) -> Result<RooflinePoint, Failure> {
    /// Timeout of the program: one day.
    const LIMIT: Duration = Duration::from_secs(24 * 3600);
    let path = PathBuf::from(command.program());
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let counters = RooflineCounters::start()?;
    let lost = |cause| Failure::missing(format!("--perf: the counters cannot be read: {cause}"));
    let before = counters.memory.read().map_err(lost)?;
    let output = program::run(&ProgramJob::new(command, LIMIT), interrupted)?;
    let seconds = output.seconds;
    let after = counters.memory.read().map_err(lost)?;
    let flops = counters.operations.operations().map_err(lost)?;
    output.require_success("")?;
    let moved = counters.memory.traffic(&[(before, after)]).map(|moved| moved.total);
    let (Some(flops), Some(bytes)) = (flops.filter(|n| *n > 0.0), moved.filter(|n| *n > 0.0))
    else {
        return Err(Failure::missing(format!(
            "--perf: {name}: the counters are zero: another program uses them, or the program \
             performs no floating-point operations"
        )));
    };
    let level = MEMORY_LEVEL.to_owned();
    let point = GivenPoint { name, flops, bytes, seconds, level };
    let basis = format!(
        "operations from {}; bytes from {}, including the traffic of other programs",
        counters.operations.family(),
        counters.memory.plan().family
    );
    Ok(point.roofline_point(&basis))
}
