//! Text for people, from records and plans: tables, the one-page summary, the waterfall of
//! `explain`, the classic table of stream.c. Measures nothing and prints nothing: every function
//! returns the text.

#![forbid(unsafe_code)]

mod chart;
pub mod classic;
pub mod compare;
mod compiled;
pub mod explain;
pub mod history;
pub mod io;
pub mod machine;
pub mod memory;
pub mod messages;
pub mod osu;
pub mod places;
pub mod published;
mod ranks;
pub mod run;
mod standard;
pub mod stream;
pub mod sweep;
mod table;
pub mod text;
pub mod tune;
mod words;

pub use table::Style;
