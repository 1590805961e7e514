//! One start of the probe, carried out and watched: silence beyond its time is a hang, the launcher
//! with all its ranks is killed, and what was measured before stays.

use crate::error::{MessagesError, said};
use crate::launch::{Launch, Where};
use crate::options::MessageOptions;
use crate::probe::Probe;
use crate::protocol::{ProbeOutput, SizeRun};
use nodegauge_machine::Topology;
use nodegauge_measure::{Bytes, Observer};
use nodegauge_os::describe;
use nodegauge_toolchain::mpi::{LauncherKind, Mpi};
use nodegauge_toolchain::{ChildEnd, Job, KillReason, Scratch, run_with_descendants};
use std::path::Path;
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
    pub launch: Launch,
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
    /// Adds the samples of another start of the same; returns why that is broken.
    fn add(&mut self, more: Self) -> Option<Broken> {
        for size in more.output.sizes {
            let what = (size.pattern, size.bytes, size.ranks);
            let same = |known: &&mut SizeRun| (known.pattern, known.bytes, known.ranks) == what;
            match self.output.sizes.iter_mut().find(same) {
                Some(known) => known.add(size),
                None => self.output.sizes.push(size),
            }
        }
        self.starts += 1;
        more.broken
    }
}

/// How long the first line is waited for on this node, and more for each other host.
const START: Duration = Duration::from_secs(20);
const START_A_HOST: Duration = Duration::from_secs(1);
/// Longer than any start takes: silence ends it before.
pub(crate) const FOREVER: Duration = Duration::from_secs(7 * 24 * 3600);
/// Lines of error output that a message shows.
const LINES: usize = 4;
const UCX_LOG_LEVEL: &str = "UCX_LOG_LEVEL";
/// Where Linux has memory that processes share by a name.
const SHARED_MEMORY: &str = "/dev/shm";
/// What tells Open MPI 4 and 5 where to put the files of theirs, which stay when ranks are killed.
const BACKING: [&str; 2] =
    ["OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory"];
/// What launchers say when they have fewer slots than ranks.
const SLOTS: [&str; 4] =
    ["not enough slots", "More processors requested", "too many tasks", "not enough hosts"];

/// The folders of a job, of which nothing is left when it is over: its temporary one, and one in shared memory.
pub(crate) type JobFolders = (Scratch, Option<Scratch>);

/// An MPI with its probe, ready to start ranks.
pub(crate) struct ReadyMpi<'a> {
    pub mpi: &'a Mpi,
    pub probe: &'a Probe,
    pub topology: &'a Topology,
    pub options: &'a MessageOptions,
}

/// Why a program is to be killed that last said something at `last`: the user ends the run, or it was
/// silent for longer than `timeout`.
pub(crate) fn reason_to_kill(
    observer: &dyn Observer,
    last: Instant,
    timeout: Duration,
) -> Option<KillReason> {
    if observer.interrupted() {
        Some(KillReason::Interrupted)
    } else {
        (last.elapsed() > timeout).then_some(KillReason::TimedOut)
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
        let own = launch.probe_arguments(self.options);
        let arguments = [self.probe.arguments.as_slice(), &own].concat();
        let (job, command, _folder) = self.job(launch, &program, &arguments)?;
        let hosts = launch.hosts().map_or(0, <[String]>::len) as u32;
        let expected = launch.count(self.options).max(1) as f64;
        let mut output = ProbeOutput::default();
        let (mut last, mut timeout) = (Instant::now(), START + START_A_HOST * hosts);
        let finished = run_with_descendants(&job, &mut |lines| {
            if output.read(lines) {
                last = Instant::now();
                let done = output.sizes.iter().filter(|size| size.done.is_some()).count();
                let words = |size: &SizeRun| format!("{}, {}", size.pattern, Bytes(size.bytes));
                let latest = output.sizes.last().map_or_else(String::new, words);
                observer.progress(done as f64 / expected, &latest);
            }
            if output.handshake {
                timeout = launch.timeout(self.options);
            }
            reason_to_kill(observer, last, timeout)
        })?;
        let text = format!("{}\n{}", finished.stderr, output.foreign.join("\n"));
        let mut broken = match finished.end {
            ChildEnd::Exited(status) if status.success() && output.end => None,
            ChildEnd::Exited(status) => Some(Broken::Died(describe(status))),
            ChildEnd::Killed(KillReason::TimedOut) => Some(Broken::Hung(timeout)),
            ChildEnd::Killed(KillReason::Interrupted) => Some(Broken::Interrupted),
        };
        let measured = output.sizes.iter().any(|size| !size.groups.is_empty());
        let answered = broken.is_none() && !output.refused.is_empty();
        let alone = output.world.is_some_and(|world| world as usize != launch.ranks());
        if alone || !(measured || answered) {
            return Err(self.nothing(launch, &output, broken, &text));
        }
        if let Some(Broken::Died(how)) = &mut broken {
            let words = error_tail(&text).replace('\n', " ");
            if !words.is_empty() {
                *how = format!("{how}: {words}");
            }
        }
        let transport = transport(&text);
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
            report.broken = match part.run(launch, observer) {
                Ok(more) => report.add(more),
                Err(MessagesError::Interrupted) => Some(Broken::Interrupted),
                Err(error) => Some(Broken::Died(error.to_string().replace('\n', " "))),
            };
        }
        Ok(report)
    }

    /// The job that starts `program` as `launch` says, the command as people see it, and the folders
    /// that must live as long as the job.
    pub(crate) fn job(
        &self,
        launch: &Launch,
        program: &str,
        arguments: &[String],
    ) -> Result<(Job, String, JobFolders), MessagesError> {
        let folder = Scratch::new()?;
        let path = folder.path().join("ranks");
        let in_job = std::env::var_os("SLURM_JOB_ID").is_some();
        let (command, rankfile) = launch.words(
            &self.mpi.launcher,
            self.topology,
            cares_for_root(self.mpi),
            &path.display().to_string(),
            in_job,
        );
        if let Some(content) = rankfile {
            std::fs::write(&path, content).map_err(|cause| MessagesError::write(&path, &cause))?;
        }
        let all = command.with([program.to_owned()]).with(arguments.iter().cloned());
        let mut job = Job::new(all, FOREVER);
        // What Open MPI leaves in its session's folder when it is killed goes with this one. Slurm hands
        // variables on to other hosts, which have no such folder.
        if launch.hosts().is_none() || !in_job {
            let own = folder.path().display().to_string();
            job.environment.push(("TMPDIR".to_owned(), Some(own)));
        }
        let shared = match launch.hosts() {
            None => Scratch::new_in(Path::new(SHARED_MEMORY)).ok(),
            Some(_) => None,
        };
        if let Some(shared) = &shared {
            let own = shared.path().display().to_string();
            let unset = BACKING.iter().filter(|name| std::env::var_os(name).is_none());
            job.environment.extend(unset.map(|name| ((*name).to_owned(), Some(own.clone()))));
        }
        // What UCX tells of its transport, it tells once at its start.
        if std::env::var_os(UCX_LOG_LEVEL).is_none() {
            job.environment.push((UCX_LOG_LEVEL.to_owned(), Some("info".to_owned())));
        }
        Ok((job, command.to_string(), (folder, shared)))
    }

    /// The launcher, as messages name it.
    pub(crate) fn launcher_name(&self) -> &str {
        self.mpi.launcher.command.program()
    }

    /// The error for a start that measured nothing.
    fn nothing(
        &self,
        launch: &Launch,
        output: &ProbeOutput,
        broken: Option<Broken>,
        text: &str,
    ) -> MessagesError {
        let launcher = self.launcher_name();
        if let Some(found) = output.world.filter(|world| *world as usize != launch.ranks()) {
            return MessagesError::Missing(format!(
                "{launcher} does not know {}: asked for {} ranks, and each believes that there is {found}\nhint: name the launcher that came with {}, with --launcher",
                self.mpi.library,
                launch.ranks(),
                self.mpi.parts
            ));
        }
        if let Some(line) = text.lines().find(|line| SLOTS.iter().any(|words| line.contains(words)))
        {
            let more = match self.mpi.launcher.kind {
                LauncherKind::OpenMpi => {
                    ", or let it give more, e.g. --launcher 'mpirun --oversubscribe'"
                }
                _ => "",
            };
            return MessagesError::Missing(format!(
                "{launcher} has too few slots for {} ranks: {}\nhint: ask for fewer with --ranks, or for more tasks of the job{more}",
                launch.ranks(),
                line.trim()
            ));
        }
        let words = error_tail(text);
        let how = match broken {
            Some(Broken::Hung(limit)) => {
                return MessagesError::silent(launcher, limit.as_secs_f64(), &words);
            }
            Some(Broken::Interrupted) => return MessagesError::Interrupted,
            Some(Broken::Died(how)) => how,
            None => "success".to_owned(),
        };
        let words = said(&words);
        MessagesError::Missing(format!(
            "{launcher} ended with {how} before anything was measured{words}"
        ))
    }
}

/// Whether the launcher of this MPI starts programs of root, as this is, only when it is told to. The
/// environment may have told it: by Open MPI's own variables; version 5 reads its runtime's names, too.
pub(crate) fn cares_for_root(mpi: &Mpi) -> bool {
    let told = ["OMPI_", "PRTE_"].iter().any(|prefix| {
        let set = |name| std::env::var(format!("{prefix}{name}")).is_ok_and(|value| value == "1");
        set("ALLOW_RUN_AS_ROOT") && set("ALLOW_RUN_AS_ROOT_CONFIRM")
    });
    mpi.launcher.kind == LauncherKind::OpenMpi && nodegauge_os::is_root() && !told
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
    for line in text.lines() {
        let between = |from: &str, to: &str| Some(line.split_once(from)?.1.split_once(to)?.0);
        if let Some((_, rest)) = line.split_once("select: component ") {
            layer = rest.strip_suffix(" selected").map(|name| format!("pml {name}")).or(layer);
        }
        let btl = between("Using ", " btl for send").filter(|name| *name != "self");
        let lanes = between(": tag(", ")").filter(|_| line.contains("ep_cfg"));
        let ucx = lanes.filter(|lanes| !lanes.starts_with("self"));
        let ucx = ucx.map(|lanes| format!("ucx {lanes}"));
        let way = btl.map(|name| format!("btl {name}")).or(ucx);
        ways.extend(way.filter(|way| !ways.contains(way)));
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
