//! Built-in transport, for nodes without an MPI, and as a lower bound for the times of an MPI. Ranks are forked
//! children of one process of this program, which acts as the launcher and prints the same output as the probe.
//!
//! The crate `exchange` transfers and times messages: small messages through a ring buffer in shared memory, and large
//! messages with a single copy from the other process (`process_vm_readv`). Alternatively, all messages use TCP on the
//! loopback interface. `measure` times each size until its median is stable, and `ranks` starts, binds and ends the
//! ranks.

mod measure;
mod ranks;

pub use ranks::serve;

use crate::MessagesError;
use crate::job::launch::{Launch, RankLocations};
use crate::options::{MessageOptions, Timing, WindowBuffers};
use crate::pattern::{Participants, Pattern};
use nodegauge_measure::{Failure, names};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// Hidden command that runs the ranks of the built-in transport.
pub const COMMAND: &str = "transport-ranks";

/// Fabric that connects ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fabric {
    /// Shared memory.
    Shm,
    /// TCP on the loopback interface.
    Tcp,
}

names!(Fabric, "transport", Shm = "shm", Tcp = "tcp");

impl Fabric {
    /// Returns the human-readable name.
    pub fn title(self) -> &'static str {
        match self {
            Self::Shm => "shared memory",
            Self::Tcp => "TCP loopback",
        }
    }

    /// Returns the reason why ranks cannot use this fabric; `None` if they can use it.
    pub(crate) fn missing_reason(self) -> Option<String> {
        match self {
            Self::Shm => None,
            Self::Tcp => {
                let failed = connect_to_self().err();
                failed.map(|cause| format!("TCP on 127.0.0.1: {cause}"))
            }
        }
    }
}

/// Opens a TCP connection from this process to itself, to check that the loopback interface works.
fn connect_to_self() -> std::io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    TcpStream::connect(listener.local_addr()?)
}

/// True if the built-in transport supports this pattern.
pub(crate) fn supports(pattern: Pattern) -> bool {
    matches!(pattern.properties().participants, Participants::Pair | Participants::Pairs)
}

/// Size of the messages in bytes, number of warm-up operations, and number of timed operations (0 if it is not fixed).
type SizeOrder = (u64, u64, u64);

/// Job for the ranks of the built-in transport.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RankJob {
    /// ID of the process that starts the job.
    parent: u32,
    fabric: Fabric,
    /// CPUs of each rank.
    cpus: Vec<Vec<u32>>,
    /// Names of the patterns, with their sizes.
    patterns: Vec<(String, Vec<SizeOrder>)>,
    window: usize,
    limit_s: f64,
    samples: Option<u32>,
    validation_rounds: u32,
    each: bool,
    multiple: bool,
    /// Pairs that run one after another; empty if all ranks run the patterns together.
    steps: Vec<(usize, usize)>,
}

impl RankJob {
    /// Creates the job for `launch` on this node; `None` if the launch is for other hosts.
    pub(crate) fn from_launch(
        launch: &Launch,
        fabric: Fabric,
        options: &MessageOptions,
    ) -> Option<Self> {
        let RankLocations::ThisNode(_) = &launch.ranks else { return None };
        let mut patterns = Vec::new();
        for pattern in launch.patterns.iter().copied().filter(|pattern| supports(*pattern)) {
            let mut sizes = Vec::new();
            for bytes in launch.valid_sizes(pattern, options) {
                let (warm_up, timed) = options.operation_counts(pattern, bytes);
                sizes.push((bytes, warm_up, timed));
            }
            patterns.push((pattern.name().to_owned(), sizes));
        }
        Some(Self {
            parent: std::process::id(),
            fabric,
            cpus: launch.places()?,
            patterns,
            window: options.window as usize,
            limit_s: options.size_time_limit.as_secs_f64(),
            samples: options.samples,
            validation_rounds: options.validation_rounds,
            each: options.timing == Timing::Each,
            multiple: options.buffers == WindowBuffers::Multiple,
            steps: launch.steps.iter().flatten().copied().collect(),
        })
    }

    /// Returns the arguments with which this program runs the job.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let order =
            serde_json::to_string(self).expect("a job of names and numbers can be serialized");
        vec![COMMAND.to_owned(), order]
    }
}

/// Returns the error for a request that requires an MPI. `missing` is the reason why no MPI was found; `None` if the
/// user chose a transport without an MPI.
pub(crate) fn mpi_required_error(what: &str, missing: Option<&Failure>) -> MessagesError {
    match missing {
        None => Failure::usage(format!("{what}: an MPI is required"))
            .hint("leave out --transport, or choose latency, bw, bibw, multi_lat, mbw_mr")
            .into(),
        Some(why) => {
            let message = format!("{what}: an MPI is required, and {}", why.problem());
            Failure::missing(message).hint_if(why.hint.clone()).into()
        }
    }
}

/// Returns a remark in parentheses on what prevents processes from reading each other's memory: the kernel's setting if
/// it does, otherwise the usual cause.
pub(crate) fn memory_read_restriction() -> String {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    match scope.as_deref().map(str::trim) {
        Ok(scope @ ("2" | "3")) => format!(" (kernel.yama.ptrace_scope is {scope})"),
        _ => " (usually because of a container's seccomp profile)".to_owned(),
    }
}
