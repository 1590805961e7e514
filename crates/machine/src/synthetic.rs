//! Checks hwloc synthetic descriptions before hwloc sees them, because hwloc refuses a wrong one
//! without saying where. Pure text; the grammar is that of hwloc's manual, "Synthetic topologies".

use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;

const WHAT: &str = "synthetic topology";
const EXAMPLE: &str = "--topology 'synthetic:Package:2 NUMANode:4 L3Cache:4 Core:4 PU:1'";

/// Level names that hwloc 2 reads, lower-case, without abbreviations of its own.
const LEVELS: [&str; 22] = [
    "machine", "package", "socket", "die", "group", "numanode", "node", "numa", "core", "pu",
    "cache", "l1cache", "l1dcache", "l1icache", "l2cache", "l3cache", "l4cache", "l5cache", "l1",
    "l2", "l3", "l1d",
];

/// Checks the text of a description: `LEVEL:COUNT`, each optionally with `(attribute=value ...)`,
/// separated by blanks, memory children in `[...]`.
///
/// # Errors
/// Points at the first character that does not fit.
pub(crate) fn check(description: &str) -> Result<(), SyntaxError> {
    let mut cursor = Cursor::new(WHAT, EXAMPLE, description);
    cursor.skip_blanks();
    if cursor.at_end() {
        return Err(cursor.error("expected a level such as Package:2"));
    }
    let mut threads = 1;
    while !cursor.at_end() {
        if cursor.peek() == Some('(') {
            attributes(&mut cursor)?;
        } else if cursor.eat('[') {
            cursor.take_while(|c| c != ']');
            cursor.expect(']', "expected ']' to close the memory node")?;
        } else {
            level(&mut cursor, &mut threads)?;
        }
        cursor.skip_blanks();
    }
    Ok(())
}

/// The error for a text that passes [`check`] and that hwloc still refuses.
pub(crate) fn refused(description: &str, problem: &str) -> SyntaxError {
    Cursor::new(WHAT, EXAMPLE, description).error(problem)
}

/// Whether the description gives the size of the caches of `level`, e.g. `L3Cache:4(size=16MB)`.
pub(crate) fn says_size_of_level(description: &str, level: u32) -> bool {
    let mut rest = description;
    while let Some(at) = rest.find(':') {
        let name = rest[..at].rsplit([' ', '\t', ')', ']']).next().unwrap_or_default();
        let tail = rest[at + 1..].trim_start_matches(|c: char| c.is_ascii_digit());
        let attributes = tail.strip_prefix('(').and_then(|t| t.split(')').next()).unwrap_or("");
        let of_level = name.to_ascii_lowercase().starts_with(&format!("l{level}"));
        if of_level && attributes.contains("size=") {
            return true;
        }
        rest = tail;
    }
    false
}

/// Hardware threads at most: hwloc takes minutes for millions.
const MOST_THREADS: u64 = 65_536;

/// Reads one level; `threads` is the product of the counts so far.
fn level(cursor: &mut Cursor<'_>, threads: &mut u64) -> Result<(), SyntaxError> {
    let start = cursor.position();
    let name = cursor.take_while(|c| c.is_ascii_alphanumeric());
    // A bare number is a level of an unnamed type, which hwloc guesses.
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    let mut at = start;
    let count = if bare {
        name.parse().unwrap_or(u64::MAX)
    } else {
        if !LEVELS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(cursor.error_at(
                start,
                "expected a level of Package, Die, NUMANode, L3Cache, L2Cache, L1dCache, Core, PU or Group",
            ));
        }
        cursor.expect(':', "expected ':' and a count after the level")?;
        at = cursor.position();
        match cursor.number("expected a count after ':'")? {
            0 => return Err(cursor.error_at(at, "a level has at least one object")),
            count => count,
        }
    };
    *threads = threads.saturating_mul(count);
    if *threads > MOST_THREADS {
        let problem = format!("a machine of more than {MOST_THREADS} hardware threads");
        return Err(cursor.error_at(at, problem));
    }
    match cursor.peek() {
        None | Some(' ' | '\t' | '(' | '[') => Ok(()),
        Some(_) => Err(cursor.error("expected a blank before the next level")),
    }
}

fn attributes(cursor: &mut Cursor<'_>) -> Result<(), SyntaxError> {
    cursor.expect('(', "expected '('")?;
    cursor.take_while(|c| c != ')');
    cursor.expect(')', "expected ')' to close the attributes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_of_the_literature_pass() {
        for text in [
            "Package:4 NUMANode:1 Core:4 PU:1",
            "Package:2 NUMANode:4 L3Cache:4(size=16MB) L2Cache:4 L1dCache:1 Core:1 PU:1",
            "node:4 core:4 pu:4",
            "4 4 2",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn the_wrong_character_is_pointed_at() {
        for (text, at) in [
            ("", 0),
            ("Package:x Core:4", 8),
            ("Package:2 Kern:4 PU:1", 10),
            ("Package 2", 7),
            ("Package:2 Core:0 PU:1", 15),
            ("Package:2(memory=1GB Core:4", 27),
            ("Package:2,Core:4", 9),
            ("Package:9999 Core:9999 PU:1", 18),
        ] {
            assert_eq!(check(text).unwrap_err().at, at, "{text}");
        }
    }

    #[test]
    fn sizes_are_known_only_where_they_are_said() {
        let text = "Package:2 L3Cache:4(size=16MB) L2Cache:4 Core:1 PU:1";
        assert!(says_size_of_level(text, 3));
        assert!(!says_size_of_level(text, 2));
    }
}
