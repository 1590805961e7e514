//! What the compilers of this system make of STREAM's loops: compiled on the node, tried in a
//! process of their own, loaded, and run on the arrays and threads of the native kernels by turns.
//!
//! `choice` is what a user asks for, `build` makes and tries a variant, [`proof`] is what the
//! process of its own does, and [`beside`] the protocol.

pub mod beside;
mod build;
mod choice;
pub mod proof;

pub use build::{Variant, Workshop};
pub use choice::{Choice, Chosen};
