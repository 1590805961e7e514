//! The JSON Schema of the record, including the configuration keys of every kind of figure.

use crate::keys::Registry;
use crate::record::{Record, SCHEMA};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// Returns the schema (draft 2020-12). The configuration of a figure must match one of the kinds of figures of its
/// test; for an unknown test it may have any keys.
pub fn record_schema(registry: &Registry) -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let kinds = registry.kinds();
    let configs: Vec<Value> =
        kinds.iter().map(|kind| json!((kind.schema)(&mut generator))).collect();
    let mut schema = json!(generator.into_root_schema_for::<Record>());
    schema["title"] = json!(SCHEMA);
    let mut tests: Vec<(&str, &str)> = kinds
        .iter()
        .flat_map(|kind| kind.tests.iter().map(move |test| (kind.gauge, *test)))
        .collect();
    tests.sort_unstable();
    tests.dedup();
    let rules: Vec<Value> = tests
        .iter()
        .map(|(gauge, test)| {
            let for_test: Vec<&Value> = kinds
                .iter()
                .zip(&configs)
                .filter(|(kind, _)| kind.covers(gauge, test))
                .map(|(_, config)| config)
                .collect();
            json!({
                "if": {"properties": {"gauge": {"const": gauge}, "test": {"const": test}}},
                "then": {"properties": {"config": {"anyOf": for_test}}},
            })
        })
        .collect();
    schema["$defs"]["Measurement"]["allOf"] = json!(rules);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate as nodegauge_measure;
    use crate::keys::ConfigKind;

    crate::config! {
        /// Configuration of figures of messages.
        pub struct Messages {
            /// Size of a message, bytes.
            message_bytes: u64 = Identity "message size", omits_label;
        }
    }

    #[test]
    fn test_has_schema_of_its_configuration() {
        let registry = Registry::new([ConfigKind::from_config::<Messages>("messages", &["mpi"])]);
        let schema = record_schema(&registry);
        let rule = &schema["$defs"]["Measurement"]["allOf"][0];
        assert_eq!(rule["if"]["properties"]["test"]["const"], "mpi");
        assert_eq!(rule["then"]["properties"]["config"]["anyOf"][0]["$ref"], "#/$defs/Messages");
        let size = &schema["$defs"]["Messages"]["properties"]["message_bytes"];
        assert_eq!(size["description"], "Size of a message, bytes.");
    }
}
