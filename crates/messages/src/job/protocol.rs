//! Line-by-line parser of the probe's output. If a run is killed, the results printed so far are kept.

use crate::pattern::Pattern;
use nodegauge_measure::{legible, names, stats};
use std::str::FromStr;

/// Maximum share of a batch's time in which other programs may use a rank's core, for a valid batch. The probe uses the
/// same limit.
pub const MAX_LOST_SHARE: f64 = 0.02;

/// Group of consecutive batches of operations.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchGroup {
    /// Number of operations in each batch.
    pub operations: u64,
    /// Round trip of a cache line between the two cores before and after the group, seconds; 0 if the ranks do not
    /// share memory.
    pub trips: (f64, f64),
    /// Mean seconds per operation of each batch.
    pub seconds: Vec<f64>,
    /// Share of the time in which another program used a rank's core, for each batch; empty if the probe did not report
    /// it.
    pub lost: Vec<f64>,
}

/// Reason why the measurement of a size ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SizeEnd {
    /// The uncertainty of the median is at most half a percent.
    Stable,
    /// The requested or the maximum number of samples is reached.
    Samples,
    /// The time limit of the size is reached.
    Limit,
}

names!(SizeEnd, "end", Stable = "stable", Samples = "samples", Limit = "limit");

/// Output for one size of a pattern, between two ranks or among all ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeRun {
    pub pattern: Pattern,
    /// Bytes of a message.
    pub bytes: u64,
    /// World ranks of the first pair.
    pub ranks: (u32, u32),
    /// Number of concurrent pairs.
    pub pairs: u32,
    /// Routes of the messages, if the route is chosen separately for each size and start.
    pub routes: Vec<String>,
    /// Timed batches.
    pub groups: Vec<BatchGroup>,
    /// Mean seconds per operation of the fastest rank and of the slowest rank, for a collective.
    pub spread: Option<(f64, f64)>,
    /// Number of bytes that arrived with wrong data; `None` if the data was not verified.
    pub wrong_bytes: Option<u64>,
    /// Reason why the measurement of the size ended; `None` if it is unfinished.
    pub end_reason: Option<SizeEnd>,
    /// Median of the first measurement if it deviated from the curve and was repeated, seconds.
    pub dip: Option<f64>,
}

impl SizeRun {
    /// Returns the round trips of a cache line before and after each group; none if the ranks do not share memory.
    pub fn trips(&self) -> impl Iterator<Item = f64> {
        let both = self.groups.iter().flat_map(|group| [group.trips.0, group.trips.1]);
        both.filter(|trip| *trip > 0.0)
    }

    /// Returns the median seconds per operation, including disturbed batches.
    pub fn median(&self) -> f64 {
        let all: Vec<f64> = self.groups.iter().flat_map(|group| group.seconds.clone()).collect();
        stats::median(&all)
    }

    /// Adds the results of another start. The size is complete only if it is complete in both starts.
    pub fn add(&mut self, more: Self) {
        self.groups.extend(more.groups);
        self.routes.extend(more.routes);
        self.routes.sort_unstable();
        self.routes.dedup();
        self.wrong_bytes = match (self.wrong_bytes, more.wrong_bytes) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.spread = match (self.spread, more.spread) {
            (Some((a, b)), Some((c, d))) => Some((f64::midpoint(a, c), f64::midpoint(b, d))),
            (a, b) => a.or(b),
        };
        self.end_reason = self.end_reason.zip(more.end_reason).map(|(a, b)| a.max(b));
    }
}

/// CPUs and host of a rank, as the rank reported them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeRank {
    /// CPUs on which the rank may run; `None` if unknown.
    pub cpus: Option<String>,
    /// Host of the rank.
    pub host: String,
}

/// Output that has been read from a probe so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbeOutput {
    /// True if the first line of the probe has been read.
    pub has_handshake: bool,
    /// Version of the MPI standard.
    pub standard: Option<String>,
    /// Number of ranks that the probe reports.
    pub world_size: Option<u32>,
    /// Level of MPI thread support that the library provided, from 0 (single) to 3 (multiple).
    pub thread_level: u32,
    /// Version text of the library, with its lines joined by `|`.
    pub library: Option<String>,
    /// Control variables of the library for eager messages, with their values.
    pub variables: Vec<(String, i64)>,
    pub ranks: Vec<ProbeRank>,
    /// Sizes in the order of measurement.
    pub sizes: Vec<SizeRun>,
    /// Patterns that the probe refused because the MPI does not support concurrent sends by several threads.
    pub refused_patterns: Vec<Pattern>,
    /// Error number of the failed attempt to read another rank's memory; `None` if reading succeeded.
    pub read_error: Option<i32>,
    /// Number of completed steps.
    pub steps: usize,
    /// True if the probe printed its last line.
    pub end: bool,
    /// Lines that are not from the probe, usually from the library.
    pub foreign_lines: Vec<String>,
}

/// Maximum length of a line of the probe in bytes; a line with all batches of a group is shorter.
const LONGEST_LINE: usize = 1 << 16;
/// Maximum number of foreign lines that are kept.
const MAX_FOREIGN_LINES: usize = 200;

impl ProbeOutput {
    /// True if batches of a size have been timed.
    pub fn has_measured(&self) -> bool {
        self.sizes.iter().any(|size| !size.groups.is_empty())
    }

    /// Parses more lines. Returns true if at least one is from the probe.
    pub fn read(&mut self, lines: &str) -> bool {
        let mut any = false;
        for line in lines.lines() {
            if line.len() <= LONGEST_LINE && self.line(line).is_some() {
                any = true;
            } else if !line.trim().is_empty() && self.foreign_lines.len() < MAX_FOREIGN_LINES {
                self.foreign_lines.push(legible::shorten_lines(line).into_owned());
            }
        }
        any
    }

    /// Returns the size that is being measured.
    pub fn unfinished_size(&self) -> Option<&SizeRun> {
        self.sizes.iter().rev().find(|size| size.end_reason.is_none())
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = rest.split_whitespace();
        match word {
            "nodegauge-messages" => self.has_handshake = true,
            "mpi" => {
                self.standard = Some(words.next()?.to_owned());
                self.world_size = Some(next(&mut words)?);
                self.thread_level = next(&mut words)?;
            }
            "library" => self.library = Some(rest.trim_end_matches('|').to_owned()),
            "variable" => self.variables.push((next(&mut words)?, next(&mut words)?)),
            "rank" => {
                let _number: u32 = next(&mut words)?;
                let _process: u32 = next(&mut words)?;
                let cpus = words.next().filter(|cpus| *cpus != "?").map(str::to_owned);
                self.ranks.push(ProbeRank { cpus, host: words.next()?.to_owned() });
            }
            "refused" => self.refused_patterns.extend(words.next()?.parse::<Pattern>()),
            "size" => self.sizes.push(SizeRun {
                pattern: next(&mut words)?,
                bytes: next(&mut words)?,
                ranks: (next(&mut words)?, next(&mut words)?),
                pairs: next(&mut words)?,
                routes: Vec::new(),
                groups: Vec::new(),
                spread: None,
                wrong_bytes: None,
                end_reason: None,
                dip: None,
            }),
            "route" => self.sizes.last_mut()?.routes.push(words.next()?.to_owned()),
            "unreadable" => self.read_error = Some(next(&mut words)?),
            "batch" => {
                let operations = next(&mut words)?;
                let trips = (next(&mut words)?, next(&mut words)?);
                let seconds: Vec<f64> = words.map(finite).collect::<Option<_>>()?;
                let group = BatchGroup { operations, trips, seconds, lost: Vec::new() };
                let size = self.sizes.last_mut().filter(|_| !group.seconds.is_empty())?;
                size.groups.push(group);
            }
            "lost" => {
                let lost: Result<Vec<f64>, _> = words.map(str::parse).collect();
                self.sizes.last_mut()?.groups.last_mut()?.lost = lost.ok()?;
            }
            "spread" => {
                self.sizes.last_mut()?.spread = Some((next(&mut words)?, next(&mut words)?));
            }
            "wrong" => self.sizes.last_mut()?.wrong_bytes = Some(next(&mut words)?),
            "done" => self.sizes.last_mut()?.end_reason = Some(next(&mut words)?),
            "step" => self.steps += 1,
            "end" if rest.is_empty() => self.end = true,
            _ => return None,
        }
        Some(())
    }
}

/// Parses the next word.
fn next<'a, T: FromStr>(words: &mut impl Iterator<Item = &'a str>) -> Option<T> {
    words.next()?.parse().ok()
}

/// Parses a finite number.
fn finite(field: &str) -> Option<f64> {
    field.parse().ok().filter(|x: &f64| x.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PRINTED: &str = "nodegauge-messages 1
mpi 3.1 2 0
library Open MPI v4.1.4, package: Debian OpenMPI|
variable btl_vader_eager_limit 4096
rank 0 23642 0 vm
rank 1 23643 1,4-5 vm
[vm:1] a line of the library
size latency 8 0 1 1
batch 982 8.888e-08 8.903e-08 9.77016e-08 9.62943e-08
lost 0.000 0.310
batch 982 0.000e+00 0.000e+00 9.4e-08
wrong 0
done stable
size allreduce 4 0 1 1
batch 10 0 0 2e-6
spread 1.5e-6 2.5e-6
";

    #[test]
    fn incomplete_run_is_read_to_its_end() {
        let mut output = ProbeOutput::default();
        // The output is received in parts.
        let (first, second) = PRINTED.split_at(PRINTED.find("size latency").unwrap());
        assert!(output.read(first) && output.read(second));
        assert!(output.has_handshake && !output.end);
        assert_eq!(
            (output.standard.as_deref(), output.world_size, output.thread_level),
            (Some("3.1"), Some(2), 0)
        );
        assert_eq!(output.library.as_deref(), Some("Open MPI v4.1.4, package: Debian OpenMPI"));
        assert_eq!(output.variables, [("btl_vader_eager_limit".to_owned(), 4096)]);
        assert_eq!(output.ranks[1].cpus.as_deref(), Some("1,4-5"));
        assert_eq!(output.foreign_lines, ["[vm:1] a line of the library"]);
        assert_eq!(output.sizes.len(), 2);
        let latency = &output.sizes[0];
        assert_eq!((latency.pattern, latency.bytes, latency.pairs), (Pattern::Latency, 8, 1));
        assert_eq!(latency.groups[0].seconds, [9.77016e-8, 9.62943e-8]);
        assert_eq!(latency.groups[0].trips.0, 8.888e-8);
        assert_eq!(
            (latency.groups[0].lost.as_slice(), &latency.groups[1].lost),
            (&[0.0, 0.31][..], &vec![])
        );
        assert_eq!((latency.wrong_bytes, latency.end_reason), (Some(0), Some(SizeEnd::Stable)));
        assert_eq!(output.unfinished_size().map(|size| size.pattern), Some(Pattern::Allreduce));
        assert_eq!(output.sizes[1].spread, Some((1.5e-6, 2.5e-6)));
    }

    #[test]
    fn invalid_numbers_are_ignored() {
        let mut output = ProbeOutput::default();
        assert!(output.read("size bw 8 0 1 1\n"));
        assert!(!output.read("batch 10 0 0 nan\nbatch 10 0 0\nbatch x 0 0 1\n"));
        assert!(output.sizes[0].groups.is_empty());
        assert_eq!(output.foreign_lines.len(), 3);
    }

    proptest! {
        #[test]
        fn protocol_reader_never_panics(text in "[a-z 0-9.\n-]{0,200}", cut in 0usize..300) {
            let mut output = ProbeOutput::default();
            output.read(&text);
            output.read(&PRINTED[..cut.min(PRINTED.len())]);
        }
    }
}
