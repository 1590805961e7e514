//! Positions of the runs in an input, and the text of each run.

use super::lines::{InputLines, line_length};
use super::runs::{FoundRun, LinePosition, MAX_RUNS, ReaderIndex, RunFinder, ScannedLine};
use super::{MAX_RUN_BYTES, ReadError, Reader, tags};
use nodegauge_os::{Input, map_in_parallel};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Minimum number of bytes of a run that are kept if the runs of many ranks share the memory.
const SHORTEST_RUN: usize = 64 << 10;

/// Returns the runs in an input, in the order of their first lines.
///
/// # Errors
/// Fails if the lines of two runs are mixed, so that a line could belong to either, or if the input is not plain text.
pub fn find_runs(readers: &[&dyn Reader], input: &Input<'_>) -> Result<Vec<FoundRun>, ReadError> {
    let known = ReaderIndex::new(readers);
    if let Some(tag) = form(input)? {
        let found = find_rank_runs(&known, input, tag)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let mut finder = RunFinder::default();
    let mut lines = InputLines::new(input)?;
    let mut number = 0;
    while let Some(block) = lines.next_block()? {
        let pieces = split(block.bytes);
        let mut from = block.from;
        for scanned in map_in_parallel(&pieces, |piece| scan(&known, piece)) {
            for line in scanned {
                if let Some(marked) = &line.scanned {
                    finder.add(&known, LinePosition { number, from }, marked)?;
                }
                number += 1;
                from += line.length as u64;
            }
        }
    }
    Ok(finder.finish(None, input.length()))
}

/// Minimum length of a piece of a block, bytes. Scanning a piece of this length takes much longer than starting a
/// thread.
const PIECE: usize = 64 << 10;

/// Splits a block of lines into pieces with complete lines.
fn split(block: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = block;
    while rest.len() > PIECE {
        let Some(end) = line_length(&rest[PIECE..]) else { break };
        let (piece, after) = rest.split_at(PIECE + end);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// Line of a piece.
struct PieceLine {
    /// Length including its line end, bytes.
    length: usize,
    /// Marks of the line; `None` for a blank line.
    scanned: Option<ScannedLine>,
}

/// Scans the lines of a piece.
fn scan(known: &ReaderIndex<'_>, piece: &[u8]) -> Vec<PieceLine> {
    // Nearly all pieces are UTF-8, and one check of a piece is faster than one of each line.
    if let Ok(text) = std::str::from_utf8(piece) {
        let lines = text.split_inclusive('\n');
        return lines
            .map(|line| PieceLine { length: line.len(), scanned: known.scan(line) })
            .collect();
    }
    let lines = piece.split_inclusive(|byte| *byte == b'\n');
    lines
        .map(|line| PieceLine {
            length: line.len(),
            scanned: known.scan(&String::from_utf8_lossy(line)),
        })
        .collect()
}

/// Returns the form of the rank prefixes of an input; `None` if its lines have no prefixes.
fn form(input: &Input<'_>) -> Result<Option<tags::PrefixForm>, ReadError> {
    let mut first = String::new();
    let mut lines = InputLines::new(input)?;
    let mut count = 0;
    while let Some(line) = lines.next()? {
        // Prefixes are short, so the beginning of a line is sufficient.
        let begin = &line.bytes[..line.bytes.len().min(4096)];
        if !begin.trim_ascii().is_empty() {
            first.push_str(String::from_utf8_lossy(begin).trim_end());
            first.push('\n');
            count += 1;
        }
        if count == tags::MAX_EXAMINED_LINES {
            break;
        }
    }
    Ok(tags::prefix_form(&first))
}

/// Returns the runs of all ranks. Lines without a prefix are ignored, because the launcher printed them. A last line
/// without a line end is ignored, because its prefix may be incomplete.
fn find_rank_runs(
    known: &ReaderIndex<'_>,
    input: &Input<'_>,
    tag: tags::PrefixForm,
) -> Result<Vec<FoundRun>, ReadError> {
    let mut ranks: BTreeMap<u32, RunFinder> = BTreeMap::new();
    let mut lines = InputLines::new(input)?;
    let mut number = 0;
    let mut count = 0;
    while let Some(line) = lines.next()? {
        let text = String::from_utf8_lossy(line.bytes);
        if let Some(tagged) = whole_line(&text).and_then(tag) {
            let finder = ranks.entry(tagged.rank).or_default();
            let before = finder.count();
            if let Some(scanned) = known.scan(tagged.line) {
                finder.add(known, LinePosition { number, from: line.from }, &scanned)?;
            }
            count += finder.count() - before;
        }
        if count > MAX_RUNS || ranks.len() > MAX_RUNS {
            return Err(ReadError::TooMany { what: "runs of ranks", most: MAX_RUNS });
        }
        number += 1;
    }
    let mut found: Vec<FoundRun> = Vec::new();
    for (rank, finder) in ranks {
        found.extend(finder.finish(Some(rank), input.length()));
    }
    found.sort_by_key(|run| run.line);
    Ok(found)
}

/// Removes the line end of a line; `None` if the line has none.
fn whole_line(line: &str) -> Option<&str> {
    let line = line.strip_suffix('\n')?;
    Some(line.strip_suffix('\r').unwrap_or(line))
}

/// Text of a run.
pub(super) struct RunText<'a> {
    /// Position of the run in the input.
    pub(super) run: &'a FoundRun,
    /// Position among all runs, from 0.
    pub(super) at: usize,
    /// Lines of the run, cut off at the maximum length.
    pub(super) text: String,
    /// True if the text is only the beginning of the run.
    pub(super) is_overlong: bool,
}

/// Calls `visit` with the text of each run in `found`.
pub(super) fn each_text<'f>(
    input: &Input<'_>,
    found: &'f [FoundRun],
    visit: &mut dyn FnMut(RunText<'f>),
) -> Result<(), ReadError> {
    if found.iter().any(|run| run.rank.is_some()) {
        return each_rank_text(input, found, visit);
    }
    for (at, run) in found.iter().enumerate() {
        let (text, is_overlong) = read_text(input, run.from, run.to)?;
        visit(RunText { run, at, text, is_overlong });
    }
    Ok(())
}

/// Reads the bytes from `from` to `to`, at most [`MAX_RUN_BYTES`]. Returns them as text, and true if bytes were left
/// out.
pub(super) fn read_text(
    input: &Input<'_>,
    from: u64,
    to: u64,
) -> Result<(String, bool), ReadError> {
    let length = usize::try_from(to - from).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length.min(MAX_RUN_BYTES)];
    let read = input.read_at(from, &mut bytes)?;
    bytes.truncate(read);
    Ok((into_text(bytes), length > MAX_RUN_BYTES))
}

/// Converts bytes to text, and replaces invalid UTF-8.
fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// State of a rank while the lines of all ranks are read.
#[derive(Default)]
struct RankRuns {
    /// Indices of the runs that have not been visited yet, in descending order.
    left: Vec<u32>,
    /// Lines of the next run to visit, without prefixes.
    text: String,
    is_overlong: bool,
}

impl RankRuns {
    /// Visits the next run, and clears the text for the run after it.
    fn visit<'f>(&mut self, found: &'f [FoundRun], visit: &mut dyn FnMut(RunText<'f>)) {
        let Some(at) = self.left.pop() else { return };
        let at = at as usize;
        let text = std::mem::take(&mut self.text);
        visit(RunText { run: &found[at], at, text, is_overlong: self.is_overlong });
        self.is_overlong = false;
    }
}

/// Calls `visit` with the text of each run of all ranks, in the order of their last lines. The maximum length of a text
/// is divided by the number of ranks.
fn each_rank_text<'f>(
    input: &Input<'_>,
    found: &'f [FoundRun],
    visit: &mut dyn FnMut(RunText<'f>),
) -> Result<(), ReadError> {
    let Some(tag) = form(input)? else { return Ok(()) };
    let mut ranks: BTreeMap<u32, RankRuns> = BTreeMap::new();
    for (at, run) in found.iter().enumerate().rev() {
        ranks.entry(run.rank.unwrap_or_default()).or_default().left.push(at as u32);
    }
    let longest = (MAX_RUN_BYTES / ranks.len().max(1)).max(SHORTEST_RUN);
    let mut lines = InputLines::new(input)?;
    while let Some(line) = lines.next()? {
        let from = line.from;
        let text: Cow<'_, str> = String::from_utf8_lossy(line.bytes);
        let Some(tagged) = whole_line(&text).and_then(tag) else { continue };
        let Some(rank) = ranks.get_mut(&tagged.rank) else { continue };
        while let Some(at) = rank.left.last()
            && found[*at as usize].to <= from
        {
            rank.visit(found, visit);
        }
        let is_inside = rank.left.last().is_some_and(|at| found[*at as usize].from <= from);
        if !is_inside || rank.is_overlong {
            continue;
        }
        if rank.text.len() + tagged.line.len() >= longest {
            rank.is_overlong = true;
            continue;
        }
        rank.text.push_str(tagged.line);
        rank.text.push('\n');
    }
    for rank in ranks.values_mut() {
        while !rank.left.is_empty() {
            rank.visit(found, visit);
        }
    }
    Ok(())
}
