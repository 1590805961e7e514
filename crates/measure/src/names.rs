//! Names of enum variants: options, records and messages use the same names.

/// Error for a name that no variant of an enum has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// Kind of item that the name selects, e.g. `kind of store`.
    pub what: &'static str,
    /// Name as the user typed it.
    pub given: String,
    /// Names of all variants.
    pub known: Vec<&'static str>,
}

impl UnknownName {
    /// Returns the known name that is most similar to the typed one; `None` if none is similar.
    pub fn nearest(&self) -> Option<&'static str> {
        nearest(&self.given, &self.known)
    }
}

/// Minimum similarity (Jaro-Winkler) at which a known name is suggested.
const ALIKE: f64 = 0.85;

/// True if a typed name may be a misspelling of a known one.
pub fn is_alike(typed: &str, known: &str) -> bool {
    strsim::jaro_winkler(&typed.to_lowercase(), &known.to_lowercase()) >= ALIKE
}

/// Returns the known name that is most similar to the typed one; `None` if none is similar.
pub fn nearest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let alike = known.iter().copied().filter(|name| is_alike(&typed, name));
    alike.max_by(|a, b| strsim::jaro_winkler(&typed, a).total_cmp(&strsim::jaro_winkler(&typed, b)))
}

impl std::fmt::Display for UnknownName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, given, known } = self;
        write!(f, "unknown {what} '{given}': expected {}", known.join(", "))
    }
}

impl std::error::Error for UnknownName {}

/// Declares the names of the variants of an enum: `names!(Stores, "kind of store", Regular = "regular")`
/// adds `ALL`, `name`, `Display` and `FromStr`. Further names that are accepted follow after `|`.
#[macro_export]
macro_rules! names {
    ($type:ident, $what:literal, $($variant:ident = $name:literal $(| $alias:literal)*),* $(,)?) => {
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
                match text {
                    $($name $(| $alias)* => return Ok(Self::$variant),)*
                    _ => {}
                }
                Err($crate::UnknownName {
                    what: $what,
                    given: text.to_owned(),
                    known: Self::ALL.iter().map(|known| known.name()).collect(),
                })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_name_is_suggested() {
        let known = ["copy", "scale", "add", "triad"];
        assert_eq!(nearest("triadd", &known), Some("triad"));
        assert_eq!(nearest("Copy", &known), Some("copy"));
        assert_eq!(nearest("quad", &known), None);
    }
}
