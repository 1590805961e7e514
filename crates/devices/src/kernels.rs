//! The loops that devices run, as source text: `probes/device.c` with the lines of `probes/kernels.c` behind it,
//! so that one line says what a kernel does in every language.

use nodegauge_kernels::{Element, Kernel, KernelSpec};
use std::sync::LazyLock;

/// The lines of all kernels, in C.
const LINES: &str = include_str!("../../../probes/kernels.c");
/// Everything else.
const PRELUDE: &str = include_str!("../../../probes/device.c");

/// Elements that the length of every array is a multiple of: the largest tile of any build.
pub const TILE: u64 = (LARGEST_GROUP * 8 * 4) as u64;
/// Work-items of a group at most.
pub const LARGEST_GROUP: usize = 1024;
/// The same of groups that add up, which do so in local memory (`LARGEST_GROUP` of the source).
pub const LARGEST_SUM_GROUP: usize = 256;

/// The name of the kernel that fills an array: array, value, vectors.
pub const FILL: &str = "nodegauge_fill";
/// The name of the kernel that checks an array: array, expected, allowed, counts by group (`ulong`), worst
/// deviations by group, elements.
pub const CHECK: &str = "nodegauge_check";
/// The name of the kernel of multiply-adds: a vector a work-item, factor, term, rounds of [`FMAS_A_ROUND`].
pub const CHAINS: &str = "nodegauge_chains";
/// Multiply-adds of an element of each chain in a round.
pub const FMAS_A_ROUND: u64 = 4;

static TEXT: LazyLock<String> = LazyLock::new(|| {
    let is_kernel = |line: &&str| line.starts_with("MAP(") || line.starts_with("SUM(");
    let lines = LINES.lines().filter(is_kernel);
    std::iter::once(PRELUDE).chain(lines).collect::<Vec<_>>().join("\n") + "\n"
});

/// A build of all loops: what is fixed when they are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KernelSource {
    /// Of what the arrays are.
    pub element: Element,
    /// Elements of a vector: 1, 2, 4, or more on processors.
    pub width: u32,
    /// Vectors that a work-item takes of a tile; chains of multiply-adds.
    pub items: u32,
    /// Groups go on to further tiles.
    pub strided: bool,
}

impl KernelSource {
    /// The source, the same for every build.
    pub fn text() -> &'static str {
        &TEXT
    }

    /// The macros that make a build of it.
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

/// The kernels that devices run, those of passes over long arrays.
pub fn kernels() -> impl Iterator<Item = &'static KernelSpec> {
    nodegauge_kernels::KERNELS.iter().filter(|spec| spec.in_passes())
}

/// Name of a kernel's function: arrays a, b, c and d, scalar, vectors. A kernel that adds up leaves a sum per group,
/// a vector each, in c.
pub fn symbol(kernel: Kernel) -> String {
    format!("nodegauge_{}", kernel.name())
}

/// BabelStream's name of a kernel, where it is another one.
pub fn babelstream_name(kernel: Kernel) -> Option<&'static str> {
    (kernel == Kernel::Scale).then_some("Mul")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_passes_has_its_line() {
        for spec in kernels() {
            let kind = if spec.writes.is_some() { "MAP" } else { "SUM" };
            let line = format!("\n{kind}({}, ", spec.name);
            assert_eq!(KernelSource::text().matches(&line).count(), 1, "{line}");
        }
    }
}
