//! Conversion of samples to measurements, with the reasons why a figure is suspect.

use super::MetadataConfig;
use super::measured::{MeasuredCell, MeasuredCells};
use super::plan::MetadataPlan;
use crate::config::OperationClock;
use crate::keys::Latencies;
use crate::{GAUGE, METADATA_TEST};
use nodegauge_blocks::volume::Volume;
use nodegauge_gauge::series::Series;
use nodegauge_measure::Unit;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Validity};

/// Name of nodegauge's engine in records.
const NATIVE: &str = "native";

/// Returns the figures of all cells.
pub(super) fn measurements(
    plan: &MetadataPlan,
    measured: &MeasuredCells,
    series: &Series,
) -> Vec<Measurement> {
    let judged = series.samples_by_regime(&[]);
    let mut all = Vec::new();
    for (at, of_cell) in measured.cells.iter().enumerate() {
        let files = of_cell.task.files as f64;
        let operations = files * plan.options.workers[of_cell.cell.workers] as f64;
        for (part, operation) in of_cell.operations() {
            let Some(name) = of_cell.cell.figure_name(operation) else { continue };
            let m = Measurement::new(GAUGE, METADATA_TEST, name, Unit::OperationsPerSecond);
            let m = series.figure(&judged, (at, part), m, QuotedStatistic::Median, &|seconds| {
                operations / seconds
            });
            let Some(m) = m else { continue };
            let mut config = own_config(plan, measured, of_cell, part);
            config.stopped = Some(series.stop_reason().to_string());
            let volume = &plan.volumes[of_cell.cell.path];
            let validity = validity(&config, volume);
            all.push(series.judge_figure(at, m.with_config(&config).with_validity(validity)));
        }
    }
    all
}

fn own_config(
    plan: &MetadataPlan,
    measured: &MeasuredCells,
    of_cell: &MeasuredCell,
    part: usize,
) -> MetadataConfig {
    let files = of_cell.task.files;
    let workers = plan.options.workers[of_cell.cell.workers] as u64;
    let operations = of_cell.turns * files * workers;
    let read = of_cell.read_bytes[part].filter(|_| operations > 0);
    let clock = OperationClock {
        source: measured.clock.source().to_owned(),
        overhead_s: measured.overhead,
    };
    MetadataConfig {
        engine: Some(NATIVE.to_owned()),
        operations: Some(operations),
        latency_s: Some(Latencies::All(of_cell.latencies[part].quantiles(measured.clock))),
        batch: Some(of_cell.task.batches[part]),
        clock: Some(clock),
        device_bytes_per_operation: read.map(|bytes| bytes as f64 / operations as f64),
        ..of_cell.cell.config(&plan.options, &plan.volumes[of_cell.cell.path], files)
    }
}

/// Returns the validity of a figure. A figure with dropped caches is suspect if nothing was read from the device,
/// provided that the kernel counts these reads.
fn validity(config: &MetadataConfig, volume: &Volume) -> Validity {
    let mut validity = Validity::valid();
    let is_first = config.dropped == Some(true) && volume.device.is_some();
    if is_first && config.device_bytes_per_operation == Some(0.0) {
        validity.mark_suspect("nothing was read from the device although the caches were dropped");
    }
    validity
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::record::Status;

    fn read(bytes: Option<f64>, dropped: bool) -> MetadataConfig {
        MetadataConfig {
            dropped: Some(dropped),
            device_bytes_per_operation: bytes,
            ..MetadataConfig::default()
        }
    }

    #[test]
    fn figures_after_dropped_caches_without_device_reads_are_suspect() {
        let disk = Volume { device: Some("sda".to_owned()), ..Volume::default() };
        assert_eq!(validity(&read(Some(0.0), true), &disk).status, Status::Suspect);
        assert_eq!(validity(&read(Some(256.0), true), &disk).status, Status::Valid);
        assert_eq!(validity(&read(Some(0.0), false), &disk).status, Status::Valid);
        assert_eq!(validity(&read(None, true), &disk).status, Status::Valid);
        assert_eq!(validity(&read(Some(0.0), true), &Volume::default()).status, Status::Valid);
    }
}
