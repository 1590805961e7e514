//! Pages that do not belong to a single gauge, made from records, plans and comparisons; renderers of pages as text,
//! HTML and Markdown; export of saved runs. This crate does not measure or print.

#![forbid(unsafe_code)]

mod card;
pub mod compare;
pub mod conclusion;
mod devices;
pub mod export;
mod figures;
mod head;
pub mod history;
mod html;
pub mod machine;
mod markdown;
mod markup;
pub mod places;
pub mod run;
pub mod several;
mod terms;
pub mod text;
mod topology;
pub mod trend;

pub use figures::Conditions;
pub use text::Style;
