//! DGEMM with the vendor's library, and verification of its result.

use crate::config::DevicePeakConfig;
use crate::driver::{Blas, BufferCopy, DeviceBuffer, DeviceError, HostMemory, OpenDevice, Queue};
use nodegauge_kernels::Element;
use nodegauge_kernels::numbers::{factor_element, fill_factor};
use std::rc::Rc;

/// Maximum order of the matrices. It is sufficient for the full rate of the fastest devices; each of the three matrices
/// has 512 MiB.
const MAX_ORDER: usize = 8192;
/// Divisor of all orders.
const STEP: usize = 256;
/// Maximum share of the free memory for the three matrices.
const SHARE: f64 = 0.5;
/// Number of elements of the product that the host recomputes for the verification.
const CHECKED_ELEMENTS: usize = 64;

/// Square matrices on a device, with the library that multiplies them.
pub(super) struct MatrixProduct {
    n: usize,
    blas: Box<dyn Blas>,
    matrices: [DeviceBuffer; 3],
    here: HostMemory,
    queue: Box<dyn Queue>,
    /// The device is dropped last, because the other fields use it.
    _device: Rc<dyn OpenDevice>,
}

impl MatrixProduct {
    /// Allocates and fills matrices as large as the memory and [`MAX_ORDER`] allow; `None` if no library is installed.
    pub(super) fn for_device(device: &Rc<dyn OpenDevice>) -> Result<Option<Self>, DeviceError> {
        let Some(blas) = device.blas()? else { return Ok(None) };
        let free = device.free_memory()?.unwrap_or(device.info().memory).as_f64() * SHARE;
        let fits = (free / 24.0).sqrt() as usize;
        let n = (fits.min(MAX_ORDER) / STEP).max(1) * STEP;
        let bytes = n * n * 8;
        let mut product = Self {
            matrices: [device.allocate(bytes)?, device.allocate(bytes)?, device.allocate(bytes)?],
            here: device.host(bytes, false)?,
            queue: device.queue()?,
            _device: device.clone(),
            blas,
            n,
        };
        for number in [0, 1] {
            fill_factor(product.numbers(), number);
            // SAFETY: both buffers have this length and live until the queue is done.
            unsafe {
                product
                    .queue
                    .copy(BufferCopy::HostToDevice(&product.here, &product.matrices[number]), bytes)
            }?;
            product.queue.wait()?;
        }
        Ok(Some(product))
    }

    /// Returns the numbers of the matrix in host memory.
    fn numbers(&mut self) -> &mut [f64] {
        // SAFETY: the memory is long enough and page-aligned, and no copy is in progress.
        unsafe {
            std::slice::from_raw_parts_mut(self.here.start.cast::<f64>().as_ptr(), self.n * self.n)
        }
    }

    pub(super) fn flops(&self) -> f64 {
        2.0 * (self.n as f64).powi(3)
    }

    /// Computes the product and returns the time in seconds.
    pub(super) fn run_timed(&mut self) -> Result<f64, DeviceError> {
        let [a, b, c] = &self.matrices;
        let from = self.queue.enqueue_event()?;
        // SAFETY: each matrix has `n * n` numbers and lives until the queue is done.
        unsafe { self.blas.dgemm(&mut *self.queue, self.n, [a, b, c]) }?;
        let to = self.queue.enqueue_event()?;
        self.queue.submit()?;
        self.queue.wait()?;
        Ok(self.queue.seconds_between(&from, &to)?.0)
    }

    /// Returns the largest difference between an element of the product and the host's result, divided by the square
    /// root of the order. Only some elements are compared.
    pub(super) fn max_deviation(&mut self) -> Result<f64, DeviceError> {
        let n = self.n;
        let bytes = n * n * 8;
        // SAFETY: both buffers have this length and live until the queue is done.
        unsafe { self.queue.copy(BufferCopy::DeviceToHost(&self.matrices[2], &self.here), bytes) }?;
        self.queue.wait()?;
        let product = self.numbers();
        let mut worst = 0.0f64;
        for sample in 0..CHECKED_ELEMENTS {
            let row = (sample * 977) % n;
            let column = (sample * 613 + 7) % n;
            let terms =
                (0..n).map(|k| factor_element(0, row + k * n) * factor_element(1, k + column * n));
            let off = (product[row + column * n] - terms.sum::<f64>()).abs() / (n as f64).sqrt();
            worst = worst.max(if off.is_nan() { f64::INFINITY } else { off });
        }
        Ok(worst)
    }

    /// Returns the largest deviation that rounding can cause in sums of terms below 1/4, in any order of addition
    /// (Higham 2002, section 3.1).
    pub(super) fn tolerance(&self) -> f64 {
        (self.n as f64).sqrt() * f64::EPSILON / 4.0
    }

    pub(super) fn describe(&self, config: DevicePeakConfig) -> DevicePeakConfig {
        DevicePeakConfig {
            element: Some(Element::F64.name().to_owned()),
            n: Some(self.n as u64),
            library: Some(self.blas.name()),
            ..config
        }
    }
}
