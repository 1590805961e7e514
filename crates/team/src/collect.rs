//! Collection of one message from each member of a job, a rank or a host, before a deadline.
//!
//! A [`MessageCollection`] stores which members are missing, the deadline, and the sentence that names missing members.
//! Links to the members provide the messages. A link that receives the messages of all members (a socket or a
//! channel) uses [`MessageCollection::receive`]; a link that is polled for each member (MPI, a file per rank, or the
//! streams of srun) uses [`MessageCollection::poll_each`].
//!
//! Two other collections have no deadline: [`World::gather`](crate::mpi::World::gather) waits for ranks that
//! compute for an unknown time, and the launcher ends the job if a rank is lost; forked [`ranks`](crate::ranks)
//! close their pipes when they end.

use nodegauge_measure::Failure;
use nodegauge_measure::quantity::number_form;
use nodegauge_os::{Wait, WaitEnd, wait_for_event, wait_until};
use nodegauge_placement::cpus::number_ranges;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Messages of the members of a job, and the members that have not sent one.
#[derive(Debug)]
pub struct MessageCollection<T> {
    messages: BTreeMap<usize, T>,
    missing: BTreeSet<usize>,
    /// Time until the deadline at the start of the collection.
    timeout: Duration,
    deadline: Option<Instant>,
    is_interrupted: bool,
}

impl<T> MessageCollection<T> {
    /// Creates an empty collection of one message from each of these members; its deadline is `timeout` from now.
    pub fn new(members: impl IntoIterator<Item = usize>, timeout: Duration) -> Self {
        Self {
            messages: BTreeMap::new(),
            missing: members.into_iter().collect(),
            timeout,
            deadline: Instant::now().checked_add(timeout),
            is_interrupted: false,
        }
    }

    /// Returns the wait until the deadline, to which the caller adds intervals and interruptions.
    pub fn deadline_wait(&self) -> Wait<'static> {
        self.deadline.map_or_else(Wait::unlimited, Wait::until)
    }

    /// Polls each missing member for its message, until none is missing or the wait ends. `poll` returns `None` for
    /// a member whose message has not arrived.
    ///
    /// # Errors
    /// Fails if `poll` fails.
    pub fn poll_each(
        &mut self,
        wait: &Wait<'_>,
        mut poll: impl FnMut(usize) -> Result<Option<T>, Failure>,
    ) -> Result<(), Failure> {
        let end = wait_until(wait, || self.poll_once(&mut poll).transpose());
        self.end(end)
    }

    /// Polls each missing member once; returns `Some` if none is missing any more.
    fn poll_once(
        &mut self,
        poll: &mut impl FnMut(usize) -> Result<Option<T>, Failure>,
    ) -> Result<Option<()>, Failure> {
        for member in self.missing.clone() {
            if let Some(message) = poll(member)? {
                self.take(member, message);
            }
        }
        Ok(self.is_complete().then_some(()))
    }

    /// Receives messages until no member is missing or the wait ends. `next` waits for the next message of any
    /// member, at most for the time in its argument.
    ///
    /// # Errors
    /// Fails if `next` fails.
    pub fn receive(
        &mut self,
        wait: &Wait<'_>,
        mut next: impl FnMut(Duration) -> Result<Option<(usize, T)>, Failure>,
    ) -> Result<(), Failure> {
        if self.is_complete() {
            return Ok(());
        }
        let end = wait_for_event(wait, |pause| {
            // All messages that have arrived are taken before the next look at the clock.
            let mut pause = pause;
            loop {
                match next(pause) {
                    Ok(Some((member, message))) => self.take(member, message),
                    Ok(None) => return None,
                    Err(failure) => return Some(Err(failure)),
                }
                if self.is_complete() {
                    return Some(Ok(()));
                }
                pause = Duration::ZERO;
            }
        });
        self.end(end)
    }

    /// Stores the first message of a missing member; other messages are discarded.
    fn take(&mut self, member: usize, message: T) {
        if self.missing.remove(&member) {
            self.messages.insert(member, message);
        }
    }

    fn end(&mut self, end: Result<Result<(), Failure>, WaitEnd>) -> Result<(), Failure> {
        self.is_interrupted |= end == Err(WaitEnd::Interrupted);
        end.unwrap_or(Ok(()))
    }

    /// True if no member is missing.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// True if the user interrupted the collection before it was complete.
    pub fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// True if the message of this member has arrived.
    pub fn has_message(&self, member: usize) -> bool {
        self.messages.contains_key(&member)
    }

    /// Returns the members without a message, in ascending order.
    pub fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        self.missing.iter().copied()
    }

    /// Returns the messages by member.
    pub fn into_messages(self) -> BTreeMap<usize, T> {
        self.messages
    }

    /// Returns the reason why a member has no message: `no response within 30 s`.
    pub fn missing_reason(&self) -> String {
        format!("no response {}", self.limit())
    }

    /// Returns a text that names the ranks without a message: `no response from ranks 1-3 within 30 s`; `None` if
    /// there are none.
    pub fn missing_ranks_in_words(&self) -> Option<String> {
        if self.is_complete() {
            return None;
        }
        let noun = number_form(self.missing.len(), "rank", "ranks");
        let ranks = number_ranges(self.missing().map(|rank| rank as u32));
        Some(format!("no response from {noun} {ranks} {}", self.limit()))
    }

    /// Returns the messages of all ranks, in order.
    ///
    /// # Errors
    /// Fails if ranks are missing; the error names them.
    pub fn all_messages(self) -> Result<Vec<T>, Failure> {
        match self.missing_ranks_in_words() {
            Some(missing) => Err(Failure::missing(missing)),
            None => Ok(self.messages.into_values().collect()),
        }
    }

    fn limit(&self) -> String {
        if self.is_interrupted {
            return "before the interrupt".to_owned();
        }
        let tenths = (self.timeout.as_secs_f64() * 10.0).round();
        format!("within {} s", tenths / 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LATER: Duration = Duration::from_secs(3600);

    /// Returns a collection from ranks 1 to 4. With a `timeout` of zero, its deadline has passed.
    fn four_members(timeout: Duration) -> MessageCollection<char> {
        MessageCollection::new(1..5, timeout)
    }

    #[test]
    fn each_member_is_polled_for_its_message() {
        let mut collection = four_members(LATER);
        let mut rounds = [0; 5];
        let wait = collection.deadline_wait().every(Duration::ZERO);
        let poll = |member: usize| {
            rounds[member] += 1;
            // The second member responds to the third question.
            Ok((member != 2 || rounds[2] == 3).then_some(['-', 'a', 'b', 'c', 'd'][member]))
        };
        collection.poll_each(&wait, poll).unwrap();
        assert!(collection.is_complete() && !collection.is_interrupted());
        assert_eq!(rounds, [0, 1, 3, 1, 1], "who has responded is not asked again");
        assert_eq!(collection.all_messages().unwrap(), ['a', 'b', 'c', 'd']);
    }

    #[test]
    fn unexpected_messages_are_discarded() {
        let (sender, inbox) = mpsc::channel();
        // The last message of a member that has responded, and that of a stranger, are discarded.
        for message in [(4, 'd'), (1, 'a'), (1, 'x'), (9, 'y'), (3, 'c'), (2, 'b')] {
            sender.send(message).unwrap();
        }
        let mut collection = four_members(LATER);
        let wait = collection.deadline_wait();
        collection.receive(&wait, |pause| Ok(inbox.recv_timeout(pause).ok())).unwrap();
        assert_eq!(collection.all_messages().unwrap(), ['a', 'b', 'c', 'd']);
    }

    #[test]
    fn missing_members_are_named_at_deadline() {
        let mut collection = four_members(Duration::ZERO);
        let wait = collection.deadline_wait();
        collection.poll_each(&wait, |member| Ok((member == 2).then_some('b'))).unwrap();
        assert!(
            collection.has_message(2) && !collection.has_message(3) && !collection.is_interrupted()
        );
        assert_eq!(collection.missing().collect::<Vec<_>>(), [1, 3, 4]);
        assert_eq!(collection.missing_reason(), "no response within 0 s");
        let named = "no response from ranks 1,3-4 within 0 s";
        assert_eq!(collection.missing_ranks_in_words().unwrap(), named);
        assert_eq!(collection.all_messages().unwrap_err().message, named);
        let unequal = MessageCollection::<()>::new([7], Duration::from_millis(2540));
        assert_eq!(
            unequal.missing_ranks_in_words().unwrap(),
            "no response from rank 7 within 2.5 s"
        );
    }

    #[test]
    fn message_at_deadline_counts() {
        let mut late = Some((3, 'c'));
        let mut collection = MessageCollection::new([3], Duration::ZERO);
        let wait = collection.deadline_wait();
        collection.receive(&wait, |_| Ok(late.take())).unwrap();
        assert!(collection.is_complete());
    }

    #[test]
    fn interrupted_collection_keeps_messages() {
        let mut collection = four_members(LATER);
        let wait = collection.deadline_wait().unless(&|| true);
        collection.poll_each(&wait, |member| Ok((member < 3).then_some('x'))).unwrap();
        assert!(collection.is_interrupted());
        let named = "no response from ranks 3-4 before the interrupt";
        assert_eq!(collection.missing_ranks_in_words().unwrap(), named);
        assert_eq!(collection.into_messages().len(), 2);
    }

    #[test]
    fn failed_link_ends_collection() {
        let mut collection = four_members(LATER);
        let wait = collection.deadline_wait();
        let lost = || Failure::missing("rank 2 is lost");
        let polled = collection.poll_each(&wait, |member| match member {
            2 => Err(lost()),
            _ => Ok(Some('x')),
        });
        assert_eq!(polled.unwrap_err(), lost());
        assert_eq!(collection.receive(&wait, |_| Err(lost())).unwrap_err(), lost());
    }

    #[test]
    fn empty_collection_is_complete() {
        let mut collection = MessageCollection::<char>::new([], Duration::ZERO);
        let wait = collection.deadline_wait().unless(&|| true);
        collection.receive(&wait, |_| Err(Failure::missing("not called"))).unwrap();
        collection.poll_each(&wait, |_| Err(Failure::missing("not called"))).unwrap();
        assert!(collection.is_complete() && !collection.is_interrupted());
        assert_eq!(collection.missing_ranks_in_words(), None);
    }
}
