//! The gauge of main memory, which runs STREAM.

use crate::standard::reader::StreamReader;
use crate::stream::{Arrangement, StreamOptions, StreamPlan};
use crate::view::{self, Statistic};
use crate::{GAUGE, ablation, config, mixes, tune};
use nodegauge_arena::names::{STREAM, TRIAD, TUNE};
use nodegauge_gauge::readers::Reader;
use nodegauge_gauge::roofline::{NoPointReason, RooflinePoint};
use nodegauge_gauge::view::{AttainableValue, Section};
use nodegauge_gauge::{Depth, Detail, Gauge, Headline, MeasuredNode, PlannedRun, SummaryRequest};
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::{Failure, Notice, NoticeId};
use nodegauge_placement::{MemoryPolicy, PlacementRequest};
use nodegauge_published::PublishedConfig;
use std::time::Duration;

/// Time budget in `run --full`. It is long enough to observe regimes that last for tens of seconds.
const FULL_BUDGET: Duration = Duration::from_secs(60);

/// Gauge that measures main memory with STREAM.
#[derive(Debug, Clone, Default)]
pub struct StreamGauge {
    /// Columns of STREAM's table that sweeps show; if empty, sweeps show medians and their spread.
    pub show: Vec<Statistic>,
}

impl StreamGauge {
    /// Gauge with the default view.
    pub const WITH_DEFAULT_VIEW: Self = Self { show: Vec::new() };
}

impl Gauge for StreamGauge {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn figure_kinds(&self) -> Vec<ConfigKind> {
        vec![
            ConfigKind::from_config::<config::StreamConfig>(GAUGE, &[STREAM])
                .with_headlines(&[TRIAD]),
            ConfigKind::from_config::<config::TuneConfig>(GAUGE, &[TUNE]),
            ConfigKind::from_config::<config::ExplainConfig>(GAUGE, &[ablation::TEST])
                .with_headlines(&[ablation::TOTAL_FACTOR]),
            ConfigKind::from_config::<PublishedConfig>(GAUGE, &[STREAM]),
        ]
    }

    /// Plans STREAM with the threads that environment variables request. Without such variables, uses the threads of an
    /// earlier tuning; without a tuning, one thread per core.
    fn summary_plan(
        &self,
        site: &MeasuredNode,
        ask: &SummaryRequest<'_>,
    ) -> Result<Option<Box<dyn PlannedRun>>, Failure> {
        let mut request = PlacementRequest::default();
        let reported = ask.environment.apply(&mut request)?;
        let mut notices: Vec<Notice> = reported.into_iter().map(environment_notice).collect();
        let policy = MemoryPolicy::inherited();
        let honoured = policy.as_ref().map(MemoryPolicy::inherited_in_words);
        notices.extend(honoured.map(environment_notice));
        let usual = if ask.depth == Depth::Full { FULL_BUDGET } else { StreamPlan::BUDGET };
        let mut options = StreamOptions {
            budget: ask.budget.unwrap_or(usual).into(),
            samples: ask.samples,
            policy: policy.unwrap_or_default(),
            ..StreamOptions::default()
        };
        if let Some(remembered) = tune::saved_choice(site, ask.newest) {
            remembered.fill(&mut request, &mut options);
            notices.push(remembered.notice);
        }
        let arrangement = Arrangement::new(site, &request, options, notices)?;
        let mixes = mixes::find_saved(site, ask.newest);
        Ok(Some(Box::new(StreamPlan::new(arrangement, None).with_mixes(mixes))))
    }

    /// Returns the roofline points of the newest run of STREAM: its kernels with arithmetic, with their traffic in
    /// bytes.
    fn roofline_points(
        &self,
        newest: &dyn Fn(&str, &str) -> Option<Record>,
    ) -> Vec<Result<RooflinePoint, NoPointReason>> {
        let points = newest(STREAM, TRIAD).map(|record| view::points(&record));
        points.unwrap_or_default().into_iter().map(Ok).collect()
    }

    fn readers(&self) -> Vec<&dyn Reader> {
        vec![&StreamReader]
    }

    fn headlines<'r>(&self, record: &'r Record) -> Vec<Headline<'r>> {
        vec![Headline::from_record("memory", "Triad, best", record, GAUGE, triad_rate)]
    }

    fn reach(&self, record: &Record, figure: &Measurement) -> Option<AttainableValue> {
        view::stream::reach(record, figure)
    }

    fn conclusion(&self, record: &Record) -> Option<String> {
        view::conclusion(record)
    }

    fn view(&self, record: &Record, detail: Detail) -> Vec<Section> {
        view::sections(record, detail, &self.show)
    }
}

/// Returns a notice about a request in environment variables.
fn environment_notice(text: String) -> Notice {
    Notice::new(NoticeId::Environment, GAUGE, text)
}

/// Returns the best rate of a figure of Triad; `None` for other figures.
fn triad_rate(figure: &Measurement) -> Option<f64> {
    let is_triad = figure.test == STREAM && figure.name == TRIAD;
    figure.value.filter(|_| is_triad)
}
