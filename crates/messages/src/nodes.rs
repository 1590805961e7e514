//! Pairs of many nodes: in each step as many as there are nodes for, over a ring and a random pairing
//! so that every node meets three others in few steps, and a bad link or adapter stands out.

use crate::launch::{Launch, Where};
use crate::options::{Options, Threads};
use crate::pattern::Pattern;
use crate::result;
use crate::session::{Report, Stage, last_words};
use nodegauge_measure::record::Measurement;
use nodegauge_os::describe;
use nodegauge_placement::Distance;
use nodegauge_toolchain::{ChildEnd, KillReason, run_with_descendants};
use serde_json::{Map, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pairs that work at once.
pub type Step = Vec<(usize, usize)>;

/// Each node with its two neighbours of a ring of `n`: two steps, three where `n` is odd, because
/// one node must pause in each.
pub fn ring(n: usize) -> Vec<Step> {
    if n < 2 {
        return Vec::new();
    }
    if n == 2 {
        return vec![vec![(0, 1)]];
    }
    let edges: Vec<(usize, usize)> = (0..n).map(|a| (a, (a + 1) % n)).collect();
    let mut steps = vec![Vec::new(), Vec::new()];
    for (i, edge) in edges.iter().enumerate() {
        if n % 2 == 1 && i + 1 == n {
            steps.push(vec![*edge]);
        } else {
            steps[i % 2].push(*edge);
        }
    }
    steps
}

/// A pairing of `n` nodes by chance, the same for the same `seed`; one pauses when `n` is odd.
pub fn random(n: usize, seed: u64) -> Step {
    let mut order: Vec<usize> = (0..n).collect();
    let mut state = seed;
    for i in (1..n).rev() {
        // SplitMix64 (Steele, Lea and Flood, 2014): enough to shuffle nodes.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        order.swap(i, (z % (i as u64 + 1)) as usize);
    }
    order.chunks_exact(2).map(|pair| (pair[0].min(pair[1]), pair[0].max(pair[1]))).collect()
}

/// Seed of the random pairing: the same nodes meet in every run, so that runs compare.
const SEED: u64 = 1;

/// The starts for one rank on each host: ring and random pairing of the patterns of one pair, and
/// all hosts at once for the others.
pub fn launches(hosts: &[String], options: &Options) -> Vec<Launch> {
    let n = hosts.len();
    let split = |own: bool| -> Vec<Pattern> {
        let of = |p: &Pattern| p.is_of_one_pair() == own && *p != Pattern::LatencyMt;
        options.patterns.iter().copied().filter(of).collect()
    };
    let launch = |patterns, steps| Launch {
        ranks: Where::Hosts(hosts.to_vec()),
        distance: Some(Distance::OtherHost),
        patterns,
        threads: Threads { senders: 1, receivers: 1 },
        steps,
        sizes: None,
    };
    let mut steps = ring(n);
    if n > 3 {
        steps.push(random(n, SEED));
    }
    let (own, together) = (split(true), split(false));
    let mut launches = Vec::new();
    if !own.is_empty() {
        launches.push(launch(own, steps));
    }
    if !together.is_empty() {
        launches.push(launch(together, Vec::new()));
    }
    if options.patterns.contains(&Pattern::LatencyMt) {
        let two = Where::Hosts(hosts[..2.min(n)].to_vec());
        let threads = options.threads.unwrap_or(Threads { senders: 1, receivers: 2 });
        launches.push(Launch {
            ranks: two,
            threads,
            ..launch(vec![Pattern::LatencyMt], Vec::new())
        });
    }
    launches
}

/// Hosts whose pairs did not answer in the step that was broken off; `None` when all did, or where
/// ranks have no hosts.
pub fn silent(report: &Report) -> Option<Vec<String>> {
    let Where::Hosts(hosts) = &report.launch.ranks else { return None };
    report.broken.as_ref()?;
    let step = report.launch.steps.get(report.heard.steps)?;
    let answered = |pair: &&(usize, usize)| {
        let ranks = (pair.0 as u32, pair.1 as u32);
        // A pair meets once, so that any complete size is of this step.
        report.heard.sizes.iter().any(|size| size.ranks == ranks && size.done.is_some())
    };
    let names: Vec<String> = step
        .iter()
        .filter(|pair| !answered(pair))
        .map(|(a, b)| format!("{} with {}", hosts[*a], hosts[*b]))
        .collect();
    (!names.is_empty()).then_some(names)
}

/// How long a host may take to answer.
const ANSWER: Duration = Duration::from_secs(15);
/// Hosts that are asked at once.
const AT_ONCE: usize = 64;

/// Starts a program that does nothing on each host by itself, many at once: hosts that answer, and
/// those that do not with the reason.
pub fn ask(
    stage: &Stage<'_>,
    hosts: &[String],
    interrupted: &dyn Fn() -> bool,
) -> (Vec<String>, Vec<(String, String)>) {
    let (mut answer, mut silent) = (Vec::new(), Vec::new());
    for some in hosts.chunks(AT_ONCE) {
        let ended = AtomicBool::new(false);
        let asked: Vec<Result<(), String>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                some.iter().map(|host| scope.spawn(|| one(stage, host, &ended))).collect();
            // Only this thread can ask whether the user wants to end.
            while !threads.iter().all(|thread| thread.is_finished()) {
                ended.fetch_or(interrupted(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(10));
            }
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<(), String>>| {
                thread.join().unwrap_or_else(|_| Err("it could not be asked".to_owned()))
            };
            threads.into_iter().map(join).collect()
        });
        for (host, asked) in some.iter().zip(asked) {
            match asked {
                Ok(()) => answer.push(host.clone()),
                Err(why) => silent.push((host.clone(), why)),
            }
        }
    }
    (answer, silent)
}

fn one(stage: &Stage<'_>, host: &str, ended: &AtomicBool) -> Result<(), String> {
    let launch = Launch {
        ranks: Where::Hosts(vec![host.to_owned()]),
        distance: None,
        patterns: Vec::new(),
        threads: Threads { senders: 1, receivers: 1 },
        steps: Vec::new(),
        sizes: None,
    };
    let (mut job, _, _folder) =
        stage.job(&launch, "true", &[]).map_err(|error| error.to_string())?;
    job.limit = ANSWER;
    let mut listener = |_: &str| ended.load(Ordering::Relaxed).then_some(KillReason::Interrupted);
    match run_with_descendants(&job, &mut listener) {
        Err(error) => Err(error.to_string()),
        Ok(output) => match output.end {
            ChildEnd::Exited(status) if status.success() => Ok(()),
            ChildEnd::Exited(status) => {
                let words = last_words(&output.stderr).replace('\n', " ");
                Err(format!("{}: {words}", describe(status)))
            }
            ChildEnd::Killed(KillReason::TimedOut) => {
                Err(format!("no answer within {} s", ANSWER.as_secs()))
            }
            ChildEnd::Killed(KillReason::Interrupted) => Err("interrupted".to_owned()),
        },
    }
}

/// A host that did not answer, in the record: no result.
pub fn silent_host(stage: &Stage<'_>, host: &str, why: &str) -> Measurement {
    let mut config = Map::new();
    config.insert("engine".to_owned(), json!("probe"));
    config.insert("distance".to_owned(), json!(Distance::OtherHost));
    config.insert("hosts".to_owned(), json!([host]));
    config.insert("mpi".to_owned(), result::mpi_config(stage.mpi, None));
    let pattern = stage.options.patterns.first().copied().unwrap_or(Pattern::Latency);
    let reason = format!("{host} does not answer: {why}");
    result::missing(pattern.name(), pattern.unit(), config, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_ring_of_four_takes_two_steps() {
        assert_eq!(ring(4), [vec![(0, 1), (2, 3)], vec![(1, 2), (3, 0)]]);
        assert_eq!(ring(2), [vec![(0, 1)]]);
        assert_eq!(ring(3), [vec![(0, 1)], vec![(1, 2)], vec![(2, 0)]]);
        assert!(ring(1).is_empty() && ring(0).is_empty());
    }

    proptest! {
        #[test]
        fn every_node_meets_its_neighbours_and_none_twice_in_a_step(n in 3usize..200) {
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
        fn chance_pairs_every_node_once(n in 2usize..200, seed: u64) {
            let step = random(n, seed);
            let mut busy: Vec<usize> = step.iter().flat_map(|(a, b)| [*a, *b]).collect();
            busy.sort_unstable();
            busy.dedup();
            prop_assert_eq!(busy.len(), n / 2 * 2);
            prop_assert_eq!(step, random(n, seed));
        }
    }
}
