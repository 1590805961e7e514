//! BLAS libraries of the site: found in the usual places, probed in a process of their own, loaded
//! at run time, never linked.
//!
//! [`find`] knows where libraries lie, `kernels` which of their kernels a processor can run, [`probe`] loads one in a
//! child process that may crash, and [`BlasLibrary`] is one that is used. Integers are passed so that libraries of 32- and of 64-bit
//! integers both understand them.

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
