//! Detection of runs in a text: which program printed which lines. The text may be the log of a job with the outputs of
//! several programs and arbitrary lines between them.

use super::{ReadError, Reader, plain};

/// Mark of a line that identifies a run: its phase in the run, and its kind. A mark whose phase cannot follow the
/// previous phase begins a new run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunMark {
    /// Phase of a run to which the line belongs, ascending; 0 for a title.
    pub phase: u8,
    /// Kind of the line: how often it may occur in a run, and whether it identifies the program.
    pub kind: MarkKind,
}

/// Kind of a line that identifies a run: how often the line may occur, and whether it identifies the program.
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
    /// Mark of a title.
    pub const TITLE: Self = Self::once(0);
    /// Mark of a line that identifies a JSON document.
    pub const DOCUMENT: Self = Self { phase: 0, kind: MarkKind::InDocument };

    /// Creates the mark of a line that occurs once per run.
    pub const fn once(phase: u8) -> Self {
        Self { phase, kind: MarkKind::Once }
    }

    /// Creates the mark of a line that may occur several times per run.
    pub const fn repeated(phase: u8) -> Self {
        Self { phase, kind: MarkKind::Repeated }
    }

    /// Creates the mark of a line that other programs may print, too.
    pub const fn weak(phase: u8) -> Self {
        Self { phase, kind: MarkKind::Weak }
    }
}

/// Run of a program in an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundRun {
    /// Position of the reader in the list of readers.
    pub reader: usize,
    /// Rank that printed the run, if a launcher prefixed each line with its rank.
    pub rank: Option<u32>,
    /// Number of the first line, from 1.
    pub line: usize,
    /// Position of the first byte in the input.
    pub from: u64,
    /// Position after the last byte; at most that of the first byte of the next run.
    pub to: u64,
}

/// Maximum number of lines that belong to a run after its final line: separators, and remarks of the program.
const BEHIND_END: usize = 100;
/// Maximum number of runs in an input, and of ranks.
pub(super) const MAX_RUNS: usize = 1 << 19;

/// Run whose first line was found.
#[derive(Debug, Clone, Copy)]
struct OpenRun {
    from: u64,
    /// Position at which the run ends; `None` if it ends where the next run begins.
    to: Option<u64>,
    /// Number of the first line, from 1.
    line: u32,
    /// Number of the first line of the last phase, from 0; `None` before the last phase.
    ended: Option<u32>,
    reader: u8,
    phase: u8,
    is_proven: bool,
    /// True if the run is a JSON document, which other lines of the program do not continue.
    is_document: bool,
}

/// Readers, indexed by the first characters of the lines that they recognise.
pub(super) struct ReaderIndex<'r> {
    readers: &'r [&'r dyn Reader],
    by_first: [u64; 256],
}

impl<'r> ReaderIndex<'r> {
    pub(super) fn new(readers: &'r [&'r dyn Reader]) -> Self {
        Self { readers, by_first: by_first_character(readers) }
    }

    /// Returns what the readers recognise in a line; `None` for a blank line.
    pub(super) fn scan(&self, printed: &str) -> Option<ScannedLine> {
        let uncoloured = plain::without_colours(printed);
        let line = uncoloured.trim();
        let end = line.bytes().last()?;
        let mut asked = line.bytes().next().map_or(0, |first| self.by_first[usize::from(first)]);
        if let Some(letter) = line.bytes().find(u8::is_ascii_alphanumeric) {
            asked |= self.by_first[usize::from(letter)];
        }
        let mut marks = Vec::new();
        while asked != 0 {
            let reader = asked.trailing_zeros() as usize;
            asked &= asked - 1;
            marks.extend(self.readers[reader].mark(line).map(|mark| ReaderMark { reader, mark }));
        }
        let is_brace = line.starts_with('{');
        let marked = if marks.is_empty() { String::new() } else { line.to_owned() };
        Some(ScannedLine { is_brace, end, marks, text: marked })
    }
}

/// Mark of a line, with the reader that recognises the line.
#[derive(Debug, Clone, Copy)]
struct ReaderMark {
    /// Position of the reader in the list of readers.
    reader: usize,
    mark: RunMark,
}

/// Line that is not blank, with its marks.
#[derive(Debug)]
pub(super) struct ScannedLine {
    /// True if the line begins with a brace.
    is_brace: bool,
    /// Last character that is not blank.
    end: u8,
    /// Marks, ascending by reader.
    marks: Vec<ReaderMark>,
    /// Line without surrounding blanks; empty if it has no marks.
    text: String,
}

/// Position of a line in an input.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinePosition {
    /// Number of the line, from 0.
    pub(super) number: usize,
    /// Position of the first byte of the line in the input.
    pub(super) from: u64,
}

/// Finder of the runs in the lines of an input or of a rank.
#[derive(Debug, Default)]
pub(super) struct RunFinder {
    runs: Vec<OpenRun>,
    /// First line of the last run if it is a title, otherwise empty.
    title: String,
    /// Number (from 1) and position of the last line that may begin a JSON document.
    document: Option<(usize, u64)>,
    /// Last character of the previous line that is not blank.
    before: u8,
}

impl RunFinder {
    /// Adds the next line that is not blank.
    ///
    /// # Errors
    /// Fails if the lines of two runs are mixed, so that the line could belong to either.
    pub(super) fn add(
        &mut self,
        known: &ReaderIndex<'_>,
        place: LinePosition,
        line: &ScannedLine,
    ) -> Result<(), ReadError> {
        // A brace after one of these characters is inside a document.
        if line.is_brace && !b",:[".contains(&self.before) {
            self.document = Some((place.number + 1, place.from));
        }
        self.before = line.end;
        if let Some(open) = self.runs.last_mut()
            && open.to.is_none()
            && open.ended.is_some_and(|ended| place.number > ended as usize + BEHIND_END)
        {
            open.to = Some(place.from);
        }
        for ReaderMark { reader, mark } in &line.marks {
            self.note(known.readers, *reader, *mark, place, &line.text)?;
        }
        Ok(())
    }

    /// Returns the runs in the order of their first lines. `end` is the length of the input.
    pub(super) fn finish(mut self, rank: Option<u32>, end: u64) -> Vec<FoundRun> {
        // Runs with only weak lines are dropped: any program may have printed them.
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

    /// Returns the number of runs found so far.
    pub(super) fn count(&self) -> usize {
        self.runs.len()
    }

    /// Adds a line with a mark to the last run, or begins a new run with it.
    fn note(
        &mut self,
        readers: &[&dyn Reader],
        reader: usize,
        mark: RunMark,
        place: LinePosition,
        text: &str,
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
            if of_open == reader && self.continues(&open, mark, place, text) {
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
            self.title.push_str(text);
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

    /// True if the line continues the last run, which belongs to the same program.
    fn continues(&self, open: &OpenRun, mark: RunMark, place: LinePosition, text: &str) -> bool {
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
                mark.phase == 0 && is_next && self.title == text
            }
            MarkKind::InDocument => self.document.is_some_and(|(_, from)| from <= open.from),
        }
    }
}

/// Returns a bit mask for each possible first byte of a line: the readers that may recognise the line.
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
