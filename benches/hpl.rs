//! Compares nodegauge's LU with reference programs, which alternate in one run: dgetrf of the same OpenBLAS on all
//! threads, Debian's hpcc with one rank per core at each NB, and likwid-bench's peakflops.
//!
//! Every program runs once per round, for `ROUNDS` rounds (default 3), with order `N` (default 8000) and panel widths
//! `NBS` (default 128,192,256). The first run after a change of program is slower (page faults, clocks), so a small
//! system is solved before each round. The library is `BLAS` (default Debian's libopenblas.so.0); OPENBLAS_CORETYPE
//! selects its kernels for all programs. Ratios of bests and of medians are printed. Prints Markdown and writes the
//! result file.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a program for a terminal")]

mod common;

use common::{
    BestAndMedian, Comparison, UNKNOWN, likwid_bench, note, variable, version_of, write_results,
};
use nodegauge_compute::{choose, dat, output};
use nodegauge_lu::matrix::Matrix;
use nodegauge_lu::{Multiplier, dgemm, factorisation, peak, random, residual};
use nodegauge_measure::stats;
use nodegauge_team::Team;
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::blas::{self, BlasLibrary, BlasProber};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Default panel widths.
const NBS: [usize; 3] = [128, 192, 256];
/// Order of the system that is solved before each round.
const WARM_UP: usize = 2000;
/// Peak loops of likwid-bench.
const PEAKS: [&str; 4] =
    ["peakflops_sse", "peakflops_avx", "peakflops_avx_fma", "peakflops_avx512_fma"];

type Rates = BTreeMap<String, Vec<f64>>;

/// Runs DGETRF of the library on all its threads and returns FLOP/s. It runs in a child process, because in this
/// process the library has one thread.
fn dgetrf(path: &Path, n: usize) -> f64 {
    type Dgetrf =
        unsafe extern "C" fn(*const i32, *const i32, *mut f64, *const i32, *mut i32, *mut i32);
    let mut matrix = Matrix::allocate(n).expect("memory");
    let sequence = random::Sequence::new(1);
    for j in 0..n {
        residual::MatrixSource::column(&sequence, j, matrix.column(j));
    }
    let order = n as i32;
    let ld = matrix.distance() as i32;
    let mut pivots = vec![0i32; n];
    let mut info = 0i32;
    let a = matrix.column(0).as_mut_ptr();
    // SAFETY: the type is that of LAPACK's Fortran interface; the matrix has n columns with leading dimension `ld`.
    unsafe {
        let library = libloading::Library::new(path).expect("the library");
        let dgetrf: libloading::Symbol<'_, Dgetrf> = library.get(b"dgetrf_").expect("dgetrf");
        let start = Instant::now();
        dgetrf(&order, &order, a, &ld, pivots.as_mut_ptr(), &raw mut info);
        let seconds = start.elapsed().as_secs_f64();
        std::mem::forget(library);
        factorisation::flops(n) / seconds
    }
}

/// Runs the HPL in hpcc; returns the rate for each NB. hpcc runs HPL last and its other tests take a long time, so one
/// run covers all NB.
fn hpcc(n: usize, nbs: &[usize], ranks: usize) -> Option<Vec<(usize, f64)>> {
    let folder = tempfile::tempdir().ok()?;
    let input = dat::format_input(n, nbs, &[nodegauge_compute::size::grid(ranks)], "as measured");
    std::fs::write(folder.path().join("hpccinf.txt"), input).ok()?;
    let ran = Command::new("mpirun.openmpi")
        .args(["--allow-run-as-root", "--bind-to", "core", "-np", &ranks.to_string(), "hpcc"])
        .env("OPENBLAS_NUM_THREADS", "1")
        .current_dir(folder.path())
        .output();
    let text =
        ran.and_then(|_| std::fs::read_to_string(folder.path().join("hpccoutf.txt"))).ok()?;
    let rows = output::read(&text).rows;
    Some(
        rows.iter()
            .filter(|row| row.passed == Some(true))
            .map(|row| (row.nb, row.rate.0))
            .collect(),
    )
}

/// Solves a system natively, checks the solution, and returns the rating in FLOP/s.
fn solve(team: &mut Team, n: usize, nb: usize, multiplier: &Multiplier) -> f64 {
    let sequence = random::Sequence::new(1);
    let mut matrix = Matrix::allocate(n).expect("memory");
    residual::fill(team, &mut matrix, &sequence, &mut || false).expect("threads");
    let progress = factorisation::LuProgress::default();
    let time = factorisation::solve(team, &mut matrix, nb, multiplier, &progress).expect("x");
    let residual = residual::compute_residual(team, &sequence, matrix.column(n)).expect("threads");
    assert!(residual.passes(), "residual {:?}", residual.value);
    factorisation::flops(n) / time.total.0
}

/// Loads the library after a child process has tested it.
fn load(blas: &str) -> BlasLibrary {
    let request = blas.parse().expect("a request");
    let candidate = blas::find::resolve(&request, &[]).expect("a library");
    let program = std::env::current_exe().expect("this program").display().to_string();
    let prober = BlasProber { command: CommandLine::new(program, ["probe".to_owned()]) };
    let probed = prober.probe(&candidate, &|| false).expect("a library that computes");
    BlasLibrary::load(&probed).expect("the library")
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let n: usize = variable("N").unwrap_or(8000);
    if let Some(at) = args.iter().position(|word| word == "dgetrf") {
        println!("{}", dgetrf(Path::new(&args[at + 1]), n));
        return;
    }
    if let Some(at) = args.iter().position(|word| word == "probe") {
        println!(
            "{}",
            choose::child_output(Path::new(&args[at + 1]), false, &choose::TrialPlaces::default())
        );
        return;
    }
    let default =
        format!("/usr/lib/{}-linux-gnu/openblas-pthread/libopenblas.so.0", std::env::consts::ARCH);
    let blas: String = variable("BLAS").unwrap_or(default);
    let cpus = nodegauge_placement::pin::current_affinity().expect("CPUs");
    let places: Vec<_> = cpus.iter().map(|cpu| vec![*cpu]).collect();
    let mut team = Team::start(&places).expect("threads");
    let multiplier = Multiplier::Library(load(&blas));
    let mut rates = Rates::new();
    let mut keep = |name: String, rate: f64| {
        note(&format!("{name:24} {:.1} GFLOP/s", rate / 1e9));
        rates.entry(name).or_default().push(rate);
    };
    let me = std::env::current_exe().expect("this program");
    let nbs: Vec<usize> = match std::env::var("NBS") {
        Ok(list) => list.split(',').filter_map(|nb| nb.parse().ok()).collect(),
        Err(_) => NBS.to_vec(),
    };
    let group = format!("S0:{}kB:{}", 16 * cpus.len(), cpus.len());
    for _ in 0..variable("ROUNDS").unwrap_or(3) {
        solve(&mut team, WARM_UP, 128, &multiplier);
        for nb in nbs.iter().copied() {
            keep(format!("nodegauge NB {nb}"), solve(&mut team, n, nb, &multiplier));
            let child = Command::new(&me).args(["dgetrf", &blas]).env("N", n.to_string()).output();
            let text = child.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            if let Some(rate) = text.ok().and_then(|text| text.trim().parse().ok()) {
                keep("dgetrf".to_owned(), rate);
            }
            let dgemm = dgemm::measure(&mut team, &multiplier, Duration::from_millis(500));
            let dgemm = dgemm.expect("threads").into_iter().fold(0.0, f64::max);
            keep("DGEMM".to_owned(), dgemm);
        }
        for (nb, rate) in hpcc(n, &nbs, cpus.len()).unwrap_or_default() {
            keep(format!("hpcc NB {nb}"), rate);
        }
        for kernel in peak::loops().iter().filter(|kernel| kernel.element == "f64") {
            let bursts =
                (0..25).map(|_| peak::run_burst(&mut team, kernel).expect("threads").rate.0);
            keep(format!("peak {}", kernel.isa), bursts.fold(0.0, f64::max));
        }
        for kernel in PEAKS {
            if let Some(rate) = likwid_bench(kernel, &group, "MFlops/s:", &[]) {
                keep(format!("likwid {kernel}"), rate);
            }
        }
    }
    report(&rates, &multiplier, n);
}

fn report(rates: &Rates, multiplier: &Multiplier, n: usize) {
    println!("{multiplier}, N = {n}:\n");
    println!("| program | best GFLOP/s | median | runs |\n| --- | --- | --- | --- |");
    for (name, all) in rates {
        let best = all.iter().copied().fold(0.0, f64::max);
        println!(
            "| {name} | {:.1} | {:.1} | {} |",
            best / 1e9,
            stats::median(all) / 1e9,
            all.len()
        );
    }
    let of = |start: &str, what: &dyn Fn(&[f64]) -> f64| {
        rates
            .iter()
            .filter(|(name, _)| name.starts_with(start))
            .map(|(_, all)| what(all))
            .fold(0.0, f64::max)
    };
    let best = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
    println!("\n| ratio | best / best | median / median |\n| --- | --- | --- |");
    let likwid = version_of("likwid-bench", &["-v"]);
    let library = multiplier.to_string();
    let order = format!("N = {n}");
    // DGEMM is no peer but an upper bound of LU.
    let ratios = [
        ("nodegauge", "hpcc", Some(("hpcc", order.as_str(), UNKNOWN))),
        ("nodegauge", "dgetrf", Some(("dgetrf", order.as_str(), library.as_str()))),
        ("nodegauge", "DGEMM", None),
        ("peak", "likwid", Some(("likwid-peaks", "double precision", likwid.as_str()))),
    ];
    let mut comparisons = Vec::new();
    for (a, b, peer) in ratios {
        let both = |name: &str| BestAndMedian::both(of(name, &best), of(name, &stats::median));
        let [own, theirs] = [both(a), both(b)];
        let ratio = own.ratio_to(theirs);
        let [of_bests, of_medians] =
            [ratio.best, ratio.median].map(|ratio| ratio.unwrap_or(f64::NAN));
        println!("| {a} / {b} | {of_bests:.3} | {of_medians:.3} |");
        if let Some((peer, quantity, version)) = peer {
            let [own, theirs] = [own, theirs].map(|rate| rate.scaled(1e-9));
            let quantity = quantity.to_owned();
            let compared = Comparison::from_rates(peer, quantity, "GFLOP/s", own, theirs);
            comparisons.push(compared.with_version(version));
        }
    }
    write_results("hpl", &comparisons);
}
