//! What `config` of a measurement may hold: one struct for each kind of figure, declared with
//! [`config!`](crate::config), in which every key says once what it is. CSV columns, pairing,
//! differences of settings and words for people derive from these declarations.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

/// What a key of a configuration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The size that a figure is quoted at, e.g. of a message: said also where all figures share it,
    /// and figures of different sizes are different figures.
    Size,
    /// What was measured, e.g. the type of elements: figures in which it differs are not comparable.
    Identity,
    /// How it was asked to be measured, e.g. the number of threads: tells figures of one record apart
    /// where identities do not, and is listed where two records differ.
    Setting,
    /// What may be chosen on the way, e.g. the loop that is fastest: differs from run to run of one
    /// question, is listed where two records differ, and tells figures apart only where nothing else does.
    Choice,
    /// What was found out: differs from run to run without a difference in setting.
    Observation,
}

/// One key of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// As the record has it.
    pub name: &'static str,
    /// What it is.
    pub role: Role,
    /// What it is called in a text for people.
    pub words: &'static str,
    /// Place of its column in CSV, in ascending order; `None` for no column.
    pub column: Option<u16>,
    /// Whether a value says by itself what it is, so that texts leave out the words.
    pub speaks: bool,
}

/// Whether the values of a key are bytes: in the record, names end with their unit.
pub fn is_size(name: &str) -> bool {
    name.ends_with("_bytes")
}

/// A value in a word, for a place or a cell: a word, a number; of an object what was asked, the command of a
/// compiler, the path of a volume, or a library with its version. `None` for lists and other objects.
pub fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Array(_) => None,
        Value::String(text) => Some(text.clone()),
        Value::Object(map) => match map.get("library").and_then(scalar) {
            Some(library) => {
                let version = map.get("version").and_then(scalar);
                Some(version.map_or(library.clone(), |version| format!("{library} {version}")))
            }
            None => scalar(["asked", "command", "path"].iter().find_map(|part| map.get(*part))?),
        },
        other => Some(other.to_string()),
    }
}

/// The configuration of a kind of figure. Implemented by [`config!`](crate::config) only.
pub trait Config: JsonSchema {
    /// Its keys, in the order in which the record has them.
    const KEYS: &'static [Key];
    /// The keys that have a value.
    fn to_map(&self) -> Map<String, Value>;
    /// Reads what it knows; a key that is absent or of another shape is `None`.
    fn of_map(map: &Map<String, Value>) -> Self;
}

/// The keys of several configurations one after another, for [`config!`](crate::config); `N` is how
/// many there are.
pub const fn join<const N: usize>(parts: &[&[Key]]) -> [Key; N] {
    let mut all = [parts[0][0]; N];
    let (mut part, mut at, mut n) = (0, 0, 0);
    while n < N {
        if at < parts[part].len() {
            all[n] = parts[part][at];
            (at, n) = (at + 1, n + 1);
        } else {
            (part, at) = (part + 1, 0);
        }
    }
    all
}

/// A kind of figure, as the registry has it: the tests whose figures have this configuration.
#[derive(Debug, Clone, Copy)]
pub struct ConfigKind {
    /// The gauge.
    pub gauge: &'static str,
    /// `test` of the figures; several kinds may share a test.
    pub tests: &'static [&'static str],
    /// The keys.
    pub keys: &'static [Key],
    /// Names of the figures that stand for a run where there is room for a line only.
    pub headlines: &'static [&'static str],
    /// Their JSON Schema.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

impl ConfigKind {
    /// The kind whose configuration is `C`.
    pub const fn of<C: Config>(gauge: &'static str, tests: &'static [&'static str]) -> Self {
        let schema = |generator: &mut SchemaGenerator| generator.subschema_for::<C>();
        Self { gauge, tests, keys: C::KEYS, headlines: &[], schema }
    }

    /// The same kind with these figures as its headlines.
    pub const fn headed(mut self, headlines: &'static [&'static str]) -> Self {
        self.headlines = headlines;
        self
    }
}

/// All kinds of figures of all gauges.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    kinds: Vec<ConfigKind>,
}

impl Registry {
    /// The registry of these kinds.
    pub fn new(kinds: impl IntoIterator<Item = ConfigKind>) -> Self {
        Self { kinds: kinds.into_iter().collect() }
    }

    /// All kinds.
    pub fn kinds(&self) -> &[ConfigKind] {
        &self.kinds
    }

    /// The key `name` of the figures of a test; one of any kind where the test is not known.
    pub fn key(&self, gauge: &str, test: &str, name: &str) -> Option<&'static Key> {
        let here = |kind: &&ConfigKind| kind.gauge == gauge && kind.tests.contains(&test);
        let find = |kind: &ConfigKind| kind.keys.iter().find(|key| key.name == name);
        let known = self.kinds.iter().filter(here).find_map(find);
        known.or_else(|| self.kinds.iter().find_map(find))
    }

    /// Whether a figure stands for its run where there is room for a line only.
    pub fn is_headline(&self, gauge: &str, test: &str, name: &str) -> bool {
        let here = |kind: &&ConfigKind| kind.gauge == gauge && kind.tests.contains(&test);
        self.kinds.iter().filter(here).any(|kind| kind.headlines.contains(&name))
    }

    /// The place of a key among those of its kind, in the order of their declaration.
    pub fn place(&self, gauge: &str, test: &str, name: &str) -> usize {
        let here = |kind: &&ConfigKind| kind.gauge == gauge && kind.tests.contains(&test);
        let place = |kind: &ConfigKind| kind.keys.iter().position(|key| key.name == name);
        self.kinds.iter().filter(here).find_map(place).unwrap_or(usize::MAX)
    }

    /// All keys that have a column in CSV, in its order, each name once.
    pub fn columns(&self) -> Vec<&'static Key> {
        let mut columns: Vec<&'static Key> = Vec::new();
        for key in self.kinds.iter().flat_map(|kind| kind.keys).filter(|key| key.column.is_some()) {
            if columns.iter().all(|known| known.name != key.name) {
                columns.push(key);
            }
        }
        columns.sort_by_key(|key| key.column);
        columns
    }
}

/// Declares the configuration of a kind of figure. Every field is a key: its documentation, its type
/// (optional by itself), its [`Role`], its words, and
/// perhaps `@` the place of its column in CSV, and `speaks`. Keys that several kinds share are declared
/// once and stand before the others: `pub struct Rating including dgemm: Dgemm { ... }`.
///
/// ```
/// nodegauge_measure::config! {
///     /// Configuration of figures of messages.
///     pub struct MessageConfig {
///         /// Size of a message, bytes.
///         message_bytes: u64 = Size "message size" @ 30, speaks;
///         /// Times a message was sent.
///         repeats: u64 = Observation "repeats";
///     }
/// }
/// let config = MessageConfig { message_bytes: Some(8), ..MessageConfig::default() };
/// assert_eq!(nodegauge_measure::keys::Config::to_map(&config).len(), 1);
/// ```
#[macro_export]
macro_rules! config {
    (
        $(#[$meta:meta])*
        pub struct $struct:ident $(including $part:ident: $of:ident)? {
            $(
                $(#[$doc:meta])*
                $name:ident: $type:ty = $role:ident $words:literal
                    $(@ $column:literal)? $(, $speaks:ident)?;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, $crate::schemars::JsonSchema)]
        #[schemars(crate = "nodegauge_measure::schemars")]
        pub struct $struct {
            $(
                #[doc = concat!("The keys of [`", stringify!($of), "`].")]
                #[schemars(flatten)]
                pub $part: $of,
            )?
            $($(#[$doc])* pub $name: Option<$type>,)*
        }

        impl $crate::keys::Config for $struct {
            const KEYS: &'static [$crate::keys::Key] = &$crate::keys::join::<
                { <[&str]>::len(&[$(stringify!($name)),*]) $(+ <$of as $crate::keys::Config>::KEYS.len())? },
            >(&[$(<$of as $crate::keys::Config>::KEYS,)? &[
                $($crate::keys::Key {
                    name: stringify!($name),
                    role: $crate::keys::Role::$role,
                    words: $words,
                    column: $crate::config!(@column $($column)?),
                    speaks: $crate::config!(@speaks $($speaks)?),
                },)*
            ]]);

            fn to_map(&self) -> $crate::serde_json::Map<String, $crate::serde_json::Value> {
                let mut map = $crate::serde_json::Map::new();
                $(map.extend($crate::keys::Config::to_map(&self.$part));)?
                $(
                    if let Some(value) = &self.$name
                        && let Ok(value) = $crate::serde_json::to_value(value)
                    {
                        map.insert(stringify!($name).to_owned(), value);
                    }
                )*
                map
            }

            fn of_map(map: &$crate::serde_json::Map<String, $crate::serde_json::Value>) -> Self {
                Self {
                    $($part: $crate::keys::Config::of_map(map),)?
                    $($name: map
                        .get(stringify!($name))
                        .filter(|value| !value.is_null())
                        .and_then(|value| <$type as $crate::serde::Deserialize>::deserialize(value).ok()),)*
                }
            }
        }
    };
    (@column) => { None };
    (@column $column:literal) => { Some($column) };
    (@speaks) => { false };
    (@speaks speaks) => { true };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate as nodegauge_measure;
    use serde_json::json;

    crate::config! {
        /// A configuration.
        pub struct Sizes {
            /// Bytes of an array.
            array_bytes: u64 = Identity "array size" @ 2, speaks;
            /// Threads.
            threads: u32 = Setting "threads" @ 1;
            /// Passes.
            passes: usize = Observation "passes";
        }
    }

    crate::config! {
        /// Keys behind those of another.
        pub struct Cells including sizes: Sizes {
            /// Cells.
            cells: usize = Setting "cells";
        }
    }

    #[test]
    fn included_keys_stand_before_the_others_in_one_map() {
        let names: Vec<&str> = Cells::KEYS.iter().map(|key| key.name).collect();
        assert_eq!(names, ["array_bytes", "threads", "passes", "cells"]);
        let sizes = Sizes { threads: Some(2), ..Sizes::default() };
        let cells = Cells { sizes, cells: Some(4) };
        assert_eq!(Value::Object(cells.to_map()), json!({"threads": 2, "cells": 4}));
        assert_eq!(Cells::of_map(&cells.to_map()), cells);
        let schema = schemars::schema_for!(Cells);
        let keys = schema.as_value()["properties"].as_object().unwrap();
        assert_eq!(keys.len(), 4);
    }

    #[test]
    fn a_map_reads_back_and_what_has_another_shape_is_absent() {
        let sizes = Sizes { array_bytes: Some(8), threads: None, passes: Some(3) };
        assert_eq!(Value::Object(sizes.to_map()), json!({"array_bytes": 8, "passes": 3}));
        assert_eq!(Sizes::of_map(&sizes.to_map()), sizes);
        let Value::Object(odd) = json!({"array_bytes": "much", "passes": 3, "more": 1}) else {
            unreachable!()
        };
        assert_eq!(Sizes::of_map(&odd), Sizes { passes: Some(3), ..Sizes::default() });
    }

    #[test]
    fn columns_come_in_their_order() {
        let registry = Registry::new([ConfigKind::of::<Sizes>("memory", &["stream"])]);
        let names: Vec<&str> = registry.columns().iter().map(|key| key.name).collect();
        assert_eq!(names, ["threads", "array_bytes"]);
        assert_eq!(registry.key("memory", "stream", "passes").unwrap().role, Role::Observation);
        assert_eq!(registry.key("memory", "stream", "more"), None);
    }
}
