//! Tests of `nodegauge io` with other programs: output in the form of IOzone's tables, alternating runs of fio and
//! IOzone, and imports.

use crate::harness::{Harness, Part, make_program, measurements, names};
use crate::io::{SMALL, io, record};
use serde_json::Value;

#[test]
fn results_are_written_as_iozone_and_gnuplot_tables() {
    let harness = Harness::new();
    let surface = harness.arg("surface.dat");
    let args = ["--max-size", "128KiB", "--iozone-text", "--surface", &surface];
    let text = io(&harness, &args).exits(0).warns_nothing().stdout;
    let header = "              kB  reclen    write  rewrite    read    reread    read     write     read   rewrite      read   fwrite frewrite    fread  freread";
    let lines: Vec<&str> = text.lines().skip_while(|line| *line != header).collect();
    assert_eq!(lines.len(), 1 + 5 + 6, "{text}");
    assert!(text.contains("not IOzone"));
    for line in &lines[1..] {
        assert_eq!((line.split_whitespace().count(), line.len()), (15, 24 + 13 * 9 + 2), "{line}");
    }
    let surface = std::fs::read_to_string(surface).unwrap();
    let indices: Vec<&str> = surface.split("\n\n\n").collect();
    assert_eq!(indices.len(), 13);
    assert!(indices[2].starts_with("# read\n64 4 "), "{}", indices[2]);
    // Each of the two file sizes has a block of lines.
    assert_eq!(indices[2].split("\n\n").count(), 2);
    io(&harness, &["--json", "-", "--surface", "-"])
        .exits(2)
        .warns("only one document can go to standard output");
    let few = io(&harness, &[&SMALL[..], &["--operations", "read", "--iozone-text"]].concat())
        .exits(0)
        .stdout;
    let row = few.lines().last().unwrap();
    assert_eq!(
        (row.split_whitespace().count(), row.len()),
        (3, 24 + 13 * 9 + 2),
        "blank where not asked"
    );
}

#[test]
fn fio_and_iozone_give_reference_figures() {
    let harness = Harness::new();
    if harness.has(Part::Fio, "fio") {
        let args = [
            "--operations",
            "write,read,random_write,stride_read",
            "--fio",
            "fio",
            "--samples",
            "2",
        ];
        let record = record(&harness, &[&SMALL[..], &args[..]].concat());
        let theirs: Vec<&Value> =
            measurements(&record).iter().filter(|m| m["category"] == "reference").collect();
        let names: Vec<&str> = theirs.iter().map(|m| m["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["write", "read", "random_write"], "it has no strides");
        for m in theirs {
            assert_eq!((&m["config"]["engine"], &m["summary"]["n"]), (&"fio".into(), &2.into()));
            assert!(m["config"]["version"].as_str().unwrap().starts_with("fio-"));
            assert!(m["config"]["latency_s"]["p99"].is_number());
        }
    }
    // IOzone is not free software, so a program with the same output replaces it.
    let script = "#!/bin/sh\ncase \"$*\" in\n-v) echo 'Version $Revision: 3.489 $';;\n*-i\\ 0*-f\\ data-iozone) echo > data-iozone; printf 'Iozone: Performance Test of File I/O\\n\\tOutput is in kBytes/sec\\n              kB  reclen    write  rewrite    read    reread\\n             256      16   100000   200000   300000   400000\\n\\niozone test complete.\\n';;\n*) exit 9;; esac\n";
    let program = harness.write("my iozone", script);
    make_program(&program);
    let args = ["--operations", "write,reread", "--iozone", &program];
    let record = record(&harness, &[&SMALL[..], &args[..]].concat());
    let theirs: Vec<(&str, f64)> = measurements(&record)
        .iter()
        .filter(|m| m["category"] == "reference")
        .map(|m| (m["name"].as_str().unwrap(), m["value"].as_f64().unwrap()))
        .collect();
    assert_eq!(theirs, [("write", 102_400_000.0), ("reread", 409_600_000.0)]);
    io(&harness, &["--iozone", "/bin/true"]).exits(3).warns("is not IOzone");
    io(&harness, &["--fio", "/nowhere/fio"]).exits(3).warns("program not found");
}

#[test]
fn output_of_iozone_and_fio_is_imported() {
    let harness = Harness::new();
    let recorded =
        |name: &str| format!("{}/../files/tests/outputs/{name}", env!("CARGO_MANIFEST_DIR"));
    for (name, measured, first) in [
        ("iozone-a.txt", 99 * 13, "write"),
        ("iozone-i01-R.txt", 99 * 4, "write"),
        ("iozone-t2.txt", 13, "write"),
        ("fio-seqread.json", 1, "read"),
        ("fio-randrw.json", 1, "random_mix"),
    ] {
        harness.run(&["history", "import", &recorded(name)]).exits(0).warns_nothing();
        let record = harness.latest();
        assert_eq!((measurements(&record).len(), names(&record)[0]), (measured, first), "{name}");
        assert!(measurements(&record).iter().all(|m| m["category"] == "reference"));
        harness.run(&["history", "show", "latest"]).exits(0).prints(first);
    }
    harness
        .run(&["history", "import", &recorded("fio-error.txt")])
        .exits(1)
        .warns("the job failed");
    harness
        .run(&["history", "import", &recorded("iozone-bad-r.txt")])
        .exits(1)
        .warns("measured nothing");
    let cut = harness.write("cut.json", "{\n\"fio version\" : \"fio-3.33\",\n");
    harness.run(&["history", "import", &cut]).exits(2).warns("fio's JSON is invalid");
}
