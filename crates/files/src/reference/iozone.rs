//! IOzone as a reference program, with one run per cell. Each run uses the tests that correspond to the operations of
//! the cell.

use super::output::IozoneOutput;
use super::{Figures, ProgramProperties, ReferenceProgramFigure};
use nodegauge_blocks::engine::{IoEngine, SyncWrites};
use nodegauge_blocks::operation::Operation;
use nodegauge_blocks::pattern::STRIDE;
use nodegauge_blocks::task::Task;
use nodegauge_blocks::workers::{FileWorkers, WorkerKind};
use nodegauge_measure::Bytes;
use std::collections::BTreeSet;

pub(super) const PROPERTIES: ProgramProperties = ProgramProperties {
    name: "iozone",
    title: "IOzone",
    version_option: "-v",
    version: |stdout| stdout.split("Version $Revision:").nth(1)?.split_whitespace().next(),
    runs: |program, task| {
        let arguments = arguments(task, program.workers);
        arguments.map(|words| (words, task.operations.clone())).into_iter().collect()
    },
    figures,
};

/// Formats a size as IOzone expects it; `None` if it is not a whole number of KiB.
fn kib(size: Bytes) -> Option<String> {
    size.0.is_multiple_of(1024).then(|| format!("{}k", size.0 / 1024))
}

/// Returns the arguments for a cell; `None` if IOzone does not support its setup.
fn arguments(task: &Task, workers: Option<FileWorkers>) -> Option<Vec<String>> {
    let setup = &task.setup;
    if setup.engine.has_queue() || task.drop_before_reads {
        return None;
    }
    let file = kib(task.cell.file)?;
    let block = kib(task.cell.block)?;
    let mut words: Vec<String> = ["-s", &file, "-r", &block].map(str::to_owned).into();
    let flags = [
        ("-B", setup.engine == IoEngine::Mmap),
        ("-I", setup.direct),
        ("-o", setup.sync_writes == Some(SyncWrites::Sync)),
        ("-+D", setup.sync_writes == Some(SyncWrites::Dsync)),
        ("-c", setup.include_close),
        ("-e", setup.include_fsync),
    ];
    words.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| (*flag).to_owned()));
    if setup.stride != STRIDE {
        words.extend(["-j".to_owned(), setup.stride.to_string()]);
    }
    // Test 0 creates the file for the other tests.
    let mut tests = BTreeSet::from([0]);
    tests.extend(task.operations.iter().filter_map(|operation| operation.iozone));
    words.extend(tests.iter().flat_map(|test| ["-i".to_owned(), test.to_string()]));
    let Some(workers) = workers else {
        words.extend(["-f", "data-iozone"].map(str::to_owned));
        return Some(words);
    };
    words.extend(["-t".to_owned(), workers.count.to_string()]);
    if workers.kind == WorkerKind::Threads {
        words.push("-T".to_owned());
    }
    if !workers.stonewall {
        words.push("-x".to_owned());
    }
    words.push("-F".to_owned());
    words.extend((0..workers.count).map(|i| format!("data-iozone-{i}")));
    Some(words)
}

fn figures(
    text: &str,
    task: &Task,
    operations: &[&'static Operation],
    command: &str,
) -> Result<Figures, String> {
    let output = IozoneOutput::read(text)?;
    let doubt = "iozone reports that its clock is too coarse for the smallest files";
    let cells = output.lines.iter().flat_map(|line| line.rates.iter().copied());
    let throughput = output.throughput.iter().map(|test| (test.name, test.children));
    let mut figures = Vec::new();
    for (name, rate) in cells.chain(throughput) {
        let operation = operations.iter().find(|operation| operation.name == name);
        let Some(operation) = operation.filter(|_| rate > 0.0) else { continue };
        let figure = ReferenceProgramFigure {
            rate,
            iops: Some(rate / task.cell.block.as_f64()),
            latency: None,
            command: command.to_owned(),
            doubt: output.has_poor_resolution.then(|| doubt.to_owned()),
        };
        figures.push((*operation, figure));
    }
    Ok(figures.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_blocks::operation;
    use nodegauge_blocks::task::CacheMode;
    use nodegauge_blocks::task::CellSize;
    use nodegauge_blocks::task::TaskSetup;
    use nodegauge_measure::Bytes;

    fn task(setup: TaskSetup, names: &[&str]) -> Task {
        Task {
            cell: CellSize { file: Bytes::mib(1), block: Bytes::kib(4) },
            cache: CacheMode::Cached,
            setup,
            drop_before_reads: false,
            operations: names.iter().filter_map(|name| operation::find(name)).collect(),
        }
    }

    fn arguments(task: &Task, workers: Option<FileWorkers>) -> Option<String> {
        super::arguments(task, workers).map(|words| words.join(" "))
    }

    #[test]
    fn iozone_options_match_the_task() {
        let plain = task(TaskSetup::default(), &["read", "reread", "random_write"]);
        assert_eq!(
            arguments(&plain, None).as_deref(),
            Some("-s 1024k -r 4k -i 0 -i 1 -i 2 -f data-iozone")
        );
        let mut setup = CacheMode::Direct.apply_to(TaskSetup::default());
        setup.sync_writes = Some(SyncWrites::Dsync);
        setup.include_close = true;
        let workers = FileWorkers { kind: WorkerKind::Threads, count: 2, stonewall: false };
        assert_eq!(
            arguments(&task(setup, &["write"]), Some(workers)).as_deref(),
            Some("-s 1024k -r 4k -I -+D -c -i 0 -t 2 -T -x -F data-iozone-0 data-iozone-1")
        );
        let uring = TaskSetup { engine: IoEngine::Uring, ..TaskSetup::default() };
        assert_eq!(
            arguments(&task(uring, &["write"]), None),
            None,
            "iozone has no io_uring engine"
        );
        let apart = TaskSetup { stride: 51, ..TaskSetup::default() };
        assert_eq!(
            arguments(&task(apart, &["stride_read"]), None).as_deref(),
            Some("-s 1024k -r 4k -j 51 -i 0 -i 5 -f data-iozone")
        );
        let mut odd = task(TaskSetup::default(), &["write"]);
        odd.cell.block = Bytes(1000);
        assert_eq!(arguments(&odd, None), None);
    }
}
