//! Which MPI a finished program was linked with, by the libraries that it names.

use super::{LauncherKind, MpiLibrary};
use object::read::elf::{Dyn, FileHeader};
use object::{Endianness, elf};
use std::path::Path;

/// The MPI that `program` needs; `None` when it names none (linked statically, or a script) or
/// cannot be read.
pub fn library_of_program(program: &Path) -> Option<MpiLibrary> {
    let data = std::fs::read(program).ok()?;
    needed(&data)?.iter().find_map(|name| library_by_file(name))
}

/// The library whose file has this name. Open MPI numbers its libmpi 12 (versions 1.7 to 1.10), 20
/// (2) and 40 (3 to 5); MPICH's ABI has libmpi.so.12 too, which since 2014 is the likelier.
fn library_by_file(name: &str) -> Option<MpiLibrary> {
    let of = |files: [&str; 2]| files.iter().any(|file| name.starts_with(file));
    let (family, said) = if of(["libmpi.so.40", "libmpi.so.20"]) {
        (LauncherKind::OpenMpi, "Open MPI")
    } else if of(["libmpich.so", "libmpi.so.12"]) {
        (LauncherKind::Hydra, "MPICH")
    } else {
        return None;
    };
    Some(MpiLibrary { family, name: said.to_owned(), version: None })
}

/// The libraries that an ELF program of this machine's word size names.
fn needed(data: &[u8]) -> Option<Vec<String>> {
    let header = elf::FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let (entries, strings) = sections.dynamic(endian, data).ok()??;
    let strings = sections.strings(endian, data, strings).ok()?;
    let names = entries.iter().filter(|entry| entry.tag32(endian) == Some(elf::DT_NEEDED));
    let name = |entry: &elf::Dyn64<_>| strings.get(entry.val32(endian)?).ok();
    Some(names.filter_map(name).map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_that_a_program_names_are_read() {
        let me = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(needed(&me).unwrap().iter().any(|name| name.starts_with("libc.so")));
        assert_eq!(needed(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn files_of_libraries_tell_the_family() {
        let family = |name: &str| library_by_file(name).map(|library| library.family);
        assert_eq!(family("libmpi.so.40"), Some(LauncherKind::OpenMpi));
        assert_eq!(family("libmpich.so.12"), Some(LauncherKind::Hydra));
        assert_eq!(family("libm.so.6"), None);
    }
}
