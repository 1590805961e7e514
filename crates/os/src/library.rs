//! Shared libraries that are loaded at run time.

use libloading::os::unix;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::path::Path;

/// Loaded library of C functions. It is never unloaded, because its threads and handlers could otherwise run code that
/// no longer exists.
#[derive(Debug)]
pub struct SharedLibrary {
    handle: ManuallyDrop<unix::Library>,
}

/// Error for a library that cannot be loaded, with the message of the dynamic linker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LoadError(pub String);

impl SharedLibrary {
    /// Loads a library by its path or its file name. The dynamic linker searches for a file name, first in
    /// `LD_LIBRARY_PATH`.
    ///
    /// # Errors
    /// Returns the message of the dynamic linker.
    ///
    /// # Safety
    /// Loading runs the initialisation code of the library. A library that may crash must first be loaded in a child
    /// process.
    pub unsafe fn open(name: impl AsRef<Path>) -> Result<Self, LoadError> {
        // SAFETY: the caller guarantees the requirements of this function.
        unsafe { Self::open_as(name.as_ref(), unix::RTLD_LOCAL) }
    }

    /// Loads a library; `scope` is the scope of its symbols.
    ///
    /// # Safety
    /// The requirements of [`SharedLibrary::open`] apply.
    unsafe fn open_as(name: &Path, scope: c_int) -> Result<Self, LoadError> {
        // SAFETY: the caller guarantees the requirements of this function.
        let library = unsafe { unix::Library::open(Some(name), unix::RTLD_NOW | scope) };
        let handle = library.map_err(|cause| LoadError(cause.to_string()))?;
        Ok(Self { handle: ManuallyDrop::new(handle) })
    }

    /// Loads the first library of a list that can be loaded, e.g. one of several versions.
    ///
    /// # Errors
    /// Returns the message of the dynamic linker about the first library.
    ///
    /// # Safety
    /// The requirements of [`SharedLibrary::open`] apply.
    pub unsafe fn open_first(names: &[&str]) -> Result<Self, LoadError> {
        // SAFETY: the caller guarantees the requirements of this function.
        unsafe { Self::open_first_as(names, unix::RTLD_LOCAL) }
    }

    /// Loads the first library of a list that can be loaded. Its symbols are global, because plug-ins of the library
    /// need them.
    ///
    /// # Errors
    /// Returns the same errors as [`SharedLibrary::open_first`].
    ///
    /// # Safety
    /// The requirements of [`SharedLibrary::open`] apply.
    pub unsafe fn open_first_global(names: &[&str]) -> Result<Self, LoadError> {
        // SAFETY: the caller guarantees the requirements of this function.
        unsafe { Self::open_first_as(names, unix::RTLD_GLOBAL) }
    }

    /// Loads the first library of a list that can be loaded; `scope` is the scope of its symbols.
    ///
    /// # Safety
    /// The requirements of [`SharedLibrary::open`] apply.
    unsafe fn open_first_as(names: &[&str], scope: c_int) -> Result<Self, LoadError> {
        let mut error = None;
        for name in names {
            // SAFETY: the caller guarantees the requirements of this function.
            match unsafe { Self::open_as(name.as_ref(), scope) } {
                Ok(library) => return Ok(library),
                Err(cause) => error = error.or(Some(cause)),
            }
        }
        Err(error.unwrap_or_else(|| LoadError("no library name was given".to_owned())))
    }

    /// Returns the address of the symbol `name`, if it exists.
    pub fn address(&self, name: &str) -> Option<usize> {
        // SAFETY: every symbol has an address, and nothing is read from this address.
        unsafe {
            self.handle
                .get::<*const ()>(name.as_bytes())
                .ok()
                .map(|symbol| symbol.into_raw() as usize)
        }
    }

    /// Returns the function `name`, if it exists.
    ///
    /// # Safety
    /// `F` must be a function pointer type that matches the symbol.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: the caller guarantees that the type matches the symbol.
        unsafe { self.handle.get::<F>(name.as_bytes()).ok().map(|symbol| *symbol) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_functions_are_found_by_name() {
        // SAFETY: the C library is already loaded, and `abs` has this type.
        unsafe {
            let library = SharedLibrary::open_first(&["libnone.so.0", "libc.so.6"]).unwrap();
            let abs = library.function::<unsafe extern "C" fn(i32) -> i32>("abs").unwrap();
            assert_eq!(abs(-3), 3);
            assert!(library.function::<usize>("no_such_function").is_none());
            assert!(
                SharedLibrary::open_first(&["libnone.so.0"]).unwrap_err().0.contains("libnone")
            );
        }
    }
}
