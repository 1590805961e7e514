//! Machine with two sockets that have one NUMA node each, and with a NUMA node without CPUs. The HMAT of its firmware
//! is wrong: NUMA node 0 has almost no bandwidth, and NUMA node 2 has more than any memory.

use crate::guest::{Guest, Shape, Shared};
use crate::memattrs::{self, MeasuredTopology, attributes};
use crate::skip::{Part, skip};

static SHARED: Shared = Shared::new();
static HMAT: Shape = Shape {
    name: "hmat",
    qemu: &[
        "-machine",
        "q35,hmat=on",
        "-cpu",
        "Haswell-v4",
        "-smp",
        "2,sockets=2,cores=1",
        "-m",
        "2560",
        "-object",
        "memory-backend-ram,id=m0,size=1024M",
        "-numa",
        "node,nodeid=0,memdev=m0",
        "-object",
        "memory-backend-ram,id=m1,size=1024M",
        "-numa",
        "node,nodeid=1,memdev=m1",
        "-object",
        "memory-backend-ram,id=m2,size=512M",
        "-numa",
        "node,nodeid=2,memdev=m2,initiator=0",
        "-numa",
        "cpu,node-id=0,socket-id=0",
        "-numa",
        "cpu,node-id=1,socket-id=1",
        "-numa",
        "hmat-lb,initiator=0,target=0,hierarchy=memory,data-type=access-latency,latency=20",
        "-numa",
        "hmat-lb,initiator=0,target=0,hierarchy=memory,data-type=access-bandwidth,bandwidth=1M",
        "-numa",
        "hmat-lb,initiator=0,target=1,hierarchy=memory,data-type=access-latency,latency=30",
        "-numa",
        "hmat-lb,initiator=0,target=1,hierarchy=memory,data-type=access-bandwidth,bandwidth=1M",
        "-numa",
        "hmat-lb,initiator=0,target=2,hierarchy=memory,data-type=access-latency,latency=10",
        "-numa",
        "hmat-lb,initiator=0,target=2,hierarchy=memory,data-type=access-bandwidth,bandwidth=60G",
        "-numa",
        "hmat-lb,initiator=1,target=0,hierarchy=memory,data-type=access-latency,latency=30",
        "-numa",
        "hmat-lb,initiator=1,target=0,hierarchy=memory,data-type=access-bandwidth,bandwidth=1M",
        "-numa",
        "hmat-lb,initiator=1,target=1,hierarchy=memory,data-type=access-latency,latency=20",
        "-numa",
        "hmat-lb,initiator=1,target=1,hierarchy=memory,data-type=access-bandwidth,bandwidth=2M",
        "-numa",
        "hmat-lb,initiator=1,target=2,hierarchy=memory,data-type=access-latency,latency=40",
        "-numa",
        "hmat-lb,initiator=1,target=2,hierarchy=memory,data-type=access-bandwidth,bandwidth=1M",
    ],
    commands: &[
        ("firmware", "cd /sys/devices/system/node; grep . node*/access*/initiators/read_* || true"),
        (
            "suspect",
            "nodegauge memory matrix --size 8MiB --samples 1 --emit hwloc --output /tmp/matrix.xml",
        ),
        ("nothing", "ls /tmp/matrix.xml"),
        (
            "matrix",
            "nodegauge memory matrix --size 8MiB --samples 1 --emit hwloc --output /tmp/matrix.xml --accept-suspect",
        ),
        (
            "bound",
            "HWLOC_XMLFILE=/tmp/matrix.xml HWLOC_THISSYSTEM=1 hwloc-bind --best-memattr bandwidth --strict --cpubind pu:0 \
             --membind all -- numactl --show",
        ),
        ("xml", "cat /tmp/matrix.xml; rm /tmp/matrix.xml"),
    ],
    ..Shape::PLAIN
};

fn guest() -> Option<&'static Guest> {
    HMAT.guest(&SHARED)
}

#[test]
fn hmat_that_contradicts_the_measurement_is_reported() {
    let Some(guest) = guest() else { return };
    let page = guest.result("matrix").exits(0);
    if guest.result("firmware").stdout.is_empty() {
        skip(Part::Machines, "this kernel does not read the HMAT");
        return;
    }
    page.prints_words("firmware its HMAT reports n0->n0 1.000 MB/s read")
        .prints_words("its HMAT contradicts the measurement:")
        .prints_words("(the measured figures are suspect)");
}

#[test]
fn hmat_is_not_replaced_by_suspect_figures() {
    let Some(guest) = guest() else { return };
    guest.result("suspect").exits(1).warns("figures between NUMA nodes are suspect or invalid");
    assert_ne!(guest.result("nothing").code, Some(0));
}

#[test]
fn hmat_is_replaced_by_measured_values_for_tools_of_hwloc() {
    let Some(guest) = guest() else { return };
    let topology = MeasuredTopology::new(&guest.result("xml").exits(0).stdout);
    let Some(printed) = topology.run(&["lstopo-no-graphics", "--memattrs"]) else { return };
    for name in memattrs::NAMES {
        // Two initiators have three targets each.
        assert_eq!(attributes(&printed, name).len(), 6, "{name}: {printed}");
    }
    topology.assert_best_is_chosen(&printed, "pu:0", "0x00000001");
    // numactl prints the numbers of Linux, and so does lstopo with -p.
    let by_number = topology.run(&["lstopo-no-graphics", "-p", "--memattrs"]).unwrap();
    let bandwidths = attributes(&by_number, "Bandwidth").into_iter();
    let best =
        bandwidths.filter(|value| value.cpus == "0x00000001").max_by_key(|value| value.value);
    let bound = guest.result("bound");
    if bound.code == Some(127) {
        skip(Part::Hwloc, "there is no hwloc-bind");
        return;
    }
    bound.exits(0).prints_words(&format!("membind: {}", best.unwrap().node));
}

#[test]
fn hmat_guest_is_unchanged_after_all_commands() {
    let Some(guest) = guest() else { return };
    guest.assert_unchanged();
}
