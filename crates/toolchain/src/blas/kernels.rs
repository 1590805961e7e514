//! Kernels of BLAS libraries, with the names that the libraries use and the instruction sets that the kernels require.
//!
//! If the processor does not support the selected kernels, the process ends with an illegal instruction. BLIS
//! interprets an unknown name as the number 0, which denotes its AVX-512 kernels. Therefore unsupported kernels and
//! unknown names are refused before the library is loaded.

use super::info::BlasVendor;
use crate::ToolchainError;
use nodegauge_measure::Failure;

/// Kernels that a library may contain.
struct BlasKernel {
    vendor: BlasVendor,
    /// Name that the library uses for these kernels.
    name: &'static str,
    /// Required instruction sets, named as in `/proc/cpuinfo`.
    needs: &'static [&'static str],
    /// True if these kernels are tested even if they are not requested, because they may be faster than the
    /// kernels that the library selects.
    tried: bool,
}

const fn kernel(
    vendor: BlasVendor,
    name: &'static str,
    needs: &'static [&'static str],
) -> BlasKernel {
    BlasKernel { vendor, name, needs, tried: false }
}

const fn tried(
    vendor: BlasVendor,
    name: &'static str,
    needs: &'static [&'static str],
) -> BlasKernel {
    BlasKernel { vendor, name, needs, tried: true }
}

/// Kernels with known requirements, in the order in which they are tested. Instruction sets that every current
/// processor supports are omitted.
const KERNELS: &[BlasKernel] = &[
    tried(BlasVendor::OpenBlas, "SkylakeX", &["avx512dq"]),
    tried(BlasVendor::OpenBlas, "Cooperlake", &["avx512_bf16"]),
    tried(BlasVendor::OpenBlas, "Haswell", &["avx2", "fma"]),
    kernel(BlasVendor::OpenBlas, "SapphireRapids", &["avx512_bf16"]),
    kernel(BlasVendor::OpenBlas, "Zen", &["avx2", "fma"]),
    kernel(BlasVendor::OpenBlas, "Excavator", &["fma"]),
    kernel(BlasVendor::OpenBlas, "Steamroller", &["fma"]),
    kernel(BlasVendor::OpenBlas, "Piledriver", &["fma"]),
    kernel(BlasVendor::OpenBlas, "Bulldozer", &["fma4"]),
    kernel(BlasVendor::OpenBlas, "Sandybridge", &["avx"]),
    kernel(BlasVendor::OpenBlas, "neoversev1", &["sve"]),
    kernel(BlasVendor::OpenBlas, "neoversen2", &["sve2"]),
    kernel(BlasVendor::OpenBlas, "a64fx", &["sve"]),
    kernel(BlasVendor::OpenBlas, "armv8sve", &["sve"]),
    tried(BlasVendor::Blis, "skx", &["avx512dq"]),
    tried(BlasVendor::Blis, "zen3", &["avx2", "fma"]),
    tried(BlasVendor::Blis, "haswell", &["avx2", "fma"]),
    kernel(BlasVendor::Blis, "knl", &["avx512pf"]),
    kernel(BlasVendor::Blis, "zen5", &["avx512dq"]),
    kernel(BlasVendor::Blis, "zen4", &["avx512dq"]),
    kernel(BlasVendor::Blis, "zen2", &["avx2", "fma"]),
    kernel(BlasVendor::Blis, "zen", &["avx2", "fma"]),
    kernel(BlasVendor::Blis, "excavator", &["fma"]),
    kernel(BlasVendor::Blis, "steamroller", &["fma"]),
    kernel(BlasVendor::Blis, "piledriver", &["fma"]),
    kernel(BlasVendor::Blis, "bulldozer", &["fma4"]),
    kernel(BlasVendor::Blis, "sandybridge", &["avx"]),
    kernel(BlasVendor::Blis, "armsve", &["sve"]),
    kernel(BlasVendor::Blis, "a64fx", &["sve"]),
];

impl BlasKernel {
    /// Returns the first required instruction set that the processor does not support; `None` if it supports all.
    fn missing_isa(&self, isa: &dyn Fn(&str) -> bool) -> Option<&'static str> {
        self.needs.iter().copied().find(|needed| !isa(needed))
    }
}

/// Returns the names of the kernels that may be fast on this processor, in the order in which they are tested.
pub(super) fn promising_kernels(
    vendor: BlasVendor,
    isa: &dyn Fn(&str) -> bool,
) -> impl Iterator<Item = &'static str> {
    let of_vendor = KERNELS.iter().filter(move |kernel| kernel.vendor == vendor && kernel.tried);
    of_vendor.filter(move |kernel| kernel.missing_isa(isa).is_none()).map(|kernel| kernel.name)
}

/// Returns the index of the kernel `wanted` in `names`, a library's list of kernels.
///
/// # Errors
/// Fails when the list does not contain the kernel.
pub(super) fn kernel_index(wanted: &str, names: &[String]) -> Result<usize, ToolchainError> {
    names.iter().position(|name| name.eq_ignore_ascii_case(wanted)).ok_or_else(|| {
        ToolchainError::Unusable(
            Failure::missing(format!("unknown kernel '{wanted}'; known: {}", names.join(", ")))
                .hint(unavailable_hint(wanted)),
        )
    })
}

/// Checks that this processor supports the instruction sets that the kernel `wanted` is known to require.
///
/// # Errors
/// Fails when the processor does not support a required instruction set.
pub(super) fn check_is_supported(
    vendor: BlasVendor,
    wanted: &str,
    isa: &dyn Fn(&str) -> bool,
) -> Result<(), ToolchainError> {
    let mut kernels = KERNELS.iter().filter(|kernel| kernel.vendor == vendor);
    let kernel = kernels.find(|kernel| kernel.name.eq_ignore_ascii_case(wanted));
    let Some(lacking) = kernel.and_then(|kernel| kernel.missing_isa(isa)) else { return Ok(()) };
    Err(ToolchainError::Unusable(
        Failure::missing(format!(
            "this processor cannot run kernel '{wanted}' of {vendor}: it lacks {lacking}"
        ))
        .hint(unavailable_hint(wanted)),
    ))
}

/// Returns the hint for a kernel that is not available.
fn unavailable_hint(wanted: &str) -> String {
    format!("leave out '@{wanted}' to use the kernels that the library selects")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True for the instruction sets of a processor with AVX2 and without AVX-512.
    fn avx2(name: &str) -> bool {
        ["avx", "avx2", "fma"].contains(&name)
    }

    #[test]
    fn unknown_kernel_is_refused_with_list_of_known_kernels() {
        let names = ["skx", "haswell", "generic"].map(str::to_owned);
        assert_eq!(kernel_index("Generic", &names).unwrap(), 2);
        assert_eq!(
            kernel_index("nonesuch", &names).unwrap_err().to_string(),
            "unknown kernel 'nonesuch'; known: skx, haswell, generic\n\
             hint: leave out '@nonesuch' to use the kernels that the library selects"
        );
    }

    #[test]
    fn unsupported_kernel_is_refused_with_missing_feature() {
        let check = |vendor, name| check_is_supported(vendor, name, &avx2);
        for (vendor, name, lacking) in [
            (BlasVendor::Blis, "skx", "avx512dq"),
            (BlasVendor::Blis, "bulldozer", "fma4"),
            (BlasVendor::OpenBlas, "skylakex", "avx512dq"),
            (BlasVendor::OpenBlas, "neoversev1", "sve"),
        ] {
            let error = check(vendor, name).unwrap_err().to_string();
            let expected = format!(
                "this processor cannot run kernel '{name}' of {vendor}: it lacks {lacking}\nhint: "
            );
            assert!(error.starts_with(&expected), "{error}");
        }
        for name in ["zen3", "haswell", "sandybridge", "generic", "not_in_the_table"] {
            check(BlasVendor::Blis, name).unwrap();
        }
        // A kernel name of another vendor has no known requirements.
        check(BlasVendor::Mkl, "skx").unwrap();
    }

    #[test]
    fn only_supported_kernels_are_candidates() {
        let names = |vendor, isa| promising_kernels(vendor, isa).collect::<Vec<_>>();
        assert_eq!(names(BlasVendor::Blis, &avx2), ["zen3", "haswell"]);
        assert_eq!(names(BlasVendor::OpenBlas, &avx2), ["Haswell"]);
        assert_eq!(names(BlasVendor::OpenBlas, &|_| true), ["SkylakeX", "Cooperlake", "Haswell"]);
        assert!(names(BlasVendor::Blis, &|_| false).is_empty());
    }
}
