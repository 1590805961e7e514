//! What the machine code of compiled loops says, for the view of sweeps.

use crate::words;
use nodegauge_measure::record::Measurement;
use serde_json::Value;

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
