//! Comparison of chapters with parts that are generated from the program.

/// Asserts that a chapter of `docs` contains `part`. The part extends from the text `start`, which occurs once, to the
/// text `end`, or to the end of the chapter. With `UPDATE_GOLDEN=1`, the part is written to the chapter instead.
#[track_caller]
pub(crate) fn assert_has(chapter: &str, start: &str, part: &str, end: Option<&str>) {
    let path = format!("{}/../../docs/{chapter}", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(start).unwrap();
    assert!(!rest.contains(start), "{chapter} has {start:?} twice");
    let after = end.map_or("", |end| &rest[rest.find(end).unwrap()..]);
    let now = format!("{before}{part}{after}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, now).unwrap();
    } else {
        assert!(
            page == now,
            "UPDATE_GOLDEN=1 cargo test -p nodegauge chapter writes docs/{chapter}"
        );
    }
}
