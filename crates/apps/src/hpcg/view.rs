//! View of `apps hpcg`: the rating with its parts, the tests, and the reference program for comparison.

use super::{PER_COEFFICIENT, PER_SLOT, TEST, variant_statement};
use crate::GAUGE;
use crate::config::HpcgConfig;
use crate::efficiency::{self, WorkersRate};
use crate::sweep;
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::sentence::{capitalise, value_in_words};
use nodegauge_gauge::view::sweep::{RoundPairing, SweptRow, SweptRows};
use nodegauge_gauge::view::{ChartBar, ColumnList, ColumnUnit, Picture, Section, Table, TableCell};
use nodegauge_measure::quantity::count_in_words;
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
        let m = part_figure(&all, first, part)?;
        Some(ChartBar::bar(*part, m.value, "").with_validity(m))
    });
    let rating = ChartBar::bar("rating", first.value, "").with_validity(first);
    let bars = Picture::bars("rate of each part", first.unit, std::iter::once(rating).chain(bars));
    section.push(table(&all, &ratings)).push(bars).push_picture(efficiency(&ratings)).push_gap();
    let iterations = config.iterations.unwrap_or(0);
    let sets = match &first.summary {
        Some(summary) => {
            let sets = count_in_words(summary.n, "set");
            format!("{sets} of {iterations} iterations after a warm-up")
        }
        // Outputs of xhpcg contain no samples.
        None => {
            let sets = count_in_words(config.sets.unwrap_or(0) as usize, "set");
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
    section.push_doubts(&all);
    if first.category == Category::Variant {
        section.note("name", variant_statement());
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
        .value_or_status("rating", RATE)
        .columns_for_each(
            PARTS,
            |part| (*part).to_owned(),
            |(rating, _), part| {
                part_figure(all, rating, part).map_or_else(TableCell::default, |m| RATE.value(m))
            },
        )
        .right_or_blank("residual", |(_, config)| Some(format!("{:.2e}", config.residual?)))
        .right_or_blank("relative", |(_, config)| {
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
fn part_figure<'a>(
    all: &[&'a Measurement],
    rating: &Measurement,
    part: &str,
) -> Option<&'a Measurement> {
    all.iter().copied().find(|m| m.name == part && m.config == rating.config)
}

/// Returns the first sentence of the page: the fastest workers of a sweep, and the highest rating.
pub(crate) fn conclusion(record: &Record) -> Option<String> {
    concluded(&record.measurements)
}

fn concluded(measurements: &[Measurement]) -> Option<String> {
    let own = measurements.iter().filter(|m| m.gauge == GAUGE && m.test == TEST);
    let ratings = own.filter(|m| m.name == "rating" && value_in_words(m).is_some());
    let all: Vec<HpcgFigure<'_>> = ratings.map(|m| (m, m.read_config())).collect();
    let (m, config) = all.iter().max_by(|(a, _), (b, _)| a.cmp_value(b))?;
    let program = config.engine.as_deref().filter(|engine| *engine != "native");
    let program = program.map(|name| format!(" by {name}")).unwrap_or_default();
    let by = config.on.threads.map(|_| format!(" with {}", config.on.in_words()));
    let by = by.unwrap_or_default();
    let reaches = format!("reaches {}{by} on {} points", value_in_words(m)?, config.n.unwrap_or(0));
    let mut rows = Vec::new();
    for (figure, of) in all.iter().filter(|(_, of)| of.sweep.is_some()) {
        let name = sweep::in_words(&of.on, of.sweep.as_ref());
        rows.push(SweptRow { name, figure, rounds: RoundPairing::UnpairedFigure });
    }
    Some(match SweptRows::new(rows, m.quoted).headline() {
        Some(verdict) => capitalise(&format!("{verdict}; HPCG{program} {reaches}")),
        None => format!("HPCG{program} {reaches}"),
    })
}

/// Returns the chart of the efficiency over the number of workers.
fn efficiency(ratings: &[HpcgFigure<'_>]) -> Option<Picture> {
    let mut rates = Vec::new();
    for (rating, config) in ratings {
        let rate = WorkersRate::from_rate(&config.on, config.sweep.as_ref(), rating);
        let by_slot = if is_by_slot(config) { ", index per slot" } else { "" };
        rates.extend(rate.map(|rate| WorkersRate { kind: rate.kind + by_slot, ..rate }));
    }
    efficiency::picture(&rates)
}

/// True if the matrix has one column index per eight rows, which HPCG's rules prohibit.
fn is_by_slot(config: &HpcgConfig) -> bool {
    config.columns.as_deref() == Some(PER_SLOT)
}

/// True if the matrix has a column index for each coefficient, as HPCG's rules require.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WorkersConfig;
    use nodegauge_measure::record::{QuotedStatistic, Validity};

    /// Returns the rating of threads with its samples.
    fn rating(threads: u64, samples: &[f64], is_swept: bool) -> Measurement {
        let mut sweep = serde_json::Map::new();
        sweep.insert("threads".to_owned(), threads.to_string().into());
        let config = HpcgConfig {
            on: WorkersConfig { threads: Some(threads), ..WorkersConfig::default() },
            engine: Some("native".to_owned()),
            n: Some(4096),
            sweep: is_swept.then_some(sweep),
            ..HpcgConfig::default()
        };
        let m = Measurement::new(GAUGE, TEST, "rating", Unit::FlopsPerSecond);
        let m = m.with_samples(QuotedStatistic::Median, samples.to_vec()).with_config(&config);
        m.with_validity(Validity::valid())
    }

    #[test]
    fn sweep_conclusion_begins_with_the_fastest_workers() {
        let slow = [1.0e9, 1.01e9, 1.0e9, 1.02e9, 1.0e9, 1.01e9, 1.0e9, 1.01e9];
        let fast = slow.map(|rate| 2.0 * rate);
        let text = concluded(&[rating(1, &slow, true), rating(2, &fast, true)]).unwrap();
        assert!(text.starts_with("2 threads is 2"), "{text}");
        assert!(text.contains("times as fast as 1 thread (95 %: "), "{text}");
        assert!(text.contains(": faster; HPCG reaches 2.010 GFLOP/s with 2 threads"), "{text}");
        let alone = concluded(&[rating(2, &fast, false)]).unwrap();
        assert_eq!(alone, "HPCG reaches 2.010 GFLOP/s with 2 threads on 4096 points");
    }
}
