//! Cases for all parsers: mutated texts, each read in bounded time without a panic.

use crate::mutate::mutated;
use crate::parsers::Parser;
use fastrand::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Longer than this no text may be read for, on a machine that does ten other things: a hundred times what the
/// slowest takes.
const LONGEST: Duration = Duration::from_secs(10);
/// Findings after which a parser has had enough.
const MOST: usize = 5;

/// What came of the cases of a parser.
pub struct Ran {
    pub cases: u64,
    pub slowest: Duration,
    /// What went wrong with which text.
    pub findings: Vec<String>,
}

/// Reads `cases` texts, less for what is slow.
pub fn run(parser: &Parser, cases: u64, seed: u64) -> Ran {
    let mix = |seed: u64, byte: u8| seed.wrapping_mul(31).wrapping_add(u64::from(byte));
    let mut rng = Rng::with_seed(parser.name.bytes().fold(seed, mix));
    let cases = cases.div_ceil(parser.one_in);
    let mut ran = Ran { cases, slowest: Duration::ZERO, findings: Vec::new() };
    let seeds = &parser.seeds;
    for case in 0..cases {
        let any = |rng: &mut Rng| seeds[rng.usize(..seeds.len())].as_slice();
        // Seeds themselves come first.
        let text = match seeds.get(case as usize) {
            Some(seed) => seed.clone(),
            None => mutated(any(&mut rng), any(&mut rng), &mut rng),
        };
        let begun = Instant::now();
        let read = catch_unwind(AssertUnwindSafe(|| (parser.read)(&text)));
        let took = begun.elapsed();
        ran.slowest = ran.slowest.max(took);
        let wrong = match read {
            Ok(Ok(())) if took < LONGEST => continue,
            Ok(Ok(())) => format!("it takes {took:?}"),
            Ok(Err(wrong)) => wrong,
            Err(panic) => {
                let said = panic.downcast_ref::<String>().cloned();
                let said =
                    said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
                format!("panic: {}", said.unwrap_or_default())
            }
        };
        let text: String = String::from_utf8_lossy(&text).escape_debug().take(600).collect();
        ran.findings.push(format!("{}: {wrong}\n  \"{text}\"", parser.name));
        if ran.findings.len() == MOST {
            break;
        }
    }
    ran
}

/// The most memory that this process has had, bytes.
pub fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    most.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
