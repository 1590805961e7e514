//! Sparse matrices of 3 x 3 blocks, a block row for each node, and products with vectors.
//!
//! Two storages: block rows one after another (BCSR), and slices of eight block rows side by side (sliced
//! ELL). A block has its columns one after another, and a vector its three components a node.

pub(crate) mod blocks;
mod kernel;
pub(crate) mod sliced;

pub(crate) use blocks::{BLOCK, Blocks, SharedBlocks, add_product, transpose};
pub(crate) use kernel::{backward, forward, scale};
use serde::{Deserialize, Serialize};
pub(crate) use sliced::Sliced;

nodegauge_measure::names!(Storage, "storage", Bcsr = "bcsr", Sell = "sell");

/// Storage format of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Storage {
    /// Block rows one after another, each as long as it is.
    Bcsr,
    /// Slices of block rows side by side, each slice as wide as its longest row.
    Sell,
}
