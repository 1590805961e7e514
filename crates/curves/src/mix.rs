//! Mixes of reads and writes.
//!
//! A mix is defined by the cache lines that it transfers. With regular stores, the loop writes only lines that it also
//! reads, so that no line is loaded only to be overwritten. `a = s a` reads one line and writes one line; `a += s b`
//! reads two lines and writes one; `a += b + s c` reads three lines and writes one. With non-temporal stores, the loop
//! writes lines that it does not read. The moved bytes therefore equal the counted bytes, whether or not the processor
//! makes write-allocates.

use crate::notice;
use nodegauge_kernels::{self as kernels, Kernel, Stores};
use nodegauge_measure::{Notice, NoticeId, names};

/// Mix of reads and writes. Its name is the ratio of lines read to lines written, with the suffix `-nt` for
/// non-temporal stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// Reads only.
    Reads,
    /// Three lines are read, and one of them is written.
    ThreeToOne,
    /// Two lines are read, and one of them is written.
    TwoToOne,
    /// Each line is read and written.
    OneToOne,
    /// Three lines are read, and another line is written with non-temporal stores.
    ThreeToOneStreaming,
    /// Two lines are read, and another line is written with non-temporal stores.
    TwoToOneStreaming,
    /// One line is read, and another line is written with non-temporal stores.
    OneToOneStreaming,
    /// Writes only, with non-temporal stores.
    WritesStreaming,
}

names!(
    Mix,
    "mix",
    Reads = "1:0",
    ThreeToOne = "3:1",
    TwoToOne = "2:1",
    OneToOne = "1:1",
    ThreeToOneStreaming = "3:1-nt",
    TwoToOneStreaming = "2:1-nt",
    OneToOneStreaming = "1:1-nt",
    WritesStreaming = "0:1-nt",
);

impl Mix {
    /// Default mixes of the family of curves.
    pub const FAMILY: [Self; 5] =
        [Self::Reads, Self::ThreeToOne, Self::TwoToOne, Self::OneToOne, Self::WritesStreaming];

    /// Returns the kernel of the loop.
    pub(crate) fn kernel(self) -> Kernel {
        match self {
            Self::Reads => Kernel::Read,
            Self::ThreeToOne => Kernel::Nstream,
            Self::TwoToOne => Kernel::Axpy,
            Self::OneToOne => Kernel::Update,
            Self::ThreeToOneStreaming => Kernel::Blend,
            Self::TwoToOneStreaming => Kernel::Triad,
            Self::OneToOneStreaming => Kernel::Copy,
            Self::WritesStreaming => Kernel::Write,
        }
    }

    /// Returns the kind of stores of the loop.
    pub(crate) fn stores(self) -> Stores {
        match self {
            Self::Reads | Self::ThreeToOne | Self::TwoToOne | Self::OneToOne => Stores::Regular,
            _ => Stores::NonTemporal,
        }
    }

    /// Returns the number of arrays of the loop.
    pub(crate) fn arrays(self) -> u64 {
        self.kernel().spec().arrays().count() as u64
    }
}

/// Returns the names of all figures.
pub(super) fn figure_names() -> Vec<&'static str> {
    Mix::ALL.iter().map(|mix| mix.name()).collect()
}

/// Returns the mixes for which this processor has loops, without duplicates. Adds a notice if some are missing.
pub(crate) fn available_mixes(mixes: &[Mix], notices: &mut Vec<Notice>) -> Vec<Mix> {
    let distinct: Vec<Mix> = Mix::ALL.iter().copied().filter(|mix| mixes.contains(mix)).collect();
    let mut found = distinct.clone();
    found.retain(|mix| !kernels::resident_loops(mix.kernel(), mix.stores()).is_empty());
    if found.len() < distinct.len() {
        let text = "nodegauge has no non-temporal stores for this processor: only mixes with \
                    regular stores are measured";
        notices.push(notice(NoticeId::LeftOut, text));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_kernels::Element;

    #[test]
    fn mix_name_matches_its_traffic() {
        for mix in Mix::ALL {
            let kernel = mix.kernel();
            let spec = kernel.spec();
            let ratio = format!("{}:{}", spec.reads.len(), u32::from(spec.writes.is_some()));
            assert_eq!(mix.name().trim_end_matches("-nt"), ratio);
            // Checks that no line is read only to be overwritten.
            let moved = kernel.moved_bytes(Element::F64, mix.stores());
            assert_eq!(moved, kernel.counted_bytes(Element::F64), "{mix}");
            assert_eq!(mix.name().ends_with("-nt"), mix.stores() == Stores::NonTemporal);
        }
    }
}
