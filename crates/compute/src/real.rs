//! The real HPL: xhpl, or the HPL inside hpcc, with its input written, its ranks bound, its output
//! read. Everything happens in a private folder.

use crate::dat::{self, Input};
use crate::output::{self, Output, Row};
use nodegauge_machine::Topology;
use nodegauge_measure::record::{Category, Measurement, Status, Validity};
use nodegauge_measure::stats::{Better, Summary};
use nodegauge_os::describe_launched;
use nodegauge_placement::RankPlan;
use nodegauge_placement::emit::{self, OpenMpi, OpenMpiVersion};
use nodegauge_toolchain::mpi::{self, HostRanks, LauncherKind, MpiError, MpiLauncher, MpiLibrary};
use nodegauge_toolchain::{CommandLine, Job, Scratch, ToolchainError};
use serde_json::{Map, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which program it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// HPL alone: HPL.dat, results on standard output.
    Xhpl,
    /// The HPC Challenge: hpccinf.txt, results in hpccoutf.txt.
    Hpcc,
}

impl Kind {
    /// By the program's name.
    pub fn of(program: &Path) -> Self {
        let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("hpcc") { Self::Hpcc } else { Self::Xhpl }
    }

    /// In records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Xhpl => "xhpl",
            Self::Hpcc => "hpcc",
        }
    }

    fn input(self) -> &'static str {
        match self {
            Self::Xhpl => "HPL.dat",
            Self::Hpcc => "hpccinf.txt",
        }
    }
}

/// Why the real HPL gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// There is no such program.
    #[error(
        "there is no program {0:?}\nhint: give the path of an xhpl or hpcc, e.g. --xhpl /usr/bin/hpcc of Debian's package hpcc"
    )]
    NoProgram(PathBuf),
    /// No launcher for it.
    #[error(transparent)]
    Mpi(#[from] MpiError),
    /// It could not be run, or was stopped.
    #[error(transparent)]
    Program(#[from] ToolchainError),
    /// A file of its folder.
    #[error("cannot use {file} in the private folder: {cause}")]
    File {
        /// Which.
        file: &'static str,
        /// Why.
        cause: std::io::Error,
    },
    /// It ended without a result.
    #[error("{command} gave no result ({how}){said}\nhint: {hint}")]
    Nothing {
        /// The whole command.
        command: String,
        /// Exit status or signal.
        how: String,
        /// What it said, on lines of its own.
        said: String,
        /// What may help.
        hint: &'static str,
    },
}

/// A real HPL that can be run.
#[derive(Debug)]
pub struct Real {
    program: PathBuf,
    kind: Kind,
    /// The MPI that it names.
    pub library: Option<MpiLibrary>,
    /// Who starts its ranks.
    pub launcher: MpiLauncher,
    /// Hosts; empty for this node, or the hosts of a job.
    hosts: Vec<String>,
    as_root: bool,
}

impl Real {
    /// Looks at the program and finds its launcher.
    ///
    /// # Errors
    /// No such program, or none that starts its ranks.
    pub fn find(
        program: &Path,
        launcher: Option<&CommandLine>,
        hosts: &[String],
        as_root: bool,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Self, RealError> {
        let found = program
            .to_str()
            .and_then(nodegauge_toolchain::which)
            .and_then(|path| path.canonicalize().ok());
        let Some(path) = found else { return Err(RealError::NoProgram(program.to_owned())) };
        let library = mpi::library_of_program(&path);
        let launcher = mpi::launcher_for(&path, library.as_ref(), launcher, interrupted)?;
        Ok(Self {
            kind: Kind::of(program),
            program: path,
            library,
            launcher,
            hosts: hosts.to_vec(),
            as_root,
        })
    }

    /// Which program it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Runs it once with `input` on the ranks of `plan`.
    ///
    /// # Errors
    /// When it cannot be started, was killed, or prints no result.
    pub fn run(
        &self,
        input: &Input,
        plan: &RankPlan,
        topology: &Topology,
        limit: Duration,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(Output, String), RealError> {
        let folder = Scratch::new()?;
        let write = |file: &'static str, text: &str| {
            std::fs::write(folder.path().join(file), text)
                .map_err(|cause| RealError::File { file, cause })
        };
        write(self.kind.input(), &dat::write(input))?;
        let rankfile = folder.path().join("ranks");
        let (words, ranks) = self.words(plan, topology, &rankfile.display().to_string());
        if let Some(ranks) = ranks {
            write("ranks", &ranks)?;
        }
        let program = self.program.display().to_string();
        let command = self.launcher.command.with(words).with([program]);
        let threads = plan.ranks.first().map_or(1, |rank| rank.placement.threads.len()).to_string();
        let environment =
            ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS"]
                .map(|name| (name.to_owned(), Some(threads.clone())))
                .to_vec();
        let job =
            Job { command: command.clone(), folder: folder.path().to_owned(), environment, limit };
        let output = nodegauge_toolchain::run(&job, interrupted)?;
        let text = match self.kind {
            Kind::Xhpl => output.stdout.clone(),
            // Appended to as it goes on; what is there counts.
            Kind::Hpcc => {
                std::fs::read_to_string(folder.path().join("hpccoutf.txt")).unwrap_or_default()
            }
        };
        let read = output::read(&text);
        let status = job.status(&output)?;
        if read.rows.is_empty() || !status.success() {
            let errors = if read.errors.is_empty() {
                output::read(&output.stderr).errors
            } else {
                read.errors.clone()
            };
            let last = output
                .stderr
                .lines()
                .rev()
                .filter(|line| !line.trim().is_empty() && !line.starts_with("---"));
            let said = match errors.first() {
                Some(error) => format!(":\n{error}"),
                None => last.take(1).map(|line| format!(":\n{line}")).collect(),
            };
            let alone =
                read.errors.iter().chain(&errors).any(|error| error.starts_with("Need at least"));
            let hint = if alone {
                "each rank was started alone, as by the launcher of another MPI than the program's: give its own with --launcher"
            } else {
                "run it by hand in a folder with the input that --hpl-dat-only writes"
            };
            return Err(RealError::Nothing {
                command: command.to_string(),
                how: describe_launched(status),
                said,
                hint,
            });
        }
        Ok((read, command.to_string()))
    }

    /// The launcher's words and the content of a rank file.
    fn words(
        &self,
        plan: &RankPlan,
        topology: &Topology,
        rankfile: &str,
    ) -> (Vec<String>, Option<String>) {
        let ranks = plan.ranks.len();
        let as_root = || (self.as_root).then(|| OpenMpi::AS_ROOT.to_owned());
        if !self.hosts.is_empty() {
            // The plan is for one host; every host gets the like.
            let threads = plan.ranks.first().map_or(1, |rank| rank.placement.threads.len());
            let ranks = HostRanks { hosts: &self.hosts, each: ranks, threads: Some(threads) };
            let words = ranks.arguments(self.launcher.kind);
            let root = (self.launcher.kind == LauncherKind::OpenMpi).then(as_root).flatten();
            return (words.into_iter().chain(root).collect(), None);
        }
        match self.launcher.kind {
            LauncherKind::OpenMpi => {
                let old = self.launcher.major().is_none_or(|major| major < 5);
                let version = if old { OpenMpiVersion::V4 } else { OpenMpiVersion::V5 };
                let emitted = emit::openmpi(plan, topology, version);
                let words = emitted.args(rankfile).into_iter().chain(as_root()).collect();
                (words, emitted.rankfile)
            }
            LauncherKind::Hydra => (emit::mpich(plan), None),
            LauncherKind::Slurm => (emit::slurm(plan), None),
        }
    }
}

/// Results as measurements: one a combination of N, NB, P, Q, best first; equal ones are samples.
pub fn measurements(
    rows: &[Row],
    engine: &str,
    version: Option<&str>,
    command: Option<&str>,
) -> Vec<Measurement> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        let key = |r: &Row| (r.n, r.nb, r.p, r.q, r.variant.clone());
        match groups.iter_mut().find(|group| key(group[0]) == key(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    let best = |group: &[&Row]| group.iter().map(|row| row.rate).fold(0.0, f64::max);
    groups.sort_by(|a, b| best(b).total_cmp(&best(a)));
    groups.iter().map(|group| measurement(group, engine, version, command)).collect()
}

fn measurement(
    group: &[&Row],
    engine: &str,
    version: Option<&str>,
    command: Option<&str>,
) -> Measurement {
    let row = group.iter().copied().max_by(|a, b| a.rate.total_cmp(&b.rate)).unwrap_or(group[0]);
    let failed = group.iter().any(|row| row.passed == Some(false));
    let mut config = Map::new();
    for (key, value) in [
        ("engine", json!(engine)),
        ("version", json!(version)),
        ("command", json!(command)),
        ("variant", json!(row.variant)),
        ("n", json!(row.n)),
        ("nb", json!(row.nb)),
        ("p", json!(row.p)),
        ("q", json!(row.q)),
        ("seconds", json!(row.seconds)),
        ("formula", json!(crate::result::RATING_FORMULA)),
        (
            "residual",
            json!({ "value": row.residual, "threshold": crate::residual::THRESHOLD,
            "formula": crate::result::RESIDUAL_FORMULA }),
        ),
    ] {
        if !value.is_null() {
            config.insert(key.to_owned(), value);
        }
    }
    let samples: Vec<f64> =
        if failed { Vec::new() } else { group.iter().map(|row| row.rate).collect() };
    let mut validity = Validity::valid();
    if failed {
        validity.add(Status::Invalid, "its residual check FAILED: x is no solution");
    } else if group.iter().any(|row| row.passed.is_none()) {
        validity
            .add(Status::Suspect, "no residual was printed, so nothing says that x is a solution");
    }
    Measurement {
        gauge: "compute".into(),
        test: "hpl".into(),
        name: "rating".into(),
        unit: nodegauge_measure::Unit::FlopsPerSecond,
        value: (!failed).then_some(row.rate),
        summary: Summary::of(&samples, Better::Higher),
        samples,
        disturbed: Vec::new(),
        regimes: Vec::new(),
        config,
        quoted: nodegauge_measure::record::Quoted::Best,
        traffic: None,
        category: Category::Reference,
        limit: None,
        validity,
    }
}

impl From<RealError> for nodegauge_measure::Failure {
    fn from(error: RealError) -> Self {
        Self::missing(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_measurements_best_first_and_failed_ones_have_no_value() {
        let rows = output::read(include_str!("../tests/outputs/three-nb.txt")).rows;
        let made = measurements(&rows, "xhpl", Some("2.3"), None);
        assert_eq!(made.len(), 3);
        assert_eq!(made[0].config["nb"], 192);
        assert_eq!(made[0].value, Some(89.775e9));
        assert!(made.iter().all(|m| m.category == Category::Reference));
        let rows = output::read(include_str!("../tests/outputs/failed.txt")).rows;
        let failed = &measurements(&rows, "xhpl", None, None)[0];
        assert_eq!((failed.value, failed.validity.status), (None, Status::Invalid));
    }

    #[test]
    fn a_result_without_residual_is_doubted() {
        let rows = output::read(
            "WR11C2R4        4000   192     1     2               0.56             7.6559e+01\n",
        )
        .rows;
        assert_eq!(measurements(&rows, "xhpl", None, None)[0].validity.status, Status::Suspect);
    }
}
