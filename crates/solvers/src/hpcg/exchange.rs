//! Communication between domains: exchange of boundary points, and sums over all domains in a fixed order.
//!
//! Two sets of buffers are used in turn, as for the partial sums in `sums`.

use super::matrix::VectorShape;
use super::problem::DomainLayout;
use crate::sums::{SharedSums, Sums};
use nodegauge_measure::Failure;
use nodegauge_os::Mapping;
use nodegauge_team::Member;
use std::cell::Cell;
use std::ops::Range;

/// Returns the 26 directions to neighbouring domains.
fn directions() -> impl Iterator<Item = [isize; 3]> {
    let all = (0..27).map(|n: isize| [n % 3 - 1, n / 3 % 3 - 1, n / 9 - 1]);
    all.filter(|steps| *steps != [0; 3])
}

/// Returns the points at one face, edge or corner of a domain. If `others` is true, they are the adjacent points of the
/// neighbouring domain; otherwise they belong to the domain itself.
fn side(shape: &VectorShape, steps: [isize; 3], others: bool) -> [Range<isize>; 3] {
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

/// Returns the number of points at one face, edge or corner of a domain.
fn side_size(shape: &VectorShape, steps: [isize; 3]) -> usize {
    side(shape, steps, false).iter().map(|range| range.len()).product()
}

/// Memory that all domains share.
#[derive(Debug)]
pub struct DomainExchange {
    layout: DomainLayout,
    sums: SharedSums,
    memory: Mapping,
    /// Maximum number of values that a domain sends per exchange, in all directions together.
    sent: usize,
}

impl DomainExchange {
    /// Maps the shared memory for these domains.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped.
    pub fn new(layout: DomainLayout) -> Result<Self, Failure> {
        let [x, y, z] = layout.local.map(|points| points + 2);
        let sent = x * y * z - layout.local.iter().product::<usize>();
        let count = layout.count();
        let memory = Mapping::shared(2 * count * sent * size_of::<f64>());
        let memory = memory.map_err(|cause| {
            Failure::missing(format!("cannot map memory that the domains share: {cause}"))
        })?;
        Ok(Self { layout, sums: SharedSums::allocate(count)?, memory, sent })
    }

    /// Returns the buffer for the points that a domain sends in one direction.
    fn buffer(
        &self,
        half: usize,
        domain: usize,
        shape: &VectorShape,
        steps: [isize; 3],
    ) -> *mut f64 {
        let count = self.layout.count();
        let others = directions().take_while(|other| *other != steps);
        let before: usize = others.map(|other| side_size(shape, other)).sum();
        let at = ((half * count + domain) * self.sent + before) * size_of::<f64>();
        self.memory.at(at, side_size(shape, steps) * size_of::<f64>()).as_ptr().cast()
    }
}

/// Access of one domain to the exchange.
pub(crate) struct DomainExchangePoint<'a> {
    exchange: &'a DomainExchange,
    member: &'a Member<'a>,
    sums: Sums<'a>,
    /// Number of exchanges so far.
    exchanges: Cell<usize>,
}

impl<'a> DomainExchangePoint<'a> {
    /// Creates the access of a member's domain. All members must call this function together, and must then make the
    /// same sequence of calls.
    pub fn new(exchange: &'a DomainExchange, member: &'a Member<'a>) -> Self {
        member.barrier();
        let sums = exchange.sums.worker_access(member.index);
        Self { exchange, member, sums, exchanges: Cell::new(0) }
    }

    /// Copies the boundary points of neighbouring domains into `vector`.
    ///
    /// # Safety
    /// `vector` must have this shape, and only this thread may use it.
    pub unsafe fn exchange(&self, shape: &VectorShape, vector: *mut f64) {
        let exchange = self.exchange;
        let domain = self.member.index;
        if self.neighbours().next().is_none() {
            return;
        }
        let half = self.exchanges.replace(self.exchanges.get() + 1) % 2;
        for (steps, _) in self.neighbours() {
            let buffer = exchange.buffer(half, domain, shape, steps);
            // SAFETY: this part of the buffer belongs to this domain and is read only after the barrier.
            unsafe {
                copy(shape, &side(shape, steps, false), |at, n| {
                    buffer.add(n).write(*vector.add(at))
                })
            };
        }
        self.member.barrier();
        for (steps, other) in self.neighbours() {
            let buffer = exchange.buffer(half, other, shape, steps.map(|step| -step));
            // SAFETY: the neighbour has written the buffer before the barrier; the boundaries of neighbours have the
            // same shape.
            unsafe {
                copy(shape, &side(shape, steps, true), |at, n| vector.add(at).write(*buffer.add(n)))
            };
        }
    }

    /// Returns the directions in which the domain has neighbours, with the numbers of the neighbours.
    fn neighbours(&self) -> impl Iterator<Item = ([isize; 3], usize)> {
        let layout = &self.exchange.layout;
        let domain = self.member.index;
        directions().filter_map(move |steps| Some((steps, layout.neighbour(domain, steps)?)))
    }

    /// Returns the sum of `x` over all domains, and true if any domain has passed true as `end`. All domains get the
    /// same result.
    pub fn sum(&self, x: f64, end: bool) -> (f64, bool) {
        self.sums.add_up(x, end, || self.member.barrier())
    }
}

/// Calls `each` for all points in the given ranges, with the index of the point in a vector and a consecutive number.
///
/// # Safety
/// The points must exist in the vector, and `each` must be allowed to use their indices.
#[inline]
unsafe fn copy(
    shape: &VectorShape,
    [x, y, z]: &[Range<isize>; 3],
    mut each: impl FnMut(usize, usize),
) {
    let mut number = 0;
    for plane in z.clone() {
        for line in y.clone() {
            let first = shape.at([x.start, line, plane]);
            for at in first..first + x.len() {
                each(at, number);
                number += 1;
            }
        }
    }
}
