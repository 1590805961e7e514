//! What compilers made of STREAM's loops, beside the native kernels of the same run: a block for each
//! compiler, with what its machine code says, and what follows from it.

use crate::standard::{comparable, of_compiler};
use crate::stream::{self, doubts};
use crate::table::{Style, paragraph, table};
use crate::words;
use nodegauge_measure::record::{Measurement, Record};
use serde_json::Value;

/// Whether a compiler of the system made the loop.
pub(crate) fn is_compiled(m: &Measurement) -> bool {
    words::text(m, "engine") == Some("compiled")
}

/// A block for each compiler, and what their code columns mean; empty without any.
pub(crate) fn render(record: &Record, style: Style) -> String {
    let compiled: Vec<&Measurement> = stream::variants(record)
        .into_iter()
        .filter(|m| is_compiled(m) && !m.config.contains_key("sweep"))
        .collect();
    let native = stream::of(record);
    let mut out = String::new();
    for made in compiled.chunk_by(|one, next| command(one) == command(next)) {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&block(made, &native, style));
    }
    for why in explanations(&compiled) {
        out.push_str(&paragraph(style, "why", &why));
    }
    out
}

fn command(m: &Measurement) -> &str {
    of_compiler(m, "command").unwrap_or("?")
}

fn block(made: &[&Measurement], native: &[&Measurement], style: Style) -> String {
    let mut head = command(made[0]).to_owned();
    if let Some(version) = of_compiler(made[0], "version") {
        head.push_str(&format!("\n{version}"));
    }
    let mut out = paragraph(style, "compiled", &head);
    if made.iter().any(|m| m.value.is_some()) {
        let rows: Vec<Vec<String>> = made
            .iter()
            .map(|m| row(m, native.iter().find(|own| own.name == m.name).copied()))
            .collect();
        let header = ["GB/s", "best", "median", "of native", "vectors", "stores", "fma", "calls"];
        out.push_str(&table(style, &header, &rows, &[1, 2, 3, 4]));
    }
    out.push_str(&doubts(made, style));
    out
}

fn row(m: &Measurement, own: Option<&Measurement>) -> Vec<String> {
    let dash = || "-".to_owned();
    let ratio = own
        .and_then(|own| comparable(own, m))
        .zip(m.value)
        .map(|(own, value)| value / own)
        .filter(|ratio| ratio.is_finite());
    let mut row = vec![
        m.name.clone(),
        m.value.map_or_else(|| words::status(m.validity.status).to_owned(), words::gb),
        m.summary.as_ref().filter(|_| m.value.is_some()).map_or_else(dash, |s| words::gb(s.median)),
        ratio.map_or_else(dash, |ratio| format!("{ratio:.2} x")),
    ];
    row.extend(code(m));
    row
}

/// Vectors, stores, fused multiply-add, calls; of code that could not be read nothing is known.
fn code(m: &Measurement) -> [String; 4] {
    let Some(code) = m.config.get("code").filter(|code| code.is_object()) else {
        return if m.value.is_some() { ["?"; 4] } else { ["-"; 4] }.map(str::to_owned);
    };
    let bits = code.get("vector_bits").and_then(Value::as_u64);
    let calls = calls(m);
    let vectors = match (bits, element_bits(m)) {
        (Some(bits), Some(element)) if bits <= element => "scalar".to_owned(),
        (Some(bits), _) => format!("{bits} bit"),
        (None, _) => "-".to_owned(),
    };
    let stores = match words::text(m, "stores") {
        Some("nontemporal") => "non-temporal",
        Some(regular) => regular,
        // A kernel that only reads has none; what a library does is its own.
        None if calls.is_empty() => "-",
        None => "the library's",
    };
    let fma = match (bits, code.get("fma").and_then(Value::as_bool)) {
        (Some(_), Some(true)) => "yes",
        (Some(_), Some(false)) => "no",
        _ => "-",
    };
    let calls = if calls.is_empty() { "-".to_owned() } else { calls.join(", ") };
    [vectors, stores.to_owned(), fma.to_owned(), calls]
}

/// The code of a loop in a few words; `None` when it is not known.
pub(crate) fn in_words(m: &Measurement) -> Option<String> {
    m.config.get("code").filter(|code| code.is_object())?;
    let [vectors, stores, fma, calls] = code(m);
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

fn calls(m: &Measurement) -> Vec<&str> {
    let calls = m.config.get("code").and_then(|code| code.get("calls")).and_then(Value::as_array);
    calls.map(|calls| calls.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

fn element_bits(m: &Measurement) -> Option<u64> {
    words::text(m, "element")?.strip_prefix('f')?.parse().ok()
}

/// What the columns mean for the figures, as far as it occurs.
fn explanations(compiled: &[&Measurement]) -> Vec<String> {
    let good = || compiled.iter().filter(|m| m.value.is_some());
    let mut out = Vec::new();
    if good().any(|m| calls(m).iter().any(|call| call.contains("mem"))) {
        out.push(
            "a loop that became a call of memcpy or memset runs the C library's loop, which may \
             store past the caches where arrays are long, whatever the flags"
                .to_owned(),
        );
    }
    let mut names: Vec<&str> = Vec::new();
    for m in compiled {
        if !names.contains(&m.name.as_str()) {
            names.push(&m.name);
        }
    }
    let factor_of = |name: &str| {
        let m = good().find(|m| m.name == name && words::text(m, "stores") == Some("regular"))?;
        let factor = m.traffic.as_ref()?.value / m.value?;
        (factor > 1.01).then(|| format!("{factor:.2}"))
    };
    let mut factors: Vec<(String, Vec<&str>)> = Vec::new();
    for name in names {
        let Some(factor) = factor_of(name) else { continue };
        match factors.iter_mut().find(|(known, _)| *known == factor) {
            Some((_, names)) => names.push(name),
            None => factors.push((factor, vec![name])),
        }
    }
    if !factors.is_empty() {
        let each: Vec<String> = factors
            .iter()
            .map(|(factor, names)| format!("{factor} x in {}", names.join(", ")))
            .collect();
        out.push(format!(
            "regular stores first read the lines that they overwrite, so more moves than is \
             counted: {}",
            each.join("; ")
        ));
    }
    let scalar_sum =
        |m: &&&Measurement| ["read", "dot"].contains(&m.name.as_str()) && code(m)[0] == "scalar";
    if good().any(|m| scalar_sum(&m)) {
        out.push(
            "a sum stays scalar unless the flags let its terms change places, as -ffast-math does"
                .to_owned(),
        );
    }
    out
}
