//! Messages between MPI processes: latency, bandwidth, message rate, collectives.
//!
//! The site's MPI is a plug-in: a probe (`probes/messages.c`) is compiled by its wrapper ([`probe`]),
//! started by its launcher with an explicit binding ([`launch`], [`session`]), and answers line by
//! line ([`protocol`]). What came is judged and made into measurements ([`result`], [`curve`]);
//! [`gauge`] is the protocol of a run: which pairs, which starts. [`osu`] runs the OSU
//! micro-benchmarks by turns with the probe, [`nodes`] pairs many nodes. Nothing here prints, saves or
//! knows another gauge.
#![forbid(unsafe_code)]

pub mod curve;
mod error;
pub mod gauge;
pub mod launch;
pub mod nodes;
pub mod options;
pub mod osu;
pub mod pattern;
pub mod probe;
pub mod protocol;
pub mod result;
pub mod session;

pub use error::MessagesError;
pub use options::Options;
pub use pattern::Pattern;
