//! `nodegauge mpi`, and the messages line of `run`.

use crate::args::MpiArgs;
use crate::failure::{Exit, Failure};
use crate::session::{self, Found, Shown};
use nodegauge_machine::Topology;
use nodegauge_measure::Watch;
use nodegauge_measure::record::Status;
use nodegauge_messages::gauge::{self, Between, Outcome};
use nodegauge_messages::osu::beside::{self, Programs};
use nodegauge_messages::probe::{self, Probe};
use nodegauge_messages::session::Stage;
use nodegauge_messages::{MessagesError, Options, Pattern, nodes};
use nodegauge_report::messages::NOT_MEASURED;
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::mpi::{Mpi, USUAL};
use std::time::Duration;

/// Sizes of a quick look.
const QUICK_SIZES: [u64; 5] = [8, 1024, 65_536, 1 << 20, 4 << 20];
/// Time for a size of a quick look.
const QUICK_LIMIT: Duration = Duration::from_millis(150);

pub(crate) fn execute(args: &MpiArgs) -> Result<Exit, Failure> {
    let node = session::site(&args.common)?;
    let between = between(args)?;
    let options = options(args, &between);
    let ranks = args.ranks.map(|ranks| ranks as usize);
    // Everything that can be refused is refused before the history is touched.
    let (launches, notices) = gauge::plan(&node.topology, &options, &between, ranks)?;
    let mpis = find_all(args)?;
    for given in [("--launcher", args.launcher.len()), ("--osu", args.osu.len())] {
        let (option, count) = given;
        if count > 0 && count != mpis.len() {
            return Err(Failure::usage(format!(
                "{option} is given {count} times for {} MPIs\nhint: give one for each --mpicc, in the same order",
                mpis.len()
            )));
        }
    }
    let programs = programs(args)?;
    let probes = build(&mpis, &|| false)?;
    let samples = args.common.samples;
    session::conduct(
        &args.common,
        node,
        |node, progress| {
            let mut notices = notices;
            notices.extend(probes.iter().filter_map(|probe| probe.notice.clone()));
            let stages: Vec<Stage<'_>> = mpis
                .iter()
                .zip(&probes)
                .map(|(mpi, probe)| Stage {
                    mpi,
                    probe,
                    topology: &node.topology,
                    options: &options,
                })
                .collect();
            let mut outcome = if programs.is_empty() {
                with_hosts(&stages, &between, &launches, &options, &mut notices, progress)?
            } else {
                let rounds = samples.unwrap_or(beside::ROUNDS);
                let mut all = Outcome::default();
                for (stage, programs) in stages.iter().zip(&programs) {
                    let one = beside::run(stage, programs, &between, ranks, rounds, progress)?;
                    notices.retain(|notice| !notice.starts_with("latency_mt with 1:1"));
                    all.measurements.extend(one.measurements);
                    all.notices.extend(one.notices);
                    all.interrupted |= one.interrupted;
                    if all.interrupted {
                        break;
                    }
                }
                all
            };
            if !args.patterns.named {
                leave_out_refused(&mut outcome);
            }
            Ok(found(notices, outcome))
        },
        |record, style| match args.osu_text {
            true => Shown::Table(nodegauge_report::osu::render(record)),
            false => Shown::Text(nodegauge_report::messages::render(record, style)),
        },
    )
}

/// Runs the starts; of hosts only between those that answer.
fn with_hosts(
    stages: &[Stage<'_>],
    between: &Between,
    launches: &[nodegauge_messages::launch::Launch],
    options: &Options,
    notices: &mut Vec<String>,
    watch: &mut dyn Watch,
) -> Result<Outcome, Failure> {
    let Between::Hosts(hosts) = between else { return Ok(gauge::run(stages, launches, watch)?) };
    let mut all = Outcome::default();
    for stage in stages {
        watch.phase(&format!("asking {} hosts", hosts.len()));
        let (answer, silent) = nodes::ask(stage, hosts, &|| watch.interrupted());
        for (host, why) in &silent {
            notices.push(format!("{host} does not answer and is left out: {why}"));
        }
        if answer.len() < 2 {
            let silent: Vec<&str> = silent.iter().map(|(host, _)| host.as_str()).collect();
            return Err(Failure::missing(format!(
                "{} of {} hosts answer; none from {}\nhint: messages need two; see that {} can start programs there",
                answer.len(),
                hosts.len(),
                silent.join(", "),
                stage.mpi.launcher.command.program()
            )));
        }
        let launches = nodes::launches(&answer, options);
        let one = gauge::run(std::slice::from_ref(stage), &launches, watch)?;
        all.measurements.extend(one.measurements);
        all.notices.extend(one.notices);
        all.details.extend(one.details);
        all.interrupted |= one.interrupted;
        for (host, why) in silent {
            all.measurements.push(nodes::silent_host(stage, &host, &why));
        }
    }
    Ok(all)
}

/// What a run found, as `conduct` takes it.
fn found(mut notices: Vec<String>, outcome: Outcome) -> Found {
    notices.extend(outcome.notices);
    Found {
        measurements: outcome.measurements,
        notices,
        details: outcome.details,
        interrupted: outcome.interrupted,
        ..Found::default()
    }
}

/// A pattern that the MPI cannot do and nobody asked for by name is a notice and no failure.
fn leave_out_refused(outcome: &mut Outcome) {
    let mut notices = Vec::new();
    outcome.measurements.retain(|m| {
        let refused = m.validity.status == Status::Invalid
            && m.validity.reasons.iter().any(|reason| reason.contains("MPI_THREAD_MULTIPLE"));
        if refused {
            notices.push(format!("{} left out: {}", m.name, m.validity.reasons.join("; ")));
        }
        !refused
    });
    outcome.notices.extend(notices);
}

fn options(args: &MpiArgs, between: &Between) -> Options {
    let usual = Options::default();
    let mut options = Options {
        patterns: args.patterns.list.clone(),
        sizes: args.sizes(),
        window: args.window,
        iterations: args.iterations,
        warm_up: args.warm_up,
        // Beside OSU, samples are rounds.
        samples: args.common.samples.filter(|_| args.osu.is_empty()),
        size_limit: args.size_limit.unwrap_or(match args.osu.is_empty() {
            true => usual.size_limit,
            false => beside::SIZE_LIMIT,
        }),
        customary: false,
        starts: usual.starts,
        buffers: args.buffers,
        validate: args.validate,
        threads: args.threads,
        timing: args.timing,
        as_root: args.root.allow_run_as_root,
    };
    // A matrix has a pair for every two cores: without sizes of the user's, the two that matter.
    if *between == Between::All && args.sizes.is_none() {
        options.sizes = vec![8, 1 << 20];
    }
    if let Some(budget) = args.common.budget {
        let sizes: usize = options.patterns.iter().map(|p| options.sizes_of(*p).len()).sum();
        let share = budget.div_f64(sizes.max(1) as f64);
        options.size_limit = options.size_limit.min(share).max(Duration::from_millis(1));
    }
    options
}

fn between(args: &MpiArgs) -> Result<Between, Failure> {
    if args.hosts.is_empty() {
        return Ok(args.pairs.clone().unwrap_or_default());
    }
    let mut hosts = Vec::new();
    for host in &args.hosts {
        match host.trim() {
            "slurm" => hosts.extend(slurm_hosts()?),
            "" => return Err(Failure::usage("--hosts has an empty name")),
            name => hosts.push(name.to_owned()),
        }
    }
    let mut once: Vec<String> = Vec::new();
    hosts.retain(|host| {
        let new = !once.contains(host);
        once.push(host.clone());
        new
    });
    if hosts.len() < 2 {
        return Err(Failure::usage(
            "messages between hosts need two of them\nhint: e.g. --hosts node1,node2",
        ));
    }
    Ok(Between::Hosts(hosts))
}

/// The hosts of the Slurm job that this runs in.
pub(crate) fn slurm_hosts() -> Result<Vec<String>, Failure> {
    let list = std::env::var("SLURM_JOB_NODELIST").map_err(|_| {
        Failure::missing("this is no Slurm job: SLURM_JOB_NODELIST is not set\nhint: run it under salloc or sbatch, or name the hosts")
    })?;
    let command = CommandLine::new("scontrol", ["show", "hostnames", list.as_str()]);
    let job = nodegauge_toolchain::Job::new(command, Duration::from_secs(10));
    let said = job.success(nodegauge_toolchain::run(&job, &|| false)?)?;
    Ok(said.split_whitespace().map(str::to_owned).collect())
}

/// The MPIs that were named, else the first of the usual names that is one.
fn find_all(args: &MpiArgs) -> Result<Vec<Mpi>, Failure> {
    if args.mpicc.is_empty() {
        return Ok(vec![first_usual(args.launcher.first())?]);
    }
    let launcher =
        |at: usize| args.launcher.get(at).filter(|_| args.launcher.len() == args.mpicc.len());
    let find = |(at, mpicc)| Ok(Mpi::find(mpicc, launcher(at), &|| false)?);
    args.mpicc.iter().enumerate().map(find).collect()
}

fn first_usual(launcher: Option<&CommandLine>) -> Result<Mpi, Failure> {
    let mut first = None;
    for name in USUAL {
        match Mpi::find(&CommandLine::new(name, []), launcher, &|| false) {
            Ok(mpi) => return Ok(mpi),
            Err(error) => {
                first.get_or_insert(error);
            }
        }
    }
    Err(first.map_or_else(|| Failure::missing("there is no MPI"), Failure::from))
}

/// The programs of each `--osu`.
fn programs(args: &MpiArgs) -> Result<Vec<Programs>, Failure> {
    args.osu
        .iter()
        .map(|folder| {
            let programs = Programs::find(folder);
            if programs.is_empty() {
                return Err(Failure::usage(format!(
                    "there is no osu_latency, osu_bw, ... in {}\nhint: give the folder where the OSU micro-benchmarks were built or installed",
                    folder.display()
                )));
            }
            Ok(programs)
        })
        .collect()
}

fn build(mpis: &[Mpi], interrupted: &dyn Fn() -> bool) -> Result<Vec<Probe>, MessagesError> {
    let folder = probe::cache_folder(|name| std::env::var_os(name));
    mpis.iter().map(|mpi| probe::build(mpi, folder.as_deref(), interrupted)).collect()
}

/// The messages of `run`: a few sizes between the nearest two cores with the first MPI that can;
/// without one a line that says what to install, and no failure.
pub(crate) fn quick(
    topology: &Topology,
    full: bool,
    as_root: bool,
    watch: &mut dyn Watch,
) -> Found {
    let said = |why: String| {
        let why = why.replace("\nhint: ", "; ").replace('\n', " ");
        Found { notices: vec![format!("{NOT_MEASURED}{why}")], ..Found::default() }
    };
    let mut first = None;
    for name in USUAL {
        let mpi = match Mpi::find(&CommandLine::new(name, []), None, &|| watch.interrupted()) {
            Ok(mpi) => mpi,
            Err(error) => {
                first.get_or_insert(error.to_string());
                continue;
            }
        };
        match measure(&mpi, topology, full, as_root, watch) {
            Ok(outcome) => return found(Vec::new(), outcome),
            // Another MPI may start programs of root.
            Err(error @ MessagesError::Root { .. }) if nodegauge_os::is_root() => {
                first = Some(error.to_string());
            }
            Err(MessagesError::Interrupted) => {
                return Found { interrupted: true, ..Found::default() };
            }
            Err(error) => return said(error.to_string()),
        }
    }
    said(first.unwrap_or_else(|| "there is no MPI".to_owned()))
}

fn measure(
    mpi: &Mpi,
    topology: &Topology,
    full: bool,
    as_root: bool,
    watch: &mut dyn Watch,
) -> Result<Outcome, MessagesError> {
    let mut options =
        Options { patterns: vec![Pattern::Latency, Pattern::Bw], as_root, ..Options::default() };
    if !full {
        options.sizes = QUICK_SIZES.to_vec();
        options.size_limit = QUICK_LIMIT;
        options.starts = 1;
    }
    let (launches, _) = gauge::plan(topology, &options, &Between::EachDistance, None)?;
    let folder = probe::cache_folder(|name| std::env::var_os(name));
    let probe = probe::build(mpi, folder.as_deref(), &|| watch.interrupted())?;
    let stage = Stage { mpi, probe: &probe, topology, options: &options };
    gauge::run(&[stage], &launches, watch)
}
