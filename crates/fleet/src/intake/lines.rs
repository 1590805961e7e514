//! Output of many nodes in one text: lines with the name of the node in front, or blocks under the names of nodes.

use nodegauge_gauge::view::grouped;

/// Minimum length of the rules around a name in the output of `clush -b`.
const RULE: usize = 10;

/// Output of one node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NodePart {
    /// Name in front of the lines.
    pub node: String,
    /// Lines without the name.
    pub content: String,
    /// Message of the carrier that the node failed.
    pub failure: Option<String>,
}

/// Returns the output of each node; empty if the text is not the output of several nodes.
pub(super) fn by_node(text: &str) -> Vec<NodePart> {
    if text.trim_start().starts_with(['{', '[']) {
        return Vec::new();
    }
    if text.lines().any(is_rule) {
        let parts = blocks(text);
        if !parts.is_empty() {
            return parts;
        }
    }
    let lines: Vec<(&str, &str)> = text.lines().filter_map(labelled).collect();
    // The greeting of a shell may contain a colon; the lines of a record with a name in front begin with a brace.
    if !lines.iter().any(|(_, line)| line.trim_start().starts_with('{')) {
        return failures(text);
    }
    let mut parts: Vec<NodePart> = grouped(lines, |(node, _)| *node)
        .into_iter()
        .map(|(node, of_node)| {
            let of_node: Vec<&str> = of_node.into_iter().map(|(_, line)| line).collect();
            NodePart { node: node.to_owned(), content: of_node.join("\n"), failure: None }
        })
        .collect();
    let failed = failures(text);
    // The messages of the carrier are no output of a node of its name.
    parts.retain(|part| {
        let is_message = ["clush", "srun", "slurmstepd", "mpiexec"].contains(&&*part.node);
        !is_message && !part.node.starts_with("pdsh@")
    });
    parts.extend(failed.into_iter().filter(|one| !one.node.is_empty()));
    parts
}

fn is_rule(line: &str) -> bool {
    let line = line.trim_end();
    line.len() >= RULE && line.bytes().all(|byte| byte == b'-')
}

/// Splits `node: line`; the name has no blanks.
fn labelled(line: &str) -> Option<(&str, &str)> {
    let (node, rest) = line.split_once(':')?;
    // srun aligns the numbers of tasks.
    let node = node.trim_start();
    let is_name =
        !node.is_empty() && node.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._@".contains(&b));
    is_name.then(|| (node, rest.strip_prefix(' ').unwrap_or(rest)))
}

/// Returns the messages of carriers that a node failed: `clush: n3: exited with exit code 3`,
/// `pdsh@head: n3: ssh exited with exit code 255`, `srun: error: n3: task 2: Exited with exit code 1`.
fn failures(text: &str) -> Vec<NodePart> {
    let mut found = Vec::new();
    for line in text.lines() {
        let rest = match labelled(line) {
            Some(("clush", rest)) => rest,
            Some(("srun", rest)) => rest.strip_prefix("error: ").unwrap_or(rest),
            Some((carrier, rest)) if carrier.starts_with("pdsh@") => rest,
            _ => continue,
        };
        let Some((node, why)) = labelled(rest) else { continue };
        found.push(NodePart {
            node: node.to_owned(),
            content: String::new(),
            failure: Some(super::short(why)),
        });
    }
    found
}

/// Returns the blocks of `clush -b`: a rule, the names of nodes, a rule, and their common output.
fn blocks(text: &str) -> Vec<NodePart> {
    let mut parts: Vec<NodePart> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if is_rule(line) {
            let Some(name) = lines.next() else { break };
            if lines.peek().is_some_and(|next| is_rule(next)) {
                lines.next();
                parts.push(NodePart {
                    node: name.split(' ').next().unwrap_or_default().to_owned(),
                    content: String::new(),
                    failure: None,
                });
            }
            continue;
        }
        if let Some(part) = parts.last_mut() {
            part.content.push_str(line);
            part.content.push('\n');
        }
    }
    parts
}
