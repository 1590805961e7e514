//! Preparation of as many setups as a search can measure in its time.

use crate::target::Target;
use nodegauge_arena::ArenaError;
use nodegauge_measure::clock;
use nodegauge_measure::schedule::RemainingTime;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Prepares as many setups as can be measured before `deadline`, at least the default setup. The time of a setup
/// consists of its preparation and of the passes that are needed to compare setups.
pub(super) fn prepare_setups(
    all: usize,
    deadline: Instant,
    interrupted: &dyn Fn() -> bool,
    prepare: &mut dyn FnMut(usize) -> Result<Box<dyn Target>, ArenaError>,
) -> Result<BTreeMap<usize, Box<dyn Target>>, ArenaError> {
    /// Number of passes of a setup in the first stage: a warm-up and two rounds for each of the two kinds of store.
    const PASSES: u32 = 6;
    let mut points: BTreeMap<usize, Box<dyn Target>> = BTreeMap::new();
    let mut time = RemainingTime::until(deadline, PASSES);
    let mut pass = Duration::ZERO;
    for number in 0..all {
        let begun = clock::now();
        let mut point = prepare(number)?;
        let prepared = clock::now();
        if number == 0 {
            point.run_pass()?;
            pass = clock::now() - prepared;
        }
        points.insert(number, point);
        time.accept(pass);
        if interrupted() || !time.allows(prepared - begun, pass) {
            break;
        }
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Element, Prefetch, SideBySidePages};
    use crate::kernels::{Kernel, KernelShape, Stores};
    use crate::simulated::SimulatedTarget;
    use crate::target::TargetConfig;
    use nodegauge_arena::{ArrayLayout, RequestedPages};
    use nodegauge_placement::MemoryPolicy;

    #[test]
    fn number_of_prepared_setups_depends_on_the_time() {
        let shape = KernelShape {
            isa: crate::kernels::available_isas()[0],
            stores: Stores::Regular,
            unroll: 1,
            side_by_side: SideBySidePages::ONE,
            prefetch: Prefetch::Off,
        };
        let config = TargetConfig {
            places: vec![Vec::new()],
            arrays: 3,
            elements: 1 << 20,
            element: Element::F64,
            pages: RequestedPages::Base,
            layout: ArrayLayout::Staggered,
            policy: MemoryPolicy::Default,
            kernels: vec![(Kernel::Triad, shape)],
            cache_bytes: 0,
        };
        // In this simulation a traversal of the arrays takes `pass` seconds, and the set-up takes ten times as long.
        let prepared = |all, seconds, pass: f64| {
            let deadline = clock::now() + Duration::from_secs_f64(seconds);
            let byte = pass / (3 * 8 * (1 << 20)) as f64;
            let points = super::prepare_setups(all, deadline, &|| false, &mut |_| {
                Ok(SimulatedTarget::set_up(&config, byte, 0.0))
            })
            .unwrap();
            let late = clock::now().saturating_duration_since(deadline).as_secs_f64();
            (points.len(), late)
        };
        assert_eq!(prepared(14, 100.0, 0.1), (14, 0.0));
        let (some, late) = prepared(14, 10.0, 0.1);
        assert!((4..10).contains(&some) && late == 0.0, "{some} setups, {late} s late");
        assert_eq!(prepared(14, 0.1, 0.1).0, 1);
    }
}
