use super::*;

/// Header of a table with wide columns.
const WIDE: &str = "              kB  reclen    write  rewrite    read    reread    read     write     read   rewrite      read   fwrite frewrite    fread  freread\n";
/// Header of a table with narrow columns.
const NARROW: &str = "              KB  reclen   write rewrite    read    reread    read   write    read  rewrite     read   fwrite frewrite   fread  freread\n";
/// Banner of an output in kB/s.
const BANNER: &str = "Iozone: Performance Test of File I/O\n\tOutput is in kBytes/sec\n";

fn recorded(name: &str) -> IozoneOutput {
    let path = format!("{}/tests/outputs/{name}", env!("CARGO_MANIFEST_DIR"));
    IozoneOutput::read(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn rate(output: &IozoneOutput, file: u64, block: u64, name: &str) -> Option<f64> {
    let line = output.lines.iter().find(|l| (l.file, l.block) == (file << 10, block << 10))?;
    line.rates.iter().find(|(n, _)| *n == name).map(|(_, rate)| rate / 1024.0)
}

#[test]
fn automatic_table_has_all_columns() {
    let output = recorded("iozone-a.txt");
    assert_eq!(output.version.as_deref(), Some("3.489"));
    assert!(output.complete && !output.has_poor_resolution);
    assert!(output.lines.iter().all(|line| line.rates.len() == 13));
    assert_eq!(rate(&output, 64, 4, "write"), Some(1_101_022.0));
    assert_eq!(rate(&output, 256, 256, "read"), Some(43_286_099.0));
    assert_eq!(rate(&output, 65536, 16384, "freread"), Some(15_456_641.0));
}

#[test]
fn blank_columns_have_no_figures() {
    // A column that is wider than the others follows blank columns.
    let row = "              64      16   743988  5283570                                                          4897948                                   \n";
    let strided = IozoneOutput::read(&format!("{BANNER}{WIDE}{row}")).unwrap();
    assert_eq!(rate(&strided, 64, 16, "stride_read"), Some(4_897_948.0), "{strided:?}");
    let output = recorded("iozone-i01-R.txt");
    let line = &output.lines[0];
    let names: Vec<_> = line.rates.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["write", "rewrite", "read", "reread"]);
    assert_eq!(rate(&output, 64, 64, "reread"), Some(30_484_297.0));
}

#[test]
fn excel_part_equals_the_table() {
    let path = format!("{}/tests/outputs/iozone-i01-R.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let both = IozoneOutput::read(&text).unwrap();
    let excel = IozoneOutput::read(text.split("Excel output is below:").nth(1).unwrap()).unwrap();
    assert_eq!(excel.lines.len(), both.lines.len(), "skipped cells are left out");
    for line in &both.lines {
        let same = excel.lines.iter().find(|l| (l.file, l.block) == (line.file, line.block));
        assert_eq!(Some(line), same);
    }
}

#[test]
fn microseconds_are_converted_to_rates() {
    let output = recorded("iozone-N-us.txt");
    // The rate is 4 KiB in 3 us.
    let write = rate(&output, 65536, 4, "write").unwrap() * 1024.0;
    assert!((write - 4096.0 / 3e-6).abs() < 1.0);
    assert_eq!(rate(&output, 65536, 4, "read"), None, "0 us means that nothing was measured");
    assert_eq!(rate(&output, 65536, 4, "random_write").map(f64::round), Some(4_000_000.0));
}

#[test]
fn throughput_mode_has_worker_and_parent_rates() {
    let output = recorded("iozone-t2.txt");
    let sizes = WorkerSizes { file: Some(64 << 20), block: Some(1 << 20) };
    assert!(output.throughput.iter().all(|test| test.sizes == sizes));
    let of = |name| output.throughput.iter().find(|t| t.name == name).unwrap();
    let write = of("write");
    assert_eq!((write.workers, write.children), (2, 851_265.44 * 1024.0));
    assert_eq!(write.parent, Some(582_491.58 * 1024.0));
    assert_eq!(write.min_bytes, Some(59392.0 * 1024.0));
    assert!(["random_mix", "fread", "pread", "bkwd_read"].iter().all(|n| of(n).children > 0.0));
    assert_eq!(output.throughput.len(), 13);
}

#[test]
fn size_without_results_has_no_figures() {
    let output = recorded("iozone-bad-r.txt");
    assert!(output.has_poor_resolution);
    assert_eq!(output.lines[0].rates, []);
}

#[test]
fn nine_digit_rates_without_separator_are_split() {
    let row = "             128     128  3199360 41924383 60968594111715537 41924383 25804035 25804035  20804356  41924383 21643049 60968594 31945770 60968594\n";
    let output = IozoneOutput::read(&format!("{BANNER}{WIDE}{row}")).unwrap();
    assert_eq!(rate(&output, 128, 128, "reread"), Some(111_715_537.0));
    assert_eq!(rate(&output, 128, 128, "freread"), Some(60_968_594.0));
}

#[test]
fn columns_are_found_at_any_indentation() {
    for name in ["iozone-a.txt", "iozone-N-us.txt", "iozone-i01-R.txt"] {
        let path = format!("{}/tests/outputs/{name}", env!("CARGO_MANIFEST_DIR"));
        // The Excel part, which is not a table of columns, is left out.
        let text = std::fs::read_to_string(path).unwrap();
        let text = text.split("Excel output is below").next().unwrap();
        let whole = IozoneOutput::read(text).unwrap().lines;
        let indents = (1..=12).map(|blanks| " ".repeat(blanks)).chain(["\t".to_owned()]);
        for indent in indents {
            let lines: Vec<String> = text.lines().map(|line| format!("{indent}{line}")).collect();
            assert_eq!(IozoneOutput::read(&lines.join("\n")).unwrap().lines, whole, "{indent:?}");
        }
        // Each line loses its own indentation.
        let trimmed: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(IozoneOutput::read(&trimmed.join("\n")).unwrap().lines, whole);
        let single = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let collapsed: Vec<String> = text.lines().map(single).collect();
        let read = IozoneOutput::read(&collapsed.join("\n"));
        match name {
            "iozone-a.txt" => assert_eq!(read.unwrap().lines, whole, "no column is missing"),
            _ => assert!(read.unwrap_err().contains("cannot be read"), "{name}"),
        }
    }
}

#[test]
fn repeated_iozone_line_is_refused() {
    let path = format!("{}/tests/outputs/iozone-a.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().find(|line| line.starts_with("              64       4")).unwrap();
    let twice = text.replace(line, &format!("{line}\n{line}"));
    assert!(IozoneOutput::read(&twice).unwrap_err().contains("sizes of an earlier line"));
}

#[test]
fn figures_without_unit_and_contradictory_sizes_are_refused() {
    let path = format!("{}/tests/outputs/iozone-t2.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    assert!(IozoneOutput::read(&text).is_ok());
    let without = text.replace("Output is in kBytes/sec", "");
    assert_eq!(
        IozoneOutput::read(&without).unwrap_err(),
        "the line with the unit of its figures is missing"
    );
    for (set, other) in [("set to 65536", "set to 65539"), ("Size 1024", "Size 1029")] {
        let changed = text.replace(set, other);
        assert_ne!(changed, text);
        assert_eq!(IozoneOutput::read(&changed).unwrap_err(), "its sizes contradict each other");
    }
}

#[test]
fn invalid_output_is_refused() {
    let refused = |text: &str| IozoneOutput::read(text).unwrap_err();
    assert_eq!(refused("nothing"), "this is not the output of iozone");
    assert_eq!(refused(BANNER), "the output of iozone contains no figures");
    let moved = format!("{BANNER}{WIDE}              64       4 123456789012  3363612\n");
    assert_eq!(refused(&moved), "line 4 of the output of iozone cannot be read");
    // This figure exceeds the range of f64.
    let many = "9".repeat(400);
    let throughput = |rate: &str| {
        format!("{BANNER}\tChildren see throughput for  2 initial writers \t= {rate} kB/sec\n")
    };
    assert_eq!(IozoneOutput::read(&throughput("5.00")).unwrap().throughput.len(), 1);
    assert_eq!(refused(&throughput(&many)), "the output of iozone contains no figures");
    let table = format!("{BANNER}{WIDE} {many}       4 {}\n", "7 ".repeat(MAX_COLUMNS));
    assert_eq!(refused(&table), "line 4 of the output of iozone cannot be read");
}

/// Returns the names of the operations and the rates in kB/s in a row with narrow columns.
fn narrow_rates(header: &str, row: &str) -> Result<Vec<(&'static str, f64)>, String> {
    let output = IozoneOutput::read(&format!("{BANNER}{header}{row}\n"))?;
    Ok(output.lines[0].rates.iter().map(|(name, rate)| (*name, rate / 1024.0)).collect())
}

#[test]
fn narrow_columns_of_tests_that_ran_are_found() {
    let row = "          409600      64   31782   22524                    816017   10411                  3779260                                  ";
    let expected = [
        ("write", 31_782.0),
        ("rewrite", 22_524.0),
        ("random_read", 816_017.0),
        ("random_write", 10_411.0),
        ("stride_read", 3_779_260.0),
    ];
    assert_eq!(narrow_rates(NARROW, row).unwrap(), expected);
    // The spacing of the header determines the widths, not the unit of its sizes.
    let later = NARROW.replace("KB", "kB");
    assert_eq!(narrow_rates(&later, row).unwrap(), expected);
    assert!(narrow_rates(WIDE, row).is_err());
    for moved in [
        row.replace("64   31782", "64    31782"),
        row.replace("  816017", " 816017"),
        row.replace("  3779260", "   3779260"),
    ] {
        assert_eq!(
            narrow_rates(NARROW, &moved).unwrap_err(),
            "line 4 of the output of iozone cannot be read"
        );
    }
    let header = "              KB  reclen   write rewrite    read    reread    read   write\n";
    let short = "          262144       4   31636   38458    51168    51388   17595   35204";
    assert_eq!(narrow_rates(header, short).unwrap().len(), 6);
    // A row has no more figures than the header has columns.
    assert!(narrow_rates(header, &format!("{short}   35204")).is_err());
    assert!(narrow_rates(&header.replace("reread", "other"), short).is_err());
}

/// Returns an output of throughput mode with the unit and the line of its banner.
fn throughput_text(banner: &str, workers: u32, unit: &str) -> String {
    format!(
        "Iozone: Performance Test of File I/O\n\t{banner}\n\
         \tEach process writes a 262144 kByte file in 4 kByte records\n\n\
         \tChildren see throughput for {workers:>2} readers \t= 2000.00 {unit}\n\
         \tParent sees throughput for {workers:>2} readers \t= 1600.00 {unit}\n\
         \tMin throughput per process \t= {min:.2} {unit} \n\
         \tMax throughput per process \t= {min:.2} {unit}\n\
         \tAvg throughput per process \t= {min:.2} {unit}\n\
         \tMin xfer \t= 65536.00 ops\n\niozone test complete.\n",
        min = 2000.0 / f64::from(workers)
    )
}

#[test]
fn throughput_has_the_unit_of_its_lines() {
    let operations = "OPS Mode. Output is in operations per second.";
    let time = "Microseconds/op Mode. Output is in microseconds per operation.";
    let read = |text: &str| IozoneOutput::read(text).map(|output| output.throughput[0].clone());
    let two = read(&throughput_text(operations, 2, "ops/sec")).unwrap();
    assert_eq!((two.children, two.parent), (2000.0 * 4096.0, Some(1600.0 * 4096.0)));
    assert_eq!((two.min, two.max), (Some(1000.0 * 4096.0), Some(1000.0 * 4096.0)));
    assert_eq!(two.min_bytes, Some(268_435_456.0));
    let one = read(&throughput_text(time, 1, "usec/op")).unwrap();
    assert!((one.children / (4096.0 / 2e-3) - 1.0).abs() < 1e-12);
    assert!((one.parent.unwrap() / (4096.0 / 1.6e-3) - 1.0).abs() < 1e-12);
    let refused = |text: &str| read(text).unwrap_err();
    assert_eq!(
        refused(&throughput_text(time, 2, "usec/op")),
        "the rate of read cannot be computed from a time per operation of 2 workers"
    );
    assert_eq!(
        refused(&throughput_text(operations, 1, "ops/ms")),
        "the unit of its figures is unknown: \"ops/ms\""
    );
    assert_eq!(
        refused(&throughput_text("Output is in kBytes/sec", 1, "ops/sec")),
        "the unit of read is not that of the banner: ops/sec"
    );
    let text = throughput_text(operations, 2, "ops/sec");
    let without_size = text.replace("Each process writes", "");
    assert!(refused(&without_size).starts_with("the record size is missing"));
    let several = text.replace("OPS Mode", "Output is in kBytes/sec\nOPS Mode");
    assert!(refused(&several).contains("contradict each other"));
    for (from, to) in [
        ("= 2000.00", "= 2000.09"),
        ("for  2", "for  9"),
        ("Max throughput per process \t= 1000", "Max throughput per process \t= 900"),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        assert_eq!(
            refused(&changed),
            "the sum of the workers of read contradicts their figures",
            "{from}"
        );
    }
}

#[test]
fn table_without_banner_is_refused() {
    let row = "          102400       4     2738     2762    12852    12789    10197     2776\n";
    let refusal = IozoneOutput::read(&format!("{WIDE}{row}")).unwrap_err();
    assert!(refusal.starts_with("it is a table without the banner"), "{refusal}");
    assert!(mark(NARROW.trim()).is_some());
}
