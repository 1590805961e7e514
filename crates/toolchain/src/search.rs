//! Search for programs and folders, by search paths and by patterns of paths.

use nodegauge_measure::{Failure, legible};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Environment variables with the search paths of programs and of libraries.
pub(crate) const PROGRAM_PATH_VARIABLE: &str = "PATH";
pub(crate) const LIBRARY_PATH_VARIABLES: [&str; 2] = ["LD_LIBRARY_PATH", "LIBRARY_PATH"];

/// True if the name of a program or library is a path, that is, if it contains `/`. Other names are searched for in the
/// folders of programs or libraries, and never in the current folder, because another user may have placed a file
/// there.
pub fn is_path(name: impl AsRef<OsStr>) -> bool {
    name.as_ref().as_bytes().contains(&b'/')
}

/// Returns the program with this name in `PATH`. A name that contains a slash is a path.
pub fn which(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let name = name.as_ref();
    if is_path(name) {
        let path = PathBuf::from(name);
        return is_program(&path).then_some(path);
    }
    let path = std::env::var_os(PROGRAM_PATH_VARIABLE)?;
    folders(&path).map(|folder| folder.join(name)).find(|path| is_program(path))
}

/// Returns the absolute path of a program, without symbolic links. `named` is a path, or a name that is searched for in
/// `PATH`.
pub fn find_program(named: &Path) -> Option<PathBuf> {
    which(named)?.canonicalize().ok()
}

/// Returns `hint`. If a file named `named` is in the current folder, adds the path with which the user can specify this
/// file.
pub fn with_path_hint(named: impl AsRef<Path>, hint: &str) -> String {
    let named = named.as_ref();
    if is_path(named) || !named.is_file() {
        return hint.to_owned();
    }
    format!("{hint}; ./{} is the file in the current folder", named.display())
}

/// Returns the absolute path of a program, as [`find_program`] does.
///
/// # Errors
/// Fails if `named` is not a program; the message states whether it is a folder, a file that is not executable, or
/// missing. `hint` states what to give instead.
pub fn required_program(named: &Path, hint: &str) -> Result<PathBuf, Failure> {
    find_program(named).ok_or_else(|| {
        let shown = legible::path(named);
        if is_path(named) && named.is_dir() {
            return Failure::missing(format!("{shown} is a folder, not a program")).hint(hint);
        }
        if is_path(named) && named.is_file() {
            return Failure::missing(format!("{shown} is not executable"))
                .hint(format!("chmod +x {shown}, if it is a program"));
        }
        Failure::missing(format!("there is no program {shown}")).hint(with_path_hint(named, hint))
    })
}

/// Returns the absolute folders of a search path. Relative elements (`.`, empty and others) are skipped: they
/// depend on the current folder, and every user who can write to it could determine which program runs.
pub(crate) fn folders(path: &OsStr) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(path).filter(|folder| folder.is_absolute())
}

/// Search path from an environment variable that contains elements to skip.
struct UnsafePath {
    /// Name of the environment variable.
    name: &'static str,
    /// Value without the skipped elements; `None` if no element remains.
    left: Option<OsString>,
    /// Elements that are skipped because they are relative.
    skipped: Vec<PathBuf>,
}

/// Returns the search paths in the environment that have skipped elements.
fn unsafe_paths(variable: impl Fn(&str) -> Option<OsString>) -> impl Iterator<Item = UnsafePath> {
    std::iter::once(PROGRAM_PATH_VARIABLE).chain(LIBRARY_PATH_VARIABLES).filter_map(move |name| {
        let path = variable(name).filter(|path| !path.is_empty())?;
        let skipped: Vec<PathBuf> =
            std::env::split_paths(&path).filter(|folder| !folder.is_absolute()).collect();
        let left = std::env::join_paths(folders(&path)).ok().filter(|left| !left.is_empty());
        (!skipped.is_empty()).then_some(UnsafePath { name, left, skipped })
    })
}

/// Returns the search paths of child processes that differ from the inherited ones. Each entry is the name of a
/// variable and its value; a value of `None` removes the variable.
pub(crate) fn child_search_paths() -> impl Iterator<Item = (&'static str, Option<OsString>)> {
    unsafe_paths(|name| std::env::var_os(name)).map(|path| (path.name, path.left))
}

/// Returns one notice for each search path in the environment that has skipped elements.
pub fn skipped_folder_notices(variable: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
    let mut notices = Vec::new();
    for path in unsafe_paths(variable) {
        let folders: Vec<String> =
            path.skipped.iter().map(|folder| format!("{folder:?}")).collect();
        notices.push(format!(
            "{}: {} skipped, because a relative folder depends on the current folder",
            path.name,
            folders.join(", "),
        ));
    }
    notices
}

/// Returns a path, followed by the targets of its chain of symbolic links.
pub fn link_chain(path: &Path) -> impl Iterator<Item = PathBuf> {
    const MAX_LINKS: usize = 8;
    std::iter::successors(Some(path.to_owned()), |link| target(link)).take(MAX_LINKS)
}

/// Returns the target of a symbolic link; `None` if the path is not a link.
fn target(link: &Path) -> Option<PathBuf> {
    let target = std::fs::read_link(link).ok()?;
    Some(link.parent()?.join(target))
}

/// Returns the folders of the system's libraries: the folder of the target triplet, and the folders that all
/// systems have.
pub(crate) fn system_folders() -> impl Iterator<Item = PathBuf> {
    let triplet = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let all = ["/usr/local/lib", "/usr/local/lib64", "/usr/lib64", "/usr/lib", "/lib64", "/lib"];
    std::iter::once(triplet.into()).chain(all.map(PathBuf::from))
}

/// True if the path is an executable file.
pub(crate) fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path)
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Returns the paths below `root` that match `pattern`, in descending order of names, so that the newest version
/// usually comes first. In the pattern, `*` matches any characters within a name.
pub(crate) fn matching_paths(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut paths = vec![root.to_owned()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let Some((before, after)) = part.split_once('*') else {
            paths.iter_mut().for_each(|path| path.push(part));
            continue;
        };
        paths = paths.iter().flat_map(|folder| entries_between(folder, before, after)).collect();
    }
    paths
}

/// Returns the entries of `folder` whose names begin with `before` and end with `after`, in descending order.
fn entries_between(folder: &Path, before: &str, after: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_long = name.len() >= before.len() + after.len();
        if is_long && name.starts_with(before) && name.ends_with(after) {
            found.push(entry.path());
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_files_without_permission_are_not_missing_programs() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("solver");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        let refused =
            |path: &Path| required_program(path, "give its path").unwrap_err().single_line();
        assert!(refused(root.path()).ends_with("is a folder, not a program; give its path"));
        assert!(
            refused(&file).contains("solver is not executable; chmod +x"),
            "{}",
            refused(&file)
        );
        let absent = refused(&root.path().join("absent"));
        assert!(absent.starts_with("there is no program /"), "{absent}");
        assert!(required_program(Path::new("sh"), "").is_ok());
    }

    #[test]
    fn paths_that_match_a_pattern_are_listed_newest_first() {
        let root = tempfile::tempdir().unwrap();
        for name in ["cc-1/bin", "cc-2/bin", "dd-3/bin"] {
            std::fs::create_dir_all(root.path().join(name)).unwrap();
        }
        let found = matching_paths(root.path(), "/cc-*/bin");
        assert_eq!(found, ["cc-2/bin", "cc-1/bin"].map(|name| root.path().join(name)));
        assert_eq!(matching_paths(root.path(), "/none/*"), [] as [PathBuf; 0]);
        assert!(which("sh").is_some_and(|path| is_program(&path)) && which("./none").is_none());
    }

    #[test]
    fn plain_name_is_not_searched_in_current_folder() {
        // The current folder of unit tests is the folder of their crate.
        assert!(Path::new("Cargo.toml").is_file());
        assert!(!is_path("Cargo.toml") && is_path("./Cargo.toml"));
        let hint = "give its path; ./Cargo.toml is the file in the current folder";
        assert_eq!(with_path_hint("Cargo.toml", "give its path"), hint);
        for name in ["./Cargo.toml", "no-such-file"] {
            assert_eq!(with_path_hint(name, "give its path"), "give its path");
        }
        assert_eq!(find_program(Path::new("src")), None);
        let shell = find_program(Path::new("sh")).unwrap();
        assert!(shell.is_absolute() && !shell.is_symlink());
    }

    #[test]
    fn relative_search_path_elements_are_skipped() {
        let environment = |name: &str| match name {
            "PATH" => Some(OsString::from(":/usr/bin:.:bin:/bin")),
            "LD_LIBRARY_PATH" => Some(OsString::from(".")),
            _ => Some(OsString::new()),
        };
        let found: Vec<_> = unsafe_paths(environment).map(|path| (path.name, path.left)).collect();
        assert_eq!(found, [("PATH", Some("/usr/bin:/bin".into())), ("LD_LIBRARY_PATH", None)]);
        let lines = skipped_folder_notices(environment);
        assert!(lines[0].starts_with("PATH: \"\", \".\", \"bin\" skipped"), "{lines:?}");
        assert!(lines[1].starts_with("LD_LIBRARY_PATH: \".\" skipped"), "{lines:?}");
        assert_eq!(skipped_folder_notices(|_| Some("/usr/bin:/bin".into())), [] as [String; 0]);
    }
}
