//! Operations on the entries of directories, as in mdtest: several workers create, look up, open, rename and remove
//! many small files, in directories of their own and in a directory that they share.
//!
//! The timed loops are in [`nodegauge_blocks::entries`]; this module plans and predicts a run, evaluates its samples
//! and formats the results. A cell is a combination of folder, workers and layout. A turn of a cell runs all operations
//! one after another, like an iteration of mdtest; the operations are the parts of its sample.

mod cells;
mod config;
mod figures;
mod measured;
mod plan;
mod prediction;
mod reference;
mod run;
mod view;

pub use cells::MetadataOptions;
pub use config::MetadataConfig;
pub use nodegauge_blocks::entries::DirectoryLayout;
pub use plan::MetadataPlan;
pub use reference::{MdtestOptions, MetadataPrograms};
pub(crate) use view::{conclusion, section};
