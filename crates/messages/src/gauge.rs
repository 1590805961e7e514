//! A run: the probes compiled, every start with every MPI, dips measured again, curves judged.

use crate::choice::first_line;
use crate::curve::{self, Curve, CurvePoint, EagerLimit};
use crate::eager;
use crate::launch::{Launch, Where};
use crate::means::{self, Choice};
use crate::nodes;
use crate::osu::reference;
use crate::pattern::Pattern;
use crate::plan::{MessagesPlan, RankPairs};
use crate::probe::{self, Probe};
use crate::protocol::{ProbeRank, SizeRun};
use crate::result::{self, MessageFigure};
use crate::start::{Broken, ReadyMpi, StartReport, cares_for_root};
use crate::{GAUGE, MessagesError, TEST};
use nodegauge_gauge::{Foreseen, Planned, Site};
use nodegauge_measure::expect::Figures;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, Observer, Outcome, Unit, notice};
use nodegauge_placement::emit::OpenMpi;
use nodegauge_toolchain::mpi::{Mpi, MpiParts};
use std::collections::BTreeSet;

impl Planned for MessagesPlan {
    fn foreseen(&self) -> Foreseen {
        let sizes: usize = self.launches.iter().map(|launch| launch.count(&self.options)).sum();
        let turns = sizes * self.choice.mpis.len() * if self.osu.is_empty() { 1 } else { 2 };
        Foreseen {
            time: Some(self.options.size_limit * (turns as u32) * self.rounds),
            memory: Some(Bytes(self.buffer_bytes())),
        }
    }

    fn figures(&self, _: &Site) -> Vec<Figures> {
        let patterns = self.launches.iter().flat_map(|launch| &launch.patterns);
        let figures = |pattern: &Pattern| {
            let units: &[Unit] = match (pattern.row().counts_messages, pattern.unit()) {
                (true, _) => &[Unit::BytesPerSecond, Unit::MessagesPerSecond],
                (_, Unit::Seconds) => &[Unit::Seconds],
                _ => &[Unit::BytesPerSecond],
            };
            Figures::new((GAUGE, TEST), [pattern.name()], units)
        };
        patterns.map(figures).collect()
    }

    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        match run(*self, site, observer) {
            Err(_) if observer.interrupted() => Ok(interrupted()),
            ended => Ok(ended?),
        }
    }
}

fn interrupted() -> Outcome {
    Outcome { stop: Some(Stop::Interrupted), ..Outcome::default() }
}

fn run(
    plan: MessagesPlan,
    site: &Site,
    observer: &mut dyn Observer,
) -> Result<Outcome, MessagesError> {
    let mut choice = plan.choice;
    let probes = probes(&mut choice, !plan.osu.is_empty(), observer)?;
    let mut outcome = Outcome { notices: plan.notices, ..Outcome::default() };
    for (mpi, probe) in choice.mpis.iter().zip(&probes) {
        notice::add_new(&mut outcome.notices, probe.notices.clone());
        if cares_for_root(mpi) {
            let (launcher, option) = (mpi.launcher.command.program(), OpenMpi::AS_ROOT);
            let text = format!("{}: ranks run as root: {launcher} was given {option}", mpi.library);
            outcome.notices.push(Notice::new(NoticeId::Method, GAUGE, text));
        }
    }
    for (mpicc, why) in &choice.unusable {
        let missing = |pattern: &Pattern| result::unusable(*pattern, mpicc, why);
        outcome.measurements.extend(plan.options.patterns.iter().map(missing));
    }
    let (topology, options) = (&site.topology, &plan.options);
    let with_probes = choice.mpis.iter().zip(&probes);
    let ready: Vec<ReadyMpi<'_>> =
        with_probes.map(|(mpi, probe)| ReadyMpi { mpi, probe, topology, options }).collect();
    if !plan.osu.is_empty() {
        for (mpi, programs) in ready.iter().zip(&plan.osu) {
            outcome.extend(reference::run(mpi, programs, &plan.launches, plan.rounds, observer)?);
            if outcome.is_interrupted() {
                break;
            }
        }
    } else if let RankPairs::Hosts(hosts) = &plan.between {
        for mpi in &ready {
            outcome.extend(run_on_hosts(mpi, hosts, observer)?);
        }
    } else {
        outcome.extend(run_starts(&ready, &plan.launches, observer)?);
    }
    Ok(outcome)
}

/// The probe of each MPI. An MPI whose wrapper compiles nothing is used without it where nobody named it, and
/// is of no use where it is one of several that were named.
///
/// # Errors
/// When there is no other, or with OSU's programs (`paired`), of which each has its MPI.
fn probes(
    choice: &mut Choice,
    paired: bool,
    observer: &mut dyn Observer,
) -> Result<Vec<Probe>, MessagesError> {
    let folder = probe::cache_folder(|name| std::env::var_os(name));
    let several = choice.mpis.len() + choice.unusable.len() > 1;
    let (mut probes, mut mpis, mut first_error) = (Vec::new(), Vec::new(), None);
    for mut mpi in std::mem::take(&mut choice.mpis) {
        observer.phase(&format!("{}: the probe", mpi.library));
        let build = |mpi: &Mpi| probe::build(mpi, folder.as_deref(), &|| observer.interrupted());
        let built = build(&mpi).or_else(|error| {
            let launcher = Some(&mpi.launcher.command);
            let no_other = choice.named || observer.interrupted();
            let other = || means::without_compiler(launcher, &first_line(&error));
            mpi = (!no_other).then(other).flatten().ok_or(error)?;
            build(&mpi)
        });
        match built {
            Ok(probe) => {
                probes.push(probe);
                mpis.push(mpi);
            }
            Err(error) if several && !paired && !observer.interrupted() => {
                let why = first_line(&error);
                let MpiParts::Wrapper { compiler, .. } = mpi.parts else { return Err(error) };
                choice.unusable.push((compiler.command, why));
                first_error.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    choice.mpis = mpis;
    match first_error {
        Some(error) if probes.is_empty() => Err(error),
        _ => Ok(probes),
    }
}

/// Runs the starts between those hosts that answer.
fn run_on_hosts(
    mpi: &ReadyMpi<'_>,
    hosts: &[String],
    observer: &mut dyn Observer,
) -> Result<Outcome, MessagesError> {
    observer.phase(&format!("asking {} hosts", hosts.len()));
    let (answering, silent) = nodes::ask(mpi, hosts, &|| observer.interrupted());
    if answering.len() < 2 {
        let names: Vec<&str> = silent.iter().map(|(host, _)| host.as_str()).collect();
        return Err(MessagesError::Missing(format!(
            "{} of {} hosts answer; none from {}\nhint: messages need two; see that {} can start programs there",
            answering.len(),
            hosts.len(),
            names.join(", "),
            mpi.launcher_name()
        )));
    }
    let launches = nodes::launches(&answering, mpi.options);
    let mut outcome = run_starts(std::slice::from_ref(mpi), &launches, observer)?;
    for (host, why) in silent {
        let text = format!("{host} does not answer and is left out: {why}");
        outcome.notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
        outcome.measurements.push(nodes::silent_host(mpi, &host, &why));
    }
    Ok(outcome)
}

/// Carries out the starts, each with every MPI before the next, so that they see the same machine.
fn run_starts(
    mpis: &[ReadyMpi<'_>],
    launches: &[Launch],
    observer: &mut dyn Observer,
) -> Result<Outcome, MessagesError> {
    let mut outcome = Outcome::default();
    let mut first_error = None;
    for (number, launch) in launches.iter().enumerate() {
        for mpi in mpis {
            if outcome.is_interrupted() || observer.interrupted() {
                outcome.stop = Some(Stop::Interrupted);
                break;
            }
            observer.phase(&format!(
                "{} {}, {} of {}",
                mpi.mpi.library,
                in_words(launch),
                number + 1,
                launches.len()
            ));
            match start(mpi, launch, observer) {
                Ok(found) => outcome.extend(found),
                Err(MessagesError::Interrupted) => outcome.extend(interrupted()),
                Err(error) => {
                    outcome.measurements.extend(failed(mpi, launch, &error));
                    first_error.get_or_insert(error);
                }
            }
        }
    }
    let nothing = outcome.measurements.iter().all(|m| m.summary.is_none());
    match first_error {
        Some(error) if nothing && !outcome.is_interrupted() => Err(error),
        _ => Ok(outcome),
    }
}

fn in_words(launch: &Launch) -> String {
    match (launch.distance, &launch.ranks) {
        (Some(distance), _) => distance.name().to_owned(),
        (None, Where::Here(cpus)) => format!("{} ranks", cpus.len()),
        (None, Where::Hosts(hosts)) => format!("{} nodes", hosts.len()),
    }
}

fn start(
    mpi: &ReadyMpi<'_>,
    launch: &Launch,
    observer: &mut dyn Observer,
) -> Result<Outcome, MessagesError> {
    let mut report = mpi.run_often(launch, observer)?;
    let limit = eager::limit(&result::mpi_config(mpi.mpi, Some(&report)), &report.output.variables);
    if report.broken.is_none() && launch.steps.is_empty() {
        measure_dips_again(mpi, launch, limit.as_ref(), &mut report.output.sizes, observer)?;
    }
    let mut figures = result::figures(mpi, &report);
    judge_curves(&mut figures, limit.as_ref());
    let mut outcome = Outcome {
        measurements: figures.into_iter().map(Measurement::from).collect(),
        notices: notices(mpi, &report),
        details: details(&report),
        stop: (report.broken == Some(Broken::Interrupted)).then_some(Stop::Interrupted),
        ..Outcome::default()
    };
    for missing in result::refused(mpi, &report) {
        if mpi.options.named {
            outcome.measurements.push(missing);
        } else {
            // Nobody asked for it by name.
            let reasons = missing.validity.reasons.join("; ");
            let text = format!("{} left out: {reasons}", missing.name);
            outcome.notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
        }
    }
    Ok(outcome)
}

/// Measures sizes that take far longer than their neighbours a second time and puts the new samples in
/// the place of the old ones.
fn measure_dips_again(
    mpi: &ReadyMpi<'_>,
    launch: &Launch,
    limit: Option<&EagerLimit>,
    sizes: &mut [SizeRun],
    observer: &mut dyn Observer,
) -> Result<(), MessagesError> {
    let mut dips: Vec<(Pattern, u64)> = Vec::new();
    for pattern in &launch.patterns {
        let own = sizes.iter().filter(|run| run.pattern == *pattern);
        let points = own.map(|run| (run.bytes, run.median()));
        let points: Vec<CurvePoint> = points.filter(|(_, median)| median.is_finite()).collect();
        let limit = limit.filter(|_| !pattern.is_collective()).map(|limit| limit.bytes);
        dips.extend(curve::dips(&points, limit).into_iter().map(|bytes| (*pattern, bytes)));
    }
    if dips.is_empty() || observer.interrupted() {
        return Ok(());
    }
    observer.phase(&format!("{} again: {} sizes that dip", mpi.mpi.library, dips.len()));
    let patterns: BTreeSet<Pattern> = dips.iter().map(|(pattern, _)| *pattern).collect();
    let dipping: BTreeSet<u64> = dips.iter().map(|(_, bytes)| *bytes).collect();
    let second = Launch {
        patterns: patterns.into_iter().collect(),
        sizes: Some(dipping.into_iter().collect()),
        ..launch.clone()
    };
    let second = match mpi.run(&second, observer) {
        Ok(second) => second.output.sizes,
        Err(MessagesError::Toolchain(error)) => return Err(error.into()),
        // The first measurement stands.
        Err(_) => Vec::new(),
    };
    for run in second.into_iter().filter(|run| run.done.is_some()) {
        let what = (run.pattern, run.bytes);
        let known = sizes.iter_mut().find(|known| (known.pattern, known.bytes) == what);
        if let Some(known) = known.filter(|_| dips.contains(&what)) {
            *known = SizeRun { dip: Some(known.median()), ..run };
        }
    }
    Ok(())
}

/// Whether a figure is a point of a curve: messages per second tell what bytes per second do.
fn is_curve(figure: &MessageFigure) -> bool {
    figure.measurement.unit != Unit::MessagesPerSecond
}

/// Puts what a whole curve tells into the figure of its first size. The `limit` is of messages; what a
/// collective makes of its size, it does not say.
fn judge_curves(figures: &mut [MessageFigure], limit: Option<&EagerLimit>) {
    let point = |figure: &MessageFigure| {
        let bytes = figure.config.message_bytes?;
        let median = figure.measurement.summary.as_ref()?.median;
        // The time that a message takes of the stream.
        let is_time = figure.measurement.unit == Unit::Seconds;
        is_curve(figure).then_some((bytes, if is_time { median } else { bytes as f64 / median }))
    };
    // The sizes of a pattern and pair follow one another.
    for curve in figures.chunk_by_mut(|a, b| {
        a.measurement.name == b.measurement.name && a.config.ranks == b.config.ranks
    }) {
        let points: Vec<CurvePoint> = curve.iter().filter_map(point).collect();
        if points.len() > 1 {
            let collective = |name: &str| name.parse().is_ok_and(Pattern::is_collective);
            let limit = limit.filter(|_| !collective(&curve[0].measurement.name));
            curve[0].config.curve = Some(Curve::of(&points, limit));
        }
    }
}

fn notices(mpi: &ReadyMpi<'_>, report: &StartReport) -> Vec<Notice> {
    let notice = |id, text: String| Notice::new(id, GAUGE, format!("{}: {text}", mpi.mpi.library));
    let dips: Vec<&SizeRun> = report.output.sizes.iter().filter(|run| run.dip.is_some()).collect();
    let of_pattern = |dips: &[&SizeRun]| {
        let sizes: Vec<String> = dips.iter().map(|run| Bytes(run.bytes).to_string()).collect();
        format!("{} of {}", dips[0].pattern, sizes.join(", "))
    };
    let again: Vec<String> =
        dips.chunk_by(|one, next| one.pattern == next.pattern).map(of_pattern).collect();
    let again = (!again.is_empty()).then(|| {
        let text = format!("out of their curves, and measured again: {}", again.join("; "));
        notice(NoticeId::Trend, text)
    });
    let mut notices: Vec<Notice> = again.into_iter().collect();
    let place = match report.output.unfinished() {
        Some(size) => format!("in {} of {}", size.pattern, Bytes(size.bytes)),
        None => "between two sizes".to_owned(),
    };
    let kept = "what was measured before is kept";
    let failed = match &report.broken {
        Some(Broken::Hung(limit)) => Some(format!(
            "no answer within {} s {place}: {} and its ranks were killed; {kept}",
            limit.as_secs_f64(),
            mpi.launcher_name(),
        )),
        Some(Broken::Died(how)) => {
            Some(format!("a rank or the launcher ended {place}: {how}; {kept}"))
        }
        _ => None,
    };
    let silent = nodes::silent(report).map(|hosts| format!("no answer from {}", hosts.join(", ")));
    notices.extend(failed.into_iter().chain(silent).map(|text| notice(NoticeId::Failed, text)));
    notices
}

/// Where each rank was, in the kernel's words.
fn details(report: &StartReport) -> Vec<String> {
    let mut lines = vec![format!("started by: {}", report.command)];
    let rank = |(rank, found): (usize, &ProbeRank)| {
        let cpus = found.cpus.as_deref().unwrap_or("unknown");
        format!("rank {rank} on {} may run on cpus {cpus}", found.host)
    };
    lines.extend(report.output.ranks.iter().enumerate().map(rank));
    lines
}

/// A start that gave nothing, in the record.
fn failed(mpi: &ReadyMpi<'_>, launch: &Launch, error: &MessagesError) -> Vec<Measurement> {
    let reason = first_line(error);
    let config = result::unstarted(mpi.mpi, launch.distance);
    launch.patterns.iter().map(|pattern| result::missing(*pattern, &config, &reason)).collect()
}
