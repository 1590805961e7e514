//! Connection between ranks and coordinator: a local socket with an abstract name. It has no file and disappears
//! with the process. Only processes of the same user are accepted.
#![allow(unsafe_code)]

use super::cannot;
use nodegauge_measure::Failure;
use nodegauge_os::{Wait, is_readable_within, wait_until, wait_whole_time};
use std::io;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

/// Listens on the socket with this name.
pub(crate) fn listen(name: &str) -> Result<UnixListener, Failure> {
    let listener = address(name).and_then(|address| UnixListener::bind_addr(&address));
    let listener = listener.map_err(|cause| match cause.kind() {
        io::ErrorKind::AddrInUse => {
            Failure::missing("another nodegauge of this job is measuring on this host")
                .hint("start one nodegauge after the other")
        }
        _ => cannot("listen for ranks", cause),
    })?;
    let set = listener.set_nonblocking(true);
    set.map_err(|cause| cannot("listen for ranks", cause))?;
    Ok(listener)
}

/// Accepts the next connection, if it arrives within `pause` and its process belongs to this user.
pub(crate) fn accept(listener: &UnixListener, pause: Duration) -> Option<UnixStream> {
    if !is_readable_within(listener, pause).unwrap_or(false) {
        return None;
    }
    let Ok((stream, _)) = listener.accept() else {
        // There may be no descriptor for the connection, which then stays.
        wait_whole_time(&Wait::within(pause));
        return None;
    };
    (is_own(&stream) && stream.set_nonblocking(false).is_ok()).then_some(stream)
}

/// Connects to the socket with this name; waits until the deadline if no process listens on it.
pub(crate) fn join(name: &str, deadline: Instant) -> Option<UnixStream> {
    let address = address(name).ok()?;
    wait_until(&Wait::until(deadline), || UnixStream::connect_addr(&address).ok().filter(is_own))
        .ok()
}

/// True if the connected process belongs to the same user.
fn is_own(stream: &UnixStream) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes of the structure, which consists of plain numbers.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    done == 0 && peer.uid == nodegauge_os::effective_user_id()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// User ID of another user.
    const NOBODY: libc::uid_t = 65_534;

    /// Changes the effective user of the calling thread only; the function of the C library would change it for all
    /// threads.
    fn become_user(user: libc::uid_t) -> bool {
        // SAFETY: the call changes only the user of this thread; -1 leaves the other user IDs unchanged.
        unsafe { libc::syscall(libc::SYS_setresuid, -1, user, -1) == 0 }
    }

    #[test]
    fn connections_of_other_users_are_refused() {
        let name = format!("nodegauge-test-{}", nodegauge_os::monotonic_nanos());
        let far = Instant::now() + Duration::from_secs(30);
        let listener = listen(&name).unwrap();
        let own = name.clone();
        let visitor = std::thread::spawn(move || {
            // Without the permission to change the user, nothing is connected.
            let foreign = become_user(NOBODY).then(|| join_unchecked(&own));
            let came = foreign.is_some();
            drop(foreign);
            if came {
                assert!(join(&own, Instant::now()).is_none(), "joined the run of another user");
                assert!(become_user(0));
            }
            join(&own, far).unwrap().write_all(b"own").unwrap();
        });
        let mut text = String::new();
        let accepted =
            nodegauge_os::wait_for_event(&Wait::until(far), |pause| accept(&listener, pause));
        accepted.unwrap().read_to_string(&mut text).unwrap();
        visitor.join().unwrap();
        assert_eq!(text, "own");
    }

    fn join_unchecked(name: &str) -> UnixStream {
        UnixStream::connect_addr(&address(name).unwrap()).unwrap()
    }
}
