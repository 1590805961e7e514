use super::*;

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
    let text = "Iozone: Performance Test of File I/O\n\tOutput is in kBytes/sec\n              kB  reclen    write\n              64      16   743988  5283570                                                          4897948                                   \n";
    let strided = IozoneOutput::read(text).unwrap();
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
    assert_eq!(output.sizes, WorkerSizes { file: Some(64 << 20), block: Some(1 << 20) });
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
    let text = "Iozone: Performance Test of File I/O\n\tOutput is in kBytes/sec\n              kB  reclen    write\n             128     128  3199360 41924383 60968594111715537 41924383 25804035 25804035  20804356  41924383 21643049 60968594 31945770 60968594\n";
    let output = IozoneOutput::read(text).unwrap();
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
    let banner = "Iozone: Performance Test of File I/O\n\tOutput is in kBytes/sec\n";
    assert_eq!(refused(banner), "the output of iozone contains no figures");
    let moved =
        format!("{banner}  kB  reclen    write\n              64       4 123456789012  3363612\n");
    assert_eq!(refused(&moved), "line 4 of the output of iozone cannot be read");
    // This figure exceeds the range of f64.
    let many = "9".repeat(400);
    let throughput = |rate: &str| {
        format!("{banner}\tChildren see throughput for  2 initial writers \t= {rate} kB/sec\n")
    };
    assert_eq!(IozoneOutput::read(&throughput("5.00")).unwrap().throughput.len(), 1);
    assert_eq!(refused(&throughput(&many)), "the output of iozone contains no figures");
    let table =
        format!("{banner}  kB  reclen    write\n {many}       4 {}\n", "7 ".repeat(MAX_COLUMNS));
    assert_eq!(refused(&table), "line 4 of the output of iozone cannot be read");
}
