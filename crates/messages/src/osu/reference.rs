//! Interleaved runs of the OSU programs and the probe. Both are started in the same manner on the same CPUs, so that
//! the state of the machine is the same for both.

use crate::figures::result;
use crate::job::launch::Launch;
use crate::job::protocol::SizeRun;
use crate::options::MessageOptions;
use crate::osu::output::OsuOutput;
use crate::osu::rounds::{self, Round};
use crate::pattern::{Participants, Pattern};
use crate::probe::start::{
    IncompleteStart, OutputWatch, SUPERVISED_TIME_LIMIT, Starter, error_tail,
};
use crate::{GAUGE, MessagesError};
use nodegauge_measure::interference::CpuTimeReading;
use nodegauge_measure::progress::SharedObserver;
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::schedule::policy::OSU;
use nodegauge_measure::schedule::{RepetitionPolicy, RunLimits, Schedule};
use nodegauge_measure::{Notice, NoticeId, Observer, Outcome};
use nodegauge_os::describe_exit_status;
use nodegauge_toolchain::mpi::LauncherKind;
use nodegauge_toolchain::{ChildEnd, KillReason, ToolchainError, program};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Default number of valid rounds.
pub const DEFAULT_ROUNDS: u32 = 5;
/// Default time limit per size for the probe; OSU's programs have no time limit.
pub const SIZE_TIME_LIMIT: Duration = Duration::from_secs(3);
/// Time without output after which a program counts as hanging; the largest size takes seconds on slow links.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum depth of the search for programs below the given folder. OSU's build and installation use nested folders.
const DEPTH: usize = 7;

/// Paths of the programs of one OSU build, by pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OsuPrograms(Vec<(Pattern, PathBuf)>);

impl OsuPrograms {
    /// Searches a folder and its subfolders for the programs; `None` if there are no programs.
    pub fn find(folder: &Path) -> Option<Self> {
        let mut found = Self::default();
        found.search(folder, DEPTH);
        (!found.0.is_empty()).then_some(found)
    }

    /// Returns the path of the program for a pattern.
    pub fn program(&self, pattern: Pattern) -> Option<&Path> {
        self.0.iter().find(|(known, _)| *known == pattern).map(|(_, path)| path.as_path())
    }

    fn search(&mut self, folder: &Path, depth: usize) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                // Folders named `.libs` are skipped: their binaries must be started by scripts of the build, which set
                // the library paths.
                if depth > 0 && !name.starts_with('.') && !path.is_symlink() {
                    self.search(&path, depth - 1);
                }
            } else if let Some(pattern) = name.strip_prefix("osu_").and_then(|n| n.parse().ok())
                && self.program(pattern).is_none()
                && nodegauge_toolchain::which(&path).is_some()
            {
                self.0.push((pattern, path));
            }
        }
    }
}

/// Runs the OSU programs and the probe interleaved, until each pattern has `rounds` valid rounds or its part of `time`
/// is used up. The first round of a pattern is always run; it shows how long a round takes. Patterns for which no time
/// is left are left out with a notice. The failure of a program does not affect the figures of earlier patterns.
///
/// Fails if an OSU program does not run, or if the probe measures nothing, and no earlier pattern has a figure.
pub(crate) fn run(
    mpi: &Starter<'_>,
    programs: &OsuPrograms,
    launches: &[Launch],
    rounds: u32,
    time: Option<Duration>,
    observer: &mut dyn Observer,
) -> Result<Outcome, MessagesError> {
    let mut outcome = Outcome::default();
    let limits = time.map(|time| RunLimits::new(time, None));
    let mut left: usize = launches.iter().map(|launch| launch.patterns.len()).sum();
    let mut late = Vec::new();
    for launch in launches {
        for pattern in launch.patterns.iter().copied() {
            let share = limits.map(|limits| limits.next_part_time(left));
            left -= 1;
            if share.is_some_and(|share| share.is_zero()) && !outcome.measurements.is_empty() {
                late.push(pattern.to_string());
                continue;
            }
            let Some(program) = programs.program(pattern) else {
                let text = format!("osu_{pattern} is left out: the folder does not contain it");
                outcome.notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
                continue;
            };
            let launch = Launch { patterns: vec![pattern], ..launch.clone() };
            match run_interleaved(mpi, &launch, pattern, program, rounds, share, observer) {
                Ok(more) => outcome.extend(more),
                Err(error) if outcome.measurements.is_empty() => return Err(error),
                Err(error) => {
                    outcome.failure.get_or_insert(error.into());
                }
            }
            if outcome.is_interrupted() {
                return Ok(outcome);
            }
        }
    }
    if !late.is_empty() {
        outcome.notices.push(Notice::no_time_left(GAUGE, &late.join(", ")));
    }
    Ok(outcome)
}

/// Runs rounds of one pattern until enough of them are valid or the time is used up.
fn run_interleaved(
    mpi: &Starter<'_>,
    launch: &Launch,
    pattern: Pattern,
    program: &Path,
    rounds: u32,
    time: Option<Duration>,
    observer: &mut dyn Observer,
) -> Result<Outcome, MessagesError> {
    let observer = SharedObserver::new(observer);
    let mut measured: Vec<Round> = Vec::new();
    // There is one cell. If no round succeeds, the program is left out with a notice.
    let policy = RepetitionPolicy { takes_samples_despite_time: time.is_none(), ..OSU };
    let limits = RunLimits::new(time.unwrap_or(SUPERVISED_TIME_LIMIT), Some(rounds as usize));
    let mut schedule = Schedule::new(policy, limits, 1);
    let ended = schedule.run(&mut &observer, None, |turn| {
        let counting = rounds as usize - turn.remaining.unwrap_or_default();
        let mut observer = &observer;
        observer.begin_phase(&format!(
            "{} osu_{pattern} and the probe interleaved, round {} of {rounds}",
            mpi.transport.name(),
            counting + 1
        ));
        let round = round(mpi, launch, program, &mut observer)?;
        let sample = round.sample(measured.last());
        measured.push(round);
        Ok(vec![sample])
    });
    let mut outcome = Outcome::default();
    let stop = match ended {
        Ok(stop) => stop,
        Err(MessagesError::Interrupted) => StopReason::Interrupted,
        Err(error) if measured.is_empty() => return Err(error),
        Err(error) => {
            let text = format!("a round did not finish: {error}");
            outcome.notices.push(Notice::new(NoticeId::Failed, GAUGE, text));
            StopReason::Samples
        }
    };
    let counting = schedule.undisturbed_rounds();
    let all = measured.len();
    let left_out = measured.len() - counting.len();
    if left_out > 0 {
        let text = format!(
            "{pattern}: {left_out} of {all} rounds are not used, because the core-to-core \
             latency changed or other programs used the cpus"
        );
        outcome.notices.push(Notice::new(NoticeId::Reference, GAUGE, text));
    }
    if stop == StopReason::Budget {
        let text = format!(
            "{pattern}: {all} of {rounds} rounds were run, because another one would exceed \
             --budget"
        );
        outcome.notices.push(Notice::new(NoticeId::Budget, GAUGE, text));
    }
    outcome.stop = (stop == StopReason::Interrupted).then_some(stop);
    outcome.measurements = rounds::combined_figures(&measured, &counting, pattern);
    Ok(outcome)
}

/// Reading of the CPU time of some CPUs.
#[derive(Clone, Copy)]
struct WorkReading {
    /// CPU time and the instant of the reading; `None` if the CPU time of other programs cannot be distinguished.
    read: Option<(CpuTimeReading, Instant)>,
    cpus: usize,
}

impl WorkReading {
    /// Reads the CPU time of these CPUs if `own_ranks`: then it can be separated from the time of other programs.
    fn from_cpus(cpus: &[u32], own_ranks: bool) -> Self {
        let work = if own_ranks { CpuTimeReading::now(cpus) } else { None };
        Self { read: work.map(|work| (work, Instant::now())), cpus: cpus.len() }
    }

    /// Returns the share of the time that other programs used since an earlier reading; 0 if it is unknown.
    fn other_programs_share_since(self, earlier: Self) -> f64 {
        let Some(((before, began), (after, ended))) = earlier.read.zip(self.read) else {
            return 0.0;
        };
        let all = (ended - began).as_secs_f64() * self.cpus as f64;
        after.other_programs_time_since(before).0 / all.max(1e-3)
    }
}

/// Runs the OSU program and then the probe.
fn round(
    mpi: &Starter<'_>,
    launch: &Launch,
    program: &Path,
    observer: &mut dyn Observer,
) -> Result<Round, MessagesError> {
    let cpus: Vec<u32> = launch.places().into_iter().flatten().flatten().collect();
    // The ranks are started by Slurm's daemon, so their CPU time is not part of this process's CPU time.
    let own_ranks = mpi.transport.launcher_kind() != Some(LauncherKind::Slurm);
    let begin = WorkReading::from_cpus(&cpus, own_ranks);
    let output = osu(mpi, launch, program, observer)?;
    let between = WorkReading::from_cpus(&cpus, own_ranks);
    let options = MessageOptions { timing: output.timing(), ..mpi.options.clone() };
    // An incomplete round cannot be compared with the program's run.
    let mpi = Starter { options: &options, limits: None, ..*mpi };
    let report = mpi.run(launch, observer)?;
    let end = WorkReading::from_cpus(&cpus, own_ranks);
    if report.incomplete_start == Some(IncompleteStart::Interrupted) {
        return Err(MessagesError::Interrupted);
    }
    let sizes = &report.output.sizes;
    Ok(Round {
        probe_figures: result::figures(&mpi, &report),
        trips: sizes.iter().flat_map(SizeRun::trips).collect(),
        other_load: between
            .other_programs_share_since(begin)
            .max(end.other_programs_share_since(between)),
        osu: output,
    })
}

/// Runs an OSU program with the same launcher and on the same CPUs as the probe.
fn osu(
    mpi: &Starter<'_>,
    launch: &Launch,
    program: &Path,
    observer: &mut dyn Observer,
) -> Result<OsuOutput, MessagesError> {
    let path = program.display().to_string();
    let run = mpi.program_job(launch, &path, &arguments(mpi.options, launch))?;
    let mut printed = String::new();
    let mut silence = OutputWatch::new();
    let finished = program::run_with_listener(&run, &mut |lines| {
        if !lines.is_empty() {
            printed.push_str(lines);
            silence = OutputWatch::new();
        }
        silence.reason_to_kill(observer, TIMEOUT)
    })?;
    if finished.end == ChildEnd::Killed(KillReason::TimedOut) {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        return Err(MessagesError::no_output(&name, TIMEOUT.as_secs_f64(), ""));
    }
    let status = match finished.status() {
        Err(ToolchainError::Interrupted) => return Err(MessagesError::Interrupted),
        status => status?,
    };
    let all = format!("{printed}\n{}", finished.stderr);
    if all.contains("requires exactly two processes") || all.contains("requires at least two") {
        let why = format!("it was not built with {}: each rank runs alone", mpi.transport.name());
        return Err(MessagesError::unusable_osu(program, &why));
    }
    // osu_latency_mt 7 prints all results and then fails under Open MPI. The output is therefore used regardless of the
    // exit status.
    OsuOutput::read(&printed).map_err(|why| {
        if status.success() {
            MessagesError::unusable_osu(program, &why)
        } else {
            let words = error_tail(&all).replace('\n', " ");
            MessagesError::unusable_osu(
                program,
                &format!("{}: {words}", describe_exit_status(status)),
            )
        }
    })
}

/// Returns the options that the OSU programs and the probe have in common.
fn arguments(options: &MessageOptions, launch: &Launch) -> Vec<String> {
    let pattern = launch.patterns.first().copied().unwrap_or(Pattern::Latency);
    let sizes = options.valid_sizes(pattern);
    let chosen = options.sizes.is_some() && !pattern.is_sizeless();
    let sizes = sizes.first().zip(sizes.last()).filter(|_| chosen);
    let unusual = pattern.is_rate() && options.window != MessageOptions::default().window;
    let threads = launch.threads;
    let threaded = pattern.properties().participants == Participants::Threads;
    let given = [
        ("-m", sizes.map(|(min, max)| format!("{min}:{max}"))),
        ("-i", options.iterations.map(|n| n.to_string())),
        ("-x", options.warm_up.map(|n| n.to_string())),
        ("-W", unusual.then(|| options.window.to_string())),
        ("-t", threaded.then(|| format!("{}:{}", threads.senders, threads.receivers))),
    ];
    let words = given.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
    words.flatten().collect()
}
