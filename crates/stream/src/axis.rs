//! Axes of `--sweep AXIS=VALUES`: the axes of placement and those of `stream`. Each axis is a row of the table.
//!
//! `size`, `stores`, `pages`, `side-by-side` and `prefetch` take lists (a prefetch with two distances is written
//! `4096+512`). `compiler` takes commands, `native` for nodegauge's own kernels, and `all` for all installed compilers;
//! they are separated by `;` outside of quotes, or by `,` if a compiler follows each comma. `stores` and `pages`
//! without values select all kinds that require no reservation of huge pages.

use crate::arrangement::ArrayOptions;
use crate::compiled::{CompilerChoice, CompilerList};
use crate::kernels::{Prefetch, SideBySidePages, Stores};
use crate::size::SizeSpec;
use nodegauge_arena::RequestedPages;
use nodegauge_measure::sweep::{self, AxisSyntax, InvalidAxisValue};
use nodegauge_placement::{JobPlacementOptions, PlacementSetting};

/// Options of one configuration of a sweep.
#[derive(Debug, Clone, Default)]
pub struct StreamCellOptions {
    /// Threads, ranks and memory.
    pub job: JobPlacementOptions,
    /// Kernels and arrays.
    pub arrays: ArrayOptions,
}

nodegauge_measure::settings! {
    /// Value of an option of `stream` that can be swept.
    pub enum StreamSetting including Placement(PlacementSetting) of job
    sets StreamCellOptions, e.g. "--sweep threads=1,2-32:2 or --sweep pages=4k,thp" {
        /// Kind of store.
        Stores(Stores) = "stores", AxisSyntax::comma_separated().with_default(Stores::ALL),
            given |cell| cell.arrays.stores.is_some(),
            set |cell, stores| cell.arrays.stores = Some(*stores);
        /// Kind of pages of the arrays.
        Pages(RequestedPages) = "pages",
            AxisSyntax::comma_separated().with_default(&[RequestedPages::Base, RequestedPages::Transparent]),
            given |cell| cell.arrays.pages.is_some(),
            set |cell, pages| cell.arrays.pages = Some(*pages);
        /// Number of pages that a loop traverses alternately (side by side).
        SideBySidePages(SideBySidePages) = "side-by-side", AxisSyntax::comma_separated(),
            given |cell| cell.arrays.side_by_side.is_some(),
            set |cell, pages| cell.arrays.side_by_side = Some(*pages);
        /// Length of the arrays.
        Size(SizeSpec) = "size", AxisSyntax::comma_separated(),
            given |cell| cell.arrays.size != SizeSpec::Auto,
            set |cell, size| cell.arrays.size = *size;
        /// Software prefetch, with its distances.
        Prefetch(Prefetch) = "prefetch", prefetches(),
            given |cell| cell.arrays.prefetch.is_some(),
            set |cell, prefetch| cell.arrays.prefetch = Some(*prefetch);
        /// Compiler of the loops, which are compiled after all configurations have been planned.
        Compiler(CompilerChoice) = "compiler", compilers(),
            given |_| false,
            set |_, _| ();
    }
}

/// Axis of a sweep of `stream`: all values of one option.
pub type StreamAxis = sweep::Axis<StreamSetting>;

/// Returns the syntax of compilers. Their flags may contain ',', so that a list is written with ';'.
fn compilers() -> AxisSyntax<CompilerChoice> {
    AxisSyntax::with_list_grammar::<CompilerList>().with_formatter(sweep::join_values::<_, ';'>)
}

/// Returns the syntax of prefetches. Two distances are joined by '+', because ',' separates the values of the list.
fn prefetches() -> AxisSyntax<Prefetch> {
    AxisSyntax::comma_separated().with_parser(prefetch).with_formatter(prefetch_list)
}

fn prefetch(text: &str) -> Result<Prefetch, InvalidAxisValue> {
    text.replace('+', ",").parse().map_err(Into::into)
}

fn prefetch_list(all: &[Prefetch]) -> String {
    let words: Vec<String> =
        all.iter().map(|prefetch| prefetch.to_string().replace(',', "+")).collect();
    words.join(",")
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
            Self::Placement(
                PlacementSetting::Threads(count)
                | PlacementSetting::PerCache(count)
                | PlacementSetting::Ranks(count),
            ) => Some(*count),
            _ => None,
        }
    }

    /// True if the option applies only to native loops.
    pub(crate) fn is_native_only(&self) -> bool {
        matches!(self, Self::Stores(_) | Self::Prefetch(_) | Self::SideBySidePages(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_axis_round_trips() {
        for text in [
            "threads=1,2-8:2",
            "bind=close,spread",
            "stores=regular,nontemporal",
            "pages=4k,thp,2m",
            "bind=close;spread",
            "numa=local,interleave:0,bind:1",
            "stores=nt",
            "size=auto,8xLLC,1000000elements",
            "prefetch=off,512,4096+512",
            "side-by-side=1,2,4,8",
            "compiler=native,gcc -O3",
            "compiler=native;all;gcc -O3 -march=native;clang '-DX=a;b' -O2",
            "stores",
            "pages",
        ] {
            let axis: StreamAxis = text.parse().unwrap();
            assert_eq!(axis.to_string().parse::<StreamAxis>(), Ok(axis), "{text}");
        }
    }

    #[test]
    fn invalid_axis_is_reported_with_its_column() {
        for (text, at) in [
            ("", 0),
            ("thread=1", 0),
            ("threads", 7),
            ("threads=1,x", 10),
            ("pages=4k,5k", 9),
            ("size=1GiB,2Qb", 11),
            ("prefetch=off,51x", 15),
            ("side-by-side=4,65", 15),
            ("stores;", 6),
            ("ranks=0", 6),
            ("compiler", 8),
            ("compiler=gcc;", 13),
            ("compiler=gcc;cc 'x;y", 20),
        ] {
            assert_eq!(text.parse::<StreamAxis>().unwrap_err().at, at, "{text}");
        }
    }
}
