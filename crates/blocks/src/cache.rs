//! Page cache: the share of a file in the cache, the removal of a file from the cache, and a test that direct I/O
//! bypasses the cache.

use crate::engine;
use crate::error;
use crate::volume::Volume;
use nodegauge_measure::{Failure, Fraction};
use nodegauge_os::{Buffer, Mapping};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Number of bytes of a file that are mapped at once to determine which of their pages are in the cache.
const WINDOW: u64 = 1 << 30;

/// Returns the share (0 to 1) of a file's pages that are in the page cache, as `mincore` reports it.
fn resident(file: &File) -> io::Result<f64> {
    let bytes = file.metadata()?.len();
    let mut inside = 0;
    let mut pages = 0;
    for at in (0..bytes).step_by(WINDOW as usize) {
        let length = (bytes - at).min(WINDOW) as usize;
        let (resident, all) = Mapping::map_file(file, at, length, false)?.resident_pages()?;
        (inside, pages) = (inside + resident, pages + all);
    }
    Ok(inside as f64 / pages.max(1) as f64)
}

/// Writes the data of a file to the device and asks the kernel to drop the file's pages from the page cache.
/// Returns the share of the file that remains in the page cache.
pub fn drop_pages(path: &Path) -> Result<f64, Failure> {
    try_drop(path)
        .map_err(|cause| error::file_error("cannot drop from the page cache", path, None, cause))
}

fn try_drop(path: &Path) -> io::Result<f64> {
    let file = engine::open(path, false, false, None)?;
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    resident(&file)
}

/// Size of the test file for direct I/O in bytes; larger than the data that a file system may store in an inode.
const TEST_FILE: usize = 256 << 10;
/// Block size of the direct I/O test; a multiple of any alignment that file systems require.
const BLOCK: usize = 64 << 10;

/// Tests direct I/O in `folder`. A file is opened, written and read with direct I/O; afterwards it must not be in
/// the page cache. A file system may refuse direct I/O when the file is opened or at the first transfer. It may
/// also accept direct I/O but still use the page cache. Returns the reason if direct I/O does not work, otherwise
/// `None`.
pub fn test_direct_io(folder: &Path, volume: &Volume) -> Result<Option<Failure>, Failure> {
    let path = folder.join("data-direct");
    let outcome = try_direct(&path);
    // If the file cannot be removed now, it is removed later together with its folder.
    let _ = std::fs::remove_file(&path);
    let why = match outcome {
        Ok(resident) if resident <= 0.5 => return Ok(None),
        Ok(resident) => format!(
            "direct I/O is accepted, but {} of a file written with it is in the page cache",
            Fraction(resident).in_whole_percent()
        ),
        Err((stage, cause)) => match cause.raw_os_error() {
            Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOTTY | libc::ENOSYS) => {
                format!("direct I/O is refused {stage} ({cause})")
            }
            _ => {
                let what = format!("the test of direct I/O failed {stage}:");
                return Err(error::file_error(&what, &path, None, cause));
            }
        },
    };
    let kind = volume.kind.as_deref().unwrap_or("the file system");
    let volume_path = &volume.path;
    Ok(Some(
        Failure::missing(format!("{kind} at {volume_path:?} does not support direct I/O"))
            .cause(why)
            .hint("use --cache fsync, which writes to the device through the page cache"),
    ))
}

fn try_direct(path: &Path) -> Result<f64, (&'static str, io::Error)> {
    let mut memory = Buffer::new(TEST_FILE).map_err(during("for lack of memory"))?;
    memory.fill(0x5a);
    let file = engine::open(path, true, true, None).map_err(during("when a file is opened"))?;
    for (i, block) in memory.chunks(BLOCK).enumerate() {
        file.write_all_at(block, (i * BLOCK) as u64).map_err(during("at the first transfer"))?;
    }
    file.read_exact_at(&mut memory, 0).map_err(during("at the first transfer"))?;
    resident(&file).map_err(during("when the page cache is checked"))
}

/// Returns a function that adds the stage of the test to an error.
fn during(stage: &'static str) -> impl Fn(io::Error) -> (&'static str, io::Error) {
    move |cause| (stage, cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::SysRoot;

    #[test]
    fn cached_pages_are_counted_and_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![1u8; 1 << 20]).unwrap();
        assert_eq!(resident(&File::open(&path).unwrap()).unwrap(), 1.0);
        let volume = Volume::from_folder(folder.path(), &SysRoot::live()).unwrap();
        let left = drop_pages(&path).unwrap();
        assert!(left == 0.0 || volume.is_in_memory() || volume.device.is_none(), "{left}");
        assert_eq!(resident(&tempfile::tempfile().unwrap()).unwrap(), 0.0);
    }

    #[test]
    fn direct_io_works_or_is_refused_with_a_reason() {
        for folder in [tempfile::tempdir(), tempfile::tempdir_in("/dev/shm")] {
            let Ok(folder) = folder else { continue };
            let volume = Volume::from_folder(folder.path(), &SysRoot::live()).unwrap();
            match test_direct_io(folder.path(), &volume) {
                Ok(None) => assert!(!volume.is_in_memory()),
                Ok(Some(why)) => {
                    assert!(why.to_string().contains(" does not support direct I/O: "), "{why}")
                }
                Err(other) => panic!("{other}"),
            }
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
        }
    }
}
