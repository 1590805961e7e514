//! Pairs among many nodes. In each step, as many pairs as possible communicate concurrently. A ring and a random
//! pairing connect every node with three other nodes in few steps, so that a bad link or adapter becomes visible.

use crate::config::MessageConfig;
use crate::figures::result;
use crate::job::launch::{Launch, RankLocations};
use crate::options::{MessageOptions, SideThreads};
use crate::pattern::{Participants, Pattern};
use crate::probe::start::{StartReport, Starter, error_tail};
use nodegauge_measure::record::Measurement;
use nodegauge_measure::schedule::shuffle::Shuffler;
use nodegauge_os::{OtherUserRights, check_rights, describe_exit_status, wait_without_limit};
use nodegauge_placement::Distance;
use nodegauge_toolchain::mpi::shorten_launcher_error;
use nodegauge_toolchain::program::{self, ProgramJob};
use nodegauge_toolchain::{ChildEnd, KillReason};
use rustix::fs::FileType;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pairs of nodes that communicate concurrently.
type PairStep = Vec<(usize, usize)>;

/// Pairs each node with its two neighbours in a ring of `n` nodes: two steps, or three if `n` is odd, because
/// one node is idle in each step.
fn ring(n: usize) -> Vec<PairStep> {
    // A ring of two nodes has only one edge.
    let edges = if n > 2 { n } else { n.saturating_sub(1) };
    let mut steps = vec![PairStep::new(); 3];
    for edge in 0..edges {
        // With an odd number of nodes, the last edge shares a node with both of its neighbours.
        let step = if edges % 2 == 1 && edge + 1 == edges { 2 } else { edge % 2 };
        steps[step].push((edge, (edge + 1) % n));
    }
    steps.retain(|step| !step.is_empty());
    steps
}

/// Returns a random pairing of `n` nodes. It depends only on `n` and `seed`. If `n` is odd, one node is idle.
fn random(n: usize, seed: u64) -> PairStep {
    let mut order: Vec<usize> = (0..n).collect();
    Shuffler::new(seed).shuffle(&mut order);
    order.chunks_exact(2).map(|pair| (pair[0].min(pair[1]), pair[0].max(pair[1]))).collect()
}

/// Seeds that are tried for the random pairing; more than one in three gives a suitable pairing.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=100;

/// Returns the steps of the ring, and for at least four nodes a random pairing of nodes that are not neighbours in the
/// ring. No pair occurs twice. The pairs are the same in every run, so that runs can be compared.
fn steps(n: usize) -> Vec<PairStep> {
    let mut steps = ring(n);
    if n > 3 {
        let mut pairings = SEEDS.map(|seed| random(n, seed));
        steps.extend(pairings.find(|step| step.iter().all(|(a, b)| b - a != 1 && b - a != n - 1)));
    }
    steps
}

/// Returns the launches with one rank per host. Patterns of one pair use the ring and the random pairing, patterns with
/// threads use the first two hosts, and the other patterns use all hosts together.
pub(crate) fn launches(hosts: &[String], options: &MessageOptions) -> Vec<Launch> {
    let n = hosts.len();
    let own = launch(hosts, options.patterns_with(&[Participants::Pair]));
    let own = Launch { steps: steps(n), ..own };
    let together = launch(hosts, options.patterns_with(&[Participants::Pairs, Participants::All]));
    let threads = options.threads.unwrap_or(SideThreads::DEFAULT);
    let threaded = launch(&hosts[..n.min(2)], options.patterns_with(&[Participants::Threads]));
    let threaded = Launch { threads, ..threaded };
    [own, together, threaded].into_iter().filter(|one| !one.patterns.is_empty()).collect()
}

/// Returns a launch of patterns with one rank on each of these hosts.
fn launch(hosts: &[String], patterns: Vec<Pattern>) -> Launch {
    Launch::new(RankLocations::Hosts(hosts.to_vec()), Some(Distance::OtherHost), patterns)
}

/// Returns the host pairs of the unfinished step that have no result; `None` if every pair has a result, or if all
/// ranks are on one host.
pub(crate) fn unmeasured_pairs(report: &StartReport) -> Option<Vec<String>> {
    let hosts = report.launch.hosts().filter(|_| report.incomplete_start.is_some())?;
    let step = report.launch.steps.get(report.output.steps)?;
    let mut names = Vec::new();
    for (a, b) in step {
        // Each pair is measured only once, so any complete size of a pair belongs to this step.
        let pair = (*a as u32, *b as u32);
        if !report.output.sizes.iter().any(|size| size.ranks == pair && size.end_reason.is_some()) {
            names.push(format!("{} with {}", hosts[*a], hosts[*b]));
        }
    }
    (!names.is_empty()).then_some(names)
}

/// Timeout for the response of a host.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval between two checks whether the user has interrupted the run.
const INTERRUPT_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Number of hosts that are checked concurrently.
const CONCURRENT_CHECKS: usize = 64;

/// Program that prints the owner and the mode of files (GNU coreutils and busybox). It is called with the folders of
/// the probe and the probe itself; each line of its output has `nodegauge`, the user ID, and the mode in hexadecimal
/// digits.
const STAT: &str = "stat";
const STAT_FORMAT: &str = "nodegauge:%u:%f";
const STAT_WORD: &str = "nodegauge";

/// Checks many hosts concurrently: each host must respond, and no other user of the host may be able to replace the
/// probe. Returns the hosts that pass the check, and the other hosts with the reason.
pub(crate) fn check_hosts(
    mpi: &Starter<'_>,
    hosts: &[String],
    interrupted: &dyn Fn() -> bool,
) -> (Vec<String>, Vec<(String, String)>) {
    let mut answer = Vec::new();
    let mut silent = Vec::new();
    for some in hosts.chunks(CONCURRENT_CHECKS) {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for host in some {
                let started = std::thread::Builder::new()
                    .spawn_scoped(scope, || check_host(mpi, host, &ended));
                match started {
                    Ok(thread) => threads.push((host, thread)),
                    Err(cause) => {
                        silent.push((host.clone(), format!("cannot start a thread: {cause}")));
                    }
                }
            }
            // Only this thread can check whether the user has interrupted the run.
            wait_without_limit(INTERRUPT_CHECK_INTERVAL, || {
                ended.fetch_or(interrupted(), Ordering::Relaxed);
                threads.iter().all(|(_, thread)| thread.is_finished()).then_some(())
            });
            for (host, thread) in threads {
                match thread
                    .join()
                    .unwrap_or_else(|_| Err("the host could not be checked".to_owned()))
                {
                    Ok(()) => answer.push(host.clone()),
                    Err(why) => silent.push((host.clone(), why)),
                }
            }
        });
    }
    (answer, silent)
}

/// Checks a host. Returns the reason as an error if the probe cannot be started on the host.
fn check_host(mpi: &Starter<'_>, host: &str, ended: &AtomicBool) -> Result<(), String> {
    let launch = Launch::new(RankLocations::Hosts(vec![host.to_owned()]), None, Vec::new());
    let parts = mpi.probe_path().map(path_parts).unwrap_or_default();
    let mut arguments = vec!["-c".to_owned(), STAT_FORMAT.to_owned()];
    arguments.extend(parts.iter().map(|part| part.display().to_string()));
    let run = mpi.program_job(&launch, STAT, &arguments).map_err(|error| error.to_string())?;
    let run = ProgramJob { limit: RESPONSE_TIMEOUT, ..run };
    let output =
        program::run(&run, &|| ended.load(Ordering::Relaxed)).map_err(|error| error.to_string())?;
    Err(match output.end {
        ChildEnd::Exited(status) if status.success() => {
            return check_path(&parts, &output.stdout);
        }
        ChildEnd::Exited(status) => {
            let words = error_tail(&shorten_launcher_error(&output.stderr));
            format!("{}: {}", describe_exit_status(status), words.replace('\n', " "))
        }
        ChildEnd::Killed(KillReason::TimedOut) => {
            format!("no response within {} s", RESPONSE_TIMEOUT.as_secs())
        }
        ChildEnd::Killed(KillReason::TooMuchOutput) => "endless output".to_owned(),
        ChildEnd::Killed(KillReason::Interrupted) => "interrupted".to_owned(),
    })
}

/// Returns a path and its parent folders, from the root directory to the path itself.
fn path_parts(path: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = path.ancestors().map(Path::to_owned).collect();
    parts.reverse();
    parts
}

/// Checks that no other user of a host can have created or replaced a program. `parts` are its parent folders and its
/// own path; `printed` is the output of [`STAT`] for all parts, which may contain other lines of the launcher.
fn check_path(parts: &[PathBuf], printed: &str) -> Result<(), String> {
    let mut found = printed.lines().filter_map(|line| {
        let mut words = line.trim().rsplitn(3, ':');
        let mode = u32::from_str_radix(words.next()?, 16).ok()?;
        let owner: u32 = words.next()?.parse().ok()?;
        words.next()?.ends_with(STAT_WORD).then_some((owner, mode))
    });
    for (i, part) in parts.iter().enumerate() {
        let Some((owner, mode)) = found.next() else {
            return Err(format!("{STAT} did not print the owner of {}", part.display()));
        };
        let is_program = i + 1 == parts.len();
        let expected = if is_program { FileType::RegularFile } else { FileType::Directory };
        if FileType::from_raw_mode(mode) != expected {
            let wanted = if is_program { "regular file" } else { "folder" };
            return Err(format!("{} is not a {wanted}", part.display()));
        }
        check_rights(owner, mode, OtherUserRights::MayAdd, part).map_err(|why| why.to_string())?;
    }
    Ok(())
}

/// Returns the measurement without a value for a host that did not respond.
pub(crate) fn unresponsive_host(mpi: &Starter<'_>, host: &str, why: &str) -> Measurement {
    let config = MessageConfig {
        hosts: Some(vec![host.to_owned()]),
        ..result::unstarted_config(mpi, Some(Distance::OtherHost))
    };
    let pattern = mpi.options.patterns.first().copied().unwrap_or(Pattern::Latency);
    result::missing_measurement(mpi, pattern, &config, &format!("{host} cannot be used: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn probe_is_started_only_from_a_private_path() {
        let parts = path_parts(Path::new("/tmp/private/probe"));
        assert_eq!(parts.len(), 4);
        let own = nodegauge_os::effective_user_id();
        let lines = |modes: [(u32, u32); 4]| {
            let line = |(owner, mode): (u32, u32)| format!("nodegauge:{owner}:{mode:x}\n");
            modes.map(line).concat()
        };
        let good = [(0, 0o40755), (0, 0o41777), (own, 0o40700), (own, 0o100_700)];
        let printed = format!("a line of the launcher\n[1,0]{}", lines(good));
        assert_eq!(check_path(&parts, &printed), Ok(()));
        let stranger = own + 1;
        let cases = [
            ((1, (0, 0o40777)), "other users can replace files in /tmp"),
            ((1, (0, 0o120_777)), "/tmp is not a folder"),
            ((2, (stranger, 0o40700)), "other users can replace files in /tmp/private"),
            ((3, (stranger, 0o100_755)), "other users can replace files in /tmp/private/probe"),
            ((3, (own, 0o120_777)), "/tmp/private/probe is not a regular file"),
        ];
        for ((at, part), why) in cases {
            let mut modes = good;
            modes[at] = part;
            let error = check_path(&parts, &lines(modes)).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
        let cut = "nodegauge:0:41ed\n";
        assert_eq!(check_path(&parts, cut).unwrap_err(), "stat did not print the owner of /tmp");
    }

    #[test]
    fn ring_of_four_nodes_has_two_steps() {
        assert_eq!(ring(4), [vec![(0, 1), (2, 3)], vec![(1, 2), (3, 0)]]);
        assert_eq!(ring(2), [vec![(0, 1)]]);
        assert_eq!(ring(3), [vec![(0, 1)], vec![(1, 2)], vec![(2, 0)]]);
        assert!(ring(1).is_empty() && ring(0).is_empty());
    }

    #[test]
    fn pairs_of_nodes_are_unique() {
        for n in 2..100 {
            let mut pairs: Vec<(usize, usize)> = steps(n).into_iter().flatten().collect();
            let all = pairs.len();
            assert_eq!(all, ring(n).into_iter().flatten().count() + if n > 3 { n / 2 } else { 0 });
            pairs.iter_mut().for_each(|(a, b)| (*a, *b) = ((*a).min(*b), (*a).max(*b)));
            pairs.sort_unstable();
            pairs.dedup();
            assert_eq!(pairs.len(), all, "{n} nodes");
        }
    }

    proptest! {
        #[test]
        fn ring_steps_are_disjoint_and_cover_all_neighbours(n in 3usize..200) {
            let steps = ring(n);
            prop_assert!(steps.len() <= 3);
            let mut edges = 0;
            for step in &steps {
                let mut busy: Vec<usize> = step.iter().flat_map(|(a, b)| [*a, *b]).collect();
                let all = busy.len();
                busy.sort_unstable();
                busy.dedup();
                prop_assert_eq!(busy.len(), all);
                edges += step.len();
            }
            prop_assert_eq!(edges, n);
        }

        #[test]
        fn random_step_pairs_every_node_once(n in 2usize..200, seed: u64) {
            let step = random(n, seed);
            let mut busy: Vec<usize> = step.iter().flat_map(|(a, b)| [*a, *b]).collect();
            busy.sort_unstable();
            busy.dedup();
            prop_assert_eq!(busy.len(), n / 2 * 2);
            prop_assert_eq!(step, random(n, seed));
        }
    }
}
