use super::*;
use crate::driver::{Arg, LaunchGrid};
use crate::kernels::{self, KernelSource};
use nodegauge_kernels::Element;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

/// Opens the first device; `None` if this system has no driver. (`NODEGAUGE_REQUIRE` applies only to the end-to-end
/// tests.)
fn first() -> Option<Box<dyn OpenDevice>> {
    OpenCl::load().and_then(|driver| driver.open(0)).ok()
}

#[test]
fn opencl_check_counts_wrong_elements() {
    let Some(device) = first() else { return };
    let source = KernelSource { element: Element::F64, width: 2, items: 4, strided: true };
    let program = device.build(&source).unwrap();
    let (fill, check) = (
        device.kernel(&program, kernels::FILL).unwrap(),
        device.kernel(&program, kernels::CHECK).unwrap(),
    );
    let (n, groups) = (kernels::LENGTH_DIVISOR, 4);
    let array = device.allocate(n as usize * 8).unwrap();
    let (wrong, worst) =
        (device.allocate(groups * 8).unwrap(), device.allocate(groups * 8).unwrap());
    let host = device.host(groups * 8, false).unwrap();
    let mut queue = device.queue().unwrap();
    let grid = || LaunchGrid::new(groups, 64);
    for (expected, count) in [(3.5, 0), (3.0, n)] {
        // SAFETY: the arguments match the kernel's parameters; all buffers live until the queue is done.
        unsafe {
            queue
                .launch(&fill, &[Arg::Memory(&array), Arg::F64(3.5), Arg::U64(n / 2)], grid())
                .unwrap();
            let args = [
                Arg::Memory(&array),
                Arg::F64(expected),
                Arg::F64(1e-9),
                Arg::Memory(&wrong),
                Arg::Memory(&worst),
                Arg::U64(n),
            ];
            queue.launch(&check, &args, grid()).unwrap();
            queue.copy(crate::driver::BufferCopy::DeviceToHost(&wrong, &host), groups * 8).unwrap();
        }
        queue.wait().unwrap();
        // SAFETY: the copy is complete, and host memory is page-aligned.
        let counts =
            unsafe { std::slice::from_raw_parts(host.start.cast::<u64>().as_ptr(), groups) };
        assert_eq!(counts.iter().sum::<u64>(), count);
    }
}

#[test]
fn pocl_kernel_folder_must_be_absolute_and_private() {
    let has = |set: &[(&str, &str)]| {
        has_kernel_folder(|name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        })
    };
    assert!(has(&[("POCL_CACHE_DIR", "/k"), ("XDG_CACHE_HOME", ".")]));
    assert!(has(&[("XDG_CACHE_HOME", "/c")]) && has(&[("XDG_CACHE_HOME", ""), ("HOME", "/h")]));
    for set in [
        &[][..],
        &[("XDG_CACHE_HOME", "")],
        &[("XDG_CACHE_HOME", "here"), ("HOME", "/h")],
        &[("POCL_CACHE_DIR", ""), ("HOME", "/h")],
        &[("POCL_CACHE_DIR", "here"), ("XDG_CACHE_HOME", "/c")],
    ] {
        assert!(!has(set), "{set:?}");
    }
    // Others may create kernels in the folder, or the folder itself.
    let open = tempfile::tempdir().unwrap();
    let inner = open.path().join("missing").display().to_string();
    assert!(has(&[("POCL_CACHE_DIR", &inner)]));
    for mode in [0o777, 0o1777] {
        std::fs::set_permissions(open.path(), Permissions::from_mode(mode)).unwrap();
        for name in ["POCL_CACHE_DIR", "XDG_CACHE_HOME", "HOME"] {
            assert!(!has(&[(name, &inner)]), "{name} in a folder with mode {mode:o}");
        }
    }
}
