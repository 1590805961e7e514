//! Rate from which a plan predicts times: the rate that the user gave, that of a saved run of this node, a published
//! rate of the same processor, or the theoretical bandwidth.

use super::LengthRequest;
use crate::kernels::{Kernel, STREAM};
use crate::standard::build::ProgramArrays;
use nodegauge_analysis::facts::machine_changes;
use nodegauge_gauge::MeasuredNode;
use nodegauge_measure::figure_names::stream;
use nodegauge_measure::keys::shared;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Measurement, Record, Status, TheoreticalValue};
use nodegauge_measure::{BytesPerSec, Fraction, Seconds};
use nodegauge_placement::Placement;
use nodegauge_published::PublishedEntry;

/// Rate of each kernel, with the source of the rates.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedRate {
    /// Rate of each of STREAM's kernels, B/s.
    rates: Vec<(Kernel, f64)>,
    /// Description of the rate and of its source.
    pub basis: String,
    /// True if the rate is an upper bound, so that predicted times are lower bounds.
    pub is_bound: bool,
}

impl PlannedRate {
    fn uniform(rate: f64, basis: String, is_bound: bool) -> Self {
        Self { rates: STREAM.iter().map(|kernel| (*kernel, rate)).collect(), basis, is_bound }
    }

    /// Returns the predicted time of all passes.
    pub(super) fn seconds(&self, wanted: &ProgramArrays) -> Seconds {
        let mut pass = 0.0;
        for (kernel, rate) in &self.rates {
            pass += (kernel.counted_bytes(wanted.element) * wanted.elements) as f64 / rate;
        }
        Seconds(wanted.ntimes as f64 * pass)
    }

    /// Returns the rate of Triad.
    pub(super) fn triad(&self) -> Option<BytesPerSec> {
        let triad = self.rates.iter().find(|(kernel, _)| *kernel == Kernel::Triad);
        triad.map(|(_, rate)| BytesPerSec(*rate))
    }
}

/// Returns the rate of a run with these threads, from the best available source; `None` if no rate is known.
pub(super) fn planned_rate(
    site: &MeasuredNode,
    placement: &Placement,
    theoretical: Option<&TheoreticalValue>,
    request: &LengthRequest<'_>,
) -> Option<PlannedRate> {
    if let Some(rate) = request.rate {
        return Some(PlannedRate::uniform(rate.0, format!("{rate} as given"), false));
    }
    let threads = placement.threads.len() as u32;
    saved(site, threads, request.newest).or_else(|| published(site, threads, theoretical)).or_else(
        || {
            let limit = theoretical?;
            let basis = format!("{} theoretical", BytesPerSec(limit.value));
            Some(PlannedRate::uniform(limit.value, basis, true))
        },
    )
}

/// Returns the rates of the newest saved run; `None` if it was on another machine or with another number of
/// threads.
fn saved(
    site: &MeasuredNode,
    threads: u32,
    newest: &dyn Fn(&str, &str) -> Option<Record>,
) -> Option<PlannedRate> {
    if site.machine.is_described() {
        return None;
    }
    let record = newest(stream::TEST, stream::TRIAD)?;
    if !machine_changes(&record.machine, &site.machine).is_empty() {
        return None;
    }
    let valid = record.measurements.iter().filter(|m| m.validity.status == Status::Valid);
    let for_test = valid.filter(|m| m.test == stream::TEST);
    let on_as_many =
        for_test.filter(|m| m.read_key::<shared::threads>() == Some(u64::from(threads)));
    let figures: Vec<&Measurement> = on_as_many.collect();
    let mut rates = Vec::new();
    for kernel in STREAM {
        let of_kernel = figures.iter().filter(|m| m.name == kernel.name());
        rates.push((kernel, of_kernel.filter_map(|m| m.value).reduce(f64::max)?));
    }
    Some(PlannedRate { rates, basis: format!("saved {}", record.started), is_bound: false }.named())
}

/// Returns the published rates of the same processor. If the theoretical bandwidths of both machines are known, the
/// rates are scaled by their ratio. Otherwise the rates are used unchanged if the number of sockets is the same.
fn published(
    site: &MeasuredNode,
    threads: u32,
    theoretical: Option<&TheoreticalValue>,
) -> Option<PlannedRate> {
    let node = nodegauge_published::nearest_with_sweeps(&site.machine, threads)?;
    let scale = match (theoretical, node.theoretical) {
        (Some(here), Some(there)) => here.value / there,
        _ if node.sockets == site.machine.processor.sockets => 1.0,
        _ => return None,
    };
    let mut figures = node.measurements("nearest");
    if node.is_sweep() {
        figures.retain(|m| m.read_key::<shared::threads>() == Some(u64::from(threads)));
    }
    let of_kernel = |kernel: &Kernel| {
        let found = figures.iter().find(|m| m.name == kernel.name());
        Some((*kernel, found?.value? * scale))
    };
    // Some publications report only Triad.
    let triad = of_kernel(&Kernel::Triad)?.1;
    let rates = STREAM.iter().map(|kernel| of_kernel(kernel).unwrap_or((*kernel, triad)));
    let rate = PlannedRate { rates: rates.collect(), basis: String::new(), is_bound: false };
    let share = theoretical.map(|limit| Fraction(triad / limit.value));
    Some(PlannedRate { basis: published_basis(node, share), ..rate }.named())
}

fn published_basis(node: &PublishedEntry, share: Option<Fraction>) -> String {
    let share = share.map(|share| format!("{share} of the theoretical bandwidth, "));
    let title = node.to_string();
    let threads = node.threads.map(|threads| count_in_words(threads as usize, "thread"));
    // Some settings contain the number of threads.
    let threads = threads.filter(|threads| !title.contains(threads.as_str()));
    let threads = threads.map(|threads| format!(", {threads}")).unwrap_or_default();
    format!("{}as published for {title}{threads}", share.unwrap_or_default())
}

impl PlannedRate {
    /// Adds the rate of Triad at the beginning of the description.
    fn named(self) -> Self {
        let triad = self.triad().map(|rate| format!("Triad {rate}, ")).unwrap_or_default();
        Self { basis: format!("{triad}{}", self.basis), ..self }
    }
}
