//! The gauge as the others see it.

use crate::config::{DevicePeakConfig, DeviceStreamConfig, LinkConfig};
use crate::links::{LinkOptions, LinkPlan};
use crate::peaks::{self, PeakPlan};
use crate::stream::{StreamOptions, StreamPlan};
use crate::{GAUGE, drivers, info::Class, links, stream, view};
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Depth, Detail, Gauge, Glance, Headline, InTurn, Planned, Site};
use nodegauge_machine::published::PublishedConfig;
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::Record;
use nodegauge_measure::{Failure, Notice, NoticeId, Observer, Outcome};
use std::sync::OnceLock;
use std::time::Duration;

/// GPUs and other accelerators.
#[derive(Debug, Clone, Copy, Default)]
pub struct Devices;

/// What the drivers have, asked once for a run.
static LISTINGS: OnceLock<Vec<drivers::Listing>> = OnceLock::new();

/// Nothing but something to say.
struct Said(Vec<Notice>);

impl Planned for Said {
    fn run(self: Box<Self>, _: &Site, _: &mut dyn Observer) -> Result<Outcome, Failure> {
        Ok(Outcome { notices: self.0, ..Outcome::default() })
    }
}

impl Gauge for Devices {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn kinds(&self) -> Vec<ConfigKind> {
        vec![
            ConfigKind::of::<DeviceStreamConfig>(GAUGE, &[stream::TEST]).headed(&["triad"]),
            ConfigKind::of::<PublishedConfig>(GAUGE, &["stream"]),
            ConfigKind::of::<LinkConfig>(GAUGE, &[links::TEST])
                .headed(&[links::TO_DEVICE, links::TO_HOST]),
            ConfigKind::of::<DevicePeakConfig>(GAUGE, &[peaks::TEST])
                .headed(&[peaks::FMA, peaks::DGEMM]),
        ]
    }

    /// A short figure of each device with memory of its own. The host's processor, which OpenCL may reach as
    /// well, has its own gauges.
    fn glance(&self, _: &Site, ask: &Glance<'_>) -> Result<Option<Box<dyn Planned>>, Failure> {
        let listings = match LISTINGS.get() {
            Some(listings) => listings,
            None => {
                let listings = drivers::list(&|| false)?;
                LISTINGS.get_or_init(|| listings)
            }
        };
        let all = listings.iter().filter_map(|listing| listing.devices.as_ref().ok()).flatten();
        let (host, own): (Vec<_>, Vec<_>) = all.partition(|device| device.class == Class::Cpu);
        if own.is_empty() {
            let twins = host.iter().map(|device| {
                format!("{} is this node's processor, which other gauges measure", device.id())
            });
            let why: Vec<String> = twins.chain(drivers::lacking(listings)).collect();
            let text = format!("no device is measured: {}", why.join("; "));
            return Ok(Some(Box::new(Said(vec![Notice::new(NoticeId::LeftOut, GAUGE, text)]))));
        }
        let mut notices = Vec::new();
        let own: Vec<_> = {
            let found = drivers::chosen(&[drivers::DeviceChoice::All], listings, &mut notices)?;
            found.into_iter().filter(|device| device.class != Class::Cpu).collect()
        };
        let usual = match ask.depth {
            Depth::Quick => Duration::from_secs(5),
            Depth::Full => Duration::from_secs(30),
        };
        let budget = ask.budget.unwrap_or(usual);
        let samples = ask.samples;
        let options =
            StreamOptions { budget: budget.mul_f64(0.5), samples, ..StreamOptions::default() };
        let links = LinkOptions { sizes: Vec::new(), budget: budget.mul_f64(0.3), samples };
        let stream = StreamPlan::new(own.clone(), options, notices)?;
        Ok(Some(Box::new(InTurn(vec![
            Box::new(stream),
            Box::new(LinkPlan::new(own.clone(), links, Vec::new())),
            Box::new(PeakPlan::new(own, Vec::new(), (budget.mul_f64(0.2), samples), Vec::new())),
        ]))))
    }

    fn headlines<'r>(&self, record: &'r Record) -> Vec<Headline<'r>> {
        let triad = Headline::of(("device", "Triad"), (record, GAUGE), |m| {
            (m.test == stream::TEST && m.name == "triad").then_some(m.value)
        });
        if triad.figure.is_some() { vec![triad] } else { Vec::new() }
    }

    fn view(&self, record: &Record, detail: Detail) -> Vec<Section> {
        view::sections(record, detail)
    }
}
