//! Finds xhpl, or the HPL inside hpcc, places its ranks, writes its input and reads its output.

use super::{Grid, PlacedReference, RankLayout};
use crate::dat;
use crate::options::HplOptions;
use crate::output::{self, HplOutput};
use nodegauge_machine::Topology;
use nodegauge_measure::Failure;
use nodegauge_placement::Request;
use nodegauge_placement::ranks::{RankRequest, plan_ranks};
use nodegauge_toolchain::blas::probe::threads_environment;
use nodegauge_toolchain::mpi::{HostRanks, MpiProgram, RankPlaces};
use nodegauge_toolchain::program::{self, Folder, InputFile, Run};
use nodegauge_toolchain::{CommandLine, ToolchainError};
use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

/// Longest time for a run: hpcc does much beside HPL.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Which program it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReferenceKind {
    /// HPL alone: HPL.dat, results on standard output.
    Xhpl,
    /// The HPC Challenge: hpccinf.txt, results in hpccoutf.txt.
    Hpcc,
}

impl ReferenceKind {
    /// By the program's name.
    fn of(program: &Path) -> Self {
        let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("hpcc") { Self::Hpcc } else { Self::Xhpl }
    }

    /// In records.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Xhpl => "xhpl",
            Self::Hpcc => "hpcc",
        }
    }
}

impl PlacedReference {
    /// Finds the program and its launcher, and places its ranks; `None` when none is asked for.
    ///
    /// # Errors
    /// When there is no such program, no launcher for it, or no room for its ranks.
    pub(crate) fn find(
        topology: &Topology,
        layout: RankLayout,
        options: &HplOptions,
    ) -> Result<Option<Self>, Failure> {
        let Some(asked) = &options.reference else { return Ok(None) };
        let request = RankRequest {
            ranks: layout.ranks as u32,
            threads: Some(layout.threads_a_rank as u32),
            together: Request::default(),
            ..RankRequest::default()
        };
        let plan = plan_ranks(topology, &request)?;
        let hint =
            "give the path of an xhpl or hpcc, e.g. --xhpl /usr/bin/hpcc of Debian's package hpcc";
        let launcher = asked.launcher.as_ref();
        let program = MpiProgram::find(&asked.program, launcher, asked.allow_root, hint)?;
        let kind = ReferenceKind::of(&asked.program);
        Ok(Some(Self { kind, program, hosts: options.ranks.hosts.clone(), plan, layout }))
    }

    /// Runs it once for all combinations; what it printed, and the command. `None` when the user ended it.
    ///
    /// # Errors
    /// When it cannot be started, takes too long, or prints no result.
    pub(super) fn run(
        &self,
        (n, nbs, grids): (usize, &[usize], &[Grid]),
        topology: &Topology,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<(HplOutput, String)>, Failure> {
        let name = match self.kind {
            ReferenceKind::Xhpl => "HPL.dat",
            ReferenceKind::Hpcc => "hpccinf.txt",
        };
        let input = InputFile { name, text: dat::write(n, nbs, grids) };
        let command = CommandLine::new(self.program.path.display().to_string(), []);
        let run = Run::new(command, LIMIT)
            .launched(self.program.launch(self.places(topology)))
            .within(Folder::Private(vec![input]))
            .with_environment(threads_environment(self.threads_a_rank()));
        let ended = program::run(&run, interrupted)?;
        let status = match ended.status() {
            Err(ToolchainError::Interrupted) => return Ok(None),
            status => status?,
        };
        let read = match self.kind {
            ReferenceKind::Xhpl => output::read(&ended.stdout),
            // Appended to as it goes on; what is there counts.
            ReferenceKind::Hpcc => output::read(ended.file("hpccoutf.txt").unwrap_or_default()),
        };
        if !read.rows.is_empty() && status.success() {
            return Ok(Some((read, ended.command())));
        }
        let errors = [read.errors, output::read(&ended.stderr).errors].concat();
        let hint = if errors.iter().any(|error| error.starts_with("Need at least")) {
            "each rank was started alone, as by the launcher of another MPI than the program's: give its own with --launcher"
        } else {
            "run it by hand in a folder with the input that --hpl-dat-only writes"
        };
        Err(ended.no_result(errors.first().map(String::as_str), hint).into())
    }

    /// Threads of each rank.
    fn threads_a_rank(&self) -> usize {
        self.plan.ranks.first().map_or(1, |rank| rank.placement.threads.len())
    }

    /// Places of the ranks.
    fn places<'a>(&'a self, topology: &'a Topology) -> RankPlaces<'a> {
        if self.hosts.is_empty() {
            return RankPlaces::Planned { plan: Cow::Borrowed(&self.plan), topology };
        }
        // The plan is for one host; every host gets the like.
        let each = self.plan.ranks.len();
        let threads = Some(self.threads_a_rank());
        RankPlaces::Hosts(HostRanks { hosts: &self.hosts, each, threads })
    }
}
