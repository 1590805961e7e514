//! View of `apps hpcg`: the rating with its parts, the tests, and the reference program for comparison.

use super::{PER_COEFFICIENT, PER_SLOT, TEST, variant};
use crate::GAUGE;
use crate::config::HpcgConfig;
use crate::efficiency::{self, WorkersRate};
use crate::sweep;
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::sentence::quoted;
use nodegauge_gauge::view::{Picture, Section, Step, Table, TableCell};
use nodegauge_measure::quantity::{counted, significant};
use nodegauge_measure::record::{Category, Measurement, Record};
use nodegauge_measure::{Bytes, BytesPerSec, Seconds, Unit};
use nodegauge_solvers::hpcg::problem::PARTS;

/// Returns the section with table and evidence; `None` if the record has no such figures.
pub(crate) fn section(record: &Record, detail: Detail) -> Option<Section> {
    let all: Vec<&Measurement> =
        record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == TEST).collect();
    let ratings: Vec<&&Measurement> = all.iter().filter(|m| m.name == "rating").collect();
    let first = ratings.first()?;
    let mut section = Section::new(TEST);
    let relative = all.iter().find(|m| m.name == "relative");
    let mut titles = vec!["GFLOP/s", ">rating", ">ddot", ">waxpby", ">spmv", ">mg", ">residual"];
    titles.extend(relative.map(|_| ">relative"));
    titles.push("of");
    let mut table = Table::new(&titles);
    for rating in &ratings {
        let config: HpcgConfig = rating.read_config();
        let engine = config.engine.clone().unwrap_or_else(|| "?".to_owned());
        let name = config.sweep.as_ref().map(|swept| sweep::label(&config.on, Some(swept)));
        let by_slot = if is_by_slot(&config) { ", index per slot" } else { "" };
        let name = name.unwrap_or(engine) + by_slot;
        let mut row = vec![TableCell::text(name), rate(rating)];
        for part in PARTS {
            let same = |m: &&&Measurement| m.name == part && m.config == rating.config;
            row.push(all.iter().find(same).map_or_else(TableCell::default, |m| rate(m)));
        }
        row.push(
            config
                .residual
                .map_or_else(TableCell::default, |r| TableCell::text(format!("{r:.2e}"))),
        );
        if relative.is_some() {
            let own = |m: &&&Measurement| {
                let of_ratio: HpcgConfig = m.read_config();
                m.name == "relative"
                    && of_ratio.sweep == config.sweep
                    && of_ratio.columns == config.columns
            };
            let ratio = all.iter().find(own).and_then(|m| m.value);
            let cell = |value| TableCell::figure(value, Unit::Factor, format!("{value:.3}"));
            row.push(ratio.map_or_else(TableCell::default, cell));
        }
        row.push(grid(&config).into());
        table.row(row);
    }
    let bars = PARTS.iter().filter_map(|part| {
        let of_first = |m: &&&Measurement| m.name == *part && m.config == first.config;
        let m = all.iter().find(of_first)?;
        Some(Step::bar(*part, m.value, "").judged(m))
    });
    let rating = Step::bar("rating", first.value, "").judged(first);
    let bars = Picture::bars("rate of each part", first.unit, std::iter::once(rating).chain(bars));
    section.push(table).push(bars).picture(efficiency(&ratings)).gap();
    let config: HpcgConfig = first.read_config();
    let iterations = config.iterations.unwrap_or(0);
    let sets = match &first.summary {
        Some(summary) => {
            let sets = counted(summary.n, "set");
            format!("{sets} of {iterations} iterations after a warm-up")
        }
        // Outputs of xhpcg have no samples.
        None => {
            let sets = counted(config.sets.unwrap_or(0) as usize, "set");
            format!("{sets} of {iterations} iterations")
        }
    };
    let how = [
        Some(sets),
        config.on.threads.map(|_| config.on.in_words()),
        config.on.bind.as_ref().map(|bind| format!("bound {bind}")),
        config.isa.as_ref().map(|isa| format!("{isa} loops")),
    ];
    section.note("how", how.into_iter().flatten().collect::<Vec<_>>().join(", "));
    section.note_if("columns", stored_columns(&ratings));
    if detail == Detail::Full {
        if let (Some([product, cycle]), Some([alone, preconditioned])) =
            (config.symmetry.as_deref(), config.spectral_iterations.as_deref())
        {
            section.note(
                "tests",
                format!("asymmetry: product {product:.1e}, multigrid {cycle:.1e} (limit 1)"),
            );
            section.note(
                "",
                format!(
                    "iterations with a large diagonal: {alone} without, {preconditioned} with preconditioner"
                ),
            );
        }
        if let (Some(bytes), Some(moved), Some(rate)) =
            (config.matrix_bytes, config.moved_bytes, config.moved_bytes_per_s)
        {
            section.note(
                "memory",
                format!(
                    "{} for matrix and vectors; memory traffic per iteration: {} (from the storage format), {}",
                    Bytes(bytes),
                    Bytes(moved),
                    BytesPerSec(rate)
                ),
            );
        }
        section.note_if(
            "setup",
            config.setup_s.map(|s| {
                format!("{}; one tenth of this time is added to the time of every set", Seconds(s))
            }),
        );
        section.note_if("ended", config.stopped.clone());
        let against = relative.and_then(|m| m.read_config::<HpcgConfig>().against);
        section.note_if(
            "relative",
            against.map(|of| format!("rate divided by that of {of}, interleaved")),
        );
    }
    section.doubts(&all);
    if first.category == Category::Variant {
        section.note("name", variant());
    }
    Some(section)
}

/// Returns the sentence that the page begins with: the highest rating.
pub(crate) fn conclusion(record: &Record) -> Option<String> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == TEST);
    let ratings = own.filter(|m| m.name == "rating" && quoted(m).is_some());
    let m = ratings.max_by(|a, b| a.by_value(b))?;
    let config: HpcgConfig = m.read_config();
    let program = config.engine.as_deref().filter(|engine| *engine != "native");
    let program = program.map(|name| format!(" by {name}")).unwrap_or_default();
    let by = config.on.threads.map(|_| format!(" with {}", config.on.in_words()));
    let by = by.unwrap_or_default();
    Some(format!("HPCG{program} reaches {}{by} on {} points", quoted(m)?, config.n.unwrap_or(0)))
}

/// Returns the efficiency over the number of workers.
fn efficiency(ratings: &[&&Measurement]) -> Option<Picture> {
    let mut rates = Vec::new();
    for rating in ratings {
        let config: HpcgConfig = rating.read_config();
        let rate = WorkersRate::of(&config.on, config.sweep.as_ref(), rating);
        let by_slot = if is_by_slot(&config) { ", index per slot" } else { "" };
        rates.extend(rate.map(|rate| WorkersRate { kind: rate.kind + by_slot, ..rate }));
    }
    efficiency::picture(&rates)
}

/// True if the matrix has one column index for eight rows, which the rules of HPCG prohibit.
fn is_by_slot(config: &HpcgConfig) -> bool {
    config.columns.as_deref() == Some(PER_SLOT)
}

/// Describes the column indices of the native figures; `None` for figures of other programs.
fn stored_columns(ratings: &[&&Measurement]) -> Option<String> {
    const EACH: &str =
        "one index per coefficient, as the rules of HPCG require of indirect access to vectors";
    const SLOT: &str = "one index for eight rows, which are neighbours in the regular grid; the \
                        rules of HPCG prohibit the use of this regularity";
    let configs: Vec<HpcgConfig> = ratings.iter().map(|rating| rating.read_config()).collect();
    let mut stored = configs.iter().map(|config| config.columns.as_deref());
    match (
        stored.clone().any(|it| it == Some(PER_COEFFICIENT)),
        stored.any(|it| it == Some(PER_SLOT)),
    ) {
        (true, true) => Some(format!("with \"index per slot\": {SLOT}; otherwise: {EACH}")),
        (true, false) => Some(EACH.to_owned()),
        (false, true) => Some(SLOT.to_owned()),
        (false, false) => None,
    }
}

/// Returns the cell for a rate in GFLOP/s, or for the reason why there is no rate.
fn rate(m: &Measurement) -> TableCell {
    match m.value {
        Some(value) => TableCell::figure(value, Unit::FlopsPerSecond, significant(value / 1e9)),
        None => m.validity.status.name().into(),
    }
}

/// Returns the grid, e.g. `2 x 104x104x104`.
fn grid(config: &HpcgConfig) -> String {
    let domains: usize = config.domains.iter().flatten().product();
    let local: Vec<String> = config.grid.iter().flatten().map(ToString::to_string).collect();
    format!("{domains} x {}", local.join("x"))
}
