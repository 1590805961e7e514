//! The options of `mpi`.

use super::values::parse_seconds_from;
use super::{MeasuringArgs, budgets};
use clap::Args as ClapArgs;
use nodegauge_machine::CpuId;
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::quantity::read_bytes;
use nodegauge_measure::{Bytes, SyntaxError, UnknownName};
use nodegauge_messages::options::{SideThreads, Timing, WindowBuffers};
use nodegauge_messages::transport::Fabric;
use nodegauge_messages::{Pattern, RankPairs};
use nodegauge_placement::Distance;
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::mpi::HostList;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `mpi`.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::default_in_words("no limit")))]
pub(crate) struct MpiArgs {
    /// MPI compiler (repeatable: compares several MPIs) [default: mpicc]
    #[arg(long, value_name = "MPICC", help_heading = "What")]
    pub(crate) mpicc: Vec<CommandLine>,
    /// Launcher with its options, one per --mpicc [default: the launcher of the MPI]
    ///
    /// Words are split as in a shell. Example: --launcher 'srun --mpi=pmi2'
    #[arg(long, value_name = "'MPIRUN'", help_heading = "What")]
    pub(crate) launcher: Vec<CommandLine>,
    /// Let Open MPI start OSU's programs as root (in containers); nodegauge's own probe needs no option
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) allow_run_as_root: bool,
    /// Measure without an MPI, over nodegauge's own transport: shm (shared memory), tcp (loopback) [default without an
    /// MPI: both]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', num_args = 0..=1, require_equals = true, default_missing_value = "shm,tcp", conflicts_with_all = ["mpicc", "launcher", "hosts", "osu"], help_heading = "How")]
    pub(crate) transport: Vec<Fabric>,
    /// Leave out the lower bound: latency and bw over nodegauge's own shared memory, interleaved with the MPI
    #[arg(long, help_heading = "How")]
    pub(crate) no_floor: bool,
    /// Patterns by name.
    #[arg(long, help = pattern_names(), value_name = "NAMES", default_value = "p2p", value_parser = patterns, help_heading = "What")]
    pub(crate) patterns: Patterns,
    /// Message sizes: A-B in powers of two, or a list, e.g. 8,4KiB,1MiB [default: 0, 1 B to 4 MiB]
    #[arg(long, short = 'm', value_name = "SIZES", value_parser = sizes, help_heading = "What")]
    pub(crate) sizes: Option<MessageSizes>,
    /// Number of messages in flight, for bw, bibw and mbw_mr
    #[arg(long, short = 'W', value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "How")]
    pub(crate) window: u32,
    /// Exactly this many timed operations per size [default: until the median is stable]
    #[arg(long, short = 'i', value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000), help_heading = "How long")]
    pub(crate) iterations: Option<u64>,
    /// Number of warm-up operations [default: 100, large messages 10; windows: 10 and 2]
    #[arg(long, short = 'x', value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1_000_000_000), help_heading = "How")]
    pub(crate) warm_up: Option<u64>,
    /// Maximum buffer per rank; larger sizes of collectives and windows are left out [default: 512MiB]
    #[arg(long, short = 'M', value_name = "SIZE", help_heading = "Rarely needed")]
    pub(crate) mem_limit: Option<Bytes>,
    /// Buffers: single (rates within a node are cache rates), multiple (one per message of the window)
    #[arg(
        long,
        short = 'b',
        value_name = "KIND",
        default_value = "single",
        help_heading = "Rarely needed"
    )]
    pub(crate) buffers: WindowBuffers,
    /// Number of rounds per size in which all data is checked; 0: none
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(0..=1000), help_heading = "Rarely needed")]
    pub(crate) validate: u32,
    /// Timed unit: batch of operations (OSU 5 and 6), or each operation (OSU 7)
    #[arg(long, value_name = "KIND", default_value = "batch", help_heading = "Rarely needed")]
    pub(crate) timing: Timing,
    /// Threads of latency_mt; 4 means 1:4, as in osu_latency_mt -t 4 [default: 1:2; on two cores, 1:1]
    #[arg(long, short = 't', value_name = "[SENDERS:]RECEIVERS", help_heading = "How")]
    pub(crate) threads: Option<SideThreads>,
    /// Time limit per size, e.g. 0.25 (seconds) or 1m
    #[arg(long = "time-limit", alias = "size-limit", value_name = "TIME", value_parser = limit, help_heading = "How long")]
    pub(crate) size_limit: Option<Duration>,
    /// Pairs: distances (smt, l3, numa, socket, node), CPU-CPU, or all for a matrix of cores [default: one
    /// pair per distance]
    #[arg(long, value_name = "PAIRS", value_parser = pairs, conflicts_with = "hosts", help_heading = "Where")]
    pub(crate) pairs: Option<RankPairs>,
    /// Ranks of multi_lat, mbw_mr and collectives [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=65_536), help_heading = "Where")]
    pub(crate) ranks: Option<u32>,
    /// Measure between these hosts, e.g. node[01-04],b, with one rank on each: a ring, then random pairs; 'slurm' means
    /// the hosts of the job
    #[arg(long, value_name = "HOSTS", help_heading = "Where")]
    pub(crate) hosts: Vec<HostList>,
    /// Folder with a build of the OSU micro-benchmarks, run interleaved with nodegauge's (one per --mpicc)
    #[arg(long, value_name = "DIR", conflicts_with = "hosts", help_heading = "What")]
    pub(crate) osu: Vec<PathBuf>,
    /// Print tables in the columns of the OSU micro-benchmarks
    #[arg(long, help_heading = "Output")]
    pub(crate) osu_text: bool,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

/// Patterns, in the order in which they run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patterns {
    pub(crate) list: Vec<Pattern>,
    /// True if a pattern was given by its own name and must be measured. Patterns of a group may be left out.
    pub(crate) named: bool,
}

/// Message sizes, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageSizes(pub(crate) Vec<u64>);

/// Maximum message size in bytes; MPI counts are signed 32-bit integers.
const MAX_BYTES: u64 = 1 << 30;

/// Returns the help of `--patterns`.
fn pattern_names() -> String {
    let pairs = Pattern::point_to_point().map(Pattern::name).collect::<Vec<_>>().join(", ");
    let collectives = Pattern::collectives().map(Pattern::name).collect::<Vec<_>>().join(", ");
    format!("Patterns: {pairs} (p2p); {collectives} (collectives); or p2p, collectives, all")
}

/// Parses names of patterns and of groups of patterns.
fn patterns(text: &str) -> Result<Patterns, SyntaxError> {
    let mut cursor = Cursor::new("patterns", "--patterns latency,bw or --patterns p2p", text);
    let mut patterns = Patterns { list: Vec::new(), named: false };
    loop {
        cursor.skip_blanks();
        let start = cursor.position();
        match cursor.take_while(|c| c != ',').trim_end() {
            "all" => patterns.list.extend(Pattern::ALL.iter()),
            "p2p" => patterns.list.extend(Pattern::point_to_point()),
            "collectives" => patterns.list.extend(Pattern::collectives()),
            name => {
                let pattern: Result<Pattern, UnknownName> = name.parse();
                let pattern = pattern.map_err(|error| cursor.unknown_at(start, &error))?;
                patterns.list.push(pattern);
                patterns.named = true;
            }
        }
        if !cursor.eat(',') {
            break;
        }
    }
    patterns.list.sort_unstable();
    patterns.list.dedup();
    Ok(patterns)
}

/// Parses message sizes: `A-B` for powers of two, or a list.
fn sizes(text: &str) -> Result<MessageSizes, SyntaxError> {
    let mut cursor = Cursor::new("sizes", "--sizes 8,1KiB,1MiB or --sizes 1-4MiB", text);
    let first = message_size(&mut cursor)?;
    let mut sizes = vec![first];
    // `A:B` is an older syntax for a range.
    if cursor.eat('-') || cursor.eat(':') {
        let end_at = cursor.position();
        let last = message_size(&mut cursor)?;
        if first > last {
            return Err(cursor.error_at(end_at, "a range must begin with the smaller size"));
        }
        let powers = std::iter::successors(Some(first.max(1)), |size| size.checked_mul(2));
        sizes.extend(powers.take_while(|size| *size <= last));
    } else {
        while cursor.eat(',') {
            sizes.push(message_size(&mut cursor)?);
        }
    }
    cursor.finish("expected ',', '-' or the end after a size")?;
    sizes.sort_unstable();
    sizes.dedup();
    Ok(MessageSizes(sizes))
}

/// Parses a message size in bytes.
fn message_size(cursor: &mut Cursor<'_>) -> Result<u64, SyntaxError> {
    cursor.skip_blanks();
    let start = cursor.position();
    let Bytes(bytes) = read_bytes(cursor)?;
    cursor.skip_blanks();
    if bytes > MAX_BYTES {
        let problem = format!("the maximum message size is {}", Bytes(MAX_BYTES));
        return Err(cursor.error_at(start, problem));
    }
    Ok(bytes)
}

/// Parses the time limit per size.
fn limit(text: &str) -> Result<Duration, SyntaxError> {
    parse_seconds_from(0.001, text)
}

/// Parses the pairs of CPUs: `all`, two CPUs, or distances.
fn pairs(text: &str) -> Result<RankPairs, SyntaxError> {
    if text == "all" {
        return Ok(RankPairs::All);
    }
    let mut cursor = Cursor::new("pairs", "--pairs 0-1, --pairs smt,l3 or --pairs all", text);
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        let first = cpu(&mut cursor)?;
        cursor.expect('-', "expected '-' and a second CPU")?;
        let second_at = cursor.position();
        let second = cpu(&mut cursor)?;
        cursor.finish("expected nothing after two CPUs")?;
        if first == second {
            return Err(cursor.error_at(second_at, "a pair needs two CPUs"));
        }
        return Ok(RankPairs::Cpus(first, second));
    }
    let mut distances: Vec<Distance> = Vec::new();
    loop {
        let start = cursor.position();
        let word = cursor.take_while(|c| c != ',');
        let distance: Result<Distance, UnknownName> = word.parse();
        distances.push(distance.map_err(|error| cursor.unknown_at(start, &error))?);
        if !cursor.eat(',') {
            return Ok(RankPairs::Distances(distances));
        }
    }
}

/// Parses the number of a CPU.
fn cpu(cursor: &mut Cursor<'_>) -> Result<CpuId, SyntaxError> {
    let start = cursor.position();
    let number = cursor.number("expected the number of a CPU")?;
    let number = u32::try_from(number);
    number.map(CpuId).map_err(|_| cursor.error_at(start, "this number is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_sizes_are_ranges_of_powers_or_lists() {
        let of = |text: &str| sizes(text).map(|sizes| sizes.0);
        assert_eq!(of("0-8"), Ok(vec![0, 1, 2, 4, 8]));
        assert_eq!(of("0:8"), of("0-8"));
        assert_eq!(of("1KiB:4KiB"), Ok(vec![1024, 2048, 4096]));
        assert_eq!(of("4KiB,8,8"), Ok(vec![8, 4096]));
        assert!(
            of("8:4").is_err() && of("2GiB").is_err() && of("many").is_err() && of("").is_err()
        );
    }

    #[test]
    fn rank_pairs_are_distances_cpus_or_all() {
        assert_eq!(pairs("all"), Ok(RankPairs::All));
        assert_eq!(pairs("0-5"), Ok(RankPairs::Cpus(CpuId(0), CpuId(5))));
        assert_eq!(
            pairs("l3,node"),
            Ok(RankPairs::Distances(vec![Distance::Cache, Distance::OtherSocket]))
        );
        assert!(pairs("0-0").is_err() && pairs("l4").is_err() && pairs("0-x").is_err());
    }

    #[test]
    fn message_patterns_have_group_names() {
        assert_eq!(patterns("p2p").map(|p| p.list.len()), Ok(6));
        assert_eq!(patterns("all").map(|p| p.list.len()), Ok(11));
        let two = patterns("bw,latency").unwrap();
        assert_eq!((two.list, two.named), (vec![Pattern::Latency, Pattern::Bw], true));
        assert!(patterns("bandwidth").is_err());
    }
}
