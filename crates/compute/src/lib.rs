//! Dense LU in the sense of HPL: the rating of a node, its peaks, and the real xhpl beside it.
//!
//! Machine, placement and options go in, measurements come out; nothing here prints, saves or knows
//! another gauge.

pub mod choose;
pub mod dat;
pub mod dgemm;
mod engine;
pub mod hpl;
mod leaf;
pub mod lu;
pub mod matrix;
pub mod output;
pub mod peak;
pub mod random;
pub mod real;
pub mod residual;
pub mod result;
pub mod size;

pub use engine::Multiplier;
