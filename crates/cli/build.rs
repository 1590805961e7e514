//! Passes the git commit to the compiler if the source is a git checkout, or a package made from a checkout.

use std::path::Path;
use std::process::Command;

/// File with the commit, which `cargo package` adds.
const PACKAGED: &str = ".cargo_vcs_info.json";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=NODEGAUGE_COMMIT");
    // A path that does not exist would make cargo run this script in every build.
    for path in ["../../.git/HEAD", "../../.git/refs", PACKAGED] {
        if Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let given = std::env::var("NODEGAUGE_COMMIT").ok().filter(|commit| !commit.is_empty());
    if let Some(commit) = given.or_else(packaged_commit).or_else(checkout_commit) {
        println!("cargo::rustc-env=NODEGAUGE_COMMIT={:.12}", commit.trim());
    }
}

/// Returns the commit in the package of this crate; `None` if the source is not a package.
fn packaged_commit() -> Option<String> {
    let text = std::fs::read_to_string(PACKAGED).ok()?;
    let (_, rest) = text.split_once("\"sha1\": \"")?;
    rest.split_once('"').map(|(commit, _)| commit.to_owned())
}

/// Returns the commit of the checkout; `None` if the source is not in a checkout of its workspace.
fn checkout_commit() -> Option<String> {
    if !Path::new("../../.git").exists() {
        return None;
    }
    let output = Command::new("git").args(["rev-parse", "HEAD"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
