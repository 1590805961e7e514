//! Theoretical peak of cores: number of cores x clock x FLOP/cycle, separately for each class of cores.

use crate::ids::CpuId;
use crate::processor;
use crate::topology::Topology;
use nodegauge_measure::Hertz;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{ClockBasis, CoreClass, Machine, Processor, TheoreticalValue};
use std::collections::BTreeSet;

/// Returns the theoretical peak of all cores, with its formula. If the formula contains the base clock, the detail also
/// gives the peak at the measured clock.
pub(super) fn sum_over_cores(processor: &Processor) -> Option<TheoreticalValue> {
    if processor.core_classes.len() > 1 {
        let counts: Vec<u32> = processor.core_classes.iter().map(|class| class.cores).collect();
        return sum_over_classes(processor, &counts);
    }
    let per_cycle = processor.flops_per_cycle?;
    let hz = processor.hz?;
    let mut detail = processor.flops_basis.clone().unwrap_or_default();
    if processor.hz_basis == Some(ClockBasis::Measured) {
        detail +=
            "; clock measured with scalar work on all cores; it may be lower with wide vectors";
    } else if let Some(measured) = processor.measured_hz {
        let peak = processor::peak(processor.cores, measured, per_cycle);
        detail += &format!("; {peak} at {measured}, measured with scalar work on all cores");
    }
    Some(TheoreticalValue {
        value: processor::peak(processor.cores, hz, per_cycle).0,
        basis: format!(
            "{} x {hz} ({}) x {per_cycle} FLOP/cycle",
            count_in_words(processor.cores as usize, "core"),
            clock_basis(processor)
        ),
        detail: Some(detail),
        at_most: false,
    })
}

/// Returns the theoretical peak of the cores that `threads` threads on these CPUs use. If the CPUs belong to more cores
/// than there are threads, the fastest of the cores are counted.
pub fn peak_in_use(
    machine: &Machine,
    topology: &Topology,
    cpus: &[CpuId],
    threads: usize,
) -> Option<TheoreticalValue> {
    let whole = machine.peak_flops.clone()?;
    let processor = &machine.processor;
    let of_cpus = cpus.iter().filter_map(|cpu| topology.thread(*cpu));
    let cores: BTreeSet<usize> = of_cpus.clone().map(|thread| thread.core).collect();
    let used = threads.min(cores.len());
    let all = processor.cores.max(1) as usize;
    if used >= all {
        return Some(whole);
    }
    if processor.core_classes.len() < 2 {
        return Some(TheoreticalValue {
            value: whole.value * used as f64 / all as f64,
            basis: format!("{used} of {}", whole.basis),
            ..whole
        });
    }
    let mut left = used;
    let mut counts = Vec::new();
    for class in &processor.core_classes {
        let of_class = of_cpus.clone().filter(|thread| class.cpus.contains(&thread.cpu.0));
        let own: BTreeSet<usize> = of_class.map(|thread| thread.core).collect();
        let count = left.min(own.len());
        left -= count;
        counts.push(count as u32);
    }
    sum_over_classes(processor, &counts)
}

/// Returns the theoretical peak of these numbers of cores of the classes.
fn sum_over_classes(processor: &Processor, counts: &[u32]) -> Option<TheoreticalValue> {
    let per_cycle = processor.flops_per_cycle?;
    let hz = processor.hz?;
    let fastest = processor.core_classes.first().and_then(max_clock);
    let mut value = 0.0;
    let mut terms = Vec::new();
    for (class, cores) in processor.core_classes.iter().zip(counts) {
        if *cores == 0 {
            continue;
        }
        let share = max_clock(class).zip(fastest).map_or(1.0, |(own, fastest)| own / fastest);
        let clock = Hertz(hz.0 * share);
        value += processor::peak(*cores, clock, per_cycle).0;
        let group = count_in_words(*cores as usize, &format!("{} core", class.name));
        terms.push(format!("{group} x {clock}"));
    }
    let detail = processor.flops_basis.clone().unwrap_or_default();
    Some(TheoreticalValue {
        value,
        basis: format!(
            "({}) ({}) x {per_cycle} FLOP/cycle",
            terms.join(" + "),
            clock_basis(processor)
        ),
        detail: Some(
            detail
                + "; the clocks of the classes are assumed to have the same ratio as their maximum clocks, and cores of \
                   slower classes may have fewer FLOP/cycle",
        ),
        at_most: true,
    })
}

/// Returns the source of the clock in words.
fn clock_basis(processor: &Processor) -> &str {
    processor.hz_basis.as_ref().map_or("", ClockBasis::as_str)
}

/// Returns the maximum clock of a class, in Hz.
fn max_clock(class: &CoreClass) -> Option<f64> {
    class.clocks.map(|[_, max]| max.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::TopologySource;

    fn class(name: &str, cpus: std::ops::Range<u32>, max: f64) -> CoreClass {
        CoreClass {
            name: name.to_owned(),
            cores: cpus.len() as u32,
            cpus: cpus.collect(),
            designs: Vec::new(),
            capacities: None,
            clocks: Some([Hertz(1e9), Hertz(max)]),
        }
    }

    /// Returns a machine with 8 fast and 16 slow cores, each with one hardware thread.
    fn hybrid() -> Machine {
        let processor = Processor {
            cores: 24,
            hz: Some(Hertz(3e9)),
            hz_basis: Some(ClockBasis::Catalog),
            flops_per_cycle: Some(16),
            core_classes: vec![class("fast", 0..8, 5e9), class("slow", 8..24, 4e9)],
            ..Processor::default()
        };
        Machine { peak_flops: sum_over_cores(&processor), processor, ..Machine::default() }
    }

    fn cores(text: &str) -> Topology {
        Topology::load(&TopologySource::Synthetic(text.to_owned())).unwrap()
    }

    fn cpus(numbers: std::ops::Range<u32>) -> Vec<CpuId> {
        numbers.map(CpuId).collect()
    }

    #[test]
    fn peak_of_core_classes_is_sum_of_classes() {
        let all = hybrid().peak_flops.unwrap();
        assert!((all.value - (8.0 * 3e9 + 16.0 * 2.4e9) * 16.0).abs() < 1.0, "{all:?}");
        assert!(all.at_most);
        assert!(all.basis.starts_with("(8 fast cores x 3.000 GHz + 16 slow cores x 2.400 GHz)"));
    }

    #[test]
    fn peak_in_use_counts_the_classes_of_the_cpus() {
        let topology = cores("Package:1 Core:24 PU:1");
        let basis = |numbers, threads| {
            peak_in_use(&hybrid(), &topology, &cpus(numbers), threads).unwrap().basis
        };
        assert!(basis(0..8, 8).starts_with("(8 fast cores x 3.000 GHz) "));
        assert!(basis(8..10, 2).starts_with("(2 slow cores x 2.400 GHz) "));
        assert!(basis(7..9, 2).starts_with("(1 fast core x 3.000 GHz + 1 slow core x 2.400 GHz) "));
        // Threads that are not bound may use the fastest cores.
        assert!(basis(0..24, 4).starts_with("(4 fast cores x 3.000 GHz) "));
        assert_eq!(basis(0..24, 24), hybrid().peak_flops.unwrap().basis);
    }

    #[test]
    fn threads_of_one_core_share_its_peak() {
        let processor = Processor {
            cores: 2,
            hz: Some(Hertz(3e9)),
            flops_per_cycle: Some(16),
            ..Processor::default()
        };
        let machine =
            Machine { peak_flops: sum_over_cores(&processor), processor, ..Machine::default() };
        let topology = cores("Package:1 Core:2 PU:2");
        let peak = |numbers, threads| peak_in_use(&machine, &topology, &cpus(numbers), threads);
        assert_eq!(peak(0..2, 2).unwrap().value, 48e9);
        assert_eq!(peak(0..4, 4).unwrap().value, 96e9);
        assert!(peak(0..2, 2).unwrap().basis.starts_with("1 of 2 cores"));
    }
}
