//! The MPI probe: compiled with the compiler wrapper of an installed MPI (`build`), and started by the launcher of this
//! MPI (`start`). In runs without an MPI, and for the lower bound, the built-in transport is started instead.

pub(crate) mod build;
pub(crate) mod start;
