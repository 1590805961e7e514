//! The user's own xhpcg, on the same grid and CPUs, in a private folder.

use super::TEST;
use super::output::HpcgOutput;
use super::problem::DomainLayout;
use crate::GAUGE;
use crate::config::HpcgConfig;
use nodegauge_gauge::Site;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::{Failure, Notice, NoticeId};
use nodegauge_placement::{PlacementRequest, RankPlan, RankRequest, plan_ranks};
use nodegauge_toolchain::mpi::{MpiProgram, RankPlaces};
use nodegauge_toolchain::program::{self, Folder, ProgramJob};
use nodegauge_toolchain::{CommandLine, ToolchainError};
use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

/// Longest time for a run.
const LIMIT: Duration = Duration::from_secs(24 * 3600);
/// Largest relative difference of residuals of the same iterations, summed in another order.
const ALIKE: f64 = 1e-3;

/// The reference program, as asked.
#[derive(Debug, Clone, PartialEq)]
pub struct XhpcgOptions {
    /// An xhpcg of any MPI.
    pub program: PathBuf,
    /// Launcher of its ranks.
    pub launcher: Option<CommandLine>,
    /// True if launchers that refuse root are told to run all the same.
    pub allow_root: bool,
    /// Seconds of its timed phase: one set of iterations at least.
    pub seconds: u32,
}

/// An xhpcg with its ranks placed.
#[derive(Debug)]
pub(crate) struct PlacedXhpcg {
    program: MpiProgram,
    plan: RankPlan,
    layout: DomainLayout,
    seconds: u32,
}

impl PlacedXhpcg {
    /// Finds it and its launcher; a rank for each domain.
    ///
    /// # Errors
    /// When there is no such program, no launcher for it, or no room for its ranks.
    pub fn find(site: &Site, layout: DomainLayout, asked: &XhpcgOptions) -> Result<Self, Failure> {
        let request = RankRequest {
            ranks: layout.count() as u32,
            together: PlacementRequest::default(),
            ..RankRequest::default()
        };
        let plan = plan_ranks(&site.topology, &request)?;
        let hint = "give the path of an xhpcg that you have built, e.g. --xhpcg bin/xhpcg";
        let program =
            MpiProgram::find(&asked.program, asked.launcher.as_ref(), asked.allow_root, hint)?;
        Ok(Self { program, plan, layout, seconds: asked.seconds })
    }

    /// Runs it; its figures. `None` when the user ended it.
    ///
    /// # Errors
    /// When it cannot be started, or writes no result.
    pub fn run(
        &self,
        site: &Site,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<Measurement>>, Failure> {
        let ([x, y, z], [px, py, pz]) = (self.layout.local, self.layout.domains);
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
        // One domain a rank, as here: a rank with threads of its own is another layout.
        let environment = vec![("OMP_NUM_THREADS".to_owned(), Some("1".to_owned()))];
        let run = ProgramJob::new(command, LIMIT)
            .launched(self.program.launch(ranks))
            .within(Folder::Private(Vec::new()))
            .with_environment(environment);
        let ended = program::run(&run, interrupted)?;
        let status = match ended.status() {
            Err(ToolchainError::Interrupted) => return Ok(None),
            status => status?,
        };
        let read = ended.files.iter().find_map(|file| HpcgOutput::read(&file.text));
        match read.filter(|_| status.success()) {
            Some(output) => Ok(Some(output.measurements(Some(&ended.command())))),
            None => {
                let hint = "run it by hand, or give another MPI's launcher with --launcher";
                Err(ended.no_result(None, hint).into())
            }
        }
    }
}

/// Compares the two: ratings, and residuals after the same number of iterations.
pub(crate) fn compare(measurements: &[Measurement]) -> Option<Notice> {
    let rating = |engine: &str| {
        let is_of =
            |m: &&Measurement| m.read_config::<HpcgConfig>().engine.as_deref() == Some(engine);
        let own = |m: &&Measurement| m.test == TEST && m.name == "rating";
        let found = measurements.iter().filter(own).find(is_of)?;
        Some((found.value?, found.read_config::<HpcgConfig>()))
    };
    let ((native, config), (theirs, of_theirs)) = (rating("native")?, rating("xhpcg")?);
    let apart = (config.residual? / of_theirs.residual? - 1.0).abs();
    let same = config.iterations == of_theirs.iterations && apart <= ALIKE;
    let residuals = if same {
        format!("residuals behind {} iterations agree within {apart:.0e}", config.iterations?)
    } else {
        format!(
            "but behind {} and {} iterations residuals differ: {:.3e} and {:.3e}",
            config.iterations?, of_theirs.iterations?, config.residual?, of_theirs.residual?
        )
    };
    let text = format!("native over xhpcg: {:.3}; {residuals}", native / theirs);
    Some(Notice::new(NoticeId::Reference, GAUGE, text))
}
