//! Identification of the processor: vendor, family, model, name, instruction sets, and the hypervisor if there is one.
//! The module also contains the formula of the peak.
//!
//! The data come from `/proc/cpuinfo`, except for the hypervisor's name, which comes from CPUID. Without `/proc`,
//! all data come from CPUID. Clocks are not read here, because in a guest the MHz in `/proc/cpuinfo` are the rate
//! of the time-stamp counter.

use crate::root::SysRoot;
use nodegauge_measure::{FlopsPerSec, Hertz};
use std::fmt;

/// Identification numbers of a processor. For Arm they are the implementer, 0, the part, and the revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessorIdentity {
    /// Vendor: `GenuineIntel`, `AuthenticAMD`, ...; for Arm the implementer, e.g. `0x41`.
    pub vendor: String,
    /// Family.
    pub family: u32,
    /// Model number; for Arm the part number.
    pub model: u32,
    /// Stepping, or for Arm the revision; `None` if a description does not contain it.
    pub stepping: Option<u32>,
}

impl fmt::Display for ProcessorIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vendor, family, model, stepping } = self;
        if vendor.starts_with("0x") {
            write!(f, "implementer {vendor} part {model:#05x}")?;
            return stepping.map_or(Ok(()), |revision| write!(f, " revision {revision}"));
        }
        write!(f, "{vendor} family {family:X}h model {model:X}h")?;
        stepping.map_or(Ok(()), |stepping| write!(f, " stepping {stepping}"))
    }
}

/// Data that a processor reports about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportedProcessor {
    /// Architecture: `x86_64`, `aarch64`, ...; `None` if a recording does not contain it.
    pub architecture: Option<String>,
    /// Name of the processor.
    pub name: Option<String>,
    /// Identification numbers of the processor.
    pub identity: Option<ProcessorIdentity>,
    /// Supported instruction sets that the program can use; `None` if unknown.
    pub isa: Option<Vec<String>>,
    /// Hypervisor: `kvm`, `vmware`, ...; empty if its name is unknown. `None` on bare metal, or if the processor does
    /// not report a hypervisor.
    pub hypervisor: Option<String>,
}

/// Reads the data of a machine's processor.
pub fn read(root: &SysRoot) -> ReportedProcessor {
    let described = root.text("proc/cpuinfo").map(|text| from_cpuinfo(&text));
    #[cfg(target_arch = "x86_64")]
    let described = described.or_else(|| root.is_live().then(from_cpuid));
    let mut chip = described.unwrap_or_default();
    if root.is_live() {
        chip.architecture = Some(std::env::consts::ARCH.to_owned());
        #[cfg(target_arch = "x86_64")]
        if chip.hypervisor.is_some() {
            chip.hypervisor = Some(hypervisor_by_cpuid());
        }
    }
    chip
}

/// Returns the double-precision peak if every core completes `flops_per_cycle` operations in every cycle.
pub fn peak(cores: u32, clock: Hertz, flops_per_cycle: u32) -> FlopsPerSec {
    FlopsPerSec(f64::from(cores) * clock.0 * f64::from(flops_per_cycle))
}

/// Instruction sets: name in records and name in `/proc/cpuinfo`.
const ISA: [(&str, &str); 13] = [
    ("sse2", "sse2"),
    ("sse4.2", "sse4_2"),
    ("avx", "avx"),
    ("avx2", "avx2"),
    ("fma", "fma"),
    ("avx512f", "avx512f"),
    ("avx512dq", "avx512dq"),
    ("avx512bw", "avx512bw"),
    ("avx512vl", "avx512vl"),
    ("amx", "amx_tile"),
    ("neon", "asimd"),
    ("sve", "sve"),
    ("sve2", "sve2"),
];

/// Text of `/proc/cpuinfo`; only the first processor is read.
#[derive(Clone, Copy)]
struct CpuInfo<'a>(&'a str);

impl<'a> CpuInfo<'a> {
    /// Returns the value of the first line `KEY : VALUE`.
    fn field(self, key: &str) -> Option<&'a str> {
        self.0.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim())
        })
    }

    fn number(self, key: &str) -> Option<u32> {
        let value = self.field(key)?;
        match value.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => value.parse().ok(),
        }
    }

    fn x86_identity(self) -> Option<ProcessorIdentity> {
        Some(ProcessorIdentity {
            vendor: self.field("vendor_id")?.to_owned(),
            family: self.number("cpu family")?,
            model: self.number("model")?,
            stepping: self.number("stepping"),
        })
    }

    fn arm_identity(self) -> Option<ProcessorIdentity> {
        Some(ProcessorIdentity {
            vendor: self.field("CPU implementer")?.to_owned(),
            family: 0,
            model: self.number("CPU part")?,
            stepping: self.number("CPU revision"),
        })
    }

    fn architecture(self) -> Option<&'static str> {
        if self.field("vendor_id").is_some() {
            return Some("x86_64");
        }
        self.field("CPU implementer").map(|_| "aarch64")
    }
}

/// Parses the first processor of a `/proc/cpuinfo`.
fn from_cpuinfo(text: &str) -> ReportedProcessor {
    let cpuinfo = CpuInfo(text);
    let flags = cpuinfo.field("flags").or_else(|| cpuinfo.field("Features"));
    let words: Vec<&str> = flags.unwrap_or_default().split_whitespace().collect();
    let isa = ISA.iter().filter(|(_, flag)| words.contains(flag));
    ReportedProcessor {
        architecture: cpuinfo.architecture().map(str::to_owned),
        name: cpuinfo.field("model name").map(str::to_owned),
        identity: cpuinfo.x86_identity().or_else(|| cpuinfo.arm_identity()),
        isa: flags.map(|_| isa.map(|(name, _)| (*name).to_owned()).collect()),
        hypervisor: words.contains(&"hypervisor").then(String::new),
    }
}

/// Returns the data of this processor from CPUID, in the form of `/proc/cpuinfo`.
#[cfg(target_arch = "x86_64")]
fn from_cpuid() -> ReportedProcessor {
    let cpuid = raw_cpuid::CpuId::new();
    let features = cpuid.get_feature_info();
    let identity = features.as_ref().zip(cpuid.get_vendor_info());
    ReportedProcessor {
        architecture: Some("x86_64".to_owned()),
        name: cpuid.get_processor_brand_string().map(|name| name.as_str().trim().to_owned()),
        identity: identity.map(|(numbers, vendor)| ProcessorIdentity {
            vendor: vendor.as_str().to_owned(),
            family: u32::from(numbers.family_id()),
            model: u32::from(numbers.model_id()),
            stepping: Some(u32::from(numbers.stepping_id())),
        }),
        isa: Some(
            ISA.iter()
                .filter(|(name, _)| has_instruction_set(&cpuid, name))
                .map(|(name, _)| (*name).to_owned())
                .collect(),
        ),
        hypervisor: features.is_some_and(|features| features.has_hypervisor()).then(String::new),
    }
}

/// True if this processor has the instruction set with this name in [`ISA`].
#[cfg(target_arch = "x86_64")]
fn has_instruction_set<R: raw_cpuid::CpuIdReader>(cpuid: &raw_cpuid::CpuId<R>, name: &str) -> bool {
    match name {
        "sse2" => std::is_x86_feature_detected!("sse2"),
        "sse4.2" => std::is_x86_feature_detected!("sse4.2"),
        "avx" => std::is_x86_feature_detected!("avx"),
        "avx2" => std::is_x86_feature_detected!("avx2"),
        "fma" => std::is_x86_feature_detected!("fma"),
        "avx512f" => std::is_x86_feature_detected!("avx512f"),
        "avx512dq" => std::is_x86_feature_detected!("avx512dq"),
        "avx512bw" => std::is_x86_feature_detected!("avx512bw"),
        "avx512vl" => std::is_x86_feature_detected!("avx512vl"),
        "amx" => cpuid.get_extended_feature_info().is_some_and(|more| more.has_amx_tile()),
        _ => false,
    }
}

/// Returns the name of the hypervisor: `kvm`, `vmware`, ...; empty if the hypervisor does not report a name.
#[cfg(target_arch = "x86_64")]
fn hypervisor_by_cpuid() -> String {
    use raw_cpuid::{CpuId, Hypervisor};
    CpuId::new().get_hypervisor_info().map_or_else(String::new, |info| match info.identify() {
        Hypervisor::Unknown(ebx, ecx, edx) => {
            let bytes: Vec<u8> =
                [ebx, ecx, edx].iter().flat_map(|word| word.to_le_bytes()).collect();
            let text = String::from_utf8_lossy(&bytes).to_lowercase();
            text.chars().filter(char::is_ascii_alphanumeric).collect()
        }
        known => format!("{known:?}").to_lowercase(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_is_cores_times_clock_times_flops_per_cycle() {
        assert_eq!(peak(192, Hertz(2.4e9), 16), FlopsPerSec(7.3728e12));
        // T2K has 16 cores at 2.3 GHz.
        assert_eq!(peak(16, Hertz(2.3e9), 4), FlopsPerSec(147.2e9));
    }

    #[test]
    fn x86_cpuinfo_is_read() {
        let chip = from_cpuinfo(
            "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\
             model name\t: AMD EPYC 9654 96-Core Processor\nstepping\t: 1\ncpu MHz\t\t: 2596.124\n\
             flags\t\t: fpu sse2 sse4_2 avx avx2 fma avx512f hypervisor\n",
        );
        assert_eq!(chip.architecture.as_deref(), Some("x86_64"));
        assert_eq!(chip.name.as_deref(), Some("AMD EPYC 9654 96-Core Processor"));
        assert_eq!(
            chip.identity.unwrap().to_string(),
            "AuthenticAMD family 19h model 11h stepping 1"
        );
        assert_eq!(chip.isa.unwrap(), ["sse2", "sse4.2", "avx", "avx2", "fma", "avx512f"]);
        assert_eq!(chip.hypervisor.as_deref(), Some(""));
    }

    #[test]
    fn arm_cpuinfo_is_read() {
        let chip = from_cpuinfo(
            "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd atomics sve sve2\n\
             CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0xd4f\nCPU revision\t: 0\n",
        );
        assert_eq!(chip.architecture.as_deref(), Some("aarch64"));
        assert_eq!(chip.identity.unwrap().to_string(), "implementer 0x41 part 0xd4f revision 0");
        assert_eq!(chip.isa.unwrap(), ["neon", "sve", "sve2"]);
        assert_eq!(chip.hypervisor, None);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn cpuid_and_cpuinfo_agree() {
        let root = SysRoot::live();
        let by_kernel = root.text("proc/cpuinfo").map(|text| from_cpuinfo(&text)).unwrap();
        assert_eq!(from_cpuid(), by_kernel);
        assert!(by_kernel.isa.unwrap().contains(&"sse2".to_owned()));
    }
}
