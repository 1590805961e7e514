//! Markup with escaped text and attributes. No constructor accepts text from records without escaping it.

use serde::Serialize;
use std::fmt;

/// SHA-256 digests of the scripts, as written by `sha256sum *.js`.
const DIGESTS: &str = include_str!("../assets/SHA256SUMS");

/// Part of a document, with all text escaped.
pub(crate) struct Markup(String);

impl fmt::Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// HTML elements that have no end tag.
const VOID: [&str; 1] = ["meta"];

/// Escapes a text for use in elements and attributes.
pub(crate) fn text(text: &str) -> Markup {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // These characters are not allowed in documents of XML 1.0 or HTML.
            '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}' => {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    Markup(out)
}

/// Returns markup from a fixed text of the program, for scripts and styles.
pub(crate) fn fixed_text(text: &'static str) -> Markup {
    Markup(text.to_owned())
}

/// Returns an element. Attributes without a value are left out.
pub(crate) fn element(
    name: &'static str,
    attributes: &[(&'static str, &str)],
    inside: impl IntoIterator<Item = Markup>,
) -> Markup {
    let mut out = format!("<{name}");
    for (key, value) in attributes.iter().filter(|(_, value)| !value.is_empty()) {
        out.push_str(&format!(" {key}=\"{}\"", text(value)));
    }
    out.push('>');
    inside.into_iter().for_each(|part| out.push_str(&part.0));
    if !VOID.contains(&name) {
        out.push_str(&format!("</{name}>"));
    }
    Markup(out)
}

/// Returns a `script` element with JSON data for scripts. `<`, `>` and `&` are escaped, so the data cannot end the
/// element.
pub(crate) fn script(data: &impl Serialize) -> Markup {
    // Serialisation cannot fail: numbers that are not finite become null, and all keys are strings.
    let json = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
    let mut escaped = String::new();
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => escaped.push(c),
        }
    }
    Markup(format!("<script type=\"application/json\">{escaped}</script>"))
}

/// Returns the SHA-256 digest of a script in base64, for the content security policy.
pub(crate) fn digest(name: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let line = DIGESTS.lines().find_map(|line| line.strip_suffix(name)).unwrap_or_default();
    let hex: Vec<u32> = line.chars().filter_map(|c| c.to_digit(16)).collect();
    // Three hexadecimal digits (4 bits each) become two base64 digits (6 bits each).
    let mut base64: String = hex
        .chunks(3)
        .flat_map(|part| {
            let [a, b, c] = [0, 1, 2].map(|i: usize| part.get(i).copied().unwrap_or(0));
            let bits = a << 8 | b << 4 | c;
            [bits >> 6, bits & 63].into_iter().take(part.len().min(2))
        })
        .map(|six| char::from(DIGITS[six as usize]))
        .collect();
    while !base64.len().is_multiple_of(4) {
        base64.push('=');
    }
    base64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn text_and_attributes_are_escaped() {
        let hostile = "\"><img src=x onerror=alert(1)>&amp;\0\x1b</td>";
        let made = element("p", &[("title", hostile), ("class", "")], [text(hostile)]).to_string();
        let words =
            "&quot;&gt;&lt;img src=x onerror=alert(1)&gt;&amp;amp;\u{fffd}\u{fffd}&lt;/td&gt;";
        assert_eq!(made, format!("<p title=\"{words}\">{words}</p>"));
        assert_eq!(
            element("meta", &[("charset", "utf-8")], []).to_string(),
            "<meta charset=\"utf-8\">"
        );
    }

    #[test]
    fn script_data_cannot_end_its_element() {
        let hostile = "</script><!--\u{2028}&\u{1f600}\"\\";
        let made = script(&hostile).to_string();
        let json = made.strip_prefix("<script type=\"application/json\">").unwrap();
        let json = json.strip_suffix("</script>").unwrap();
        assert!(!json.contains(['<', '>', '&', '\u{2028}']), "{json}");
        assert_eq!(serde_json::from_str::<String>(json).unwrap(), hostile);
    }

    #[test]
    fn scripts_match_published_checksums() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/assets");
        let mut check = Command::new("sha256sum");
        check.args(["--check", "--strict", "SHA256SUMS"]).current_dir(folder);
        let checked = check.output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        for name in ["echarts.min.js", "echarts-gl.min.js", "report.js"] {
            let made = digest(name);
            assert!(made.len() == 44 && made.ends_with('='), "{name}: {made}");
        }
    }
}
