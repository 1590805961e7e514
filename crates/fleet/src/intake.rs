//! Records of many nodes from whatever carried them: a file per node, JSON Lines, lines with the name of the node in
//! front (ClusterShell, pdsh, `srun --label`, and those of `carriers`), the gathered output of ClusterShell, trees of
//! Ansible and of parallel-ssh, JSON of Salt, a JSON array, and ReFrame's run report.
//!
//! Nothing is skipped silently: a text without a complete record is [`RejectedText`] with its name and reason, and
//! counts as a missing run of its node if the node is known. Text around a record, such as the greeting of a login
//! shell, and the log next to a record are ignored.

mod ansible;
mod carriers;
mod lines;
mod logs;
mod parts;
mod reframe;

use crate::figures::FigureSelection;
use crate::node::NodeRun;
use nodegauge_gauge::readers;
use nodegauge_measure::record::{self, Record};
use nodegauge_measure::{Failure, legible};
use parts::Input;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum depth of folders below a given folder: trees of carriers are flat.
const DEEPEST: usize = 4;
/// Folder in which `fleet run` keeps the state of its jobs; see [`crate::folder`].
pub const STATE_FOLDER: &str = ".fleet";

/// Reason of a file without content.
const EMPTY: &str = "the file is empty";

/// A text that gave no record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RejectedText {
    /// File, with the name of the node if several nodes wrote into it.
    pub source: String,
    /// Node, if its name is known.
    pub node: Option<String>,
    /// Reason in a few words.
    pub reason: String,
    /// Reason why the text belongs to the node.
    pub evidence: Evidence,
}

/// Reason why a text without a record belongs to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// The text is an empty or damaged record, or its carrier names the node.
    Record,
    /// A message of a carrier, which may name the node otherwise than the user does.
    Message,
    /// The name of a file whose text is no record: it may be any file.
    FileName,
    /// The file is the log next to the record of the node.
    Log,
}

/// Records that were read, and texts that gave none.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Intake {
    /// Runs of nodes, in the order of the inputs.
    pub runs: Vec<NodeRun>,
    /// Texts without a record.
    pub rejected: Vec<RejectedText>,
    /// Number of records that were given more than once and count once.
    pub duplicates: usize,
    /// Files with records, which no output may replace.
    pub files: Vec<PathBuf>,
}

/// Input as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Name for messages.
    pub source: String,
    /// Node after which the input is named, if it is.
    pub node: Option<String>,
    /// Reason why the input belongs to the node if it is no record.
    pub evidence: Evidence,
    /// Content.
    pub content: String,
}

impl Intake {
    /// Reads files and folders; `-` is standard input. Several threads read, because a record is a long text.
    ///
    /// # Errors
    /// Fails if a named file or folder cannot be read, or if a folder contains no file and is none of `fleet run`.
    pub fn read(paths: &[PathBuf], selection: &FigureSelection<'_>) -> Result<Self, Failure> {
        let mut files: Vec<Input> = Vec::new();
        for path in paths {
            if path == Path::new("-") || !path.is_dir() {
                files.extend(parts::list_inputs(path, true));
                continue;
            }
            let before = files.len();
            walk(path, 0, &mut files)?;
            // A folder of `fleet run` may have reasons only.
            if files.len() == before && !path.join(STATE_FOLDER).is_dir() {
                let shown = legible::path(path);
                return Err(Failure::usage(format!("no file in {shown}"))
                    .hint("give the folder into which the nodes wrote"));
            }
        }
        let logs = logs::find_logs(files.iter().map(|file| file.path.as_path()));
        let next = AtomicUsize::new(0);
        let parts: Mutex<Vec<(usize, Result<Self, Failure>)>> = Mutex::new(Vec::new());
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(files.len());
        let read = || {
            loop {
                let position = next.fetch_add(1, Ordering::Relaxed);
                let Some(file) = files.get(position) else { break };
                let is_log = logs.contains(&file.path);
                let part = Self::read_file(file, is_log, selection);
                let mut all = parts.lock().unwrap_or_else(PoisonError::into_inner);
                all.push((position, part));
            }
        };
        std::thread::scope(|scope| {
            // This thread reads, too, so that other threads are not necessary.
            for _ in 1..threads {
                let _ = std::thread::Builder::new().spawn_scoped(scope, read);
            }
            read();
        });
        let mut parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
        parts.sort_by_key(|(position, _)| *position);
        let mut all = Self::default();
        for (_, part) in parts {
            let part = part?;
            all.runs.extend(part.runs);
            all.files.extend(part.files);
            all.rejected.extend(part.rejected);
        }
        logs::settle(&mut all);
        all.deduplicate();
        Ok(all)
    }

    /// Reads one file. A file that the user named must be readable; a file of a folder is rejected instead.
    fn read_file(
        input: &Input,
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
                let text = Text { source, node: node_from_file_name(path), evidence, content };
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
    pub fn add(&mut self, text: &Text, selection: &FigureSelection<'_>) {
        let content = text.content.strip_prefix('\u{feff}').unwrap_or(&text.content);
        if let Some(records) = array(content) {
            for record in records {
                self.add_value(text, &record.to_string(), selection);
            }
            return;
        }
        // A line of another program may begin with any word and a colon, which is then no name of a node.
        let without_record = !content.contains('{');
        if let Some(reason) = without_record.then(|| other_program(content, selection)).flatten() {
            self.reject_text(text, reason);
            return;
        }
        if content.trim().is_empty() {
            self.reject(text.source.clone(), text.node.clone(), EMPTY.to_owned());
            return;
        }
        let parts = carriers::by_node(content).unwrap_or_else(|| lines::by_node(content));
        if parts.is_empty() {
            self.add_node_output(text, content, selection);
            return;
        }
        for part in parts {
            // `srun --label` puts the number of the task in front, which is not the name of a node.
            let is_number = part.node.bytes().all(|byte| byte.is_ascii_digit());
            let node = (!is_number).then(|| part.node.clone());
            let source = format!("{}, {}", text.source, part.node);
            match part.failure {
                Some(reason) => {
                    let evidence = Evidence::Message;
                    self.reject_for(source, node, reason, evidence);
                }
                None => {
                    // A line without a record may begin with any word and a colon.
                    let has_record = json_start(&part.content).is_some();
                    let evidence = if has_record { Evidence::Record } else { Evidence::Message };
                    let of_node = Text { source, node, evidence, content: String::new() };
                    self.add_node_output(&of_node, &part.content, selection);
                }
            }
        }
    }

    /// Adds the records in the output of one node, or in a file of records.
    fn add_node_output(&mut self, text: &Text, content: &str, selection: &FigureSelection<'_>) {
        let Some(start) = json_start(content) else {
            let reason = other_program(content, selection)
                .unwrap_or_else(|| format!("no record: {}", short(error_or_last_line(content))));
            self.reject_text(text, reason);
            return;
        };
        // A damaged document does not hide those after it.
        for document in parts::documents(&content[start..]) {
            match record::parse(document, selection.registry.former_names()) {
                Ok(record) => self.add_record(&record, text, selection),
                Err(_) => self.add_documents(text, document, selection),
            }
        }
    }

    /// Adds documents that follow each other on one line, or that are followed by text.
    fn add_documents(&mut self, text: &Text, json: &str, selection: &FigureSelection<'_>) {
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
                // Text after a record, e.g. of a logout script. A brace may be a record of another node on the same
                // line, when a carrier joins outputs without a final line break.
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
    fn add_value(&mut self, text: &Text, json: &str, selection: &FigureSelection<'_>) {
        match record::parse(json, selection.registry.former_names()) {
            Ok(record) => self.add_record(&record, text, selection),
            Err(reason) => {
                let carrier: Carrier = serde_json::from_str(json).unwrap_or_default();
                if carrier.schema.is_some() {
                    self.reject(text.source.clone(), text.node.clone(), reason);
                } else if carrier.session_info.is_some() && carrier.runs.is_some() {
                    reframe::add(self, text, json, selection);
                } else if carrier.is_ansible() {
                    ansible::add(self, text, json, selection);
                } else if let Some(minions) = minions(json) {
                    for (node, output) in minions {
                        let source = format!("{}, {node}", text.source);
                        let of_node = Text {
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

    fn add_record(&mut self, record: &Record, text: &Text, selection: &FigureSelection<'_>) {
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

    /// Adds records of the history.
    pub fn add_saved(&mut self, record: &Record, selection: &FigureSelection<'_>) {
        let text = Text {
            source: format!("run {}", record.id),
            node: None,
            evidence: Evidence::Record,
            content: String::new(),
        };
        self.add_record(record, &text, selection);
    }

    /// Rejects a text that is a record, or of which a carrier says that it is that of the node.
    fn reject(&mut self, source: String, node: Option<String>, reason: String) {
        self.reject_for(source, node, reason, Evidence::Record);
    }

    /// Rejects a text. Its name, its node and the reason come from files of other nodes: they stay in one line.
    fn reject_for(
        &mut self,
        source: String,
        node: Option<String>,
        reason: String,
        evidence: Evidence,
    ) {
        let node = node.map(|node| legible::escaped(&node).into_owned());
        let source = legible::escaped(&source).into_owned();
        let reason = legible::escaped(&reason).into_owned();
        self.rejected.push(RejectedText { source, node, reason, evidence });
    }

    /// Rejects a text that is no record.
    fn reject_text(&mut self, text: &Text, reason: String) {
        self.reject_for(text.source.clone(), text.node.clone(), reason, text.evidence);
    }

    /// Removes records that were given more than once: a file of a node and a file of all nodes in one folder.
    pub fn deduplicate(&mut self) {
        let mut seen: HashSet<(String, String)> = HashSet::new();
        let before = self.runs.len();
        self.runs
            .retain(|run| run.id.is_empty() || seen.insert((run.host.clone(), run.id.clone())));
        self.duplicates += before - self.runs.len();
    }
}

/// Fields that distinguish the documents of carriers.
#[derive(Default, Deserialize)]
struct Carrier {
    schema: Option<IgnoredAny>,
    session_info: Option<IgnoredAny>,
    runs: Option<IgnoredAny>,
    changed: Option<IgnoredAny>,
    unreachable: Option<IgnoredAny>,
    stdout: Option<IgnoredAny>,
    msg: Option<IgnoredAny>,
}

impl Carrier {
    fn is_ansible(&self) -> bool {
        self.changed.is_some() && (self.stdout.is_some() || self.msg.is_some())
            || self.unreachable.is_some()
    }
}

/// Returns the elements of a JSON array; `None` if the text is none.
fn array(content: &str) -> Option<Vec<serde_json::Value>> {
    content.trim_start().starts_with('[').then_some(())?;
    let all: Vec<serde_json::Value> = serde_json::from_str(content).ok()?;
    all.iter().all(serde_json::Value::is_object).then_some(all)
}

/// Returns the output of each minion in Salt's JSON, an object of texts by the name of the minion; `None` if the document
/// is no such object.
fn minions(json: &str) -> Option<Vec<(String, String)>> {
    let all: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).ok()?;
    let mut outputs = Vec::new();
    for (node, output) in all {
        let output = match output {
            serde_json::Value::String(output) => output,
            // The minion did not return.
            serde_json::Value::Bool(false) => String::new(),
            _ => return None,
        };
        outputs.push((node, output));
    }
    outputs.iter().any(|(_, output)| output.contains('{')).then_some(outputs)
}

/// Adds the regular files of a folder, sorted by name. Hidden files and folders are left out.
fn walk(folder: &Path, depth: usize, files: &mut Vec<Input>) -> Result<(), Failure> {
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
            Ok(kind) if kind.is_dir() && depth < DEEPEST => walk(&path, depth + 1, files)?,
            Ok(kind) if kind.is_dir() => {}
            _ => files.extend(parts::list_inputs(&path, false)),
        }
    }
    Ok(())
}

/// Endings of files that carriers name after a node.
const ENDINGS: [&str; 6] = [".json", ".jsonl", ".out", ".txt", ".log", ".err"];

/// Returns the name of a file without an ending of carriers.
fn stem(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    Some(ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name))
}

/// Returns the node after which a file may be named.
fn node_from_file_name(path: &Path) -> Option<String> {
    let stem = stem(path)?;
    if logs::STREAMS.contains(&stem) {
        return None;
    }
    // `fleet run` adds the number of a repetition.
    let stem = match stem.rsplit_once('.') {
        Some((host, number)) if number.bytes().all(|b| b.is_ascii_digit()) && number.len() < 3 => {
            host
        }
        _ => stem,
    };
    (stem != "-" && !stem.is_empty()).then(|| stem.to_owned())
}

/// Returns the position of the first line that begins a JSON object.
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

/// Returns the error in the output of a program, or its last line that is not blank; empty if there is none.
pub fn error_or_last_line(output: &str) -> &str {
    let mut lines = output.lines().map(str::trim);
    if let Some(error) = lines.find(|line| line.starts_with("error: ")) {
        return error;
    }
    output.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default()
}

/// Shortens text of other programs for a reason.
fn short(text: &str) -> String {
    const LONGEST_REASON: usize = 100;
    legible::escaped(text.trim()).chars().take(LONGEST_REASON).collect()
}

/// Returns the reason why the output of another program is no record; `None` if no reader recognises the text.
fn other_program(text: &str, selection: &FigureSelection<'_>) -> Option<String> {
    let program = readers::recognise(&readers::all(selection.gauges), text)?;
    Some(format!("output of {program} instead of a record"))
}

#[cfg(test)]
mod tests;
