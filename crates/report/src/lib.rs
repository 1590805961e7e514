//! The pages that are no gauge's own, made from records, plans and comparisons, and the renderer of
//! text. Measures nothing and prints nothing.

#![forbid(unsafe_code)]

pub mod compare;
pub mod history;
pub mod machine;
pub mod places;
pub mod published;
pub mod run;
pub mod text;

pub use text::Style;
