//! MPI launchers and srun: detects from their variables which one has started this process as one of several ranks,
//! and places the threads of its ranks.
//!
//! The first launcher whose variables are set decides, MPI before Slurm: within an allocation mpirun counts. A single
//! rank is a process like any other: `srun -n1`, a batch script (which has `SLURM_PROCID` but is no step of several
//! tasks) and `mpirun -np 1`.

use crate::{
    Bind, MemoryPolicy, Placement, PlacementError, PlacementRequest, RankPlace, RankPlan,
    ThreadPlace,
};
use nodegauge_machine::{CpuId, Topology};
use std::collections::BTreeSet;

/// The launcher that has started this process, and the ranks of its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Name of the launcher, for people.
    pub launcher: &'static str,
    /// Rank of this process.
    pub rank: u32,
    /// Number of ranks, at least 2.
    pub ranks: u32,
    /// Number of ranks on this host, where the launcher sets it.
    pub here: Option<u32>,
    /// Words that distinguish this job from others of this user.
    job: String,
}

/// Variables of a launcher: its name; rank, number of ranks, number of ranks on this host; what
/// names the job.
struct Launcher {
    name: &'static str,
    rank: &'static str,
    ranks: &'static str,
    here: &'static [&'static str],
    job: &'static [&'static str],
}

/// The name of srun in words.
const SLURM: &str = "Slurm";

/// In the order in which they decide.
const LAUNCHERS: [Launcher; 5] = [
    Launcher {
        name: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        ranks: "OMPI_COMM_WORLD_SIZE",
        here: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
        job: &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"],
    },
    Launcher {
        name: "MVAPICH",
        rank: "MV2_COMM_WORLD_RANK",
        ranks: "MV2_COMM_WORLD_SIZE",
        here: &["MV2_COMM_WORLD_LOCAL_SIZE"],
        job: &["MPISPAWN_ID", "PMI_ID", "PMI_PORT"],
    },
    // MPICH's Hydra, and Intel MPI, whose launcher is a Hydra.
    Launcher {
        name: "MPICH or Intel MPI",
        rank: "PMI_RANK",
        ranks: "PMI_SIZE",
        here: &["MPI_LOCALNRANKS", "MPI_LOCALNUMRANKS", "PALS_LOCAL_SIZE"],
        job: &["PALS_APID", "PMI_JOBID", "PMI_PORT"],
    },
    Launcher {
        name: "PALS",
        rank: "PALS_RANKID",
        ranks: "PALS_SIZE",
        here: &["PALS_LOCAL_SIZE"],
        job: &["PALS_APID"],
    },
    Launcher {
        name: SLURM,
        rank: "SLURM_PROCID",
        ranks: "SLURM_STEP_NUM_TASKS",
        here: &[],
        job: &["SLURM_STEP_ID"],
    },
];

/// What reads a variable that is a number.
fn number_of(lookup: impl Fn(&str) -> Option<String>) -> impl Fn(&str) -> Option<u32> {
    move |name| lookup(name)?.trim().parse().ok()
}

/// The launcher whose variables decide.
fn launcher(lookup: impl Fn(&str) -> Option<String>) -> Option<&'static Launcher> {
    let number = number_of(lookup);
    // srun speaks PMI itself; a Hydra inside of an allocation is a step of one task a host.
    let by_srun = number("PMI_RANK") == number("SLURM_PROCID")
        && number("PMI_SIZE") == number("SLURM_STEP_NUM_TASKS");
    LAUNCHERS.iter().find(|launcher| {
        number(launcher.rank).is_some()
            && number(launcher.ranks).is_some()
            && !(by_srun && launcher.rank == "PMI_RANK")
    })
}

impl Started {
    /// The launcher that started this process as one of several ranks.
    pub fn own() -> Option<Self> {
        Self::read(|name| std::env::var(name).ok())
    }

    /// True if an MPI launcher has started this process, alone or as one of several: its output may be a terminal of
    /// the launcher's own, which copies everything that is printed.
    pub fn on_a_launchers_terminal() -> bool {
        launcher(|name| std::env::var(name).ok()).is_some_and(|launcher| launcher.name != SLURM)
    }

    /// Looks the variables up with `lookup`.
    fn read(lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let launcher = launcher(&lookup)?;
        let number = number_of(&lookup);
        let (rank, ranks) = (number(launcher.rank)?, number(launcher.ranks)?);
        let here = launcher.here.iter().find_map(|name| number(name));
        let here = match launcher.name {
            // A step on one node has all of its tasks here.
            SLURM => {
                number("SLURM_STEP_NUM_NODES").filter(|nodes| *nodes == 1).map(|_| ranks).or(
                    // Of several nodes it says `2(x3),1`; how many are elsewhere does not matter.
                    number("SLURM_STEP_NUM_NODES").map(|_| ranks.saturating_sub(1)),
                )
            }
            _ => here,
        };
        let named = launcher.job.iter().chain(&["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"]);
        let job: Vec<String> = named.filter_map(|name| lookup(name)).collect();
        (ranks > 1 && rank < ranks).then(|| Self {
            launcher: launcher.name,
            rank,
            ranks,
            here,
            job: job.join("/"),
        })
    }

    /// Words for people: `Open MPI has started 4 ranks`.
    pub fn in_words(&self) -> String {
        format!("{} has started {} ranks", self.launcher, self.ranks)
    }

    /// Places each rank, with `threads` threads, on those of `cpus` that the launcher has given to it.
    ///
    /// # Errors
    /// The rank and the reason when its threads find no place on its CPUs.
    pub fn places(
        &self,
        cpus: &[Vec<u32>],
        topology: &Topology,
        threads: u32,
        memory: &MemoryPolicy,
    ) -> Result<RankPlan, (u32, PlacementError)> {
        let place = |(rank, allowed): (u32, &Vec<u32>)| {
            let placement = within(topology, allowed, threads).map_err(|error| (rank, error))?;
            Ok(RankPlace { rank: Some(rank), placement, memory: memory.clone() })
        };
        Ok(RankPlan {
            ranks: (0..).zip(cpus).map(place).collect::<Result<_, _>>()?,
            policy: None,
            words: format!("as {} has it", self.launcher),
            devices: Vec::new(),
            device_count: 0,
            notices: vec![self.in_words()],
        })
    }

    /// True if some ranks are on other hosts.
    pub fn is_spread(&self) -> bool {
        self.here.is_some_and(|here| here < self.ranks)
    }

    /// Name of the socket by which the ranks of this job find each other, from the user, the launcher, the job and the
    /// number of ranks. Names of sockets are short: the name has a digest of them.
    pub fn socket_name(&self) -> String {
        // Hydra names no job, but its proxy on a host is the ancestor of all ranks there.
        let proxy = if self.job.is_empty() { ancestor("hydra_") } else { None };
        let proxy = proxy.map_or(String::new(), |process| process.to_string());
        let words = format!("{}/{}{proxy}/{}", self.launcher, self.job, self.ranks);
        format!("nodegauge-{}-{:016x}", nodegauge_os::effective_user(), digest(&words))
    }
}

/// Returns the machine with only these CPUs allowed.
pub fn limited<'a>(topology: &Topology, cpus: impl IntoIterator<Item = &'a u32>) -> Topology {
    let cpus: BTreeSet<u32> = cpus.into_iter().copied().collect();
    let mut limited = topology.clone();
    limited.threads.iter_mut().for_each(|thread| thread.allowed = cpus.contains(&thread.cpu.0));
    limited
}

/// Places the threads of one rank on the CPUs that it was given: one thread may use all of them, several are spread
/// over them. A rank with every CPU of the machine is not bound.
fn within(topology: &Topology, cpus: &[u32], threads: u32) -> Result<Placement, PlacementError> {
    if threads > 1 {
        let request = PlacementRequest { threads: Some(threads), ..PlacementRequest::default() };
        return crate::plan(&limited(topology, cpus), &request);
    }
    let everywhere = cpus.len() >= topology.threads.len();
    let cpus = cpus.iter().map(|cpu| CpuId(*cpu)).collect();
    Ok(Placement {
        threads: vec![ThreadPlace { thread: 0, cpus }],
        bind: if everywhere { Bind::None } else { Bind::Close },
        places: "as given".to_owned(),
        notices: Vec::new(),
    })
}

/// The nearest ancestor of this process whose name begins so.
fn ancestor(name: &str) -> Option<u32> {
    let mut process = std::os::unix::process::parent_id();
    while process > 1 {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // pid (name) state parent ...; the name may hold blanks and brackets.
        let (head, tail) = stat.rsplit_once(") ")?;
        if head.split_once('(')?.1.starts_with(name) {
            return Some(process);
        }
        process = tail.split(' ').nth(1)?.parse().ok()?;
    }
    None
}

/// FNV-1a, 64 bits: the same in every process.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(variables: &[(&str, &str)]) -> Option<Started> {
        Started::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn each_launcher_is_known_by_its_variables() {
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
            // Inside of an allocation.
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "2"),
        ];
        let found = started(&open_mpi).unwrap();
        assert_eq!(
            (found.launcher, found.rank, found.ranks, found.here),
            ("Open MPI", 3, 4, Some(4))
        );
        assert!(!found.is_spread());
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
            assert!(slurm.is_spread(), "{launcher}");
        }
    }

    #[test]
    fn one_process_is_no_ranks() {
        let batch = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_JOB_ID", "7")];
        assert_eq!(started(&batch), None);
        let alone = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")];
        assert_eq!(started(&alone), None);
        // srun speaks PMI, too.
        let srun = [
            ("PMI_RANK", "1"),
            ("PMI_SIZE", "2"),
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_STEP_NUM_NODES", "1"),
        ];
        let found = started(&srun).unwrap();
        assert_eq!((found.launcher, found.here), ("Slurm", Some(2)));
        // One rank of mpirun in a step of several tasks is one rank.
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
    fn ancestors_are_found_by_name() {
        let parent = std::os::unix::process::parent_id();
        let name = std::fs::read_to_string(format!("/proc/{parent}/comm")).unwrap();
        assert_eq!(ancestor(name.trim()), Some(parent));
        assert_eq!(ancestor("no such program"), None);
    }

    #[test]
    fn jobs_have_sockets_of_different_names() {
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
