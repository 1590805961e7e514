//! Detection of runs in a text: which program printed which lines. The text may be the log of a job with the outputs of
//! several programs and arbitrary lines between them.

use super::{ReadError, Reader};
use nodegauge_measure::printed;

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

/// Run of a program in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundRun<'a> {
    /// Index of the reader in the list of readers.
    pub reader: usize,
    /// Number of the first line, from 1.
    pub line: usize,
    /// Text from the first line of the run to the line before the next run.
    pub text: &'a str,
}

/// Maximum number of lines after the final line that belong to a run: separators, and remarks of the program.
const BEHIND_END: usize = 100;

/// Run whose first line has been found.
#[derive(Debug, Clone)]
struct OpenRun<'a> {
    reader: usize,
    line: usize,
    from: usize,
    /// Position after which the text does not belong to the run.
    to: Option<usize>,
    /// Line in which the final phase began.
    ended: Option<usize>,
    first: &'a str,
    phase: u8,
    is_proven: bool,
}

/// Returns the runs in a text, in the order of their first lines.
///
/// Fails if the lines of two runs are mixed, so that it is unknown to which run a line belongs.
pub fn find_runs<'a>(
    readers: &[&dyn Reader],
    text: &'a str,
) -> Result<Vec<FoundRun<'a>>, ReadError> {
    let by_first = by_first_character(readers);
    let mut runs: Vec<OpenRun<'a>> = Vec::new();
    let mut document: Option<(usize, usize)> = None;
    let mut before = b'\n';
    let mut at = 0;
    for (number, whole) in text.split_inclusive('\n').enumerate() {
        let from = at;
        at += whole.len();
        let line = whole.trim();
        let Some(end) = line.bytes().last() else { continue };
        // A brace after one of these characters is within a document.
        if whole.starts_with('{') && !b",:[".contains(&before) {
            document = Some((number + 1, from));
        }
        before = end;
        if let Some(open) = runs.last_mut()
            && open.to.is_none()
            && open.ended.is_some_and(|ended| number > ended + BEHIND_END)
        {
            open.to = Some(from);
        }
        let mut asked = line.bytes().next().map_or(0, |first| by_first[usize::from(first)]);
        if let Some(letter) = line.bytes().find(u8::is_ascii_alphanumeric) {
            asked |= by_first[usize::from(letter)];
        }
        while asked != 0 {
            let reader = asked.trailing_zeros() as usize;
            asked &= asked - 1;
            let Some(mark) = readers[reader].mark(line) else { continue };
            let place = LinePlace { number, from, line, document };
            note(readers, &mut runs, reader, mark, &place)?;
        }
    }
    // A weak line alone may be from any program.
    runs.retain(|run| run.is_proven);
    let mut found = Vec::with_capacity(runs.len());
    for (position, run) in runs.iter().enumerate() {
        let next = runs.get(position + 1).map_or(text.len(), |next| next.from);
        let to = run.to.map_or(next, |to| to.min(next));
        found.push(FoundRun { reader: run.reader, line: run.line, text: &text[run.from..to] });
    }
    Ok(found)
}

/// Returns for each first character the readers that recognise lines with it, as bits.
fn by_first_character(readers: &[&dyn Reader]) -> [u64; 256] {
    let mut bits = [0; 256];
    for (reader, one) in readers.iter().enumerate() {
        let characters = one.first_characters().as_bytes();
        for (byte, known) in bits.iter_mut().enumerate() {
            if characters.is_empty() || characters.iter().any(|first| usize::from(*first) == byte) {
                *known |= 1u64 << reader;
            }
        }
    }
    bits
}

/// Line of a text with its position.
struct LinePlace<'a> {
    /// Number of the line, from 0.
    number: usize,
    /// Position of its first byte.
    from: usize,
    line: &'a str,
    /// Number (from 1) and position of the last line that begins a JSON document.
    document: Option<(usize, usize)>,
}

/// Adds a marked line to the run to which it belongs, or begins a new run.
fn note<'a>(
    readers: &[&dyn Reader],
    runs: &mut Vec<OpenRun<'a>>,
    reader: usize,
    mark: RunMark,
    place: &LinePlace<'a>,
) -> Result<(), ReadError> {
    let is_weak = mark.kind == MarkKind::Weak;
    if let Some(open) = runs.last_mut() {
        let is_inside = open.ended.is_none()
            && readers[open.reader].enclosed_programs().contains(&readers[reader].program());
        if is_inside {
            return Ok(());
        }
        if open.reader == reader && open.continues(mark, place) {
            open.phase = mark.phase;
            open.is_proven |= !is_weak;
            if Some(mark.phase) == readers[reader].last_phase() {
                open.ended.get_or_insert(place.number);
            }
            return Ok(());
        }
        if open.reader != reader && is_weak {
            return Ok(());
        }
        let open = open.clone();
        if open.reader != reader
            && open.is_proven
            && let Some(earlier) = runs.iter().rev().find(|run| run.reader == reader)
            && earlier.is_proven
            && earlier.ended.is_none()
            && earlier.phase < mark.phase
        {
            let programs = [readers[reader].program(), readers[open.reader].program()];
            return Err(ReadError::Mixed { programs, line: place.number + 1 });
        }
    }
    let begin = (place.number + 1, place.from);
    let (line, from) = match mark.kind {
        MarkKind::InDocument => {
            let after = runs.last().map_or(0, |open| open.from + 1);
            place.document.filter(|(_, from)| *from >= after || runs.is_empty()).unwrap_or(begin)
        }
        _ => begin,
    };
    let ended = (Some(mark.phase) == readers[reader].last_phase()).then_some(place.number);
    runs.push(OpenRun {
        reader,
        line,
        from,
        to: None,
        ended,
        first: place.line,
        phase: mark.phase,
        is_proven: !is_weak,
    });
    Ok(())
}

impl OpenRun<'_> {
    /// True if a line of the same program belongs to this run.
    fn continues(&self, mark: RunMark, place: &LinePlace<'_>) -> bool {
        if mark.phase != self.phase {
            return mark.phase > self.phase;
        }
        match mark.kind {
            MarkKind::Repeated | MarkKind::Weak => true,
            // Some programs print their title twice, on consecutive lines.
            MarkKind::Once => {
                let is_next = place.number + 1 == self.line + 1;
                mark.phase == 0 && is_next && self.first == place.line
            }
            MarkKind::InDocument => place.document.is_some_and(|(_, from)| from <= self.from),
        }
    }
}

/// Returns the length of the first line that is longer than any line that a supported program prints; `None` if there
/// is none. A JSON document may be a single line.
pub(super) fn overlong_line(text: &str) -> Option<usize> {
    let mut rest = text;
    while let Some(length) = printed::overlong_line(rest) {
        let at = rest.split('\n').position(|line| line.len() == length).unwrap_or_default();
        let line = rest.split('\n').nth(at).unwrap_or_default();
        if !line.trim_start().starts_with(['{', '[', '"', '}']) {
            return Some(length);
        }
        let end = line.as_ptr() as usize - rest.as_ptr() as usize + line.len();
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    None
}
