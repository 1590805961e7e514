//! Parser of the output of xhpcg. Since version 3.1, the lines have the form `group::key=value`; earlier versions print
//! YAML.

use super::TEST;
use crate::GAUGE;
use crate::config::{HpcgConfig, WorkersConfig};
use nodegauge_gauge::readers::RunMark;
use nodegauge_measure::record::{Category, Measurement, QuotedStatistic, Validity};
use nodegauge_measure::{Unit, printed};
use nodegauge_solvers::hpcg::problem::PARTS;

/// First word of the first line of the output.
const TITLE: &str = "HPCG-Benchmark";
/// Key of a valid rating; for an invalid result, xhpcg prints a different text.
const RATING: &str = "Final Summary::HPCG result is VALID with a GFLOP/s rating of";
/// First words of the lines with a rating, in version 3.1 and in earlier versions.
const RATINGS: [&str; 2] = ["Final Summary::HPCG result is", "HPCG result is"];

/// Parsed output of a run of xhpcg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HpcgOutput {
    /// Pairs of path and value; a path is e.g. `GFLOP/s Summary::Raw MG`.
    values: Vec<(String, String)>,
}

/// Returns the position of a line in the order of the lines of a run: title, rating.
pub(crate) fn mark(line: &str) -> Option<RunMark> {
    if line.starts_with(TITLE) {
        return Some(RunMark::TITLE);
    }
    let is_rating = RATINGS.iter().any(|rating| line.starts_with(rating.trim_start()));
    is_rating.then_some(RunMark::weak(1))
}

/// Returns the version in a title: 3.0 in `HPCG-Benchmark version: 3.0`, 3.1 in `version=3.1`.
pub(crate) fn title_version(line: &str) -> Option<String> {
    let version = line.trim().strip_prefix(TITLE)?.trim_start().strip_prefix("version")?;
    let version = version.trim_matches([':', '=', ' ']);
    Some(version.to_owned()).filter(|version| !version.is_empty())
}

/// Returns a key without the decoration of version 3.0: `__________ Final Summary __________`.
fn plain(key: &str) -> &str {
    key.trim_matches(['_', '*', ' '])
}

/// Returns the number of points in a layer of the whole mesh, of which the number of equations is a multiple: the local
/// grids may differ in nz. Returns `None` if the grid or the number of processes per direction is unknown.
fn layer_points(grid: Option<&[usize]>, domains: Option<&[usize]>) -> Option<u64> {
    let [nx, ny, _] = grid? else { return None };
    let [npx, npy, _] = domains? else { return None };
    let counts = [nx, ny, npx, npy].map(|count| *count as u64);
    let points = counts.into_iter().fold(1, u64::saturating_mul);
    Some(points).filter(|points| *points > 0)
}

impl HpcgOutput {
    /// Parses the output of a run; returns `None` if the text is not output of xhpcg. A last line without a line end is
    /// ignored, because a number in it may be truncated.
    pub fn read(text: &str) -> Option<Self> {
        let mut lines = printed::whole_lines(text)
            .lines()
            .map(str::trim_end)
            .skip_while(|line| line.is_empty());
        let first = lines.next()?.strip_prefix(TITLE)?;
        let mut values: Vec<(String, String)> = Vec::new();
        // Keys of the parent levels of a YAML line. A level is indented by two more spaces than its parent.
        let mut above: Vec<&str> = Vec::new();
        for line in std::iter::once(first).chain(lines).filter(|line| !line.is_empty()) {
            let (path, value) = match line.split_once('=') {
                Some((path, value)) => (plain(path).to_owned(), value),
                None => {
                    let Some((key, value)) = line.split_once(':') else { continue };
                    let depth = (key.len() - key.trim_start().len()) / 2;
                    above.truncate(depth);
                    above.push(plain(key));
                    (above.join("::"), value)
                }
            };
            values.push((path, value.trim().to_owned()));
        }
        Some(Self { values })
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| known == path).map(|(_, value)| value.as_str())
    }

    fn number(&self, path: &str) -> Option<f64> {
        self.text(path)?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// Returns the rate at a path, FLOP/s.
    fn rate(&self, path: &str) -> Option<f64> {
        Some(self.number(path)? * 1e9).filter(|rate| printed::can_be_figure(*rate))
    }

    fn count(&self, path: &str) -> Option<u64> {
        self.number(path).map(|number| number as u64)
    }

    /// Returns the values of three keys of a group as integers.
    fn counts(&self, group: &str, keys: [&str; 3]) -> Option<Vec<usize>> {
        let counts = keys.map(|key| self.count(&format!("{group}::{key}")));
        counts.into_iter().map(|count| count.map(|n| n as usize)).collect()
    }

    /// Returns the figures of the run. They have no values if xhpcg reports the run as invalid.
    pub fn measurements(&self, command: Option<&str>) -> Vec<Measurement> {
        let processes = self.count("Machine Summary::Distributed Processes");
        let threads = self.count("Machine Summary::Threads per processes").unwrap_or(1);
        let iterations = "Iteration Count Information::Optimized CG iterations per set";
        let departures = self.values.iter().filter_map(|(path, value)| {
            let departs = path.starts_with("Departure from Symmetry");
            departs.then(|| value.parse().ok()).flatten()
        });
        let sets = self.count("Iteration Count Information::Total number of optimized iterations");
        let sets = sets.zip(self.count(iterations)).map(|(all, of_set)| all / of_set.max(1));
        let max_iterations = ["Unpreconditioned", "Preconditioned"].map(|kind| {
            self.count(&format!("Spectral Convergence Tests::{kind}::Maximum iteration count"))
        });
        let grid = self.counts("Local Domain Dimensions", ["nx", "ny", "nz"]);
        let domains = self.counts("Processor Dimensions", ["npx", "npy", "npz"]);
        let equations = self.count("Linear System Information::Number of Equations");
        let layer = layer_points(grid.as_deref(), domains.as_deref());
        let config = HpcgConfig {
            on: WorkersConfig {
                threads: processes.map(|processes| processes.saturating_mul(threads)),
                processes,
                ..WorkersConfig::default()
            },
            engine: Some("xhpcg".to_owned()),
            version: self.text("version").map(str::to_owned),
            command: command.map(str::to_owned),
            grid,
            domains,
            n: equations.filter(|n| layer.is_none_or(|layer| n % layer == 0)),
            iterations: self.count(iterations),
            residual: self.number("Reproducibility Information::Scaled residual mean"),
            sets,
            symmetry: Some(departures.collect()).filter(|all: &Vec<f64>| !all.is_empty()),
            spectral_iterations: max_iterations.into_iter().collect(),
            setup_s: self.number("Setup Information::Setup Time"),
            ..HpcgConfig::default()
        };
        let raw =
            ["DDOT", "WAXPBY", "SpMV", "MG"].map(|part| format!("GFLOP/s Summary::Raw {part}"));
        let parts = PARTS.into_iter().zip(raw);
        let all = std::iter::once(("rating", RATING.to_owned())).chain(parts);
        all.map(|(name, path)| self.figure(name, &path, &config)).collect()
    }

    /// Returns a message if a rate is not the printed operations divided by the printed time; `None` if it is, or if
    /// the output lacks these numbers.
    fn contradiction(&self, name: &str, path: &str) -> Option<String> {
        /// Relative error of numbers with six digits.
        const ROUNDED: f64 = 2e-5;
        let part = path.strip_prefix("GFLOP/s Summary::Raw ");
        let (other, what) = match part {
            Some(part) => {
                let kind = if part == "WAXPBY" { "WAXPBY" } else { part };
                let operations =
                    self.number(&format!("Floating Point Operations Summary::Raw {kind}"))?;
                let seconds = self.number(&format!("Benchmark Time Summary::{kind}"))?;
                (operations / seconds / 1e9, "its operations divided by its time")
            }
            None => {
                let total =
                    "GFLOP/s Summary::Total with convergence and optimization phase overhead";
                (self.number(total)?, "the total rate")
            }
        };
        let rate = self.number(path)?;
        // A time with few digits has a larger rounding error.
        let agrees = (rate / other - 1.0).abs() <= ROUNDED;
        (!agrees).then(|| {
            format!(
                "the output contradicts itself: the rate of {name} differs from \
                 {what}"
            )
        })
    }

    /// Returns the figure of the rate at `path`.
    fn figure(&self, name: &str, path: &str, config: &HpcgConfig) -> Measurement {
        let m = Measurement::new(GAUGE, TEST, name, Unit::FlopsPerSecond);
        let m = m.with_category(Category::Reference).with_config(config);
        let mut validity = Validity::valid();
        if let Some(reason) = self.contradiction(name, path) {
            return m.without_value(reason);
        }
        if self.rate(RATING).is_none() {
            validity.mark_invalid("xhpcg reported an invalid result or did not finish");
        }
        match self.rate(path) {
            Some(rate) => m.with_value(QuotedStatistic::Single, rate).with_validity(validity),
            None => m.without_value("xhpcg did not print this rate"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::record::Status;

    /// Output of the reference code of HPCG 3.1 on two processes of 32 x 32 x 32 points.
    const WRITTEN: &str = include_str!("../../tests/outputs/hpcg-3.1-two-ranks.txt");

    #[test]
    fn xhpcg_output_becomes_figures() {
        let all = HpcgOutput::read(WRITTEN).unwrap().measurements(None);
        let rates: Vec<f64> = all.iter().map(|m| m.value.unwrap()).collect();
        assert_eq!(rates, [0.0476709e9, 0.0058396e9, 0.374232e9, 0.0327184e9, 0.0609239e9]);
        let config: HpcgConfig = all[0].read_config();
        assert_eq!((config.n, config.iterations, config.sets), (Some(65536), Some(50), Some(1)));
        assert_eq!((config.grid, config.domains), (Some(vec![32; 3]), Some(vec![2, 1, 1])));
        assert_eq!(config.residual, Some(1.26595e-16));
        assert_eq!(config.symmetry, Some(vec![2.20674e-06, 6.05509e-07]));
        assert_eq!(config.spectral_iterations, Some(vec![11, 2]));
        assert_eq!(config.version.as_deref(), Some("3.1"));
        assert!(all.iter().all(|m| m.category == Category::Reference));
    }

    #[test]
    fn hpcg_3_0_output_is_read() {
        let text = "HPCG-Benchmark version: 3.0\nMachine Summary: \n  Distributed Processes: 4\n  \
                    Threads per processes: 2\nFinal Summary: \n  HPCG result is VALID with a GFLOP/s rating of: 1.5\n";
        let all = HpcgOutput::read(text).unwrap().measurements(None);
        let config: HpcgConfig = all[0].read_config();
        assert_eq!(
            (all[0].value, config.on.threads, config.version.as_deref()),
            (Some(1.5e9), Some(8), Some("3.0"))
        );
        assert_eq!((all[4].value, all[4].validity.status), (None, Status::Invalid));
    }

    #[test]
    fn truncated_or_invalid_output_has_no_value() {
        let cut = WRITTEN.split("Final Summary").next().unwrap();
        let invalid = cut.to_owned() + "Final Summary::HPCG result is=INVALID.\n";
        for text in [cut, &invalid] {
            let all = HpcgOutput::read(text).unwrap().measurements(None);
            assert!(all.iter().all(|m| m.value.is_none() && m.validity.status == Status::Invalid));
        }
        // The last line may be cut in the middle of the rating.
        let in_the_rating = WRITTEN.find("rating of=").unwrap() + "rating of=0.04".len();
        let all = HpcgOutput::read(&WRITTEN[..in_the_rating]).unwrap().measurements(None);
        assert!(all.iter().all(|m| m.value.is_none()), "{all:#?}");
        assert_eq!(HpcgOutput::read("T/V N NB P Q\n"), None);
        assert_eq!(HpcgOutput::read(""), None);
    }
}
