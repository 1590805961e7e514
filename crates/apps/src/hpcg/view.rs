//! View of `apps hpcg`: the rating with its parts, the tests, and the reference program for comparison.

use super::{PER_COEFFICIENT, PER_SLOT, TEST, variant};
use crate::GAUGE;
use crate::config::HpcgConfig;
use crate::efficiency::{self, WorkersRate};
use crate::sweep;
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::sentence::quoted;
use nodegauge_gauge::view::{ColumnList, ColumnUnit, Picture, Section, Step, Table, TableCell};
use nodegauge_measure::quantity::counted;
use nodegauge_measure::record::{Category, Measurement, Record};
use nodegauge_measure::{Bytes, BytesPerSec, Seconds, Unit};
use nodegauge_solvers::hpcg::problem::PARTS;

/// Figure with its configuration.
type HpcgFigure<'a> = (&'a Measurement, HpcgConfig);

/// Returns the section with table and evidence; `None` if the record has no such figures.
pub(crate) fn section(record: &Record, detail: Detail) -> Option<Section> {
    let all: Vec<&Measurement> =
        record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == TEST).collect();
    let ratings: Vec<HpcgFigure<'_>> = all
        .iter()
        .filter(|m| m.name == "rating")
        .map(|m| (*m, m.read_config::<HpcgConfig>()))
        .collect();
    let (first, config) = ratings.first()?;
    let mut section = Section::new(TEST);
    let relative = all.iter().find(|m| m.name == "relative");
    let bars = PARTS.iter().filter_map(|part| {
        let m = part_of(&all, first, part)?;
        Some(Step::bar(*part, m.value, "").judged(m))
    });
    let rating = Step::bar("rating", first.value, "").judged(first);
    let bars = Picture::bars("rate of each part", first.unit, std::iter::once(rating).chain(bars));
    section.push(table(&all, &ratings)).push(bars).picture(efficiency(&ratings)).gap();
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

/// Returns the table with a row for each rating.
fn table(all: &[&Measurement], ratings: &[HpcgFigure<'_>]) -> Table {
    const RATE: ColumnUnit = ColumnUnit::GFLOP_PER_S;
    let columns = ColumnList::<HpcgFigure<'_>>::new()
        .left("GFLOP/s", |(_, config)| {
            let name = match &config.sweep {
                Some(swept) => sweep::label(&config.on, Some(swept)),
                None => config.engine.clone().unwrap_or_else(|| "?".to_owned()),
            };
            if is_by_slot(config) { format!("{name}, index per slot") } else { name }
        })
        .stated("rating", RATE)
        .each(
            PARTS,
            |part| (*part).to_owned(),
            |(rating, _), part| {
                part_of(all, rating, part).map_or_else(TableCell::default, |m| RATE.value(m))
            },
        )
        .optional("residual", |(_, config)| Some(format!("{:.2e}", config.residual?)))
        .optional("relative", |(_, config)| {
            let ratios = all.iter().filter(|m| m.name == "relative");
            let own = ratios.map(|m| (m, m.read_config::<HpcgConfig>())).find(|(_, of_ratio)| {
                of_ratio.sweep == config.sweep && of_ratio.columns == config.columns
            });
            let ratio = own?.0.value?;
            Some(TableCell::figure(ratio, Unit::Factor, format!("{ratio:.3}")))
        })
        .left("of", |(_, config)| grid(config));
    columns.table(ratings)
}

/// Returns the figure of a part of a rating.
fn part_of<'a>(
    all: &[&'a Measurement],
    rating: &Measurement,
    part: &str,
) -> Option<&'a Measurement> {
    all.iter().copied().find(|m| m.name == part && m.config == rating.config)
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
fn efficiency(ratings: &[HpcgFigure<'_>]) -> Option<Picture> {
    let mut rates = Vec::new();
    for (rating, config) in ratings {
        let rate = WorkersRate::of(&config.on, config.sweep.as_ref(), rating);
        let by_slot = if is_by_slot(config) { ", index per slot" } else { "" };
        rates.extend(rate.map(|rate| WorkersRate { kind: rate.kind + by_slot, ..rate }));
    }
    efficiency::picture(&rates)
}

/// True if the matrix has one column index for eight rows, which the rules of HPCG prohibit.
fn is_by_slot(config: &HpcgConfig) -> bool {
    config.columns.as_deref() == Some(PER_SLOT)
}

/// True if the matrix has a column index for each coefficient, as the rules of HPCG require.
fn is_by_coefficient(config: &HpcgConfig) -> bool {
    config.columns.as_deref() == Some(PER_COEFFICIENT)
}

/// Describes the column indices of the native figures; `None` for figures of other programs.
fn stored_columns(ratings: &[HpcgFigure<'_>]) -> Option<String> {
    const EACH: &str =
        "one index per coefficient, as the rules of HPCG require of indirect access to vectors";
    const SLOT: &str = "one index for eight rows, which are neighbours in the regular grid; the \
                        rules of HPCG prohibit the use of this regularity";
    let has_coefficients = ratings.iter().any(|(_, config)| is_by_coefficient(config));
    let has_slots = ratings.iter().any(|(_, config)| is_by_slot(config));
    match (has_coefficients, has_slots) {
        (true, true) => Some(format!("with \"index per slot\": {SLOT}; otherwise: {EACH}")),
        (true, false) => Some(EACH.to_owned()),
        (false, true) => Some(SLOT.to_owned()),
        (false, false) => None,
    }
}

/// Returns the grid, e.g. `2 x 104x104x104`.
fn grid(config: &HpcgConfig) -> String {
    let domains: usize = config.domains.iter().flatten().product();
    let local: Vec<String> = config.grid.iter().flatten().map(ToString::to_string).collect();
    format!("{domains} x {}", local.join("x"))
}
