//! Output of many nodes in one text: lines prefixed with the node name, blocks with node names above them, or results
//! printed by Ansible.

use nodegauge_gauge::view::group_by_key;
use nodegauge_toolchain::mpi::HostList;

/// Minimum length of the lines of dashes above and below node names in the output of `clush -b`.
const RULE: usize = 10;

/// Output of one node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NodeOutput {
    /// Name of the node in front of the lines.
    pub node: String,
    /// Lines without the name.
    pub content: String,
    /// Message of the tool that the node failed.
    pub failure: Option<String>,
}

/// Splits a text by node. The result is empty if the text is not the output of several nodes.
pub(super) fn split_by_node(text: &str) -> Vec<NodeOutput> {
    if text.trim_start().starts_with(['{', '[']) {
        return Vec::new();
    }
    if text.lines().any(|line| task_line(line).is_some()) {
        return tasks(text);
    }
    if text.lines().any(is_rule) {
        let parts = blocks(text);
        if !parts.is_empty() {
            return parts;
        }
    }
    let lines: Vec<(&str, &str)> = text.lines().filter_map(labelled).collect();
    // A shell's greeting may contain a colon. Only if a line with a prefix contains the brace of a record, the prefixes
    // are node names.
    if !lines.iter().any(|(_, line)| line.trim_start().starts_with('{')) {
        return failures(text);
    }
    let mut parts: Vec<NodeOutput> = group_by_key(lines, |(node, _)| *node)
        .into_iter()
        .map(|(node, of_node)| {
            let of_node: Vec<&str> = of_node.into_iter().map(|(_, line)| line).collect();
            NodeOutput { node: node.to_owned(), content: of_node.join("\n"), failure: None }
        })
        .collect();
    let failed = failures(text);
    // A message of the tool is not the output of a node with that name.
    parts.retain(|part| {
        let words = ["clush", "srun", "slurmstepd", "mpiexec", "error", "hint", "warning", "note"];
        let is_message = words.contains(&&*part.node);
        !is_message && !part.node.starts_with("pdsh@")
    });
    parts.extend(failed.into_iter().filter(|one| !one.node.is_empty()));
    parts
}

fn is_rule(line: &str) -> bool {
    let line = line.trim_end();
    line.len() >= RULE && line.bytes().all(|byte| byte == b'-')
}

/// Splits `node: line`. The name contains no blanks.
fn labelled(line: &str) -> Option<(&str, &str)> {
    let (node, rest) = line.split_once(':')?;
    // srun pads task numbers with spaces.
    let node = node.trim_start();
    let is_name =
        !node.is_empty() && node.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._@".contains(&b));
    is_name.then(|| (node, rest.strip_prefix(' ').unwrap_or(rest)))
}

/// Expands the node names in a message of ClusterShell, e.g. `n[14-15] (2)`; empty if the text does not name nodes.
fn unfolded(name: &str) -> Vec<String> {
    let name = match name.trim().rsplit_once(" (") {
        Some((name, count)) if count.ends_with(')') => name,
        _ => name.trim(),
    };
    name.parse::<HostList>().map(|list| list.0).unwrap_or_default()
}

/// Returns messages of tools that a node failed: `clush: n[3-4] (2): exited with exit code 3`, `pdsh@head: n3: ssh
/// exited with exit code 255`, `srun: error: n3: task 2: Exited with exit code 1`.
fn failures(text: &str) -> Vec<NodeOutput> {
    let mut found = Vec::new();
    for line in text.lines() {
        let rest = match labelled(line) {
            Some(("clush", rest)) => rest,
            Some(("srun", rest)) => rest.strip_prefix("error: ").unwrap_or(rest),
            Some((tool, rest)) if tool.starts_with("pdsh@") => rest,
            _ => continue,
        };
        let Some((name, why)) = rest.split_once(": ") else { continue };
        found.extend(unfolded(name).into_iter().map(|node| NodeOutput {
            node,
            content: String::new(),
            failure: Some(super::short(why)),
        }));
    }
    found
}

/// Returns the blocks of `clush -b`: a line of dashes, node names, a line of dashes, and the output that these nodes
/// have in common.
fn blocks(text: &str) -> Vec<NodeOutput> {
    let mut blocks: Vec<(&str, String)> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if is_rule(line) {
            let Some(name) = lines.next() else { break };
            if lines.peek().is_some_and(|next| is_rule(next)) {
                lines.next();
                blocks.push((name, String::new()));
            }
            continue;
        }
        if let Some((_, content)) = blocks.last_mut() {
            content.push_str(line);
            content.push('\n');
        }
    }
    let mut parts = Vec::new();
    for (name, content) in blocks {
        let mut nodes = unfolded(name);
        if nodes.is_empty() {
            nodes.extend(name.split(' ').next().map(str::to_owned));
        }
        for node in nodes {
            parts.push(NodeOutput { node, content: content.clone(), failure: None });
        }
    }
    parts
}

/// First line of the result of a task on a node, as Ansible prints it.
struct TaskLine<'a> {
    node: &'a str,
    /// Exit code, e.g. `127`, if the task failed and its output follows.
    failed: Option<&'a str>,
    /// Rest of the line, which may contain a part of the result.
    rest: &'a str,
}

/// Splits `n1 | CHANGED | rc=0 >>`, `n1 | FAILED | rc=127 >>`, and `n1 | UNREACHABLE! => {`.
fn task_line(line: &str) -> Option<TaskLine<'_>> {
    let (node, result) = line.split_once(" | ")?;
    if node.contains(char::is_whitespace) {
        return None;
    }
    let (state, rest) = result.split_once(' ')?;
    let is_failure = ["FAILED", "FAILED!", "UNREACHABLE!"].contains(&state);
    if !is_failure && !["CHANGED", "SUCCESS"].contains(&state) {
        return None;
    }
    if let Some(json) = rest.strip_prefix("=> ") {
        return Some(TaskLine { node, failed: None, rest: json });
    }
    let (code, rest) = rest.strip_prefix("| rc=")?.split_once(' ')?;
    Some(TaskLine { node, failed: is_failure.then_some(code), rest: rest.strip_prefix(">>")? })
}

/// Returns the results of a task on several nodes, as Ansible prints them.
fn tasks(text: &str) -> Vec<NodeOutput> {
    let mut parts: Vec<NodeOutput> = Vec::new();
    for line in text.lines() {
        if let Some(TaskLine { node, failed, rest }) = task_line(line) {
            parts.push(NodeOutput {
                node: node.to_owned(),
                content: format!("{rest}\n"),
                failure: failed.map(|code| format!("exit code {code}")),
            });
        } else if let Some(part) = parts.last_mut() {
            part.content.push_str(line);
            part.content.push('\n');
        }
    }
    for part in &mut parts {
        let line = super::short(super::error_or_last_line(&part.content));
        if let Some(failure) = part.failure.as_mut().filter(|_| !line.is_empty()) {
            failure.push_str(&format!(": {line}"));
        }
    }
    parts
}
