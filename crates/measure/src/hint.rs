//! The line that tells the user what to do: the only place that writes `hint:`.

use std::fmt;

/// The hint below a message; nothing if there is none.
pub(crate) struct HintLine<'a>(pub(crate) Option<&'a str>);

impl fmt::Display for HintLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}
