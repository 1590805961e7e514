//! Waits for a condition, a deadline or an interruption. A waiting thread sleeps only in these functions; a thread that
//! waits for another CPU in a timed section uses [`Spin`](crate::Spin).
//!
//! A wait checks its condition first, and once more after the deadline, so that a condition that is met in time is
//! never reported as missed. Between two checks it pauses. A pause is a fixed time, or an eighth of the waiting time so
//! far. Thus a short wait ends early, a long wait takes little CPU time, and a wait is at most an eighth longer than
//! needed.
//!
//! If the kernel or another thread signals the condition, [`wait_for_event`] replaces the pause by a call that returns
//! early: `poll`, or a receive from a channel with a timeout.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Limits of the pauses of a wait, unless [`Wait::every`] sets their length. Within the shortest pause, another process
/// can make progress; the longest pause is too short for a person to notice.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Waiting time divided by the next pause.
const WAITED_PER_PAUSE: u32 = 8;

/// Limits of a wait: its deadline, its pauses, and the condition that interrupts it.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    deadline: Option<Instant>,
    shortest: Duration,
    longest: Duration,
    interrupted: Option<&'a dyn Fn() -> bool>,
    /// Time for which the wait continues after an interruption.
    grace: Duration,
}

/// Reason why a wait ended before its condition was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// The deadline passed.
    TimedOut,
    /// The wait was interrupted.
    Interrupted,
}

impl<'a> Wait<'a> {
    /// Creates a wait without a deadline.
    pub fn unlimited() -> Self {
        Self {
            deadline: None,
            shortest: SHORTEST_PAUSE,
            longest: LONGEST_PAUSE,
            interrupted: None,
            grace: Duration::ZERO,
        }
    }

    /// Creates a wait with a deadline.
    pub fn until(deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..Self::unlimited() }
    }

    /// Creates a wait of at most `time` from now on.
    pub fn within(time: Duration) -> Self {
        // A time that no clock reaches is no limit.
        Self { deadline: Instant::now().checked_add(time), ..Self::unlimited() }
    }

    /// Makes all pauses as long as `interval`. This is useful if each check takes time away from the awaited
    /// process, or if several waiters must continue at nearly the same time.
    #[must_use]
    pub fn every(self, interval: Duration) -> Self {
        Self { shortest: interval, longest: interval, ..self }
    }

    /// Sets the function that interrupts the wait by returning true; the wait then does not call it any more.
    #[must_use]
    pub fn unless(self, interrupted: &'a dyn Fn() -> bool) -> Self {
        Self { interrupted: Some(interrupted), ..self }
    }

    /// Sets the time for which the wait continues after an interruption, at most until the deadline.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Returns the next pause of a wait that has lasted for this time.
    fn pause(&self, waited: Duration) -> Duration {
        (waited / WAITED_PER_PAUSE).clamp(self.shortest, self.longest)
    }

    /// Calls `look` until it returns a value. The argument of `look` is the time to pause before the check.
    fn run<T>(
        &self,
        now: &dyn Fn() -> Instant,
        look: &mut dyn FnMut(Duration) -> Option<T>,
    ) -> Result<T, WaitEnd> {
        let start = now();
        let mut deadline = self.deadline;
        let mut interrupted = self.interrupted;
        let mut unmet = WaitEnd::TimedOut;
        let mut pause = Duration::ZERO;
        loop {
            if let Some(met) = look(pause) {
                return Ok(met);
            }
            let time = now();
            if interrupted.is_some_and(|interrupted| interrupted()) {
                let end = time + self.grace;
                interrupted = None;
                unmet = WaitEnd::Interrupted;
                deadline = Some(deadline.map_or(end, |deadline| deadline.min(end)));
            }
            pause = self.pause(time.saturating_duration_since(start));
            if let Some(deadline) = deadline {
                if time >= deadline {
                    return Err(unmet);
                }
                pause = pause.min(deadline - time);
            }
        }
    }
}

/// Waits until `condition` returns a value.
///
/// # Errors
/// Fails if the deadline passes or the wait is interrupted before.
pub fn wait_until<T>(
    wait: &Wait<'_>,
    mut condition: impl FnMut() -> Option<T>,
) -> Result<T, WaitEnd> {
    wait_for_event(wait, |pause| {
        sleep(pause);
        condition()
    })
}

/// Waits until `look` returns a value. `look` itself waits for the event, at most for the time in its argument, and
/// returns early if the event occurs.
///
/// # Errors
/// Fails if the deadline passes or the wait is interrupted before.
pub fn wait_for_event<T>(
    wait: &Wait<'_>,
    mut look: impl FnMut(Duration) -> Option<T>,
) -> Result<T, WaitEnd> {
    wait.run(&Instant::now, &mut look)
}

/// Waits without a time limit until `condition` returns a value; checks it at each interval.
pub fn wait_without_limit<T>(interval: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let wait = Wait::unlimited().every(interval);
    loop {
        // A wait without a deadline and without an interruption ends only with a value.
        if let Ok(met) = wait_until(&wait, &mut condition) {
            return met;
        }
    }
}

/// Waits until the deadline, unless the wait is interrupted. Returns the reason for the end.
pub fn wait_whole_time(wait: &Wait<'_>) -> WaitEnd {
    let wait = match wait.interrupted {
        Some(_) => *wait,
        // Nothing is looked at, so that one pause suffices.
        None => wait.every(Duration::MAX),
    };
    match wait_until(&wait, || None::<WaitEnd>) {
        Ok(unmet) | Err(unmet) => unmet,
    }
}

/// Returns true as soon as the descriptor can be read, or its other end is closed, and false after `timeout`. The
/// descriptor of a process can be read when the process has ended.
///
/// # Errors
/// Fails if the kernel refuses the call. A signal only shortens the wait.
pub fn is_readable_within(descriptor: impl AsFd, timeout: Duration) -> io::Result<bool> {
    match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&timespec(timeout))) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Converts a time to the type of the kernel's calls; a longer time than they support becomes the longest supported
/// time.
pub(crate) fn timespec(time: Duration) -> Timespec {
    let tv_sec = time.as_secs().try_into().unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: time.subsec_nanos().into() }
}

/// Sleeps; a time of zero does not give up the CPU.
pub(crate) fn sleep(time: Duration) {
    if !time.is_zero() {
        std::thread::sleep(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Clock that advances only by the pauses of a wait.
    struct Simulated {
        start: Instant,
        waited: Cell<Duration>,
        pauses: RefCell<Vec<Duration>>,
    }

    impl Simulated {
        fn new() -> Self {
            Self { start: Instant::now(), waited: Cell::default(), pauses: RefCell::default() }
        }

        /// Returns a wait that ends this many milliseconds after the start.
        fn within(&self, milliseconds: u32) -> Wait<'static> {
            Wait::until(self.start + milliseconds * MILLISECOND)
        }

        /// Returns a function that is true from this time on.
        fn reaches(&self, milliseconds: u32) -> impl Fn() -> bool {
            move || self.waited.get() >= milliseconds * MILLISECOND
        }

        /// Waits until a condition is true; returns the waiting time in milliseconds.
        fn wait(&self, wait: &Wait<'_>, condition: &dyn Fn() -> bool) -> Result<u128, WaitEnd> {
            let now = || self.start + self.waited.get();
            let met = wait.run(&now, &mut |pause| {
                self.pauses.borrow_mut().push(pause);
                self.waited.set(self.waited.get() + pause);
                condition().then_some(())
            });
            met.map(|()| self.waited.get().as_millis())
        }
    }

    #[test]
    fn met_condition_takes_precedence_over_deadline_and_interruption() {
        let time = Simulated::new();
        let over = time.within(0).unless(&|| true);
        assert_eq!(time.wait(&over, &|| true), Ok(0));
        assert_eq!(*time.pauses.borrow(), [Duration::ZERO]);
    }

    #[test]
    fn wait_ends_at_its_deadline() {
        let time = Simulated::new();
        assert_eq!(time.wait(&time.within(90), &|| false), Err(WaitEnd::TimedOut));
        assert_eq!(time.waited.get(), 90 * MILLISECOND);
        assert_eq!(time.wait(&time.within(90), &|| false), Err(WaitEnd::TimedOut));
        assert_eq!(time.waited.get(), 90 * MILLISECOND, "no pause after the deadline");
    }

    #[test]
    fn condition_met_at_deadline_counts() {
        let time = Simulated::new();
        let wait = time.within(90).every(40 * MILLISECOND);
        assert_eq!(time.wait(&wait, &time.reaches(90)), Ok(90));
        let pauses = [0, 40, 40, 10].map(|pause| pause * MILLISECOND);
        assert_eq!(*time.pauses.borrow(), pauses);
    }

    #[test]
    fn interruption_ends_wait() {
        for has_deadline in [true, false] {
            let time = Simulated::new();
            let wait = if has_deadline { time.within(90) } else { Wait::unlimited() };
            let wait = wait.every(20 * MILLISECOND);
            let interrupted = time.reaches(40);
            assert_eq!(time.wait(&wait.unless(&interrupted), &|| false), Err(WaitEnd::Interrupted));
            assert_eq!(time.waited.get(), 40 * MILLISECOND);
        }
    }

    #[test]
    fn grace_period_ends_after_its_length_or_at_the_deadline() {
        for (grace, met, end) in [(30, 65, 70), (30, 80, 70), (300, 100, 90)] {
            let time = Simulated::new();
            let calls = Cell::new(0);
            let interrupted = || {
                calls.set(calls.get() + 1);
                time.waited.get() >= 40 * MILLISECOND
            };
            let wait = time.within(90).every(10 * MILLISECOND).unless(&interrupted);
            let wait = wait.grace(grace * MILLISECOND);
            let expected = if met <= end { Ok(u128::from(end)) } else { Err(WaitEnd::Interrupted) };
            assert_eq!(time.wait(&wait, &time.reaches(met)), expected);
            assert_eq!(time.waited.get(), end * MILLISECOND);
            assert_eq!(calls.get(), 5, "not asked after the interruption");
        }
    }

    #[test]
    fn pauses_grow_within_limits() {
        let time = Simulated::new();
        assert_eq!(time.wait(&time.within(2000), &|| false), Err(WaitEnd::TimedOut));
        let pauses = time.pauses.borrow();
        assert_eq!((pauses[0], pauses[1]), (Duration::ZERO, SHORTEST_PAUSE));
        assert!(pauses.contains(&LONGEST_PAUSE));
        let mut waited = Duration::ZERO;
        for pause in &pauses[1..] {
            assert!(*pause <= (waited / WAITED_PER_PAUSE).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
            waited += *pause;
        }
    }

    #[test]
    fn wait_lasts_whole_time_unless_interrupted() {
        let before = Instant::now();
        assert_eq!(wait_whole_time(&Wait::within(3 * MILLISECOND)), WaitEnd::TimedOut);
        assert!(before.elapsed() >= 3 * MILLISECOND);
        let hour = Wait::within(Duration::from_secs(3600));
        assert_eq!(wait_whole_time(&hour.unless(&|| true)), WaitEnd::Interrupted);
        let mut looks = 0;
        let third = wait_without_limit(Duration::ZERO, || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(third, 3);
    }

    #[test]
    fn descriptor_is_readable_after_write_or_close() {
        use std::io::Write;
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert!(!is_readable_within(&reader, Duration::ZERO).unwrap());
        writer.write_all(b"x").unwrap();
        assert!(is_readable_within(&reader, Duration::MAX).unwrap());
        let (closed, other) = std::io::pipe().unwrap();
        drop(other);
        assert!(is_readable_within(&closed, Duration::MAX).unwrap());
    }
}
