//! Path of the program that the end-to-end tests run.

use std::path::Path;
use std::sync::LazyLock;

/// Returns the path of the program: `NODEGAUGE_BIN` (e.g. the file from `make release`), otherwise the file that cargo
/// built for the tests. A relative path begins at the root of the repository.
pub fn path() -> &'static str {
    static PATH: LazyLock<String> = LazyLock::new(|| match std::env::var_os("NODEGAUGE_BIN") {
        Some(chosen) => named(Path::new(&chosen)),
        None => env!("CARGO_BIN_EXE_nodegauge").to_owned(),
    });
    &PATH
}

/// Creates a link named `nodegauge` to a program, because some tests find it in `PATH`. Returns the link.
fn named(chosen: &Path) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let program = root.join(chosen);
    assert!(program.is_file(), "NODEGAUGE_BIN={}: no such file", chosen.display());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chosen");
    std::fs::create_dir_all(&folder).unwrap();
    let link = folder.join("nodegauge");
    // Several test programs may run at the same time.
    let new = folder.join(format!("new-{}", std::process::id()));
    std::os::unix::fs::symlink(program, &new).unwrap();
    std::fs::rename(new, &link).unwrap();
    link.into_os_string().into_string().unwrap()
}
