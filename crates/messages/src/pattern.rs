//! Table of the message patterns, with one row per pattern. A row contains all properties of a pattern that the gauge
//! uses. The pattern itself is one function in `probes/messages_patterns.h`.

use nodegauge_measure::{Unit, UnknownName, names};
use std::fmt;
use std::str::FromStr;

/// Maximum size of small messages, bytes. Larger messages use fewer operations, as in the OSU micro-benchmarks.
const MAX_SMALL: u64 = 8192;

/// Participants of an operation of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Participants {
    /// One pair of ranks.
    Pair,
    /// Two ranks with several threads each.
    Threads,
    /// All ranks in pairs; each pair has its own figure.
    Pairs,
    /// All ranks in a common operation.
    All,
}

names!(
    Participants,
    "participants",
    Pair = "pair",
    Threads = "threads",
    Pairs = "pairs",
    All = "all"
);

/// Buffers of a rank that contain one block per rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockBuffers {
    /// Neither buffer; each buffer contains one message.
    Neither,
    /// Receive buffer only.
    Receive,
    /// Receive buffer and send buffer.
    Both,
}

/// Properties of a pattern.
pub(crate) struct PatternProperties {
    /// Name in options, records and the probe.
    name: &'static str,
    /// Ranks that take part in an operation.
    pub(crate) participants: Participants,
    /// Number of directions in which windows are sent concurrently, for a rate; `None` if the figure is a time.
    ways: Option<u32>,
    /// True if the message rate is an additional figure.
    pub(crate) counts_messages: bool,
    /// Minimum valid and maximum default message size, bytes; (0, 0) for a pattern without message sizes.
    sizes: (u64, u64),
    /// Divisor of all sizes: 1, or the size of a number for patterns that calculate.
    pub(crate) size_multiple: u64,
    /// Buffers with one block per rank. The probe derives the number of blocks from its field `arrives`.
    gathered: BlockBuffers,
    /// Default number of warm-up operations, for small and for large messages.
    warm_up: (u64, u64),
    /// Number of timed operations in the OSU micro-benchmarks, for small and for large messages.
    operations: (u64, u64),
    /// Title in the OSU micro-benchmarks, between `OSU MPI` and `Test`.
    pub(crate) title: &'static str,
}

/// Base row of patterns in which pairs of ranks exchange single messages.
const TIME: PatternProperties = PatternProperties {
    name: "",
    participants: Participants::Pair,
    ways: None,
    counts_messages: false,
    sizes: (0, u64::MAX),
    size_multiple: 1,
    gathered: BlockBuffers::Neither,
    warm_up: (100, 10),
    operations: (10_000, 1000),
    title: "",
};
/// Base row of patterns in which pairs of ranks exchange windows of messages.
const RATE: PatternProperties = PatternProperties {
    ways: Some(1),
    sizes: (1, u64::MAX),
    warm_up: (10, 2),
    operations: (100, 20),
    ..TIME
};
/// Base row of collectives.
const COLLECTIVE: PatternProperties = PatternProperties {
    participants: Participants::All,
    sizes: (1, 1 << 20),
    operations: (1000, 100),
    ..TIME
};

/// Declares the patterns and their rows, in the order in which they run.
macro_rules! patterns {
    ($($(#[$doc:meta])* $variant:ident => $row:expr;)*) => {
        /// Message pattern of the OSU micro-benchmarks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Pattern {
            $($(#[$doc])* $variant,)*
        }

        impl Pattern {
            /// All patterns, in the order in which they run.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
        }

        const ROWS: &[PatternProperties] = &[$($row,)*];
    };
}

patterns! {
    /// Half of a message's round-trip time.
    Latency => PatternProperties { name: "latency", title: "Latency", ..TIME };
    /// Windows of messages in one direction, each with a four-byte reply.
    Bw => PatternProperties { name: "bw", title: "Bandwidth", ..RATE };
    /// Windows of messages in both directions concurrently.
    Bibw => PatternProperties {
        name: "bibw",
        title: "Bi-Directional Bandwidth",
        ways: Some(2),
        ..RATE
    };
    /// Latency of several concurrent pairs.
    MultiLat => PatternProperties {
        name: "multi_lat",
        title: "Multi Latency",
        participants: Participants::Pairs,
        ..TIME
    };
    /// Bandwidth and message rate of several concurrent pairs.
    MbwMr => PatternProperties {
        name: "mbw_mr",
        title: "Multiple Bandwidth / Message Rate",
        participants: Participants::Pairs,
        counts_messages: true,
        ..RATE
    };
    /// Latency between threads of two processes.
    LatencyMt => PatternProperties {
        name: "latency_mt",
        title: "Multi-threaded Latency",
        participants: Participants::Threads,
        ..TIME
    };
    /// `MPI_Barrier`.
    Barrier => PatternProperties { name: "barrier", title: "Barrier Latency", sizes: (0, 0), ..COLLECTIVE };
    /// `MPI_Bcast` from rank 0.
    Bcast => PatternProperties { name: "bcast", title: "Broadcast Latency", ..COLLECTIVE };
    /// `MPI_Allreduce`: the sum of single-precision numbers.
    Allreduce => PatternProperties {
        name: "allreduce",
        title: "Allreduce Latency",
        size_multiple: 4,
        ..COLLECTIVE
    };
    /// `MPI_Allgather`.
    Allgather => PatternProperties {
        name: "allgather",
        title: "Allgather Latency",
        gathered: BlockBuffers::Receive,
        ..COLLECTIVE
    };
    /// `MPI_Alltoall`.
    Alltoall => PatternProperties {
        name: "alltoall",
        title: "All-to-All Personalized Exchange Latency",
        gathered: BlockBuffers::Both,
        ..COLLECTIVE
    };
}

impl Pattern {
    pub(crate) fn properties(self) -> &'static PatternProperties {
        &ROWS[self as usize]
    }

    /// Returns the point-to-point patterns.
    pub fn point_to_point() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|pattern| !pattern.is_collective())
    }

    /// Returns the collectives.
    pub fn collectives() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|pattern| pattern.is_collective())
    }

    /// Returns the name in options, records and the probe.
    pub fn name(self) -> &'static str {
        self.properties().name
    }

    /// True if all ranks participate in one operation.
    pub fn is_collective(self) -> bool {
        self.properties().participants == Participants::All
    }

    /// True if the figure is a rate; false if it is a time.
    pub fn is_rate(self) -> bool {
        self.properties().ways.is_some()
    }

    /// True if the pattern has no message size, e.g. a barrier.
    pub(crate) fn is_sizeless(self) -> bool {
        self.properties().sizes == (0, 0)
    }

    /// Returns the unit of the figure.
    pub fn unit(self) -> Unit {
        if self.is_rate() { Unit::BytesPerSecond } else { Unit::Seconds }
    }

    /// Returns the sizes among `sizes` that are valid for the pattern: rates require at least one byte, and sums
    /// require whole numbers. For a pattern without a message size, returns only size 0.
    pub fn valid_sizes(self, sizes: &[u64]) -> Vec<u64> {
        let PatternProperties { sizes: (min, _), size_multiple, .. } = self.properties();
        if self.is_sizeless() {
            return vec![0];
        }
        let mut valid = sizes.to_vec();
        valid.retain(|bytes| bytes >= min && bytes.is_multiple_of(*size_multiple));
        valid
    }

    /// Returns the default sizes, which are those of the OSU micro-benchmarks: 0 and the powers of two up to 4 MiB, and
    /// up to 1 MiB for collectives.
    pub fn usual_sizes(self) -> Vec<u64> {
        let powers =
            (0..=22).map(|power| 1 << power).filter(|bytes| *bytes <= self.properties().sizes.1);
        self.valid_sizes(&std::iter::once(0).chain(powers).collect::<Vec<_>>())
    }

    /// Returns the number of messages that fit into the send buffer and the number that fit into the receive buffer of
    /// a rank, for `ranks` ranks and `buffers` buffers per direction.
    pub(crate) fn buffer_message_counts(self, ranks: u64, buffers: u64) -> (u64, u64) {
        match self.properties().gathered {
            _ if !self.is_collective() => (buffers, buffers),
            BlockBuffers::Neither => (1, 1),
            BlockBuffers::Receive => (1, ranks),
            BlockBuffers::Both => (ranks, ranks),
        }
    }

    /// Returns the default number of warm-up operations, and the number of timed operations of the OSU
    /// micro-benchmarks. For rates, both are numbers of windows.
    pub(crate) fn default_operations(self, bytes: u64) -> (u64, u64) {
        let PatternProperties { warm_up, operations, .. } = self.properties();
        if bytes > MAX_SMALL { (warm_up.1, operations.1) } else { (warm_up.0, operations.0) }
    }

    /// Returns the figure for an operation that took `seconds`: this time, or for a rate the bytes per second of
    /// `pairs` pairs with windows of `window` messages.
    pub fn figure(self, seconds: f64, bytes: u64, window: u32, pairs: u32) -> f64 {
        let messages = f64::from(window) * f64::from(pairs);
        match self.properties().ways {
            Some(ways) => f64::from(ways) * bytes as f64 * messages / seconds,
            None => seconds,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Pattern {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.iter().find(|pattern| pattern.name() == text);
        found.copied().ok_or_else(|| UnknownName {
            what: "pattern",
            given: text.to_owned(),
            known: ROWS.iter().map(|row| row.name).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern::{
        Allgather, Allreduce, Alltoall, Barrier, Bcast, Bibw, Bw, Latency, LatencyMt, MbwMr,
        MultiLat,
    };
    use super::*;

    #[test]
    fn pattern_names_round_trip() {
        for pattern in Pattern::ALL {
            assert_eq!(pattern.name().parse(), Ok(*pattern));
        }
        assert!(
            "bandwidth".parse::<Pattern>().unwrap_err().to_string().contains("latency, bw, bibw")
        );
    }

    #[test]
    fn every_pattern_is_implemented_and_documented() {
        let functions = include_str!("../probes/messages_patterns.h");
        let chapter =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mpi.md"))
                .unwrap();
        for pattern in Pattern::ALL {
            assert!(functions.contains(&format!("{{\"{pattern}\", ")), "{pattern} in C");
            assert!(chapter.contains(&format!("`{pattern}`")), "{pattern} in docs/mpi.md");
        }
    }

    #[test]
    fn buffer_blocks_match_the_probe() {
        let functions = include_str!("../probes/messages_patterns.h");
        for pattern in Pattern::ALL {
            let line =
                functions.lines().find(|l| l.contains(&format!("{{\"{pattern}\", "))).unwrap();
            let in_c = match line {
                line if line.contains(" FROM_EACH_FOR_ME,") => BlockBuffers::Both,
                line if line.contains(" FROM_EACH,") => BlockBuffers::Receive,
                _ => BlockBuffers::Neither,
            };
            assert_eq!(pattern.properties().gathered, in_c, "{pattern}");
        }
        assert_eq!(
            (Bw.buffer_message_counts(2, 64), Bcast.buffer_message_counts(8, 1)),
            ((64, 64), (1, 1))
        );
        assert_eq!(
            (Allgather.buffer_message_counts(8, 1), Alltoall.buffer_message_counts(8, 1)),
            ((1, 8), (8, 8))
        );
    }

    #[test]
    fn rates_include_windows_pairs_and_both_directions() {
        // 64 messages of 1 MiB in 1 ms.
        let bytes = 1 << 20;
        let one = (64u64 << 20) as f64 / 1e-3;
        assert_eq!(Bw.figure(1e-3, bytes, 64, 1), one);
        assert_eq!(Bibw.figure(1e-3, bytes, 64, 1), 2.0 * one);
        assert_eq!(MbwMr.figure(1e-3, bytes, 64, 4), 4.0 * one);
        assert_eq!(MultiLat.figure(1e-3, bytes, 64, 4), 1e-3);
    }

    #[test]
    fn invalid_sizes_of_a_pattern_are_excluded() {
        let takes = |pattern: Pattern, size: u64| pattern.valid_sizes(&[size]) == [size];
        let of_nothing: Vec<_> = Pattern::ALL.iter().copied().filter(|p| takes(*p, 0)).collect();
        assert_eq!(of_nothing, [Latency, MultiLat, LatencyMt, Barrier]);
        assert!(takes(Allreduce, 4) && !takes(Allreduce, 2) && takes(Bcast, 1 << 21));
        let sizes = [0, 2, 8, 1 << 21];
        assert_eq!(Latency.valid_sizes(&sizes), sizes);
        assert_eq!(Bw.valid_sizes(&sizes), [2, 8, 1 << 21]);
        assert_eq!(Allreduce.valid_sizes(&sizes), [8, 1 << 21]);
        assert_eq!(Barrier.valid_sizes(&sizes), [0]);
        let usual = |pattern: Pattern| pattern.usual_sizes();
        assert_eq!((usual(Latency).len(), usual(Bw).len(), usual(Barrier)), (24, 23, vec![0]));
        assert_eq!((usual(Bcast).last(), usual(Allreduce)[0]), (Some(&(1 << 20)), 4));
    }

    #[test]
    fn large_messages_have_fewer_operations() {
        let warm_up = |bytes| Latency.default_operations(bytes).0;
        assert_eq!((warm_up(8192), warm_up(8193)), (100, 10));
        assert_eq!(Bw.default_operations(1), (10, 100));
        assert_eq!(Bw.default_operations(1 << 20), (2, 20));
        assert_eq!(Bcast.default_operations(1).1, 1000);
    }
}
