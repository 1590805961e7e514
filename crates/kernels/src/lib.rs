//! Kernels: the table of kernels ([`KERNELS`]), the shapes of loops ([`KernelShape`]), and the compiled loops
//! ([`Variant`] for passes over long arrays, [`ResidentLoop`] for data that stays in a cache).
//!
//! The loops are written once, in `pass`, generic over the vectors of `vector` and the kernel's operation on
//! vectors (`bodies`). `builds` lists the compiled combinations; `variants` returns only loops whose instruction
//! set the processor has. The loops contain no branches that depend on the configuration.

mod bodies;
mod builds;
mod entry;
mod four;
pub mod isa;
pub mod numbers;
pub mod oracle;
mod pass;
mod prefetch;
mod shape;
pub mod size;
mod streaming;
#[cfg(target_arch = "aarch64")]
mod sve;
mod table;
pub mod values;
mod variants;
mod vector;

pub use entry::{CACHE_LINE_BYTES, LoopArgs};
pub use four::{F64x4, PlainF64x4};
pub use isa::Isa;
pub use prefetch::prefetch;
pub use shape::{Element, KernelShape, Prefetch, SideBySidePages, Stores, UnknownName};
pub use streaming::{
    NUMBERS_PER_LINE, copy_nontemporal, fence_nontemporal_stores, store_line_nontemporal,
};
pub use table::{
    Array, KERNELS, Kernel, KernelSpec, LoopKinds, MAX_ARRAYS, SCALAR, STREAM, STREAM_ARRAY_COUNT,
    array_count,
};
pub use variants::{ResidentLoop, Variant, available_isas, compiled_count, find, resident_loops};

/// Loops of all kernels in C, for compilers of this system and for devices.
pub const C_SOURCE: &str = include_str!("../probes/kernels.c");

#[cfg(test)]
mod tests;
