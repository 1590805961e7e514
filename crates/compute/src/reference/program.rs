//! Runs of xhpl or of the HPL in hpcc: finding the program, placing the ranks, writing the input file and reading the
//! output.

use super::{Grid, PlacedReferenceProgram, RankLayout};
use crate::dat;
use crate::options::HplOptions;
use crate::output::{self, HplOutput};
use nodegauge_machine::Topology;
use nodegauge_measure::Failure;
use nodegauge_placement::PlacementRequest;
use nodegauge_placement::ranks::{RankRequest, plan_ranks};
use nodegauge_toolchain::blas::probe::threads_environment;
use nodegauge_toolchain::mpi::{HostRanks, MpiProgram, RankPlaces};
use nodegauge_toolchain::program::{self, InputFile, ProgramJob, WorkingFolder};
use nodegauge_toolchain::{CommandLine, ToolchainError};
use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

/// Maximum time of a run; it is long because hpcc also runs other benchmarks.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Kind of reference program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReferenceProgramKind {
    /// HPL alone; reads HPL.dat and prints the results to standard output.
    Xhpl,
    /// HPC Challenge, which includes HPL; reads hpccinf.txt and writes the results to hpccoutf.txt.
    Hpcc,
}

impl ReferenceProgramKind {
    /// Returns the kind of a program, derived from its file name.
    fn from_program(program: &Path) -> Self {
        let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("hpcc") { Self::Hpcc } else { Self::Xhpl }
    }

    /// Returns the name of the program as written in records.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Xhpl => "xhpl",
            Self::Hpcc => "hpcc",
        }
    }
}

impl PlacedReferenceProgram {
    /// Finds the program and the launcher, and places the ranks; `None` if no reference program is requested.
    ///
    /// # Errors
    /// Fails if the program or its launcher is missing, or if the ranks do not fit.
    pub(crate) fn find(
        topology: &Topology,
        layout: RankLayout,
        options: &HplOptions,
    ) -> Result<Option<Self>, Failure> {
        let Some(asked) = &options.reference else { return Ok(None) };
        let request = RankRequest {
            ranks: layout.ranks as u32,
            threads: Some(layout.threads_per_rank as u32),
            all_threads: PlacementRequest::default(),
            ..RankRequest::default()
        };
        let plan = plan_ranks(topology, &request)?;
        let hint =
            "give the path of an xhpl or hpcc, e.g. --xhpl /usr/bin/hpcc (Debian package hpcc)";
        let launcher = asked.launcher.as_ref();
        let program = MpiProgram::find(&asked.program, launcher, asked.allow_root, hint)?;
        let kind = ReferenceProgramKind::from_program(&asked.program);
        Ok(Some(Self { kind, program, hosts: options.ranks.hosts.clone(), plan, layout }))
    }

    /// Runs the program once for all combinations of NB and grids. Returns its output and the command, or `None` if the
    /// user interrupted the run.
    ///
    /// Fails if the program cannot be started, takes too long, or prints no result.
    pub(super) fn run(
        &self,
        n: usize,
        nbs: &[usize],
        grids: &[Grid],
        topology: &Topology,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<(HplOutput, String)>, Failure> {
        let name = match self.kind {
            ReferenceProgramKind::Xhpl => "HPL.dat",
            ReferenceProgramKind::Hpcc => "hpccinf.txt",
        };
        let input = InputFile { name, text: dat::format_input(n, nbs, grids, &n.to_string()) };
        let command = CommandLine::new(self.program.path.display().to_string(), []);
        let run = ProgramJob::new(command, LIMIT)
            .with_launcher(self.program.launch(self.places(topology)))
            .with_folder(WorkingFolder::Private(vec![input]))
            .with_environment(threads_environment(self.threads_per_rank()));
        let ended = program::run(&run, interrupted)?;
        let status = match ended.status() {
            Err(ToolchainError::Interrupted) => return Ok(None),
            status => status?,
        };
        let read = match self.kind {
            ReferenceProgramKind::Xhpl => output::read(&ended.stdout),
            // hpcc appends to the file during the run, so the file may contain results even if hpcc failed.
            ReferenceProgramKind::Hpcc => {
                output::read(ended.file("hpccoutf.txt").unwrap_or_default())
            }
        };
        if !read.rows.is_empty() && status.success() {
            return Ok(Some((read, ended.command())));
        }
        let errors = [read.errors, output::read(&ended.stderr).errors].concat();
        let hint = if errors.iter().any(|error| error.starts_with("Need at least")) {
            "each rank ran alone: the launcher probably belongs to another MPI than the program; \
             give the launcher of the program's MPI with --launcher"
        } else {
            "run the program manually in a directory with the input file that --hpl-dat-only writes"
        };
        Err(ended.missing_result_error(errors.first().map(String::as_str), hint).into())
    }

    /// Returns the number of threads of each rank.
    fn threads_per_rank(&self) -> usize {
        self.plan.ranks.first().map_or(1, |rank| rank.placement.threads.len())
    }

    /// Returns the places of the ranks.
    fn places<'a>(&'a self, topology: &'a Topology) -> RankPlaces<'a> {
        if self.hosts.is_empty() {
            return RankPlaces::Planned { plan: Cow::Borrowed(&self.plan), topology };
        }
        // The plan describes one host; all hosts use the same numbers of ranks and threads.
        let each = self.plan.ranks.len();
        let threads = Some(self.threads_per_rank());
        RankPlaces::Hosts(HostRanks { hosts: &self.hosts, per_host: each, threads })
    }
}
