//! Groups of nodes of one kind.
//!
//! Nodes of one kind with different parts are variants. A variant with at least eight nodes is a group, because the
//! site bought such nodes. A smaller variant joins the largest variant of its kind, so that a node that has lost a
//! memory module is compared with nodes that have all modules. The difference is then a reason.

use super::Node;
use crate::inventory::{Inventory, NodeKind};
use nodegauge_analysis::slow::MIN_NODES;
use nodegauge_gauge::view::grouped;

/// Nodes of a group, with the parts that most of them have.
pub(crate) struct GroupMembers<'a> {
    pub(crate) kind: NodeKind,
    pub(crate) inventory: Inventory,
    pub(crate) nodes: Vec<Node<'a>>,
}

/// Divides nodes into groups.
pub(crate) fn group_nodes(nodes: Vec<Node<'_>>) -> Vec<GroupMembers<'_>> {
    let mut groups = Vec::new();
    for (kind, of_kind) in grouped(nodes, |node| node.latest().kind.clone()) {
        let mut variants = grouped(of_kind, |node| node.latest().inventory.clone());
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
