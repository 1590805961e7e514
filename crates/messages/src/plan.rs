//! Plan of a run: ranks, patterns and launches. Planning accesses the system only to search for MPIs.

pub(crate) mod mpis;
pub(crate) mod prediction;
pub(crate) mod transport_choice;

use crate::figures::lower_bound;
use crate::job::launch::{Launch, RankLocations};
use crate::nodes;
use crate::options::{MessageOptions, SideThreads};
use crate::osu::{self, OsuPrograms};
use crate::pattern::{Participants, Pattern};
use crate::transport::{self, Fabric};
use crate::{GAUGE, MessagesError};
pub use mpis::MpiRequest;
use nodegauge_gauge::{Depth, MeasuredNode, SummaryRequest};
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::schedule::Budget;
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId};
use nodegauge_placement::{CpuPair, Distance, pairs};
use nodegauge_toolchain::mpi::HostList;
use std::collections::BTreeSet;
use std::time::Duration;
use transport_choice::{TransportChoice, TransportKind};

/// Sizes of the quick test.
const QUICK_SIZES: [u64; 5] = [8, 1024, 65_536, 1 << 20, 4 << 20];
/// Default sizes of a matrix. There are few sizes, because a matrix has a pair for every two cores.
const MATRIX_SIZES: [u64; 2] = [8, 1 << 20];
/// Time limit per size in the quick test.
const QUICK_LIMIT: Duration = Duration::from_millis(150);
/// Minimum time limit per size.
const MIN_LIMIT: Duration = Duration::from_millis(1);

/// Requested pairs of ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RankPairs {
    /// One pair for each distance on this node.
    #[default]
    EachDistance,
    /// One pair for each of these distances.
    Distances(Vec<Distance>),
    /// A pair on these two hardware threads.
    Cpus(CpuId, CpuId),
    /// All pairs of two cores.
    All,
    /// Pairs of hosts, with one rank per host.
    Hosts(Vec<String>),
}

impl RankPairs {
    /// Creates pairs of these hosts, without duplicate hosts; `slurm` in the list means the hosts of the Slurm job.
    ///
    /// Fails if there are fewer than two hosts, or no Slurm job.
    pub fn from_hosts(lists: &[HostList]) -> Result<Self, MessagesError> {
        let mut hosts = HostList::resolve_all(lists)?;
        let mut seen = BTreeSet::new();
        hosts.retain(|host| seen.insert(host.clone()));
        match hosts.len() {
            0 | 1 => Err(Failure::usage("messages between hosts require at least two hosts")
                .hint("e.g. --hosts node1,node2")
                .into()),
            _ => Ok(Self::Hosts(hosts)),
        }
    }
}

/// Request of the user: MPIs, ranks, number of samples and time limits.
#[derive(Debug, Clone, Default)]
pub struct MessageRequest {
    /// Requested MPIs, with their launchers and OSU programs.
    pub mpi: MpiRequest,
    /// Pairs of ranks on this node.
    pub pairs: Option<RankPairs>,
    /// Hosts between which messages are measured; pairs on this node if empty.
    pub hosts: Vec<HostList>,
    /// Number of ranks.
    pub ranks: Option<usize>,
    /// Time limit per size, for all starts together.
    pub size_time_limit: Option<Duration>,
    /// Exact number of batches; with the OSU micro-benchmarks, exact number of rounds.
    pub samples: Option<u32>,
}

/// Run of message measurements that has been planned and not yet started.
#[derive(Debug)]
pub struct MessagesPlan {
    pub(crate) options: MessageOptions,
    pub(crate) rank_pairs: RankPairs,
    pub(crate) launches: Vec<Launch>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) choice: TransportChoice,
    /// Fabrics of the built-in transport to measure.
    pub(crate) fabrics: Vec<Fabric>,
    /// OSU programs for each MPI; empty to run only the probe.
    pub(crate) osu: Vec<OsuPrograms>,
    /// Number of interleaved rounds of an OSU program and the probe.
    pub(crate) rounds: u32,
    /// True if the user set the number of rounds, so that the rounds are run regardless of the time.
    pub(crate) is_round_count_given: bool,
    /// Time limit per size that applies unless the budget requires a shorter one.
    usual_limit: Duration,
}

impl MessagesPlan {
    /// Creates the plan of the requested run.
    ///
    /// Fails if there are fewer than two ranks, or if a requested pair, MPI or program is missing.
    pub fn new(
        site: &MeasuredNode,
        mut options: MessageOptions,
        asked: &MessageRequest,
    ) -> Result<Self, MessagesError> {
        let request = &asked.mpi;
        let rank_pairs = match asked.hosts.as_slice() {
            [] => asked.pairs.clone().unwrap_or_default(),
            hosts => RankPairs::from_hosts(hosts)?,
        };
        if request.osu.is_empty() {
            options.samples = asked.samples;
        } else {
            // The OSU programs and the probe use the same threads and operations. Each round is a sample.
            options.threads = options.threads.or(Some(SideThreads::DEFAULT));
            options.like_osu = true;
            options.size_time_limit = osu::SIZE_TIME_LIMIT;
        }
        options.size_time_limit = asked.size_time_limit.unwrap_or(options.size_time_limit);
        if rank_pairs == RankPairs::All {
            options.sizes.get_or_insert_with(|| MATRIX_SIZES.to_vec());
        }
        let mut plan = Self::without_transport(&site.topology, options, rank_pairs, asked.ranks)?;
        plan.check_memory(site.machine.memory.available)?;
        plan.choose(request)?;
        plan.osu = request.programs()?;
        plan.keep_budget();
        // OSU programs run as root only if the user allows it.
        if !plan.osu.is_empty() && !plan.options.as_root {
            plan.choice.mpis.iter().try_for_each(|mpi| mpi.launcher.check_root())?;
        }
        plan.rounds = asked.samples.unwrap_or(osu::DEFAULT_ROUNDS);
        plan.is_round_count_given = asked.samples.is_some();
        Ok(plan)
    }

    /// Creates the plan for the summary of the node: a few sizes between the two nearest cores, with the first usable
    /// MPI.
    ///
    /// Fails if no MPI can start ranks on this node, or if this process may use only one CPU.
    pub(crate) fn summary_plan(
        site: &MeasuredNode,
        ask: &SummaryRequest<'_>,
    ) -> Result<Self, MessagesError> {
        let mut options = MessageOptions {
            patterns: vec![Pattern::Latency, Pattern::Bw],
            has_named_patterns: true,
            budget: ask.budget.map(Budget::from),
            ..MessageOptions::default()
        };
        if ask.depth == Depth::Quick {
            options.sizes = Some(QUICK_SIZES.to_vec());
            options.size_time_limit = QUICK_LIMIT;
            options.starts = 1;
        }
        let rank_pairs = RankPairs::EachDistance;
        let mut plan = Self::without_transport(&site.topology, options, rank_pairs, None)?;
        plan.choose(&MpiRequest::default())?;
        // The summary uses only one fabric.
        plan.fabrics.truncate(1);
        plan.keep_budget();
        Ok(plan)
    }

    /// Chooses the transport: an MPI or the built-in one.
    ///
    /// Fails if the requested transport is unavailable, or if none is available.
    fn choose(&mut self, request: &MpiRequest) -> Result<(), MessagesError> {
        self.choice = transport_choice::choose(request)?;
        let hosts = matches!(self.rank_pairs, RankPairs::Hosts(_));
        if self.choice.kind != TransportKind::BuiltIn {
            let here = !hosts && self.rank_pairs != RankPairs::All && request.osu.is_empty();
            self.fabrics = if request.lower_bound && here { vec![Fabric::Shm] } else { Vec::new() };
            return Ok(());
        }
        let missing = self.choice.missing_reason.take();
        if hosts {
            return Err(transport::mpi_required_error("messages between hosts", missing.as_ref()));
        }
        let asked = !request.transport.is_empty();
        self.fabrics = if asked { request.transport.clone() } else { Fabric::ALL.to_vec() };
        for fabric in self.fabrics.clone() {
            match fabric.missing_reason() {
                Some(text) if asked => return Err(Failure::missing(text).into()),
                Some(text) => {
                    self.leave_out(format!("{} left out: {text}", fabric.title()));
                    self.fabrics.retain(|known| *known != fabric);
                }
                None => {}
            }
        }
        let lacking =
            self.options.patterns.iter().filter(|pattern| !transport::supports(**pattern));
        let names: Vec<&str> = lacking.map(|pattern| pattern.name()).collect();
        let nothing = names.len() == self.options.patterns.len();
        if !names.is_empty() && (self.options.has_named_patterns || nothing) {
            return Err(transport::mpi_required_error(&names.join(", "), missing.as_ref()));
        }
        if !names.is_empty() {
            let text = format!("patterns that require an MPI are left out: {}", names.join(", "));
            self.leave_out(text);
        }
        for launch in &mut self.launches {
            launch.patterns.retain(|pattern| transport::supports(*pattern));
        }
        self.launches.retain(|launch| !launch.patterns.is_empty());
        self.notices.retain(|notice| notice.id != NoticeId::FewerThreads);
        let how = "messages use nodegauge's own transport; these figures are not comparable with \
                   those of an MPI";
        let text = match &missing {
            Some(missing) => format!("{}: {how}", missing.reason()),
            None => how.to_owned(),
        };
        self.notices.insert(0, Notice::new(NoticeId::Method, GAUGE, text));
        Ok(())
    }

    /// Adds a notice about something that is left out.
    fn leave_out(&mut self, text: String) {
        self.notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
    }

    /// Returns the number of sizes to measure, summed over all transports, programs and rounds.
    pub(crate) fn size_count(&self) -> usize {
        let with_osu = if self.osu.is_empty() { 1 } else { 2 };
        let own = self.fabrics.len() * self.sizes(self.built_in_patterns());
        own + self.choice.mpis.len() * self.sizes(Pattern::ALL) * with_osu * self.rounds as usize
    }

    /// Returns the number of sizes of these patterns, summed over all launches.
    fn sizes(&self, patterns: &[Pattern]) -> usize {
        let parts = self.launches.iter().filter_map(|launch| launch.with_only_patterns(patterns));
        parts.map(|launch| launch.size_count(&self.options)).sum()
    }

    /// Returns the patterns that the built-in transport runs: all patterns without an MPI; otherwise those with a lower
    /// bound.
    pub(crate) fn built_in_patterns(&self) -> &'static [Pattern] {
        if self.choice.mpis.is_empty() { Pattern::ALL } else { &lower_bound::PATTERNS }
    }

    /// Divides the budget equally among all sizes. Does nothing if there is no budget.
    fn keep_budget(&mut self) {
        if let Some(budget) = self.options.budget {
            self.divide(budget.time);
        }
    }

    /// Sets the time limit per size: an equal share of `time`, within the limits.
    fn divide(&mut self, time: Duration) {
        let share = time.div_f64(self.size_count().max(1) as f64);
        self.options.size_time_limit = share.min(self.usual_limit).max(MIN_LIMIT);
    }

    /// Creates the plan without a transport, with launches that do not depend on the transport.
    fn without_transport(
        topology: &Topology,
        mut options: MessageOptions,
        rank_pairs: RankPairs,
        ranks: Option<usize>,
    ) -> Result<Self, MessagesError> {
        let meaningless = options.leave_out_invalid_sizes()?;
        let (launches, mut notices) = launches(topology, &options, &rank_pairs, ranks)?;
        notices.extend(meaningless);
        notices.extend(memory_limit_notices(&launches, &options)?);
        let choice = TransportChoice::default();
        let fabrics = Vec::new();
        let osu = Vec::new();
        let usual_limit = options.size_time_limit;
        Ok(Self {
            options,
            rank_pairs,
            launches,
            notices,
            choice,
            fabrics,
            osu,
            rounds: 1,
            is_round_count_given: false,
            usual_limit,
        })
    }

    /// Returns the size in bytes of the buffers of all ranks, for the pattern with the largest buffers.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.largest_buffers().map_or(0, |(bytes, ..)| bytes)
    }

    fn largest_buffers(&self) -> Option<(u64, Pattern, usize)> {
        let mut all = Vec::new();
        for launch in &self.launches {
            for pattern in &launch.patterns {
                let bytes = launch.buffer_bytes(*pattern, &self.options);
                all.push((bytes, *pattern, launch.ranks()));
            }
        }
        all.into_iter().max_by_key(|(bytes, ..)| *bytes)
    }

    /// Checks that the buffers fit into the memory of this node.
    ///
    /// Fails if the buffers of a launch need more than `available` bytes.
    fn check_memory(&self, available: Option<u64>) -> Result<(), MessagesError> {
        let here = !matches!(self.rank_pairs, RankPairs::Hosts(_));
        match self.largest_buffers().zip(available) {
            Some(((bytes, pattern, ranks), available)) if here && bytes > available => {
                Err(Failure::missing(format!(
                    "the buffers of {pattern} among {ranks} ranks need {}, but {} of memory \
                         is available",
                    Bytes(bytes),
                    Bytes(available),
                ))
                .hint("use smaller --sizes, fewer --ranks, or a lower --mem-limit")
                .into())
            }
            _ => Ok(()),
        }
    }
}

/// Returns notices about the sizes that exceed the memory limit.
///
/// Fails if every size of a pattern exceeds the limit.
fn memory_limit_notices(
    launches: &[Launch],
    options: &MessageOptions,
) -> Result<Vec<Notice>, MessagesError> {
    let mut notices = Vec::new();
    for (launch, pattern) in launches.iter().flat_map(|l| l.patterns.iter().map(move |p| (l, *p))) {
        let asked = launch.requested_sizes(pattern, options);
        let kept = launch.valid_sizes(pattern, options);
        if kept.len() == asked.len() {
            continue;
        }
        let ranks = launch.ranks();
        let limit = Bytes(options.memory_limit);
        let Some(largest) = kept.last() else {
            return Err(Failure::usage(format!(
                "a buffer of {pattern} among {ranks} ranks is larger than {limit} for every \
                     size"
            ))
            .hint("use smaller --sizes, fewer --ranks, or a higher --mem-limit")
            .into());
        };
        let text = format!(
            "{pattern} among {ranks} ranks is measured only up to {}: buffers of larger sizes exceed {limit} (--mem-limit)",
            Bytes(*largest)
        );
        notices.push(Notice::new(NoticeId::Clamped, GAUGE, text));
    }
    Ok(notices)
}

/// Returns the launches of a run, with notices.
///
/// Fails if fewer than two ranks are possible, or if the requested pair does not exist.
fn launches(
    topology: &Topology,
    options: &MessageOptions,
    rank_pairs: &RankPairs,
    ranks: Option<usize>,
) -> Result<(Vec<Launch>, Vec<Notice>), MessagesError> {
    if let RankPairs::Hosts(hosts) = rank_pairs {
        return Ok((nodes::launches(hosts, options), Vec::new()));
    }
    let mut cores = pairs::one_cpu_per_core(topology);
    if cores.len() < 2 {
        cores = topology.allowed_threads().map(|thread| thread.cpu).collect();
    }
    if cores.len() < 2 {
        let why = "messages require two ranks, but this process may use only one hardware thread";
        let hint = "request more CPUs (taskset, cpuset, --cpus-per-task)";
        return Err(Failure::missing(why).hint(hint).into());
    }
    if *rank_pairs == RankPairs::All {
        return Ok((vec![matrix(&cores, options)], Vec::new()));
    }
    let pairs = chosen(topology, rank_pairs)?;
    let mut notices = Vec::new();
    let mut launches = Vec::new();
    let own = options.patterns_with(&[Participants::Pair]);
    for pair in pairs.iter().filter(|_| !own.is_empty()) {
        let places = RankLocations::ThisNode(vec![vec![pair.first], vec![pair.second]]);
        launches.push(Launch::new(places, Some(pair.distance), own.clone()));
    }
    let together = options.patterns_with(&[Participants::Pairs, Participants::All]);
    if !together.is_empty() {
        let in_pairs = !options.patterns_with(&[Participants::Pairs]).is_empty();
        let count = joint_rank_count(ranks, cores.len(), in_pairs, &mut notices)?;
        let cpus: Vec<Vec<CpuId>> =
            (0..count).map(|rank| vec![cores[rank % cores.len()]]).collect();
        let distance = match cpus.as_slice() {
            [a, b] => pairs::distance(topology, a[0], b[0]),
            _ => None,
        };
        let places = RankLocations::ThisNode(cpus);
        // Patterns whose ranks have the same places share a launch.
        match launches.iter_mut().find(|known| known.ranks == places) {
            Some(known) => known.patterns.extend(together),
            None => launches.push(Launch::new(places, distance, together)),
        }
    }
    let threaded = options.patterns_with(&[Participants::Threads]);
    let apart = pairs.iter().find(|pair| pair.distance != Distance::Core).or(pairs.first());
    if let Some(pair) = apart.filter(|_| !threaded.is_empty()) {
        let (cpus, threads) = thread_counts(topology, options, *pair, &cores, &mut notices);
        let launch = Launch::new(RankLocations::ThisNode(cpus), Some(pair.distance), threaded);
        launches.push(Launch { threads, ..launch });
    }
    Ok((launches, notices))
}

/// Maximum number of ranks per core: the largest number of hardware threads per core of any processor (8 on POWER).
/// Waiting ranks poll, so with more ranks the result would depend on the scheduler.
const MAX_RANKS_PER_CORE: usize = 8;

/// Returns the number of ranks for the patterns that use all ranks.
///
/// Fails if there are too many ranks for the cores.
fn joint_rank_count(
    asked: Option<usize>,
    cores: usize,
    in_pairs: bool,
    notices: &mut Vec<Notice>,
) -> Result<usize, MessagesError> {
    let count = asked.unwrap_or(cores);
    if count > cores * MAX_RANKS_PER_CORE {
        return Err(Failure::usage(format!(
            "{count} ranks are too many for {}",
            count_in_words(cores, "core")
        ))
        .hint(format!("use at most {}, e.g. --ranks {cores}", cores * MAX_RANKS_PER_CORE))
        .into());
    }
    if count > cores {
        let text = format!(
            "{count} ranks share {}; ranks on the same core wait for each other",
            count_in_words(cores, "core")
        );
        notices.push(Notice::new(NoticeId::Method, GAUGE, text));
    }
    if !in_pairs || count < 2 || count.is_multiple_of(2) {
        return Ok(count.max(2));
    }
    let text =
        format!("{} of {count} ranks are used, because pairs require an even number", count - 1);
    notices.push(Notice::new(NoticeId::Clamped, GAUGE, text));
    Ok((count - 1).max(2))
}

/// Returns the CPUs of the requested pairs.
fn chosen(topology: &Topology, rank_pairs: &RankPairs) -> Result<Vec<CpuPair>, MessagesError> {
    let all = pairs::pairs_by_distance(topology);
    match rank_pairs {
        RankPairs::Distances(wanted) => {
            wanted.iter().map(|distance| pair_at(*distance, &all)).collect()
        }
        RankPairs::Cpus(first, second) => {
            let mut cpus = [first, second].into_iter();
            if let Some(cpu) = cpus.find(|cpu| !topology.thread(**cpu).is_some_and(|t| t.allowed)) {
                return Err(Failure::usage(format!("this process may not use cpu {cpu}"))
                    .hint("nodegauge places --mpi-pairs lists valid pairs")
                    .into());
            }
            let distance = pairs::distance(topology, *first, *second);
            let distance = distance.unwrap_or(Distance::OtherSocket);
            Ok(vec![CpuPair { distance, first: *first, second: *second }])
        }
        _ => Ok(all),
    }
}

/// Returns the pair of CPUs at a distance.
fn pair_at(distance: Distance, all: &[CpuPair]) -> Result<CpuPair, MessagesError> {
    let found = all.iter().find(|pair| pair.distance == distance).copied();
    found.ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|pair| pair.distance.name()).collect();
        Failure::usage(format!("no hardware threads of this node have the distance '{distance}'"))
            .hint(format!("distances on this node: {}", known.join(", ")))
            .into()
    })
}

/// Takes the CPU of the first thread of a rank and the `count - 1` nearest free CPUs.
fn take_cpus(topology: &Topology, free: &mut Vec<CpuId>, first: CpuId, count: u32) -> Vec<CpuId> {
    free.sort_by_key(|cpu| pairs::distance(topology, first, *cpu));
    let more = (count as usize).saturating_sub(1).min(free.len());
    std::iter::once(first).chain(free.drain(..more)).collect()
}

/// Returns the CPUs and the numbers of threads for `latency_mt`. By default one thread sends and two threads receive,
/// if there is a core for each thread.
fn thread_counts(
    topology: &Topology,
    options: &MessageOptions,
    pair: CpuPair,
    cores: &[CpuId],
    notices: &mut Vec<Notice>,
) -> (Vec<Vec<CpuId>>, SideThreads) {
    let threads = options.threads.unwrap_or_else(|| {
        if cores.len() >= 3 {
            return SideThreads::DEFAULT;
        }
        let text = "latency_mt uses 1:1 threads instead of 1:2, because three threads on two \
                    cores would measure the scheduler (force 1:2 with -t 1:2)";
        notices.push(Notice::new(NoticeId::FewerThreads, GAUGE, text));
        SideThreads::SINGLE
    });
    let mut free = cores.to_vec();
    free.retain(|cpu| ![pair.first, pair.second].contains(cpu));
    let mut receivers = take_cpus(topology, &mut free, pair.second, threads.receivers);
    let mut senders = take_cpus(topology, &mut free, pair.first, threads.senders);
    if senders.len() + receivers.len() < (threads.senders + threads.receivers) as usize {
        // If there are too few CPUs, the threads of both ranks share all of them.
        senders.extend(receivers);
        receivers = senders.clone();
    }
    senders.sort_unstable();
    receivers.sort_unstable();
    (vec![senders, receivers], threads)
}

/// Returns a launch with a pair for every two cores. Each step has only one pair, so that pairs do not disturb each
/// other.
fn matrix(cores: &[CpuId], options: &MessageOptions) -> Launch {
    let steps =
        (0..cores.len()).flat_map(|a| (a + 1..cores.len()).map(move |b| vec![(a, b)])).collect();
    let mut patterns = options.patterns_with(&[Participants::Pair]);
    if patterns.is_empty() {
        patterns.push(Pattern::Latency);
    }
    let ranks = RankLocations::ThisNode(cores.iter().map(|cpu| vec![*cpu]).collect());
    Launch { steps, ..Launch::new(ranks, None, patterns) }
}

#[cfg(test)]
mod tests;
