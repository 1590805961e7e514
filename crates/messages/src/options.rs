//! What a user may choose.

use crate::pattern::{self, Pattern};
use std::time::Duration;

/// Whether all messages of a window lie in one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Buffers {
    /// One buffer, as the OSU micro-benchmarks do by default: rates within a node are cache rates.
    #[default]
    Single,
    /// A buffer for each message of the window.
    Multiple,
}

impl Buffers {
    /// As options and records name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Multiple => "multiple",
        }
    }
}

impl std::str::FromStr for Buffers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "single" => Ok(Self::Single),
            "multiple" => Ok(Self::Multiple),
            _ => Err(format!("unknown buffers {text:?}: expected single or multiple")),
        }
    }
}

/// What the clock is read around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timing {
    /// A batch of operations, as versions 5 and 6 of the OSU micro-benchmarks do.
    #[default]
    Batch,
    /// Each operation, as version 7 does: the clock's own time is in the figure.
    Each,
}

impl Timing {
    /// As options and records name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Each => "each",
        }
    }
}

impl std::str::FromStr for Timing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "batch" => Ok(Self::Batch),
            "each" => Ok(Self::Each),
            _ => Err(format!("unknown timing {text:?}: expected batch or each")),
        }
    }
}

/// Threads of the two sides of `latency_mt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads {
    /// Of rank 0.
    pub senders: u32,
    /// Of rank 1.
    pub receivers: u32,
}

/// Threads of a side at most.
const MOST_THREADS: u32 = 64;

impl std::str::FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("expected SENDERS:RECEIVERS of 1 to {MOST_THREADS} threads, e.g. 1:2");
        let (senders, receivers) = text.split_once(':').ok_or_else(wrong)?;
        let read = |text: &str| {
            text.parse().ok().filter(|n| (1..=MOST_THREADS).contains(n)).ok_or_else(wrong)
        };
        Ok(Self { senders: read(senders)?, receivers: read(receivers)? })
    }
}

impl std::fmt::Display for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.senders, self.receivers)
    }
}

/// How messages are measured; the defaults are those of the OSU micro-benchmarks.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Which patterns.
    pub patterns: Vec<Pattern>,
    /// Which sizes, bytes, ascending.
    pub sizes: Vec<u64>,
    /// Messages under way at once, for rates.
    pub window: u32,
    /// Exactly this many timed operations; else until the median is stable.
    pub iterations: Option<u64>,
    /// As many timed operations as the OSU micro-benchmarks have, where `iterations` is not given:
    /// 10000 (large messages 1000), of rates 100 and 20 windows, of collectives 1000 and 100 calls.
    pub customary: bool,
    /// Operations before the clock starts; by custom 100 (large messages 10), for rates 10 and 2.
    pub warm_up: Option<u64>,
    /// Exactly this many batches.
    pub samples: Option<u32>,
    /// Time for a size, over all starts.
    pub size_limit: Duration,
    /// Starts of the ranks of this node, where neither samples nor iterations are fixed: from start
    /// to start libraries find their buffers elsewhere, and small messages differ by a tenth.
    pub starts: u32,
    /// Buffers.
    pub buffers: Buffers,
    /// Rounds in which the data is checked, for each size.
    pub validate: u32,
    /// Threads of `latency_mt`; else 1:2 where there are CPUs for them.
    pub threads: Option<Threads>,
    /// What the clock is read around.
    pub timing: Timing,
    /// Let Open MPI start ranks of root.
    pub as_root: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            patterns: Pattern::POINT_TO_POINT.to_vec(),
            sizes: pattern::usual_sizes(),
            window: 64,
            iterations: None,
            customary: false,
            warm_up: None,
            samples: None,
            size_limit: Duration::from_millis(250),
            starts: 3,
            buffers: Buffers::Single,
            validate: 1,
            threads: None,
            timing: Timing::Batch,
            as_root: false,
        }
    }
}

impl Options {
    /// The sizes that a pattern takes of those asked for; a barrier has one, whatever was asked.
    pub fn sizes_of(&self, pattern: Pattern) -> Vec<u64> {
        if pattern == Pattern::Barrier {
            return vec![0];
        }
        self.sizes.iter().copied().filter(|bytes| pattern.takes(*bytes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_senders_and_receivers() {
        assert_eq!("2:3".parse(), Ok(Threads { senders: 2, receivers: 3 }));
        for wrong in ["2", "0:1", "1:65", "a:b", "1:2:3", ""] {
            assert!(wrong.parse::<Threads>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns_take_the_sizes_that_mean_something() {
        let options = Options { sizes: vec![0, 2, 8, 1 << 21], ..Options::default() };
        assert_eq!(options.sizes_of(Pattern::Latency), [0, 2, 8, 1 << 21]);
        assert_eq!(options.sizes_of(Pattern::Bw), [2, 8, 1 << 21]);
        assert_eq!(options.sizes_of(Pattern::Allreduce), [8]);
        assert_eq!(options.sizes_of(Pattern::Barrier), [0]);
    }
}
