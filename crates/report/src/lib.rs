//! The pages that are no gauge's own, made from records, plans and comparisons, and the renderers of
//! text and of HTML. Measures nothing and prints nothing.

#![forbid(unsafe_code)]

mod card;
pub mod compare;
pub mod history;
pub mod html;
pub mod machine;
pub mod places;
pub mod published;
pub mod run;
pub mod several;
pub mod text;
mod topology;

pub use text::Style;
