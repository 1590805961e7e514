//! Configuration keys for the place of a measurement.

use crate::pairs::Distance;

nodegauge_measure::keys! {
    /// Distance of the two CPUs or ranks of a pair: what they share, e.g. a cache or a socket.
    distance: Distance = Identity "pairs", omits_label;
}
