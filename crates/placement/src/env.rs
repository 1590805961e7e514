//! Environment variables of OpenMP programs: `OMP_NUM_THREADS`, `OMP_THREAD_LIMIT`, `KMP_DEVICE_THREAD_LIMIT`,
//! `KMP_ALL_THREADS`, `OMP_PLACES`, `OMP_PROC_BIND`, `KMP_AFFINITY` and `GOMP_CPU_AFFINITY`, which are used if the
//! corresponding option is absent.
//!
//! Options have priority over variables. Among variables, the rule of LLVM's libomp applies: `KMP_AFFINITY` has
//! priority over `GOMP_CPU_AFFINITY`, `OMP_PLACES` and `OMP_PROC_BIND` if it contains a type, but not if it contains
//! only modifiers (`verbose`). `GOMP_CPU_AFFINITY` has priority over `OMP_PLACES` and `OMP_PROC_BIND`. GNU's libgomp
//! instead uses `OMP_PLACES` if it is set, combines `GOMP_CPU_AFFINITY` with the policy in `OMP_PROC_BIND`, and binds no
//! thread with `OMP_PROC_BIND=false`. `OMP_DYNAMIC` and `KMP_HW_SUBSET` have no effect. A notice reports every variable
//! that is set. An invalid value is an error only if it would be used.

use crate::Binding;
use crate::grammar;
use crate::plan::PlacementRequest;
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use std::str::FromStr;

mod affinity;

const NUM_THREADS: &str = "OMP_NUM_THREADS";
const PLACES: &str = "OMP_PLACES";
const PROC_BIND: &str = "OMP_PROC_BIND";
const KMP: &str = "KMP_AFFINITY";
const THREAD_LIMIT: &str = "OMP_THREAD_LIMIT";
const DEVICE_LIMIT: &str = "KMP_DEVICE_THREAD_LIMIT";
const ALL_THREADS: &str = "KMP_ALL_THREADS";
const DYNAMIC: &str = "OMP_DYNAMIC";
const HW_SUBSET: &str = "KMP_HW_SUBSET";

/// Values of the variables as text. A blank variable is treated as unset.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacementEnvironment {
    /// Value of `OMP_NUM_THREADS`.
    pub num_threads: Option<String>,
    /// Value of `OMP_PLACES`.
    pub places: Option<String>,
    /// Value of `OMP_PROC_BIND`.
    pub proc_bind: Option<String>,
    /// Value of `KMP_AFFINITY`.
    pub kmp_affinity: Option<String>,
    /// Value of `GOMP_CPU_AFFINITY`.
    pub gomp_affinity: Option<String>,
    /// Value of `OMP_THREAD_LIMIT`.
    pub thread_limit: Option<String>,
    /// Value of `KMP_DEVICE_THREAD_LIMIT`.
    pub device_limit: Option<String>,
    /// Value of `KMP_ALL_THREADS`, an older name of `KMP_DEVICE_THREAD_LIMIT`.
    pub all_threads: Option<String>,
    /// Value of `OMP_DYNAMIC`.
    pub dynamic: Option<String>,
    /// Value of `KMP_HW_SUBSET`.
    pub hw_subset: Option<String>,
}

impl PlacementEnvironment {
    /// Reads the variables of this process. Bytes that are not UTF-8 become characters that no value may contain, so
    /// that they are reported.
    pub fn current() -> Self {
        Self::read(|name| Some(std::env::var_os(name)?.to_string_lossy().into_owned()))
    }

    /// Reads the variables, e.g. with `|name| std::env::var(name).ok()`.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| lookup(name).filter(|text| !text.trim().is_empty());
        Self {
            num_threads: value(NUM_THREADS),
            places: value(PLACES),
            proc_bind: value(PROC_BIND),
            kmp_affinity: value(KMP),
            gomp_affinity: value(affinity::GOMP_VARIABLE),
            thread_limit: value(THREAD_LIMIT),
            device_limit: value(DEVICE_LIMIT),
            all_threads: value(ALL_THREADS),
            dynamic: value(DYNAMIC),
            hw_subset: value(HW_SUBSET),
        }
    }

    /// Returns only the variables for the number of threads.
    pub(crate) fn thread_count_variables(&self) -> Self {
        Self {
            num_threads: self.num_threads.clone(),
            thread_limit: self.thread_limit.clone(),
            device_limit: self.device_limit.clone(),
            all_threads: self.all_threads.clone(),
            dynamic: self.dynamic.clone(),
            ..Self::default()
        }
    }

    /// Returns the variables for places and binding that are set, with their values.
    pub(crate) fn place_variables(&self) -> Vec<(&'static str, &str)> {
        let all = [
            (PLACES, &self.places),
            (PROC_BIND, &self.proc_bind),
            (KMP, &self.kmp_affinity),
            (affinity::GOMP_VARIABLE, &self.gomp_affinity),
            (HW_SUBSET, &self.hw_subset),
        ];
        all.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?))).collect()
    }

    /// Fills the fields of `request` that no option has set. Returns a notice for each variable that is set:
    /// `OMP_PLACES=0:96:2 honoured`, or `... ignored:` with the reason.
    ///
    /// # Errors
    /// Fails when a variable that would be used has a syntax error; the error names the variable.
    pub fn apply(&self, request: &mut PlacementRequest) -> Result<Vec<String>, SyntaxError> {
        let mut notices = self.apply_counts(request)?;
        notices.extend(self.apply_places(request)?);
        Ok(notices)
    }

    /// Applies the variables for the number of threads.
    fn apply_counts(&self, request: &mut PlacementRequest) -> Result<Vec<String>, SyntaxError> {
        let mut notices = Vec::new();
        // --per-cache also sets the number of threads.
        let option = request.threads.map(|_| "--threads is given");
        let option = option.or(request.per_cache.map(|_| "--per-cache is given"));
        let mut limit: Option<ThreadLimit> = None;
        let mut limit_notices = Vec::new();
        for (name, text) in self.thread_limits() {
            let is_older_name = name == ALL_THREADS && self.device_limit.is_some();
            let replaced = is_older_name.then_some("KMP_DEVICE_THREAD_LIMIT is set");
            let why_not = option.or(replaced);
            if why_not.is_none()
                && let Some(threads) = thread_limit(text, name)?
                && limit.as_ref().is_none_or(|known| threads < known.threads)
            {
                limit = Some(ThreadLimit { name, threads });
            }
            limit_notices.push(notice(name, text, why_not));
        }
        if let Some(text) = &self.num_threads {
            let mut why_not = option.map(str::to_owned);
            if why_not.is_none() {
                let count = first_count(text, NUM_THREADS, "OMP_NUM_THREADS=8")?;
                let lower = limit.as_ref().filter(|of| of.threads < count);
                why_not = lower.map(|ThreadLimit { name, threads }| format!("{name} is {threads}"));
                request.threads = Some(lower.map_or(count, |of| of.threads));
            }
            notices.push(notice(NUM_THREADS, text, why_not.as_deref()));
        }
        request.max_threads = limit.map(|of| of.threads).or(request.max_threads);
        notices.append(&mut limit_notices);
        if let Some(text) = &self.dynamic {
            let word = text.trim().to_ascii_lowercase();
            let why_not = match word.as_str() {
                "false" | "0" | ".f." | "off" | "no" => None,
                "true" | "1" | ".t." | "on" | "yes" => {
                    Some("the number of threads does not change")
                }
                _ => Some("it is neither true nor false"),
            };
            notices.push(notice(DYNAMIC, text, why_not));
        }
        Ok(notices)
    }

    /// Returns the variables that limit the number of threads, with their values.
    fn thread_limits(&self) -> Vec<(&'static str, &str)> {
        let all = [
            (THREAD_LIMIT, &self.thread_limit),
            (DEVICE_LIMIT, &self.device_limit),
            (ALL_THREADS, &self.all_threads),
        ];
        all.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?))).collect()
    }

    /// Applies the variables for places and binding.
    fn apply_places(&self, request: &mut PlacementRequest) -> Result<Vec<String>, SyntaxError> {
        let mut notices = Vec::new();
        let by_cache = request.per_cache.map(|_| "--per-cache is given");
        let by_class = request.cores.as_ref().map(|_| "--cores is given");
        let by_places = request.places.as_ref().map(|_| "--places is given");
        let by_bind = request.bind.map(|_| "--bind is given");

        if let Some(text) = &self.kmp_affinity {
            let kmp = request.kmp.as_ref().map(|_| "an affinity is already set");
            let mut why_not = by_cache.or(by_class).or(by_places).or(by_bind).or(kmp);
            if why_not.is_none() {
                let affinity = parsed(text, KMP, KMP_EXAMPLE)?;
                request.kmp =
                    Some(affinity).filter(|given: &crate::KmpAffinity| given.kind.is_some());
                if request.kmp.is_none() {
                    why_not = Some("it contains no affinity type");
                }
            }
            notices.push(notice(KMP, text, why_not));
        }
        let by_kmp = request.kmp.as_ref().map(|_| "KMP_AFFINITY is set and has priority");

        let mut by_gomp = None;
        if let Some(text) = &self.gomp_affinity {
            let unbound = (request.bind == Some(Binding::None)).then_some("--bind none is given");
            let why_not = by_cache.or(by_class).or(by_kmp).or(by_places).or(unbound);
            if why_not.is_none() {
                request.places = Some(affinity::parse_places(text)?);
                // With an option for the policy, the CPUs are the places of this policy, as in libgomp.
                request.bind = request.bind.or(Some(Binding::Close));
                by_gomp = Some("GOMP_CPU_AFFINITY is set and has priority, as in libomp");
            }
            notices.push(notice(affinity::GOMP_VARIABLE, text, why_not));
        }
        if let Some(text) = &self.places {
            let why_not = by_places.or(by_cache).or(by_class).or(by_kmp).or(by_gomp);
            if why_not.is_none() {
                request.places = Some(parsed(text, PLACES, PLACES_EXAMPLE)?);
            }
            notices.push(notice(PLACES, text, why_not));
        }
        if let Some(text) = &self.proc_bind {
            let why_not = by_bind.or(by_cache).or(by_kmp).or(by_gomp);
            if why_not.is_none() {
                request.bind = Some(Binding::from_variable(PROC_BIND, PROC_BIND_EXAMPLE, text)?);
            }
            notices.push(notice(PROC_BIND, text, why_not));
        }
        if let Some(text) = &self.hw_subset {
            let why_not = "it is not supported; use --places, --cores or --threads";
            notices.push(notice(HW_SUBSET, text, Some(why_not)));
        }
        Ok(notices)
    }
}

/// Maximum number of threads that a variable sets.
struct ThreadLimit {
    name: &'static str,
    threads: u32,
}

/// Parses the limit of the number of threads in a variable; `None` for `all`, which means all hardware threads.
fn thread_limit(text: &str, variable: &'static str) -> Result<Option<u32>, SyntaxError> {
    if variable != THREAD_LIMIT && text.trim().eq_ignore_ascii_case("all") {
        return Ok(None);
    }
    let example = match variable {
        THREAD_LIMIT => "OMP_THREAD_LIMIT=8",
        DEVICE_LIMIT => "KMP_DEVICE_THREAD_LIMIT=8",
        _ => "KMP_ALL_THREADS=8",
    };
    let mut cursor = Cursor::new(variable, example, text);
    cursor.skip_blanks();
    let limit = positive(&mut cursor)?;
    cursor.skip_blanks();
    cursor.finish("expected a single number of threads")?;
    Ok(Some(limit))
}

/// Parses a number of threads.
fn positive(cursor: &mut Cursor<'_>) -> Result<u32, SyntaxError> {
    let at = cursor.position();
    match grammar::number(cursor, "expected a number of threads")? {
        0 => Err(cursor.error_at(at, "expected at least 1")),
        count => Ok(count),
    }
}

const KMP_EXAMPLE: &str = "KMP_AFFINITY=granularity=fine,compact";
const PLACES_EXAMPLE: &str = "OMP_PLACES=cores or OMP_PLACES='{0:4}:4:8'";
const PROC_BIND_EXAMPLE: &str = "OMP_PROC_BIND=spread";

/// Returns the notice about a variable that is set; `why_not` is the reason why it is ignored.
fn notice(name: &str, text: &str, why_not: Option<&str>) -> String {
    match why_not {
        None => format!("{name}={text} honoured"),
        Some(reason) => format!("{name}={text} ignored: {reason}"),
    }
}

/// Parses the value of a variable; an error names the variable instead of the option.
fn parsed<T: FromStr<Err = SyntaxError>>(
    text: &str,
    what: &'static str,
    example: &'static str,
) -> Result<T, SyntaxError> {
    text.parse().map_err(|error| SyntaxError { what, example, ..error })
}

/// Parses a list of numbers, one per level of nested parallelism, and returns the first.
fn first_count(
    text: &str,
    variable: &'static str,
    example: &'static str,
) -> Result<u32, SyntaxError> {
    let mut cursor = Cursor::new(variable, example, text);
    let counts = grammar::list(&mut cursor, None, "expected ',' or the end", positive)?;
    Ok(counts[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> PlacementEnvironment {
        PlacementEnvironment::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn variables_apply_without_options() {
        let mut request = PlacementRequest::default();
        let environment = environment(&[
            ("OMP_NUM_THREADS", "96,4"),
            ("OMP_PLACES", "0:96:2"),
            ("OMP_PROC_BIND", "spread"),
            ("KMP_AFFINITY", "  "),
        ]);
        let notices = environment.apply(&mut request).unwrap();
        assert_eq!(
            notices,
            [
                "OMP_NUM_THREADS=96,4 honoured",
                "OMP_PLACES=0:96:2 honoured",
                "OMP_PROC_BIND=spread honoured"
            ]
        );
        assert_eq!((request.threads, request.bind), (Some(96), Some(Binding::Spread)));
        assert_eq!(request.places.unwrap().to_string(), "0:96:2");
    }

    #[test]
    fn invalid_variable_is_ignored_if_option_is_given() {
        let mut request = PlacementRequest {
            threads: Some(2),
            places: Some("cores".parse().unwrap()),
            ..PlacementRequest::default()
        };
        let environment = environment(&[
            ("OMP_NUM_THREADS", "zero"),
            ("OMP_PLACES", "nonsense"),
            ("OMP_PROC_BIND", "close"),
            ("KMP_AFFINITY", "nonsense"),
        ]);
        assert_eq!(
            environment.apply(&mut request).unwrap(),
            [
                "OMP_NUM_THREADS=zero ignored: --threads is given",
                "KMP_AFFINITY=nonsense ignored: --places is given",
                "OMP_PLACES=nonsense ignored: --places is given",
                "OMP_PROC_BIND=close honoured",
            ]
        );
        assert_eq!((request.bind, request.kmp), (Some(Binding::Close), None));
    }

    #[test]
    fn per_cache_option_overrides_openmp_variables() {
        let mut request = PlacementRequest { per_cache: Some(2), ..PlacementRequest::default() };
        let environment = environment(&[("OMP_NUM_THREADS", "1"), ("OMP_PLACES", "cores")]);
        assert_eq!(
            environment.apply(&mut request).unwrap(),
            [
                "OMP_NUM_THREADS=1 ignored: --per-cache is given",
                "OMP_PLACES=cores ignored: --per-cache is given"
            ]
        );
        assert_eq!(request, PlacementRequest { per_cache: Some(2), ..PlacementRequest::default() });
    }

    #[test]
    fn kmp_affinity_with_a_type_overrides_openmp_variables() {
        let openmp = [("OMP_PLACES", "cores"), ("OMP_PROC_BIND", "true")];
        let mut request = PlacementRequest::default();
        let with_type =
            environment(&[&openmp[..], &[("KMP_AFFINITY", "verbose,scatter")]].concat());
        assert_eq!(
            with_type.apply(&mut request).unwrap(),
            [
                "KMP_AFFINITY=verbose,scatter honoured",
                "OMP_PLACES=cores ignored: KMP_AFFINITY is set and has priority",
                "OMP_PROC_BIND=true ignored: KMP_AFFINITY is set and has priority",
            ]
        );
        assert!(request.kmp.is_some() && request.places.is_none());
        let mut plain_request = PlacementRequest::default();
        let without = environment(&[&openmp[..], &[("KMP_AFFINITY", "verbose")]].concat());
        let notices = without.apply(&mut plain_request).unwrap();
        assert_eq!(notices[0], "KMP_AFFINITY=verbose ignored: it contains no affinity type");
        assert!(plain_request.kmp.is_none() && plain_request.places.is_some());
    }

    #[test]
    fn runtime_variables_are_reported_as_honoured_or_ignored() {
        let mut request = PlacementRequest::default();
        let runtime = environment(&[
            ("GOMP_CPU_AFFINITY", "0-3"),
            ("OMP_NUM_THREADS", "8"),
            ("OMP_THREAD_LIMIT", "4"),
            ("OMP_DYNAMIC", "true"),
            ("KMP_HW_SUBSET", "4c,1t"),
        ]);
        assert_eq!(
            runtime.apply(&mut request).unwrap(),
            [
                "OMP_NUM_THREADS=8 ignored: OMP_THREAD_LIMIT is 4",
                "OMP_THREAD_LIMIT=4 honoured",
                "OMP_DYNAMIC=true ignored: the number of threads does not change",
                "GOMP_CPU_AFFINITY=0-3 honoured",
                "KMP_HW_SUBSET=4c,1t ignored: it is not supported; use --places, --cores or --threads",
            ]
        );
        assert_eq!((request.threads, request.bind), (Some(4), Some(Binding::Close)));
        assert_eq!(request.places.unwrap(), "{0},{1},{2},{3}".parse().unwrap());
        let cores = PlacementRequest { cores: Some("fast".parse().unwrap()), ..Default::default() };
        let ignored = environment(&[("OMP_PLACES", "cores")]).apply(&mut cores.clone()).unwrap();
        assert_eq!(ignored, ["OMP_PLACES=cores ignored: --cores is given"]);
        let topology = crate::tests::machine("Package:1 Core:8 PU:1");
        let mut limited = PlacementRequest::default();
        environment(&[("OMP_THREAD_LIMIT", "2")]).apply(&mut limited).unwrap();
        assert_eq!(crate::plan(&topology, &limited).unwrap().threads.len(), 2);
    }

    #[test]
    fn gomp_cpu_affinity_overrides_openmp_variables() {
        for policy in ["close", "spread", "primary", "true", "false"] {
            let mut request = PlacementRequest::default();
            let variables =
                [("GOMP_CPU_AFFINITY", "3 1"), ("OMP_PLACES", "cores"), ("OMP_PROC_BIND", policy)];
            let reason = "ignored: GOMP_CPU_AFFINITY is set and has priority, as in libomp";
            assert_eq!(
                environment(&variables).apply(&mut request).unwrap(),
                [
                    "GOMP_CPU_AFFINITY=3 1 honoured".to_owned(),
                    format!("OMP_PLACES=cores {reason}"),
                    format!("OMP_PROC_BIND={policy} {reason}"),
                ]
            );
            assert_eq!(request.places, Some("{3},{1}".parse().unwrap()));
            assert_eq!(request.bind, Some(Binding::Close));
        }
    }

    #[test]
    fn bind_option_is_combined_with_gomp_cpu_affinity() {
        let gomp = environment(&[("GOMP_CPU_AFFINITY", "3 1"), ("OMP_PROC_BIND", "close")]);
        let with = |bind| {
            let mut request = PlacementRequest { bind: Some(bind), ..Default::default() };
            let notices = gomp.apply(&mut request).unwrap();
            (notices[0].clone(), request.places.is_some(), request.bind)
        };
        let honoured = "GOMP_CPU_AFFINITY=3 1 honoured".to_owned();
        assert_eq!(with(Binding::Spread), (honoured, true, Some(Binding::Spread)));
        let ignored = "GOMP_CPU_AFFINITY=3 1 ignored: --bind none is given".to_owned();
        assert_eq!(with(Binding::None), (ignored, false, Some(Binding::None)));
    }

    #[test]
    fn smallest_thread_limit_applies() {
        let limited = |variables: &[(&str, &str)]| {
            let mut request = PlacementRequest::default();
            let notices = environment(variables).apply(&mut request).unwrap();
            (notices, request.threads, request.max_threads)
        };
        let all = [
            ("OMP_NUM_THREADS", "8"),
            ("OMP_THREAD_LIMIT", "6"),
            ("KMP_DEVICE_THREAD_LIMIT", "4"),
            ("KMP_ALL_THREADS", "2"),
        ];
        assert_eq!(
            limited(&all),
            (
                [
                    "OMP_NUM_THREADS=8 ignored: KMP_DEVICE_THREAD_LIMIT is 4",
                    "OMP_THREAD_LIMIT=6 honoured",
                    "KMP_DEVICE_THREAD_LIMIT=4 honoured",
                    "KMP_ALL_THREADS=2 ignored: KMP_DEVICE_THREAD_LIMIT is set",
                ]
                .map(str::to_owned)
                .to_vec(),
                Some(4),
                Some(4)
            )
        );
        let enough = limited(&[("OMP_NUM_THREADS", "2"), ("KMP_ALL_THREADS", "4")]);
        assert_eq!(enough.0, ["OMP_NUM_THREADS=2 honoured", "KMP_ALL_THREADS=4 honoured"]);
        assert_eq!(enough.1, Some(2));
        assert_eq!(limited(&[("KMP_DEVICE_THREAD_LIMIT", "all")]).2, None);
    }

    #[test]
    fn boolean_words_of_both_runtimes_are_known() {
        let dynamic = |text: &str| {
            environment(&[("OMP_DYNAMIC", text)])
                .apply(&mut PlacementRequest::default())
                .unwrap()
                .remove(0)
        };
        for off in ["false", "0", "No", "off"] {
            assert_eq!(dynamic(off), format!("OMP_DYNAMIC={off} honoured"));
        }
        assert!(dynamic("yes").ends_with("ignored: the number of threads does not change"));
        assert!(dynamic("maybe").ends_with("ignored: it is neither true nor false"));
    }

    #[test]
    fn environment_error_names_its_variable() {
        for (name, text, at) in [
            ("OMP_NUM_THREADS", "0", 0),
            ("OMP_NUM_THREADS", "4,", 2),
            ("OMP_NUM_THREADS", "4 4", 2),
            ("OMP_NUM_THREADS", "99999999999", 0),
            ("OMP_PLACES", "{0", 2),
            ("OMP_PROC_BIND", "compact", 0),
            ("OMP_PROC_BIND", "none", 0),
            ("OMP_PROC_BIND", "true,close", 5),
            ("OMP_THREAD_LIMIT", "5,6", 1),
            ("KMP_DEVICE_THREAD_LIMIT", "many", 0),
            ("GOMP_CPU_AFFINITY", "0,,1", 2),
            // Bytes that are not UTF-8.
            ("OMP_NUM_THREADS", "\u{fffd}", 0),
            ("OMP_PLACES", "{0}\u{fffd}", 3),
            ("KMP_AFFINITY", "compact,x", 8),
        ] {
            let error =
                environment(&[(name, text)]).apply(&mut PlacementRequest::default()).unwrap_err();
            assert_eq!((error.what, error.at), (name, at), "{text}");
            assert!(error.example.starts_with(name));
        }
    }
}
