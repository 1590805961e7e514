//! CPUs that a launcher has given to the ranks of one host, collected by the leader of the host over a local socket, for
//! ranks without an MPI.

use crate::collect::Collection;
use crate::launched::{join_timeout, link};
use nodegauge_measure::Failure;
use nodegauge_placement::launchers::LauncherJob;
use nodegauge_placement::pin;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// Time in which a rank that has connected sends its CPUs.
const SENDING: Duration = Duration::from_secs(5);

fn socket(started: &LauncherJob) -> String {
    format!("{}-cpus", started.socket_name())
}

/// Returns the CPUs of all other ranks of the host. Called by the leader.
pub(super) fn collect(started: &LauncherJob) -> Result<Vec<u32>, Failure> {
    match started.ranks {
        1 => Ok(Vec::new()),
        ranks => collect_at(&socket(started), ranks),
    }
}

fn collect_at(socket: &str, ranks: u32) -> Result<Vec<u32>, Failure> {
    let listener = link::listen(socket)?;
    let mut collection = Collection::new(1..ranks as usize, join_timeout()?);
    let wait = collection.wait();
    collection.receive(&wait, |pause| next(&listener, pause))?;
    let of_ranks =
        collection.all_messages().map_err(|lost| lost.with_context("ranks of this host"))?;
    Ok(of_ranks.concat())
}

/// Receives the CPUs of the next rank that connects during the pause.
fn next(listener: &UnixListener, pause: Duration) -> Result<Option<(usize, Vec<u32>)>, Failure> {
    let Some(stream) = link::accept(listener, pause) else { return Ok(None) };
    stream.set_read_timeout(Some(SENDING)).map_err(Failure::missing)?;
    serde_json::from_reader(stream).map(Some).map_err(Failure::missing)
}

/// Sends the CPUs of this rank to the leader of the host.
pub(super) fn offer(started: &LauncherJob) -> Result<(), Failure> {
    offer_at(&socket(started), started.rank)
}

fn offer_at(socket: &str, rank: u32) -> Result<(), Failure> {
    let deadline = Instant::now() + join_timeout()?;
    let stream = link::join(socket, deadline)
        .ok_or_else(|| Failure::missing("the first rank of this host does not respond"))?;
    let own = pin::current_affinity().map_err(Failure::missing)?;
    let own: Vec<u32> = own.into_iter().map(|cpu| cpu.0).collect();
    serde_json::to_writer(stream, &(rank, own)).map_err(Failure::missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leader_collects_the_cpus_of_other_ranks() {
        let socket = format!("nodegauge-test-{}", nodegauge_os::monotonic_nanos());
        let others = [2, 1].map(|rank| {
            let socket = socket.clone();
            std::thread::spawn(move || offer_at(&socket, rank))
        });
        let collected = collect_at(&socket, 3).unwrap();
        others.into_iter().for_each(|other| other.join().unwrap().unwrap());
        assert_eq!(collected.len(), 2 * pin::current_affinity().unwrap().len());
    }
}
