//! Parsing of lines and numbers in the output of other programs.

use super::RunMark;
use nodegauge_measure::printed;
use serde_json::Value;

/// Returns the lines of a text without surrounding white space. A last line without a line end is left out, because it
/// may end in the middle of a number.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    printed::whole_lines(text).lines().map(str::trim)
}

/// Returns the rest of the first line that begins with a label.
pub fn after_label<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    lines(text).find_map(|line| line.strip_prefix(label)).map(str::trim)
}

/// Returns the rest of the first line that begins with one of these labels. Earlier labels take precedence.
pub fn after_any_label<'a>(text: &'a str, labels: &[&str]) -> Option<&'a str> {
    labels.iter().find_map(|label| after_label(text, label))
}

/// Returns the rest of the line that begins with a label; `None` if there is no such line.
///
/// # Errors
/// Fails if several lines begin with the label and differ.
pub fn unique_after_label<'a>(text: &'a str, label: &str) -> Result<Option<&'a str>, String> {
    let mut found = lines(text).filter_map(|line| line.strip_prefix(label)).map(str::trim);
    let first = found.next();
    match found.find(|other| Some(*other) != first) {
        Some(_) => Err(format!("it has two different lines {label:?}")),
        None => Ok(first),
    }
}

/// Parses the number in a table cell that ends with this unit.
pub fn number_with_unit(cell: &str, unit: &str) -> Option<f64> {
    parse_number(cell.strip_suffix(unit)?.trim())
}

/// Rules that detect the runs of a program whose output has a title with the version, tables, and a last line.
pub struct TitledRunRules {
    /// Parses the version in a title; `None` for other lines.
    pub version: fn(&str) -> Option<String>,
    /// True for the first line of a table.
    pub is_table: fn(&str) -> bool,
    /// First words of the last line.
    pub end: &'static str,
}

impl TitledRunRules {
    /// Phase of the last line, as in [`RunMark::phase`].
    pub const END: u8 = 2;

    /// Returns the mark of a title, of the first line of a table, and of the last line; `None` for other lines.
    pub fn mark(&self, line: &str) -> Option<RunMark> {
        if (self.version)(line).is_some() {
            return Some(RunMark::TITLE);
        }
        if (self.is_table)(line) {
            return Some(RunMark::repeated(1));
        }
        line.starts_with(self.end).then_some(RunMark::once(Self::END))
    }

    /// Returns the version in the title of a text.
    pub fn version(&self, text: &str) -> Option<String> {
        lines(text).find_map(self.version)
    }

    /// True if a text contains the last line of a run.
    pub fn is_ended(&self, text: &str) -> bool {
        lines(text).any(|line| line.starts_with(self.end))
    }
}

/// Parses the JSON document at the beginning of a text.
///
/// # Errors
/// Fails if the text contains no JSON, or if the JSON is invalid or truncated.
pub fn parse_document(text: &str) -> Result<Value, String> {
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let document = documents.next().ok_or("its JSON is empty")?;
    document.map_err(|error| format!("its JSON is invalid: {error}"))
}

/// Parses a number without a sign; `None` for other words, NaN and infinity.
pub fn parse_number(word: &str) -> Option<f64> {
    let is_plain = word.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    word.parse().ok().filter(|number: &f64| is_plain && number.is_finite())
}

/// True if a word may be a cell of a matrix: a number, or the word `absent` of the program for a cell without a value.
pub fn may_be_cell(word: &str, absent: &str) -> bool {
    word == absent || parse_number(word).is_some()
}

/// Parses the first word of a text as a count.
pub fn parse_count(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Quotes a text for a message, in one line of at most 80 characters.
pub fn quote_text(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    format!("{:?}", words.join(" ").chars().take(80).collect::<String>())
}

/// Returns the message that a line cannot be read.
pub fn unreadable_line_message(line: &str) -> String {
    format!("a line cannot be read: {}", quote_text(line))
}

/// Converts words to a name for a figure: in lower case, joined by underscores.
pub fn slug(words: &str) -> String {
    let lower = words.to_lowercase();
    let parts = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("_")
}

/// True if two numbers differ by at most the relative error `error`.
pub fn agree_within(one: f64, other: f64, error: f64) -> bool {
    (one - other).abs() <= error * one.abs().max(other.abs())
}

/// Returns the rounding error of a printed number, i.e. half a unit of its last digit: 0.005 for two decimals.
pub fn rounding_error(word: &str) -> f64 {
    let decimals = word
        .split_once('.')
        .map_or(0, |(_, digits)| digits.bytes().take_while(u8::is_ascii_digit).count());
    0.5 / 10f64.powi(i32::try_from(decimals).unwrap_or(0))
}

/// Parses a size: `1KiB`, `64 KiB`, `1 MB`, `512`. All prefixes are powers of 1024.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let value = parse_number(&text[..digits])?;
    let unit = text[digits..].trim().to_lowercase();
    let unit = unit.trim_end_matches("bytes").trim().trim_end_matches("ib").trim_end_matches('b');
    let power = ["", "k", "m", "g", "t"].iter().position(|known| *known == unit)?;
    let bytes = value * 1024f64.powi(i32::try_from(power).ok()?);
    (1.0..1e18).contains(&bytes).then_some(bytes.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_names_are_read() {
        let sizes = ["1KiB", "64 KiB", "512", "1 MB", "1.5 GiB", "x", "0"].map(parse_size);
        let known = [1024, 65536, 512, 1 << 20, 3 << 29].map(Some);
        assert_eq!(sizes[..5], known);
        assert_eq!(sizes[5..], [None, None]);
        assert_eq!(slug("File creation:"), "file_creation");
        assert_eq!(["1.50", "3", "0.001"].map(rounding_error), [0.005, 0.5, 0.0005]);
    }
}
