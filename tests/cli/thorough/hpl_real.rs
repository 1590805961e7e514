//! Tests of `nodegauge hpl` with the original HPL: its input, its output, and its launchers.

use crate::harness::{Harness, OPEN_MPI_AS_ROOT, Outcome, Part, make_program};
use crate::hpl::{SMALL, named};
use serde_json::Value;

/// Returns the path of a recorded output of the original HPL.
fn output(name: &str) -> String {
    format!("{}/../compute/tests/outputs/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn printed_hpl_text_can_be_imported() {
    let harness = Harness::new();
    let text = harness.run(&[&["hpl", "--hpl-text"], &SMALL[..]].concat()).exits(0).stdout;
    assert!(text.contains("WR20R2R4         600    64     1     1"), "{text}");
    assert!(text.contains("...... PASSED"));
    let file = harness.write("HPL.out", &text);
    let record = harness.imported(&file);
    let rating = named(&record, "rating")[0];
    assert_eq!((&rating["category"], &rating["config"]["n"]), (&"reference".into(), &600.into()));
    assert!(rating["value"].as_f64().unwrap() > 0.0);
}

#[test]
fn passed_and_failed_hpl_output_is_imported() {
    let harness = Harness::new();
    let import = |name: &str| harness.run(&["history", "import", &output(name)]);
    import("three-nb.txt").exits(0);
    let record = harness.latest();
    assert_eq!(named(&record, "rating").len(), 3);
    assert_eq!(named(&record, "rating")[0]["value"], 89.775e9);
    import("failed.txt").exits(1);
    let second_record = harness.latest();
    let rating = named(&second_record, "rating")[0];
    assert_eq!(
        (&rating["value"], &rating["validity"]["status"]),
        (&Value::Null, &"invalid".into())
    );
}

#[test]
fn input_for_xhpl_is_complete() {
    let harness = Harness::new();
    let args = ["hpl", "--hpl-dat-only", "--order", "8000", "--nb", "128,192", "--ranks", "32"];
    let text = harness.run(&args).exits(0).stdout;
    assert_eq!(text.lines().count(), 31);
    assert!(
        text.contains("\n128 192      NBs\n")
            && text.contains("\n4            Ps\n8            Qs\n"),
        "{text}"
    );
}

/// Runs `hpl --xhpl` with a script instead of xhpl.
fn scripted(harness: &Harness, script: &str, more: &[&str]) -> Outcome {
    let program = harness.write("xhpl", format!("#!/bin/sh\n{script}\n"));
    make_program(&program);
    let launcher = ["--launcher", "mpirun.openmpi", "--allow-run-as-root", "--ranks", "1"];
    harness.run(&[&["hpl", "--xhpl", &program], &launcher[..], &SMALL, more].concat())
}

#[test]
fn native_figures_are_kept_if_xhpl_fails() {
    let harness = Harness::new();
    if !harness.has(Part::Mpi, "mpirun.openmpi") {
        return;
    }
    scripted(&harness, "exit 0", &[]).exits(1).warns("returned no result (exit status 0)");
    let record = harness.latest();
    assert_eq!(named(&record, "rating").len(), 1);
    scripted(&harness, "kill -9 $$", &[]).exits(1).warns("returned no result (");
    let too_few = "echo '>>> Need at least 2 processes for these tests <<<'; exit 1";
    scripted(&harness, too_few, &[])
        .exits(1)
        .warns("Need at least 2 processes")
        .warns("the launcher probably belongs to another MPI");
}

#[test]
fn passed_and_failed_results_of_xhpl_are_distinguished() {
    let harness = Harness::new();
    if !harness.has(Part::Mpi, "mpirun.openmpi") {
        return;
    }
    let prints = |name: &str| format!("test -s HPL.dat && cat '{}'", output(name));
    let record = scripted(&harness, &prints("three-nb.txt"), &["--json", "-"]).exits(0).json();
    let real: Vec<&Value> =
        named(&record, "rating").into_iter().filter(|m| m["category"] == "reference").collect();
    assert_eq!((real.len(), &real[0]["config"]["engine"]), (3, &"xhpl".into()));
    scripted(&harness, &prints("failed.txt"), &[]).exits(1).prints("FAILED");
}

#[test]
fn missing_requirements_of_xhpl_are_reported_before_measuring() {
    let harness = Harness::new();
    let args = |program: &str, more: &[&str]| {
        let all =
            [&["hpl", "--xhpl", program, "--order", "300", "--blas", "builtin"], more].concat();
        harness.run(&all)
    };
    for planned in [&[][..], &["--plan"], &["--hpl-dat-only", "-"]] {
        args("./no-xhpl", planned).exits(3).warns("there is no program ./no-xhpl");
    }
    // A plan for another machine does not require xhpl.
    let other = ["--plan", "--topology", "synthetic:Package:2 Core:8 PU:1"];
    args("./no-xhpl", &other).exits(0);
    let hpcc = "/usr/bin/hpcc";
    if !harness.has(Part::Hpcc, hpcc) || !harness.has(Part::Mpi, "mpirun.mpich") {
        return;
    }
    for planned in [&[][..], &["--plan"]] {
        args(hpcc, &[&["--launcher", "mpirun.mpich"], planned].concat()).exits(3).warns("MPICH");
    }
    args(hpcc, &["--ranks", "100000"]).exits(2).warns("100000");
    harness.run(&["history", "list"]).exits(0).prints("no saved runs");
}

#[test]
fn hpcc_runs_and_its_output_is_read() {
    let harness = Harness::new();
    if !harness.has(Part::Hpcc, "/usr/bin/hpcc") {
        return;
    }
    let args = [
        "hpl",
        "--xhpl",
        "/usr/bin/hpcc",
        "--allow-run-as-root",
        "--ranks",
        "1",
        "--order",
        "400",
        "--nb",
        "64",
        "--blas",
        "builtin",
        "--budget",
        "1",
        "--samples",
        "1",
        "--json",
        "-",
    ];
    let record = harness.run(&args).exits(0).json();
    let real: Vec<&Value> =
        named(&record, "rating").into_iter().filter(|m| m["category"] == "reference").collect();
    assert_eq!(real.len(), 1);
    assert_eq!(real[0]["config"]["engine"], "hpcc");
    assert_eq!((&real[0]["config"]["n"], &real[0]["config"]["nb"]), (&400.into(), &64.into()));
    assert!(real[0]["value"].as_f64().unwrap() > 0.0);
}

/// Writes a launcher that prints `version` for `--version`. Otherwise it stores its arguments and prints a recorded
/// output.
fn launcher(harness: &Harness, name: &str, version: &str) -> String {
    let words = harness.arg("words");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '{version}'; exit; fi\n\
         echo \"$@\" >> '{words}'\ncp HPL.dat '{words}.dat'\ncat '{}'\n",
        output("three-nb.txt")
    );
    let launcher = harness.write(name, script);
    make_program(&launcher);
    launcher
}

#[test]
fn ranks_are_spread_over_the_given_hosts() {
    let harness = Harness::new();
    let program = launcher(&harness, "xhpl", "");
    for (name, version, expected) in [
        ("mpirun", "mpirun (Open MPI) 4.1.4", "-np 2 --host one:1,two:1 --map-by ppr:1:node:PE=1"),
        ("mpiexec", "HYDRA build details:\n    Version: 4.0.2", "-np 2 -ppn 1 -hosts one,two"),
        (
            "srun",
            "slurm-wlm 22.05.8",
            "--nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --nodelist=one,two",
        ),
    ] {
        let launcher = launcher(&harness, name, version);
        let real = ["hpl", "--xhpl", &program, "--launcher", &launcher, "--hosts", "one,two"];
        let one = ["--ranks", "1", "--threads", "1"];
        let small = [&real, &one[..], &SMALL].concat();
        harness.run_with(&OPEN_MPI_AS_ROOT, &small).exits(0).prints_words("2 ranks by");
        let words = std::fs::read_to_string(harness.path("words")).unwrap();
        let last = words.lines().last().unwrap();
        assert!(last.starts_with(expected), "{last}");
        let input = std::fs::read_to_string(harness.path("words.dat")).unwrap();
        assert!(input.contains("\n1            Ps\n2            Qs\n"), "{input}");
    }
}

#[test]
fn best_nb_is_chosen_by_a_search_with_xhpl() {
    let harness = Harness::new();
    let program = launcher(&harness, "xhpl", "");
    let launcher = launcher(&harness, "mpirun", "mpirun (Open MPI) 4.1.4");
    let names: Vec<String> = (0..8).map(|i| format!("host{i}")).collect();
    let args = ["hpl", "--xhpl", &program, "--launcher", &launcher, "--hosts", &names.join(",")];
    let more = ["--ranks", "1", "--order", "600", "--blas", "builtin", "--budget", "3"];
    harness.run_with(&OPEN_MPI_AS_ROOT, &[&args[..], &more].concat()).exits(0);
    let words = std::fs::read_to_string(harness.path("words")).unwrap();
    assert_eq!(words.lines().count(), 2, "a search and the run itself: {words}");
    // This is the width with the best rating in the recorded output.
    let input = std::fs::read_to_string(harness.path("words.dat")).unwrap();
    assert!(input.contains("\n192          NBs\n"), "{input}");
}

#[test]
fn hosts_are_read_from_the_variables_of_a_slurm_job() {
    let harness = Harness::new();
    let job = [("SLURM_JOB_NUM_NODES", "4"), ("SLURM_JOB_NODELIST", "n[1-3],m")];
    let args = ["hpl", "--hpl-dat-only", "--order", "8000", "--ranks", "2"];
    let text = harness.run_with(&job, &args).exits(0).stdout;
    assert!(text.contains("\n2            Ps\n4            Qs\n"), "{text}");
    let foul = [("SLURM_JOB_NUM_NODES", "2"), ("SLURM_JOB_NODELIST", "n1,-oProxyCommand=id")];
    harness.run_with(&foul, &args).exits(2).warns("SLURM_JOB_NODELIST: ");
}
