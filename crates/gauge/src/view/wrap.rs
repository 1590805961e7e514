//! Wrapping of text to a width, so that a number stays with its unit and an option with its value.

/// Units that may follow a prefix, as `B/s` in `GB/s`.
const UNITS: [&str; 16] = [
    "B",
    "B/s",
    "FLOP",
    "FLOP/s",
    "FLOP/B",
    "FLOP/cycle",
    "Hz",
    "T/s",
    "W",
    "b/s",
    "bit",
    "iB",
    "iB/s",
    "msg/s",
    "op/s",
    "s",
];
/// Prefixes of units.
const PREFIXES: &str = "kKMGTPEmunp";
/// Units that never have a prefix.
const WHOLE_UNITS: [&str; 4] = ["%", "h", "min", "x"];
/// Characters that may follow a word in a sentence.
const PUNCTUATION: [char; 7] = [',', '.', ';', ':', ')', ']', '"'];

/// Wraps a line at spaces so that no resulting line is longer than `width`; a longer word is not broken. A number and
/// its unit stay on one line, as do an option and its value, unless they are longer than `width`.
pub fn wrap(line: &str, width: usize) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let mut lines = vec![String::new()];
    let mut rest = words.as_slice();
    while !rest.is_empty() {
        let (together, after) = rest.split_at(joined(rest));
        let text = together.join(" ");
        if text.chars().count() <= width {
            append(&mut lines, &text, width);
        } else {
            together.iter().for_each(|word| append(&mut lines, word, width));
        }
        rest = after;
    }
    lines
}

/// Appends a text to the last line, or to a new line if it does not fit.
fn append(lines: &mut Vec<String>, text: &str, width: usize) {
    match lines.last_mut() {
        Some(line) if line.is_empty() => line.push_str(text),
        Some(line) if line.chars().count() + 1 + text.chars().count() <= width => {
            line.push(' ');
            line.push_str(text);
        }
        _ => lines.push(text.to_owned()),
    }
}

/// True for a number and the symbol of its unit, which must stay on one line.
pub fn is_quantity(number: &str, unit: &str) -> bool {
    is_number(number) && is_unit(unit)
}

/// Returns the number of words at the beginning that must stay on one line.
fn joined(words: &[&str]) -> usize {
    let [first, next, after @ ..] = words else { return words.len() };
    if is_quantity(first, next) {
        let is_product = *next == "x" && after.first().is_some_and(|word| is_number(word));
        return if is_product { 2 + joined(after) } else { 2 };
    }
    if !is_option(first) || next.starts_with(['-', '(']) || next.is_empty() {
        return 1;
    }
    if next.starts_with('\'') {
        let end = words[1..]
            .iter()
            .position(|word| word.len() > 1 && word.trim_end_matches(PUNCTUATION).ends_with('\''));
        return end.map_or(2, |end| end + 2);
    }
    1 + joined(&words[1..])
}

/// True for a number, also in a range or after a parenthesis: `(41.2`, `4..8`, `10^9`.
fn is_number(word: &str) -> bool {
    let number = word.trim_start_matches(['(', '[', '<', '>', '~', '+', '-', '=']);
    number.starts_with(|c: char| c.is_ascii_digit())
        && number.ends_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || ".,^e+-".contains(c))
}

/// True for the symbol of a unit, also before a punctuation mark.
fn is_unit(word: &str) -> bool {
    let symbol = word.trim_end_matches(PUNCTUATION);
    let base = symbol.strip_prefix(|c| PREFIXES.contains(c)).unwrap_or(symbol);
    WHOLE_UNITS.contains(&symbol) || UNITS.contains(&symbol) || UNITS.contains(&base)
}

/// True for an option of a command that a value may follow.
fn is_option(word: &str) -> bool {
    let option = word.trim_start_matches(['(', '`', '"']);
    let name = option.trim_start_matches('-');
    let dashes = option.len() - name.len();
    (1..=2).contains(&dashes)
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "only 1 pass of 2 x 48 KiB in the budget of 3.2 s (1.5 ms, 41.20 GB/s): use a larger --budget, e.g. \
                        --budget 10, or -v --against 'EPYC 7H12 NPS4', 97.1 % of 128 GiB; give --dimms 16x3200 --rate \
                        300 GB/s; 1.01 x as fast (10^9 FLOP/s)";

    #[test]
    fn wrapping_keeps_numbers_with_units_and_options_with_values() {
        let pairs = [
            "2 x 48 KiB",
            "3.2 s",
            "(1.5 ms,",
            "41.20 GB/s):",
            "--budget 10,",
            "97.1 %",
            "--against 'EPYC 7H12 NPS4',",
            "128 GiB;",
            "--dimms 16x3200",
            "300 GB/s;",
            "1.01 x",
            "(10^9 FLOP/s)",
        ];
        for width in 40..=200 {
            let lines = wrap(TEXT, width);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:?}");
            assert_eq!(lines.join(" "), TEXT);
            for pair in pairs {
                assert!(lines.iter().any(|line| line.contains(pair)), "{width} {pair}: {lines:?}");
            }
        }
    }

    #[test]
    fn option_and_value_wider_than_a_line_are_separated() {
        assert_eq!(wrap("--exclude-file /a/long/path", 20), ["--exclude-file", "/a/long/path"]);
        assert_eq!(wrap("unbreakable", 4), ["unbreakable"]);
        assert_eq!(wrap("a  b", 9), ["a  b"]);
        assert_eq!(wrap("", 9), [""]);
    }

    #[test]
    fn prose_is_wrapped_at_spaces() {
        assert_eq!(wrap("2 threads for 16 channels", 3), ["2", "threads", "for", "16", "channels"]);
        assert_eq!(wrap("--full, --quick", 9), ["--full,", "--quick"]);
        assert_eq!(wrap("- item", 3), ["-", "item"]);
    }
}
