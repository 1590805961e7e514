//! Selection of the published figures that are shown with a run.

use crate::catalog::{self, PublishedSelection};
use nodegauge_measure::keys::shared;
use nodegauge_measure::record::{Machine, Measurement};
use nodegauge_measure::{Notice, NoticeId, Outcome};

/// Adds published figures to the outcome of a run on `machine`. With `--against`, these are the figures of the selected
/// nodes for the tests that the run measured; of a published sweep, all rows are added. Without `--against`, these are
/// the STREAM figures of the most similar node with the same processor, or of the same device. The gauge that measured
/// the test shows them.
pub fn add_published_figures(
    found: &mut Outcome,
    machine: &Machine,
    against: Option<&PublishedSelection>,
) {
    let (nodes, why) = match against {
        Some(PublishedSelection::Nodes { nodes, .. }) => (nodes.clone(), "asked"),
        _ => {
            let threads = first_thread_count(&found.measurements);
            let nearest = catalog::nearest_to_figures(machine, &found.measurements, threads);
            (nearest.into_iter().collect(), "nearest")
        }
    };
    let mut figures: Vec<Measurement> = Vec::new();
    for node in nodes {
        let Some(own) = found.measurements.iter().find(|m| node.belongs_to(&m.test)) else {
            continue;
        };
        for m in node.measurements(why) {
            figures.push(Measurement { gauge: own.gauge.clone(), ..m });
        }
    }
    if let Some(PublishedSelection::Nodes { asked, .. }) = against
        && figures.is_empty()
        && !found.measurements.is_empty()
    {
        let text = format!("--against {asked}: no published figures for the tests of this run");
        found.notices.push(Notice::new(NoticeId::Published, "", text));
    }
    found.measurements.extend(figures);
}

/// Returns the number of threads of the first figure that has a number of threads.
fn first_thread_count(measurements: &[Measurement]) -> Option<u32> {
    let threads = measurements.iter().find_map(|m| m.read_key::<shared::threads>())?;
    u32::try_from(threads).ok()
}
