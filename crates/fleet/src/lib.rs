//! Records of many nodes: reading them in all supported formats, ranking of nodes of one kind, references, and scripts
//! with which a site's scheduler or parallel shell measures all nodes.
//!
//! This crate reads records and does not depend on any gauge; the command passes in the functions that select figures.
//! It starts no processes and opens no connections, except that `slurm` runs the programs of Slurm.
#![forbid(unsafe_code)]

pub mod baseline;
mod cause;
pub mod check;
pub mod diff;
pub mod facts;
pub mod figures;
pub mod folder;
pub mod formats;
pub mod intake;
pub mod inventory;
pub mod names;
pub mod node;
pub mod page;
pub mod rank;
pub mod reference;
pub mod script;
pub mod slurm;
