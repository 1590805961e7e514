//! Figures that a run will measure, as far as they are known in advance. An expectation about any other figure is
//! refused before the run.

use super::{Expectation, PERCENT, listed};
use nodegauge_measure::{Bytes, Failure, ScaledUnit, Unit};

/// Figures of one test that a run may produce.
#[derive(Debug, Clone)]
pub struct PossibleFigures {
    gauge: &'static str,
    test: &'static str,
    /// All names of the figures. If `fits` accepts further names, these are examples.
    names: Vec<String>,
    fits: fn(&str) -> bool,
    units: &'static [Unit],
    limited: bool,
    /// Message, block or array sizes; `None` if they are not known in advance, empty for figures without a size.
    sizes: Option<Vec<u64>>,
    /// True if an expectation must contain the test name to apply to these figures.
    scoped: bool,
}

impl PossibleFigures {
    /// Returns figures with these names and units, without a known limit.
    pub fn new<S: Into<String>>(
        gauge: &'static str,
        test: &'static str,
        names: impl IntoIterator<Item = S>,
        units: &'static [Unit],
    ) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        let fits = fits_none;
        Self { gauge, test, names, fits, units, limited: false, sizes: None, scoped: false }
    }

    /// Sets a function that accepts further names, such as sizes in bytes.
    pub fn with_name_rule(self, fits: fn(&str) -> bool) -> Self {
        Self { fits, ..self }
    }

    /// Sets whether the limit of these figures may be known.
    pub fn with_known_limit(self, limited: bool) -> Self {
        Self { limited, ..self }
    }

    /// Sets all message, block or array sizes (bytes); empty for figures without a size.
    pub fn with_sizes(self, sizes: impl IntoIterator<Item = u64>) -> Self {
        Self { sizes: Some(sizes.into_iter().collect()), ..self }
    }

    /// Requires that expectations contain the test name; see [`nodegauge_measure::record::Category::Transport`].
    pub fn requiring_test_name(self) -> Self {
        Self { scoped: true, ..self }
    }

    fn is_in_scope(&self, scope: Option<&str>) -> bool {
        match scope {
            Some(scope) if self.test == scope => true,
            Some(scope) => self.gauge == scope && !self.scoped,
            None => !self.scoped,
        }
    }

    /// Returns a name in the syntax of a condition, with the test if it has a scope or requires one.
    fn spelt(&self, name: &str, scope: Option<&str>) -> String {
        if scope.is_some() || self.scoped {
            format!("{}.{name}", self.test)
        } else {
            name.to_owned()
        }
    }

    /// True if one of the units of these figures is this unit.
    fn is_in(&self, unit: Option<Unit>) -> bool {
        self.units.iter().any(|known| Some(*known) == unit)
    }

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name) || (self.fits)(name)
    }
}

/// Accepts no name except those that are listed.
fn fits_none(_: &str) -> bool {
    false
}

/// Returns the distance of two sizes as a number of doublings.
fn steps(bytes: u64, size: u64) -> f64 {
    (bytes.max(1) as f64 / size.max(1) as f64).log2().abs()
}

/// Minimum Jaro-Winkler similarity of a suggested name. A name of five letters reaches it with two letters exchanged.
const ALIKE: f64 = 0.8;

impl Expectation {
    /// Returns the failure with the reason why none of these figures can meet the condition; `None` if one of them may
    /// meet it.
    pub fn refusal(&self, figures: &[PossibleFigures]) -> Option<Failure> {
        let expected = self.in_words();
        let scope = self.scope.as_deref();
        let named: Vec<&PossibleFigures> =
            figures.iter().filter(|of| of.is_in_scope(scope) && of.has(&self.name)).collect();
        if named.is_empty() {
            let mut known: Vec<String> = Vec::new();
            for of in figures {
                known.extend(of.names.iter().map(|name| of.spelt(name, scope)));
            }
            known.sort();
            known.dedup();
            let (known, likeness) = self.nearest(known);
            let elsewhere = figures.iter().find(|of| of.has(&self.name));
            let near = known.first().filter(|_| likeness >= ALIKE).cloned();
            let hint = match elsewhere.map(|of| of.spelt(&self.name, scope)).or(near) {
                Some(near) => format!("did you mean {near}?"),
                None => "use one of these names".to_owned(),
            };
            let listed = listed(&known);
            let why = format!("expected {expected}, but there is no such measurement; {listed}");
            return Some(Failure::usage(why).hint(hint));
        }
        if let Some(why) = self.size.and_then(|size| self.refused_size(size, &named)) {
            let message = format!("expected {expected}, but {}", why.message);
            return Some(Failure { message, ..why });
        }
        let unit = ScaledUnit::from_symbol(self.unit).map(|scaled| scaled.unit);
        if self.unit == PERCENT {
            let known = named.iter().any(|of| of.limited);
            return (!known).then(|| {
                Failure::usage(format!("expected {expected}, but the limit is unknown")).hint(
                    "give a bound with a unit such as GB/s; for memory, --dimms COUNTxMT/s also \
                     makes the limit known",
                )
            });
        }
        if named.iter().any(|of| of.is_in(unit)) {
            return None;
        }
        let units: Vec<&str> = named[0].units.iter().map(|known| known.symbol()).collect();
        let units = units.join(" and ");
        let why = format!("expected {expected}, but {} is in {units}", self.name);
        Some(Failure::usage(why).hint(format!("give a bound in {units}")))
    }
}

impl Expectation {
    /// Returns the failure if none of the named figures has this size; `None` if one of them may have it.
    fn refused_size(&self, Bytes(size): Bytes, named: &[&PossibleFigures]) -> Option<Failure> {
        let sizes: Option<Vec<&Vec<u64>>> = named.iter().map(|of| of.sizes.as_ref()).collect();
        let mut known: Vec<u64> = sizes?.into_iter().flatten().copied().collect();
        if known.contains(&size) {
            return None;
        }
        known.sort_by(|a, b| steps(*a, size).total_cmp(&steps(*b, size)));
        known.dedup();
        let known: Vec<String> =
            known.iter().map(|bytes| format!("@{}", Bytes(*bytes).exact_text())).collect();
        Some(match known.first() {
            None => Failure::usage(format!("{} does not depend on a size", self.name))
                .hint(format!("leave out @{}", Bytes(size).exact_text())),
            Some(near) => Failure::usage(format!("this size is not measured; {}", listed(&known)))
                .hint(format!("use one of these sizes, e.g. {near}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Option<String> {
        let figures = [
            PossibleFigures::new("memory", "stream", ["copy", "triad"], &[Unit::BytesPerSecond])
                .with_known_limit(true),
            PossibleFigures::new("memory", "ladder", ["65536"], &[Unit::BytesPerSecond])
                .with_name_rule(|name| name.parse::<u64>().is_ok()),
            PossibleFigures::new(
                "messages",
                "mpi",
                ["mbw_mr"],
                &[Unit::BytesPerSecond, Unit::MessagesPerSecond],
            )
            .with_sizes([8, 1 << 10, 1 << 20]),
            PossibleFigures::new(
                "messages",
                "transport",
                ["mbw_mr", "bibw"],
                &[Unit::BytesPerSecond],
            )
            .requiring_test_name(),
            PossibleFigures::new("compute", "hpl", ["rating"], &[Unit::FlopsPerSecond])
                .with_sizes([]),
        ];
        let refusal = text.parse::<Expectation>().unwrap().refusal(&figures);
        refusal.map(|why| why.to_string())
    }

    #[test]
    fn available_measurements_are_accepted_in_expectations() {
        for text in [
            "triad>=300GB/s",
            "stream.triad>=75%",
            "memory.4096>=1GB/s",
            "mbw_mr>=1msg/s",
            "mpi.mbw_mr>=1GB/s@8B",
            "triad>=300GB/s@3B",
            "transport.mbw_mr>=1GB/s@3B",
        ] {
            assert_eq!(refusal(text), None, "{text}");
        }
    }

    #[test]
    fn unknown_measurements_are_refused_with_suggestions() {
        for (text, why) in [
            (
                "tryad>=300GB/s",
                "expected tryad >= 300 GB/s, but there is no such measurement; available: triad, \
                 transport.bibw, transport.mbw_mr, rating, copy, 65536, mbw_mr\nhint: did you mean triad?",
            ),
            (
                "hpl.triad>=3GB/s",
                "expected hpl.triad >= 3 GB/s, but there is no such measurement; available: \
                 hpl.rating, stream.triad, transport.bibw, mpi.mbw_mr, ladder.65536, transport.mbw_mr, \
                 stream.copy\nhint: did you mean stream.triad?",
            ),
            (
                "bibw>=3GB/s",
                "expected bibw >= 3 GB/s, but there is no such measurement; available: mbw_mr, \
                 triad, rating, 65536, copy, transport.bibw, transport.mbw_mr\nhint: did you mean \
                 transport.bibw?",
            ),
            (
                "mbw_mr>=1msg/s@3B",
                "expected mbw_mr >= 1 msg/s at 3 B, but this size is not measured; available: @8B, @1KiB, \
                 @1MiB\nhint: use one of these sizes, e.g. @8B",
            ),
            (
                "rating>=1GFLOP/s@8B",
                "expected rating >= 1 GFLOP/s at 8 B, but rating does not depend on a size\nhint: leave out @8B",
            ),
            (
                "mbw_mr>=75%",
                "expected mbw_mr >= 75 % of the limit, but the limit is unknown\nhint: give a bound \
                 with a unit such as GB/s; for memory, --dimms COUNTxMT/s also makes the limit \
                 known",
            ),
            (
                "triad<=3us",
                "expected triad <= 3 us, but triad is in B/s\nhint: give a bound in B/s",
            ),
        ] {
            assert_eq!(refusal(text).as_deref(), Some(why));
        }
    }
}
