//! Ledger of hardware errors and throttling: counters of the kernel, read below a root directory, and the events
//! between two readings.
//!
//! The sources are EDAC (memory modules), the machine-check and throttling counters of the processor, the
//! error counters of PCI Express (AER) with the widths and rates of the links, and the error counters of InfiniBand
//! ports. Absent sources and unreadable sources are distinguished; neither proves that there were no errors. A
//! reading takes a few milliseconds on a large node, so that it can be taken before and after every measurement.

mod edac;
mod links;
mod network;
mod processor;
mod slots;

use crate::root::SysRoot;
use nodegauge_measure::Seconds;
use nodegauge_measure::record::{
    CounterNote, EventCount, HardwareEvent, Ledger, LedgerSource, SourceState,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::Instant;

/// Value of a counter at a reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct EventCounter {
    kind: HardwareEvent,
    /// Component that the counter belongs to, unique among the counters of its kind.
    component: String,
    value: u64,
    /// Value at which the counter stops, e.g. 255; `None` if it does not stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stops_at: Option<u64>,
}

/// State of all counters at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LedgerReading {
    /// Identifier of this boot. Counters of different boots are not subtracted.
    boot: Option<String>,
    counters: Vec<EventCounter>,
    sources: Vec<LedgerSource>,
    seconds: Seconds,
}

/// Events between two readings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LedgerChange {
    /// Events of each counter that changed.
    pub events: Vec<EventCount>,
    /// Counters that only the first reading contains.
    pub vanished: Vec<String>,
}

/// Half of the range of a 32-bit counter. A counter that was above it and is now smaller has wrapped around.
const HALF_RANGE: u64 = 1 << 31;

impl LedgerReading {
    /// Reads all counters.
    pub fn read(root: &SysRoot) -> Self {
        let started = Instant::now();
        let mut collected = CollectedCounters { root, counters: Vec::new(), sources: Vec::new() };
        collected.add("EDAC", edac::read);
        collected.add("machine checks", processor::read_machine_checks);
        collected.add("throttling", processor::read_throttling);
        collected.add("PCIe AER", links::read_errors);
        collected.add("InfiniBand", network::read);
        let CollectedCounters { counters, sources, .. } = collected;
        Self {
            boot: root.text("proc/sys/kernel/random/boot_id"),
            counters,
            sources,
            seconds: Seconds::from(started.elapsed()),
        }
    }

    /// Returns the identifier of this boot, if the kernel reports it.
    pub fn boot(&self) -> Option<&str> {
        self.boot.as_deref()
    }

    /// True if the node was not rebooted between the readings, so that their counters can be subtracted.
    pub fn is_from_same_boot(&self, earlier: &Self) -> bool {
        self.boot.is_some() && self.boot == earlier.boot
    }

    /// Returns the events since `earlier`; all events since boot if the node was rebooted in between.
    pub fn since(&self, earlier: &Self) -> LedgerChange {
        if !self.is_from_same_boot(earlier) {
            return LedgerChange { events: self.all_events(), vanished: Vec::new() };
        }
        let mut before: BTreeMap<_, _> =
            earlier.counters.iter().map(|counter| (counter.key(), counter)).collect();
        let mut change = LedgerChange::default();
        for now in &self.counters {
            // A component that appears later, e.g. by loading its driver, has counted its events in the interval.
            let first = before.remove(&now.key()).map_or(0, |counter| counter.value);
            change.events.extend(now.events_since(first));
        }
        let gone = before.into_values();
        change.vanished = gone
            .map(|counter| format!("{}: {}", counter.component, counter.kind.plural_name()))
            .collect();
        change
    }

    /// Returns all events since boot.
    fn all_events(&self) -> Vec<EventCount> {
        self.counters.iter().filter_map(|counter| counter.events_since(0)).collect()
    }

    /// Returns the ledger for the record, with the events since `earlier`. Slots are named as in the firmware.
    pub fn ledger(&self, root: &SysRoot, earlier: Option<&Self>) -> Ledger {
        let change = earlier.map(|earlier| self.since(earlier)).unwrap_or_default();
        let mut since_boot = self.all_events();
        let mut during = change.events;
        slots::add_slots(root, &mut since_boot);
        slots::add_slots(root, &mut during);
        let links = links::find_reduced_links(root);
        Ledger {
            sources: self.sources.clone(),
            since_boot,
            during,
            vanished: change.vanished,
            narrow_links: links.narrow,
            slow_links: links.slow,
            seconds: self.seconds,
        }
    }
}

impl EventCounter {
    /// Returns the key of the counter, which is the same in all readings.
    fn key(&self) -> (HardwareEvent, &str) {
        (self.kind, &self.component)
    }

    /// Returns the events since the counter had the value `first`; `None` if there were none.
    fn events_since(&self, first: u64) -> Option<EventCount> {
        let saturated = self.stops_at.is_some_and(|max| self.value >= max);
        let (events, note) = match self.value.checked_sub(first) {
            Some(events) => (events, saturated.then_some(CounterNote::Saturated)),
            // A 32-bit counter in its upper half wraps around; all others are reset by their driver.
            None if (HALF_RANGE..1 << 32).contains(&first) && self.value < HALF_RANGE => {
                (self.value + (1 << 32) - first, Some(CounterNote::Wrapped))
            }
            None => (self.value, Some(CounterNote::Reset)),
        };
        (events > 0).then(|| EventCount {
            kind: self.kind,
            component: self.component.clone(),
            slot: None,
            events,
            note,
        })
    }
}

/// Counters collected so far.
struct CollectedCounters<'a> {
    root: &'a SysRoot,
    counters: Vec<EventCounter>,
    sources: Vec<LedgerSource>,
}

impl CollectedCounters<'_> {
    /// Reads a source and adds its counters and its state.
    fn add(&mut self, name: &str, read: fn(&mut SourceReader<'_>)) {
        let mut reader = SourceReader {
            root: self.root,
            counters: Vec::new(),
            unreadable: None,
            buffer: vec![0; PAGE],
        };
        read(&mut reader);
        let state = match (&reader.unreadable, reader.counters.is_empty()) {
            (Some(_), _) => SourceState::Unreadable,
            (None, false) => SourceState::Read,
            (None, true) => SourceState::Absent,
        };
        let reason = reader.unreadable;
        self.sources.push(LedgerSource { name: name.to_owned(), state, reason });
        self.counters.append(&mut reader.counters);
    }
}

/// Reader of the counters of one source.
struct SourceReader<'a> {
    root: &'a SysRoot,
    counters: Vec<EventCounter>,
    /// First file that cannot be read, with the reason.
    unreadable: Option<String>,
    buffer: Vec<u8>,
}

/// True if `name` consists of one of `prefixes` and a number.
fn is_numbered(name: &str, prefixes: &[&str]) -> bool {
    let number = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
    number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// Size of the buffer for a file, in bytes: files of sysfs have at most one page.
const PAGE: usize = 4096;

/// Returns the text of a file. This takes half the system calls of [`std::fs::read_to_string`], which matters for
/// thousands of small files.
fn read(path: &Path, buffer: &mut [u8]) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut text = Vec::new();
    loop {
        let count = file.read(buffer)?;
        text.extend_from_slice(&buffer[..count]);
        // The first read of a short file returns all of it, because the kernel fills the buffer if it can.
        let is_whole = text.len() == count && count < buffer.len() / 4;
        if count == 0 || is_whole {
            return Ok(String::from_utf8_lossy(&text).trim().to_owned());
        }
    }
}

impl SourceReader<'_> {
    /// Returns the text of a file; `None` if the file is absent or cannot be read. An unreadable file is recorded.
    fn text(&mut self, file: &str) -> Option<String> {
        match read(&self.root.path(file), &mut self.buffer) {
            Ok(text) => Some(text),
            // A device that was removed after the folder was listed.
            Err(cause)
                if matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                None
            }
            Err(cause) => {
                self.note(file, &cause.to_string());
                None
            }
        }
    }

    /// Records that a file cannot be read.
    fn note(&mut self, file: &str, cause: &str) {
        self.unreadable.get_or_insert_with(|| format!("/{file}: {cause}"));
    }

    /// Returns the number in a file; other content is recorded as unreadable.
    fn number(&mut self, file: &str) -> Option<u64> {
        let text = self.text(file)?;
        let number = text.parse().ok();
        if number.is_none() {
            self.note(file, "not a number");
        }
        number
    }

    /// Adds the counter in a file; returns false if the counter cannot be read.
    fn count(&mut self, kind: HardwareEvent, component: &str, file: &str) -> bool {
        match self.number(file) {
            Some(value) => {
                self.push(kind, component.to_owned(), value, None);
                true
            }
            None => false,
        }
    }

    fn push(&mut self, kind: HardwareEvent, component: String, value: u64, stops_at: Option<u64>) {
        self.counters.push(EventCounter { kind, component, value, stops_at });
    }
}

#[cfg(test)]
mod tests;
