//! Figures from the output of ranks: the measurements with all reasons why they are suspect (`result`), the lower bound
//! of their times (`lower_bound`), and the size limit of eager messages (`eager`).

pub(crate) mod eager;
pub(crate) mod lower_bound;
pub(crate) mod result;
