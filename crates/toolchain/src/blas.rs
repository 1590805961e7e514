//! BLAS libraries of the system. They are searched for in the usual folders, tested in a child process, and loaded
//! at run time; the program itself is not linked to them.
//!
//! [`find`] searches the folders of libraries. `kernels` contains the instruction sets that the kernels of the
//! libraries require. [`probe`] loads a library in a child process, because it may crash. [`BlasLibrary`] is a library
//! that is loaded in this process. Integers are passed in a form that is valid for libraries with 32-bit and with
//! 64-bit integers.

pub mod find;
mod info;
mod kernels;
#[allow(unsafe_code)]
mod library;
pub mod probe;

pub use find::{BlasCandidate, BlasRequest};
pub use info::{BlasInfo, BlasVendor, ProbedBlas};
pub use library::{BlasLibrary, ColumnMajor, ColumnMajorMut, ProductOperands};
pub use probe::BlasProber;
