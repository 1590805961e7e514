//! Differences between measured figures and their predictions. All functions are pure.

use super::KERNELS;
use crate::GAUGE;
use crate::config::CurveConfig;
use nodegauge_arena::names::{PREDICTION, SCALING};
use nodegauge_gauge::view::sentence::{enumeration, mark_doubted};
use nodegauge_gauge::view::words::count_with_noun;
use nodegauge_kernels::Kernel;
use nodegauge_measure::record::{Measurement, Status};
use nodegauge_measure::{BytesPerSec, Fraction};

/// Maximum difference, as a share of the prediction, at which a prediction counts as correct. Published models have
/// errors of 5 % on average and at most 10 % (Hofmann, Alappat, Hager, Fey and Wellein, "Bridging the Architecture
/// Gap", 2020).
pub(crate) const TOLERANCE: Fraction = Fraction(0.10);

/// Measured figure with its prediction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FigureAndPrediction<'a> {
    pub kernel: Kernel,
    pub threads: u64,
    measured: &'a Measurement,
    predicted: &'a Measurement,
    /// Difference as a share of the prediction; positive if the loop is faster than predicted.
    pub miss: f64,
}

impl FigureAndPrediction<'_> {
    /// True if both figures are valid.
    pub(crate) fn is_valid(&self) -> bool {
        let figures = [self.measured, self.predicted];
        figures.iter().all(|m| m.validity.status == Status::Valid)
    }

    /// True if the difference exceeds the tolerance.
    pub(crate) fn exceeds_tolerance(&self) -> bool {
        self.miss.abs() > TOLERANCE.0
    }

    /// Describes the difference: `copy with 2 threads is 14 % faster than predicted (38.20 instead of 33.50 GB/s)`.
    fn in_words(&self) -> String {
        let direction = if self.miss > 0.0 { "faster" } else { "slower" };
        let [measured, predicted] =
            [self.measured, self.predicted].map(|m| BytesPerSec(m.value.unwrap_or(f64::NAN)));
        let text = format!(
            "{} with {} is {} {direction} than predicted ({measured} instead of {predicted})",
            self.kernel,
            count_with_noun(self.threads, "thread"),
            Fraction(self.miss.abs())
        );
        mark_doubted(&text, !self.is_valid())
    }
}

/// Returns the measured figures that have a prediction, in the order of the kernels.
pub(crate) fn compared_figures(figures: &[Measurement]) -> Vec<FigureAndPrediction<'_>> {
    let mut found = Vec::new();
    for predicted in figures.iter().filter(|m| m.gauge == GAUGE && m.test == PREDICTION) {
        let config: CurveConfig = predicted.read_config();
        let mut of_scaling = figures.iter().filter(|m| m.gauge == GAUGE && m.test == SCALING);
        let measured = of_scaling.find(|m| m.name == predicted.name);
        let place = KERNELS.iter().position(|known| config.kernel.as_deref() == Some(known.name()));
        let Some((place, measured)) = place.zip(measured) else { continue };
        let Some((value, of)) = measured.value.zip(predicted.value) else { continue };
        let kernel = KERNELS[place];
        let threads = config.threads.unwrap_or(0);
        let miss = value / of - 1.0;
        found.push((place, FigureAndPrediction { kernel, threads, measured, predicted, miss }));
    }
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, one)| one).collect()
}

/// Returns a text with the largest difference of each kernel whose prediction is not correct; `None` if all are
/// correct.
pub(crate) fn prediction_errors_in_words(of: &[FigureAndPrediction<'_>]) -> Option<String> {
    let mut texts = Vec::new();
    for kernel in KERNELS {
        let own = of.iter().filter(|one| one.kernel == kernel && one.exceeds_tolerance());
        let worst = own.max_by(|a, b| a.miss.abs().total_cmp(&b.miss.abs()));
        texts.extend(worst.map(FigureAndPrediction::in_words));
    }
    let limit = TOLERANCE.in_whole_percent();
    (!texts.is_empty())
        .then(|| format!("predictions are missed by more than {limit}: {}", enumeration(&texts)))
}

/// Returns a sentence about the number of kernels that are predicted correctly; `None` if there are no predictions.
pub(crate) fn correct_share_in_words(of: &[FigureAndPrediction<'_>]) -> Option<String> {
    let mut kernels = 0;
    let mut right = 0;
    for kernel in KERNELS {
        let own: Vec<&FigureAndPrediction<'_>> =
            of.iter().filter(|one| one.kernel == kernel).collect();
        kernels += usize::from(!own.is_empty());
        right += usize::from(!own.is_empty() && !own.iter().any(|one| one.exceeds_tolerance()));
    }
    let limit = TOLERANCE.in_whole_percent();
    let text = format!(
        "{right} of {kernels} kernels are within {limit} of their prediction at every number of threads"
    );
    let is_doubted = of.iter().any(|one| !one.is_valid());
    (kernels > 0).then(|| mark_doubted(&text, is_doubted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Unit;
    use nodegauge_measure::record::QuotedStatistic;

    fn figure(test: &str, kernel: Kernel, threads: u64, gb: f64) -> Measurement {
        let config = CurveConfig {
            kernel: Some(kernel.name().to_owned()),
            threads: Some(threads),
            ..CurveConfig::default()
        };
        let name = super::super::figure_name(kernel, threads as usize);
        let m = Measurement::new(GAUGE, test, name, Unit::BytesPerSecond);
        m.with_value(QuotedStatistic::Best, gb * 1e9).with_config(&config)
    }

    #[test]
    fn largest_miss_of_each_kernel_is_named() {
        let mut figures = Vec::new();
        let values = [
            (Kernel::Copy, 1, 10.0, 10.0),
            (Kernel::Copy, 2, 21.0, 20.0),
            (Kernel::Triad, 1, 13.0, 10.0),
            (Kernel::Triad, 2, 24.0, 20.0),
            (Kernel::Read, 2, 17.0, 20.0),
        ];
        for (kernel, threads, measured, predicted) in values {
            figures.push(figure(SCALING, kernel, threads, measured));
            figures.push(figure(PREDICTION, kernel, threads, predicted));
        }
        let of = compared_figures(&figures);
        assert_eq!(of.len(), 5);
        let expected = "predictions are missed by more than 10 %: triad with 1 thread is 30 % faster than predicted \
                        (13.00 GB/s instead of 10.00 GB/s) and read with 2 threads is 15 % slower than predicted \
                        (17.00 GB/s instead of 20.00 GB/s)";
        assert_eq!(prediction_errors_in_words(&of).unwrap(), expected);
        let share = correct_share_in_words(&of).unwrap();
        assert_eq!(
            share,
            "1 of 3 kernels are within 10 % of their prediction at every number of threads"
        );
        figures[0].validity.mark_suspect("disturbed");
        let doubted = compared_figures(&figures);
        assert!(correct_share_in_words(&doubted).unwrap().ends_with("(suspect)"));
        // A suspect figure of one kernel does not affect another kernel.
        assert_eq!(prediction_errors_in_words(&doubted).unwrap(), expected);
    }

    #[test]
    fn figures_without_predictions_are_not_compared() {
        let figures = [figure(SCALING, Kernel::Copy, 1, 10.0)];
        assert!(compared_figures(&figures).is_empty());
        assert_eq!(prediction_errors_in_words(&[]), None);
        assert_eq!(correct_share_in_words(&[]), None);
    }
}
