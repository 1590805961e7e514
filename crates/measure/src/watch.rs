//! Former names of [`crate::progress`].

pub use crate::progress::{Observer as Watch, Silent as Unwatched};
