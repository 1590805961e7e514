//! Published figures: the catalog of figures that others measured on named nodes, the choice of those that are
//! shown with a run, and their view.
//!
//! The facts are in `data/published.toml`, each with its source; nothing in them is corrected or completed. They
//! become measurements of the category "reference" and are never results of the run that shows them.
#![forbid(unsafe_code)]

mod catalog;
mod list;
mod selection;
mod view;

pub use catalog::{
    Against, PublishedConfig, PublishedNode, UnknownNode, all, nearest, nearest_device,
};
pub use list::list;
pub use selection::add_to;
pub use view::{add, section};
