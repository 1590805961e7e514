//! Error checks of foreign calls. An error contains the name of the call and the error number.

use std::io;

/// Error of a failed system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {}", io::Error::from_raw_os_error(*.errno))]
pub struct SysError {
    /// Name of the call, e.g. `mbind`.
    pub call: &'static str,
    /// Error number.
    pub errno: i32,
}

impl SysError {
    /// Returns the error of the call that has just failed on this thread.
    pub(crate) fn last(call: &'static str) -> Self {
        Self { call, errno: io::Error::last_os_error().raw_os_error().unwrap_or(0) }
    }
}

impl From<SysError> for io::Error {
    fn from(error: SysError) -> Self {
        Self::from_raw_os_error(error.errno)
    }
}

/// Checks the result of a call. The result -1 means an error, whose number is in `errno`.
///
/// # Errors
/// Fails if the call failed.
pub fn check<T: PartialEq + From<i8>>(call: &'static str, result: T) -> Result<T, SysError> {
    if result == T::from(-1) { Err(SysError::last(call)) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_system_call() {
        let error = SysError { call: "mbind", errno: libc::EINVAL };
        assert_eq!(error.to_string(), "mbind: Invalid argument (os error 22)");
        assert_eq!(io::Error::from(error).raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn result_of_minus_one_is_an_error() {
        assert_eq!(check("read", 0), Ok(0));
        assert_eq!(check("read", -2), Ok(-2));
        // SAFETY: the descriptor does not exist, so that closing it changes nothing.
        let error = check("close", unsafe { libc::close(-1) }).unwrap_err();
        assert_eq!(error, SysError { call: "close", errno: libc::EBADF });
    }
}
