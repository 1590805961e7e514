//! Job of ranks, used for the MPI probe and for the built-in transport: the ranks with their places (`launch`), and the
//! lines that they print (`protocol`).

pub(crate) mod launch;
pub(crate) mod protocol;
