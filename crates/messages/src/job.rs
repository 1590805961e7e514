//! A job of ranks, of the MPI probe and of the built-in transport alike: the ranks with their places (`launch`), and the
//! lines that they print (`protocol`).

pub(crate) mod launch;
pub(crate) mod protocol;
