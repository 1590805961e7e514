//! Common parts of the grammars of this crate: numbers within bounds, ranges, and lists. The module works only on text.

use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;

/// Largest accepted count: the number of CPUs in the largest affinity mask that this crate requests from the
/// kernel. Without this limit, a typing error could use up the memory.
pub(crate) const MAX_COUNT: u32 = 65_536;

/// Parses a number that fits in 32 bits.
pub(crate) fn number(cursor: &mut Cursor<'_>, problem: &str) -> Result<u32, SyntaxError> {
    let at = cursor.position();
    let number = cursor.number(problem)?;
    u32::try_from(number).map_err(|_| cursor.error_at(at, "this number is too large"))
}

/// Parses a number from 1 to [`MAX_COUNT`].
pub(crate) fn count(cursor: &mut Cursor<'_>, problem: &str) -> Result<u32, SyntaxError> {
    let at = cursor.position();
    match cursor.number(problem)? {
        0 => Err(cursor.error_at(at, "expected at least 1")),
        n if n > u64::from(MAX_COUNT) => {
            Err(cursor.error_at(at, format!("expected at most {MAX_COUNT}")))
        }
        n => Ok(n as u32),
    }
}

/// Function that parses a number. Its text argument is the error message for input that is not a number.
pub(crate) type NumberParser = fn(&mut Cursor<'_>, &str) -> Result<u32, SyntaxError>;

/// Parses the remaining part `-LAST` of a range; returns `first` if there is no such part.
pub(crate) fn range_end(
    cursor: &mut Cursor<'_>,
    first: u32,
    number: NumberParser,
    problem: &str,
) -> Result<u32, SyntaxError> {
    if !cursor.eat('-') {
        return Ok(first);
    }
    let at = cursor.position();
    let last = number(cursor, problem)?;
    if last < first {
        return Err(cursor.error_at(at, "a range must begin with the smaller number"));
    }
    Ok(last)
}

/// Parses `A`, `A-B` or `A-B:STEP`; `problems` are the error messages for a missing first number and a missing last
/// number.
pub(crate) fn range(
    cursor: &mut Cursor<'_>,
    number: NumberParser,
    problems: [&str; 2],
) -> Result<Vec<u32>, SyntaxError> {
    let first = number(cursor, problems[0])?;
    let is_range = cursor.peek() == Some('-');
    let range_end = range_end(cursor, first, number, problems[1])?;
    let step =
        if is_range && cursor.eat(':') { count(cursor, "expected a step after ':'")? } else { 1 };
    Ok((first..=range_end).step_by(step as usize).collect())
}

/// Parses numbers and ranges `A-B` separated by commas, up to the end of the text. Returns the first and the last
/// number of each. `problems` are the same as for [`range`].
pub(crate) fn ranges(
    cursor: &mut Cursor<'_>,
    number: NumberParser,
    problems: [&str; 2],
) -> Result<Vec<(u32, u32)>, SyntaxError> {
    list(cursor, None, "expected ',' or the end", |item| {
        let first = number(item, problems[0])?;
        let range_end = range_end(item, first, number, problems[1])?;
        Ok((first, range_end))
    })
}

/// Parses one or more items separated by commas, up to and including the character `close`. Without `close`, the list
/// extends to the end of the text. `problem` is the error message for any other text after an item.
pub(crate) fn list<T>(
    cursor: &mut Cursor<'_>,
    close: Option<char>,
    problem: &str,
    mut item: impl FnMut(&mut Cursor<'_>) -> Result<T, SyntaxError>,
) -> Result<Vec<T>, SyntaxError> {
    let mut items = Vec::new();
    loop {
        cursor.skip_blanks();
        items.push(item(cursor)?);
        cursor.skip_blanks();
        if close.map_or(cursor.at_end(), |close| cursor.eat(close)) {
            return Ok(items);
        }
        cursor.expect(',', problem)?;
    }
}
