//! Process that cleans up if this process is killed by a signal that cannot be caught. It kills the programs that
//! this process has started, with their descendants, and removes the private folders.

use crate::ScratchFolder;
use crate::scratch::{SHARED_MEMORY, temporary_folder};
use nodegauge_os::{OtherUserRights, TrustedFolder, kill_descendants};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Name of the hidden command that runs the watchdog.
pub const COMMAND: &str = "clean-up-after";
/// Byte that the monitored process sends before it ends normally.
const DONE: [u8; 1] = [1];

/// Running watchdog. When this value is dropped, the watchdog ends without cleaning up.
#[derive(Debug)]
pub struct Watchdog(Option<Child>);

impl Watchdog {
    /// Starts the watchdog of this process; `program` is the path of nodegauge. If the watchdog cannot be started, the
    /// run continues, and nothing is cleaned up after SIGKILL.
    pub fn start(program: &Path) -> Self {
        let child = Command::new(program)
            .args([COMMAND, &std::process::id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // The watchdog must not be ended by signals from the terminal or to the process group.
            .process_group(0)
            .spawn();
        Self(child.ok())
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        // A failure means that the watchdog has ended.
        let _ = child.stdin.take().map(|mut pipe| pipe.write_all(&DONE));
        let _ = child.wait();
    }
}

/// Runs the watchdog: waits for the end of `process`, whose pipe is the standard input, and cleans up unless it
/// ended normally.
pub fn serve(process: u32) {
    let mut end = [0; 1];
    if matches!(std::io::stdin().read(&mut end), Ok(1..)) {
        return;
    }
    kill_descendants(process);
    for folder in [temporary_folder().as_path(), Path::new(SHARED_MEMORY)] {
        // If other users can rename folders, a name with the prefix may denote any folder of this user, so nothing is
        // removed.
        if let Ok(folder) = TrustedFolder::open(folder, OtherUserRights::MayAdd) {
            remove_folders(folder.path(), &ScratchFolder::prefix(process));
        }
    }
}

/// Removes the folders whose names begin with `prefix`.
fn remove_folders(parent: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && entry.file_name().to_string_lossy().starts_with(prefix) {
            // Folders of other users cannot be removed.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
