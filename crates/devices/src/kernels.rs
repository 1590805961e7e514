//! Source text of the loops that devices run: `probes/device.c`, followed by `crates/kernels/probes/kernels.c`, which
//! defines each kernel in one line for all languages.

use nodegauge_kernels::{C_SOURCE, Element, Kernel, KernelSpec};
use std::sync::LazyLock;

/// Source text before the lines of the kernels.
const PRELUDE: &str = include_str!("../probes/device.c");

/// Divisor of all array lengths, in elements: the size of the largest tile of any build.
pub const LENGTH_DIVISOR: u64 = 32 * 1024;
/// Maximum number of work-items per group of a reduction, which uses local memory (`LARGEST_GROUP` in the source).
pub const LARGEST_SUM_GROUP: usize = 256;

/// Name of the kernel that fills an array. Arguments: array, value, number of vectors.
pub const FILL: &str = "nodegauge_fill";
/// Name of the kernel that verifies an array. Arguments: array, expected value, allowed deviation, error counts per
/// group (`ulong`), largest deviations per group, number of elements.
pub const CHECK: &str = "nodegauge_check";
/// Name of the kernel that performs multiply-adds. Arguments: output (a vector per work-item), factor, term, number of
/// rounds of [`FMAS_PER_ROUND`] multiply-adds.
pub const CHAINS: &str = "nodegauge_chains";
/// Name of the kernel that follows a chain in one group and loads the memory in the others. Arguments: three arrays,
/// output (a vector per work-item), chain, state (four 32-bit words), factor, index of the mix, number of vectors per
/// array, first tile, rounds of the wait loop, maximum number of blocks per group, first element of the chain, number
/// of steps, maximum number of polls for the load.
pub const CHAIN_AND_LOAD: &str = "nodegauge_loaded";
/// Number of vectors per work-item in a block of [`CHAIN_AND_LOAD`] (`BLOCK` in the source).
pub const LOAD_BLOCK_VECTORS: usize = 4;
/// Number of multiply-adds per element of each chain in a round.
pub const FMAS_PER_ROUND: u64 = 4;

static TEXT: LazyLock<String> = LazyLock::new(|| {
    let lines =
        C_SOURCE.lines().filter(|line| line.starts_with("MAP(") || line.starts_with("SUM("));
    std::iter::once(PRELUDE).chain(lines).collect::<Vec<_>>().join("\n") + "\n"
});

/// Source of all loops with the parameters that are fixed at compile time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KernelSource {
    /// Type of the array elements.
    pub element: Element,
    /// Number of elements per vector: 1, 2, 4, or more on CPUs.
    pub width: u32,
    /// Number of vectors of a tile per work-item; for multiply-adds, the number of chains.
    pub items: u32,
    /// True if each group processes several tiles (grid-stride loop).
    pub strided: bool,
}

impl KernelSource {
    /// Returns the source text, which is identical for all builds.
    pub fn text() -> &'static str {
        &TEXT
    }

    /// Returns the macros that select the build.
    pub fn defines(&self) -> [(&'static str, String); 4] {
        let element = match self.element {
            Element::F64 => "double",
            Element::F32 => "float",
        };
        [
            ("ELEMENT", element.to_owned()),
            ("WIDTH", self.width.to_string()),
            ("ITEMS", self.items.to_string()),
            ("STRIDED", u32::from(self.strided).to_string()),
        ]
    }
}

/// Returns the kernels that devices run: those that make passes over long arrays.
pub fn kernels() -> impl Iterator<Item = &'static KernelSpec> {
    nodegauge_kernels::KERNELS.iter().filter(|spec| spec.has_pass_loops())
}

/// Returns the function name of a kernel. Arguments: arrays a, b, c and d, scalar, number of vectors. A reduction
/// writes the sum of each group as a vector to c.
pub fn symbol(kernel: Kernel) -> String {
    format!("nodegauge_{}", kernel.name())
}

/// Returns BabelStream's name of a kernel; `None` if nodegauge uses the same name.
pub fn babelstream_name(kernel: Kernel) -> Option<&'static str> {
    (kernel == Kernel::Scale).then_some("Mul")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_one_device_source_line() {
        for spec in kernels() {
            let kind = if spec.writes.is_some() { "MAP" } else { "SUM" };
            let line = format!("\n{kind}({}, ", spec.name);
            assert_eq!(KernelSource::text().matches(&line).count(), 1, "{line}");
        }
    }
}
