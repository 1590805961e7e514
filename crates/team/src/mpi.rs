//! Ranks that an MPI launcher has started, from the view of one rank. They communicate only by MPI.
//!
//! The MPI library is loaded when it is needed, so that nodegauge can be built and started without MPI. Handles and
//! constants are those of the binary interface of the library ([`MpiAbi`]).

use crate::timed::{Laps, TimedResults};
use crate::{Member, MemberBarrier};
use nodegauge_measure::Failure;
use nodegauge_measure::interference::stolen_ticks;
use nodegauge_os::mpi_abi::{
    self as abi, MpiAbi, MpiHandle, MpiHandleValue, implementations, launcher_abis,
};
use nodegauge_os::{LoadError, SharedLibrary, monotonic_nanos, wait_without_limit};
use nodegauge_placement::launchers::LauncherJob;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::time::Duration;

/// Handle of a communicator, datatype or operation: a 32-bit number or an address. Both are passed in a 64-bit
/// register or stack slot; a function that expects a 32-bit number reads the lower half.
type Handle = usize;
/// Return value of MPI functions. It is not checked: by default, errors end the process.
type Code = c_int;

type Barrier = unsafe extern "C" fn(Handle) -> Code;
type Send = unsafe extern "C" fn(*const c_void, c_int, Handle, c_int, c_int, Handle) -> Code;
/// Type of `MPI_Recv`, `MPI_Isend` and `MPI_Irecv`; the last argument is a status or a request.
type Transfer =
    unsafe extern "C" fn(*mut c_void, c_int, Handle, c_int, c_int, Handle, *mut c_void) -> Code;
type WaitAll = unsafe extern "C" fn(c_int, *mut c_void, *mut c_void) -> Code;
type Probe = unsafe extern "C" fn(c_int, c_int, Handle, *mut c_int, *mut c_void) -> Code;
type Count = unsafe extern "C" fn(*const c_void, Handle, *mut c_int) -> Code;
type Reduce =
    unsafe extern "C" fn(*const c_void, *mut c_void, c_int, Handle, Handle, Handle) -> Code;
type Initialise = unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> Code;
type Own = unsafe extern "C" fn(Handle, *mut c_int) -> Code;
type Version = unsafe extern "C" fn(*mut c_char, *mut c_int) -> Code;
type Finalise = unsafe extern "C" fn() -> Code;
type Abort = unsafe extern "C" fn(Handle, c_int) -> Code;

/// Buffer size for an `MPI_Status`, sufficient for all binary interfaces; bytes.
const STATUS: usize = 64;
/// Tag of messages of [`World::exchange`].
const HALO: c_int = 1;
/// Tag of messages of [`World::send`].
const WORDS: c_int = 2;
/// Interval between two checks for a message; between the checks, the rank sleeps.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Number of round trips for determining the offset of a clock; the shortest is used.
const CLOCK_ROUNDS: usize = 10;

thread_local! {
    /// True in the thread that has initialised MPI; no other thread may call MPI.
    static INITIALISED: Cell<bool> = const { Cell::new(false) };
}

/// All ranks of this MPI job, and the functions of the MPI library. The value exists until the end of the process.
#[derive(Debug)]
pub struct World {
    /// Rank of this process.
    pub rank: usize,
    /// Number of ranks.
    pub count: usize,
    /// Name and version of the library: `Open MPI v4.1.4`, `MPICH 4.0.2`.
    pub name: String,
    /// Hosts of the ranks; empty if the ranks are on one host or their hosts are not known yet.
    hosts: OnceLock<WorldHosts>,
    calls: Calls,
}

/// Hosts of the ranks of an MPI job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldHosts {
    /// Names of the hosts, in the order of their first ranks.
    pub names: Vec<String>,
    /// Index of each rank's host, in rank order.
    pub rank_hosts: Vec<usize>,
}

impl WorldHosts {
    /// Returns the ranks that are not on the host of rank 0; their clocks differ.
    fn other_host_ranks(&self) -> impl Iterator<Item = usize> {
        let of_ranks = self.rank_hosts.iter().enumerate();
        of_ranks.filter(|(_, host)| **host > 0).map(|(rank, _)| rank)
    }

    /// Returns the number of ranks on the host of rank 0.
    pub fn first_host_rank_count(&self) -> usize {
        self.rank_hosts.iter().filter(|host| **host == 0).count()
    }
}

#[derive(Debug)]
struct Calls {
    world: Handle,
    byte: Handle,
    double: Handle,
    sum: Handle,
    no_status: usize,
    request: usize,
    barrier: Barrier,
    send: Send,
    receive: Transfer,
    begin_send: Transfer,
    begin_receive: Transfer,
    wait_all: WaitAll,
    probe: Probe,
    count: Count,
    reduce: Reduce,
    finalise: Finalise,
    abort: Abort,
    _library: SharedLibrary,
}

/// Exchange of numbers between this rank and another rank.
#[derive(Debug)]
pub struct Exchange {
    /// Number of the other rank.
    pub partner: usize,
    /// Numbers to send to the other rank.
    pub sent: Vec<f64>,
    /// Numbers received from the other rank.
    pub received: Vec<f64>,
}

/// Exchanges with all neighbours. The value is created once, so that [`World::exchange`] does not allocate memory.
#[derive(Debug)]
pub struct Exchanges {
    all: Vec<Exchange>,
    /// Memory for the requests of all exchanges, sized for the larger kind of request.
    requests: Vec<u64>,
}

impl Exchanges {
    /// Creates exchanges with all neighbours, which run simultaneously.
    pub fn new(all: Vec<Exchange>) -> Self {
        Self { requests: vec![0; 2 * all.len()], all }
    }

    /// Returns the exchange with each neighbour.
    pub fn all(&mut self) -> &mut [Exchange] {
        &mut self.all
    }
}

/// All values are equal, because a process has only one `World`.
impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for World {}

impl World {
    /// Initialises MPI in this process, which is one of the ranks that a launcher has started. Each rank must call this
    /// function once. Only the calling thread may use the result.
    ///
    /// # Errors
    /// Fails if the MPI library cannot be loaded, or if MPI and the launcher report different numbers of
    /// ranks.
    pub fn join(started: &LauncherJob) -> Result<&'static Self, Failure> {
        static WORLD: OnceLock<Result<World, Failure>> = OnceLock::new();
        let world = WORLD.get_or_init(|| Self::initialise(started));
        let world = world.as_ref().map_err(Clone::clone)?;
        if world.count != started.ranks as usize {
            return Err(Failure::missing(format!(
                "{}, but {} reports {}",
                started.in_words(),
                world.name,
                world.count,
            ))
            .hint(format!(
                "start the ranks with the launcher of this MPI, or srun with {}",
                srun_options()
            )));
        }
        Ok(world)
    }

    fn initialise(started: &LauncherJob) -> Result<Self, Failure> {
        // SAFETY: the launcher belongs to this library, so that every program that it starts may run the initialisation
        // of the library. The symbols have the types that the MPI standard defines for C.
        unsafe {
            let abis =
                launcher_abis(started.implementation, |name| std::env::var_os(name).is_some());
            let (library, abi) = load(&abis).map_err(|why| {
                Failure::missing(format!("ranks cannot communicate: {why}")).hint(
                    "add the folder of the library of the MPI that started the ranks to \
                         LD_LIBRARY_PATH, or start one process with --ranks",
                )
            })?;
            macro_rules! call {
                ($name:literal) => {
                    library.function($name).ok_or_else(|| missing($name))?
                };
            }
            let initialise: Initialise = call!("MPI_Init_thread");
            let rank_of: Own = call!("MPI_Comm_rank");
            let count_of: Own = call!("MPI_Comm_size");
            let version: Version = call!("MPI_Get_library_version");
            let calls = Calls {
                world: handle(&library, abi, abi::MPI_COMM_WORLD)?,
                byte: handle(&library, abi, abi::MPI_BYTE)?,
                double: handle(&library, abi, abi::MPI_DOUBLE)?,
                sum: handle(&library, abi, abi::MPI_SUM)?,
                no_status: constant(abi, abi::MPI_STATUS_IGNORE)? as usize,
                request: abi.request_bytes(),
                barrier: call!("MPI_Barrier"),
                send: call!("MPI_Send"),
                receive: call!("MPI_Recv"),
                begin_send: call!("MPI_Isend"),
                begin_receive: call!("MPI_Irecv"),
                wait_all: call!("MPI_Waitall"),
                probe: call!("MPI_Iprobe"),
                count: call!("MPI_Get_count"),
                reduce: call!("MPI_Allreduce"),
                finalise: call!("MPI_Finalize"),
                abort: call!("MPI_Abort"),
                _library: library,
            };
            let funneled = constant(abi, abi::MPI_THREAD_FUNNELED)?;
            let longest_version = constant(abi, abi::MPI_MAX_LIBRARY_VERSION_STRING)? as usize;
            let mut provided = 0;
            let mut rank = 0;
            let mut count = 0;
            let mut length = 0;
            // Some network libraries install a signal handler for Ctrl-C that prints a backtrace; the handler of
            // nodegauge is kept.
            nodegauge_os::preserve_signal_actions(|| {
                initialise(null_mut(), null_mut(), funneled, &raw mut provided)
            });
            INITIALISED.set(true);
            rank_of(calls.world, &raw mut rank);
            count_of(calls.world, &raw mut count);
            let mut reported = vec![0_u8; longest_version + 1];
            version(reported.as_mut_ptr().cast(), &raw mut length);
            reported.truncate(length.max(0) as usize);
            let name = library_name(&String::from_utf8_lossy(&reported));
            Ok(Self {
                rank: rank as usize,
                count: count as usize,
                name,
                hosts: OnceLock::new(),
                calls,
            })
        }
    }

    /// Returns the MPI functions. Panics in a thread that must not call them.
    fn calls(&self) -> &Calls {
        assert!(INITIALISED.get(), "a thread that did not initialise MPI must not call it");
        &self.calls
    }

    /// Waits until all ranks have called this function.
    pub fn barrier(&self) {
        let calls = self.calls();
        // SAFETY: MPI was initialised by this thread.
        unsafe { (calls.barrier)(calls.world) };
    }

    /// Returns the sum of `x` over all ranks; every rank gets the sum.
    pub fn sum(&self, x: f64) -> f64 {
        let calls = self.calls();
        let mut sum = 0.0_f64;
        // SAFETY: MPI was initialised by this thread. The buffers for input and output contain one number each.
        unsafe {
            let of = (&raw const x).cast();
            let to = (&raw mut sum).cast();
            (calls.reduce)(of, to, 1, calls.double, calls.sum, calls.world);
        }
        sum
    }

    /// Exchanges the numbers with all neighbours simultaneously.
    pub fn exchange(&self, exchanges: &mut Exchanges) {
        let calls = self.calls();
        let Exchanges { all, requests } = exchanges;
        let first: *mut u8 = requests.as_mut_ptr().cast();
        let mut places = 0..requests.len();
        let mut place = || {
            let place = places.next().unwrap_or(0) * calls.request;
            // SAFETY: the number of requests does not exceed the number of allocated requests.
            unsafe { first.add(place).cast::<c_void>() }
        };
        // SAFETY: MPI was initialised by this thread. Numbers and requests exist until all transfers are complete, and
        // no other code accesses the received numbers before.
        unsafe {
            for each in &mut *all {
                let at = each.received.as_mut_ptr().cast();
                let n = each.received.len() as c_int;
                let partner = each.partner as c_int;
                (calls.begin_receive)(at, n, calls.double, partner, HALO, calls.world, place());
            }
            for each in &*all {
                let at = each.sent.as_ptr().cast_mut().cast();
                let n = each.sent.len() as c_int;
                let partner = each.partner as c_int;
                (calls.begin_send)(at, n, calls.double, partner, HALO, calls.world, place());
            }
            let n = 2 * all.len() as c_int;
            (calls.wait_all)(n, first.cast(), calls.no_status as *mut c_void);
        }
    }

    /// Sends bytes to another rank.
    pub fn send(&self, rank: usize, words: &[u8]) {
        let calls = self.calls();
        let at = words.as_ptr().cast();
        let n = words.len() as c_int;
        // SAFETY: MPI was initialised by this thread. The bytes exist until they have been sent.
        unsafe { (calls.send)(at, n, calls.byte, rank as c_int, WORDS, calls.world) };
    }

    /// Waits for bytes from another rank. During the wait, the core is available to other ranks.
    pub fn receive(&self, rank: usize) -> Vec<u8> {
        wait_without_limit(POLL_INTERVAL, || self.poll(rank))
    }

    /// Returns bytes that another rank has sent; `None` if none have arrived.
    pub fn poll(&self, rank: usize) -> Option<Vec<u8>> {
        let calls = self.calls();
        let mut status = [0_u64; STATUS / 8];
        let mut there = 0;
        let mut length = 0;
        let rank = rank as c_int;
        // SAFETY: MPI was initialised by this thread. The buffers are large enough for a status of any binary
        // interface, and for the message.
        unsafe {
            let status = status.as_mut_ptr().cast();
            (calls.probe)(rank, WORDS, calls.world, &raw mut there, status);
            if there == 0 {
                return None;
            }
            (calls.count)(status, calls.byte, &raw mut length);
            let mut words = vec![0_u8; length.max(0) as usize];
            let at = words.as_mut_ptr().cast();
            (calls.receive)(at, length, calls.byte, rank, WORDS, calls.world, status);
            Some(words)
        }
    }

    /// Sets the hosts of the ranks. All ranks must call this function, with the same hosts.
    pub fn set_hosts(&self, hosts: WorldHosts) {
        // The hosts of a job do not change.
        let _ = self.hosts.set(hosts);
    }

    /// Returns the hosts of the ranks; `None` if all ranks are on one host.
    pub fn hosts(&self) -> Option<&WorldHosts> {
        self.hosts.get().filter(|hosts| hosts.names.len() > 1)
    }

    /// Returns the time by which the clock of rank 0 is ahead of the clock of this rank, nanoseconds; 0 on the host of
    /// rank 0. All ranks must call this function.
    ///
    /// Rank 0 is assumed to read its clock in the middle of the round trip.
    pub fn clock_offset(&self) -> i64 {
        let Some(hosts) = self.hosts() else { return 0 };
        if self.rank == 0 {
            for rank in hosts.other_host_ranks() {
                for _ in 0..CLOCK_ROUNDS {
                    self.await_words(rank);
                    self.send(rank, &monotonic_nanos().to_le_bytes());
                }
            }
            return 0;
        }
        if hosts.rank_hosts[self.rank] == 0 {
            return 0;
        }
        let mut shortest = (u64::MAX, 0);
        for _ in 0..CLOCK_ROUNDS {
            let asked = monotonic_nanos();
            self.send(0, &[0]);
            let words = self.await_words(0);
            let trip = monotonic_nanos() - asked;
            let Ok(theirs) = words.try_into().map(u64::from_le_bytes) else { continue };
            if trip < shortest.0 {
                shortest = (trip, theirs as i64 - (asked + trip / 2) as i64);
            }
        }
        shortest.1
    }

    /// Waits for bytes from another rank like [`World::receive`], without sleeping.
    fn await_words(&self, rank: usize) -> Vec<u8> {
        loop {
            match self.poll(rank) {
                Some(words) => return words,
                None => std::thread::yield_now(),
            }
        }
    }

    /// Sends a value as JSON to all other ranks.
    ///
    /// # Errors
    /// Fails if the value cannot be converted to JSON.
    pub fn broadcast(&self, what: &impl Serialize) -> Result<(), Failure> {
        let words = serde_json::to_vec(what).map_err(Failure::missing)?;
        (1..self.count).for_each(|rank| self.send(rank, &words));
        Ok(())
    }

    /// Collects the values of all ranks at rank 0, in rank order; returns `None` at all other ranks. All ranks must
    /// call this function.
    ///
    /// # Errors
    /// Fails if a value cannot be converted to or from JSON.
    pub fn gather<T: Serialize + DeserializeOwned>(
        &self,
        own: T,
    ) -> Result<Option<Vec<T>>, Failure> {
        if self.rank > 0 {
            self.send(0, &serde_json::to_vec(&own).map_err(Failure::missing)?);
            return Ok(None);
        }
        let others = (1..self.count).map(|rank| {
            let reported = serde_json::from_slice(&self.receive(rank));
            reported.map_err(|cause| Failure::missing(format!("rank {rank}: {cause}")))
        });
        std::iter::once(Ok(own)).chain(others).collect::<Result<_, _>>().map(Some)
    }

    /// Makes the launcher end all ranks with this exit code. It is for jobs in which a rank does not respond, so
    /// that [`World::leave`] would wait forever.
    pub fn abort(&self, code: u8) {
        // SAFETY: MPI was initialised by this thread.
        unsafe { (self.calls().abort)(self.calls().world, code.into()) };
    }

    /// Finalises MPI in this process. All ranks must call this function.
    pub fn leave(&self) {
        // SAFETY: MPI was initialised by this thread. No MPI function is called afterwards.
        unsafe { (self.calls().finalise)() };
        INITIALISED.set(false);
    }
}

/// Loads a library with one of these ABIs: the first that can be loaded.
///
/// # Safety
/// The requirements of [`SharedLibrary::open`] apply.
unsafe fn load(abis: &[&'static MpiAbi]) -> Result<(SharedLibrary, &'static MpiAbi), LoadError> {
    let mut first = None;
    for &abi in abis {
        // SAFETY: the caller guarantees the requirements of this function.
        match unsafe { SharedLibrary::open_first_global(abi.files) } {
            Ok(library) => return Ok((library, abi)),
            Err(why) => first = first.or(Some(why)),
        }
    }
    Err(first.unwrap_or_else(|| LoadError("no MPI is known".to_owned())))
}

/// Returns the value of a handle; an address if it is a symbol of the library.
fn handle(library: &SharedLibrary, abi: &MpiAbi, handle: MpiHandle) -> Result<Handle, Failure> {
    match abi.handle(handle) {
        Some(MpiHandleValue::Number(number)) => Ok(number as Handle),
        Some(MpiHandleValue::Symbol(name)) => library.address(name).ok_or_else(|| missing(name)),
        None => Err(missing(handle.name)),
    }
}

/// Returns the value of a constant.
fn constant(abi: &MpiAbi, name: &str) -> Result<c_int, Failure> {
    abi.constant(name).ok_or_else(|| missing(name))
}

/// Returns the error for a name that the MPI library does not have.
fn missing(name: &str) -> Failure {
    Failure::missing(format!("ranks cannot communicate: the MPI library has no {name}"))
}

/// Returns the srun options for ranks of each implementation.
fn srun_options() -> String {
    let options = implementations().map(|own| format!("{} for {}", own.srun_option, own.library));
    options.collect::<Vec<_>>().join(", ")
}

/// Returns the name and the version from the beginning of a library's version text: `Open MPI v4.1.4`.
fn library_name(reported: &str) -> String {
    let first = reported.split([',', '\n']).next().unwrap_or_default();
    // The version text of MPICH begins with `MPICH Version:\t4.0.2`.
    first.replace("Version:", "").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs `job` on every rank, and collects the results at rank 0. All ranks must call this function with the same job.
///
/// # Errors
/// Fails at rank 0 if the result of a rank is invalid.
pub fn run_timed<T: Serialize + DeserializeOwned>(
    world: &World,
    job: impl FnOnce(&Member<'_>, &mut Laps<'_>) -> T,
) -> Result<Option<TimedResults<T>>, Failure> {
    let World { rank, count, .. } = *world;
    let ahead = world.clock_offset();
    let member = Member { index: rank, count, barrier: MemberBarrier::World(world) };
    let stolen = stolen_ticks();
    let mut laps = Laps::new(&member);
    let made = job(&member, &mut laps);
    let laps = laps.into_inner().into_iter().map(|lap| Some(lap?.shifted(ahead)));
    let all = world.gather((made, laps.collect()))?;
    Ok(all.map(|all| TimedResults::from_members(all, stolen)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_on_other_hosts_are_distinguished() {
        let names = ["a", "b"].map(str::to_owned).to_vec();
        let hosts = WorldHosts { names, rank_hosts: vec![0, 1, 0, 1] };
        assert_eq!(hosts.other_host_ranks().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(hosts.first_host_rank_count(), 2);
    }

    #[test]
    fn mpi_library_name_is_read_from_version_text() {
        let open_mpi = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4";
        assert_eq!(library_name(open_mpi), "Open MPI v4.1.4");
        assert_eq!(
            library_name("MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr"),
            "MPICH 4.0.2"
        );
    }
}
