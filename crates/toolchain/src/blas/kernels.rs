//! Kernels of BLAS libraries, by the libraries' own names, and the instruction sets that they require.
//!
//! If the selected kernels do not run on the processor, a library ends with an illegal instruction. BLIS
//! reads an unknown name as number 0, its AVX-512 kernels. Both selections are refused here in advance.

use super::info::Vendor;
use crate::ToolchainError;
use nodegauge_measure::Failure;

/// Kernel that a library may have.
struct BlasKernel {
    vendor: Vendor,
    /// Library's own name.
    name: &'static str,
    /// Required instruction sets, with their names in `/proc/cpuinfo`.
    needs: &'static [&'static str],
    /// True if it is tried without a request: it may be faster than the library's own choice.
    tried: bool,
}

const fn kernel(vendor: Vendor, name: &'static str, needs: &'static [&'static str]) -> BlasKernel {
    BlasKernel { vendor, name, needs, tried: false }
}

const fn tried(vendor: Vendor, name: &'static str, needs: &'static [&'static str]) -> BlasKernel {
    BlasKernel { vendor, name, needs, tried: true }
}

/// Kernels with known requirements, in the order of trials. Instruction sets that every current processor
/// has are left out.
const KERNELS: &[BlasKernel] = &[
    tried(Vendor::OpenBlas, "SkylakeX", &["avx512dq"]),
    tried(Vendor::OpenBlas, "Cooperlake", &["avx512_bf16"]),
    tried(Vendor::OpenBlas, "Haswell", &["avx2", "fma"]),
    kernel(Vendor::OpenBlas, "SapphireRapids", &["avx512_bf16"]),
    kernel(Vendor::OpenBlas, "Zen", &["avx2", "fma"]),
    kernel(Vendor::OpenBlas, "Excavator", &["fma"]),
    kernel(Vendor::OpenBlas, "Steamroller", &["fma"]),
    kernel(Vendor::OpenBlas, "Piledriver", &["fma"]),
    kernel(Vendor::OpenBlas, "Bulldozer", &["fma4"]),
    kernel(Vendor::OpenBlas, "Sandybridge", &["avx"]),
    kernel(Vendor::OpenBlas, "neoversev1", &["sve"]),
    kernel(Vendor::OpenBlas, "neoversen2", &["sve2"]),
    kernel(Vendor::OpenBlas, "a64fx", &["sve"]),
    kernel(Vendor::OpenBlas, "armv8sve", &["sve"]),
    tried(Vendor::Blis, "skx", &["avx512dq"]),
    tried(Vendor::Blis, "zen3", &["avx2", "fma"]),
    tried(Vendor::Blis, "haswell", &["avx2", "fma"]),
    kernel(Vendor::Blis, "knl", &["avx512pf"]),
    kernel(Vendor::Blis, "zen5", &["avx512dq"]),
    kernel(Vendor::Blis, "zen4", &["avx512dq"]),
    kernel(Vendor::Blis, "zen2", &["avx2", "fma"]),
    kernel(Vendor::Blis, "zen", &["avx2", "fma"]),
    kernel(Vendor::Blis, "excavator", &["fma"]),
    kernel(Vendor::Blis, "steamroller", &["fma"]),
    kernel(Vendor::Blis, "piledriver", &["fma"]),
    kernel(Vendor::Blis, "bulldozer", &["fma4"]),
    kernel(Vendor::Blis, "sandybridge", &["avx"]),
    kernel(Vendor::Blis, "armsve", &["sve"]),
    kernel(Vendor::Blis, "a64fx", &["sve"]),
];

impl BlasKernel {
    /// Returns the first required instruction set that the processor lacks.
    fn lacks(&self, isa: &dyn Fn(&str) -> bool) -> Option<&'static str> {
        self.needs.iter().copied().find(|needed| !isa(needed))
    }
}

/// Returns the names of the kernels that are worth a trial on this processor, in the order of trials.
pub(super) fn worth_trying(
    vendor: Vendor,
    isa: &dyn Fn(&str) -> bool,
) -> impl Iterator<Item = &'static str> {
    let of_vendor = KERNELS.iter().filter(move |kernel| kernel.vendor == vendor && kernel.tried);
    of_vendor.filter(move |kernel| kernel.lacks(isa).is_none()).map(|kernel| kernel.name)
}

/// Returns the number of the kernel `wanted` in `names`, the kernels that a library lists.
///
/// # Errors
/// Fails when the library does not list it.
pub(super) fn number_of(wanted: &str, names: &[String]) -> Result<usize, ToolchainError> {
    names.iter().position(|name| name.eq_ignore_ascii_case(wanted)).ok_or_else(|| {
        ToolchainError::Unusable(
            Failure::missing(format!("unknown kernel '{wanted}'; known: {}", names.join(", ")))
                .hint(leave_out(wanted)),
        )
    })
}

/// Checks that this processor has the known required instruction sets of the kernel `wanted`.
///
/// # Errors
/// Fails when the processor lacks one.
pub(super) fn check_runs_here(
    vendor: Vendor,
    wanted: &str,
    isa: &dyn Fn(&str) -> bool,
) -> Result<(), ToolchainError> {
    let is_wanted =
        |kernel: &&BlasKernel| kernel.vendor == vendor && kernel.name.eq_ignore_ascii_case(wanted);
    let Some(lacking) = KERNELS.iter().find(is_wanted).and_then(|kernel| kernel.lacks(isa)) else {
        return Ok(());
    };
    Err(ToolchainError::Unusable(
        Failure::missing(format!(
            "this processor cannot run kernel '{wanted}' of {vendor}: it lacks {lacking}"
        ))
        .hint(leave_out(wanted)),
    ))
}

/// Returns the hint for an unavailable kernel.
fn leave_out(wanted: &str) -> String {
    format!("leave out '@{wanted}' to use the kernels that the library selects")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A processor with AVX2 and without AVX-512.
    fn avx2(name: &str) -> bool {
        ["avx", "avx2", "fma"].contains(&name)
    }

    #[test]
    fn kernels_that_a_library_does_not_list_are_refused_with_those_that_it_does() {
        let names = ["skx", "haswell", "generic"].map(str::to_owned);
        assert_eq!(number_of("Generic", &names).unwrap(), 2);
        assert_eq!(
            number_of("nonesuch", &names).unwrap_err().to_string(),
            "unknown kernel 'nonesuch'; known: skx, haswell, generic\n\
             hint: leave out '@nonesuch' to use the kernels that the library selects"
        );
    }

    #[test]
    fn kernels_that_the_processor_cannot_run_are_refused_with_what_it_lacks() {
        let check = |vendor, name| check_runs_here(vendor, name, &avx2);
        for (vendor, name, lacking) in [
            (Vendor::Blis, "skx", "avx512dq"),
            (Vendor::Blis, "bulldozer", "fma4"),
            (Vendor::OpenBlas, "skylakex", "avx512dq"),
            (Vendor::OpenBlas, "neoversev1", "sve"),
        ] {
            let error = check(vendor, name).unwrap_err().to_string();
            let expected = format!(
                "this processor cannot run kernel '{name}' of {vendor}: it lacks {lacking}\nhint: "
            );
            assert!(error.starts_with(&expected), "{error}");
        }
        for name in ["zen3", "haswell", "sandybridge", "generic", "not_in_the_table"] {
            check(Vendor::Blis, name).unwrap();
        }
        // Another vendor has no kernel with this name.
        check(Vendor::Mkl, "skx").unwrap();
    }

    #[test]
    fn kernels_that_the_processor_can_run_are_tried() {
        let names = |vendor, isa| worth_trying(vendor, isa).collect::<Vec<_>>();
        assert_eq!(names(Vendor::Blis, &avx2), ["zen3", "haswell"]);
        assert_eq!(names(Vendor::OpenBlas, &avx2), ["Haswell"]);
        assert_eq!(names(Vendor::OpenBlas, &|_| true), ["SkylakeX", "Cooperlake", "Haswell"]);
        assert!(names(Vendor::Blis, &|_| false).is_empty());
    }
}
