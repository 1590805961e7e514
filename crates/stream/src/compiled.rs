//! STREAM's loops built by the compilers of this system: compiled on the node, tested in a separate process, loaded,
//! and run on the arrays and threads of the native kernels, interleaved with them.
//!
//! `choice` holds the request of the user, `build` compiles and tests kernels, [`self_test`] is the code of the
//! separate process, `comparison` is the measurement protocol, and `plan` calls all of them in order.

mod build;
mod choice;
mod comparison;
mod plan;
pub mod self_test;

pub use build::{CompiledKernels, KernelBuilder};
pub use choice::{ChosenCompiler, CompilerChoice};
pub use plan::{CompiledPlan, Made, find, installed, limits, make, resolve};
