//! Output of many nodes in the formats of further tools: `kubectl logs --prefix`, GNU parallel `--tag`, MPI launchers
//! with prefixes, `ansible -o`, Salt, the systemd journal, and `pssh -i`.

use super::lines::NodeOutput;
use nodegauge_gauge::readers::tags;
use nodegauge_gauge::view::group_by_key;
use serde_json::Value;

/// Splits a text by node; `None` if the text has none of these formats.
pub(super) fn split_by_node(text: &str) -> Option<Vec<NodeOutput>> {
    one_line_results(text)
        .or_else(|| inline_results(text))
        .or_else(|| journal_objects(text))
        .or_else(|| prefixed(text, pod))
        .or_else(|| ranks(text))
        .or_else(|| prefixed(text, tag))
        .or_else(|| prefixed(text, journal))
        .or_else(|| minions(text))
}

/// Line without its prefix, and the node that the prefix names.
struct PrefixedLine<'a> {
    node: &'a str,
    line: &'a str,
}

/// True if a line begins with a JSON object.
fn is_json(line: &str) -> bool {
    line.trim_start().starts_with('{')
}

/// True if a word may be the name of a host or pod.
fn is_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._@".contains(&b))
}

/// Groups lines by node and removes their prefixes; `None` if no line begins with a record.
fn prefixed(
    text: &str,
    prefix: for<'a> fn(&'a str) -> Option<PrefixedLine<'a>>,
) -> Option<Vec<NodeOutput>> {
    let lines: Vec<PrefixedLine<'_>> = text.lines().filter_map(prefix).collect();
    if !lines.iter().any(|one| is_json(one.line)) {
        return None;
    }
    let parts = group_by_key(lines, |one| one.node.to_owned()).into_iter().map(|(node, own)| {
        let own: Vec<&str> = own.into_iter().map(|one| one.line).collect();
        NodeOutput { node, content: own.join("\n"), failure: None }
    });
    Some(parts.collect())
}

/// Parses `[pod/n01-x7k/nodegauge] line` of `kubectl logs --prefix`.
fn pod(line: &str) -> Option<PrefixedLine<'_>> {
    let (inside, rest) = line.strip_prefix("[pod/")?.split_once(']')?;
    let node = inside.split('/').next()?;
    Some(PrefixedLine { node, line: rest.strip_prefix(' ').unwrap_or(rest) })
}

/// Parses `n01<tab>line` of GNU parallel's option `--tag`.
fn tag(line: &str) -> Option<PrefixedLine<'_>> {
    let (node, line) = line.split_once('\t')?;
    is_name(node).then_some(PrefixedLine { node, line })
}

/// Parses `Nov 28 14:00:01 n01 nodegauge[123]: line` of the journal; the time may be RFC 3339.
fn journal(line: &str) -> Option<PrefixedLine<'_>> {
    let (head, message) = line.split_once("]: ")?;
    let (head, pid) = head.rsplit_once('[')?;
    pid.parse::<u32>().ok()?;
    let words: Vec<&str> = head.split_whitespace().collect();
    let [time @ .., node, _] = &words[..] else { return None };
    let has_time = time.last().is_some_and(|word| word.contains(':'));
    (has_time && is_name(node)).then_some(PrefixedLine { node, line: message })
}

/// Splits a text by rank and removes the prefixes of an MPI launcher. The prefixes of Slurm are parsed in `lines`.
fn ranks(text: &str) -> Option<Vec<NodeOutput>> {
    if !text.trim_start().starts_with('[') && !text.contains("\n[") {
        return None;
    }
    let ranks = tags::split_by_rank(&format!("{}\n", text.trim_end()))?;
    if !ranks.iter().any(|rank| rank.text.lines().any(is_json)) {
        return None;
    }
    let part = |rank: tags::RankText| NodeOutput {
        node: rank.rank.to_string(),
        content: rank.text,
        failure: None,
    };
    Some(ranks.into_iter().map(part).collect())
}

/// Parses the results of `ansible -o`: `n1 | CHANGED | rc=0 | (stdout) {...}`, `n2 | UNREACHABLE!: reason`.
fn one_line_results(text: &str) -> Option<Vec<NodeOutput>> {
    let mut parts = Vec::new();
    for line in text.lines() {
        let Some((node, rest)) = line.split_once(" | ").filter(|(node, _)| is_name(node)) else {
            continue;
        };
        if let Some(reason) = rest.strip_prefix("UNREACHABLE!: ") {
            let failure = Some(format!("unreachable: {}", super::short(reason)));
            parts.push(NodeOutput { node: node.to_owned(), content: String::new(), failure });
            continue;
        }
        let Some((state, output)) = rest.split_once(" | (stdout) ") else { continue };
        let (word, code) = state.split_once(" | rc=").unwrap_or((state, ""));
        let (stdout, stderr) = output.rsplit_once(" (stderr) ").unwrap_or((output, ""));
        let content = with_line_ends(stdout);
        let is_failed = word.starts_with("FAILED");
        let failure = is_failed.then(|| {
            let printed = with_line_ends(if stderr.is_empty() { &content } else { stderr });
            let last = super::short(super::error_or_last_line(&printed));
            if last.is_empty() {
                format!("exit code {code}")
            } else {
                format!("exit code {code}: {last}")
            }
        });
        parts.push(NodeOutput { node: node.to_owned(), content, failure });
    }
    (!parts.is_empty()).then_some(parts)
}

/// Replaces each backslash that is followed by `n` by a line break, for tools that write line breaks in this form.
/// Within JSON strings, the two characters are kept.
fn with_line_ends(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_string = false;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        if c == '\\' {
            match (is_string, characters.peek()) {
                (false, Some('n')) => {
                    characters.next();
                    out.push('\n');
                }
                (true, Some(_)) => {
                    out.push(c);
                    out.extend(characters.next());
                }
                _ => out.push(c),
            }
            continue;
        }
        is_string ^= c == '"';
        out.push(c);
    }
    out
}

/// Parses the results of `pssh -i`: lines such as `[1] 14:00:01 [SUCCESS] n1`, each followed by the output of the node.
fn inline_results(text: &str) -> Option<Vec<NodeOutput>> {
    let mut parts: Vec<NodeOutput> = Vec::new();
    for line in text.lines() {
        if let Some((node, failure)) = inline_result(line) {
            let failure = failure.map(super::short);
            parts.push(NodeOutput { node: node.to_owned(), content: String::new(), failure });
        } else if let Some(part) = parts.last_mut() {
            part.content.push_str(line);
            part.content.push('\n');
        }
    }
    (!parts.is_empty()).then_some(parts)
}

/// Parses a result line of `pssh -i`: the node, and the reason if it failed.
fn inline_result(line: &str) -> Option<(&str, Option<&str>)> {
    let (number, rest) = line.strip_prefix('[')?.split_once("] ")?;
    number.parse::<u32>().ok()?;
    let (time, rest) = rest.split_once(' ')?;
    if time.matches(':').count() != 2 {
        return None;
    }
    if let Some(node) = rest.strip_prefix("[SUCCESS] ") {
        return Some((node.trim(), None));
    }
    let rest = rest.strip_prefix("[FAILURE] ")?;
    let (node, reason) = rest.split_once(' ').unwrap_or((rest, "failed"));
    Some((node, Some(reason)))
}

/// Reason why a message of the journal is missing (`journalctl(1)`, `--output=json`).
const OMITTED_MESSAGE: &str =
    "journalctl left out a message of more than 4096 bytes: use journalctl -o json --all";

/// Returns the text of a message in the journal's JSON: a string, or an array of bytes if the message has other
/// characters. Returns `None` for a message that `journalctl` left out because of its length.
fn journal_message(message: &Value) -> Option<String> {
    match message {
        Value::String(text) => Some(text.clone()),
        Value::Array(numbers) => {
            let numbers = numbers.iter();
            let bytes: Option<Vec<u8>> =
                numbers.map(|number| u8::try_from(number.as_u64()?).ok()).collect();
            Some(String::from_utf8_lossy(&bytes?).into_owned())
        }
        _ => None,
    }
}

/// Returns the messages of each host in the journal's JSON (`journalctl -o json --all`).
fn journal_objects(text: &str) -> Option<Vec<NodeOutput>> {
    if !text.contains("\"MESSAGE\"") || !text.contains("\"_HOSTNAME\"") {
        return None;
    }
    let mut messages: Vec<(String, Option<String>)> = Vec::new();
    for line in text.lines() {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        let host = entry.get("_HOSTNAME").and_then(Value::as_str).map(str::to_owned);
        messages.extend(host.zip(entry.get("MESSAGE").map(journal_message)));
    }
    let parts = group_by_key(messages, |(node, _)| node.clone()).into_iter().map(|(node, own)| {
        let is_cut = own.iter().any(|(_, message)| message.is_none());
        let own: Vec<String> = own.into_iter().filter_map(|(_, message)| message).collect();
        let has_record = own.iter().any(|message| message.contains('{'));
        let failure = (is_cut && !has_record).then(|| OMITTED_MESSAGE.to_owned());
        NodeOutput { node, content: own.join("\n"), failure }
    });
    let parts: Vec<NodeOutput> = parts.collect();
    (!parts.is_empty()).then_some(parts)
}

/// Returns the output of each minion in Salt's text: `n1:`, followed by lines that are indented by four spaces.
fn minions(text: &str) -> Option<Vec<NodeOutput>> {
    const INDENT: &str = "    ";
    let mut parts: Vec<NodeOutput> = Vec::new();
    for line in text.lines() {
        if let Some(node) = line.strip_suffix(':').filter(|node| is_name(node)) {
            parts.push(NodeOutput { node: node.to_owned(), content: String::new(), failure: None });
        } else if let (Some(part), Some(rest)) = (parts.last_mut(), line.strip_prefix(INDENT)) {
            part.content.push_str(rest);
            part.content.push('\n');
        }
    }
    parts.iter().any(|part| part.content.lines().any(is_json)).then_some(())?;
    for part in &mut parts {
        if part.content.starts_with("Minion did not return") {
            part.failure = Some(super::short(part.content.trim()));
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_in_json_strings_are_kept() {
        assert_eq!(
            with_line_ends(r#"{"a": "x\ny",\n"b": "\"\n"}"#),
            "{\"a\": \"x\\ny\",\n\"b\": \"\\\"\\n\"}"
        );
        assert_eq!(with_line_ends(r"a\nb\c"), "a\nb\\c");
    }
}
