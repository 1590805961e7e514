//! Placement of the processes (ranks) of a flat or hybrid MPI program, by a rank map, by the numactl policies of the
//! ccNUMA lecture, or by explicit settings.
//!
//! The module performs no system calls. The map selects the socket of a rank. With `block`, ranks fill the cores of one
//! socket after another (socket `r / C mod S` for rank `r` with one thread, C cores per socket, and S sockets). With
//! `cyclic`, ranks are distributed round-robin over the sockets (`r mod S`). With `spread`, consecutive ranks share a
//! socket, and all sockets get equal numbers of ranks (`r * S / N` for N ranks). With `even`, each of the first sockets
//! gets one rank if there are fewer ranks than sockets. Otherwise consecutive ranks share a socket, and the numbers of
//! ranks of two sockets differ by at most one. With `core`, each thread of each rank has its own core, in order. A
//! policy then selects the CPUs of the socket that a rank may use, and the memory policy of the rank. Without a policy,
//! every thread has its own CPU, and `--numa` determines the placement of memory.

mod policies;

pub use policies::{MappedPolicy, Policies};

use crate::bind::Binding;
use crate::cpu_list::CpuList;
use crate::cpus;
use crate::devices::{self, RankDevice};
use crate::error::PlacementError;
use crate::numa::{self, MemoryPolicy, NumaSpec};
use crate::plan::{Placement, PlacementRequest, ThreadPlace, plan};
use nodegauge_machine::{CpuId, NumaNodeId, Topology};
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::quantity::{count_in_words, number_form};
use nodegauge_os::ChildPlace;
use sockets::Sockets;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

mod sockets;

/// Rule that selects the socket or cores of each rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RankMap {
    /// Ranks fill one socket after another.
    Block,
    /// Ranks are distributed round-robin over the sockets.
    Cyclic,
    /// Each thread of each rank has its own core, in order.
    Core,
    /// All sockets have equal numbers of ranks, with consecutive ranks on the same socket.
    Spread,
    /// Ranks are distributed as by [`RankMap::Spread`], but fewer ranks than sockets use the first sockets.
    Even,
}
nodegauge_measure::names!(
    RankMap,
    "map",
    Block = "block",
    Cyclic = "cyclic",
    Core = "core",
    Spread = "spread",
    Even = "even"
);

/// Numactl policy of the ccNUMA lecture, identified by a number from 0 to 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RankPolicy(u8);

impl RankPolicy {
    /// Reference policy for comparisons of rates: any CPU, local allocation.
    pub const REFERENCE: Self = Self(5);

    /// Creates a policy from its number; `None` if the number exceeds 5.
    pub fn new(number: u8) -> Option<Self> {
        (number <= 5).then_some(Self(number))
    }

    /// Returns the number of the policy.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns a short description of the policy.
    pub fn description(self) -> &'static str {
        match self.0 {
            0 => "any CPU, no memory policy",
            1 => "CPUs of the socket, memory interleaved over all NUMA nodes",
            2 => "CPUs of the socket, memory interleaved over its own NUMA nodes",
            3 => "CPUs of the socket, memory bound to its own NUMA nodes",
            4 => "CPUs of the socket, local allocation",
            _ => "any CPU, local allocation",
        }
    }

    /// True if the policy binds ranks to CPUs.
    fn binds(self) -> bool {
        (1..=4).contains(&self.0)
    }

    /// Returns the memory policy of a rank. `own` are the NUMA nodes nearest to the CPUs of the rank; `all` are the
    /// NUMA nodes of the machine.
    fn memory(
        self,
        own: Vec<NumaNodeId>,
        all: Vec<NumaNodeId>,
    ) -> Result<MemoryPolicy, PlacementError> {
        Ok(match self.0 {
            0 => MemoryPolicy::Default,
            1 => MemoryPolicy::Interleave(self.require_nodes(all)?),
            2 => MemoryPolicy::Interleave(self.require_nodes(own)?),
            3 => MemoryPolicy::Bind(self.require_nodes(own)?),
            _ => MemoryPolicy::Local,
        })
    }

    /// Returns `nodes`.
    ///
    /// # Errors
    /// Fails if `nodes` is empty.
    fn require_nodes(self, nodes: Vec<NumaNodeId>) -> Result<Vec<NumaNodeId>, PlacementError> {
        if nodes.is_empty() {
            return Err(PlacementError::new(format!(
                "policy {self} requires NUMA nodes with memory, and a rank has none"
            ))
            .hint("use --policy 0 or 5"));
        }
        Ok(nodes)
    }

    /// Returns the notice about NUMA nodes near `placements` that the policy leaves out, because they have no memory
    /// that this process may use.
    fn left_out_nodes(self, topology: &Topology, placements: &[Placement]) -> Option<String> {
        if !matches!(self.0, 2 | 3) {
            return None;
        }
        let cpus = placements.iter().flat_map(Placement::cpus);
        let near = ThreadPlace { thread: 0, cpus: cpus::sort_and_deduplicate(cpus) };
        let near = near.numa_node_ids(topology);
        let usable = numa::usable_nodes(topology, &near);
        let left_out: Vec<u32> =
            near.iter().filter(|node| !usable.contains(node)).map(|node| node.0).collect();
        let noun = number_form(left_out.len(), "NUMA node", "NUMA nodes");
        let has = number_form(left_out.len(), "has", "have");
        let numbers = cpus::number_ranges(&left_out);
        (!left_out.is_empty()).then(|| {
            format!("policy {self} leaves out {noun} {numbers}, which {has} no usable memory")
        })
    }

    /// Returns ranks with these placements, each with the memory policy for its CPUs.
    fn places(
        self,
        topology: &Topology,
        placements: Vec<Placement>,
    ) -> Result<Vec<RankPlace>, PlacementError> {
        let all: Vec<NumaNodeId> = topology.host_numa_nodes().map(|node| node.id).collect();
        let mut places = Vec::new();
        for (rank, placement) in (0..).zip(placements) {
            let together = ThreadPlace { thread: 0, cpus: placement.cpus() };
            let own = numa::usable_nodes(topology, &together.numa_node_ids(topology));
            let memory = self.memory(own, all.clone())?;
            places.push(RankPlace { rank: Some(rank), placement, memory });
        }
        Ok(places)
    }
}

impl fmt::Display for RankPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RankPolicy {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("policy", "--policy 3", text);
        cursor.skip_blanks();
        let start = cursor.position();
        let number = cursor.number("expected the number of a policy, 0 to 5")?;
        cursor.skip_blanks();
        cursor.finish("expected nothing after the number of a policy")?;
        let policy = u8::try_from(number).ok().and_then(Self::new);
        policy.ok_or_else(|| {
            cursor.error_at(start, format!("policy {number} is out of range: expected 0 to 5"))
        })
    }
}

/// Request of the user for the placement of ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RankRequest {
    /// Number of ranks (processes).
    pub ranks: u32,
    /// Number of threads per rank; 1 by default.
    pub threads: Option<u32>,
    /// Map of ranks to sockets. The default is `block` if there is a policy, otherwise `spread`.
    pub map: Option<RankMap>,
    /// Policy for the CPUs and the memory of ranks.
    pub policy: Option<RankPolicy>,
    /// Explicit CPUs, which replace the CPUs of the map and the policy.
    pub cpus: Option<CpuList>,
    /// Memory policy, which replaces the memory policy of `policy`.
    pub numa: Option<NumaSpec>,
    /// Inherited memory policy, which is used if neither `policy` nor `numa` is given.
    pub inherited: MemoryPolicy,
    /// Number of devices per rank, which are near the cores of the rank.
    pub devices: Option<u32>,
    /// Places and binding for all threads of all ranks together; they replace map and policy.
    pub all_threads: PlacementRequest,
}

/// Placement of all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankPlan {
    /// Places of the ranks, in the order of rank numbers.
    pub ranks: Vec<RankPlace>,
    /// Requested policy; `None` unless it determines both the CPUs and the memory of the ranks.
    pub policy: Option<RankPolicy>,
    /// Canonical text of the placement for the record: `policy 3 block`, `spread`, `cpus 0,2`.
    pub canonical_text: String,
    /// Devices of each rank; empty if none were requested.
    pub devices: Vec<Vec<RankDevice>>,
    /// Number of devices of the machine, if devices were requested; otherwise 0.
    pub device_count: usize,
    /// Notices for the user.
    pub notices: Vec<String>,
}

/// Place of one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankPlace {
    /// Rank number; `None` for the process of a program without ranks.
    pub rank: Option<u32>,
    /// Placement of the rank's threads; with `Binding::None` they are not bound.
    pub placement: Placement,
    /// Memory policy of the rank.
    pub memory: MemoryPolicy,
}

impl RankPlace {
    /// Returns the place of a rank with one thread on `cpus`. Without CPUs, the rank is not bound. No memory policy
    /// is set.
    pub fn single_thread(rank: u32, cpus: Vec<CpuId>) -> Self {
        let bind = if cpus.is_empty() { Binding::None } else { Binding::Close };
        let placement = Placement::new(bind, "as given", vec![cpus]);
        Self { rank: Some(rank), placement, memory: MemoryPolicy::Default }
    }

    /// Returns the settings with which a child process takes this place.
    pub fn child_place(&self) -> ChildPlace {
        let cpus = self.bound_cpus().map(|cpus| cpus.iter().map(|cpu| cpu.0).collect());
        ChildPlace { cpus, memory: self.memory.in_kernel_form(), without_huge_pages: false }
    }

    /// Returns the CPUs of all threads of the rank in numeric order; `None` if the rank is not bound.
    pub fn bound_cpus(&self) -> Option<Vec<CpuId>> {
        (self.placement.bind != Binding::None).then(|| self.placement.cpus())
    }
}

impl RankPlan {
    /// Creates the plan of a single process without ranks.
    pub fn single(placement: Placement, memory: MemoryPolicy) -> Self {
        let canonical_text = placement.places.clone();
        let notices = placement.notices.clone();
        Self {
            ranks: vec![RankPlace { rank: None, placement, memory }],
            policy: None,
            canonical_text,
            devices: Vec::new(),
            device_count: 0,
            notices,
        }
    }

    /// Returns the total number of threads of all ranks.
    pub fn threads(&self) -> usize {
        self.ranks.iter().map(|rank| rank.placement.threads.len()).sum()
    }

    /// Returns the largest number of threads of any rank.
    pub fn max_threads_per_rank(&self) -> usize {
        self.ranks.iter().map(|rank| rank.placement.threads.len()).max().unwrap_or(1)
    }

    /// Returns all threads of all ranks as one placement, e.g. to determine the caches in use.
    pub fn all_threads(&self) -> Placement {
        let cpus = self.ranks.iter().flat_map(|rank| &rank.placement.threads);
        let bind = self.ranks.first().map_or(Binding::None, |rank| rank.placement.bind);
        Placement::new(
            bind,
            self.canonical_text.clone(),
            cpus.map(|thread| thread.cpus.clone()).collect(),
        )
    }
}

/// Places the ranks of a request, and assigns their devices.
///
/// # Errors
/// Fails when two parts of the request both determine the CPUs or the memory of ranks, or when there are more threads
/// than hardware threads that this process may use. Also fails when CPUs, NUMA nodes or places do not fit the machine,
/// or when there are not enough devices.
pub fn plan_ranks(topology: &Topology, request: &RankRequest) -> Result<RankPlan, PlacementError> {
    refuse_conflicts(request)?;
    if let Some(choice) = request.all_threads.cores.clone() {
        if let Some(other) = request.cpus.as_ref().map(|_| "--cpus") {
            return Err(PlacementError::conflict("threads go", "--cores", other));
        }
        let chosen = choice.restrict(topology)?;
        let threads = request.ranks.saturating_mul(request.threads.unwrap_or(1));
        choice.check_threads(&chosen.topology, Some(threads))?;
        let all_threads = PlacementRequest { cores: None, ..request.all_threads.clone() };
        let of_chosen = RankRequest { all_threads, ..request.clone() };
        let mut plan = plan_ranks(&chosen.topology, &of_chosen)?;
        plan.notices.splice(0..0, chosen.notice);
        return Ok(plan);
    }
    let by_number = request.cpus.is_none()
        && request.policy.is_none()
        && request.map.is_none()
        && !has_places(&request.all_threads);
    let mut plan = placed(topology, request, by_number)?;
    if let Some(each) = request.devices {
        let cpus: Vec<_> = plan.ranks.iter().map(RankPlace::bound_cpus).collect();
        let (devices, notices) = devices::assign(topology, &cpus, each, by_number)?;
        plan.devices = devices;
        plan.device_count = topology.accelerators().count();
        plan.notices.extend(notices);
    }
    Ok(plan)
}

/// Places the ranks. With `by_number`, the devices alone determine the places.
fn placed(
    topology: &Topology,
    request: &RankRequest,
    by_number: bool,
) -> Result<RankPlan, PlacementError> {
    let ranks = request.ranks;
    let threads = request.threads.unwrap_or(1);
    check_counts(topology, ranks, threads)?;
    if let Some(each) = request.devices.filter(|_| by_number) {
        let placements = devices::place_near_devices(topology, ranks, threads, each)?;
        return without_policy(topology, request, placements, "near devices".to_owned());
    }
    if let Some(list) = &request.cpus {
        let (placements, mut notices) = by_list(topology, list, ranks, threads)?;
        let canonical_text = format!("cpus {list}");
        let Some(policy) = request.policy else {
            let plan = without_policy(topology, request, placements, canonical_text)?;
            return Ok(RankPlan { notices, ..plan });
        };
        notices.push(format!(
            "--cpus determines the CPUs of threads, and policy {policy} the placement of memory"
        ));
        notices.extend(policy.left_out_nodes(topology, &placements));
        return Ok(RankPlan {
            ranks: policy.places(topology, placements)?,
            policy: None,
            canonical_text: format!("policy {policy} {canonical_text}"),
            devices: Vec::new(),
            device_count: 0,
            notices,
        });
    }
    if let Some(policy) = request.policy {
        return by_policy(topology, policy, request.map.unwrap_or(RankMap::Block), ranks, threads);
    }
    if has_places(&request.all_threads) || request.map.is_none_or(|map| map == RankMap::Spread) {
        let all =
            PlacementRequest { threads: Some(ranks * threads), ..request.all_threads.clone() };
        let all = plan(topology, &all)?;
        let canonical_text = if has_places(&request.all_threads) {
            format!("places {}", all.places)
        } else {
            RankMap::Spread.to_string()
        };
        let plan = without_policy(topology, request, chunks(&all, threads), canonical_text)?;
        return Ok(RankPlan { notices: all.notices, ..plan });
    }
    let map = request.map.unwrap_or(RankMap::Spread);
    let placements = own_cpus(topology, map, ranks, threads);
    without_policy(topology, request, placements, map.to_string())
}

/// Returns ranks with these placements and with the memory policy that is requested or inherited.
fn without_policy(
    topology: &Topology,
    request: &RankRequest,
    placements: Vec<Placement>,
    canonical_text: String,
) -> Result<RankPlan, PlacementError> {
    let memory = match &request.numa {
        Some(spec) => spec.resolve(topology)?,
        None => request.inherited.clone(),
    };
    let mut ranks = Vec::new();
    for (rank, placement) in (0..).zip(placements) {
        ranks.push(RankPlace { rank: Some(rank), placement, memory: memory.clone() });
    }
    Ok(RankPlan {
        ranks,
        policy: None,
        canonical_text,
        devices: Vec::new(),
        device_count: 0,
        notices: Vec::new(),
    })
}

/// True if the request contains places or a binding policy for all threads together.
fn has_places(request: &PlacementRequest) -> bool {
    request.places.is_some()
        || request.bind.is_some()
        || request.kmp.is_some()
        || request.per_cache.is_some()
}

fn refuse_conflicts(request: &RankRequest) -> Result<(), PlacementError> {
    let by_places = [
        ("--places", request.all_threads.places.is_some()),
        ("--bind", request.all_threads.bind.is_some()),
        ("--per-cache", request.all_threads.per_cache.is_some()),
        ("KMP_AFFINITY", request.all_threads.kmp.is_some()),
    ];
    let map = request.map.map(|_| "--rank-map");
    let by_places = by_places.into_iter().find(|(_, given)| *given).map(|(name, _)| name);
    let given = [
        request.cpus.as_ref().map(|_| "--cpus"),
        // With explicit CPUs, a policy still determines the placement of memory.
        request.policy.filter(|_| request.cpus.is_none()).map(|_| "--policy").or(map),
        by_places,
    ];
    let mut given = given.into_iter().flatten();
    if let (Some(first), Some(second)) = (given.next(), given.next()) {
        return Err(PlacementError::conflict("threads go", first, second));
    }
    match (request.policy, &request.numa) {
        (Some(_), Some(_)) => Err(PlacementError::conflict("memory goes", "--policy", "--numa")),
        _ => Ok(()),
    }
}

/// Checks that this process may use enough hardware threads for ranks with this number of threads each.
///
/// # Errors
/// Fails if there are too few hardware threads, or if a number is 0.
pub fn check_counts(topology: &Topology, ranks: u32, threads: u32) -> Result<(), PlacementError> {
    let usable = topology.allowed_threads().count();
    if usable == 0 {
        return Err(PlacementError::no_cpus());
    }
    match (ranks, threads) {
        (0, _) => Err(PlacementError::new("cannot place 0 ranks").hint("request at least 1")),
        (_, 0) => Err(PlacementError::no_threads()),
        _ if u64::from(ranks) * u64::from(threads) > usable as u64 => {
            let remedy = match usable / threads as usize {
                0 => format!("{usable} or fewer threads per rank, e.g. --threads {usable}"),
                max => format!("{max} or fewer, e.g. --ranks {max}"),
            };
            Err(PlacementError::new(format!(
                "cannot place {} of {}: this process may use {}",
                count_in_words(ranks as usize, "rank"),
                count_in_words(threads as usize, "thread"),
                cpus::usable_in_words(topology),
            ))
            .hint(format!("use {remedy}")))
        }
        _ => Ok(()),
    }
}

/// Divides a placement into ranks of `threads` threads each.
fn chunks(all: &Placement, threads: u32) -> Vec<Placement> {
    let mut ranks = Vec::new();
    for places in all.threads.chunks(threads as usize) {
        let cpus = places.iter().map(|place| place.cpus.clone()).collect();
        ranks.push(Placement::new(all.bind, all.places.clone(), cpus));
    }
    ranks
}

fn by_list(
    topology: &Topology,
    list: &CpuList,
    ranks: u32,
    threads: u32,
) -> Result<(Vec<Placement>, Vec<String>), PlacementError> {
    let entries = list.resolve(topology)?;
    let threads_each = threads as usize;
    let named = entries.len();
    let count = ranks as usize * threads_each;
    let entries: Vec<Vec<CpuId>> = match named {
        _ if named == count => entries,
        _ if named == ranks as usize => entries
            .iter()
            .flat_map(|entry| std::iter::repeat_n(entry.clone(), threads_each))
            .collect(),
        _ => {
            return Err(PlacementError::new(format!(
                "--cpus has {} for {} of {}",
                count_in_words(named, "entry"),
                count_in_words(ranks as usize, "rank"),
                count_in_words(threads_each, "thread"),
            ))
            .hint(format!(
                "give {}, or one group per rank, e.g. --cpus '{{0-3}},{{4-7}}'",
                count_in_words(count, "CPU"),
            )));
        }
    };
    let mut users: BTreeMap<CpuId, Vec<usize>> = BTreeMap::new();
    for (rank, own) in entries.chunks(threads_each).enumerate() {
        for cpu in cpus::sort_and_deduplicate(own.iter().flatten().copied()) {
            users.entry(cpu).or_default().push(rank);
        }
    }
    let shared: Vec<CpuId> =
        users.iter().filter(|(_, sharers)| sharers.len() > 1).map(|(cpu, _)| *cpu).collect();
    let notices = if shared.is_empty() {
        Vec::new()
    } else {
        vec![format!("ranks share cpus {}", cpus::format_ranges(&shared))]
    };
    let placement =
        |cpus: &[Vec<CpuId>]| Placement::new(Binding::Close, format!("cpus {list}"), cpus.to_vec());
    Ok((entries.chunks(threads_each).map(placement).collect(), notices))
}

fn by_policy(
    topology: &Topology,
    policy: RankPolicy,
    map: RankMap,
    ranks: u32,
    threads: u32,
) -> Result<RankPlan, PlacementError> {
    let canonical_text = format!("policy {policy} {map}");
    let mut notices = Vec::new();
    let allowed = cpus::allowed_cpus(topology);
    let placements: Vec<Placement> = if !policy.binds() {
        if map != RankMap::Block {
            notices.push(format!("the map {map} has no effect: policy {policy} binds no rank"));
        }
        let everywhere = vec![allowed; threads as usize];
        vec![Placement::new(Binding::None, "none", everywhere); ranks as usize]
    } else if map == RankMap::Core {
        own_cpus(topology, map, ranks, threads)
    } else {
        let sockets = Sockets::from_topology(topology);
        let rank_sockets = sockets.rank_sockets(map, ranks, threads).into_iter();
        rank_sockets
            .map(|socket| {
                let cpus = sockets.cpus[socket].clone();
                Placement::new(
                    equivalent_bind(map),
                    canonical_text.clone(),
                    vec![cpus; threads as usize],
                )
            })
            .collect()
    };
    notices.extend(policy.left_out_nodes(topology, &placements));
    let places = policy.places(topology, placements)?;
    Ok(RankPlan {
        ranks: places,
        policy: Some(policy),
        canonical_text,
        devices: Vec::new(),
        device_count: 0,
        notices,
    })
}

/// Returns the OpenMP binding policy that is equivalent to a map.
fn equivalent_bind(map: RankMap) -> Binding {
    match map {
        RankMap::Block | RankMap::Core => Binding::Close,
        RankMap::Cyclic | RankMap::Spread | RankMap::Even => Binding::Spread,
    }
}

/// Places every thread on its own CPU, in the order of the map. The first hardware threads of cores are used before the
/// second ones.
fn own_cpus(topology: &Topology, map: RankMap, ranks: u32, threads: u32) -> Vec<Placement> {
    let sockets = Sockets::from_topology(topology);
    let mut free = sockets.cpu_order.clone();
    let in_order = matches!(map, RankMap::Block | RankMap::Core);
    let mut placements = Vec::new();
    for socket in sockets.rank_sockets(map, ranks, threads) {
        let socket = (!in_order).then_some(socket);
        let mut cpus = Vec::new();
        for _ in 0..threads {
            cpus.extend(take(&mut free, socket).map(|cpu| vec![cpu]));
        }
        placements.push(Placement::new(equivalent_bind(map), map.name(), cpus));
    }
    placements
}

/// Removes the first CPU of `socket` from the free CPUs, which are stored with the indices of their sockets, and
/// returns it. If the socket has no free CPU, the first free CPU of the machine is returned.
fn take(free: &mut Vec<(usize, CpuId)>, socket: Option<usize>) -> Option<CpuId> {
    if free.is_empty() {
        return None;
    }
    let wanted = free.iter().position(|(of, _)| socket.is_none_or(|socket| *of == socket));
    let (_, cpu) = free.remove(wanted.unwrap_or(0));
    Some(cpu)
}

#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod tests;
