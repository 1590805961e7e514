//! Sparse matrices of 3 x 3 blocks, with one block row per mesh point, and their products with vectors.
//!
//! There are two storage formats: consecutive block rows (BCSR), and slices of eight interleaved block rows (sliced
//! ELL). A block is stored by columns; a vector has three components per mesh point.

pub(crate) mod blocks;
mod kernel;
pub(crate) mod sliced;

pub(crate) use blocks::{
    BLOCK, BlockRow, Blocks, PaddedBlock, RegisterBlock, SharedBlocks, prefetch_block,
    stream_blocks, transpose,
};
pub(crate) use kernel::{LANES, backward, forward, scale};
use serde::{Deserialize, Serialize};
pub(crate) use sliced::{EmptySlices, SlicedRows};

nodegauge_measure::names!(MatrixFormat, "storage", Bcsr = "bcsr", Sell = "sell");

/// Storage format of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MatrixFormat {
    /// Consecutive block rows of different lengths.
    Bcsr,
    /// Slices of interleaved block rows; all rows of a slice are padded to the length of its longest row.
    Sell,
}
