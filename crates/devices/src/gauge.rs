//! Implementation of the gauge interface for devices.

use crate::config::{DeviceCurveConfig, DevicePeakConfig, DeviceStreamConfig, LinkConfig};
use crate::drivers::{self, DeviceChoice};
use crate::info::{DeviceClass, DeviceInfo};
use crate::links::{LinkOptions, LinkPlan};
use crate::peaks::{self, PeakPlan};
use crate::readers::{BabelStreamReader, NvbandwidthReader};
use crate::stream::{DeviceStreamOptions, DeviceStreamPlan};
use crate::{GAUGE, curves, links, stream, view};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::readers::Reader;
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{
    Depth, Detail, ExpectedCost, Gauge, Headline, MeasuredNode, PlanSequence, PlannedRun,
    SummaryRequest,
};
use nodegauge_measure::figure_names::stream::{TEST as STREAM, TRIAD};
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::Record;
use nodegauge_measure::{Failure, Notice, NoticeId, Observer, Outcome};
use nodegauge_published::PublishedConfig;
use std::time::Duration;

/// Gauge of GPUs and other accelerators.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeviceGauge;

/// Default time budget for STREAM, links and peaks together.
pub const ALL_TESTS_BUDGET: Duration = Duration::from_secs(30);

/// Plans the tests STREAM, links and peaks, each with its share of the time budget `budget`.
///
/// Fails for the reasons of [`DeviceStreamPlan::new`].
pub fn plan_all_tests(
    devices: Vec<DeviceInfo>,
    budget: Duration,
    samples: Option<usize>,
    notices: Vec<Notice>,
) -> Result<PlanSequence, Failure> {
    let links = LinkOptions { sizes: Vec::new(), budget: budget.mul_f64(0.4).into(), samples };
    let links = LinkPlan::new(devices.clone(), links, Vec::new());
    let mut parts = plan_roofline_tests(devices, budget.mul_f64(0.6), samples, notices)?;
    parts.plans.insert(1, Box::new(links));
    Ok(parts)
}

/// Plans the tests for a roofline: STREAM's kernels and the peaks.
///
/// Fails for the reasons of [`DeviceStreamPlan::new`].
pub fn plan_roofline_tests(
    devices: Vec<DeviceInfo>,
    budget: Duration,
    samples: Option<usize>,
    notices: Vec<Notice>,
) -> Result<PlanSequence, Failure> {
    let of_stream = budget.mul_f64(2.0 / 3.0);
    let of_peaks = budget.mul_f64(1.0 / 3.0);
    let stream =
        DeviceStreamOptions { budget: of_stream.into(), samples, ..DeviceStreamOptions::default() };
    let plans: Vec<Box<dyn PlannedRun>> = vec![
        Box::new(DeviceStreamPlan::new(devices.clone(), stream, notices)?),
        Box::new(PeakPlan::new(devices, Vec::new(), of_peaks.into(), samples, Vec::new())),
    ];
    Ok(PlanSequence { plans, time: None })
}

/// Measurement for `nodegauge run`. It measures devices with separate memory, which are listed when the measurement
/// starts. The host's processor is left out, even if OpenCL lists it as a device, because other gauges measure it.
struct ShortRun {
    budget: Duration,
    samples: Option<usize>,
    /// True if this node has device files of a GPU.
    has_gpu_files: bool,
}

impl PlannedRun for ShortRun {
    fn expected_cost(&self) -> ExpectedCost {
        ExpectedCost { time: self.has_gpu_files.then_some(self.budget), memory: None }
    }

    fn possible_figures(&self, site: &MeasuredNode) -> Vec<PossibleFigures> {
        let parts = plan_all_tests(Vec::new(), self.budget, self.samples, Vec::new());
        let parts = parts.ok().filter(|_| self.has_gpu_files);
        parts.map(|parts| parts.possible_figures(site)).unwrap_or_default()
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        observer.begin_phase("listing devices");
        let listings = drivers::list_devices(&|| observer.is_interrupted())?;
        let mut notices = Vec::new();
        let found = drivers::select_devices(&[DeviceChoice::All], &listings, &mut notices);
        let (host, own): (Vec<DeviceInfo>, Vec<DeviceInfo>) = found
            .unwrap_or_default()
            .into_iter()
            .partition(|device| device.class == DeviceClass::Cpu);
        if own.is_empty() {
            let twins = host.iter().map(|device| {
                format!("{} is this node's processor, which other gauges measure", device.id())
            });
            let why: Vec<String> =
                twins.chain(drivers::device_missing_reasons(&listings)).collect();
            let text = format!("no device is measured: {}", why.join("; "));
            notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
            return Ok(Outcome { notices, ..Outcome::default() });
        }
        Box::new(plan_all_tests(own, self.budget, self.samples, notices)?).run(site, observer)
    }
}

impl Gauge for DeviceGauge {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn uses_links(&self) -> bool {
        true
    }

    fn figure_kinds(&self) -> Vec<ConfigKind> {
        vec![
            ConfigKind::from_config::<DeviceStreamConfig>(GAUGE, &[stream::TEST])
                .with_headlines(&[TRIAD]),
            ConfigKind::from_config::<PublishedConfig>(GAUGE, &[STREAM]),
            ConfigKind::from_config::<LinkConfig>(GAUGE, &[links::TEST])
                .with_headlines(&[links::TO_DEVICE, links::TO_HOST]),
            ConfigKind::from_config::<DevicePeakConfig>(GAUGE, &[peaks::TEST])
                .with_headlines(&[peaks::FMA, peaks::DGEMM]),
            ConfigKind::from_config::<DeviceCurveConfig>(GAUGE, &[curves::TEST]),
        ]
    }

    fn summary_plan(
        &self,
        site: &MeasuredNode,
        ask: &SummaryRequest<'_>,
    ) -> Result<Option<Box<dyn PlannedRun>>, Failure> {
        let usual = match ask.depth {
            Depth::Quick => Duration::from_secs(5),
            Depth::Full => Duration::from_secs(30),
        };
        let has_gpu_files = [("dev", "nvidia"), ("dev", "kfd"), ("dev/dri", "renderD")].iter().any(
            |(folder, start)| site.root.names(folder).iter().any(|name| name.starts_with(start)),
        );
        // A budget of zero means that the plan contains no time for devices.
        let budget = ask.budget.filter(|budget| !budget.is_zero()).unwrap_or(usual);
        Ok(Some(Box::new(ShortRun { budget, samples: ask.samples, has_gpu_files })))
    }

    fn readers(&self) -> Vec<&dyn Reader> {
        vec![&BabelStreamReader, &NvbandwidthReader]
    }

    fn headlines<'r>(&self, record: &'r Record) -> Vec<Headline<'r>> {
        let triad = Headline::from_record("device", "Triad", record, GAUGE, |m| {
            (m.test == stream::TEST && m.name == TRIAD).then_some(m.value)
        });
        if triad.figure.is_some() { vec![triad] } else { Vec::new() }
    }

    fn conclusion(&self, record: &Record) -> Option<String> {
        view::conclusion(record)
    }

    fn view(&self, record: &Record, detail: Detail) -> Vec<Section> {
        view::sections(record, detail)
    }
}
