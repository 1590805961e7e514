//! Loops with chains of dependent multiply-adds in registers.

use crate::config::DevicePeakConfig;
use crate::driver::{
    Arg, BufferCopy, DeviceBuffer, DeviceError, DeviceKernel, HostMemory, LaunchGrid, OpenDevice,
    Queue,
};
use crate::info::{DeviceClass, DeviceInfo};
use crate::kernels::{CHAINS, FMAS_PER_ROUND, KernelSource};
use nodegauge_kernels::Element;
use std::rc::Rc;

/// Duration of a launch, seconds. It is long compared with the launch overhead of some microseconds.
const LAUNCH_SECONDS: f64 = 10e-3;
/// Number of elements of the widest vectors of OpenCL.
const MAX_WIDTH: u32 = 16;
/// Number of rounds of the first launch.
const FEW_ROUNDS: u64 = 64;
/// Factor of the multiply-adds. With this factor and [`TERM`], every second multiply-add returns to the initial number.
const FACTOR: f64 = -1.0;
/// Term of the multiply-adds.
const TERM: f64 = 1.5;
/// Number of work-items after which the initial numbers repeat (probes/device.c).
const DISTINCT_ITEMS: usize = 64;

/// Parameters with which a loop is built and launched.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChainLoopShape {
    width: u32,
    chains: u32,
    group: usize,
    groups_a_unit: usize,
}

impl ChainLoopShape {
    /// Returns the candidates, most promising first. They have enough chains and groups to hide the latency of a
    /// multiply-add: 4 cycles on current CPUs, which start two to four multiply-adds per cycle. On CPUs, a chain is a
    /// vector of the width that the driver reports, of half or of twice this width. Too many chains do not fit into the
    /// registers: x86 without AVX-512 has 16, of which 2 contain the factor and the term.
    pub(super) fn candidates(device: &DeviceInfo, element: Element) -> Vec<Self> {
        const GPU_LOOPS: [(u32, u32, usize, usize); 7] = [
            (1, 8, 256, 8),
            (2, 2, 256, 8),
            (1, 4, 256, 8),
            (2, 8, 256, 8),
            (1, 16, 256, 4),
            (1, 4, 1024, 2),
            (4, 8, 64, 8),
        ];
        if device.class == DeviceClass::Cpu {
            return Self::cpu_loops(
                device.native_vector_widths[usize::from(element == Element::F32)],
            );
        }
        let of =
            |(width, chains, group, groups_a_unit)| Self { width, chains, group, groups_a_unit };
        let largest = device.largest_group;
        GPU_LOOPS.iter().copied().map(of).filter(|shape| shape.group <= largest).collect()
    }

    /// Returns the candidates on a CPU whose native vectors have `native` elements.
    fn cpu_loops(native: Option<u32>) -> Vec<Self> {
        /// Vector widths and numbers of chains to try. A width is half of the native width, shifted left by the first
        /// number.
        const SHIFTS_AND_CHAINS: [(u32, u32); 8] =
            [(1, 12), (1, 8), (1, 16), (1, 10), (2, 8), (0, 12), (0, 16), (1, 24)];
        const USUAL: u32 = 4;
        let native = native.unwrap_or(USUAL).clamp(2, MAX_WIDTH);
        let widths =
            SHIFTS_AND_CHAINS.iter().map(|(shift, chains)| ((native << shift) / 2, chains));
        let possible = widths.filter(|(width, _)| width.is_power_of_two() && *width <= MAX_WIDTH);
        possible
            .map(|(width, chains)| Self { width, chains: *chains, group: 1, groups_a_unit: 4 })
            .collect()
    }
}

/// Loop of multiply-adds on a device.
pub(super) struct Chains {
    pub(super) element: Element,
    shape: ChainLoopShape,
    rounds: u64,
    grid: LaunchGrid,
    kernel: DeviceKernel,
    out: DeviceBuffer,
    queue: Box<dyn Queue>,
    /// The device is dropped last, because the other fields use it.
    device: Rc<dyn OpenDevice>,
}

impl Chains {
    /// Builds a loop and determines the number of rounds that take [`LAUNCH_SECONDS`].
    pub(super) fn new(
        device: &Rc<dyn OpenDevice>,
        element: Element,
        shape: ChainLoopShape,
    ) -> Result<Self, DeviceError> {
        let ChainLoopShape { width, chains, group, groups_a_unit } = shape;
        // Both forms of the loops have the same chains. The grid-stride form is used because it is included as PTX.
        let source = KernelSource { element, width, items: chains, strided: true };
        let program = device.build(&source)?;
        let groups = groups_a_unit * device.info().units.max(1) as usize;
        let bytes = groups * group * width as usize * element.bytes() as usize;
        let mut found = Self {
            kernel: device.kernel(&program, CHAINS)?,
            out: device.allocate(bytes)?,
            queue: device.queue()?,
            grid: LaunchGrid::new(groups, group),
            rounds: FEW_ROUNDS,
            device: device.clone(),
            element,
            shape,
        };
        found.run_timed()?;
        // The second estimate is more accurate, because clocks rise under load.
        for _ in 0..2 {
            let a_round = found.run_timed()? / found.rounds as f64;
            found.rounds =
                ((LAUNCH_SECONDS / a_round.max(1e-12)) as u64).clamp(FEW_ROUNDS, 1 << 30);
        }
        Ok(found)
    }

    /// Returns the number of elements that the loop writes.
    fn numbers(&self) -> usize {
        self.grid.groups * self.grid.items * self.shape.width as usize
    }

    /// Returns the number of floating-point operations per launch: two per multiply-add.
    pub(super) fn flops(&self) -> f64 {
        let adds = self.numbers() as u64 * u64::from(self.shape.chains) * FMAS_PER_ROUND;
        2.0 * adds as f64 * self.rounds as f64
    }

    /// Launches the loop once and returns the time in seconds.
    pub(super) fn run_timed(&mut self) -> Result<f64, DeviceError> {
        let [factor, term] = [FACTOR, TERM].map(|value| match self.element {
            Element::F64 => Arg::F64(value),
            Element::F32 => Arg::F32(value as f32),
        });
        let args = [Arg::Memory(&self.out), factor, term, Arg::U64(self.rounds)];
        let from = self.queue.enqueue_event()?;
        // SAFETY: the arguments match the kernel's parameters. The buffer has a vector for each work-item and lives
        // until the queue is done.
        unsafe { self.queue.launch(&self.kernel, &args, self.grid.clone()) }?;
        let to = self.queue.enqueue_event()?;
        self.queue.submit()?;
        self.queue.wait()?;
        Ok(self.queue.seconds_between(&from, &to)?.0)
    }

    /// Returns the largest relative deviation from the expected sums.
    pub(super) fn max_deviation(&mut self) -> Result<f64, DeviceError> {
        let here: HostMemory = self.device.host(self.out.bytes, false)?;
        // SAFETY: both buffers have this length and live until the queue is done.
        unsafe { self.queue.copy(BufferCopy::DeviceToHost(&self.out, &here), self.out.bytes) }?;
        self.queue.wait()?;
        let numbers = crate::bench::read_numbers(&here, self.element, self.numbers());
        let width = self.shape.width as usize;
        let chains = self.shape.chains as usize;
        let mut largest = 0.0_f64;
        for (at, got) in numbers.iter().enumerate() {
            let item = (at / width) % self.grid.items % DISTINCT_ITEMS;
            let must = (chains * item + chains * (chains - 1) / 2) as f64;
            let off = ((got - must) / must.max(1.0)).abs();
            // A NaN counts as an infinite deviation.
            largest = largest.max(if off.is_nan() { f64::INFINITY } else { off });
        }
        Ok(largest)
    }

    pub(super) fn describe(&self, config: DevicePeakConfig) -> DevicePeakConfig {
        DevicePeakConfig {
            element: Some(self.element.name().to_owned()),
            chains: Some(self.shape.chains.into()),
            vector_elements: Some(self.shape.width.into()),
            group_items: Some(self.grid.items as u64),
            groups: Some(self.grid.groups as u64),
            ..config
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_loops_include_chains_that_fit_into_registers() {
        for native in [None, Some(1), Some(2), Some(4), Some(8), Some(16), Some(64)] {
            let shapes = ChainLoopShape::cpu_loops(native);
            let widths: Vec<u32> = shapes.iter().map(|shape| shape.width).collect();
            assert!(widths.iter().all(|width| width.is_power_of_two() && *width <= MAX_WIDTH));
            let first = native.unwrap_or(4).clamp(2, MAX_WIDTH);
            assert!(widths[..4].iter().all(|width| *width == first), "{native:?}: {widths:?}");
            // Two multiply-adds per cycle with a latency of 4 cycles need 8 chains; 14 chains fit into 16 registers.
            let fit = |shape: &&ChainLoopShape| (8..=14).contains(&shape.chains);
            assert!(shapes.iter().filter(fit).count() >= 3, "{native:?}");
        }
        let gpu = DeviceInfo { largest_group: 256, ..DeviceInfo::default() };
        assert!(
            ChainLoopShape::candidates(&gpu, Element::F32).iter().all(|shape| shape.group <= 256)
        );
    }
}
