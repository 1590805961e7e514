//! Combinations of the axes of a sweep, before they are planned on a machine.

use crate::GAUGE;
use crate::axis::StreamAxis;
use crate::axis::StreamSetting::{self, Placement};
use crate::compiled::{self, ChosenCompiler, CompilerChoice};
use nodegauge_measure::sweep::{self, Setting as _};
use nodegauge_measure::{Failure, Notice, NoticeId};
use nodegauge_placement::PlacementSetting::{Policy, Ranks};
use nodegauge_placement::{PlacementSetting, RankMap, RankPolicy};

/// Combination of axis values: one value per axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Combination {
    /// Values, in the order of the axes.
    pub(super) settings: Vec<StreamSetting>,
    /// Index of the reference combination, with which the rates are compared.
    pub(super) reference: Option<usize>,
}

/// Replaces the requested compilers with compilers of this system.
pub(super) fn resolve_compilers(axes: &mut [StreamAxis]) -> Result<Vec<ChosenCompiler>, Failure> {
    for axis in axes {
        let choices: Vec<CompilerChoice> =
            axis.settings().iter().filter_map(StreamSetting::compiler).cloned().collect();
        if !choices.is_empty() {
            let chosen = compiled::resolve(&choices)?;
            *axis = StreamAxis::from_values(
                chosen.iter().map(|one| one.choice.clone()),
                StreamSetting::Compiler,
            );
            return Ok(chosen);
        }
    }
    Ok(Vec::new())
}

/// Returns all distinct combinations of the axes' values, and notices.
///
/// Rates of ranks are compared with one rank of policy 5, as in the plot of the ccNUMA lecture. If only ranks or only
/// policies are swept, `fixed` contains the other setting. A missing reference is added. Without a policy, the
/// reference is the combination with one rank, if the sweep contains it.
pub(super) fn combinations(
    axes: &[StreamAxis],
    fixed: &[StreamSetting],
) -> Result<(Vec<Combination>, Vec<Notice>), Failure> {
    let (mut each, mut notices) = sweep::combinations(axes, GAUGE);
    let references = references(&mut each, fixed, &mut notices);
    sweep::check_count(each.len())?;
    let mut combinations = Vec::new();
    for (settings, reference) in each.into_iter().zip(references) {
        combinations.push(Combination { settings, reference });
    }
    Ok((combinations, notices))
}

/// True for a number of ranks or a policy: their rates are compared with a reference.
fn concerns_ranks(value: &StreamSetting) -> bool {
    matches!(value, Placement(Ranks(_) | Policy(_)))
}

fn is_policy(value: &StreamSetting) -> bool {
    matches!(value, Placement(Policy(_)))
}

/// Returns the index of the reference for each combination.
fn references(
    each: &mut Vec<Vec<StreamSetting>>,
    fixed: &[StreamSetting],
    notices: &mut Vec<Notice>,
) -> Vec<Option<usize>> {
    if !each.iter().flatten().any(concerns_ranks) {
        return vec![None; each.len()];
    }
    for settings in each.iter_mut() {
        for value in fixed.iter().filter(|value| concerns_ranks(value)) {
            if settings.iter().all(|known| known.axis() != value.axis()) {
                settings.push(value.clone());
            }
        }
    }
    let mut added = false;
    for i in 0..each.len() {
        let wanted = reference(&each[i]);
        if wanted.iter().any(is_policy) && !each.contains(&wanted) {
            each.push(wanted);
            added = true;
        }
    }
    if added {
        let text = "one rank of policy 5 is added as the reference";
        notices.push(Notice::new(NoticeId::Method, GAUGE, text));
    }
    each.iter().map(|one| each.iter().position(|other| *other == reference(one))).collect()
}

/// Returns the reference for these settings: one rank, with policy 5 if there is a policy.
fn reference(settings: &[StreamSetting]) -> Vec<StreamSetting> {
    let has_policy = settings.iter().any(is_policy);
    let mut wanted = settings.to_vec();
    for value in &mut wanted {
        match value {
            Placement(Ranks(count)) => *count = 1,
            Placement(Policy(policy)) => *policy = RankPolicy::REFERENCE.into(),
            // Policy 5 does not bind, so all rank maps are equivalent.
            Placement(PlacementSetting::RankMap(map)) if has_policy => *map = RankMap::Block,
            _ => {}
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(text: &str) -> StreamAxis {
        text.parse().unwrap()
    }

    fn words(combinations: &[Combination]) -> Vec<String> {
        let one = |c: &Combination| {
            let values: Vec<String> = c.settings.iter().map(ToString::to_string).collect();
            let reference = c.reference.map_or(String::new(), |i| format!(" over {i}"));
            format!("{}{reference}", values.join("/"))
        };
        combinations.iter().map(one).collect()
    }

    #[test]
    fn ranks_are_compared_with_one_rank_of_policy_5() {
        let policy = |number| Placement(Policy(RankPolicy::new(number).unwrap().into()));
        let (all, notices) = combinations(&[axis("ranks=1,2")], &[policy(3)]).unwrap();
        assert_eq!(words(&all), ["1/3 over 2", "2/3 over 2", "1/5 over 2"]);
        assert_eq!(notices.len(), 1);
        let (plain, plain_notices) = combinations(&[axis("ranks=1,2")], &[]).unwrap();
        assert_eq!(
            (words(&plain), plain_notices.len()),
            (vec!["1 over 0".into(), "2 over 0".into()], 0)
        );
        let (by_policy, _) = combinations(&[axis("policy=0,5")], &[Placement(Ranks(2))]).unwrap();
        assert_eq!(words(&by_policy), ["0/2 over 2", "5/2 over 2", "5/1 over 2"]);
        let fixed = [Placement(Ranks(2)), policy(3)];
        let (by_map, _) = combinations(&[axis("rank-map=block,core")], &fixed).unwrap();
        assert_eq!(words(&by_map), ["block", "core"]);
        let (series, _) =
            combinations(&[axis("ranks=1,2"), axis("policy=5,4,4/even")], &[]).unwrap();
        let over_first = ["1/5", "1/4", "1/4/even", "2/5", "2/4", "2/4/even"];
        assert_eq!(words(&series), over_first.map(|one| format!("{one} over 0")));
        let axes = [axis("rank-map=core,spread"), axis("policy=3")];
        let (fixed_map, _) = combinations(&axes, &fixed[..1]).unwrap();
        assert_eq!(words(&fixed_map), ["core/3/2 over 2", "spread/3/2 over 2", "block/5/1 over 2"]);
    }
}
