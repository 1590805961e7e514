//! Finds xhpl, or the HPL inside hpcc, and runs it with its input written, its ranks bound, its output
//! read. Everything happens in a private folder.

use super::{Grid, PlacedReference, RankLayout};
use crate::dat;
use crate::options::HplOptions;
use crate::output::{self, HplOutput};
use nodegauge_machine::Topology;
use nodegauge_measure::Failure;
use nodegauge_os::describe_launched;
use nodegauge_placement::Request;
use nodegauge_placement::ranks::{RankRequest, plan_ranks};
use nodegauge_toolchain::blas::probe::threads_environment;
use nodegauge_toolchain::mpi::{HostRanks, MpiProgram};
use nodegauge_toolchain::{Job, Scratch, ToolchainError};
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
        let folder = Scratch::new()?;
        let write = |file: &str, text: &str| {
            std::fs::write(folder.path().join(file), text).map_err(|cause| {
                Failure::missing(format!("cannot use {file} in the private folder: {cause}"))
            })
        };
        let input = match self.kind {
            ReferenceKind::Xhpl => "HPL.dat",
            ReferenceKind::Hpcc => "hpccinf.txt",
        };
        write(input, &dat::write(n, nbs, grids))?;
        let rankfile = folder.path().join("ranks");
        let (words, ranks) = self.words(topology, &rankfile.display().to_string());
        if let Some(ranks) = ranks {
            write("ranks", &ranks)?;
        }
        let program = self.program.path.display().to_string();
        let command = self.program.launcher.command.with(words).with([program]);
        let environment = threads_environment(self.threads_a_rank());
        let in_words = command.to_string();
        let job = Job { command, folder: folder.path().to_owned(), environment, limit: LIMIT };
        let ended = nodegauge_toolchain::run(&job, interrupted)?;
        let status = match job.status(&ended) {
            Err(ToolchainError::Interrupted) => return Ok(None),
            status => status?,
        };
        let read = match self.kind {
            ReferenceKind::Xhpl => output::read(&ended.stdout),
            // Appended to as it goes on; what is there counts.
            ReferenceKind::Hpcc => {
                let file = folder.path().join("hpccoutf.txt");
                output::read(&std::fs::read_to_string(file).unwrap_or_default())
            }
        };
        if !read.rows.is_empty() && status.success() {
            return Ok(Some((read, in_words)));
        }
        let errors = [read.errors, output::read(&ended.stderr).errors].concat();
        let last = || {
            let speaks = |line: &&str| !line.trim().is_empty() && !line.starts_with("---");
            ended.stderr.lines().rev().find(speaks)
        };
        let said = errors.first().map(String::as_str).or_else(last);
        let said = said.map(|line| format!(":\n{line}")).unwrap_or_default();
        let hint = if errors.iter().any(|error| error.starts_with("Need at least")) {
            "each rank was started alone, as by the launcher of another MPI than the program's: give its own with --launcher"
        } else {
            "run it by hand in a folder with the input that --hpl-dat-only writes"
        };
        let how = describe_launched(status);
        Err(Failure::missing(format!("{in_words} gave no result ({how}){said}")).hint(hint))
    }

    /// Threads of each rank.
    fn threads_a_rank(&self) -> usize {
        self.plan.ranks.first().map_or(1, |rank| rank.placement.threads.len())
    }

    /// The launcher's words and the content of a rank file.
    fn words(&self, topology: &Topology, rankfile: &str) -> (Vec<String>, Option<String>) {
        let plan = &self.plan;
        if !self.hosts.is_empty() {
            // The plan is for one host; every host gets the like.
            let (each, threads) = (plan.ranks.len(), Some(self.threads_a_rank()));
            let kind = self.program.launcher.kind;
            let words = HostRanks { hosts: &self.hosts, each, threads }.arguments(kind);
            return (words.into_iter().chain(self.program.root_word()).collect(), None);
        }
        self.program.words(plan, topology, rankfile)
    }
}
