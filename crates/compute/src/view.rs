//! Page sections for the plan and the figures of `hpl`: rating, limits and residual.

use crate::config::{PeakConfig, PowerConfig, RatingConfig};
use crate::output::{self, HplRow};
use crate::plan::{HplPlan, PlannedNb};
use crate::size::ChosenOrder;
use crate::{DGEMM, FMA_PEAK, FMA_PEAK_F32, GAUGE, RATING, TEST};
use crate::{hpl, size};
use nodegauge_analysis::ratio::closing;
use nodegauge_gauge::Detail;
use nodegauge_gauge::outputs::is_output;
use nodegauge_gauge::view::sentence::{enumeration, value_in_words};
use nodegauge_gauge::view::{
    AxisQuantity, Block, Chart, ChartBar, ChartSeries, ColumnList, Drawing, NamedFigure, Picture,
    Section, StepChart, Table, TableCell, distinct, group_by_key, plain_table, summary_section,
};
use nodegauge_lu::factorisation as lu;
use nodegauge_measure::legible::join_lines;
use nodegauge_measure::quantity::{change_in_words, count_in_words, number_form};
use nodegauge_measure::record::{Category, Measurement, QuotedStatistic, Record};
use nodegauge_measure::{Bytes, BytesPerSec, FlopsPerSec, Fraction, Unit};

/// Names of the figures that belong to a library or program.
const LIBRARIES: [&str; 2] = [RATING, DGEMM];
/// Maximum number of further libraries or programs in the first sentence of a page.
const OTHERS: usize = 2;
/// Names of the figures that belong to the processor.
const PEAKS: [&str; 2] = [FMA_PEAK, FMA_PEAK_F32];

/// Returns the section of a plan, with the numbers in its formulas.
pub fn plan_section(plan: &HplPlan) -> Section {
    let HplPlan { options, layout, candidates, available, peak, .. } = plan;
    let PlannedNb { nb, order: chosen } = plan.first_candidate();
    let is_single = candidates.len() == 1;
    let threads = plan.placement.threads.len();
    let (p, q) = layout.grid();
    let ranks = layout.rank_count();
    let grid = format!(
        "{p} x {q} for {} of {} (P <= Q, as square as possible, P a power of two where possible)",
        count_in_words(ranks, "rank"),
        count_in_words(layout.threads_per_rank, "thread")
    );
    let available = available
        .map_or("available memory unknown".to_owned(), |memory| format!("{memory} available"));
    let memory = if is_single {
        format!("{}; {available}", memory_in_words(chosen, ranks, threads))
    } else {
        available
    };
    let rpeak = match peak {
        Some(peak) => {
            let share_of_peak = options.rate.map(|given_rate| Fraction(given_rate.0 / peak.value));
            let share = share_of_peak.map(|share| format!("; the given rate is {share} of it"));
            let share = share.unwrap_or_default();
            let bound = if peak.at_most { "at most " } else { "" };
            let own = format!("{bound}{} = {}{share}", FlopsPerSec(peak.value), peak.basis);
            join_lines([own].into_iter().chain(plan.other_peaks.clone()))
        }
        None => "unknown: this processor is not in the table; give --processor".to_owned(),
    };
    let mut section = Section::new("plan");
    if is_single {
        let nb_basis = match options.nb.as_slice() {
            [] => format!("default; a run chooses from {:?}", size::NB_CANDIDATES),
            _ => "as requested".to_owned(),
        };
        let group = lu::panel_group_size(chosen.order, *nb, threads);
        let factored = match group {
            1 => "one thread factors a panel".to_owned(),
            _ => format!("{group} of the threads factor a panel"),
        };
        section
            .note("N", format!("{}: {}", chosen.order, chosen.formula))
            .note("NB", format!("{nb} ({nb_basis})"))
            .note("native", format!("{}; {factored}", count_in_words(threads, "thread")));
    } else {
        section.push(candidate_table(plan)).push_gap();
        section.note("N", format!("for NB {nb}: {}; the same rule for the others", chosen.formula));
        section.note("native", count_in_words(threads, "thread"));
    }
    section.note_if("search", search_in_words(plan));
    section.note("P x Q", grid).note("memory", memory);
    if is_single {
        section.note("traffic", traffic_in_words(plan));
    }
    section.push_lines("Rpeak", rpeak).note("time", time_in_words(plan));
    for notice in &plan.notices {
        section.note("note", notice.to_string());
    }
    section
}

/// Returns the table of the candidates for NB, each with its N.
fn candidate_table(plan: &HplPlan) -> Table {
    let columns = ColumnList::<PlannedNb>::new()
        .right("NB", |candidate| candidate.nb.to_string())
        .right("N", |candidate| candidate.order.order.to_string())
        .right("matrix", |candidate| candidate.order.bytes.to_string())
        .right("of memory", |candidate| match plan.available {
            Some(memory) => Fraction(candidate.order.bytes.as_f64() / memory.as_f64()).to_string(),
            None => "unknown".to_owned(),
        })
        .right("time", |candidate| match plan.rate {
            Some(_) => candidate.order.seconds.to_string(),
            None => "unknown".to_owned(),
        });
    columns.table(&plan.candidates)
}

/// Describes the search for NB before the solve; `None` without a search.
fn search_in_words(plan: &HplPlan) -> Option<String> {
    let count = plan.candidates.len();
    if count == 1 {
        return None;
    }
    let kept = hpl::SECOND_ROUND_CANDIDATES.min(count);
    let [first, second] = match plan.search {
        Some(orders) => orders.map(|order| format!("N = {order}")),
        None => ["a small N", "twice that N"].map(str::to_owned),
    };
    let whole = &plan.first_candidate().order;
    let time = plan.rate.as_ref().map(|_| format!(" (about {kept} x {})", whole.seconds));
    Some(format!(
        "a run tries all {count} NB at {first} and the best {kept} again at {second}, then \
         solves with the best NB at its N. To compare the best {kept} at full size, run each of \
         them with --full --nb NB{}",
        time.unwrap_or_default()
    ))
}

/// Describes the memory of a solve.
fn memory_in_words(chosen: &ChosenOrder, ranks: usize, threads: usize) -> String {
    let bytes = chosen.bytes;
    let needed = size::needed_memory(chosen.order, threads);
    let beyond = change_in_words(needed.as_f64() / bytes.as_f64());
    let each = Bytes(bytes.0 / ranks as u64);
    format!("8 B x N x (N + 1) = {bytes}, {each} per rank, at most {needed} in total ({beyond})")
}

/// Describes the memory traffic of the products of a solve.
fn traffic_in_words(plan: &HplPlan) -> String {
    let PlannedNb { nb, order } = plan.first_candidate();
    // Products with NB columns read and write every element of C once per 2 NB operations.
    let traffic = 16.0 * lu::flops(order.order) / (2.0 * *nb as f64);
    let moved = format!("at least {} for products with NB columns", Bytes(traffic as u64));
    match plan.rate {
        Some(_) => format!("{moved}, {}", BytesPerSec(traffic / order.seconds.0)),
        None => moved,
    }
}

/// Describes the predicted time of a solve with the first candidate.
fn time_in_words(plan: &HplPlan) -> String {
    let HplPlan { candidates, rate, .. } = plan;
    let chosen = &plan.first_candidate().order;
    let flops = lu::flops(chosen.order);
    let of_first = if candidates.len() > 1 {
        format!(" (NB {})", plan.first_candidate().nb)
    } else {
        String::new()
    };
    match rate {
        Some(rate) => {
            let min = if plan.is_lower_bound() { "at least " } else { "" };
            format!(
                "{min}{} predicted for (2/3 N^3 + 3/2 N^2) = {flops:.4e} operations{of_first}; {rate}",
                chosen.seconds
            )
        }
        None => format!(
            "unknown for (2/3 N^3 + 3/2 N^2) = {flops:.4e} operations{of_first}: give --rate, or --processor for the peak of the processor"
        ),
    }
}

/// Returns the section of a record: the table and the evidence. On a page with other gauges, the evidence is short.
pub(crate) fn section(record: &Record, detail: Detail) -> Option<Section> {
    let all = record.measurements.iter().filter(|m| m.gauge == GAUGE && !is_output(m));
    let (all, others): (Vec<&Measurement>, Vec<_>) = all.partition(|m| is_known(m));
    let mut section = Section::new(TEST);
    if !all.is_empty() {
        section.push(table(&all));
        if detail == Detail::Full {
            section.push_picture(ladder(&all));
            let ratings = all.iter().map(|m| m.read_config::<RatingConfig>());
            section.push_picture(ratings.filter_map(|config| searched(&config)).next());
            // Rates in single precision are twice as high and are not part of the solve.
            let double = all.iter().copied().filter(|m| m.name != FMA_PEAK_F32);
            let double: Vec<&Measurement> = double.collect();
            section.push_picture(Picture::samples(&double, |m| sample_name(m, &double)));
        }
        section.push_gap();
    }
    if !others.is_empty() {
        section.push(plain_table(&others)).push_gap();
    }
    let (libraries, rest) = by_library(&all);
    let several = libraries.len() > 1;
    for (name, own) in libraries {
        let mut blocks = Section::new(TEST);
        for rating in own.iter().filter(|m| m.name == RATING && m.category == Category::Variant) {
            match detail {
                Detail::Full => evidence(&mut blocks, &rating.read_config()),
                Detail::Brief => brief(&mut blocks, &rating.read_config()),
            }
        }
        doubts(&mut blocks, &own);
        if several && !blocks.blocks.is_empty() {
            section.push(Block::Heading(name));
            blocks.push_gap();
        }
        section.blocks.append(&mut blocks.blocks);
    }
    for m in rest.iter().filter(|_| detail == Detail::Full) {
        peak(&mut section, &m.read_config());
    }
    doubts(&mut section, &rest);
    doubts(&mut section, &others);
    (!section.blocks.is_empty()).then_some(section)
}

/// Returns the figures grouped by library or program, with the name of the group, and the figures of the processor.
fn by_library<'a>(
    all: &[&'a Measurement],
) -> (Vec<(String, Vec<&'a Measurement>)>, Vec<&'a Measurement>) {
    let (of_libraries, rest): (Vec<&Measurement>, Vec<_>) =
        all.iter().partition(|m| LIBRARIES.contains(&m.name.as_str()));
    let libraries = of_libraries.chunk_by(|one, next| library_name(one) == library_name(next));
    (libraries.map(|own| (library_name(own[0]), own.to_vec())).collect(), rest)
}

/// Returns the table with one row per figure. With several libraries or programs, the figures are grouped by name.
fn table(all: &[&Measurement]) -> Table {
    let (libraries, rest) = by_library(all);
    let is_single = libraries.len() < 2;
    let columns = ColumnList::<Measurement>::new()
        .names("GFLOP/s")
        .right("", |m| TableCell::from_measurement(m, gflops))
        .right_or_dash("median", |m| {
            let median = m.summary.as_ref().filter(|summary| summary.n > 1)?.median;
            Some(TableCell::figure(median, m.unit, gflops(median)))
        })
        // Rates of a library are compared with the register-only peak, which is compared with the theoretical peak.
        .right_or_dash("of fma_peak", |m| share(m).filter(|_| !is_peak(m)))
        .right_or_dash("of theory", |m| share(m).filter(|_| is_peak(m)))
        .left("how", |m| method_in_words(m, is_single));
    let groups = libraries.into_iter().map(|(name, own)| {
        let heading = if is_single { String::new() } else { name };
        (heading, own)
    });
    columns.grouped_table(groups.chain([(String::new(), rest)]))
}

/// True for the processor's peak in loops without memory access.
fn is_peak(m: &Measurement) -> bool {
    PEAKS.contains(&m.name.as_str())
}

/// Returns the cell with the share of the limit.
fn share(m: &Measurement) -> Option<TableCell> {
    let share = m.limit.as_ref()?.fraction;
    Some(TableCell::figure(share.0, Unit::Factor, share.in_tenths()))
}

/// Returns sentences that compare several libraries: which is faster in the solve, and which in DGEMM.
pub(crate) fn comparison_section(record: &Record) -> Option<Section> {
    let sentences = LIBRARIES.into_iter().zip(["solves", "multiplies"]).flat_map(|(name, does)| {
        let own = record.measurements.iter().filter(|m| {
            m.gauge == GAUGE && m.name == name && m.category == Category::Variant && is_known(m)
        });
        let all: Vec<(String, &Measurement)> = own.map(|m| (library_name(m), m)).collect();
        closing::several_figures_sentences(&all, does, QuotedStatistic::Best)
    });
    let sentences: Vec<String> = sentences.collect();
    (!sentences.is_empty()).then(|| summary_section(sentences))
}

/// Returns the first sentence of the page: the rating of each library or program, otherwise the peak.
pub(crate) fn conclusion(record: &Record) -> Option<String> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && is_known(m));
    let all: Vec<&Measurement> = own.filter(|m| value_in_words(m).is_some()).collect();
    let peak = all.iter().copied().find(|m| m.name == FMA_PEAK);
    let ratings: Vec<&Measurement> = all.iter().copied().filter(|m| m.name == RATING).collect();
    if let Some(first) = ratings.first() {
        let mut best_of: Vec<&Measurement> = Vec::new();
        for (_, of) in group_by_key(ratings.iter().copied(), |m| library_name(m)) {
            let best = of.into_iter().max_by(|a, b| a.cmp_value(b));
            best_of.extend(best);
        }
        let lead = best_of.first().unwrap_or(first);
        let n = lead.read_config::<RatingConfig>().n;
        let n = n.map_or_else(String::new, |n| format!(" for N = {n}"));
        let share = peak_share_in_words(lead, peak).unwrap_or_default();
        let others = best_of.iter().skip(1).take(OTHERS);
        let others: String = others
            .filter_map(|m| {
                Some(format!("; HPL with {} reaches {}", library_name(m), value_in_words(m)?))
            })
            .collect();
        return Some(format!(
            "HPL with {} reaches {}{n}{share}{others}",
            library_name(lead),
            value_in_words(lead)?
        ));
    }
    if let Some(m) = all.iter().find(|m| m.name == DGEMM) {
        let share = peak_share_in_words(m, peak).unwrap_or_default();
        return Some(format!("DGEMM by {} reaches {}{share}", library_name(m), value_in_words(m)?));
    }
    Some(format!("The cores reach {} with register-only multiply-adds", value_in_words(peak?)?))
}

/// Describes a rate as a share of the measured peak, for the end of a sentence.
fn peak_share_in_words(m: &Measurement, peak: Option<&Measurement>) -> Option<String> {
    let share = m.value? / peak?.value?;
    Some(format!(", {} of the measured peak", Fraction(share).in_whole_percent()))
}

/// Adds a note for every reason for doubt.
fn doubts(section: &mut Section, of: &[&Measurement]) {
    section.push_named_doubts(of.iter().map(|m| NamedFigure { name: m.name.clone(), m }));
}

/// Returns the name of a figure; if another figure in `all` has the same name, with its library or program.
fn sample_name(m: &Measurement, all: &[&Measurement]) -> String {
    let is_unique = all.iter().filter(|other| other.name == m.name).count() == 1;
    if is_unique { m.name.clone() } else { format!("{}, {}", m.name, library_name(m)) }
}

/// Returns the name of the library or program to which a figure belongs.
fn library_name(m: &Measurement) -> String {
    let config: RatingConfig = m.read_config();
    match config.engine.as_deref() {
        Some("native") | None => config.dgemm.blas.unwrap_or_else(|| "?".to_owned()),
        Some(program) => program.to_owned(),
    }
}

/// Returns the bar chart from the theoretical peak down to the rating. As in the table, the measured peak is a share of
/// the theoretical peak, and the other rates are shares of the measured peak.
fn ladder(all: &[&Measurement]) -> Option<Picture> {
    let mut steps: Vec<ChartBar> = Vec::new();
    let mut peaks: Vec<ChartBar> = Vec::new();
    for name in [FMA_PEAK, DGEMM, RATING] {
        for m in all.iter().filter(|m| m.name == name) {
            if let Some(peak) =
                m.read_config::<PeakConfig>().theoretical.filter(|_| name == FMA_PEAK)
            {
                let step = ChartBar::bar("theoretical peak", Some(peak.value.0), peak.formula);
                peaks.push(step.clone());
                steps.push(step);
            }
            let title = match name {
                FMA_PEAK => "measured peak".to_owned(),
                DGEMM => format!("DGEMM, {}", library_name(m)),
                _ => format!("HPL, {}", library_name(m)),
            };
            let step = ChartBar::bar(title, m.value, method_in_words(m, true)).with_validity(m);
            let label = peaks.last().and_then(|peak| {
                let of = Fraction(step.to? / peak.to?);
                Some(format!("{} of {}", of.in_whole_percent(), peak.name))
            });
            let step = ChartBar { label: label.unwrap_or_default(), ..step };
            if name == FMA_PEAK && m.value.is_some() {
                peaks.push(step.clone());
            }
            steps.push(step);
        }
    }
    let title = "from the peak to the rating".to_owned();
    let drawing = Drawing::Steps(StepChart { unit: Unit::FlopsPerSecond, steps });
    (all.len() > 1).then_some(Picture { title, drawing })
}

/// Returns the chart of the NB search, with one curve per N.
fn searched(config: &RatingConfig) -> Option<Picture> {
    let search = config.search.as_ref().filter(|search| search.len() > 1)?;
    let mut series: Vec<ChartSeries> = Vec::new();
    for step in search {
        let name = format!("N {}", step.n);
        let dot = (step.nb as f64, step.rate.0);
        ChartSeries::find_or_append(&mut series, name).dots.push(dot);
    }
    series.iter_mut().for_each(|one| one.dots.sort_by(|a, b| a.0.total_cmp(&b.0)));
    if series.iter().all(|one| one.dots.len() < 2) {
        return None;
    }
    let y = AxisQuantity::Rate(Unit::FlopsPerSecond);
    let ticks = Vec::new();
    let names = ["block size NB", ""];
    let searched = distinct(search.iter().map(|step| step.n.to_string()));
    let rating = config.n.map(|n| format!(", the rating with N {n}")).unwrap_or_default();
    let title = format!("NB search with N {}{rating}", enumeration(&searched));
    let chart = Chart { names, y, ticks, series, ..Chart::default() };
    Some(Picture::chart(title, chart))
}

/// True if the table has a row for figures of this kind.
fn is_known(m: &Measurement) -> bool {
    let mut names = LIBRARIES.into_iter().chain(PEAKS);
    m.test == TEST && names.any(|name| m.name == name) && m.unit == Unit::FlopsPerSecond
}

fn gflops(rate: f64) -> String {
    format!("{:.1}", rate / 1e9)
}

/// Describes how a figure was measured.
fn method_in_words(m: &Measurement, names_library: bool) -> String {
    match m.name.as_str() {
        RATING => {
            let config: RatingConfig = m.read_config();
            let p = config.p.unwrap_or(0);
            let q = config.q.unwrap_or(0);
            let grid = match m.category {
                Category::Variant => String::new(),
                _ => format!(", {p} x {q}"),
            };
            let n = config.n.unwrap_or(0);
            let nb = config.nb.unwrap_or(0);
            let library =
                if names_library { format!(", {}", library_name(m)) } else { String::new() };
            format!("N {n}, NB {nb}{library}{grid}")
        }
        DGEMM if names_library => library_name(m),
        DGEMM => String::new(),
        _ => {
            let PeakConfig { isa, clock_hz, .. } = m.read_config();
            let clock = clock_hz.map(|hz| format!(" at {hz}")).unwrap_or_default();
            format!("{}, register-only{clock}", isa.as_deref().unwrap_or("?"))
        }
    }
}

/// Adds the evidence of a native rating in one or two lines.
fn brief(section: &mut Section, config: &RatingConfig) {
    let residual = config.residual.as_ref().and_then(|residual| residual.value);
    let parts: Vec<String> = [
        config.seconds.map(|seconds| format!("solved in {seconds}")),
        config.of_dgemm.map(|of| format!("{} of DGEMM", of.in_tenths())),
        residual.map(|value| format!("residual {value:.3e} (must be below 16)")),
    ]
    .into_iter()
    .flatten()
    .collect();
    section.note("rating", parts.join("; "));
}

/// Adds the complete evidence of a native rating.
fn evidence(section: &mut Section, config: &RatingConfig) {
    let shares: Vec<String> = [
        (config.of_dgemm, "DGEMM"),
        (config.of_fma_peak, "the register-only peak"),
        (config.of_theoretical, "the theoretical peak"),
    ]
    .into_iter()
    .filter_map(|(share, of)| Some(format!("{} of {of}", share?.in_tenths())))
    .collect();
    if let (Some(n), Some(seconds)) = (config.n, config.seconds) {
        let text = format!("(2/3 N^3 + 3/2 N^2) / t with N = {n}, t = {:.3} s", seconds.0);
        let separator = if shares.is_empty() { "" } else { "; " };
        section.note("rating", format!("{text}{separator}{}", shares.join(", ")));
    }
    if let Some(residual) = &config.residual
        && let Some(value) = residual.value
    {
        let verdict = if residual.passes() { "PASSED" } else { "FAILED" };
        section.note(
            "residual",
            format!("{} = {value:.3e}, threshold 16: {verdict}", residual.formula),
        );
    }
    if let Some(formula) = &config.order_formula {
        let bytes = Bytes(config.matrix_bytes.unwrap_or(0));
        let huge = config
            .on_huge_pages
            .map(|share| format!(", {} on huge pages", share.in_whole_percent()));
        section.note("N", format!("{formula}; {bytes}{}", huge.unwrap_or_default()));
    }
    section.note_if("NB", search(config));
    if let Some(time) = &config.time {
        let threads = config.dgemm.on.threads.unwrap_or(0) as usize;
        let whose = number_form(threads, "its", "their");
        let text = format!(
            "{}: panels {}, waiting {} of {whose} time; back-substitution {}",
            count_in_words(threads, "thread"),
            time.panels.in_tenths(),
            time.waiting.in_tenths(),
            time.back_substitution
        );
        section.note("time", text);
    }
    if let Some(PowerConfig { watts, flops_per_watt, basis, reason }) = &config.power {
        let text = match watts {
            Some(watts) => {
                let efficiency = flops_per_watt.unwrap_or(0.0) / 1e9;
                let basis = basis.as_deref().unwrap_or("?");
                format!("{watts} ({basis}), {efficiency:.2} GFLOP/s per watt")
            }
            None => format!("unknown: {}", reason.as_deref().unwrap_or("?")),
        };
        section.note("power", text);
    }
}

/// Describes the NB search: its number of runs, and the three best results at its larger size, best first.
fn search(config: &RatingConfig) -> Option<String> {
    let steps = config.search.as_ref()?;
    let largest = steps.iter().map(|step| step.n).max()?;
    let mut last: Vec<_> = steps.iter().filter(|step| step.n == largest).collect();
    last.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    let best = last.iter().take(3);
    let best = best.map(|step| format!("NB {} with {} GFLOP/s", step.nb, gflops(step.rate.0)));
    let best: Vec<String> = best.collect();
    Some(format!("search with {} runs; fastest at N = {largest}: {}", steps.len(), best.join(", ")))
}

fn peak(section: &mut Section, config: &PeakConfig) {
    let single = config.element.as_deref() == Some("f32");
    let precision = if single { " in single precision" } else { "" };
    if let Some(theory) = &config.theoretical {
        let fused = theory.value;
        let without = theory.without_fma.map(|rate| format!("; {rate} without FMA"));
        let without = without.unwrap_or_default();
        section.note("theory", format!("{fused} = {}{precision}{without}", theory.formula));
    }
    if let Some(loops) = &config.loops {
        let rates: Vec<String> =
            loops.iter().map(|one| format!("{} {}", one.isa, gflops(one.rate.0))).collect();
        section.note("registers", format!("{} GFLOP/s{precision}", rates.join(", ")));
    }
}

/// Returns the results of a record in the format of HPL's output, including failed results.
pub fn hpl_text(record: &Record) -> String {
    let ratings = record.measurements.iter().filter(|m| m.test == TEST && m.name == RATING);
    let version = &record.tool.version;
    let rows = ratings.filter_map(|m| Some((program(m, version), hpl_row(m.read_config())?)));
    output::format_rows(&rows.collect::<Vec<_>>())
}

/// Returns the description of the program of a result: `xhpl (HPL 2.3)`, `nodegauge 0.1.0, a variant of HPL, products
/// by BLIS 0.9.0`.
fn program(m: &Measurement, own_version: &str) -> String {
    let config: RatingConfig = m.read_config();
    match (m.category, config.version) {
        (Category::Variant, _) => {
            format!("nodegauge {own_version}, a variant of HPL, products by {}", library_name(m))
        }
        (_, Some(version)) => format!("{} (HPL {version})", library_name(m)),
        (_, None) => library_name(m),
    }
}

fn hpl_row(config: RatingConfig) -> Option<HplRow> {
    let n = config.n? as usize;
    let seconds = config.seconds?;
    let residual = config.residual?;
    Some(HplRow {
        // Row-major, look-ahead of two, first-ring broadcast, recursive and right-looking.
        variant: config.variant.unwrap_or_else(|| "WR20R2R4".to_owned()),
        n,
        nb: config.nb? as usize,
        p: config.p? as usize,
        q: config.q? as usize,
        seconds,
        rate: FlopsPerSec(lu::flops(n) / seconds.0),
        residual: residual.value,
        passed: residual.value.map(|_| residual.passes()),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use nodegauge_measure::Seconds;
    use nodegauge_measure::record::{Machine, Tool};

    pub(crate) fn record(measurements: Vec<Measurement>) -> Record {
        Record {
            schema: nodegauge_measure::record::SCHEMA.to_owned(),
            id: String::new(),
            started: String::new(),
            seconds: Seconds(1.0),
            complete: true,
            tool: Tool { version: String::new(), commit: None },
            command: Vec::new(),
            labels: Default::default(),
            machine: Machine::default(),
            findings: Vec::new(),
            notices: Vec::new(),
            ledger: None,
            measurements,
        }
    }

    /// Returns the text of all cells, by row.
    fn tables(section: &Section) -> Vec<Vec<String>> {
        let rows = section.blocks.iter().filter_map(|block| match block {
            Block::Table(table) => Some(&table.rows),
            _ => None,
        });
        rows.flatten().map(|row| row.iter().map(|cell| cell.text.clone()).collect()).collect()
    }

    #[test]
    fn unknown_figures_are_shown() {
        let known = Measurement::new(GAUGE, TEST, DGEMM, Unit::FlopsPerSecond);
        let new = Measurement::new(GAUGE, "trapezoid", "area", Unit::Seconds);
        let other = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
        let all = [known, new, other].map(|m| m.with_value(QuotedStatistic::Single, 2.5));
        let section = section(&record(all.to_vec()), Detail::Full).unwrap();
        assert_eq!(
            tables(&section),
            [vec!["dgemm", "0.0"], vec!["trapezoid area", "2.500", "s", "valid"]]
        );
        assert_eq!(super::section(&record(all[2..].to_vec()), Detail::Full), None);
    }
}
