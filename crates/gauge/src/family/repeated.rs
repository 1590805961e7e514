//! Doubt about figures that a repetition of the run may not confirm. The samples of a run are divided into those with
//! even and with odd numbers, as if they were two interleaved runs. If the two halves disagree, the figure is suspect.
//! The functions are pure.

use nodegauge_measure::{Fraction, stats};

/// Largest difference of an idle latency or of a bandwidth between the two halves of its samples.
const BANDWIDTH: Fraction = Fraction(0.05);
/// Largest difference of a knee between the two halves of its parts. The limit is wide because latency rises steeply
/// with the rate near a knee.
const KNEE: Fraction = Fraction(0.15);
/// Minimum number of samples near the best. With three, all of them fall in the same half with a probability of 1/4;
/// with four, of 1/8.
const NEAR_THE_BEST: usize = 4;

/// Returns the samples with even and with odd numbers.
fn halves(samples: &[f64]) -> [Vec<f64>; 2] {
    [0, 1].map(|first| samples.iter().skip(first).step_by(2).copied().collect())
}

/// True if two values differ by more than a share of the larger.
fn differ(a: f64, b: f64, limit: Fraction) -> bool {
    (a - b).abs() > limit.0 * a.max(b)
}

/// Returns the reason why the best of these rates is suspect; `None` if the halves agree.
pub fn best_doubt(rates: &[f64]) -> Option<String> {
    let best = rates.iter().copied().fold(0.0, f64::max);
    let near = rates.iter().filter(|rate| !differ(best, **rate, BANDWIDTH)).count();
    let share = BANDWIDTH.in_whole_percent();
    if near < NEAR_THE_BEST.min(rates.len()) {
        return Some(format!(
            "{near} of the samples within {share} of the best: too few to confirm the best"
        ));
    }
    let [even, odd] = halves(rates).map(|half| half.into_iter().fold(0.0, f64::max));
    (rates.len() > 1 && differ(even, odd, BANDWIDTH)).then(|| unrepeated(&share))
}

/// Returns the reason why the median of these latencies is suspect; `None` if the halves agree.
pub fn latency_doubt(times: &[f64]) -> Option<String> {
    median_doubt(times, BANDWIDTH)
}

/// Returns the reason why the median of these knees, one per part of a run, is suspect; `None` if the halves agree.
pub fn knee_doubt(rates: &[f64]) -> Option<String> {
    median_doubt(rates, KNEE)
}

fn median_doubt(samples: &[f64], limit: Fraction) -> Option<String> {
    let [even, odd] = halves(samples);
    if odd.is_empty() {
        return None;
    }
    let is_far = differ(stats::median(&even), stats::median(&odd), limit);
    is_far.then(|| unrepeated(&limit.in_whole_percent()))
}

fn unrepeated(share: &str) -> String {
    format!("the two halves of the samples differ by more than {share}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_value_reached_in_only_one_half_of_the_samples_is_suspect() {
        // The best of the even samples is 6.2 % above that of the odd ones, and the second best is within 10 %.
        let mut rates = Vec::new();
        for number in 0..40 {
            let offset = f64::from(number % 7) * 0.2;
            rates.push(if number % 2 == 0 { 69.0 - offset } else { 65.0 - offset });
        }
        let doubt = best_doubt(&rates).unwrap();
        assert_eq!(doubt, "the two halves of the samples differ by more than 5 %");
        let steady: Vec<f64> = (0..40).map(|number| 69.0 - f64::from(number % 7) * 0.2).collect();
        assert_eq!(best_doubt(&steady), None);
    }

    #[test]
    fn best_value_with_few_similar_samples_is_suspect() {
        let mut rates = vec![60.0; 40];
        rates[3] = 65.0;
        rates[8] = 64.0;
        let doubt = best_doubt(&rates).unwrap();
        assert!(doubt.starts_with("2 of the samples within 5 % of the best"), "{doubt}");
        rates[4] = 64.0;
        rates[11] = 63.5;
        assert_eq!(best_doubt(&rates), None);
        assert_eq!(best_doubt(&[60.0, 59.0]), None);
        assert_eq!(best_doubt(&[]), None);
    }

    /// Returns 40 samples; every second one is larger than the others by the share `by`.
    fn alternate(by: f64) -> Vec<f64> {
        (0..40).map(|number| if number % 2 == 0 { 1.0 } else { 1.0 + by }).collect()
    }

    /// Returns a random number from 0 to 1, and advances the generator.
    fn uniform(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*state >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns 20 rates, each lowered by an exponentially distributed share of mean `width`.
    fn sampled(state: &mut u64, width: f64) -> Vec<f64> {
        (0..20).map(|_| 60.0 / (1.0 - width * uniform(state).max(1e-9).ln())).collect()
    }

    #[test]
    fn samples_whose_halves_have_different_medians_are_suspect() {
        assert_eq!(latency_doubt(&alternate(0.04)), None);
        assert!(latency_doubt(&alternate(0.08)).is_some());
        assert_eq!(knee_doubt(&alternate(0.08)), None);
        assert!(knee_doubt(&alternate(0.2)).is_some());
        assert_eq!(knee_doubt(&[1.0]), None);
    }

    #[test]
    fn best_of_noisy_samples_is_confirmed_unless_suspect() {
        // The bandwidth scatters, because interference lowers it by an exponentially distributed share. If a run is not
        // suspect, another run must confirm it, with rare exceptions among 400 runs.
        let mut state = 53_u64;
        let mut unconfirmed = 0;
        let mut valid = 0;
        for run in 0..400 {
            let width = 0.02 * f64::from(1 + run % 20);
            let first = sampled(&mut state, width);
            let second = sampled(&mut state, width);
            if best_doubt(&first).is_some() || best_doubt(&second).is_some() {
                continue;
            }
            valid += 1;
            let [a, b] = [first, second].map(|rates| rates.into_iter().fold(0.0, f64::max));
            unconfirmed += u32::from(differ(a, b, BANDWIDTH));
        }
        assert!(valid > 100 && unconfirmed * 50 <= valid, "{unconfirmed} of {valid}");
    }
}
