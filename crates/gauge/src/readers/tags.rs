//! Prefixes that launchers add to each line of a rank: `[1,0]<stdout>:` of Open MPI 4 (`--tag-output`), after the time
//! of the line with `--timestamp-output`; `[prterun-n1-7@1,0]<stdout>: ` of Open MPI 5 (`--output tag`), with
//! `[n1:7]` before `<stdout>` for `--output tag-detailed`; `[0] ` of MPICH (`-prepend-rank`); and `0: ` of Slurm
//! (`srun --label`).

use std::collections::BTreeMap;

/// Line without its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankLine<'a> {
    /// Number of the rank.
    pub rank: u32,
    /// Host in the prefix; empty if it has none.
    pub host: &'a str,
    /// Line after the prefix.
    pub line: &'a str,
}

/// Form of a prefix.
pub type PrefixForm = for<'a> fn(&'a str) -> Option<RankLine<'a>>;

/// Parsers for all forms of prefixes.
const TAGS: [PrefixForm; 3] = [open_mpi, mpich, slurm];

/// Maximum number of lines that are examined to decide whether a text has prefixes.
pub(super) const MAX_EXAMINED_LINES: usize = 200;

/// Returns the form of prefix that more than half of the first lines have; `None` if there is none.
pub fn prefix_form(text: &str) -> Option<PrefixForm> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let first: Vec<&str> = lines.take(MAX_EXAMINED_LINES).collect();
    TAGS.into_iter().find(|tag| {
        let tagged = first.iter().filter(|line| tag(line).is_some()).count();
        2 * tagged > first.len()
    })
}

/// Text of a rank.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankText {
    /// Number of the rank.
    pub rank: u32,
    /// Lines of the rank, without the prefix.
    pub text: String,
}

/// Returns the text of each rank, in rank order; `None` if the lines have no prefixes. Lines without a prefix are
/// ignored, because the launcher printed them.
pub fn split_by_rank(text: &str) -> Option<Vec<RankText>> {
    let tag = prefix_form(text)?;
    let mut ranks: BTreeMap<u32, RankText> = BTreeMap::new();
    let end =
        if text.ends_with('\n') { text.len() } else { text.rfind('\n').map_or(0, |at| at + 1) };
    for line in text[..end].lines() {
        let Some(tagged) = tag(line) else { continue };
        let of_rank = ranks.entry(tagged.rank).or_default();
        of_rank.rank = tagged.rank;
        of_rank.text.push_str(tagged.line);
        of_rank.text.push('\n');
    }
    Some(ranks.into_values().collect())
}

/// Parses a number that consists only of digits.
fn number(word: &str) -> Option<u32> {
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| is_number)
}

/// Parses `[1,0]<stdout>:` and `[job@1,0]<stdout>: `, optionally with the host as in `[1,0]<stdout>n1: ` or
/// `[job@1,0][n1:7]<stdout>: `, and optionally after a time.
fn open_mpi(line: &str) -> Option<RankLine<'_>> {
    let (time, tagged) = line.split_once('[')?;
    if !time.is_empty() && !is_time(time) {
        return None;
    }
    let (inside, behind_rank) = tagged.split_once(']')?;
    let process = behind_rank.strip_prefix('[').and_then(|process| process.split_once(']'));
    let (named_host, rest) = match process {
        Some((process, rest)) => (process.rsplit_once(':')?.0, rest),
        None => ("", behind_rank),
    };
    let job_and_rank = inside.rsplit_once('@').map_or(inside, |(_, numbers)| numbers);
    let (job, rank) = job_and_rank.split_once(',')?;
    number(job)?;
    let rank = number(rank)?;
    let (stream, behind) = rest.strip_prefix('<')?.split_once('>')?;
    ["stdout", "stderr", "stddiag"].contains(&stream).then_some(())?;
    let (host, text) = behind.split_once(':')?;
    let host = if host.is_empty() { named_host } else { host };
    let is_host = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let host = if is_host { host } else { "" };
    // Open MPI 5 adds a space after the colon.
    let is_5 = inside.contains('@');
    let own = if is_5 { text.strip_prefix(' ').unwrap_or(text) } else { text };
    Some(RankLine { rank, host, line: own })
}

/// True for a time as `ctime` writes it: `Tue Nov 29 17:00:00 2026`.
fn is_time(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, _, day, time, year] = words.as_slice() else { return false };
    let is_clock =
        time.split(':').count() == 3 && time.split(':').all(|part| number(part).is_some());
    is_clock && number(day).is_some() && number(year).is_some()
}

/// Parses `[0] `.
fn mpich(line: &str) -> Option<RankLine<'_>> {
    let (rank, rest) = line.strip_prefix('[')?.split_once(']')?;
    let rank = number(rank)?;
    Some(RankLine { rank, host: "", line: rest.strip_prefix(' ').unwrap_or(rest) })
}

/// Parses `0: `; the number may be padded with spaces.
fn slurm(line: &str) -> Option<RankLine<'_>> {
    let (rank, rest) = line.trim_start().split_once(':')?;
    let rank = number(rank)?;
    let own = rest.strip_prefix(' ').or(Some(rest).filter(|rest| rest.is_empty()))?;
    Some(RankLine { rank, host: "", line: own })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_launchers_are_removed() {
        for (text, rank, line) in [
            ("[1,0]<stdout>:Copy: 1", 0, "Copy: 1"),
            ("[prterun-n1-7@1,12]<stdout>:  Copy: 1", 12, " Copy: 1"),
            ("[1,3]<stderr>n07:warning", 3, "warning"),
            ("[prterun-n1-7@1,2][n1:4242]<stdout>: Copy: 1", 2, "Copy: 1"),
            ("Tue Nov 29 17:00:00 2026[1,4]<stdout>:Copy: 1", 4, "Copy: 1"),
            ("[2] # OSU", 2, "# OSU"),
            (" 1: {", 1, "{"),
            ("3:", 3, ""),
        ] {
            let found = TAGS.into_iter().find_map(|tag| tag(text)).unwrap();
            assert_eq!((found.rank, found.line), (rank, line), "{text}");
        }
        for text in ["Copy:  1", "[n1] x", "10:20 x", "[1,0] x", "1 2", "see [1,0]<stdout>:x"] {
            let is_tagged = text != "10:20 x" && TAGS.into_iter().any(|tag| tag(text).is_some());
            assert!(!is_tagged, "{text}");
        }
    }

    #[test]
    fn lines_are_separated_by_rank() {
        let text = "mpirun: note\n[1,1]<stdout>:b\n[1,0]<stdout>:a\n[1,1]<stdout>:c\n[1,0]<stdo";
        let ranks = split_by_rank(text).unwrap();
        let texts: Vec<&str> = ranks.iter().map(|rank| rank.text.as_str()).collect();
        assert_eq!(texts, ["a\n", "b\nc\n"]);
        assert_eq!(split_by_rank("a\nb: c\n"), None);
    }
}
