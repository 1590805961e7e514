//! Proxy applications: what programs bound by computing and by memory get of a node, and what placement
//! costs them.
//!
//! Machine, placement and options go in, measurements come out; nothing here prints, saves or knows
//! another gauge.
#![forbid(unsafe_code)]
