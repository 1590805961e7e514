//! Options of message measurements.

use crate::pattern::{Participants, Pattern};
use crate::{GAUGE, MessagesError};
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::schedule::Budget;
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, SyntaxError, names};
use std::collections::BTreeMap;
use std::time::Duration;

/// Buffers for the messages of a window: one buffer for all messages, or one buffer per message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WindowBuffers {
    /// One buffer, as in the OSU micro-benchmarks by default; rates within a node are then cache rates.
    #[default]
    Single,
    /// A buffer for each message of the window.
    Multiple,
}

names!(WindowBuffers, "buffers", Single = "single", Multiple = "multiple");

/// Interval between readings of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timing {
    /// One reading per batch of operations, as in versions 5 and 6 of the OSU micro-benchmarks.
    #[default]
    Batch,
    /// One reading per operation, as in version 7 of the OSU micro-benchmarks. The figure includes the time for reading
    /// the clock.
    Each,
}

names!(Timing, "timing", Batch = "batch", Each = "each");

/// Numbers of threads of the sender and the receiver in `latency_mt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SideThreads {
    /// Threads of rank 0, the sender.
    pub senders: u32,
    /// Threads of rank 1, the receiver.
    pub receivers: u32,
}

impl SideThreads {
    /// One thread in each rank.
    pub const SINGLE: Self = Self { senders: 1, receivers: 1 };
    /// Default numbers of threads for `latency_mt`.
    pub const DEFAULT: Self = Self { senders: 1, receivers: 2 };
}

/// Maximum number of threads per rank.
const MAX_THREADS: u32 = 64;

impl std::str::FromStr for SideThreads {
    type Err = SyntaxError;

    /// Parses `SENDERS:RECEIVERS`, or `RECEIVERS` for one sender.
    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("threads", "--threads 1:2 or --threads 2", text);
        let first = cursor.count(MAX_THREADS, "expected a number of threads")?;
        if cursor.at_end() {
            // A single number is the number of receivers, as in osu_latency_mt; the default is one sender.
            return Ok(Self { senders: 1, receivers: first });
        }
        cursor.expect(':', "expected ':' and the number of receiver threads, or the end")?;
        let receivers = cursor.count(MAX_THREADS, "expected the number of receiver threads")?;
        cursor.finish("expected nothing after the number of receiver threads")?;
        Ok(Self { senders: first, receivers })
    }
}

/// Options for the measurement of messages; the defaults are those of the OSU micro-benchmarks.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageOptions {
    /// Patterns to measure.
    pub patterns: Vec<Pattern>,
    /// True if the user requested the patterns by name. In this case, a pattern that the MPI does not support is an
    /// error.
    pub has_named_patterns: bool,
    /// Sizes in bytes, ascending; `None` for the default sizes of each pattern.
    pub sizes: Option<Vec<u64>>,
    /// Number of messages in flight for rates.
    pub window: u32,
    /// Exact number of timed operations; `None` to measure until the median is stable.
    pub iterations: Option<u64>,
    /// True to report means over all operations, including disturbed operations. In this case, unless `iterations` is
    /// set, the numbers of operations are those of the OSU micro-benchmarks: 10000 (1000 for large messages) for
    /// latencies, 100 (20) windows for rates, and 1000 (100) calls for collectives.
    pub like_osu: bool,
    /// Number of warm-up operations. The default is 100 (10 for large messages), or 10 (2) windows for rates.
    pub warm_up: Option<u64>,
    /// Exact number of batches.
    pub samples: Option<u32>,
    /// Time limit per size, for all starts together.
    pub size_time_limit: Duration,
    /// Time limit for all sizes, patterns, pairs and transports; the limit per size is shortened if necessary.
    pub budget: Option<Budget>,
    /// Number of starts of the ranks on this node, unless the number of samples or iterations is fixed. In each start,
    /// libraries allocate their buffers at different addresses, which changes the latency of small messages by
    /// about 10 %.
    pub starts: u32,
    /// Buffers for the messages of a window.
    pub buffers: WindowBuffers,
    /// Number of rounds per size in which the data is verified.
    pub validation_rounds: u32,
    /// Numbers of threads in `latency_mt`; `None` for 1:2 if there are enough CPUs.
    pub threads: Option<SideThreads>,
    /// Interval between readings of the clock.
    pub timing: Timing,
    /// Maximum bytes of a rank's buffer; larger messages are left out.
    pub memory_limit: u64,
    /// True if Open MPI may start the user's programs as root. The probe may always run as root.
    pub as_root: bool,
}

/// Default maximum size of a rank's buffer in bytes, as in the OSU micro-benchmarks (`-M`).
pub const DEFAULT_BUFFER_LIMIT: u64 = 512 << 20;

impl Default for MessageOptions {
    fn default() -> Self {
        Self {
            patterns: Pattern::point_to_point().collect(),
            has_named_patterns: false,
            sizes: None,
            window: 64,
            iterations: None,
            like_osu: false,
            warm_up: None,
            samples: None,
            size_time_limit: Duration::from_millis(250),
            budget: None,
            starts: 3,
            buffers: WindowBuffers::Single,
            validation_rounds: 1,
            threads: None,
            timing: Timing::Batch,
            memory_limit: DEFAULT_BUFFER_LIMIT,
            as_root: false,
        }
    }
}

impl MessageOptions {
    /// Returns those requested sizes that are valid for a pattern.
    pub fn valid_sizes(&self, pattern: Pattern) -> Vec<u64> {
        match &self.sizes {
            Some(sizes) => pattern.valid_sizes(sizes),
            None => pattern.usual_sizes(),
        }
    }

    /// Leaves out patterns for which no requested size is valid. Returns notices about sizes that are invalid for a
    /// pattern.
    ///
    /// Fails if the user requested such a pattern by name, or if no pattern is left.
    pub(crate) fn leave_out_invalid_sizes(&mut self) -> Result<Vec<Notice>, MessagesError> {
        let Some(asked) = self.sizes.clone() else { return Ok(Vec::new()) };
        let mut without: BTreeMap<Vec<u64>, Vec<&str>> = BTreeMap::new();
        for pattern in self.patterns.iter().filter(|pattern| !pattern.is_sizeless()) {
            let kept = pattern.valid_sizes(&asked);
            let lost: Vec<u64> = asked.iter().copied().filter(|b| !kept.contains(b)).collect();
            if !lost.is_empty() {
                without.entry(lost).or_default().push(pattern.name());
            }
        }
        let none = self.patterns.iter().copied().find(|one| one.valid_sizes(&asked).is_empty());
        let has_named_patterns = self.has_named_patterns;
        self.patterns.retain(|pattern| !pattern.valid_sizes(&asked).is_empty());
        if let Some(pattern) = none.filter(|_| has_named_patterns || self.patterns.is_empty()) {
            let min = pattern.usual_sizes()[0];
            let wanted = match pattern.properties().size_multiple {
                1 => "larger sizes".to_owned(),
                multiple => format!("multiples of {}", Bytes(multiple)),
            };
            return Err(Failure::usage(format!("no requested size is valid for {pattern}"))
                .hint(format!("use {wanted}, e.g. --sizes {min}:4096"))
                .into());
        }
        let mut notices = Vec::new();
        for (lost, names) in without {
            let lost: Vec<String> = lost.into_iter().map(|b| Bytes(b).to_string()).collect();
            let names = names.join(", ");
            let text = format!("{names}: invalid sizes are left out: {}", lost.join(", "));
            notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
        }
        Ok(notices)
    }

    /// Returns the number of messages that fit into the send buffer and the number that fit into the receive buffer of
    /// a rank.
    pub(crate) fn buffer_message_counts(&self, pattern: Pattern, ranks: u64) -> (u64, u64) {
        let buffers = match self.buffers {
            WindowBuffers::Single => 1,
            WindowBuffers::Multiple => u64::from(self.window),
        };
        pattern.buffer_message_counts(ranks, buffers)
    }

    /// Returns the selected patterns with these kinds of participants.
    pub(crate) fn patterns_with(&self, wanted: &[Participants]) -> Vec<Pattern> {
        let mut patterns = self.patterns.clone();
        patterns.retain(|pattern| wanted.contains(&pattern.properties().participants));
        patterns
    }

    /// Returns the numbers of warm-up operations and of timed operations. The number of timed operations is 0 if it is
    /// not fixed.
    pub(crate) fn operation_counts(&self, pattern: Pattern, bytes: u64) -> (u64, u64) {
        let (warm_up, timed) = pattern.default_operations(bytes);
        let timed = if self.like_osu { timed } else { 0 };
        (self.warm_up.unwrap_or(warm_up), self.iterations.unwrap_or(timed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_sizes_are_omitted_or_refused() {
        let of = |patterns: &[Pattern], has_named_patterns, sizes: &[u64]| {
            let (patterns, sizes) = (patterns.to_vec(), Some(sizes.to_vec()));
            let mut options =
                MessageOptions { patterns, has_named_patterns, sizes, ..MessageOptions::default() };
            let reported = options.leave_out_invalid_sizes().map_err(|error| error.to_string());
            let texts: Result<Vec<String>, String> =
                reported.map(|notices| notices.into_iter().map(|notice| notice.message).collect());
            (texts, options.patterns)
        };
        use Pattern::{Allreduce, Barrier, Bibw, Bw, Latency};
        let (reported, left) = of(&[Latency, Bw, Bibw, Barrier, Allreduce], true, &[0, 6, 8]);
        assert_eq!(left.len(), 5);
        assert_eq!(
            reported,
            Ok(vec![
                "bw, bibw: invalid sizes are left out: 0 B".to_owned(),
                "allreduce: invalid sizes are left out: 0 B, 6 B".to_owned()
            ])
        );
        // In a group, patterns without a valid size are left out. Patterns that were requested by name are not left
        // out.
        let (some, remaining) = of(&[Latency, Bw], false, &[0]);
        assert_eq!((some.map(|texts| texts.len()), remaining), (Ok(1), vec![Latency]));
        for has_named_patterns in [true, false] {
            assert_eq!(
                of(&[Allreduce], has_named_patterns, &[3]).0,
                Err("no requested size is valid for allreduce\nhint: use multiples of 4 B, \
                     e.g. --sizes 4:4096"
                    .to_owned())
            );
        }
        assert_eq!(of(&[Bw], true, &[8, 1 << 30]).0, Ok(Vec::new()));
    }

    #[test]
    fn thread_option_gives_senders_and_receivers() {
        assert_eq!("2:3".parse(), Ok(SideThreads { senders: 2, receivers: 3 }));
        // A single number is the number of receivers, as in osu_latency_mt.
        assert_eq!("4".parse(), Ok(SideThreads { senders: 1, receivers: 4 }));
        for wrong in ["0", "65", "0:1", "1:65", "4:", ":4", "a:b", "1:2:3", ""] {
            assert!(wrong.parse::<SideThreads>().is_err(), "{wrong}");
        }
    }
}
