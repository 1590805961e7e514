//! Keys of the `config` of a measurement: one struct for each kind of figure, declared with
//! [`config!`](crate::config). A key of one kind of figure is declared in its struct. A key of several
//! kinds is declared once with [`keys!`](crate::keys!), usually in [`shared`], and structs name it.
//! Pairing, differences of settings and words for people derive from these declarations; the columns of
//! CSV derive from [`COLUMNS`].

pub mod shared;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

/// Role of a key in the comparison of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Size at which a figure is quoted, e.g. of a message. Figures of different sizes are different figures, and
    /// the size is printed even if all figures share it.
    Size,
    /// Property of the measured quantity, e.g. the type of elements. Figures in which it differs are not
    /// comparable.
    Identity,
    /// Requested condition of the measurement, e.g. the number of threads. It distinguishes figures of one record
    /// if identities do not, and is listed if two records differ in it.
    Setting,
    /// Choice made during the run, e.g. the fastest loop. It may differ between runs of the same command, is
    /// listed if two records differ in it, and distinguishes figures only if nothing else does.
    Choice,
    /// Observed value, which differs between runs with the same settings.
    Observation,
}

/// Keys that have a column in CSV, in the order of the columns. New keys are added at the end.
pub const COLUMNS: [&str; 48] = [
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
];

/// One key of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Name in the record.
    pub name: &'static str,
    /// Role.
    pub role: Role,
    /// Name in a text for people.
    pub words: &'static str,
    /// True if values are clear without the words, so that texts leave out the words.
    pub speaks: bool,
    /// Description of the value.
    pub description: &'static str,
    /// File and line of the block that declares the key.
    pub declared: &'static str,
    /// Reason why the role or type in this kind of figure differs from the declaration.
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
        assert!(same, "a field has the name of its key");
        self
    }

    /// Returns the key with another role or type for one kind of figure.
    #[doc(hidden)]
    pub const fn except(mut self, role: Role, reason: &'static str) -> Self {
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

/// True if the values of a key are bytes; names of keys end with the unit.
pub fn is_size(name: &str) -> bool {
    name.ends_with("_bytes")
}

/// Returns a value as a short text, for a table cell: a string or a number as it is; for an object the requested
/// value, the command of a compiler, the path of a volume, or a library with its version. Returns `None` for
/// lists and other objects.
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

/// Configuration of a kind of figure. Implemented by [`config!`](crate::config) only.
pub trait Config: JsonSchema {
    /// Keys in the order of the record.
    const KEYS: &'static [Key];
    /// Returns the keys that have a value.
    fn to_map(&self) -> Map<String, Value>;
    /// Reads the known keys; a key that is absent or has another type is `None`.
    fn of_map(map: &Map<String, Value>) -> Self;
}

/// Concatenates the keys of several configurations, for [`config!`](crate::config); `N` is the total number.
pub const fn join<const N: usize>(parts: &[&[Key]]) -> [Key; N] {
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

/// Kind of figure in the registry: the tests whose figures have this configuration.
#[derive(Debug, Clone, Copy)]
pub struct ConfigKind {
    /// Gauge of the figures.
    pub gauge: &'static str,
    /// Tests of the figures; several kinds may share a test.
    pub tests: &'static [&'static str],
    /// Keys of the configuration.
    pub keys: &'static [Key],
    /// Names of the figures that represent a run in a single line.
    pub headlines: &'static [&'static str],
    /// JSON Schema of the configuration.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

impl ConfigKind {
    /// Returns the kind with the configuration `C`.
    pub const fn of<C: Config>(gauge: &'static str, tests: &'static [&'static str]) -> Self {
        let schema = |generator: &mut SchemaGenerator| generator.subschema_for::<C>();
        Self { gauge, tests, keys: C::KEYS, headlines: &[], schema }
    }

    /// Sets the figures that are headlines.
    pub const fn headed(mut self, headlines: &'static [&'static str]) -> Self {
        self.headlines = headlines;
        self
    }
}

/// Registry of all kinds of figures of all gauges.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    kinds: Vec<ConfigKind>,
}

impl Registry {
    /// Returns a registry of these kinds.
    pub fn new(kinds: impl IntoIterator<Item = ConfigKind>) -> Self {
        Self { kinds: kinds.into_iter().collect() }
    }

    /// Returns all kinds.
    pub fn kinds(&self) -> &[ConfigKind] {
        &self.kinds
    }

    /// Returns the key `name` of the figures of a test; for an unknown test, a key with this name of any kind.
    pub fn key(&self, gauge: &str, test: &str, name: &str) -> Option<&'static Key> {
        let here = |kind: &&ConfigKind| kind.gauge == gauge && kind.tests.contains(&test);
        let find = |kind: &ConfigKind| kind.keys.iter().find(|key| key.name == name);
        let known = self.kinds.iter().filter(here).find_map(find);
        known.or_else(|| self.kinds.iter().find_map(find))
    }

    /// True if a figure represents its run in a single line.
    pub fn is_headline(&self, gauge: &str, test: &str, name: &str) -> bool {
        let here = |kind: &&ConfigKind| kind.gauge == gauge && kind.tests.contains(&test);
        self.kinds.iter().filter(here).any(|kind| kind.headlines.contains(&name))
    }

    /// Returns the position of a key in its kind, in the order of declaration.
    pub fn place(&self, gauge: &str, test: &str, name: &str) -> usize {
        let here = |kind: &&ConfigKind| kind.gauge == gauge && kind.tests.contains(&test);
        let place = |kind: &ConfigKind| kind.keys.iter().position(|key| key.name == name);
        self.kinds.iter().filter(here).find_map(place).unwrap_or(usize::MAX)
    }

    /// Returns all keys that have a column in CSV, in the order of [`COLUMNS`].
    pub fn columns(&self) -> Vec<&'static Key> {
        let keys = || self.kinds.iter().flat_map(|kind| kind.keys);
        COLUMNS.iter().filter_map(|name| keys().find(|key| key.name == *name)).collect()
    }
}

/// Returns the description of a key: the one of the field, or the one of the declaration if the field has none.
#[doc(hidden)]
pub const fn description(of_field: &'static str, of_key: &'static str) -> &'static str {
    let of_field = of_field.trim_ascii();
    if of_field.is_empty() { of_key.trim_ascii() } else { of_field }
}

/// Declares keys that several kinds of figures share: documentation, type of the value (without `Option`),
/// [`Role`], words, and optionally `speaks`. Each key becomes an empty enum that represents it in
/// [`config!`](crate::config).
#[macro_export]
macro_rules! keys {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident: $type:ty = $role:ident $words:literal $(, $speaks:ident)?;
    )*) => {
        $(
            $(#[doc = $doc])*
            #[expect(non_camel_case_types, reason = "the name is that of the key in the record")]
            #[derive(Debug)]
            pub enum $name {}

            impl $crate::keys::SharedKey for $name {
                type Value = $type;
                const KEY: $crate::keys::Key =
                    $crate::config!(@declare [$($doc),*] $name $role $words $($speaks)?);
            }
        )*
    };
}

/// Declares the configuration of a kind of figure. Every field is a key. A key of this kind only is
/// declared here, with documentation, type of the value (without `Option`), [`Role`], words, and optionally
/// `speaks`. A key of several kinds is declared once, with [`keys!`](crate::keys!), and the field names that
/// declaration; documentation of the field then replaces the description. `as` sets another role, and
/// `of` another type, in this kind only, with the reason.
///
/// Groups of keys are configurations themselves and are included before the fields:
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
                    $(= $role:ident $words:literal $(, $speaks:ident)?)?;
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
            const KEYS: &'static [$crate::keys::Key] = &$crate::keys::join::<
                {
                    <[&str]>::len(&[$(stringify!($name)),*])
                        $($(+ <$of as $crate::keys::Config>::KEYS.len())+)?
                },
            >(&[$($(<$of as $crate::keys::Config>::KEYS,)+)? &[
                $($crate::config!(
                    @key [$($doc),*] $name [$type] [$($other $reason)?]
                        [$($role $words $($speaks)?)?]
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

            fn of_map(map: &$crate::serde_json::Map<String, $crate::serde_json::Value>) -> Self {
                Self {
                    $($($part: $crate::keys::Config::of_map(map),)+)?
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

    (@key [$($doc:literal),*] $name:ident [$type:ty] [] [$role:ident $words:literal $($speaks:ident)?]) => {
        $crate::config!(@declare [$($doc),*] $name $role $words $($speaks)?)
    };
    (@key [$($doc:literal),*] $name:ident [$type:ty] [] []) => {
        <$type as $crate::keys::SharedKey>::KEY.field(stringify!($name))
    };
    (@key [$($doc:literal),*] $name:ident [$type:ty] [$other:ident $reason:literal] []) => {
        <$type as $crate::keys::SharedKey>::KEY
            .field(stringify!($name))
            .except($crate::keys::Role::$other, $reason)
    };

    (@declare [$($doc:literal),*] $name:ident $role:ident $words:literal $($speaks:ident)?) => {
        $crate::keys::Key {
            name: stringify!($name),
            role: $crate::keys::Role::$role,
            words: $words,
            speaks: $crate::config!(@speaks $($speaks)?),
            description: $crate::keys::description(concat!($($doc),*), ""),
            declared: concat!(file!(), ":", line!()),
            exception: None,
        }
    };
    (@speaks) => { false };
    (@speaks speaks) => { true };
}

#[cfg(test)]
mod tests;
