//! Where programs and folders are: the search path, and patterns of paths.

use std::path::{Path, PathBuf};

/// Where `PATH` leads for this name; names with a slash are paths.
pub fn which(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        let path = PathBuf::from(name);
        return is_program(&path).then_some(path);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_program(path))
}

/// Whether there is a file that may be run.
pub(crate) fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path)
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The paths below `root` that `pattern` may lead to, newest version first as far as names tell; a `*`
/// stands for any characters within a name.
pub(crate) fn expand(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut paths = vec![root.to_owned()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let Some((before, after)) = part.split_once('*') else {
            paths.iter_mut().for_each(|path| path.push(part));
            continue;
        };
        let fits = |name: &str| {
            name.len() >= before.len() + after.len()
                && name.starts_with(before)
                && name.ends_with(after)
        };
        let below = |folder: PathBuf| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let mut paths: Vec<PathBuf> = entries
                .filter(|entry| fits(&entry.file_name().to_string_lossy()))
                .map(|entry| entry.path())
                .collect();
            paths.sort_by(|a, b| b.cmp(a));
            paths
        };
        paths = paths.into_iter().flat_map(below).collect();
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_lead_to_the_newest_first() {
        let root = tempfile::tempdir().unwrap();
        for name in ["cc-1/bin", "cc-2/bin", "dd-3/bin"] {
            std::fs::create_dir_all(root.path().join(name)).unwrap();
        }
        let found = expand(root.path(), "/cc-*/bin");
        assert_eq!(found, ["cc-2/bin", "cc-1/bin"].map(|name| root.path().join(name)));
        assert_eq!(expand(root.path(), "/none/*"), [] as [PathBuf; 0]);
        assert!(which("sh").is_some_and(|path| is_program(&path)) && which("./none").is_none());
    }
}
