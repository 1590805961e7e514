//! One start of the probe, carried out and watched: silence beyond its time is a hang, the launcher
//! with all its ranks is killed, and what was measured before stays.

use crate::MessagesError;
use crate::launch::{Launch, Where};
use crate::options::MessageOptions;
use crate::probe::Probe;
use crate::protocol::{ProbeOutput, SizeRun};
use nodegauge_machine::Topology;
use nodegauge_measure::Observer;
use nodegauge_os::describe;
use nodegauge_toolchain::mpi::{LauncherKind, Mpi};
use nodegauge_toolchain::{ChildEnd, Job, KillReason, Scratch, run_with_descendants};
use std::time::{Duration, Instant};

/// Why a start did not come to its end, though something was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Silence for so long.
    Hung(Duration),
    /// The launcher or a rank ended; how, and its last words.
    Died(String),
    /// The user ended the run.
    Interrupted,
}

/// What came of a start.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StartReport {
    /// What was started.
    pub launch: Launch,
    /// What the probe printed.
    pub output: ProbeOutput,
    /// Starts whose samples are together here.
    pub starts: u32,
    /// How messages went, as far as the library told.
    pub transport: Option<String>,
    /// Why it did not come to its end.
    pub broken: Option<Broken>,
    /// The launcher's command, without the probe's arguments.
    pub command: String,
}

impl StartReport {
    /// Adds the samples of another start of the same.
    fn add(&mut self, more: Self) {
        for size in more.output.sizes {
            let same = |known: &&mut SizeRun| {
                (known.pattern, known.bytes, known.ranks) == (size.pattern, size.bytes, size.ranks)
            };
            match self.output.sizes.iter_mut().find(same) {
                Some(known) => known.add(size),
                None => self.output.sizes.push(size),
            }
        }
        self.starts += 1;
        self.broken = more.broken;
    }
}

/// How long the first line is waited for on this node, and more for each other host.
const START: Duration = Duration::from_secs(20);
const START_A_HOST: Duration = Duration::from_secs(1);
/// Longer than any start takes: silence ends it before.
const FOREVER: Duration = Duration::from_secs(7 * 24 * 3600);
/// Lines of error output that a message shows.
const LINES: usize = 4;

/// An MPI with its probe, ready to start ranks.
pub(crate) struct ReadyMpi<'a> {
    /// The MPI.
    pub mpi: &'a Mpi,
    /// Its probe.
    pub probe: &'a Probe,
    /// This node.
    pub topology: &'a Topology,
    /// How to measure.
    pub options: &'a MessageOptions,
}

/// Reads what the probe prints, and says when it is time to end.
struct Monitor<'a> {
    output: ProbeOutput,
    last: Instant,
    /// Silence that counts as a hang, before and after the first line.
    timeouts: (Duration, Duration),
    expected: usize,
    observer: &'a mut dyn Observer,
}

impl Monitor<'_> {
    fn timeout(&self) -> Duration {
        if self.output.handshake { self.timeouts.1 } else { self.timeouts.0 }
    }

    /// Reads more lines; why to end, if there is a reason.
    fn follow(&mut self, lines: &str) -> Option<KillReason> {
        if self.output.read(lines) {
            self.last = Instant::now();
            let done = self.output.sizes.iter().filter(|size| size.done.is_some()).count();
            let latest = self
                .output
                .sizes
                .last()
                .map(|size| format!("{}, {} B", size.pattern, size.bytes))
                .unwrap_or_default();
            self.observer.progress(done as f64 / self.expected.max(1) as f64, &latest);
        }
        if self.observer.interrupted() {
            Some(KillReason::Interrupted)
        } else if self.last.elapsed() > self.timeout() {
            Some(KillReason::TimedOut)
        } else {
            None
        }
    }
}

impl ReadyMpi<'_> {
    /// Starts the probe and reads it to its end.
    ///
    /// # Errors
    /// When nothing was measured; what was measured is never thrown away.
    pub(crate) fn run(
        &self,
        launch: &Launch,
        observer: &mut dyn Observer,
    ) -> Result<StartReport, MessagesError> {
        let program = self.probe.path.display().to_string();
        let arguments = launch.probe_arguments(self.options);
        let (job, command, _folder) = self.job(launch, &program, &arguments)?;
        let hosts = launch.hosts().map_or(0, <[String]>::len) as u32;
        let mut monitor = Monitor {
            output: ProbeOutput::default(),
            last: Instant::now(),
            timeouts: (START + START_A_HOST * hosts, launch.timeout(self.options)),
            expected: launch.count(self.options),
            observer,
        };
        let finished = run_with_descendants(&job, &mut |lines| monitor.follow(lines))?;
        let silent_for = monitor.timeout();
        let output = monitor.output;
        let broken = match finished.end {
            ChildEnd::Exited(status) if status.success() && output.end => None,
            ChildEnd::Exited(status) => Some(Broken::Died(describe(status))),
            ChildEnd::Killed(KillReason::TimedOut) => Some(Broken::Hung(silent_for)),
            ChildEnd::Killed(KillReason::Interrupted) => Some(Broken::Interrupted),
        };
        let all_text = format!("{}\n{}", finished.stderr, output.foreign.join("\n"));
        let something = output.sizes.iter().any(|size| !size.groups.is_empty());
        let answered = output.end && !output.refused.is_empty();
        let broken = match broken {
            Some(broken) if !something => {
                return Err(self.nothing(launch, &output, &broken, &all_text));
            }
            None if !something && !answered => {
                let ended = "ended".to_owned();
                return Err(self.nothing(launch, &output, &Broken::Died(ended), &all_text));
            }
            Some(Broken::Died(status)) => {
                let words = error_tail(&all_text);
                Some(Broken::Died(if words.is_empty() {
                    status
                } else {
                    format!("{status}: {}", words.replace('\n', " "))
                }))
            }
            other => other,
        };
        if output.world.is_some_and(|world| world as usize != launch.ranks()) {
            return Err(self.nothing(launch, &output, &Broken::Interrupted, &all_text));
        }
        let transport = transport(&all_text);
        Ok(StartReport { launch: launch.clone(), output, starts: 1, transport, broken, command })
    }

    /// Starts the probe as often as the options say, each time with its share of the time for a size,
    /// and puts the samples together.
    ///
    /// # Errors
    /// When nothing was measured.
    pub(crate) fn run_often(
        &self,
        launch: &Launch,
        observer: &mut dyn Observer,
    ) -> Result<StartReport, MessagesError> {
        let fixed = self.options.samples.is_some() || self.options.iterations.is_some();
        let here = matches!(launch.ranks, Where::Here(_)) && launch.steps.is_empty();
        if fixed || !here || self.options.starts < 2 {
            return self.run(launch, observer);
        }
        let share = self.options.size_limit / self.options.starts;
        let options = MessageOptions { size_limit: share, ..self.options.clone() };
        let part = ReadyMpi { options: &options, ..*self };
        let mut report = part.run(launch, observer)?;
        for _ in 1..self.options.starts {
            if report.broken.is_some() {
                break;
            }
            match part.run(launch, observer) {
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
        refuses_root(self.mpi, self.options.as_root)?;
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
    pub(crate) fn launcher_name(&self) -> String {
        self.mpi.launcher.command.program().to_owned()
    }

    /// The error for a start that measured nothing.
    fn nothing(
        &self,
        launch: &Launch,
        output: &ProbeOutput,
        broken: &Broken,
        text: &str,
    ) -> MessagesError {
        let launcher = self.launcher_name();
        if let Some(found) = output.world.filter(|world| *world as usize != launch.ranks()) {
            return MessagesError::Mismatch {
                launcher,
                library: self.mpi.library.to_string(),
                asked: launch.ranks(),
                found,
                wrapper: self.mpi.compiler.command.program().to_owned(),
            };
        }
        if text.contains("attempt to run as root") {
            return MessagesError::Root { launcher };
        }
        if let Some(line) = text.lines().find(|line| is_about_slots(line)) {
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
        let words = error_tail(text);
        match broken {
            Broken::Hung(limit) => MessagesError::Silent { launcher, limit: *limit, words },
            Broken::Died(ended) => {
                MessagesError::Died { launcher, ended: format!("ended with {ended}"), words }
            }
            Broken::Interrupted => MessagesError::Interrupted,
        }
    }
}

/// Whether the launcher of this MPI would refuse to start ranks of root.
///
/// # Errors
/// When it would.
pub(crate) fn refuses_root(mpi: &Mpi, as_root: bool) -> Result<(), MessagesError> {
    let refuses = mpi.launcher.kind == LauncherKind::OpenMpi
        && nodegauge_os::is_root()
        && !as_root
        && !open_mpi_is_told();
    match refuses {
        true => Err(MessagesError::Root { launcher: mpi.launcher.command.program().to_owned() }),
        false => Ok(()),
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
pub(crate) fn error_tail(text: &str) -> String {
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
fn transport(text: &str) -> Option<String> {
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
    fn the_error_tail_leaves_out_rules_and_chatter() {
        let text =
            "-----\nmpirun has exited\n[vm:1] mca: bml: Using vader\n\n  rank 1 died  \n----\n";
        assert_eq!(error_tail(text), "mpirun has exited\nrank 1 died");
    }
}
