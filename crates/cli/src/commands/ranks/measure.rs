//! `stream --ranks`: starts ranks, or joins those that an MPI launcher or srun has started, and
//! measures with them.

use crate::args::StreamArgs;
use crate::commands::{ranks, stream, sweep};
use crate::failure::{Exit, Failure};
use crate::session::{self, Found};
use nodegauge_gauge::Site;
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::Watch;
use nodegauge_measure::watch::Unwatched;
use nodegauge_memory::ranks::{self as fleets, Fleet, Hello, SharedFleet, Started};
use nodegauge_placement::{Bind, MemoryPolicy, Placement, RankPlace, RankPlan, Request};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time for everything unless the user says otherwise.
const BUDGET: Duration = Duration::from_secs(10);
/// How long ranks wait for each other, unless the variable says otherwise.
const PATIENCE: Duration = Duration::from_secs(30);
/// Seconds that ranks wait for each other.
const PATIENCE_VARIABLE: &str = "NODEGAUGE_JOIN_SECONDS";
/// The hidden command of a process that measures as a rank.
pub(crate) const WORKER: &str = "measure-as-rank";

/// How long ranks wait for each other.
fn patience() -> Result<Duration, Failure> {
    let Ok(text) = std::env::var(PATIENCE_VARIABLE) else { return Ok(PATIENCE) };
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(Failure::usage(format!(
            "{PATIENCE_VARIABLE} is {text:?}: expected seconds from 0.1 to 3600\nhint: unset it for the usual {}",
            PATIENCE.as_secs()
        ))),
    }
}

/// The launcher that started this process as one of several ranks.
pub(crate) fn started() -> Option<Started> {
    Started::read(|name| std::env::var(name).ok())
}

/// The command of a process that measures as a rank.
fn worker(name: &str, rank: u32, ranks: u32) -> Command {
    // The very program that runs, also when its file has been replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.args([WORKER, name, &rank.to_string(), &ranks.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Measures as a rank for the process that listens under `name`.
pub(crate) fn serve(name: &str, rank: u32, ranks: u32) -> Result<Exit, Failure> {
    let code = fleets::serve(name, Hello::own(rank, ranks), patience()?);
    code.map(Exit::Told).map_err(Failure::missing)
}

/// Starts ranks.
pub(crate) fn start(ranks: usize, watch: &mut dyn Watch) -> Result<SharedFleet, Failure> {
    watch.phase(&format!("starting {ranks} ranks"));
    let fleet = Fleet::start(ranks as u32, worker, patience()?, watch);
    Ok(fleet.map_err(Failure::missing)?.shared())
}

/// Ranks that a launcher has started.
pub(crate) struct Joined {
    pub(crate) fleet: SharedFleet,
    started: Started,
    hellos: Vec<Hello>,
}

/// `stream` in a process that a launcher has started as one of several ranks: rank 0 measures with
/// all of them and prints, the others do as they are told.
pub(crate) fn join(args: &StreamArgs, started: Started) -> Result<Exit, Failure> {
    let Started { rank, ranks, launcher, .. } = started;
    if started.is_spread() {
        // One message is enough.
        return match rank {
            0 => Err(Failure::missing(format!(
                "{launcher} has started {ranks} ranks on several hosts, and nodegauge measures ranks of one host\nhint: start them on one host, e.g. mpirun --host $(hostname):{ranks} or srun --nodes=1"
            ))),
            _ => Ok(Exit::Told(3)),
        };
    }
    if rank > 0 {
        return serve(&started.meeting(), rank, ranks);
    }
    let fleet = Fleet::join(&started.meeting(), ranks, worker, patience()?, &Unwatched);
    let fleet = fleet.map_err(Failure::missing)?.shared();
    let hellos = fleet.borrow().hellos();
    let joined = Joined { fleet, started, hellos };
    let result = measure(args, &joined);
    let code = match &result {
        Ok(exit) => exit.number(),
        Err(failure) => crate::failure::Exit::from(failure).number(),
    };
    joined.fleet.borrow_mut().leave_with(code);
    result
}

fn measure(args: &StreamArgs, joined: &Joined) -> Result<Exit, Failure> {
    if args.tune || args.standard.is_some() {
        return Err(Failure::usage(format!(
            "{} runs one process, but {} has started {}\nhint: start one",
            if args.tune { "--tune" } else { "--standard" },
            joined.started.launcher,
            joined.started.ranks
        )));
    }
    let axes = sweep::axes(args)?;
    match axes.is_empty() {
        true => execute(args, Some(joined)),
        false => sweep::execute(args, axes, Some(joined)),
    }
}

impl Joined {
    /// How many ranks there are.
    pub(crate) fn ranks(&self) -> u32 {
        self.started.ranks
    }

    /// The machine, of which the CPUs that the launcher gave to all ranks may be used.
    pub(crate) fn topology(&self, topology: &Topology) -> Topology {
        limited(topology, self.hellos.iter().flat_map(|hello| &hello.cpus))
    }

    /// The ranks as the user wants them, else where the launcher has put them.
    fn plan(&self, args: &StreamArgs, topology: &Topology) -> Result<RankPlan, Failure> {
        let count = self.started.ranks;
        if let Some(asked) = args.ranks.ranks.filter(|asked| *asked != count) {
            return Err(Failure::usage(format!(
                "--ranks {asked}, but {} has started {count}\nhint: leave out --ranks",
                self.started.launcher
            )));
        }
        let notice = format!("{} has started {count} ranks", self.started.launcher);
        let mut ranks = args.ranks.clone();
        ranks.ranks = Some(count);
        let placement = &args.placement;
        let wished = args.ranks.policy.is_some()
            || args.ranks.rank_map.is_some()
            || args.ranks.cpus.is_some()
            || placement.places.is_some()
            || placement.bind.is_some()
            || placement.per_cache.is_some();
        if wished {
            let plan = ranks::plan(placement, &ranks, &self.topology(topology))?;
            let mut plan = plan.ok_or_else(|| Failure::usage("expected ranks"))?;
            plan.notices.insert(0, notice);
            return Ok(plan);
        }
        let threads = ranks::threads(placement)?;
        let memory = match &placement.numa {
            Some(spec) => spec.resolve(topology)?,
            None => MemoryPolicy::Default,
        };
        let place = |hello: &Hello| {
            let placement = within(topology, &hello.cpus, threads)
                .map_err(|failure| Failure::usage(format!("rank {}: {failure}", hello.rank)))?;
            Ok(RankPlace { rank: Some(hello.rank), placement, memory: memory.clone() })
        };
        let places: Result<Vec<RankPlace>, Failure> = self.hellos.iter().map(place).collect();
        Ok(RankPlan {
            ranks: places?,
            policy: None,
            words: format!("as {} has it", self.started.launcher),
            notices: vec![notice],
        })
    }
}

/// The machine, of which only these CPUs may be used.
fn limited<'a>(topology: &Topology, cpus: impl IntoIterator<Item = &'a u32>) -> Topology {
    let cpus: BTreeSet<u32> = cpus.into_iter().copied().collect();
    let mut limited = topology.clone();
    limited.threads.iter_mut().for_each(|thread| thread.allowed = cpus.contains(&thread.cpu.0));
    limited
}

/// One rank's threads on the CPUs that it was given: one thread may use all of them, several are
/// spread over them. A rank with every CPU of the machine is not bound.
fn within(topology: &Topology, cpus: &[u32], threads: u32) -> Result<Placement, Failure> {
    let own = limited(topology, cpus);
    if threads > 1 {
        let request = Request { threads: Some(threads), ..Request::default() };
        return Ok(nodegauge_placement::plan(&own, &request)?);
    }
    let everywhere = cpus.len() >= topology.threads.len();
    Ok(Placement {
        threads: vec![nodegauge_placement::ThreadPlace {
            thread: 0,
            cpus: cpus.iter().map(|cpu| CpuId(*cpu)).collect(),
        }],
        bind: if everywhere { Bind::None } else { Bind::Close },
        places: "as given".to_owned(),
        notices: Vec::new(),
    })
}

/// `stream` with ranks.
pub(crate) fn execute(args: &StreamArgs, joined: Option<&Joined>) -> Result<Exit, Failure> {
    refuse_compilers(args)?;
    let node = session::site(&args.common)?;
    let plan = match joined {
        Some(joined) => joined.plan(args, &node.topology)?,
        None => ranks::plan(&args.placement, &args.ranks, &node.topology)?
            .ok_or_else(|| Failure::usage("expected ranks"))?,
    };
    let options = stream::options_of(args, MemoryPolicy::Default, BUDGET);
    stream::refuse_empty_table(args, &options)?;
    // Everything that can be refused is refused before the history is touched.
    fleets::plan(&node.topology, &node.machine, &plan, &options)?;
    session::conduct(
        &args.common,
        node,
        |node, progress| {
            let fleet = match joined {
                Some(joined) => SharedFleet::clone(&joined.fleet),
                None => start(plan.ranks.len(), progress)?,
            };
            let Site { topology, machine, .. } = node;
            let outcome = nodegauge_memory::stream::run_ranks(
                topology, machine, &plan, &fleet, &options, progress,
            )?;
            Ok(Found { details: details(&plan), ..stream::found(plan.notices.clone(), outcome) })
        },
        |record, style| match args.stream_text {
            true => stream::classic(record),
            false => stream::shown(record, style),
        },
    )
}

/// Loops that a compiler made are in this process alone.
pub(crate) fn refuse_compilers(args: &StreamArgs) -> Result<(), Failure> {
    match args.compiler.is_empty() {
        true => Ok(()),
        false => Err(Failure::usage(
            "--compiler runs one process, and --ranks several\nhint: leave one of them out",
        )),
    }
}

/// A line a rank on where it is and what memory it asks for.
fn details(plan: &RankPlan) -> Vec<String> {
    let line = |place: &RankPlace| {
        let cpus = nodegauge_placement::cpus::ranges(&place.placement.cpus());
        let rank = place.rank.unwrap_or(0);
        format!("rank {rank}: cpus {cpus}, memory {}", place.memory)
    };
    plan.ranks.iter().map(line).collect()
}
