//! Start of the probe: its ranks, their places, and the launcher options that set these places.
//!
//! Each launcher binds ranks in its own way: Open MPI 4 uses a rank file with the operating system's CPU numbers, Open
//! MPI 5 a rank file with hwloc's numbers, Hydra `-bind-to user:`, and Slurm `--cpu-bind`. The probe reads the actual
//! binding from the kernel.

use crate::options::{MessageOptions, SideThreads, Timing, WindowBuffers};
use crate::pattern::Pattern;
use nodegauge_machine::{CpuId, Topology};
use nodegauge_placement::Distance;
use nodegauge_placement::cpus::format_ranges;
use nodegauge_placement::ranks::{RankPlace, RankPlan};
use nodegauge_placement::{Binding, MemoryPolicy, Placement};
use nodegauge_toolchain::mpi::{HostRanks, LauncherKind, MpiLaunch, MpiLauncher, RankPlaces};
use std::borrow::Cow;
use std::time::Duration;

/// Places of ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankLocations {
    /// Ranks on this node, each bound to its CPUs.
    ThisNode(Vec<Vec<CpuId>>),
    /// One rank on each of several hosts.
    Hosts(Vec<String>),
}

/// Planned start of the probe.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    pub ranks: RankLocations,
    /// Distance between the ranks of the first pair; `None` for collectives and matrices.
    pub distance: Option<Distance>,
    /// Patterns to run.
    pub patterns: Vec<Pattern>,
    /// Numbers of threads per rank for `latency_mt`.
    pub threads: SideThreads,
    /// Concurrent pairs of each step; empty if all ranks run the patterns together.
    pub steps: Vec<Vec<(usize, usize)>>,
    /// Sizes, if they differ from those of the options.
    pub sizes: Option<Vec<u64>>,
}

/// Additional time for a size beyond its time limit, seconds. It covers the warm-up, one more group of batches, and the
/// verification.
const GRACE: f64 = 20.0;
/// Minimum timeout per size, even if the time limit is short. When other programs use the cores, each message waits for
/// a time slice of the scheduler, but the number of operations per batch was chosen for idle cores.
const MIN_TIME: Duration = Duration::from_secs(10);

impl Launch {
    /// Creates a launch in which all ranks run the patterns together, with the sizes of the options.
    pub fn new(ranks: RankLocations, distance: Option<Distance>, patterns: Vec<Pattern>) -> Self {
        let threads = SideThreads::SINGLE;
        let steps = Vec::new();
        let sizes = None;
        Self { ranks, distance, patterns, threads, steps, sizes }
    }

    /// Returns this launch with only those of its patterns that `patterns` contains; `None` if none is left.
    pub fn with_only_patterns(&self, patterns: &[Pattern]) -> Option<Self> {
        let mut part = self.clone();
        part.patterns.retain(|pattern| patterns.contains(pattern));
        (!part.patterns.is_empty()).then_some(part)
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        match &self.ranks {
            RankLocations::ThisNode(cpus) => cpus.len(),
            RankLocations::Hosts(hosts) => hosts.len(),
        }
    }

    /// Returns the sizes of a pattern in this launch: the requested sizes that the memory limit allows.
    pub fn valid_sizes(&self, pattern: Pattern, options: &MessageOptions) -> Vec<u64> {
        let mut sizes = self.requested_sizes(pattern, options);
        let (sent, received) = self.buffer_message_counts(pattern, options);
        sizes.retain(|bytes| bytes.saturating_mul(sent.max(received)) <= options.memory_limit);
        sizes
    }

    /// Returns the requested sizes of a pattern, regardless of the memory limit.
    pub fn requested_sizes(&self, pattern: Pattern, options: &MessageOptions) -> Vec<u64> {
        match &self.sizes {
            Some(sizes) => pattern.valid_sizes(sizes),
            None => options.valid_sizes(pattern),
        }
    }

    /// Returns the number of messages in the send buffer and the number in the receive buffer of a rank.
    fn buffer_message_counts(&self, pattern: Pattern, options: &MessageOptions) -> (u64, u64) {
        options.buffer_message_counts(pattern, self.ranks() as u64)
    }

    /// Returns the size in bytes of the buffers of all ranks for a pattern.
    pub fn buffer_bytes(&self, pattern: Pattern, options: &MessageOptions) -> u64 {
        let (sent, received) = self.buffer_message_counts(pattern, options);
        let largest = self.valid_sizes(pattern, options).into_iter().max().unwrap_or(0);
        largest.saturating_mul(sent + received).saturating_mul(self.ranks() as u64)
    }

    /// Returns the CPUs of each rank if the ranks are on this node.
    pub fn places(&self) -> Option<Vec<Vec<u32>>> {
        let RankLocations::ThisNode(ranks) = &self.ranks else { return None };
        Some(ranks.iter().map(|cpus| cpus.iter().map(|cpu| cpu.0).collect()).collect())
    }

    /// Returns the hosts of the ranks if the ranks are on several hosts.
    pub fn hosts(&self) -> Option<&[String]> {
        match &self.ranks {
            RankLocations::ThisNode(_) => None,
            RankLocations::Hosts(hosts) => Some(hosts),
        }
    }

    /// Returns the number of sizes of all patterns in one step.
    fn sizes(&self, options: &MessageOptions) -> usize {
        self.patterns.iter().map(|p| self.valid_sizes(*p, options).len()).sum()
    }

    /// Returns the number of sizes of all patterns, summed over all steps.
    pub fn size_count(&self, options: &MessageOptions) -> usize {
        self.sizes(options) * self.steps.iter().map(Vec::len).sum::<usize>().max(1)
    }

    /// Returns the time without output after which the probe is considered to hang.
    pub fn timeout(&self, options: &MessageOptions) -> Duration {
        // The probe prints a step only when it is complete.
        let more = if self.steps.is_empty() { 0.0 } else { 2.0 * self.sizes(options) as f64 };
        max_size_time(options) + options.size_time_limit.mul_f64(more)
    }

    /// Returns the arguments of the probe.
    pub fn probe_arguments(&self, options: &MessageOptions) -> Vec<String> {
        let life = 120.0 + self.size_count(options) as f64 * max_size_time(options).as_secs_f64();
        let mut words: Vec<String> =
            self.patterns.iter().map(|one| self.pattern_argument(*one, options)).collect();
        words.extend([
            format!("window={}", options.window),
            format!("limit={}", options.size_time_limit.as_secs_f64()),
            format!("validate={}", options.validation_rounds),
            format!("senders={}", self.threads.senders),
            format!("receivers={}", self.threads.receivers),
            format!("life={}", life.min(1e6) as u64),
            format!("each={}", u8::from(options.timing == Timing::Each)),
            format!("multiple={}", u8::from(options.buffers == WindowBuffers::Multiple)),
        ]);
        words.extend(options.samples.map(|n| format!("samples={n}")));
        if !self.steps.is_empty() {
            let steps: Vec<String> = self.steps.iter().map(|pairs| step_argument(pairs)).collect();
            words.push(format!("steps={}", steps.join(";")));
        }
        words
    }

    /// Returns the argument for a pattern: its sizes, each with its numbers of operations.
    fn pattern_argument(&self, pattern: Pattern, options: &MessageOptions) -> String {
        let mut sizes = Vec::new();
        for bytes in self.valid_sizes(pattern, options) {
            let (warm_up, timed) = options.operation_counts(pattern, bytes);
            sizes.push(format!("{bytes}/{warm_up}/{timed}"));
        }
        let participants = pattern.properties().participants.name();
        format!("pattern={pattern}:{participants}:{}", sizes.join(","))
    }

    /// Returns the argument with the CPUs of each rank, with which ranks on this node bind themselves.
    pub fn binding(&self) -> Option<String> {
        let RankLocations::ThisNode(ranks) = &self.ranks else { return None };
        let ranks: Vec<String> = ranks.iter().map(|cpus| format_ranges(cpus)).collect();
        Some(format!("bind={}", ranks.join(";")))
    }

    /// Returns the job that starts these ranks with a launcher.
    pub fn mpi_launch<'a>(
        &'a self,
        launcher: &'a MpiLauncher,
        topology: &'a Topology,
        needs_root_option: bool,
    ) -> MpiLaunch<'a> {
        let mut options = Vec::new();
        match launcher.kind {
            LauncherKind::OpenMpi => {
                for framework in ["pml", "btl"] {
                    let verbose = format!("{framework}_base_verbose");
                    options.extend(["--mca".to_owned(), verbose, "10".to_owned()]);
                }
            }
            // Slurm job steps may share the CPUs of the job.
            LauncherKind::Slurm => options.push("--overlap".to_owned()),
            LauncherKind::Hydra => {}
        }
        let ranks = match &self.ranks {
            RankLocations::Hosts(hosts) => {
                RankPlaces::Hosts(HostRanks { hosts, per_host: 1, threads: None })
            }
            RankLocations::ThisNode(ranks) => {
                RankPlaces::Planned { plan: Cow::Owned(rank_plan(ranks)), topology }
            }
        };
        MpiLaunch { launcher, needs_root_option, options, ranks }
    }
}

/// Returns the maximum time that the measurement of a size may take.
fn max_size_time(options: &MessageOptions) -> Duration {
    options.size_time_limit.mul_f64(GRACE) + MIN_TIME
}

/// Formats the pairs of a step as an argument of the probe.
fn step_argument(pairs: &[(usize, usize)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(a, b)| format!("{a}-{b}")).collect();
    pairs.join(",")
}

/// Returns the ranks of this node as a placement plan.
fn rank_plan(ranks: &[Vec<CpuId>]) -> RankPlan {
    let mut places = Vec::new();
    for (rank, cpus) in ranks.iter().enumerate() {
        places.push(RankPlace {
            rank: u32::try_from(rank).ok(),
            placement: Placement::new(Binding::Close, "cpus".to_owned(), vec![cpus.clone()]),
            memory: MemoryPolicy::Default,
        });
    }
    RankPlan {
        ranks: places,
        policy: None,
        canonical_text: "cpus".to_owned(),
        devices: Vec::new(),
        device_count: 0,
        notices: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::TopologySource;
    use nodegauge_toolchain::CommandLine;

    fn launcher(kind: LauncherKind, version: &str) -> MpiLauncher {
        let command = CommandLine::new("run", []);
        MpiLauncher { command, kind, title: "run", version: Some(version.to_owned()), binds: true }
    }

    fn launch(cpus: &[&[u32]]) -> Launch {
        let ranks = cpus.iter().map(|rank| rank.iter().map(|cpu| CpuId(*cpu)).collect());
        Launch::new(RankLocations::ThisNode(ranks.collect()), None, vec![Pattern::Latency])
    }

    fn words(launch: &Launch, launcher: &MpiLauncher, in_job: bool) -> (String, Option<String>) {
        // Logical and physical CPU numbers differ, because the operating system numbers the cores of both sockets
        // alternately.
        let text = "Package:2 Core:2 PU:1(indexes=0,2,1,3)".to_owned();
        let topology = Topology::load(&TopologySource::Synthetic(text)).unwrap();
        let launched = launch.mpi_launch(launcher, &topology, true);
        let ranks = launched.arguments_in("/t/ranks", in_job);
        (launcher.command.with_arguments(ranks.words).to_string(), ranks.rankfile)
    }

    #[test]
    fn open_mpi_4_rank_file_uses_operating_system_numbers() {
        let (command, file) =
            words(&launch(&[&[2], &[0, 1]]), &launcher(LauncherKind::OpenMpi, "4.1.4"), false);
        assert_eq!(
            command,
            "run --allow-run-as-root --mca pml_base_verbose 10 --mca btl_base_verbose 10 -np 2 \
             --mca rmaps_rank_file_physical 1 --use-hwthread-cpus --rankfile /t/ranks"
        );
        assert_eq!(file.unwrap(), "rank 0=localhost slot=2\nrank 1=localhost slot=0-1\n");
    }

    #[test]
    fn open_mpi_5_rank_file_uses_hwloc_numbers() {
        let (command, file) =
            words(&launch(&[&[2], &[1]]), &launcher(LauncherKind::OpenMpi, "5.0.3"), true);
        assert!(command.ends_with(
            "--map-by rankfile:file=/t/ranks:hwtcpus --bind-to hwthread:overload-allowed"
        ));
        assert_eq!(file.unwrap(), "rank 0=+n0 slot=1\nrank 1=+n0 slot=2\n");
    }

    #[test]
    fn hydra_binds_by_cpu_numbers_and_slurm_by_cpu_numbers_or_masks() {
        let hydra = launcher(LauncherKind::Hydra, "4.0.2");
        assert_eq!(
            words(&launch(&[&[2], &[0, 1]]), &hydra, false).0,
            "run -np 2 -bind-to user:2,0+1"
        );
        let slurm = launcher(LauncherKind::Slurm, "22.05.8");
        assert_eq!(
            words(&launch(&[&[2], &[0]]), &slurm, false).0,
            "run --overlap --nodes=1 --ntasks=2 --cpus-per-task=1 --cpu-bind=map_cpu:2,0"
        );
        assert_eq!(
            words(&launch(&[&[0, 2], &[65]]), &slurm, false).0,
            "run --overlap --nodes=1 --ntasks=2 --cpus-per-task=1 --cpu-bind=mask_cpu:0x5,0x20000000000000000"
        );
    }

    #[test]
    fn each_host_gets_one_rank() {
        let mut launch = launch(&[]);
        launch.ranks = RankLocations::Hosts(vec!["a".to_owned(), "b".to_owned()]);
        let of = |kind, version| words(&launch, &launcher(kind, version), false).0;
        assert!(
            of(LauncherKind::OpenMpi, "4.1.4")
                .ends_with("--host a:1,b:1 --map-by node --bind-to core")
        );
        assert_eq!(of(LauncherKind::Hydra, "4.0.2"), "run -np 2 -ppn 1 -hosts a,b -bind-to core");
        assert_eq!(
            of(LauncherKind::Slurm, "22.05.8"),
            "run --overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 --nodelist=a,b --cpu-bind=cores"
        );
    }

    #[test]
    fn probe_receives_all_options() {
        let mut launch = launch(&[&[0], &[1]]);
        launch.patterns = vec![Pattern::Bw, Pattern::Latency];
        launch.steps = vec![vec![(0, 1), (2, 3)], vec![(0, 2)]];
        let options = MessageOptions {
            sizes: Some(vec![0, 8]),
            samples: Some(3),
            ..MessageOptions::default()
        };
        let words = launch.probe_arguments(&options);
        for word in [
            "pattern=bw:pair:8/10/0",
            "pattern=latency:pair:0/100/0,8/100/0",
            "window=64",
            "samples=3",
            "steps=0-1,2-3;0-2",
        ] {
            assert!(words.iter().any(|known| known == word), "{word} in {words:?}");
        }
        assert_eq!(launch.size_count(&options), 3 * 3);
    }
}
