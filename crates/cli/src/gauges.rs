//! The gauges, in the order of a page: the one list that runs, shows, compares and describes them.

use crate::progress::Progress;
use nodegauge_gauge::{Gauge, Glance, Site};
use nodegauge_measure::keys::Registry;
use nodegauge_measure::record::Record;
use nodegauge_measure::{Notice, NoticeId, Outcome};

/// All gauges.
pub(crate) const GAUGES: [&dyn Gauge; 4] = [
    &nodegauge_memory::Memory,
    &nodegauge_compute::ComputeGauge,
    &nodegauge_messages::Messages,
    &nodegauge_files::Files,
];

/// The kinds of figures of all gauges, with the keys of their configurations.
pub(crate) fn registry() -> Registry {
    Registry::new(GAUGES.iter().flat_map(|gauge| gauge.kinds()))
}

/// A record as CSV.
pub(crate) fn csv(record: &Record) -> String {
    nodegauge_measure::csv::render(std::slice::from_ref(record), &registry())
}

/// A gauge's part of `run`. What one gauge lacks must not cost the others' figures: why it was not
/// measured is a notice.
pub(crate) fn glance(
    gauge: &dyn Gauge,
    site: &Site,
    ask: &Glance<'_>,
    progress: &mut Progress,
) -> Outcome {
    let not_measured = |why: String| {
        let why = why.replace("\nhint: ", "; ").replace('\n', " ");
        Notice::new(NoticeId::LeftOut, gauge.name(), format!("not measured: {why}"))
    };
    let found = gauge
        .glance(site, ask)
        .and_then(|planned| planned.map(|planned| planned.run(site, progress)).transpose());
    match found {
        Ok(outcome) => {
            let mut outcome = outcome.unwrap_or_default();
            let failure = outcome.failure.take();
            outcome.notices.extend(failure.map(|failure| not_measured(failure.to_string())));
            outcome
        }
        Err(failure) => {
            Outcome { notices: vec![not_measured(failure.to_string())], ..Outcome::default() }
        }
    }
}
