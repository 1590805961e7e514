//! Tests with real compilers and programs that succeed, fail, crash, hang or print too much.
#![allow(clippy::unwrap_used)]

use nodegauge_measure::Failure;
use nodegauge_toolchain::{
    ChildEnd, CommandLine, Compiler, Job, KillReason, ScratchFolder, ToolchainError, run,
};
use std::path::Path;
use std::time::{Duration, Instant};

fn never() -> bool {
    false
}

/// Compiles a program and returns a job that runs the program.
fn job(scratch: &ScratchFolder, source: &str, limit: Duration) -> Result<Job, ToolchainError> {
    let file = scratch.path().join("program.c");
    std::fs::write(&file, source).unwrap();
    let compiler = Compiler::find("gcc -O1".parse().unwrap(), LONG, &never)?;
    assert!(compiler.version.as_ref().is_some_and(|version| version.contains("gcc")));
    let program = compiler.compile(
        LONG,
        &[&file],
        &["-DWORD=\"well\"".to_owned()],
        scratch,
        "program",
        &never,
    )?;
    Ok(Job {
        folder: scratch.path().to_owned(),
        environment: vec![("GIVEN".to_owned(), Some("7".to_owned())), ("HOME".to_owned(), None)],
        ..Job::new(CommandLine::new(program.path.display().to_string(), []), limit)
    })
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn successful_program_returns_output() {
    let scratch = ScratchFolder::new().unwrap();
    let folder = scratch.path().to_owned();
    let source = r#"#include <stdio.h>
        #include <stdlib.h>
        int main(void) { printf("%s %s %d\n", WORD, getenv("GIVEN"), getenv("HOME") == 0); return 0; }"#;
    let job = job(&scratch, source, LONG).unwrap();
    assert_eq!(job.successful_stdout(run(&job, &never).unwrap()).unwrap(), "well 7 1\n");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    drop(scratch);
    assert!(!folder.exists());
}

#[test]
fn failed_compilation_is_reported_with_errors() {
    let scratch = ScratchFolder::new().unwrap();
    let error = job(&scratch, "int main(void) { return nothing; }", LONG).unwrap_err().to_string();
    assert!(error.starts_with("gcc -O1 "), "{error}");
    assert!(
        error.contains("fails (exit status 1):") && error.contains("'nothing' undeclared"),
        "{error}"
    );
}

#[test]
fn missing_compiler_is_reported() {
    let command = "no-such-cc -O3".parse().unwrap();
    let error = Compiler::find(command, LONG, &never).unwrap_err();
    assert!(matches!(&error, ToolchainError::NoCompiler { program } if program == "no-such-cc"));
    assert!(Failure::from(error).to_string().contains("hint: install it"));
}

#[test]
fn crash_and_failure_are_reported_with_last_output() {
    let scratch = ScratchFolder::new().unwrap();
    let source = r#"#include <stdio.h>
        #include <signal.h>
        int main(void) { fprintf(stderr, "about to fall\n"); raise(SIGSEGV); return 0; }"#;
    let crash = job(&scratch, source, LONG).unwrap();
    let error = crash.successful_stdout(run(&crash, &never).unwrap()).unwrap_err().to_string();
    assert!(
        error.ends_with("ended with signal 11 (segmentation fault):\nabout to fall"),
        "{error}"
    );
    let failing = job(&scratch, "int main(void) { return 9; }", LONG).unwrap();
    let failed_error =
        failing.successful_stdout(run(&failing, &never).unwrap()).unwrap_err().to_string();
    assert!(failed_error.ends_with("ended with exit status 9"), "{failed_error}");
}

/// Source of a program that starts a child and prints the child's process ID. Neither of them ends.
const HANGS: &str = r#"#include <stdio.h>
    #include <unistd.h>
    int main(void) {
        int child = fork();
        if (child == 0) for (;;) pause();
        printf("%d\n", child); fflush(stdout);
        for (;;) pause();
    }"#;

/// True if a process with this ID is running; a zombie is not running.
fn is_running(number: &str) -> bool {
    std::fs::read_to_string(Path::new("/proc").join(number).join("stat"))
        .is_ok_and(|stat| !stat.contains(") Z "))
}

fn is_gone(number: &str) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    while is_running(number) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    !is_running(number)
}

#[test]
fn hanging_program_is_killed_with_children() {
    let scratch = ScratchFolder::new().unwrap();
    let job = job(&scratch, HANGS, Duration::from_millis(300)).unwrap();
    let output = run(&job, &never).unwrap();
    assert_eq!(output.end, ChildEnd::Killed(KillReason::TimedOut));
    assert!(is_gone(output.stdout.trim()), "child {} still runs", output.stdout);
    let error = job.successful_stdout(output).unwrap_err().to_string();
    assert!(error.contains("took longer than 0.3 s and was killed"), "{error}");
}

#[test]
fn interrupted_program_is_killed_with_children() {
    let scratch = ScratchFolder::new().unwrap();
    let job = job(&scratch, HANGS, LONG).unwrap();
    let started = Instant::now();
    let output = run(&job, &|| started.elapsed() > Duration::from_millis(300)).unwrap();
    assert_eq!(output.end, ChildEnd::Killed(KillReason::Interrupted));
    assert!(is_gone(output.stdout.trim()));
    assert!(matches!(job.successful_stdout(output), Err(ToolchainError::Interrupted)));
}

#[test]
fn processes_left_by_program_are_killed() {
    let scratch = ScratchFolder::new().unwrap();
    let source = HANGS.replace("for (;;) pause();\n    }", "return 0; }");
    let job = job(&scratch, &source, LONG).unwrap();
    let output = job.successful_stdout(run(&job, &never).unwrap()).unwrap();
    assert!(is_gone(output.trim()));
}

#[test]
fn program_with_endless_output_is_killed() {
    let scratch = ScratchFolder::new().unwrap();
    let source = r#"#include <stdio.h>
        int main(void) { for (;;) puts("more and more and more and more"); }"#;
    let job = Job { output_limit: 1 << 20, ..job(&scratch, source, LONG).unwrap() };
    let output = run(&job, &never).unwrap();
    assert_eq!(output.end, ChildEnd::Killed(KillReason::TooMuchOutput));
    assert_eq!(output.stdout.len(), 1 << 20);
    let error = Failure::from(job.successful_stdout(output).unwrap_err()).to_string();
    assert!(error.contains(" printed more than 1 MiB and was killed\nhint: "), "{error}");
}
