//! The gauges, in the order in which a page shows them.

use nodegauge_gauge::Gauge;

/// All gauges that have a view of their own.
pub(crate) const GAUGES: [&dyn Gauge; 1] = [&nodegauge_messages::Messages];
