//! The trapezoid rule on 4 / (1 + x^2) between 0 and 1, which is pi: the loop, and how far its sum may be off.

use nodegauge_kernels::isa::InstructionSet;
use nodegauge_kernels::{Isa, dispatched};
use std::array::from_fn;

/// Operations a point: two multiplications, two additions, a division.
pub const FLOPS: f64 = 5.0;
/// Partial sums side by side: eight vectors of four hide the latency of additions, and the divider is the
/// limit.
const LANES: usize = 32;
/// Points whose sum is rounded in lanes; sums of blocks are compensated.
const BLOCK: u64 = 4096;

/// The loop for the widest instruction set of this processor that it gains from.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// One that this processor has.
    isa: Isa,
}

impl Rule {
    /// The loop for this processor. The divider of every x86 core known gives as many quotients a cycle to
    /// vectors of 256 bits as of 512 (uops.info, VDIVPD).
    pub fn detect() -> Self {
        Self::available().pop().unwrap_or_else(|| unreachable!("the baseline is always there"))
    }

    /// All that this processor can run, the widest last.
    pub fn available() -> Vec<Self> {
        let all = Isa::dispatched().filter(|isa| isa.vector_bits() <= 256);
        all.map(|isa| Self { isa }).collect()
    }

    /// Name of the instruction set in records.
    pub fn isa_name(self) -> &'static str {
        match self.isa {
            Isa::Portable => "baseline",
            isa => isa.name(),
        }
    }

    /// The share of worker `index` of `count` in the integral by `points` intervals.
    pub fn share(self, points: u64, index: usize, count: usize) -> f64 {
        let at = |piece: usize| (u128::from(points - 1) * piece as u128 / count as u128) as u64 + 1;
        let h = 1.0 / points as f64;
        // SAFETY: `available` lists what this processor can run.
        let inner = unsafe { sum(self.isa, at(index), at(index + 1), h) };
        // Half of f(0) = 4 and of f(1) = 2.
        let ends = if index == 0 { 3.0 } else { 0.0 };
        (inner + ends) * h
    }
}

dispatched! {
    /// Sum of f at points `first` to `end`.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn sum(first: u64, end: u64, h: f64) -> f64 = sum_body;
}

#[inline(always)]
#[allow(clippy::extra_unused_type_parameters, reason = "every dispatched body has one")]
unsafe fn sum_body<S: InstructionSet>(first: u64, end: u64, h: f64) -> f64 {
    // Kahan's: what an addition loses goes to the next.
    let (mut total, mut lost) = (0.0, 0.0);
    let mut at = first;
    while at < end {
        let next = end.min(at + BLOCK);
        let part = block(at, next - at, h) - lost;
        let more = total + part;
        (total, lost) = (more, (more - total) - part);
        at = next;
    }
    total
}

#[inline(always)]
fn block(first: u64, count: u64, h: f64) -> f64 {
    let mut at: [f64; LANES] = from_fn(|lane| (first + lane as u64) as f64);
    let mut sums = [0.0; LANES];
    let term = |x: f64| {
        let x = x * h;
        4.0 / (1.0 + x * x)
    };
    for _ in 0..count / LANES as u64 {
        for (sum, x) in sums.iter_mut().zip(&mut at) {
            *sum += term(*x);
            *x += LANES as f64;
        }
    }
    let rest = (count % LANES as u64) as usize;
    for (sum, x) in sums.iter_mut().zip(at).take(rest) {
        *sum += term(x);
    }
    sums.iter().sum()
}

/// Returns the largest difference of a sum over `points` intervals from pi: the error of the rule, h^2 / 12 (f'(1) -
/// f'(0)) = -h^2 / 6 to the next order of h, and rounding, by Higham, "Accuracy and Stability of Numerical
/// Algorithms", 4.2 and 4.3: an epsilon for each addition in a lane and over the lanes, some for a term.
pub fn allowed(points: u64) -> f64 {
    let h = 1.0 / points as f64;
    let additions = BLOCK as f64 / LANES as f64 + LANES as f64;
    h * h / 6.0 * (1.0 + h) + std::f64::consts::PI * f64::EPSILON * (additions + 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::f64::consts::PI;

    #[test]
    fn the_sum_is_pi_as_closely_as_the_rule_says() {
        for rule in Rule::available() {
            for points in [1, 2, 31, 33, 1000, 4097, 1_000_000] {
                let pi = rule.share(points, 0, 1);
                assert!((pi - PI).abs() <= allowed(points), "{rule:?} {points}: {pi}");
                // The rule's own error, and no other.
                let left = 1.0 / (6.0 * (points as f64).powi(2));
                assert!(points < 31 || (PI - pi - left).abs() < 0.01 * left + 1e-14, "{points}");
            }
        }
    }

    #[test]
    fn a_point_that_is_missing_or_wrong_is_seen() {
        let points = 1_000_000_000;
        // The least of all terms.
        assert!(2.0 / points as f64 > 100.0 * allowed(points));
    }

    proptest! {
        #[test]
        fn shares_are_the_whole(points in 1u64..200_000, count in 1usize..9) {
            let rule = Rule::detect();
            let sum: f64 = (0..count).map(|index| rule.share(points, index, count)).sum();
            prop_assert!((sum - PI).abs() <= allowed(points), "{sum}");
        }
    }
}
