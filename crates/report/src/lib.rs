//! Text for people, from records and plans: tables, the one-page summary, the waterfall of
//! `explain`, the classic table of stream.c. Measures nothing and prints nothing: every function
//! returns the text.

#![forbid(unsafe_code)]

pub mod compare;
pub mod history;
pub mod machine;
pub mod memory;
pub mod places;
pub mod published;
pub mod run;
mod stream;
mod table;
pub mod text;
mod words;

pub use table::Style;
