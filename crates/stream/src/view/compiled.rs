//! View of compiled loops next to the native kernels of the same run. There is a block for each compiler, with the
//! properties of the machine code and explanations.

use super::figures::{self, StreamFigure, comparable_rate, is_compiled};
use crate::config::StreamConfig;
use nodegauge_gauge::view::{
    ChartBar, ColumnList, ColumnUnit, Picture, Section, Table, distinct, group_by_key,
};
use nodegauge_measure::legible::join_lines;
use nodegauge_measure::record::{Measurement, Record};

/// Returns a block for each compiler, followed by explanations of the code columns; empty without compilers.
pub(crate) fn section(record: &Record) -> Section {
    let mut section = Section::new("compiled");
    let variants = figures::variants(record);
    let compiled: Vec<&StreamFigure<'_>> = variants
        .iter()
        .filter(|(_, config)| is_compiled(config) && config.sweep.is_none())
        .collect();
    let native = figures::native(record);
    for made in compiled.chunk_by(|(_, one), (_, next)| command(one) == command(next)) {
        if !section.blocks.is_empty() {
            section.push_gap();
        }
        block(&mut section, made, &native);
    }
    for why in explanations(&compiled) {
        section.note("why", why);
    }
    section.push_picture(picture(&compiled, &native));
    section
}

/// Returns a bar chart of the compiled and the native loops, grouped by kernel.
fn picture(compiled: &[&StreamFigure<'_>], native: &[StreamFigure<'_>]) -> Option<Picture> {
    let unit = compiled.first()?.0.unit;
    let mut bars = Vec::new();
    for own in native {
        bars.push(bar(own, "native"));
        let same = compiled.iter().filter(|(m, _)| m.name == own.0.name);
        bars.extend(same.map(|made| bar(made, command(&made.1))));
    }
    Some(Picture::bars("native and compiled loops", unit, bars))
}

/// Returns the bar of a loop that the compiler `by` built.
fn bar(figure: &StreamFigure<'_>, by: &str) -> ChartBar {
    let (m, _) = figure;
    let words = code_in_words(figure).unwrap_or_default();
    ChartBar::bar(format!("{} {by}", m.name), m.value, words).with_validity(m)
}

fn command(config: &StreamConfig) -> &str {
    config.compiler.as_ref().map_or("?", |compiler| &compiler.command)
}

fn block(section: &mut Section, made: &[&StreamFigure<'_>], native: &[StreamFigure<'_>]) {
    let config = &made[0].1;
    let mut head = vec![command(config).to_owned()];
    head.extend(config.compiler.as_ref().and_then(|compiler| compiler.version.clone()));
    section.push_lines("compiled", join_lines(head));
    if made.iter().any(|(m, _)| m.value.is_some()) {
        section.push(table(made, native));
    }
    let measurements: Vec<&Measurement> = made.iter().map(|(m, _)| *m).collect();
    section.push_doubts(&measurements);
}

/// Returns the table of the loops of one compiler, with the properties of their machine code.
fn table(made: &[&StreamFigure<'_>], native: &[StreamFigure<'_>]) -> Table {
    let columns = ColumnList::<StreamFigure<'_>>::new()
        .names("GB/s")
        .value_or_status("best", ColumnUnit::GB_PER_S)
        .median(ColumnUnit::GB_PER_S)
        .right_or_dash("of native", |(m, config)| {
            let own = native.iter().find(|(own, _)| own.name == m.name)?;
            let ratio = m.value? / comparable_rate(own, config)?;
            ratio.is_finite().then(|| format!("{ratio:.2} x"))
        })
        .right("vectors", |(m, config)| code(m, config).vectors)
        .left("stores", |(m, config)| code(m, config).stores)
        .left("fma", |(m, config)| code(m, config).fma)
        .left("calls", |(m, config)| code(m, config).calls);
    columns.table(made.iter().copied())
}

/// Entry of the table for stores of a library function, whose kind is unknown.
const LIBRARY_STORES: &str = "those of the library";

/// Properties of a loop's machine code, as text.
struct Code {
    vectors: String,
    stores: String,
    fma: String,
    calls: String,
}

/// Returns the properties of a loop's code: `?` if it could not be decoded, `-` if there is no loop.
fn code(m: &Measurement, config: &StreamConfig) -> Code {
    let Some(code) = &config.code else {
        let unknown = if m.value.is_some() { "?" } else { "-" };
        let [vectors, stores, fma, calls] = [unknown; 4].map(str::to_owned);
        return Code { vectors, stores, fma, calls };
    };
    let element =
        config.element.as_ref().and_then(|element| element.strip_prefix('f')?.parse().ok());
    let vectors = match (code.vector_bits, element) {
        (Some(bits), Some(element)) if bits <= element => "scalar".to_owned(),
        (Some(bits), _) => format!("{bits} bit"),
        (None, _) => "-".to_owned(),
    };
    let stores = match config.stores.as_deref() {
        Some("nontemporal") => "non-temporal",
        Some(regular) => regular,
        // A kernel that only reads has no stores; the stores of a library function are unknown.
        None if code.calls.is_empty() => "-",
        None => LIBRARY_STORES,
    };
    let fma = match code.vector_bits {
        Some(_) if code.fma => "yes",
        Some(_) => "no",
        None => "-",
    };
    let calls = if code.calls.is_empty() { "-".to_owned() } else { code.calls.join(", ") };
    Code { vectors, stores: stores.to_owned(), fma: fma.to_owned(), calls }
}

/// Describes the code of a loop in a few words; `None` if it is unknown.
pub(crate) fn code_in_words((m, config): &StreamFigure<'_>) -> Option<String> {
    config.code.as_ref()?;
    let Code { vectors, stores, fma, calls } = code(m, config);
    let mut parts = Vec::new();
    if vectors != "-" {
        parts.push(vectors);
    }
    match stores.as_str() {
        "-" => {}
        LIBRARY_STORES => parts.push("stores of the library".to_owned()),
        _ => parts.push(format!("{stores} stores")),
    }
    if fma == "yes" {
        parts.push("fma".to_owned());
    }
    if calls != "-" {
        parts.push(format!("calls {calls}"));
    }
    Some(parts.join(", "))
}

fn calls(config: &StreamConfig) -> &[String] {
    config.code.as_ref().map_or(&[], |code| &code.calls)
}

/// Returns explanations for those column values that occur in the table.
fn explanations(compiled: &[&StreamFigure<'_>]) -> Vec<String> {
    let good: Vec<&StreamFigure<'_>> =
        compiled.iter().copied().filter(|(m, _)| m.value.is_some()).collect();
    let mut out = Vec::new();
    if good.iter().any(|(_, config)| calls(config).iter().any(|call| call.contains("mem"))) {
        out.push(
            "a loop compiled to a call of memcpy or memset runs the C library's loop, which may \
             use non-temporal stores for long arrays, regardless of the flags"
                .to_owned(),
        );
    }
    let names = distinct(compiled.iter().map(|(m, _)| m.name.as_str()));
    let with_factor = names.iter().filter_map(|name| Some((excess_traffic(&good, name)?, *name)));
    let factors = group_by_key(with_factor, |(factor, _)| factor.clone());
    if !factors.is_empty() {
        let each: Vec<String> = factors
            .iter()
            .map(|(factor, equal)| {
                let equal: Vec<&str> = equal.iter().map(|(_, name)| *name).collect();
                format!("{factor} x in {}", equal.join(", "))
            })
            .collect();
        out.push(format!(
            "regular stores first read the lines that they overwrite, so the traffic exceeds the counted \
             bytes: {}",
            each.join("; ")
        ));
    }
    if good.iter().any(|(m, config)| {
        ["read", "dot"].contains(&m.name.as_str()) && code(m, config).vectors == "scalar"
    }) {
        out.push(
            "a sum stays scalar unless the flags allow reordering of its terms, as -ffast-math does"
                .to_owned(),
        );
    }
    out
}

/// Returns the ratio of the traffic of a kernel to its counted bytes with regular stores, if it exceeds 1.
fn excess_traffic(good: &[&StreamFigure<'_>], name: &str) -> Option<String> {
    let (m, _) = good
        .iter()
        .find(|(m, config)| m.name == name && config.stores.as_deref() == Some("regular"))?;
    let factor = m.traffic.as_ref()?.value / m.value?;
    (factor > 1.01).then(|| format!("{factor:.2}"))
}
