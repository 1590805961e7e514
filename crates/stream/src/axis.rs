//! Grammar of `--sweep AXIS=VALUES`: the option that a sweep varies, and its values.
//!
//! `threads=1,2-32:2` and `per-cache=1,2,4` take counts; `policy` takes numbers, each with a map of ranks if given
//! (`5,3,4,4/even`); `places` takes places separated by `;`; `size`, `stores`,
//! `pages`, `side-by-side` and `prefetch` take lists (a prefetch with two distances is written `4096+512`); `compiler`
//! takes commands separated by `;` outside of quotes, `native` for nodegauge's own kernels, and `all` for all installed
//! compilers. `stores`, `pages` and `rank-map` without values select all kinds that require no reservation of huge
//! pages.

use crate::compiled::CompilerChoice;
use crate::kernels::{Prefetch, SideBySide, Stores};
use crate::size::SizeSpec;
use nodegauge_arena::RequestedPages;
use nodegauge_measure::sweep::{self, AxisSyntax, Wrong, one, several};
use nodegauge_placement::{MappedPolicy, PlacesSpec, Policies, RankMap, ThreadList};
use std::fmt;

/// Value of an option that can be swept.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamSetting {
    /// Number of threads.
    Threads(u32),
    /// Number of threads per last-level cache.
    PerCache(u32),
    /// Places of the threads.
    Places(PlacesSpec),
    /// Kind of store.
    Stores(Stores),
    /// Kind of pages of the arrays.
    Pages(RequestedPages),
    /// Length of the arrays.
    Size(SizeSpec),
    /// Software prefetch, with its distances.
    Prefetch(Prefetch),
    /// Number of pages that a loop traverses alternately (side by side).
    SideBySide(SideBySide),
    /// Number of ranks.
    Ranks(u32),
    /// Policy for the CPUs and the memory of ranks, and their map if it is given with the policy.
    Policy(MappedPolicy),
    /// Socket or core of each rank.
    RankMap(RankMap),
    /// Compiler of the loops.
    Compiler(CompilerChoice),
}

impl StreamSetting {
    /// Returns the compiler; `None` for a value of another axis.
    pub fn compiler(&self) -> Option<&CompilerChoice> {
        match self {
            Self::Compiler(choice) => Some(choice),
            _ => None,
        }
    }

    /// Returns the value as a number; `None` if the values of the axis are not numbers.
    pub(crate) fn count(&self) -> Option<u32> {
        match self {
            Self::Threads(count) | Self::PerCache(count) | Self::Ranks(count) => Some(*count),
            _ => None,
        }
    }
}

impl fmt::Display for StreamSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads(count) | Self::PerCache(count) | Self::Ranks(count) => count.fmt(f),
            Self::Places(places) => places.fmt(f),
            Self::Stores(stores) => stores.fmt(f),
            Self::Pages(pages) => pages.fmt(f),
            Self::Size(size) => size.fmt(f),
            Self::Prefetch(prefetch) => prefetch.fmt(f),
            Self::SideBySide(pages) => pages.fmt(f),
            Self::Policy(policy) => policy.fmt(f),
            Self::RankMap(map) => map.fmt(f),
            Self::Compiler(choice) => choice.fmt(f),
        }
    }
}

/// Axis of a sweep of `stream`: all values of one option.
pub type StreamAxis = sweep::Axis<StreamSetting>;

impl sweep::Setting for StreamSetting {
    /// Published figures of ranks vary their number, their policy and their map.
    const MOST_AXES: usize = 3;
    const EXAMPLE: &'static str = "--sweep threads=1,2-32:2 or --sweep pages=4k,thp";
    const EXPECTED: &'static str = "expected an axis of threads, per-cache, places, stores, pages, side-by-side, size, prefetch, compiler, ranks, policy or rank-map";

    fn axis(&self) -> &str {
        match self {
            Self::Threads(_) => "threads",
            Self::PerCache(_) => "per-cache",
            Self::Places(_) => "places",
            Self::Stores(_) => "stores",
            Self::Pages(_) => "pages",
            Self::Size(_) => "size",
            Self::Prefetch(_) => "prefetch",
            Self::SideBySide(_) => "side-by-side",
            Self::Ranks(_) => "ranks",
            Self::Policy(_) => "policy",
            Self::RankMap(_) => "rank-map",
            Self::Compiler(_) => "compiler",
        }
    }

    fn also_sets(&self) -> Option<&'static str> {
        match self {
            Self::Policy(MappedPolicy { map: Some(_), .. }) => Some("rank-map"),
            _ => None,
        }
    }

    fn values(name: &str) -> Option<AxisSyntax<Self>> {
        type Read = fn(&str) -> Result<Vec<StreamSetting>, Wrong>;
        let counts = |read: Read| Some(AxisSyntax::listed(read));
        let parted = |read: Read| Some(AxisSyntax::parted(read));
        let by_semicolon =
            |read: Read| Some(AxisSyntax { separator: Some(';'), ..AxisSyntax::parted(read) });
        match name {
            "threads" => counts(|text| several::<ThreadList, _, _>(text, Self::Threads)),
            "per-cache" => counts(|text| several::<ThreadList, _, _>(text, Self::PerCache)),
            "ranks" => counts(|text| several::<ThreadList, _, _>(text, Self::Ranks)),
            "policy" => counts(|text| several::<Policies, _, _>(text, Self::Policy)),
            "rank-map" => parted(|text| one(text, Self::RankMap)).map(|values| {
                values.or_alone(RankMap::ALL.iter().copied().map(Self::RankMap).collect())
            }),
            "places" => by_semicolon(|text| one(text, Self::Places)),
            "compiler" => by_semicolon(|text| one(text, Self::Compiler)),
            "size" => parted(|text| one(text, Self::Size)),
            "stores" => parted(|text| one(text, Self::Stores)).map(|values| {
                values.or_alone(Stores::ALL.iter().copied().map(Self::Stores).collect())
            }),
            "pages" => parted(|text| one(text, Self::Pages)).map(|values| {
                values.or_alone(
                    [RequestedPages::Base, RequestedPages::Transparent].map(Self::Pages).to_vec(),
                )
            }),
            "side-by-side" => parted(|text| one(text, Self::SideBySide)),
            // Two distances are joined by '+', because ',' separates the values of the list.
            "prefetch" => parted(|text| one(&text.replace('+', ","), Self::Prefetch)),
            _ => None,
        }
    }

    fn listed(all: &[Self]) -> Option<String> {
        let counts: Option<Vec<u32>> = all.iter().map(Self::count).collect();
        Some(ThreadList::new(counts?)?.to_string())
    }

    fn word(&self) -> String {
        match self {
            Self::Prefetch(prefetch) => prefetch.to_string().replace(',', "+"),
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_prints_and_parses_back() {
        for text in [
            "threads=1,2-8:2",
            "per-cache=1,2,4",
            "places=cores;{0:4}:2:4;0:96:2",
            "stores=regular,nontemporal",
            "pages=4k,thp,2m",
            "size=auto,8xLLC,1000000",
            "prefetch=off,512,4096+512",
            "side-by-side=1,2,4,8",
            "compiler=native;all;gcc -O3 -march=native;clang '-DX=a;b' -O2",
            "stores",
            "pages",
            "ranks=1,2-8:2",
            "policy=0-3,5",
            "policy=0..5",
            "policy=5,3,4,4/even",
            "rank-map=block,cyclic",
            "rank-map",
        ] {
            let axis: StreamAxis = text.parse().unwrap();
            assert_eq!(axis.to_string().parse::<StreamAxis>(), Ok(axis), "{text}");
        }
    }

    #[test]
    fn a_wrong_axis_is_pointed_at() {
        for (text, at) in [
            ("", 0),
            ("thread=1", 0),
            ("threads", 7),
            ("threads=1,x", 10),
            ("places=cores;{0:x}", 16),
            ("pages=4k,5k", 9),
            ("size=1GiB,2Qb", 11),
            ("prefetch=off,51x", 15),
            ("side-by-side=4,65", 15),
            ("stores;", 6),
            ("policy=0-6", 9),
            ("policy=1,5-2", 11),
            ("policy=5,4/evn", 11),
            ("ranks=0", 6),
            ("rank-map=block,round", 15),
            ("compiler", 8),
            ("compiler=gcc;", 13),
            ("compiler=gcc;cc 'x;y", 20),
        ] {
            assert_eq!(text.parse::<StreamAxis>().unwrap_err().at, at, "{text}");
        }
    }
}
