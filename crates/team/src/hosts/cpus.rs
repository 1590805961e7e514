//! CPUs that a launcher has given to the ranks of one host, collected by the leader of the host over a local socket, for
//! ranks without an MPI.

use crate::launched::{join_timeout, link};
use nodegauge_measure::Failure;
use nodegauge_placement::launchers::Started;
use nodegauge_placement::pin;
use std::time::{Duration, Instant};

/// Time in which a rank that has connected sends its CPUs.
const SENDING: Duration = Duration::from_secs(5);

fn socket(started: &Started) -> String {
    format!("{}-cpus", started.socket_name())
}

/// Returns the CPUs of all other ranks of the host. Called by the leader.
pub(super) fn collect(started: &Started) -> Result<Vec<u32>, Failure> {
    match started.ranks {
        1 => Ok(Vec::new()),
        ranks => collect_at(&socket(started), ranks),
    }
}

fn collect_at(socket: &str, ranks: u32) -> Result<Vec<u32>, Failure> {
    let listener = link::listen(socket)?;
    let timeout = join_timeout()?;
    let deadline = Instant::now() + timeout;
    let mut cpus = Vec::new();
    for joined in 1..ranks {
        let stream = link::accept(&listener, deadline).ok_or_else(|| {
            Failure::missing(format!(
                "only {joined} of {ranks} ranks of this host responded within {} s",
                timeout.as_secs()
            ))
        })?;
        stream.set_read_timeout(Some(SENDING)).map_err(Failure::missing)?;
        let of_rank: Vec<u32> = serde_json::from_reader(stream).map_err(Failure::missing)?;
        cpus.extend(of_rank);
    }
    Ok(cpus)
}

/// Sends the CPUs of this rank to the leader of the host.
pub(super) fn offer(started: &Started) -> Result<(), Failure> {
    offer_at(&socket(started))
}

fn offer_at(socket: &str) -> Result<(), Failure> {
    let deadline = Instant::now() + join_timeout()?;
    let stream = link::join(socket, deadline)
        .ok_or_else(|| Failure::missing("the first rank of this host does not respond"))?;
    let own = pin::current_affinity().map_err(Failure::missing)?;
    let own: Vec<u32> = own.into_iter().map(|cpu| cpu.0).collect();
    serde_json::to_writer(stream, &own).map_err(Failure::missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_collects_the_cpus_of_the_other_ranks() {
        let socket = format!("nodegauge-test-{}", nodegauge_os::monotonic_nanos());
        let others = [1, 2].map(|_| {
            let socket = socket.clone();
            std::thread::spawn(move || offer_at(&socket))
        });
        let collected = collect_at(&socket, 3).unwrap();
        others.into_iter().for_each(|other| other.join().unwrap().unwrap());
        assert_eq!(collected.len(), 2 * pin::current_affinity().unwrap().len());
    }
}
