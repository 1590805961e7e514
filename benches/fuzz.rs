//! Fuzzing of all parsers: they read a million mutated texts. Prints the time per parser. `FUZZ_CASES` sets the number
//! of texts, and `FUZZ_SEED` the seed of the mutations.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../tests/fuzz/cases.rs"]
mod cases;
#[path = "../tests/fuzz/mutate.rs"]
mod mutate;
#[path = "../tests/fuzz/parsers.rs"]
mod parsers;

use std::time::Instant;

fn main() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let all = number("FUZZ_CASES").unwrap_or(1_000_000);
    let seed = number("FUZZ_SEED").unwrap_or(2);
    // A panic is reported as a finding, so the default message is suppressed.
    std::panic::set_hook(Box::new(|_| {}));
    let parsers = parsers::all();
    let shares: f64 = parsers.iter().map(|parser| 1.0 / parser.one_in as f64).sum();
    let each = (all as f64 / shares).ceil() as u64;
    let begun = Instant::now();
    let mut total = 0;
    let mut all_found = 0;
    println!("{:22} {:>8} {:>8} {:>9}  findings", "parser", "cases", "s", "slowest");
    for parser in &parsers {
        let parse_begun = Instant::now();
        let ran = cases::run(parser, each, seed);
        let seconds = parse_begun.elapsed().as_secs_f64();
        let slowest = ran.slowest.as_secs_f64() * 1e3;
        let found = ran.findings.len();
        println!("{:22} {:8} {seconds:8.1} {slowest:6.1} ms  {found}", parser.name, ran.cases);
        ran.findings.iter().for_each(|finding| println!("{finding}"));
        total += ran.cases;
        all_found += found;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let memory = cases::peak_memory() >> 20;
    println!("{total} cases in {seconds:.0} s, at most {memory} MiB, {all_found} findings");
    std::process::exit(i32::from(all_found > 0));
}
