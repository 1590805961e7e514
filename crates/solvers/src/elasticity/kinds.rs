//! Kinds of mesh points. Equal kinds of neighbours show that two mesh points have equal rows.

use std::sync::{Mutex, PoisonError};

/// Kind of a mesh point for which no kind number is left.
pub(super) const UNNUMBERED_KIND: u8 = u8::MAX;
/// Kind of a neighbour that does not exist.
pub(super) const ABSENT_KIND: u8 = UNNUMBERED_KIND - 1;

/// Prescribed components of the displacement of a mesh point, as the bits of `f64`.
type Prescribed = [Option<u64>; 3];

/// Kinds of mesh points. Two mesh points are of the same kind if their prescribed displacements are equal. Threads
/// add kinds when they find them.
#[derive(Debug, Default)]
pub struct PointKinds(Mutex<Vec<Prescribed>>);

impl PointKinds {
    /// Returns the kind finder for one thread.
    pub(super) fn finder(&self) -> KindFinder<'_> {
        KindFinder { all: self, known: Vec::new() }
    }
}

/// Finder of kinds for one thread, with the kinds that the thread has found.
pub(super) struct KindFinder<'a> {
    all: &'a PointKinds,
    known: Vec<Prescribed>,
}

impl KindFinder<'_> {
    /// Returns the kind of a mesh point with these prescribed displacements.
    pub fn find(&mut self, fixed: [Option<f64>; 3]) -> u8 {
        let wanted = fixed.map(|component| component.map(f64::to_bits));
        let mut found = self.known.iter().position(|known| *known == wanted);
        if found.is_none() && self.known.len() < usize::from(ABSENT_KIND) {
            let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
            found = all.iter().position(|known| *known == wanted);
            if found.is_none() && all.len() < usize::from(ABSENT_KIND) {
                found = Some(all.len());
                all.push(wanted);
            }
            self.known.clone_from(&all);
        }
        found.map_or(UNNUMBERED_KIND, |number| number as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mesh_point_kinds_beyond_the_limit_have_no_number() {
        let all = PointKinds::default();
        let mut finders = [all.finder(), all.finder()];
        for number in 0..300 {
            let kind = finders[number % 2].find([Some(number as f64), None, None]);
            assert_eq!(usize::from(kind), if number < 254 { number } else { 255 });
        }
        for finder in &mut finders {
            assert_eq!(finder.find([Some(7.0), None, None]), 7);
            assert_eq!(finder.find([None; 3]), UNNUMBERED_KIND);
        }
    }
}
