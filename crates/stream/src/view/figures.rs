//! STREAM's figures in a record, with their configurations.

use crate::GAUGE;
use crate::config::StreamConfig;
use crate::kernels::{Element, Kernel};
use nodegauge_arena::names::STREAM;
use nodegauge_gauge::roofline::RooflinePoint;
use nodegauge_measure::record::{Category, Measurement, Record, Status};
use nodegauge_measure::regime;

/// Figure with its configuration.
pub(crate) type StreamFigure<'a> = (&'a Measurement, StreamConfig);

/// Returns all of STREAM's figures in a record, in the order of the record.
pub(crate) fn all(record: &Record) -> Vec<StreamFigure<'_>> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == STREAM);
    own.map(|m| (m, m.read_config())).collect()
}

/// Returns the figures of modified code, i.e. of native and compiled kernels.
pub(crate) fn variants(record: &Record) -> Vec<StreamFigure<'_>> {
    all(record).into_iter().filter(|(m, _)| m.category == Category::Variant).collect()
}

/// Returns the figures of the native kernels.
pub(crate) fn native(record: &Record) -> Vec<StreamFigure<'_>> {
    variants(record).into_iter().filter(|(_, config)| !is_compiled(config)).collect()
}

/// Returns the native kernels with arithmetic as points of a roofline. The points contain the traffic on the memory
/// bus, if it is known.
pub(crate) fn points(record: &Record) -> Vec<RooflinePoint> {
    native(record).into_iter().filter_map(|figure| point(figure, &record.started)).collect()
}

/// Returns a kernel as a point of a roofline; `None` for suspect and invalid figures, sweeps, and kernels without
/// arithmetic.
fn point((m, config): StreamFigure<'_>, started: &str) -> Option<RooflinePoint> {
    let kernel: Kernel = m.name.parse().ok()?;
    let element: Element = config.element.as_deref()?.parse().ok()?;
    let flops = f64::from(kernel.spec().flops);
    let value = m.value?;
    let named = flops / kernel.counted_bytes(element) as f64;
    let moved = m.traffic.as_ref().map_or(value, |traffic| traffic.value);
    let bytes = m.traffic.as_ref().map_or("as counted by the kernel", |traffic| &traffic.basis);
    let threads = config.threads?;
    let basis = format!("stream of {started}, threads {threads}, bytes: {bytes}");
    let is_valid = m.validity.status == Status::Valid;
    let alone = is_valid && config.sweep.is_none() && flops > 0.0;
    let name = format!("stream_{kernel}");
    alone
        .then(|| RooflinePoint::for_main_memory(&name, value * named, named * value / moved, basis))
}

/// True if a compiler of the system built the loop.
pub(crate) fn is_compiled(config: &StreamConfig) -> bool {
    config.engine.as_deref() == Some("compiled")
}

/// Returns the best rate of the native kernel in the regime of another result of the same run. Returns `None` if the
/// native kernel has no samples in that regime, because figures of different regimes are not compared.
pub(crate) fn comparable_rate(
    (own, config): &StreamFigure<'_>,
    other: &StreamConfig,
) -> Option<f64> {
    own.value?;
    let Some(trip) = other.round_trip_s else { return own.value };
    match config.round_trip_s {
        Some(mine) if !regime::may_share_regime(mine, trip) => own
            .regimes
            .iter()
            .find(|met| regime::may_share_regime(met.round_trip_s, trip))
            .map(|met| met.summary.best),
        _ => own.value,
    }
}
