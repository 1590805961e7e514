//! Configuration keys for the place of a measurement.

use crate::pairs::Distance;

nodegauge_measure::keys! {
    /// Distance of the two CPUs or ranks of a pair, by what they share.
    distance: Distance = Identity "pairs", omits_label;
}
