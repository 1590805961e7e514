//! Traffic of each kernel between caches and memory, counted by the memory controllers.
//!
//! Traffic is counted in separate passes after the timed ones. The counters are read before and after each kernel.
//! Reading them takes time and would delay one thread in a timed pass, while a separate pass moves the same bytes.
//! Without counters, only the reason is reported.

use nodegauge_machine::counters::{CounterReading, MemoryCounters, MemoryTraffic};
use nodegauge_machine::{SysRoot, UnavailableReason};
use std::time::{Duration, Instant};

/// Number of counted passes. Traffic of other programs is a few percent of a single pass; its share of five passes
/// is smaller.
const PASSES: usize = 5;
/// Time for which traffic is counted while the threads are idle.
const IDLE_TIME: Duration = Duration::from_millis(50);

/// Traffic that the memory controllers counted.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedTraffic {
    /// Name of the family of counters.
    pub family: String,
    /// Number of counters that were read.
    pub counters: usize,
    /// Bytes that each kernel moves in one run; `None` if a counter never ran.
    pub kernels: Vec<Option<MemoryTraffic>>,
    /// Number of counted passes.
    pub passes: usize,
    /// Traffic while the team is idle, B/s; `None` if a counter never ran.
    pub idle_rate: Option<f64>,
}

/// Counts the traffic of each of `kernels` kernels, or returns the reason why this is not possible. `run` runs the
/// kernel with the given index; with `None`, it fills the arrays again if necessary.
pub(crate) fn measure<E>(
    kernels: usize,
    run: &mut dyn FnMut(Option<usize>) -> Result<(), E>,
) -> Result<Result<CountedTraffic, UnavailableReason>, E> {
    match MemoryCounters::open(&SysRoot::live()) {
        Err(absent) => Ok(Err(absent)),
        Ok(counters) => count(kernels, run, &counters),
    }
}

/// Returns the reason why figures have no traffic if the counters cannot be read.
fn unreadable(error: &std::io::Error) -> UnavailableReason {
    UnavailableReason(format!("cannot read the counters: {error}"))
}

/// Returns the traffic of one pass, given the traffic of all [`PASSES`].
fn per_pass(moved: MemoryTraffic) -> MemoryTraffic {
    MemoryTraffic {
        read: moved.read.map(|bytes| bytes / PASSES as f64),
        write: moved.write.map(|bytes| bytes / PASSES as f64),
        total: moved.total / PASSES as f64,
    }
}

fn count<E>(
    kernels: usize,
    run: &mut dyn FnMut(Option<usize>) -> Result<(), E>,
    counters: &MemoryCounters,
) -> Result<Result<CountedTraffic, UnavailableReason>, E> {
    let mut intervals: Vec<Vec<(CounterReading, CounterReading)>> = vec![Vec::new(); kernels];
    let before = counters.read();
    let begun = Instant::now();
    std::thread::sleep(IDLE_TIME);
    let after = counters.read();
    let rested = begun.elapsed();
    let rest = match before.and_then(|before| Ok((before, after?))) {
        Ok(interval) => interval,
        Err(error) => return Ok(Err(unreadable(&error))),
    };
    for _ in 0..PASSES {
        run(None)?;
        for (i, of_kernel) in intervals.iter_mut().enumerate() {
            let begin = counters.read();
            run(Some(i))?;
            match begin.and_then(|start| Ok((start, counters.read()?))) {
                Ok(interval) => of_kernel.push(interval),
                Err(error) => return Ok(Err(unreadable(&error))),
            }
        }
    }
    let of_kernels = intervals.iter().map(|all| counters.traffic(all).map(per_pass)).collect();
    let idle_rate = counters.traffic(&[rest]).map(|moved| moved.total / rested.as_secs_f64());
    Ok(Ok(CountedTraffic {
        family: counters.plan().family.clone(),
        counters: counters.plan().events.len(),
        kernels: of_kernels,
        passes: PASSES,
        idle_rate,
    }))
}

#[cfg(test)]
mod tests {
    use crate::TargetConfig;
    use crate::kernels::{
        Element, KernelShape, Prefetch, STREAM, SideBySidePages, Stores, available_isas,
    };
    use crate::point::StreamTarget;
    use nodegauge_arena::{ArrayLayout, RequestedPages};
    use nodegauge_placement::MemoryPolicy;

    fn point() -> StreamTarget {
        let shape = KernelShape {
            isa: available_isas()[0],
            stores: Stores::Regular,
            unroll: 1,
            side_by_side: SideBySidePages::new(4).unwrap(),
            prefetch: Prefetch::Off,
        };
        StreamTarget::prepare(TargetConfig {
            places: vec![Vec::new(), Vec::new()],
            arrays: 3,
            elements: 100_000,
            element: Element::F64,
            pages: RequestedPages::Base,
            layout: ArrayLayout::Staggered,
            policy: MemoryPolicy::Default,
            kernels: STREAM.iter().map(|kernel| (*kernel, shape)).collect(),
            cache_bytes: 0,
        })
        .unwrap()
    }

    #[test]
    fn counting_traffic_keeps_values_valid() {
        let mut point = point();
        for _ in 0..300 {
            // Without new values, this many runs would overflow double precision.
            point.check_and_refill().unwrap();
            (0..4).for_each(|i| point.run_kernel(i).unwrap());
        }
        point.check().unwrap();
        assert_eq!(point.wrong, None);
        assert!(point.checks > 1, "the values were renewed");
    }

    #[test]
    fn traffic_is_counted_or_missing_with_a_reason() {
        let mut point = point();
        match point.count_traffic().unwrap() {
            Err(why) => assert!(!why.0.is_empty()),
            Ok(counted) => assert_eq!(counted.kernels.len(), 4),
        }
        point.check().unwrap();
        assert_eq!(point.wrong, None);
    }
}
