//! Folder of `fleet run`: the records, and in `.fleet` the state of the jobs. There is no other state, so the command
//! can be interrupted and started again.
//!
//! `HOST.json` is the first record of a node, `HOST.2.json` the second. `.fleet/nodes` lists the nodes.
//! `.fleet/HOST.job` contains the job of a node, `.fleet/HOST.failed` the reason why its last job left no record,
//! `.fleet/HOST.log` its output, and `.fleet/HOST.interrupted.json` the record of an interrupted run.

use crate::intake::STATE_FOLDER;
use crate::rank::RankingOptions;
use nodegauge_measure::{Failure, legible};
use nodegauge_os::{OutputError, OutputFile};
use nodegauge_toolchain::mpi::HostList;
use serde::Deserialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Maximum size of a state file in bytes.
const LONGEST: u64 = 1 << 20;

/// Returns the name of the file that contains the job of a node.
pub fn job_file_name(host: &str) -> String {
    format!("{host}.job")
}

/// Returns the name of the file that contains the reason why the job of a node left no record.
pub fn failure_file_name(host: &str) -> String {
    format!("{host}.failed")
}

/// Fields of a record that show whether the run ended normally.
#[derive(Deserialize)]
struct RunEnd {
    complete: bool,
}

/// Folder of a fleet.
#[derive(Debug, Clone)]
pub struct FleetFolder {
    path: PathBuf,
}

impl FleetFolder {
    /// Returns the folder at a path; it may not exist.
    pub fn from_path(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Creates the folder and its state folder. Returns it with its absolute path.
    ///
    /// # Errors
    /// Fails if the folders cannot be created.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let created = std::fs::create_dir_all(path.join(STATE_FOLDER));
        let path = created.and_then(|()| path.canonicalize()).map_err(|cause| {
            Failure::missing(format!("cannot create {}", legible::path(path)))
                .cause(cause)
                .hint("give a folder that all nodes share and that you may write to")
        })?;
        Ok(Self { path })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a record of a node. `run` is its number, from 1.
    pub fn record_path(&self, host: &str, run: usize) -> PathBuf {
        self.path.join(if run == 1 { format!("{host}.json") } else { format!("{host}.{run}.json") })
    }

    /// Returns the number of records of a node.
    pub fn record_count(&self, host: &str) -> usize {
        (1..).take_while(|run| self.record_path(host, *run).is_file()).count()
    }

    /// Moves the newest record of a node into the state folder if the run was interrupted, because an incomplete record
    /// does not count. Returns true if the record was moved.
    pub fn move_incomplete_record(&self, host: &str) -> bool {
        let record = self.record_path(host, self.record_count(host).max(1));
        let bytes =
            nodegauge_os::read_file(&record, nodegauge_os::MAX_TEXT_BYTES).unwrap_or_default();
        let is_complete = serde_json::from_slice(&bytes).map_or(true, |end: RunEnd| end.complete);
        let aside = self.state_path(&format!("{host}.interrupted.json"));
        !is_complete && std::fs::rename(record, aside).is_ok()
    }

    /// Returns the path of a state file.
    pub fn state_path(&self, name: &str) -> PathBuf {
        self.path.join(STATE_FOLDER).join(name)
    }

    /// Reads a state file; `None` if it does not exist.
    pub fn read_state(&self, name: &str) -> Option<String> {
        let bytes = nodegauge_os::read_file(&self.state_path(name), LONGEST).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Writes a state file.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn write_state(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.state_path(name);
        write_line(&path, text).map_err(|why| {
            Failure::missing(format!("cannot write {}: {why}", legible::path(&path)))
                .hint(why.hint())
        })
    }

    /// Removes a state file, if it exists.
    pub fn remove_state(&self, name: &str) {
        let _ = std::fs::remove_file(self.state_path(name));
    }

    /// Returns the nodes of the fleet; empty if the folder does not belong to `fleet run`.
    pub fn nodes(&self) -> Vec<String> {
        let text = self.read_state("nodes");
        text.and_then(|text| text.parse::<HostList>().ok()).map(|list| list.0).unwrap_or_default()
    }

    /// Adds the nodes of the fleet, and the reasons why jobs left no record, to the options of a ranking.
    pub fn add_to_ranking_options(&self, options: &mut RankingOptions) {
        for host in self.nodes() {
            if let Some(why) = self.read_state(&failure_file_name(&host)) {
                options.failures.insert(host.clone(), why);
            }
            let state = match self.read_state(&job_file_name(&host)) {
                Some(id) => format!("no record of job {id} yet"),
                None => "no job for this node has ended".to_owned(),
            };
            options.states.insert(host.clone(), state);
            options.expected_nodes.push(host);
        }
    }
}

/// Replaces the content of a file by one line.
fn write_line(path: &Path, text: &str) -> Result<(), OutputError> {
    let mut file = OutputFile::create(path, &[])?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fleet_folder_stores_the_state_of_nodes() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = FleetFolder::create(&temporary.path().join("fleet")).unwrap();
        assert!(folder.nodes().is_empty());
        folder.write_state("nodes", "n[1-3]").unwrap();
        folder.write_state("n2.failed", "TIMEOUT").unwrap();
        folder.write_state("n2.job", "7").unwrap();
        std::fs::write(folder.record_path("n1", 1), "{}").unwrap();
        std::fs::write(folder.record_path("n1", 2), r#"{"complete": false, "seconds": 1}"#)
            .unwrap();
        std::fs::write(folder.record_path("n3", 2), "{}").unwrap();
        assert_eq!(
            (folder.record_count("n1"), folder.record_count("n2"), folder.record_count("n3")),
            (2, 0, 0)
        );
        assert!(folder.move_incomplete_record("n1"));
        assert!(!folder.move_incomplete_record("n1") && !folder.move_incomplete_record("n2"));
        assert_eq!(folder.record_count("n1"), 1);
        assert!(folder.state_path("n1.interrupted.json").is_file());
        let mut options = RankingOptions::default();
        FleetFolder::from_path(folder.path()).add_to_ranking_options(&mut options);
        assert_eq!(options.expected_nodes, ["n1", "n2", "n3"]);
        assert_eq!(options.failures["n2"], "TIMEOUT");
        assert_eq!(options.states["n2"], "no record of job 7 yet");
        assert_eq!(options.states["n3"], "no job for this node has ended");
        folder.remove_state("n2.failed");
        assert_eq!(folder.read_state("n2.failed"), None);
    }
}
