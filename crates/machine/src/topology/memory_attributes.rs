//! Memory attributes in hwloc's XML (version 2): bandwidth and latency from CPUs to the memory of each NUMA node.
//!
//! hwloc reads these values from the firmware's HMAT, if there is one. Programs that choose memory by these
//! attributes use the measured values if hwloc reads an XML file that contains them (`HWLOC_XMLFILE`). Names, units
//! and flags are those of hwloc's documentation, *Comparing memory node attributes for finding where to allocate
//! on*.

use crate::ids::NumaNodeId;
use nodegauge_measure::{BytesPerSec, Seconds};
use std::collections::BTreeMap;

/// Measured bandwidth and latency from the CPUs of one NUMA node to the memory of another or the same NUMA node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryAccessSpeed {
    /// NUMA node whose CPUs access the memory.
    pub initiator: NumaNodeId,
    /// NUMA node of the memory.
    pub target: NumaNodeId,
    /// Read bandwidth.
    pub read: Option<BytesPerSec>,
    /// Write bandwidth.
    pub write: Option<BytesPerSec>,
    /// Latency of a load.
    pub latency: Option<Seconds>,
}

/// Flags of an attribute whose higher values are better: `HWLOC_MEMATTR_FLAG_HIGHER_FIRST` and `_NEED_INITIATOR`.
const HIGHER_FIRST: u32 = 1 | 4;
/// Flags of an attribute whose lower values are better: `HWLOC_MEMATTR_FLAG_LOWER_FIRST` and `_NEED_INITIATOR`.
const LOWER_FIRST: u32 = 2 | 4;
/// Number of bytes in hwloc's unit of bandwidth, MiB/s.
const MIB: f64 = (1u64 << 20) as f64;
/// Nanoseconds per second; hwloc stores latency in nanoseconds.
const NANO: f64 = 1e9;
/// Prefix of the names under which the values of the firmware are kept.
const FIRMWARE: &str = "Firmware";

/// Standard attribute of hwloc.
struct Attribute {
    name: &'static str,
    flags: u32,
    /// Returns the measured value in hwloc's unit; `None` if it was not measured.
    value: fn(&MemoryAccessSpeed) -> Option<f64>,
}

/// Attributes in hwloc's order. hwloc defines bandwidth and latency without a direction as the mean of both directions
/// or, if only one direction is known, as its value. The latency of a write cannot be measured by dependent loads.
const ATTRIBUTES: [Attribute; 6] = [
    Attribute { name: "Bandwidth", flags: HIGHER_FIRST, value: mean_bandwidth },
    Attribute { name: "Latency", flags: LOWER_FIRST, value: latency },
    Attribute { name: "ReadBandwidth", flags: HIGHER_FIRST, value: read_bandwidth },
    Attribute { name: "WriteBandwidth", flags: HIGHER_FIRST, value: write_bandwidth },
    Attribute { name: "ReadLatency", flags: LOWER_FIRST, value: latency },
    Attribute { name: "WriteLatency", flags: LOWER_FIRST, value: |_| None },
];

fn read_bandwidth(access: &MemoryAccessSpeed) -> Option<f64> {
    access.read.map(|rate| rate.0 / MIB)
}

fn write_bandwidth(access: &MemoryAccessSpeed) -> Option<f64> {
    access.write.map(|rate| rate.0 / MIB)
}

fn mean_bandwidth(access: &MemoryAccessSpeed) -> Option<f64> {
    match (read_bandwidth(access), write_bandwidth(access)) {
        (Some(read), Some(write)) => Some((read + write) / 2.0),
        (read, write) => read.or(write),
    }
}

fn latency(access: &MemoryAccessSpeed) -> Option<f64> {
    access.latency.map(|time| time.0 * NANO)
}

/// NUMA node of an XML topology.
struct XmlNode<'a> {
    /// Identifier of the object in the XML.
    object: &'a str,
    /// CPUs of the NUMA node, as hwloc prints a set.
    cpus: &'a str,
}

/// Returns an XML of hwloc with measured memory attributes. Existing values, which come from the firmware, are kept
/// under names that begin with `Firmware`. Everything else is unchanged.
///
/// # Errors
/// Returns the reason if the text is not an XML of hwloc, or if one of the NUMA nodes is missing.
pub fn add_measured_attributes(
    xml: &str,
    accesses: &[MemoryAccessSpeed],
) -> Result<String, String> {
    let nodes = nodes(xml);
    let mut kept = xml.to_owned();
    for Attribute { name, .. } in &ATTRIBUTES {
        kept = kept.replace(&opening(name), &opening(&format!("{FIRMWARE}{name}")));
    }
    let mut added = String::new();
    for Attribute { name, flags, value } in &ATTRIBUTES {
        let mut values = String::new();
        for access in accesses {
            let Some(measured) = value(access).filter(|measured| measured.is_finite()) else {
                continue;
            };
            let target = find_node(&nodes, access.target)?;
            let initiator = find_node(&nodes, access.initiator)?;
            values += &format!(
                "    <memattr_value target_obj_type=\"NUMANode\" target_obj_gp_index=\"{}\" value=\"{}\" \
                 initiator_cpuset=\"{}\"/>\n",
                target.object,
                measured.round().max(1.0) as u64,
                initiator.cpus
            );
        }
        if !values.is_empty() {
            added += &format!("  {} flags=\"{flags}\">\n{values}  </memattr>\n", opening(name));
        }
    }
    let end = kept.find("  <cpukind ").or_else(|| kept.find("</topology>"));
    let end = end.ok_or("it does not end with </topology>")?;
    kept.insert_str(end, &added);
    Ok(kept)
}

/// Returns the beginning of the element of an attribute.
fn opening(name: &str) -> String {
    format!("<memattr name=\"{name}\"")
}

/// Returns the NUMA node with this number.
fn find_node<'n, 'a>(
    nodes: &'n BTreeMap<NumaNodeId, XmlNode<'a>>,
    id: NumaNodeId,
) -> Result<&'n XmlNode<'a>, String> {
    nodes.get(&id).ok_or_else(|| format!("hwloc does not list NUMA node {id}"))
}

/// Returns the NUMA nodes of an XML.
fn nodes(xml: &str) -> BTreeMap<NumaNodeId, XmlNode<'_>> {
    let mut nodes = BTreeMap::new();
    for rest in xml.split("<object type=\"NUMANode\"").skip(1) {
        let tag = rest.split_once('>').map_or(rest, |(tag, _)| tag);
        let Some(number) = attribute(tag, "os_index").and_then(|text| text.parse().ok()) else {
            continue;
        };
        let parts = attribute(tag, "gp_index").zip(attribute(tag, "cpuset"));
        let node = parts.map(|(object, cpus)| XmlNode { object, cpus });
        nodes.extend(node.map(|node| (NumaNodeId(number), node)));
    }
    nodes
}

/// Returns the value of an attribute of an XML tag.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" allowed_cpuset="0x00000003" nodeset="0x00000003" complete_nodeset="0x00000003" allowed_nodeset="0x00000003" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="5" local_memory="1073741824"/>
      <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3"/>
    </object>
    <object type="Package" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="4">
      <object type="NUMANode" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="7" local_memory="1073741824"/>
      <object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="6"/>
    </object>
  </object>
  <memattr name="Bandwidth" flags="5">
    <memattr_value target_obj_type="NUMANode" target_obj_gp_index="7" value="99" initiator_cpuset="0x00000001"/>
  </memattr>
  <cpukind cpuset="0x00000003" forced_efficiency="0">
  </cpukind>
</topology>
"#;

    fn access(initiator: u32, target: u32, read: f64, write: Option<f64>) -> MemoryAccessSpeed {
        MemoryAccessSpeed {
            initiator: NumaNodeId(initiator),
            target: NumaNodeId(target),
            read: Some(BytesPerSec(read * MIB)),
            write: write.map(|write| BytesPerSec(write * MIB)),
            latency: Some(Seconds(89.6e-9)),
        }
    }

    /// Returns the lines of the document that do not describe memory attributes.
    fn without_attributes(xml: &str) -> Vec<&str> {
        xml.lines().filter(|line| !line.contains("memattr")).collect()
    }

    /// Returns the values of a memory attribute, each with the NUMA node of the memory and the CPUs.
    fn values<'a>(xml: &'a str, name: &str) -> Vec<[&'a str; 3]> {
        let opening = opening(name);
        let lines = xml.lines().skip_while(|line| !line.contains(&opening)).skip(1);
        let of_attribute = lines.take_while(|line| line.contains("<memattr_value "));
        let keys = ["target_obj_gp_index", "value", "initiator_cpuset"];
        of_attribute.map(|line| keys.map(|key| attribute(line, key).unwrap())).collect()
    }

    #[test]
    fn measured_values_are_added_to_firmware_values() {
        let accesses = [
            access(0, 0, 3000.0, Some(2000.0)),
            access(0, 1, 1000.4, None),
            access(1, 1, 0.1, None),
        ];
        let xml = add_measured_attributes(TWO, &accesses).unwrap();
        let (first, second) = ("0x00000001", "0x00000002");
        assert_eq!(
            values(&xml, "Bandwidth"),
            [["5", "2500", first], ["7", "1000", first], ["7", "1", second]]
        );
        assert_eq!(values(&xml, "WriteBandwidth"), [["5", "2000", first]]);
        assert_eq!(values(&xml, "ReadLatency").len(), 3);
        assert_eq!(values(&xml, "Latency")[0], ["5", "90", first]);
        assert_eq!(values(&xml, "FirmwareBandwidth"), [["7", "99", first]]);
        assert_eq!(without_attributes(&xml), without_attributes(TWO));
    }

    #[test]
    fn missing_numa_node_and_invalid_text_are_refused() {
        let far = add_measured_attributes(TWO, &[access(0, 9, 1.0, None)]).unwrap_err();
        assert_eq!(far, "hwloc does not list NUMA node 9");
        assert!(add_measured_attributes("not an XML", &[]).is_err());
        assert_eq!(
            add_measured_attributes(TWO, &[]).unwrap().matches("FirmwareBandwidth").count(),
            1
        );
    }
}
