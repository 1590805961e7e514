//! Tokens of Rust sources: identifiers, `::`, single characters, and string literals (`"text"`, as written). Comments,
//! raw strings, character literals and lifetimes are left out.

/// Returns the tokens of a source file.
pub fn tokens(source: &str) -> Vec<String> {
    let chars: Vec<char> = source.chars().collect();
    let mut found = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        let next = chars.get(i + 1).copied().unwrap_or(' ');
        match chars[i] {
            '/' if next == '/' => i = end_of_line(&chars, i),
            '/' if next == '*' => i = end_of_block_comment(&chars, i),
            '"' => {
                let end = end_of_text(&chars, i);
                found.push(chars[i..end.min(chars.len())].iter().collect());
                i = end;
            }
            '\'' => i = end_of_character_or_lifetime(&chars, i),
            c if c.is_alphanumeric() || c == '_' => {
                let end = end_of_word(&chars, i);
                let word: String = chars[i..end].iter().collect();
                i = end;
                match word.as_str() {
                    "r" | "br" | "cr" if raw_text(&chars, end).is_some() => {
                        i = raw_text(&chars, end).unwrap();
                    }
                    // In b"bytes" and c"text", the literal is a separate token.
                    "b" | "c" if matches!(chars.get(end), Some('"' | '\'')) => {}
                    _ => found.push(word),
                }
            }
            ':' if next == ':' => {
                found.push("::".to_owned());
                i += 2;
            }
            c => {
                if !c.is_whitespace() {
                    found.push(c.to_string());
                }
                i += 1;
            }
        }
    }
    found
}

fn end_of_word(chars: &[char], start: usize) -> usize {
    let rest = chars[start..].iter();
    start + rest.take_while(|c| c.is_alphanumeric() || **c == '_').count()
}

fn end_of_line(chars: &[char], start: usize) -> usize {
    start + chars[start..].iter().take_while(|c| **c != '\n').count()
}

fn end_of_block_comment(chars: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut i = start;
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                i += 1;
                continue;
            }
        }
        i += 2;
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

fn end_of_text(chars: &[char], start: usize) -> usize {
    let mut i = start + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// Returns the end of a character literal or a lifetime. A character literal ends with a quote after one character or
/// escape sequence; a lifetime does not.
fn end_of_character_or_lifetime(chars: &[char], start: usize) -> usize {
    match (chars.get(start + 1), chars.get(start + 2)) {
        (Some('\\'), _) => {
            let rest = chars.get(start + 3..).unwrap_or(&[]);
            start + 4 + rest.iter().take_while(|c| **c != '\'').count()
        }
        (Some(_), Some('\'')) => start + 3,
        _ => end_of_word(chars, start + 1).max(start + 1),
    }
}

/// Returns the end of the raw string whose `#` or quote is at `start`; `None` if there is none.
fn raw_text(chars: &[char], start: usize) -> Option<usize> {
    let hashes = chars[start..].iter().take_while(|c| **c == '#').count();
    if chars.get(start + hashes) != Some(&'"') {
        return None;
    }
    let mut i = start + hashes + 1;
    while i < chars.len() {
        if chars[i] == '"'
            && chars[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
        {
            return Some(i + 1 + hashes);
        }
        i += 1;
    }
    Some(i)
}

#[test]
fn tokens_exclude_comments_raw_strings_and_character_literals() {
    let source = r###"
        use a::b; // use c::d
        /* x /* y */ z */ let s = "q::r \" s"; let t = r#"u "v" "#; let c = '"'; let d = '\'';
        fn f<'a>(x: &'a str) -> b'x' { b"no" r"no" '\u{1F600}' g }
    "###;
    let words = tokens(source).join(" ");
    assert_eq!(
        words,
        "use a :: b ; let s = \"q::r \\\" s\" ; let t = ; let c = ; let d = ; \
         fn f < > ( x : & str ) - > { \"no\" g }"
    );
}
