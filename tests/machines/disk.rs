//! Machine with a disk that only the tests write to. The kernel counts the bytes that reach the disk.

use crate::fields::measurements;
use crate::guest::{Guest, Shape, Shared};
use serde_json::Value;

static SHARED: Shared = Shared::new();
static DISK: Shape = Shape {
    name: "disk",
    qemu: &["-cpu", "Haswell-v4", "-smp", "1", "-m", "1024"],
    disk_mib: 64,
    setup: "
mke2fs /dev/nvme0n1 >/dev/null
mkdir /disk
mount -t ext4 /dev/nvme0n1 /disk
",
    commands: &[
        (
            "cached",
            "nodegauge io --path /disk --file-sizes 4MiB --block-sizes 256KiB --operations write,read --json -",
        ),
        (
            "dropped",
            "nodegauge io --path /disk --file-sizes 4MiB --block-sizes 256KiB --operations write,read --cache fsync --json -",
        ),
        (
            "direct",
            "nodegauge io --path /disk --file-sizes 4MiB --block-sizes 256KiB --operations write,read --cache direct --json -",
        ),
        ("left", "ls -A /disk"),
    ],
    ..Shape::PLAIN
};

fn guest() -> Option<&'static Guest> {
    DISK.guest(&SHARED)
}

/// Returns the share of an operation's bytes that reached the disk.
fn device_share(figure: &Value) -> f64 {
    assert_eq!(figure["config"]["volume"]["device"], "nvme0n1", "{figure:#}");
    assert_eq!(figure["traffic"]["basis"], "counters", "{figure:#}");
    figure["config"]["device_share"].as_f64().unwrap()
}

#[test]
fn disk_reads_are_distinguished_from_cached_reads() {
    let Some(guest) = guest() else { return };
    let cached = guest.result("cached").exits(0).json();
    let read = &measurements(&cached)[1];
    assert!(read["config"]["device_share"].as_f64().unwrap() < 0.05, "{read:#}");
    assert_eq!(read["config"]["served"], "cached");
    for name in ["dropped", "direct"] {
        let record = guest.result(name).exits(0).json();
        for figure in measurements(&record) {
            assert!(device_share(figure) > 0.9, "{name}: {figure:#}");
        }
        assert_eq!(measurements(&record)[1]["config"]["direct"], name == "direct");
    }
}

#[test]
fn disk_guest_is_unchanged_after_all_commands() {
    let Some(guest) = guest() else { return };
    assert_eq!(guest.result("left").exits(0).stdout.trim(), "lost+found");
    guest.assert_unchanged();
}
