//! Published figures: a catalog of figures from publications, the selection of the figures that are shown with a run,
//! and their view.
//!
//! The figures and their sources are in `data/published.toml`; they are neither corrected nor completed. If figures are
//! shown, they are saved in the record as measurements of the category "reference". They never count as results of the
//! run.
#![forbid(unsafe_code)]

mod by_threads;
mod catalog;
mod list;
mod rows;
mod selection;
mod view;

pub use catalog::{
    PublishedConfig, PublishedEntry, PublishedSelection, UnknownNode, all, nearest_device,
    nearest_node, nearest_with_sweeps,
};
pub use list::list;
pub use selection::add_published_figures;
pub use view::{add_published_section, section};
