//! IOzone beside the gauge: one run of the program for each cell, with the tests of the cell's
//! operations.

use super::output::IozoneOutput;
use super::{Beside, Figure, Figures, kib, located, time_limit};
use crate::FilesError;
use crate::cell::Task;
use crate::engine::{Engine, SyncWrites};
use crate::ground::Ground;
use crate::operation::{Operation, named};
use crate::team::{Crew, Kind};
use nodegauge_toolchain::{CommandLine, Job};
use std::path::Path;
use std::time::Duration;

/// The program.
#[derive(Debug, Clone)]
pub struct Iozone {
    program: String,
    version: String,
    crew: Option<Crew>,
}

impl Iozone {
    /// Finds the program and asks for its version.
    ///
    /// # Errors
    /// When it is not there or is not IOzone.
    pub fn new(program: &Path, crew: Option<Crew>) -> Result<Self, FilesError> {
        let program = located(program, "iozone")?;
        let command = CommandLine::new(program.as_str(), ["-v"]);
        let job =
            Job { folder: std::env::temp_dir(), ..Job::new(command, Duration::from_secs(10)) };
        let said = nodegauge_toolchain::run(&job, &|| false)?.stdout;
        let version = said
            .split("Version $Revision:")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next())
            .map(str::to_owned);
        match version {
            Some(version) => Ok(Self { program, version, crew }),
            None => Err(FilesError::Peer { program, why: "this is not IOzone: it prints no version\nhint: --iozone takes the path of the program iozone".to_owned() }),
        }
    }

    /// The arguments for a cell; `None` when IOzone cannot measure it this way.
    fn arguments(&self, task: &Task) -> Option<Vec<String>> {
        let setup = &task.setup;
        let mut words: Vec<String> = Vec::new();
        let mut add = |list: &[&str]| words.extend(list.iter().map(|word| (*word).to_owned()));
        match setup.engine {
            Engine::Sync => {}
            Engine::Mmap => add(&["-B"]),
            Engine::Aio | Engine::Uring => return None,
        }
        if task.drop_before_reads {
            return None;
        }
        add(&[
            "-s",
            &format!("{}k", kib(task.cell.file)?),
            "-r",
            &format!("{}k", kib(task.cell.block)?),
        ]);
        if setup.access.direct {
            add(&["-I"]);
        }
        match setup.access.sync {
            Some(SyncWrites::Sync) => add(&["-o"]),
            Some(SyncWrites::Dsync) => add(&["-+D"]),
            None => {}
        }
        if setup.include_close {
            add(&["-c"]);
        }
        if setup.include_fsync {
            add(&["-e"]);
        }
        // The first test makes the file for the others.
        let mut tests: Vec<u8> = vec![0];
        tests.extend(task.operations.iter().map(|operation| operation.iozone));
        tests.sort_unstable();
        tests.dedup();
        for test in tests {
            add(&["-i", &test.to_string()]);
        }
        match self.crew {
            None => add(&["-f", "data-iozone"]),
            Some(crew) => {
                add(&["-t", &crew.count.to_string()]);
                if crew.kind == Kind::Threads {
                    add(&["-T"]);
                }
                if !crew.stonewall {
                    add(&["-x"]);
                }
                add(&["-F"]);
                words.extend((0..crew.count).map(|i| format!("data-iozone-{i}")));
            }
        }
        Some(words)
    }
}

impl Beside for Iozone {
    fn name(&self) -> &'static str {
        "iozone"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn run(
        &mut self,
        task: &Task,
        ground: &Ground,
        left: Option<Duration>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Figures, FilesError> {
        let Some(arguments) = self.arguments(task) else { return Ok(Vec::new()) };
        let command = CommandLine::new(self.program.clone(), arguments);
        let limit = time_limit(left);
        let job = Job { folder: ground.folder().to_owned(), ..Job::new(command.clone(), limit) };
        let text = job.success(nodegauge_toolchain::run(&job, interrupted)?)?;
        let output = IozoneOutput::read(&text).map_err(|error| FilesError::Peer {
            program: command.to_string(),
            why: error.to_string(),
        })?;
        let wanted = |name: &str| -> Option<&'static Operation> {
            task.operations.iter().copied().find(|operation| operation.name == name)
        };
        let figure = |rate: f64, block: u64| Figure {
            rate,
            iops: Some(rate / block as f64),
            latency: None,
            command: command.to_string(),
            doubt: output.poor_resolution.then(|| {
                "it says itself that its clock is too coarse for the smallest files".to_owned()
            }),
        };
        let block = task.cell.block.0;
        let cells = output.lines.iter().flat_map(|line| &line.rates);
        let throughput = output.throughput.iter().map(|t| (t.name, t.children));
        Ok(cells
            .map(|(name, rate)| (*name, *rate))
            .chain(throughput)
            .filter(|(_, rate)| *rate > 0.0)
            .filter_map(|(name, rate)| Some((wanted(name)?, figure(rate, block))))
            .collect())
    }
}

/// The operations of IOzone's columns, in their order.
pub fn columns() -> Vec<&'static Operation> {
    super::output::COLUMNS.iter().filter_map(|name| named(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::CacheMode;
    use crate::grid::Cell;
    use crate::pass::Setup;
    use nodegauge_measure::Bytes;

    fn task(setup: Setup, names: &[&str]) -> Task {
        Task {
            cell: Cell { file: Bytes::mib(1), block: Bytes::kib(4) },
            cache: CacheMode::Cached,
            setup,
            drop_before_reads: false,
            operations: names.iter().filter_map(|name| named(name)).collect(),
        }
    }

    fn arguments(task: &Task, crew: Option<Crew>) -> Option<String> {
        let iozone = Iozone { program: "iozone".into(), version: "3.489".into(), crew };
        iozone.arguments(task).map(|words| words.join(" "))
    }

    #[test]
    fn options_say_the_same_as_ours() {
        let plain = task(Setup::default(), &["read", "reread", "random_write"]);
        assert_eq!(
            arguments(&plain, None).as_deref(),
            Some("-s 1024k -r 4k -i 0 -i 1 -i 2 -f data-iozone")
        );
        let mut setup = CacheMode::Direct.applied(Setup::default());
        setup.access.sync = Some(SyncWrites::Dsync);
        setup.include_close = true;
        let crew = Crew { kind: Kind::Threads, count: 2, stonewall: false };
        assert_eq!(
            arguments(&task(setup, &["write"]), Some(crew)).as_deref(),
            Some("-s 1024k -r 4k -I -+D -c -i 0 -t 2 -T -x -F data-iozone-0 data-iozone-1")
        );
        let uring = Setup { engine: Engine::Uring, ..Setup::default() };
        assert_eq!(arguments(&task(uring, &["write"]), None), None, "it has no such thing");
        let mut odd = task(Setup::default(), &["write"]);
        odd.cell.block = Bytes(1000);
        assert_eq!(arguments(&odd, None), None);
    }
}
