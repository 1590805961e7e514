//! Standard STREAM: the user's own unmodified stream.c (or stream.f), compiled and run.
//!
//! [`build`] compiles the source for the sizes and threads of the native run. [`output`] parses the output of the
//! program; `table` reads its table. `marks` finds runs in a text, and `cea` reads rates per host. `reader` reads a
//! saved output, `unread` contains the reasons why a text is refused, and `known` the properties that the user gives
//! for a saved output. [`figures`] checks the output and converts it to measurements, which are labelled as standard
//! results. `forecast` predicts the time of a run, and refuses a run that would exceed its budget. `comparison`
//! measures the program and the native kernels interleaved, so that both run in the same state of the machine. `stack`
//! sets the stack limit of stream.f. `mpi` runs STREAM's MPI source with placed ranks.

pub mod build;
mod cea;
mod comparison;
pub mod figures;
mod forecast;
pub(crate) mod known;
pub(crate) mod macros;
mod marks;
mod mpi;
pub mod output;
mod plan;
pub(crate) mod reader;
mod stack;
mod table;
mod unread;

pub use mpi::MpiStandardPlan;
pub use plan::StandardPlan;
