//! Chart of the parallel efficiency over the number of workers.

use crate::config::WorkersConfig;
use crate::sweep::Coordinates;
use nodegauge_gauge::view::{AxisQuantity, Chart, ChartSeries, Guide, Picture};
use nodegauge_measure::record::Measurement;

/// Rate with a number of workers.
pub(crate) struct WorkersRate<'a> {
    /// Kind of the workers: all their properties except their number, e.g. `ranks, policy 3`.
    pub kind: String,
    /// Number of workers.
    pub count: u64,
    pub rate: &'a Measurement,
    /// Measured efficiency, from ratios of consecutive samples; `None` to compute it from the rates.
    pub efficiency: Option<f64>,
}

impl<'a> WorkersRate<'a> {
    /// Returns the rate with these workers; `None` if their number is unknown.
    pub fn from_rate(
        on: &WorkersConfig,
        sweep: Coordinates<'_>,
        rate: &'a Measurement,
    ) -> Option<Self> {
        let count = on.threads?;
        let mut kind = vec![if on.processes.is_some() { "ranks" } else { "threads" }.to_owned()];
        match sweep {
            Some(swept) => {
                let others = swept.iter().filter(|(axis, _)| !COUNTS.contains(&axis.as_str()));
                kind.extend(
                    others.filter_map(|(axis, value)| Some(format!("{axis} {}", value.as_str()?))),
                );
            }
            None => kind.extend(on.policy.map(|policy| format!("policy {policy}"))),
        }
        Some(Self { kind: kind.join(", "), count, rate, efficiency: None })
    }

    /// Returns the rate per worker.
    fn per_worker(&self) -> Option<f64> {
        Some(self.rate.value? / self.count.max(1) as f64)
    }
}

/// Axes of a sweep whose values are the number or the kind of workers.
const COUNTS: [&str; 3] = ["ranks", "threads", "workers"];

/// Returns the chart of the rate per worker, in percent of the rate per worker with the fewest workers; one curve per
/// kind of workers. Returns `None` if there are fewer than two numbers of workers.
pub(crate) fn picture(rates: &[WorkersRate<'_>]) -> Option<Picture> {
    let usable: Vec<&WorkersRate<'_>> =
        rates.iter().filter(|one| one.per_worker().is_some_and(|rate| rate > 0.0)).collect();
    let fewest = usable.iter().map(|one| one.count).min()?;
    let max = usable.iter().map(|one| one.count).max()?;
    if max == fewest {
        return None;
    }
    let of_fewest = usable.iter().filter(|one| one.count == fewest);
    let base = of_fewest.filter_map(|one| one.per_worker()).reduce(f64::max)?;
    let mut series: Vec<ChartSeries> = Vec::new();
    for one in &usable {
        let efficiency = one.efficiency.unwrap_or(one.per_worker()? / base);
        let dot = (one.count as f64, 100.0 * efficiency);
        ChartSeries::find_or_append(&mut series, one.kind.clone()).push(dot, one.rate);
    }
    for one in &mut series {
        one.dots.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let mut ticks: Vec<f64> = usable.iter().map(|one| one.count as f64).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let names = ["workers", ""];
    let guides = vec![Guide::y(100.0, "no loss")];
    let y = AxisQuantity::Percent;
    let chart = Chart { names, y, ticks, series, guides, ..Chart::default() };
    Some(Picture::chart("parallel efficiency over workers", chart))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_gauge::view::Drawing;
    use nodegauge_measure::Unit;
    use nodegauge_measure::record::QuotedStatistic;

    #[test]
    fn efficiency_is_relative_to_the_fewest_workers() {
        let figure = |value| {
            Measurement::new("apps", "iccg", "rate", Unit::FlopsPerSecond)
                .with_value(QuotedStatistic::Median, value)
        };
        let figures = [figure(1e9), figure(1.5e9)];
        let rate = |count: u64, of: usize| WorkersRate {
            kind: "threads".to_owned(),
            count,
            rate: &figures[of],
            efficiency: None,
        };
        let drawing = picture(&[rate(1, 0), rate(2, 1)]).unwrap().drawing;
        let Drawing::Chart(chart) = drawing else { panic!("no chart") };
        assert_eq!(chart.series[0].dots, [(1.0, 100.0), (2.0, 75.0)]);
        assert!(picture(&[rate(2, 0), rate(2, 1)]).is_none());
        let measured = WorkersRate { efficiency: Some(0.8), ..rate(2, 1) };
        let with_measured = picture(&[rate(1, 0), measured]).unwrap().drawing;
        let Drawing::Chart(of_measured) = with_measured else { panic!("no chart") };
        assert_eq!(of_measured.series[0].dots[1], (2.0, 80.0));
    }
}
