//! Text that describes how a process ended.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Returns a text such as `exit status 1` or `signal 11 (segmentation fault)`.
pub fn describe_exit_status(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(number)) => signal(number),
        (None, None) => status.to_string(),
    }
}

/// Returns a text for the status of a launcher, which reports a killed process as 128 plus the signal number.
pub fn describe_launcher_status(status: ExitStatus) -> String {
    match status.code() {
        Some(code) if code > 128 => format!("exit status {code}: {}", signal(code - 128)),
        _ => describe_exit_status(status),
    }
}

/// True if a program, or a process of a launcher, was killed because it accessed memory that it does not have.
pub fn is_memory_fault(status: ExitStatus, is_launched: bool) -> bool {
    match status.code() {
        Some(code) => is_launched && code == 128 + libc::SIGSEGV,
        None => status.signal() == Some(libc::SIGSEGV),
    }
}

fn signal(number: i32) -> String {
    let name = match number {
        libc::SIGILL => " (illegal instruction)",
        libc::SIGABRT => " (abort)",
        libc::SIGBUS => " (bus error)",
        libc::SIGFPE => " (arithmetic error)",
        libc::SIGKILL => " (killed, possibly out of memory)",
        libc::SIGSEGV => " (segmentation fault)",
        _ => "",
    };
    format!("signal {number}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_status_and_signal_are_described() {
        assert_eq!(describe_exit_status(ExitStatus::from_raw(3 << 8)), "exit status 3");
        assert_eq!(
            describe_exit_status(ExitStatus::from_raw(11)),
            "signal 11 (segmentation fault)"
        );
        assert_eq!(describe_exit_status(ExitStatus::from_raw(1)), "signal 1");
        assert_eq!(
            describe_launcher_status(ExitStatus::from_raw(134 << 8)),
            "exit status 134: signal 6 (abort)"
        );
        assert_eq!(describe_launcher_status(ExitStatus::from_raw(1 << 8)), "exit status 1");
    }
    #[test]
    fn memory_fault_is_recognised() {
        let fault = ExitStatus::from_raw(libc::SIGSEGV);
        let of_launcher = ExitStatus::from_raw((128 + libc::SIGSEGV) << 8);
        assert!(is_memory_fault(fault, false) && is_memory_fault(of_launcher, true));
        assert!(!is_memory_fault(of_launcher, false));
        assert!(!is_memory_fault(ExitStatus::from_raw(libc::SIGABRT), false));
    }
}
