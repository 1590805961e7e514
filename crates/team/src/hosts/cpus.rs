//! CPUs that a launcher has assigned to the ranks of one host. Without an MPI, the leader of the host collects
//! them.

use crate::host_ranks::{collect as collect_messages, join_timeout, send};
use nodegauge_measure::Failure;
use nodegauge_placement::launchers::LauncherJob;
use nodegauge_placement::pin;

/// Topic of the messages with CPUs.
const TOPIC: &str = "cpus";

/// Returns the CPUs of all other ranks of the host. Only the leader calls this function.
pub(super) fn collect(started: &LauncherJob) -> Result<Vec<u32>, Failure> {
    let collection = collect_messages::<Vec<u32>>(started, TOPIC, join_timeout()?)?;
    let of_ranks =
        collection.all_messages().map_err(|lost| lost.with_context("ranks of this host"))?;
    Ok(of_ranks.concat())
}

/// Sends the CPUs of this rank to the leader of the host.
pub(super) fn offer(started: &LauncherJob) -> Result<(), Failure> {
    let own = pin::current_affinity().map_err(Failure::missing)?;
    let own: Vec<u32> = own.into_iter().map(|cpu| cpu.0).collect();
    send(started, TOPIC, &own, join_timeout()?)
}
