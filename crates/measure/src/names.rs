//! Names of enum variants: options, records and messages use the same names.

/// Error for a name that no variant of an enum has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// Kind of item that the name selects, e.g. `kind of store`.
    pub what: &'static str,
    /// Name as typed.
    pub given: String,
    /// Names of all variants.
    pub known: Vec<&'static str>,
}

impl std::fmt::Display for UnknownName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, given, known } = self;
        write!(f, "unknown {what} '{given}': expected {}", known.join(", "))
    }
}

impl std::error::Error for UnknownName {}

/// Declares the names of the variants of an enum: `names!(Stores, "kind of store", Regular = "regular")`
/// adds `ALL`, `name`, `Display` and `FromStr`.
#[macro_export]
macro_rules! names {
    ($type:ident, $what:literal, $($variant:ident = $name:literal),*) => {
        impl $type {
            /// All variants of the enum.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// Returns the name in options and records.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
        impl std::str::FromStr for $type {
            type Err = $crate::UnknownName;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let found = Self::ALL.iter().find(|known| known.name() == text);
                found.copied().ok_or_else(|| $crate::UnknownName {
                    what: $what,
                    given: text.to_owned(),
                    known: Self::ALL.iter().map(|known| known.name()).collect(),
                })
            }
        }
    };
}
