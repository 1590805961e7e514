//! Hexahedral element with eight nodes and trilinear displacements, integrated with 2 x 2 x 2 Gauss points (T. J. R.
//! Hughes, The Finite Element Method, 1987, sections 3.9 and 3.10).
//!
//! Corner `b` is at the reference coordinates (+-1, +-1, +-1). The bits of `b` give the signs, x in the lowest bit; a
//! set bit means +1.

/// Number of corners of an element.
pub const CORNERS: usize = 8;

/// Elastic constants of an isotropic material.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Material {
    /// Young's modulus, in any unit of pressure.
    pub young: f64,
    /// Poisson's ratio, above -1 and below 0.5.
    pub poisson: f64,
}

impl Material {
    /// Returns Lame's constants lambda and mu.
    pub fn lame(&self) -> (f64, f64) {
        let Self { young, poisson } = *self;
        let mu = young / (2.0 * (1.0 + poisson));
        (2.0 * mu * poisson / (1.0 - 2.0 * poisson), mu)
    }
}

/// Block of three rows and columns, stored by rows.
pub type Block3x3 = [[f64; 3]; 3];

/// Stiffness matrix of an element; `[a][b]` is the block that couples corners `a` and `b`.
pub type Stiffness = [[Block3x3; CORNERS]; CORNERS];

/// Error of a degenerate element: its volume at a Gauss point is not positive, or is NaN.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("degenerate element: the determinant of its Jacobian is {determinant} at a Gauss point")]
pub struct DegenerateElement {
    /// Determinant of the Jacobian at the Gauss point.
    pub determinant: f64,
}

/// Minimum determinant of the Jacobian, divided by the determinant for a cube with the longest edge of the element.
/// Below it, the inverse has no correct digits.
const MIN_DETERMINANT: f64 = 1e-14;

/// Gauss point of an element.
#[derive(Debug, Clone, Copy)]
pub struct GaussPoint {
    /// Values of the shape functions.
    pub shapes: [f64; CORNERS],
    /// Gradients of the shape functions.
    pub gradients: [[f64; 3]; CORNERS],
    /// Integration weight of the point, in units of volume.
    pub weight: f64,
}

/// Returns the largest extent of an element along any axis.
fn longest_edge(corners: &[[f64; 3]; CORNERS]) -> f64 {
    let mut longest = 0.0_f64;
    for corner in corners {
        for (x, origin) in corner.iter().zip(&corners[0]) {
            longest = longest.max((x - origin).abs());
        }
    }
    longest
}

/// Returns the Gauss points of the element with these corners.
///
/// # Errors
/// Fails if the element is degenerate.
pub fn gauss_points(
    corners: &[[f64; 3]; CORNERS],
) -> Result<[GaussPoint; CORNERS], DegenerateElement> {
    let cube = longest_edge(corners).powi(3) / 8.0;
    let mut points =
        [GaussPoint { shapes: [0.0; 8], gradients: [[0.0; 3]; 8], weight: 0.0 }; CORNERS];
    for (number, point) in points.iter_mut().enumerate() {
        let at: [f64; 3] = std::array::from_fn(|axis| sign(number, axis) / 3.0_f64.sqrt());
        let (shapes, slopes) = reference(at);
        let mut jacobian = [[0.0; 3]; 3];
        for (corner, slope) in corners.iter().zip(&slopes) {
            for (row, x) in jacobian.iter_mut().zip(corner) {
                row.iter_mut().zip(slope).for_each(|(j, slope)| *j += x * slope);
            }
        }
        let (inverse, determinant) = invert(&jacobian);
        if determinant <= MIN_DETERMINANT * cube || !(determinant.is_finite() && cube.is_finite()) {
            return Err(DegenerateElement { determinant });
        }
        let gradients = slopes.map(|slope| {
            std::array::from_fn(|axis| (0..3).map(|k| slope[k] * inverse[k][axis]).sum())
        });
        *point = GaussPoint { shapes, gradients, weight: determinant };
    }
    Ok(points)
}

/// Returns the stiffness of the element with these corners.
///
/// # Errors
/// Fails if the element is degenerate.
pub fn stiffness(
    corners: &[[f64; 3]; CORNERS],
    material: Material,
) -> Result<Stiffness, DegenerateElement> {
    let (lambda, mu) = material.lame();
    let mut stiffness = [[[[0.0; 3]; 3]; CORNERS]; CORNERS];
    for point in gauss_points(corners)? {
        for (a, row) in point.gradients.iter().zip(&mut stiffness) {
            for (b, block) in point.gradients.iter().zip(row) {
                let dot: f64 = (0..3).map(|k| a[k] * b[k]).sum();
                for i in 0..3 {
                    for j in 0..3 {
                        block[i][j] += point.weight * (lambda * a[i] * b[j] + mu * a[j] * b[i]);
                    }
                    block[i][i] += point.weight * mu * dot;
                }
            }
        }
    }
    Ok(stiffness)
}

/// Returns the sign of the reference coordinate of a corner along an axis.
fn sign(corner: usize, axis: usize) -> f64 {
    if corner >> axis & 1 == 1 { 1.0 } else { -1.0 }
}

/// Returns the shape functions and their derivatives at a point of the reference cube.
fn reference(at: [f64; 3]) -> ([f64; CORNERS], [[f64; 3]; CORNERS]) {
    let factor = |corner, axis: usize| 0.5 * (1.0 + sign(corner, axis) * at[axis]);
    let shapes = std::array::from_fn(|corner| (0..3).map(|axis| factor(corner, axis)).product());
    let slopes = std::array::from_fn(|corner| {
        std::array::from_fn(|along| {
            let others = (0..3).filter(|axis| *axis != along);
            0.5 * sign(corner, along) * others.map(|axis| factor(corner, axis)).product::<f64>()
        })
    });
    (shapes, slopes)
}

/// Returns the inverse of a block and its determinant.
#[inline(always)]
pub fn invert(a: &Block3x3) -> (Block3x3, f64) {
    let minor = |i: usize, j: usize| {
        let r = (i + 1) % 3;
        let s = (i + 2) % 3;
        let t = (j + 1) % 3;
        let u = (j + 2) % 3;
        a[r][t] * a[s][u] - a[r][u] * a[s][t]
    };
    let determinant = (0..3).map(|j| a[0][j] * minor(0, j)).sum::<f64>();
    (std::array::from_fn(|i| std::array::from_fn(|j| minor(j, i) / determinant)), determinant)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEEL: Material = Material { young: 210e9, poisson: 0.3 };

    /// Returns a box whose corners are displaced by up to a fifth of an edge.
    fn distorted() -> [[f64; 3]; CORNERS] {
        let moved = |corner: usize, axis: usize| ((corner * 7 + axis * 5) % 11) as f64 / 55.0;
        std::array::from_fn(|corner| {
            std::array::from_fn(|axis| {
                ((corner >> axis & 1) as f64 + moved(corner, axis)) * (axis + 1) as f64
            })
        })
    }

    /// Returns the largest force component on the corners of an element for the given displacements.
    fn forces(stiffness: &Stiffness, u: &dyn Fn([f64; 3]) -> [f64; 3]) -> f64 {
        let u = distorted().map(u);
        let force = |a: usize, i: usize| -> f64 {
            let of = |b: usize| (0..3).map(move |j| (b, j));
            (0..CORNERS).flat_map(of).map(|(b, j)| stiffness[a][b][i][j] * u[b][j]).sum()
        };
        let all = (0..CORNERS).flat_map(|a| (0..3).map(move |i| (a, i)));
        all.map(|(a, i)| force(a, i).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn element_stiffness_is_symmetric_and_ignores_rigid_motion() {
        let stiffness = stiffness(&distorted(), STEEL).unwrap();
        let scale = stiffness[0][0][0][0];
        for (a, row) in stiffness.iter().enumerate() {
            for (b, block) in row.iter().enumerate() {
                for i in 0..3 {
                    for j in 0..3 {
                        let other = stiffness[b][a][j][i];
                        assert!((block[i][j] - other).abs() < 1e-14 * scale, "{a} {b}");
                    }
                }
            }
        }
        for axis in 0..3 {
            let moved = forces(&stiffness, &|_| std::array::from_fn(|i| f64::from(i == axis)));
            let turned = forces(&stiffness, &|x| {
                let mut u = [0.0; 3];
                (u[(axis + 1) % 3], u[(axis + 2) % 3]) = (-x[(axis + 2) % 3], x[(axis + 1) % 3]);
                u
            });
            assert!(moved < 1e-13 * scale && turned < 1e-12 * scale, "{axis}: {moved} {turned}");
        }
        // Only rigid-body movements cause no forces; stretching causes forces.
        assert!(forces(&stiffness, &|x| [x[0], 0.0, 0.0]) > 0.1 * scale);
        assert!(forces(&stiffness, &|x| [x[1], x[0], 0.0]) > 0.1 * scale);
    }

    #[test]
    fn gauss_point_weights_sum_to_volume() {
        let points = gauss_points(&distorted()).unwrap();
        for point in &points {
            assert!((point.shapes.iter().sum::<f64>() - 1.0).abs() < 1e-14);
            for axis in 0..3 {
                assert!(point.gradients.iter().map(|g| g[axis]).sum::<f64>().abs() < 1e-13);
            }
        }
        let cuboid = std::array::from_fn(|corner| {
            std::array::from_fn(|axis| (corner >> axis & 1) as f64 * (axis + 2) as f64)
        });
        let volume: f64 = gauss_points(&cuboid).unwrap().iter().map(|p| p.weight).sum();
        assert!((volume - 24.0).abs() < 1e-12);
    }

    #[test]
    fn degenerate_elements_are_refused() {
        let good = distorted();
        let flat = good.map(|corner| [corner[0], corner[1], 1.0]);
        let mut inverted = good;
        inverted.swap(0, 1);
        inverted.swap(2, 3);
        let mut odd = good;
        odd[5][1] = f64::NAN;
        let mut far = good;
        far[5][1] = f64::INFINITY;
        let mut collapsed = good;
        collapsed[1..].fill(good[0]);
        for corners in [flat, inverted, odd, far, collapsed] {
            let error = stiffness(&corners, STEEL).unwrap_err();
            assert!(error.to_string().starts_with("degenerate element"), "{error}");
        }
    }
}
