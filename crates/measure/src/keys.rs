//! Keys of the `config` of a measurement: one struct for each kind of figure, declared with
//! [`config!`](crate::config). A key that only one kind of figure has is declared in the struct of
//! that kind. A key that several kinds have is declared once with [`keys!`](crate::keys!), usually
//! in [`shared`], and the structs refer to it. The comparison of figures, the list of settings that
//! differ and the labels in texts derive from these declarations; the columns of CSV derive from
//! [`COLUMNS`].

pub mod shared;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};

/// Role of a key in the comparison of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Size to which a figure applies, e.g. the size of a message. Values for different sizes belong to different
    /// figures, and the size is printed even if all figures have the same size.
    Size,
    /// Property of the measured quantity, e.g. the type of elements. Figures with different values of the key are not
    /// comparable.
    Identity,
    /// Requested condition of the measurement, e.g. the number of threads. The key distinguishes figures of one record
    /// if keys with the role `Identity` do not. A comparison lists the key if it differs between two records.
    Setting,
    /// Choice made during the run, e.g. the fastest loop. The value may differ between runs of the same command. A
    /// comparison lists the key if it differs between two records. It distinguishes figures of one record only if no
    /// other key does.
    Choice,
    /// Observed value, which may differ between runs with the same settings.
    Observation,
}

/// Keys that have a column in CSV, in the order of the columns. New keys are added at the end.
pub const COLUMNS: [&str; 52] = [
    "threads",
    "bind",
    "array_bytes",
    "element",
    "stores",
    "pages",
    "engine",
    "compiler",
    "message_bytes",
    "distance",
    "file_bytes",
    "block_bytes",
    "device_share",
    "iops",
    "mpi",
    "blas",
    "n",
    "nb",
    "p",
    "q",
    "variant",
    "version",
    "engine_version",
    "cache",
    "depth",
    "sync_writes",
    "read_percent",
    "volume",
    "processes",
    "places",
    "hosts",
    "pairs",
    "window",
    "sweep",
    "job",
    "kernel",
    "memory_policy",
    "places_asked",
    "prefetch",
    "set_bytes",
    "stage",
    "route",
    "flops_per_byte",
    "device",
    "device_name",
    "host_memory",
    "host_node",
    "peer",
    "case",
    "directories",
    "from_node",
    "to_node",
];

/// One key of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Name of the key in the record.
    pub name: &'static str,
    /// Role of the key in comparisons.
    pub role: Role,
    /// Label of the key in texts for people.
    pub words: &'static str,
    /// True if values are clear without the label; texts then omit the label.
    pub omits_label: bool,
    /// Description of the value.
    pub description: &'static str,
    /// Former names of the key, under which older records contain it.
    pub former_names: &'static [&'static str],
    /// Source file and line of the declaration.
    pub declaration: &'static str,
    /// Reason why this kind of figure declares another role or type than the shared key; `None` if
    /// it does not.
    pub exception: Option<&'static str>,
}

impl Key {
    /// Returns the key for a field with this name.
    ///
    /// # Panics
    /// Panics at compile time if the names of field and key differ.
    #[doc(hidden)]
    pub const fn field(self, name: &str) -> Self {
        let declared = self.name.as_bytes();
        let field = name.as_bytes();
        let mut same = declared.len() == field.len();
        let mut at = 0;
        while same && at < field.len() {
            same = declared[at] == field[at];
            at += 1;
        }
        assert!(same, "a field must have the same name as its key");
        self
    }

    /// Returns the key with another role for one kind of figure; `reason` states why the role differs.
    #[doc(hidden)]
    pub const fn with_exception(mut self, role: Role, reason: &'static str) -> Self {
        self.role = role;
        self.exception = Some(reason);
        self
    }

    /// Returns the position of the column in [`COLUMNS`]; `None` if the key has no column.
    pub fn column(&self) -> Option<usize> {
        COLUMNS.iter().position(|name| *name == self.name)
    }
}

/// Key that several kinds of figures share. Implemented by [`keys!`](crate::keys!) only.
pub trait SharedKey {
    /// Type of the value.
    type Value;
    /// Declaration of the key.
    const KEY: Key;
}

/// True if the values of the key are sizes in bytes, which the end of its name states.
pub fn is_size(name: &str) -> bool {
    name.ends_with("_bytes")
}

/// Returns a value as a short text for a table cell. A string or a number is returned unchanged.
/// For an object, the text is the requested value, the command of a compiler, the path of a volume,
/// or a library with its version. Returns `None` for lists and other objects.
pub fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Array(_) => None,
        Value::String(text) => Some(text.clone()),
        Value::Object(map) => match map.get("library").and_then(scalar_text) {
            Some(library) => {
                let version = map.get("version").and_then(scalar_text);
                Some(version.map_or(library.clone(), |version| format!("{library} {version}")))
            }
            None => {
                scalar_text(["asked", "command", "path"].iter().find_map(|part| map.get(*part))?)
            }
        },
        other => Some(other.to_string()),
    }
}

/// Configuration of a kind of figure. Implemented by [`config!`](crate::config) only.
pub trait Config: JsonSchema {
    /// Keys, in the order in which the record contains them.
    const KEYS: &'static [Key];
    /// Returns the keys that have a value, with their values.
    fn to_map(&self) -> Map<String, Value>;
    /// Creates a configuration from the keys of a record. A key that is absent or has another type is `None`.
    fn from_map(map: &Map<String, Value>) -> Self;
}

/// Concatenates the keys of several configurations, for [`config!`](crate::config); `N` is the total number.
pub const fn concatenate_keys<const N: usize>(parts: &[&[Key]]) -> [Key; N] {
    let mut all = [parts[0][0]; N];
    let mut part = 0;
    let mut at = 0;
    let mut n = 0;
    while n < N {
        if at < parts[part].len() {
            all[n] = parts[part][at];
            at += 1;
            n += 1;
        } else {
            part += 1;
            at = 0;
        }
    }
    all
}

/// Kind of figure: the tests whose figures share a configuration.
#[derive(Debug, Clone, Copy)]
pub struct ConfigKind {
    /// Name of the gauge that measures the figures.
    pub gauge: &'static str,
    /// Tests that produce the figures; one test may produce several kinds.
    pub tests: &'static [&'static str],
    /// Keys of the configuration of the figures.
    pub keys: &'static [Key],
    /// Names of the figures that represent a run in one-line summaries.
    pub headlines: &'static [&'static str],
    /// JSON Schema of the configuration.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

impl ConfigKind {
    /// True if this kind covers the figures of this test.
    pub(crate) fn covers(&self, gauge: &str, test: &str) -> bool {
        self.gauge == gauge && self.tests.contains(&test)
    }

    /// Returns the kind of figure with the configuration `C`.
    pub const fn from_config<C: Config>(
        gauge: &'static str,
        tests: &'static [&'static str],
    ) -> Self {
        let schema = |generator: &mut SchemaGenerator| generator.subschema_for::<C>();
        Self { gauge, tests, keys: C::KEYS, headlines: &[], schema }
    }

    /// Sets the figures that represent a run in one-line summaries.
    pub const fn with_headlines(mut self, headlines: &'static [&'static str]) -> Self {
        self.headlines = headlines;
        self
    }
}

/// Former names of keys with their present names. The reader of records replaces former names, so
/// that all other code uses only the present name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormerNames(BTreeMap<&'static str, &'static str>);

impl FormerNames {
    /// Renames the keys of a configuration that have former names. A value under the present name has precedence.
    pub fn rename(&self, config: &mut Map<String, Value>) {
        for (former, present) in &self.0 {
            if let Some(value) = config.remove(*former) {
                config.entry(*present).or_insert(value);
            }
        }
    }
}

/// Key with its position among the keys of its kind of figure.
#[derive(Debug, Clone, Copy)]
struct PlacedKey {
    key: &'static Key,
    place: usize,
}

/// Registry of all kinds of figures of all gauges. Keys are indexed by name, because `fleet rank`
/// looks up the keys of many thousands of figures.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    kinds: Vec<ConfigKind>,
    /// Keys of the figures, by gauge and test.
    by_gauge: HashMap<&'static str, HashMap<&'static str, KeysByName>>,
    /// First key with each name, in any kind of figure.
    by_name: HashMap<&'static str, &'static Key>,
    former: FormerNames,
}

/// Keys of the figures of one test, with their names.
type KeysByName = HashMap<&'static str, PlacedKey>;

/// Keys of one test's figures. Names that the test does not have are looked up in all other tests.
#[derive(Debug, Clone, Copy)]
pub struct TestKeys<'a> {
    /// `None` if the test is unknown.
    for_test: Option<&'a KeysByName>,
    by_name: &'a HashMap<&'static str, &'static Key>,
}

impl TestKeys<'_> {
    /// Returns the key `name` of the test; if the test has no such key, returns the key `name` of
    /// any kind of figure.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        let own = self.for_test.and_then(|keys| keys.get(name)).map(|known| known.key);
        own.or_else(|| self.by_name.get(name).copied())
    }

    /// Returns the position of a key among the keys of its kind of figure, in the order of declaration.
    pub fn position(&self, name: &str) -> usize {
        self.for_test.and_then(|keys| keys.get(name)).map_or(usize::MAX, |known| known.place)
    }
}

impl Registry {
    /// Returns a registry of these kinds of figures.
    pub fn new(kinds: impl IntoIterator<Item = ConfigKind>) -> Self {
        let mut registry = Self { kinds: kinds.into_iter().collect(), ..Self::default() };
        for kind in &registry.kinds {
            for (place, key) in kind.keys.iter().enumerate() {
                registry.by_name.entry(key.name).or_insert(key);
                registry.former.0.extend(key.former_names.iter().map(|former| (*former, key.name)));
                let of_gauge = registry.by_gauge.entry(kind.gauge).or_default();
                for test in kind.tests {
                    let for_test = of_gauge.entry(test).or_default();
                    for_test.entry(key.name).or_insert(PlacedKey { key, place });
                }
            }
        }
        registry
    }

    /// Returns all kinds of figures.
    pub fn kinds(&self) -> &[ConfigKind] {
        &self.kinds
    }

    /// Returns the keys of the figures of a test.
    pub fn for_test(&self, gauge: &str, test: &str) -> TestKeys<'_> {
        let for_test = self.by_gauge.get(gauge).and_then(|tests| tests.get(test));
        TestKeys { for_test, by_name: &self.by_name }
    }

    /// Returns the key `name` of a test's figures; if the test is unknown or has no such key, returns
    /// the key `name` of any kind of figure.
    pub fn key(&self, gauge: &str, test: &str, name: &str) -> Option<&'static Key> {
        self.for_test(gauge, test).key(name)
    }

    /// True if the figure represents its run in one-line summaries.
    pub fn is_headline(&self, gauge: &str, test: &str, name: &str) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.any(|kind| kind.covers(gauge, test) && kind.headlines.contains(&name))
    }

    /// Returns the position of a key among the keys of its kind of figure, in the order of declaration.
    pub fn position(&self, gauge: &str, test: &str, name: &str) -> usize {
        self.for_test(gauge, test).position(name)
    }

    /// Returns the former names of all keys.
    pub fn former_names(&self) -> &FormerNames {
        &self.former
    }

    /// Returns all keys that have a column in CSV, in the order of [`COLUMNS`].
    pub fn columns(&self) -> Vec<&'static Key> {
        let mut columns = Vec::new();
        for name in COLUMNS {
            let mut keys = self.kinds.iter().flat_map(|kind| kind.keys);
            columns.extend(keys.find(|key| key.name == name));
        }
        columns
    }
}

/// Returns the description of a key: the doc comment of the field if it has one, otherwise the doc
/// comment of the shared declaration.
#[doc(hidden)]
pub const fn description(of_field: &'static str, of_key: &'static str) -> &'static str {
    let of_field = of_field.trim_ascii();
    if of_field.is_empty() { of_key.trim_ascii() } else { of_field }
}

/// Declares keys that several kinds of figures share. A declaration consists of documentation, type of the value
/// (without `Option`), [`Role`], label, and options: `omits_label`, and `was "old"` for each former name of a
/// renamed key. Each key becomes an empty enum, which [`config!`](crate::config) uses to refer to the key.
#[macro_export]
macro_rules! keys {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident: $type:ty = $role:ident $words:literal $(, $option:ident $($former:literal)?)*;
    )*) => {
        $(
            $(#[doc = $doc])*
            #[expect(non_camel_case_types, reason = "the type has the name of the key in the record")]
            #[derive(Debug)]
            pub enum $name {}

            impl $crate::keys::SharedKey for $name {
                type Value = $type;
                const KEY: $crate::keys::Key =
                    $crate::config!(
                        @declare [$($doc),*] $name $role $words $($option $($former)?)*
                    );
            }
        )*
    };
}

/// Declares the configuration of a kind of figure. Every field is a key. A key that only this kind has is declared
/// here, with documentation, type of the value (without `Option`), [`Role`], label, and the options of
/// [`keys!`](crate::keys!). A key that several kinds have is declared once, with `keys!`, and the field refers to that
/// declaration; a doc comment of the field then replaces the description. For this kind of figure only, `as` sets
/// another role and `of` another type; the string after `=` gives the reason.
///
/// A configuration can include other configurations, whose keys precede the keys of the fields:
/// `pub struct Rating including dgemm: Dgemm, ending: Ending { ... }`.
///
/// ```
/// use nodegauge_measure::keys::shared;
///
/// nodegauge_measure::config! {
///     /// Configuration of figures of messages.
///     pub struct MessageConfig {
///         message_bytes: shared::message_bytes;
///         /// Threads of the sender and of the receiver.
///         threads: shared::threads as Setting of Vec<u64> = "the two sides may differ";
///         /// Operations of the last batch.
///         batch_operations: u64 = Observation "operations of a batch";
///     }
/// }
/// let config = MessageConfig { message_bytes: Some(8), ..MessageConfig::default() };
/// assert_eq!(nodegauge_measure::keys::Config::to_map(&config).len(), 1);
/// ```
#[macro_export]
macro_rules! config {
    (
        $(#[$meta:meta])*
        pub struct $struct:ident $(including $($part:ident: $of:ty),+)? {
            $(
                $(#[doc = $doc:literal])*
                $name:ident: $type:ty
                    $(as $other:ident $(of $shape:ty)? = $reason:literal)?
                    $(= $role:ident $words:literal $(, $option:ident $($former:literal)?)*)?;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, $crate::schemars::JsonSchema)]
        #[schemars(crate = "nodegauge_measure::schemars")]
        pub struct $struct {
            $($(
                #[doc = concat!("Keys of [`", stringify!($of), "`].")]
                #[schemars(flatten)]
                pub $part: $of,
            )+)?
            $(
                #[doc = $crate::config!(@doc [$($doc),*] [$type])]
                #[schemars(description = $crate::config!(
                    @description [$($doc),*] [$type] [$($role)?]
                ))]
                pub $name: Option<$crate::config!(
                    @value [$type] [$($other $(of $shape)?)?] [$($role)?]
                )>,
            )*
        }

        impl $crate::keys::Config for $struct {
            const KEYS: &'static [$crate::keys::Key] = &$crate::keys::concatenate_keys::<
                {
                    <[&str]>::len(&[$(stringify!($name)),*])
                        $($(+ <$of as $crate::keys::Config>::KEYS.len())+)?
                },
            >(&[$($(<$of as $crate::keys::Config>::KEYS,)+)? &[
                $($crate::config!(
                    @key [$($doc),*] $name [$type] [$($other $reason)?]
                        [$($role $words $($option $($former)?)*)?]
                ),)*
            ]]);

            fn to_map(&self) -> $crate::serde_json::Map<String, $crate::serde_json::Value> {
                let mut map = $crate::serde_json::Map::new();
                $($(map.extend($crate::keys::Config::to_map(&self.$part));)+)?
                $(
                    if let Some(value) = &self.$name
                        && let Ok(value) = $crate::serde_json::to_value(value)
                    {
                        map.insert(stringify!($name).to_owned(), value);
                    }
                )*
                map
            }

            fn from_map(map: &$crate::serde_json::Map<String, $crate::serde_json::Value>) -> Self {
                Self {
                    $($($part: $crate::keys::Config::from_map(map),)+)?
                    $($name: map
                        .get(stringify!($name))
                        .filter(|value| !value.is_null())
                        .and_then(|value| $crate::serde::Deserialize::deserialize(value).ok()),)*
                }
            }
        }
    };

    (@value [$type:ty] [] [$role:ident]) => { $type };
    (@value [$type:ty] [$other:ident of $shape:ty] []) => { $shape };
    (@value [$type:ty] [$($other:ident)?] []) => { <$type as $crate::keys::SharedKey>::Value };

    (@doc [] [$type:ty]) => { concat!("Key [`", stringify!($type), "`].") };
    (@doc [$($doc:literal),+] [$type:ty]) => { concat!($($doc, "\n"),+) };

    (@description [$($doc:literal),*] [$type:ty] [$role:ident]) => {
        $crate::keys::description(concat!($($doc),*), "")
    };
    (@description [$($doc:literal),*] [$type:ty] []) => {
        $crate::keys::description(
            concat!($($doc),*),
            <$type as $crate::keys::SharedKey>::KEY.description,
        )
    };

    (@key [$($doc:literal),*] $name:ident [$type:ty] [] [$role:ident $words:literal $($options:tt)*]) => {
        $crate::config!(@declare [$($doc),*] $name $role $words $($options)*)
    };
    (@key [$($doc:literal),*] $name:ident [$type:ty] [] []) => {
        <$type as $crate::keys::SharedKey>::KEY.field(stringify!($name))
    };
    (@key [$($doc:literal),*] $name:ident [$type:ty] [$other:ident $reason:literal] []) => {
        <$type as $crate::keys::SharedKey>::KEY
            .field(stringify!($name))
            .with_exception($crate::keys::Role::$other, $reason)
    };

    (
        @declare [$($doc:literal),*] $name:ident $role:ident $words:literal
            $($option:ident $($former:literal)?)*
    ) => {
        $crate::keys::Key {
            name: stringify!($name),
            role: $crate::keys::Role::$role,
            words: $words,
            omits_label: false $(|| $crate::config!(@omits_label $option $($former)?))*,
            description: $crate::keys::description(concat!($($doc),*), ""),
            former_names: &[$($($former,)?)*],
            declaration: concat!(file!(), ":", line!()),
            exception: None,
        }
    };
    (@omits_label omits_label) => { true };
    (@omits_label was $former:literal) => { false };
}

#[cfg(test)]
mod tests;
