//! Connection between rank 0 and the leaders of the other hosts.

use super::lines::{LeaderConnection, SrunStep};
use crate::mpi::World;
use nodegauge_measure::Failure;
use nodegauge_os::{Wait, wait_whole_time};
use nodegauge_placement::launchers::LauncherJob;
use serde::Serialize;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Time for all ranks to finalise MPI.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connection between rank 0 and the leaders of the other hosts.
#[derive(Debug)]
pub(super) enum Link {
    /// MPI messages between the leaders.
    Mpi {
        /// All ranks of the job.
        world: &'static World,
        /// Rank of the leader of each host.
        leaders: Vec<usize>,
    },
    /// Lines to and from a second step of srun; on rank 0.
    Step {
        /// Tasks on the other hosts.
        step: SrunStep,
        /// Names of all hosts.
        names: Vec<String>,
    },
    /// Lines to and from rank 0; on the leader of another host.
    Leader(LeaderConnection),
    /// No connection: only the leader of its host communicates with this rank.
    Nothing,
}

impl Link {
    /// Sends a message to a host. A leader other than rank 0 can send only to host 0.
    pub fn send(&self, host: usize, message: &impl Serialize) -> Result<(), Failure> {
        match self {
            Self::Mpi { world, leaders } => {
                let words = serde_json::to_vec(message).map_err(Failure::missing)?;
                world.send(leaders[host], &words);
                Ok(())
            }
            Self::Step { step, names } => step.send(Some(&names[host]), message),
            Self::Leader(leader) => leader.send(message),
            Self::Nothing => Ok(()),
        }
    }

    /// Sends a message of rank 0 to all other ranks.
    pub fn send_all(&self, message: &impl Serialize) -> Result<(), Failure> {
        match self {
            Self::Mpi { world, .. } => world.broadcast(message),
            Self::Step { step, .. } => step.send(None, message),
            Self::Leader(_) | Self::Nothing => Ok(()),
        }
    }

    /// Interrupts the leaders of the other hosts, at rank 0. With MPI, the launcher sends signals to all ranks
    /// itself.
    pub fn interrupt(&self) {
        if let Self::Step { step, .. } = self {
            // A step that has ended has no leaders.
            let _ = step.interrupt();
        }
    }

    /// Returns a message of a host; `None` if none has arrived.
    ///
    /// # Errors
    /// Fails if the host is known to have ended.
    pub fn poll(&self, host: usize) -> Result<Option<Vec<u8>>, Failure> {
        match self {
            Self::Mpi { world, leaders } => Ok(world.poll(leaders[host])),
            Self::Step { step, names } => Ok(step.poll(&names[host])?.map(String::into_bytes)),
            Self::Leader(leader) => Ok(leader.poll()?.map(String::into_bytes)),
            Self::Nothing => Ok(None),
        }
    }

    /// Closes the connection of a rank. All ranks must call this function. If a rank does not, e.g. because it was
    /// killed, this process ends with the exit code after a few seconds.
    pub fn leave(&self, code: u8) {
        match self {
            Self::Mpi { world, .. } => {
                // Without the thread, this process waits for the others.
                let _ = std::thread::Builder::new().spawn(move || {
                    wait_whole_time(&Wait::within(LEAVE_TIMEOUT));
                    nodegauge_os::end_process(code)
                });
                world.leave();
            }
            Self::Step { step, .. } => step.end(true),
            Self::Leader(_) | Self::Nothing => {}
        }
    }

    /// Ends all processes of the job when some of them do not respond.
    pub fn abort(&self, code: u8) {
        match self {
            Self::Mpi { world, .. } => world.abort(code),
            Self::Step { step, .. } => step.end(false),
            Self::Leader(_) | Self::Nothing => {}
        }
    }
}

/// Initialises MPI. If this takes longer than the timeout, another thread calls `give_up`.
pub(super) fn join_world(
    started: &LauncherJob,
    timeout: Duration,
    give_up: impl FnOnce(Failure) + Send + 'static,
) -> Result<&'static World, Failure> {
    let (done, is_done) = mpsc::channel::<()>();
    let refusal = Failure::missing(format!(
        "{} on several hosts, and MPI was not initialised within {} s: a host does not respond",
        started.in_words(),
        timeout.as_secs(),
    ))
    .hint("start a program on each host, e.g. mpirun hostname, to find the host that does not respond");
    let started_thread = std::thread::Builder::new().spawn(move || {
        if is_done.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout) {
            give_up(refusal);
        }
    });
    started_thread.map_err(|cause| {
        Failure::missing(format!("cannot start the thread for the time limit of MPI: {cause}"))
    })?;
    let world = World::join(started);
    // The thread may have ended.
    let _ = done.send(());
    world
}
