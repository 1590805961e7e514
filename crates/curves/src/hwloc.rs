//! Export of measured bandwidths and latencies between NUMA nodes as memory attributes in hwloc's XML of this machine.

use crate::config::CurveConfig;
use crate::matrix::WRITE_SUFFIX;
use nodegauge_analysis::conclusion::Obstacle;
use nodegauge_arena::names::MATRIX;
use nodegauge_machine::topology::{MemoryAccessSpeed, add_measured_attributes};
use nodegauge_machine::{NumaNodeId, Topology};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Measurement, Record, Status};
use nodegauge_measure::{BytesPerSec, Failure, Seconds, Unit};
use std::collections::BTreeMap;

/// Returns this machine's XML with the bandwidths and latencies of a record of `memory matrix`.
///
/// Fails if the record lacks such figures or is incomplete, if one of them is invalid or (without `accept_suspect`)
/// suspect, and if hwloc cannot read this machine.
pub fn hwloc_xml(record: &Record, accept_suspect: bool) -> Result<String, Failure> {
    if !record.complete {
        return Err(unmeasured());
    }
    let accesses = accesses(&record.measurements, accept_suspect)?;
    add_measured_attributes(&Topology::live_xml()?, &accesses).map_err(|cause| {
        Failure::missing(
            "hwloc cannot add the measured values to this machine's \
             topology",
        )
        .cause(cause)
    })
}

/// Returns the failure for a run that measured only some pairs of nodes.
fn unmeasured() -> Failure {
    Failure::unmet("no XML written: not all pairs of NUMA nodes were measured")
}

/// Returns the measured accesses between NUMA nodes, in node order.
fn accesses(
    measurements: &[Measurement],
    accept_suspect: bool,
) -> Result<Vec<MemoryAccessSpeed>, Failure> {
    let figures: Vec<(&Measurement, CurveConfig)> =
        measurements.iter().filter_map(node_figure).collect();
    if figures.is_empty() {
        return Err(unmeasured());
    }
    let mut doubted: Vec<&Measurement> = Vec::new();
    for (m, _) in &figures {
        let status = m.validity.status;
        if status == Status::Invalid || status == Status::Suspect && !accept_suspect {
            doubted.push(m);
        }
    }
    if let Some(obstacle) = Obstacle::from_figures(doubted.iter().copied()) {
        return Err(Failure::unmet(format!(
            "no XML written: {} of the {} between NUMA nodes are suspect or invalid: {}",
            doubted.len(),
            count_in_words(figures.len(), "figure"),
            obstacle.reason
        ))
        .hint("use a larger --budget or --size, or --accept-suspect to accept suspect figures"));
    }
    let mut found: BTreeMap<(u64, u64), MemoryAccessSpeed> = BTreeMap::new();
    for (m, config) in figures {
        let (Some(from), Some(to), Some(value)) = (config.from_node, config.to_node, m.value)
        else {
            continue;
        };
        let access = found.entry((from, to)).or_insert(MemoryAccessSpeed {
            initiator: NumaNodeId(from as u32),
            target: NumaNodeId(to as u32),
            read: None,
            write: None,
            latency: None,
        });
        match m.unit {
            Unit::Seconds => access.latency = Some(Seconds(value)),
            _ if m.name.ends_with(WRITE_SUFFIX) => access.write = Some(BytesPerSec(value)),
            _ => access.read = Some(BytesPerSec(value)),
        }
    }
    Ok(found.into_values().collect())
}

/// Returns a figure with its configuration if it describes an access between NUMA nodes.
fn node_figure(m: &Measurement) -> Option<(&Measurement, CurveConfig)> {
    let config = (m.test == MATRIX).then(|| m.read_config::<CurveConfig>())?;
    config.to_node.is_some().then_some((m, config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GAUGE;
    use nodegauge_measure::record::QuotedStatistic;

    fn figure(name: &str, unit: Unit, value: f64) -> Measurement {
        let config = CurveConfig { from_node: Some(0), to_node: Some(2), ..CurveConfig::default() };
        Measurement::new(GAUGE, MATRIX, name, unit)
            .with_value(QuotedStatistic::Best, value)
            .with_config(&config)
    }

    fn figures(status: Status) -> Vec<Measurement> {
        let mut figures = vec![
            figure("n0->n2", Unit::BytesPerSecond, 30e9),
            figure("n0->n2_write", Unit::BytesPerSecond, 20e9),
            figure("n0->n2", Unit::Seconds, 120e-9),
            // A figure between two CPUs is ignored.
            Measurement::new(GAUGE, MATRIX, "cpu0->cpu1", Unit::Seconds)
                .with_value(QuotedStatistic::Best, 1e-7),
        ];
        figures[1].validity.add(status, "other load");
        figures[3].validity.add(Status::Suspect, "other load");
        figures
    }

    #[test]
    fn figures_are_grouped_by_access() {
        let access = MemoryAccessSpeed {
            initiator: NumaNodeId(0),
            target: NumaNodeId(2),
            read: Some(BytesPerSec(30e9)),
            write: Some(BytesPerSec(20e9)),
            latency: Some(Seconds(120e-9)),
        };
        assert_eq!(accesses(&figures(Status::Valid), false).unwrap(), [access]);
        assert_eq!(accesses(&figures(Status::Suspect), true).unwrap(), [access]);
    }

    #[test]
    fn suspect_and_missing_figures_are_refused() {
        let refused = accesses(&figures(Status::Suspect), false).unwrap_err().to_string();
        assert!(refused.contains(": 1 of the 3 figures between NUMA nodes are"), "{refused}");
        assert!(
            refused.contains("--accept-suspect") && refused.contains(": other load"),
            "{refused}"
        );
        assert!(accesses(&figures(Status::Invalid), true).is_err());
        assert!(accesses(&figures(Status::Valid)[3..], true).is_err());
    }
}
