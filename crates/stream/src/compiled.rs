//! STREAM's loops by the compilers of this system: compiled on the node, tested in a process of their own, loaded,
//! and run on the arrays and threads of the native kernels, interleaved.
//!
//! `choice` is what a user asks for, `build` makes and tests kernels, [`self_test`] is what the
//! process of its own does, `comparison` the protocol, and `plan` all of it in order.

mod build;
mod choice;
mod comparison;
mod plan;
pub mod self_test;

pub use build::{CompiledKernels, KernelBuilder};
pub use choice::{ChosenCompiler, CompilerChoice};
pub use plan::{CompiledPlan, Made, find, installed, limits, make, resolve};
