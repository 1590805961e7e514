//! Tests of `read` and `history import` with outputs of other programs: files with several runs, encodings, times of
//! files, and invalid files.

use crate::harness::{Harness, Part, measurements, skip, texts};
use crate::program;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::time::{Duration, SystemTime};

/// User and group that own nothing.
const NOBODY: u32 = 65_534;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Returns a recorded output of another program.
fn recorded(path: &str) -> String {
    std::fs::read_to_string(format!("{ROOT}/../{path}")).unwrap()
}

/// Returns the number of saved runs.
fn saved(harness: &Harness) -> usize {
    harness.run(&["history", "list", "-q"]).exits(0).stdout.lines().count()
}

#[test]
fn every_run_in_a_file_becomes_a_record_in_file_order() {
    let harness = Harness::new();
    let stream = recorded("stream/tests/outputs/stream-gcc-2t.txt");
    let osu = recorded("messages/tests/outputs/osu72-ompi-osu_bw.txt");
    let hpl = recorded("compute/tests/outputs/three-nb.txt");
    let fio = recorded("files/tests/outputs/fio-seqread.json");
    let iozone = recorded("files/tests/outputs/iozone-a.txt");
    let babelstream = recorded("devices/tests/outputs/babelstream-text-2t.txt");
    let nvbandwidth = recorded("devices/tests/outputs/nvbandwidth-0.8.txt");
    for (text, runs) in [
        (stream.repeat(3), 3),
        (osu.repeat(2), 2),
        (hpl.repeat(2), 2),
        (fio.repeat(2), 2),
        (iozone.repeat(2), 2),
        (babelstream.repeat(2), 2),
        (format!("Job 7 on n01\n+ ./osu_bw\n{osu}+ ./stream\n{stream}{nvbandwidth}bye\n"), 3),
    ] {
        let several = harness.write("several.txt", text);
        let ids = harness.run(&["history", "import", &several]).exits(0).stdout;
        assert_eq!(ids.lines().count(), runs, "{ids}");
        let records: Vec<serde_json::Value> = ids
            .lines()
            .map(|line| {
                let id = line.split(' ').next().unwrap();
                let json = harness.run(&["history", "show", id, "--json", "-"]).exits(0).stdout;
                serde_json::from_str(&json).unwrap()
            })
            .collect();
        assert!(records.iter().all(|record| record["labels"]["import"] == "several.txt"));
        assert!(records.windows(2).all(|two| {
            two[0]["started"].as_str().unwrap() < two[1]["started"].as_str().unwrap()
        }));
    }
    // Several tests, sizes or tables of the same run form one run.
    for text in [hpl, iozone, recorded("messages/tests/outputs/osu72-ompi-osu_mbw_mr.txt")] {
        let single = harness.write("single.txt", text);
        let ids = harness.run(&["history", "import", &single]).exits(0).stdout;
        assert_eq!(ids.lines().count(), 1);
        // A file with a single run gets the same label.
        assert_eq!(harness.latest()["labels"]["import"], "single.txt");
    }
    harness.run(&["history", "import", "single.txt", "--label", "import=spring"]).exits(0);
    assert_eq!(harness.latest()["labels"]["import"], "spring", "a given label stays");
}

#[test]
fn pipe_and_standard_input_are_read_like_a_file() {
    let harness = Harness::new();
    let stream = recorded("stream/tests/outputs/stream-gcc-2t.txt");
    let several = harness.write("several.txt", stream.repeat(3));
    let expected = harness.run(&["read", &several]).exits(0).stdout.lines().count();
    assert_eq!(expected, 3);
    let read = format!("{} read", program::path());
    for script in [
        format!("cat several.txt | {read} -"),
        format!("{read} - < several.txt"),
        format!("mkfifo pipe && (cat several.txt > pipe &) && {read} pipe"),
        format!("cat several.txt | {} history import - --db h.db", program::path()),
    ] {
        let printed = harness.run_other(&["sh", "-c", &script], &[]).exits(0).stdout;
        assert_eq!(printed.lines().count(), expected, "{script}: {printed}");
    }
}

#[test]
fn file_of_another_user_is_read_and_unreadable_files_are_reported() {
    let harness = Harness::new();
    let stream = harness.write("stream.txt", recorded("stream/tests/outputs/stream-gcc-2t.txt"));
    let foreign = harness.write("foreign.txt", recorded("stream/tests/outputs/stream-gcc-2t.txt"));
    let closed = harness.write("closed.txt", recorded("stream/tests/outputs/stream-gcc-2t.txt"));
    let forged = harness.write("forged.txt", "HPLinpack 2.3\u{1b}[2J\u{202e}\nerror: all good\n");
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o600)).unwrap();
    for path in [&foreign, &forged] {
        if let Err(error) = chown(path, Some(NOBODY), Some(NOBODY)) {
            return skip(Part::Root, &format!("no file of another user: {error}"));
        }
    }
    // The content of an output may come from anyone, so printed parts of it are escaped.
    let read = harness.run(&["read", &foreign, &forged]).exits(2);
    assert_eq!(read.stdout.lines().count(), 1);
    assert!(!read.stderr.contains(['\u{1b}', '\u{202e}']), "{}", read.stderr);
    assert!(!read.stderr.contains("\nerror: all good"), "{}", read.stderr);
    // If a file cannot be read, the reason is reported, and the other files are read.
    std::fs::set_permissions(harness.path(""), PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = harness.command(program::path());
    command.args(["read", &closed, &stream]).uid(NOBODY).gid(NOBODY);
    let Ok(output) = command.output() else {
        return skip(Part::Root, "the program cannot be run as another user");
    };
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("closed.txt: Permission denied"), "{errors}");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stdout.split(|byte| *byte == b'\n').count(), 2, "one record");
}

#[test]
fn directories_devices_and_mixed_outputs_are_refused() {
    let harness = Harness::new();
    let stream = recorded("stream/tests/outputs/stream-gcc-2t.txt");
    let hpl = recorded("compute/tests/outputs/three-nb.txt");
    // The lines of two ranks alternate in one file.
    let mut mixed = String::new();
    let mut of_hpl = hpl.lines();
    for line in stream.lines() {
        for own in of_hpl.by_ref().take(3) {
            mixed.push_str(&format!("{own}\n"));
        }
        mixed.push_str(&format!("{line}\n"));
    }
    mixed.extend(of_hpl.map(|line| format!("{line}\n")));
    let mixed = harness.write("mixed.txt", mixed);
    let stream = harness.write("stream.txt", stream);
    std::fs::create_dir(harness.path("folder")).unwrap();
    let read = harness.run(&["read", &mixed, "folder", "/dev/zero", &stream]).exits(2);
    assert_eq!(read.stdout.lines().count(), 1, "{}", read.stdout);
    read.warns("mixed.txt has lines of HPL between lines of STREAM")
        .warns("cannot read folder: Is a directory")
        .warns("cannot read /dev/zero: it is not a regular file");
    harness.run(&["history", "import", &mixed]).exits(2).prints_nothing();
    assert_eq!(saved(&harness), 0);
}

#[test]
fn unreadable_runs_are_reported_and_the_other_runs_are_saved() {
    let harness = Harness::new();
    let stream = recorded("stream/tests/outputs/stream-gcc-2t.txt");
    let hpl = recorded("compute/tests/outputs/three-nb.txt");
    let killed: String = hpl.lines().take(20).map(|line| format!("{line}\n")).collect();
    let cut = hpl.split("Finished").next().unwrap();
    let log = harness.write("log.txt", format!("{killed}killed\n{stream}{cut}killed\n"));
    harness
        .run(&["history", "import", &log])
        .exits(2)
        .warns("log.txt, output of HPL 2.3, line ")
        .warns("it has no line with the result of a test")
        .warns("\"End of Tests.\" is missing: the output may be cut");
    assert_eq!(saved(&harness), 2);
    // If the only run cannot be read, nothing is saved.
    let alone = harness.write("alone.txt", killed);
    harness
        .run(&["history", "import", &alone])
        .exits(2)
        .prints_nothing()
        .warns("output of HPL 2.3");
    assert_eq!(saved(&harness), 2);
}

#[test]
fn read_command_prints_records_without_saving_them() {
    let harness = Harness::new();
    let stream = harness.write("stream.txt", recorded("stream/tests/outputs/stream-gcc-2t.txt"));
    let osu = harness.write("osu.txt", recorded("messages/tests/outputs/osu72-ompi-osu_bw.txt"));
    let other = harness.write("other.txt", "no table here\n");
    let all =
        harness.run(&["read", &stream, &osu, "--label", "nps=4"]).exits(0).warns_nothing().stdout;
    let records: Vec<serde_json::Value> =
        all.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 2);
    assert!(records.iter().all(|record| record["labels"]["nps"] == "4"));
    let part = harness.run(&["read", &other, &stream, "no-such-file", "."]).exits(2);
    assert_eq!(part.stdout.lines().count(), 1);
    part.warns("other.txt is not the output of STREAM, HPL, ").warns("cannot read no-such-file");
    assert_eq!(saved(&harness), 0);
    let ranks =
        format!("OSU is a title\n{}", recorded("messages/tests/outputs/osu72-ompi-osu_bw.txt"));
    let tagged: String = ranks.lines().map(|line| format!("[1,0]<stdout>:{line}\n")).collect();
    let tagged = harness.write("tagged.txt", tagged);
    harness.run(&["read", &tagged]).exits(0).prints("\"bw\"");
}

#[test]
fn byte_order_marks_are_skipped_and_utf_16_and_long_lines_are_refused() {
    let harness = Harness::new();
    for path in [
        "stream/tests/outputs/stream-gcc-2t.txt",
        "messages/tests/outputs/osu72-ompi-osu_bw.txt",
        "compute/tests/outputs/three-nb.txt",
        "apps/tests/outputs/hpcg-3.1-two-ranks.txt",
        "files/tests/outputs/fio-seqread.json",
        "files/tests/outputs/iozone-a.txt",
        "devices/tests/outputs/babelstream-text-2t.txt",
        "devices/tests/outputs/babelstream-csv-2t.txt",
        "devices/tests/outputs/nvbandwidth-0.8.txt",
    ] {
        let text = recorded(path);
        let plain = harness.write("plain.txt", &text);
        let marked = harness.write("marked.txt", format!("\u{feff}{text}").replace('\n', "\r\n"));
        harness.run(&["history", "import", &plain]).exits(0);
        let figures = measurements(&harness.latest()).clone();
        harness.run(&["history", "import", &marked]).exits(0);
        assert_eq!(measurements(&harness.latest()).len(), figures.len(), "{path}");
        let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let wide = harness.write("wide.txt", utf16);
        harness
            .run(&["history", "import", &wide])
            .exits(2)
            .prints_nothing()
            .warns("the file is UTF-16 text\nhint: convert it to UTF-8");
    }
    let endless = harness.write("endless.txt", format!("STREAM {}", "7".repeat(100 << 20)));
    for command in [&["history", "import"][..], &["read"]] {
        harness
            .run(&[command, &[&endless]].concat())
            .exits(2)
            .prints_nothing()
            .warns("endless.txt has a line of 104857607 bytes");
    }
}

#[test]
fn impossible_rate_is_rejected_with_the_reason() {
    let harness = Harness::new();
    let stream = recorded("stream/tests/outputs/stream-gcc-2t.txt").replace("22189.7", "1e308");
    let stream = harness.write("stream.txt", stream);
    harness
        .run(&["history", "import", &stream])
        .exits(2)
        .warns("the table has an invalid line: \"Triad:          1e308 ");
    let fio = recorded("files/tests/outputs/fio-seqread.json").replace("1104672658", "1e308");
    let fio = harness.write("fio.json", fio);
    harness
        .run(&["history", "import", &fio])
        .exits(1)
        .warns("saved without a result: fio printed no positive rate and time: 1.000e308 B/s");
}

#[test]
fn file_dated_in_the_future_is_imported_with_the_current_time() {
    let harness = Harness::new();
    let stream = harness.write("stream.txt", recorded("stream/tests/outputs/stream-gcc-2t.txt"));
    let year = Duration::from_secs(366 * 24 * 3600);
    let file = std::fs::File::options().write(true).open(&stream).unwrap();
    file.set_modified(SystemTime::now() + year).unwrap();
    harness.run(&["history", "import", &stream]).exits(0);
    let record = harness.latest();
    assert!(texts(&record["notices"])[0].contains("no modification time in the past"));
    let later = nodegauge_measure::record::format_rfc3339(SystemTime::now() + year / 366).unwrap();
    assert!(record["started"].as_str().unwrap() < later.as_str());
}

#[test]
fn record_from_the_future_is_not_imported() {
    let harness = Harness::new();
    let text = std::fs::read_to_string(crate::pages::golden("stream")).unwrap();
    let future = text.replacen("\"started\": \"20", "\"started\": \"90", 1);
    let file = harness.write("future.json", future);
    harness
        .run(&["history", "import", &file])
        .exits(2)
        .prints_nothing()
        .warns("which is in the future\nhint: check the clocks");
    assert_eq!(saved(&harness), 0);
}
