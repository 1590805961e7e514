//! Limit of the stack of programs (`ulimit -s`). A program with large local arrays, such as a Fortran program that is
//! compiled with OpenMP, is killed by SIGSEGV when it exceeds the limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Limit of the stack of a process, bytes; `None` without a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackLimit {
    /// Limit that the kernel enforces, in bytes.
    pub soft: Option<u64>,
    /// Largest value to which an unprivileged process can set the soft limit, in bytes.
    pub hard: Option<u64>,
}

impl StackLimit {
    /// Returns the limit of this process, which programs inherit.
    pub fn current() -> Self {
        let Rlimit { current, maximum } = getrlimit(Resource::Stack);
        Self { soft: current, hard: maximum }
    }

    /// Returns the limit with the soft limit raised to the hard limit.
    #[must_use]
    pub fn with_raised_soft_limit(self) -> Self {
        Self { soft: self.hard, ..self }
    }

    /// Makes `command` start with this limit. If the kernel refuses the limit, the start of the command fails.
    pub fn apply_to(self, command: &mut Command) {
        let limit = Rlimit { current: self.soft, maximum: self.hard };
        let enter = move || Ok(setrlimit(Resource::Stack, limit)?);
        // SAFETY: between fork and exec, the closure only makes a system call with memory that exists already; it
        // neither allocates nor takes a lock.
        unsafe { command.pre_exec(enter) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    /// Returns the soft limit in KiB, or `unlimited`, as a shell with this limit prints it.
    fn printed(limit: StackLimit) -> String {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -s"]).stdin(Stdio::null());
        limit.apply_to(&mut command);
        String::from_utf8(command.output().unwrap().stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn child_has_given_stack_limit() {
        let current = StackLimit::current();
        let in_words = |limit: Option<u64>| {
            limit.map_or("unlimited".to_owned(), |bytes| (bytes >> 10).to_string())
        };
        assert_eq!(printed(current), in_words(current.soft));
        assert_eq!(printed(current.with_raised_soft_limit()), in_words(current.hard));
        let low = StackLimit { soft: Some(4 << 20), hard: Some(6 << 20) };
        assert_eq!(printed(low), "4096");
        assert_eq!(printed(low.with_raised_soft_limit()), "6144");
        assert_eq!(StackLimit::current(), current);
    }
}
