//! Dense LU in the sense of HPL: the rating of a node, its peaks, and the real xhpl beside it.
//!
//! Machine, placement and options go in, measurements come out; nothing here prints, saves or knows
//! another gauge.

mod engine;
mod leaf;
pub mod lu;
pub mod matrix;
pub mod random;
pub mod residual;

pub use engine::Multiplier;
