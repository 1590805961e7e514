//! `nodegauge hpl`.

use crate::args::hpl::HplArgs;
use crate::failure::{Exit, Failure};
use crate::output::{self, Sink};
use crate::resolve;
use crate::session::{self, Shown};
use nodegauge_analysis::compare::machine_changes;
use nodegauge_arena::names::{STREAM, TRIAD};
use nodegauge_compute::config::RatingConfig;
use nodegauge_compute::options::{BUDGET, HplOptions, RankOptions, ReferenceOptions};
use nodegauge_compute::size::{self, OrderSpec};
use nodegauge_compute::{ComputeGauge, DGEMM, HplPlan, RATING, TEST, view};
use nodegauge_gauge::{Planned, Site};
use nodegauge_measure::keys::shared;
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::{Bytes, BytesPerSec, FlopsPerSec, Fraction, Notice, NoticeId, notice};
use nodegauge_toolchain::mpi::HostList;

pub(crate) fn execute(args: &HplArgs) -> Result<Exit, Failure> {
    let site = site(args)?;
    let placed = resolve::plan(&args.placement, &site.topology)?;
    let [placement] = placed.placements.as_slice() else {
        return Err(
            Failure::usage("hpl requires a single thread count").hint("give --threads N once")
        );
    };
    let options = options(args, &site, placement.threads.len())?;
    let plan = HplPlan::new(&site, placement.clone(), options)?;
    if args.plan {
        output::show_section(&view::plan(&plan));
        return Ok(Exit::Success);
    }
    if let Some(file) = &args.real.hpl_dat_only {
        let sink = Sink::from(file.as_str());
        sink.check()?;
        sink.write(&plan.input(&site)?)?;
        return Ok(Exit::Success);
    }
    let figures = plan.figures(&site);
    session::conduct(
        &args.common,
        site,
        &figures,
        |site, progress| {
            let mut outcome = Box::new(plan).run(site, progress)?;
            let of_places = |text| Notice::new(NoticeId::Other, "", text);
            let mut notices: Vec<Notice> = placed.notices.into_iter().map(of_places).collect();
            notice::add_new(&mut notices, outcome.notices);
            outcome.notices = notices;
            Ok(outcome)
        },
        |record, style| {
            if args.hpl_text {
                Shown::Table(view::hpl_text(record))
            } else {
                Shown::page_of(&ComputeGauge)(record, style)
            }
        },
    )
}

/// True if the command only plans and runs nothing.
fn is_planned(args: &HplArgs) -> bool {
    args.plan || args.real.hpl_dat_only.is_some()
}

/// Returns this node, or the machine to plan for.
fn site(args: &HplArgs) -> Result<Site, Failure> {
    let given = [
        ("--topology", args.topology.is_some()),
        ("--memory", args.memory.is_some()),
        ("--rate", args.rate.is_some()),
    ];
    if let (Some((option, _)), false) = (given.iter().find(|(_, given)| *given), is_planned(args)) {
        return Err(Failure::usage(format!("{option} requires --plan or --hpl-dat-only"))
            .hint("add --plan or --hpl-dat-only"));
    }
    let mut site = match &args.topology {
        Some(source) => session::described(&args.common, source)?,
        None => session::site(&args.common)?,
    };
    let memory = &mut site.machine.memory;
    let all = memory.bytes.filter(|_| args.topology.is_some());
    if let Some(planned) = args.memory.map(|Bytes(bytes)| bytes).or(all) {
        (memory.available, memory.cgroup_limit) = (Some(planned), None);
    }
    Ok(site)
}

fn options(args: &HplArgs, site: &Site, threads: usize) -> Result<HplOptions, Failure> {
    let described = site.machine.is_described();
    let order = match (args.order, args.full) {
        (Some(order), _) => OrderSpec::Exactly(order as usize),
        (None, true) => OrderSpec::Full,
        (None, false) if described && args.common.budget.is_none() => OrderSpec::Full,
        (None, false) => OrderSpec::Quick,
    };
    let on_as_many = |m: &Measurement| m.read_key::<shared::threads>() == Some(threads as u64);
    let triad = saved(args, site, (STREAM, TRIAD), &|_| true);
    let dgemm = saved(args, site, (TEST, DGEMM), &on_as_many);
    let real = &args.real;
    let asked_threads = args.placement.threads.as_ref().and_then(|counts| counts.single());
    // A plan for another machine does not require xhpl on this one.
    let reference = real.xhpl.as_ref().filter(|_| !described).map(|program| ReferenceOptions {
        program: program.clone(),
        launcher: real.launcher.clone(),
        allow_root: real.allow_run_as_root,
    });
    Ok(HplOptions {
        order,
        fraction: Fraction(args.memory_fraction),
        nb: args.nb.iter().map(|nb| *nb as usize).collect(),
        grid_multiple: args.grid_multiple,
        seed: args.seed,
        budget: args.common.budget.unwrap_or(BUDGET),
        samples: args.common.samples.unwrap_or(1) as usize,
        libraries: args.blas.clone(),
        triad: triad.map(|(rate, source)| (BytesPerSec(rate), source)),
        dgemm: dgemm.map(|(rate, source)| (FlopsPerSec(rate), source)),
        rate: args.rate,
        half: saved_half(args, site, &on_as_many).filter(|_| args.rate.is_none()),
        ranks: RankOptions {
            ranks: real.ranks.map(|ranks| ranks as usize),
            threads: asked_threads.map(|n| n as usize),
            hosts: hosts(&real.hosts)?,
        },
        reference,
    })
}

/// Returns the given hosts, else those of a Slurm job with several hosts; empty for this node.
fn hosts(named: &[HostList]) -> Result<Vec<String>, Failure> {
    let several = |text: String| text.trim().parse::<u32>().is_ok_and(|nodes| nodes > 1);
    let in_job = std::env::var("SLURM_JOB_NUM_NODES").is_ok_and(several);
    if named.is_empty() && in_job {
        Ok(nodegauge_messages::job_hosts()?)
    } else {
        Ok(named.iter().flat_map(|HostList(names)| names.clone()).collect())
    }
}

/// Returns the newest record with this figure, if the machine has not changed since.
fn newest(args: &HplArgs, site: &Site, (test, name): (&str, &str)) -> Option<Record> {
    if site.machine.is_described() {
        return None;
    }
    let record = session::newest(&args.common.db, site)(test, name)?;
    machine_changes(&record.machine, &site.machine).is_empty().then_some(record)
}

/// Returns the matrix order at which LU reaches half of the DGEMM rate, according to the newest saved rating.
fn saved_half(args: &HplArgs, site: &Site, fits: &dyn Fn(&Measurement) -> bool) -> Option<f64> {
    let record = newest(args, site, (TEST, RATING))?;
    let ratings = record
        .measurements
        .iter()
        .filter(|m| (m.test.as_str(), m.name.as_str()) == (TEST, RATING) && fits(m));
    let half = |config: RatingConfig| size::half(config.n? as usize, config.of_dgemm?);
    ratings.map(|m| m.read_config()).find_map(half)
}

/// Returns the best of the newest saved figures of this machine, with the time of its run.
fn saved(
    args: &HplArgs,
    site: &Site,
    (test, name): (&str, &str),
    fits: &dyn Fn(&Measurement) -> bool,
) -> Option<(f64, String)> {
    let record = newest(args, site, (test, name))?;
    let figures =
        record.measurements.iter().filter(|m| m.test == test && m.name == name && fits(m));
    let best = figures.filter_map(|m| m.value).reduce(f64::max)?;
    Some((best, format!("saved {}", record.started)))
}
