//! First sentence of the page for a device.

use super::curves::device_figures;
use super::{DeviceFigure, figures};
use crate::config::{
    DeviceConfig, DeviceCurveConfig, DevicePeakConfig, DeviceStreamConfig, LinkConfig,
};
use crate::info::DeviceClass;
use crate::{curves, links, peaks, stream};
use nodegauge_gauge::family;
use nodegauge_gauge::view::sentence::{enumeration, highest_in_words, value_in_words};
use nodegauge_measure::Unit;
use nodegauge_measure::figure_names::stream::TRIAD;
use nodegauge_measure::record::{Measurement, Record};

/// Returns the sentence about the first device: the rate of Triad, the peak, and the rates of copies.
pub(crate) fn conclusion(record: &Record) -> Option<String> {
    let streams = figures::<DeviceStreamConfig>(record, stream::TEST);
    let all_peaks = figures::<DevicePeakConfig>(record, peaks::TEST);
    let copies = figures::<LinkConfig>(record, links::TEST);
    let mut parts = Vec::new();
    let mut on: Option<DeviceConfig> = None;
    if let Some((m, config)) = streams.iter().find(|(m, _)| m.name == TRIAD) {
        let element = config.element.as_deref().unwrap_or("?");
        parts.extend(value_in_words(m).map(|rate| format!("sustains {rate} in Triad ({element})")));
        on = Some(config.on.clone());
    }
    if let Some((m, config)) = all_peaks.first() {
        let element = config.element.as_deref().unwrap_or("?");
        parts.extend(value_in_words(m).map(|rate| format!("computes {rate} ({element})")));
        on.get_or_insert_with(|| config.on.clone());
    }
    let received = best(&copies, links::TO_DEVICE).and_then(highest_in_words);
    let sent = best(&copies, links::TO_HOST).and_then(highest_in_words);
    let sent_copies = if received.is_some() { "them" } else { "copies" };
    parts.extend(received.map(|rate| format!("receives copies at {rate}")));
    parts.extend(sent.map(|rate| format!("sends {sent_copies} at {rate}")));
    if let Some((_, config)) = copies.first() {
        on.get_or_insert_with(|| config.on.clone());
    }
    let of_load = figures::<DeviceCurveConfig>(record, curves::TEST);
    if let (Some((_, config)), None) = (of_load.first(), &on) {
        let device = config.on.device.as_deref().unwrap_or("?");
        let found = family::conclusion(&device_figures(&of_load), "all groups together");
        return (!found.is_empty()).then(|| format!("Device {device}: {}", found.join("; ")));
    }
    let on = on?;
    let device = on.device.as_deref().unwrap_or("?");
    let is_processor = on.class.as_deref() == Some(DeviceClass::Cpu.name());
    let kind = if is_processor { ", this node's processor itself," } else { "" };
    (!parts.is_empty()).then(|| format!("Device {device}{kind} {}", enumeration(&parts)))
}

/// Returns the valid or suspect copy with this name that has the highest rate.
fn best<'a>(copies: &[DeviceFigure<'a, LinkConfig>], name: &str) -> Option<&'a Measurement> {
    let of = copies.iter().filter(|(m, _)| m.name == name && m.unit == Unit::BytesPerSecond);
    let usable = of.map(|(m, _)| *m).filter(|m| value_in_words(m).is_some());
    usable.max_by(|a, b| a.cmp_value(b))
}
