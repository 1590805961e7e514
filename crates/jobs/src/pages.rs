//! NUMA nodes, sizes and memory policy of the pages of a process, from `/proc/PID/numa_maps` and `smaps_rollup`
//! (proc(5)).
//!
//! For both files, the kernel walks the page tables, and holds the lock that the process needs to map memory. Therefore
//! each file is read once, and only if the predicted time is within a limit. The prediction is the resident memory
//! multiplied by the time per byte of the last reading. Before the first reading, the pages of nodegauge itself are
//! read. `numa_maps` is read in chunks: between two chunks, the kernel releases the lock, and the limit is checked.

use crate::process::{UnreadableReason, file_text, status_line};
use nodegauge_machine::SysRoot;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

/// Size of a chunk in bytes. The kernel fills a buffer of this size with mappings before it releases the lock.
const CHUNK: usize = 4096;

/// File with the size of transparent huge pages.
const HUGE_PAGE: &str = "sys/kernel/mm/transparent_hugepage/hpage_pmd_size";

/// Pages of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProcessPages {
    /// Bytes with each memory policy.
    pub(crate) policies: BTreeMap<String, u64>,
    /// Bytes on each NUMA node.
    pub(crate) nodes: BTreeMap<u32, u64>,
    /// Bytes on pages of each size.
    pub(crate) sizes: BTreeMap<u64, u64>,
}

impl ProcessPages {
    /// Returns the policy of most of the pages.
    pub(crate) fn policy(&self) -> Option<&str> {
        self.policies.iter().max_by_key(|(_, bytes)| **bytes).map(|(policy, _)| policy.as_str())
    }

    /// Adds the private memory in the text of `numa_maps`. A mapped file counts as private if most of its pages are
    /// copies.
    fn add_maps(&mut self, text: &str) {
        for line in text.lines() {
            self.add_line(line);
        }
    }

    fn add_line(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        words.next()?;
        let policy = words.next()?;
        let mut page = nodegauge_os::page_bytes() as u64;
        let mut is_file = false;
        let mut is_huge = false;
        let mut private = 0;
        let mut on_nodes: Vec<(u32, u64)> = Vec::new();
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                is_huge |= word == "huge";
                continue;
            };
            match key {
                "file" => is_file = true,
                "anon" => private = value.parse().ok()?,
                "kernelpagesize_kB" => page = value.parse::<u64>().ok()? << 10,
                _ => on_nodes.extend(node_pages(key, value)),
            }
        }
        let pages: u64 = on_nodes.iter().map(|(_, count)| count).sum();
        if pages == 0 || is_file && !is_huge && 2 * private < pages {
            return Some(());
        }
        for (node, count) in on_nodes {
            *self.nodes.entry(node).or_default() += count * page;
        }
        *self.policies.entry(policy.to_owned()).or_default() += pages * page;
        *self.sizes.entry(page).or_default() += pages * page;
        Some(())
    }

    /// Corrects the page sizes: `numa_maps` counts transparent huge pages as small pages, so their bytes are moved to
    /// the size `huge`.
    fn add_transparent(&mut self, rollup: &str, huge: u64) {
        let kib = status_line(rollup, "AnonHugePages:").and_then(|text| text.split(' ').next());
        let bytes = kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10;
        let base = self.sizes.entry(nodegauge_os::page_bytes() as u64).or_default();
        let moved = bytes.min(*base);
        *base -= moved;
        *self.sizes.entry(huge).or_default() += moved;
        self.sizes.retain(|_, left| *left > 0);
    }
}

/// Parses the number of pages on a NUMA node: `N3=17`.
fn node_pages(key: &str, value: &str) -> Option<(u32, u64)> {
    Some((key.strip_prefix('N')?.parse().ok()?, value.parse().ok()?))
}

/// Reader of pages with a time limit for all processes together.
#[derive(Debug)]
pub(crate) struct PagesReader {
    left: Duration,
    /// Seconds per resident byte; `None` before the first reading.
    rate: Option<f64>,
    pub(crate) elapsed: Duration,
}

/// Result of reading the pages of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PagesResult {
    Read(ProcessPages),
    /// The files cannot be read.
    Unreadable(UnreadableReason),
    /// The pages were skipped because of this predicted time, or reading was stopped after this time.
    Skipped(Duration),
}

impl PagesReader {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { left: limit, rate: None, elapsed: Duration::ZERO }
    }

    /// Reads the pages of a process with `resident` bytes of resident memory.
    pub(crate) fn read(&mut self, root: &SysRoot, pid: u32, resident: u64) -> PagesResult {
        if self.left.is_zero() {
            return PagesResult::Skipped(Duration::ZERO);
        }
        let predicted = self.predicted_time(root, resident);
        if predicted > self.left {
            return PagesResult::Skipped(predicted);
        }
        let started = Instant::now();
        let result = read_pages(root, pid, started + self.left);
        let elapsed = started.elapsed();
        self.left = self.left.saturating_sub(elapsed);
        self.elapsed += elapsed;
        if matches!(result, PagesResult::Read(_)) {
            self.update_rate(elapsed, resident);
        }
        result
    }

    /// Predicts the time for reading `resident` bytes of pages from the last reading. Before the first reading, reads
    /// the pages of this process.
    fn predicted_time(&mut self, root: &SysRoot, resident: u64) -> Duration {
        if self.rate.is_none() && root.is_live() {
            let started = Instant::now();
            let status = file_text(root, "proc/self/status").unwrap_or_default();
            let own = status_line(&status, "VmRSS:").and_then(|text| text.split(' ').next());
            let own = own.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10;
            read_pages(root, std::process::id(), started + self.left);
            self.update_rate(started.elapsed(), own);
        }
        let seconds = self.rate.unwrap_or(0.0) * resident as f64;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    fn update_rate(&mut self, elapsed: Duration, resident: u64) {
        if resident > 0 {
            self.rate = Some(elapsed.as_secs_f64() / resident as f64);
        }
    }
}

/// Reads the pages of a process until the deadline.
fn read_pages(root: &SysRoot, pid: u32, deadline: Instant) -> PagesResult {
    let started = Instant::now();
    let mut pages = ProcessPages::default();
    let maps = match read_in_chunks(root, &format!("proc/{pid}/numa_maps"), deadline) {
        Ok(Some(maps)) => maps,
        Ok(None) => return PagesResult::Skipped(started.elapsed()),
        Err(reason) => return PagesResult::Unreadable(reason),
    };
    pages.add_maps(&maps);
    // The second walk is assumed to take as long as the first.
    let first = started.elapsed();
    if Instant::now() + first > deadline {
        return PagesResult::Skipped(2 * first);
    }
    let huge = root.value(HUGE_PAGE).unwrap_or(nodegauge_os::huge_page_bytes() as u64);
    match file_text(root, &format!("proc/{pid}/smaps_rollup")) {
        Ok(rollup) => pages.add_transparent(&rollup, huge),
        Err(reason) => return PagesResult::Unreadable(reason),
    }
    PagesResult::Read(pages)
}

/// Reads a file of the kernel in chunks; returns `None` if the deadline has passed.
fn read_in_chunks(
    root: &SysRoot,
    path: &str,
    deadline: Instant,
) -> Result<Option<String>, UnreadableReason> {
    let mut file = File::open(root.path(path))?;
    let mut bytes = Vec::new();
    let mut part = [0; CHUNK];
    loop {
        let count = file.read(&mut part)?;
        if count == 0 {
            return Ok(Some(String::from_utf8_lossy(&bytes).into_owned()));
        }
        bytes.extend_from_slice(&part[..count]);
        if Instant::now() > deadline {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of a program with OpenMP, of a process with reserved huge pages, and of a process with a memory policy.
    const MAPS: &str = "\
564d3f3a5000 default file=/tmp/omp dirty=1 N0=1 kernelpagesize_kB=4
564d3f3a8000 default file=/tmp/omp anon=1 dirty=1 active=0 N0=1 kernelpagesize_kB=4
564d4ba00000 default heap anon=3 dirty=3 active=0 N0=3 kernelpagesize_kB=4
7f7d19b45000 default
7f7d1a346000 interleave:0-1 anon=1536 dirty=1536 active=0 N0=768 N1=768 kernelpagesize_kB=4
7f7d1e34a000 default file=/usr/lib/libc.so.6 mapped=38 mapmax=31 N0=38 kernelpagesize_kB=4
7f8000000000 bind:1 file=/anon_hugepage\\040(deleted) huge anon=2 dirty=2 N1=2 kernelpagesize_kB=2048
";

    #[test]
    fn private_memory_is_counted_by_numa_node_page_size_and_policy() {
        let mut pages = ProcessPages::default();
        pages.add_maps(MAPS);
        let expected = BTreeMap::from([(0, 772 * 4096), (1, 768 * 4096 + (4 << 20))]);
        assert_eq!(pages.nodes, expected);
        assert_eq!(pages.policy(), Some("interleave:0-1"));
        pages.add_transparent("Rss: 1 kB\nAnonHugePages:      2048 kB\n", 2 << 20);
        let sizes = BTreeMap::from([(4096, 1540 * 4096 - (2 << 20)), (2 << 20, 6 << 20)]);
        assert_eq!(pages.sizes, sizes);
    }

    #[test]
    fn pages_are_skipped_if_predicted_time_exceeds_limit() {
        let mut reader = PagesReader::new(Duration::from_secs(2));
        reader.update_rate(Duration::from_secs(1), 1 << 30);
        let root = SysRoot::recorded("/nonexistent");
        assert_eq!(reader.read(&root, 1, 4 << 30), PagesResult::Skipped(Duration::from_secs(4)));
        let missing = PagesResult::Unreadable(UnreadableReason::Missing);
        assert_eq!(reader.read(&root, 1, 1 << 30), missing);
        let mut none = PagesReader::new(Duration::ZERO);
        assert_eq!(none.read(&root, 1, 0), PagesResult::Skipped(Duration::ZERO));
    }

    #[test]
    fn own_pages_are_counted_by_numa_node_and_size() {
        let touched = vec![1_u8; 8 << 20];
        std::hint::black_box(&touched);
        let mut reader = PagesReader::new(Duration::from_secs(60));
        match reader.read(&SysRoot::live(), std::process::id(), 1 << 20) {
            PagesResult::Read(pages) => {
                assert!(pages.nodes.values().sum::<u64>() >= 8 << 20, "{pages:?}");
                assert!(pages.sizes.values().sum::<u64>() >= 8 << 20, "{pages:?}");
            }
            // A kernel without NUMA has no such file, and a container may deny access.
            other => assert!(matches!(other, PagesResult::Unreadable(_)), "{other:?}"),
        }
    }
}
