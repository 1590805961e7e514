//! What a compiler made of a function, read from the machine code: how wide the vectors of its hot
//! loop are, whether it stores past the caches, whether it fuses multiply and add, and whether the
//! loop became a call of memcpy or memset.
//!
//! Reads x86-64 shared objects of Linux. Of other processors' code nothing is known, and nothing is
//! claimed.

mod body;
mod image;

use body::Body;
use image::Image;
use std::io;
use std::path::{Path, PathBuf};

/// What a function is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// Bits that one instruction of the hot loop works on: those of a vector, or those of one
    /// element in scalar code; `None` when the function has no loop over data.
    pub vector_bits: Option<u32>,
    /// Whether the hot loop stores past the caches.
    pub nontemporal: bool,
    /// Whether the hot loop has fused multiply-adds.
    pub fma: bool,
    /// Whether the hot loop asks for lines ahead (software prefetch).
    pub prefetch: bool,
    /// The functions that it calls, by name and in the order of the code; `rep movs` and `rep stos`
    /// are the processor's own memcpy and memset, and `?` is a call to where a register says.
    pub calls: Vec<String>,
}

/// A shared object whose code can be read.
#[derive(Debug)]
pub struct SharedObject {
    path: PathBuf,
    data: Vec<u8>,
}

impl SharedObject {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let data = std::fs::read(path).map_err(|cause| {
            io::Error::new(cause.kind(), format!("cannot read {path:?}: {cause}"))
        })?;
        Ok(Self { path: path.to_owned(), data })
    }

    /// What the function `name` is made of; `None` for other processors than x86-64, and when there
    /// is no such function.
    ///
    /// # Errors
    /// When the file is no shared object.
    pub fn code_of(&self, name: &str) -> io::Result<Option<Code>> {
        let image = Image::parse(&self.data).map_err(|cause| {
            io::Error::other(format!("{:?} is no shared object: {cause}", self.path))
        })?;
        let Some(image) = image else { return Ok(None) };
        Ok(image.function(name).map(|function| Body::decode(&image, &function).code(&image)))
    }
}
