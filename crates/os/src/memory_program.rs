//! Programs and libraries in anonymous memory, for systems on which no folder permits execution.

use crate::mapping::Mapping;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

/// Program or shared library in anonymous memory (memfd). Processes of this user execute or load it by its path, until
/// this value is dropped.
#[derive(Debug)]
pub struct InMemoryProgram {
    /// File that is open for reading only, because the kernel does not execute a file that is open for writing.
    file: File,
}

impl InMemoryProgram {
    /// Copies a program to memory, and checks that the kernel permits its execution.
    ///
    /// # Errors
    /// Fails if there is not enough memory, if `/proc` is missing, and if the kernel or a security module refuses
    /// execution (`vm.memfd_noexec`, SELinux).
    pub fn new(content: &[u8]) -> io::Result<Self> {
        let mut memory = File::from(create()?);
        memory.write_all(content)?;
        let file = File::open(descriptor_path(&memory))?;
        Mapping::check_executable(&file).map_err(io::Error::from)?;
        Ok(Self { file })
    }

    /// Returns the path by which processes of this user execute or load the program.
    pub fn path(&self) -> PathBuf {
        descriptor_path(&self.file)
    }
}

/// Creates a file in memory that may be executed. Linux before 6.3 has no flag for this and always permits
/// execution.
fn create() -> Result<OwnedFd, Errno> {
    const NAME: &std::ffi::CStr = c"nodegauge-program";
    memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::EXEC).or_else(|error| match error {
        Errno::INVAL => memfd_create(NAME, MemfdFlags::CLOEXEC),
        other => Err(other),
    })
}

/// Returns the path by which processes of this user open a file or folder that is open in this process. The path
/// denotes the same file even if the file is renamed.
pub fn descriptor_path(file: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_in_memory_can_be_started_until_dropped() {
        let program = InMemoryProgram::new(&std::fs::read("/bin/true").unwrap()).unwrap();
        let path = program.path();
        assert!(std::process::Command::new(&path).status().unwrap().success());
        drop(program);
        assert!(!path.exists());
    }
}
