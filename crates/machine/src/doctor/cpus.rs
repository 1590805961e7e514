//! CPUs: which of them there are for this process, how fast they may run, and whether they are
//! real.

use super::{Examined, Found, found, percent};
use crate::root::number_ranges;
use crate::{cgroup, host};
use nodegauge_measure::Hertz;
use nodegauge_measure::record::ClockBasis;

/// A clock this far under the base clock is not noise: something holds the processor back.
const FAR_UNDER: f64 = 0.92;

pub(super) fn quota(node: &Examined<'_>) -> Option<Found> {
    let (limits, allowed) = (cgroup::limits(node.root), node.allowed().len());
    let cpus = limits.cpus.filter(|cpus| *cpus < allowed as f64)?;
    let stopped = limits.throttled.filter(|share| *share > 0.0).map_or_else(String::new, |share| {
        format!("; so far it was stopped in {} of the scheduling periods", percent(share))
    });
    Some(found(
        format!(
            "the control group has a quota of {cpus:.2} CPUs, of {allowed} that it may use: threads are stopped when it is spent{stopped}"
        ),
        format!(
            "lift the quota (cpu.max, `docker run --cpus`, Kubernetes' cpu limit), or use {} threads",
            cpus.floor().max(1.0)
        ),
    ))
}

pub(super) fn governor(node: &Examined<'_>) -> Option<Found> {
    let allowed = node.allowed();
    let mut governors = host::governors(node.root, &allowed);
    governors.remove("performance");
    let others: Vec<String> = governors
        .iter()
        .map(|(governor, cpus)| match cpus.len() {
            n if n == allowed.len() => format!("{governor} on all CPUs"),
            _ => format!("{governor} on CPUs {}", number_ranges(cpus)),
        })
        .collect();
    (!others.is_empty()).then(|| {
        found(
            format!(
                "the frequency governor is {}: clocks follow the load with a delay",
                others.join(", ")
            ),
            "sudo cpupower frequency-set -g performance",
        )
    })
}

/// A measured clock far under the base clock that the catalog, the name or the kernel gives.
pub(super) fn clock(node: &Examined<'_>) -> Option<Found> {
    let processor = &node.machine.processor;
    let base = processor.hz.filter(|_| processor.hz_basis != Some(ClockBasis::Measured))?;
    let measured = processor.measured_hz?;
    (measured < base * FAR_UNDER).then(|| {
        found(
            format!("busy cores run at {}, under their base clock of {}", Hertz(measured), Hertz(base)),
            "look for power limits, heat and a low scaling_max_freq: `sudo turbostat --num_iterations 1`",
        )
    })
}

/// An upper limit of the clock set below what the processor may do.
pub(super) fn capped(node: &Examined<'_>) -> Option<Found> {
    let cap = host::frequency(node.root, "scaling_max_freq")?;
    let most = host::frequency(node.root, "cpuinfo_max_freq")?;
    (cap < most * FAR_UNDER).then(|| {
        found(
            format!("clocks are capped at {} of {} (scaling_max_freq)", Hertz(cap), Hertz(most)),
            format!("sudo cpupower frequency-set -u {:.0}MHz", most / 1e6),
        )
    })
}

pub(super) fn guest(node: &Examined<'_>) -> Option<Found> {
    let hypervisor = node.machine.virtualisation.as_deref()?;
    Some(Found {
        cost: Some(
            "Triad 48 or 82 GB/s on one and the same guest, as its two CPUs shared a chiplet's link or not (measured on a 2-core Zen 4 guest)",
        ),
        ..found(
            format!(
                "this is a virtual machine ({hypervisor}): caches and NUMA nodes may differ from what it is told, and its CPUs may be moved under it"
            ),
            "compare only runs interleaved within seconds, or use a bare-metal node",
        )
    })
}

pub(super) fn restricted(node: &Examined<'_>) -> Option<Found> {
    let (allowed, all) = (node.allowed(), node.topology.threads.len());
    (!allowed.is_empty() && allowed.len() < all).then(|| {
        found(
            format!("this process may use {} of {all} CPUs ({}): figures are of this part of the node", allowed.len(), number_ranges(&allowed)),
            format!("ask for the whole node, e.g. `srun --exclusive --cpus-per-task={all}`, or leave taskset out"),
        )
    })
}

pub(super) fn offline(node: &Examined<'_>) -> Option<Found> {
    let off = host::offline(node.root).filter(|cpus| !cpus.is_empty())?;
    // With SMT switched off, the kernel lists the sibling threads as offline: that is one choice,
    // not many CPUs that are missing.
    let control = node.root.text("sys/devices/system/cpu/smt/control");
    let switched_off = control.is_some_and(|control| control == "off" || control == "forceoff");
    if host::smt(node.root) == Some(false) && switched_off {
        return None;
    }
    Some(found(
        format!("{} CPUs are switched off ({})", off.len(), number_ranges(&off)),
        format!("echo 1 | sudo tee /sys/devices/system/cpu/cpu{}/online", brace(&off)),
    ))
}

/// Numbers as a shell takes them behind `cpu`: `5` or `{4..7}` or `{1,3}`.
fn brace(numbers: &[u32]) -> String {
    match numbers {
        [only] => only.to_string(),
        [first, .., last] if (last - first) as usize + 1 == numbers.len() => {
            format!("{{{first}..{last}}}")
        }
        _ => {
            let all: Vec<String> = numbers.iter().map(u32::to_string).collect();
            format!("{{{}}}", all.join(","))
        }
    }
}

pub(super) fn container(node: &Examined<'_>) -> Option<Found> {
    let container = host::container(node.root)?;
    Some(found(
        format!(
            "this process runs in a container ({container}): it sees the whole node's caches and CPUs, whatever its share"
        ),
        "give the container the whole node; memory policy and huge pages may need `--cap-add SYS_NICE`",
    ))
}

pub(super) fn turbo(node: &Examined<'_>) -> Option<Found> {
    (host::turbo(node.root) == Some(false)).then(|| {
        found(
            "turbo is off: clocks stay at the base clock, which makes runs repeatable and slower",
            if node.root.exists("sys/devices/system/cpu/intel_pstate/no_turbo") {
                "echo 0 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
            } else {
                "echo 1 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
            },
        )
    })
}

pub(super) fn siblings(node: &Examined<'_>) -> Option<Found> {
    (host::smt(node.root) == Some(true)).then(|| {
        found(
            format!("cores run {} threads each: a thread on every CPU shares its core's units and caches", node.topology.threads_per_core()),
            "run one thread a core, e.g. `--places cores`",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offline_cpus_are_named_as_a_shell_takes_them() {
        assert_eq!(brace(&[5]), "5");
        assert_eq!(brace(&[4, 5, 6, 7]), "{4..7}");
        assert_eq!(brace(&[1, 3]), "{1,3}");
    }
}
