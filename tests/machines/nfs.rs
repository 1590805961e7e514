//! Machine with four mounts of the same file system. Its kernel is a server of NFS 4.2, and mounts the file system four
//! times over the loopback. Each mount has its own cache, as on four nodes.

use crate::guest::{Guest, Shape, Shared};
use serde_json::{Deserializer, Value};
use std::collections::BTreeSet;

/// Number of records that are written simultaneously, two through each mount.
const WRITERS: usize = 8;

static SHARED: Shared = Shared::new();
static NFS: Shape = Shape {
    name: "nfs",
    qemu: &["-cpu", "Haswell-v4", "-smp", "2", "-m", "1536"],
    modules: &[
        "sunrpc",
        "grace",
        "lockd",
        "auth_rpcgss",
        "nfs_acl",
        "nfsd",
        "dns_resolver",
        "netfs",
        "fscache",
        "nfs",
        "nfsv4",
    ],
    // The script writes what exportfs and mountd usually write: the clients, the root of the server, and its export to
    // all clients (writable, root stays root, insecure ports, no subtree check). After a start, there is nothing to
    // reclaim.
    setup: r#"
ip link set lo up
mkdir /srv
mount -t tmpfs none /srv
mount -t nfsd none /proc/fs/nfsd
echo "-2 -3 +4 +4.1 +4.2" >/proc/fs/nfsd/versions
echo 10 >/proc/fs/nfsd/nfsv4leasetime
echo 10 >/proc/fs/nfsd/nfsv4gracetime
echo "nfsd 127.0.0.1 4294967295 all" >/proc/net/rpc/auth.unix.ip/channel
printf '%s\n' 'all 1 \x00000000 4294967295 /srv' >/proc/net/rpc/nfsd.fh/channel
echo "all /srv 4294967295 9218 65534 65534 0" >/proc/net/rpc/nfsd.export/channel
echo "tcp 2049" >/proc/fs/nfsd/portlist
echo 8 >/proc/fs/nfsd/threads
echo Y >/proc/fs/nfsd/v4_end_grace
for i in 1 2 3 4; do
    mkdir -p /mnt/$i
    mount -t nfs4 -o vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1,nosharecache 127.0.0.1:/ /mnt/$i
done
"#,
    commands: &[
        ("mounts", "grep nfs4 /proc/mounts"),
        (
            "write",
            "mkdir /mnt/1/fleet
            for i in 1 2 3 4; do
                for k in a b; do
                    nodegauge machine --json /mnt/$i/fleet/n$i$k.json >/dev/null &
                done
            done
            wait",
        ),
        ("records", "cat /mnt/1/fleet/*.json"),
        ("names", "ls -A /srv/fleet"),
        // Four nodes write the same file. The last record remains and is complete.
        (
            "same",
            "for i in 1 2 3 4; do nodegauge machine --json /mnt/$i/same.json >/dev/null & done
            wait
            cat /mnt/2/same.json; ls -A /srv | wc -l >&2",
        ),
        ("rank", "nodegauge fleet rank /mnt/3/fleet"),
    ],
    ..Shape::PLAIN
};

fn guest() -> Option<&'static Guest> {
    NFS.guest(&SHARED)
}

/// Parses the records in an output.
fn records(text: &str) -> Vec<Value> {
    Deserializer::from_str(text).into_iter::<Value>().collect::<Result<_, _>>().unwrap()
}

#[test]
fn nfs_is_mounted_four_times_as_version_4_2() {
    let Some(guest) = guest() else { return };
    let mounts = guest.result("mounts").exits(0);
    assert_eq!(mounts.stdout.matches("vers=4.2").count(), 4, "{}", mounts.stdout);
}

#[test]
fn nfs_keeps_all_records_of_concurrent_writers() {
    let Some(guest) = guest() else { return };
    guest.result("write").exits(0);
    let written = records(&guest.result("records").exits(0).stdout);
    let ids: BTreeSet<&str> = written.iter().map(|record| record["id"].as_str().unwrap()).collect();
    assert_eq!((written.len(), ids.len()), (WRITERS, WRITERS));
    assert!(written.iter().all(|record| record["complete"] == true));
    // No temporary file is left on the server.
    let names = guest.result("names").exits(0);
    let expected: String = (1..=4).map(|i| format!("n{i}a.json\nn{i}b.json\n")).collect();
    assert_eq!(names.stdout.trim(), expected.trim());
    assert!(guest.result("rank").stdout.contains("guest"), "{}", guest.result("rank").stdout);
}

#[test]
fn nfs_has_one_complete_record_if_nodes_write_the_same_file() {
    let Some(guest) = guest() else { return };
    let same = guest.result("same").exits(0);
    assert_eq!(records(&same.stdout).len(), 1);
    assert_eq!(same.stderr.trim(), "2", "the folder and the file");
}

#[test]
fn nfs_guest_is_unchanged_after_all_commands() {
    let Some(guest) = guest() else { return };
    guest.assert_unchanged();
}
