//! One start of the probe: which ranks, where, and the words of each launcher that put them there.
//! Pure.
//!
//! Every launcher binds with its own means: Open MPI 4 with a rank file in the system's numbers of
//! CPUs, Open MPI 5 with one in hwloc's, Hydra with `-bind-to user:`, Slurm with `--cpu-bind`. What
//! they really did, the probe reads back from the kernel.

use crate::options::{Options, Threads};
use crate::pattern::Pattern;
use nodegauge_machine::{CpuId, Topology};
use nodegauge_placement::Distance;
use nodegauge_placement::emit::{self, OpenMpiVersion};
use nodegauge_placement::ranks::{RankPlace, RankPlan};
use nodegauge_placement::{Bind, MemoryPolicy, Placement};
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::mpi::{HostRanks, LauncherKind, MpiLauncher};
use std::time::Duration;

/// Where ranks go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    /// On this node, each on its CPUs.
    Here(Vec<Vec<CpuId>>),
    /// One on each of these hosts.
    Hosts(Vec<String>),
}

/// One start of the probe.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// The ranks.
    pub ranks: Where,
    /// What the first pair shares; `None` for collectives and matrices.
    pub distance: Option<Distance>,
    /// What they play.
    pub patterns: Vec<Pattern>,
    /// Threads of `latency_mt`.
    pub threads: Threads,
    /// Pairs that work at once, step after step; none where all ranks work together.
    pub steps: Vec<Vec<(usize, usize)>>,
    /// Sizes, where they are not those of the options.
    pub sizes: Option<Vec<u64>>,
}

/// What is started, and what must be written before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// The launcher with its options, without the program.
    pub command: CommandLine,
    /// Content of the rank file that the options name; `None` where there is none.
    pub rankfile: Option<String>,
    /// Variables that are set.
    pub environment: Vec<(String, Option<String>)>,
}

/// Time for a size beyond its limit: warm-up, one more group of batches, validation.
pub const GRACE: f64 = 20.0;
/// Time that any size has, however short its limit.
pub const LEAST_PATIENCE: Duration = Duration::from_secs(3);

impl Launch {
    /// Ranks of this start.
    pub fn ranks(&self) -> usize {
        match &self.ranks {
            Where::Here(cpus) => cpus.len(),
            Where::Hosts(hosts) => hosts.len(),
        }
    }

    /// The sizes of a pattern in this start.
    pub fn sizes_of(&self, pattern: Pattern, options: &Options) -> Vec<u64> {
        match &self.sizes {
            Some(sizes) => sizes.iter().copied().filter(|bytes| pattern.takes(*bytes)).collect(),
            None => options.sizes_of(pattern),
        }
    }

    /// Sizes of all patterns in all steps: what is done when it is over.
    pub fn count(&self, options: &Options) -> usize {
        let once: usize = self.patterns.iter().map(|p| self.sizes_of(*p, options).len()).sum();
        once * self.steps.iter().map(Vec::len).sum::<usize>().max(1)
    }

    /// How long silence is borne, after the first word.
    pub fn patience(&self, options: &Options) -> Duration {
        let one = options.size_limit.mul_f64(GRACE) + LEAST_PATIENCE;
        // Steps answer as a whole.
        let sizes: usize = self.patterns.iter().map(|p| self.sizes_of(*p, options).len()).sum();
        if self.steps.is_empty() {
            one
        } else {
            one + options.size_limit.mul_f64(2.0 * sizes as f64)
        }
    }

    /// The arguments of the probe.
    pub fn probe_arguments(&self, options: &Options) -> Vec<String> {
        let names: Vec<&str> = self.patterns.iter().map(|pattern| pattern.name()).collect();
        // A barrier takes one size, whatever the others do.
        let sized = self.patterns.iter().filter(|pattern| **pattern != Pattern::Barrier);
        let mut sizes: Vec<u64> = sized.flat_map(|p| self.sizes_of(*p, options)).collect();
        if sizes.is_empty() {
            sizes.push(0);
        }
        sizes.sort_unstable();
        sizes.dedup();
        let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
        let life = 120.0
            + self.count(options) as f64
                * (options.size_limit.as_secs_f64() * GRACE + LEAST_PATIENCE.as_secs_f64());
        let mut words = vec![
            format!("tests={}", names.join(",")),
            format!("sizes={}", sizes.join(",")),
            format!("window={}", options.window),
            format!("limit={}", options.size_limit.as_secs_f64()),
            format!("validate={}", options.validate),
            format!("senders={}", self.threads.senders),
            format!("receivers={}", self.threads.receivers),
            format!("life={}", life.min(1e6) as u64),
            format!("each={}", u8::from(options.timing == crate::options::Timing::Each)),
            format!("multiple={}", u8::from(options.buffers == crate::options::Buffers::Multiple)),
        ];
        words.push(format!("customary={}", u8::from(options.customary)));
        words.extend(options.iterations.map(|n| format!("iterations={n}")));
        words.extend(options.samples.map(|n| format!("samples={n}")));
        words.extend(options.warm_up.map(|n| format!("warmup={n}")));
        if !self.steps.is_empty() {
            let pair = |(a, b): &(usize, usize)| format!("{a}-{b}");
            let step = |pairs: &Vec<_>| pairs.iter().map(pair).collect::<Vec<String>>().join(",");
            let steps: Vec<String> = self.steps.iter().map(step).collect();
            words.push(format!("steps={}", steps.join(";")));
        }
        words
    }

    /// The launcher's words. `rankfile` is where a rank file will be; `in_job` is whether a batch
    /// system has given the node.
    pub fn words(
        &self,
        launcher: &MpiLauncher,
        topology: &Topology,
        as_root: bool,
        rankfile: &str,
        in_job: bool,
    ) -> Words {
        let (arguments, rankfile) = match launcher.kind {
            LauncherKind::OpenMpi => self.open_mpi(launcher, topology, as_root, rankfile, in_job),
            LauncherKind::Hydra => (self.hydra(), None),
            LauncherKind::Slurm => (self.slurm(), None),
        };
        let set = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        // What the library tells of its transport, it tells once at its start.
        let environment = vec![set("UCX_LOG_LEVEL", "info")];
        Words { command: launcher.command.with(arguments), rankfile, environment }
    }

    fn open_mpi(
        &self,
        launcher: &MpiLauncher,
        topology: &Topology,
        as_root: bool,
        rankfile: &str,
        in_job: bool,
    ) -> (Vec<String>, Option<String>) {
        let mut words = Vec::new();
        if as_root {
            words.push("--allow-run-as-root".to_owned());
        }
        for framework in ["pml", "btl"] {
            words.extend(["--mca", &format!("{framework}_base_verbose"), "10"].map(str::to_owned));
        }
        if let Where::Hosts(hosts) = &self.ranks {
            words.extend(one_each(hosts, LauncherKind::OpenMpi));
            return (words, None);
        }
        let version = match launcher.major() {
            Some(5..) => OpenMpiVersion::V5,
            _ => OpenMpiVersion::V4,
        };
        let emitted = emit::openmpi(&self.plan(), topology, version);
        words.extend(emitted.args(rankfile));
        // In a job the node has a name of its own, and is the first of it.
        let host = |file: String| if in_job { file.replace("=localhost ", "=+n0 ") } else { file };
        (words, emitted.rankfile.map(host))
    }

    /// The ranks of this node, as those who place threads see them.
    fn plan(&self) -> RankPlan {
        let ranks = match &self.ranks {
            Where::Here(ranks) => ranks.as_slice(),
            Where::Hosts(_) => &[],
        };
        let place = |(rank, cpus): (usize, &Vec<CpuId>)| RankPlace {
            rank: u32::try_from(rank).ok(),
            placement: Placement::new(Bind::Close, "cpus".to_owned(), vec![cpus.clone()]),
            memory: MemoryPolicy::Default,
        };
        RankPlan {
            ranks: ranks.iter().enumerate().map(place).collect(),
            policy: None,
            words: "cpus".to_owned(),
            notices: Vec::new(),
        }
    }

    fn hydra(&self) -> Vec<String> {
        let Where::Hosts(hosts) = &self.ranks else { return emit::mpich(&self.plan()) };
        one_each(hosts, LauncherKind::Hydra)
    }

    fn slurm(&self) -> Vec<String> {
        // Steps of one job may share its CPUs.
        let mut words = vec!["--overlap".to_owned()];
        let Where::Hosts(hosts) = &self.ranks else {
            words.extend(emit::slurm(&self.plan()));
            return words;
        };
        words.extend(one_each(hosts, LauncherKind::Slurm));
        words
    }
}

/// The words that start a rank on each host.
fn one_each(hosts: &[String], launcher: LauncherKind) -> Vec<String> {
    HostRanks { hosts, each: 1, threads: None }.arguments(launcher)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::TopologySource;

    fn launcher(kind: LauncherKind, version: &str) -> MpiLauncher {
        let command = CommandLine::new("run", []);
        MpiLauncher { command, kind, version: Some(version.to_owned()) }
    }

    fn launch(cpus: &[&[u32]]) -> Launch {
        let ranks = cpus.iter().map(|rank| rank.iter().map(|cpu| CpuId(*cpu)).collect());
        Launch {
            ranks: Where::Here(ranks.collect()),
            distance: None,
            patterns: vec![Pattern::Latency],
            threads: Threads { senders: 1, receivers: 1 },
            steps: Vec::new(),
            sizes: None,
        }
    }

    fn words(launch: &Launch, launcher: &MpiLauncher, in_job: bool) -> (String, Option<String>) {
        // Logical and physical numbers differ: the operating system counts over the sockets in turn.
        let text = "Package:2 Core:2 PU:1(indexes=0,2,1,3)".to_owned();
        let topology = Topology::load(&TopologySource::Synthetic(text)).unwrap();
        let words = launch.words(launcher, &topology, true, "/t/ranks", in_job);
        (words.command.to_string(), words.rankfile)
    }

    #[test]
    fn open_mpi_4_takes_a_rank_file_in_the_systems_numbers() {
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
    fn open_mpi_5_takes_one_in_hwlocs_numbers() {
        let (command, file) =
            words(&launch(&[&[2], &[1]]), &launcher(LauncherKind::OpenMpi, "5.0.3"), true);
        assert!(command.ends_with(
            "--map-by rankfile:file=/t/ranks:hwtcpus --bind-to hwthread:overload-allowed"
        ));
        assert_eq!(file.unwrap(), "rank 0=+n0 slot=1\nrank 1=+n0 slot=2\n");
    }

    #[test]
    fn hydra_and_slurm_take_numbers_or_masks() {
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
    fn hosts_get_one_rank_each() {
        let mut launch = launch(&[]);
        launch.ranks = Where::Hosts(vec!["a".to_owned(), "b".to_owned()]);
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
    fn the_probe_is_told_everything() {
        let mut launch = launch(&[&[0], &[1]]);
        launch.patterns = vec![Pattern::Bw, Pattern::Latency];
        launch.steps = vec![vec![(0, 1), (2, 3)], vec![(0, 2)]];
        let options = Options { sizes: vec![0, 8], samples: Some(3), ..Options::default() };
        let words = launch.probe_arguments(&options);
        for word in ["tests=bw,latency", "sizes=0,8", "window=64", "samples=3", "steps=0-1,2-3;0-2"]
        {
            assert!(words.iter().any(|known| known == word), "{word} in {words:?}");
        }
        assert_eq!(launch.count(&options), 3 * 3);
    }
}
