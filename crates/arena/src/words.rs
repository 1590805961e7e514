//! Descriptions of the pages and NUMA nodes of memory, as text.

use crate::{NumaConfig, PagesConfig};
use nodegauge_measure::Bytes;

/// Describes pages, e.g. `thp pages (100 % on 2 MiB)`.
pub fn pages(pages: &PagesConfig) -> String {
    let asked = &pages.asked;
    let Some(got) = &pages.got else {
        return format!("{asked} pages (actual page sizes unknown)");
    };
    let shares: Vec<String> = got
        .iter()
        .rev()
        .filter(|(_, share)| share.0 >= 0.0005)
        .map(|(size, share)| format!("{} on {}", share, Bytes(*size)))
        .collect();
    format!("{asked} pages ({})", shares.join(", "))
}

/// Describes the NUMA nodes of the pages, e.g. `requested local: 100 % of the pages on the NUMA nodes of the
/// policy; 50 % on NUMA node 0, 50 % on NUMA node 1`. Returns `None` on a machine with one NUMA node if all pages
/// are on it.
pub fn numa(numa: &NumaConfig) -> Option<String> {
    let held = numa.held;
    if numa.nodes.unwrap_or(0) <= 1 && held.is_none_or(|held| held.0 >= 0.9995) {
        return None;
    }
    let shares: Vec<String> = (numa.got.as_ref()?.iter())
        .map(|(node, share)| format!("{} on NUMA node {node}", share))
        .collect();
    let held = match (held, &numa.unchecked) {
        (Some(held), _) => format!("{} of the pages on the NUMA nodes of the policy", held),
        (None, Some(why)) => format!("not checked: {why}"),
        (None, None) => "not checked because the threads are not bound".to_owned(),
    };
    let apart = if numa.arrays.is_some() {
        "; the NUMA nodes differ between arrays (see the record)"
    } else {
        ""
    };
    Some(format!("requested {}: {held}; {}{apart}", numa.asked, shares.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn memory_locations_are_printed_for_several_numa_nodes() {
        let words = |value: Value| numa(&serde_json::from_value(value).unwrap());
        let one = json!({"asked": "local", "got": {"0": 1.0}, "held": 1.0, "nodes": 1});
        assert_eq!(words(one), None);
        let two = json!({
            "asked": "local", "got": {"0": 0.75, "1": 0.25}, "held": 0.75, "nodes": 2,
            "arrays": {"a": {"0": 1.0}, "b": {"0": 1.0}, "c": {"0": 0.25, "1": 0.75}},
        });
        assert_eq!(
            words(two).unwrap(),
            "requested local: 75 % of the pages on the NUMA nodes of the policy; 75 % on NUMA node 0, 25 % on NUMA node 1; \
             the NUMA nodes differ between arrays (see the record)"
        );
        let unbound = json!({"asked": "default", "got": {"0": 1.0}, "held": null, "nodes": 2});
        assert!(words(unbound).unwrap().contains("not bound"));
        let few = json!({
            "asked": "interleave:0-1", "got": {"0": 1.0}, "nodes": 2,
            "unchecked": "too few pages for 2 nodes (1 page of 2 MiB)",
        });
        assert_eq!(
            words(few).unwrap(),
            "requested interleave:0-1: not checked: too few pages for 2 nodes (1 page of 2 MiB); \
             100 % on NUMA node 0"
        );
    }
}
