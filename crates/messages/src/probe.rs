//! The MPI probe: compiled with the compiler wrapper of an installed MPI (`build`), and started by the launcher of this
//! MPI (`start`). The built-in transport is started in its place where a run has no MPI, or needs a lower bound.

pub(crate) mod build;
pub(crate) mod start;
