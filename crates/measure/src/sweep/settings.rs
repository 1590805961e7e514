//! Macro that declares a table of settings: an enum of values that implements
//! [`Setting`](super::Setting).

/// Declares the values of options that can be swept: an enum that implements [`sweep::Setting`](crate::sweep::Setting).
///
/// A row contains the type of the value, the name of the axis and option, the
/// [syntax](crate::sweep::AxisSyntax) of the values, a test whether the user has given the option,
/// and the code that sets the option. `including` adds the axes of another table, whose options are a
/// field of these options. `also` names the axis of another option that a value sets too.
#[macro_export]
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub enum $Enum:ident $(including $Part:ident($PartType:ty) of $field:ident)*
        sets $Options:ty, e.g. $example:literal {
            $(
                $(#[$doc:meta])*
                $Variant:ident($Type:ty) = $name:literal, $syntax:expr,
                given |$seen:pat_param| $given:expr,
                set |$options:pat_param, $value:pat_param| $set:expr
                $(, also |$also_value:ident| $also:expr)?;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub enum $Enum {
            $(#[doc = concat!("Value of an option of `", stringify!($field), "`.")] $Part($PartType),)*
            $($(#[$doc])* $Variant($Type),)*
        }

        impl std::fmt::Display for $Enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$Part(value) => std::fmt::Display::fmt(value, f),)*
                    $(Self::$Variant(value) => std::fmt::Display::fmt(value, f),)*
                }
            }
        }

        $(
            impl From<$PartType> for $Enum {
                fn from(value: $PartType) -> Self {
                    Self::$Part(value)
                }
            }
        )*

        impl $crate::sweep::Setting for $Enum {
            type Options = $Options;
            const EXAMPLE: &'static str = $example;

            fn names() -> Vec<&'static str> {
                let mut names: Vec<&'static str> = Vec::new();
                $(names.extend(<$PartType as $crate::sweep::Setting>::names());)*
                let own: &[&'static str] = &[$($name),*];
                names.extend(own);
                names
            }

            fn axis(&self) -> &str {
                match self {
                    $(Self::$Part(value) => $crate::sweep::Setting::axis(value),)*
                    $(Self::$Variant(_) => $name,)*
                }
            }

            fn values(name: &str) -> Option<$crate::sweep::AxisReader<Self>> {
                $(if let Some(values) = <$PartType as $crate::sweep::Setting>::values(name) {
                    return Some(values.map(Self::$Part));
                })*
                match name {
                    $($name => {
                        let syntax: $crate::sweep::AxisSyntax<$Type> = $syntax;
                        Some(syntax.reader.map(Self::$Variant))
                    })*
                    _ => None,
                }
            }

            fn list(all: &[Self]) -> String {
                match all.first() {
                    $(Some(Self::$Part(_)) => {
                        let mut values: Vec<$PartType> = Vec::new();
                        for one in all {
                            if let Self::$Part(value) = one {
                                values.push(value.clone());
                            }
                        }
                        <$PartType as $crate::sweep::Setting>::list(&values)
                    })*
                    $(Some(Self::$Variant(_)) => {
                        let mut values: Vec<$Type> = Vec::new();
                        for one in all {
                            if let Self::$Variant(value) = one {
                                values.push(value.clone());
                            }
                        }
                        let syntax: $crate::sweep::AxisSyntax<$Type> = $syntax;
                        syntax.list(&values)
                    })*
                    None => String::new(),
                }
            }

            fn is_given(name: &str, options: &$Options) -> bool {
                $(if <$PartType as $crate::sweep::Setting>::is_given(name, &options.$field) {
                    return true;
                })*
                match name {
                    $($name => {
                        let $seen = options;
                        $given
                    })*
                    _ => false,
                }
            }

            fn apply(&self, options: &mut $Options) {
                match self {
                    $(Self::$Part(value) => {
                        $crate::sweep::Setting::apply(value, &mut options.$field);
                    })*
                    $(Self::$Variant(of_axis) => {
                        let $options = options;
                        let $value = of_axis;
                        $set
                    })*
                }
            }

            fn linked_axis(&self) -> Option<&'static str> {
                match self {
                    $(Self::$Part(value) => $crate::sweep::Setting::linked_axis(value),)*
                    $($(Self::$Variant($also_value) => $also,)?)*
                    #[allow(unreachable_patterns)]
                    _ => None,
                }
            }
        }
    };
}
