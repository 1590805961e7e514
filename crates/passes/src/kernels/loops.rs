//! Loops that can be measured: loops of nodegauge, and loops built by a compiler of this system.

use super::compiled::CompiledLoop;
use super::{Element, Kernel, KernelShape, LoopArgs, Stores, Variant, find};
use std::ptr::NonNull;
use std::sync::Arc;

/// Loop that is ready to run.
#[derive(Debug, Clone)]
pub enum Loop {
    /// Loop that is part of nodegauge.
    Native(Variant),
    /// Loop built from plain C by a compiler of this system.
    Compiled(Arc<CompiledLoop>),
    /// Copy by `memcpy` of the C library, for arrays of this element type.
    Memcpy(Element),
}

impl Loop {
    /// Returns nodegauge's loop with this shape; `None` if there is none for this processor.
    pub fn native(kernel: Kernel, element: Element, shape: KernelShape) -> Option<Self> {
        find(kernel, element, shape).map(Self::Native)
    }

    /// Returns the kernel that the loop computes.
    pub fn kernel(&self) -> Kernel {
        match self {
            Self::Native(variant) => variant.kernel(),
            Self::Compiled(compiled) => compiled.kernel,
            Self::Memcpy(_) => Kernel::Copy,
        }
    }

    /// Returns the type of the array elements.
    pub fn element(&self) -> Element {
        match self {
            Self::Native(variant) => variant.element(),
            Self::Compiled(compiled) => compiled.element,
            Self::Memcpy(element) => *element,
        }
    }

    /// Returns the kind of store; `None` if it is unknown, because a library function performs the stores.
    pub fn stores(&self) -> Option<Stores> {
        match self {
            Self::Native(variant) => Some(variant.shape().stores),
            Self::Compiled(compiled) => compiled.stores(),
            Self::Memcpy(_) => None,
        }
    }

    /// Runs the loop on the share of one thread. Returns the sum for a reduction, and 0 for other kernels.
    ///
    /// # Safety
    /// The requirements of [`Variant::run`] apply.
    pub unsafe fn run(&self, args: &LoopArgs) -> f64 {
        // SAFETY: the caller guarantees the conditions of `Variant::run`.
        unsafe {
            match self {
                Self::Native(variant) => variant.run(args),
                Self::Compiled(compiled) => compiled.run(args),
                Self::Memcpy(element) => {
                    let [from, _, to, _] = args.at.map(NonNull::as_ptr);
                    libc::memcpy(to.cast(), from.cast(), args.n * element.bytes() as usize);
                    0.0
                }
            }
        }
    }
}
