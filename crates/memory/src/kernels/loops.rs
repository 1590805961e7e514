//! What a point can run: one of nodegauge's own rows, or a loop that a compiler of this system made.

use super::compiled::CompiledLoop;
use super::{Args, Element, Kernel, Prefetch, Row, Shape, Stores, find};
use std::sync::Arc;

/// A loop that is ready to run.
#[derive(Debug, Clone)]
pub enum Loop {
    /// One of nodegauge's own, with the distances of its prefetch.
    Native {
        /// The function.
        row: &'static Row,
        /// How far ahead it asks for lines.
        prefetch: Prefetch,
    },
    /// One that a compiler of this system made of plain C.
    Compiled(Arc<CompiledLoop>),
}

impl Loop {
    /// The native loop of a shape; `None` where [`find`] finds none.
    pub fn native(kernel: Kernel, element: Element, shape: Shape) -> Option<Self> {
        find(kernel, element, shape).map(|row| Self::Native { row, prefetch: shape.prefetch })
    }

    /// Its kernel.
    pub fn kernel(&self) -> Kernel {
        match self {
            Self::Native { row, .. } => row.kernel,
            Self::Compiled(compiled) => compiled.kernel,
        }
    }

    /// The type of its elements.
    pub fn element(&self) -> Element {
        match self {
            Self::Native { row, .. } => row.element,
            Self::Compiled(compiled) => compiled.element,
        }
    }

    /// How far ahead it is told to ask for lines; what a compiler put in by itself is in its code.
    pub fn prefetch(&self) -> Prefetch {
        match self {
            Self::Native { prefetch, .. } => *prefetch,
            Self::Compiled(_) => Prefetch::Off,
        }
    }

    /// How it stores; `None` when that is not known, because a library function does it.
    pub fn stores(&self) -> Option<Stores> {
        match self {
            Self::Native { row, .. } => Some(row.stores),
            Self::Compiled(compiled) => compiled.stores(),
        }
    }

    /// Runs it on one thread's share; returns the sum of a kernel that sums, else 0.
    ///
    /// # Safety
    /// As for [`super::KernelFn`].
    pub unsafe fn run(&self, args: &Args) -> f64 {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Native { row, .. } => row.run(args),
                Self::Compiled(compiled) => compiled.run(args),
            }
        }
    }
}
