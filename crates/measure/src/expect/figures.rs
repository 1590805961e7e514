//! What a run will measure, as far as that is known before: a condition on anything else is refused then, and
//! not after an hour.

use super::{Expectation, PERCENT, base_of, listed};
use crate::Unit;

/// Figures of one test that a run may give.
#[derive(Debug, Clone)]
pub struct Figures {
    gauge: &'static str,
    test: &'static str,
    /// All names, or examples of those that `fits` knows.
    names: Vec<String>,
    fits: fn(&str) -> bool,
    units: &'static [Unit],
    limited: bool,
    /// Conditions are about them only where they name their test.
    scoped: bool,
}

impl Figures {
    /// Figures of these names and units, without a known limit.
    pub fn new<S: Into<String>>(
        (gauge, test): (&'static str, &'static str),
        names: impl IntoIterator<Item = S>,
        units: &'static [Unit],
    ) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self { gauge, test, names, fits: |_| false, units, limited: false, scoped: false }
    }

    /// Names like these are possible too, such as sizes.
    pub fn or_like(self, fits: fn(&str) -> bool) -> Self {
        Self { fits, ..self }
    }

    /// Whether a limit may be known that they are held against.
    pub fn limited(self, limited: bool) -> Self {
        Self { limited, ..self }
    }

    /// They never pass for another test's: see [`crate::record::Category::Transport`].
    pub fn scoped(self) -> Self {
        Self { scoped: true, ..self }
    }

    fn is_of(&self, scope: Option<&str>) -> bool {
        match scope {
            Some(scope) if self.test == scope => true,
            Some(scope) => self.gauge == scope && !self.scoped,
            None => !self.scoped,
        }
    }

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name) || (self.fits)(name)
    }
}

/// Jaro-Winkler similarity from which a name may have been meant: two letters exchanged in one of five.
const ALIKE: f64 = 0.8;

impl Expectation {
    /// Why none of these figures can ever meet it, in words for people; `None` where one may.
    pub fn refusal(&self, figures: &[Figures]) -> Option<String> {
        let expected = self.in_words();
        let scope = self.scope.as_deref();
        let named: Vec<&Figures> =
            figures.iter().filter(|of| of.is_of(scope) && of.has(&self.name)).collect();
        if named.is_empty() {
            let spelt = |of: &Figures| -> Vec<String> {
                let scope = scope.map(|_| format!("{}.", of.test)).unwrap_or_default();
                of.names.iter().map(|name| format!("{scope}{name}")).collect()
            };
            let (known, likeness) = self.nearest(figures.iter().flat_map(spelt).collect());
            let hint = match known.first().filter(|_| likeness >= ALIKE) {
                Some(near) => format!("did you mean {near}?"),
                None => "name one of these".to_owned(),
            };
            return Some(format!(
                "expected {expected}, but there is no such measurement; {}\nhint: {hint}",
                listed(&known)
            ));
        }
        let unit = base_of(self.unit).map(|(base, _)| base);
        let measured_in = |of: &&Figures| of.units.iter().any(|known| Some(known.symbol()) == unit);
        if self.unit == PERCENT {
            let known = named.iter().any(|of| of.limited);
            return (!known).then(|| {
                format!(
                    "expected {expected}, but no limit is known\n\
                     hint: give a bound in units, or of memory --dimms COUNTxMT/s"
                )
            });
        }
        if named.iter().any(measured_in) {
            return None;
        }
        let units: Vec<&str> = named[0].units.iter().map(|unit| unit.symbol()).collect();
        let (name, units) = (&self.name, units.join(" and "));
        Some(format!(
            "expected {expected}, but {name} is in {units}\nhint: give a bound in {units}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Option<String> {
        let figures = [
            Figures::new(("memory", "stream"), ["copy", "triad"], &[Unit::BytesPerSecond])
                .limited(true),
            Figures::new(("memory", "ladder"), ["65536"], &[Unit::BytesPerSecond])
                .or_like(|name| name.parse::<u64>().is_ok()),
            Figures::new(
                ("messages", "mpi"),
                ["mbw_mr"],
                &[Unit::BytesPerSecond, Unit::MessagesPerSecond],
            ),
        ];
        text.parse::<Expectation>().unwrap().refusal(&figures)
    }

    #[test]
    fn what_can_be_measured_may_be_expected() {
        for text in [
            "triad>=300GB/s",
            "stream.triad>=75%",
            "memory.4096>=1GB/s",
            "mbw_mr>=1msg/s",
            "mpi.mbw_mr>=1GB/s@8B",
        ] {
            assert_eq!(refusal(text), None, "{text}");
        }
    }

    #[test]
    fn what_cannot_is_refused_with_what_was_meant() {
        for (text, why) in [
            (
                "tryad>=300GB/s",
                "expected tryad >= 300 GB/s, but there is no such measurement; there are triad, copy, \
                 65536, mbw_mr\nhint: did you mean triad?",
            ),
            (
                "hpl.triad>=3GB/s",
                "expected hpl.triad >= 3 GB/s, but there is no such measurement; there are \
                 stream.triad, mpi.mbw_mr, ladder.65536, stream.copy\nhint: name one of these",
            ),
            (
                "mbw_mr>=75%",
                "expected mbw_mr >= 75 % of the limit, but no limit is known\nhint: give a bound in \
                 units, or of memory --dimms COUNTxMT/s",
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
