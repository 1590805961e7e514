//! What is said of a measurement by several ranks, beside its table.

use nodegauge_measure::record::Measurement;
use serde_json::Value;

/// The rate over that of the reference of its sweep; `None` without a reference.
pub(crate) fn relative(m: &Measurement) -> Option<f64> {
    m.config.get("relative")?.get("median")?.as_f64()
}

/// What the reference is: `1 rank of policy 5`.
pub(crate) fn reference(m: &Measurement) -> Option<String> {
    let to = m.config.get("relative")?.get("to")?;
    let policy = to.get("policy").and_then(Value::as_str);
    Some(policy.map_or("1 rank".to_owned(), |policy| format!("1 rank of policy {policy}")))
}
