//! Explanations of terms that only this project or one benchmark suite uses. Each explanation is printed where its term
//! first appears on a page.

use crate::machine::MACHINE_SECTION;
use nodegauge_gauge::view::{Block, Drawing, Page, Section, Table, TableCell};
use nodegauge_placement::RankPolicy;
use std::collections::BTreeSet;

/// Terms and their explanations.
const TERMS: [(&str, &str); 8] = [
    (
        "regime",
        "samples with similar round trips of a cache line between the cores; when a hypervisor moves the CPUs of a \
         guest, another regime begins",
    ),
    ("regimes", ""),
    (
        "mbw_mr",
        "bandwidth and message rate of several pairs of ranks at once, as osu_mbw_mr measures them",
    ),
    ("multi_lat", "latency of several pairs of ranks at once, as osu_multi_lat measures it"),
    ("latency_mt", "latency between several threads of the ranks, as osu_latency_mt measures it"),
    ("bibw", "bandwidth in both directions at once, as osu_bibw measures it"),
    ("n1/2", "message size that reaches half of the highest bandwidth"),
    ("eager", "sent at once, without waiting for the receiver; larger messages wait (rendezvous)"),
];

/// Word that precedes the number of a placement policy.
const POLICY: &str = "policy";

/// Adds explanations to the sections in which terms first appear. The section that describes the node is not searched,
/// because the page of a run that was just measured does not contain it.
pub(crate) fn explain(page: &mut Page) {
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let mut policies: BTreeSet<u8> = BTreeSet::new();
    for section in page.sections.iter_mut().filter(|section| section.id != MACHINE_SECTION) {
        let words = section_words(section);
        let mut lines = Vec::new();
        for (term, explanation) in TERMS {
            let name = term.trim_end_matches('s');
            if words.iter().any(|word| word == term) && known.insert(name) {
                // The plural has the same explanation as the singular.
                let of_name = TERMS.iter().find(|(other, _)| *other == name);
                let text = of_name.map_or(explanation, |(_, text)| text);
                lines.push(format!("{name}: {text}"));
            }
        }
        let met: BTreeSet<u8> = section_policies(section, &words);
        let new: Vec<u8> = met.difference(&policies).copied().collect();
        let described = new.iter().filter_map(|number| {
            Some(format!("{number} = {}", RankPolicy::new(*number)?.description()))
        });
        let described: Vec<String> = described.collect();
        if !described.is_empty() {
            lines.push(format!("placement policy: {}", described.join("; ")));
        }
        policies.extend(new);
        section.blocks.extend(lines.into_iter().map(Block::Text));
    }
}

/// Returns the words in a section, without punctuation.
fn section_words(section: &Section) -> Vec<String> {
    let mut texts: Vec<&str> = Vec::new();
    for block in &section.blocks {
        match block {
            Block::Heading(text) | Block::Text(text) => texts.push(text),
            Block::Note(note) => texts.extend([note.label.as_str(), note.text.as_str()]),
            Block::Table(table) => texts.extend(table_texts(table)),
            Block::Chart(chart) => {
                texts.push(&chart.title);
                texts.extend(chart.series.iter().map(|series| series.name.as_str()));
            }
            Block::Picture(picture) => {
                texts.push(&picture.title);
                match &picture.drawing {
                    Drawing::Chart(chart) => {
                        texts.extend(chart.series.iter().map(|series| series.name.as_str()));
                        texts.extend(chart.guides.iter().map(|guide| guide.text.as_str()));
                    }
                    Drawing::Bars(bars) => texts.extend(bars.groups.iter().map(String::as_str)),
                    _ => {}
                }
            }
            Block::HeatMaps(_) | Block::Card(_) | Block::Gap => {}
        }
    }
    let words = texts.iter().flat_map(|text| text.split_whitespace());
    words
        .map(|word| word.trim_matches([',', ';', ':', '.', '(', ')', '"', '\'']).to_owned())
        .collect()
}

fn table_texts(table: &Table) -> impl Iterator<Item = &str> {
    let cells = table.rows.iter().flatten().chain(table.headings.iter().map(|(_, cell)| cell));
    let titles = table.columns.iter().map(|column| column.title.as_str());
    titles.chain(cells.map(|cell: &TableCell| cell.text.as_str()))
}

/// Parses the number of a policy, which may be followed by a rank map: `4/even`.
fn number(policy: &str) -> Option<u8> {
    policy.split('/').next()?.parse().ok()
}

/// Returns the numbers of the policies in a section: those after [`POLICY`] in its words, and those in columns with
/// this title.
fn section_policies(section: &Section, words: &[String]) -> BTreeSet<u8> {
    let behind = words.windows(2).filter(|pair| pair[0] == POLICY);
    let mut found: BTreeSet<u8> = behind.filter_map(|pair| number(&pair[1])).collect();
    for block in &section.blocks {
        let Block::Table(table) = block else { continue };
        let Some(at) = table.columns.iter().position(|column| column.title == POLICY) else {
            continue;
        };
        let cells = table.rows.iter().filter_map(|row| row.get(at));
        found.extend(cells.filter_map(|cell| number(&cell.text)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_gauge::view::Note;

    #[test]
    fn term_is_explained_once_where_it_first_appears() {
        let section = |text: &str| {
            let mut section = Section::new("any");
            section.push(Note::new("how", text));
            section
        };
        let sections =
            ["2 ranks, policy 3", "two regimes", "a regime, policy 3, policy 0/even"].map(section);
        let mut page = Page { sections: sections.to_vec(), ..Page::default() };
        explain(&mut page);
        let last = |at: usize| match page.sections[at].blocks.last() {
            Some(Block::Text(text)) => text.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!(
            last(0),
            "placement policy: 3 = CPUs of the socket, memory bound to its own NUMA nodes"
        );
        assert!(last(1).starts_with("regime: samples with similar"), "{}", last(1));
        assert_eq!(last(2), "placement policy: 0 = any CPU, no memory policy");
    }
}
