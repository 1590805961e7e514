//! Figures of `apps iccg`, computed from solves and samples, with all reasons for doubt.

use super::TEST;
use super::config::IccgConfig;
use super::options::IccgOptions;
use super::size::MeshSize;
use crate::config::WorkersConfig;
use crate::paired;
use crate::sweep::SweepWorkers;
use crate::{GAUGE, in_digits};
use nodegauge_analysis::ratio::paired::PairedRounds;
use nodegauge_gauge::series::Series;
use nodegauge_kernels::{Kernel, Variant};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Validity};
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::samples::{Sample, SamplesByRegime};
use nodegauge_measure::{Fraction, Unit, stats};
use nodegauge_solvers::cg::{PARTS, SolverEnd};
use nodegauge_solvers::iccg::{self, IccgMethod, Solution};
use nodegauge_solvers::{bandwidth, code};

/// Maximum ratio of the recomputed residual to the residual of the recursion. The two differ by rounding.
const RESIDUAL_SLACK: f64 = 10.0;
/// Parts of an iteration that are compared with the Triad bandwidth, because they update vectors. The other parts are
/// compared with the read bandwidth.
const UPDATES: [&str; 2] = ["axpy", "halo"];

/// One kind of workers with its solves.
#[derive(Debug)]
pub(super) struct IccgCell<'a> {
    pub swept: &'a SweepWorkers,
    /// Number of elements of the arrays of a worker in the bandwidth measurement.
    pub array_elements: usize,
    /// Solves, each with a sample that contains the times of its iterations.
    pub solutions: Vec<(Solution, Sample)>,
}

/// Results of a run that are not part of its cells.
#[derive(Debug, Clone, Copy)]
pub(super) struct FurtherResults<'a> {
    pub options: &'a IccgOptions,
    pub size: &'a MeshSize,
    /// Number of iterations in natural order; `None` if they were not counted.
    pub natural_iterations: Option<usize>,
    pub stop: StopReason,
}

/// Measured values of a run. For each kind of workers, there is one cell with iterations and one cell with bandwidths.
pub(super) struct IccgEvidence<'a> {
    pub regime: SamplesByRegime,
    pub series: &'a Series,
    pub is_guest: bool,
    pub further_results: FurtherResults<'a>,
    pub loops: &'a [Variant],
}

/// Bandwidth with the fastest candidate loop.
#[derive(Debug, Clone, Copy)]
struct Rate {
    part: usize,
    bytes: f64,
    value: f64,
}

/// Returns a figure of the solver without a value.
fn figure(name: &str, unit: Unit) -> Measurement {
    Measurement::new(GAUGE, TEST, name, unit)
}

impl IccgEvidence<'_> {
    /// Returns all figures of a run.
    pub fn figures(&self, cells: &[IccgCell<'_>]) -> Vec<Measurement> {
        let mut by_cell: Vec<Vec<Measurement>> =
            (0..cells.len()).map(|at| self.cell_figures(cells, at)).collect();
        paired::limit_relative_validity(&mut by_cell, "rate", |at| {
            let reference = &cells[at].swept.reference;
            cells.iter().position(|other| other.swept.settings == *reference)
        });
        by_cell.concat()
    }

    fn cell_figures(&self, cells: &[IccgCell<'_>], at: usize) -> Vec<Measurement> {
        let cell = &cells[at];
        let timed = self.regime.cell_samples(2 * at);
        let Some(((solution, _), timed)) = cell.solutions.first().zip(timed) else {
            return self.lost(cell, at).into_iter().collect();
        };
        let rates = [Kernel::Read, Kernel::Triad].map(|kernel| self.rate(kernel, cell, at));
        let rate_of = |name: &str| rates[usize::from(UPDATES.contains(&name))];
        let parts: Vec<usize> = iccg::data_moving_parts(&solution.work).collect();
        let predicted =
            |part: usize| Some(solution.work.bytes[part] as f64 / rate_of(PARTS[part])?.value);
        let all = parts.iter().map(|part| predicted(*part)).sum::<Option<f64>>();
        let config = self.config(cell, solution);
        let wrong = self.validity(cell);
        let judged = |m: Measurement, figure_config: IccgConfig, part: usize| {
            let mut validity = wrong.clone();
            self.regime
                .doubts(2 * at, part, self.is_guest)
                .into_iter()
                .for_each(|d| validity.mark_suspect(d));
            self.series.judge_figure(2 * at, m.with_config(&figure_config).with_validity(validity))
        };
        let whole = IccgConfig {
            moved_bytes: Some(parts.iter().map(|part| solution.work.bytes[*part] as u64).sum()),
            flops: Some(parts.iter().map(|part| solution.work.flops[*part] as u64).sum()),
            predicted_s: all,
            ..config.clone()
        };
        let flops = whole.flops.unwrap_or(0) as f64;
        let totals: Vec<f64> = cell.solutions.iter().map(|(_, sample)| sample.seconds[0]).collect();
        let of_totals =
            if totals.len() == 1 { QuotedStatistic::Single } else { QuotedStatistic::Median };
        let mut rate = figure("rate", Unit::FlopsPerSecond).with_timed_samples(
            QuotedStatistic::Median,
            timed,
            0,
            &|duration| flops / duration,
        );
        if let Some(all) = all {
            rate = rate
                .with_limit(flops / all, "rate if all bytes move at the read and Triad bandwidths");
        }
        let time = figure("time_to_solution", Unit::Seconds).with_samples(of_totals, totals);
        let iteration = figure("iteration", Unit::Seconds).with_timed_samples(
            QuotedStatistic::Median,
            timed,
            0,
            &|seconds| seconds,
        );
        let mut figures = vec![
            judged(time, whole.clone(), 0),
            judged(iteration, whole.clone(), 0),
            judged(rate, whole, 0),
        ];
        let iteration_s = stats::median(&self.regime.seconds(2 * at, 0));
        for (number, part) in parts.into_iter().enumerate() {
            let bytes = solution.work.bytes[part];
            let part_flops = solution.work.flops[part];
            let m = figure(PARTS[part], Unit::BytesPerSecond);
            let mut m =
                m.with_timed_samples(QuotedStatistic::Median, timed, number + 1, &|seconds| {
                    bytes as f64 / seconds
                });
            if let Some(limit) = rate_of(PARTS[part]) {
                let of = if UPDATES.contains(&PARTS[part]) { "Triad" } else { "read" };
                m = m.with_limit(limit.value, format!("{of} by the same workers, interleaved"));
            }
            let share = stats::median(&self.regime.seconds(2 * at, number + 1)) / iteration_s;
            let config = IccgConfig {
                moved_bytes: Some(bytes as u64),
                flops: Some(part_flops as u64),
                predicted_s: predicted(part),
                share: share.is_finite().then_some(Fraction(share)),
                ..config.clone()
            };
            figures.push(judged(m, config, number + 1));
        }
        for (measured_rate, name) in rates.into_iter().zip(["read", "triad"]) {
            let part = measured_rate.map_or(0, |bandwidth| bandwidth.part);
            let bytes = measured_rate.map_or(f64::NAN, |bandwidth| bandwidth.bytes);
            let m = figure(name, Unit::BytesPerSecond);
            let cell_part = (2 * at + 1, part);
            let m = self.series.figure(
                &self.regime,
                cell_part,
                m,
                QuotedStatistic::Median,
                &|seconds| bytes / seconds,
            );
            let Some(m) = m else { continue };
            let on = WorkersConfig::from_workers(&cell.swept.workers);
            let m = m.with_config(&IccgConfig { on, ..IccgConfig::default() });
            figures.push(self.series.judge_figure(2 * at + 1, m));
        }
        let reference = cells.iter().position(|other| other.swept.settings == cell.swept.reference);
        if let Some(base_at) = reference
            && cells[base_at].swept.settings != cell.swept.settings
            && [base_at, at].iter().all(|of| self.series.cell_failure(2 * of).is_none())
        {
            let base = &cells[base_at];
            let pairs = base.solutions.iter().zip(&cell.solutions);
            let rounds: Vec<Vec<Sample>> =
                pairs.map(|((_, first), (_, this))| vec![first.clone(), this.clone()]).collect();
            let paired = PairedRounds::from_samples(&rounds);
            if !paired.ratios().is_empty() {
                let ratios = paired.ratios().to_vec();
                let m =
                    figure("relative", Unit::Factor).with_samples(QuotedStatistic::Median, ratios);
                let against = Some(base.swept.workers.in_words());
                let mut both = self.validity(base);
                wrong.reasons.iter().for_each(|reason| both.add(wrong.status, reason.as_str()));
                paired.doubt().into_iter().for_each(|reason| both.mark_suspect(reason));
                figures.push(m.with_config(&IccgConfig { against, ..config }).with_validity(both));
            }
        }
        figures
    }

    /// Returns the rate of lost workers without a solve; `None` for other workers.
    fn lost(&self, cell: &IccgCell<'_>, at: usize) -> Option<Measurement> {
        self.series.cell_failure(2 * at)?;
        let on = WorkersConfig::from_workers(&cell.swept.workers);
        let m = Measurement::new(GAUGE, TEST, "rate", Unit::FlopsPerSecond);
        let m = m.with_config(&IccgConfig { on, ..IccgConfig::default() });
        Some(self.series.judge_figure(2 * at, m))
    }

    /// Returns the read or Triad bandwidth of the workers of a cell, measured with the fastest candidate loop.
    fn rate(&self, kernel: Kernel, cell: &IccgCell<'_>, at: usize) -> Option<Rate> {
        let of_kernel = self.loops.iter().enumerate().filter(|(_, each)| each.kernel() == kernel);
        let rates = of_kernel.filter_map(|(part, variant)| {
            let elements = cell.array_elements * cell.swept.workers.count();
            let bytes = (bandwidth::element_bytes(variant) * elements) as f64;
            let seconds = stats::median(&self.regime.seconds(2 * at + 1, part));
            seconds.is_finite().then_some(Rate { part, bytes, value: bytes / seconds })
        });
        rates.reduce(|best, next| if next.value > best.value { next } else { best })
    }

    fn config(&self, cell: &IccgCell<'_>, solution: &Solution) -> IccgConfig {
        let FurtherResults { options, size, natural_iterations, stop } = self.further_results;
        let setups: Vec<f64> = cell.solutions.iter().map(|(each, _)| each.setup_s.0).collect();
        let memory: Vec<f64> = cell.solutions.iter().map(|(each, _)| each.memory_s.0).collect();
        let [bcsr_s, sell_s] = solution.product_s;
        let codes = solution.loops.codes();
        IccgConfig {
            on: WorkersConfig::from_workers(&cell.swept.workers),
            elements: Some(size.mesh.elements.map(|n| n.to_string()).join("x")),
            n: Some(3 * size.mesh.point_count() as u64),
            preconditioner: Some(options.method.name().to_owned()),
            halo_by: cell.swept.workers.transport(),
            tolerance: Some(options.tolerance),
            storage: Some(solution.loops.storage.name().to_owned()),
            prefetch: Some(code::prefetch_setting(codes.products.prefetches).to_string()),
            preconditioner_prefetch: Some(
                code::prefetch_setting(codes.preconditioner.prefetches).to_string(),
            ),
            isa: Some(codes.products.isa().name().to_owned()),
            bcsr_s,
            sell_s,
            colours: (options.method != IccgMethod::Diagonal).then_some(solution.colours as u64),
            shift: (solution.shift > 0.0).then_some(solution.shift),
            iterations: Some(solution.iterations as u64),
            natural_iterations: natural_iterations
                .map(|natural_iterations| natural_iterations as u64),
            residual: solution.residual,
            error: solution.error,
            solutions: Some(cell.solutions.len() as u64),
            setup_s: Some(stats::median(&setups)),
            memory_s: Some(stats::median(&memory)),
            matrix_bytes: Some(size.matrix.0),
            times_llc: size.times_llc,
            sweep: cell.swept.coordinates(),
            stopped: Some(stop.to_string()),
            ..IccgConfig::default()
        }
    }

    /// Returns the validity of the solves.
    fn validity(&self, cell: &IccgCell<'_>) -> Validity {
        let FurtherResults { options, size, .. } = self.further_results;
        let mut validity = Validity::valid();
        for (solution, _) in &cell.solutions {
            let residual = in_digits(solution.residual);
            let iterations = count_in_words(solution.iterations, "iteration");
            let after = format!("after {iterations}");
            match solution.end {
                SolverEnd::Converged => {}
                SolverEnd::Limit => validity.mark_invalid(format!(
                    "no convergence within {iterations}: the residual is {residual}; the requested tolerance is {:.0e}",
                    options.tolerance
                )),
                SolverEnd::NotANumber => validity.mark_invalid(format!("a sum is NaN or infinite {after}")),
                SolverEnd::Indefinite => validity.mark_invalid(format!("the matrix is not positive definite, detected {after}")),
            }
            if solution.end == SolverEnd::Converged {
                let allowed = RESIDUAL_SLACK * options.tolerance;
                if solution.residual.is_none_or(|value| value > allowed) {
                    validity.mark_invalid(format!(
                        "the recomputed residual is {residual}, but the recursion reached {:.0e}",
                        options.tolerance
                    ));
                }
                // The relative error is at most the relative residual times the condition number, which grows with the
                // square of the number of elements along an edge.
                let edge = size.mesh.elements.into_iter().max().unwrap_or(1) as f64;
                let bound = (allowed * 10.0 * edge * edge).min(0.1);
                if solution.error.is_none_or(|error| error > bound) {
                    validity.mark_invalid(format!(
                        "displacements deviate by {} from the exact solution, expected at most \
                         {bound:.0e}: an element of the matrix is wrong, or this machine \
                         computes incorrectly",
                        in_digits(solution.error)
                    ));
                }
            }
            if validity.reasons.len() > 1 {
                break;
            }
        }
        if let Some(doubt) = size.doubt() {
            validity.mark_suspect(doubt);
        }
        validity
    }
}
