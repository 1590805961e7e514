//! MPI library of a compiled program, detected from the shared libraries that the program requires.

use super::MpiLibrary;
use nodegauge_os::mpi_abi::MPI_ABIS;
use nodegauge_os::{MAX_PROGRAM_BYTES, read_file};
use object::read::elf::{Dyn, FileHeader};
use object::{Endianness, elf};
use std::path::Path;

/// Returns the MPI library that `program` requires. Returns `None` if the program requires none, e.g. because it is
/// statically linked or a script, or if it cannot be read.
pub fn required_mpi_library(program: &Path) -> Option<MpiLibrary> {
    let data = read_file(program, MAX_PROGRAM_BYTES).ok()?;
    needed(&data)?.iter().find_map(|name| library_by_file(name))
}

/// Returns the MPI library with this file name; `None` for other libraries.
fn library_by_file(name: &str) -> Option<MpiLibrary> {
    for abi in &MPI_ABIS {
        let Some(own) = &abi.implementation else { continue };
        if abi.files.iter().chain(own.other_files).any(|file| name.starts_with(file)) {
            return Some(MpiLibrary::from_implementation(own));
        }
    }
    None
}

/// Returns the names of the shared libraries that an ELF program requires; `None` for programs of another word
/// size.
fn needed(data: &[u8]) -> Option<Vec<String>> {
    let header = elf::FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let (entries, link) = sections.dynamic(endian, data).ok()??;
    let strings = sections.strings(endian, data, link).ok()?;
    let mut names = Vec::new();
    for entry in entries.iter().filter(|entry| entry.tag32(endian) == Some(elf::DT_NEEDED)) {
        let name = entry.val32(endian).and_then(|at| strings.get(at).ok());
        names.extend(name.map(|name| String::from_utf8_lossy(name).into_owned()));
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_libraries_of_program_are_read() {
        let me = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(needed(&me).unwrap().iter().any(|name| name.starts_with("libc.so")));
        assert_eq!(needed(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn mpi_family_is_detected_from_file_name() {
        let family = |name: &str| library_by_file(name).map(|library| library.family.library);
        assert_eq!(family("libmpi.so.40"), Some("Open MPI"));
        assert_eq!(family("libmpich.so.12"), Some("MPICH"));
        assert_eq!(family("libmpi_mpifh.so.40"), Some("Open MPI"));
        assert_eq!(family("libmpichfort.so.12"), Some("MPICH"));
        assert_eq!(family("libmpifort.so.12"), Some("MPICH"));
        assert_eq!(family("libm.so.6"), None);
    }
}
