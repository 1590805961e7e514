//! Tests of the back end with the stub driver in `tests/standin`, which runs the kernels in C.

use super::api::{CudaApi, VendorApi};
use super::compile::EMBEDDED_BUILDS;
use super::{ATTRIBUTES, VendorDevice, describe, matrix_peak, peaks, with_nvml_cause};
use crate::driver::{Arg, BufferCopy, DeviceBuffer, FailureClass, LaunchGrid, OpenDevice, Queue};
use crate::kernels::{self, KernelSource};
use nodegauge_kernels::{Array, Element, SCALAR};
use nodegauge_machine::devices::nvml::{GpuState, NvmlError, NvmlReading};
use nodegauge_measure::Hertz;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Compiles and loads a stub driver that is not shared with other tests.
fn own_api() -> &'static CudaApi {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libcuda.so.1");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/standin/driver.c");
    let compiled = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .arg("-lm")
        .status();
    assert!(compiled.unwrap().success());
    CudaApi::load(VendorApi::Cuda, &[library.to_str().unwrap()]).unwrap()
}

/// Returns the stub driver that the tests share, which is compiled once.
fn api() -> &'static CudaApi {
    static LOADED: OnceLock<usize> = OnceLock::new();
    let api = LOADED.get_or_init(|| std::ptr::from_ref(own_api()) as usize);
    // SAFETY: the table is leaked and never changed.
    unsafe { &*(*api as *const CudaApi) }
}

fn opened() -> VendorDevice {
    opened_by(api())
}

fn opened_by(api: &'static CudaApi) -> VendorDevice {
    let (info, number) = describe(api, &ATTRIBUTES, 0).unwrap();
    VendorDevice::open(api, number, info, Some("sm_90".into()), None).unwrap()
}

/// Converts numbers to the bytes of an array on the device.
fn bytes_of(element: Element, numbers: &[f64]) -> Vec<u8> {
    match element {
        Element::F64 => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Element::F32 => numbers.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
    }
}

fn numbers_of(element: Element, bytes: &[u8]) -> Vec<f64> {
    match element {
        Element::F64 => {
            bytes.chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().unwrap())).collect()
        }
        Element::F32 => bytes
            .chunks_exact(4)
            .map(|x| f64::from(f32::from_le_bytes(x.try_into().unwrap())))
            .collect(),
    }
}

/// Device with a queue, and host memory for copies.
struct Bench {
    device: VendorDevice,
    queue: Box<dyn Queue>,
    element: Element,
}

impl Bench {
    fn put(&mut self, memory: &DeviceBuffer, numbers: &[f64]) {
        let bytes = bytes_of(self.element, numbers);
        let host = self.device.host(bytes.len(), true).unwrap();
        // SAFETY: both buffers are long enough and live until the queue is done.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), host.start.as_ptr(), bytes.len());
            self.queue.copy(BufferCopy::HostToDevice(&host, memory), bytes.len()).unwrap();
        }
        self.queue.wait().unwrap();
    }

    fn take(&mut self, memory: &DeviceBuffer) -> Vec<f64> {
        let host = self.device.host(memory.bytes, false).unwrap();
        // SAFETY: both buffers are long enough, live until the queue is done, and are not shared.
        let bytes = unsafe {
            self.queue.copy(BufferCopy::DeviceToHost(memory, &host), memory.bytes).unwrap();
            self.queue.wait().unwrap();
            std::slice::from_raw_parts(host.start.as_ptr(), memory.bytes)
        };
        numbers_of(self.element, bytes)
    }

    fn launch(&mut self, source: &KernelSource, name: &str, args: &[Arg<'_>], grid: LaunchGrid) {
        let program = self.device.build(source).unwrap();
        let kernel = self.device.kernel(&program, name).unwrap();
        // SAFETY: callers pass valid arguments.
        unsafe { self.queue.launch(&kernel, args, grid).unwrap() };
        self.queue.wait().unwrap();
    }

    fn scalar(&self, value: f64) -> Arg<'static> {
        match self.element {
            Element::F64 => Arg::F64(value),
            Element::F32 => Arg::F32(value as f32),
        }
    }
}

fn bench(element: Element) -> Bench {
    let device = opened();
    let queue = device.queue().unwrap();
    Bench { device, queue, element }
}

/// Returns small integers, so that every result is exact and neighbouring elements differ.
fn entries(n: usize, from: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 7 + from) % 61) as f64).collect()
}

#[test]
fn kernels_receive_arrays_scalar_and_length() {
    for (source, _) in EMBEDDED_BUILDS {
        let mut bench = bench(source.element);
        let width = source.width as usize;
        // Each group processes two tiles.
        let (groups, items) = (3, 64);
        let n = 2 * groups * items * source.items as usize * width;
        let bytes = n * source.element.bytes() as usize;
        let arrays: Vec<DeviceBuffer> =
            (0..4).map(|_| bench.device.allocate(bytes).unwrap()).collect();
        let before = [entries(n, 1), entries(n, 2), entries(n, 3), entries(n, 4)];
        for kernel in kernels::kernels() {
            for (memory, numbers) in arrays.iter().zip(&before) {
                bench.put(memory, numbers);
            }
            let mut args: Vec<Arg<'_>> = arrays.iter().map(Arg::Memory).collect();
            args.extend([bench.scalar(SCALAR), Arg::U64((n / width) as u64)]);
            let name = format!("nodegauge_{}", kernel.name);
            bench.launch(&source, &name, &args, LaunchGrid::new(groups, items));
            let expected = |i: usize| {
                let elements = [0, 1, 2, 3].map(|array| before[array][i]);
                kernel.kernel.reference_value(source.element, elements, SCALAR)
            };
            let what = format!("{} {source:?}", kernel.name);
            match kernel.writes {
                Some(array) => {
                    for (at, memory) in Array::ALL.into_iter().zip(&arrays) {
                        let got = bench.take(memory);
                        let own = &before[at as usize];
                        let must: Vec<f64> =
                            if at == array { (0..n).map(expected).collect() } else { own.clone() };
                        assert!(got == must, "{what}: array {at:?}");
                    }
                }
                None => {
                    let got: f64 = bench.take(&arrays[2])[..groups * width].iter().sum();
                    assert_eq!(got, (0..n).map(expected).sum::<f64>(), "{what}");
                }
            }
        }
    }
}

#[test]
fn check_counts_wrong_elements_and_finds_the_worst() {
    for (source, _) in EMBEDDED_BUILDS {
        let mut bench = bench(source.element);
        let (n, groups) = (4096 * source.width as usize, 2);
        let bytes = source.element.bytes() as usize;
        let array = bench.device.allocate(n * bytes).unwrap();
        let (counts, worst) =
            (bench.device.allocate(groups * 8), bench.device.allocate(groups * bytes));
        let (counts, worst) = (counts.unwrap(), worst.unwrap());
        let grid = || LaunchGrid::new(groups, 128);
        let vectors = Arg::U64((n / source.width as usize) as u64);
        let fill = [Arg::Memory(&array), bench.scalar(5.0), vectors];
        let tiles = n / (source.width * source.items) as usize / 128;
        bench.launch(&source, kernels::FILL, &fill, LaunchGrid::new(tiles, 128));
        let mut filled = bench.take(&array);
        assert!(filled.iter().all(|x| *x == 5.0), "{source:?}");
        (filled[0], filled[17], filled[n - 1]) = (5.5, f64::NAN, 1.0);
        for (numbers, wrong, max) in [(vec![5.0; n], 0, 0.0), (filled, 3, f64::INFINITY)] {
            bench.put(&array, &numbers);
            let args = [
                Arg::Memory(&array),
                bench.scalar(5.0),
                bench.scalar(0.25),
                Arg::Memory(&counts),
                Arg::Memory(&worst),
                Arg::U64(n as u64),
            ];
            bench.launch(&source, kernels::CHECK, &args, grid());
            let element = std::mem::replace(&mut bench.element, Element::F64);
            let counted: u64 = bench.take(&counts).iter().map(|x| x.to_bits()).sum();
            bench.element = element;
            assert_eq!(counted, wrong, "{source:?}");
            let found = bench.take(&worst).into_iter().fold(0.0, f64::max);
            assert_eq!(found, max, "{source:?}");
        }
    }
}

#[test]
fn failed_call_reports_its_class_name_and_code() {
    let device = opened();
    let error = device.allocate(2 << 30).unwrap_err();
    assert_eq!(error.kind, FailureClass::OutOfMemory);
    assert_eq!((error.call.as_str(), error.code), ("cuMemAlloc_v2", 2));
    let (source, _) = EMBEDDED_BUILDS[0];
    let program = device.build(&source).unwrap();
    let kernel_error = device.kernel(&program, "no_such_loop").unwrap_err();
    assert_eq!(
        (kernel_error.kind, kernel_error.detail.as_str()),
        (FailureClass::Build, "no_such_loop")
    );
}

#[test]
fn free_memory_decreases_by_allocations() {
    let device = opened_by(own_api());
    let both = device.free_memory().unwrap().unwrap();
    let memory = device.allocate(1 << 20).unwrap();
    assert_eq!(device.free_memory().unwrap().unwrap().0, both.0 - (1 << 20));
    drop(memory);
    assert_eq!(device.free_memory().unwrap().unwrap(), both);
}

#[test]
fn missing_device_is_explained_by_nvml() {
    let error = || VendorApi::Cuda.error(FailureClass::NoDevice, "cuInit", 100);
    let seen = |gpus, unresponsive| Ok(NvmlReading { driver: None, gpus, unresponsive });
    let two = || vec![GpuState::default(), GpuState::default()];
    let hidden = with_nvml_cause(error(), seen(two(), vec![]), Some(""));
    assert_eq!(hidden.detail, "CUDA_VISIBLE_DEVICES= hides all 2 GPUs of this node");
    let one = with_nvml_cause(error(), seen(vec![GpuState::default()], vec![]), Some("-1"));
    assert_eq!(one.detail, "CUDA_VISIBLE_DEVICES=-1 hides the only GPU of this node");
    assert_eq!(with_nvml_cause(error(), seen(two(), vec![]), None).detail, "");
    let no_access = seen(vec![], vec![(0, NvmlError::NoPermission)]);
    let barred = with_nvml_cause(error(), no_access, Some("0"));
    assert_eq!(
        (barred.kind, barred.detail.as_str()),
        (FailureClass::NotAllowed, "GPU 0: the device file cannot be opened")
    );
    let mixed = with_nvml_cause(error(), Err(NvmlError::VersionMismatch), None);
    assert!(mixed.detail.contains("different versions"), "{}", mixed.detail);
}

#[test]
fn peaks_match_data_sheets() {
    // H100 SXM with 132 multiprocessors at 1.98 GHz; NVIDIA specifies 34 and 67 TFLOP/s.
    let [double, single] = peaks([9, 0], 132, Some(Hertz(1.98e9)));
    assert_eq!((double.unwrap().value / 1e12).round(), 33.0);
    assert_eq!((single.unwrap().value / 1e12).round(), 67.0);
    assert_eq!(peaks([3, 5], 13, Some(Hertz(7e8))), [None, None]);
    // NVIDIA specifies 66.9 TFLOP/s for its tensor cores, and 19.5 for those of an A100 with 108 multiprocessors at
    // 1.41 GHz. A V100 has none for double precision: 80 multiprocessors at 1.53 GHz reach 7.8 TFLOP/s.
    for (capability, units, gigahertz, teraflops) in
        [([9, 0], 132, 1.98, 66.9), ([8, 0], 108, 1.41, 19.5), ([7, 0], 80, 1.53, 7.8)]
    {
        let peak = matrix_peak(capability, units, Some(Hertz(gigahertz * 1e9))).unwrap().value;
        assert!((peak / 1e12 - teraflops).abs() < 0.05, "{capability:?}: {peak}");
    }
}
