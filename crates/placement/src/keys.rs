//! Keys of configurations that say where something ran.

use crate::pairs::Distance;

nodegauge_measure::keys! {
    /// Distance of the two CPUs or ranks of a pair, by what they share.
    distance: Distance = Identity "pairs", speaks;
}
