//! What the compilers of this system make of STREAM's loops: compiled on the node, tried in a
//! process of their own, loaded, and run on the arrays and threads of the native kernels by turns.
//!
//! `choice` is what a user asks for, `build` makes and tests kernels, [`self_test`] is what the
//! process of its own does, and [`comparison`] the protocol.

mod build;
mod choice;
pub mod comparison;
pub mod self_test;

pub use build::{CompiledKernels, KernelBuilder};
pub use choice::{ChosenCompiler, CompilerChoice};
