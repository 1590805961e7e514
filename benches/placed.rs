//! Places programs with known memory traffic on the curves: `nodegauge memory curves -- PROGRAM`, with programs that
//! read at 10 to 90 % of the full rate of a CPU, and with one without memory traffic.
//!
//! Each program runs `ROUNDS` times (default 20), in random order. A result is correct if its share of the full rate is
//! within ten percentage points of the share that the program itself counted. Prints Markdown.

mod common;

use common::{nodegauge_program, note, print, variable};
use nodegauge_measure::record::Record;
use nodegauge_measure::schedule::shuffle::Shuffler;
use nodegauge_measure::stats;
use std::path::Path;
use std::process::Command;

/// Shares of the full rate at which the programs read, percent. At 0, a program does not access memory.
const SHARES: [u32; 6] = [0, 10, 30, 50, 70, 90];
/// Maximum difference between the shares of a correct result.
const NEAR: f64 = 0.1;
/// Duration of a run of a program in seconds.
const SECONDS: &str = "1.5";

/// Program that reads 128 MiB in blocks of 64 KiB. After each block it waits, so that its rate is the requested share
/// of the full rate. It reads a given number of blocks and, like most programs, takes longer if it is slowed down.
/// Without a number, it reads for a given time. It prints the bytes read per second, the bytes per second of reading,
/// and the number of blocks.
const SOURCE: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
enum { BLOCK = 1 << 16 };
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
static volatile uint64_t sink;
static void read_block(const uint64_t *p) {
  uint64_t s[8] = {0};
  for (size_t i = 0; i < BLOCK / 8; i += 8)
    for (int k = 0; k < 8; k++) s[k] += p[i + k];
  sink = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}
int main(int argc, char **argv) {
  double share = atof(argv[1]) / 100, seconds = atof(argv[2]);
  size_t size = (size_t)128 << 20;
  char *a = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(a, size, MADV_HUGEPAGE);
  if (share > 0) memset(a, 1, size);
  long blocks = argc > 3 ? atol(argv[3]) : 0, done = 0;
  double bytes = 0, busy = 0, begun = now();
  size_t at = 0;
  while (blocks > 0 ? done < blocks : now() - begun < seconds) {
    if (share <= 0) continue;
    double start = now();
    read_block((const uint64_t *)(a + at));
    double taken = now() - start;
    busy += taken;
    bytes += BLOCK;
    done++;
    at = (at + BLOCK) % size;
    double end = now() + taken * (1 / share - 1);
    while (now() < end) {
    }
  }
  printf("%.0f %.0f %ld\n", bytes / (now() - begun), busy > 0 ? bytes / busy : 0, done);
  return 0;
}
"#;

/// Builds the program in a folder; returns its path.
fn build(folder: &Path) -> String {
    let source = folder.join("reads.c");
    std::fs::write(&source, SOURCE).expect("the folder is writable");
    let program = folder.join("reads").display().to_string();
    let status = Command::new("gcc")
        .args(["-O3", "-march=native", "-o", &program])
        .arg(&source)
        .status()
        .expect("gcc runs");
    assert!(status.success(), "gcc builds the program");
    program
}

/// Run of a program without nodegauge.
struct KnownRun {
    /// Share of the full rate that the program counted.
    share: f64,
    /// Number of blocks that it read.
    blocks: String,
}

/// Runs a program without nodegauge for [`SECONDS`].
fn run_alone(program: &str, share: u32) -> KnownRun {
    let output = Command::new("taskset")
        .args(["-c", "0", program, &share.to_string(), SECONDS])
        .output()
        .expect("taskset runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let measured = if numbers[1] > 0.0 { numbers[0] / numbers[1] } else { 0.0 };
    KnownRun { share: measured, blocks: format!("{:.0}", numbers[2]) }
}

/// Returns the share of the full rate that `memory curves` measured: zero without traffic, `None` if it is unknown.
fn measured_share(record: &Record) -> Option<f64> {
    let figure = |name: &str| record.measurements.iter().find(|m| m.name == name);
    if figure("program_bandwidth_below").is_some() {
        return Some(0.0);
    }
    Some(figure("program_bandwidth")?.limit.as_ref()?.fraction.0)
}

fn main() {
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let rounds: usize = variable("ROUNDS").unwrap_or(20);
    let budget = std::env::var("BUDGET").unwrap_or_else(|_| "30".to_owned());
    let folder = std::env::temp_dir().join(format!("nodegauge-placed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder is writable");
    let program = build(&folder);
    let args = ["memory", "curves", "--mixes", "1:0", "--budget", &budget];
    let mut results: Vec<Vec<(f64, Option<f64>)>> = vec![Vec::new(); SHARES.len()];
    let mut shuffler = Shuffler::new(53);
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..SHARES.len()).collect();
        shuffler.shuffle(&mut order);
        for number in order {
            let share = SHARES[number].to_string();
            let own = run_alone(&program, SHARES[number]);
            let placed = ["--", &program, &share, SECONDS, &own.blocks];
            let record = nodegauge_program(&args, &placed);
            let drawn = measured_share(&record);
            let counted = own.share;
            note(&format!("round {round}: {share} %, counted {counted:.3}, found {drawn:.3?}"));
            results[number].push((counted, drawn));
        }
    }
    print("| program | counted | found, median | within ten points | unknown |");
    print("| --- | ---: | ---: | ---: | ---: |");
    for (share, of_program) in SHARES.iter().zip(&results) {
        let counted: Vec<f64> = of_program.iter().map(|(own, _)| *own).collect();
        let known: Vec<f64> = of_program.iter().filter_map(|(_, drawn)| *drawn).collect();
        let near = of_program
            .iter()
            .filter(|(own, drawn)| drawn.is_some_and(|drawn| (drawn - own).abs() <= NEAR));
        print(&format!(
            "| {share} % | {:.0} % | {:.0} % | {} of {} | {} |",
            100.0 * stats::median(&counted),
            100.0 * stats::median(&known),
            near.count(),
            of_program.len(),
            of_program.len() - known.len(),
        ));
    }
    // The files are in the folder for temporary files, so a failure to remove them does no harm.
    let _ = std::fs::remove_dir_all(&folder);
}
