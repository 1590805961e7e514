//! Analysis of a compiled function from its machine code: vector width of the hot loop, non-temporal
//! stores, fused multiply-add, and calls of memcpy or memset that replace the loop.
//!
//! Only x86-64 shared objects of Linux are supported.

mod body;
mod image;

use body::FunctionBody;
use image::SharedObjectImage;
use nodegauge_os::{MAX_PROGRAM_BYTES, read_file};
use std::io;
use std::path::{Path, PathBuf};

/// Properties of a function's machine code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeProperties {
    /// Number of bits that one instruction of the hot loop processes: the width of a vector, or of one element in
    /// scalar code. `None` if no loop of the function accesses data.
    pub vector_bits: Option<u32>,
    /// True if the hot loop has non-temporal stores.
    pub nontemporal: bool,
    /// True if the hot loop has fused multiply-adds.
    pub fma: bool,
    /// True if the hot loop has software prefetches.
    pub prefetch: bool,
    /// Names of the called functions, in the order of the code. `rep movs` and `rep stos` denote instructions that
    /// work like memcpy and memset; `?` denotes a call through a register.
    pub calls: Vec<String>,
}

/// Shared object whose code is analysed.
#[derive(Debug)]
pub struct SharedObject {
    path: PathBuf,
    data: Vec<u8>,
}

impl SharedObject {
    /// Reads a shared object from a file.
    ///
    /// # Errors
    /// Fails when the file cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let data = read_file(path, MAX_PROGRAM_BYTES).map_err(|cause| {
            io::Error::new(cause.kind(), format!("cannot read {path:?}: {cause}"))
        })?;
        Ok(Self { path: path.to_owned(), data })
    }

    /// Returns the properties of the function `name`; `None` if the function is missing or the object is
    /// not for x86-64.
    ///
    /// # Errors
    /// Fails when the file is not a shared object.
    pub fn function_code(&self, name: &str) -> io::Result<Option<CodeProperties>> {
        let image = SharedObjectImage::parse(&self.data).map_err(|cause| {
            io::Error::other(format!("{:?} is not a shared object: {cause}", self.path))
        })?;
        let Some(image) = image else { return Ok(None) };
        Ok(image
            .function(name)
            .map(|function| FunctionBody::decode(&image, &function).code(&image)))
    }
}
