//! Ring buffer for messages in memory that two processes share. One process writes and the other reads; no call blocks.
//!
//! A message is a sequence of frames. Each frame has a slot of one cache line with the sequence number and the
//! length of the frame. If the data fit, the slot also contains the data, so that a small message transfers a
//! single line from core to core (like the slots of "FastForward", Giacomoni, Moseley and Vachharajani, PPoPP
//! 2008). The data of longer frames are in the data area of the ring. A long message has many frames, so that the
//! reader can read while the writer still writes. Alternatively, the sender lends a large message: the slot then
//! contains only the address of the message, and the reader copies the message directly from the memory of the
//! sender.

use crate::barrier::CacheLine;
use crate::mapping::{Mapping, SharedBytes};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of slots, which is sufficient for a window of 64 messages and occupies half of a first-level cache.
const SLOTS: usize = 256;
/// Number of words of a slot that contain data.
const WORDS: usize = 6;
/// Number of bytes of data that fit into a slot.
const INLINE: usize = WORDS * size_of::<u64>();
/// Maximum length of a frame in bytes. It is a quarter of a first-level cache of 32 KiB, so that a frame is still in
/// this cache after it was written.
const FRAME: usize = 8 << 10;
/// Size of the data area in bytes; the area fits into a second-level cache.
const DATA: usize = 32 * FRAME;
/// Size of a cache line in bytes, to which frames are aligned.
const LINE: usize = 64;

/// Kind of a frame that is not the last of its message. In a slot, the lowest bits of the head contain the kind and
/// the higher bits the length.
const MORE: u64 = 0;
const LAST: u64 = 1;
const LENT: u64 = 2;
const KIND_BITS: u32 = 2;

#[repr(C, align(64))]
struct Slot {
    /// Sequence number of the frame, from 1; stored when the frame is complete.
    sequence: AtomicU64,
    head: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// Position of the reader or of the writer. The reader stores its position after each frame; the writer stores it
/// when it is dropped.
#[repr(C)]
struct Position {
    claimed: AtomicU64,
    slots: AtomicU64,
    bytes: AtomicU64,
    /// Number of lent messages: those that the reader has copied, or those that the writer has lent.
    lent: AtomicU64,
}

#[repr(C)]
struct Ends {
    read: CacheLine<Position>,
    written: CacheLine<Position>,
}

// SAFETY: the structure contains only atomic integers.
unsafe impl SharedBytes for Slot {}
// SAFETY: the structure contains only atomic integers.
unsafe impl SharedBytes for Ends {}

/// Ring buffer in a mapping. A range of zeros is a valid empty ring.
#[derive(Clone, Copy)]
pub struct Ring<'a> {
    mapping: &'a Mapping,
    ends: &'a Ends,
    at: usize,
}

impl<'a> Ring<'a> {
    /// Size of a ring in bytes.
    pub const BYTES: usize = size_of::<Ends>() + SLOTS * size_of::<Slot>() + DATA;

    /// Returns the ring at `offset`, which must be a multiple of the page size.
    ///
    /// # Panics
    /// Panics if the ring exceeds the mapping.
    pub fn new(mapping: &'a Mapping, offset: usize) -> Self {
        mapping.at(offset, Self::BYTES);
        Self { mapping, ends: mapping.view(offset), at: offset + size_of::<Ends>() }
    }

    /// Claims the writing end of the ring; returns `None` if another process has it.
    pub fn writer(self) -> Option<RingWriter<'a>> {
        let (slots, bytes, lent) = self.ends.written.0.claim()?.values();
        Some(RingWriter { ring: self, slots, bytes, lent, free: self.ends.read.0.values() })
    }

    /// Claims the reading end of the ring; returns `None` if another process has it.
    pub fn reader(self) -> Option<RingReader<'a>> {
        let (slots, bytes, lent) = self.ends.read.0.claim()?.values();
        Some(RingReader { ring: self, slots, bytes, lent })
    }

    #[inline]
    fn slot(&self, number: u64) -> &'a Slot {
        self.mapping.view(self.at + number as usize % SLOTS * size_of::<Slot>())
    }

    /// Returns the address of a frame's data.
    #[inline]
    fn data(&self, frame: u64, bytes: usize) -> NonNull<u8> {
        let at = frame as usize % DATA;
        debug_assert!(at + bytes <= DATA);
        self.mapping.at(self.at + SLOTS * size_of::<Slot>() + at, bytes)
    }
}

/// Returns the start and the end of the next frame's data, if the data area has been written up to `at`. The data
/// of a frame do not wrap around the end of the area.
#[inline]
fn frame(at: u64, bytes: usize) -> (u64, u64) {
    if bytes <= INLINE {
        return (at, at);
    }
    let left = DATA - at as usize % DATA;
    let begin = if left < bytes { at + left as u64 } else { at };
    (begin, begin + bytes.next_multiple_of(LINE) as u64)
}

/// Returns at most eight bytes as a word, without calling `memcpy`, because the call takes longer than the copy.
#[inline]
fn word_from_bytes(bytes: &[u8]) -> u64 {
    if let Ok(whole) = bytes.try_into() {
        return u64::from_le_bytes(whole);
    }
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Copies the first bytes of a word, the reverse of [`word_from_bytes`].
#[inline]
fn copy_word(word: u64, to: &mut [u8]) {
    if let Ok(whole) = <&mut [u8; size_of::<u64>()]>::try_from(&mut *to) {
        *whole = word.to_le_bytes();
        return;
    }
    for (at, byte) in to.iter_mut().enumerate() {
        *byte = (word >> (8 * at)) as u8;
    }
}

impl Position {
    fn claim(&self) -> Option<&Self> {
        (self.claimed.swap(1, Ordering::AcqRel) == 0).then_some(self)
    }

    #[inline]
    fn values(&self) -> (u64, u64, u64) {
        let slots = self.slots.load(Ordering::Acquire);
        (slots, self.bytes.load(Ordering::Acquire), self.lent.load(Ordering::Acquire))
    }

    #[inline]
    fn publish(&self, slots: u64, bytes: u64) {
        self.bytes.store(bytes, Ordering::Release);
        self.slots.store(slots, Ordering::Release);
    }
}

/// Writing end of a ring, which is released when this value is dropped.
pub struct RingWriter<'a> {
    ring: Ring<'a>,
    slots: u64,
    bytes: u64,
    lent: u64,
    /// Last known position of the reader: frames, data and lent messages.
    free: (u64, u64, u64),
}

impl RingWriter<'_> {
    /// Writes as much of `message` as fits, beginning at byte `done`. Returns true if the complete message has been
    /// written. A message may be empty.
    #[inline]
    pub fn write(&mut self, message: &[u8], done: &mut usize) -> bool {
        loop {
            let piece = &message[*done..message.len().min(*done + FRAME)];
            let (begin, end) = frame(self.bytes, piece.len());
            if !self.has_room(end) {
                return false;
            }
            let slot = self.ring.slot(self.slots);
            if piece.len() <= INLINE {
                for (word, chunk) in slot.words.iter().zip(piece.chunks(size_of::<u64>())) {
                    word.store(word_from_bytes(chunk), Ordering::Relaxed);
                }
            } else {
                let to = self.ring.data(begin, piece.len());
                // SAFETY: `data` has checked that the bytes are mapped. The reader's position is after these bytes, so
                // that it has finished reading their previous content. The reader reads them again only after it sees
                // the number of this frame. There is only one writer.
                unsafe { to.copy_from_nonoverlapping(NonNull::from(piece).cast(), piece.len()) };
            }
            *done += piece.len();
            let last = *done == message.len();
            self.pass(slot, if last { LAST } else { MORE }, piece.len(), end);
            if last {
                return true;
            }
        }
    }

    /// Passes the address of `message` to the reader, which copies the message from there. Returns true if the ring had
    /// room for the address. The caller must not change the message until [`RingWriter::is_fetched`] returns true.
    pub fn lend(&mut self, message: &[u8]) -> bool {
        if !self.has_room(self.bytes) {
            return false;
        }
        let slot = self.ring.slot(self.slots);
        slot.words[0].store(message.as_ptr() as u64, Ordering::Relaxed);
        self.lent += 1;
        self.pass(slot, LENT, message.len(), self.bytes);
        true
    }

    /// True if the reader has fetched all lent messages.
    #[inline]
    pub fn is_fetched(&mut self) -> bool {
        if self.free.2 != self.lent {
            self.free = self.ring.ends.read.0.values();
        }
        self.free.2 == self.lent
    }

    #[inline]
    fn has_room(&mut self, end: u64) -> bool {
        let fits = |free: (u64, u64, u64)| {
            self.slots - free.0 < SLOTS as u64 && end - free.1 <= DATA as u64
        };
        if !fits(self.free) {
            // The reader owns this cache line. Therefore the line is read only if the last known position leaves no
            // room.
            self.free = self.ring.ends.read.0.values();
            return fits(self.free);
        }
        true
    }

    #[inline]
    fn pass(&mut self, slot: &Slot, kind: u64, bytes: usize, end: u64) {
        slot.head.store((bytes as u64) << KIND_BITS | kind, Ordering::Relaxed);
        self.slots += 1;
        self.bytes = end;
        slot.sequence.store(self.slots, Ordering::Release);
    }
}

impl Drop for RingWriter<'_> {
    fn drop(&mut self) {
        let position = &self.ring.ends.written.0;
        position.publish(self.slots, self.bytes);
        position.lent.store(self.lent, Ordering::Release);
        position.claimed.store(0, Ordering::Release);
    }
}

/// State of a message after a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The message is not complete yet.
    Incomplete,
    /// The message is complete.
    Whole,
    /// The message is in the other process at this address. The caller must copy the message and then call
    /// [`RingReader::mark_fetched`].
    Lent(u64),
}

/// Error for a message whose length differs from the length of the receive buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message does not have the expected length of {0} bytes")]
pub struct WrongLength(pub usize);

/// Reading end of a ring, which is released when this value is dropped.
pub struct RingReader<'a> {
    ring: Ring<'a>,
    slots: u64,
    bytes: u64,
    lent: u64,
}

impl RingReader<'_> {
    /// Reads the available part of a message into `into`, beginning at byte `done`.
    ///
    /// # Errors
    /// Fails if the length of the message differs from that of `into`.
    #[inline]
    pub fn read(&mut self, into: &mut [u8], done: &mut usize) -> Result<Arrival, WrongLength> {
        loop {
            let slot = self.ring.slot(self.slots);
            if slot.sequence.load(Ordering::Acquire) != self.slots + 1 {
                return Ok(Arrival::Incomplete);
            }
            let head = slot.head.load(Ordering::Relaxed);
            let kind = head & ((1 << KIND_BITS) - 1);
            let bytes = (head >> KIND_BITS) as usize;
            let expected = into.len();
            let wrong = WrongLength(expected);
            if kind == LENT {
                let fits = *done == 0 && bytes == expected;
                let address = slot.words[0].load(Ordering::Relaxed);
                return fits.then_some(Arrival::Lent(address)).ok_or(wrong);
            }
            let piece = into.get_mut(*done..*done + bytes).ok_or(wrong)?;
            let (begin, end) = frame(self.bytes, bytes);
            if bytes <= INLINE {
                for (word, chunk) in slot.words.iter().zip(piece.chunks_mut(size_of::<u64>())) {
                    copy_word(word.load(Ordering::Relaxed), chunk);
                }
            } else {
                let from = self.ring.data(begin, bytes);
                // SAFETY: `data` has checked that the bytes are mapped. The writer wrote the bytes before it stored the
                // number of this frame. The writer does not change them until the reader's position is after them.
                unsafe { from.copy_to_nonoverlapping(NonNull::from(piece).cast(), bytes) };
            }
            *done += bytes;
            self.pass(end);
            if kind == LAST {
                return if *done == expected { Ok(Arrival::Whole) } else { Err(wrong) };
            }
        }
    }

    /// Reports that the lent message has been copied. The writer may then reuse its memory.
    pub fn mark_fetched(&mut self) {
        self.lent += 1;
        self.pass(self.bytes);
        self.ring.ends.read.0.lent.store(self.lent, Ordering::Release);
    }

    #[inline]
    fn pass(&mut self, end: u64) {
        self.slots += 1;
        self.bytes = end;
        self.ring.ends.read.0.publish(self.slots, self.bytes);
    }
}

impl Drop for RingReader<'_> {
    fn drop(&mut self) {
        self.ring.ends.read.0.claimed.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn mapping() -> Mapping {
        Mapping::shared(Ring::BYTES).unwrap()
    }

    fn message(number: usize, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|i| (i * 7 + number * 31 + i / 251) as u8).collect()
    }

    #[test]
    fn ring_is_usable_after_a_change_of_its_writer_and_reader() {
        let mapping = mapping();
        let ring = Ring::new(&mapping, 0);
        for number in 0..3 {
            let (mut writer, mut reader) = (ring.writer().unwrap(), ring.reader().unwrap());
            assert!(ring.writer().is_none() && ring.reader().is_none());
            let sent = message(number, 100_000);
            assert!(writer.write(&sent, &mut 0));
            drop(writer);
            let mut got = vec![0; sent.len()];
            assert_eq!(reader.read(&mut got, &mut 0), Ok(Arrival::Whole));
            assert_eq!(got, sent);
        }
    }

    #[test]
    fn full_ring_accepts_message_after_read() {
        let mapping = mapping();
        let ring = Ring::new(&mapping, 0);
        let (mut writer, mut reader) = (ring.writer().unwrap(), ring.reader().unwrap());
        for bytes in [0, 8, INLINE] {
            let (sent, mut got) = (message(1, bytes), vec![0; bytes]);
            let written = (0..).take_while(|_| writer.write(&sent, &mut 0)).count();
            assert_eq!(written, SLOTS);
            assert!(!writer.lend(&sent));
            for _ in 0..written {
                got.fill(0);
                assert_eq!(reader.read(&mut got, &mut 0), Ok(Arrival::Whole));
                assert_eq!(got, sent);
            }
            assert_eq!(reader.read(&mut got, &mut 0), Ok(Arrival::Incomplete));
        }
        // For a message that is larger than the ring, the first write fills the ring.
        let sent = message(2, 3 * DATA + 5);
        let (mut got, mut read, mut written) = (vec![0; sent.len()], 0, 0);
        assert!(!writer.write(&sent, &mut written) && written == DATA);
        assert_eq!((reader.read(&mut got, &mut read), read), (Ok(Arrival::Incomplete), DATA));
        while !writer.write(&sent, &mut written) {
            reader.read(&mut got, &mut read).unwrap();
        }
        assert_eq!(reader.read(&mut got, &mut read), Ok(Arrival::Whole));
        assert!(got == sent);
    }

    #[test]
    fn message_of_wrong_length_is_an_error() {
        let mapping = mapping();
        let ring = Ring::new(&mapping, 0);
        for (sent, room) in [(8, 7), (8, 9), (0, 1), (1, 0), (20_000, 19_999), (20_000, 20_001)] {
            let (mut writer, mut reader) = (ring.writer().unwrap(), ring.reader().unwrap());
            assert!(writer.write(&message(0, sent), &mut 0));
            assert_eq!(reader.read(&mut vec![0; room], &mut 0), Err(WrongLength(room)));
            drop((writer, reader));
            // Resets the ring, because the remaining messages are not needed any more.
            let at = mapping.at(0, Ring::BYTES);
            // SAFETY: no other code uses the mapping.
            unsafe { at.write_bytes(0, Ring::BYTES) };
        }
    }

    #[test]
    fn lent_message_is_pending_until_fetched() {
        let mapping = mapping();
        let ring = Ring::new(&mapping, 0);
        let (mut writer, mut reader) = (ring.writer().unwrap(), ring.reader().unwrap());
        let sent = message(3, 1 << 20);
        let mut got = vec![0; sent.len()];
        for _ in 0..2 * SLOTS {
            assert!(writer.is_fetched() && writer.lend(&sent));
            assert!(!writer.is_fetched());
            let lent = Arrival::Lent(sent.as_ptr() as u64);
            assert_eq!(reader.read(&mut got, &mut 0), Ok(lent));
            reader.mark_fetched();
        }
        assert!(writer.is_fetched());
        assert!(writer.write(&[7], &mut 0));
        assert_eq!(reader.read(&mut got[..1], &mut 0), Ok(Arrival::Whole));
        assert_eq!(got[0], 7);
    }

    /// Returns sizes near the limits of a slot, a frame and the ring.
    fn size() -> impl Strategy<Value = usize> {
        let about = |edge: usize| edge.saturating_sub(2)..edge + 3;
        prop_oneof![
            about(0),
            about(INLINE),
            about(LINE),
            about(FRAME),
            about(DATA),
            0usize..3 * DATA,
        ]
    }

    proptest! {
        /// Compares the ring with a queue, for arbitrary messages that are written and read in parts in arbitrary
        /// order.
        #[test]
        fn messages_arrive_as_sent(sizes in prop::collection::vec((size(), any::<bool>()), 1..40)) {
            let mapping = mapping();
            let ring = Ring::new(&mapping, 0);
            let (mut writer, mut reader) = (ring.writer().unwrap(), ring.reader().unwrap());
            let mut expected = VecDeque::new();
            let (mut got, mut read) = (Vec::new(), 0);
            let mut take = |queue: &mut VecDeque<Vec<u8>>| -> Result<bool, TestCaseError> {
                let Some(first) = queue.front() else { return Ok(false) };
                got.resize(first.len(), 0);
                if reader.read(&mut got, &mut read).unwrap() == Arrival::Incomplete {
                    return Ok(false);
                }
                prop_assert_eq!(&got, first);
                queue.pop_front();
                got.clear();
                read = 0;
                Ok(true)
            };
            for (number, (bytes, at_once)) in sizes.into_iter().enumerate() {
                let sent = message(number, bytes);
                expected.push_back(sent.clone());
                let mut done = 0;
                while !writer.write(&sent, &mut done) {
                    take(&mut expected)?;
                }
                if at_once {
                    while take(&mut expected)? {}
                }
            }
            while take(&mut expected)? {}
            prop_assert!(expected.is_empty());
        }
    }

    #[test]
    fn messages_between_threads_arrive_in_order() {
        let mapping = mapping();
        let ring = Ring::new(&mapping, 0);
        let sizes: Vec<usize> = (0..20_000).map(|i| [0, 8, 48, 49, 3000, 20_000][i % 6]).collect();
        std::thread::scope(|scope| {
            let (sizes, mapping) = (&sizes, &mapping);
            scope.spawn(move || {
                let mut writer = Ring::new(mapping, 0).writer().unwrap();
                for (number, bytes) in sizes.iter().enumerate() {
                    let (sent, mut done) = (message(number, *bytes), 0);
                    while !writer.write(&sent, &mut done) {
                        std::thread::yield_now();
                    }
                }
            });
            let mut reader = ring.reader().unwrap();
            let mut got = vec![0; 20_000];
            for (number, bytes) in sizes.iter().enumerate() {
                let mut done = 0;
                while reader.read(&mut got[..*bytes], &mut done) == Ok(Arrival::Incomplete) {
                    std::thread::yield_now();
                }
                assert_eq!((number, done), (number, *bytes));
                assert!(got[..*bytes] == message(number, *bytes), "message {number}");
            }
        });
    }
}
