//! Result of a command, with methods that check it.

use crate::fields::{faults, is_record};
use serde_json::Value;
use std::process::Output;

/// Result of a command.
#[derive(Clone)]
pub struct Outcome {
    words: String,
    /// Description of how the command ended, e.g. the signal.
    status: String,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// Creates the result of a command line. `code` is `None` if a signal ended it.
    pub fn new(words: String, code: Option<i32>, stdout: String, stderr: String) -> Self {
        let status = code.map_or("killed by a signal".to_owned(), |code| code.to_string());
        Self { words, status, code, stdout, stderr }
    }

    /// Creates the result of a command line from the output of its process.
    pub fn from_output(words: String, output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let new =
            Self::new(words, output.status.code(), text(&output.stdout), text(&output.stderr));
        Self { status: output.status.to_string(), ..new }
    }

    /// Fails the test and prints the command, its status and its output.
    #[track_caller]
    pub fn fail(&self, why: &str) -> ! {
        let Self { words, status, stdout, stderr, .. } = self;
        panic!(
            "{why}\n--- command\n{words}\n--- status {status}\n--- stdout\n{stdout}--- stderr\n{stderr}---"
        )
    }

    /// Checks the exit code. A panic is always a failure.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        if self.stderr.contains("panicked at") {
            self.fail("the program panicked");
        }
        if self.code != Some(code) {
            self.fail(&format!("expected exit code {code}"));
        }
        self
    }

    /// Checks that standard output contains `text`.
    #[track_caller]
    pub fn prints(self, text: &str) -> Self {
        if !self.stdout.contains(text) {
            self.fail(&format!("expected on standard output:\n{text}"));
        }
        self
    }

    /// Checks that standard output contains these words in this order, regardless of line breaks and padding.
    #[track_caller]
    pub fn prints_words(self, words: &str) -> Self {
        let reported = self.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        if !reported.contains(words) {
            self.fail(&format!("expected on standard output, in words:\n{words}"));
        }
        self
    }

    /// Checks that standard output does not contain `text`.
    #[track_caller]
    pub fn never_prints(self, text: &str) -> Self {
        if self.stdout.contains(text) {
            self.fail(&format!("not expected on standard output:\n{text}"));
        }
        self
    }

    /// Checks that standard error contains `text`.
    #[track_caller]
    pub fn warns(self, text: &str) -> Self {
        if !self.stderr.contains(text) {
            self.fail(&format!("expected on standard error:\n{text}"));
        }
        self
    }

    /// Checks that standard error contains exactly this error, and that standard output is empty.
    #[track_caller]
    pub fn only_error(self, message: &str) -> Self {
        if self.stderr != format!("error: {message}\n") {
            self.fail(&format!("expected on standard error, alone:\nerror: {message}"));
        }
        self.prints_nothing()
    }

    /// Checks that standard output is empty.
    #[track_caller]
    pub fn prints_nothing(self) -> Self {
        if !self.stdout.is_empty() {
            self.fail("expected nothing on standard output");
        }
        self
    }

    /// Checks that standard error is empty.
    #[track_caller]
    pub fn warns_nothing(self) -> Self {
        // On a busy machine, any command may take more than 30 s, and then prints a progress line.
        let is_progress = |line: &str| {
            let time = line.split_once(": ").and_then(|(_, rest)| rest.split_once(" s"));
            time.is_some_and(|(time, _)| time.parse::<u32>().is_ok_and(|seconds| seconds >= 30))
        };
        if !self.stderr.lines().all(is_progress) {
            self.fail("expected nothing on standard error");
        }
        self
    }

    /// Parses standard output as a JSON document. A record must follow the schema.
    #[track_caller]
    pub fn json(&self) -> Value {
        let document: Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| self.fail(&format!("standard output is not JSON: {error}")));
        let faults = if is_record(&document) { faults(&document) } else { Vec::new() };
        if !faults.is_empty() {
            self.fail(&format!("the record does not follow the schema: {}", faults.join("; ")));
        }
        document
    }
}
