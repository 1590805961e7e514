//! Comparison of the node's counters of hardware errors before and after measurements. Figures become suspect or
//! invalid if errors occurred. The counters of the CPU quotas are read at the same times.

use crate::{Gauge, throttle};
use nodegauge_machine::SysRoot;
use nodegauge_machine::cgroup::ThrottlingReading;
use nodegauge_machine::ledger::LedgerReading;
use nodegauge_measure::clock;
use nodegauge_measure::record::{EventCount, Ledger, Measurement};
use nodegauge_measure::{Notice, NoticeId, Outcome};
use std::time::Instant;

/// Configuration key with the accelerator of a figure.
const DEVICE: &str = "device";

/// Counters before a measurement.
pub struct LedgerWatch<'a> {
    root: &'a SysRoot,
    before: LedgerReading,
    throttling: ThrottlingReading,
    begun: Instant,
}

impl<'a> LedgerWatch<'a> {
    /// Reads the counters before a measurement.
    pub fn begin(root: &'a SysRoot) -> Self {
        let throttling = ThrottlingReading::read(root);
        let begun = clock::now();
        Self { root, before: LedgerReading::read(root), throttling, begun }
    }

    /// Reads the counters after the measurement, judges the figures of `gauges` in `found`, and returns the ledger.
    /// Events that [`Self::end_part`] already applied to the figures of one gauge are not applied again to those of
    /// other gauges.
    pub fn end(self, found: &mut Outcome, gauges: &[&dyn Gauge]) -> Ledger {
        // The parts of a run have already been judged by their own counters.
        if !std::mem::take(&mut found.has_judged_parts) {
            self.judge_throttling(found);
        }
        let after = LedgerReading::read(self.root);
        let ledger = after.ledger(self.root, Some(&self.before));
        let of_parts = std::mem::take(&mut found.judged_events);
        let others: Vec<EventCount> =
            ledger.during.iter().filter_map(|event| without_parts(event, &of_parts)).collect();
        found.measurements.iter_mut().for_each(|figure| judge(figure, gauges, &others));
        found.measurements.iter_mut().for_each(Measurement::doubt_if_above_limit);
        found.notices.extend(ledger.vanished.iter().map(|counter| {
            let text = format!(
                "a counter of hardware errors disappeared during the run: \
                 {counter}"
            );
            Notice::new(NoticeId::Contradicted, "", text)
        }));
        let reported_only =
            ledger.during.iter().filter(|event| event.kind.figure_status().is_none());
        found.notices.extend(
            reported_only.map(|event| Notice::new(NoticeId::Bottleneck, "", event.to_string())),
        );
        ledger
    }

    /// Reads the counters after the part of a run that measured with one gauge, and judges the figures in `found`.
    pub fn end_part(self, found: &mut Outcome, gauge: &dyn Gauge) {
        self.judge_throttling(found);
        found.has_judged_parts = true;
        let after = LedgerReading::read(self.root);
        let during = after.ledger(self.root, Some(&self.before)).during;
        found.measurements.iter_mut().for_each(|figure| judge(figure, &[gauge], &during));
        found.judged_events.extend(during);
    }

    /// Marks figures as suspect if a CPU quota throttled the process since [`Self::begin`].
    fn judge_throttling(&self, found: &mut Outcome) {
        let during = ThrottlingReading::read(self.root).since(&self.throttling);
        let elapsed = clock::now().saturating_duration_since(self.begun);
        throttle::judge(found, during, elapsed);
    }
}

/// Subtracts the events in `parts` from an event count; `None` if no events remain.
fn without_parts(event: &EventCount, parts: &[EventCount]) -> Option<EventCount> {
    let of_kind = parts.iter().filter(|part| part.kind == event.kind);
    let same = of_kind.filter(|part| part.component == event.component);
    let judged: u64 = same.map(|part| part.events).sum();
    let events = event.events.saturating_sub(judged);
    (events > 0).then(|| EventCount { events, ..event.clone() })
}

/// Makes a figure suspect or invalid if one of the events affects it.
fn judge(figure: &mut Measurement, gauges: &[&dyn Gauge], during: &[EventCount]) {
    if figure.is_published() {
        return;
    }
    let of_gauge = gauges.iter().any(|gauge| gauge.name() == figure.gauge && gauge.uses_links());
    let uses_links = of_gauge || figure.config.contains_key(DEVICE);
    for event in during {
        let Some(status) = event.kind.figure_status() else { continue };
        if uses_links || !event.kind.is_link_event() {
            figure.doubt(status, format!("{event} during the run"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Detail;
    use crate::view::Section;

    use nodegauge_measure::keys::ConfigKind;
    use nodegauge_measure::record::Record;
    use nodegauge_measure::record::{HardwareEvent, QuotedStatistic, Status};
    use nodegauge_measure::{Unit, figure_names};

    fn event(kind: HardwareEvent, events: u64) -> EventCount {
        let component = "mc0 dimm3".to_owned();
        EventCount { kind, component, slot: Some("DIMM_B1".to_owned()), events, note: None }
    }

    fn figure(gauge: &str) -> Measurement {
        Measurement::new(gauge, "test", "name", Unit::BytesPerSecond)
            .with_value(QuotedStatistic::Single, 1e9)
    }

    /// Gauge with this name; the flag is true if its figures use links.
    struct Named(&'static str, bool);

    impl Gauge for Named {
        fn name(&self) -> &'static str {
            self.0
        }

        fn figure_kinds(&self) -> Vec<ConfigKind> {
            Vec::new()
        }

        fn uses_links(&self) -> bool {
            self.1
        }

        fn view(&self, _: &Record, _: Detail) -> Vec<Section> {
            Vec::new()
        }
    }

    const GAUGES: [&dyn Gauge; 2] =
        [&Named(figure_names::stream::GAUGE, false), &Named(figure_names::io::GAUGE, true)];

    #[test]
    fn corrected_errors_make_figures_suspect() {
        let mut triad = figure(figure_names::stream::GAUGE);
        judge(&mut triad, &GAUGES, &[event(HardwareEvent::MemoryCorrected, 2)]);
        assert_eq!(triad.validity.status, Status::Suspect);
        assert_eq!(
            triad.validity.reasons,
            ["2 corrected memory errors: DIMM_B1 (mc0 dimm3) during the run"]
        );
        judge(&mut triad, &GAUGES, &[event(HardwareEvent::PowerThrottle, 9)]);
        assert_eq!((triad.validity.reasons.len(), triad.value), (1, Some(1e9)));
        judge(&mut triad, &GAUGES, &[event(HardwareEvent::MemoryUncorrected, 1)]);
        assert_eq!((triad.validity.status, triad.value), (Status::Invalid, None));
    }

    #[test]
    fn link_errors_affect_only_figures_that_use_links() {
        let of_link = [event(HardwareEvent::PcieCorrected, 1)];
        let mut triad = figure(figure_names::stream::GAUGE);
        judge(&mut triad, &GAUGES, &of_link);
        assert_eq!(triad.validity.status, Status::Valid);
        let mut read = figure(figure_names::io::GAUGE);
        judge(&mut read, &GAUGES, &of_link);
        assert_eq!(read.validity.status, Status::Suspect);
        let mut on_device = figure(figure_names::stream::GAUGE);
        on_device.config.insert("device".to_owned(), "gpu".into());
        judge(&mut on_device, &GAUGES, &of_link);
        assert_eq!(on_device.validity.status, Status::Suspect);
    }

    #[test]
    fn throttling_is_attributed_only_to_the_part_that_it_slowed() {
        let folder = tempfile::tempdir().unwrap();
        let root = SysRoot::recorded(folder.path());
        let group = folder.path().join("sys/fs/cgroup");
        std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
        std::fs::create_dir_all(&group).unwrap();
        std::fs::write(folder.path().join("proc/self/cgroup"), "0::/\n").unwrap();
        let count = |periods: u32, throttled: u32| {
            let text = format!("nr_periods {periods}\nnr_throttled {throttled}\n");
            std::fs::write(group.join("cpu.stat"), text).unwrap();
        };
        count(10, 0);
        let whole = LedgerWatch::begin(&root);
        let mut found = Outcome::default();
        for throttled in [0, 90] {
            let part = LedgerWatch::begin(&root);
            count(10 + throttled, throttled);
            let measurements = vec![figure(figure_names::stream::GAUGE)];
            let mut of_part = Outcome { measurements, ..Outcome::default() };
            part.end_part(&mut of_part, GAUGES[0]);
            found.extend(of_part);
        }
        whole.end(&mut found, &GAUGES);
        let reasons: Vec<usize> =
            found.measurements.iter().map(|m| m.validity.reasons.len()).collect();
        assert_eq!(reasons, [0, 1], "{:?}", found.measurements);
    }

    #[test]
    fn figure_above_its_limit_is_suspect_without_hardware_events() {
        let folder = tempfile::tempdir().unwrap();
        let root = SysRoot::recorded(folder.path());
        let above = figure("apps").with_limit(0.93e9, "read by the same workers");
        let mut found = Outcome { measurements: vec![above], ..Outcome::default() };
        LedgerWatch::begin(&root).end(&mut found, &GAUGES);
        let validity = &found.measurements[0].validity;
        assert_eq!(validity.status, Status::Suspect);
        assert!(
            validity.reasons[0].starts_with("8 % above the limit of 930.0 MB/s"),
            "{validity:?}"
        );
    }

    #[test]
    fn events_of_one_part_count_once() {
        let all = event(HardwareEvent::MemoryCorrected, 5);
        let part = event(HardwareEvent::MemoryCorrected, 2);
        assert_eq!(
            without_parts(&all, &[part.clone(), part.clone()]).map(|left| left.events),
            Some(1)
        );
        assert_eq!(without_parts(&all, std::slice::from_ref(&all)), None);
        let other = event(HardwareEvent::MemoryUncorrected, 5);
        assert_eq!(without_parts(&all, &[other]), Some(all.clone()));
    }
}
