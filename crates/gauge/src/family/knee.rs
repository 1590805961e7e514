//! Load at which latency is twice the idle latency, on a curve of latency over load. The functions are pure.

/// Latency at the knee of the curve, as a multiple of the idle latency.
const KNEE: f64 = 2.0;

/// Point of the curve of latency over load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPoint {
    /// Rate of the loaders, bytes per second; 0 without load.
    pub rate: f64,
    /// Time per load of the chain, seconds.
    pub latency: f64,
    /// First reason why a figure of the point is suspect; `None` if they are valid.
    pub doubt: Option<String>,
}

/// Load at which latency is twice the idle latency.
#[derive(Debug, Clone, PartialEq)]
pub enum Knee {
    /// Latency stays below twice the idle latency.
    Below,
    /// Latency is twice the idle latency at this rate.
    At {
        /// Rate of the loaders, bytes per second.
        rate: f64,
        /// Reason why one of the points that determine the rate is suspect.
        doubt: Option<String>,
    },
    /// Latency falls again at a higher load, so there is no unique rate.
    Falls,
}

/// Returns the rate of the loaders at which latency is twice the idle latency, by linear interpolation between the
/// two points that enclose this latency. The first point is the idle point.
pub fn find_knee(curve: &[LoadPoint]) -> Knee {
    let Some(idle) = curve.first() else { return Knee::Below };
    let target = KNEE * idle.latency;
    let mut pairs = curve.windows(2);
    let enclosing = pairs.position(|pair| pair[0].latency < target && pair[1].latency >= target);
    let Some(at) = enclosing else { return Knee::Below };
    if curve[at + 1..].iter().any(|point| point.latency < target) {
        return Knee::Falls;
    }
    let low = &curve[at];
    let high = &curve[at + 1];
    let part = (target - low.latency) / (high.latency - low.latency);
    let doubt = [idle, low, high].into_iter().find_map(|point| point.doubt.clone());
    Knee::At { rate: low.rate + (high.rate - low.rate) * part, doubt }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Vec<LoadPoint> {
        let point = |(rate, latency): &(f64, f64)| LoadPoint {
            rate: *rate,
            latency: *latency,
            doubt: None,
        };
        points.iter().map(point).collect()
    }

    const RISING: [(f64, f64); 5] =
        [(0.0, 100e-9), (10e9, 120e-9), (20e9, 150e-9), (30e9, 250e-9), (32e9, 400e-9)];

    #[test]
    fn knee_is_interpolated_between_points() {
        let rising = curve(&RISING);
        let Knee::At { rate, doubt: None } = find_knee(&rising) else { panic!("no knee") };
        assert!((rate - 25e9).abs() < 1.0);
        assert_eq!(find_knee(&rising[..3]), Knee::Below);
        assert_eq!(find_knee(&[]), Knee::Below);
    }

    #[test]
    fn knee_between_suspect_points_is_suspect() {
        for suspect in [0, 2, 3] {
            let mut rising = curve(&RISING);
            rising[suspect].doubt = Some("disturbed".to_owned());
            let Knee::At { doubt: Some(_), .. } = find_knee(&rising) else { panic!("valid knee") };
        }
        let mut rising = curve(&RISING);
        rising[1].doubt = Some("disturbed".to_owned());
        assert!(matches!(find_knee(&rising), Knee::At { doubt: None, .. }));
    }

    #[test]
    fn falling_latency_has_no_knee() {
        let mut points = RISING;
        points[4].1 = 130e-9;
        assert_eq!(find_knee(&curve(&points)), Knee::Falls);
    }
}
