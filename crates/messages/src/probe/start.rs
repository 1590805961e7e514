//! One start of the probe with its supervision. If the probe prints nothing for longer than its timeout, the launcher
//! and all ranks are killed. Complete measurements are kept.

use crate::error::MessagesError;
use crate::job::launch::{Launch, RankLocations};
use crate::job::protocol::{ProbeOutput, SizeRun};
use crate::options::MessageOptions;
use crate::pattern::Pattern;
use crate::probe::build::Probe;
use crate::transport::{self, Fabric, RankJob};
use nodegauge_machine::Topology;
use nodegauge_measure::schedule::RunLimits;
use nodegauge_measure::{Bytes, Failure, Observer, Seconds, legible, stats};
use nodegauge_os::describe_exit_status;
use nodegauge_toolchain::mpi::{LauncherKind, Mpi};
use nodegauge_toolchain::program::{self, ProgramJob};
use nodegauge_toolchain::{ChildEnd, CommandLine, KillReason, quoted_lines};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Reason why an execution of the probe ended early, after it had measured something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IncompleteStart {
    /// The probe printed nothing for this time.
    Hung(Duration),
    /// The launcher or a rank ended. The text contains its exit status and the end of the error output.
    Died(String),
    /// The run exceeded its budget.
    Late,
    /// The user interrupted the run.
    Interrupted,
}

/// Medians of one start, for the comparison of two transports whose starts are interleaved.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StartMedians {
    /// Median round trip of a cache line; NaN if the ranks share no cache line.
    pub trip: Seconds,
    /// Median seconds per operation of each completed size.
    pub seconds: BTreeMap<(Pattern, u64), f64>,
}

impl StartMedians {
    fn from_output(output: &ProbeOutput) -> Self {
        let trips: Vec<f64> = output.sizes.iter().flat_map(SizeRun::trips).collect();
        let through = output.sizes.iter().filter(|run| run.end_reason.is_some());
        let seconds = through.map(|run| ((run.pattern, run.bytes), run.median())).collect();
        Self { trip: Seconds(stats::median(&trips)), seconds }
    }
}

/// Combined output of the starts of one launch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StartReport {
    pub launch: Launch,
    pub output: ProbeOutput,
    /// Number of starts whose samples are combined.
    pub starts: u32,
    /// Medians of each start, in order.
    pub start_medians: Vec<StartMedians>,
    /// Transport of the messages, if the library reports it.
    pub transport: Option<String>,
    /// Reason why a start did not finish; `None` if all starts finished.
    pub incomplete_start: Option<IncompleteStart>,
    /// The launcher's command, without the probe's arguments.
    pub command: String,
}

impl StartReport {
    /// Adds the output of another start of the same launch.
    pub(crate) fn add(&mut self, more: Self) {
        self.start_medians.extend(more.start_medians);
        for size in more.output.sizes {
            let what = (size.pattern, size.bytes, size.ranks);
            let mut sizes = self.output.sizes.iter_mut();
            match sizes.find(|known| (known.pattern, known.bytes, known.ranks) == what) {
                Some(known) => known.add(size),
                None => self.output.sizes.push(size),
            }
        }
        self.starts += 1;
        self.incomplete_start = more.incomplete_start;
    }
}

/// Timeout for the first line of output if all ranks are on this node.
const START: Duration = Duration::from_secs(20);
const START_PER_HOST: Duration = Duration::from_secs(1);
/// Factor by which the timeout of forked ranks is longer. Their end is detected immediately, so a long timeout has no
/// disadvantage. When other programs use the cores, each step of a ring may wait for a time slice of the scheduler.
const FORKED_TIMEOUT_FACTOR: u32 = 5;
/// Time limit for programs that are supervised by their output: a week, so that the timeout for output always ends a
/// start earlier.
pub(crate) const SUPERVISED_TIME_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Maximum number of lines of error output in an error message.
const LINES: usize = 4;
/// Maximum size of the probe's output, in bytes per second of a size's time limit. The probe prints about ten thousand
/// lines per second.
const OUTPUT_PER_SECOND: u64 = 8 << 20;
const UCX_LOG_LEVEL: &str = "UCX_LOG_LEVEL";
/// Parts of the messages that launchers print if they have fewer slots than ranks.
const SLOTS: [&str; 4] =
    ["not enough slots", "More processors requested", "too many tasks", "not enough hosts"];

/// Transport of messages: an MPI, or the built-in one.
#[derive(Clone, Copy)]
pub(crate) enum MessageTransport<'a> {
    /// An MPI with its probe.
    Mpi(&'a Mpi, &'a Probe),
    /// Built-in transport of this program.
    BuiltIn(Fabric),
}

impl MessageTransport<'_> {
    /// Returns the transport's name for messages to the user.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Mpi(mpi, _) => mpi.library.to_string(),
            Self::BuiltIn(fabric) => format!("nodegauge's {}", fabric.title()),
        }
    }

    /// Returns the name of the program that starts the ranks, for messages to the user.
    pub(crate) fn launcher(&self) -> &str {
        match self {
            Self::Mpi(mpi, _) => mpi.launcher.command.program(),
            Self::BuiltIn(_) => "nodegauge",
        }
    }

    /// Returns the kind of the MPI's launcher; `None` for the built-in transport.
    pub(crate) fn launcher_kind(&self) -> Option<LauncherKind> {
        match self {
            Self::Mpi(mpi, _) => Some(mpi.launcher.kind),
            Self::BuiltIn(_) => None,
        }
    }
}

/// Transport that is ready to start ranks, with the options of the run.
#[derive(Clone, Copy)]
pub(crate) struct Starter<'a> {
    pub transport: MessageTransport<'a>,
    /// Patterns that the transport runs.
    pub patterns: &'a [Pattern],
    pub topology: &'a Topology,
    pub options: &'a MessageOptions,
    /// Limits of the run; `None` if it has no budget.
    pub limits: Option<RunLimits>,
}

/// Time without output of a program, from frequent checks. If this process was stopped, e.g. in a paused guest, the
/// program was probably stopped as well. Therefore at most [`OutputWatch::MAX_GAP`] counts between two checks.
pub(crate) struct OutputWatch {
    lasts: Duration,
    looked: Instant,
}

impl OutputWatch {
    /// Maximum time that counts between two checks. It is much longer than the normal interval between checks.
    const MAX_GAP: Duration = Duration::from_millis(500);

    /// Starts the measurement of the time without output.
    pub(crate) fn new() -> Self {
        Self { lasts: Duration::ZERO, looked: Instant::now() }
    }

    /// Returns the reason why the program must be killed: the user interrupted the run, or the program printed nothing
    /// for longer than `timeout`. Returns `None` if it may continue.
    pub(crate) fn reason_to_kill(
        &mut self,
        observer: &dyn Observer,
        timeout: Duration,
    ) -> Option<KillReason> {
        self.look(Instant::now());
        if observer.is_interrupted() {
            Some(KillReason::Interrupted)
        } else {
            (self.lasts > timeout).then_some(KillReason::TimedOut)
        }
    }

    fn look(&mut self, now: Instant) {
        self.lasts += now.saturating_duration_since(self.looked).min(Self::MAX_GAP);
        self.looked = now;
    }
}

impl Starter<'_> {
    /// Starts the probe and reads its output to the end.
    ///
    /// Fails if nothing was measured. Partial results are not an error.
    pub(crate) fn run(
        &self,
        launch: &Launch,
        observer: &mut dyn Observer,
    ) -> Result<StartReport, MessagesError> {
        let run = self.measuring_run(launch)?;
        let hosts = launch.hosts().map_or(0, <[String]>::len) as u32;
        let expected = launch.size_count(self.options).max(1) as f64;
        let mut output = ProbeOutput::default();
        let mut silence = OutputWatch::new();
        let mut timeout = start_time(hosts);
        let mut late = false;
        let finished = program::run_with_listener(&run, &mut |lines| {
            if output.read(lines) {
                silence = OutputWatch::new();
                let done = output.sizes.iter().filter(|size| size.end_reason.is_some()).count();
                let latest = match output.sizes.last() {
                    Some(size) => format!("{}, {}", size.pattern, Bytes(size.bytes)),
                    None => String::new(),
                };
                observer.report_progress(done as f64 / expected, &latest);
            }
            if output.has_handshake {
                let factor = if self.is_built_in() { FORKED_TIMEOUT_FACTOR } else { 1 };
                timeout = launch.timeout(self.options) * factor;
            }
            late = output.has_measured() && self.is_late();
            if late {
                return Some(KillReason::TimedOut);
            }
            silence.reason_to_kill(observer, timeout)
        })?;
        let text = format!("{}\n{}", finished.stderr, output.foreign_lines.join("\n"));
        let mut incomplete_start = match finished.end {
            ChildEnd::Exited(status) if status.success() && output.end => None,
            ChildEnd::Exited(status) => Some(IncompleteStart::Died(describe_exit_status(status))),
            ChildEnd::Killed(KillReason::TimedOut) if late => Some(IncompleteStart::Late),
            ChildEnd::Killed(KillReason::TimedOut) => Some(IncompleteStart::Hung(timeout)),
            ChildEnd::Killed(KillReason::Interrupted) => Some(IncompleteStart::Interrupted),
            ChildEnd::Killed(KillReason::TooMuchOutput) => Some(IncompleteStart::Died(format!(
                "killed after more than {} of output",
                Bytes(run.output_limit)
            ))),
        };
        let measured = output.has_measured();
        let answered = incomplete_start.is_none() && !output.refused_patterns.is_empty();
        let alone = output.world_size.is_some_and(|world| world as usize != launch.ranks());
        if alone || !(measured || answered) {
            return Err(self.no_measurement(launch, &output, incomplete_start, &text));
        }
        if incomplete_start == Some(IncompleteStart::Late) {
            // A size without a batch is left out, like the sizes after it.
            output.sizes.retain(|size| !size.groups.is_empty());
        }
        if let Some(IncompleteStart::Died(how)) = &mut incomplete_start {
            let words = error_tail(&text).replace('\n', " ");
            if !words.is_empty() {
                *how = format!("{how}: {words}");
            }
        }
        let transport = transport(&text);
        let command = finished.launcher.map_or_else(|| "nodegauge".to_owned(), |l| l.to_string());
        let launch = launch.clone();
        let start_medians = vec![StartMedians::from_output(&output)];
        Ok(StartReport {
            launch,
            output,
            starts: 1,
            start_medians,
            transport,
            incomplete_start,
            command,
        })
    }

    /// Returns the number of times that `launch` is started. The samples of all starts are combined, and the starts
    /// share the time limit of each size.
    pub(crate) fn start_count(&self, launch: &Launch) -> u32 {
        let fixed = self.options.samples.is_some() || self.options.iterations.is_some();
        let here = matches!(launch.ranks, RankLocations::ThisNode(_)) && launch.steps.is_empty();
        if fixed || !here { 1 } else { self.options.starts.max(1) }
    }

    /// Returns the options of one start, with its share of the time limit.
    pub(crate) fn start_options(&self, launch: &Launch) -> MessageOptions {
        let size_time_limit = self.options.size_time_limit / self.start_count(launch);
        MessageOptions { size_time_limit, ..self.options.clone() }
    }

    /// Returns the path of the probe; `None` for the built-in transport.
    pub(crate) fn probe_path(&self) -> Option<&Path> {
        match self.transport {
            MessageTransport::Mpi(_, probe) => Some(&probe.path),
            MessageTransport::BuiltIn(_) => None,
        }
    }

    /// True if the run has exceeded the user's budget and must end with its results so far.
    pub(crate) fn is_late(&self) -> bool {
        self.limits.is_some_and(|limits| limits.is_exceeded())
    }

    /// True for the built-in transport.
    pub(crate) fn is_built_in(&self) -> bool {
        matches!(self.transport, MessageTransport::BuiltIn(_))
    }

    /// Returns the job that measures `launch`.
    fn measuring_run<'a>(&'a self, launch: &'a Launch) -> Result<ProgramJob<'a>, MessagesError> {
        let run = match self.transport {
            MessageTransport::Mpi(mpi, probe) => {
                let program = probe.path.display().to_string();
                let mut own = launch.probe_arguments(self.options);
                if !mpi.launcher.binds {
                    own.extend(launch.binding());
                }
                self.program_job(launch, &program, &[probe.arguments.as_slice(), &own].concat())?
            }
            MessageTransport::BuiltIn(fabric) => {
                let order =
                    RankJob::from_launch(launch, fabric, self.options).ok_or_else(only_mpi)?;
                let own = nodegauge_os::own_program().map_err(Failure::missing)?;
                let command = CommandLine::new(own, []).with_arguments(order.arguments());
                ProgramJob::new(command, SUPERVISED_TIME_LIMIT)
            }
        };
        let seconds = self.options.size_time_limit.as_secs().saturating_add(1);
        let sizes = launch.size_count(self.options) as u64;
        let measured = seconds.saturating_mul(sizes).saturating_mul(OUTPUT_PER_SECOND);
        let output_limit = run.output_limit.saturating_add(measured);
        Ok(ProgramJob { output_limit, ..run })
    }

    /// Returns the job that starts `program` on the ranks of `launch`.
    pub(crate) fn program_job<'a>(
        &'a self,
        launch: &'a Launch,
        program: &str,
        arguments: &[String],
    ) -> Result<ProgramJob<'a>, MessagesError> {
        let MessageTransport::Mpi(mpi, _) = self.transport else { return Err(only_mpi()) };
        let command = CommandLine::new(program, []).with_arguments(arguments.iter().cloned());
        let launch = launch.mpi_launch(&mpi.launcher, self.topology, mpi.launcher.refuses_root());
        let mut run = ProgramJob::new(command, SUPERVISED_TIME_LIMIT).with_launcher(launch);
        // UCX prints its transport once, when it is initialized.
        if std::env::var_os(UCX_LOG_LEVEL).is_none() {
            run.environment.push((UCX_LOG_LEVEL.to_owned(), Some("info".to_owned())));
        }
        Ok(run)
    }

    /// Returns the error for a start that measured nothing.
    fn no_measurement(
        &self,
        launch: &Launch,
        output: &ProbeOutput,
        incomplete_start: Option<IncompleteStart>,
        text: &str,
    ) -> MessagesError {
        let launcher = self.transport.launcher();
        if let Some(found) = output.world_size.filter(|world| *world as usize != launch.ranks()) {
            return Failure::missing(format!(
                "{launcher} does not work with {}: {} ranks were requested, and each rank \
                     reports a world size of {found}",
                self.transport.name(),
                launch.ranks(),
            ))
            .hint("give the launcher of that MPI with --launcher")
            .into();
        }
        if let Some(line) = text.lines().find(|line| SLOTS.iter().any(|words| line.contains(words)))
        {
            let more = match self.transport.launcher_kind() {
                Some(LauncherKind::OpenMpi) => {
                    ", or allow more, e.g. --launcher 'mpirun --oversubscribe'"
                }
                _ => "",
            };
            return Failure::missing(format!(
                "{launcher} has too few slots for {} ranks: {}",
                launch.ranks(),
                legible::quote_line(line.trim()),
            ))
            .hint(format!("use fewer --ranks, or request more tasks for the job{more}"))
            .into();
        }
        let words = error_tail(text);
        let problem = match incomplete_start {
            Some(IncompleteStart::Hung(limit)) => {
                return MessagesError::no_output(launcher, limit.as_secs_f64(), &words);
            }
            Some(IncompleteStart::Interrupted) => return MessagesError::Interrupted,
            Some(IncompleteStart::Late) => format!(
                "{launcher} was killed before the first measurement, because no time was left"
            ),
            Some(IncompleteStart::Died(how)) => {
                format!("{launcher} ended before the first measurement: {how}")
            }
            None => format!("{launcher} ended without a measurement"),
        };
        Failure::missing(format!("{problem}{}", quoted_lines(&words))).into()
    }
}

/// Returns the maximum time in which a launcher must start ranks on `hosts` other hosts. A minimum time remains even if
/// the user's budget is nearly used up.
fn start_time(hosts: u32) -> Duration {
    let usual = START + START_PER_HOST * hosts;
    nodegauge_os::remaining_helper_time(usual).max(usual / 4)
}

/// Returns the error for a launch that the built-in transport does not support; plans never contain one.
fn only_mpi() -> MessagesError {
    transport::mpi_required_error("this start of ranks", None)
}

/// Returns the last informative lines of an error output, without the verbose output that nodegauge requested.
pub(crate) fn error_tail(text: &str) -> String {
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !is_requested_output(line)).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    last.iter().map(|line| legible::quote_line(line)).collect::<Vec<_>>().join("\n")
}

/// True for a separator line, or for verbose output that nodegauge requested.
fn is_requested_output(line: &str) -> bool {
    let is_rule = line.trim().chars().all(|c| c == '-' || c == '=');
    let requested = ["mca:", "select:", "selected ", "UCX  INFO", "UCX  DIAG", "components_"];
    is_rule || requested.iter().any(|words| line.contains(words))
}

/// Returns the text between two words of a line.
fn between<'a>(line: &'a str, from: &str, to: &str) -> Option<&'a str> {
    Some(line.split_once(from)?.1.split_once(to)?.0)
}

/// Returns the transport of the messages from the output of the library's initialization. For Open MPI these are the
/// layer and its transports, for UCX the lanes for tagged messages.
fn transport(text: &str) -> Option<String> {
    let mut layer = None;
    let mut ways: Vec<String> = Vec::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("select: component ") {
            layer = rest.strip_suffix(" selected").map(|name| format!("pml {name}")).or(layer);
        }
        let btl = between(line, "Using ", " btl for send").filter(|name| *name != "self");
        let lanes = between(line, ": tag(", ")").filter(|_| line.contains("ep_cfg"));
        let ucx = lanes.filter(|lanes| !lanes.starts_with("self"));
        let ucx = ucx.map(|names| format!("ucx {names}"));
        let way = btl.map(|name| format!("btl {name}")).or(ucx);
        ways.extend(way.filter(|way| !ways.contains(way)));
    }
    let parts: Vec<String> = layer.into_iter().chain(ways).collect();
    (!parts.is_empty()).then(|| legible::quote_line(&parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_of_the_machine_does_not_count_as_silence() {
        let mut silence = OutputWatch::new();
        let begun = silence.looked;
        for look in 1..=100 {
            silence.look(begun + Duration::from_millis(20 * look));
        }
        assert_eq!(silence.lasts, Duration::from_secs(2));
        silence.look(begun + Duration::from_secs(3600));
        assert_eq!(silence.lasts, Duration::from_secs(2) + OutputWatch::MAX_GAP);
    }

    #[test]
    fn transport_is_read_from_library_output() {
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
    fn error_tail_omits_separators_and_requested_output() {
        let text =
            "-----\nmpirun has exited\n[vm:1] mca: bml: Using vader\n\n  rank 1 died  \n----\n";
        assert_eq!(error_tail(text), "mpirun has exited\nrank 1 died");
        assert!(error_tail(&"y".repeat(1 << 20)).len() < 1000);
    }
}
