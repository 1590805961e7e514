//! Assignment of threads to places: the policies of `OMP_PROC_BIND`.
//!
//! The module performs no system calls. Source: OpenMP 5.2, "Controlling OpenMP Thread Affinity". If the number of
//! threads is not a multiple of the number of places, or vice versa, the standard leaves the distribution of the
//! remainder to the implementation. Here the remainder is spread evenly: the numbers of threads of two sockets or
//! caches differ by at most one.

use crate::grammar;
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use std::fmt;
use std::str::FromStr;

const EXAMPLE: &str = "--bind close, spread, primary or none";

/// Policy that assigns threads to places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binding {
    /// Consecutive threads are bound to consecutive places.
    Close,
    /// Threads are as far apart as the places allow.
    Spread,
    /// All threads are bound to the first place.
    Primary,
    /// Threads are not bound.
    None,
}

impl Binding {
    /// Returns the name of the policy in the record and in `--bind`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Close => "close",
            Self::Spread => "spread",
            Self::Primary => "primary",
            Self::None => "none",
        }
    }

    /// Returns the place of each thread as an index, for `threads` threads and `places` places; `None` for a thread
    /// that is not bound.
    ///
    /// Close: if there are at most as many threads as places, thread `t` is bound to place `t`. Spread: the P places
    /// are divided into T groups of floor(P/T) or ceil(P/T) consecutive places. Thread `t` is bound to the first
    /// place of group `t`, which is place `floor(t * P / T)`. If there are more threads than places, both policies
    /// give each place floor(T/P) or ceil(T/P) consecutive threads.
    pub fn assign(self, threads: u32, places: usize) -> Vec<Option<usize>> {
        (0..threads).map(|thread| self.place(thread, threads, places)).collect()
    }

    /// Returns the place of one thread as an index.
    fn place(self, thread: u32, threads: u32, places: usize) -> Option<usize> {
        let at = thread as usize;
        match self {
            _ if places == 0 => None,
            Self::None => None,
            Self::Primary => Some(0),
            Self::Close if threads as usize <= places => Some(at),
            Self::Close | Self::Spread => Some(at * places / threads as usize),
        }
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Binding {
    type Err = SyntaxError;

    /// Parses a policy; `master` means primary, `true` close, and `false` none. A list such as `spread,close` has one
    /// policy per level of nested parallelism, and the first policy is returned.
    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        Self::parse(Cursor::new("bind", EXAMPLE, text), true)
    }
}

impl Binding {
    /// Parses the value of a variable such as `OMP_PROC_BIND`, in which `none` is not a policy.
    pub(crate) fn from_variable(
        name: &'static str,
        example: &'static str,
        text: &str,
    ) -> Result<Self, SyntaxError> {
        Self::parse(Cursor::new(name, example, text), false)
    }

    /// Parses a list of policies and returns the first. `has_none` is true if `none` is a policy.
    fn parse(mut cursor: Cursor<'_>, has_none: bool) -> Result<Self, SyntaxError> {
        let expected = if has_none {
            "expected close, spread, primary or none"
        } else {
            "expected close, spread, primary, true or false"
        };
        let mut first = true;
        let mut is_alone = false;
        let policies = grammar::list(&mut cursor, None, "expected ',' or the end", |cursor| {
            let at = cursor.position();
            if is_alone {
                return Err(cursor.error("expected a single policy"));
            }
            let word = cursor.take_while(|c| c.is_ascii_alphabetic()).to_ascii_lowercase();
            let only = std::mem::replace(&mut first, false);
            is_alone = only && ["true", "none", "false"].contains(&word.as_str());
            match word.as_str() {
                "close" => Ok(Self::Close),
                "spread" => Ok(Self::Spread),
                "primary" | "master" => Ok(Self::Primary),
                // OpenMP leaves the meaning of `true` to the implementation; libgomp uses close.
                "true" if only => Ok(Self::Close),
                "false" if only => Ok(Self::None),
                "none" if only && has_none => Ok(Self::None),
                _ => Err(cursor.error_at(at, expected)),
            }
        })?;
        Ok(policies[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places(bind: Binding, threads: u32, places: usize) -> Vec<usize> {
        bind.assign(threads, places).into_iter().map(Option::unwrap).collect()
    }

    #[test]
    fn openmp_binding_names_are_parsed() {
        for (text, bind) in [
            ("close", Binding::Close),
            (" SPREAD ", Binding::Spread),
            ("master", Binding::Primary),
            ("true", Binding::Close),
            ("FALSE", Binding::None),
            ("spread, close", Binding::Spread),
        ] {
            assert_eq!(text.parse::<Binding>(), Ok(bind), "{text}");
            assert_eq!(bind.to_string().parse::<Binding>(), Ok(bind));
        }
        for (text, at) in [
            ("", 0),
            ("compact", 0),
            ("spread,", 7),
            ("spread close", 7),
            ("close,false", 6),
            ("true,close", 5),
        ] {
            assert_eq!(text.parse::<Binding>().unwrap_err().at, at, "{text}");
        }
        let variable = |text: &str| Binding::from_variable("OMP_PROC_BIND", "", text);
        assert_eq!(variable("false"), Ok(Binding::None));
        assert!(variable("none").is_err());
    }

    #[test]
    fn binding_matches_examples_of_the_openmp_specification() {
        // The example of affinity in the OpenMP examples has 8 places; 4 threads are spread, 4 are close, and 16 use 8
        // places.
        assert_eq!(places(Binding::Spread, 4, 8), [0, 2, 4, 6]);
        assert_eq!(places(Binding::Close, 4, 8), [0, 1, 2, 3]);
        assert_eq!(places(Binding::Spread, 16, 8)[..5], [0, 0, 1, 1, 2]);
        assert_eq!(places(Binding::Close, 16, 8)[..5], [0, 0, 1, 1, 2]);
        assert_eq!(places(Binding::Primary, 4, 8), [0, 0, 0, 0]);
        assert_eq!(Binding::None.assign(2, 8), [None, None]);
    }

    #[test]
    fn six_spread_threads_use_two_sockets_equally() {
        assert_eq!(places(Binding::Spread, 6, 8), [0, 1, 2, 4, 5, 6]);
    }

    proptest! {
        #[test]
        fn all_places_are_used_before_any_is_reused(threads in 1u32..300, count in 1usize..300) {
            for bind in [Binding::Close, Binding::Spread] {
                let mut uses = vec![0u32; count];
                let assigned = places(bind, threads, count);
                prop_assert!(assigned.is_sorted());
                assigned.iter().for_each(|place| uses[*place] += 1);
                prop_assert!(uses.iter().max().unwrap() - uses.iter().min().unwrap() <= 1);
            }
        }

        #[test]
        fn spread_gives_groups_nearly_equal_thread_counts(threads in 1u32..200, groups in 1usize..16, size in 1usize..16) {
            let mut uses = vec![0u32; groups];
            places(Binding::Spread, threads, groups * size).iter().for_each(|place| uses[place / size] += 1);
            prop_assert!(uses.iter().max().unwrap() - uses.iter().min().unwrap() <= 1, "{uses:?}");
        }

        #[test]
        fn bind_parser_never_panics(text in ".{0,16}") {
            let _ = text.parse::<Binding>();
        }
    }
}
