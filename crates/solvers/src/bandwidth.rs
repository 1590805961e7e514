//! Read and Triad bandwidth on the CPUs of an application, measured interleaved with the application. These rates are
//! limits for the memory traffic of the application.

use crate::array::MappedArray;
use nodegauge_kernels::{
    Element, Kernel, KernelShape, LoopArgs, Prefetch, SCALAR, SideBySidePages, Stores, Variant,
};
use nodegauge_kernels::{available_isas, find};
use nodegauge_measure::Failure;
use nodegauge_measure::samples::Sample;
use nodegauge_team::mpi::{self, World};
use nodegauge_team::{InterruptCheck, Laps, Member, WorkerPool};
use std::ptr::NonNull;

/// Candidate loops for both kernels: kind of store, vectors per iteration, pages processed side by side.
const CANDIDATES: [(Stores, u8, u8); 5] = [
    (Stores::Regular, 4, 1),
    (Stores::Regular, 1, 4),
    (Stores::NonTemporal, 4, 1),
    (Stores::NonTemporal, 1, 2),
    (Stores::NonTemporal, 1, 4),
];

/// Returns the candidate loops of the kernels read and Triad, with the widest vectors of this processor.
pub fn loops() -> Vec<Variant> {
    let mut all = Vec::new();
    let Some(isa) = available_isas().first().copied() else { return all };
    for kernel in [Kernel::Read, Kernel::Triad] {
        for (stores, unroll, pages) in CANDIDATES {
            // For loops that only read, the kind of store has no meaning.
            if !kernel.writes() && stores != Stores::Regular {
                continue;
            }
            let Some(side_by_side) = SideBySidePages::new(pages) else { continue };
            let prefetch = Prefetch::Off;
            let shape = KernelShape { isa, stores, unroll, side_by_side, prefetch };
            all.extend(find(kernel, Element::F64, shape));
        }
    }
    all
}

/// Returns the bytes that STREAM counts for a loop per element of its arrays.
pub fn element_bytes(variant: &Variant) -> usize {
    if variant.kernel() == Kernel::Read { 8 } else { 24 }
}

/// Measures the time of one pass of each loop, with arrays of `elements` numbers per worker. `at` is the index of the
/// workers in the pool.
///
/// # Errors
/// Fails if memory cannot be mapped or a worker fails.
pub fn take_sample(
    pool: &mut WorkerPool<'_>,
    at: usize,
    loops: &[Variant],
    elements: usize,
) -> Result<Sample, Failure> {
    // SAFETY: the job computes, maps memory and synchronises only at the barrier of the team.
    let (sample, timed) = unsafe {
        pool.sample(at, InterruptCheck::never(), |member, laps| pass(member, laps, loops, elements))
    }?;
    timed.results.into_iter().collect::<Result<(), Failure>>()?;
    Ok(sample)
}

/// Measures this rank's share of a sample that rank 0 of an MPI job has requested.
///
/// # Errors
/// Fails if a rank fails.
pub fn measure_as_follower(
    world: &World,
    loops: &[Variant],
    elements: usize,
) -> Result<(), Failure> {
    mpi::run_timed(world, |member, laps| pass(member, laps, loops, elements))?;
    Ok(())
}

/// Measures the time of one pass of each loop over arrays of `elements` numbers. This member maps the arrays and
/// touches them first.
///
/// # Errors
/// Fails if memory cannot be mapped. The passes are timed nevertheless, because all members must time the same
/// number of passes.
fn pass(
    member: &Member<'_>,
    laps: &mut Laps<'_>,
    loops: &[Variant],
    elements: usize,
) -> Result<(), Failure> {
    let arrays = [0, 1, 2].map(|_| MappedArray::<f64>::allocate(elements));
    let mut failed = Ok(());
    let mut mapped = Vec::new();
    for array in arrays {
        match array {
            Ok(mut array) => {
                array.fill(1.0);
                mapped.push(array);
            }
            Err(failure) => failed = Err(failure),
        }
    }
    let mut at = |number: usize| -> NonNull<u8> {
        mapped
            .get_mut(number)
            .and_then(|array| NonNull::new(array.at_mut(0).cast()))
            .unwrap_or(NonNull::dangling())
    };
    let n = if failed.is_ok() { elements } else { 0 };
    let args =
        LoopArgs { at: [at(0), at(1), at(2), NonNull::dangling()], n, scalar: SCALAR, repeats: 1 };
    member.barrier();
    for variant in loops {
        // SAFETY: the arrays belong to this thread, do not overlap and have this many elements.
        laps.time(|| std::hint::black_box(unsafe { variant.run(&args) }));
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_team::Team;

    #[test]
    fn every_bandwidth_loop_is_timed() {
        let all = loops();
        let of = |kernel: Kernel| all.iter().filter(|one| one.kernel() == kernel).count();
        assert!(of(Kernel::Read) >= 1 && of(Kernel::Triad) >= of(Kernel::Read));
        let mut team = Team::start(&vec![Vec::new(); 2]).unwrap();
        for (elements, works) in [(1 << 16, true), (1 << 52, false)] {
            let timed = team.run_timed(|member, laps| pass(member, laps, &all, elements).is_ok());
            let timed = timed.unwrap();
            assert_eq!((timed.spans.len(), timed.results), (all.len(), vec![works; 2]));
        }
    }
}
