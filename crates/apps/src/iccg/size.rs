//! Size of the mesh: STREAM's rule applied to the matrix, limited by the available memory.

use crate::{GAUGE, TIMES_LLC};
use nodegauge_gauge::MeasuredNode;
use nodegauge_machine::CpuId;
use nodegauge_measure::{Bytes, Failure, Fraction, Notice, NoticeId};
use nodegauge_solvers::elasticity::Mesh;

/// Size of a stored block including the column index, in bytes.
const STORED_BLOCK: u64 = 76;
/// Size of the matrix if no cache size is known.
const UNKNOWN_CACHE: Bytes = Bytes::mib(512);
/// Memory needed per byte of the matrix: the matrix in both storage formats (while one of them is chosen), and the
/// factorisation.
const COPIES: f64 = 3.1;
/// Memory needed per mesh point, bytes: vectors, right-hand side, diagonal and numbering.
const BYTES_PER_POINT: u64 = 6 * 24 + 72 + 32;

/// Chosen mesh, and the size of the matrix relative to the caches.
#[derive(Debug, Clone, PartialEq)]
pub struct MeshSize {
    /// Chosen mesh.
    pub mesh: Mesh,
    /// Size of the matrix.
    pub matrix: Bytes,
    /// Size of the matrix divided by the sum of the last-level caches in use; `None` if it is unknown.
    pub times_llc: Option<f64>,
    /// Notices about reduced or assumed values.
    pub notices: Vec<Notice>,
}

/// Returns the size of the matrix of a mesh.
pub fn matrix_bytes(mesh: Mesh) -> Bytes {
    Bytes(mesh.block_count() as u64 * STORED_BLOCK)
}

/// Returns the memory that a solve needs.
pub fn needed_memory(mesh: Mesh) -> Bytes {
    Bytes(
        (matrix_bytes(mesh).as_f64() * COPIES) as u64 + mesh.point_count() as u64 * BYTES_PER_POINT,
    )
}

/// Properties of the machine that determine the mesh.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeshConstraints {
    /// Total size of the last-level caches in use, measured or otherwise reported; `None` if unknown.
    pub llc: Option<Bytes>,
    /// Memory that may be used; `None` if it is unknown.
    pub allowed_memory: Option<Bytes>,
}

impl MeshConstraints {
    /// Returns the constraints for the CPUs in use; `fraction` is the share of the available memory that may be used.
    pub fn from_site(site: &MeasuredNode, cpus: &[CpuId], fraction: Fraction) -> Self {
        let available = site.machine.memory.available;
        Self {
            llc: site.cache_capacity(cpus).bytes(),
            allowed_memory: available.map(|bytes| Bytes((bytes as f64 * fraction.0) as u64)),
        }
    }
}

/// Returns the number of elements along an edge of the largest cube whose solve needs at most `max` of memory.
fn largest(max: Bytes) -> usize {
    cube(|mesh| needed_memory(mesh).0 > max.0).saturating_sub(1)
}

/// Returns the number of elements along an edge of the smallest cube for which `enough` returns true.
fn cube(enough: impl Fn(Mesh) -> bool) -> usize {
    let mut high = 1;
    while !enough(Mesh { elements: [high; 3] }) && high < MAX_ELEMENTS {
        high *= 2;
    }
    let mut low = high / 2;
    while low + 1 < high {
        let middle = (low + high) / 2;
        if enough(Mesh { elements: [middle; 3] }) { high = middle } else { low = middle }
    }
    high
}

/// Maximum number of elements along an axis; larger meshes do not fit into any memory.
const MAX_ELEMENTS: usize = 1 << 20;
/// Maximum number of mesh points. Vector components have 32-bit indices, three per mesh point.
const MAX_NODES: usize = (u32::MAX / 3) as usize;

/// Returns the requested mesh, otherwise a cube whose size follows the size rule.
///
/// # Errors
/// Fails if the mesh has no elements along an axis or does not fit into memory.
pub fn choose(
    elements: Option<[usize; 3]>,
    constraints: &MeshConstraints,
) -> Result<MeshSize, Failure> {
    let mut notices = Vec::new();
    let mesh = match elements {
        Some(elements) => given(elements, constraints)?,
        None => {
            let min = constraints.llc.map(|llc| llc.as_f64() * TIMES_LLC);
            let min = match min {
                Some(min) => min,
                None => {
                    let text = format!(
                        "the size of the last-level cache is unknown: using a matrix of {UNKNOWN_CACHE}"
                    );
                    notices.push(Notice::new(NoticeId::Assumed, GAUGE, text));
                    UNKNOWN_CACHE.as_f64()
                }
            };
            let mut edge = cube(|mesh| matrix_bytes(mesh).as_f64() >= min);
            if let Some(allowed) = constraints.allowed_memory
                && needed_memory(Mesh { elements: [edge; 3] }).0 > allowed.0
            {
                let wanted = matrix_bytes(Mesh { elements: [edge; 3] });
                edge = largest(allowed).max(1);
                let cut = matrix_bytes(Mesh { elements: [edge; 3] });
                let text = format!(
                    "the matrix is reduced from {wanted} to {cut}: only {allowed} of memory may be used"
                );
                notices.push(Notice::new(NoticeId::Clamped, GAUGE, text));
            }
            Mesh { elements: [edge; 3] }
        }
    };
    let matrix = matrix_bytes(mesh);
    let times_llc = constraints.llc.map(|llc| matrix.as_f64() / llc.as_f64());
    Ok(MeshSize { mesh, matrix, times_llc, notices })
}

/// Returns the cube with half the matrix size; `None` if the caches are unknown, or if the size rule forbids the
/// smaller matrix.
pub fn half_size(size: &MeshSize, constraints: &MeshConstraints) -> Option<MeshSize> {
    let llc = constraints.llc?.as_f64();
    let wanted = size.matrix.as_f64() / 2.0;
    let edge = cube(|mesh| matrix_bytes(mesh).as_f64() >= wanted);
    let mesh = Mesh { elements: [edge; 3] };
    let matrix = matrix_bytes(mesh);
    let is_enough = matrix.as_f64() >= TIMES_LLC * llc && matrix < size.matrix;
    let times_llc = Some(matrix.as_f64() / llc);
    is_enough.then(|| MeshSize { mesh, matrix, times_llc, notices: Vec::new() })
}

/// Returns the requested mesh if it is valid.
fn given(elements: [usize; 3], constraints: &MeshConstraints) -> Result<Mesh, Failure> {
    let shown = elements.map(|n| n.to_string()).join(",");
    if elements.contains(&0) {
        return Err(Failure::usage(format!(
            "invalid mesh of {shown} elements: expected at least one element along each axis"
        ))
        .hint("e.g. --elements 60,60,60"));
    }
    let mesh = Mesh { elements };
    let countable = elements.iter().all(|n| *n <= MAX_ELEMENTS) && mesh.point_count() <= MAX_NODES;
    let max = Bytes(u64::MAX);
    let allowed = constraints.allowed_memory.unwrap_or(max);
    if countable && needed_memory(mesh).0 <= allowed.0 {
        return Ok(mesh);
    }
    let edge = largest(allowed).min(1000);
    let (needs, hint) = if countable {
        (format!("needs {}", needed_memory(mesh)), format!("--elements {edge},{edge},{edge} fits"))
    } else {
        (
            "has more points than 32-bit indices allow".to_owned(),
            format!("e.g. --elements {edge},{edge},{edge}"),
        )
    };
    let allowed_memory = match constraints.allowed_memory {
        Some(limit) if countable => format!(", but only {limit} of memory may be used"),
        _ => String::new(),
    };
    Err(Failure::missing(format!("a mesh of {shown} elements {needs}{allowed_memory}")).hint(hint))
}

impl MeshSize {
    /// Returns the reason why the figures are suspect if caches hold part of the matrix.
    pub fn doubt(&self) -> Option<String> {
        let times = self.times_llc.filter(|times| *times < 0.999 * TIMES_LLC)?;
        Some(format!(
            "the matrix of {} is {times:.2} times the size of the last-level caches, below the minimum of {TIMES_LLC}: caches hold part of it",
            self.matrix
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constraints(llc_mib: u64, allowed_mib: u64) -> MeshConstraints {
        MeshConstraints {
            llc: Some(Bytes::mib(llc_mib)),
            allowed_memory: Some(Bytes::mib(allowed_mib)),
        }
    }

    #[test]
    fn default_mesh_is_four_times_the_caches() {
        let size = choose(None, &constraints(32, 64_000)).unwrap();
        let less = Mesh { elements: size.mesh.elements.map(|n| n - 1) };
        assert!(size.matrix.0 >= 128 << 20 && matrix_bytes(less).0 < 128 << 20);
        assert_eq!((size.doubt(), size.notices.len()), (None, 0));
        let unknown =
            choose(None, &MeshConstraints { llc: None, ..constraints(1, 64_000) }).unwrap();
        assert!(unknown.matrix.0 >= UNKNOWN_CACHE.0);
        assert_eq!(unknown.notices[0].id, NoticeId::Assumed);
    }

    #[test]
    fn little_memory_reduces_default_mesh_and_refuses_larger_ones() {
        let cut = choose(None, &constraints(32, 200)).unwrap();
        assert_eq!(cut.notices[0].id, NoticeId::Clamped);
        assert!(cut.doubt().unwrap().contains("below the minimum of"));
        let error = choose(Some([100, 100, 100]), &constraints(32, 200)).unwrap_err().to_string();
        let edge = cut.mesh.elements[0];
        assert!(error.contains("but only 200 MiB of memory may be used"), "{error}");
        assert!(error.ends_with(&format!("--elements {edge},{edge},{edge} fits")), "{error}");
        assert_eq!(choose(Some([edge; 3]), &constraints(32, 200)).unwrap().mesh, cut.mesh);
        for wrong in [[0, 4, 4], [usize::MAX, 2, 2], [1 << 20, 1 << 20, 1 << 20]] {
            assert!(choose(Some(wrong), &constraints(32, 200)).is_err());
        }
    }
}
