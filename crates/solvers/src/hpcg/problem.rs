//! Problem of HPCG, and the number of operations that HPCG counts. Every point of a grid is coupled with the 26
//! points around it. The grid is divided into equal domains.
//!
//! The definitions are those of HPCG 3.1 (github.com/hpcg-benchmark/hpcg, ReportResults and GenerateProblem).

use crate::array::divisors;

/// Number of iterations of a set.
pub const ITERATIONS: usize = 50;
/// Number of grids of the multigrid preconditioner; each grid has half as many points in every direction as the
/// next finer one.
pub const LEVELS: usize = 4;
/// Divisor of the number of points of a domain in each direction.
pub const POINTS_DIVISOR: usize = 1 << (LEVELS - 1);
/// Minimum number of points of a domain in each direction, as in xhpcg.
pub const MIN_POINTS: usize = 16;

/// Number of points in each direction.
pub type GridPoints = [usize; 3];

/// Number of domains in every direction, and size of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainLayout {
    /// Number of points of one domain, in each direction.
    pub local: GridPoints,
    /// Number of domains, in each direction.
    pub domains: GridPoints,
}

impl DomainLayout {
    /// Returns the layout of `count` domains with the smallest possible total surface.
    pub fn new(local: GridPoints, count: usize) -> Self {
        let shapes =
            divisors(count).flat_map(|x| divisors(count / x).map(move |y| [x, y, count / x / y]));
        let falling = shapes.filter(|[x, y, z]| x >= y && y >= z);
        let smallest = falling.min_by_key(|[x, y, z]| x * y + y * z + z * x);
        Self { local, domains: smallest.unwrap_or([count, 1, 1]) }
    }

    /// Returns the number of domains.
    pub fn count(&self) -> usize {
        self.domains.iter().product()
    }

    /// Returns the position of a domain in the grid of domains.
    pub fn position(&self, domain: usize) -> GridPoints {
        let [x, y, _] = self.domains;
        [domain % x, domain / x % y, domain / (x * y)]
    }

    /// Returns the adjacent domain in the given direction; `None` at the boundary of the grid.
    pub fn neighbour(&self, domain: usize, steps: [isize; 3]) -> Option<usize> {
        let place = self.position(domain);
        let mut number = 0;
        for axis in [2, 1, 0] {
            let at = place[axis].checked_add_signed(steps[axis])?;
            let at = Some(at).filter(|at| *at < self.domains[axis])?;
            number = number * self.domains[axis] + at;
        }
        Some(number)
    }

    /// Returns the number of points of the whole grid in each direction.
    pub fn global(&self) -> GridPoints {
        std::array::from_fn(|axis| self.local[axis] * self.domains[axis])
    }

    /// Returns the layout of a grid that is coarser by `levels` levels.
    pub fn coarser(&self, levels: usize) -> Self {
        Self { local: self.local.map(|points| points >> levels), ..*self }
    }

    /// Returns the number of equations.
    pub fn rows(&self) -> f64 {
        self.global().iter().map(|points| *points as f64).product()
    }

    /// Returns the number of nonzero coefficients.
    pub fn nonzeros(&self) -> f64 {
        self.global().iter().map(|points| 3.0 * *points as f64 - 2.0).product()
    }
}

/// Parts of a set, in the order of [`OperationCounts`] and of the measured times.
pub const PARTS: [&str; 4] = ["ddot", "waxpby", "spmv", "mg"];

/// Numbers of operations that HPCG counts for a set of [`ITERATIONS`], per part in [`PARTS`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperationCounts(pub [f64; PARTS.len()]);

impl OperationCounts {
    /// Returns the operations of a set on this grid, as the reference code counts them. This program performs fewer
    /// operations.
    pub fn from_layout(layout: &DomainLayout) -> Self {
        let iterations = ITERATIONS as f64;
        let rows = layout.rows();
        let vector = (3.0 * iterations + 1.0) * 2.0 * rows;
        let nonzeros: [f64; LEVELS] = std::array::from_fn(|level| layout.coarser(level).nonzeros());
        // A cycle has one symmetric sweep before the residual and one after it; on the coarsest grid, there is only one
        // sweep.
        let fine: f64 = (0..LEVELS - 1).map(|level| 10.0 * nonzeros[level]).sum();
        let mg = iterations * (fine + 4.0 * nonzeros[LEVELS - 1]);
        Self([vector, vector, (iterations + 1.0) * 2.0 * nonzeros[0], mg])
    }

    /// Returns the total number of operations.
    pub fn total(&self) -> f64 {
        self.0.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the counts that xhpcg 3.1 printed for two processes with 32 x 32 x 32 points.
    #[test]
    fn operation_counts_match_xhpcg() {
        let layout = DomainLayout::new([32; 3], 2);
        assert_eq!((layout.domains, layout.rows()), ([2, 1, 1], 65536.0));
        let nonzeros: Vec<f64> =
            (0..LEVELS).map(|level| layout.coarser(level).nonzeros()).collect();
        assert_eq!(nonzeros, [1_678_840.0, 198_904.0, 22_264.0, 2200.0]);
        let printed = [1.97919e7, 1.97919e7, 1.71242e8, 9.50444e8, 1.16127e9];
        let operations = OperationCounts::from_layout(&layout);
        let all = operations.0.into_iter().chain([operations.total()]);
        for (ours, of_xhpcg) in all.zip(printed) {
            assert!((ours / of_xhpcg - 1.0).abs() < 1e-5, "{ours} {of_xhpcg}");
        }
    }

    #[test]
    fn domain_layout_minimises_surface() {
        let of = |count| DomainLayout::new([16; 3], count).domains;
        assert_eq!(
            [1, 2, 4, 6, 8, 12, 7, 128].map(of),
            [
                [1, 1, 1],
                [2, 1, 1],
                [2, 2, 1],
                [3, 2, 1],
                [2, 2, 2],
                [3, 2, 2],
                [7, 1, 1],
                [8, 4, 4]
            ]
        );
        let layout = DomainLayout::new([16; 3], 12);
        for domain in 0..12 {
            for steps in [[1, 0, 0], [-1, 1, 0], [0, -1, 1]] {
                let Some(other) = layout.neighbour(domain, steps) else { continue };
                assert_eq!(layout.neighbour(other, steps.map(|step: isize| -step)), Some(domain));
            }
        }
        assert_eq!(layout.neighbour(0, [-1, 0, 0]), None);
        assert_eq!(layout.neighbour(0, [1, 1, 1]), Some(1 + 3 + 6));
    }
}
