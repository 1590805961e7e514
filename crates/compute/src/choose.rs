//! Choice of the BLAS library for matrix products. Candidates are all installed libraries, with every kernel set that
//! supports this processor, and the built-in kernels. They are measured interleaved, on the threads of the run. Each
//! library runs in a separate process, because a library selects its kernels when it is loaded, and because it may
//! crash.
//!
//! If the trial cannot distinguish several candidates, the fastest of them is chosen. Libraries are tried in the order
//! in which they were found; the default kernels of a library precede the kernels that an environment variable selects.

use crate::GAUGE;
use crate::config::{DgemmConfig, ThreadsConfig};
use nodegauge_analysis::conclusion::Obstacle;
use nodegauge_lu::{Multiplier, dgemm};
use nodegauge_machine::{CpuId, SysRoot};
use nodegauge_measure::schedule::RunLimits;
use nodegauge_measure::schedule::halving::{
    self, CandidateTurns, DeadlineCheck, EliminationRule, Halving, PassesPerRound, SearchRules,
    TurnRate,
};
use nodegauge_measure::{Failure, FlopsPerSec, Fraction, Notice, NoticeId, clock, notice, stats};
use nodegauge_team::Team;
use nodegauge_toolchain::blas::{self, BlasProber, BlasRequest, ProbedBlas};
use nodegauge_toolchain::{CommandLine, ToolchainError};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// BLAS library or built-in kernels, with the rate in a trial.
#[derive(Debug, Clone)]
pub(crate) struct TrialResult {
    /// Description, e.g. `OpenBLAS 0.3.21 (Haswell kernels)`.
    pub name: String,
    /// Median rate of short DGEMMs on the threads of the run.
    pub rate: FlopsPerSec,
    /// Library with the selected kernels; `None` for the built-in kernels.
    pub probed: Option<ProbedBlas>,
    /// Comparison of the library's default kernels with the chosen kernels.
    pub default: DefaultKernelsVerdict,
}

/// Comparison of the default kernels of a library with the chosen kernels of the same library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum DefaultKernelsVerdict {
    /// The default kernels were not in the trial.
    #[default]
    Untried,
    /// The trial cannot distinguish the default kernels from the chosen kernels.
    Alike,
    /// The default kernels are significantly slower.
    Slower,
}

impl DefaultKernelsVerdict {
    /// Compares the default kernels of the first library with its chosen kernels. The first `alike`
    /// candidates cannot be distinguished from each other.
    fn from_trials(all: &[TrialResult], alike: usize) -> Self {
        let path = all.first().and_then(TrialResult::path);
        let default = all.iter().position(|tried| {
            let own = tried.probed.as_ref().is_some_and(|probed| probed.environment.is_none());
            own && tried.path() == path
        });
        match default {
            None => Self::Untried,
            Some(at) if at < alike => Self::Alike,
            Some(_) => Self::Slower,
        }
    }
}

/// Returns the text on kernels that a variable selects. It recommends the variable only if the default kernels are
/// significantly slower. `disturbance` is the reason why the trial is doubtful.
pub(crate) fn advice(
    name: &str,
    setting: &str,
    default: DefaultKernelsVerdict,
    disturbance: Option<&str>,
) -> String {
    let why_unknown = match (default, disturbance) {
        (DefaultKernelsVerdict::Untried, _) => return format!("{name}: runs with {setting}"),
        (_, Some(why)) => why,
        (DefaultKernelsVerdict::Alike, None) => {
            "the trial cannot distinguish the chosen kernels from the default \
             kernels"
        }
        (DefaultKernelsVerdict::Slower, None) => {
            return format!(
                "{name}: chosen with {setting}, because the default kernels of the library are \
                 slower on this node; set this variable for your own programs too"
            );
        }
    };
    let question = "whether the default kernels of the library are slower on this node";
    let text = Obstacle::new(why_unknown).cannot_tell(question);
    format!("{name}: chosen with {setting}; {text}")
}

impl TrialResult {
    fn library(probed: ProbedBlas) -> Self {
        let name = probed.info().to_string();
        let rate = probed.rate;
        Self { name, rate, probed: Some(probed), default: DefaultKernelsVerdict::default() }
    }

    /// Measures the built-in kernels.
    fn built_in(places: &TrialPlaces) -> Result<Self, Failure> {
        let rate = measure_built_in_rate(places)?;
        let name = Multiplier::BuiltIn.to_string();
        Ok(Self { name, rate, probed: None, default: DefaultKernelsVerdict::default() })
    }

    /// Returns the path of the library; `None` for the built-in kernels.
    fn path(&self) -> Option<&Path> {
        Some(&self.probed.as_ref()?.info().path)
    }

    /// Returns the environment variable that selects these kernels, for the notice.
    pub(crate) fn setting(&self) -> Option<String> {
        let (name, value) = self.probed.as_ref()?.environment.as_ref()?;
        Some(format!("{name}={value}"))
    }

    /// Loads the library into this process, after setting the environment variable that selects the kernels.
    pub(crate) fn load(&self) -> Result<Multiplier, ToolchainError> {
        match &self.probed {
            Some(probed) => Multiplier::load(probed),
            None => Ok(Multiplier::BuiltIn),
        }
    }
}

/// CPUs of the threads in a trial, e.g. `0,1;2,3` for two threads; an unbound thread has no CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialPlaces(pub Vec<Vec<CpuId>>);

impl Default for TrialPlaces {
    /// Returns the places of a single unbound thread.
    fn default() -> Self {
        Self(vec![Vec::new()])
    }
}

impl fmt::Display for TrialPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thread =
            |cpus: &Vec<CpuId>| cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        f.write_str(&self.0.iter().map(thread).collect::<Vec<_>>().join(";"))
    }
}

impl FromStr for TrialPlaces {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut places = Vec::new();
        for thread in text.split(';') {
            let words = thread.split(',').filter(|word| !word.is_empty());
            places.push(words.map(|word| word.parse().map(CpuId)).collect::<Result<_, _>>()?);
        }
        Ok(Self(places))
    }
}

/// Hidden command that measures one library in a separate process.
pub const TRY_BLAS_COMMAND: &str = "try-blas";
/// Duration of one measurement in a trial: one or two products of the size of the later DGEMM measurement.
const TURN: Duration = Duration::from_millis(30);
/// Rules of the comparison of candidates. Every candidate has been measured once when the search begins. Every
/// candidate is measured at least five times, even if the time is over, because fewer measurements cannot distinguish
/// candidates, and at most twenty times. The fastest of the remaining candidates is used.
const RULES: SearchRules = SearchRules {
    seed: 0x626C_6173,
    passes: PassesPerRound::One,
    elimination: EliminationRule::SignificantlySlower,
    min_rounds: 0,
    max_rounds: Some(19),
    whole_rounds: 4,
    check: DeadlineCheck::Round,
};

/// Measures the best rate of short products on these threads, FLOP/s.
fn multiplies(multiplier: &Multiplier, places: &TrialPlaces) -> Result<f64, Failure> {
    let mut team = Team::start(&places.0)?;
    Ok(dgemm::best_rate(&dgemm::measure(&mut team, multiplier, TURN)?).0)
}

/// Measures the rate of a short product with the built-in kernels on these threads.
///
/// # Errors
/// Fails if a thread fails.
pub(crate) fn measure_built_in_rate(places: &TrialPlaces) -> Result<FlopsPerSec, Failure> {
    Ok(FlopsPerSec(multiplies(&Multiplier::BuiltIn, places)?))
}

impl DgemmConfig {
    /// Returns the configuration of a tried library and its threads.
    pub(crate) fn from_trial(tried: &TrialResult, on: ThreadsConfig) -> Self {
        let about = tried.probed.as_ref().map(|probed| probed.info());
        Self {
            on,
            blas: Some(tried.name.clone()),
            blas_path: about.map(|about| about.path.display().to_string()),
            blas_integer_bits: about.map(|about| about.integer_bits),
            blas_setting: tried.setting(),
        }
    }
}

/// Returns the text that a child process prints: the result of a trial of the library ([`blas::probe::probe_output`]),
/// or the names of its kernels if `list_kernels` is true ([`blas::probe::list_kernels`]).
pub fn child_output(library: &Path, list_kernels: bool, places: &TrialPlaces) -> String {
    if list_kernels {
        return blas::probe::list_kernels(library);
    }
    blas::probe::probe_output(library, |library| multiplies(&Multiplier::Library(library), places))
}

/// Checks that the libraries in `requests` exist.
///
/// Fails if a library is missing.
pub(crate) fn check_libraries(requests: &[BlasRequest]) -> Result<(), ToolchainError> {
    let candidates = blas::find::find_candidates(|name| std::env::var_os(name));
    let mut named = requests.iter().filter(|request| !request.is_builtin());
    named.try_for_each(|request| blas::find::resolve(request, &candidates).map(|_| ()))
}

/// Threads and time limits of a trial.
pub(crate) struct Trial<'a> {
    pub root: &'a SysRoot,
    pub places: TrialPlaces,
    /// Time for the measurements after the first five of every candidate.
    pub time: Duration,
    /// End of the comparison in a run with a budget of the user: candidates that were tried until then are compared.
    /// `None` for a default budget.
    pub end: Option<Instant>,
    pub interrupted: &'a dyn Fn() -> bool,
}

impl Trial<'_> {
    /// True if the comparison must end within the budget of the user.
    fn is_over(&self) -> bool {
        self.end.is_some_and(|end| clock::now() > end)
    }
}

/// Returns the end of a comparison in a run with these limits. Half of the budget is reserved for the measurement.
/// `None` if the user did not set the budget.
pub(crate) fn trial_end(limits: &RunLimits) -> Option<Instant> {
    limits.must_be_kept().then(|| limits.time_at_share(Fraction(0.5)))
}

/// Chooses the fastest kernels of every library in `requests`; without requests, chooses the fastest of all candidates.
/// Notices list the candidates, the unusable libraries, and the environment variables that take effect. Returns `None`
/// if the user interrupted the trial.
///
/// # Errors
/// Fails if a requested library cannot be used.
pub(crate) fn choose_fastest_kernels(
    requests: &[BlasRequest],
    trial: &Trial<'_>,
    notices: &mut Vec<Notice>,
) -> Result<Option<Vec<TrialResult>>, Failure> {
    let program = nodegauge_os::own_program().map_err(|cause| {
        Failure::missing(format!("cannot determine the path of this executable: {cause}"))
    })?;
    let on = format!("--on={}", trial.places);
    let command = CommandLine::new(program, [TRY_BLAS_COMMAND.to_owned(), on]);
    let prober = BlasProber { command };
    let groups = groups(requests, &prober, trial, notices);
    if (trial.interrupted)() {
        return Ok(None);
    }
    let groups = groups?;
    let share = trial.time.div_f64(groups.len().max(1) as f64);
    let mut chosen = Vec::new();
    for group in groups {
        add_variable_notices(&group, notices);
        let first: Vec<f64> = group.iter().map(|tried| tried.rate.0).collect();
        let ranked =
            rank_by_turns(
                &first,
                Instant::now() + share,
                &|| trial.is_over(),
                |number| match &group[number].probed {
                    Some(probed) => {
                        prober.measure_rate(probed, trial.interrupted).map_err(Failure::from)
                    }
                    None => multiplies(&Multiplier::BuiltIn, &trial.places),
                },
            );
        if (trial.interrupted)() {
            return Ok(None);
        }
        let ranked = ranked?;
        let mut all = Vec::with_capacity(ranked.order.len());
        for (number, rate) in &ranked.order {
            all.push(TrialResult { rate: FlopsPerSec(*rate), ..group[*number].clone() });
        }
        notices.extend(trial_notice(&all, ranked.alike, trial.places.0.len()));
        let default = DefaultKernelsVerdict::from_trials(&all, ranked.alike);
        chosen.extend(all.into_iter().next().map(|fastest| TrialResult { default, ..fastest }));
    }
    Ok(Some(chosen))
}

/// Returns groups of candidates: one group per request; without requests, one group with all candidates.
fn groups(
    requests: &[BlasRequest],
    prober: &BlasProber,
    trial: &Trial<'_>,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Vec<TrialResult>>, Failure> {
    let candidates = blas::find::find_candidates(|name| std::env::var_os(name));
    let isa = instruction_sets(trial.root);
    if !requests.is_empty() {
        let mut groups = Vec::with_capacity(requests.len());
        for request in requests {
            if request.is_builtin() {
                groups.push(vec![TrialResult::built_in(&trial.places)?]);
                continue;
            }
            let candidate = blas::find::resolve(request, &candidates)?;
            let probed = match &request.kernel {
                Some(kernel) => {
                    vec![prober.probe_kernel(&candidate, kernel, &isa, trial.interrupted)?]
                }
                None => {
                    prober.probe_all(&candidate, &isa, &|| trial.is_over(), trial.interrupted)?
                }
            };
            groups.push(probed.into_iter().map(TrialResult::library).collect());
        }
        return Ok(groups);
    }
    let mut all: Vec<TrialResult> = Vec::new();
    for candidate in &candidates {
        if !all.is_empty() && trial.is_over() {
            let text = format!("{}: not tried, no time left", candidate.path.display());
            notices.push(Notice::new(NoticeId::Budget, GAUGE, text));
            continue;
        }
        match prober.probe_all(candidate, &isa, &|| trial.is_over(), trial.interrupted) {
            Ok(probed) => all.extend(probed.into_iter().map(TrialResult::library)),
            Err(ToolchainError::Unusable(why)) => {
                let why = why.problem();
                let first = why.lines().next().unwrap_or_default();
                let text = format!("{} is not used: {first}", candidate.path.display());
                notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
            }
            Err(error) => return Err(error.into()),
        }
    }
    all.push(TrialResult::built_in(&trial.places)?);
    Ok(vec![all])
}

/// Adds a notice for each environment variable that selects kernels.
fn add_variable_notices(group: &[TrialResult], notices: &mut Vec<Notice>) {
    for probed in group.iter().filter_map(|tried| tried.probed.as_ref()) {
        let vendor = probed.info().vendor;
        if let (None, Some(name)) = (&probed.environment, vendor.kernel_variable())
            && let Ok(value) = std::env::var(name)
        {
            let text = format!("{name}={value} selects the kernels of {vendor}");
            notice::add_new(notices, [Notice::new(NoticeId::Environment, GAUGE, text)]);
        }
    }
}

/// Returns the notice with the result of a trial of several candidates.
fn trial_notice(all: &[TrialResult], alike: usize, threads: usize) -> Option<Notice> {
    let rates = all.iter().map(|tried| format!("{} {}", tried.name, tried.rate));
    let list = rates.collect::<Vec<_>>().join("; ");
    let undecided = match alike {
        0 | 1 => String::new(),
        _ => {
            let names: Vec<&str> = all[..alike].iter().map(|tried| tried.name.as_str()).collect();
            format!("; not distinguishable: {}", names.join(", "))
        }
    };
    let on = nodegauge_measure::quantity::count_in_words(threads, "thread");
    let text =
        format!("candidates interleaved on the run's {on}, fastest first: {list}{undecided}");
    (all.len() > 1).then(|| Notice::new(NoticeId::Chosen, GAUGE, text))
}

/// Result of a search among libraries.
#[derive(Debug, PartialEq)]
struct Ranked {
    /// Indices of the candidates, fastest first, with the representative rate of each: the upper decile of its
    /// measurements. Candidates that cannot be distinguished from the fastest one come first.
    order: Vec<(usize, f64)>,
    /// Number of candidates that cannot be distinguished from the fastest one, including the fastest one.
    alike: usize,
}

/// Candidates that are measured interleaved, identified by their index.
struct LibraryTurns<'a, F> {
    /// Function that measures the rate of one candidate.
    rate: F,
    /// True if the measurements must end within the budget of the user.
    is_over: &'a dyn Fn() -> bool,
    /// Measured rates of every candidate.
    rates: Vec<Vec<f64>>,
}

/// Core-to-core round trip of a measurement. It is not measured, because arithmetic does not depend on the physical
/// location of the virtual CPUs.
const REGIME: f64 = f64::NAN;

impl<E, F: FnMut(usize) -> Result<f64, E>> CandidateTurns for LibraryTurns<'_, F> {
    type Candidate = usize;
    type Error = E;

    fn turn(&mut self, picked: &mut [&mut usize]) -> Result<Vec<TurnRate>, E> {
        let mut turn = Vec::with_capacity(picked.len());
        for number in picked {
            let rate = (self.rate)(**number)?;
            self.rates[**number].push(rate);
            turn.push(TurnRate { rate, round_trip: REGIME });
        }
        Ok(turn)
    }

    /// Returns false: an interrupted measurement returns an error instead.
    fn must_end(&mut self) -> bool {
        (self.is_over)()
    }
}

/// Measures candidates interleaved until one candidate is the fastest, until the remaining candidates cannot be
/// distinguished, or until the deadline. `first` contains the rates of the first measurement of every candidate.
fn rank_by_turns<E>(
    first: &[f64],
    deadline: Instant,
    is_over: &dyn Fn() -> bool,
    rate: impl FnMut(usize) -> Result<f64, E>,
) -> Result<Ranked, E> {
    let rates = first.iter().map(|first_rate| vec![*first_rate]).collect();
    let mut turns = LibraryTurns { rate, is_over, rates };
    let mut halving = Halving::new(0..first.len());
    first
        .iter()
        .enumerate()
        .for_each(|(number, first_rate)| halving.add_rate(number, *first_rate, REGIME));
    let mut groups = [halving];
    halving::choose(&mut turns, &mut groups, &RULES, deadline)?;
    let [halved] = groups;
    let alike = halved.len();
    let front: Vec<usize> = (0..alike).map(|place| *halved.get(place)).collect();
    let mut order: Vec<(usize, f64)> = (0..first.len())
        .map(|number| (number, stats::quantile(&turns.rates[number], halving::SCORE_QUANTILE)))
        .collect();
    order.sort_by(|a, b| front.contains(&b.0).cmp(&front.contains(&a.0)).then(b.1.total_cmp(&a.1)));
    Ok(Ranked { order, alike })
}

/// Returns a function that returns true if the processor has the instruction set with a given name, as in
/// `/proc/cpuinfo`.
fn instruction_sets(root: &SysRoot) -> impl Fn(&str) -> bool {
    let text = root.text("proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let flags: Vec<String> =
        flags.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    move |name| flags.iter().any(|flag| flag == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_lu::random::Sequence;

    #[test]
    fn environment_variable_is_recommended_only_if_default_kernels_are_slower() {
        let of = |default, disturbance| {
            advice("OpenBLAS", "OPENBLAS_CORETYPE=Cooperlake", default, disturbance)
        };
        assert!(
            of(DefaultKernelsVerdict::Slower, None)
                .ends_with("set this variable for your own programs too")
        );
        let busy = of(DefaultKernelsVerdict::Slower, Some("30 % of the time of a thread was lost"));
        assert!(busy.contains("; cannot tell whether") && busy.ends_with("was lost"), "{busy}");
        let alike = of(DefaultKernelsVerdict::Alike, None);
        assert!(alike.contains("; cannot tell whether"), "{alike}");
        let asked = of(DefaultKernelsVerdict::Untried, None);
        assert_eq!(asked, "OpenBLAS: runs with OPENBLAS_CORETYPE=Cooperlake");
    }

    /// Runs 200 searches among candidates with these true rates. A measured rate is lower than the true rate by a share
    /// of up to `noise`. For each search, returns the chosen candidate and the number of candidates that cannot be
    /// distinguished from it.
    fn searches(rates: &[f64], noise: f64) -> Vec<(usize, usize)> {
        let mut numbers = vec![0.0; 200 * 20 * rates.len()];
        Sequence::new(7).fill(0, &mut numbers);
        let mut numbers = numbers.into_iter();
        let mut turn =
            |number: usize| rates[number] * (1.0 - noise * (numbers.next().unwrap() + 0.5));
        let hour = Instant::now() + Duration::from_secs(3600);
        (0..200)
            .map(|_| {
                let first: Vec<f64> = (0..rates.len()).map(&mut turn).collect();
                let ranked =
                    rank_by_turns(&first, hour, &|| false, |number| Ok::<_, ()>(turn(number)))
                        .unwrap();
                assert_eq!(ranked.order.len(), rates.len());
                (ranked.order[0].0, ranked.alike)
            })
            .collect()
    }

    #[test]
    fn fastest_kernels_are_chosen_despite_noise() {
        // Rates of kernels on a virtual machine with a Sapphire Rapids processor, in GFLOP/s on two threads, with a
        // noise of up to 10 %.
        let searches = searches(&[56.0, 93.0, 58.0, 104.0, 60.0, 81.0], 0.1);
        assert!(searches.iter().all(|(winner, _)| *winner == 3), "{searches:?}");
    }

    #[test]
    fn candidates_with_equal_rates_are_indistinguishable() {
        let searches = searches(&[60.0, 100.0, 100.0, 70.0], 0.1);
        let reported = searches.iter().filter(|(_, alike)| *alike == 2).count();
        assert!(searches.iter().all(|(winner, _)| [1, 2].contains(winner)));
        // In a few of the searches, the result is random.
        assert!(reported >= 170, "{reported} reported");
    }

    #[test]
    fn faster_of_two_candidates_is_chosen_in_99_of_100_disturbed_searches() {
        const SEARCHES: usize = 500;
        let mut uniform = vec![0.0; 4 * 20 * 2 * SEARCHES];
        let hour = Instant::now() + Duration::from_secs(3600);
        for (disturbed, seed) in [(0.0, 1), (0.2, 2), (0.4, 3), (0.6, 4)] {
            for gap in [0.1, 0.25, 0.5] {
                Sequence::new(seed).fill(0, &mut uniform);
                let mut numbers = uniform.iter().map(|number| number + 0.5);
                let mut next = || numbers.next().unwrap();
                // A turn is slower by up to 2 %. A turn that another program disturbs has 30 to 100 % of the rate.
                let mut turn = |number: usize| {
                    let rate = if number == 0 { 1.0 / (1.0 + gap) } else { 1.0 };
                    let undisturbed = rate * (1.0 - 0.02 * next());
                    let is_disturbed = next() < disturbed;
                    let left = 0.3 + 0.7 * next();
                    if is_disturbed { undisturbed * left } else { undisturbed }
                };
                let mut right = 0;
                for _ in 0..SEARCHES {
                    let first = [turn(0), turn(1)];
                    let ranked =
                        rank_by_turns(&first, hour, &|| false, |number| Ok::<_, ()>(turn(number)))
                            .unwrap();
                    right += usize::from(ranked.order[0].0 == 1);
                }
                assert!(right * 100 >= SEARCHES * 99, "{gap} {disturbed}: {right}");
            }
        }
    }

    #[test]
    fn trial_places_round_trip() {
        for text in ["0", "0,1;2,3", ";", ""] {
            assert_eq!(text.parse::<TrialPlaces>().unwrap().to_string(), text);
        }
        assert_eq!("".parse(), Ok(TrialPlaces::default()));
        assert_eq!(";".parse::<TrialPlaces>().unwrap().0.len(), 2);
    }
}
