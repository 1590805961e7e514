//! Linear elasticity on a box of hexahedra: element, mesh, problem, and rows of the matrix.

pub mod element;
pub mod kinds;
pub mod mesh;
pub mod problem;
pub mod rows;

pub use element::{DegenerateElement, Material, Stiffness};
pub use kinds::PointKinds;
pub use mesh::{Mesh, Subdomain};
pub use problem::{Assembler, PointRows, Problem, StretchedBox, column_major};
pub use rows::RowMaker;
