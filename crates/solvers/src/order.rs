//! Order in which unknowns are eliminated, and distribution of the unknowns over threads. Mesh points of the same
//! colour are not coupled. Rows are numbered by thread, then by colour, then in sequence, so that the rows of a
//! thread are contiguous.
//!
//! Elimination by levels of dependence gives the same result as elimination in the sequence of reverse
//! Cuthill-McKee, but all mesh points of a level are eliminated simultaneously. With cyclic colours of levels (T.
//! Washio, S. Doi et al., CM-RCM, as in K. Nakajima, parallel iterative solvers for finite elements), there are
//! fewer steps, but the solver needs more iterations.

use crate::array::share_range;
use crate::elasticity::Subdomain;
use std::collections::VecDeque;
use std::ops::Range;

/// Number of colours among which [`EliminationOrder::CyclicLevels`] distributes the levels. With fewer colours, there
/// are fewer barriers and more iterations; the literature uses 10 to 20.
const CYCLE: usize = 20;

/// Order in which the unknowns are eliminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EliminationOrder {
    /// Numbering of the mesh points (x varies fastest). Each thread eliminates its own mesh points in this order.
    Domain,
    /// Numbering of the mesh points, by levels of dependence.
    Natural,
    /// Greedy colouring in the numbering of the mesh points: each mesh point gets the first colour that none of its
    /// neighbours has.
    Multicolour,
    /// Reverse Cuthill-McKee, by levels of dependence.
    Levels,
    /// Levels of Cuthill-McKee, distributed cyclically over a few colours.
    CyclicLevels,
}

#[cfg(test)]
impl EliminationOrder {
    /// All orders of elimination.
    pub(crate) const ALL: [Self; 5] =
        [Self::Domain, Self::Natural, Self::Multicolour, Self::Levels, Self::CyclicLevels];
}

/// Numbering of the rows of a rank.
#[derive(Debug)]
pub struct Numbering {
    /// Local number of the mesh point of each row. Owned rows come first, then rows of neighbouring ranks.
    pub nodes: Vec<u32>,
    /// Row of each mesh point, by local number.
    pub rows: Vec<u32>,
    /// Colour of each owned row.
    pub colours: Vec<u32>,
    /// Ranges of rows, by thread and then by colour.
    stages: Vec<Vec<Range<usize>>>,
}

/// Placeholder for a mesh point without a colour, level or row.
const NONE: u32 = u32::MAX;

impl Numbering {
    /// Numbers the mesh points of a subdomain for `threads` threads.
    pub fn new(subdomain: &Subdomain, order: EliminationOrder, threads: usize) -> Self {
        let known = subdomain.known_point_count();
        let natural: Vec<u32> = subdomain.owned_points().map(|local| local as u32).collect();
        let (sequence, colour_of) = match order {
            EliminationOrder::Domain => (natural, vec![0; known]),
            EliminationOrder::Natural => {
                let levels = levels(subdomain, &natural);
                (natural, levels)
            }
            EliminationOrder::Multicolour => {
                let colours = colour_points(subdomain, &natural, |_, used| first_free(used, 0, 64));
                (natural, colours)
            }
            EliminationOrder::Levels | EliminationOrder::CyclicLevels => {
                let sequence = reverse_cuthill_mckee(subdomain, &natural);
                let levels = levels(subdomain, &sequence);
                match order {
                    EliminationOrder::Levels => (sequence, levels),
                    _ => {
                        let turn =
                            |node: usize, used| first_free(used, levels[node] as usize, CYCLE);
                        let colours = colour_points(subdomain, &sequence, turn);
                        (sequence, colours)
                    }
                }
            }
        };
        Self::from_sequence(subdomain, &sequence, &colour_of, threads)
    }

    /// Numbers rows by thread, colour and sequence. The mesh points of each colour are divided evenly among the
    /// threads.
    pub(crate) fn from_sequence(
        subdomain: &Subdomain,
        sequence: &[u32],
        colour_of: &[u32],
        threads: usize,
    ) -> Self {
        let count = sequence.iter().map(|node| colour_of[*node as usize] + 1).max().unwrap_or(0);
        let mut by_colour = vec![Vec::new(); count as usize];
        for node in sequence {
            by_colour[colour_of[*node as usize] as usize].push(*node);
        }
        let mut nodes = Vec::new();
        let mut colours = Vec::new();
        let mut stages = Vec::new();
        for thread in 0..threads {
            let mut of_thread = Vec::with_capacity(by_colour.len());
            for (colour, members) in by_colour.iter().enumerate() {
                let first = nodes.len();
                nodes.extend_from_slice(&members[share_range(members.len(), thread, threads)]);
                colours.resize(nodes.len(), colour as u32);
                of_thread.push(first..nodes.len());
            }
            stages.push(of_thread);
        }
        nodes.extend(subdomain.other_points().map(|local| local as u32));
        let mut rows = vec![NONE; nodes.len()];
        nodes.iter().enumerate().for_each(|(row, node)| rows[*node as usize] = row as u32);
        Self { nodes, rows, colours, stages }
    }

    /// Returns the number of rows that the rank owns.
    pub fn owned_count(&self) -> usize {
        self.colours.len()
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.stages.len()
    }

    /// Returns the number of colours.
    pub fn colour_count(&self) -> usize {
        self.stages.first().map_or(0, Vec::len)
    }

    /// Returns the rows of a thread.
    pub fn thread_rows(&self, thread: usize) -> Range<usize> {
        let stages = &self.stages[thread];
        stages.first().map_or(0, |stage| stage.start)..stages.last().map_or(0, |stage| stage.end)
    }

    /// Returns the rows of a thread, one range per colour.
    pub fn stages(&self, thread: usize) -> &[Range<usize>] {
        &self.stages[thread]
    }
}

/// Returns the number of an unused colour. `used` is the set of used colours, with one bit per colour. The first
/// `cycle` colours are searched cyclically, beginning at `first`; if all of them are used, the first unused colour
/// after them is returned. A mesh point has 26 neighbours, so 27 colours always suffice.
fn first_free(used: u64, first: usize, cycle: usize) -> u32 {
    let turns = (0..cycle).map(|step| (first + step) % cycle);
    let free = turns.chain(cycle..64).find(|colour| used >> colour & 1 == 0);
    free.unwrap_or(0) as u32
}

/// Colours the mesh points in sequence. `choose` returns the colour of a mesh point; its arguments are the local number
/// of the mesh point and the set of its neighbours' colours.
fn colour_points(
    subdomain: &Subdomain,
    sequence: &[u32],
    choose: impl Fn(usize, u64) -> u32,
) -> Vec<u32> {
    let mut colours = vec![NONE; subdomain.known_point_count()];
    for node in sequence {
        let mut used = 0;
        subdomain.visit_owned_neighbours(*node as usize, |other| {
            if colours[other] != NONE {
                used |= 1 << colours[other];
            }
        });
        colours[*node as usize] = choose(*node as usize, used);
    }
    colours
}

/// Returns the level of each mesh point: one more than the highest level of its neighbours that precede it in the
/// sequence.
fn levels(subdomain: &Subdomain, sequence: &[u32]) -> Vec<u32> {
    let mut levels = vec![NONE; subdomain.known_point_count()];
    for node in sequence {
        let mut level = 0;
        subdomain.visit_owned_neighbours(*node as usize, |other| {
            if levels[other] != NONE {
                level = level.max(levels[other] + 1);
            }
        });
        levels[*node as usize] = level;
    }
    levels
}

/// Returns the mesh points in the order of E. Cuthill and J. McKee (1969), beginning at the first corner, reversed.
fn reverse_cuthill_mckee(subdomain: &Subdomain, natural: &[u32]) -> Vec<u32> {
    let mut found = vec![false; subdomain.known_point_count()];
    let mut queue = VecDeque::new();
    let mut sequence = Vec::with_capacity(natural.len());
    let mut next = Vec::new();
    // The owned box is connected, so one start point reaches all mesh points.
    if let Some(start) = natural.first() {
        found[*start as usize] = true;
        queue.push_back(*start);
    }
    while let Some(node) = queue.pop_front() {
        sequence.push(node);
        next.clear();
        subdomain.visit_owned_neighbours(node as usize, |other| {
            if !found[other] {
                next.push((subdomain.owned_neighbour_count(subdomain.node(other)), other));
            }
        });
        next.sort_unstable();
        for (_, other) in &next {
            found[*other] = true;
            queue.push_back(*other as u32);
        }
    }
    sequence.reverse();
    sequence
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elasticity::Mesh;

    /// Returns the local numbers of the owned neighbours of a mesh point.
    fn neighbours(subdomain: &Subdomain, local: usize) -> std::vec::IntoIter<usize> {
        let mut all = Vec::new();
        subdomain.visit_owned_neighbours(local, |other| all.push(other));
        all.into_iter()
    }

    #[test]
    fn mesh_points_of_equal_colour_are_not_coupled() {
        let part = Subdomain::for_rank(Mesh { elements: [9, 6, 12] }, 1, [1, 1, 2]).unwrap();
        let owned: Vec<usize> = part.owned_points().collect();
        for order in EliminationOrder::ALL {
            for threads in [1, 3] {
                let numbering = Numbering::new(&part, order, threads);
                assert_eq!((numbering.owned_count(), numbering.threads()), (owned.len(), threads));
                let mut nodes = numbering.nodes.clone();
                nodes.sort_unstable();
                assert!(nodes.iter().enumerate().all(|(i, node)| i == *node as usize));
                let mut end = 0;
                for thread in 0..threads {
                    assert_eq!(numbering.thread_rows(thread).start, end, "{order:?}");
                    for (colour, stage) in numbering.stages(thread).iter().enumerate() {
                        assert_eq!(stage.start, end);
                        end = stage.end;
                        assert!(
                            numbering.colours[stage.clone()].iter().all(|c| *c == colour as u32)
                        );
                    }
                }
                assert_eq!(end, owned.len());
                let colour = |local: usize| numbering.colours[numbering.rows[local] as usize];
                let couple = |local: &usize| {
                    neighbours(&part, *local).any(|other| colour(other) == colour(*local))
                };
                assert_eq!(
                    owned.iter().any(couple),
                    order == EliminationOrder::Domain,
                    "{order:?}"
                );
            }
        }
    }

    #[test]
    fn hexahedra_need_eight_colours() {
        let whole = Subdomain::whole_mesh(Mesh { elements: [7, 5, 6] });
        let colours = |order| Numbering::new(&whole, order, 2).colour_count();
        assert_eq!(colours(EliminationOrder::Multicolour), 8);
        assert_eq!(colours(EliminationOrder::Domain), 1);
        // The level of a mesh point is x + 2 y + 4 z.
        assert_eq!(colours(EliminationOrder::Natural), 7 + 2 * 5 + 4 * 6 + 1);
        assert!((8..=27).contains(&colours(EliminationOrder::CyclicLevels)));
        let natural: Vec<u32> = (0..whole.mesh.point_count() as u32).collect();
        let sequence = reverse_cuthill_mckee(&whole, &natural);
        assert_eq!((sequence.len(), sequence.last()), (natural.len(), Some(&0)));
        let levels = levels(&whole, &sequence);
        let mut place = vec![0; natural.len()];
        sequence.iter().enumerate().for_each(|(at, node)| place[*node as usize] = at);
        for node in natural {
            for other in neighbours(&whole, node as usize) {
                let earlier = place[other] < place[node as usize];
                assert_eq!(levels[other] < levels[node as usize], earlier);
            }
        }
    }
}
