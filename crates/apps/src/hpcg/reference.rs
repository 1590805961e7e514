//! The user's own xhpcg, on the same grid and CPUs, in a private folder.

use super::TEST;
use super::output::HpcgOutput;
use super::problem::Layout;
use crate::GAUGE;
use crate::config::HpcgConfig;
use nodegauge_gauge::Site;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::{Failure, Notice, NoticeId};
use nodegauge_os::describe_launched;
use nodegauge_placement::{RankPlan, RankRequest, Request, plan_ranks};
use nodegauge_toolchain::mpi::MpiProgram;
use nodegauge_toolchain::{CommandLine, Job, Scratch, ToolchainError};
use std::path::PathBuf;
use std::time::Duration;

/// Longest time for a run.
const LIMIT: Duration = Duration::from_secs(24 * 3600);
/// How far residuals of the same iterations, summed up in another order, may lie apart.
const ALIKE: f64 = 1e-3;

/// The reference program, as asked.
#[derive(Debug, Clone, PartialEq)]
pub struct XhpcgOptions {
    /// An xhpcg of any MPI.
    pub program: PathBuf,
    /// What starts its ranks.
    pub launcher: Option<CommandLine>,
    /// Whether launchers that refuse root are told to run all the same.
    pub allow_root: bool,
    /// Seconds of its timed phase: one set of iterations at least.
    pub seconds: u32,
}

/// An xhpcg with its ranks placed.
#[derive(Debug)]
pub(crate) struct PlacedXhpcg {
    program: MpiProgram,
    plan: RankPlan,
    layout: Layout,
    seconds: u32,
}

impl PlacedXhpcg {
    /// Finds it and its launcher; a rank for each domain.
    ///
    /// # Errors
    /// When there is no such program, no launcher for it, or no room for its ranks.
    pub fn find(site: &Site, layout: Layout, asked: &XhpcgOptions) -> Result<Self, Failure> {
        let request = RankRequest {
            ranks: layout.count() as u32,
            together: Request::default(),
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
        let folder = Scratch::new()?;
        let rankfile = folder.path().join("ranks");
        let shown = rankfile.display().to_string();
        let (words, ranks) = self.program.words(&self.plan, &site.topology, &shown);
        if let Some(ranks) = ranks {
            std::fs::write(&rankfile, ranks).map_err(|cause| {
                Failure::missing(format!("cannot use ranks in the private folder: {cause}"))
            })?;
        }
        let ([x, y, z], [px, py, pz]) = (self.layout.local, self.layout.domains);
        let arguments = [
            self.program.path.display().to_string(),
            format!("--nx={x}"),
            format!("--ny={y}"),
            format!("--nz={z}"),
            format!("--rt={}", self.seconds),
            format!("--npx={px}"),
            format!("--npy={py}"),
            format!("--npz={pz}"),
        ];
        let command = self.program.launcher.command.with(words).with(arguments);
        let in_words = command.to_string();
        // One domain a rank, as here: a rank with threads of its own is another layout.
        let environment = vec![("OMP_NUM_THREADS".to_owned(), Some("1".to_owned()))];
        let job = Job { command, folder: folder.path().to_owned(), environment, limit: LIMIT };
        let ended = nodegauge_toolchain::run(&job, interrupted)?;
        let status = match job.status(&ended) {
            Err(ToolchainError::Interrupted) => return Ok(None),
            status => status?,
        };
        let files = std::fs::read_dir(folder.path()).into_iter().flatten().flatten();
        let written = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        let read = written.filter_map(|text| HpcgOutput::read(&text)).next();
        match read.filter(|_| status.success()) {
            Some(output) => Ok(Some(output.measurements(Some(&in_words)))),
            None => {
                let last = ended.stderr.lines().rev().find(|line| !line.trim().is_empty());
                let said = last.map(|line| format!(":\n{line}")).unwrap_or_default();
                Err(Failure::missing(format!(
                    "{in_words} gave no result ({}){said}",
                    describe_launched(status),
                ))
                .hint("run it by hand, or give another MPI's launcher with --launcher"))
            }
        }
    }
}

/// How the two stand to each other: ratings, and residuals behind as many iterations.
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
    let residuals = match same {
        true => {
            format!("residuals behind {} iterations agree within {apart:.0e}", config.iterations?)
        }
        false => format!(
            "but behind {} and {} iterations residuals differ: {:.3e} and {:.3e}",
            config.iterations?, of_theirs.iterations?, config.residual?, of_theirs.residual?
        ),
    };
    let text = format!("native over xhpcg: {:.3}; {residuals}", native / theirs);
    Some(Notice::new(NoticeId::Reference, GAUGE, text))
}
