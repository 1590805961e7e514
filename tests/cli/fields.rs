//! Fields of JSON documents.

use serde_json::Value;

/// Checks that an object has these fields with these types: `string`, `number`, `integer`, `bool`,
/// `array`, `object`, with `?` where `null` is allowed, too. More fields are no mistake.
#[track_caller]
pub fn has_fields(object: &Value, fields: &[(&str, &str)]) {
    let Some(map) = object.as_object() else { panic!("expected an object, found {object:#}") };
    for (name, kind) in fields {
        let plain = kind.trim_end_matches('?');
        let Some(value) = map.get(*name) else {
            assert!(kind.ends_with('?'), "field {name} is missing in {object:#}");
            continue;
        };
        let fits = match plain {
            "string" => value.is_string(),
            "number" => value.is_number(),
            "integer" => value.is_u64(),
            "bool" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => panic!("no such type: {plain}"),
        };
        let absent = kind.ends_with('?') && value.is_null();
        assert!(fits || absent, "field {name} is not {kind}: {value:#}");
    }
}

/// The measurements of a record.
pub fn measurements(record: &Value) -> &Vec<Value> {
    record["measurements"].as_array().unwrap()
}

/// The names of the measurements of a record.
pub fn names(record: &Value) -> Vec<&str> {
    measurements(record).iter().map(|m| m["name"].as_str().unwrap()).collect()
}

/// The texts of an array of strings or of notices.
pub fn texts(array: &Value) -> Vec<&str> {
    fn text(item: &Value) -> &str {
        item.as_str().or_else(|| item["text"].as_str()).unwrap()
    }
    array.as_array().unwrap().iter().map(text).collect()
}
