//! Engine that uses a shared mapping of the file: blocks are copied from and to memory that the kernel keeps consistent
//! with the file. A device error or a full file system raises a signal at the access. [`BusErrorGuard`] catches the
//! signal, and the transfer returns an error.

use super::{Mover, Msync};
use nodegauge_os::{BusErrorGuard, Mapping};
use std::fs::File;
use std::io;
use std::ptr::NonNull;

/// Mapping of a whole file.
pub(crate) struct MappedFile {
    guard: BusErrorGuard,
    msync: Msync,
}

impl MappedFile {
    /// Extends `file` to `bytes` and maps it.
    pub(crate) fn new(file: &File, bytes: u64, msync: Msync) -> io::Result<Self> {
        if file.metadata()?.len() < bytes {
            file.set_len(bytes)?;
        }
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?.max(1);
        let guard = BusErrorGuard::new(Mapping::map_file(file, 0, bytes, true)?)?;
        Ok(Self { guard, msync })
    }

    /// Returns the address of a block.
    fn at(&self, offset: u64, length: usize) -> io::Result<NonNull<u8>> {
        let place = self.guard.mapping().get(offset as usize, length);
        place.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Returns an error if an access has failed since the last call. The signal does not contain the cause: if a write
    /// failed, the file system may be full; otherwise, the device failed.
    fn failure(&self) -> io::Result<()> {
        if self.guard.take_error_flag() {
            Err(io::Error::from_raw_os_error(libc::EIO))
        } else {
            Ok(())
        }
    }
}

impl Mover for MappedFile {
    fn transfer(&mut self, write: bool, offset: u64, block: &mut [u8]) -> io::Result<()> {
        let place = self.at(offset, block.len())?.as_ptr();
        let length = block.len();
        let block = block.as_mut_ptr();
        let (from, to) = if write { (block, place) } else { (place, block) };
        // SAFETY: `at` has checked the range. Only this process uses the file, so that nobody writes to it during the
        // copy. The block does not overlap the mapping.
        unsafe { std::ptr::copy_nonoverlapping(from, to, length) };
        self.failure()
    }

    fn finish(&mut self, wrote: bool) -> io::Result<()> {
        if wrote && self.msync != Msync::None {
            self.guard.mapping().sync(self.msync == Msync::Sync)?;
        }
        self.failure()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_beyond_the_end_of_a_shortened_file_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        let mut mapped = MappedFile::new(&file, 1 << 16, Msync::Sync).unwrap();
        let mut block = vec![0; 8192];
        mapped.transfer(true, 0, &mut [7; 8192]).unwrap();
        mapped.finish(true).unwrap();
        mapped.transfer(false, 0, &mut block).unwrap();
        assert!(block.iter().all(|b| *b == 7));
        file.set_len(0).unwrap();
        let error = mapped.transfer(false, 0, &mut block).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        assert!(mapped.transfer(false, 1 << 16, &mut block).is_err(), "beyond the mapping");
    }
}
