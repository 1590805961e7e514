//! Conversion of `KMP_AFFINITY` into the CPUs of each thread.
//!
//! libomp sorts the hardware threads by their position on each level of the machine (socket, NUMA node, cache,
//! core, thread). The most significant level is the outermost for compact and the innermost for scatter. The t-th
//! thread is bound to the object of the given granularity that contains the t-th hardware thread. A level is
//! ignored if every object of the level above contains only one object of this level.

use super::{Granularity, KmpAffinity, KmpKind, KmpNumbers, KmpOrder, ProcItem, RESPECT};
use crate::cpus::{self, CpuLookup};
use crate::error::PlacementError;
use nodegauge_machine::topology::HardwareThread;
use nodegauge_machine::{CpuId, Topology};
use std::collections::BTreeMap;

impl KmpAffinity {
    /// Returns the sorted CPUs of each of `threads` threads. After the last hardware thread, or after the last entry of
    /// the proclist, the assignment continues with the first one.
    ///
    /// # Errors
    /// Fails when the proclist contains a CPU that this process may not use, `permute` exceeds the levels of the
    /// machine, or this process may not use any CPU.
    pub fn resolve(
        &self,
        topology: &Topology,
        threads: u32,
    ) -> Result<Vec<Vec<CpuId>>, PlacementError> {
        let allowed = cpus::allowed_cpus(topology);
        if allowed.is_empty() {
            return Err(PlacementError::no_cpus());
        }
        let objects = Objects::new(topology, self.granularity.unwrap_or(Granularity::Core));
        let (masks, offset) = match &self.kind {
            Some(KmpKind::Ordered(KmpOrder::Compact, numbers)) => {
                (objects.sorted(|_| numbers.permute, numbers)?, numbers.offset)
            }
            Some(KmpKind::Ordered(KmpOrder::Scatter, numbers)) => {
                let masks =
                    objects.sorted(|depth| depth - 1 - numbers.permute.min(depth - 1), numbers)?;
                (masks, numbers.offset)
            }
            Some(KmpKind::Ordered(KmpOrder::Balanced, _)) => (objects.balanced(threads), 0),
            Some(KmpKind::Explicit(items)) => (objects.listed(items)?, 0),
            Some(KmpKind::None | KmpKind::Disabled) | None => (vec![allowed], 0),
        };
        let start = offset as usize % masks.len();
        Ok((0..threads as usize).map(|t| masks[(start + t) % masks.len()].clone()).collect())
    }

    /// Returns the default number of threads: one per CPU or set of a proclist, one per hardware thread with
    /// granularity fine, otherwise one per core.
    pub fn default_threads(&self, topology: &Topology) -> u32 {
        let count = match (&self.kind, self.granularity) {
            (Some(KmpKind::Explicit(items)), _) => items.iter().map(|item| item.len()).sum(),
            (Some(KmpKind::None | KmpKind::Disabled) | None, _) => cores(topology).len() as u64,
            (_, Some(Granularity::Thread)) => topology.allowed_threads().count() as u64,
            _ => cores(topology).len() as u64,
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Returns notices about accepted words that have no effect.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        if self.flags[RESPECT] == Some(false) {
            notices.push(
                "KMP_AFFINITY: norespect has no effect: only CPUs that this process may use are used"
                    .to_owned(),
            );
        }
        if let Some(
            unknown @ (Granularity::Die | Granularity::Module | Granularity::ProcessorGroup),
        ) = self.granularity
        {
            notices.push(format!(
                "KMP_AFFINITY: granularity {} is unknown on this machine; core is used instead",
                unknown.as_str()
            ));
        }
        if let Some(KmpKind::Ordered(KmpOrder::Balanced, numbers)) = &self.kind
            && *numbers != KmpNumbers::default()
        {
            notices.push("KMP_AFFINITY: permute and offset have no effect on balanced".to_owned());
        }
        notices
    }
}

impl ProcItem {
    /// Returns the number of threads to which the entry assigns CPUs.
    fn len(&self) -> u64 {
        match self {
            Self::Range { first, last, stride } => {
                u64::from(first.abs_diff(*last)) / u64::from(stride.unsigned_abs().max(1)) + 1
            }
            Self::Set(_) => 1,
        }
    }
}

/// Returns the allowed hardware threads of each core, by their number within the core.
fn cores(topology: &Topology) -> Vec<Vec<CpuId>> {
    cpus::cpus_by_object(topology, |thread| Some(thread.core))
}

/// Objects of the machine as libomp distinguishes them.
struct Objects<'a> {
    topology: &'a Topology,
    /// Allowed CPUs of the object (of the given granularity) to which each allowed CPU belongs.
    group_of: BTreeMap<CpuId, Vec<CpuId>>,
}

impl<'a> Objects<'a> {
    fn new(topology: &'a Topology, granularity: Granularity) -> Self {
        let mut group_of = BTreeMap::new();
        for group in cpus::cpus_by_object(topology, |thread| object(topology, granularity, thread))
        {
            for cpu in &group {
                group_of.insert(*cpu, group.clone());
            }
        }
        Self { topology, group_of }
    }

    /// Returns the CPU sets of all hardware threads, sorted by level. Given the number of levels, `compact` returns
    /// how many of the innermost levels vary slowest.
    fn sorted(
        &self,
        compact: impl Fn(u32) -> u32,
        numbers: &KmpNumbers,
    ) -> Result<Vec<Vec<CpuId>>, PlacementError> {
        let levels = Levels::new(self.topology);
        let depth = levels.names.len();
        if numbers.permute as usize >= depth {
            return Err(PlacementError::new(format!(
                "KMP_AFFINITY: permute {} is out of range: this machine has {depth} levels \
                     ({})",
                numbers.permute,
                levels.names.join(", "),
            ))
            .hint(format!("permute is 0 to {}", depth - 1)));
        }
        let inner = compact(depth as u32) as usize;
        let mut order = levels.paths;
        order.sort_by_key(|(path, _)| {
            let (outside, inside) = path.split_at(depth - inner);
            inside.iter().rev().chain(outside).copied().collect::<Vec<usize>>()
        });
        Ok(order.into_iter().map(|(_, cpu)| self.mask(cpu)).collect())
    }

    fn mask(&self, cpu: CpuId) -> Vec<CpuId> {
        self.group_of.get(&cpu).cloned().unwrap_or_else(|| vec![cpu])
    }

    /// Returns one CPU set for each of exactly `threads` threads. Cores are used in order, and consecutive threads
    /// are on the same core. Cores of equal size get equal numbers of threads; the first cores get the remainder.
    fn balanced(&self, threads: u32) -> Vec<Vec<CpuId>> {
        let cores = cores(self.topology);
        let mut counts = vec![0usize; cores.len()];
        let mut left = threads.max(1);
        let mut lap = 1;
        while left > 0 {
            let before = left;
            for (count, core) in counts.iter_mut().zip(&cores) {
                if left > 0 && *count < core.len() * lap {
                    *count += 1;
                    left -= 1;
                }
            }
            if left == before {
                lap += 1;
            }
        }
        let mut masks = Vec::new();
        for (count, core) in counts.into_iter().zip(&cores) {
            masks.extend((0..count).map(|thread| self.mask(core[thread % core.len()])));
        }
        masks
    }

    fn listed(&self, items: &[ProcItem]) -> Result<Vec<Vec<CpuId>>, PlacementError> {
        let cpus = CpuLookup::new(self.topology);
        let mut masks = Vec::new();
        for item in items {
            match item {
                ProcItem::Range { first, stride, .. } => {
                    for k in 0..item.len() as i64 {
                        let number = i64::from(*first) + k * i64::from(*stride);
                        masks.push(self.mask(cpus.get(number)?));
                    }
                }
                ProcItem::Set(numbers) => {
                    let mut mask = Vec::new();
                    for number in numbers {
                        mask.extend(self.mask(cpus.get(i64::from(*number))?));
                    }
                    masks.push(cpus::sort_and_deduplicate(mask));
                }
            }
        }
        Ok(masks)
    }
}

/// Returns the index of the object (of the given granularity) that contains a hardware thread. If the machine has
/// no such object, a core replaces a cache, and a socket replaces a NUMA node.
fn object(topology: &Topology, granularity: Granularity, thread: &HardwareThread) -> Option<usize> {
    let last = topology.caches.iter().rfind(|cache| cache.contains_data());
    let last_level = last.map_or(0, |cache| cache.level);
    let cache = thread.llc.unwrap_or(thread.core);
    Some(match granularity {
        Granularity::Thread => thread.cpu.0 as usize,
        Granularity::Core
        | Granularity::L1
        | Granularity::Die
        | Granularity::Module
        | Granularity::ProcessorGroup => thread.core,
        // The topology contains a level-2 cache only if this is the last level. Otherwise each core is assumed to have
        // its own level-2 cache.
        Granularity::Tile | Granularity::L2 if last_level == 2 => cache,
        Granularity::Tile | Granularity::L2 => thread.core,
        Granularity::L3 if last_level < 3 => thread.core,
        Granularity::L3 | Granularity::Llc => cache,
        Granularity::Numa => thread.node.unwrap_or(thread.socket),
        Granularity::Socket => thread.socket,
    })
}

/// Levels of a machine that libomp distinguishes, with the position of each allowed CPU on each level.
struct Levels {
    /// Names of the levels, beginning with the outermost level.
    names: Vec<&'static str>,
    /// Position of each CPU on each level, counted within the object of the level above.
    paths: Vec<(Vec<usize>, CpuId)>,
}

impl Levels {
    fn new(topology: &Topology) -> Self {
        const NAMES: [&str; 5] = ["socket", "NUMA node", "cache", "core", "thread"];
        let mut children: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        let mut paths: Vec<(Vec<usize>, CpuId)> = Vec::new();
        for thread in topology.allowed_threads() {
            let objects = [
                thread.socket,
                thread.node.unwrap_or(0),
                thread.llc.unwrap_or(0),
                thread.core,
                thread.cpu.0 as usize,
            ];
            let mut path = Vec::with_capacity(NAMES.len());
            for object in objects {
                let siblings = children.entry(path.clone()).or_default();
                let position = siblings.iter().position(|sibling| *sibling == object);
                path.push(position.unwrap_or_else(|| {
                    siblings.push(object);
                    siblings.len() - 1
                }));
            }
            paths.push((path, thread.cpu));
        }
        // libomp always keeps the levels socket, core and thread. It keeps other levels only if an object of the level
        // above contains several of their objects.
        let splits = |level: usize| {
            children.iter().any(|(path, siblings)| path.len() == level && siblings.len() > 1)
        };
        // If every cache has one core, the cache level is identical to the core level.
        let core_splits = splits(3);
        let keep = [true, splits(1), splits(2) && core_splits, true, true];
        // If the cache level is dropped, the core level uses the positions of the cache level.
        let merge = !core_splits;
        let paths = paths
            .into_iter()
            .map(|(mut path, cpu)| {
                if merge {
                    path[3] = path[2];
                }
                let kept = path.iter().zip(keep).filter(|(_, keep)| *keep);
                (kept.map(|(position, _)| *position).collect(), cpu)
            })
            .collect();
        let names = NAMES.iter().zip(keep).filter(|(_, keep)| *keep).map(|(name, _)| *name);
        Self { names: names.collect(), paths }
    }
}
