//! View of the family of curves of each device.

use super::{DeviceFigure, drivers, heading};
use crate::config::DeviceCurveConfig;
use crate::curves::TEST;
use nodegauge_gauge::family::{self, FamilyFigure};
use nodegauge_gauge::view::sentence::verb_form;
use nodegauge_gauge::view::words::count_with_noun;
use nodegauge_gauge::view::{Block, Section};
use nodegauge_measure::{Bytes, BytesPerSec};

/// Returns the figures, each with its device as the title.
pub(super) fn device_figures<'a>(
    all: &[DeviceFigure<'a, DeviceCurveConfig>],
) -> Vec<FamilyFigure<'a>> {
    let mut figures = Vec::new();
    for (m, config) in all {
        let title = heading(&config.on);
        figures.push(FamilyFigure { m, title, basis: config.basis.clone() });
    }
    figures
}

/// Returns the section with the table and the chart.
pub(super) fn section(all: &[DeviceFigure<'_, DeviceCurveConfig>]) -> Section {
    let mut section = Section::new(TEST);
    let figures = device_figures(all);
    section.push(family::table(&figures)).push_gap();
    if let Some(chart) = family::chart(&figures, "rate of the loading groups", None) {
        section.push(chart);
    }
    let mix = "lines read : lines written";
    let words = family::describe_columns(&figures, mix, "the other groups", "all groups");
    section.push_gap().push(Block::Text(words));
    if let Some((_, config)) = all.first() {
        let count = config.groups.unwrap_or(0);
        let groups = count_with_noun(count, "group");
        let items = count_with_noun(config.group_items.unwrap_or(0), "work-item");
        let load = verb_form(count, "load");
        let [chain, array] = [config.set_bytes, config.array_bytes]
            .map(|bytes| Bytes(bytes.unwrap_or(0)).to_string());
        section.note(
            "how",
            format!(
                "one work-item follows a chain through {chain}; {groups} of {items} {load} arrays of {array} each, in the same \
                 kernel; times by the device's clock"
            ),
        );
    }
    if let Some(limit) = all.iter().find_map(|(m, _)| m.limit.as_ref()) {
        section.note("limit", format!("{} ({})", BytesPerSec(limit.value), limit.basis));
    }
    drivers(&mut section, all.iter().map(|(_, config)| &config.on));
    section.push_doubts(&all.iter().map(|(m, _)| *m).collect::<Vec<_>>());
    section
}
