//! Page of a ranking, as a view model: a table of nodes with verdicts, host lists, the statistics of each figure with a
//! histogram, and the differences between nodes.

use crate::formats;
use crate::rank::{FigureStatistics, RankVerdict, RankedFigure, RankedGroup, RankedNode, Ranking};
use nodegauge_analysis::slow::practical::MEMORY_LIMIT_SOURCE;
use nodegauge_gauge::view::{
    AttainableValue, BarValues, Block, ColumnList, Drawing, FigureBar, FigureBars, Note, Page,
    PageHead, Picture, Section, Table, TableCell, Tone, group_by_key, sentence, summary,
};
use nodegauge_measure::Fraction;
use nodegauge_measure::quantity::{count_in_words, number_form};
use nodegauge_measure::stats::BetterDirection;
use nodegauge_toolchain::mpi::HostList;

/// Maximum number of good nodes in a table. The worst good nodes are listed; CSV contains all nodes.
const GOOD_ROWS: usize = 5;
/// Maximum number of rows of a table. A browser needs seconds for ten thousand rows, and nobody reads them.
const MAX_ROWS: usize = 500;
/// Maximum number of kinds of nodes in the title.
const KINDS: usize = 4;
/// Number of bins of a histogram.
const BINS: usize = 12;
/// Maximum number of listed texts without a record; further texts are only counted.
const MAX_REJECTED: usize = 10;

/// Returns the page. If `all` is set, it lists all nodes.
pub fn ranking_page(ranking: &Ranking, all: bool) -> Page {
    let mut sections: Vec<Section> =
        ranking.groups.iter().map(|group| group_section(group, all)).collect();
    sections.push(lists(ranking));
    sections.extend(ranking.groups.iter().map(statistics));
    sections.push(verdict(ranking));
    let groups = count_in_words(ranking.groups.len(), "group");
    let heading =
        format!("nodegauge fleet: {} in {groups}", count_in_words(ranking.node_count(), "node"));
    Page { heading, conclusion: conclusion(ranking), sections, ..Page::default() }
}

/// Returns the header of the page: the kinds of nodes, the command, the period of the runs, and the number of nodes
/// that could be judged.
pub fn head(ranking: &Ranking, command: &str) -> PageHead {
    let mut kinds: Vec<String> = ranking.groups.iter().take(KINDS).map(kind_in_words).collect();
    let more = ranking.groups.len() - kinds.len();
    kinds.extend((more > 0).then(|| count_in_words(more, "more group")));
    let periods = ranking.groups.iter().filter_map(|group| group.measured.as_ref());
    let first = periods.clone().map(|[first, _]| first).min();
    let last = periods.map(|[_, last]| last).max();
    let period = first.zip(last).map(|(first, last)| sentence::format_period(first, last));
    let facts: Vec<String> = std::iter::once(command.to_owned()).chain(period).collect();
    let (tone, trust) = trust(ranking);
    PageHead {
        title: if kinds.is_empty() { "no nodes".to_owned() } else { kinds.join("; ") },
        facts: facts.join(" \u{b7} "),
        trust,
        tone,
        findings: Vec::new(),
    }
}

/// Describes the nodes of a group: `12 nodes: 2 x AMD EPYC 9654 96-Core Processor, 192 cores`.
fn kind_in_words(group: &RankedGroup) -> String {
    let nodes = count_in_words(group.nodes.len(), "node");
    let cores = group.inventory.cores.map(|n| format!(", {}", count_in_words(n as usize, "core")));
    format!("{nodes}: {}{}", group.kind.in_words(), cores.unwrap_or_default())
}

/// Returns a sentence on how far the ranking can be trusted: the number of nodes that could be judged, and what is
/// missing.
fn trust(ranking: &Ranking) -> (Tone, String) {
    let all = ranking.node_count();
    let judged =
        [RankVerdict::Slow, RankVerdict::Good].map(|verdict| ranking.nodes(verdict).count());
    let judged: usize = judged.iter().sum();
    let mut parts = Vec::new();
    if judged < all {
        parts.push(format!("{} of {} cannot be judged", all - judged, count_in_words(all, "node")));
    }
    let missing = ranking.missing.len();
    if missing > 0 {
        let is = number_form(missing, "is", "are");
        parts.push(format!("{} {is} missing", count_in_words(missing, "node")));
    }
    let rejected = ranking.rejected.len();
    if rejected > 0 {
        parts.push(format!("{} without a record", count_in_words(rejected, "text")));
    }
    if all == 0 {
        return (Tone::Warning, "No node has a record.".to_owned());
    }
    if parts.is_empty() {
        let text = number_form(all, "The only node is judged.", "All nodes are judged.");
        return (Tone::Plain, text.to_owned());
    }
    (Tone::Warning, format!("Use with care: {}.", parts.join("; ")))
}

/// Returns the first sentence of the page, which lists the slow nodes; `None` without nodes.
fn conclusion(ranking: &Ranking) -> Option<String> {
    let all = ranking.node_count();
    let slow = ranking.hosts(RankVerdict::Slow);
    let good = ranking.hosts(RankVerdict::Good).len();
    let undecided = all.saturating_sub(slow.len() + good);
    let rest = match undecided {
        0 => String::new(),
        n => format!("; {} cannot be judged", count_in_words(n, "node")),
    };
    let nodes = count_in_words(all, "node");
    match slow.len() {
        _ if all == 0 => None,
        0 => {
            let verb = number_form(good, "is", "are");
            Some(format!("{good} of {nodes} {verb} good, none is slow{rest}."))
        }
        1 => Some(format!("1 of {nodes} is slow: {}{rest}.", slow.join(", "))),
        n => Some(format!("{n} of {nodes} are slow: {}{rest}.", HostList::fold_names(&slow))),
    }
}

fn tone(verdict: RankVerdict) -> Tone {
    match verdict {
        RankVerdict::Slow => Tone::Bad,
        RankVerdict::Suspect | RankVerdict::Unknown => Tone::Warning,
        RankVerdict::Good => Tone::Plain,
    }
}

/// Returns the table of a group.
fn group_section(group: &RankedGroup, all: bool) -> Section {
    let mut section = Section::new("nodes");
    let count = count_in_words(group.nodes.len(), "node");
    section.push(Block::Heading(format!("{count}: {}", group.kind.in_words())));
    section.note("parts", group.inventory.in_words());
    if let Some([first, last]) = &group.measured {
        section.note("measured", sentence::format_period(first, last));
    }
    if let Some(picture) = picture(group) {
        section.push(picture);
    }
    let shown = &group.nodes[..listed(group, all)];
    let mut table = columns(group).table(shown);
    table.optional = optional_columns(group);
    let more = group.nodes.len() - shown.len();
    section.push(table);
    if more > 0 {
        let text = format!(
            "not listed: {}; --format csv lists all nodes",
            count_in_words(more, "more node")
        );
        section.push(Note::new("", text).faint());
    }
    for node in group.nodes.iter().filter(|node| node.verdict != RankVerdict::Good).take(MAX_ROWS) {
        let text = format!("{}: {}", node.host, node.explanation);
        section.push(Note::new(node.verdict.name(), text).tone(tone(node.verdict)));
    }
    let split =
        group_by_key(group.nodes.iter().filter(|node| !node.differences.is_empty()), |node| {
            node.differences.clone()
        });
    for (differences, nodes) in split {
        let hosts: Vec<String> = nodes.iter().map(|node| node.host.clone()).collect();
        let words: Vec<String> = differences.iter().map(|one| one.in_words()).collect();
        section.note("differs", format!("{}: {}", HostList::fold_names(&hosts), words.join("; ")));
    }
    section
}

/// Returns the number of nodes that the table of a group lists: all nodes, or those that are not good and the first
/// good ones.
fn listed(group: &RankedGroup, all: bool) -> usize {
    let good = group.nodes.iter().enumerate().filter(|(_, one)| one.verdict == RankVerdict::Good);
    let end = good.map(|(at, _)| at).nth(GOOD_ROWS).filter(|_| !all);
    end.unwrap_or(group.nodes.len()).min(MAX_ROWS)
}

/// Returns the columns of the table of a group.
fn columns(group: &RankedGroup) -> ColumnList<'_, RankedNode> {
    let has_reference = group.figures.iter().any(|figure| figure.reference.is_some());
    ColumnList::<RankedNode>::new()
        .left("host", |node| node.host.clone())
        .left("reason", |node| TableCell::text(&node.reason).tone(tone(node.verdict)))
        .left("verdict", |node| TableCell::text(node.verdict.name()).tone(tone(node.verdict)))
        .columns_for_each(
            group.figures.iter().enumerate(),
            |(_, of)| of.key.title(),
            |node, (at, of)| match &node.figures[*at] {
                Some(figure) => TableCell::in_words(figure.value, of.key.unit),
                None => "-".into(),
            },
        )
        .right_or_dash("of median", |node| Some(tenths(deciding(node)?.share)))
        // Without a spread, deviations would be huge.
        .right_or_dash("z", |node| Some(format!("{:.1}", deciding(node)?.z?.clamp(-99.9, 99.9))))
        .add_if(has_reference, |columns| {
            columns.right_or_dash("of ref", |node| Some(tenths(deciding(node)?.reference_share?)))
        })
        .right("runs", |node| node.runs.to_string())
}

/// Returns the figure that decides the verdict on a node.
fn deciding(node: &RankedNode) -> Option<&RankedFigure> {
    node.figures[node.deciding_figure?].as_ref()
}

/// Returns the titles of the columns that text output may leave out, least important first.
fn optional_columns(group: &RankedGroup) -> Vec<String> {
    let mut figures = group.figures.iter().map(|figure| figure.key.title());
    let first = figures.next();
    let mut titles: Vec<String> = figures.rev().collect();
    titles.extend(["runs", "z"].map(str::to_owned));
    titles.extend(first);
    titles.extend(["of ref", "of median", "verdict"].map(str::to_owned));
    titles
}

/// Returns the picture of a group: for each figure the values of all nodes, with marks on nodes beyond the limit.
/// Returns `None` without figures.
fn picture(group: &RankedGroup) -> Option<Picture> {
    let bars: Vec<FigureBar> =
        group.figures.iter().enumerate().map(|(at, of)| bar(group, at, of)).collect();
    let title = format!("figures of {}", count_in_words(group.nodes.len(), "node"));
    let card = FigureBars { bars, values: BarValues::Nodes };
    (!card.bars.is_empty()).then_some(Picture { title, drawing: Drawing::Strips(card) })
}

/// Returns the row of a figure in the picture of its group.
fn bar(group: &RankedGroup, at: usize, of: &FigureStatistics) -> FigureBar {
    let unit = of.key.unit;
    let all = group.nodes.iter().filter_map(|node| Some((node, node.figures[at].as_ref()?)));
    let (beyond, within): (Vec<_>, Vec<_>) = all.partition(|(_, figure)| figure.exceeds_limits);
    // The limit is a loss of performance. For a time, the limit value is above the median.
    let loss = of.loss_limit();
    let rest = 1.0 - loss;
    let is_time = unit.direction() == Some(BetterDirection::Lower);
    let limit = if is_time { of.median / rest } else { of.median * rest };
    let basis = format!("{} worse than the median", Fraction(loss));
    FigureBar {
        title: of.key.title(),
        what: format!("spread {}", Fraction(of.spread)),
        words: unit.in_words(of.median),
        value: of.median,
        unit,
        samples: within.iter().map(|(_, figure)| figure.value).collect(),
        disturbed: beyond.iter().map(|(_, figure)| figure.value).collect(),
        names: beyond.iter().map(|(node, _)| node.host.clone()).collect(),
        other_regimes: 0,
        limit: of.limit.map(|_| AttainableValue { value: limit, basis }),
        second: None,
        remark: String::new(),
        doubt: None,
        earlier: None,
    }
}

/// Formats a share of performance with one decimal. The share is rounded down, as in reasons, so that a value below a
/// bound is never shown as the bound.
fn tenths(share: f64) -> String {
    Fraction(share).rounded_down_to_tenths().in_tenths()
}

/// Returns host lists by verdict, the missing nodes, and the texts without a record.
fn lists(ranking: &Ranking) -> Section {
    let mut section = Section::new("lists");
    for verdict in [RankVerdict::Slow, RankVerdict::Suspect, RankVerdict::Unknown] {
        let hosts = ranking.hosts(verdict);
        if !hosts.is_empty() {
            let note = Note::new(verdict.name(), HostList::fold_names(&hosts)).tone(tone(verdict));
            section.push(note);
        }
    }
    let left_out = formats::invalid_names(ranking);
    if !left_out.is_empty() {
        let text =
            format!("invalid host names, not in lists for other programs: {}", left_out.join(", "));
        section.push(Note::new("slow", text).tone(Tone::Warning));
    }
    for (why, nodes) in group_by_key(&ranking.missing, |(_, why)| why.as_str()) {
        let hosts: Vec<String> = nodes.iter().map(|(host, _)| host.clone()).collect();
        let text = format!("{}: {why}", HostList::fold_names(&hosts));
        section.push(Note::new("missing", text).tone(Tone::Warning));
    }
    for rejected in ranking.rejected.iter().take(MAX_REJECTED) {
        section.note("not read", format!("{}: {}", rejected.source, rejected.reason));
    }
    let more = ranking.rejected.len().saturating_sub(MAX_REJECTED);
    if more > 0 {
        section.note("not read", count_in_words(more, "more text"));
    }
    if ranking.duplicates > 0 {
        let text =
            format!("{} counted once", count_in_words(ranking.duplicates, "repeated record"));
        section.note("repeated", text);
    }
    for remark in &ranking.remarks {
        section.push(Note::new("remark", remark).tone(Tone::Warning));
    }
    section
}

/// Returns the statistics and histograms of a group.
fn statistics(group: &RankedGroup) -> Section {
    let mut section = Section::new("figures");
    let columns = ColumnList::<FigureStatistics>::new()
        .left("figure", |of| of.key.title())
        .right("median", |of| TableCell::in_words(of.median, of.key.unit))
        .right_or_dash("spread", |of| (of.nodes > 1).then(|| Fraction(of.spread).to_string()))
        .right_or_dash("of nodes", |of| Some(Fraction(of.components.nodes?).to_string()))
        .right_or_dash("of runs", |of| Some(Fraction(of.components.runs?).to_string()))
        .right("limit", |of| Fraction(of.loss_limit()).to_string())
        .left("judged by", judge);
    section.push(columns.table(&group.figures));
    for (at, of) in group.figures.iter().enumerate() {
        let shares: Vec<f64> =
            group.nodes.iter().filter_map(|node| Some(node.figures[at].as_ref()?.share)).collect();
        section.push(histogram(of, &shares));
    }
    section
}

fn judge(of: &FigureStatistics) -> String {
    let peers =
        of.limit.map(|limit| format!("{} (z {limit:.1})", count_in_words(of.nodes, "node")));
    let reference = of.reference.as_ref().map(|_| "reference".to_owned());
    let judges: Vec<String> = peers.into_iter().chain(reference).collect();
    if judges.is_empty() { "nothing".to_owned() } else { judges.join(", ") }
}

/// Returns the histogram of a figure: the number of nodes for each range of shares of the median.
fn histogram(of: &FigureStatistics, shares: &[f64]) -> Table {
    let min = shares.iter().copied().fold(1.0, f64::min);
    let max = shares.iter().copied().fold(1.0, f64::max);
    let width = ((max - min) / BINS as f64).max(0.005);
    let bins = (((max - min) / width).ceil() as usize).max(1);
    let mut counts = vec![0usize; bins];
    for share in shares {
        let bin = ((share - min) / width) as usize;
        counts[bin.min(bins - 1)] += 1;
    }
    let highest = counts.iter().copied().max().unwrap_or(1).max(1);
    let columns = ColumnList::<(usize, usize)>::new()
        .left(format!("{}, % of median", of.key.title()), |(bin, _)| {
            let [from, to] = [*bin, bin + 1].map(|edge| tenths(min + width * edge as f64));
            format!("{} - {}", from.trim_end_matches(" %"), to.trim_end_matches(" %"))
        })
        .right("nodes", |(_, count)| count.to_string())
        .left("", |(_, count)| TableCell::bar(Fraction(*count as f64 / highest as f64)));
    columns.table(counts.into_iter().enumerate())
}

/// Returns the section with the last line of the page: the number of nodes by verdict, and the limits.
fn verdict(ranking: &Ranking) -> Section {
    let [slow, suspect, unknown, good] =
        [RankVerdict::Slow, RankVerdict::Suspect, RankVerdict::Unknown, RankVerdict::Good]
            .map(|verdict| ranking.hosts(verdict).len());
    let rejected = match ranking.rejected.len() {
        0 => String::new(),
        n => format!(", {} not read", count_in_words(n, "text")),
    };
    summary(format!(
        "{slow} slow, {suspect} to measure again, {unknown} unknown, {} missing, {good} good{rejected}; limits: {MEMORY_LIMIT_SOURCE}",
        ranking.missing.len(),
    ))
}
