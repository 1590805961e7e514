//! Compares `apps iccg` with Eigen and with plain C++ loops: products of the same matrix with a vector, and the
//! substitutions of a block-IC(0). The programs alternate for `ROUNDS` rounds (default 3). Also prints the share of the
//! node's bandwidth that each part of the solver reaches.
//!
//! Eigen's product (Debian: libeigen3-dev) and the plain loops are compiled with `g++ -O3 -march=native -fopenmp`. They
//! use the same number of threads, bound to cores, and read the same matrix from a file. `ELEMENTS` (default 60) is the
//! number of elements along an edge. The solver stops at a residual of 1e-4, so that a round takes only seconds. Prints
//! Markdown and writes the result file.

mod common;

use common::{
    BestAndMedian, Comparison, nodegauge, note, print, variable, version_of, write_results,
};
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::{Seconds, stats};
use nodegauge_solvers::elasticity::{Assembler, Mesh, StretchedBox, Subdomain};
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::Command;

/// Number of products in a run of Eigen.
const PRODUCTS: &str = "20";
/// Parts of an iteration.
const PARTS: [&str; 4] = ["spmv", "preconditioner", "dots", "axpy"];

fn main() {
    let rounds: usize = variable("ROUNDS").unwrap_or(3);
    let edge: usize = variable("ELEMENTS").unwrap_or(60);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let eigen = build_eigen(folder.path(), edge);
    let elements = [edge; 3].map(|n| n.to_string()).join(",");
    let mesh = ["apps", "iccg", "--elements", &elements, "--threads", &threads];
    let solve = [&mesh[..], &["--budget", "10", "--tolerance", "1e-4"]].concat();
    let mut runs = Vec::new();
    let mut rivals = Vec::new();
    for round in 0..rounds {
        note(&format!("round {} of {rounds}", round + 1));
        runs.push(nodegauge(&solve));
        if let Some(program) = &eigen {
            rivals.extend(products(program, &folder.path().join("matrix"), &threads));
        }
    }
    let unknowns = 3 * (edge + 1).pow(3);
    print(&format!(
        "{edge} x {edge} x {edge} hexahedra, {unknowns} unknowns, {threads} threads, {rounds} rounds\n"
    ));
    print("| loop | best | median | best over nodegauge's | median over nodegauge's |");
    print("| --- | --- | --- | --- | --- |");
    let seconds_of = |part: &str| {
        all_values(&runs, part, |m| {
            let bytes = number(m, "moved_bytes").unwrap_or(f64::NAN);
            m.samples.iter().map(|rate| bytes / rate).collect()
        })
    };
    let storage =
        runs.first().and_then(|run| figure(run, "spmv")).and_then(|m| m.config.get("storage"));
    let storage = storage.and_then(Value::as_str).unwrap_or("?");
    let product = seconds_of("spmv");
    print_line(&format!("product: nodegauge, {storage}"), &product, &product);
    let rivals_of = |name: &str| -> Vec<f64> {
        rivals.iter().filter(|(of, _)| of == name).map(|(_, seconds)| *seconds).collect()
    };
    let substitution = seconds_of("preconditioner");
    let mut comparisons = Vec::new();
    for (name, key, base) in [
        ("product: Eigen", "eigen", &product),
        ("product: plain 3 x 3 blocks", "product", &product),
        ("substitutions: nodegauge", "", &substitution),
        ("substitutions: plain 3 x 3 blocks", "substitution", &substitution),
    ] {
        let seconds = if key.is_empty() { substitution.clone() } else { rivals_of(key) };
        if !seconds.is_empty() {
            print_line(name, &seconds, base);
            comparisons.extend(comparison(key, edge, &seconds, base));
        }
    }
    print("\n| part | share of an iteration | of the prediction |\n| --- | --- | --- |");
    for part in PARTS.into_iter().chain(["rate"]) {
        let share = all_values(&runs, part, |m| number(m, "share").into_iter().collect());
        let reached =
            all_values(&runs, part, |m| m.limit.iter().map(|limit| limit.fraction.0).collect());
        let percent = |all: &[f64]| format!("{:.0} %", 100.0 * stats::median(all));
        let share = if share.is_empty() { String::new() } else { percent(&share) };
        let name = if part == "rate" { "iteration" } else { part };
        print(&format!("| {name} | {share} | {} |", percent(&reached)));
    }
    let setup = all_values(&runs, "iteration", |m| {
        let setup = number(m, "setup_s").zip(m.value);
        setup.map(|(setup, iteration)| setup / (100.0 * iteration)).into_iter().collect()
    });
    print(&format!("\nsetup: {:.1} % of 100 iterations", 100.0 * stats::median(&setup)));
    write_results("apps", &comparisons);
}

/// Returns the comparison of nodegauge's loops with the C++ loops `key`, for the result file; `None` if `key` is
/// nodegauge.
fn comparison(key: &str, edge: usize, seconds: &[f64], base: &[f64]) -> Option<Comparison> {
    let (peer, part) = match key {
        "eigen" => ("eigen", "product"),
        "product" | "substitution" => ("plain-blocks", key),
        _ => return None,
    };
    let version = if peer == "eigen" {
        let macros = Path::new("/usr/include/eigen3/Eigen/src/Core/util/Macros.h");
        let number = |name: &str| {
            let text = std::fs::read_to_string(macros).ok()?;
            let (_, rest) = text.split_once(name)?;
            Some(rest.split_whitespace().next()?.to_owned())
        };
        let [major, minor] = ["EIGEN_MAJOR_VERSION", "EIGEN_MINOR_VERSION"].map(number);
        major.zip(minor).map(|(major, minor)| format!("3.{major}.{minor}"))
    } else {
        Some(format!("g++ {}", version_of("g++", &["-dumpfullversion"])))
    };
    let figure = |times: &[f64]| {
        BestAndMedian::both(stats::quantile(times, 0.0), stats::median(times)).scaled(1e3)
    };
    let quantity = format!("{part} {edge}x{edge}x{edge}");
    let compared = Comparison::from_times(peer, quantity, "ms", figure(base), figure(seconds));
    let unknown = || common::UNKNOWN.to_owned();
    Some(compared.with_version(version.unwrap_or_else(unknown)))
}

fn figure<'r>(record: &'r Record, name: &str) -> Option<&'r Measurement> {
    record.measurements.iter().find(|m| m.test == "iccg" && m.name == name)
}

fn number(m: &Measurement, key: &str) -> Option<f64> {
    m.config.get(key).and_then(Value::as_f64)
}

/// Returns the values that `of` extracts from the figure `name` in each run.
fn all_values(runs: &[Record], name: &str, of: impl Fn(&Measurement) -> Vec<f64>) -> Vec<f64> {
    runs.iter().filter_map(|run| figure(run, name)).flat_map(of).collect()
}

fn print_line(name: &str, seconds: &[f64], base: &[f64]) {
    let best = stats::quantile(seconds, 0.0);
    let median = stats::median(seconds);
    let of_best = best / stats::quantile(base, 0.0);
    let of_median = median / stats::median(base);
    print(&format!(
        "| {name} | {} | {} | {of_best:.3} | {of_median:.3} |",
        Seconds(best),
        Seconds(median)
    ));
}

/// Compiles the C++ loops and writes their matrix; `None` if they cannot be compiled.
fn build_eigen(folder: &Path, edge: usize) -> Option<std::path::PathBuf> {
    let program = folder.join("eigen");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/elasticity.cpp");
    let compiled = Command::new("g++")
        .args(["-O3", "-march=native", "-fopenmp", "-I/usr/include/eigen3", "-o"])
        .args([&program, &source])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        note("Eigen is skipped: it cannot be compiled here (libeigen3-dev)");
        return None;
    }
    write_matrix(&folder.join("matrix"), edge).expect("room for the matrix");
    Some(program)
}

/// Writes the matrix by rows in natural order, in the format of benches/elasticity.cpp.
fn write_matrix(path: &Path, edge: usize) -> io::Result<()> {
    let whole = Subdomain::whole_mesh(Mesh { elements: [edge; 3] });
    let assembler = Assembler::new(&whole, &StretchedBox).map_err(io::Error::other)?;
    let rows = 3 * whole.mesh.point_count();
    let blocks = whole.mesh.block_count();
    let mut file = BufWriter::new(File::create(path)?);
    let mut put = |bytes: &[u8]| file.write_all(bytes);
    put(&(rows as i64).to_le_bytes())?;
    put(&(9 * blocks as i64).to_le_bytes())?;
    let nodes = || (0..whole.mesh.point_count()).map(|local| whole.node(local));
    let mut end = 0i64;
    put(&end.to_le_bytes())?;
    for node in nodes() {
        for _ in 0..3 {
            end += 3 * whole.neighbours(node).count() as i64;
            put(&end.to_le_bytes())?;
        }
    }
    for node in nodes() {
        for _ in 0..3 {
            for (_, other) in whole.neighbours(node) {
                for column in 0..3 {
                    put(&((3 * whole.local_number(other) + column) as i32).to_le_bytes())?;
                }
            }
        }
    }
    for node in nodes() {
        let row = assembler.row(node);
        for i in 0..3 {
            for (place, _) in whole.neighbours(node) {
                for value in row.blocks[place][i] {
                    put(&value.to_le_bytes())?;
                }
            }
        }
    }
    file.flush()
}

/// Runs the C++ loops; returns the name and the time in seconds of each pass.
fn products(program: &Path, matrix: &Path, threads: &str) -> Vec<(String, f64)> {
    let run = Command::new(program)
        .arg(matrix)
        .arg(PRODUCTS)
        .envs([("OMP_NUM_THREADS", threads), ("OMP_PLACES", "cores"), ("OMP_PROC_BIND", "close")])
        .output()
        .expect("the loops in C++ run");
    assert!(run.status.success(), "the loops in C++ failed: {:?}", run.status);
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let pass = |line: &str| {
        let (name, seconds) = line.split_once(' ')?;
        Some((name.to_owned(), seconds.parse().ok()?))
    };
    text.lines().filter_map(pass).collect()
}
