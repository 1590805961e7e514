//! The page cache: which part of a file is in it, dropping that part, and whether direct I/O really
//! goes past it.

use crate::FilesError;
use crate::engine::{self, Access};
use crate::volume::Volume;
use nodegauge_os::{Buffer, Mapping};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Part of a file that is mapped at once to look at its pages.
const WINDOW: u64 = 1 << 30;

/// Share of a file's pages that are in the page cache, 0 to 1, as `mincore` says.
///
/// # Errors
/// When the file cannot be mapped.
pub fn resident(file: &File) -> io::Result<f64> {
    let bytes = file.metadata()?.len();
    let (mut pages, mut inside) = (0, 0);
    let mut at = 0;
    while at < bytes {
        let length = (bytes - at).min(WINDOW) as usize;
        let (resident, all) = Mapping::of_file(file, at, length, false)?.resident_pages()?;
        inside += resident;
        pages += all;
        at += length as u64;
    }
    Ok(if pages == 0 { 0.0 } else { inside as f64 / pages as f64 })
}

/// Writes a file's data out and asks the kernel to forget its pages; the share that is still in the
/// page cache afterwards.
///
/// # Errors
/// When the data cannot be written out.
pub fn drop_pages(path: &Path) -> Result<f64, FilesError> {
    let fail = |cause| FilesError::io("cannot drop from the page cache", path, cause);
    let file = Access::default().open(path).map_err(fail)?;
    engine::fsync(&file).map_err(fail)?;
    // SAFETY: gives advice about an open file; 0 bytes mean to its end.
    let advised = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    if advised != 0 {
        return Err(fail(io::Error::from_raw_os_error(advised)));
    }
    resident(&file).map_err(fail)
}

/// Bytes of the file that proves direct I/O: beyond what a file system may keep in its inode.
const PROOF: usize = 256 << 10;
/// Direct I/O is given in blocks that are a multiple of this everywhere.
const ALIGNED: usize = 4096;

/// Proves direct I/O in `folder`: a file is opened, written and read past the page cache, and then
/// must not be in it. A file system may refuse when the file is opened, at the first transfer, or
/// not at all and use the page cache nevertheless.
///
/// # Errors
/// When direct I/O is refused or not carried out, with how that showed.
pub fn prove_direct(folder: &Path, volume: &Volume) -> Result<(), FilesError> {
    let path = folder.join("data-direct");
    let refused = |why: String| FilesError::NoDirect {
        path: volume.path.clone().into(),
        file_system: volume.kind.clone().unwrap_or_else(|| "the file system".to_owned()),
        why,
    };
    let outcome = try_direct(&path);
    // Whatever came of it, the file has served; what cannot be removed goes with its folder.
    let _ = std::fs::remove_file(&path);
    match outcome {
        Ok(resident) if resident <= 0.5 => Ok(()),
        Ok(resident) => Err(refused(format!(
            "it is accepted, but {:.0} % of a file written that way are in the page cache",
            resident * 100.0
        ))),
        Err((stage, cause)) => match cause.raw_os_error() {
            Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOTTY | libc::ENOSYS) => {
                Err(refused(format!("refused {stage} ({cause})")))
            }
            _ => Err(FilesError::io(format!("cannot try direct I/O {stage}"), &path, cause)),
        },
    }
}

fn try_direct(path: &Path) -> Result<f64, (&'static str, io::Error)> {
    let direct = Access { direct: true, sync: None };
    let mut memory = Buffer::new(PROOF).map_err(|cause| ("for want of memory", cause))?;
    memory.fill(0x5a);
    let file = direct.create(path).map_err(|cause| ("when a file is opened", cause))?;
    for at in (0..PROOF).step_by(ALIGNED * 16) {
        engine::sync::write_at(file.as_raw_fd(), at as u64, &memory[at..at + ALIGNED * 16])
            .map_err(|cause| ("at the first transfer", cause))?;
    }
    engine::sync::read_at(file.as_raw_fd(), 0, &mut memory)
        .map_err(|cause| ("at the first transfer", cause))?;
    resident(&file).map_err(|cause| ("when the page cache is looked at", cause))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::SysRoot;

    #[test]
    fn pages_are_seen_and_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![1u8; 1 << 20]).unwrap();
        assert_eq!(resident(&File::open(&path).unwrap()).unwrap(), 1.0);
        let volume = Volume::of(folder.path(), &SysRoot::live()).unwrap();
        let left = drop_pages(&path).unwrap();
        assert!(left == 0.0 || volume.is_in_memory() || volume.device.is_none(), "{left}");
        assert_eq!(resident(&tempfile::tempfile().unwrap()).unwrap(), 0.0);
    }

    #[test]
    fn direct_is_proven_or_refused_with_a_reason() {
        for folder in [tempfile::tempdir(), tempfile::tempdir_in("/dev/shm")] {
            let Ok(folder) = folder else { continue };
            let volume = Volume::of(folder.path(), &SysRoot::live()).unwrap();
            match prove_direct(folder.path(), &volume) {
                Ok(()) => assert!(!volume.is_in_memory()),
                Err(FilesError::NoDirect { why, .. }) => assert!(!why.is_empty()),
                Err(other) => panic!("{other}"),
            }
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
        }
    }
}
