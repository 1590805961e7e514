//! Messages of the ranks of one host, which the first rank collects over a local socket. They require neither MPI
//! nor a coordinator.

use crate::collect::MessageCollection;
use crate::rank_service::link;
use nodegauge_measure::Failure;
use nodegauge_placement::launchers::LauncherJob;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

pub use crate::rank_service::join_timeout;

/// Maximum time for a connected rank to send its message.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

fn socket(started: &LauncherJob, topic: &str) -> String {
    format!("{}-{topic}", started.socket_name())
}

/// Collects one message on a topic from all other ranks of a host, until the timeout. Only the first rank calls
/// this function; `started` contains the ranks of the host.
///
/// # Errors
/// Fails if the socket is in use, or if a message cannot be read.
pub fn collect<T: DeserializeOwned>(
    started: &LauncherJob,
    topic: &str,
    timeout: Duration,
) -> Result<MessageCollection<T>, Failure> {
    let mut collection = MessageCollection::new(1..started.ranks as usize, timeout);
    if started.ranks > 1 {
        receive_all(&mut collection, &socket(started, topic))?;
    }
    Ok(collection)
}

fn receive_all<T: DeserializeOwned>(
    collection: &mut MessageCollection<T>,
    socket: &str,
) -> Result<(), Failure> {
    let listener = link::listen(socket)?;
    let wait = collection.deadline_wait();
    collection.receive(&wait, |pause| next(&listener, pause))
}

/// Receives the message of the next rank that connects during the pause.
fn next<T: DeserializeOwned>(
    listener: &UnixListener,
    pause: Duration,
) -> Result<Option<(usize, T)>, Failure> {
    let Some(stream) = link::accept(listener, pause) else { return Ok(None) };
    stream.set_read_timeout(Some(SEND_TIMEOUT)).map_err(Failure::missing)?;
    serde_json::from_reader(stream).map(Some).map_err(Failure::missing)
}

/// Sends a message on a topic to the first rank of the host. Only the other ranks call this function.
///
/// # Errors
/// Fails if the first rank does not respond before the timeout.
pub fn send<T: Serialize>(
    started: &LauncherJob,
    topic: &str,
    message: &T,
    timeout: Duration,
) -> Result<(), Failure> {
    send_to(&socket(started, topic), started.rank, message, timeout)
}

fn send_to<T: Serialize>(
    socket: &str,
    rank: u32,
    message: &T,
    timeout: Duration,
) -> Result<(), Failure> {
    let stream = link::join(socket, Instant::now() + timeout)
        .ok_or_else(|| Failure::missing("the first rank of this host does not respond"))?;
    serde_json::to_writer(stream, &(rank, message)).map_err(Failure::missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_rank_collects_messages() {
        let socket = format!("nodegauge-test-{}", nodegauge_os::monotonic_nanos());
        let timeout = Duration::from_secs(30);
        let others = [2, 1].map(|rank| {
            let socket = socket.clone();
            std::thread::spawn(move || send_to(&socket, rank, &vec![rank; 2], timeout))
        });
        let mut collection = MessageCollection::<Vec<u32>>::new(1..3, timeout);
        receive_all(&mut collection, &socket).unwrap();
        others.into_iter().for_each(|other| other.join().unwrap().unwrap());
        assert_eq!(collection.all_messages().unwrap(), [[1, 1], [2, 2]]);
    }
}
