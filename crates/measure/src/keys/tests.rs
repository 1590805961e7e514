use super::*;
use crate as nodegauge_measure;
use serde_json::json;

crate::config! {
    /// Configuration with two keys, for tests.
    pub struct Sizes {
        array_bytes: shared::array_bytes;
        /// Threads of the two programs.
        threads: shared::threads as Observation of Vec<u64> = "a test";
        /// Number of trials.
        trials: usize = Observation "trials";
    }
}

crate::config! {
    /// Configuration that [`Cells`] includes.
    pub struct Bindings {
        bind: shared::bind;
    }
}

crate::config! {
    /// Configuration whose fields follow included keys.
    pub struct Cells including sizes: Sizes, bindings: Bindings {
        /// Number of cells.
        cells: usize = Setting "cells";
    }
}

#[test]
fn included_keys_precede_own_keys() {
    let names: Vec<&str> = Cells::KEYS.iter().map(|key| key.name).collect();
    assert_eq!(names, ["array_bytes", "threads", "trials", "bind", "cells"]);
    let sizes = Sizes { trials: Some(2), ..Sizes::default() };
    let bindings = Bindings { bind: Some("close".to_owned()) };
    let cells = Cells { sizes, bindings, cells: Some(4) };
    let map = json!({"trials": 2, "bind": "close", "cells": 4});
    assert_eq!(Value::Object(cells.to_map()), map);
    assert_eq!(Cells::from_map(&cells.to_map()), cells);
    let schema = schemars::schema_for!(Cells);
    let keys = schema.as_value()["properties"].as_object().unwrap();
    assert_eq!(keys.len(), 5);
    assert_eq!(keys["array_bytes"]["description"], shared::array_bytes::KEY.description);
    assert_eq!(keys["threads"]["description"], "Threads of the two programs.");
    assert_eq!(keys["threads"]["type"], json!(["array", "null"]));
    assert_eq!(keys["cells"]["description"], "Number of cells.");
}

#[test]
fn shared_key_differs_from_declaration_only_by_exceptions() {
    let [array_bytes, threads, trials] = Sizes::KEYS else { unreachable!() };
    assert_eq!(*array_bytes, shared::array_bytes::KEY);
    let expected = shared::threads::KEY.with_exception(Role::Observation, "a test");
    assert_eq!(*threads, expected);
    assert!(trials.declaration.contains("tests.rs:"), "{}", trials.declaration);
    assert_ne!(trials.declaration, threads.declaration);
}

#[test]
fn values_of_wrong_type_are_absent() {
    let sizes = Sizes { array_bytes: Some(8), threads: None, trials: Some(3) };
    assert_eq!(Value::Object(sizes.to_map()), json!({"array_bytes": 8, "trials": 3}));
    assert_eq!(Sizes::from_map(&sizes.to_map()), sizes);
    let Value::Object(odd) = json!({"array_bytes": "much", "trials": 3, "more": 1}) else {
        unreachable!()
    };
    assert_eq!(Sizes::from_map(&odd), Sizes { trials: Some(3), ..Sizes::default() });
}

#[test]
fn columns_are_in_order_of_column_list() {
    let registry = Registry::new([ConfigKind::from_config::<Sizes>("memory", &["stream"])]);
    let names: Vec<&str> = registry.columns().iter().map(|key| key.name).collect();
    assert_eq!(names, ["threads", "array_bytes"]);
    let columns: Vec<Option<&str>> =
        Sizes::KEYS.iter().map(|key| Some(COLUMNS[key.column()?])).collect();
    assert_eq!(columns, [Some("array_bytes"), Some("threads"), None]);
    assert_eq!(registry.key("memory", "stream", "trials").unwrap().role, Role::Observation);
    assert_eq!(registry.key("memory", "stream", "more"), None);
}

#[test]
fn key_position_is_counted_within_a_kind_of_figure() {
    let registry = Registry::new([
        ConfigKind::from_config::<Sizes>("memory", &["stream"]),
        ConfigKind::from_config::<Cells>("files", &["io"]),
    ]);
    assert_eq!(registry.position("memory", "stream", "trials"), 2);
    assert_eq!(registry.position("files", "io", "cells"), 4);
    for (gauge, test) in [("memory", "stream"), ("memory", "io"), ("files", "stream")] {
        assert_eq!(registry.position(gauge, test, "cells"), usize::MAX);
        // The key of another kind of figure says what the value means.
        assert_eq!(registry.key(gauge, test, "cells").unwrap().words, "cells");
    }
    assert!(registry.for_test("files", "io").key("cells").is_some());
}

#[test]
fn keys_with_suffix_bytes_are_sizes() {
    assert!(is_size("array_bytes"));
    assert!(!is_size("threads") && !is_size("flops_per_byte"));
}

// Key that was renamed twice, and one with all options.
crate::keys! {
    /// Rows of a table.
    table_rows: u64 = Identity "rows", was "rows", was "lines";
    /// Colour of a table.
    colour: String = Setting "colour", omits_label, was "color";
}

crate::config! {
    /// Configuration with renamed keys.
    pub struct Tables {
        table_rows: table_rows;
        colour: colour;
        /// Share of the page.
        page_share: f64 = Observation "share", was "part";
    }
}

#[test]
fn former_key_names_are_read() {
    let registry = Registry::new([ConfigKind::from_config::<Tables>("memory", &["stream"])]);
    let names = registry.former_names();
    let expected_names = [
        ("color", "colour"),
        ("lines", "table_rows"),
        ("part", "page_share"),
        ("rows", "table_rows"),
    ];
    assert_eq!(*names, FormerNames(expected_names.into()));
    assert!(registry.key("memory", "stream", "colour").unwrap().omits_label);
    let Value::Object(mut config) = json!({
        "lines": 3, "color": "red", "part": 0.5, "threads": 2, "colour": "blue"
    }) else {
        unreachable!()
    };
    names.rename(&mut config);
    let expected = json!({"table_rows": 3, "colour": "blue", "page_share": 0.5, "threads": 2});
    assert_eq!(Value::Object(config.clone()), expected);
    assert_eq!(Tables::from_map(&config).page_share, Some(0.5));
}
