//! What rates of ranks are held against: one rank of policy 5, as in the ccNUMA lecture's plot.

use crate::args::StreamArgs;
use nodegauge_memory::sweep::Coordinates;
use nodegauge_placement::Policy;

/// A configuration before it is planned.
type Partial = (StreamArgs, Coordinates);

const RANKS: &str = "ranks";
const POLICY: &str = "policy";

/// Names number of ranks and policy in the coordinates of all configurations, where one of them
/// is swept, and gives the index of each one's reference; one that is missing is added. Without a
/// policy one rank is the reference, if it is in the sweep.
pub(super) fn complete(
    partial: &mut Vec<Partial>,
    notices: &mut Vec<String>,
) -> Vec<Option<usize>> {
    let swept = |(_, coordinates): &Partial| {
        coordinates.iter().any(|(axis, _)| axis == RANKS || axis == POLICY)
    };
    if !partial.iter().any(swept) {
        return vec![None; partial.len()];
    }
    for (args, coordinates) in partial.iter_mut() {
        let fixed = [
            (RANKS, args.ranks.ranks.map(|ranks| ranks.to_string())),
            (POLICY, args.ranks.policy.map(|policy| policy.to_string())),
        ];
        for (axis, value) in fixed {
            if let Some(value) = value
                && coordinates.iter().all(|(known, _)| known != axis)
            {
                coordinates.push((axis.to_owned(), value));
            }
        }
    }
    let mut added = false;
    for i in 0..partial.len() {
        let (args, coordinates) = reference(&partial[i]);
        let known = partial.iter().any(|(_, other)| *other == coordinates);
        if !known && args.ranks.policy.is_some() {
            partial.push((args, coordinates));
            added = true;
        }
    }
    if added {
        notices.push(
            "one rank of policy 5 is measured too: the others are held against it".to_owned(),
        );
    }
    let found = |one: &Partial| {
        let (_, wanted) = reference(one);
        partial.iter().position(|(_, other)| *other == wanted)
    };
    partial.iter().map(found).collect()
}

/// The same with one rank, and with policy 5 where there is a policy.
fn reference((args, coordinates): &Partial) -> Partial {
    let mut args = args.clone();
    args.ranks.ranks = Some(1);
    args.ranks.policy = args.ranks.policy.map(|_| Policy::REFERENCE);
    let coordinates = coordinates
        .iter()
        .map(|(axis, value)| match axis.as_str() {
            RANKS => (axis.clone(), "1".to_owned()),
            POLICY => (axis.clone(), Policy::REFERENCE.to_string()),
            _ => (axis.clone(), value.clone()),
        })
        .collect();
    (args, coordinates)
}
