//! Arrays on a device, the loops that run over them, and the check of every element.

use crate::driver::{
    Arg, Copy, Device, DeviceError, Grid, HostMemory, Kernel as Loop, Memory, Program, Queue,
};
use crate::info::{Class, DeviceInfo};
use crate::kernels::{self, CHECK, FILL, KernelSource, LARGEST_SUM_GROUP, TILE};
use nodegauge_kernels::values::Values;
use nodegauge_kernels::{Element, Kernel, SCALAR, arrays_of};
use nodegauge_measure::clock;
use std::collections::HashMap;
use std::rc::Rc;

/// Room for the sums of all groups.
const SUMS_BYTES: usize = 4 << 20;
/// Additions of a work-item at most: a sum of equal numbers drifts with each of them.
const MOST_ADDITIONS: u64 = 1024;
/// Groups that check, a compute unit.
const CHECKERS: usize = 8;

/// How a loop is built and launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Elements of a vector.
    pub width: u32,
    /// Vectors that a work-item has under way.
    pub vectors: u32,
    /// Work-items of a group.
    pub group: usize,
    /// Groups a compute unit that go on from tile to tile (grid-stride); `None` for a group for each tile.
    pub strided: Option<usize>,
}

/// Shapes that are tried on GPUs, best guess first: what is under way on each compute unit, and how wide its
/// accesses are.
const ON_GPU: [(u32, u32, usize, Option<usize>); 13] = [
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
];

/// The same of processors, where the driver makes vectors of neighbouring items, or a single item goes through
/// memory by vectors.
const ON_CPU: [(u32, u32, usize, Option<usize>); 6] = [
    (1, 1, 1024, None),
    (8, 8, 1, Some(2)),
    (1, 1, 256, None),
    (16, 4, 1, Some(2)),
    (4, 1, 256, None),
    (8, 16, 1, Some(8)),
];

/// All shapes for devices of a class.
pub fn shapes(class: Class) -> impl Iterator<Item = Shape> {
    let all = if class == Class::Cpu { &ON_CPU[..] } else { &ON_GPU[..] };
    let shape = |(width, vectors, group, strided)| Shape { width, vectors, group, strided };
    all.iter().copied().map(shape)
}

impl Shape {
    /// The shapes that a kernel can have on a device. Sums are left by groups that go on.
    pub fn of(kernel: Kernel, device: &DeviceInfo) -> Vec<Self> {
        let largest_group = device.largest_group.max(1);
        let fits = |shape: &Self| match kernel.writes() {
            true => shape.group <= largest_group,
            false => shape.strided.is_some() && shape.group <= largest_group.min(LARGEST_SUM_GROUP),
        };
        let mut shapes: Vec<Self> = shapes(device.class).filter(fits).collect();
        if shapes.is_empty() {
            // A device of very small groups, down to a single item.
            let group = 1 << largest_group.ilog2();
            shapes.push(Self { width: 1, vectors: 1, group, strided: Some(16) });
        }
        shapes
    }

    fn source(self, element: Element) -> KernelSource {
        let Self { width, vectors, strided, .. } = self;
        KernelSource { element, width, items: vectors, strided: strided.is_some() }
    }

    /// Work-items for so many elements, on so many compute units.
    pub fn grid(self, kernel: Kernel, elements: u64, units: u32) -> Grid {
        let vectors = elements / u64::from(self.width);
        let tiles = vectors / (self.group as u64 * u64::from(self.vectors));
        let least = match kernel.writes() {
            true => 1,
            false => vectors.div_ceil(self.group as u64 * MOST_ADDITIONS),
        };
        let groups = self.strided.map_or(tiles, |a_unit| {
            (a_unit as u64 * u64::from(units.max(1))).clamp(least, tiles.max(least))
        });
        Grid { groups: groups.max(1) as usize, items: self.group }
    }
}

/// What checks found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Checked {
    /// How often all elements were checked.
    pub checks: u64,
    /// Elements that were off by more than is allowed.
    pub wrong: u64,
    /// The greatest relative deviation.
    pub worst: f64,
    /// What was wrong, in words.
    pub reasons: Vec<String>,
}

/// Arrays with the loops that run over them.
pub struct Bench {
    /// Type of the elements.
    pub element: Element,
    /// Elements of an array: a multiple of [`TILE`].
    pub elements: u64,
    /// What checks found.
    pub checked: Checked,
    values: Values,
    loops: HashMap<(KernelSource, String), Loop>,
    programs: HashMap<KernelSource, Program>,
    arrays: Vec<Memory>,
    sums: Memory,
    worst: Memory,
    here: [HostMemory; 2],
    queue: Box<dyn Queue>,
    /// Dropped last.
    device: Rc<dyn Device>,
}

/// Times of a kernel, seconds: by the device's clock, and by the host's.
pub type Times = (f64, f64);

impl Bench {
    /// Allocates and fills the arrays that `kernels` need, of `elements` elements, rounded down to whole
    /// tiles.
    ///
    /// # Errors
    /// If there is too little memory, or nothing builds.
    pub fn new(
        device: Rc<dyn Device>,
        kernels: &[Kernel],
        element: Element,
        elements: u64,
    ) -> Result<Self, DeviceError> {
        let elements = (elements / TILE).max(1) * TILE;
        let bytes = (elements * element.bytes()) as usize;
        let count = arrays_of(kernels.iter().copied());
        let here = || device.host(SUMS_BYTES, false);
        let mut bench = Self {
            arrays: (0..count).map(|_| device.allocate(bytes)).collect::<Result<_, _>>()?,
            sums: device.allocate(SUMS_BYTES)?,
            worst: device.allocate(SUMS_BYTES)?,
            here: [here()?, here()?],
            queue: device.queue()?,
            values: Values::new(element, count),
            loops: HashMap::new(),
            programs: HashMap::new(),
            checked: Checked::default(),
            element,
            elements,
            device,
        };
        bench.fill()?;
        Ok(bench)
    }

    /// Number of arrays.
    pub fn arrays(&self) -> usize {
        self.arrays.len()
    }

    /// Bytes of an array.
    pub fn array_bytes(&self) -> u64 {
        self.elements * self.element.bytes()
    }

    /// The shape that fills and checks; any does.
    fn plain(&self) -> Shape {
        Shape::of(Kernel::Dot, self.device.info())[0]
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

    /// Fills the arrays anew.
    fn fill(&mut self) -> Result<(), DeviceError> {
        let shape = self.plain();
        let source = shape.source(self.element);
        self.build(source, FILL)?;
        self.values = Values::new(self.element, self.arrays());
        let grid = shape.grid(Kernel::Dot, self.elements, self.device.info().units);
        let kernel = &self.loops[&(source, FILL.to_owned())];
        for (memory, array) in self.arrays.iter().zip(self.values.arrays()) {
            let value = self.scalar(self.values.of(*array));
            let args =
                [Arg::Memory(memory), value, Arg::U64(self.elements / u64::from(shape.width))];
            // SAFETY: arguments as the source has them; the arrays live as long as the queue.
            unsafe { self.queue.launch(kernel, &args, grid.clone()) }?;
        }
        self.queue.wait()
    }

    /// Runs each kernel once by its loop.
    ///
    /// # Errors
    /// What went wrong on the device.
    pub fn pass(&mut self, loops: &[(Kernel, Shape)]) -> Result<Vec<Times>, DeviceError> {
        if self.values.must_renew() {
            self.check()?;
            self.fill()?;
        }
        loops.iter().map(|(kernel, shape)| self.run(*kernel, *shape)).collect()
    }

    fn run(&mut self, kernel: Kernel, shape: Shape) -> Result<Times, DeviceError> {
        let (source, symbol) = (shape.source(self.element), kernels::symbol(kernel));
        self.build(source, &symbol)?;
        let grid = shape.grid(kernel, self.elements, self.device.info().units);
        let sums = (!kernel.writes())
            .then(|| grid.groups * shape.width as usize)
            .inspect(|sums| assert!(sums * 8 <= SUMS_BYTES, "{sums} sums"));
        let scalar = self.scalar(SCALAR);
        assert!(arrays_of([kernel]) <= self.arrays(), "{kernel} on {} arrays", self.arrays());
        let third = if sums.is_some() { &self.sums } else { &self.arrays[2] };
        // Without a fourth array, no kernel of the pass uses its argument.
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
        let (queue, loop_) = (&mut self.queue, &self.loops[&(source, symbol)]);
        let begun = clock::now();
        let from = queue.mark()?;
        // SAFETY: arguments as the source has them, whose arrays hold so many vectors; all of it lives until
        // the queue is done.
        unsafe {
            queue.launch(loop_, &args, grid)?;
            if let Some(sums) = sums {
                let bytes = sums * self.element.bytes() as usize;
                queue.copy(Copy::Out(&self.sums, &self.here[0]), bytes)?;
            }
        }
        let to = queue.mark()?;
        queue.submit()?;
        queue.wait()?;
        let host = (clock::now() - begun).as_secs_f64();
        let device = queue.between(&from, &to)?.0;
        let each = self.values.apply(kernel);
        if let Some(sums) = sums {
            // By parts, for a long sum of equal numbers drifts.
            let parts = numbers(&self.here[0], self.element, sums);
            let sum: f64 = parts.chunks(256).map(|part| part.iter().sum::<f64>()).sum();
            if let Err(wrong) = self.values.check_sum(kernel, each, self.elements, sum) {
                self.checked.wrong += 1;
                self.checked.reasons.push(wrong.to_string());
            }
        }
        Ok((device, host))
    }

    /// Holds every element of every array against the replay, on the device.
    ///
    /// # Errors
    /// What went wrong on the device.
    pub fn check(&mut self) -> Result<(), DeviceError> {
        let shape = self.plain();
        let source = shape.source(self.element);
        self.build(source, CHECK)?;
        let units = self.device.info().units.max(1) as usize;
        let groups = (units * CHECKERS).min(SUMS_BYTES / 8);
        let kernel = &self.loops[&(source, CHECK.to_owned())];
        let relative = self.values.tolerance();
        for (memory, array) in self.arrays.iter().zip(self.values.arrays()) {
            let expected = self.values.of(*array);
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
            // SAFETY: arguments as the source has them; all of it lives until the queue is done.
            unsafe {
                self.queue.launch(kernel, &args, Grid { groups, items: shape.group })?;
                self.queue.copy(Copy::Out(&self.sums, &self.here[0]), groups * 8)?;
                self.queue.copy(Copy::Out(&self.worst, &self.here[1]), groups * element)?;
            }
            self.queue.wait()?;
            // SAFETY: the copy is over; the memory is page-aligned and long enough.
            let counts = unsafe {
                std::slice::from_raw_parts(self.here[0].start.cast::<u64>().as_ptr(), groups)
            };
            // What a broken device leaves there may be anything.
            let wrong =
                counts.iter().fold(0, |all: u64, n| all.saturating_add(*n)).min(self.elements);
            let off = numbers(&self.here[1], self.element, groups);
            let worst = off.into_iter().fold(0.0, f64::max) / expected.abs();
            self.checked.worst = self.checked.worst.max(worst);
            if wrong > 0 {
                self.checked.wrong += wrong;
                self.checked.reasons.push(format!(
                    "{wrong} of {} elements of {name} differ from the replay, the worst by {worst:.1e} of {expected:e} (allowed {relative:.0e})",
                    self.elements
                ));
            }
        }
        self.checked.checks += 1;
        Ok(())
    }
}

/// Numbers that a copy has left on the host.
pub(crate) fn numbers(here: &HostMemory, element: Element, count: usize) -> Vec<f64> {
    assert!(count * element.bytes() as usize <= here.bytes, "{count} numbers");
    // SAFETY: page-aligned and so long, and no copy is under way.
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
    fn every_shape_covers_all_elements_and_whole_tiles() {
        for shape in shapes(Class::Gpu).chain(shapes(Class::Cpu)) {
            let tile = shape.group as u64 * u64::from(shape.vectors * shape.width);
            assert!(TILE.is_multiple_of(tile) && shape.group.is_power_of_two(), "{shape:?}");
            let grid = shape.grid(Kernel::Triad, 10 * TILE, 4);
            match shape.strided {
                None => assert_eq!(grid.groups as u64 * tile, 10 * TILE),
                Some(_) => assert!(grid.groups as u64 * tile <= 10 * TILE, "{shape:?}"),
            }
        }
        for kernel in [Kernel::Dot, Kernel::Triad] {
            for largest_group in [1, 3, 64, 256, 4096] {
                let device = DeviceInfo { largest_group, ..DeviceInfo::default() };
                let shapes = Shape::of(kernel, &device);
                let fits = |shape: &Shape| shape.group <= largest_group;
                assert!(!shapes.is_empty() && shapes.iter().all(fits));
            }
        }
        // 2^33 elements by 256 items of 8 groups would add up four million numbers each.
        let sum = Shape { width: 1, vectors: 1, group: 256, strided: Some(1) };
        let groups = sum.grid(Kernel::Dot, 1 << 33, 8).groups as u64;
        assert!((1 << 33) / (groups * 256) <= MOST_ADDITIONS);
    }
}
