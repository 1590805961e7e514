//! Text for people, from records and plans: tables, the one-page summary, the waterfall of
//! `explain`, the classic table of stream.c. Measures nothing and prints nothing: every function
//! returns the text.

#![forbid(unsafe_code)]

pub mod compare;
pub mod history;
pub mod machine;
pub mod places;
pub mod published;
pub mod run;
mod table;
pub mod text;

pub use table::Style;
