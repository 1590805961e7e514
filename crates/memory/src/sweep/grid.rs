//! From the axes of a sweep to its combinations, before they are planned on a machine.

use crate::GAUGE;
use crate::axis::{Axis, Setting};
use crate::compiled::{self, ChosenCompiler, CompilerChoice};
use nodegauge_measure::{Failure, Notice, NoticeId};
use nodegauge_placement::{Policy, RankMap};

/// Axes at most.
const MOST_AXES: usize = 2;
/// Cells at most: each has arrays of its own.
const MOST_CELLS: usize = 256;

/// One value of each axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Combination {
    /// The values.
    pub(super) settings: Vec<Setting>,
    /// The combination that its rates are held against.
    pub(super) reference: Option<usize>,
}

/// Checks what can be known of the axes alone; `is_fixed` says whether the option of a name has a
/// value of its own.
///
/// # Errors
/// Too many axes, or an option that has two values.
pub fn check(axes: &[Axis], is_fixed: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let refused = |axis: &Axis, why: &str| Err(Failure::usage(format!("{why} {axis}")));
    for (i, axis) in axes.iter().enumerate() {
        let name = axis.name();
        if axes[..i].iter().any(|other| other.name() == name) {
            let why = format!(
                "the axis {name} is given twice\nhint: give all values at once, e.g. --sweep"
            );
            return refused(axis, &why);
        }
    }
    if let Some(axis) = axes.iter().find(|axis| is_fixed(axis.name())) {
        let name = axis.name();
        let why = format!("--{name} is fixed and swept at once\nhint: give it once, e.g. --sweep");
        return refused(axis, &why);
    }
    match axes.len() > MOST_AXES {
        true => {
            Err(Failure::usage("a sweep has at most two axes\nhint: fix one with its own option"))
        }
        false => Ok(()),
    }
}

/// Puts the compilers that are meant on this system in the place of what was asked for.
pub(super) fn resolve_compilers(axes: &mut [Axis]) -> Result<Vec<ChosenCompiler>, Failure> {
    for axis in axes {
        let choices: Vec<CompilerChoice> =
            axis.settings().iter().filter_map(Setting::compiler).cloned().collect();
        if !choices.is_empty() {
            let chosen = compiled::resolve(&choices)?;
            *axis = Axis::compilers(chosen.iter().map(|one| one.choice.clone()));
            return Ok(chosen);
        }
    }
    Ok(Vec::new())
}

/// Every combination of the axes' values, each once; and notices.
///
/// Rates of ranks are held against one rank of policy 5, as in the ccNUMA lecture's plot: where ranks
/// or policies are swept, `fixed` names the other of the two, and a reference that is missing is
/// added. Without a policy one rank is the reference, if it is in the sweep.
pub(super) fn combinations(
    axes: &[Axis],
    fixed: &[Setting],
) -> Result<(Vec<Combination>, Vec<Notice>), Failure> {
    let mut all: Vec<Vec<Setting>> = vec![Vec::new()];
    for axis in axes {
        let with = |settings: &Vec<Setting>| {
            let settings = settings.clone();
            axis.settings()
                .iter()
                .map(move |value| [&settings[..], std::slice::from_ref(value)].concat())
        };
        all = all.iter().flat_map(with).collect();
    }
    let mut notices = Vec::new();
    let mut each: Vec<Vec<Setting>> = Vec::new();
    for settings in all {
        if each.contains(&settings) {
            let words: Vec<String> =
                settings.iter().map(|value| format!("{} {value}", value.axis())).collect();
            let text = format!("{} is given twice and measured once", words.join(", "));
            notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
        } else {
            each.push(settings);
        }
    }
    let references = references(&mut each, fixed, &mut notices);
    if each.len() > MOST_CELLS {
        return Err(Failure::usage(format!(
            "{} combinations are more than {MOST_CELLS}\nhint: take fewer values",
            each.len()
        )));
    }
    let combination = |(settings, reference)| Combination { settings, reference };
    Ok((each.into_iter().zip(references).map(combination).collect(), notices))
}

/// What of a sweep this node cannot do, in words with the reason: a value once where none of its
/// combinations is left in `kept`.
pub(super) fn left_out(all: &[(Vec<Setting>, Failure)], kept: &[&[Setting]]) -> Vec<Notice> {
    let mut told: Vec<(Vec<&Setting>, &Failure)> = Vec::new();
    for (settings, why) in all {
        let is_gone = |value: &&Setting| !kept.iter().any(|other| other.contains(value));
        let what = match settings.iter().find(is_gone) {
            Some(value) => vec![value],
            None => settings.iter().collect(),
        };
        if told.iter().all(|(known, _)| *known != what) {
            told.push((what, why));
        }
    }
    let notice = |(what, why): (Vec<&Setting>, &Failure)| {
        let what: Vec<String> = what.iter().map(|at| format!("{} {at}", at.axis())).collect();
        let text = format!("{} left out: {}", what.join(", "), why.in_a_line());
        Notice::new(NoticeId::LeftOut, GAUGE, text)
    };
    told.into_iter().map(notice).collect()
}

/// The index of each combination's reference.
fn references(
    each: &mut Vec<Vec<Setting>>,
    fixed: &[Setting],
    notices: &mut Vec<Notice>,
) -> Vec<Option<usize>> {
    let of_ranks = |value: &Setting| matches!(value, Setting::Ranks(_) | Setting::Policy(_));
    if !each.iter().flatten().any(of_ranks) {
        return vec![None; each.len()];
    }
    for settings in each.iter_mut() {
        for value in fixed.iter().filter(|value| of_ranks(value)) {
            if settings.iter().all(|known| known.axis() != value.axis()) {
                settings.push(value.clone());
            }
        }
    }
    let mut added = false;
    for i in 0..each.len() {
        let wanted = reference(&each[i]);
        let has_policy = wanted.iter().any(|value| matches!(value, Setting::Policy(_)));
        if has_policy && !each.contains(&wanted) {
            each.push(wanted);
            added = true;
        }
    }
    if added {
        let text = "one rank of policy 5 is measured too: the others are held against it";
        notices.push(Notice::new(NoticeId::Method, GAUGE, text));
    }
    each.iter().map(|one| each.iter().position(|other| *other == reference(one))).collect()
}

/// The same with one rank, and with policy 5 where there is a policy.
fn reference(settings: &[Setting]) -> Vec<Setting> {
    let has_policy = settings.iter().any(|value| matches!(value, Setting::Policy(_)));
    let replaced = |value: &Setting| match value {
        Setting::Ranks(_) => Setting::Ranks(1),
        Setting::Policy(_) => Setting::Policy(Policy::REFERENCE),
        // That policy binds nothing, so that all maps are alike.
        Setting::RankMap(_) if has_policy => Setting::RankMap(RankMap::Block),
        other => other.clone(),
    };
    settings.iter().map(replaced).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(text: &str) -> Axis {
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
    fn combinations_come_once_in_the_order_of_the_axes() {
        let (all, notices) =
            combinations(&[axis("threads=1,2,1"), axis("pages=4k,thp")], &[]).unwrap();
        assert_eq!(words(&all), ["1/4k", "1/thp", "2/4k", "2/thp"]);
        assert_eq!(notices[0].text, "threads 1, pages 4k is given twice and measured once");
        let many = combinations(&[axis("threads=1-200"), axis("pages=4k,thp")], &[]);
        let said = "400 combinations are more than 256\nhint: take fewer values";
        assert_eq!(many.unwrap_err().to_string(), said);
    }

    #[test]
    fn ranks_are_held_against_one_of_policy_5() {
        let policy = |number| Setting::Policy(Policy::new(number).unwrap());
        let (all, notices) = combinations(&[axis("ranks=1,2")], &[policy(3)]).unwrap();
        assert_eq!(words(&all), ["1/3 over 2", "2/3 over 2", "1/5 over 2"]);
        assert_eq!(notices.len(), 1);
        let (all, notices) = combinations(&[axis("ranks=1,2")], &[]).unwrap();
        assert_eq!((words(&all), notices.len()), (vec!["1 over 0".into(), "2 over 0".into()], 0));
        let (all, _) = combinations(&[axis("policy=0,5")], &[Setting::Ranks(2)]).unwrap();
        assert_eq!(words(&all), ["0/2 over 2", "5/2 over 2", "5/1 over 2"]);
        let fixed = [Setting::Ranks(2), policy(3)];
        let (all, _) = combinations(&[axis("rank-map=block,core")], &fixed).unwrap();
        assert_eq!(words(&all), ["block", "core"]);
        let axes = [axis("rank-map=core,spread"), axis("policy=3")];
        let (all, _) = combinations(&axes, &fixed[..1]).unwrap();
        assert_eq!(words(&all), ["core/3/2 over 2", "spread/3/2 over 2", "block/5/1 over 2"]);
    }

    #[test]
    fn what_cannot_be_had_is_said_once_with_the_reason() {
        let (all, _) = combinations(&[axis("threads=1,9"), axis("pages=4k,1g,2m")], &[]).unwrap();
        let settings: Vec<Vec<Setting>> = all.into_iter().map(|one| one.settings).collect();
        let why = |text: &str| Failure::missing(format!("no {text}\nhint: buy some"));
        let gone = [(1, "1g"), (3, "threads"), (4, "1g"), (2, "2m")];
        let gone = gone.map(|(i, text)| (settings[i].clone(), why(text)));
        let kept: Vec<&[Setting]> = [0, 5].map(|i| &settings[i][..]).to_vec();
        let said: Vec<String> = left_out(&gone, &kept).into_iter().map(|one| one.text).collect();
        let expected = [
            "pages 1g left out: no 1g; buy some",
            "threads 9, pages 4k left out: no threads; buy some",
            "threads 1, pages 2m left out: no 2m; buy some",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn an_option_has_one_value() {
        let says = |axes: &[Axis], fixed: &str| {
            check(axes, |name| name == fixed).map_err(|failure| failure.to_string())
        };
        let axes = [axis("threads=1,2"), axis("threads=3")];
        let twice = "the axis threads is given twice\nhint: give all values at once, e.g. --sweep threads=3";
        assert_eq!(says(&axes, ""), Err(twice.to_owned()));
        let fixed =
            "--threads is fixed and swept at once\nhint: give it once, e.g. --sweep threads=1,2";
        assert_eq!(says(&axes[..1], "threads"), Err(fixed.to_owned()));
        let axes = [axis("threads=1"), axis("pages"), axis("stores")];
        assert!(says(&axes, "").unwrap_err().starts_with("a sweep has at most two axes"));
        assert_eq!(says(&axes[..2], ""), Ok(()));
    }
}
