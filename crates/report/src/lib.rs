//! The pages that are no gauge's own, made from records, plans and comparisons; the renderers of pages as text,
//! HTML and Markdown; and records as other programs read them. Measures nothing and prints nothing.

#![forbid(unsafe_code)]

mod card;
pub mod compare;
mod devices;
mod figures;
pub mod github_action_benchmark;
pub mod history;
pub mod html;
pub mod junit;
pub mod machine;
pub mod markdown;
mod markup;
pub mod openmetrics;
pub mod places;
pub mod run;
pub mod several;
pub mod text;
mod topology;
pub mod trend;

pub use figures::Conditions;
pub use text::Style;
