//! Compares the loop of `nodegauge apps trapezoid` with the same loop compiled by gcc, interleaved on one thread.
//!
//! `CC` is the compiler (default gcc); arguments replace its flags `-O3 -march=native`. Prints Markdown. Writes the
//! result file only with the default compiler and flags.

mod common;

use common::{BestAndMedian, Comparison, note, print, range, variable, version_of, write_results};
use nodegauge_measure::stats;
use nodegauge_solvers::trapezoid::TrapezoidLoop;
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

/// Number of intervals per sum. A sum takes about 0.1 s on a core with a clock of several GHz.
const POINTS: u64 = 100_000_000;
/// Number of rounds.
const ROUNDS: usize = 30;
const SOURCE: &str = "double share(unsigned long first, unsigned long end, double h) {\n    double sum = 0;\n    for (unsigned long i = first; i < end; i++) {\n        double x = i * h;\n        sum += 4.0 / (1.0 + x * x);\n    }\n    return sum * h;\n}\n";

/// Function that adds the points from `first` to `end` with distance `h`.
type Share = unsafe extern "C" fn(u64, u64, f64) -> f64;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("share.c");
    let object = folder.path().join("share.so");
    std::fs::write(&source, SOURCE).expect("the source");
    let compiler: String = variable("CC").unwrap_or_else(|| "gcc".to_owned());
    // `cargo bench` adds options to the arguments.
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let is_default = asked.is_empty() && compiler == "gcc";
    let flags =
        if asked.is_empty() { vec!["-O3".to_owned(), "-march=native".to_owned()] } else { asked };
    let mut command = Command::new(&compiler);
    command.args(&flags).args(["-shared", "-fPIC", "-o"]).arg(&object).arg(&source);
    assert!(command.status().expect("the compiler").success(), "{command:?}");
    // SAFETY: the library has only the function above.
    let library = unsafe { libloading::Library::new(&object) }.expect("the library");
    // SAFETY: the function has this type.
    let theirs = unsafe { library.get::<Share>(b"share") }.expect("the function");
    let rule = TrapezoidLoop::detect();
    let rate = |sum: &dyn Fn() -> f64| {
        let begun = Instant::now();
        let pi = black_box(sum());
        assert!((pi - std::f64::consts::PI).abs() < 1e-7, "{pi}");
        POINTS as f64 / begun.elapsed().as_secs_f64()
    };
    let ours = || rule.partial_integral(black_box(POINTS), 0, 1);
    // SAFETY: the arguments match the source.
    let theirs =
        || unsafe { theirs(1, black_box(POINTS), 1.0 / POINTS as f64) } + 3.0 / POINTS as f64;
    note(&format!("{ROUNDS} rounds of {POINTS} intervals ..."));
    let mut rates: [Vec<f64>; 2] = Default::default();
    for _ in 0..=ROUNDS {
        rates[0].push(rate(&ours));
        rates[1].push(rate(&theirs));
    }
    let mut ratios: Vec<f64> =
        rates[0].iter().zip(&rates[1]).skip(1).map(|(own, peer)| own / peer).collect();
    ratios.sort_by(f64::total_cmp);
    let best = |series: &[f64]| series[1..].iter().fold(0.0, |most: f64, sample| most.max(*sample));
    let [own, other] = [best(&rates[0]), best(&rates[1])];
    print(&format!(
        "| loop | G intervals/s, best | ratio of bests | median of ratios | 5 % to 95 % |\n| --- | --- | --- | --- | --- |\n| nodegauge, {} | {:.3} | | | |\n| {compiler} {} | {:.3} | {:.3} | {:.3} | {:.3} to {:.3} |\n",
        rule.isa_name(),
        own / 1e9,
        flags.join(" "),
        other / 1e9,
        own / other,
        ratios[ratios.len() / 2],
        ratios[ratios.len() / 20],
        ratios[ratios.len() - 1 - ratios.len() / 20],
    ));
    if is_default {
        let figure = |series: &[f64]| {
            BestAndMedian::both(best(series), stats::median(&series[1..])).scaled(1e-9)
        };
        let [native, compiled] = [figure(&rates[0]), figure(&rates[1])];
        let quantity = "trapezoid rule".to_owned();
        let comparison =
            Comparison::from_rates("gcc-loop", quantity, "G intervals/s", native, compiled);
        let ratio = BestAndMedian { median: Some(ratios[ratios.len() / 2]), ..comparison.ratio };
        let middle = &ratios[ratios.len() / 20..ratios.len() - ratios.len() / 20];
        let version = version_of("gcc", &["-dumpfullversion"]);
        let comparison = comparison.with_version(version).with_noise(range(middle));
        write_results("trapezoid", &[Comparison { ratio, ..comparison }]);
    }
}
