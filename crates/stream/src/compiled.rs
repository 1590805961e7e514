//! STREAM's loops built by the compilers of this system. The loops are compiled on the node, tested in a separate
//! process and loaded. They run on the arrays and threads of nodegauge's own (native) kernels, interleaved with these.
//!
//! `choice` contains the request of the user, `build` compiles and tests kernels, and [`self_test`] runs in the
//! separate process. `comparison` is the measurement protocol, and `plan` calls the other modules in order.

mod build;
mod choice;
mod comparison;
mod plan;
pub mod self_test;

pub use build::{CompiledKernels, KernelBuilder};
pub use choice::{ChosenCompiler, CompilerChoice, CompilerList};
pub use plan::{
    CompiledPlan, CompiledVariants, check_installed, compile_kernels, compile_limits,
    find_installed, resolve,
};
