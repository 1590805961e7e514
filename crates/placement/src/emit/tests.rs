use super::*;
use crate::ranks::{RankMap, RankPolicy, RankRequest, plan_ranks};
use crate::tests::{T2K, machine};
use std::num::NonZeroU32;
use std::sync::LazyLock;

fn planned(description: &str, request: &RankRequest) -> RankPlan {
    plan_ranks(&machine(description), request).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the plan of four ranks on a node of T2K, two on each of two sockets.
fn t2k(policy: u8) -> RankPlan {
    let request = RankRequest {
        ranks: 4,
        policy: RankPolicy::new(policy),
        map: Some(RankMap::Spread),
        ..RankRequest::default()
    };
    planned("Package:2 NUMANode:1 Core:4 PU:1", &request)
}

/// Returns the ranks of a plan on several nodes of T2K.
fn on_nodes(plan: &RankPlan, nodes: Option<u32>) -> EmittedRanks<'_> {
    static TOPOLOGY: LazyLock<Topology> = LazyLock::new(|| machine(T2K));
    EmittedRanks { plan, topology: &TOPOLOGY, nodes: nodes.and_then(NonZeroU32::new) }
}

/// Returns the plan of two ranks with two threads each, where each thread has its own CPU.
fn hybrid(description: &str) -> RankPlan {
    let request = RankRequest {
        ranks: 2,
        threads: Some(2),
        map: Some(RankMap::Cyclic),
        ..RankRequest::default()
    };
    planned(description, &request)
}

#[test]
fn openmp_variables_list_places_of_threads() {
    let rank = &hybrid(T2K).ranks[1];
    assert_eq!(
        omp_variables(rank),
        [
            ("OMP_NUM_THREADS", "2".to_owned()),
            ("OMP_PLACES", "{4},{5}".to_owned()),
            ("OMP_PROC_BIND", "close".to_owned())
        ]
    );
    let shared = RankRequest {
        ranks: 1,
        threads: Some(4),
        cpus: "{0-3,8}".parse().ok(),
        ..RankRequest::default()
    };
    assert_eq!(omp_variables(&planned(T2K, &shared).ranks[0])[1].1, "{0:4,8}");
    let mixed = RankRequest { threads: Some(3), cpus: "5,4,5".parse().ok(), ..shared };
    assert_eq!(omp_variables(&planned(T2K, &mixed).ranks[0])[1].1, "{5},{4},{5}");
    assert_eq!(omp_variables(&t2k(5).ranks[0])[1], ("OMP_PROC_BIND", "false".to_owned()));
}

#[test]
fn numactl_options_match_policy() {
    let command = |policy| numactl_prefix(&t2k(policy).ranks[2]).join(" ");
    assert_eq!(command(0), "");
    assert_eq!(command(1), "numactl --physcpubind=4-7 --interleave=0-1");
    assert_eq!(command(2), "numactl --physcpubind=4-7 --interleave=1");
    assert_eq!(command(3), "numactl --physcpubind=4-7 --membind=1");
    assert_eq!(command(4), "numactl --physcpubind=4-7 --localalloc");
    assert_eq!(command(5), "numactl --localalloc");
}

#[test]
fn rank_file_numbering_depends_on_open_mpi_version() {
    // The system numbers CPUs alternately on the sockets, as many servers do.
    let text = "Package:2 NUMANode:1 Core:2 PU:2(indexes=0,4,1,5,2,6,3,7)";
    let topology = machine(text);
    let plan = hybrid(text);
    let v4 = openmpi_options(&plan, &topology, OpenMpiVersion::V4);
    let v5 = openmpi_options(&plan, &topology, OpenMpiVersion::V5);
    assert_eq!(
        v4.rankfile.as_deref(),
        Some("rank 0=localhost slot=0-1\nrank 1=localhost slot=2-3\n")
    );
    assert_eq!(
        v5.rankfile.as_deref(),
        Some("rank 0=localhost slot=0,2\nrank 1=localhost slot=4,6\n")
    );
    assert_eq!(
        v4.args("F").join(" "),
        "-np 2 --mca rmaps_rank_file_physical 1 --use-hwthread-cpus --rankfile F"
    );
    assert_eq!(
        v5.args("F").join(" "),
        "-np 2 --map-by rankfile:file=F:hwtcpus --bind-to hwthread:overload-allowed"
    );
    let free = openmpi_options(&t2k(5), &machine(T2K), OpenMpiVersion::V4);
    assert_eq!(free.rankfile, None);
    assert_eq!(free.args("").join(" "), "-np 4 --bind-to none --oversubscribe");
}

#[test]
fn hydra_binding_lists_cpus_of_each_rank() {
    assert_eq!(mpich_options(&hybrid(T2K)).join(" "), "-np 2 -bind-to user:0+1,4+5");
    assert_eq!(mpich_options(&t2k(0)).join(" "), "-np 4 -bind-to none");
}

#[test]
fn srun_binding_uses_numbers_or_masks() {
    let one = "--nodes=1 --ntasks=4 --cpus-per-task=1 --cpu-bind=";
    assert_eq!(
        slurm_options(&t2k(3), 1).join(" "),
        one.to_owned() + "mask_cpu:0xf,0xf,0xf0,0xf0 --mem-bind=map_mem:0,0,1,1"
    );
    assert_eq!(slurm_options(&t2k(5), 1).join(" "), one.to_owned() + "none");
    assert_eq!(slurm_options(&t2k(1), 1).join(" "), one.to_owned() + "mask_cpu:0xf,0xf,0xf0,0xf0");
    // Slurm has no options for interleaved and local memory, so that numactl sets these policies.
    assert_eq!(rank_settings(&t2k(5), LauncherKind::Slurm)[0].prefix, ["numactl", "--localalloc"]);
    assert_eq!(
        rank_settings(&t2k(1), LauncherKind::Slurm)[0].prefix,
        ["numactl", "--interleave=0-1"]
    );
    assert!(rank_settings(&t2k(3), LauncherKind::Slurm)[0].prefix.is_empty());
    let own = RankRequest { ranks: 2, ..RankRequest::default() };
    assert_eq!(
        slurm_options(&planned(T2K, &own), 1).join(" "),
        "--nodes=1 --ntasks=2 --cpus-per-task=1 --cpu-bind=map_cpu:0,8"
    );
    assert_eq!(hex_mask([0, 5, 64]), "0x10000000000000021");
}

#[test]
fn variables_script_selects_values_by_rank() {
    let head = "#!/bin/sh\n# 2 ranks, 4 threads in all: cyclic\n\
                # use: . ./FILE, in the shell that starts the program\n";
    let expected = "0) export OMP_NUM_THREADS='2' OMP_PLACES='{0},{1}' OMP_PROC_BIND='close' ;;\n\
                    1) export OMP_NUM_THREADS='2' OMP_PLACES='{4},{5}' OMP_PROC_BIND='close' ;;\n\
                    *) exit 1 ;;\nesac\n";
    let differing = script::omp(&on_nodes(&hybrid(T2K), None));
    assert!(differing.starts_with(head) && differing.ends_with(expected), "{differing}");
    let free = script::omp(&on_nodes(&t2k(5), None));
    let remark = "# memory policy: not available as an OpenMP variable; see --emit numactl\n";
    let variables = "export OMP_NUM_THREADS='1'\nexport OMP_PROC_BIND='false'\n";
    assert!(free.ends_with(&(remark.to_owned() + variables)), "{free}");
}

#[test]
fn wrapper_has_command_for_each_rank() {
    let text = script::wrapper(&on_nodes(&t2k(3), None));
    let commands: Vec<&str> = text.lines().filter(|line| line.contains(") exec ")).collect();
    assert_eq!(commands.len(), 4);
    let variables = "OMP_NUM_THREADS='1' OMP_PROC_BIND='false'";
    let words = "numactl --physcpubind=4-7 --membind=1";
    assert_eq!(commands[2], format!("2) exec env {variables} {words} \"$@\" ;;"));
    assert!(
        text.starts_with("#!/bin/sh\n# 4 ranks, 4 threads in all: policy 3 spread\n"),
        "{text}"
    );
    assert!(text.contains("node_ranks=4 ") && text.contains("job_ranks=4 "), "{text}");
    assert!(text.ends_with("*) exit 1 ;;\nesac\n"), "{text}");
}

#[test]
fn rank_detection_code_has_no_single_quotes() {
    let plan = t2k(3);
    for nodes in [None, Some(3)] {
        let text = script::wrapper(&on_nodes(&plan, nodes));
        let (_, rest) = text.split_once("case $(\n").unwrap();
        let (code, _) = rest.split_once("\n) in\n0) exec ").unwrap();
        assert!(!code.contains('\''), "{code}");
        for name in ["MXMPI_ID/MXMPI_NP", "PMIX_RANK", "SLURM_PROCID", "FLUX_TASK_LOCAL_ID"] {
            assert!(code.contains(name), "{name}: {code}");
        }
    }
}

#[test]
fn scripts_start_the_planned_ranks_on_each_node() {
    let plan = t2k(3);
    let of = |script: fn(&EmittedRanks<'_>) -> String| script(&on_nodes(&plan, Some(24)));
    let last = |text: String| text.lines().last().unwrap_or_default().to_owned();
    assert!(of(script::wrapper).starts_with(
        "#!/bin/sh\n# 24 nodes, each with 4 ranks, 4 threads in all: policy 3 spread\n# use: mpirun -np 96 "
    ));
    assert!(of(script::wrapper).contains("job_ranks=96 job_plan=\"96 on 24 nodes\""));
    let open_mpi = "exec \"${MPIRUN:-mpirun}\" -np 96 --map-by ppr:4:node --bind-to none \"$@\"";
    assert_eq!(last(of(script::openmpi)), open_mpi);
    let hydra = "exec \"${MPIRUN:-mpirun}\" -np 96 -ppn 4 -bind-to none \"$@\"";
    assert_eq!(last(of(script::mpich)), hydra);
    assert_eq!(
        last(of(script::slurm)),
        "exec srun --nodes=24 --ntasks=96 --ntasks-per-node=4 --cpus-per-task=1 \
         --cpu-bind=mask_cpu:0xf,0xf,0xf0,0xf0 --mem-bind=map_mem:0,0,1,1 \"$@\""
    );
    let pbs = of(script::pbs);
    assert!(pbs.contains("#PBS -l select=24:ncpus=16:mpiprocs=4:ompthreads=1\n"), "{pbs}");
    assert!(pbs.contains("#PBS -l place=scatter:excl\n"), "{pbs}");
    let nqs = of(script::nqs);
    assert!(nqs.contains("#@$-N 24\n#@$-J T4\n"), "{nqs}");
    let pjm = of(script::pjm);
    let fields = ["\"node=24\"", "--mpi \"proc=96\"", "--mpi \"max-proc-per-node=4\""];
    assert!(fields.iter().all(|field| pjm.contains(&format!("{field}\n"))), "{pjm}");
    // A rank that the launcher has started, but that is not planned, does not start the program.
    for text in [of(script::slurm), script::openmpi(&on_nodes(&hybrid(T2K), None))] {
        let selects = text.contains(" in\n0) ");
        assert_eq!(selects, text.contains("; exit 1 ;;\nesac'"), "{text}");
    }
}
