//! Detection of runs in a text: which program printed which lines. The text may be the log of a job with the outputs of
//! several programs and arbitrary lines between them.

use super::{ReadError, Reader};

/// Mark of a line in the order of the lines of a run. A line whose phase cannot follow that of the previous mark begins
/// a new run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunMark {
    /// Position in the order of the lines of a run; 0 for a title.
    pub phase: u8,
    /// Number of times that the line occurs in a run, and whether it identifies the program.
    pub kind: MarkKind,
}

/// Number of times that a line occurs in a run, and whether it identifies the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// The line occurs once per run.
    Once,
    /// The line may occur several times per run.
    Repeated,
    /// The line may occur several times per run, and other programs may print it, too.
    Weak,
    /// The line occurs once per run, within a JSON document that begins with a line `{` before it.
    InDocument,
}

impl RunMark {
    /// Returns the mark of a title.
    pub const TITLE: Self = Self::once(0);
    /// Returns the mark of a line that identifies a JSON document.
    pub const DOCUMENT: Self = Self { phase: 0, kind: MarkKind::InDocument };

    /// Returns the mark of a line that occurs once per run.
    pub const fn once(phase: u8) -> Self {
        Self { phase, kind: MarkKind::Once }
    }

    /// Returns the mark of a line that may occur several times per run.
    pub const fn repeated(phase: u8) -> Self {
        Self { phase, kind: MarkKind::Repeated }
    }

    /// Returns the mark of a line that other programs may print, too.
    pub const fn weak(phase: u8) -> Self {
        Self { phase, kind: MarkKind::Weak }
    }
}

/// Run of a program in an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundRun {
    /// Position of the reader in the list of readers.
    pub reader: usize,
    /// Rank whose lines a launcher has marked.
    pub rank: Option<u32>,
    /// Number of the first line, from 1.
    pub line: usize,
    /// Position of the first byte.
    pub from: u64,
    /// Position behind the last byte, which is before that of the next run.
    pub to: u64,
}

/// Maximum number of lines after the final line that belong to a run: separators, and remarks of the program.
const BEHIND_END: usize = 100;
/// Maximum number of runs in an input, and of its ranks.
pub(super) const MAX_RUNS: usize = 1 << 19;

/// Run that has begun.
#[derive(Debug, Clone, Copy)]
struct OpenRun {
    from: u64,
    /// Position behind which the text no longer belongs to the run.
    to: Option<u64>,
    /// Line, from 1.
    line: u32,
    /// Line in which the last phase began, from 0.
    ended: Option<u32>,
    reader: u8,
    phase: u8,
    is_proven: bool,
    /// True if the run is a JSON document, to which no other line of the program belongs.
    is_document: bool,
}

/// Readers with the first characters of the lines that they know.
pub(super) struct KnownLines<'r> {
    readers: &'r [&'r dyn Reader],
    by_first: [u64; 256],
}

impl<'r> KnownLines<'r> {
    pub(super) fn new(readers: &'r [&'r dyn Reader]) -> Self {
        Self { readers, by_first: by_first_character(readers) }
    }
}

/// Line of an input with its place.
pub(super) struct PlacedLine<'a> {
    /// Number of the line, from 0.
    pub(super) number: usize,
    /// Position of its first byte.
    pub(super) from: u64,
    /// Line with its end.
    pub(super) text: &'a str,
}

/// Runs in the lines of an input, or of one of its ranks.
#[derive(Debug, Default)]
pub(super) struct RunFinder {
    runs: Vec<OpenRun>,
    /// First line of the last run, if it is a title.
    title: String,
    /// Number, from 1, and position of the last line that begins a JSON document.
    document: Option<(usize, u64)>,
    /// Last character of the last line that is not blank.
    before: u8,
}

impl RunFinder {
    /// Adds the next line.
    ///
    /// # Errors
    /// Fails if the lines of two runs are mixed, so that it is unknown to which of them a line belongs.
    pub(super) fn line(
        &mut self,
        known: &KnownLines<'_>,
        place: &PlacedLine<'_>,
    ) -> Result<(), ReadError> {
        let line = place.text.trim();
        let Some(end) = line.bytes().last() else { return Ok(()) };
        // A brace behind one of these characters is within a document.
        if place.text.starts_with('{') && !b",:[".contains(&self.before) {
            self.document = Some((place.number + 1, place.from));
        }
        self.before = end;
        if let Some(open) = self.runs.last_mut()
            && open.to.is_none()
            && open.ended.is_some_and(|ended| place.number > ended as usize + BEHIND_END)
        {
            open.to = Some(place.from);
        }
        let mut asked = line.bytes().next().map_or(0, |first| known.by_first[usize::from(first)]);
        if let Some(letter) = line.bytes().find(u8::is_ascii_alphanumeric) {
            asked |= known.by_first[usize::from(letter)];
        }
        while asked != 0 {
            let reader = asked.trailing_zeros() as usize;
            asked &= asked - 1;
            if let Some(mark) = known.readers[reader].mark(line) {
                self.note(known.readers, reader, mark, place)?;
            }
        }
        Ok(())
    }

    /// Returns the runs in the order of their first lines; `end` is the position behind the last line.
    pub(super) fn finish(mut self, rank: Option<u32>, end: u64) -> Vec<FoundRun> {
        // A weak line alone is a line of any program.
        self.runs.retain(|run| run.is_proven);
        let mut found = Vec::with_capacity(self.runs.len());
        for (position, run) in self.runs.iter().enumerate() {
            let next = self.runs.get(position + 1).map_or(end, |next| next.from);
            found.push(FoundRun {
                reader: usize::from(run.reader),
                rank,
                line: run.line as usize,
                from: run.from,
                to: run.to.map_or(next, |to| to.min(next)),
            });
        }
        found
    }

    /// Returns the number of runs that have begun.
    pub(super) fn count(&self) -> usize {
        self.runs.len()
    }

    /// Adds a marked line to the run to which it belongs, or begins a run.
    fn note(
        &mut self,
        readers: &[&dyn Reader],
        reader: usize,
        mark: RunMark,
        place: &PlacedLine<'_>,
    ) -> Result<(), ReadError> {
        let is_weak = mark.kind == MarkKind::Weak;
        let is_last = Some(mark.phase) == readers[reader].last_phase();
        if let Some(open) = self.runs.last().copied() {
            let of_open = usize::from(open.reader);
            let is_inside = open.ended.is_none()
                && readers[of_open].enclosed_programs().contains(&readers[reader].program());
            if is_inside || of_open != reader && is_weak {
                return Ok(());
            }
            if of_open == reader && self.continues(&open, mark, place) {
                if let Some(last) = self.runs.last_mut() {
                    last.phase = mark.phase;
                    last.is_proven |= !is_weak;
                    if is_last {
                        last.ended.get_or_insert(place.number as u32);
                    }
                }
                return Ok(());
            }
            let earlier = self.runs.iter().rev().find(|run| usize::from(run.reader) == reader);
            if of_open != reader
                && open.is_proven
                && let Some(earlier) = earlier
                && earlier.is_proven
                && earlier.ended.is_none()
                && !earlier.is_document
                && earlier.phase < mark.phase
            {
                let programs = [readers[reader].program(), readers[of_open].program()];
                return Err(ReadError::Mixed { programs, line: place.number + 1 });
            }
        }
        if self.runs.len() == MAX_RUNS {
            return Err(ReadError::TooMany { what: "runs", most: MAX_RUNS });
        }
        let begin = (place.number + 1, place.from);
        let (line, from) = match mark.kind {
            MarkKind::InDocument => {
                let after = self.runs.last().map_or(0, |open| open.from + 1);
                self.document.filter(|(_, from)| *from >= after).unwrap_or(begin)
            }
            _ => begin,
        };
        self.title.clear();
        if mark == RunMark::TITLE {
            self.title.push_str(place.text.trim());
        }
        self.runs.push(OpenRun {
            from,
            to: None,
            line: line as u32,
            ended: is_last.then_some(place.number as u32),
            reader: reader as u8,
            phase: mark.phase,
            is_proven: !is_weak,
            is_document: mark.kind == MarkKind::InDocument,
        });
        Ok(())
    }

    /// True if a line of the program of the last run belongs to this run.
    fn continues(&self, open: &OpenRun, mark: RunMark, place: &PlacedLine<'_>) -> bool {
        if open.is_document != (mark.kind == MarkKind::InDocument) {
            return false;
        }
        if mark.phase != open.phase {
            return mark.phase > open.phase;
        }
        match mark.kind {
            MarkKind::Repeated | MarkKind::Weak => true,
            // Some programs print their title twice, one line below the other.
            MarkKind::Once => {
                let is_next = place.number == open.line as usize;
                mark.phase == 0 && is_next && self.title == place.text.trim()
            }
            MarkKind::InDocument => self.document.is_some_and(|(_, from)| from <= open.from),
        }
    }
}

/// Returns for each first character the readers that recognise lines with it, as bits.
fn by_first_character(readers: &[&dyn Reader]) -> [u64; 256] {
    let mut bits = [0; 256];
    for (reader, one) in readers.iter().enumerate() {
        let characters = one.first_characters();
        for byte in characters.bytes() {
            bits[usize::from(byte)] |= 1u64 << reader;
        }
        if characters.is_empty() {
            bits.iter_mut().for_each(|known| *known |= 1u64 << reader);
        }
    }
    bits
}
