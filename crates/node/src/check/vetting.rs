//! Vetting of the nodes of a job: each rank checks its node, and rank 0 keeps the best nodes.
//!
//! The ranks send their verdicts to rank 0 through files next to the list of excluded nodes. Each file gets its final
//! name when it is complete. The only requirement is a shared file system, from which the job script also reads the
//! list.

use super::{CheckReport, Deadline};
use crate::caller::{Caller, CommandEnd, Outputs, to_json};
use crate::signals::Signals;
use nodegauge_fleet::check::NodeVerdict;
use nodegauge_measure::Failure;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_os::{TrustError, Wait, wait_until};
use nodegauge_placement::LauncherJob;
use nodegauge_team::collect::MessageCollection;
use nodegauge_toolchain::mpi::HostList;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time after the deadline during which rank 0 waits for the other ranks. They may start later, and a shared file
/// system may show their files with a delay.
const RANK_GRACE: Duration = Duration::from_secs(10);
/// Interval at which rank 0 looks for the files.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum size of the file of a rank, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Example of a command, for hints.
const EXAMPLE: &str =
    "srun -N6 --ntasks-per-node=1 nodegauge check --level 2 --vet 4 --exclude-file bad.txt";

/// Options of a vetting.
#[derive(Debug, Clone)]
pub struct VettingRequest {
    /// Number of nodes to keep.
    pub keep: u32,
    /// File for the nodes that are not kept.
    pub exclude_file: Option<PathBuf>,
    /// File for the nodes that are kept.
    pub node_file: Option<PathBuf>,
}

/// Verdict of a rank, as its file contains it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct RankVerdict {
    rank: u32,
    host: String,
    verdict: NodeVerdict,
    /// Line with the verdict.
    line: String,
    /// Smallest of the figures' shares of the reference.
    share: Option<f64>,
    /// Score of the first figure. Without a reference, nodes are sorted by it.
    score: Option<FigureScore>,
}

/// Best measurement of a figure, on a scale where higher is better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct FigureScore {
    figure: String,
    value: f64,
}

/// Vetting, with the rank of this process.
pub(super) struct Vetting {
    keep: usize,
    job: LauncherJob,
    host: String,
    exclude: PathBuf,
    nodes: Option<PathBuf>,
    /// Nodes of the job step; empty if the launcher does not name them.
    join_step: Vec<String>,
}

impl Vetting {
    /// Prepares the vetting for this rank.
    pub(super) fn new(request: &VettingRequest, outputs: &dyn Outputs) -> Result<Self, Failure> {
        let job = LauncherJob::current().ok_or_else(|| {
            Failure::usage("--vet needs several ranks of a launcher, one per node").hint(EXAMPLE)
        })?;
        let keep = request.keep;
        if keep > job.ranks {
            let text = format!(
                "--vet {keep}: the job has only {}",
                count_in_words(job.ranks as usize, "rank")
            );
            return Err(Failure::usage(text).hint(EXAMPLE));
        }
        let Some(exclude) = request.exclude_file.clone() else {
            return Err(Failure::usage("--vet needs --exclude-file").hint(EXAMPLE));
        };
        for file in [&request.exclude_file, &request.node_file].into_iter().flatten() {
            outputs.check_file(file)?;
        }
        // The name of the node in Slurm, which Slurm's options require, may differ from the host name.
        let named = std::env::var("SLURMD_NODENAME").ok();
        let host = named.unwrap_or_else(super::host);
        let names: HostList = host
            .parse()
            .map_err(|error| Failure::from(&error).with_context("name of this node"))?;
        if names.0.len() != 1 {
            return Err(Failure::usage(format!("'{host}' is not a valid node name")));
        }
        let join_step = std::env::var("SLURM_STEP_NODELIST").ok();
        let join_step = join_step.and_then(|list| list.parse::<HostList>().ok());
        Ok(Self {
            keep: keep as usize,
            job,
            host,
            exclude,
            nodes: request.node_file.clone(),
            join_step: join_step.map(|list| list.0).unwrap_or_default(),
        })
    }

    /// Returns the name of this node.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the path of the verdict file of a rank.
    fn rank_path(&self, rank: u32) -> PathBuf {
        let mut name = self.exclude.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.{rank}", self.job.file_name()));
        self.exclude.with_file_name(name)
    }

    /// Sends the verdict to rank 0. On rank 0, collects all verdicts, and writes and prints the lists. Only rank 0 has
    /// an exit code other than 0, so that the exit code of the launcher is the result of the vetting.
    pub(super) fn end(
        &self,
        report: &CheckReport,
        deadline: Deadline,
        signals: &Signals,
        caller: &Caller,
    ) -> Result<CommandEnd, Failure> {
        let outputs = caller.outputs;
        let own = RankVerdict {
            rank: self.job.rank,
            host: self.host.clone(),
            verdict: report.verdict,
            line: report.line.clone(),
            share: report
                .figures
                .iter()
                .filter_map(|figure| figure.share)
                .map(|s| s.0)
                .reduce(f64::min),
            score: report.figures.first().and_then(|figure| {
                let value = figure.score?;
                Some(FigureScore { figure: figure.name.clone(), value })
            }),
        };
        outputs.print(&format!("{}\n", report.line))?;
        let until = deadline.0 + RANK_GRACE;
        if self.job.rank != 0 {
            return self.deliver(&own, until, signals, outputs);
        }
        let mut collection = MessageCollection::new(
            1..self.job.ranks as usize,
            until.saturating_duration_since(Instant::now()),
        );
        let mut refused = BTreeSet::new();
        let interrupted = || signals.is_received();
        let wait = collection.deadline_wait().every(POLL_INTERVAL).unless(&interrupted);
        collection.poll_each(&wait, |rank| Ok(self.take(rank as u32, &mut refused, outputs)))?;
        if let Some(signal) = signals.received_signal() {
            return Ok(CommandEnd::Signal(signal));
        }
        let others = collection.into_messages().into_values();
        self.write_lists(std::iter::once(own).chain(others).collect(), outputs)
    }

    /// Writes the verdict file of this rank, and waits until rank 0 has read it. The file is removed in any case.
    fn deliver(
        &self,
        own: &RankVerdict,
        until: Instant,
        signals: &Signals,
        outputs: &dyn Outputs,
    ) -> Result<CommandEnd, Failure> {
        let path = self.rank_path(self.job.rank);
        outputs.write_text(&path, to_json(own)?)?;
        let interrupted = || signals.is_received();
        let wait = Wait::until(until).every(POLL_INTERVAL).unless(&interrupted);
        if wait_until(&wait, || (!path.exists()).then_some(())).is_err() {
            // If rank 0 has ended without reading the file, nobody else removes it.
            let _ = std::fs::remove_file(&path);
        }
        Ok(CommandEnd::Met)
    }

    /// Reads the verdict file of a rank; `None` if there is no valid file yet. A file or link of another user is
    /// refused and reported once, and its rank is added to `refused`.
    fn take(
        &self,
        rank: u32,
        refused: &mut BTreeSet<u32>,
        outputs: &dyn Outputs,
    ) -> Option<RankVerdict> {
        let path = self.rank_path(rank);
        match read_verdict_file(&path, rank) {
            Ok(found) => found,
            Err(why) => {
                if !why.is_absent() && refused.insert(rank) {
                    let shown = path.display();
                    outputs.note(&format!("verdict of rank {rank} refused: {shown}: {why}"));
                }
                None
            }
        }
    }

    /// Writes both lists to their files, and prints them.
    fn write_lists(
        &self,
        verdicts: Vec<RankVerdict>,
        outputs: &dyn Outputs,
    ) -> Result<CommandEnd, Failure> {
        let missing = self.job.ranks as usize - verdicts.len();
        let silent: Vec<String> = self
            .join_step
            .iter()
            .filter(|name| verdicts.iter().all(|verdict| verdict.host != **name))
            .cloned()
            .collect();
        let (kept, rest) = chosen(verdicts, self.keep);
        let kept = node_names(&kept);
        let rest = node_names(&rest);
        outputs.write_text(&self.exclude, name_lines(&rest) + &name_lines(&silent))?;
        if let Some(path) = &self.nodes {
            outputs.write_text(path, name_lines(&kept))?;
        }
        let mut text = format!(
            "{:11}{}\n{:11}{}\n",
            "vetted",
            list_or_none(&kept),
            "excluded",
            list_or_none(&rest)
        );
        if missing > 0 {
            let named =
                if silent.is_empty() { String::new() } else { format!(": {}", silent.join(",")) };
            text.push_str(&format!(
                "{:11}no verdict from {missing} of {} ranks{named}\n",
                "missing", self.job.ranks
            ));
        }
        outputs.print(&text)?;
        if kept.len() < self.keep {
            let kept_nodes = count_in_words(kept.len(), "node");
            outputs.note(&format!("only {kept_nodes} can be kept; required: {}", self.keep));
            return Ok(CommandEnd::Unmet);
        }
        Ok(CommandEnd::Met)
    }
}

/// Returns the names of nodes.
fn node_names(nodes: &[RankVerdict]) -> Vec<String> {
    nodes.iter().map(|node| node.host.clone()).collect()
}

/// Returns a text with one name per line.
fn name_lines(names: &[String]) -> String {
    names.iter().map(|name| format!("{name}\n")).collect()
}

/// Returns names as a host list, or `none`.
fn list_or_none(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(",") }
}

/// Reads the verdict file of a rank and removes it; `None` if the file contains no valid verdict of this rank. Files of
/// other users are refused, because all ranks belong to the same user.
fn read_verdict_file(path: &Path, rank: u32) -> Result<Option<RankVerdict>, TrustError> {
    let bytes = nodegauge_os::read_trusted_file(path, MAX_FILE_BYTES)?;
    let Ok(found) = serde_json::from_slice::<RankVerdict>(&bytes) else { return Ok(None) };
    let is_valid = found.rank == rank && found.host.parse::<HostList>().is_ok();
    let _ = std::fs::remove_file(path);
    Ok(is_valid.then_some(found))
}

/// Selects the nodes to keep, best first; the second list contains the other nodes. Bad nodes are never kept. The
/// verdict on a node with several ranks is the worst verdict of these ranks.
fn chosen(verdicts: Vec<RankVerdict>, keep: usize) -> (Vec<RankVerdict>, Vec<RankVerdict>) {
    let mut nodes: Vec<RankVerdict> = Vec::new();
    for verdict in verdicts {
        match nodes.iter_mut().find(|known| known.host == verdict.host) {
            Some(known) if known.verdict < verdict.verdict => *known = verdict,
            Some(_) => {}
            None => nodes.push(verdict),
        }
    }
    let compared = common_figure(&nodes);
    let score = |node: &RankVerdict| {
        let own = node.score.as_ref().filter(|score| Some(&score.figure) == compared.as_ref());
        known_or_minimum(own.map(|score| score.value))
    };
    nodes.sort_by(|a, b| {
        let by_verdict = a.verdict.cmp(&b.verdict);
        let by_share = known_or_minimum(b.share).total_cmp(&known_or_minimum(a.share));
        let by_score = score(b).total_cmp(&score(a));
        by_verdict.then(by_share).then(by_score).then(a.rank.cmp(&b.rank))
    });
    let usable = nodes.iter().take_while(|node| node.verdict != NodeVerdict::Bad).count();
    let rest = nodes.split_off(usable.min(keep));
    (nodes, rest)
}

/// Returns the name of the figure that most nodes have a score of; scores of different figures cannot be compared.
fn common_figure(nodes: &[RankVerdict]) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for score in nodes.iter().filter_map(|node| node.score.as_ref()) {
        *counts.entry(&score.figure).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(figure, _)| figure.to_owned())
}

/// Returns the value by which nodes are sorted, or the minimum for an unknown value, so that it comes last.
fn known_or_minimum(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(rank: u32, host: &str, verdict: NodeVerdict, share: Option<f64>) -> RankVerdict {
        let line = format!("{host} {verdict}");
        RankVerdict { rank, host: host.to_owned(), verdict, line, share, score: None }
    }

    fn hosts(of: &[RankVerdict]) -> Vec<&str> {
        of.iter().map(|node| node.host.as_str()).collect()
    }

    #[test]
    fn vetting_keeps_the_best_nodes_but_never_a_bad_node() {
        use NodeVerdict::{Bad, Good, Unknown};
        let all = vec![
            verdict(0, "n1", Good, Some(0.97)),
            verdict(1, "n2", Bad, Some(0.69)),
            verdict(2, "n3", Unknown, None),
            verdict(3, "n4", Good, Some(1.01)),
        ];
        let (kept, rest) = chosen(all.clone(), 3);
        assert_eq!((hosts(&kept), hosts(&rest)), (vec!["n4", "n1", "n3"], vec!["n2"]));
        let (best, others) = chosen(all.clone(), 1);
        assert_eq!((hosts(&best), hosts(&others)), (vec!["n4"], vec!["n1", "n3", "n2"]));
        // A bad node is never kept.
        assert_eq!(chosen(all, 4).0.len(), 3);
    }

    #[test]
    fn nodes_without_reference_are_sorted_by_their_common_figure() {
        let node = |rank: u32, host: &str, figure: &str, value: f64| {
            let score = FigureScore { figure: figure.to_owned(), value };
            RankVerdict { score: Some(score), ..verdict(rank, host, NodeVerdict::Unknown, None) }
        };
        let all = vec![
            node(0, "n1", "stream.triad", 1e11),
            // The inverse of a latency; the rate of this node is unknown.
            node(1, "n2", "memory.latency", 1e12),
            node(2, "n3", "stream.triad", 2e11),
        ];
        let (kept, rest) = chosen(all, 3);
        assert_eq!((hosts(&kept), hosts(&rest)), (vec!["n3", "n1", "n2"], vec![]));
    }

    #[test]
    fn verdict_files_of_other_users_are_refused() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let text = serde_json::to_string(&verdict(1, "n1", NodeVerdict::Good, Some(9.0))).unwrap();
        let write = |name: &str| {
            std::fs::write(at(name), &text).unwrap();
            at(name)
        };
        assert_eq!(read_verdict_file(&write("own"), 1).unwrap().unwrap().host, "n1");
        assert!(!at("own").exists());
        assert!(read_verdict_file(&write("own"), 2).unwrap().is_none(), "of another rank");
        assert!(read_verdict_file(&at("own"), 1).unwrap_err().is_absent());
        let open = write("open");
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o666)).unwrap();
        let theirs = write("theirs");
        // Only root can change the owner of the file; other users skip this part.
        let is_given = chown(&theirs, Some(65_534), None).is_ok();
        write("target");
        symlink("target", at("link")).unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        for path in [&open, &at("link")].into_iter().chain(is_given.then_some(&theirs)) {
            let refused = read_verdict_file(path, 1).unwrap_err();
            assert!(!refused.is_absent(), "{path:?}: {refused}");
        }
    }

    #[test]
    fn node_gets_the_worst_verdict_of_its_ranks() {
        let all = vec![
            verdict(0, "n1", NodeVerdict::Good, Some(1.0)),
            verdict(1, "n1", NodeVerdict::Bad, Some(0.7)),
        ];
        let (kept, rest) = chosen(all, 1);
        assert_eq!((hosts(&kept), hosts(&rest)), (vec![], vec!["n1"]));
    }
}
