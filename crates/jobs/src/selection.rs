//! Selection of the processes to read: the processes that a user named with their descendants, the descendants of this
//! process, or the processes of a job.

use crate::process::{TaskStat, file_text, status_line};
use nodegauge_machine::SysRoot;
use nodegauge_measure::Failure;
use std::collections::{BTreeMap, BTreeSet};

/// Variables in which schedulers pass the identifier of a job to its processes.
const JOB_VARIABLES: [&str; 4] = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"];

/// Returns all processes in `/proc`, in ascending order.
fn all_processes(root: &SysRoot) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(root.path("proc")) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut pids: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

/// Returns the children of each process.
fn children(root: &SysRoot) -> BTreeMap<u32, Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in all_processes(root) {
        let Ok(text) = file_text(root, &format!("proc/{pid}/stat")) else { continue };
        if let Some(parent) = TaskStat::parse(&text).and_then(|stat| stat.parent()) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

/// Returns all descendants of the processes `ancestors`. One of these processes is included only if it is a descendant
/// of another one.
pub fn descendants(root: &SysRoot, ancestors: &[u32]) -> BTreeSet<u32> {
    let children = children(root);
    let mut found = BTreeSet::new();
    let mut left = ancestors.to_vec();
    while let Some(pid) = left.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if found.insert(*child) {
                left.push(*child);
            }
        }
    }
    found
}

/// Result of looking up the processes that a user named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedProcesses {
    /// Named processes that exist.
    pub named: BTreeSet<u32>,
    /// The named processes and their descendants.
    pub all: BTreeSet<u32>,
    /// One sentence for each process that does not exist.
    pub missing: Vec<String>,
}

/// Returns the named processes with their descendants. The process `own`, i.e. nodegauge itself, is left out.
///
/// # Errors
/// Fails if none of the processes exists.
pub fn named_processes(root: &SysRoot, pids: &[u32], own: u32) -> Result<NamedProcesses, Failure> {
    let mut named = BTreeSet::new();
    let mut missing = Vec::new();
    for pid in pids {
        if root.exists(&format!("proc/{pid}/stat")) {
            named.insert(*pid);
        } else {
            missing.push(format!("process {pid} does not exist{}", hidepid_note(root)));
        }
    }
    if named.is_empty() {
        return Err(
            Failure::missing(missing.join("; ")).hint("list processes, e.g. pgrep -u $USER -l")
        );
    }
    let ancestors: Vec<u32> = named.iter().copied().collect();
    let mut all = descendants(root, &ancestors);
    all.extend(&named);
    for pid in descendants(root, &[own]).into_iter().chain([own]) {
        all.remove(&pid);
    }
    Ok(NamedProcesses { named, all, missing })
}

/// Returns the end of a message if `/proc` may hide processes from this user, i.e. if it is mounted with the option
/// `hidepid` (proc(5)); otherwise an empty text.
fn hidepid_note(root: &SysRoot) -> &'static str {
    let mounts = file_text(root, "proc/self/mountinfo").unwrap_or_default();
    let of_proc = mounts.lines().find(|line| line.contains(" /proc ") && line.contains(" - proc "));
    match of_proc {
        Some(line) if line.contains("hidepid=") && !line.contains("hidepid=0") => {
            ", or /proc hides it (hidepid); root can read it"
        }
        _ => "",
    }
}

/// Returns the processes of a job on this node: those in its control group and those with its identifier in a variable.
/// This process, its ancestors and its descendants are left out.
///
/// # Errors
/// Fails if the job has no processes here.
pub fn job_processes(root: &SysRoot, id: &str, own: u32) -> Result<BTreeSet<u32>, Failure> {
    let mut found = BTreeSet::new();
    for pid in all_processes(root) {
        if is_in_job_group(root, pid, id) || has_job_variable(root, pid, id) {
            found.insert(pid);
        }
    }
    for pid in ancestors(root, own).into_iter().chain([own]).chain(descendants(root, &[own])) {
        found.remove(&pid);
    }
    if found.is_empty() {
        let text = format!("job {id} has no processes on this node that this user can see");
        return Err(Failure::missing(text).hint(format!(
            "start it on the nodes of the job: srun --jobid={id} --overlap nodegauge where --job {id}"
        )));
    }
    Ok(found)
}

/// True if a folder of a process's control group belongs to the job: `job_7` (Slurm), or a name that begins with the
/// job identifier (PBS, LSF).
fn is_in_job_group(root: &SysRoot, pid: u32, id: &str) -> bool {
    let Ok(groups) = file_text(root, &format!("proc/{pid}/cgroup")) else { return false };
    let mut folders = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    folders.any(|path| path.split('/').any(|folder| is_job_folder(folder, id)))
}

fn is_job_folder(folder: &str, id: &str) -> bool {
    if folder.strip_prefix("job_") == Some(id) || folder == id {
        return true;
    }
    let server = folder.strip_prefix(id).and_then(|rest| rest.strip_prefix('.'));
    server.is_some_and(|rest| !["scope", "slice", "service"].contains(&rest))
}

fn has_job_variable(root: &SysRoot, pid: u32, id: &str) -> bool {
    let Ok(variables) = file_text(root, &format!("proc/{pid}/environ")) else { return false };
    let mut pairs = variables.split('\0').filter_map(|pair| pair.split_once('='));
    pairs.any(|(name, value)| JOB_VARIABLES.contains(&name) && value == id)
}

/// Returns the ancestors of a process.
fn ancestors(root: &SysRoot, pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut at = pid;
    while let Ok(status) = file_text(root, &format!("proc/{at}/status")) {
        let parent = status_line(&status, "PPid:").and_then(|text| text.parse().ok());
        match parent {
            Some(parent) if parent > 0 && !found.contains(&parent) => {
                found.push(parent);
                at = parent;
            }
            _ => break,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(processes: &[(u32, u32, &str, &str)]) -> (tempfile::TempDir, SysRoot) {
        let folder = tempfile::tempdir().unwrap();
        for (pid, parent, group, variables) in processes {
            let path = folder.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&path).unwrap();
            let stat = format!("{pid} (a b) S {parent} 1 1 0\n");
            std::fs::write(path.join("stat"), stat).unwrap();
            std::fs::write(path.join("status"), format!("PPid:\t{parent}\n")).unwrap();
            std::fs::write(path.join("cgroup"), format!("0::{group}\n")).unwrap();
            std::fs::write(path.join("environ"), variables).unwrap();
        }
        let root = SysRoot::recorded(folder.path());
        (folder, root)
    }

    #[test]
    fn named_processes_include_descendants() {
        let (_folder, root) = tree(&[
            (5, 1, "/", ""),
            (7, 5, "/", ""),
            (8, 7, "/", ""),
            (9, 1, "/", ""),
            (10, 5, "/", ""),
        ]);
        let found = named_processes(&root, &[5, 77], 10).unwrap();
        assert_eq!(found.all, BTreeSet::from([5, 7, 8]));
        assert_eq!(found.missing, ["process 77 does not exist"]);
        let refused = named_processes(&root, &[77], 10).unwrap_err();
        assert_eq!(refused.message, "process 77 does not exist");
    }

    #[test]
    fn missing_process_error_mentions_hidepid() {
        let (folder, root) = tree(&[]);
        let path = folder.path().join("proc/self");
        std::fs::create_dir_all(&path).unwrap();
        let mount = "24 30 0:22 / /proc rw,nosuid shared:5 - proc proc rw,hidepid=invisible\n";
        std::fs::write(path.join("mountinfo"), mount).unwrap();
        let refused = named_processes(&root, &[4], 10).unwrap_err();
        assert!(refused.message.contains("hidepid"), "{}", refused.message);
    }

    #[test]
    fn job_processes_are_found_by_control_group_and_variable() {
        let slurm = "/system.slice/slurmstepd.scope/job_12/step_0/user/task_0";
        let (_folder, root) = tree(&[
            (5, 1, slurm, ""),
            (6, 1, "/slurm/uid_7/job_123/step_0", ""),
            (7, 1, "/", "SLURM_JOB_ID=12\0"),
            (8, 1, "/pbs_jobs.service/jobid/12.server", ""),
            (9, 1, "/user.slice/12.scope", ""),
            (20, 5, slurm, ""),
        ]);
        assert_eq!(job_processes(&root, "12", 20).unwrap(), BTreeSet::from([7, 8]));
        assert_eq!(job_processes(&root, "12", 30).unwrap(), BTreeSet::from([5, 7, 8, 20]));
        let none = job_processes(&root, "9999", 30).unwrap_err();
        assert!(none.message.starts_with("job 9999 has no processes"), "{}", none.message);
    }
}
