//! Reader of the result of HPL-MxP: the solve in mixed precision, and its factorisation alone.

use crate::output::HplOutput;
use nodegauge_gauge::outputs::{COMPUTE, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::record::{QuotedStatistic, Validity};
use nodegauge_measure::{Unit, printed};

/// Reader of the output of HPL-MxP.
pub(crate) struct HplMxpReader;

/// Rates: label and figure name.
const RATES: [(&str, &str); 2] = [("GFLOPS =", "hpl_mxp"), ("LU GFLOPS =", "hpl_mxp_lu")];

impl Reader for HplMxpReader {
    fn program(&self) -> &'static str {
        "HPL-MxP"
    }

    fn doubts(&self) -> &'static str {
        "no residual: suspect; a rate that contradicts the rates per device is an error"
    }

    fn first_characters(&self) -> &'static str {
        "*HNL"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        if line.starts_with("HPL-MxP-NVIDIA ") || line.starts_with("HPL-MxP ver") {
            return Some(RunMark::TITLE);
        }
        if line.contains("HPL MxP Result") || line.contains("HPL-MxP Result") {
            return Some(RunMark::repeated(1));
        }
        None
    }

    fn version(&self, text: &str) -> Option<String> {
        let rest = text.lines().find_map(|line| line.trim().strip_prefix("HPL-MxP-NVIDIA "))?;
        Some(rest.split_whitespace().next()?.to_owned())
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let mut figures = OutputFigures::new("hpl-mxp", self.version(text));
        let mut sizes =
            lines(text).filter(|line| line.starts_with("N =") && line.contains("NPROW ="));
        let size =
            sizes.next().ok_or_else(|| "it has no line with N, NB, NPROW and NPCOL".to_owned())?;
        if sizes.next().is_some_and(|other| other != size) {
            return Err(RefusedOutput::from("it has several results".to_owned()));
        }
        let mut config = figures.config();
        [config.n, config.nb, config.p, config.q] =
            ["N", "NB", "NPROW", "NPCOL"].map(|name| value(size, name));
        // Nothing else in the output depends on N and NB; N is a multiple of NB.
        let is_multiple = config.n.zip(config.nb).is_some_and(|(n, nb)| nb > 0 && n % nb == 0);
        if !is_multiple {
            config.n = None;
            config.nb = None;
        }
        let residual =
            lines(text).find(|line| line.starts_with("||Ax-b||_oo") && line.contains("......"));
        let mut validity = Validity::valid();
        match residual.map(|line| line.split_whitespace().next_back()) {
            Some(Some("PASSED")) => {}
            Some(Some("FAILED")) => {
                validity.mark_invalid("residual check FAILED: x is not a solution")
            }
            _ => validity.mark_suspect("no residual was printed: x is not verified"),
        }
        let devices = config.p.zip(config.q).map(|(p, q)| (p * q) as f64);
        let devices =
            devices.ok_or_else(|| "the numbers of its process grid cannot be read".to_owned())?;
        for (label, name) in RATES {
            let mut found = lines(text).filter_map(|line| line.strip_prefix(label));
            let Some(line) = found.next() else { continue };
            if found.next().is_some_and(|other| other != line) {
                return Err(RefusedOutput::from(format!("it has {label:?} twice")));
            }
            let numbers = line.split_once(", per GPU =").and_then(|(rate, rest)| {
                let each = rest.split_whitespace().next()?;
                Some((rate.trim().parse::<f64>().ok()?, each.parse::<f64>().ok()?))
            });
            let (rate, each) =
                numbers.ok_or_else(|| format!("the rates of {label:?} cannot be read"))?;
            let is_sum = (rate / (each * devices) - 1.0).abs() < 1e-3;
            if !printed::can_be_figure(rate) || !is_sum {
                return Err(RefusedOutput::from(format!(
                    "the rate of {label:?} contradicts the rates per device"
                )));
            }
            let figure = OutputFigure {
                of: COMPUTE,
                name: name.to_owned(),
                unit: Unit::FlopsPerSecond,
                value: rate * 1e9,
                quoted: QuotedStatistic::Single,
            };
            figures.push_with_validity(figure, &config, validity.clone())?;
        }
        Ok(figures.finish(None))
    }
}

/// Returns the figures of rocHPL-MxP, whose output is in the form of HPL.
pub(crate) fn mixed_figures(output: &HplOutput) -> Result<PrintedRun, String> {
    let mut figures = OutputFigures::new("rochpl-mxp", None);
    for row in &output.rows {
        let mut config = figures.config();
        config.n = Some(row.n as u64);
        config.nb = Some(row.nb as u64);
        config.p = Some(row.p as u64);
        config.q = Some(row.q as u64);
        let mut validity = Validity::valid();
        match row.passed {
            Some(true) => {}
            Some(false) => validity.mark_invalid("residual check FAILED: x is not a solution"),
            None => validity.mark_suspect("no residual was printed: x is not verified"),
        }
        if let Some(reason) = output.incomplete_reason() {
            validity.mark_suspect(reason);
        }
        let figure = OutputFigure {
            of: COMPUTE,
            name: RATES[0].1.to_owned(),
            unit: Unit::FlopsPerSecond,
            value: row.rate.0,
            quoted: QuotedStatistic::Single,
        };
        figures.push_with_validity(figure, &config, validity)?;
    }
    Ok(figures.finish(None))
}

/// Returns the complete lines of a text.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    printed::whole_lines(text).lines().map(str::trim)
}

/// Returns the value of a name in the line of sizes: `N = 1024, NB = 128, NPROW = 1, NPCOL = 1`.
fn value(sizes: &str, name: &str) -> Option<u64> {
    let pairs = sizes.split(',').filter_map(|pair| pair.split_once('='));
    let mut own = pairs.filter(|(key, _)| key.trim() == name);
    own.next()?.1.trim().parse().ok()
}
