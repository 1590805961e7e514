//! Published figures: a catalog of figures that others measured on named nodes, the selection of those shown
//! with a run, and their view.
//!
//! The data are in `data/published.toml`, each with its source; they are neither corrected nor completed.
//! They become measurements of the category "reference" and never count as results of the run that shows
//! them.
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
