//! The matrix with its right-hand side behind: one mapping, by columns, on huge pages where there
//! are any.

use nodegauge_measure::Bytes;
use std::io;

/// Why a matrix could not be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot map {wanted} of memory for the matrix: {cause}\nhint: use a smaller --order")]
pub struct MatrixError {
    /// How much.
    pub wanted: Bytes,
    /// What the system said.
    pub cause: io::Error,
}

/// An n by (n + 1) matrix; nothing is touched before it is written.
#[derive(Debug)]
pub struct Matrix {
    mapping: (usize, usize),
    start: usize,
    order: usize,
    distance: usize,
}

/// A transparent huge page.
const HUGE: usize = 2 << 20;

/// Distance of columns for matrices of this order, elements: whole lines of 64 B, an odd number of
/// them, so that neighbours in a row fall into different sets of every cache.
pub fn column_distance(order: usize) -> usize {
    let lines = order.div_ceil(8).max(1);
    8 * if lines.is_multiple_of(2) { lines + 1 } else { lines }
}

/// Memory that the matrix of this order takes with its right-hand side.
pub fn bytes(order: usize) -> Bytes {
    Bytes((column_distance(order) * (order + 1) * 8) as u64)
}

impl Matrix {
    /// Maps memory for an order.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn map(order: usize) -> Result<Self, MatrixError> {
        let distance = column_distance(order);
        let length = (bytes(order).0 as usize).next_multiple_of(4096);
        let with_slack = length + HUGE;
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing else.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                with_slack,
                libc::PROT_READ | libc::PROT_WRITE,
                // The size was held against the memory that can be had; strict accounting of
                // address space would refuse what fits.
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            let wanted = Bytes(with_slack as u64);
            return Err(MatrixError { wanted, cause: io::Error::last_os_error() });
        }
        let start = (base as usize).next_multiple_of(HUGE);
        // SAFETY: advice on a mapping of our own changes no data. A kernel without huge pages
        // refuses; what came of it is read back.
        unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_HUGEPAGE) };
        Ok(Self { mapping: (base as usize, with_slack), start, order, distance })
    }

    /// Rows, and columns without the right-hand side.
    pub fn order(&self) -> usize {
        self.order
    }

    /// Distance of columns, elements.
    pub fn distance(&self) -> usize {
        self.distance
    }

    /// The first element. Threads share the matrix by parts that do not overlap, which is up to
    /// the caller.
    pub(crate) fn pointer(&self) -> *mut f64 {
        self.start as *mut f64
    }

    /// Column `j`; the right-hand side is column `order`.
    ///
    /// # Panics
    /// Beyond the last column.
    pub fn column(&mut self, j: usize) -> &mut [f64] {
        assert!(j <= self.order, "column {j} of {}", self.order);
        // SAFETY: the column lies in the mapping, and `self` is borrowed whole.
        unsafe { std::slice::from_raw_parts_mut(self.pointer().add(j * self.distance), self.order) }
    }

    /// The share of the resident matrix that lies on huge pages, 0 to 1; `None` when the kernel
    /// does not say.
    pub fn on_huge_pages(&self) -> Option<f64> {
        let smaps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        huge_share(&smaps, self.start)
    }
}

/// Of the mapping that holds `address`: huge over resident.
fn huge_share(smaps: &str, address: usize) -> Option<f64> {
    let mut inside = false;
    let (mut resident, mut huge) = (0.0, 0.0);
    for line in smaps.lines() {
        let (head, rest) = line.split_once(' ')?;
        if let Some((from, to)) = head.split_once('-')
            && let (Ok(from), Ok(to)) =
                (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16))
        {
            inside = (from..to).contains(&address);
        } else if inside {
            let kib: f64 = rest.trim().trim_end_matches(" kB").parse().unwrap_or(0.0);
            match head {
                "Rss:" => resident += kib,
                "AnonHugePages:" => huge += kib,
                _ => {}
            }
        }
    }
    (resident > 0.0).then(|| f64::min(huge / resident, 1.0))
}

impl Drop for Matrix {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and threads that used it have finished: work on a matrix
        // borrows it.
        unsafe { libc::munmap(self.mapping.0 as *mut libc::c_void, self.mapping.1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_lie_apart_by_an_odd_number_of_lines() {
        for order in [1, 7, 8, 9, 64, 1000, 8000, 8192, 16384] {
            let distance = column_distance(order);
            assert!(
                distance >= order
                    && distance.is_multiple_of(8)
                    && !(distance / 8).is_multiple_of(2)
            );
            assert!(distance <= order + 16);
        }
    }

    #[test]
    fn every_element_is_its_own() {
        let mut matrix = Matrix::map(33).unwrap();
        for j in 0..=33 {
            matrix.column(j).iter_mut().enumerate().for_each(|(i, x)| *x = (i * 100 + j) as f64);
        }
        for j in 0..=33 {
            assert!(matrix.column(j).iter().enumerate().all(|(i, x)| *x == (i * 100 + j) as f64));
        }
    }

    #[test]
    fn the_share_on_huge_pages_is_read_from_the_right_mapping() {
        let smaps = "7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \nRss:  4096 kB\n\
                     AnonHugePages:  2048 kB\n7f0000400000-7f0000500000 rw-p 00000000 00:00 0 \n\
                     Rss:  1024 kB\nAnonHugePages:  0 kB\n";
        assert_eq!(huge_share(smaps, 0x7f00_0000_1000), Some(0.5));
        assert_eq!(huge_share(smaps, 0x7f00_0040_0000), Some(0.0));
        assert_eq!(huge_share(smaps, 0x1000), None);
    }
}
