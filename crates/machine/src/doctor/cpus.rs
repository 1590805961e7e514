//! Checks of CPUs: number of CPUs available to this process, clock, and virtualisation.

use super::{DetectedProblem, ExaminedNode, found};
use crate::root::number_ranges;
use crate::{cgroup, host};
use nodegauge_measure::quantity::{count_in_words, number_form};
use nodegauge_measure::record::ClockBasis;

/// Ratio of the measured clock to the base clock below which the processor must be limited, because noise cannot
/// explain the difference.
const MIN_CLOCK_RATIO: f64 = 0.92;

pub(super) fn cpu_quota_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let limits = cgroup::limits(node.root);
    let allowed = node.allowed().len();
    let cpus = limits.cpus.filter(|cpus| *cpus < allowed as f64)?;
    let stopped =
        limits.throttled_share.filter(|share| share.0 > 0.0).map_or_else(String::new, |share| {
            format!("; threads were stopped in {share} of the scheduling periods so far")
        });
    let threads = count_in_words(cpus.floor().max(1.0) as usize, "thread");
    let allowed = count_in_words(allowed, "CPU");
    Some(found(
        format!(
            "this process may use {allowed}, but its control group has a quota of {cpus:.2} CPUs: threads are stopped when the quota is used up{stopped}"
        ),
        format!(
            "raise the quota (cpu.max, `docker run --cpus`, Kubernetes' cpu limit), or use {threads}"
        ),
    ))
}

pub(super) fn governor_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
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

/// Reports a measured clock far below the base clock, which comes from the catalog, from the processor's name or
/// from the kernel.
pub(super) fn low_clock_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let processor = &node.machine.processor;
    let base = processor.hz.filter(|_| processor.hz_basis != Some(ClockBasis::Measured))?;
    let measured = processor.measured_hz?;
    (measured < base * MIN_CLOCK_RATIO).then(|| {
        found(
            format!("busy cores run at {}, below their base clock of {}", measured, base),
            "check power limits, temperature and scaling_max_freq: `sudo turbostat --num_iterations 1`",
        )
    })
}

/// Reports a clock limit that is set below the processor's maximum.
pub(super) fn clock_cap_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let cap = host::frequency_from_file(node.root, "scaling_max_freq")?;
    let max = host::frequency_from_file(node.root, "cpuinfo_max_freq")?;
    (cap < max * MIN_CLOCK_RATIO).then(|| {
        found(
            format!("clocks are limited to {} (scaling_max_freq); the maximum is {}", cap, max),
            format!("sudo cpupower frequency-set -u {:.0}MHz", max.0 / 1e6),
        )
    })
}

pub(super) fn virtual_machine_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let hypervisor = node.machine.virtualisation.as_deref()?;
    Some(DetectedProblem {
        cost: Some(
            "Triad 48 or 82 GB/s on the same guest, depending on whether its two CPUs shared a chiplet's link (measured on a 2-core Zen 4 guest)",
        ),
        ..found(
            format!(
                "this is a virtual machine ({hypervisor}): the reported caches and NUMA nodes may differ from the hardware, and the hypervisor may move its CPUs"
            ),
            "compare only runs that were interleaved within seconds, or use a bare-metal node",
        )
    })
}

pub(super) fn restricted_cpus_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let allowed = node.allowed();
    let all = node.topology.threads.len();
    (!allowed.is_empty() && allowed.len() < all).then(|| {
        found(
            format!("this process may use {} of {all} CPUs ({}): figures describe only this part of the node", allowed.len(), number_ranges(&allowed)),
            format!("request the whole node, e.g. `srun --exclusive --cpus-per-task={all}`, or run without taskset"),
        )
    })
}

pub(super) fn switched_off_cpus_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let off = host::offline_cpus(node.root).filter(|cpus| !cpus.is_empty())?;
    // If SMT is disabled, the kernel lists the sibling threads as offline. This is a setting of the node and does not
    // mean that CPUs are missing.
    let control = node.root.text("sys/devices/system/cpu/smt/control");
    let switched_off = control.is_some_and(|control| control == "off" || control == "forceoff");
    if host::is_smt_active(node.root) == Some(false) && switched_off {
        return None;
    }
    let are = number_form(off.len(), "is", "are");
    Some(found(
        format!("{} {are} offline ({})", count_in_words(off.len(), "CPU"), number_ranges(&off)),
        format!("echo 1 | sudo tee /sys/devices/system/cpu/cpu{}/online", brace(&off)),
    ))
}

/// Formats CPU numbers for a shell command in which they follow `cpu`: `5`, `{4..7}` or `{1,3}`.
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

pub(super) fn container_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let container = host::container(node.root)?;
    Some(found(
        format!(
            "this process runs in a container ({container}): it sees all caches and CPUs of the node, even if it may use only a part of them"
        ),
        "give the container the whole node; memory policies and huge pages may require `--cap-add SYS_NICE`",
    ))
}

pub(super) fn turbo_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    (host::is_turbo_enabled(node.root) == Some(false)).then(|| {
        found(
            "turbo is off: clocks do not exceed the base clock, so runs are repeatable but slower",
            if node.root.exists("sys/devices/system/cpu/intel_pstate/no_turbo") {
                "echo 0 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
            } else {
                "echo 1 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
            },
        )
    })
}

pub(super) fn smt_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    (host::is_smt_active(node.root) == Some(true)).then(|| {
        found(
            format!(
                "each core has {} hardware threads, which share its execution units and caches",
                node.topology.threads_per_core()
            ),
            "run one thread per core, e.g. `--places cores`",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offline_cpus_are_printed_as_shell_braces() {
        assert_eq!(brace(&[5]), "5");
        assert_eq!(brace(&[4, 5, 6, 7]), "{4..7}");
        assert_eq!(brace(&[1, 3]), "{1,3}");
    }
}
