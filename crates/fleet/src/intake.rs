//! Reads records of many nodes in all supported formats: one file per node, JSON Lines, lines prefixed with the node
//! name (ClusterShell, pdsh, `srun --label`, and those in `tools`), the merged output of ClusterShell, folders of
//! Ansible and parallel-ssh, JSON of Salt, a JSON array, and ReFrame's run report.
//!
//! Nothing is skipped silently. A text without a complete record becomes a [`RejectedText`] with its source and reason.
//! If its node is known, it counts as a missing run of the node. Text around a record, such as the greeting of a login
//! shell, and a log file next to a record are ignored.

mod ansible;
mod lines;
mod logs;
mod parts;
mod reframe;
mod tools;

use crate::figures::FigureSelection;
use crate::node::NodeRun;
use nodegauge_gauge::readers;
use nodegauge_measure::record::{self, Record};
use nodegauge_measure::{Failure, legible};
use nodegauge_os::map_in_parallel;
use parts::InputPart;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Maximum depth of subfolders; the output folders of parallel tools are flat.
const MAX_DEPTH: usize = 4;
/// Folder in which `fleet run` keeps the state of its jobs (see [`crate::folder`]).
pub const STATE_FOLDER: &str = ".fleet";

/// Reason for an empty file.
const EMPTY: &str = "the file is empty";

/// Text without a complete record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RejectedText {
    /// File, with the node name if it contains the output of several nodes.
    pub source: String,
    /// Node, if its name is known.
    pub node: Option<String>,
    /// Reason in a few words.
    pub reason: String,
    /// Relation between the text and the node.
    pub evidence: Evidence,
}

/// Relation between a text without a record and a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// The text is an empty or damaged record, or the tool that wrote the text names the node in it.
    Record,
    /// The text is a message of a tool, which may use another name for the node than the user.
    Message,
    /// The text is in a file named after the node; its content may be anything.
    FileName,
    /// The text is the log next to the record of the node.
    Log,
}

/// Records that were read, and texts without a record.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Intake {
    /// Runs of nodes, in the order of the inputs.
    pub runs: Vec<NodeRun>,
    /// Texts without a record.
    pub rejected: Vec<RejectedText>,
    /// Number of records that were found more than once; each counts once.
    pub duplicates: usize,
    /// Files that contain records and must not be overwritten by outputs.
    pub files: Vec<PathBuf>,
}

/// Text of an input, with the name of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputText {
    /// Name for messages.
    pub source: String,
    /// Node in the name of the input, if any.
    pub node: Option<String>,
    /// Relation between the input and the node if the input contains no record.
    pub evidence: Evidence,
    /// Content.
    pub content: String,
}

impl Intake {
    /// Reads files and folders; `-` is standard input. Several threads are used, because records are long.
    ///
    /// # Errors
    /// Fails if a given file or folder cannot be read, or if a folder is empty and does not belong to `fleet run`.
    pub fn read(paths: &[PathBuf], selection: &FigureSelection<'_>) -> Result<Self, Failure> {
        let mut files: Vec<InputPart> = Vec::new();
        for path in paths {
            if path == Path::new("-") || !path.is_dir() {
                files.extend(parts::list_inputs(path, true));
                continue;
            }
            let before = files.len();
            walk(path, 0, &mut files)?;
            // A folder of `fleet run` may contain only the reasons why records are missing.
            if files.len() == before && !path.join(STATE_FOLDER).is_dir() {
                let shown = legible::path(path);
                return Err(Failure::usage(format!("no file in {shown}"))
                    .hint("give the folder into which the nodes wrote"));
            }
        }
        let logs = logs::find_logs(files.iter().map(|file| file.path.as_path()));
        let parts = map_in_parallel(&files, |file| {
            Self::read_file(file, logs.contains(&file.path), selection)
        });
        let mut all = Self::default();
        for part in parts {
            let part = part?;
            all.runs.extend(part.runs);
            all.files.extend(part.files);
            all.rejected.extend(part.rejected);
        }
        logs::merge_logs(&mut all);
        all.deduplicate();
        Ok(all)
    }

    /// Reads one file. An unreadable file is a failure if the user named it, and is rejected if it was found in a
    /// folder.
    fn read_file(
        input: &InputPart,
        is_log: bool,
        selection: &FigureSelection<'_>,
    ) -> Result<Self, Failure> {
        let path = &input.path;
        let source = legible::path(path);
        let mut part = Self::default();
        match input.content() {
            Ok(bytes) => {
                let content = String::from_utf8(bytes)
                    .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
                let is_empty = content.trim().is_empty();
                let evidence = if is_log { Evidence::Log } else { Evidence::FileName };
                let text = InputText { source, node: node_from_file_name(path), evidence, content };
                if is_log && json_start(&text.content).is_none() {
                    part.reject_text(
                        &text,
                        format!("no record: {}", short(error_or_last_line(&text.content))),
                    );
                } else if !(is_empty && logs::is_side_stream(path)) {
                    part.add(&text, selection);
                }
            }
            Err(cause) if input.is_named => {
                return Err(Failure::usage(format!("cannot read {source}")).cause(cause));
            }
            Err(cause) => part.reject(source, node_from_file_name(path), cause.to_string()),
        }
        if !part.runs.is_empty() {
            part.files.push(path.clone());
        }
        Ok(part)
    }

    /// Adds the records of a text.
    pub fn add(&mut self, text: &InputText, selection: &FigureSelection<'_>) {
        let content = text.content.strip_prefix('\u{feff}').unwrap_or(&text.content);
        if let Some(records) = array(content) {
            for record in records {
                self.add_value(text, &record.to_string(), selection);
            }
            return;
        }
        // Lines of another program may begin with a word and a colon, without naming a node.
        let without_record = !content.contains('{');
        if let Some(reason) = without_record.then(|| other_program(content, selection)).flatten() {
            self.reject_text(text, reason);
            return;
        }
        if content.trim().is_empty() {
            self.reject(text.source.clone(), text.node.clone(), EMPTY.to_owned());
            return;
        }
        let parts = tools::split_by_node(content).unwrap_or_else(|| lines::split_by_node(content));
        if parts.is_empty() {
            self.add_node_output(text, content, selection);
            return;
        }
        for part in parts {
            // `srun --label` prefixes lines with the number of the task, which is not a node name.
            let is_number = part.node.bytes().all(|byte| byte.is_ascii_digit());
            let node = (!is_number).then(|| part.node.clone());
            let source = format!("{}, {}", text.source, part.node);
            match part.failure {
                Some(reason) => {
                    let evidence = Evidence::Message;
                    self.reject_for(source, node, reason, evidence);
                }
                None => {
                    // A line without a record may begin with any word and a colon, so the word is no evidence of a
                    // node.
                    let has_record = json_start(&part.content).is_some();
                    let evidence = if has_record { Evidence::Record } else { Evidence::Message };
                    let of_node = InputText { source, node, evidence, content: String::new() };
                    self.add_node_output(&of_node, &part.content, selection);
                }
            }
        }
    }

    /// Adds the records in the output of one node, or in a file of records.
    fn add_node_output(
        &mut self,
        text: &InputText,
        content: &str,
        selection: &FigureSelection<'_>,
    ) {
        let Some(start) = json_start(content) else {
            let reason = other_program(content, selection)
                .unwrap_or_else(|| format!("no record: {}", short(error_or_last_line(content))));
            self.reject_text(text, reason);
            return;
        };
        // A damaged document must not hide the documents after it.
        for document in parts::split_documents(&content[start..]) {
            match record::parse(document, selection.registry.former_names()) {
                Ok(record) => self.add_record(&record, text, selection),
                Err(_) => self.add_documents(text, document, selection),
            }
        }
    }

    /// Adds documents that follow each other without a line break, or that are followed by other text.
    fn add_documents(&mut self, text: &InputText, json: &str, selection: &FigureSelection<'_>) {
        let mut values = serde_json::Deserializer::from_str(json).into_iter::<IgnoredAny>();
        let mut from = 0;
        let mut found = 0;
        while let Some(value) = values.next() {
            let to = values.byte_offset();
            match value {
                Ok(_) => {
                    self.add_value(text, &json[from..to], selection);
                    found += 1;
                    from = to;
                }
                // Other text follows the record, e.g. from a logout script. If it contains a brace, it may be the
                // record of another node, because some tools join outputs without a line break.
                Err(_) if found > 0 && !json[from..].contains('{') => return,
                Err(_) if found > 0 && !json[from..].trim_start().starts_with('{') => {
                    let reason = format!("text after a record: {}", short(&json[from..]));
                    self.reject(text.source.clone(), None, reason);
                    return;
                }
                Err(error) if error.is_eof() => {
                    let reason = "the record is incomplete: the file ends within it".to_owned();
                    self.reject(text.source.clone(), text.node.clone(), reason);
                    return;
                }
                Err(error) => {
                    let reason = format!("not a record: {}", short(&error.to_string()));
                    self.reject_text(text, reason);
                    return;
                }
            }
        }
    }

    /// Adds one JSON document.
    fn add_value(&mut self, text: &InputText, json: &str, selection: &FigureSelection<'_>) {
        match record::parse(json, selection.registry.former_names()) {
            Ok(record) => self.add_record(&record, text, selection),
            Err(reason) => {
                let tool: ToolFields = serde_json::from_str(json).unwrap_or_default();
                if tool.schema.is_some() {
                    self.reject(text.source.clone(), text.node.clone(), reason);
                } else if tool.session_info.is_some() && tool.runs.is_some() {
                    reframe::add(self, text, json, selection);
                } else if tool.is_ansible() {
                    ansible::add(self, text, json, selection);
                } else if let Some(minions) = minions(json) {
                    for (node, output) in minions {
                        let source = format!("{}, {node}", text.source);
                        let of_node = InputText {
                            source,
                            node: Some(node),
                            evidence: Evidence::Record,
                            content: String::new(),
                        };
                        self.add_node_output(&of_node, &output, selection);
                    }
                } else {
                    let why = other_program(json, selection);
                    let why = why.unwrap_or_else(|| "not a record of nodegauge".to_owned());
                    self.reject_text(text, why);
                }
            }
        }
    }

    fn add_record(&mut self, record: &Record, text: &InputText, selection: &FigureSelection<'_>) {
        let run = NodeRun::from_record(record, text.node.as_deref(), selection);
        if run.host.is_empty() {
            let why = "the record has no host name".to_owned();
            self.reject(text.source.clone(), text.node.clone(), why);
        } else if !record.complete && run.figures.is_empty() {
            let why = "the run was interrupted".to_owned();
            self.reject(text.source.clone(), Some(run.host), why);
        } else {
            self.runs.push(run);
        }
    }

    /// Adds a record of the history.
    pub fn add_saved(&mut self, record: &Record, selection: &FigureSelection<'_>) {
        let text = InputText {
            source: format!("run {}", record.id),
            node: None,
            evidence: Evidence::Record,
            content: String::new(),
        };
        self.add_record(record, &text, selection);
    }

    /// Adds a rejected text that is a damaged record, or that the tool attributes to a node.
    fn reject(&mut self, source: String, node: Option<String>, reason: String) {
        self.reject_for(source, node, reason, Evidence::Record);
    }

    /// Adds a rejected text. Control characters in its source, node and reason are escaped, because they come from
    /// files of other nodes.
    fn reject_for(
        &mut self,
        source: String,
        node: Option<String>,
        reason: String,
        evidence: Evidence,
    ) {
        let node = node.map(|node| legible::escape_controls(&node).into_owned());
        let source = legible::escape_controls(&source).into_owned();
        let reason = legible::escape_controls(&reason).into_owned();
        self.rejected.push(RejectedText { source, node, reason, evidence });
    }

    /// Adds a rejected text with the source, the node and the evidence of its input.
    fn reject_text(&mut self, text: &InputText, reason: String) {
        self.reject_for(text.source.clone(), text.node.clone(), reason, text.evidence);
    }

    /// Removes duplicate records, e.g. one from the file of a node and one from a file of all nodes.
    pub fn deduplicate(&mut self) {
        let mut seen: HashSet<(String, String)> = HashSet::new();
        let before = self.runs.len();
        self.runs
            .retain(|run| run.id.is_empty() || seen.insert((run.host.clone(), run.id.clone())));
        self.duplicates += before - self.runs.len();
    }
}

/// Fields by which the documents of different tools are recognised.
#[derive(Default, Deserialize)]
struct ToolFields {
    schema: Option<IgnoredAny>,
    session_info: Option<IgnoredAny>,
    runs: Option<IgnoredAny>,
    changed: Option<IgnoredAny>,
    unreachable: Option<IgnoredAny>,
    stdout: Option<IgnoredAny>,
    msg: Option<IgnoredAny>,
}

impl ToolFields {
    fn is_ansible(&self) -> bool {
        self.changed.is_some() && (self.stdout.is_some() || self.msg.is_some())
            || self.unreachable.is_some()
    }
}

/// Returns the elements of a JSON array of objects; `None` for any other text.
fn array(content: &str) -> Option<Vec<serde_json::Value>> {
    content.trim_start().starts_with('[').then_some(())?;
    let all: Vec<serde_json::Value> = serde_json::from_str(content).ok()?;
    all.iter().all(serde_json::Value::is_object).then_some(all)
}

/// Returns the output of each minion in Salt's JSON, an object with one text per minion; `None` for other documents.
fn minions(json: &str) -> Option<Vec<(String, String)>> {
    let all: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).ok()?;
    let mut outputs = Vec::new();
    for (node, output) in all {
        let output = match output {
            serde_json::Value::String(output) => output,
            // Salt reports `false` for a minion that did not return.
            serde_json::Value::Bool(false) => String::new(),
            _ => return None,
        };
        outputs.push((node, output));
    }
    outputs.iter().any(|(_, output)| output.contains('{')).then_some(outputs)
}

/// Adds the regular files in a folder and its subfolders, sorted by name. Hidden files and folders are skipped.
fn walk(folder: &Path, depth: usize, files: &mut Vec<InputPart>) -> Result<(), Failure> {
    let failed =
        |cause| Failure::usage(format!("cannot read {}", legible::path(folder))).cause(cause);
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder).map_err(failed)?.collect();
    let mut entries = entries.map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < MAX_DEPTH => walk(&path, depth + 1, files)?,
            Ok(kind) if kind.is_dir() => {}
            _ => files.extend(parts::list_inputs(&path, false)),
        }
    }
    Ok(())
}

/// Extensions of files that tools name after a node.
const ENDINGS: [&str; 6] = [".json", ".jsonl", ".out", ".txt", ".log", ".err"];

/// Returns the file name without its extension if the extension is one of [`ENDINGS`], otherwise the whole file name.
/// Returns `None` for a name that is not UTF-8.
fn stem(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    Some(ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name))
}

/// Returns the node in a file name, if any.
fn node_from_file_name(path: &Path) -> Option<String> {
    let stem = stem(path)?;
    if logs::STREAM_FILE_NAMES.contains(&stem) {
        return None;
    }
    // `fleet run` adds the number of the run to the name.
    let stem = match stem.rsplit_once('.') {
        Some((host, number)) if number.bytes().all(|b| b.is_ascii_digit()) && number.len() < 3 => {
            host
        }
        _ => stem,
    };
    (stem != "-" && !stem.is_empty()).then(|| stem.to_owned())
}

/// Returns the position of the first line that begins with a JSON object.
fn json_start(content: &str) -> Option<usize> {
    let mut at = 0;
    for line in content.split_inclusive('\n') {
        let trimmed = line.trim_start();
        if trimmed.starts_with('{') {
            return Some(at + line.len() - trimmed.len());
        }
        at += line.len();
    }
    None
}

/// Returns the first line that begins with `error: `, otherwise the last line that is not blank; empty if there is
/// none.
pub fn error_or_last_line(output: &str) -> &str {
    let mut lines = output.lines().map(str::trim);
    if let Some(error) = lines.find(|line| line.starts_with("error: ")) {
        return error;
    }
    output.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default()
}

/// Shortens a text of another program for a reason.
fn short(text: &str) -> String {
    const LONGEST_REASON: usize = 100;
    legible::escape_controls(text.trim()).chars().take(LONGEST_REASON).collect()
}

/// Returns the reason why the output of another program is rejected; `None` if no reader recognises the program.
fn other_program(text: &str, selection: &FigureSelection<'_>) -> Option<String> {
    let program = readers::recognise(&readers::all(selection.gauges), text)?;
    Some(format!("output of {program} instead of a record"))
}

#[cfg(test)]
mod tests;
