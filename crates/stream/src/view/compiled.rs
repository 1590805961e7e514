//! The view of what compilers made of STREAM's loops, beside the native kernels of the same run: a
//! block for each compiler, with what its machine code says, and what follows from it.

use super::figures::{self, StreamFigure, comparable, is_compiled};
use super::words;
use crate::config::StreamConfig;
use nodegauge_gauge::view::{Picture, Section, Table, TableCell};
use nodegauge_measure::record::{Measurement, Record};

/// A block for each compiler, and what their code columns mean; empty without any.
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
            section.gap();
        }
        block(&mut section, made, &native);
    }
    for why in explanations(&compiled) {
        section.note("why", why);
    }
    section.picture(picture(&compiled, &native));
    section
}

/// The best of each compiler's loop and the native one, kernel by kernel.
fn picture(compiled: &[&StreamFigure<'_>], native: &[StreamFigure<'_>]) -> Option<Picture> {
    let unit = compiled.first()?.0.unit;
    let bar = |(m, config): &StreamFigure<'_>, by: &str| {
        let words = in_words(&(m, config.clone())).unwrap_or_default();
        (format!("{} {by}", m.name), m.value, words)
    };
    let mut bars = Vec::new();
    for own in native {
        bars.push(bar(own, "native"));
        let same = compiled.iter().filter(|(m, _)| m.name == own.0.name);
        bars.extend(same.map(|made| bar(made, command(&made.1))));
    }
    Some(Picture::bars("native loops and those of compilers", unit, bars))
}

fn command(config: &StreamConfig) -> &str {
    config.compiler.as_ref().map_or("?", |compiler| &compiler.command)
}

fn block(section: &mut Section, made: &[&StreamFigure<'_>], native: &[StreamFigure<'_>]) {
    let config = &made[0].1;
    let mut head = command(config).to_owned();
    if let Some(version) = config.compiler.as_ref().and_then(|compiler| compiler.version.as_ref()) {
        head.push_str(&format!("\n{version}"));
    }
    section.note("compiled", head);
    if made.iter().any(|(m, _)| m.value.is_some()) {
        let titles =
            ["GB/s", ">best", ">median", ">of native", ">vectors", "stores", "fma", "calls"];
        let mut table = Table::new(&titles);
        for figure in made {
            table.row(row(figure, native.iter().find(|(own, _)| own.name == figure.0.name)));
        }
        section.push(table);
    }
    let measurements: Vec<&Measurement> = made.iter().map(|(m, _)| *m).collect();
    section.doubts(&measurements);
}

fn row((m, config): &StreamFigure<'_>, own: Option<&StreamFigure<'_>>) -> [TableCell; 8] {
    let own = own.and_then(|own| comparable(own, config));
    let ratio = own.zip(m.value).map(|(own, value)| value / own).filter(|ratio| ratio.is_finite());
    let summary = m.summary.as_ref().filter(|_| m.value.is_some());
    let Code { vectors, stores, fma, calls } = code(m, config);
    [
        m.name.clone().into(),
        words::value(m),
        words::rate(summary.map(|summary| summary.median)),
        ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2} x")).into(),
        vectors.into(),
        stores.into(),
        fma.into(),
        calls.into(),
    ]
}

/// Properties of a loop's machine code, in words.
struct Code {
    vectors: String,
    stores: String,
    fma: String,
    calls: String,
}

/// Returns the properties of a loop's code; unknown for code that could not be read.
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
        // A kernel that only reads has none; what a library does is its own.
        None if code.calls.is_empty() => "-",
        None => "the library's",
    };
    let fma = match code.vector_bits {
        Some(_) if code.fma => "yes",
        Some(_) => "no",
        None => "-",
    };
    let calls = if code.calls.is_empty() { "-".to_owned() } else { code.calls.join(", ") };
    Code { vectors, stores: stores.to_owned(), fma: fma.to_owned(), calls }
}

/// The code of a loop in a few words; `None` when it is not known.
pub(crate) fn in_words((m, config): &StreamFigure<'_>) -> Option<String> {
    config.code.as_ref()?;
    let Code { vectors, stores, fma, calls } = code(m, config);
    let mut parts = Vec::new();
    if vectors != "-" {
        parts.push(vectors);
    }
    if stores != "-" {
        parts.push(format!("{stores} stores"));
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

/// Returns what the columns mean for the figures, for the values that occur.
fn explanations(compiled: &[&StreamFigure<'_>]) -> Vec<String> {
    let good = || compiled.iter().filter(|(m, _)| m.value.is_some());
    let mut out = Vec::new();
    if good().any(|(_, config)| calls(config).iter().any(|call| call.contains("mem"))) {
        out.push(
            "a loop that became a call of memcpy or memset runs the C library's loop, which may \
             store past the caches where arrays are long, whatever the flags"
                .to_owned(),
        );
    }
    let mut names: Vec<&str> = Vec::new();
    for (m, _) in compiled {
        if !names.contains(&m.name.as_str()) {
            names.push(&m.name);
        }
    }
    let factor_of = |name: &str| {
        let (m, _) = good()
            .find(|(m, config)| m.name == name && config.stores.as_deref() == Some("regular"))?;
        let factor = m.traffic.as_ref()?.value / m.value?;
        (factor > 1.01).then(|| format!("{factor:.2}"))
    };
    let mut factors: Vec<(String, Vec<&str>)> = Vec::new();
    for name in names {
        let Some(factor) = factor_of(name) else { continue };
        match factors.iter_mut().find(|(known, _)| *known == factor) {
            Some((_, known)) => known.push(name),
            None => factors.push((factor, vec![name])),
        }
    }
    if !factors.is_empty() {
        let each: Vec<String> = factors
            .iter()
            .map(|(factor, equal)| format!("{factor} x in {}", equal.join(", ")))
            .collect();
        out.push(format!(
            "regular stores first read the lines that they overwrite, so more moves than is \
             counted: {}",
            each.join("; ")
        ));
    }
    let scalar_sum = |(m, config): &&&StreamFigure<'_>| {
        ["read", "dot"].contains(&m.name.as_str()) && code(m, config).vectors == "scalar"
    };
    if good().any(|figure| scalar_sum(&figure)) {
        out.push(
            "a sum stays scalar unless the flags let its terms change places, as -ffast-math does"
                .to_owned(),
        );
    }
    out
}
