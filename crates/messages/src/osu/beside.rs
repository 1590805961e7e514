//! The OSU programs and the probe by turns, round after round, started the same way on the same CPUs,
//! so that both meet the same machine.

use crate::MessagesError;
use crate::gauge::{self, Between, Outcome};
use crate::launch::{Launch, Where};
use crate::options::{Options, Threads};
use crate::osu::output::Output;
use crate::osu::rounds::{self, Round};
use crate::pattern::{Pattern, usual_sizes};
use crate::result::{self, Evidence};
use crate::session::Stage;
use nodegauge_measure::Watch;
use nodegauge_measure::interference::Work;
use nodegauge_os::describe;
use nodegauge_placement::Distance;
use nodegauge_toolchain::mpi::LauncherKind;
use nodegauge_toolchain::{ChildEnd, KillReason, run_with_descendants};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Rounds that count, unless the user says otherwise.
pub const ROUNDS: u32 = 5;
/// Rounds at most, for each that is to count: on some machines the CPUs are moved every few seconds.
const MOST: u32 = 3;
/// Time for a size, unless the user says otherwise: OSU's programs have no limit.
pub const SIZE_LIMIT: Duration = Duration::from_secs(3);
/// Silence of a program after which it hangs: its largest size takes seconds on slow links.
const PATIENCE: Duration = Duration::from_secs(60);
/// Folders below the one that is named in which programs may lie: OSU installs and builds in several.
const DEPTH: usize = 7;

/// The programs of one build, by pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Programs(Vec<(Pattern, PathBuf)>);

impl Programs {
    /// Looks for them in a folder and below.
    pub fn find(folder: &Path) -> Self {
        let mut found = Self::default();
        found.look(folder, DEPTH);
        found
    }

    /// The program of a pattern.
    pub fn of(&self, pattern: Pattern) -> Option<&Path> {
        self.0.iter().find(|(known, _)| *known == pattern).map(|(_, path)| path.as_path())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn look(&mut self, folder: &Path, depth: usize) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                // .libs holds what the scripts of a build start with the right libraries.
                if depth > 0 && !name.starts_with('.') && !path.is_symlink() {
                    self.look(&path, depth - 1);
                }
            } else if let Some(pattern) = name.strip_prefix("osu_").and_then(|n| n.parse().ok())
                && self.of(pattern).is_none()
                && nodegauge_toolchain::which(&path.display().to_string()).is_some()
            {
                self.0.push((pattern, path));
            }
        }
    }
}

/// Runs both by turns.
///
/// # Errors
/// When an OSU program does not run, or the probe measures nothing.
pub fn run(
    stage: &Stage<'_>,
    programs: &Programs,
    between: &Between,
    ranks: Option<usize>,
    rounds: u32,
    watch: &mut dyn Watch,
) -> Result<Outcome, MessagesError> {
    let mut outcome = Outcome::default();
    // By custom three threads: both sides are to be the same, in threads and in operations.
    let options = Options {
        threads: stage.options.threads.or(Some(Threads { senders: 1, receivers: 2 })),
        customary: true,
        ..stage.options.clone()
    };
    let (launches, notices) = gauge::plan(stage.topology, &options, between, ranks)?;
    outcome.notices = notices;
    for launch in &launches {
        for pattern in launch.patterns.clone() {
            let Some(program) = programs.of(pattern) else {
                outcome.notices.push(format!("there is no osu_{pattern} in the folder: left out"));
                continue;
            };
            let launch = Launch { patterns: vec![pattern], ..launch.clone() };
            let mut measured: Vec<Round> = Vec::new();
            for turns in 0..rounds * MOST {
                let counting = rounds::counting(&measured).len();
                if counting >= rounds as usize {
                    break;
                }
                watch.phase(&format!(
                    "{} osu_{pattern} and the probe by turns, {} of {rounds}",
                    stage.mpi.library,
                    counting + 1
                ));
                match turn(stage, &options, &launch, program, watch) {
                    Ok(round) => measured.push(round),
                    Err(MessagesError::Interrupted) => outcome.interrupted = true,
                    Err(error) if turns == 0 => return Err(error),
                    Err(error) => {
                        outcome.notices.push(format!("a round was cut short: {error}"));
                        break;
                    }
                }
                if outcome.interrupted || watch.interrupted() {
                    outcome.interrupted = true;
                    break;
                }
            }
            let moved = measured.len() - rounds::counting(&measured).len();
            if moved > 0 {
                outcome.notices.push(format!(
                    "{pattern}: {moved} of {} rounds do not count, because the cpus were moved or other \
                     programs used them",
                    measured.len()
                ));
            }
            outcome.measurements.extend(rounds::together(&measured, pattern));
            if outcome.interrupted {
                return Ok(outcome);
            }
        }
    }
    Ok(outcome)
}

/// One turn of each.
fn turn(
    stage: &Stage<'_>,
    options: &Options,
    launch: &Launch,
    program: &Path,
    watch: &mut dyn Watch,
) -> Result<Round, MessagesError> {
    let cpus: Vec<u32> = match &launch.ranks {
        Where::Here(ranks) => ranks.iter().flatten().map(|cpu| cpu.0).collect(),
        Where::Hosts(_) => Vec::new(),
    };
    // Slurm's daemon starts ranks, so that their time is not known for this process' own.
    let own_ranks = stage.mpi.launcher.kind != LauncherKind::Slurm;
    let work = || Work::now(&cpus).filter(|_| own_ranks).map(|work| (work, Instant::now()));
    let share = |from: Option<(Work, Instant)>, to: Option<(Work, Instant)>| match (from, to) {
        (Some((before, began)), Some((after, ended))) => {
            let all = (ended - began).as_secs_f64() * cpus.len() as f64;
            after.of_others_since(before) / all.max(1e-3)
        }
        _ => 0.0,
    };
    let begin = work();
    let output = osu(stage, options, launch, program, watch)?;
    let between = work();
    let options = Options { timing: output.timing(), ..options.clone() };
    let stage = Stage { options: &options, ..*stage };
    let report = stage.run(launch, watch)?;
    let end = work();
    if report.broken == Some(crate::session::Broken::Interrupted) {
        return Err(MessagesError::Interrupted);
    }
    let distance = |_: u32, _: u32| None::<Distance>;
    let evidence =
        Evidence { report: &report, mpi: stage.mpi, options: &options, distance: &distance };
    let own = result::measurements(&evidence);
    let groups = report.heard.sizes.iter().flat_map(|size| &size.groups);
    Ok(Round {
        own: rounds::like_osu(own, &report.heard.sizes, options.window),
        trips: groups
            .flat_map(|group| [group.trips.0, group.trips.1])
            .filter(|trip| *trip > 0.0)
            .collect(),
        others: share(begin, between).max(share(between, end)),
        osu: output,
    })
}

/// Runs an OSU program as the probe is run.
fn osu(
    stage: &Stage<'_>,
    options: &Options,
    launch: &Launch,
    program: &Path,
    watch: &mut dyn Watch,
) -> Result<Output, MessagesError> {
    let (job, _, _folder) =
        stage.job(launch, &program.display().to_string(), &arguments(options, launch))?;
    let mut said = String::new();
    let mut last = Instant::now();
    let finished = {
        let mut listener = |lines: &str| {
            if !lines.is_empty() {
                said.push_str(lines);
                last = Instant::now();
            }
            match (watch.interrupted(), last.elapsed() > PATIENCE) {
                (true, _) => Some(KillReason::Interrupted),
                (false, true) => Some(KillReason::TimedOut),
                _ => None,
            }
        };
        run_with_descendants(&job, &mut listener)?
    };
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match finished.end {
        ChildEnd::Killed(KillReason::Interrupted) => return Err(MessagesError::Interrupted),
        ChildEnd::Killed(KillReason::TimedOut) => {
            return Err(MessagesError::Silent {
                launcher: name,
                limit: PATIENCE,
                words: String::new(),
            });
        }
        ChildEnd::Exited(_) => {}
    }
    // osu_latency_mt 7 ends with a failure under Open MPI after all is printed, so that what is
    // printed counts, not the status.
    let output = Output::read(&own_lines(&said));
    let all = format!("{said}\n{}", finished.stderr);
    if all.contains("requires exactly two processes") || all.contains("requires at least two") {
        return Err(MessagesError::Osu {
            program: program.display().to_string(),
            why: format!("it was not built with {}: each rank is alone", stage.mpi.library),
        });
    }
    output.map_err(|error| MessagesError::Osu {
        program: program.display().to_string(),
        why: match finished.end {
            ChildEnd::Exited(status) if !status.success() => format!(
                "{}: {}",
                describe(status),
                crate::session::last_words(&all).replace('\n', " ")
            ),
            _ => error.to_string(),
        },
    })
}

/// What the program printed, without what the library put between.
fn own_lines(said: &str) -> String {
    let own = |line: &&str| !line.starts_with('[');
    said.lines().filter(own).map(|line| format!("{line}\n")).collect()
}

/// The options that both know.
fn arguments(options: &Options, launch: &Launch) -> Vec<String> {
    let mut words = Vec::new();
    let mut say = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    let pattern = launch.patterns.first().copied().unwrap_or(Pattern::Latency);
    if options.sizes != usual_sizes() && pattern != Pattern::Barrier {
        let sizes = options.sizes_of(pattern);
        if let (Some(least), Some(most)) = (sizes.first(), sizes.last()) {
            say("-m", format!("{least}:{most}"));
        }
    }
    if let Some(n) = options.iterations {
        say("-i", n.to_string());
    }
    if let Some(n) = options.warm_up {
        say("-x", n.to_string());
    }
    if pattern.is_rate() && options.window != Options::default().window {
        say("-W", options.window.to_string());
    }
    if pattern == Pattern::LatencyMt {
        say("-t", format!("{}:{}", launch.threads.senders, launch.threads.receivers));
    }
    words
}
