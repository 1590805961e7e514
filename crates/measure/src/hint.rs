//! The hint line of messages. This is the only code that writes `hint:`.

use std::fmt;

/// Displays the hint below a message; empty if there is none.
pub(crate) struct HintLine<'a>(pub(crate) Option<&'a str>);

impl fmt::Display for HintLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}
