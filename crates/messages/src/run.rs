//! Run of the measurement: compiles the probes, starts every launch with every MPI, repeats sizes that deviate from the
//! curve (dips), and analyses the curves.

use crate::curve::{self, EagerLimit, MessageCurve, MessageCurvePoint};
use crate::figures::eager;
use crate::figures::lower_bound;
use crate::figures::result::{self, MessageFigure};
use crate::job::launch::{Launch, RankLocations};
use crate::job::protocol::SizeRun;
use crate::nodes;
use crate::osu::reference;
use crate::pattern::Pattern;
use crate::plan::transport_choice::{self, TransportChoice};
use crate::plan::{MessagesPlan, RankPairs};
use crate::probe::build::{self, Probe};
use crate::probe::start::{IncompleteStart, MessageTransport, StartReport, Starter};
use crate::transport;
use crate::{GAUGE, MessagesError, TEST, TRANSPORT_TEST};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_measure::clock;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::schedule::{RemainingTime, RunLimits};
use nodegauge_measure::{
    Bytes, Failure, Fraction, Notice, NoticeId, Observer, Outcome, Unit, notice,
};
use nodegauge_placement::emit::OpenMpiOptions;
use nodegauge_toolchain::ProgramReach;
use nodegauge_toolchain::mpi::MpiParts;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

impl PlannedRun for MessagesPlan {
    fn expected_cost(&self) -> ExpectedCost {
        ExpectedCost {
            time: Some(self.options.size_time_limit * self.size_count() as u32),
            memory: Some(Bytes(self.buffer_bytes())),
        }
    }

    fn possible_figures(&self, _: &MeasuredNode) -> Vec<PossibleFigures> {
        let mut figures = Vec::new();
        for launch in &self.launches {
            for pattern in &launch.patterns {
                if !self.choice.mpis.is_empty() {
                    figures.push(self.pattern_figures(TEST, launch, *pattern));
                }
                if !self.fabrics.is_empty() && self.built_in_patterns().contains(pattern) {
                    figures.push(
                        self.pattern_figures(TRANSPORT_TEST, launch, *pattern)
                            .requiring_test_name(),
                    );
                }
            }
        }
        figures
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let ended = run(*self, site, observer).map_err(Failure::from);
        Outcome::finish_run(ended, observer)
    }
}

impl MessagesPlan {
    /// Returns the figures of a pattern of a launch.
    fn pattern_figures(
        &self,
        test: &'static str,
        launch: &Launch,
        pattern: Pattern,
    ) -> PossibleFigures {
        let units: &[Unit] = match (pattern.properties().counts_messages, pattern.unit()) {
            (true, _) => &[Unit::BytesPerSecond, Unit::MessagesPerSecond],
            (_, Unit::Seconds) => &[Unit::Seconds],
            _ => &[Unit::BytesPerSecond],
        };
        let figures = PossibleFigures::new(GAUGE, test, [pattern.name()], units);
        // OSU's programs measure all powers of two, beginning with the smallest size.
        if self.osu.is_empty() {
            figures.with_sizes(launch.valid_sizes(pattern, &self.options))
        } else {
            figures
        }
    }
}

fn run(
    mut plan: MessagesPlan,
    site: &MeasuredNode,
    observer: &mut dyn Observer,
) -> Result<Outcome, MessagesError> {
    let limits = plan
        .options
        .budget
        .map(|budget| RunLimits::from_budget(budget, plan.options.samples.map(|n| n as usize)));
    if let Some(limits) = &limits {
        plan.admit(limits)?;
    }
    let patterns = plan.built_in_patterns();
    let mut choice = plan.choice;
    let reach = match plan.rank_pairs {
        RankPairs::Hosts(_) => ProgramReach::OtherHosts,
        _ => ProgramReach::ThisHost,
    };
    let probes = probes(&mut choice, reach, !plan.osu.is_empty(), observer)?;
    let setup_time = limits.map_or(Duration::ZERO, |limits| limits.elapsed());
    let mut outcome = Outcome { notices: plan.notices, ..Outcome::default() };
    for (mpi, probe) in choice.mpis.iter().zip(&probes) {
        notice::add_new(&mut outcome.notices, probe.notices.clone());
        if mpi.launcher.refuses_root() {
            let launcher = mpi.launcher.command.program();
            let option = OpenMpiOptions::AS_ROOT;
            let text = format!(
                "{}: ranks run as root, so {launcher} was started with {option}",
                mpi.library
            );
            outcome.notices.push(Notice::new(NoticeId::Method, GAUGE, text));
        }
    }
    for (mpicc, why) in &choice.unusable_mpis {
        for pattern in &plan.options.patterns {
            outcome.measurements.push(result::unusable_measurement(*pattern, mpicc, why));
        }
    }
    let topology = &site.topology;
    let options = &plan.options;
    let mpis = choice.mpis.iter().zip(&probes);
    let mpis: Vec<Starter<'_>> = mpis
        .map(|(mpi, probe)| (MessageTransport::Mpi(mpi, probe), Pattern::ALL))
        .map(|(transport, own)| Starter { transport, patterns: own, topology, options, limits })
        .collect();
    if !plan.osu.is_empty() {
        let in_time = limits.filter(|_| !plan.is_round_count_given);
        for (number, (mpi, programs)) in mpis.iter().zip(&plan.osu).enumerate() {
            let time = in_time.map(|time| time.next_part_time(mpis.len() - number));
            match reference::run(mpi, programs, &plan.launches, plan.rounds, time, observer) {
                Ok(more) => outcome.extend(more),
                Err(error) if !has_figure(&outcome) => return Err(error),
                Err(error) => {
                    outcome.failure.get_or_insert(error.into());
                }
            }
            if outcome.is_interrupted() {
                break;
            }
        }
    } else if let RankPairs::Hosts(hosts) = &plan.rank_pairs {
        for mpi in &mpis {
            outcome.extend(run_on_hosts(mpi, hosts, limits, observer)?);
        }
    } else {
        let own = plan.fabrics.iter().map(|fabric| MessageTransport::BuiltIn(*fabric));
        let own = own.map(|transport| Starter { transport, patterns, topology, options, limits });
        let all: Vec<Starter<'_>> = mpis.iter().copied().chain(own).collect();
        outcome.extend(run_starts(&all, &plan.launches, limits, observer)?);
    }
    if let Some(limits) = limits.filter(|_| outcome.is_complete()) {
        outcome.set_run_time(&limits, setup_time);
    }
    Ok(outcome)
}

/// Builds the probe of each MPI for the hosts of `reach`. If a wrapper cannot compile and the user did not specify it,
/// the precompiled probe is used. If the user specified several wrappers, those that cannot compile the probe are left
/// out.
///
/// Fails if no MPI is left. With OSU's programs (`paired`), also fails if one wrapper cannot compile the probe, because
/// each folder of OSU programs belongs to a wrapper.
fn probes(
    choice: &mut TransportChoice,
    reach: ProgramReach,
    paired: bool,
    observer: &mut dyn Observer,
) -> Result<Vec<Probe>, MessagesError> {
    let folder = nodegauge_toolchain::cache_folder(nodegauge_os::environment_variable);
    let several = choice.mpis.len() + choice.unusable_mpis.len() > 1;
    let mut probes = Vec::new();
    let mut mpis = Vec::new();
    let mut first_error = None;
    for mut mpi in std::mem::take(&mut choice.mpis) {
        observer.begin_phase(&format!("{}: preparing the probe", mpi.library));
        let folder = folder.as_deref();
        let mut built = build::build(&mpi, folder, reach, &|| observer.is_interrupted());
        if let Err(error) = &built
            && !choice.is_mpi_specified
            && !observer.is_interrupted()
        {
            let why = transport_choice::compile_failure(&mpi, error);
            let launcher = Some(&mpi.launcher.command);
            if let Some(other) = transport_choice::mpi_without_compiler(launcher, &why) {
                mpi = other;
                built = build::build(&mpi, folder, reach, &|| observer.is_interrupted());
            }
        }
        match built {
            Ok(probe) => {
                probes.push(probe);
                mpis.push(mpi);
            }
            Err(error) if several && !paired && !observer.is_interrupted() => {
                let why = Failure::from(&error).reason();
                let MpiParts::Wrapper { compiler, .. } = mpi.parts else { return Err(error) };
                choice.unusable_mpis.push((compiler.command, why));
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

/// Runs the launches on those hosts that respond.
fn run_on_hosts(
    mpi: &Starter<'_>,
    hosts: &[String],
    limits: Option<RunLimits>,
    observer: &mut dyn Observer,
) -> Result<Outcome, MessagesError> {
    observer.begin_phase(&format!("checking {} hosts", hosts.len()));
    let (answering, silent) = nodes::check_hosts(mpi, hosts, &|| observer.is_interrupted());
    if answering.len() < 2 {
        let names: Vec<&str> = silent.iter().map(|(host, _)| host.as_str()).collect();
        let first = silent.first().map(|(host, why)| format!(" ({host}: {why})"));
        return Err(Failure::missing(format!(
            "{} of {} hosts can be used; not usable: {}{}",
            answering.len(),
            hosts.len(),
            names.join(", "),
            first.unwrap_or_default(),
        ))
        .hint(format!(
            "at least two hosts are required; check that {} can start programs on them",
            mpi.transport.launcher(),
        ))
        .into());
    }
    let launches = nodes::launches(&answering, mpi.options);
    let mut outcome = run_starts(std::slice::from_ref(mpi), &launches, limits, observer)?;
    for (host, why) in silent {
        let text = format!("{host} cannot be used and is left out: {why}");
        outcome.notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
        outcome.measurements.push(nodes::unresponsive_host(mpi, &host, &why));
    }
    Ok(outcome)
}

/// Runs the launches. The transports run interleaved, so that the state of the machine is the same for all of them.
fn run_starts(
    starters: &[Starter<'_>],
    launches: &[Launch],
    limits: Option<RunLimits>,
    observer: &mut dyn Observer,
) -> Result<Outcome, MessagesError> {
    let mut outcome = Outcome::default();
    let mut first_error = None;
    for (number, launch) in launches.iter().enumerate() {
        let words = format!("{}, {} of {}", in_words(launch), number + 1, launches.len());
        // The share of the budget for a launch is proportional to its number of sizes.
        let up_to_this =
            Fraction(count_sizes(&launches[..=number], starters) / count_sizes(launches, starters));
        let deadline = limits.map(|limits| limits.time_at_share(up_to_this));
        let (reports, errors) = run_interleaved(starters, launch, &words, deadline, observer);
        outcome.notices.extend(left_out_starts(&reports, launch, deadline));
        if !observer.is_interrupted() {
            let mut unstarted: Vec<&Starter<'_>> = starters
                .iter()
                .filter(|one| launch.with_only_patterns(one.patterns).is_some())
                .collect();
            unstarted.retain(|one| !reports.iter().any(|(known, _)| std::ptr::eq(*known, *one)));
            unstarted.retain(|one| !errors.iter().any(|(known, ..)| std::ptr::eq(*known, *one)));
            for starter in unstarted {
                let name = starter.transport.name();
                let text = format!("{}: no time left for {name}", in_words(launch));
                outcome.notices.push(Notice::new(NoticeId::Budget, GAUGE, text));
            }
        }
        for (starter, tried, error) in errors {
            if matches!(error, MessagesError::Interrupted) {
                outcome.extend(Outcome::interrupted());
                continue;
            }
            outcome.measurements.extend(failed(starter, &tried, &error));
            first_error.get_or_insert(error);
        }
        let bound = reports.iter().find(|(starter, _)| starter.is_built_in());
        let bound = bound.map(|(own, report)| (result::figures(own, report), report.clone()));
        for (starter, report) in reports {
            let bound = bound.as_ref().filter(|_| !starter.is_built_in());
            outcome.extend(finish(starter, report, bound, deadline, observer)?);
        }
        if outcome.is_interrupted() || observer.is_interrupted() {
            outcome.stop = Some(StopReason::Interrupted);
            break;
        }
        let left = &launches[number + 1..];
        if starters.iter().any(Starter::is_late) && has_figure(&outcome) && !left.is_empty() {
            let unmeasured: Vec<String> = left.iter().map(in_words).collect();
            outcome.notices.push(Notice::no_time_left(GAUGE, &unmeasured.join(", ")));
            break;
        }
    }
    match first_error {
        Some(error) if !has_figure(&outcome) && !outcome.is_interrupted() => Err(error),
        _ => Ok(outcome),
    }
}

/// Returns the number of sizes of the launches, summed over all transports.
fn count_sizes(launches: &[Launch], starters: &[Starter<'_>]) -> f64 {
    let mut sizes = 0;
    for launch in launches {
        for starter in starters {
            sizes += launch.size_count(starter.options);
        }
    }
    sizes as f64
}

/// True if a figure has samples.
fn has_figure(outcome: &Outcome) -> bool {
    outcome.measurements.iter().any(|m| m.summary.is_some())
}

/// Reports of all transports for one launch, and the transports without a result with their errors.
type Turns<'a, 'b> =
    (Vec<(&'a Starter<'b>, StartReport)>, Vec<(&'a Starter<'b>, Launch, MessagesError)>);

/// Returns a notice if the budget allowed fewer starts of a launch than planned.
fn left_out_starts(
    reports: &[(&Starter<'_>, StartReport)],
    launch: &Launch,
    deadline: Option<Instant>,
) -> Option<Notice> {
    deadline?;
    let (starter, report) = reports.iter().find(|(starter, report)| {
        report.incomplete_start.is_none() && report.starts < starter.start_count(launch)
    })?;
    let text = format!(
        "{}: started only {} of {} times, because another start would exceed --budget",
        in_words(launch),
        report.starts,
        starter.start_count(launch)
    );
    Some(Notice::new(NoticeId::Budget, GAUGE, text))
}

/// Runs the starts of one launch in rounds. Each round starts every transport once. A round that would end after
/// `deadline` is left out, except for the first round.
fn run_interleaved<'a, 'b>(
    starters: &'a [Starter<'b>],
    launch: &Launch,
    words: &str,
    deadline: Option<Instant>,
    observer: &mut dyn Observer,
) -> Turns<'a, 'b> {
    let (mut reports, mut errors): Turns<'a, 'b> = (Vec::new(), Vec::new());
    let max = starters.iter().map(|starter| starter.start_count(launch)).max().unwrap_or(1);
    for round in 0..max {
        let round_start = clock::now();
        for starter in starters {
            let Some(launch) = launch.with_only_patterns(starter.patterns) else { continue };
            let has_report = !reports.is_empty();
            let known = reports.iter_mut().find(|(known, _)| std::ptr::eq(*known, starter));
            let known = known.map(|(_, report)| report);
            let over = known.as_ref().is_some_and(|report| report.incomplete_start.is_some())
                || errors.iter().any(|(failing, ..)| std::ptr::eq(*failing, starter));
            let late = has_report && starter.is_late();
            if over || late || round >= starter.start_count(&launch) || observer.is_interrupted() {
                continue;
            }
            observer.begin_phase(&format!("{} {words}", starter.transport.name()));
            let options = starter.start_options(&launch);
            let start = Starter { options: &options, ..*starter };
            match (start.run(&launch, observer), known) {
                (Ok(more), Some(report)) => report.add(more),
                (Ok(first), None) => reports.push((starter, first)),
                (Err(MessagesError::Interrupted), Some(report)) => {
                    report.incomplete_start = Some(IncompleteStart::Interrupted);
                }
                (Err(error), Some(report)) => {
                    report.incomplete_start =
                        Some(IncompleteStart::Died(Failure::from(error).reason()));
                }
                (Err(error), None) => errors.push((starter, launch, error)),
            }
        }
        let now = clock::now();
        let round_time = now.saturating_duration_since(round_start);
        let fits = deadline
            .is_none_or(|end| RemainingTime::until(end, 1).allows(Duration::ZERO, round_time));
        if !fits {
            break;
        }
    }
    (reports, errors)
}

fn in_words(launch: &Launch) -> String {
    match (launch.distance, &launch.ranks) {
        (Some(distance), _) => distance.name().to_owned(),
        (None, RankLocations::ThisNode(cpus)) => format!("{} ranks", cpus.len()),
        (None, RankLocations::Hosts(hosts)) => format!("{} nodes", hosts.len()),
    }
}

/// Completes a launch: repeats dips, analyses curves, and compares them with the lower bound.
fn finish(
    starter: &Starter<'_>,
    mut report: StartReport,
    bound: Option<&(Vec<MessageFigure>, StartReport)>,
    deadline: Option<Instant>,
    observer: &mut dyn Observer,
) -> Result<Outcome, MessagesError> {
    let config = result::mpi_config(starter.transport, Some(&report));
    let limit = config.and_then(|config| eager::eager_limit(&config, &report.output.variables));
    let is_late = deadline.is_some_and(|deadline| clock::now() >= deadline);
    if report.incomplete_start.is_none() && report.launch.steps.is_empty() && !is_late {
        remeasure_dips(starter, &mut report, limit.as_ref(), observer)?;
    }
    let mut figures = result::figures(starter, &report);
    judge_curves(&mut figures, limit.as_ref());
    let mut notices = notices(starter, &report);
    if let Some((bounds, bound)) = bound {
        let shares = lower_bound::compare_figures(&figures, &report, bounds, bound);
        let name = starter.transport.name();
        let (remarks, doubts) =
            lower_bound::remarks(&name, &report, bound, &shares, limit.as_ref());
        notices.extend(remarks);
        for figure in &mut figures {
            let Some(at) = figure.pattern_and_size() else { continue };
            figure.config.floor = shares.get(&at).map(|share| share.config);
            if let Some(why) = doubts.get(&at) {
                figure.measurement.validity.mark_suspect(why);
            }
        }
    }
    let mut outcome = Outcome {
        measurements: figures.into_iter().map(Measurement::from).collect(),
        notices,
        details: details(&report),
        stop: (report.incomplete_start == Some(IncompleteStart::Interrupted))
            .then_some(StopReason::Interrupted),
        ..Outcome::default()
    };
    for missing in result::refused_measurements(starter, &report) {
        if starter.options.has_named_patterns {
            outcome.measurements.push(missing);
        } else {
            // A pattern that the user did not request by name is left out with a notice.
            let reasons = missing.validity.reasons.join("; ");
            let text = format!("{} left out: {reasons}", missing.name);
            outcome.notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
        }
    }
    Ok(outcome)
}

/// Repeats sizes that take far longer than their neighbours. The new samples replace the old samples.
fn remeasure_dips(
    starter: &Starter<'_>,
    report: &mut StartReport,
    limit: Option<&EagerLimit>,
    observer: &mut dyn Observer,
) -> Result<(), MessagesError> {
    let launch = &report.launch;
    let sizes = &mut report.output.sizes;
    let mut dips: Vec<(Pattern, u64)> = Vec::new();
    for pattern in &launch.patterns {
        let own = sizes.iter().filter(|run| run.pattern == *pattern);
        let points = own.map(|run| (run.bytes, run.median()));
        let points: Vec<MessageCurvePoint> =
            points.filter(|(_, median)| median.is_finite()).collect();
        let limit = limit.filter(|_| !pattern.is_collective()).map(|limit| limit.bytes);
        dips.extend(curve::dips(&points, limit).into_iter().map(|bytes| (*pattern, bytes)));
    }
    if dips.is_empty() || observer.is_interrupted() {
        return Ok(());
    }
    observer.begin_phase(&format!(
        "{}: repeating {} that deviated from the curve",
        starter.transport.name(),
        count_in_words(dips.len(), "size")
    ));
    let patterns: BTreeSet<Pattern> = dips.iter().map(|(pattern, _)| *pattern).collect();
    let dipping: BTreeSet<u64> = dips.iter().map(|(_, bytes)| *bytes).collect();
    let second = Launch {
        patterns: patterns.into_iter().collect(),
        sizes: Some(dipping.into_iter().collect()),
        ..launch.clone()
    };
    let second = match starter.run(&second, observer) {
        Ok(second) => second.output.sizes,
        Err(MessagesError::Toolchain(error)) => return Err(error.into()),
        // If the repetition fails, the first measurement is kept.
        Err(_) => Vec::new(),
    };
    for run in second.into_iter().filter(|run| run.end_reason.is_some()) {
        let what = (run.pattern, run.bytes);
        let known = sizes.iter_mut().find(|known| (known.pattern, known.bytes) == what);
        if let Some(known) = known.filter(|_| dips.contains(&what)) {
            *known = SizeRun { dip: Some(known.median()), ..run };
        }
    }
    Ok(())
}

/// Stores the properties of a curve in the figure of its first size. The eager `limit` applies only to point-to-point
/// messages, because the sizes of the messages that a collective sends internally are unknown.
fn judge_curves(figures: &mut [MessageFigure], limit: Option<&EagerLimit>) {
    // The figures of the same pattern and pair are consecutive.
    for curve in figures.chunk_by_mut(|a, b| {
        a.measurement.name == b.measurement.name && a.config.ranks == b.config.ranks
    }) {
        let points: Vec<MessageCurvePoint> = curve.iter().filter_map(curve_point).collect();
        if points.len() > 1 {
            let pattern = curve[0].measurement.name.parse();
            let limit = limit.filter(|_| !pattern.is_ok_and(Pattern::is_collective));
            curve[0].config.curve = Some(MessageCurve::from_points(&points, limit));
        }
    }
}

/// Returns the point of a figure on its curve.
fn curve_point(figure: &MessageFigure) -> Option<MessageCurvePoint> {
    let bytes = figure.config.message_bytes?;
    let median = figure.measurement.summary.as_ref()?.median;
    // For rates, the curve uses the time per message.
    let is_time = figure.measurement.unit == Unit::Seconds;
    figure.is_curve().then_some((bytes, if is_time { median } else { bytes as f64 / median }))
}

/// Returns a notice about a transport, which begins with the name of the transport.
fn notice_on(starter: &Starter<'_>, id: NoticeId, text: &str) -> Notice {
    Notice::new(id, GAUGE, format!("{}: {text}", starter.transport.name()))
}

/// Returns a text with the sizes that were measured again; `None` if there are none.
fn remeasured(report: &StartReport) -> Option<String> {
    let dips: Vec<&SizeRun> = report.output.sizes.iter().filter(|run| run.dip.is_some()).collect();
    let mut patterns = Vec::new();
    for runs in dips.chunk_by(|one, next| one.pattern == next.pattern) {
        let sizes: Vec<String> = runs.iter().map(|run| Bytes(run.bytes).to_string()).collect();
        patterns.push(format!("{} of {}", runs[0].pattern, sizes.join(", ")));
    }
    let patterns = patterns.join("; ");
    (!patterns.is_empty())
        .then(|| format!("sizes that deviated from the curve were measured again: {patterns}"))
}

/// Returns the notices about the starts of a transport.
fn notices(starter: &Starter<'_>, report: &StartReport) -> Vec<Notice> {
    let mut notices = Vec::new();
    if let Some(text) = remeasured(report) {
        notices.push(notice_on(starter, NoticeId::Trend, &text));
    }
    let place = match report.output.unfinished_size() {
        Some(size) => format!("during {} of {}", size.pattern, Bytes(size.bytes)),
        None => "between two sizes".to_owned(),
    };
    let kept = "earlier measurements are kept";
    let failed = match &report.incomplete_start {
        Some(IncompleteStart::Hung(limit)) => Some(format!(
            "no output for {} s {place}: {} and its ranks were killed; {kept}",
            limit.as_secs_f64(),
            starter.transport.launcher(),
        )),
        Some(IncompleteStart::Died(how)) => {
            Some(format!("a rank or the launcher ended {place}: {how}; {kept}"))
        }
        _ => None,
    };
    if report.incomplete_start == Some(IncompleteStart::Late) {
        let text = format!("stopped {place}, because no time is left; {kept}");
        notices.push(notice_on(starter, NoticeId::Budget, &text));
    }
    let silent = nodes::unmeasured_pairs(report)
        .map(|hosts| format!("no result from the pairs {}", hosts.join(", ")));
    let unreadable = report.output.read_error.map(|errno| {
        let why = nodegauge_os::SysError { call: "process_vm_readv", errno };
        let text = format!(
            "{why}; large messages are therefore copied twice, through a ring buffer in shared memory{}",
            transport::memory_read_restriction()
        );
        notice_on(starter, NoticeId::Method, &text)
    });
    notices.extend(unreadable);
    for text in failed.into_iter().chain(silent) {
        notices.push(notice_on(starter, NoticeId::Failed, &text));
    }
    notices
}

/// Returns a text with the launcher's command, and a text for each rank with its host and its CPUs, as the kernel
/// reported them.
fn details(report: &StartReport) -> Vec<String> {
    let mut lines = vec![format!("started by: {}", report.command)];
    for (rank, found) in report.output.ranks.iter().enumerate() {
        let cpus = found.cpus.as_deref().unwrap_or("unknown");
        lines.push(format!("rank {rank} on {} may run on cpus {cpus}", found.host));
    }
    lines
}

/// Returns the record's measurements for a launch without results.
fn failed(starter: &Starter<'_>, launch: &Launch, error: &MessagesError) -> Vec<Measurement> {
    let reason = Failure::from(error).reason();
    let config = result::unstarted_config(starter, launch.distance);
    launch
        .patterns
        .iter()
        .map(|pattern| result::missing_measurement(starter, *pattern, &config, &reason))
        .collect()
}
