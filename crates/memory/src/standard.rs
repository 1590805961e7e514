//! The real STREAM: the user's own unmodified stream.c (or stream.f), compiled and run as it is.
//!
//! [`output`] reads what it prints, [`figures`] judges that and makes measurements of it, labelled
//! as standard results, [`build`] compiles it for the sizes and threads of the native run, and
//! [`beside`] runs both by turns, so that they meet the same machine.

pub mod beside;
pub mod build;
pub mod figures;
pub mod output;
