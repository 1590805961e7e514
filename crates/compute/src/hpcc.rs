//! Reader of hpccoutf.txt: the HPL result with its residual, and the summary of all tests.

use crate::{output, reference};
use nodegauge_gauge::outputs::{COMPUTE, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::record::{Measurement, QuotedStatistic};
use nodegauge_measure::{Unit, printed};

/// Reader of the output of HPCC.
pub(crate) struct HpccReader;

/// First words of the title, before the version.
const TITLE: &str = "This is the DARPA/DOE HPC Challenge Benchmark version ";
/// First line of the summary.
const SUMMARY: &str = "Begin of Summary section.";
/// Last lines of the summary and of the output.
const ENDS: [&str; 2] = ["End of Summary section.", "End of HPC Challenge tests."];

/// Rates of the summary: key, name, case, unit, factor.
const RATES: [(&str, &str, &str, Unit, f64); 19] = [
    ("HPL_Tflops", "hpl", "", Unit::FlopsPerSecond, 1e12),
    ("StarDGEMM_Gflops", "dgemm", "star", Unit::FlopsPerSecond, 1e9),
    ("SingleDGEMM_Gflops", "dgemm", "single", Unit::FlopsPerSecond, 1e9),
    ("MPIFFT_Gflops", "fft", "mpi", Unit::FlopsPerSecond, 1e9),
    ("StarFFT_Gflops", "fft", "star", Unit::FlopsPerSecond, 1e9),
    ("SingleFFT_Gflops", "fft", "single", Unit::FlopsPerSecond, 1e9),
    ("MPIRandomAccess_GUPs", "random_access", "mpi", Unit::OperationsPerSecond, 1e9),
    ("StarRandomAccess_GUPs", "random_access", "star", Unit::OperationsPerSecond, 1e9),
    ("SingleRandomAccess_GUPs", "random_access", "single", Unit::OperationsPerSecond, 1e9),
    ("PTRANS_GBs", "ptrans", "", Unit::BytesPerSecond, 1e9),
    ("StarSTREAM_Copy", "stream", "star, copy", Unit::BytesPerSecond, 1e9),
    ("StarSTREAM_Scale", "stream", "star, scale", Unit::BytesPerSecond, 1e9),
    ("StarSTREAM_Add", "stream", "star, add", Unit::BytesPerSecond, 1e9),
    ("StarSTREAM_Triad", "stream", "star, triad", Unit::BytesPerSecond, 1e9),
    ("SingleSTREAM_Copy", "stream", "single, copy", Unit::BytesPerSecond, 1e9),
    ("SingleSTREAM_Scale", "stream", "single, scale", Unit::BytesPerSecond, 1e9),
    ("SingleSTREAM_Add", "stream", "single, add", Unit::BytesPerSecond, 1e9),
    ("SingleSTREAM_Triad", "stream", "single, triad", Unit::BytesPerSecond, 1e9),
    ("RandomlyOrderedRingBandwidth_GBytes", "ring", "random", Unit::BytesPerSecond, 1e9),
];

impl Reader for HpccReader {
    fn program(&self) -> &'static str {
        "HPCC"
    }

    fn doubts(&self) -> &'static str {
        "no `End of Summary section.`: suspect; a residual of HPL that failed: invalid"
    }

    fn first_characters(&self) -> &'static str {
        "TBEH"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        match line {
            _ if line.starts_with(TITLE) => Some(RunMark::TITLE),
            _ if line == SUMMARY => Some(RunMark::once(1)),
            _ if line.starts_with("HPL_Tflops=") => Some(RunMark::once(2)),
            _ if line == ENDS[0] => Some(RunMark::weak(3)),
            _ => line.starts_with(ENDS[1]).then_some(RunMark::weak(4)),
        }
    }

    fn last_phase(&self) -> Option<u8> {
        Some(4)
    }

    fn enclosed_programs(&self) -> &'static [&'static str] {
        &["HPL", "STREAM"]
    }

    fn version(&self, text: &str) -> Option<String> {
        version(text)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let mut figures = OutputFigures::new("hpcc", version(text));
        let mut config = figures.config();
        config.processes = count(text, "CommWorldProcs")?;
        let table = output::read(text);
        let hpl: Vec<Measurement> = match table.rows[..] {
            [] => Vec::new(),
            _ => reference::engine_figures(&table, "hpcc"),
        };
        for (key, name, case, unit, factor) in RATES {
            let Some(value) = only(text, key)? else { continue };
            let mut own = config.clone();
            own.case = Some(case.to_owned()).filter(|case| !case.is_empty());
            if name == "hpl" {
                own.n = count(text, "HPL_N")?;
                let seconds = only(text, "HPL_time")?;
                contradiction(value * factor, own.n, seconds)?;
                let nb = count(text, "HPL_NB")?;
                // Nothing else in the summary depends on NB, P and Q.
                if let Some(row) = table.rows.iter().find(|row| Some(row.nb as u64) == nb) {
                    own.nb = nb;
                    own.p = Some(row.p as u64);
                    own.q = Some(row.q as u64);
                }
            }
            figures.push(
                OutputFigure {
                    of: COMPUTE,
                    name: name.to_owned(),
                    unit,
                    value: value * factor,
                    quoted: QuotedStatistic::Single,
                },
                &own,
            )?;
        }
        let is_ended = lines(text).any(|line| line == ENDS[0]);
        let mut run = figures.finish((!is_ended).then_some("the end of HPCC's summary is missing"));
        let failed = only(text, "Success")? == Some(0.0);
        for m in &mut run.measurements {
            if failed {
                m.validity.mark_invalid("HPCC reports that a test failed");
            }
        }
        run.measurements.splice(0..0, hpl);
        Ok(run)
    }
}

/// Returns the value of a key in the summary; `None` if the summary does not have the key.
fn only(text: &str, key: &str) -> Result<Option<f64>, String> {
    let mut found = lines(text).filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let Some(word) = found.next() else { return Ok(None) };
    if found.next().is_some_and(|other| other != word) {
        return Err(format!("its summary has {key} twice"));
    }
    let value = word.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    value.map(Some).ok_or_else(|| format!("the value of {key} cannot be read: {word:?}"))
}

/// Returns a whole number of the summary.
fn count(text: &str, key: &str) -> Result<Option<u64>, String> {
    Ok(only(text, key)?.map(|value| value as u64))
}

/// Returns the complete lines of a text.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    printed::whole_lines(text).lines().map(str::trim)
}

/// Returns the version in the title, or in the summary.
fn version(text: &str) -> Option<String> {
    if let Some(rest) = text.lines().find_map(|line| line.trim().strip_prefix(TITLE)) {
        return Some(rest.split_whitespace().next()?.to_owned());
    }
    let mut numbers = Vec::new();
    for key in ["VersionMajor=", "VersionMinor=", "VersionMicro="] {
        let number = text.lines().find_map(|line| line.trim().strip_prefix(key))?;
        numbers.push(number.parse::<u32>().ok()?.to_string());
    }
    Some(numbers.join("."))
}

/// Fails if the rate of HPL does not follow from N and the time of the solve.
fn contradiction(rate: f64, n: Option<u64>, seconds: Option<f64>) -> Result<(), String> {
    let (Some(n), Some(seconds)) = (n, seconds.filter(|seconds| *seconds > 0.0)) else {
        return Ok(());
    };
    let n = n as f64;
    let expected = n * n * (2.0 / 3.0 * n + 1.5) / seconds;
    if (rate / expected - 1.0).abs() < 0.01 {
        return Ok(());
    }
    Err("the rate of HPL in its summary does not follow from N and the time".to_owned())
}
