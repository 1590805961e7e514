use super::*;
use crate::cell::EarlyEnd;
use crate::scratch::ScratchDirectory;
use nodegauge_measure::FailureKind;
use nodegauge_team::Workers;
use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

/// Returns a task with all operations on a few files; the clock is read after each call.
fn task(layout: DirectoryLayout) -> EntryTask {
    let operations = EntryOperation::ALL.to_vec();
    let batches = vec![1; operations.len()];
    EntryTask { files: 20, layout, bytes: 0, fsync: false, drop_caches: false, operations, batches }
}

/// Runs one turn in a folder, and checks that nothing remains.
fn turn(
    folder: &Path,
    workers: Workers,
    task: &EntryTask,
    interrupted: &dyn Fn() -> bool,
) -> Result<EntryTurnResult, EarlyEnd> {
    let scratch = ScratchDirectory::create(folder).unwrap();
    let all = [workers];
    let mut runner = EntryRunner::start(&all).unwrap();
    let context = EntryContext { scratch: &scratch, deadline: None, interrupted };
    let turn = runner.run_turn(0, task, &context);
    let left: Vec<_> = std::fs::read_dir(scratch.folder()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only the lock remains: {left:?}");
    turn
}

#[test]
fn threads_and_processes_carry_out_all_operations() {
    let folder = tempfile::tempdir().unwrap();
    for workers in [Workers::unbound_threads(2), Workers::unbound_ranks(2)] {
        for layout in DirectoryLayout::ALL {
            for fsync in [false, true] {
                let task = EntryTask { bytes: 100, fsync, ..task(*layout) };
                let turn = turn(folder.path(), workers.clone(), &task, &|| false).unwrap();
                let operations: Vec<_> = turn.phases.iter().map(|phase| phase.operation).collect();
                assert_eq!(operations, EntryOperation::ALL);
                assert_eq!(turn.sample.seconds.len(), 5);
                for (phase, seconds) in turn.phases.iter().zip(&turn.sample.seconds) {
                    assert_eq!(phase.completed_files, 40);
                    let count: u64 = phase.latencies.iter().map(|(_, count)| count).sum();
                    assert_eq!(count, 40);
                    assert!(*seconds > 0.0);
                }
            }
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn latencies_are_recorded_for_whole_batches_only() {
    let folder = tempfile::tempdir().unwrap();
    let operations = vec![EntryOperation::Create];
    let task = EntryTask { operations, batches: vec![8], ..task(DirectoryLayout::Shared) };
    let turn = turn(folder.path(), Workers::unbound_threads(1), &task, &|| false).unwrap();
    // Two whole batches of eight files; the last four files are in no batch.
    let count: u64 = turn.phases[0].latencies.iter().map(|(_, count)| count).sum();
    assert_eq!((turn.phases[0].completed_files, count), (20, 2));
}

#[test]
fn interrupted_turn_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    for workers in [Workers::unbound_threads(2), Workers::unbound_ranks(2)] {
        let task = EntryTask { files: 100_000_000, ..task(DirectoryLayout::Shared) };
        let asked = Cell::new(0);
        let interrupted = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };
        let ended = turn(folder.path(), workers, &task, &interrupted);
        assert!(matches!(ended, Err(EarlyEnd::CutShort)));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn failing_operation_is_named_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    // The files are removed before they are looked up.
    let operations = vec![EntryOperation::Create, EntryOperation::Remove, EntryOperation::Stat];
    let task = EntryTask { operations, batches: vec![1; 3], ..task(DirectoryLayout::Own) };
    for workers in [Workers::unbound_threads(2), Workers::unbound_ranks(2)] {
        let ended = turn(folder.path(), workers, &task, &|| false);
        let Err(EarlyEnd::Failed(failure)) = ended else { panic!("no failure") };
        let text = failure.to_string();
        assert!(text.contains("cannot stat") && text.contains("file.0.0"), "{text}");
    }
}

#[test]
fn turn_is_cut_short_at_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let scratch = ScratchDirectory::create(folder.path()).unwrap();
    let all = [Workers::unbound_threads(1)];
    let mut runner = EntryRunner::start(&all).unwrap();
    let deadline = Some(nodegauge_measure::clock::now() + Duration::from_millis(20));
    let context = EntryContext { scratch: &scratch, deadline, interrupted: &|| false };
    let task = EntryTask { files: 100_000_000, ..task(DirectoryLayout::Own) };
    assert!(matches!(runner.run_turn(0, &task, &context), Err(EarlyEnd::CutShort)));
}

#[test]
fn smallest_batch_in_which_the_clock_costs_little_is_chosen() {
    // Reading the clock costs 1 % of a single operation.
    assert_eq!(batch_size(10e-9, 1e-6, 1000), 1);
    // It costs 4 % of a single operation, and 2 % of two.
    assert_eq!(batch_size(16e-9, 400e-9, 1000), 2);
    assert_eq!(batch_size(1e-6, 1e-6, 1000), 64);
    assert_eq!(batch_size(1e-6, 1e-6, 20), 16);
    assert_eq!(batch_size(1e-6, f64::NAN, 20), 1);
}

#[test]
fn only_root_may_drop_caches() {
    match check_cache_drop() {
        Ok(()) => assert!(nodegauge_os::is_root()),
        Err(failure) => {
            assert_eq!(failure.kind, FailureKind::Missing);
            assert!(failure.to_string().contains("leave out --drop"), "{failure}");
        }
    }
}
