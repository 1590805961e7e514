//! Groups of nodes of one kind.
//!
//! Nodes of one kind with different parts are variants. A variant with at least eight nodes is a group, because the
//! site bought such nodes. A smaller variant joins the largest variant of its kind, so that a node that has lost a
//! memory module is compared with nodes that have all modules. The difference is then a reason.

use super::NodeRuns;
use crate::inventory::{Inventory, NodeKind};
use nodegauge_analysis::slow::MIN_NODES;
use nodegauge_gauge::view::group_by_key;

/// Nodes of a group, with the parts that most of them have.
pub(crate) struct GroupMembers<'a> {
    pub(crate) kind: NodeKind,
    pub(crate) inventory: Inventory,
    pub(crate) nodes: Vec<NodeRuns<'a>>,
}

/// Divides nodes into groups.
pub(crate) fn group_nodes(nodes: Vec<NodeRuns<'_>>) -> Vec<GroupMembers<'_>> {
    let mut groups = Vec::new();
    for (kind, of_kind) in group_by_key(nodes, |node| node.latest().kind.clone()) {
        let mut variants = group_by_key(of_kind, |node| node.latest().inventory.clone());
        variants.sort_by_key(|(_, of_variant)| std::cmp::Reverse(of_variant.len()));
        let mut of_groups: Vec<GroupMembers<'_>> = Vec::new();
        for (inventory, of_variant) in variants {
            match of_groups.first_mut() {
                Some(largest) if of_variant.len() < MIN_NODES => {
                    largest.nodes.extend(of_variant);
                }
                _ => {
                    of_groups.push(GroupMembers {
                        kind: kind.clone(),
                        inventory,
                        nodes: of_variant,
                    });
                }
            }
        }
        groups.extend(of_groups);
    }
    groups
}
