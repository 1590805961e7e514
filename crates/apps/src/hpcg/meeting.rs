//! Where domains meet: the points that neighbours have, and sums over all domains in a fixed order.
//!
//! All of it is written twice by turns, so that whoever is ahead writes what nobody reads any more: between
//! two uses of one half everybody has met once.

use super::matrix::Shape;
use super::problem::Layout;
use nodegauge_measure::Failure;
use nodegauge_os::{CacheLine, Mapping};
use nodegauge_team::Member;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a line.
const LINE: usize = size_of::<CacheLine<AtomicU64>>();

/// The 26 directions.
fn directions() -> impl Iterator<Item = [isize; 3]> {
    let of = |n: isize| [n % 3 - 1, n / 3 % 3 - 1, n / 9 - 1];
    (0..27).map(of).filter(|steps| *steps != [0; 3])
}

/// Points of a domain on one side: those next to the neighbour, or those of the neighbour next to it.
fn side(shape: &Shape, steps: [isize; 3], others: bool) -> [Range<isize>; 3] {
    std::array::from_fn(|axis| {
        let points = shape.grid[axis] as isize;
        let beyond = isize::from(others);
        match steps[axis] {
            0 => 0..points,
            1 => points - 1 + beyond..points + beyond,
            _ => -beyond..1 - beyond,
        }
    })
}

/// Memory that the domains share.
#[derive(Debug)]
pub(crate) struct Meeting {
    layout: Layout,
    memory: Mapping,
    /// Numbers that a domain sends at most at once: the sum over its sides.
    sent: usize,
}

impl Meeting {
    /// Memory for these domains.
    ///
    /// # Errors
    /// When the kernel gives none.
    pub fn new(layout: Layout) -> Result<Self, Failure> {
        let [x, y, z] = layout.local.map(|points| points + 2);
        let sent = x * y * z - layout.local.iter().product::<usize>();
        let count = layout.count();
        // A line more tells whether all shall end.
        let memory = Mapping::shared(2 * ((count + 1) * LINE + count * sent * size_of::<f64>()));
        let memory = memory.map_err(|cause| {
            Failure::missing(format!("cannot map memory that domains share: {cause}"))
        })?;
        Ok(Self { layout, memory, sent })
    }

    fn line(&self, half: usize, line: usize) -> &AtomicU64 {
        let at = (half * (self.layout.count() + 1) + line) * LINE;
        &self.memory.view::<CacheLine<AtomicU64>>(at).0
    }

    /// Where a domain puts what it sends in one direction.
    fn buffer(&self, half: usize, domain: usize, shape: &Shape, steps: [isize; 3]) -> *mut f64 {
        let count = self.layout.count();
        let size = |steps: [isize; 3]| -> usize {
            side(shape, steps, false).iter().map(|range| range.len()).product()
        };
        let before: usize = directions().take_while(|other| *other != steps).map(size).sum();
        let lines = 2 * (count + 1) * LINE;
        let at = lines + ((half * count + domain) * self.sent + before) * size_of::<f64>();
        self.memory.at(at, size(steps) * size_of::<f64>()).as_ptr().cast()
    }
}

/// A domain's way to the others.
pub(crate) struct Place<'a> {
    meeting: &'a Meeting,
    member: &'a Member<'a>,
    /// Meetings so far.
    exchanges: Cell<usize>,
    sums: Cell<usize>,
}

impl<'a> Place<'a> {
    /// Of the domain of a member; all members take theirs together, and use it alike.
    pub fn new(meeting: &'a Meeting, member: &'a Member<'a>) -> Self {
        member.barrier();
        Self { meeting, member, exchanges: Cell::new(0), sums: Cell::new(0) }
    }

    /// Brings the points of neighbours around those of `vector`.
    ///
    /// # Safety
    /// `vector` is of this shape, and this thread's alone.
    pub unsafe fn exchange(&self, shape: &Shape, vector: *mut f64) {
        let (meeting, domain) = (self.meeting, self.member.index);
        let neighbours = || {
            directions().filter_map(|steps| {
                meeting.layout.beside(domain, steps).map(|other| (steps, other))
            })
        };
        if neighbours().next().is_none() {
            return;
        }
        let half = self.exchanges.replace(self.exchanges.get() + 1) % 2;
        for (steps, _) in neighbours() {
            let buffer = meeting.buffer(half, domain, shape, steps);
            // SAFETY: the part of the buffer is this domain's, and is read behind the barrier alone.
            unsafe {
                copy(shape, &side(shape, steps, false), |at, n| {
                    buffer.add(n).write(*vector.add(at))
                })
            };
        }
        self.member.barrier();
        for (steps, other) in neighbours() {
            let buffer = meeting.buffer(half, other, shape, steps.map(|step| -step));
            // SAFETY: the other has written it before the barrier; sides of neighbours are alike.
            unsafe {
                copy(shape, &side(shape, steps, true), |at, n| vector.add(at).write(*buffer.add(n)))
            };
        }
    }

    /// The sum of `x` over all domains, the same for each; and whether rank 0 says in `end` that all shall
    /// end.
    pub fn sum(&self, x: f64, end: bool) -> (f64, bool) {
        let (meeting, count) = (self.meeting, self.member.count);
        let half = self.sums.replace(self.sums.get() + 1) % 2;
        meeting.line(half, self.member.index).store(x.to_bits(), Ordering::Relaxed);
        if self.member.index == 0 {
            meeting.line(half, count).store(end.into(), Ordering::Relaxed);
        }
        self.member.barrier();
        let read = |line| meeting.line(half, line).load(Ordering::Relaxed);
        ((0..count).map(|domain| f64::from_bits(read(domain))).sum(), read(count) != 0)
    }
}

/// Calls `each` with the place of every point of a side, and its number.
#[inline]
unsafe fn copy(shape: &Shape, [x, y, z]: &[Range<isize>; 3], mut each: impl FnMut(usize, usize)) {
    let mut number = 0;
    for z in z.clone() {
        for y in y.clone() {
            let first = shape.at([x.start, y, z]);
            for at in first..first + x.len() {
                each(at, number);
                number += 1;
            }
        }
    }
}
