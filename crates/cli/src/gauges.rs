//! The gauges, in the order of a page: the one list that runs, shows and describes them all.

use crate::failure::Failure;
use crate::progress::Progress;
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Detail, Gauge, Glance, Site};
use nodegauge_measure::record::Record;
use nodegauge_measure::{Notice, NoticeId, Outcome};
use nodegauge_report::Style;

/// All gauges.
pub(crate) const GAUGES: [&dyn Gauge; 1] = [&nodegauge_files::Files];

/// What the gauges have to say of a record: in full where all of it is of one gauge.
pub(crate) fn sections(record: &Record) -> Vec<Section> {
    let first = record.measurements.first();
    let one = record.measurements.iter().all(|m| Some(&m.gauge) == first.map(|m| &m.gauge));
    let detail = if one { Detail::Full } else { Detail::Brief };
    GAUGES.iter().flat_map(|gauge| gauge.view(record, detail)).collect()
}

/// The page of a gauge's own command.
pub(crate) fn page(record: &Record, style: Style) -> String {
    nodegauge_report::run::of_gauge(record, &sections(record), style)
}

/// A gauge's part of `run`. What one gauge lacks must not cost the others' figures: failures are
/// notices.
pub(crate) fn glance(
    gauge: &dyn Gauge,
    site: &Site,
    ask: &Glance<'_>,
    progress: &mut Progress,
) -> Outcome {
    let found = match gauge.glance(site, ask) {
        Ok(None) => Ok(Outcome::default()),
        Ok(Some(plan)) => plan.run(site, progress),
        Err(failure) => Err(failure),
    };
    let failed =
        |failure: &Failure| Notice::new(NoticeId::Failed, gauge.name(), failure.to_string());
    match found {
        Ok(mut outcome) => {
            outcome.notices.extend(outcome.failure.take().as_ref().map(failed));
            outcome
        }
        Err(failure) => Outcome { notices: vec![failed(&failure)], ..Outcome::default() },
    }
}
