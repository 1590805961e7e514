//! The hint line of error messages. No other code writes `hint:`.

use std::fmt;

/// Line with the hint, displayed below an error message; displays nothing if there is no hint.
pub(crate) struct HintLine<'a>(pub(crate) Option<&'a str>);

impl fmt::Display for HintLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}
