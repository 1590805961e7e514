//! Output of Ansible's `--tree DIR`: one file per host with the result of its task; its field `stdout` is the record.

use super::{InputText, Intake, error_or_last_line, short};
use crate::figures::FigureSelection;
use serde::Deserialize;

/// Result of a task of the module `command`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TaskResult {
    stdout: String,
    stderr: String,
    msg: String,
    unreachable: bool,
    rc: Option<i64>,
}

/// Adds the record in the result of a host.
pub(super) fn add(
    intake: &mut Intake,
    text: &InputText,
    json: &str,
    selection: &FigureSelection<'_>,
) {
    let result: TaskResult = serde_json::from_str(json).unwrap_or_default();
    if result.unreachable {
        let reason = format!("unreachable: {}", short(&result.msg));
        intake.reject(text.source.clone(), text.node.clone(), reason);
        return;
    }
    if !result.stdout.contains('{') {
        let line = error_or_last_line(&result.stderr);
        let why = short(if line.is_empty() { &result.msg } else { line });
        let code = result.rc.map(|code| format!("exit code {code}: ")).unwrap_or_default();
        intake.reject(text.source.clone(), text.node.clone(), format!("{code}{why}"));
        return;
    }
    intake.add_node_output(text, &result.stdout, selection);
}
