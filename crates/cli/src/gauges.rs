//! The list of gauges, in the order of the page.

use nodegauge_gauge::Gauge;
use nodegauge_memory::Memory;

/// All gauges behind the common seam.
pub(crate) const ALL: &[&dyn Gauge] = &[&Memory];
