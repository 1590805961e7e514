//! Results of turns in addition to their times: latencies, and bytes that were read from devices.

use super::cells::{MetadataCell, MetadataOptions};
use nodegauge_blocks::clock::Clock;
use nodegauge_blocks::entries::{EntryOperation, EntryOperationResult, EntryTask, batch_size};
use nodegauge_blocks::latency::LatencyHistogram;
use nodegauge_measure::Seconds;

/// Measured cells, and the clock that timed single operations.
pub(super) struct MeasuredCells {
    pub(super) cells: Vec<MeasuredCell>,
    /// Time for reading the clock and recording a latency.
    pub(super) overhead: Seconds,
    pub(super) clock: Clock,
}

/// Cell with the results of its turns.
pub(super) struct MeasuredCell {
    pub(super) cell: MetadataCell,
    pub(super) task: EntryTask,
    /// Number of turns after the warm-up.
    pub(super) turns: u64,
    /// Latencies of each operation after the warm-up.
    pub(super) latencies: Vec<LatencyHistogram>,
    /// Bytes that each operation caused to be read from devices; `None` if they are unknown.
    pub(super) read_bytes: Vec<Option<u64>>,
    pub(super) is_warm: bool,
}

impl MeasuredCell {
    pub(super) fn new(options: &MetadataOptions, cell: &MetadataCell, files: u64) -> Self {
        let task = cell.task(options, files);
        Self {
            cell: *cell,
            turns: 0,
            latencies: task.operations.iter().map(|_| LatencyHistogram::default()).collect(),
            read_bytes: vec![Some(0); task.operations.len()],
            is_warm: false,
            task,
        }
    }

    /// Sets the number of operations between two readings of the clock. `seconds` are the times of the operations in
    /// the warm-up.
    pub(super) fn set_batches(&mut self, seconds: &[f64], overhead: Seconds) {
        let files = self.task.files;
        let batches = seconds.iter().map(|time| batch_size(overhead.0, time / files as f64, files));
        self.task.batches = batches.collect();
        self.is_warm = true;
    }

    /// Adds the results of a turn after the warm-up.
    pub(super) fn add(&mut self, phases: &[EntryOperationResult]) {
        self.turns += 1;
        for (number, phase) in phases.iter().enumerate() {
            self.latencies[number].add(&phase.latencies);
            let sum = &mut self.read_bytes[number];
            *sum = sum.zip(phase.read_bytes).map(|(sum, more)| sum + more);
        }
    }

    /// Returns the operations of a turn, each with its position.
    pub(super) fn operations(&self) -> impl Iterator<Item = (usize, EntryOperation)> {
        self.task.operations.iter().copied().enumerate()
    }
}
