//! Several processes that measure at once, each with arrays of its own, as flat MPI does.
//!
//! One process, the coordinator, gives orders and collects answers; it measures nothing. The others,
//! the ranks, each hold points of their own. Orders and answers are lines of JSON on a local socket,
//! whose end tells at once when a process has gone, whoever started it. Before each kernel the
//! ranks meet at a barrier in shared memory, spinning, then yielding. A kernel's time is that from
//! the first start to the last end over all ranks, and the rate is the bytes of all ranks over it,
//! as stream_mpi.c does with its barriers; the clock is the machine's, so that it needs no message.
//!
//! The socket has an abstract name and the memory none at all, so nothing is left behind, however a
//! process ends. Ranks are started here ([`Fleet::start`]), or by an MPI launcher or srun
//! ([`started`]): then the process of rank 0 coordinates, and starts one more that measures for it.

pub(crate) mod evidence;
mod fleet;
mod link;
mod point;
pub mod started;
mod wire;
mod worker;

pub use fleet::{Fleet, Hello, SharedFleet};
pub use point::FleetPoint;
pub use started::Started;
pub use worker::serve;

use crate::point::PointConfig;
use crate::size::{Size, SizeSpec};
use crate::stream::{self, Options, StreamError};
use nodegauge_machine::Topology;
use nodegauge_measure::record::Machine;
use nodegauge_placement::RankPlan;

/// Why ranks cannot measure together.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RankError {
    /// A process ended while it was needed.
    #[error(
        "rank {rank} (process {process}) ended in the middle of the run{how}\nhint: look into the system's log whether memory ran out, and give a smaller --size"
    )]
    Lost {
        /// The rank.
        rank: u32,
        /// Its process.
        process: u32,
        /// `: signal 9 (killed, perhaps for want of memory)`, where that is known.
        how: String,
    },
    /// A rank says why it cannot go on.
    #[error("rank {rank}: {message}")]
    Failed {
        /// The rank.
        rank: u32,
        /// What it says.
        message: String,
    },
    /// No answer for a long time.
    #[error("no answer from ranks {missing} within {seconds} s")]
    Silent {
        /// The ranks, as ranges.
        missing: String,
        /// How long was waited.
        seconds: u64,
    },
    /// Some ranks did not come.
    #[error(
        "only {came} of {ranks} ranks came within {seconds} s; missing: {missing}\nhint: start all ranks with the same command on one host"
    )]
    Missing {
        /// How many there are to be.
        ranks: u32,
        /// How many came.
        came: usize,
        /// The others, as ranges.
        missing: String,
        /// How long was waited.
        seconds: u64,
    },
    /// Rank 0, which coordinates, did not come.
    #[error(
        "rank {rank} of {ranks}: rank 0 has not come within {seconds} s\nhint: start all ranks with the same command on one host"
    )]
    Alone {
        /// This rank.
        rank: u32,
        /// How many there are to be.
        ranks: u32,
        /// How long was waited.
        seconds: u64,
    },
    /// Another run of the same job coordinates under this name.
    #[error("another nodegauge of this job is measuring on this host\nhint: start one at a time")]
    Taken,
    /// The system refused what ranks need.
    #[error("cannot {what}: {cause}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// What the system said.
        cause: String,
    },
}

impl RankError {
    fn system(what: &'static str, cause: impl ToString) -> Self {
        Self::System { what, cause: cause.to_string() }
    }
}

/// Plans a run of several ranks: how long the arrays of each are and on which pages. `auto` and
/// `4xLLC` are held against the arrays of all ranks together, of which each takes its part; any
/// other length is that of each rank's own arrays.
///
/// # Errors
/// When they do not fit.
pub fn plan(
    topology: &Topology,
    machine: &Machine,
    ranks: &RankPlan,
    options: &Options,
) -> Result<(Size, Vec<PointConfig>), StreamError> {
    let count = ranks.ranks.len() as u64;
    let shared = matches!(options.size, SizeSpec::Auto | SizeSpec::TimesLlc(_));
    let together = ranks.together();
    // The widest policy decides what memory can be had: ranks bound to different nodes have all.
    let mut options = options.clone();
    options.policy = whole_policy(ranks);
    if !shared {
        options.memory_fraction /= count as f64;
    }
    let (mut size, config) = stream::plan(topology, machine, &together, &options)?;
    let elements = if shared { size.elements.div_ceil(count) } else { size.elements };
    if !shared {
        // The rule asks for the arrays of all ranks.
        let total = elements * count;
        let bytes = (size.elements * options.element.bytes()) as f64;
        let llc = size.times_llc.map(|times| bytes / times);
        size = Size::of(total, options.element, llc, size.notices);
    }
    let each = |place: &nodegauge_placement::RankPlace| PointConfig {
        places: stream::masks(&place.placement),
        elements,
        policy: place.memory.clone(),
        ..config.clone()
    };
    Ok((size, ranks.ranks.iter().map(each).collect()))
}

/// The policy over all ranks' nodes: bound memory is bound to the nodes of all of them together.
fn whole_policy(ranks: &RankPlan) -> nodegauge_placement::MemoryPolicy {
    use nodegauge_placement::MemoryPolicy;
    let bound = |place: &nodegauge_placement::RankPlace| match &place.memory {
        MemoryPolicy::Bind(nodes) => Some(nodes.clone()),
        _ => None,
    };
    let nodes: Option<Vec<Vec<_>>> = ranks.ranks.iter().map(bound).collect();
    match nodes {
        Some(nodes) => {
            let mut nodes: Vec<_> = nodes.into_iter().flatten().collect();
            nodes.sort_unstable();
            nodes.dedup();
            MemoryPolicy::Bind(nodes)
        }
        None => MemoryPolicy::Default,
    }
}
