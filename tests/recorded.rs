//! Recorded outputs of other programs, from the folders `tests/outputs` of the crates and from published documents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Returns the recorded outputs by file name.
pub fn outputs() -> BTreeMap<String, Vec<u8>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders: Vec<PathBuf> = entries(crates).map(|of| of.join("tests/outputs")).collect();
    folders.retain(|folder| folder.exists());
    folders.push(crates.join("../tests/cli/texts/stream"));
    let mut all = BTreeMap::new();
    for path in folders.iter().flat_map(|folder| entries(folder)) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let earlier = all.insert(name, std::fs::read(&path).unwrap());
        assert_eq!(earlier, None, "another output has the name of {path:?}");
    }
    all
}

/// Returns the paths of the entries of a folder.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())
}
