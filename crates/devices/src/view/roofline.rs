//! Roofline of each device, with peaks and memory bandwidth as ceilings and STREAM's kernels as points.

use super::DeviceFigure;
use crate::config::{DevicePeakConfig, DeviceStreamConfig};
use nodegauge_gauge::roofline::{self, Ceiling, Roofline, RooflineDot};
use nodegauge_gauge::view::{Block, Section, summary_section};
use nodegauge_kernels::{Element, Kernel};
use nodegauge_measure::quantity::format_significant;
use nodegauge_measure::record::Category;
use nodegauge_measure::{BytesPerSec, FlopsPerSec};

/// Rate of a STREAM kernel on a device.
struct DeviceKernel {
    kernel: Kernel,
    /// Rate, B/s.
    rate: f64,
    /// First reason why the figure is suspect; `None` if it is valid.
    doubt: Option<String>,
}

/// Figures of a device in one precision: rates of kernels in B/s, and peaks in FLOP/s.
struct Roof<'a> {
    device: &'a str,
    element: &'a str,
    kernels: Vec<DeviceKernel>,
    peaks: Vec<(&'a str, f64)>,
}

/// Returns the devices and precisions that have figures for both kernels and peaks.
fn roofs<'a>(
    streams: &'a [DeviceFigure<'_, DeviceStreamConfig>],
    all: &'a [DeviceFigure<'_, DevicePeakConfig>],
) -> Vec<Roof<'a>> {
    let mut roofs: Vec<Roof<'a>> = Vec::new();
    for (m, config) in streams.iter().filter(|(m, _)| m.category == Category::Variant) {
        let on = config.on.device.as_deref().zip(config.element.as_deref());
        let Some(((device, element), rate)) = on.zip(m.value) else { continue };
        let Ok(kernel) = m.name.parse::<Kernel>() else { continue };
        let at = roofs.iter().position(|roof| (roof.device, roof.element) == (device, element));
        let at = at.unwrap_or_else(|| {
            let peaks = all.iter().filter(|(_, of)| {
                of.on.device.as_deref() == Some(device) && of.element.as_deref() == Some(element)
            });
            let peaks =
                peaks.filter_map(|(peak, _)| Some((peak.name.as_str(), peak.value?))).collect();
            roofs.push(Roof { device, element, kernels: Vec::new(), peaks });
            roofs.len() - 1
        });
        let doubt = m.validity.reasons.first().cloned();
        roofs[at].kernels.push(DeviceKernel { kernel, rate, doubt });
    }
    roofs.retain(|roof| !roof.peaks.is_empty());
    roofs
}

impl Roof<'_> {
    /// Returns the ceilings: the rate of the fastest kernel as the memory bandwidth, and the peaks.
    fn ceilings(&self) -> Roofline {
        let fastest = self.kernels.iter().max_by(|one, other| one.rate.total_cmp(&other.rate));
        let memory = fastest.map(|of| Ceiling {
            name: format!("{}_{}", roofline::MEMORY_LEVEL, of.kernel.name()),
            rate: of.rate,
            level: Some(roofline::MEMORY_LEVEL.to_owned()),
        });
        let peaks = self.peaks.iter().map(|(name, rate)| Ceiling {
            name: (*name).to_owned(),
            rate: *rate,
            level: None,
        });
        Roofline { ceilings: memory.into_iter().chain(peaks).collect() }
    }

    /// Returns a sentence about the ridge point: the memory bandwidth is the limit below this number of operations per
    /// byte, and the peak is the limit above it.
    fn ridge(&self) -> Option<String> {
        let triad = self.kernels.iter().find(|of| of.kernel == Kernel::Triad)?.rate;
        let peak = self.peaks.iter().map(|(_, rate)| *rate).reduce(f64::max)?;
        Some(format!(
            "{} computes {} and moves {} in {}: below {} FLOP/B memory bandwidth is the limit, \
             above it the peak",
            self.device,
            FlopsPerSec(peak),
            BytesPerSec(triad),
            self.element,
            format_significant(peak / triad)
        ))
    }

    /// Returns the points of the kernels with floating-point operations. The bytes are those that STREAM counts.
    fn dots(&self) -> Vec<RooflineDot> {
        let element = self.element.parse::<Element>().unwrap_or(Element::F64);
        let computing = self.kernels.iter().filter(|of| of.kernel.spec().flops > 0);
        let dots = ('a'..='l').zip(computing).map(|(letter, of)| {
            let DeviceKernel { kernel, rate, doubt } = of;
            let doubt = doubt.clone();
            let flops_per_byte =
                f64::from(kernel.spec().flops) / kernel.counted_bytes(element) as f64;
            let name = kernel.name().to_owned();
            let rate = rate * flops_per_byte;
            // All points belong to the device's memory.
            let label = name.clone();
            RooflineDot { letter, name, label, flops_per_byte, rate, note: String::new(), doubt }
        });
        dots.collect()
    }
}

/// Returns the sections with the rooflines: a chart for each device and precision with peaks and kernels, followed by a
/// sentence about its ridge point.
pub(super) fn sections(
    streams: &[DeviceFigure<'_, DeviceStreamConfig>],
    all: &[DeviceFigure<'_, DevicePeakConfig>],
) -> Vec<Section> {
    let roofs = roofs(streams, all);
    let mut charts = Section::new(roofline::GAUGE);
    for roof in &roofs {
        if let Some(chart) = roofline::chart(&roof.ceilings(), &roof.dots()) {
            charts.push(Block::Text(format!("roofline of {} in {}", roof.device, roof.element)));
            charts.push(chart).push_gap();
        }
    }
    let ridges: Vec<String> = roofs.iter().filter_map(Roof::ridge).collect();
    let ridges = (!ridges.is_empty()).then(|| summary_section(ridges));
    let charts = Some(charts).filter(|charts| !charts.blocks.is_empty());
    charts.into_iter().chain(ridges).collect()
}
