//! One start of the probe, carried out and watched: silence beyond its time is a hang, the launcher
//! with all its ranks is killed, and what was measured before stays.

use crate::MessagesError;
use crate::launch::{Launch, Where};
use crate::options::Options;
use crate::probe::Probe;
use crate::protocol::{Heard, SizeRun};
use nodegauge_machine::Topology;
use nodegauge_measure::Watch;
use nodegauge_os::describe;
use nodegauge_toolchain::mpi::{LauncherKind, Mpi};
use nodegauge_toolchain::{ChildEnd, Job, KillReason, Scratch, run_with_descendants};
use std::time::{Duration, Instant};

/// Why a start did not come to its end, though something was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// Silence for so long.
    Hung(Duration),
    /// The launcher or a rank ended; how, and its last words.
    Died(String),
    /// The user ended the run.
    Interrupted,
}

/// What came of a start.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// What was started.
    pub launch: Launch,
    /// What the probe said.
    pub heard: Heard,
    /// Starts whose samples are together here.
    pub starts: u32,
    /// How messages went, as far as the library told.
    pub transport: Option<String>,
    /// Why it did not come to its end.
    pub broken: Option<Broken>,
    /// The launcher's command, without the probe's arguments.
    pub command: String,
}

impl Report {
    /// Adds the samples of another start of the same.
    fn add(&mut self, more: Self) {
        for size in more.heard.sizes {
            let same = |known: &&mut SizeRun| {
                (known.pattern, known.bytes, known.ranks) == (size.pattern, size.bytes, size.ranks)
            };
            match self.heard.sizes.iter_mut().find(same) {
                Some(known) => known.add(size),
                None => self.heard.sizes.push(size),
            }
        }
        self.starts += 1;
        self.broken = more.broken;
    }
}

/// How long the first word is waited for on this node, and more for each other host.
const START: Duration = Duration::from_secs(20);
const START_A_HOST: Duration = Duration::from_secs(1);
/// Longer than any start takes: silence ends it before.
const FOREVER: Duration = Duration::from_secs(7 * 24 * 3600);
/// Lines of error output that a message shows.
const LINES: usize = 4;

/// An MPI with its probe, ready to start ranks.
pub struct Stage<'a> {
    /// The MPI.
    pub mpi: &'a Mpi,
    /// Its probe.
    pub probe: &'a Probe,
    /// This node.
    pub topology: &'a Topology,
    /// How to measure.
    pub options: &'a Options,
}

/// Hears the probe, and says when it is time to end.
struct Ear<'a> {
    heard: Heard,
    last: Instant,
    start: Duration,
    patience: Duration,
    expected: usize,
    watch: &'a mut dyn Watch,
}

impl Ear<'_> {
    fn hear(&mut self, lines: &str) -> Option<KillReason> {
        if self.heard.hear(lines) {
            self.last = Instant::now();
            let done = self.heard.sizes.iter().filter(|size| size.done.is_some()).count();
            let latest = self
                .heard
                .sizes
                .last()
                .map(|size| format!("{}, {} B", size.pattern, size.bytes))
                .unwrap_or_default();
            self.watch.progress(done as f64 / self.expected.max(1) as f64, &latest);
        }
        let limit = if self.heard.hello { self.patience } else { self.start };
        if self.watch.interrupted() {
            Some(KillReason::Interrupted)
        } else if self.last.elapsed() > limit {
            Some(KillReason::TimedOut)
        } else {
            None
        }
    }
}

impl Stage<'_> {
    /// Starts the probe and hears it to its end.
    ///
    /// # Errors
    /// When nothing was measured; what was measured is never thrown away.
    pub fn run(&self, launch: &Launch, watch: &mut dyn Watch) -> Result<Report, MessagesError> {
        let program = self.probe.path.display().to_string();
        let arguments = launch.probe_arguments(self.options);
        let (job, command, _folder) = self.job(launch, &program, &arguments)?;
        let hosts = match &launch.ranks {
            Where::Hosts(hosts) => hosts.len() as u32,
            Where::Here(_) => 0,
        };
        let mut ear = Ear {
            heard: Heard::default(),
            last: Instant::now(),
            start: START + START_A_HOST * hosts,
            patience: launch.patience(self.options),
            expected: launch.count(self.options),
            watch,
        };
        let finished = run_with_descendants(&job, &mut |lines| ear.hear(lines))?;
        let silent_for = if ear.heard.hello { ear.patience } else { ear.start };
        let heard = ear.heard;
        let broken = match finished.end {
            ChildEnd::Exited(status) if status.success() && heard.end => None,
            ChildEnd::Exited(status) => Some(Broken::Died(describe(status))),
            ChildEnd::Killed(KillReason::TimedOut) => Some(Broken::Hung(silent_for)),
            ChildEnd::Killed(KillReason::Interrupted) => Some(Broken::Interrupted),
        };
        let all_words = format!("{}\n{}", finished.stderr, heard.others.join("\n"));
        let something = heard.sizes.iter().any(|size| !size.groups.is_empty());
        let answered = heard.end && !heard.refused.is_empty();
        let broken = match broken {
            Some(broken) if !something => {
                return Err(self.nothing(launch, &heard, &broken, &all_words));
            }
            None if !something && !answered => {
                let ended = "ended".to_owned();
                return Err(self.nothing(launch, &heard, &Broken::Died(ended), &all_words));
            }
            Some(Broken::Died(status)) => {
                let words = last_words(&all_words);
                Some(Broken::Died(if words.is_empty() {
                    status
                } else {
                    format!("{status}: {}", words.replace('\n', " "))
                }))
            }
            other => other,
        };
        if heard.world.is_some_and(|world| world as usize != launch.ranks()) {
            return Err(self.nothing(launch, &heard, &Broken::Interrupted, &all_words));
        }
        let transport = transport(&all_words);
        Ok(Report { launch: launch.clone(), heard, starts: 1, transport, broken, command })
    }

    /// Starts the probe as often as the options say, each time with its share of the time for a size,
    /// and puts the samples together.
    ///
    /// # Errors
    /// When nothing was measured.
    pub fn run_often(
        &self,
        launch: &Launch,
        watch: &mut dyn Watch,
    ) -> Result<Report, MessagesError> {
        let fixed = self.options.samples.is_some() || self.options.iterations.is_some();
        let here = matches!(launch.ranks, Where::Here(_)) && launch.steps.is_empty();
        if fixed || !here || self.options.starts < 2 {
            return self.run(launch, watch);
        }
        let share = self.options.size_limit / self.options.starts;
        let options = Options { size_limit: share, ..self.options.clone() };
        let part = Stage { options: &options, ..*self };
        let mut report = part.run(launch, watch)?;
        for _ in 1..self.options.starts {
            if report.broken.is_some() {
                break;
            }
            match part.run(launch, watch) {
                Ok(more) => report.add(more),
                Err(MessagesError::Interrupted) => report.broken = Some(Broken::Interrupted),
                Err(error) => {
                    let reason = error.to_string().replace('\n', " ");
                    report.broken = Some(Broken::Died(reason));
                }
            }
        }
        Ok(report)
    }

    /// The job that starts `program` as `launch` says, the command as people see it, and the folder
    /// that must live as long as the job.
    pub(crate) fn job(
        &self,
        launch: &Launch,
        program: &str,
        arguments: &[String],
    ) -> Result<(Job, String, Scratch), MessagesError> {
        if self.mpi.launcher.kind == LauncherKind::OpenMpi
            && nodegauge_os::is_root()
            && !self.options.as_root
            && !open_mpi_is_told()
        {
            return Err(MessagesError::Root { launcher: self.name() });
        }
        let folder = Scratch::new()?;
        let rankfile = folder.path().join("ranks");
        let in_job = std::env::var_os("SLURM_JOB_ID").is_some();
        let words = launch.words(
            &self.mpi.launcher,
            self.topology,
            self.options.as_root,
            &rankfile.display().to_string(),
            in_job,
        );
        if let Some(content) = &words.rankfile {
            std::fs::write(&rankfile, content)
                .map_err(|cause| MessagesError::Cache { path: rankfile, cause })?;
        }
        let command = words.command.to_string();
        let environment = words
            .environment
            .into_iter()
            .filter(|(name, _)| std::env::var_os(name).is_none())
            .collect();
        let all = words.command.with([program.to_owned()]).with(arguments.iter().cloned());
        let job = Job { environment, ..Job::new(all, FOREVER) };
        Ok((job, command, folder))
    }

    /// The launcher, as messages name it.
    fn name(&self) -> String {
        self.mpi.launcher.command.program().to_owned()
    }

    /// The error for a start that measured nothing.
    fn nothing(
        &self,
        launch: &Launch,
        heard: &Heard,
        broken: &Broken,
        words: &str,
    ) -> MessagesError {
        let launcher = self.name();
        if let Some(found) = heard.world.filter(|world| *world as usize != launch.ranks()) {
            return MessagesError::Mismatch {
                launcher,
                library: self.mpi.library.to_string(),
                asked: launch.ranks(),
                found,
                wrapper: self.mpi.compiler.command.program().to_owned(),
            };
        }
        if words.contains("attempt to run as root") {
            return MessagesError::Root { launcher };
        }
        if let Some(line) = words.lines().find(|line| is_about_slots(line)) {
            return MessagesError::Slots {
                launcher,
                ranks: launch.ranks(),
                words: line.trim().to_owned(),
                more: match self.mpi.launcher.kind {
                    LauncherKind::OpenMpi => {
                        ", or let it give more, e.g. --launcher 'mpirun --oversubscribe'"
                    }
                    _ => "",
                },
            };
        }
        let words = last_words(words);
        match broken {
            Broken::Hung(limit) => MessagesError::Silent { launcher, limit: *limit, words },
            Broken::Died(ended) => {
                MessagesError::Died { launcher, ended: format!("ended with {ended}"), words }
            }
            Broken::Interrupted => MessagesError::Interrupted,
        }
    }
}

/// Whether Open MPI's own variables let root start ranks.
fn open_mpi_is_told() -> bool {
    // Version 5 reads its runtime's names, too.
    [("OMPI_", "OMPI_"), ("PRTE_", "PRTE_")].iter().any(|(a, b)| {
        let set = |name: String| std::env::var(name).is_ok_and(|value| value == "1");
        set(format!("{a}ALLOW_RUN_AS_ROOT")) && set(format!("{b}ALLOW_RUN_AS_ROOT_CONFIRM"))
    })
}

fn is_about_slots(line: &str) -> bool {
    ["not enough slots", "More processors requested", "too many tasks", "not enough hosts"]
        .iter()
        .any(|words| line.contains(words))
}

/// The last lines that say something to a person, without the chatter that was asked for.
pub(crate) fn last_words(text: &str) -> String {
    let chatter = |line: &str| {
        let rule = line.trim().chars().all(|c| c == '-' || c == '=');
        let asked = ["mca:", "select:", "selected ", "UCX  INFO", "UCX  DIAG", "components_"];
        rule || asked.iter().any(|words| line.contains(words))
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !chatter(line)).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// How messages go, from what the library says at its start: of Open MPI the layer and its
/// transports, of UCX the lanes for tagged messages.
pub fn transport(text: &str) -> Option<String> {
    let mut layer = None;
    let mut ways: Vec<String> = Vec::new();
    let mut add = |way: &str| {
        if !way.is_empty() && !ways.iter().any(|known| known == way) {
            ways.push(way.to_owned());
        }
    };
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("select: component ") {
            layer = rest.strip_suffix(" selected").map(|name| format!("pml {name}")).or(layer);
        }
        if let Some((_, rest)) = line.split_once("Using ")
            && let Some((name, _)) = rest.split_once(" btl for send")
            && name != "self"
        {
            add(&format!("btl {name}"));
        }
        if let Some((_, rest)) = line.split_once(": tag(")
            && let Some((lanes, _)) = rest.split_once(')')
            && line.contains("ep_cfg")
            && !lanes.starts_with("self")
        {
            add(&format!("ucx {lanes}"));
        }
    }
    let parts: Vec<String> = layer.into_iter().chain(ways).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transport_is_what_the_library_says() {
        let open = "[vm:1] select: component v not in the include list\n\
                    [vm:1] select: component ob1 selected\n\
                    [vm:1] mca: bml: Using self btl for send to [[1,1],0] on node vm\n\
                    [vm:1] mca: bml: Using vader btl for send to [[1,1],1] on node vm\n";
        assert_eq!(transport(open).as_deref(), Some("pml ob1, btl vader"));
        let ucx = "[1.0] [vm:1:0]  ucp_worker.c:1763 UCX  INFO    ep_cfg[0]: tag(self/memory0 cma/memory) rma(x)\n\
                   [1.0] [vm:1:0]  ucp_worker.c:1763 UCX  INFO    ep_cfg[1]: tag(sysv/memory cma/memory) rma(x)\n";
        assert_eq!(transport(ucx).as_deref(), Some("ucx sysv/memory cma/memory"));
        assert_eq!(transport("nothing of the kind"), None);
    }

    #[test]
    fn last_words_leave_out_rules_and_chatter() {
        let text =
            "-----\nmpirun has exited\n[vm:1] mca: bml: Using vader\n\n  rank 1 died  \n----\n";
        assert_eq!(last_words(text), "mpirun has exited\nrank 1 died");
    }
}
