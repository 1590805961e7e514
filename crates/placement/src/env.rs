//! Environment variables of OpenMP programs: `OMP_NUM_THREADS`, `OMP_THREAD_LIMIT`, `OMP_PLACES`, `OMP_PROC_BIND`,
//! `KMP_AFFINITY` and `GOMP_CPU_AFFINITY`, which are used if the corresponding option is absent.
//!
//! Options have priority over variables. Among variables, the rule of LLVM's libomp applies: `KMP_AFFINITY` has
//! priority over `OMP_PLACES` and `OMP_PROC_BIND` if it contains a type, but not if it contains only modifiers
//! (`verbose`). `OMP_PLACES` and `OMP_PROC_BIND` have priority over `GOMP_CPU_AFFINITY`, as in both runtimes.
//! `OMP_DYNAMIC` and `KMP_HW_SUBSET` have no effect. A notice reports every variable that is set. An invalid value
//! is an error only if it would be used.

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
    /// Value of `OMP_DYNAMIC`.
    pub dynamic: Option<String>,
    /// Value of `KMP_HW_SUBSET`.
    pub hw_subset: Option<String>,
}

impl PlacementEnvironment {
    /// Reads the variables of this process.
    pub fn current() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Reads the variables, e.g. with `|name| std::env::var(name).ok()`.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let [num_threads, places, proc_bind, kmp_affinity] = [NUM_THREADS, PLACES, PROC_BIND, KMP]
            .map(|name| lookup(name).filter(|text| !text.trim().is_empty()));
        let [gomp_affinity, thread_limit, dynamic, hw_subset] =
            [affinity::GOMP_VARIABLE, THREAD_LIMIT, DYNAMIC, HW_SUBSET]
                .map(|name| lookup(name).filter(|text| !text.trim().is_empty()));
        Self {
            num_threads,
            places,
            proc_bind,
            kmp_affinity,
            gomp_affinity,
            thread_limit,
            dynamic,
            hw_subset,
        }
    }

    /// Returns only the variables for the number of threads.
    pub(crate) fn thread_count_variables(&self) -> Self {
        Self {
            num_threads: self.num_threads.clone(),
            thread_limit: self.thread_limit.clone(),
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
        let mut notices = Vec::new();

        let by_cache = request.per_cache.map(|_| "--per-cache is given");
        let by_class = request.cores.as_ref().map(|_| "--cores is given");
        let has_count = request.threads.is_some();

        if let Some(text) = &self.num_threads {
            // --per-cache also sets the number of threads.
            let why_not = request.threads.map(|_| "--threads is given").or(by_cache);
            if why_not.is_none() {
                request.threads = Some(first_count(text, NUM_THREADS, "OMP_NUM_THREADS=8")?);
            }
            notices.push(notice(NUM_THREADS, text, why_not));
        }
        if let Some(text) = &self.thread_limit {
            let option = has_count.then_some("--threads is given");
            let why_not = option.or(by_cache);
            if why_not.is_none() {
                let limit = first_count(text, THREAD_LIMIT, "OMP_THREAD_LIMIT=8")?;
                request.max_threads = Some(limit);
                request.threads = request.threads.map(|threads| threads.min(limit));
            }
            notices.push(notice(THREAD_LIMIT, text, why_not));
        }
        if let Some(text) = &self.dynamic {
            let is_off = ["false", "0"].contains(&text.trim().to_ascii_lowercase().as_str());
            let why_not = (!is_off).then_some("the number of threads does not change");
            notices.push(notice(DYNAMIC, text, why_not));
        }

        if let Some(text) = &self.kmp_affinity {
            let places = request.places.as_ref().map(|_| "--places is given");
            let bind = request.bind.map(|_| "--bind is given");
            let kmp = request.kmp.as_ref().map(|_| "an affinity is already set");
            let mut why_not = by_cache.or(by_class).or(places).or(bind).or(kmp);
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

        if let Some(text) = &self.places {
            let option = request.places.as_ref().map(|_| "--places is given");
            let why_not = option.or(by_cache).or(by_class).or(by_kmp);
            if why_not.is_none() {
                request.places = Some(parsed(text, PLACES, PLACES_EXAMPLE)?);
            }
            notices.push(notice(PLACES, text, why_not));
        }
        if let Some(text) = &self.proc_bind {
            let option = request.bind.map(|_| "--bind is given");
            let why_not = option.or(by_cache).or(by_kmp);
            if why_not.is_none() {
                request.bind = Some(parsed(text, PROC_BIND, PROC_BIND_EXAMPLE)?);
            }
            notices.push(notice(PROC_BIND, text, why_not));
        }
        if let Some(text) = &self.gomp_affinity {
            let places = request.places.as_ref().map(|_| "places are given");
            let bind = request.bind.map(|_| "a binding policy is given");
            let why_not = by_cache.or(by_class).or(by_kmp).or(places).or(bind);
            if why_not.is_none() {
                request.places = Some(affinity::parse_places(text)?);
                request.bind = Some(Binding::Close);
            }
            notices.push(notice(affinity::GOMP_VARIABLE, text, why_not));
        }
        if let Some(text) = &self.hw_subset {
            let why_not = "it is not supported; use --places, --cores or --threads";
            notices.push(notice(HW_SUBSET, text, Some(why_not)));
        }
        Ok(notices)
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
    let counts = grammar::list(&mut cursor, None, "expected ',' or the end", |cursor| {
        let at = cursor.position();
        match grammar::number(cursor, "expected a number of threads")? {
            0 => Err(cursor.error_at(at, "expected at least 1")),
            count => Ok(count),
        }
    })?;
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
                "OMP_NUM_THREADS=8 honoured",
                "OMP_THREAD_LIMIT=4 honoured",
                "OMP_DYNAMIC=true ignored: the number of threads does not change",
                "GOMP_CPU_AFFINITY=0-3 honoured",
                "KMP_HW_SUBSET=4c,1t ignored: it is not supported; use --places, --cores or --threads",
            ]
        );
        assert_eq!((request.threads, request.bind), (Some(4), Some(Binding::Close)));
        assert_eq!(request.places.unwrap(), "{0},{1},{2},{3}".parse().unwrap());
        let mut bound = PlacementRequest::default();
        let both = environment(&[("GOMP_CPU_AFFINITY", "0-3"), ("OMP_PROC_BIND", "close")]);
        assert_eq!(
            both.apply(&mut bound).unwrap()[1],
            "GOMP_CPU_AFFINITY=0-3 ignored: a binding policy is given"
        );
        let cores = PlacementRequest { cores: Some("fast".parse().unwrap()), ..Default::default() };
        let ignored = environment(&[("OMP_PLACES", "cores")]).apply(&mut cores.clone()).unwrap();
        assert_eq!(ignored, ["OMP_PLACES=cores ignored: --cores is given"]);
        let topology = crate::tests::machine("Package:1 Core:8 PU:1");
        let mut limited = PlacementRequest::default();
        environment(&[("OMP_THREAD_LIMIT", "2")]).apply(&mut limited).unwrap();
        assert_eq!(crate::plan(&topology, &limited).unwrap().threads.len(), 2);
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
            ("KMP_AFFINITY", "compact,x", 8),
        ] {
            let error =
                environment(&[(name, text)]).apply(&mut PlacementRequest::default()).unwrap_err();
            assert_eq!((error.what, error.at), (name, at), "{text}");
            assert!(error.example.starts_with(name));
        }
    }
}
