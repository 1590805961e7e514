//! Why a placement is impossible. Each text names the numbers of the machine and, where there is
//! one, the remedy on a line of its own.

/// A request that the topology cannot fulfil.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// A CPU that exists but that the cpuset or affinity mask of this process leaves out.
    #[error("cpu {cpu} is not among the CPUs that this process may use ({allowed})")]
    CpuNotAllowed {
        /// The CPU.
        cpu: u32,
        /// The allowed CPUs in range notation.
        allowed: String,
    },
    /// A CPU that the machine does not have; negative where a stride led below 0.
    #[error(
        "cpu {cpu} is not on this machine, whose CPUs are {machine}; this process may use {allowed}"
    )]
    NoSuchCpu {
        /// The CPU.
        cpu: i64,
        /// All CPUs in range notation.
        machine: String,
        /// The allowed CPUs in range notation.
        allowed: String,
    },
    /// More threads than hardware threads.
    #[error(
        "cannot place {threads} threads: this process may use {} ({allowed})\nhint: ask for {usable} or fewer, e.g. --threads {usable}",
        counted(*.usable, "hardware thread")
    )]
    TooManyThreads {
        /// Threads asked for.
        threads: u32,
        /// Hardware threads that may be used.
        usable: usize,
        /// The allowed CPUs in range notation.
        allowed: String,
    },
    /// Zero threads, or zero threads per cache.
    #[error("cannot place 0 threads\nhint: ask for at least 1")]
    NoThreads,
    /// The process may use no CPU of this topology.
    #[error("this process may use no CPU of this machine")]
    NoCpus,
    /// Places that this machine cannot have.
    #[error("places \"{places}\": {problem}")]
    Places {
        /// The places as asked.
        places: String,
        /// What is wrong with them.
        problem: String,
    },
    /// Two options that each decide where threads or memory go.
    #[error("{first} and {second} both say where {what}\nhint: give one of them")]
    Conflict {
        /// `threads go` or `memory goes`.
        what: &'static str,
        /// One option.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// Threads per cache on a machine whose last-level caches are not known or not there.
    #[error(
        "cannot place threads by cache: this machine has no cache beyond level 1\nhint: use --places cores --bind spread"
    )]
    NoCaches,
    /// A cache with too few hardware threads.
    #[error(
        "cannot place {asked} threads on each last-level cache: cache {cache} has {} that this process may use ({cpus})",
        counted(*.usable, "hardware thread")
    )]
    CacheTooSmall {
        /// Threads on each cache, as asked.
        asked: u32,
        /// The number of the cache.
        cache: u32,
        /// Its hardware threads that may be used.
        usable: usize,
        /// Those in range notation.
        cpus: String,
    },
    /// More threads than all caches take at the asked number on each.
    #[error(
        "cannot place {threads} threads, {asked} on each last-level cache: there is room for {most} on {}\nhint: ask for --threads {most} or fewer, or for more on each cache",
        counted(*.caches, "cache")
    )]
    TooFewCaches {
        /// Threads asked for.
        threads: u32,
        /// Threads on each cache, as asked.
        asked: u32,
        /// Caches that may be used.
        caches: usize,
        /// The product.
        most: u64,
    },
    /// A `permute` of `KMP_AFFINITY` beyond the levels of this machine.
    #[error("KMP_AFFINITY: permute {permute} is out of range: this machine has {depth} levels ({levels})\nhint: permute is 0 to {most}", most = depth.saturating_sub(1))]
    Permute {
        /// As asked.
        permute: u32,
        /// Levels of the machine.
        depth: usize,
        /// Their names, outermost first.
        levels: String,
    },
    /// A NUMA node that the machine does not have.
    #[error("NUMA node {node} does not exist: this machine has {nodes}")]
    NoSuchNode {
        /// The node.
        node: u32,
        /// What there is, e.g. `nodes 0-3`.
        nodes: String,
    },
    /// More ranks, each with its threads, than hardware threads.
    #[error(
        "cannot place {ranks} ranks of {}: this process may use {} ({allowed})\nhint: {}",
        counted(*.threads as usize, "thread"),
        counted(*.usable, "hardware thread"),
        ranks_that_fit(*.threads, *.usable)
    )]
    TooManyRanks {
        /// Ranks asked for.
        ranks: u32,
        /// Threads a rank.
        threads: u32,
        /// Hardware threads that may be used.
        usable: usize,
        /// The allowed CPUs in range notation.
        allowed: String,
    },
    /// Zero ranks.
    #[error("cannot place 0 ranks\nhint: ask for at least 1")]
    NoRanks,
    /// `--cpus` whose length fits neither the ranks nor their threads.
    #[error(
        "--cpus names {}, but there are {ranks} ranks of {}\nhint: name {}, or one group a rank, e.g. --cpus '{{0-3}},{{4-7}}'",
        counted(*.named, "entry"),
        counted(*.threads as usize, "thread"),
        counted(*.ranks as usize * *.threads as usize, "CPU")
    )]
    WrongCpus {
        /// Entries of the list.
        named: usize,
        /// Ranks.
        ranks: u32,
        /// Threads a rank.
        threads: u32,
    },
    /// A policy that names NUMA nodes on a machine without.
    #[error(
        "policy {policy} needs NUMA nodes, of which this machine shows none\nhint: use --policy 0 or 5"
    )]
    NoNodes {
        /// The number of the policy.
        policy: u8,
    },
}

/// What to do about too many ranks.
fn ranks_that_fit(threads: u32, usable: usize) -> String {
    match usable / threads.max(1) as usize {
        0 => format!("ask for {usable} or fewer threads a rank, e.g. --threads {usable}"),
        most => format!("ask for {most} or fewer, e.g. --ranks {most}"),
    }
}

impl From<PlacementError> for nodegauge_measure::Failure {
    fn from(error: PlacementError) -> Self {
        Self::usage(error)
    }
}

/// `1 cache`, `2 caches`, `2 entries`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        _ => format!("{count} {noun}s"),
    }
}
