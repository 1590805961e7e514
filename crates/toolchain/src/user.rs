//! Who runs this.

/// Whether this process runs as root, for which some programs ask for a word.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
