//! Saved output of other programs: its encoding, incomplete last lines, several runs in one file,
//! and the range of its figures. Every parser of such output uses these functions.

/// Byte order mark of UTF-8.
const MARK: &str = "\u{feff}";
/// Byte order marks of UTF-16, little-endian and big-endian.
const UTF16_MARKS: [[u8; 2]; 2] = [[0xff, 0xfe], [0xfe, 0xff]];
/// Maximum length of a line of a text that is not JSON, in bytes. The longest lines that the supported programs print
/// have a few thousand bytes.
pub const MAX_LINE_BYTES: usize = 1 << 20;
/// Largest figure; its reciprocal is the smallest figure. Squares and reciprocals of figures, and sums of many squares,
/// are then finite, so that statistics of figures can be computed and saved.
const LARGEST: f64 = 1e150;

/// Reason why figures are suspect if the end of the output is missing.
pub const TRUNCATION_REASON: &str = "the output may be cut";

/// Decodes the bytes of a file: UTF-8 with or without a byte order mark. Bytes that are not UTF-8
/// are replaced.
///
/// # Errors
/// Fails if the file is UTF-16 text.
pub fn decode(mut bytes: Vec<u8>) -> Result<String, &'static str> {
    bytes.drain(..byte_order_mark_length(&bytes)?);
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Returns the length of the byte order mark of UTF-8 at the beginning of a text; 0 if it has none.
///
/// # Errors
/// Fails if the beginning is UTF-16 text.
pub fn byte_order_mark_length(begin: &[u8]) -> Result<usize, &'static str> {
    let is_marked = UTF16_MARKS.iter().any(|mark| begin.starts_with(mark));
    // The outputs that are read begin with ASCII characters, of which UTF-16 has a zero byte each.
    let is_unmarked = matches!(begin, [a, b, ..] if (*a == 0) != (*b == 0));
    if is_marked || is_unmarked {
        return Err("the file is UTF-16 text");
    }
    Ok(if begin.starts_with(MARK.as_bytes()) { MARK.len() } else { 0 })
}

/// Returns the text without the byte order mark that editors of some systems write.
pub fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// Returns the part of the text up to the last line end. A last line without a line end may be cut in the middle of a
/// number.
pub fn whole_lines(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

/// Returns the last line if it has no line end.
pub fn unterminated_line(text: &str) -> Option<&str> {
    Some(&text[whole_lines(text).len()..]).filter(|line| !line.trim().is_empty())
}

/// Returns the numbers of the lines, from 1, for which `is_mark` is true. A program prints such a
/// line once per run.
pub fn line_numbers_where(text: &str, is_mark: impl Fn(&str) -> bool) -> Vec<usize> {
    let lines = text.lines().enumerate().filter(|(_, line)| is_mark(line.trim()));
    lines.map(|(at, _)| at + 1).collect()
}

/// Returns the line number, from 1, of each occurrence of `mark`, which must not contain a line
/// end.
pub fn occurrence_line_numbers(text: &str, mark: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    for (at, line) in text.lines().enumerate() {
        numbers.extend(line.matches(mark).map(|_| at + 1));
    }
    numbers
}

/// True if a number can be a figure: it is positive, and its square and its reciprocal are finite and not zero.
pub fn can_be_figure(value: f64) -> bool {
    value > LARGEST.recip() && value < LARGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_numbers_begin_at_one() {
        assert_eq!(occurrence_line_numbers("a\nb b\n\nb", "b"), [2, 2, 4]);
        assert_eq!(line_numbers_where("a\n b\nb", |line| line == "b"), [2, 3]);
        assert!(occurrence_line_numbers("", "b").is_empty());
    }

    #[test]
    fn utf8_mark_is_skipped_and_utf16_is_refused() {
        assert_eq!(decode(b"\xef\xbb\xbfSTREAM\n".to_vec()).unwrap(), "STREAM\n");
        assert_eq!(decode(b"a \xff b\n".to_vec()).unwrap(), "a \u{fffd} b\n");
        assert_eq!(decode(Vec::new()).unwrap(), "");
        let little: Vec<u8> = "# OSU\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = "# OSU\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
        let marked = [&[0xff, 0xfe][..], &little].concat();
        for bytes in [little, big, marked] {
            assert_eq!(decode(bytes), Err("the file is UTF-16 text"));
        }
    }

    #[test]
    fn last_line_without_end_is_incomplete() {
        assert_eq!(whole_lines("a\nb"), "a\n");
        assert_eq!(whole_lines("a\r\n"), "a\r\n");
        assert_eq!(whole_lines("a"), "");
        assert_eq!(
            (unterminated_line("a\nb"), unterminated_line("a\nb\n"), unterminated_line("")),
            (Some("b"), None, None)
        );
    }

    #[test]
    fn positive_number_with_a_finite_square_is_a_figure() {
        for value in [1e-9, 1.0, 1e18] {
            assert!(can_be_figure(value), "{value}");
        }
        for value in [0.0, -1.0, 5e-324, 1e308, f64::INFINITY, f64::NAN] {
            assert!(!can_be_figure(value), "{value}");
        }
    }
}
