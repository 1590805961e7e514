//! Core-to-core round trips in saved runs.

use super::Measurement;
use crate::keys::shared;
use crate::regime::is_cache_line_round_trip;

/// Core-to-core round trips in saved runs of a node, in seconds. Each round trip has the CPUs of
/// the threads that measured it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SavedRoundTrips(Vec<(Vec<Vec<u32>>, f64)>);

impl SavedRoundTrips {
    /// Returns the round trips in these figures: one per regime of each figure.
    pub fn from_figures<'a>(figures: impl IntoIterator<Item = &'a Measurement>) -> Self {
        let mut all: Vec<(Vec<Vec<u32>>, f64)> = Vec::new();
        for m in figures {
            let Some(places) = m.read_key::<shared::places>() else { continue };
            let own = m.read_key::<shared::round_trip_s>();
            let regimes = m.regimes.iter().map(|regime| regime.round_trip_s);
            for trip in
                own.into_iter().chain(regimes).filter(|trip| is_cache_line_round_trip(*trip))
            {
                // All kernels of a run have the same round trips, which are stored once.
                let this = (places.clone(), trip);
                if !all.contains(&this) {
                    all.push(this);
                }
            }
        }
        Self(all)
    }

    /// Returns the round trips of figures whose threads ran on these CPUs, in seconds.
    pub fn for_places(&self, places: &[Vec<u32>]) -> Vec<f64> {
        self.0.iter().filter(|(other, _)| *other == places).map(|(_, trip)| *trip).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_round_trips_are_found_by_cpus() {
        let figure = |places: &[[u32; 1]], trip: f64| {
            let unit = crate::Unit::BytesPerSecond;
            let mut m = Measurement::new("memory", "stream", "triad", unit);
            m.config.insert("places".to_owned(), serde_json::json!(places));
            m.config.insert("round_trip_s".to_owned(), serde_json::json!(trip));
            m
        };
        let figures = [
            figure(&[[0], [1]], 115e-9),
            figure(&[[0], [1]], 115e-9),
            figure(&[[0], [1]], 6e-3),
            figure(&[[0], [2]], 390e-9),
        ];
        let saved = SavedRoundTrips::from_figures(&figures);
        assert_eq!(saved.for_places(&[vec![0], vec![1]]), [115e-9]);
        assert!(saved.for_places(&[vec![1], vec![0]]).is_empty());
    }
}
