//! Chain and arrays in device memory. One group of the kernel follows the chain, and the other groups load the memory.

use super::DeviceMix;
use crate::bench::read_numbers;
use crate::driver::{
    Arg, BufferCopy, DeviceBuffer, DeviceError, DeviceKernel, FailureClass, HostMemory, LaunchGrid,
    OpenDevice, Queue,
};
use crate::info::DeviceClass;
use crate::kernels::{CHAIN_AND_LOAD, CHECK, FILL, KernelSource, LOAD_BLOCK_VECTORS};
use nodegauge_kernels::Element;
use nodegauge_measure::schedule::shuffle::{Shuffler, successors};
use std::rc::Rc;

/// Target duration of a launch, seconds. It is long compared with the launch overhead of some microseconds.
const LAUNCH_SECONDS: f64 = 5e-3;
/// Number of steps of the first chain, whose time gives the length of the later chains.
const FEW_STEPS: u64 = 1024;
/// Ratio of the long chain to the short chain of a sample. The difference between their times contains neither the
/// start nor the end of the kernel.
const SHORT_CHAIN_RATIO: u64 = 8;
/// Limit for the duration of the load, as a multiple of the expected time, in case the chain does not end.
const LOAD_TIMEOUT: f64 = 20.0;
/// Maximum number of times that the chain's group polls for the start of the loading groups: on a GPU, where a poll
/// reads memory, and on a CPU, where it reads a cache.
const MAX_POLLS: [u64; 2] = [1 << 13, 1 << 24];
/// Distance between elements of the chain in bytes, one cache line: on a GPU, and on a CPU.
const STRIDES: [usize; 2] = [128, 64];
/// Number of loading groups per compute unit on a GPU. Together with [`ITEMS`], it gives enough loads in flight for the
/// memory of current devices: 4 groups of 256 items with 64 B each are 64 KiB per unit.
const GROUPS_PER_UNIT: usize = 4;
/// Number of work-items per group on a GPU.
const ITEMS: usize = 256;
/// Number of elements per vector: 16 B in double precision.
const WIDTH: u32 = 2;
/// Value of all elements.
const ONE: f64 = 1.0;
/// Number of rounds of the wait loop in the launch that measures the time of a round.
const PROBE_ROUNDS: u64 = 2000;
/// Minimum time of a round of the wait loop, seconds: one cycle at 4 GHz, because the loop consists of dependent
/// multiplications. If the measured time is shorter because of a disturbance, this value limits the pauses to several
/// times the intended length.
const SHORTEST_ROUND: f64 = 0.25e-9;
/// Length of the kernel's state, in 32-bit words.
const STATE_WORDS: usize = 4;

/// Parameters of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaunchParameters {
    pub mix: DeviceMix,
    /// Number of rounds of the wait loop after each block; `None` if no group loads the memory.
    pub pause_rounds: Option<u64>,
    /// Number of steps of the chain; 0 if all groups load the memory.
    pub steps: u64,
    /// Maximum number of blocks per group.
    pub limit: u64,
}

/// Result of a launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LaunchResult {
    /// Time by the device's clock, seconds.
    pub seconds: f64,
    /// Number of bytes that the load read and wrote.
    pub bytes: f64,
}

/// Times that are needed to control the rate of a mix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MixTimes {
    /// Time of a block of each group at full rate, seconds.
    block: f64,
    /// Time of a round of the wait loop, seconds.
    round: f64,
}

impl MixTimes {
    /// Returns the number of rounds of the wait loop after each block for a rate of `share` percent of the full rate;
    /// `None` if `share` is 0, without load.
    pub(super) fn pause_rounds(self, share: u32) -> Option<u64> {
        let wait = self.block * (100.0 / f64::from(share) - 1.0);
        (share > 0).then(|| (wait / self.round.max(1e-12)) as u64)
    }

    /// Returns the pause after each block, seconds.
    pub(super) fn pause_seconds(self, share: u32) -> Option<f64> {
        self.pause_rounds(share).map(|rounds| rounds as f64 * self.round)
    }
}

/// Chain and arrays on a device.
pub(super) struct CurveRig {
    pub element: Element,
    /// Bytes of an array.
    pub array_bytes: usize,
    /// Bytes of the chain.
    pub chain_bytes: usize,
    /// Distance between elements of the chain, bytes.
    pub stride: usize,
    /// Number of loading groups, without the group of the chain.
    pub load_groups: usize,
    pub items: usize,
    /// Number of steps of a chain that takes [`LAUNCH_SECONDS`].
    pub steps: u64,
    /// Description of the first wrong result; `None` if all results are right.
    pub wrong_result: Option<String>,
    /// Successor of each element in the chain, as an element index.
    next: Vec<u32>,
    /// Element at which the next launch begins the chain.
    at: u32,
    /// Tile at which the next launch begins the load.
    start: u64,
    arrays: [DeviceBuffer; 3],
    out: DeviceBuffer,
    chain: DeviceBuffer,
    state: DeviceBuffer,
    /// Host memory with the kernel's state: zeros before a launch, and the state after a launch.
    here: [HostMemory; 2],
    kernel: DeviceKernel,
    check: DeviceKernel,
    queue: Box<dyn Queue>,
    /// The device is dropped last, because the other fields use it.
    device: Rc<dyn OpenDevice>,
}

/// Returns a random cycle through `count` elements, as the successor of each element.
pub(super) fn random_cycle(count: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    Shuffler::new(0x6465_7663).shuffle(&mut order);
    successors(&order)
}

/// Returns the time per step of the chain, seconds, from the times of a short and a long chain. If the short chain was
/// disturbed and took longer, the function returns an upper bound, which includes the start of the kernel.
fn step_time(short_seconds: f64, short: u64, long_seconds: f64, long: u64) -> f64 {
    let difference = long_seconds - short_seconds;
    if difference > 0.0 { difference / (long - short) as f64 } else { long_seconds / long as f64 }
}

impl CurveRig {
    /// Allocates and initialises a chain and arrays of about `bytes` bytes each.
    pub(super) fn new(device: &Rc<dyn OpenDevice>, bytes: usize) -> Result<Self, DeviceError> {
        let info = device.info();
        let is_cpu = info.class == DeviceClass::Cpu;
        let element = if info.double { Element::F64 } else { Element::F32 };
        let items = if is_cpu { 1 } else { ITEMS.min(info.largest_group.max(1)) };
        let units = info.units.max(1) as usize;
        let load_groups =
            if is_cpu { units.saturating_sub(1).max(1) } else { units * GROUPS_PER_UNIT };
        let vector = WIDTH as usize * element.bytes() as usize;
        // Whole blocks of all groups, so that no group reads a block of another.
        let tile = LOAD_BLOCK_VECTORS * items * vector;
        let array_bytes = (bytes / tile).max(load_groups + 1) * tile;
        let stride = STRIDES[usize::from(is_cpu)];
        let count = (bytes / stride).clamp(2, u32::MAX as usize);
        let chain_bytes = count * stride;
        let source = KernelSource { element, width: WIDTH, items: 2, strided: true };
        DeviceError::check_end_request()?;
        let program = device.build(&source)?;
        let state_bytes = STATE_WORDS * size_of::<u32>();
        let mut rig = Self {
            kernel: device.kernel(&program, CHAIN_AND_LOAD)?,
            check: device.kernel(&program, CHECK)?,
            arrays: [
                device.allocate(array_bytes)?,
                device.allocate(array_bytes)?,
                device.allocate(array_bytes)?,
            ],
            out: device.allocate((load_groups + 1) * items * vector)?,
            chain: device.allocate(chain_bytes)?,
            state: device.allocate(state_bytes)?,
            here: [device.host(state_bytes, false)?, device.host(state_bytes, false)?],
            queue: device.queue()?,
            device: device.clone(),
            next: random_cycle(count),
            at: 0,
            start: 0,
            steps: FEW_STEPS,
            wrong_result: None,
            element,
            array_bytes,
            chain_bytes,
            stride,
            load_groups,
            items,
        };
        rig.write_chain()?;
        let fill = device.kernel(&program, FILL)?;
        rig.fill(&fill)?;
        rig.find_steps()?;
        Ok(rig)
    }

    /// Copies the chain to the device.
    fn write_chain(&mut self) -> Result<(), DeviceError> {
        DeviceError::check_end_request()?;
        let host = self.device.host(self.chain_bytes, false)?;
        let words = self.stride / size_of::<u64>();
        // SAFETY: the memory is new, page-aligned and this long.
        let all = unsafe {
            std::slice::from_raw_parts_mut(
                host.start.cast::<u64>().as_ptr(),
                self.chain_bytes / size_of::<u64>(),
            )
        };
        for (element, next) in self.next.iter().enumerate() {
            all[element * words] = u64::from(*next) * words as u64;
        }
        // SAFETY: both buffers have this length and live until the queue is done.
        unsafe { self.queue.copy(BufferCopy::HostToDevice(&host, &self.chain), self.chain_bytes) }?;
        self.queue.wait()
    }

    fn scalar(&self, value: f64) -> Arg<'static> {
        match self.element {
            Element::F64 => Arg::F64(value),
            Element::F32 => Arg::F32(value as f32),
        }
    }

    /// Returns the number of vectors per array.
    fn vectors(&self) -> u64 {
        (self.array_bytes / (WIDTH as usize * self.element.bytes() as usize)) as u64
    }

    /// Fills the arrays with ones.
    fn fill(&mut self, kernel: &DeviceKernel) -> Result<(), DeviceError> {
        DeviceError::check_end_request()?;
        for array in &self.arrays {
            let args = [Arg::Memory(array), self.scalar(ONE), Arg::U64(self.vectors())];
            let grid = LaunchGrid::new(self.load_groups, self.items);
            // SAFETY: the arguments match the kernel's parameters; the array has this number of vectors.
            unsafe { self.queue.launch(kernel, &args, grid) }?;
        }
        self.queue.wait()
    }

    /// Determines the number of steps of a chain that takes [`LAUNCH_SECONDS`].
    fn find_steps(&mut self) -> Result<(), DeviceError> {
        for _ in 0..3 {
            let work = LaunchParameters {
                mix: DeviceMix::Reads,
                pause_rounds: None,
                steps: self.steps,
                limit: 0,
            };
            let each = self.launch(work)?.seconds / self.steps as f64;
            let steps = (LAUNCH_SECONDS / each.max(1e-12)) as u64;
            self.steps = steps.clamp(FEW_STEPS, 1 << 26);
        }
        Ok(())
    }

    /// Returns the number of bytes that a block of one group reads and writes.
    fn block_bytes(&self, mix: DeviceMix) -> f64 {
        let vector = f64::from(WIDTH) * self.element.bytes() as f64;
        (LOAD_BLOCK_VECTORS * self.items) as f64 * vector * f64::from(mix.words())
    }

    /// Measures the time of a block and the time of a round of the wait loop.
    pub(super) fn calibrate(&mut self, mix: DeviceMix) -> Result<MixTimes, DeviceError> {
        let mut limit = 16;
        let mut block = 0.0;
        for _ in 0..4 {
            let work = LaunchParameters { mix, pause_rounds: Some(0), steps: 0, limit };
            block = self.launch(work)?.seconds / limit as f64;
            limit = ((LAUNCH_SECONDS / block.max(1e-12)) as u64).clamp(16, 1 << 24);
        }
        let few = (limit / 64).max(4);
        let paused =
            LaunchParameters { mix, pause_rounds: Some(PROBE_ROUNDS), steps: 0, limit: few };
        let slow = self.launch(paused)?.seconds / few as f64;
        let round = ((slow - block) / PROBE_ROUNDS as f64).max(SHORTEST_ROUND);
        Ok(MixTimes { block, round })
    }

    /// Measures the bandwidth with load from all groups. Returns seconds per byte.
    pub(super) fn measure_saturated(
        &mut self,
        mix: DeviceMix,
        times: MixTimes,
    ) -> Result<f64, DeviceError> {
        let limit = ((LAUNCH_SECONDS / times.block.max(1e-12)) as u64).clamp(16, 1 << 24);
        let done = self.launch(LaunchParameters { mix, pause_rounds: Some(0), steps: 0, limit })?;
        Ok(done.seconds / done.bytes)
    }

    /// Measures the latency of the chain and the rate of the load at `share` percent of the full rate. Returns the
    /// seconds per step of the chain and, if there is a load, the seconds per byte of the load.
    pub(super) fn measure_point(
        &mut self,
        mix: DeviceMix,
        times: MixTimes,
        share: u32,
    ) -> Result<Vec<f64>, DeviceError> {
        let pause_rounds = times.pause_rounds(share);
        // The load ends with the chain, or at the latest after this number of blocks.
        let limit = (LOAD_TIMEOUT * LAUNCH_SECONDS / times.block.max(1e-12)) as u64 + 16;
        let short = (self.steps / SHORT_CHAIN_RATIO).max(1);
        let shorter = self.launch(LaunchParameters { mix, pause_rounds, steps: short, limit })?;
        let long = self.launch(LaunchParameters { mix, pause_rounds, steps: self.steps, limit })?;
        let mut parts = vec![step_time(shorter.seconds, short, long.seconds, self.steps)];
        if pause_rounds.is_some() {
            if long.bytes == 0.0 {
                return Err(DeviceError::new(
                    FailureClass::Unsupported,
                    &self.device.info().id(),
                    "groups of a kernel do not run at the same time",
                    0,
                ));
            }
            parts.push(long.seconds / long.bytes);
        }
        Ok(parts)
    }

    /// Launches the kernel once and checks at which element the chain ends.
    fn launch(&mut self, work: LaunchParameters) -> Result<LaunchResult, DeviceError> {
        let LaunchParameters { mix, pause_rounds, steps, limit } = work;
        let words = (self.stride / size_of::<u64>()) as u64;
        let groups =
            if pause_rounds.is_some() { self.load_groups + usize::from(steps > 0) } else { 1 };
        let is_cpu = self.device.info().class == DeviceClass::Cpu;
        let tiles = self.vectors() / (LOAD_BLOCK_VECTORS * self.items) as u64;
        self.start = (self.start + tiles / 7 + 1) % tiles;
        let args = [
            Arg::Memory(&self.arrays[0]),
            Arg::Memory(&self.arrays[1]),
            Arg::Memory(&self.arrays[2]),
            Arg::Memory(&self.out),
            Arg::Memory(&self.chain),
            Arg::Memory(&self.state),
            self.scalar(0.0),
            Arg::U64(mix as u64),
            Arg::U64(self.vectors()),
            Arg::U64(self.start),
            Arg::U64(pause_rounds.unwrap_or(0)),
            Arg::U64(limit),
            Arg::U64(u64::from(self.at) * words),
            Arg::U64(steps),
            Arg::U64(MAX_POLLS[usize::from(is_cpu)]),
        ];
        let bytes = self.state.bytes;
        let grid = LaunchGrid::new(groups, self.items);
        // SAFETY: the arguments match the kernel's parameters, and all buffers live until the queue is done.
        let (from, to) = unsafe {
            self.queue.copy(BufferCopy::HostToDevice(&self.here[0], &self.state), bytes)?;
            let from = self.queue.enqueue_event()?;
            self.queue.launch(&self.kernel, &args, grid)?;
            let to = self.queue.enqueue_event()?;
            self.queue.copy(BufferCopy::DeviceToHost(&self.state, &self.here[1]), bytes)?;
            (from, to)
        };
        self.queue.submit()?;
        self.queue.wait()?;
        let seconds = self.queue.seconds_between(&from, &to)?.0;
        // SAFETY: the copy is complete; the memory is page-aligned and this long.
        let state = unsafe {
            std::slice::from_raw_parts(self.here[1].start.cast::<u32>().as_ptr(), STATE_WORDS)
        };
        if steps > 0 {
            for _ in 0..steps {
                self.at = self.next[self.at as usize];
            }
            let expected = (u64::from(self.at) * words) as u32;
            if state[2] != expected {
                let text = format!("the chain ended at {} instead of {expected}", state[2]);
                self.wrong_result.get_or_insert(text);
            }
        }
        Ok(LaunchResult { seconds, bytes: f64::from(state[3]) * self.block_bytes(mix) })
    }

    /// Compares every element of all arrays with its expected value, and records the first deviation in `wrong`.
    pub(super) fn verify(&mut self) -> Result<(), DeviceError> {
        let groups = self.load_groups;
        let counts = self.device.allocate(groups * size_of::<u64>())?;
        let worst = self.device.allocate(groups * size_of::<u64>())?;
        let here = self.device.host(groups * size_of::<u64>(), false)?;
        let element = self.element.bytes() as usize;
        for array in &self.arrays {
            let elements = self.array_bytes as u64 / element as u64;
            let args = [
                Arg::Memory(array),
                self.scalar(ONE),
                self.scalar(0.0),
                Arg::Memory(&counts),
                Arg::Memory(&worst),
                Arg::U64(elements),
            ];
            // SAFETY: the arguments match the kernel's parameters; all buffers live until the queue is done.
            unsafe {
                self.queue.launch(&self.check, &args, LaunchGrid::new(groups, self.items))?;
                self.queue.copy(BufferCopy::DeviceToHost(&worst, &here), groups * element)?;
            }
            self.queue.wait()?;
            let off = read_numbers(&here, self.element, groups).into_iter().fold(0.0, f64::max);
            if off > 0.0 {
                self.wrong_result
                    .get_or_insert(format!("an element of an array deviates by {off:.1e}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_visits_every_element_once() {
        for count in [2, 3, 1000] {
            let next = random_cycle(count);
            let mut seen = vec![false; count];
            let mut at = 0_u32;
            for _ in 0..count {
                assert!(!seen[at as usize]);
                seen[at as usize] = true;
                at = next[at as usize];
            }
            assert_eq!(at, 0);
        }
    }

    #[test]
    fn step_time_excludes_the_start_of_the_kernel() {
        assert!((step_time(20e-6, 10, 110e-6, 100) - 1e-6).abs() < 1e-12);
        assert!((step_time(5e-3, 10, 110e-6, 100) - 1.1e-6).abs() < 1e-12);
    }

    #[test]
    fn pause_lowers_the_rate_to_the_requested_share() {
        let times = MixTimes { block: 3e-6, round: 10e-9 };
        assert_eq!(times.pause_rounds(100), Some(0));
        assert_eq!(times.pause_rounds(50), Some(300));
        assert_eq!(times.pause_rounds(0), None);
        assert!((times.pause_seconds(50).unwrap() - 3e-6).abs() < 1e-9);
    }
}
