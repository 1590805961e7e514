//! Helper functions for the fields of JSON documents.

use serde_json::Value;
use std::process::Command;
use std::sync::LazyLock;

/// Output of `nodegauge schema`.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let printed = Command::new(crate::program::path()).arg("schema").output().unwrap();
    serde_json::from_slice(&printed.stdout).unwrap()
});

static VALIDATOR: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::validator_for(&SCHEMA).unwrap());

/// Returns violations of the schema in a record, and configuration keys that the schema does not declare.
pub fn faults(record: &Value) -> Vec<String> {
    let errors = VALIDATOR.iter_errors(record);
    let mut faults: Vec<String> =
        errors.map(|error| format!("{} {error}", error.instance_path())).collect();
    for m in measurements(record) {
        let keys = m["config"].as_object().unwrap().keys();
        faults.extend(
            keys.filter(|key| !declares(m, key))
                .map(|key| format!("{} {key} is not declared", m["test"])),
        );
    }
    faults
}

/// True if the schema declares a key in the configuration of a measurement.
fn declares(m: &Value, key: &str) -> bool {
    let rules = SCHEMA["$defs"]["Measurement"]["allOf"].as_array().unwrap();
    let for_test = rules.iter().filter(|rule| {
        let properties = &rule["if"]["properties"];
        [("gauge", &m["gauge"]), ("test", &m["test"])]
            .iter()
            .all(|(name, value)| properties[name]["const"] == **value)
    });
    let kinds = for_test
        .flat_map(|rule| rule["then"]["properties"]["config"]["anyOf"].as_array().unwrap().iter());
    kinds
        .filter_map(|kind| kind["$ref"].as_str()?.strip_prefix('#'))
        .any(|place| SCHEMA.pointer(place).unwrap()["properties"].get(key).is_some())
}

/// True if a document is a record.
pub fn is_record(document: &Value) -> bool {
    document["machine"].is_object() && document["measurements"].is_array()
}

/// Checks that an object has these keys, and that their values are not null.
#[track_caller]
pub fn has_keys(object: &Value, keys: &[&str]) {
    for key in keys {
        assert!(!object[key].is_null(), "{key} is missing in {object:#}");
    }
}

/// Returns the measurements of a record.
pub fn measurements(record: &Value) -> &Vec<Value> {
    record["measurements"].as_array().unwrap()
}

/// Returns the names of the measurements of a record.
pub fn names(record: &Value) -> Vec<&str> {
    measurements(record).iter().map(|m| m["name"].as_str().unwrap()).collect()
}

/// Returns the texts of an array of strings or of notices.
pub fn texts(array: &Value) -> Vec<&str> {
    fn text(item: &Value) -> &str {
        item.as_str().or_else(|| item["text"].as_str()).unwrap()
    }
    array.as_array().unwrap().iter().map(text).collect()
}
