//! Checks of accelerators: access by this process, distance to its CPUs, link, errors, clocks and other processes.

use super::{DetectedProblem, ExaminedNode, found};
use crate::devices::{environment, local_rank_variables};
use crate::ids::CpuId;
use crate::root::number_ranges;
use nodegauge_measure::record::{Device, Severity};

/// Returns the texts that `what` returns for computing devices, each with the names and addresses of the devices.
/// Devices with the same name and text are combined.
fn each(node: &ExaminedNode<'_>, what: impl Fn(&Device) -> Option<String>) -> Vec<String> {
    let mut reported: Vec<(String, String, Vec<&str>)> = Vec::new();
    for device in node.machine.devices.iter().filter(|device| device.is_accelerator()) {
        let Some(text) = what(device) else { continue };
        let title = device.title();
        match reported.iter_mut().find(|(of, known, _)| *of == title && *known == text) {
            Some((.., addresses)) => addresses.push(&device.address),
            None => reported.push((title, text, vec![&device.address])),
        }
    }
    reported.iter().map(|(of, text, at)| format!("{of} ({}): {text}", at.join(", "))).collect()
}

fn name(device: &Device) -> String {
    format!("{} ({})", device.title(), device.address)
}

/// Creates one finding for several devices.
fn devices_problem(reported: &[String], remedy: &str) -> Option<DetectedProblem> {
    (!reported.is_empty()).then(|| found(reported.join("; "), remedy))
}

/// Reports devices that are far from all CPUs of this process, unless the process can choose a near device instead.
pub(super) fn far_devices_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let topology = node.topology;
    let own: Vec<CpuId> = topology.allowed_threads().map(|thread| thread.cpu).collect();
    if own.len() == topology.threads.len() {
        return None;
    }
    let described = node.machine.devices.iter().zip(&topology.devices);
    let usable: Vec<_> = described
        .filter(|(device, _)| device.is_accelerator() && device.hidden.is_empty())
        .collect();
    let far: Vec<_> = usable.iter().filter(|(_, pci)| pci.is_near(&own) == Some(false)).collect();
    // If all devices are available to the process, it can choose a near device.
    let all = node.machine.devices.iter().filter(|device| device.is_accelerator()).count();
    if far.is_empty() || (far.len() < usable.len() && usable.len() == all) {
        return None;
    }
    let environment = environment(node.root);
    let rank = local_rank_variables().find_map(|name| Some((name, environment.get(name)?)));
    let who =
        rank.map_or("this process".to_owned(), |(name, rank)| format!("rank {rank} ({name})"));
    let near: Vec<String> = far
        .iter()
        .map(|(device, _)| {
            let at = device.numa_node.map(|id| format!(" (NUMA node {id})")).unwrap_or_default();
            format!("{}, which is near cpus {}{at}", name(device), number_ranges(&device.cpus))
        })
        .collect();
    Some(found(
        format!(
            "{who} may run on cpus {}, far from its device {}: transfers cross the links between processors",
            number_ranges(own.iter().map(|cpu| cpu.0)),
            near.join("; "),
        ),
        "place ranks near their devices: `nodegauge places --devices --emit slurm` (or openmpi, mpich, wrapper), or `srun --gpu-bind=closest`",
    ))
}

/// Reports links with unused lanes, or with a rate below the maximum of both ends.
pub(super) fn link_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let narrow = each(node, |device| {
        let link = device.link.as_ref().filter(|link| link.is_narrow())?;
        Some(format!("the link uses {} of {} lanes", link.width?, link.most_width?))
    });
    if !narrow.is_empty() {
        return devices_problem(
            &narrow,
            "reseat the card, check risers and the firmware's lane bifurcation; `sudo lspci -vv` shows LnkSta and LnkCap",
        );
    }
    let slow = each(node, |device| {
        let link = device.link.as_ref().filter(|link| link.is_slow())?;
        Some(format!(
            "the link runs at {} of {} GT/s",
            link.transfers_per_s?.0 / 1e9,
            link.most_transfers_per_s?.0 / 1e9
        ))
    });
    let rest = devices_problem(
        &slow,
        "idle devices slow their links down; if the rate stays low under load, check the slot's setting in firmware",
    );
    rest.map(|found| DetectedProblem { severity: Some(Severity::Info), ..found })
}

/// Reports devices that are present but that this process cannot use.
pub(super) fn hidden_devices_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let reported =
        each(node, |device| (!device.hidden.is_empty()).then(|| device.hidden.join(", ")));
    devices_problem(
        &reported,
        "unset the variable, load the driver, request the device from the batch system (`--gpus-per-node`), or give it to the container (`docker run --gpus all`, `--device /dev/kfd --device /dev/dri`)",
    )
}

/// Reports memory errors that were counted since the driver was loaded.
pub(super) fn memory_errors_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let reported = each(node, |device| {
        let memory = device.memory.as_ref()?;
        let lost = memory.uncorrected_errors.unwrap_or(0);
        let corrected = memory.corrected_errors.unwrap_or(0);
        (lost > 0 || corrected > 0)
            .then(|| format!("{lost} uncorrected and {corrected} corrected memory errors"))
    });
    let mut memories = node.machine.devices.iter().filter_map(|device| device.memory.as_ref());
    let lost = memories.any(|memory| memory.uncorrected_errors.is_some_and(|errors| errors > 0));
    let found = devices_problem(&reported, "reset or replace the device if the numbers increase")?;
    Some(DetectedProblem { severity: lost.then_some(Severity::Critical), ..found })
}

/// Reports clocks that are currently limited.
pub(super) fn throttled_devices_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let reported = each(node, |device| {
        let causes = device.state.as_ref().map(|state| &state.throttled_by)?;
        (!causes.is_empty()).then(|| format!("the clocks are limited by: {}", causes.join(", ")))
    });
    devices_problem(&reported, "check the device's cooling, power supply and power limit")
}

/// Reports other processes that use devices.
pub(super) fn devices_in_use_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let reported = each(node, |device| {
        let others = device.state.as_ref()?.others.filter(|others| *others > 0)?;
        Some(match others {
            1 => "another process uses the memory".to_owned(),
            n => format!("{n} other processes use the memory"),
        })
    });
    devices_problem(&reported, "end these processes, or measure on another device")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DescribeOptions, SysRoot, Topology, TopologySource, describe};
    use nodegauge_measure::record::Machine;

    fn found_far(topology: &Topology, machine: &Machine) -> Option<DetectedProblem> {
        far_devices_problem(&ExaminedNode {
            topology,
            root: &SysRoot::recorded("/nonexistent"),
            machine,
        })
    }

    #[test]
    fn far_device_is_reported_only_if_no_near_device_is_usable() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/topologies/dgx-h100.xml");
        let mut topology = Topology::load(&TopologySource::Xml(path.into())).unwrap();
        let root = SysRoot::recorded("/nonexistent");
        let mut machine = describe(&topology, &root, &DescribeOptions::default());
        // A process that may use the whole machine is near to every device.
        assert_eq!(found_far(&topology, &machine), None);
        topology.threads.iter_mut().for_each(|thread| thread.allowed = thread.socket == 0);
        assert_eq!(found_far(&topology, &machine), None);
        // Only the last device remains usable, and it is attached to the other socket.
        let computing = machine.devices.iter_mut().filter(|device| device.is_accelerator());
        computing.take(7).for_each(|device| device.hidden.push("hidden".to_owned()));
        let text = found_far(&topology, &machine).unwrap().text;
        assert!(
            text.starts_with("this process may run on cpus 0-7, far from its device NVIDIA H100")
        );
        assert!(text.contains("(0000:df:00.0), which is near cpus 8-15 (NUMA node 1)"), "{text}");
        topology.threads.iter_mut().for_each(|thread| thread.allowed = thread.socket == 1);
        assert_eq!(found_far(&topology, &machine), None);
    }
}
