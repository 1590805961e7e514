//! Arrays on a device, the loops that process them, and the verification of every element.

use crate::driver::{
    Arg, BufferCopy, DeviceBuffer, DeviceError, DeviceKernel as Loop, DeviceProgram, HostMemory,
    LaunchGrid, OpenDevice, Queue,
};
use crate::info::{DeviceClass, DeviceInfo};
use crate::kernels::{self, CHECK, FILL, KernelSource, LARGEST_SUM_GROUP, LENGTH_DIVISOR};
use nodegauge_arena::{PagesConfig, RequestedPages};
use nodegauge_kernels::values::ExpectedValues;
use nodegauge_kernels::{Element, Kernel, SCALAR, array_count};
use nodegauge_measure::{Fraction, clock};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Size in bytes of the buffer with the partial sums of all groups.
const SUMS_BYTES: usize = 4 << 20;
/// Maximum number of additions per work-item, because the rounding error of a sum of equal numbers grows with each
/// addition.
const MAX_ADDITIONS: u64 = 1024;
/// Number of groups per compute unit in a launch of the check kernel.
const CHECK_GROUPS_PER_UNIT: usize = 8;

/// Parameters with which a loop is built and launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoopShape {
    /// Number of elements per vector.
    pub width: u32,
    /// Number of vectors in flight per work-item.
    pub vectors: u32,
    /// Number of work-items per group; `None` if the driver selects it.
    pub group: Option<usize>,
    /// Number of groups per compute unit in a grid-stride loop; `None` for a loop with one group per tile.
    pub strided: Option<usize>,
}

/// Group size in the tables below if the driver selects the size, as in the OpenCL version of BabelStream.
const DRIVER_CHOICE: usize = 0;

/// Candidate shapes on GPUs, most promising first. The shapes differ in the amount of data in flight per compute unit
/// and in the width of memory accesses. The columns are the fields of [`LoopShape`].
const GPU_SHAPES: [(u32, u32, usize, Option<usize>); 14] = [
    (1, 1, 256, None),
    (2, 2, 256, Some(16)),
    (2, 2, 1024, Some(2)),
    (1, 1, 1024, None),
    (2, 1, 256, None),
    (1, 4, 256, Some(16)),
    (1, 4, 256, None),
    (1, 4, 1024, Some(2)),
    (4, 1, 256, None),
    (1, 1, 256, Some(16)),
    (4, 1, 64, Some(32)),
    (4, 2, 512, Some(4)),
    (1, 8, 128, None),
    (1, 1, DRIVER_CHOICE, None),
];

/// Candidate shapes on CPUs, most promising first, because drivers compile a loop when it is first launched. Either the
/// driver combines neighbouring work-items into vectors, or a single work-item uses vectors. The columns are the fields
/// of [`LoopShape`].
const CPU_SHAPES: [(u32, u32, usize, Option<usize>); 10] = [
    (1, 1, 4096, None),
    (8, 8, 1, Some(2)),
    (8, 64, 1, None),
    (1, 1, DRIVER_CHOICE, None),
    (1, 1, 256, None),
    (16, 4, 1, Some(2)),
    (1, 1, 1024, None),
    (4, 1, 256, None),
    (8, 1, 1024, None),
    (8, 16, 1, Some(8)),
];

/// Returns all candidate shapes for devices of a class.
pub fn shapes(class: DeviceClass) -> impl Iterator<Item = LoopShape> {
    let all = if class == DeviceClass::Cpu { &CPU_SHAPES[..] } else { &GPU_SHAPES[..] };
    all.iter().copied().map(|(width, vectors, group, strided)| LoopShape {
        width,
        vectors,
        group: (group != DRIVER_CHOICE).then_some(group),
        strided,
    })
}

/// Returns host memory for sums, pinned if possible and requested.
fn sums_memory(device: &Rc<dyn OpenDevice>, pinned: bool) -> Result<HostMemory, DeviceError> {
    device.host(SUMS_BYTES, pinned).or_else(|_| device.host(SUMS_BYTES, false))
}

impl LoopShape {
    /// Returns the shapes that a kernel can have on a device. Reductions require a grid-stride loop.
    pub fn candidates_for_kernel(kernel: Kernel, device: &DeviceInfo) -> Vec<Self> {
        let largest_group = device.largest_group.max(1);
        let mut shapes: Vec<Self> = shapes(device.class)
            .filter(|shape| match (shape.group, kernel.writes()) {
                (None, writes) => writes,
                (Some(group), true) => group <= largest_group,
                (Some(group), false) => {
                    shape.strided.is_some() && group <= largest_group.min(LARGEST_SUM_GROUP)
                }
            })
            .collect();
        if shapes.is_empty() {
            // For a device that supports only very small groups, the group size is reduced, down to a single work-item.
            let group = 1 << largest_group.ilog2();
            shapes.push(Self { width: 1, vectors: 1, group: Some(group), strided: Some(16) });
        }
        shapes
    }

    fn source(self, element: Element) -> KernelSource {
        let Self { width, vectors, strided, .. } = self;
        KernelSource { element, width, items: vectors, strided: strided.is_some() }
    }

    /// Returns the grid for `elements` elements on `units` compute units.
    pub fn grid(self, kernel: Kernel, elements: u64, units: u32) -> LaunchGrid {
        let vectors = elements / u64::from(self.width);
        let Some(group) = self.group else {
            return LaunchGrid::sized_by_driver((vectors / u64::from(self.vectors)) as usize);
        };
        let tiles = vectors / (group as u64 * u64::from(self.vectors));
        let min = if kernel.writes() { 1 } else { vectors.div_ceil(group as u64 * MAX_ADDITIONS) };
        let groups = self.strided.map_or(tiles, |per_unit| {
            (per_unit as u64 * u64::from(units.max(1))).clamp(min, tiles.max(min))
        });
        LaunchGrid::new(groups.max(1) as usize, group)
    }
}

/// Result of the verification of array elements.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ElementVerification {
    /// Number of times that all elements were verified.
    pub checks: u64,
    /// Number of elements that deviate by more than the tolerance.
    pub wrong: u64,
    /// Largest relative deviation of an element.
    pub worst: f64,
    /// Messages about wrong results.
    pub reasons: Vec<String>,
}

/// Arrays on a device, with the loops that process them.
pub struct DeviceArrays {
    /// Type of the elements.
    pub element: Element,
    /// Number of elements per array; a multiple of [`LENGTH_DIVISOR`].
    pub elements: u64,
    /// Result of all verifications so far.
    pub checked: ElementVerification,
    values: ExpectedValues,
    loops: HashMap<(KernelSource, String), Loop>,
    programs: HashMap<KernelSource, DeviceProgram>,
    arrays: Vec<DeviceBuffer>,
    sums: DeviceBuffer,
    worst: DeviceBuffer,
    here: [HostMemory; 2],
    queue: Box<dyn Queue>,
    /// The device is dropped last, because the other fields use it.
    device: Rc<dyn OpenDevice>,
}

/// Times of a kernel in seconds: by the device's clock and by the host's clock.
pub type KernelTimes = (f64, f64);

impl DeviceArrays {
    /// Allocates and fills the arrays that `kernels` use. Each array has `elements` elements, rounded down to whole
    /// tiles.
    ///
    /// # Errors
    /// Fails if there is too little memory, or if the loops cannot be built.
    pub fn new(
        device: Rc<dyn OpenDevice>,
        kernels: &[Kernel],
        element: Element,
        elements: u64,
    ) -> Result<Self, DeviceError> {
        let elements = (elements / LENGTH_DIVISOR).max(1) * LENGTH_DIVISOR;
        let bytes = (elements * element.bytes()) as usize;
        let count = array_count(kernels.iter().copied());
        // The time of a reduction includes the copy of its sums, which is faster into pinned memory.
        let pinned = device.info().class != DeviceClass::Cpu;
        let mut bench = Self {
            arrays: (0..count).map(|_| device.allocate(bytes)).collect::<Result<_, _>>()?,
            sums: device.allocate(SUMS_BYTES)?,
            worst: device.allocate(SUMS_BYTES)?,
            here: [sums_memory(&device, pinned)?, sums_memory(&device, pinned)?],
            queue: device.queue()?,
            values: ExpectedValues::new(element, count),
            loops: HashMap::new(),
            programs: HashMap::new(),
            checked: ElementVerification::default(),
            element,
            elements,
            device,
        };
        DeviceError::check_end_request()?;
        let source = bench.plain_shape().source(element);
        bench.build(source, FILL)?;
        DeviceError::check_end_request()?;
        bench.fill()?;
        Ok(bench)
    }

    /// Returns the number of arrays.
    pub fn arrays(&self) -> usize {
        self.arrays.len()
    }

    /// Returns the size of an array in bytes.
    pub fn array_bytes(&self) -> u64 {
        self.elements * self.element.bytes()
    }

    /// Returns the requested and the actual pages of the arrays; `None` if the driver allocated them.
    pub fn pages(&self) -> Option<PagesConfig> {
        let mut got: BTreeMap<u64, Fraction> = BTreeMap::new();
        for array in &self.arrays {
            let shares = array.pages.as_ref()?.page_size_shares().ok()?;
            for (size, share) in shares {
                got.entry(size).or_default().0 += share / self.arrays.len() as f64;
            }
        }
        let asked = RequestedPages::Transparent.name().to_owned();
        Some(PagesConfig { asked, got: Some(got) })
    }

    /// Returns the shape for the fill and check kernels; any valid shape is sufficient.
    fn plain_shape(&self) -> LoopShape {
        LoopShape::candidates_for_kernel(Kernel::Dot, self.device.info())[0]
    }

    fn build(&mut self, source: KernelSource, name: &str) -> Result<(), DeviceError> {
        let key = (source, name.to_owned());
        if self.loops.contains_key(&key) {
            return Ok(());
        }
        if !self.programs.contains_key(&source) {
            self.programs.insert(source, self.device.build(&source)?);
        }
        let kernel = self.device.kernel(&self.programs[&source], name)?;
        self.loops.insert(key, kernel);
        Ok(())
    }

    fn scalar(&self, value: f64) -> Arg<'static> {
        match self.element {
            Element::F64 => Arg::F64(value),
            Element::F32 => Arg::F32(value as f32),
        }
    }

    /// Fills the arrays with their initial values.
    fn fill(&mut self) -> Result<(), DeviceError> {
        let shape = self.plain_shape();
        let source = shape.source(self.element);
        self.build(source, FILL)?;
        self.values = ExpectedValues::new(self.element, self.arrays());
        let grid = shape.grid(Kernel::Dot, self.elements, self.device.info().units);
        let kernel = &self.loops[&(source, FILL.to_owned())];
        for (memory, array) in self.arrays.iter().zip(self.values.arrays()) {
            let value = self.scalar(self.values.value(*array));
            let args =
                [Arg::Memory(memory), value, Arg::U64(self.elements / u64::from(shape.width))];
            // SAFETY: the arguments match the kernel's parameters; the arrays live as long as the queue.
            unsafe { self.queue.launch(kernel, &args, grid.clone()) }?;
        }
        self.queue.wait()
    }

    /// Runs each kernel once, with its chosen loop. Before the values become too large, verifies and refills the
    /// arrays.
    ///
    /// # Errors
    /// Returns the failure of the device.
    pub fn run_pass(
        &mut self,
        loops: &[(Kernel, LoopShape)],
    ) -> Result<Vec<KernelTimes>, DeviceError> {
        if self.values.must_refill() {
            self.check()?;
            self.fill()?;
        }
        loops.iter().map(|(kernel, shape)| self.run(*kernel, *shape)).collect()
    }

    fn run(&mut self, kernel: Kernel, shape: LoopShape) -> Result<KernelTimes, DeviceError> {
        let source = shape.source(self.element);
        let symbol = kernels::symbol(kernel);
        self.build(source, &symbol)?;
        let grid = shape.grid(kernel, self.elements, self.device.info().units);
        let sums = (!kernel.writes())
            .then(|| grid.groups * shape.width as usize)
            .inspect(|sums| assert!(sums * 8 <= SUMS_BYTES, "{sums} sums"));
        let scalar = self.scalar(SCALAR);
        assert!(array_count([kernel]) <= self.arrays(), "{kernel} on {} arrays", self.arrays());
        let third = if sums.is_some() { &self.sums } else { &self.arrays[2] };
        // Without a fourth array, no kernel of the pass uses this argument.
        let fourth = self.arrays.get(3).unwrap_or(&self.arrays[2]);
        let vectors = self.elements / u64::from(shape.width);
        let args = [
            Arg::Memory(&self.arrays[0]),
            Arg::Memory(&self.arrays[1]),
            Arg::Memory(third),
            Arg::Memory(fourth),
            scalar,
            Arg::U64(vectors),
        ];
        let queue = &mut self.queue;
        let loop_ = &self.loops[&(source, symbol)];
        let begun = clock::now();
        let from = queue.enqueue_event()?;
        // SAFETY: the arguments match the kernel's parameters. The arrays have `vectors` vectors, and all buffers live
        // until the queue is done.
        unsafe {
            queue.launch(loop_, &args, grid)?;
            if let Some(sums) = sums {
                let bytes = sums * self.element.bytes() as usize;
                queue.copy(BufferCopy::DeviceToHost(&self.sums, &self.here[0]), bytes)?;
            }
        }
        let to = queue.enqueue_event()?;
        queue.submit()?;
        queue.wait()?;
        let host = (clock::now() - begun).as_secs_f64();
        let device = queue.seconds_between(&from, &to)?.0;
        let each = self.values.apply(kernel);
        if let Some(sums) = sums {
            // The sum is computed in parts, because the rounding error grows with the number of additions.
            let parts = read_numbers(&self.here[0], self.element, sums);
            let sum: f64 = parts.chunks(256).map(|part| part.iter().sum::<f64>()).sum();
            if let Err(wrong) = self.values.check_sum(kernel, each, self.elements, sum) {
                self.checked.wrong += 1;
                self.checked.reasons.push(wrong.to_string());
            }
        }
        Ok((device, host))
    }

    /// Compares every element of every array with the value that a replay of the kernels on the host predicts. The
    /// comparison runs on the device.
    ///
    /// # Errors
    /// Returns the failure of the device.
    pub fn check(&mut self) -> Result<(), DeviceError> {
        let shape = self.plain_shape();
        let source = shape.source(self.element);
        self.build(source, CHECK)?;
        let units = self.device.info().units.max(1) as usize;
        let groups = (units * CHECK_GROUPS_PER_UNIT).min(SUMS_BYTES / 8);
        let items = shape.group.unwrap_or(1);
        let kernel = &self.loops[&(source, CHECK.to_owned())];
        let relative = self.values.tolerance();
        for (memory, array) in self.arrays.iter().zip(self.values.arrays()) {
            let expected = self.values.value(*array);
            let name = array.name();
            let args = [
                Arg::Memory(memory),
                self.scalar(expected),
                self.scalar(relative * expected.abs()),
                Arg::Memory(&self.sums),
                Arg::Memory(&self.worst),
                Arg::U64(self.elements),
            ];
            let element = self.element.bytes() as usize;
            // SAFETY: the arguments match the kernel's parameters; all buffers live until the queue is done.
            unsafe {
                self.queue.launch(kernel, &args, LaunchGrid::new(groups, items))?;
                self.queue.copy(BufferCopy::DeviceToHost(&self.sums, &self.here[0]), groups * 8)?;
                self.queue
                    .copy(BufferCopy::DeviceToHost(&self.worst, &self.here[1]), groups * element)?;
            }
            self.queue.wait()?;
            // SAFETY: the copy is complete; the memory is page-aligned and long enough.
            let counts = unsafe {
                std::slice::from_raw_parts(self.here[0].start.cast::<u64>().as_ptr(), groups)
            };
            // A faulty device may return any number.
            let wrong =
                counts.iter().fold(0, |all: u64, n| all.saturating_add(*n)).min(self.elements);
            let off = read_numbers(&self.here[1], self.element, groups);
            let worst = off.into_iter().fold(0.0, f64::max) / expected.abs();
            self.checked.worst = self.checked.worst.max(worst);
            if wrong > 0 {
                self.checked.wrong += wrong;
                self.checked.reasons.push(format!(
                    "{wrong} of {} elements of {name} differ from the replay, which expects {expected:e}; \
                     largest relative deviation {worst:.1e}, allowed {relative:.0e}",
                    self.elements
                ));
            }
        }
        self.checked.checks += 1;
        Ok(())
    }
}

/// Reads the first `count` numbers of host memory, to which a copy has written them.
pub(crate) fn read_numbers(here: &HostMemory, element: Element, count: usize) -> Vec<f64> {
    assert!(count * element.bytes() as usize <= here.bytes, "{count} numbers");
    // SAFETY: the memory is page-aligned and long enough, and no copy is in progress.
    unsafe {
        match element {
            Element::F64 => {
                std::slice::from_raw_parts(here.start.cast::<f64>().as_ptr(), count).to_vec()
            }
            Element::F32 => std::slice::from_raw_parts(here.start.cast::<f32>().as_ptr(), count)
                .iter()
                .map(|x| f64::from(*x))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_covers_all_elements() {
        for shape in shapes(DeviceClass::Gpu).chain(shapes(DeviceClass::Cpu)) {
            let group = shape.group.unwrap_or(1);
            let tile = group as u64 * u64::from(shape.vectors * shape.width);
            assert!(LENGTH_DIVISOR.is_multiple_of(tile) && group.is_power_of_two(), "{shape:?}");
            let grid = shape.grid(Kernel::Triad, 10 * LENGTH_DIVISOR, 4);
            match shape.strided {
                None => assert_eq!(grid.groups as u64 * tile, 10 * LENGTH_DIVISOR),
                Some(_) => assert!(grid.groups as u64 * tile <= 10 * LENGTH_DIVISOR, "{shape:?}"),
            }
        }
        for kernel in [Kernel::Dot, Kernel::Triad] {
            for largest_group in [1, 3, 64, 256, 4096] {
                let device = DeviceInfo { largest_group, ..DeviceInfo::default() };
                let shapes = LoopShape::candidates_for_kernel(kernel, &device);
                let fits =
                    |shape: &LoopShape| shape.group.is_none_or(|group| group <= largest_group);
                assert!(!shapes.is_empty() && shapes.iter().all(fits));
            }
        }
        // If 256 items in 8 groups summed 2^33 numbers, each item would add four million numbers.
        let sum = LoopShape { width: 1, vectors: 1, group: Some(256), strided: Some(1) };
        let groups = sum.grid(Kernel::Dot, 1 << 33, 8).groups as u64;
        assert!((1 << 33) / (groups * 256) <= MAX_ADDITIONS);
    }
}
