//! Iteration over the lines of an input. Only a part of the input is in memory.

use super::{MAX_RUN_BYTES, ReadError};
use nodegauge_measure::printed::{self, MAX_LINE_BYTES};
use nodegauge_os::Input;

/// Number of bytes per read.
const CHUNK: usize = 512 << 10;

/// Iterator over the lines of an input.
pub(super) struct InputLines<'t> {
    input: &'t Input<'t>,
    /// Buffer with a part of the input: complete lines and the beginning of the next one.
    chunk: Vec<u8>,
    /// Position of the buffer in the input, bytes.
    from: u64,
    /// Position of the next line in the buffer.
    next: usize,
    /// Number of bytes in the buffer that have been read.
    filled: usize,
}

/// Line of an input, or consecutive lines.
pub(super) struct InputLine<'a> {
    /// Position of the first byte in the input.
    pub(super) from: u64,
    /// Bytes including the line ends.
    pub(super) bytes: &'a [u8],
}

impl<'t> InputLines<'t> {
    /// Starts at the first line of an input, after a byte order mark.
    pub(super) fn new(input: &'t Input<'t>) -> Result<Self, ReadError> {
        let length = usize::try_from(input.length()).unwrap_or(CHUNK);
        let mut chunk = vec![0; length.saturating_add(1).min(CHUNK)];
        let filled = input.read_at(0, &mut chunk)?;
        let next =
            printed::byte_order_mark_length(&chunk[..filled]).map_err(ReadError::Encoding)?;
        Ok(Self { input, chunk, from: 0, next, filled })
    }

    /// Returns the next line; `None` after the last one.
    ///
    /// # Errors
    /// Fails if the input cannot be read, or if the line is longer than any line that a program prints.
    pub(super) fn next(&mut self) -> Result<Option<InputLine<'_>>, ReadError> {
        let mut searched = self.next;
        loop {
            let unseen = &self.chunk[searched..self.filled];
            if let Some(length) = line_length(unseen) {
                return Ok(Some(self.line_until(searched + length)));
            }
            searched = self.filled;
            if searched == self.chunk.len() {
                let begun = self.next;
                self.make_room()?;
                searched -= begun;
            }
            let at = self.from + self.filled as u64;
            let more = self.input.read_at(at, &mut self.chunk[self.filled..])?;
            if more == 0 {
                let is_end = self.next == self.filled;
                return Ok(if is_end { None } else { Some(self.line_until(self.filled)) });
            }
            self.filled += more;
        }
    }

    /// Returns the next lines, as many as are in the buffer; `None` after the last one.
    ///
    /// # Errors
    /// Fails as [`Self::next`] does.
    pub(super) fn next_block(&mut self) -> Result<Option<InputLine<'_>>, ReadError> {
        loop {
            let at = self.from + self.filled as u64;
            let more = self.input.read_at(at, &mut self.chunk[self.filled..])?;
            self.filled += more;
            let is_end = self.filled < self.chunk.len();
            if is_end {
                let is_empty = self.next == self.filled;
                return Ok(if is_empty { None } else { Some(self.line_until(self.filled)) });
            }
            let unseen = &self.chunk[self.next..self.filled];
            if let Some(last) = unseen.iter().rposition(|byte| *byte == b'\n') {
                return Ok(Some(self.line_until(self.next + last + 1)));
            }
            self.make_room()?;
        }
    }

    /// Returns the lines up to `end` in the buffer, and advances to the line after them.
    fn line_until(&mut self, end: usize) -> InputLine<'_> {
        let begin = self.next;
        self.next = end;
        InputLine { from: self.from + begin as u64, bytes: &self.chunk[begin..end] }
    }

    /// Moves the incomplete last line to the beginning of the buffer. If it already fills the buffer, enlarges the
    /// buffer.
    fn make_room(&mut self) -> Result<(), ReadError> {
        if self.next > 0 {
            self.chunk.copy_within(self.next..self.filled, 0);
            self.from += self.next as u64;
            self.filled -= self.next;
            self.next = 0;
            return Ok(());
        }
        // A JSON document may consist of one long line.
        let first = self.chunk.iter().find(|byte| !byte.is_ascii_whitespace());
        let is_json = first.is_some_and(|byte| b"{[\"}".contains(byte));
        let longest = if is_json { MAX_RUN_BYTES } else { MAX_LINE_BYTES };
        if self.filled > longest {
            return Err(ReadError::Overlong(self.whole_length()?));
        }
        self.chunk.resize((2 * self.filled).max(2).min(longest + 1), 0);
        Ok(())
    }

    /// Returns the total length of the line that fills the buffer.
    fn whole_length(&mut self) -> Result<u64, ReadError> {
        let mut at = self.from + self.filled as u64;
        loop {
            let read = self.input.read_at(at, &mut self.chunk)?;
            if read == 0 {
                return Ok(at - self.from);
            }
            if let Some(length) = line_length(&self.chunk[..read]) {
                return Ok(at + length as u64 - 1 - self.from);
            }
            at += read as u64;
        }
    }
}

/// Returns the length of the first line including its line end; `None` if it has no line end.
pub(super) fn line_length(bytes: &[u8]) -> Option<usize> {
    // `skip_until` is the only search for a byte in the standard library that compares many bytes at once.
    let mut rest = bytes;
    let skipped = std::io::BufRead::skip_until(&mut rest, b'\n').unwrap_or_default();
    (skipped > 0 && bytes[skipped - 1] == b'\n').then_some(skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, ReadError> {
        let input = Input::from(text);
        let mut lines = InputLines::new(&input)?;
        let mut all = Vec::new();
        while let Some(line) = lines.next()? {
            all.push((line.from, line.bytes.to_vec()));
        }
        Ok(all)
    }

    /// Returns the text of all blocks, after a check that each ends with a line end or with the text.
    fn text_of_blocks(text: &[u8]) -> Result<Vec<u8>, ReadError> {
        let input = Input::from(text);
        let mut lines = InputLines::new(&input)?;
        let mut all = Vec::new();
        while let Some(block) = lines.next_block()? {
            assert_eq!(block.from as usize, all.len());
            all.extend_from_slice(block.bytes);
            assert!(block.bytes.ends_with(b"\n") || all.len() == text.len());
        }
        Ok(all)
    }

    #[test]
    fn lines_read_in_blocks_equal_those_of_the_whole_text() {
        let long = "x".repeat(MAX_LINE_BYTES - 1);
        let rows: String =
            (0..40_000).map(|row| format!("row {row}: {}\n", "7".repeat(row % 90))).collect();
        let json = format!("{{{}}}", "\"a\"".repeat(MAX_LINE_BYTES));
        for text in ["", "\n", "a", "a\nb\n\nc", &rows, &format!("{rows}{long}\n{json}\n{rows}end")]
        {
            let expected: Vec<&[u8]> =
                text.as_bytes().split_inclusive(|byte| *byte == b'\n').collect();
            let found = lines_of(text.as_bytes()).unwrap();
            assert_eq!(found.len(), expected.len());
            let mut at = 0;
            for ((from, line), known) in found.iter().zip(expected) {
                assert_eq!((*from, line.as_slice()), (at, known));
                at += line.len() as u64;
            }
            assert_eq!(text_of_blocks(text.as_bytes()).unwrap(), text.as_bytes());
        }
        assert_eq!(lines_of(b"\xef\xbb\xbfa\n").unwrap(), [(3, b"a\n".to_vec())]);
        assert!(matches!(lines_of(b"a\0b\0"), Err(ReadError::Encoding(_))));
    }

    #[test]
    fn overlong_lines_are_refused_with_their_length() {
        let rows = "row\n".repeat(100_000);
        for (begin, longest) in [("x", MAX_LINE_BYTES), ("{", MAX_RUN_BYTES)] {
            let line = format!("{begin}{}", "y".repeat(longest + 1));
            for end in ["", "\n", "\nmore\n"] {
                let text = format!("{rows}{line}{end}");
                let refused = lines_of(text.as_bytes()).unwrap_err();
                assert_eq!(refused, ReadError::Overlong(line.len() as u64));
                assert_eq!(text_of_blocks(text.as_bytes()).unwrap_err(), refused);
            }
        }
    }
}
