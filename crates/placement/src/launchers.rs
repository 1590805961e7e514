//! Detection of the launcher that has started this process as one of several ranks (MPI launchers and srun), and
//! placement of the threads of these ranks.
//!
//! A launcher is detected by its environment variables. MPI launchers are checked before Slurm, because mpirun may
//! run within a Slurm allocation. A single rank is treated as a process without ranks, e.g. with `srun -n1` or
//! `mpirun -np 1`, or in a batch script, which has `SLURM_PROCID` but is not one of several tasks.

use crate::{
    Binding, MemoryPolicy, Placement, PlacementError, PlacementRequest, RankPlace, RankPlan,
    ThreadPlace,
};
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_os::mpi_abi::{LauncherVariables, MpiImplementation, implementations};
use std::collections::BTreeSet;

/// Job of a launcher that has started this process as one of several ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LauncherJob {
    /// Human-readable name of the launcher.
    pub launcher: &'static str,
    /// Implementation of MPI to which the launcher belongs; `None` for srun.
    pub implementation: Option<&'static MpiImplementation>,
    /// Rank of this process.
    pub rank: u32,
    /// Number of ranks, at least 2.
    pub ranks: u32,
    /// Number of ranks on this host; `None` if the launcher does not set it.
    pub local_ranks: Option<u32>,
    /// Text that distinguishes this job from other jobs of the user.
    job: String,
}

/// Launcher with its variables.
struct KnownLauncher {
    variables: &'static LauncherVariables,
    implementation: Option<&'static MpiImplementation>,
}

/// Variables of srun.
static SLURM: LauncherVariables = LauncherVariables {
    launcher: "Slurm",
    rank: "SLURM_PROCID",
    ranks: "SLURM_STEP_NUM_TASKS",
    local_ranks: &[],
    local_rank: &["SLURM_LOCALID"],
    job: &["SLURM_STEP_ID"],
};

/// Returns the known MPI launchers, in the order in which they are checked.
fn mpi_launchers() -> impl Iterator<Item = KnownLauncher> {
    implementations().flat_map(|own| {
        let variables = own.variables.iter();
        variables.map(|variables| KnownLauncher { variables, implementation: Some(own) })
    })
}

/// Returns all known launchers, in the order in which they are checked: srun after all MPI launchers.
fn known_launchers() -> impl Iterator<Item = KnownLauncher> {
    mpi_launchers().chain([KnownLauncher { variables: &SLURM, implementation: None }])
}

/// Environment variables in which other MPI launchers pass the rank and the number of ranks to a process: MPICH on
/// Myrinet, and the process management interface PMIx. nodegauge itself does not join ranks of these launchers.
const OTHER_MPI: [RankVariables; 2] = [("MXMPI_ID", Some("MXMPI_NP")), ("PMIX_RANK", None)];
/// Variables of Flux, which starts tasks as Slurm does.
const FLUX: RankVariables = ("FLUX_TASK_RANK", Some("FLUX_JOB_SIZE"));

/// Names of two environment variables: the rank of a process in its job, and the number of ranks if there is such a
/// variable.
pub(crate) type RankVariables = (&'static str, Option<&'static str>);

/// Returns the variables that MPI launchers set.
pub(crate) fn mpi_variables() -> Vec<RankVariables> {
    let known = mpi_launchers().map(|known| (known.variables.rank, Some(known.variables.ranks)));
    known.chain(OTHER_MPI).collect()
}

/// Returns the variables that batch systems set in the tasks that they start. An MPI launcher may run in such a
/// task.
pub(crate) fn batch_system_variables() -> [RankVariables; 2] {
    [FLUX, (SLURM.rank, Some(SLURM.ranks))]
}

/// Returns the environment variables by which a process detects that it is one of several ranks. A program that is
/// started without them runs as a single process.
pub fn rank_variables() -> impl Iterator<Item = &'static str> {
    known_launchers().flat_map(|known| [known.variables.rank, known.variables.ranks])
}

/// Returns a function that reads an environment variable as a number.
fn number_reader(lookup: impl Fn(&str) -> Option<String>) -> impl Fn(&str) -> Option<u32> {
    move |name| lookup(name)?.trim().parse().ok()
}

/// Returns the launcher whose environment variables are set.
fn launcher(lookup: impl Fn(&str) -> Option<String>) -> Option<KnownLauncher> {
    let number = number_reader(lookup);
    // srun also sets PMI variables. If Hydra runs within an allocation, it starts a Slurm step with one task per host.
    let by_srun = number("PMI_RANK") == number("SLURM_PROCID")
        && number("PMI_SIZE") == number("SLURM_STEP_NUM_TASKS");
    known_launchers().find(|known| {
        number(known.variables.rank).is_some()
            && number(known.variables.ranks).is_some()
            && !(by_srun && known.variables.rank == "PMI_RANK")
    })
}

impl LauncherJob {
    /// Returns the job of the launcher that started this process as one of several ranks; `None` if there is none.
    pub fn current() -> Option<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// True if an MPI launcher has started this process, as the only rank or as one of several. The output of such
    /// a process may be a pseudo-terminal of the launcher, which copies all output.
    pub fn is_started_by_mpi() -> bool {
        launcher(|name| std::env::var(name).ok())
            .is_some_and(|launcher| launcher.implementation.is_some())
    }

    /// Returns the job of a process with these environment variables; `lookup` returns their values.
    pub fn from_variables(lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let KnownLauncher { variables: launcher, implementation } = launcher(&lookup)?;
        let number = number_reader(&lookup);
        let rank = number(launcher.rank)?;
        let ranks = number(launcher.ranks)?;
        let here = launcher.local_ranks.iter().find_map(|name| number(name));
        let here = match implementation {
            Some(_) => here,
            // If a Slurm step uses one node, all its tasks are on this host. For several nodes, the variable of the
            // tasks has the form `2(x3),1`; it is sufficient to know that some ranks are on other hosts.
            None => match number("SLURM_STEP_NUM_NODES") {
                Some(1) => Some(ranks),
                nodes => nodes.map(|_| ranks.saturating_sub(1)),
            },
        };
        let named = launcher.job.iter().chain(&["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"]);
        let job: Vec<String> = named.filter_map(|name| lookup(name)).collect();
        (ranks > 1 && rank < ranks).then(|| Self {
            launcher: launcher.launcher,
            implementation,
            rank,
            ranks,
            local_ranks: here,
            job: job.join("/"),
        })
    }

    /// Returns a human-readable text, e.g. `Open MPI has started 4 ranks`.
    pub fn in_words(&self) -> String {
        format!("{} has started {}", self.launcher, count_in_words(self.ranks as usize, "rank"))
    }

    /// Places the ranks on the CPUs that the launcher has assigned to them; `cpus` contains the CPUs of each rank.
    /// Each rank has `threads` threads.
    ///
    /// # Errors
    /// Returns the rank and the reason if the threads of a rank do not fit on its CPUs.
    pub fn place_ranks(
        &self,
        cpus: &[Vec<u32>],
        topology: &Topology,
        threads: u32,
        memory: &MemoryPolicy,
    ) -> Result<RankPlan, (u32, PlacementError)> {
        let mut ranks = Vec::new();
        for (rank, allowed) in (0..).zip(cpus) {
            let placement = place_on(topology, allowed, threads).map_err(|error| (rank, error))?;
            ranks.push(RankPlace { rank: Some(rank), placement, memory: memory.clone() });
        }
        Ok(RankPlan {
            ranks,
            policy: None,
            canonical_text: format!("as placed by {}", self.launcher),
            devices: Vec::new(),
            device_count: 0,
            notices: vec![self.in_words()],
        })
    }

    /// Returns the tasks of a Slurm step on the node `node` as a separate job. Returns `None` outside of a step.
    pub fn from_slurm_node(node: &str) -> Option<Self> {
        Self::read_slurm_node(node, |name| std::env::var(name).ok())
    }

    fn read_slurm_node(node: &str, lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = number_reader(&lookup);
        let ranks =
            node_task_count(&lookup("SLURM_STEP_TASKS_PER_NODE")?, number("SLURM_NODEID")?)?;
        let ids = ["SLURM_JOB_ID", "SLURM_STEP_ID"];
        let job = ids.map(|name| lookup(name).unwrap_or_default()).join("/");
        let rank = number("SLURM_LOCALID")?;
        let whole = Self {
            launcher: SLURM.launcher,
            implementation: None,
            rank,
            ranks,
            local_ranks: Some(ranks),
            job,
        };
        Some(whole.on_host(node, rank, ranks))
    }

    /// Returns the number of tasks on each node of this Slurm step, in the order of the nodes; `None` if srun has not
    /// started this process.
    pub fn slurm_tasks_per_node(&self) -> Option<Vec<u32>> {
        let text = std::env::var("SLURM_STEP_TASKS_PER_NODE").ok()?;
        self.implementation.is_none().then(|| tasks_per_node(&text))?
    }

    /// True if MPI can be initialised in this process: it was started by an MPI launcher, or by srun with a process
    /// manager interface.
    pub fn has_mpi(&self) -> bool {
        self.implementation.is_some()
            || implementations().any(|own| std::env::var_os(own.srun_variable).is_some())
    }

    /// Returns the ranks of this job on the host `host` as a separate job, in which this process has the rank
    /// `rank`.
    pub fn on_host(&self, host: &str, rank: u32, ranks: u32) -> Self {
        let job = format!("{}/{host}", self.job);
        Self {
            launcher: self.launcher,
            implementation: self.implementation,
            rank,
            ranks,
            local_ranks: Some(ranks),
            job,
        }
    }

    /// Returns a name of the job for files, which consists of letters, digits, hyphens and dots.
    pub fn file_name(&self) -> String {
        let plain = self.job.chars().map(|c| match c {
            '.' | '-' | 'A'..='Z' | 'a'..='z' | '0'..='9' => c,
            _ => '-',
        });
        plain.take(64).collect()
    }

    /// True if some ranks are on other hosts.
    pub fn spans_hosts(&self) -> bool {
        self.local_ranks.is_some_and(|here| here < self.ranks)
    }

    /// Returns the name of the socket by which the ranks of this job connect. The name contains the user's ID and a
    /// hash of the launcher, the job and the number of ranks, because socket names must be short.
    pub fn socket_name(&self) -> String {
        // Hydra does not set an identifier of the job. Its proxy process on a host is the ancestor of all ranks on this
        // host, so that the proxy's process ID is used.
        let proxy = if self.job.is_empty() { ancestor("hydra_") } else { None };
        let proxy = proxy.map_or(String::new(), |process| process.to_string());
        let words = format!("{}/{}{proxy}/{}", self.launcher, self.job, self.ranks);
        format!("nodegauge-{}-{:016x}", nodegauge_os::effective_user_id(), digest(&words))
    }
}

/// Parses the number of tasks on each node in Slurm's form: `2(x3),1`. Returns `None` if the text has another form.
fn tasks_per_node(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        let count: u32 = count.parse().ok()?;
        all.extend(std::iter::repeat_n(count, usize::min(times, 1 << 20)));
    }
    Some(all)
}

/// Returns the number of tasks on one node.
fn node_task_count(text: &str, node: u32) -> Option<u32> {
    tasks_per_node(text)?.get(node as usize).copied()
}

/// Returns the topology in which only these CPUs are allowed.
pub fn restrict_cpus<'a>(topology: &Topology, cpus: impl IntoIterator<Item = &'a u32>) -> Topology {
    let cpus: BTreeSet<u32> = cpus.into_iter().copied().collect();
    let mut limited = topology.clone();
    limited.threads.iter_mut().for_each(|thread| thread.allowed = cpus.contains(&thread.cpu.0));
    limited
}

/// Places the threads of one rank on the CPUs that the launcher has assigned to the rank. Several threads are spread
/// over these CPUs. A single thread may use all of them; it is not bound if they are all CPUs of the machine.
fn place_on(topology: &Topology, cpus: &[u32], threads: u32) -> Result<Placement, PlacementError> {
    if threads > 1 {
        let request = PlacementRequest { threads: Some(threads), ..PlacementRequest::default() };
        return crate::plan(&restrict_cpus(topology, cpus), &request);
    }
    let everywhere = cpus.len() >= topology.threads.len();
    let cpus = cpus.iter().map(|cpu| CpuId(*cpu)).collect();
    Ok(Placement {
        threads: vec![ThreadPlace { thread: 0, cpus }],
        bind: if everywhere { Binding::None } else { Binding::Close },
        places: "as given".to_owned(),
        notices: Vec::new(),
    })
}

/// Returns the ID of the nearest ancestor of this process whose name begins with `name`.
fn ancestor(name: &str) -> Option<u32> {
    let mut process = std::os::unix::process::parent_id();
    while process > 1 {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The format is `pid (name) state parent ...`; the name may contain spaces and brackets.
        let (head, tail) = stat.rsplit_once(") ")?;
        if head.split_once('(')?.1.starts_with(name) {
            return Some(process);
        }
        process = tail.split(' ').nth(1)?.parse().ok()?;
    }
    None
}

/// Returns a hash of a text (FNV-1a, 64 bits) that is the same in every process.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(variables: &[(&str, &str)]) -> Option<LauncherJob> {
        LauncherJob::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn digest_is_fnv_1a() {
        // Test vectors of the authors of the hash.
        assert_eq!(digest(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(digest("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(digest("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn launcher_is_identified_by_variables() {
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
            // These variables are set in a Slurm allocation.
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "2"),
        ];
        let found = started(&open_mpi).unwrap();
        assert_eq!(
            (found.launcher, found.rank, found.ranks, found.local_ranks),
            ("Open MPI", 3, 4, Some(4))
        );
        assert!(!found.spans_hosts());
        for (variables, launcher) in [
            (
                [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALNRANKS", "1")],
                "MPICH or Intel MPI",
            ),
            (
                [
                    ("MV2_COMM_WORLD_RANK", "1"),
                    ("MV2_COMM_WORLD_SIZE", "2"),
                    ("MV2_COMM_WORLD_LOCAL_SIZE", "1"),
                ],
                "MVAPICH",
            ),
            ([("PALS_RANKID", "1"), ("PALS_SIZE", "2"), ("PALS_LOCAL_SIZE", "1")], "PALS"),
            (
                [
                    ("SLURM_PROCID", "1"),
                    ("SLURM_STEP_NUM_TASKS", "2"),
                    ("SLURM_STEP_NUM_NODES", "2"),
                ],
                "Slurm",
            ),
        ] {
            let slurm = started(&variables).unwrap();
            assert_eq!((slurm.launcher, slurm.rank, slurm.ranks), (launcher, 1, 2));
            assert!(slurm.spans_hosts(), "{launcher}");
        }
    }

    #[test]
    fn single_process_has_no_ranks() {
        let batch = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_JOB_ID", "7")];
        assert_eq!(started(&batch), None);
        let alone = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")];
        assert_eq!(started(&alone), None);
        // srun also sets PMI variables.
        let srun = [
            ("PMI_RANK", "1"),
            ("PMI_SIZE", "2"),
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_STEP_NUM_NODES", "1"),
        ];
        let found = started(&srun).unwrap();
        assert_eq!((found.launcher, found.local_ranks), ("Slurm", Some(2)));
        // The only rank of an mpirun in a Slurm step of several tasks is treated as a process without ranks.
        let nested = [
            ("OMPI_COMM_WORLD_RANK", "0"),
            ("OMPI_COMM_WORLD_SIZE", "1"),
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "4"),
        ];
        assert_eq!(started(&nested), None);
        assert_eq!(started(&[]), None);
    }

    #[test]
    fn ancestor_process_is_found_by_name() {
        let parent = std::os::unix::process::parent_id();
        let name = std::fs::read_to_string(format!("/proc/{parent}/comm")).unwrap();
        assert_eq!(ancestor(name.trim()), Some(parent));
        assert_eq!(ancestor("no such program"), None);
    }

    #[test]
    fn slurm_tasks_of_each_node_form_a_separate_job() {
        assert_eq!(tasks_per_node("2(x3),1"), Some(vec![2, 2, 2, 1]));
        assert_eq!(tasks_per_node("4"), Some(vec![4]));
        assert_eq!(tasks_per_node("2(y3)"), None);
        let of = |node: &str, id: &str| {
            let variables = [
                ("SLURM_STEP_TASKS_PER_NODE", "2,1"),
                ("SLURM_NODEID", id),
                ("SLURM_LOCALID", "0"),
                ("SLURM_STEP_ID", "3"),
            ];
            let lookup = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, text)| (*text).to_owned())
            };
            LauncherJob::read_slurm_node(node, lookup).unwrap()
        };
        let [first, second] = [of("n1", "0"), of("n2", "1")];
        assert_eq!((first.ranks, second.ranks), (2, 1));
        assert_ne!(first.socket_name(), second.socket_name());
    }

    #[test]
    fn jobs_have_distinct_socket_names() {
        let job = |port: &str| {
            started(&[("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("PMI_PORT", port)])
                .unwrap()
                .socket_name()
        };
        assert_eq!(job("a:1"), job("a:1"));
        assert_ne!(job("a:1"), job("a:2"));
        assert!(job("a:1").len() < 100);
    }
}
