//! Runs of the user's xhpcg on the same grid and CPUs, in a private directory.

use super::TEST;
use super::output::HpcgOutput;
use crate::GAUGE;
use crate::config::HpcgConfig;
use nodegauge_gauge::MeasuredNode;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::{Failure, Notice, NoticeId};
use nodegauge_placement::{PlacementRequest, RankPlan, RankRequest, plan_ranks};
use nodegauge_solvers::hpcg::problem::DomainLayout;
use nodegauge_toolchain::mpi::{MpiProgram, RankPlaces};
use nodegauge_toolchain::program::{self, ProgramJob, WorkingFolder};
use nodegauge_toolchain::{CommandLine, ToolchainError};
use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum time of a run.
const LIMIT: Duration = Duration::from_secs(24 * 3600);
/// Maximum relative difference of residuals after the same number of iterations. Small differences result from the
/// order of summation.
const ALIKE: f64 = 1e-3;

/// Options of the reference program xhpcg.
#[derive(Debug, Clone, PartialEq)]
pub struct XhpcgOptions {
    /// Path of an xhpcg, built with any MPI.
    pub program: PathBuf,
    /// Launcher of the ranks.
    pub launcher: Option<CommandLine>,
    /// True to pass the option that permits running as root to launchers that would refuse.
    pub allow_root: bool,
    /// Duration of the timed phase in seconds; the phase has at least one set of iterations.
    pub seconds: u32,
}

/// Reference program xhpcg with placed ranks.
#[derive(Debug)]
pub(crate) struct PlacedXhpcg {
    program: MpiProgram,
    plan: RankPlan,
    layout: DomainLayout,
    seconds: u32,
}

impl PlacedXhpcg {
    /// Finds the program and the launcher, and places one rank per domain.
    ///
    /// # Errors
    /// Fails if the program or its launcher is missing, or if its ranks do not fit.
    pub fn find(
        site: &MeasuredNode,
        layout: DomainLayout,
        asked: &XhpcgOptions,
    ) -> Result<Self, Failure> {
        let request = RankRequest {
            ranks: layout.count() as u32,
            all_threads: PlacementRequest::default(),
            ..RankRequest::default()
        };
        let plan = plan_ranks(&site.topology, &request)?;
        let hint = "give the path of an xhpcg that you have built, e.g. --xhpcg bin/xhpcg";
        let program =
            MpiProgram::find(&asked.program, asked.launcher.as_ref(), asked.allow_root, hint)?;
        Ok(Self { program, plan, layout, seconds: asked.seconds })
    }

    /// Runs the program and returns its figures; empty if the user interrupted it.
    ///
    /// # Errors
    /// Fails if the program cannot be started or writes no result.
    pub fn run(
        &self,
        site: &MeasuredNode,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<Measurement>, Failure> {
        let [x, y, z] = self.layout.local;
        let [px, py, pz] = self.layout.domains;
        let arguments = [
            format!("--nx={x}"),
            format!("--ny={y}"),
            format!("--nz={z}"),
            format!("--rt={}", self.seconds),
            format!("--npx={px}"),
            format!("--npy={py}"),
            format!("--npz={pz}"),
        ];
        let command = CommandLine::new(self.program.path.display().to_string(), arguments);
        let plan = Cow::Borrowed(&self.plan);
        let ranks = RankPlaces::Planned { plan, topology: &site.topology };
        // A rank has one thread and one domain, as in the native run; several threads would change the layout.
        let environment = vec![("OMP_NUM_THREADS".to_owned(), Some("1".to_owned()))];
        let run = ProgramJob::new(command, LIMIT)
            .with_launcher(self.program.launch(ranks))
            .with_folder(WorkingFolder::Private(Vec::new()))
            .with_environment(environment);
        let ended = program::run(&run, interrupted)?;
        let status = match ended.status() {
            Err(ToolchainError::Interrupted) => return Ok(Vec::new()),
            status => status?,
        };
        let read = ended.files.iter().find_map(|file| HpcgOutput::read(&file.text));
        match read.filter(|_| status.success()) {
            Some(output) => Ok(output.measurements(Some(&ended.command()))),
            None => {
                let hint = "run the program manually, or give the launcher of the program's MPI \
                            with --launcher";
                Err(ended.missing_result_error(None, hint).into())
            }
        }
    }
}

/// Compares the first native rating with that of xhpcg, and the residuals of both.
pub(crate) fn comparison_notice(measurements: &[Measurement]) -> Option<Notice> {
    let mut natives = Vec::new();
    let mut reference = None;
    for m in measurements.iter().filter(|m| m.test == TEST && m.name == "rating") {
        let config: HpcgConfig = m.read_config();
        let rating = Rating { value: m.value?, config };
        match rating.config.engine.as_deref() {
            Some("native") => natives.push(rating),
            Some("xhpcg") => reference = Some(rating),
            _ => {}
        }
    }
    let reference = reference?;
    let native = natives.first()?;
    let apart = (native.config.residual? / reference.config.residual? - 1.0).abs();
    let iterations = native.config.iterations?;
    let same = native.config.iterations == reference.config.iterations && apart <= ALIKE;
    let residuals = if same {
        format!("residuals after {iterations} iterations agree within {apart:.0e}")
    } else {
        format!(
            "residuals after {iterations} and {} iterations differ: {:.3e} and {:.3e}",
            reference.config.iterations?, native.config.residual?, reference.config.residual?
        )
    };
    let text = format!(
        "native rating / rating of xhpcg (the reference code without tuning): {:.3}; {residuals}",
        native.value / reference.value
    );
    Some(Notice::new(NoticeId::Reference, GAUGE, text))
}

/// Rating of a program.
struct Rating {
    value: f64,
    config: HpcgConfig,
}
