//! BLAS libraries of the site: found in the usual places, probed in a child process, loaded at run time,
//! never linked.
//!
//! [`find`] searches the folders of libraries. `kernels` holds the instruction sets that their kernels
//! require. [`probe`] loads a library in a child process, which may crash. [`BlasLibrary`] is a library
//! that is loaded in this process. Integers are passed in a form that is valid for libraries with 32-bit
//! and with 64-bit integers.

pub mod find;
mod info;
mod kernels;
#[allow(unsafe_code)]
mod library;
pub mod probe;

pub use find::{BlasCandidate, BlasRequest};
pub use info::{BlasInfo, ProbedBlas, Vendor};
pub use library::{BlasLibrary, Columns, ColumnsMut, Product};
pub use probe::BlasProber;
