//! Placement by `--per-cache N`: N threads on each last-level cache.
//!
//! The module performs no system calls. Within a cache, the threads are spaced evenly over the cores and use the
//! first hardware thread of each core. Further hardware threads are used only after every core has a thread. Caches
//! are used in the topology's order. If there are not enough threads for all caches, the used caches are spaced
//! evenly.

use crate::cpus;
use crate::error::PlacementError;
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::quantity::count_in_words;

/// Returns the CPU of each thread, with `per_cache` threads per cache. Without `threads`, all caches are used. If
/// `per_cache` does not divide `threads`, the last cache gets the remainder.
///
/// # Errors
/// Fails when the machine has no cache beyond level 1, when a cache has too few hardware threads that this process may
/// use, or when there are too few caches for `threads`.
pub(crate) fn cpus_per_cache(
    topology: &Topology,
    per_cache: u32,
    threads: Option<u32>,
) -> Result<Vec<CpuId>, PlacementError> {
    if per_cache == 0 || threads == Some(0) {
        return Err(PlacementError::no_threads());
    }
    if topology.llcs.is_empty() {
        return Err(PlacementError::new(
            "cannot place threads by cache: this machine has no cache beyond level 1",
        )
        .hint("use --places cores --bind spread"));
    }
    let caches = caches(topology);
    if caches.is_empty() {
        return Err(PlacementError::no_cpus());
    }
    let max = caches.len() as u64 * u64::from(per_cache);
    let threads = threads.map_or(max, u64::from);
    if threads > max {
        let caches = count_in_words(caches.len(), "cache");
        return Err(PlacementError::new(format!(
            "cannot place {threads} threads, {per_cache} on each last-level cache: there is \
                 room for {max} on {caches}"
        ))
        .hint(format!("use --threads {max} or fewer, or more threads per cache")));
    }
    let used = threads.div_ceil(u64::from(per_cache)) as usize;
    let mut left = threads as usize;
    let mut placed = Vec::new();
    for index in 0..used {
        let (number, cores) = &caches[index * caches.len() / used];
        let count = left.min(per_cache as usize);
        left -= count;
        placed.extend(cpus_within(cores, count).ok_or_else(|| {
            let usable = cpus::sort_and_deduplicate(cores.iter().flatten().copied());
            PlacementError::new(format!(
                "cannot place {per_cache} threads on each last-level cache: cache {number} has {} that this process may use ({})",
                count_in_words(usable.len(), "hardware thread"),
                cpus::format_ranges(&usable)
            ))
        })?);
    }
    Ok(placed)
}

/// Hardware threads of each core, by number within the core.
type Cores = Vec<Vec<CpuId>>;

/// Returns the number and the cores of each cache that has allowed CPUs.
fn caches(topology: &Topology) -> Vec<(u32, Cores)> {
    let mut caches = Vec::new();
    for (index, number) in topology.llcs.iter().enumerate() {
        let cores = cpus::cpus_by_object(topology, |thread| {
            (thread.llc == Some(index)).then_some(thread.core)
        });
        if !cores.is_empty() {
            caches.push((*number, cores));
        }
    }
    caches
}

/// Returns `count` CPUs of the cores in this order: the first hardware threads of all cores, then the second
/// hardware threads, and so on. If the last round is incomplete, its cores are spaced evenly. Returns `None` if
/// there are too few CPUs.
fn cpus_within(cores: &[Vec<CpuId>], count: usize) -> Option<Vec<CpuId>> {
    let mut chosen: Vec<(usize, usize)> = Vec::new();
    let mut left = count;
    for sibling in 0.. {
        let round: Vec<usize> =
            (0..cores.len()).filter(|core| cores[*core].len() > sibling).collect();
        let take = left.min(round.len());
        chosen.extend((0..take).map(|k| (round[k * round.len() / take], sibling)));
        left -= take;
        if left == 0 {
            break;
        }
        if round.is_empty() {
            return None;
        }
    }
    chosen.sort_unstable();
    Some(chosen.into_iter().map(|(core, sibling)| cores[core][sibling]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{PHI, ROME, T2K, machine};
    use proptest::prelude::*;

    fn numbers(description: &str, per_cache: u32, threads: Option<u32>) -> Vec<u32> {
        let cpus = cpus_per_cache(&machine(description), per_cache, threads);
        cpus.unwrap_or_else(|error| panic!("{error}")).into_iter().map(|cpu| cpu.0).collect()
    }

    #[test]
    fn threads_of_one_cache_are_spaced_evenly() {
        let cpus = numbers(ROME, 2, None);
        assert_eq!(cpus.len(), 64);
        assert_eq!(cpus[..4], [0, 2, 4, 6]);
        assert_eq!(numbers(ROME, 1, None), (0..32).map(|k| 4 * k).collect::<Vec<_>>());
        assert_eq!(numbers(ROME, 3, None)[..4], [0, 1, 2, 4]);
    }

    #[test]
    fn few_threads_use_evenly_spaced_caches() {
        assert_eq!(
            numbers(ROME, 2, Some(16)),
            [0, 2, 16, 18, 32, 34, 48, 50, 64, 66, 80, 82, 96, 98, 112, 114]
        );
        assert_eq!(numbers(ROME, 2, Some(3)), [0, 2, 64]);
    }

    #[test]
    fn first_siblings_of_all_cores_are_used_first() {
        let smt = "Package:1 L3Cache:2 Core:4 PU:2";
        assert_eq!(numbers(smt, 4, Some(4)), [0, 2, 4, 6]);
        assert_eq!(numbers(smt, 6, Some(6)), [0, 1, 2, 4, 5, 6]);
        assert_eq!(numbers(smt, 8, None), (0..16).collect::<Vec<_>>());
        assert_eq!(numbers(PHI, 1, None).len(), 61);
        assert_eq!(numbers(PHI, 4, None).len(), 244);
    }

    #[test]
    fn per_cache_error_states_the_limits_of_the_machine() {
        let error = |description: &str, per_cache, threads| {
            cpus_per_cache(&machine(description), per_cache, threads).unwrap_err().to_string()
        };
        assert_eq!(
            error(T2K, 1, None),
            "cannot place threads by cache: this machine has no cache beyond level 1\nhint: use --places cores --bind spread"
        );
        assert_eq!(
            error(ROME, 5, None),
            "cannot place 5 threads on each last-level cache: cache 0 has 4 hardware threads that this process may use (0-3)"
        );
        assert_eq!(
            error(ROME, 2, Some(65)),
            "cannot place 65 threads, 2 on each last-level cache: there is room for 64 on 32 caches\nhint: use --threads 64 or fewer, or more threads per cache"
        );
        assert_eq!(error(ROME, 0, None), "cannot place 0 threads\nhint: request at least 1");
    }

    proptest! {
        #[test]
        fn caches_get_at_most_the_requested_number_of_distinct_cpus(per_cache in 1u32..9, threads in 1u32..64) {
            let topology = machine("Package:2 L3Cache:4 Core:4 PU:2");
            if let Ok(cpus) = cpus_per_cache(&topology, per_cache, Some(threads)) {
                prop_assert_eq!(cpus.len(), threads as usize);
                prop_assert_eq!(crate::cpus::sort_and_deduplicate(cpus.iter().copied()).len(), cpus.len());
                let mut uses = [0u32; 8];
                cpus.iter().for_each(|cpu| uses[cpu.0 as usize / 8] += 1);
                prop_assert!(uses.iter().all(|count| *count <= per_cache));
            } else {
                prop_assert!(threads > 8 * per_cache);
            }
        }
    }
}
