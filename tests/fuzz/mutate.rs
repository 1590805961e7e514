//! Mutations of a text: changes of bytes, numbers, words and lines, truncation, repetition, and mixing with another
//! text. The same random seed gives the same mutations.

use fastrand::Rng;

/// Numbers that often cause failures.
const NUMBERS: [&str; 24] = [
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "1e309",
    "-1e309",
    "1e-320",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "null",
    "0x10",
    "١",
    "1.",
    ".5",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999999999",
];

/// Tokens that have a meaning in a grammar.
const TOKENS: [&str; 40] = [
    ",",
    ":",
    ";",
    "-",
    "=",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "!",
    "@",
    "%",
    "*",
    "/",
    "\\",
    "\"",
    "'",
    "$(id)",
    "..",
    "~",
    " ",
    "\t",
    "\n",
    "\r\n",
    "\0",
    "\u{1b}[31m",
    "\u{202e}",
    "é",
    "日",
    "GiB",
    "KiB",
    "kB",
    "GB/s",
    "all",
    "auto",
    "latest",
    "<!--",
    "&#0;",
];

/// Applies one to eight mutations to `seed`; some of them insert parts of `other`.
pub fn mutated(seed: &[u8], other: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut text = seed.to_vec();
    for _ in 0..1 + rng.usize(..8).min(rng.usize(..8)) {
        mutate(&mut text, other, rng);
    }
    text
}

fn mutate(text: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let at = rng.usize(..=text.len());
    let put = |target: &mut Vec<u8>, position, bytes: &[u8]| {
        drop(target.splice(position..position, bytes.iter().copied()))
    };
    match rng.u8(..12) {
        0 if !text.is_empty() => {
            let start = rng.usize(..text.len());
            text[start] ^= 1 << rng.u8(..8);
        }
        1 if !text.is_empty() => {
            let index = rng.usize(..text.len());
            text[index] = rng.u8(..);
        }
        2 => put(text, at, &[rng.u8(..)]),
        3 => put(text, at, TOKENS[rng.usize(..TOKENS.len())].as_bytes()),
        4 => text.truncate(at),
        5 => drop(text.drain(..at)),
        // Removes or repeats a part.
        6 | 7 => {
            let end = (at + rng.usize(..=64)).min(text.len());
            let part: Vec<u8> = text[at..end].to_vec();
            if rng.bool() {
                drop(text.drain(at..end));
            } else {
                (0..rng.usize(1..=32)).for_each(|_| put(text, end, &part));
            }
        }
        8 => {
            let parts = parts(text, |byte| byte.is_ascii_digit() || byte == b'.');
            replace(text, &parts, NUMBERS[rng.usize(..NUMBERS.len())].as_bytes(), rng);
        }
        9 => {
            let words = parts(text, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let others = parts(other, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let word = others
                .get(rng.usize(..others.len().max(1)))
                .map_or(&b""[..], |part| &other[part.clone()]);
            replace(text, &words, word, rng);
        }
        // Removes a line or replaces it by a line of the other text.
        10 => {
            let lines = parts(text, |byte| byte != b'\n');
            let others = parts(other, |byte| byte != b'\n');
            let from = |generator: &mut Rng| {
                others
                    .get(generator.usize(..others.len().max(1)))
                    .map(|part| other[part.clone()].to_vec())
            };
            let line = if rng.bool() { from(rng).unwrap_or_default() } else { Vec::new() };
            replace(text, &lines, &line, rng);
        }
        _ => {
            let from = rng.usize(..=other.len());
            text.truncate(at);
            text.extend_from_slice(&other[from..]);
        }
    }
    // The length is limited, because repetition can multiply it.
    text.truncate(1 << 20);
}

/// Returns the ranges of consecutive bytes that `of` selects.
fn parts(text: &[u8], of: impl Fn(u8) -> bool) -> Vec<std::ops::Range<usize>> {
    let mut parts: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, _) in text.iter().enumerate().filter(|(_, byte)| of(**byte)) {
        match parts.last_mut() {
            Some(last) if last.end == at => last.end = at + 1,
            _ => parts.push(at..at + 1),
        }
    }
    parts
}

fn replace(text: &mut Vec<u8>, parts: &[std::ops::Range<usize>], by: &[u8], rng: &mut Rng) {
    if let Some(part) = parts.get(rng.usize(..parts.len().max(1))) {
        text.splice(part.clone(), by.iter().copied());
    }
}
