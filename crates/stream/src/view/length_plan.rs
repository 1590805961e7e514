//! View of a plan of STREAM's arrays.

use crate::length_plan::{LengthBasis, LengthPlan, PlannedLength};
use nodegauge_gauge::view::{ColumnList, Note, Section, Table, Tone};
use nodegauge_machine::number_ranges;
use nodegauge_measure::quantity::{count_in_words, format_significant};
use nodegauge_measure::{BytesPerSec, legible};

/// Returns the section of a plan.
pub fn section(plan: &LengthPlan) -> Section {
    let mut section = Section::new("plan");
    section.push(lengths(plan)).push_gap();
    section.note("rule", rule(plan));
    if plan.chosen_length().follows_rule == Some(false) {
        let text = "the given length is below the rule; its figures would be suspect";
        section.push(Note::new("suspect", text).tone(Tone::Warning));
    }
    section.note("threads", threads(plan));
    let memory = plan.memory.map_or_else(
        || "unknown: give --memory, e.g. --memory 768GiB".to_owned(),
        |memory| format!("{memory} available"),
    );
    section.note("memory", memory);
    let theoretical = plan.theoretical.as_ref().map_or_else(
        || {
            "unknown theoretical bandwidth: give --processor, or --dimms, e.g. --dimms 16x3200"
                .to_owned()
        },
        |limit| {
            let most = if limit.at_most { "at most " } else { "" };
            let basis = limit.detail.as_ref().unwrap_or(&limit.basis);
            format!("{most}{} theoretical = {basis}", BytesPerSec(limit.value))
        },
    );
    section.note("limit", theoretical);
    section.note("time", time(plan));
    if plan.is_guest {
        let text = "a guest may report a cache size that differs from the usable cache; without \
                    --standard, stream measures the cache and sizes its arrays accordingly";
        section.note("note", text);
    }
    for notice in &plan.notices {
        section.note("note", notice.clone());
    }
    section
}

fn lengths(plan: &LengthPlan) -> Table {
    let columns = ColumnList::<PlannedLength>::new()
        .left("length", |length| match length.basis {
            LengthBasis::Rule => "STREAM's rule".to_owned(),
            LengthBasis::Share(share) => format!("{share} of memory"),
            LengthBasis::Given(_) => "given".to_owned(),
        })
        .right("elements", |length| length.elements.to_string())
        .right("array", |length| length.array.to_string())
        .right("3 arrays", |length| length.total.to_string())
        .right_or_dash("memory", |length| Some(length.memory_share?.to_string()))
        .right_or_dash("x caches", |length| length.times_llc.map(format_significant))
        .right_or_dash("time", |length| Some(length.seconds?.to_string()));
    columns.table(&plan.lengths)
}

fn rule(plan: &LengthPlan) -> String {
    match plan.caches {
        Some(caches) => format!(
            "4 x {} in {} / {} B per element, at least 1000000 elements",
            caches.bytes,
            count_in_words(caches.count, "last-level cache"),
            plan.element.bytes()
        ),
        None => "unknown: no cache size is known; give it in the description, e.g. \
                 L3Cache:1(size=32MB)"
            .to_owned(),
    }
}

fn threads(plan: &LengthPlan) -> String {
    let placement = plan.rank_plan.ranks.first().map(|rank| &rank.placement);
    let Some(placement) = placement else { return "none".to_owned() };
    let cpus: Vec<u32> = placement.cpus().iter().map(|cpu| cpu.0).collect();
    let count = count_in_words(placement.threads.len(), "thread");
    format!("{count} on CPUs {}", in_words(&cpus))
}

/// Returns CPUs in range notation, with the step of equally distant CPUs: `0-3`, `0-190:2`.
fn in_words(cpus: &[u32]) -> String {
    let steps: Vec<u32> = cpus.windows(2).map(|two| two[1].saturating_sub(two[0])).collect();
    if let ([first, _, .., last], Some(step)) = (cpus, steps.first())
        && *step > 1
        && steps.iter().all(|other| other == step)
    {
        return format!("{first}-{last}:{step}");
    }
    legible::shorten_words(&number_ranges(cpus))
}

fn time(plan: &LengthPlan) -> String {
    match &plan.rate {
        Some(rate) => {
            let bound = if rate.is_bound { "; a lower bound" } else { "" };
            let bytes = 10 * plan.element.bytes();
            format!(
                "{} passes x {bytes} B per element, without first touch and checks, at {}{bound}",
                plan.ntimes, rate.basis
            )
        }
        None => "unknown: give --rate, e.g. --rate 300GB/s, or --processor".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenly_spaced_cpus_are_printed_with_a_stride() {
        assert_eq!(in_words(&[0, 2, 4, 6]), "0-6:2");
        assert_eq!(in_words(&[0, 1, 2, 3]), "0-3");
        assert_eq!(in_words(&[0, 2, 5]), "0,2,5");
        assert_eq!(in_words(&[7]), "7");
    }
}
