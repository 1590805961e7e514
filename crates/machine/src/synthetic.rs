//! Check of hwloc synthetic descriptions. The check precedes hwloc, because hwloc does not report the position of
//! an error. The module works only on text; the grammar is that of hwloc's manual, "Synthetic topologies".

use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;

const WHAT: &str = "synthetic topology";
const EXAMPLE: &str = "--topology 'synthetic:Package:2 NUMANode:4 L3Cache:4 Core:4 PU:1'";

/// Names of levels that hwloc 2 accepts, in lower case, without hwloc's abbreviations.
const LEVELS: [&str; 22] = [
    "machine", "package", "socket", "die", "group", "numanode", "node", "numa", "core", "pu",
    "cache", "l1cache", "l1dcache", "l1icache", "l2cache", "l3cache", "l4cache", "l5cache", "l1",
    "l2", "l3", "l1d",
];

/// Checks a synthetic description. It consists of levels `LEVEL:COUNT` that are separated by spaces, optionally with
/// `(attribute=value ...)`, and of memory children in `[...]`.
///
/// # Errors
/// Fails if the description is invalid; the error contains the position of the first invalid character.
pub(crate) fn check(description: &str) -> Result<(), SyntaxError> {
    let mut cursor = Cursor::new(WHAT, EXAMPLE, description);
    cursor.skip_blanks();
    if cursor.at_end() {
        return Err(cursor.error("expected a level such as Package:2"));
    }
    let mut threads = 1;
    let mut inside = None;
    while !cursor.at_end() {
        if cursor.peek() == Some('(') {
            attributes(&mut cursor)?;
        } else if cursor.eat('[') {
            cursor.take_while(|c| c != '(' && c != ']');
            if cursor.peek() == Some('(') {
                attributes(&mut cursor)?;
            }
            cursor.take_while(|c| c != ']');
            cursor.expect(']', "expected ']' to close the NUMA node")?;
        } else {
            level(&mut cursor, &mut threads, &mut inside)?;
        }
        cursor.skip_blanks();
    }
    Ok(())
}

/// Returns the error for a description that passes [`check`] but that hwloc refuses.
pub(crate) fn refusal_error(description: &str, problem: &str) -> SyntaxError {
    Cursor::new(WHAT, EXAMPLE, description).error(problem)
}

/// True if the description contains the size of the caches of level `level`, e.g. `L3Cache:4(size=16MB)`.
pub(crate) fn contains_cache_size(description: &str, level: u32) -> bool {
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

/// Maximum number of hardware threads in a description. hwloc takes minutes for millions of threads.
const MAX_THREADS: u64 = 65_536;

/// Levels that must be nested in this order. Caches, groups and NUMA nodes may be at any depth.
const NESTED_LEVELS: [&[&str]; 4] = [&["package", "socket"], &["die"], &["core"], &["pu"]];

/// Parses one level. `threads` is the product of the counts so far; `inside` is the index in [`NESTED_LEVELS`] of the
/// innermost level that contains the parsed level.
fn level(
    cursor: &mut Cursor<'_>,
    threads: &mut u64,
    inside: &mut Option<usize>,
) -> Result<(), SyntaxError> {
    let start = cursor.position();
    let name = cursor.take_while(|c| c.is_ascii_alphanumeric());
    // A number without a name is a level whose type hwloc guesses.
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
        let lower = name.to_ascii_lowercase();
        let nested = NESTED_LEVELS.iter().position(|names| names.contains(&lower.as_str()));
        if let (Some(here), Some(outer)) = (nested, *inside)
            && here <= outer
        {
            let problem = format!("a {lower} cannot be inside a {}", NESTED_LEVELS[outer][0]);
            return Err(cursor.error_at(start, problem));
        }
        *inside = nested.or(*inside);
        cursor.expect(':', "expected ':' and a count after the level")?;
        at = cursor.position();
        match cursor.number("expected a count after ':'")? {
            0 => return Err(cursor.error_at(at, "expected at least one object per level")),
            count => count,
        }
    };
    *threads = threads.saturating_mul(count);
    if *threads > MAX_THREADS {
        let problem = format!("more than {MAX_THREADS} hardware threads");
        return Err(cursor.error_at(at, problem));
    }
    match cursor.peek() {
        None | Some(' ' | '\t' | '(' | '[') => Ok(()),
        Some(_) => Err(cursor.error("expected a space before the next level")),
    }
}

/// Parses `(key=value ...)` of a level.
fn attributes(cursor: &mut Cursor<'_>) -> Result<(), SyntaxError> {
    cursor.expect('(', "expected '('")?;
    values(cursor, ')')?;
    cursor.expect(')', "expected ')' to close the attributes")
}

/// Parses attributes up to the character `end`, and checks sizes and numbers. Attributes that hwloc ignores are
/// accepted.
fn values(cursor: &mut Cursor<'_>, end: char) -> Result<(), SyntaxError> {
    while cursor.peek().is_some_and(|next| next != end) {
        let key = cursor.take_while(|c| c.is_ascii_alphanumeric()).to_ascii_lowercase();
        let has_value = cursor.eat('=');
        match key.as_str() {
            "memory" | "size" | "memorysidecachesize" if has_value => size(cursor)?,
            "indexes" if has_value => indexes(cursor, end)?,
            _ => {
                // Skips the value of another attribute, or one character between attributes.
                let rest = cursor.take_while(|c| c != end && !c.is_ascii_alphabetic());
                if rest.is_empty() && key.is_empty() {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Parses a size, in bytes or with a unit.
fn size(cursor: &mut Cursor<'_>) -> Result<(), SyntaxError> {
    /// Maximum size of 1 PiB, which far exceeds the memory of any node.
    const MAX_BYTES: u64 = 1 << 50;
    let at = cursor.position();
    let number = cursor.number("expected a size such as 16MB")?;
    let unit = cursor.take_while(|c| c.is_ascii_alphabetic()).to_ascii_lowercase();
    let unit = match unit.as_str() {
        "" => 1,
        "kb" | "kib" => 1 << 10,
        "mb" | "mib" => 1 << 20,
        "gb" | "gib" => 1 << 30,
        "tb" | "tib" => 1 << 40,
        _ => return Err(cursor.error_at(at, "expected a size in kB, MB, GB or TB")),
    };
    match number.checked_mul(unit) {
        Some(1..=MAX_BYTES) => Ok(()),
        _ => Err(cursor.error_at(at, "expected a size from 1 byte to 1 PiB")),
    }
}

/// Parses the list of numbers of a level's objects. The syntax of interleaving is left to hwloc.
fn indexes(cursor: &mut Cursor<'_>, end: char) -> Result<(), SyntaxError> {
    let mut seen = std::collections::BTreeSet::new();
    while cursor.peek().is_some_and(|c| c.is_ascii_digit()) {
        let at = cursor.position();
        let number = cursor.number("expected a number")?;
        if matches!(cursor.peek(), Some('*' | ':')) {
            break;
        }
        if number >= MAX_THREADS {
            return Err(cursor.error_at(at, format!("expected a number less than {MAX_THREADS}")));
        }
        if !seen.insert(number) {
            return Err(cursor.error_at(at, "two objects have this number"));
        }
        cursor.eat(',');
    }
    cursor.take_while(|c| c != end && c != ' ');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_in_hwloc_syntax_are_accepted() {
        for text in [
            "Package:4 NUMANode:1 Core:4 PU:1",
            "Package:2 NUMANode:4 L3Cache:4(size=16MB) L2Cache:4 L1dCache:1 Core:1 PU:1",
            "node:4 core:4 pu:4",
            "4 4 2",
            "NUMANode:2(memory=16GB) Package:2 Die:1 Core:2 PU:2(indexes=0,4,1,5,2,6,3,7)",
            "Package:2 [NUMANode(memory=1TiB indexes=1,0)] L2Cache:1(size=512kB) Core:2 PU:1",
            "Package:2 Core:2 PU:2(indexes=2*2:4*2)",
            "Package:2 Core:2 PU:2(indexes=core:pu)",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn invalid_description_is_reported_with_its_column() {
        let unknown = "expected a level of Package, Die, NUMANode, L3Cache, L2Cache, L1dCache, Core, PU or Group";
        for (text, at, problem) in [
            ("", 0, "expected a level such as Package:2"),
            ("Package:x Core:4", 8, "expected a count after ':'"),
            ("Package:2 Kern:4 PU:1", 10, unknown),
            ("Package 2", 7, "expected ':' and a count after the level"),
            ("Package:2 Core:0 PU:1", 15, "expected at least one object per level"),
            ("Package:2(memory=1GB Core:4", 27, "expected ')' to close the attributes"),
            ("Package:2,Core:4", 9, "expected a space before the next level"),
            ("Package:9999 Core:9999 PU:1", 18, "more than 65536 hardware threads"),
            ("Package:1 PU:1(indexes=9999999999,1,2,3)", 23, "expected a number less than 65536"),
            ("Package:1 Core:4 PU:1(indexes=0,0,1,2)", 32, "two objects have this number"),
            ("Package:1(memory=-1) Core:4 PU:1", 17, "expected a size such as 16MB"),
            ("NUMANode:1(memory=99999999999999999999GB) PU:1", 18, "this number is too large"),
            ("NUMANode:1(memory=99999999GB) PU:1", 18, "expected a size from 1 byte to 1 PiB"),
            ("[NUMANode(memory=-1)] PU:1", 17, "expected a size such as 16MB"),
            ("L3Cache:1(size=16XB) PU:1", 15, "expected a size in kB, MB, GB or TB"),
            ("L3Cache:1(size=0) PU:1", 15, "expected a size from 1 byte to 1 PiB"),
            ("Core:2 Package:2 PU:1", 7, "a package cannot be inside a core"),
            ("Core:2 Core:2 PU:1", 7, "a core cannot be inside a core"),
            ("PU:2 Core:4", 5, "a core cannot be inside a pu"),
        ] {
            let error = check(text).unwrap_err();
            assert_eq!((error.at, error.problem.as_str()), (at, problem), "{text}");
        }
    }

    #[test]
    fn cache_size_is_unknown_unless_given() {
        let text = "Package:2 L3Cache:4(size=16MB) L2Cache:4 Core:1 PU:1";
        assert!(contains_cache_size(text, 3));
        assert!(!contains_cache_size(text, 2));
    }
}
