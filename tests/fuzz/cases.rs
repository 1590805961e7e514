//! Fuzzing of a parser: it reads mutated texts; panics and long times are reported.

use crate::mutate::mutated;
use crate::parsers::Parser;
use fastrand::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Maximum time for a text, even on a busy machine. It is a hundred times the time of the slowest parser.
const LONGEST: Duration = Duration::from_secs(10);
/// Number of failures after which the test of a parser stops.
const MAX_FAILURES: usize = 5;

/// Result of fuzzing a parser.
pub struct Ran {
    pub cases: u64,
    pub slowest: Duration,
    /// Failures, each with the text that caused it.
    pub findings: Vec<String>,
}

/// Reads `cases` texts with a parser, or fewer if the parser is slow.
pub fn run(parser: &Parser, cases: u64, seed: u64) -> Ran {
    let mix = |state: u64, byte: u8| state.wrapping_mul(31).wrapping_add(u64::from(byte));
    let mut rng = Rng::with_seed(parser.name.bytes().fold(seed, mix));
    let cases = cases.div_ceil(parser.one_in);
    let mut ran = Ran { cases, slowest: Duration::ZERO, findings: Vec::new() };
    let seeds = &parser.seeds;
    for case in 0..cases {
        let any = |generator: &mut Rng| seeds[generator.usize(..seeds.len())].as_slice();
        // The seeds are read first, without a mutation.
        let text = match seeds.get(case as usize) {
            Some(bytes) => bytes.clone(),
            None => mutated(any(&mut rng), any(&mut rng), &mut rng),
        };
        let begun = Instant::now();
        let read = catch_unwind(AssertUnwindSafe(|| (parser.read)(&text)));
        let elapsed = begun.elapsed();
        ran.slowest = ran.slowest.max(elapsed);
        let wrong = match read {
            Ok(Ok(())) if elapsed < LONGEST => continue,
            Ok(Ok(())) => format!("it takes {elapsed:?}"),
            Ok(Err(wrong)) => wrong,
            Err(panic) => {
                let message = panic.downcast_ref::<String>().cloned();
                let message = message
                    .or_else(|| panic.downcast_ref::<&str>().map(|literal| (*literal).to_owned()));
                format!("panic: {}", message.unwrap_or_default())
            }
        };
        let text: String = String::from_utf8_lossy(&text).escape_debug().take(600).collect();
        ran.findings.push(format!("{}: {wrong}\n  \"{text}\"", parser.name));
        if ran.findings.len() == MAX_FAILURES {
            break;
        }
    }
    ran
}

/// Returns the peak memory of this process in bytes.
pub fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    most.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
