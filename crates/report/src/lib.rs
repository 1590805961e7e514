//! The pages that are no gauge's own, made from records, plans and comparisons; the renderers of pages as text,
//! HTML and Markdown; and the export of saved runs. Measures nothing and prints nothing.

#![forbid(unsafe_code)]

mod card;
pub mod compare;
mod devices;
pub mod export;
mod figures;
pub mod history;
mod html;
pub mod machine;
mod markdown;
mod markup;
pub mod places;
pub mod run;
pub mod several;
pub mod text;
mod topology;
pub mod trend;

pub use figures::Conditions;
pub use text::Style;
