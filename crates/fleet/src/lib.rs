//! Records of many nodes: reading them from whatever carried them, ranking of nodes of one kind, references, and the
//! lines with which a site's engine measures all its nodes.
//!
//! This crate reads records and knows no gauge; the functions that select figures are given by the command. It starts
//! nothing and opens no connection, except that `slurm` asks the programs of Slurm.
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
