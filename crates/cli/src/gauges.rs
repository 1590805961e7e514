//! The list of gauges, in the order of the page.

use nodegauge_compute::ComputeGauge;
use nodegauge_gauge::Gauge;

/// All gauges behind the common seam.
pub(crate) const ALL: &[&dyn Gauge] = &[&ComputeGauge];
