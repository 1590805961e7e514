//! Configuration keys for the placement of a measurement.

use crate::pairs::Distance;

nodegauge_measure::keys! {
    /// Distance between the two CPUs or ranks of a pair, named after what they share.
    distance: Distance = Identity "pairs", omits_label;
}
