//! Which ranks play which patterns in which starts. Pure, but for the MPIs that are looked for.

use crate::choice::{MpiRequest, job_hosts, usual};
use crate::launch::{Launch, Where};
use crate::nodes;
use crate::options::{Buffers, MessageOptions, SideThreads};
use crate::osu::OsuPrograms;
use crate::pattern::{Participants, Pattern};
use crate::start::refuses_root;
use crate::{GAUGE, MessagesError};
use nodegauge_gauge::{Depth, Glance, Site};
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::{Notice, NoticeId};
use nodegauge_placement::{CpuPair, Distance, pairs};
use nodegauge_toolchain::mpi::Mpi;
use std::collections::BTreeSet;
use std::time::Duration;

/// Sizes of a quick look.
const QUICK_SIZES: [u64; 5] = [8, 1024, 65_536, 1 << 20, 4 << 20];
/// Time for a size of a quick look.
const QUICK_LIMIT: Duration = Duration::from_millis(150);

const ONE_CPU: &str = "messages need two ranks, and this process may use one hardware thread\nhint: ask \
                       for more CPUs (taskset, cpuset, --cpus-per-task)";

const ONE_HOST: &str = "messages between hosts need two of them\nhint: e.g. --hosts node1,node2";

/// Between which ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RankPairs {
    /// One pair for each distance of this node.
    #[default]
    EachDistance,
    /// Pairs at these distances only.
    Distances(Vec<Distance>),
    /// Two hardware threads.
    Cpus(CpuId, CpuId),
    /// Every core with every other.
    All,
    /// Hosts, one rank each.
    Hosts(Vec<String>),
}

impl RankPairs {
    /// Between these hosts, each once; `slurm` stands for those of the job.
    ///
    /// # Errors
    /// When there are not two, or there is no job.
    pub fn hosts(names: &[String]) -> Result<Self, MessagesError> {
        let mut hosts: Vec<String> = Vec::new();
        for name in names {
            match name.trim() {
                "slurm" => hosts.extend(job_hosts()?),
                "" => return Err(MessagesError::Request("--hosts has an empty name".to_owned())),
                name => hosts.push(name.to_owned()),
            }
        }
        let mut seen = BTreeSet::new();
        hosts.retain(|host| seen.insert(host.clone()));
        match hosts.len() {
            0 | 1 => Err(MessagesError::Request(ONE_HOST.to_owned())),
            _ => Ok(Self::Hosts(hosts)),
        }
    }
}

/// A run that has been planned.
#[derive(Debug)]
pub struct MessagesPlan {
    pub(crate) options: MessageOptions,
    pub(crate) between: RankPairs,
    pub(crate) launches: Vec<Launch>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) mpis: Vec<Mpi>,
    /// The OSU programs for each MPI; none where the probe runs alone.
    pub(crate) osu: Vec<OsuPrograms>,
    /// Rounds of the probe and an OSU program by turns.
    pub(crate) rounds: u32,
}

impl MessagesPlan {
    /// Plans with the MPIs that were asked for; of the OSU micro-benchmarks, `rounds` by turns.
    ///
    /// # Errors
    /// When there are no two ranks or no such pair, or an MPI or a program is not there.
    pub fn new(
        topology: &Topology,
        mut options: MessageOptions,
        between: RankPairs,
        ranks: Option<usize>,
        request: &MpiRequest,
        rounds: u32,
    ) -> Result<Self, MessagesError> {
        if !request.osu.is_empty() {
            // Both sides are to be the same, in threads and in operations.
            options.threads = options.threads.or(Some(SideThreads::CUSTOMARY));
            options.like_osu = true;
        }
        let mut plan = Self::with(topology, options, between, ranks, Vec::new())?;
        plan.mpis = request.find()?;
        plan.osu = request.programs()?;
        plan.rounds = rounds;
        Ok(plan)
    }

    /// The part of `run`: a few sizes between the nearest two cores, with the first MPI that can.
    ///
    /// # Errors
    /// When there is no MPI that can start ranks here, or there are no two CPUs.
    pub(crate) fn glance(site: &Site, ask: &Glance<'_>) -> Result<Self, MessagesError> {
        let mut options = MessageOptions {
            patterns: vec![Pattern::Latency, Pattern::Bw],
            named: true,
            as_root: ask.allow_root,
            ..MessageOptions::default()
        };
        if ask.depth == Depth::Quick {
            options.sizes = QUICK_SIZES.to_vec();
            options.size_limit = QUICK_LIMIT;
            options.starts = 1;
        }
        let mpi = usual(None, |mpi| refuses_root(mpi, ask.allow_root))?;
        Self::with(&site.topology, options, RankPairs::EachDistance, None, vec![mpi])
    }

    /// Plans with these MPIs, for the probe alone.
    fn with(
        topology: &Topology,
        options: MessageOptions,
        between: RankPairs,
        ranks: Option<usize>,
        mpis: Vec<Mpi>,
    ) -> Result<Self, MessagesError> {
        let (launches, notices) = launches(topology, &options, &between, ranks)?;
        Ok(Self { options, between, launches, notices, mpis, osu: Vec::new(), rounds: 1 })
    }

    /// Bytes of the buffers of all ranks of the largest start.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        let of = |launch: &Launch, pattern: Pattern| {
            let ranks = launch.ranks() as u64;
            let a_rank = match self.options.buffers {
                _ if pattern.is_collective() => ranks,
                Buffers::Multiple => u64::from(self.options.window),
                Buffers::Single => 1,
            };
            let largest = launch.sizes_of(pattern, &self.options).into_iter().max().unwrap_or(0);
            2 * largest * a_rank * ranks
        };
        let largest = |launch: &Launch| launch.patterns.iter().map(|p| of(launch, *p)).max();
        self.launches.iter().filter_map(largest).max().unwrap_or(0)
    }
}

/// The starts of a run, and what should be said of them.
///
/// # Errors
/// When there are no two ranks, or no such pair.
fn launches(
    topology: &Topology,
    options: &MessageOptions,
    between: &RankPairs,
    ranks: Option<usize>,
) -> Result<(Vec<Launch>, Vec<Notice>), MessagesError> {
    if let RankPairs::Hosts(hosts) = between {
        return Ok((nodes::launches(hosts, options), Vec::new()));
    }
    let mut cores = pairs::one_a_core(topology);
    if cores.len() < 2 {
        cores = topology.allowed().map(|thread| thread.cpu).collect();
    }
    if cores.len() < 2 {
        return Err(MessagesError::Missing(ONE_CPU.to_owned()));
    }
    if *between == RankPairs::All {
        return Ok((vec![matrix(&cores, options)], Vec::new()));
    }
    let pairs = chosen(topology, between)?;
    let mut notices = Vec::new();
    let mut launches = Vec::new();
    let own = options.patterns_of(&[Participants::Pair]);
    for pair in pairs.iter().filter(|_| !own.is_empty()) {
        let ranks = Where::Here(vec![vec![pair.first], vec![pair.second]]);
        launches.push(Launch::new(ranks, Some(pair.distance), own.clone()));
    }
    let together = options.patterns_of(&[Participants::Pairs, Participants::All]);
    if !together.is_empty() {
        let in_pairs = !options.patterns_of(&[Participants::Pairs]).is_empty();
        let count = together_ranks(ranks, cores.len(), in_pairs, &mut notices);
        let cpus: Vec<Vec<CpuId>> =
            (0..count).map(|rank| vec![cores[rank % cores.len()]]).collect();
        let distance = match cpus.as_slice() {
            [a, b] => pairs::distance(topology, a[0], b[0]),
            _ => None,
        };
        let ranks = Where::Here(cpus);
        // Two ranks where a pair has been: one start serves both.
        match launches.iter_mut().find(|known| known.ranks == ranks) {
            Some(known) => known.patterns.extend(together),
            None => launches.push(Launch::new(ranks, distance, together)),
        }
    }
    let threaded = options.patterns_of(&[Participants::Threads]);
    let apart = pairs.iter().find(|pair| pair.distance != Distance::Core).or(pairs.first());
    if let Some(pair) = apart.filter(|_| !threaded.is_empty()) {
        let (cpus, threads) = of_threads(topology, options, *pair, &cores, &mut notices);
        let launch = Launch::new(Where::Here(cpus), Some(pair.distance), threaded);
        launches.push(Launch { threads, ..launch });
    }
    Ok((launches, notices))
}

/// Ranks of the patterns in which all take part.
fn together_ranks(
    asked: Option<usize>,
    cores: usize,
    in_pairs: bool,
    notices: &mut Vec<Notice>,
) -> usize {
    let count = asked.unwrap_or(cores);
    let mut notice = |id, text| notices.push(Notice::new(id, GAUGE, text));
    if count > cores {
        let text =
            format!("{count} ranks on {cores} cores: some share a core, and wait for each other");
        notice(NoticeId::Method, text);
    }
    if !in_pairs || count.is_multiple_of(2) {
        return count.max(2);
    }
    let text = format!("{} of {count} ranks take part: pairs need two", count - 1);
    notice(NoticeId::Clamped, text);
    (count - 1).max(2)
}

/// The pairs that were asked for.
fn chosen(topology: &Topology, between: &RankPairs) -> Result<Vec<CpuPair>, MessagesError> {
    let all = pairs::by_distance(topology);
    match between {
        RankPairs::Distances(wanted) => {
            let missing = |distance: &Distance| {
                let known: Vec<&str> = all.iter().map(|pair| pair.distance.name()).collect();
                MessagesError::Request(format!(
                    "no two hardware threads here are at the distance {distance}\nhint: there are {}",
                    known.join(", ")
                ))
            };
            let find = |wanted: &Distance| {
                let found = all.iter().find(|pair| pair.distance == *wanted).copied();
                found.ok_or_else(|| missing(wanted))
            };
            wanted.iter().map(find).collect()
        }
        RankPairs::Cpus(first, second) => {
            let usable = |cpu: &&CpuId| topology.thread(**cpu).is_some_and(|t| t.allowed);
            if let Some(cpu) = [first, second].into_iter().find(|cpu| !usable(cpu)) {
                return Err(MessagesError::Request(format!(
                    "cpu {cpu} is not one that this process may use\nhint: nodegauge places --mpi-pairs shows pairs"
                )));
            }
            let distance = pairs::distance(topology, *first, *second);
            let distance = distance.unwrap_or(Distance::OtherSocket);
            Ok(vec![CpuPair { distance, first: *first, second: *second }])
        }
        _ => Ok(all),
    }
}

/// CPUs and threads of `latency_mt`: by custom one thread sends and two receive, where each has a
/// core of its own.
fn of_threads(
    topology: &Topology,
    options: &MessageOptions,
    pair: CpuPair,
    cores: &[CpuId],
    notices: &mut Vec<Notice>,
) -> (Vec<Vec<CpuId>>, SideThreads) {
    let threads = options.threads.unwrap_or_else(|| {
        if cores.len() >= 3 {
            return SideThreads::CUSTOMARY;
        }
        let text = "latency_mt with 1:1 threads instead of 1:2: three threads on two cores \
                    measure the scheduler (-t 1:2 does so all the same)";
        notices.push(Notice::new(NoticeId::FewerThreads, GAUGE, text));
        SideThreads::SINGLE
    });
    let taken = |cpu: &CpuId| [pair.first, pair.second].contains(cpu);
    let mut free: Vec<CpuId> = cores.iter().copied().filter(|cpu| !taken(cpu)).collect();
    let mut take = |first: CpuId, count: u32| {
        // The nearest to the first thread of the rank.
        free.sort_by_key(|cpu| pairs::distance(topology, first, *cpu));
        let more = (count as usize).saturating_sub(1).min(free.len());
        std::iter::once(first).chain(free.drain(..more)).collect::<Vec<CpuId>>()
    };
    let mut receivers = take(pair.second, threads.receivers);
    let mut senders = take(pair.first, threads.senders);
    if senders.len() + receivers.len() < (threads.senders + threads.receivers) as usize {
        // Too few for all: the threads of both may use them all.
        senders.extend(receivers);
        receivers = senders.clone();
    }
    senders.sort_unstable();
    receivers.sort_unstable();
    (vec![senders, receivers], threads)
}

/// Every core with every other: in each step one pair, so that none disturbs another.
fn matrix(cores: &[CpuId], options: &MessageOptions) -> Launch {
    let steps =
        (0..cores.len()).flat_map(|a| (a + 1..cores.len()).map(move |b| vec![(a, b)])).collect();
    let mut patterns = options.patterns_of(&[Participants::Pair]);
    if patterns.is_empty() {
        patterns.push(Pattern::Latency);
    }
    let ranks = Where::Here(cores.iter().map(|cpu| vec![*cpu]).collect());
    Launch { steps, ..Launch::new(ranks, None, patterns) }
}

#[cfg(test)]
mod tests;
