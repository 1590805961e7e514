//! Catalog of processors, by identification numbers and by name: microarchitecture, operations per cycle, base clock,
//! memory channels. The data are in `data/processors.toml`, with their sources. A processor that is not in the catalog
//! is reported as unknown.

use crate::processor::ProcessorIdentity;
use nodegauge_measure::{Failure, Hertz, TransfersPerSec};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use strsim::levenshtein;

/// Row of the table of microarchitectures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Microarchitecture {
    /// Name of the microarchitecture, e.g. `Zen 4`.
    pub name: String,
    vendor: String,
    #[serde(default)]
    family: u32,
    models: Vec<[u32; 2]>,
    steppings: Option<[u32; 2]>,
    flops: Option<String>,
    #[serde(default)]
    one_unit: Vec<String>,
    #[serde(default)]
    one_unit_except: Vec<String>,
    #[serde(default)]
    not_known: Vec<String>,
}

/// Double-precision operations per core and cycle for one instruction set.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Throughput {
    /// Instruction set that the processor must support.
    pub isa: String,
    /// Operations per cycle.
    pub per_cycle: u32,
    /// Operations per cycle of a program without fused multiply-adds, if the core has separate units for additions;
    /// otherwise `None`.
    #[serde(default)]
    without_fma: Option<u32>,
    /// Operations per cycle in single precision; `None` if they are twice the double-precision ones.
    #[serde(default)]
    single: Option<u32>,
    /// Explanation of the number of operations.
    pub basis: String,
}

impl Throughput {
    /// Returns the operations per cycle of a program without fused multiply-adds. Without separate units for
    /// additions, each multiply-add unit performs one of the two operations.
    pub(crate) fn without_fma(&self) -> u32 {
        let fused = self.basis.contains("FMA unit");
        self.without_fma.unwrap_or(if fused { self.per_cycle / 2 } else { self.per_cycle })
    }

    /// Returns the operations per cycle in single precision. Vectors have twice as many elements, scalar units do not.
    pub(crate) fn single_precision(&self) -> u32 {
        self.single.unwrap_or(self.per_cycle * 2)
    }
}

/// Memory of one socket with one module in every channel.
#[derive(Debug, Clone, PartialEq)]
pub struct SocketMemory {
    /// Memory technology: `DDR5`, ...
    pub technology: String,
    /// Number of channels.
    pub channels: u32,
    /// Number of bytes per transfer of a channel.
    pub channel_bytes: u32,
    /// Transfers per second of one channel.
    pub transfers_per_s: TransfersPerSec,
    /// Note on boards or modules that differ, e.g. `6000 MT/s on most boards`.
    pub note: Option<String>,
    /// True if some processors of this generation have fewer channels or slower memory.
    pub at_most: bool,
}

/// Entry of the catalog for a processor.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessorEntry {
    /// Name of the model in the catalog; `None` if only the generation is known.
    pub model: Option<String>,
    /// Generation, e.g. `Genoa`.
    pub generation: String,
    /// Microarchitecture, e.g. `Zen 4`.
    pub microarchitecture: String,
    /// Base clock; `None` if unknown.
    pub base: Option<Hertz>,
    /// Memory of a socket; `None` if it does not depend on the processor alone.
    pub memory: Option<SocketMemory>,
    /// Memory on the package of a socket; its channels are stacks. `None` if there is none, or if its bandwidth is not
    /// published.
    pub package_memory: Option<SocketMemory>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessorTables {
    write_allocate: Vec<String>,
    flops: BTreeMap<String, Vec<Throughput>>,
    microarchitecture: Vec<Microarchitecture>,
    generation: Vec<Generation>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Generation {
    name: String,
    microarchitecture: String,
    technology: Option<String>,
    channels: Option<u32>,
    #[serde(default = "ddr_channel_bytes")]
    channel_bytes: u32,
    mts: Option<u32>,
    note: Option<String>,
    #[serde(default)]
    at_most: bool,
    package_memory: Option<PackageMemory>,
    whole_family: Option<WholeFamily>,
    #[serde(default)]
    models: BTreeMap<String, f64>,
}

/// Returns the number of bytes per transfer of a DDR channel. The channel has 64 bits, in DDR5 two halves of 32
/// bits.
fn ddr_channel_bytes() -> u32 {
    8
}

/// Memory on the package of a socket.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageMemory {
    technology: String,
    stacks: u32,
    stack_bytes: u32,
    mts: u32,
}

impl PackageMemory {
    /// Returns the memory with its stacks as channels.
    fn socket_memory(&self) -> SocketMemory {
        SocketMemory {
            technology: self.technology.clone(),
            channels: self.stacks,
            channel_bytes: self.stack_bytes,
            transfers_per_s: TransfersPerSec(f64::from(self.mts) * 1e6),
            note: None,
            at_most: false,
        }
    }
}

/// Row of the catalog for all processors with a brand, a family and a range of models.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WholeFamily {
    brand: String,
    vendor: String,
    #[serde(default)]
    family: u32,
    models: [u32; 2],
    #[serde(default)]
    steppings: Option<[u32; 2]>,
    #[serde(default)]
    except: Vec<String>,
    or: Option<String>,
}

impl WholeFamily {
    fn holds(&self, name: &str, identity: &ProcessorIdentity) -> bool {
        let name = simplify_name(name);
        self.vendor == identity.vendor
            && self.family == identity.family
            && is_within(&self.models, identity.model)
            && self
                .steppings
                .is_none_or(|range| identity.stepping.is_some_and(|s| is_within(&range, s)))
            && name.starts_with(&self.brand)
            && !self.except.iter().any(|part| name.contains(part))
    }
}

fn is_within(range: &[u32; 2], value: u32) -> bool {
    (range[0]..=range[1]).contains(&value)
}

fn tables() -> &'static ProcessorTables {
    static TABLES: OnceLock<ProcessorTables> = OnceLock::new();
    TABLES.get_or_init(|| {
        toml::from_str(include_str!("../data/processors.toml"))
            .expect("the embedded table is valid, as a test checks")
    })
}

impl Generation {
    fn entry(&self, model: Option<(&str, f64)>) -> ProcessorEntry {
        let memory = self.technology.clone().zip(self.channels).zip(self.mts);
        ProcessorEntry {
            model: model.map(|(name, _)| name.to_owned()),
            generation: self.name.clone(),
            microarchitecture: self.microarchitecture.clone(),
            base: model.map(|(_, ghz)| Hertz(ghz * 1e9)),
            memory: memory.map(|((technology, channels), mts)| SocketMemory {
                technology,
                channels,
                channel_bytes: self.channel_bytes,
                transfers_per_s: TransfersPerSec(f64::from(mts) * 1e6),
                note: self.note.clone(),
                at_most: self.at_most,
            }),
            package_memory: self.package_memory.as_ref().map(PackageMemory::socket_memory),
        }
    }
}

/// Returns the microarchitecture of a processor with this identification.
pub(crate) fn microarchitecture(
    identity: &ProcessorIdentity,
) -> Option<&'static Microarchitecture> {
    tables().microarchitecture.iter().find(|row| {
        row.vendor == identity.vendor
            && row.family == identity.family
            && row.models.iter().any(|range| is_within(range, identity.model))
            && row.steppings.is_none_or(|range| {
                identity.stepping.is_some_and(|stepping| is_within(&range, stepping))
            })
    })
}

/// Returns the microarchitecture with this name, which may come from a [`ProcessorEntry`].
pub(crate) fn microarchitecture_named(name: &str) -> Option<&'static Microarchitecture> {
    tables().microarchitecture.iter().find(|row| row.name == name)
}

impl Microarchitecture {
    /// True if a regular store that misses the caches always reads the line first; `None` if the processor can avoid
    /// this read in some cases.
    pub(crate) fn write_allocate(&self) -> Option<bool> {
        tables().write_allocate.contains(&self.name).then_some(true)
    }

    /// Returns the operations per cycle of a processor with this name and these instruction sets. If `isa` is `None`,
    /// all instruction sets are assumed to be available. Returns `None` if the table has no matching entry.
    pub(crate) fn throughput(
        &self,
        name: Option<&str>,
        isa: Option<&[String]>,
    ) -> Option<Throughput> {
        let name = simplify_name(name.unwrap_or_default());
        if contains_any(&name, &self.not_known) {
            return None;
        }
        let one_unit =
            contains_any(&name, &self.one_unit) && !contains_any(&name, &self.one_unit_except);
        let key = if one_unit { "avx512x1" } else { self.flops.as_deref()? };
        let rows = tables().flops.get(key)?;
        rows.iter().find(|row| isa.is_none_or(|isa| isa.contains(&row.isa))).cloned()
    }
}

/// True if `name`, which [`simplify_name`] has normalised, contains one of `parts`.
fn contains_any(name: &str, parts: &[String]) -> bool {
    parts.iter().any(|part| name.contains(&simplify_name(part)))
}

/// Returns the catalog entry for a processor. The entry with the longest model name whose words occur one after another
/// in the processor's name is used; if there is none, the entry of the generation with these identification numbers.
pub(crate) fn find(
    name: Option<&str>,
    identity: Option<&ProcessorIdentity>,
) -> Option<ProcessorEntry> {
    name.and_then(by_name).or_else(|| {
        let identity = identity?;
        let name = name.unwrap_or_default();
        tables().generation.iter().find_map(|generation| {
            let family = generation.whole_family.as_ref().filter(|of| of.holds(name, identity))?;
            let mut entry = generation.entry(None);
            if let (Some(memory), Some(or)) = (&mut entry.memory, &family.or) {
                memory.at_most = true;
                let note = memory.note.take().map_or_else(String::new, |note| note + "; ");
                memory.note = Some(format!("{note}it may be {or}"));
            }
            Some(entry)
        })
    })
}

/// Returns the catalog entry for a processor by the name that the user gives.
///
/// # Errors
/// Fails if the catalog has no such processor; the error suggests similar names.
pub fn find_by_name(name: &str) -> Result<ProcessorEntry, Failure> {
    by_name(name).ok_or_else(|| {
        let models = tables().generation.iter().flat_map(|generation| generation.models.keys());
        let mut near: Vec<(NameDistance, &str)> =
            models.map(|model| (name_distance(name, model), model.as_str())).collect();
        near.retain(|((edits, ..), _)| *edits <= 1);
        near.sort();
        let near: Vec<&str> = near.iter().take(3).map(|(_, model)| *model).collect();
        let hint = if near.is_empty() {
            "e.g. \"EPYC 9654\" or \"Xeon Platinum 8480+\"".to_owned()
        } else {
            format!("did you mean \"{}\"?", near.join("\" or \""))
        };
        Failure::usage(format!("no processor \"{name}\" in the catalog")).hint(hint)
    })
}

/// Distance between a typed and a known name; smaller is a better match. The fields are compared in order: number of
/// edits between the last words, which distinguish models; false if the last word of the known name begins with the
/// last typed word; number of edits between the whole names.
pub type NameDistance = (usize, bool, usize);

/// Returns the distance between a typed name and a known one.
pub fn name_distance(typed: &str, known: &str) -> NameDistance {
    let typed = simplify_name(typed);
    let known = simplify_name(known);
    let [last, last_known] = [&typed, &known].map(|text| text.rsplit(' ').next().unwrap_or(text));
    (levenshtein(last_known, last), !last_known.starts_with(last), levenshtein(&known, &typed))
}

/// Returns the number of words of `model`; `None` unless `words`, the name of a processor, contains them one after
/// another.
fn matched_words(words: &[&str], model: &str) -> Option<usize> {
    let wanted = simplify_name(model);
    let wanted: Vec<&str> = wanted.split(' ').collect();
    let at = words.windows(wanted.len()).position(|window| window == wanted)?;
    // The name "E5-2680" does not match "E5-2680 v4", which is a different processor.
    let next = words.get(at + wanted.len()).and_then(|word| word.strip_prefix('v'));
    let other = next.is_some_and(|rest| rest.parse::<u32>().is_ok());
    (!other).then_some(wanted.len())
}

fn by_name(name: &str) -> Option<ProcessorEntry> {
    let plain_name = simplify_name(name);
    let words: Vec<&str> = plain_name.split(' ').collect();

    let models = tables().generation.iter().flat_map(|generation| {
        generation.models.iter().map(move |(model, ghz)| (generation, model.as_str(), *ghz))
    });
    let known = models.filter_map(|of| Some((matched_words(&words, of.1)?, of)));
    // If several matching names have the same length, the first name in the table is used.
    let (_, (generation, model, ghz)) = known.rev().max_by_key(|(length, _)| *length)?;
    Some(generation.entry(Some((model, ghz))))
}

/// Returns a name in lower case without trade marks, filler words and repeated spaces.
pub fn simplify_name(name: &str) -> String {
    let mut text = name.to_lowercase();
    for mark in ["(r)", "(tm)", "\u{ae}", "\u{2122}"] {
        text = text.replace(mark, " ");
    }
    let text = text.split('@').next().unwrap_or_default();
    let words: Vec<&str> =
        text.split_whitespace().filter(|word| !["cpu", "processor"].contains(word)).collect();
    words.join(" ")
}

/// Returns the clock at the end of Intel's processor names, e.g. `... CPU @ 2.30GHz`.
pub(crate) fn clock_in_name(name: &str) -> Option<Hertz> {
    let (_, clock) = name.rsplit_once('@')?;
    let ghz: f64 = clock.trim().strip_suffix("GHz")?.trim().parse().ok()?;
    Some(Hertz(ghz * 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn x86(vendor: &str, family: u32, model: u32, stepping: u32) -> ProcessorIdentity {
        ProcessorIdentity { vendor: vendor.to_owned(), family, model, stepping: Some(stepping) }
    }

    fn node_bandwidth(name: &str, sockets: u32) -> f64 {
        let memory = find(Some(name), None).unwrap().memory.unwrap();
        f64::from(sockets * memory.channels * memory.channel_bytes) * memory.transfers_per_s.0
    }

    #[test]
    fn processor_catalog_is_consistent() {
        let tables = tables();
        for name in &tables.write_allocate {
            assert!(microarchitecture_named(name).is_some(), "{name}");
        }
        for row in &tables.microarchitecture {
            assert!(row.flops.as_ref().is_none_or(|key| tables.flops.contains_key(key)));
            assert!(row.models.iter().all(|range| range[0] <= range[1]), "{}", row.name);
        }
        let mut seen = std::collections::BTreeSet::new();
        for generation in &tables.generation {
            assert!(
                microarchitecture_named(&generation.microarchitecture).is_some(),
                "{}",
                generation.name
            );
            for (model, ghz) in &generation.models {
                assert!(seen.insert(simplify_name(model)), "{model} twice");
                assert!((1.0..5.0).contains(ghz), "{model}");
            }
        }
        for rows in tables.flops.values() {
            assert!(rows.windows(2).all(|pair| pair[0].per_cycle >= pair[1].per_cycle));
        }
    }

    #[test]
    fn processors_of_literature_have_known_bandwidth_and_clock() {
        assert_eq!(node_bandwidth("AMD EPYC 7H12 64-Core Processor", 2), 409.6e9);
        assert_eq!(node_bandwidth("AMD EPYC 9654 96-Core Processor", 2), 921.6e9);
        assert_eq!(node_bandwidth("AMD EPYC 7F52 16-Core Processor", 2), 409.6e9);
        assert_eq!(node_bandwidth("Intel(R) Xeon(R) Platinum 8480+", 2), 614.4e9);
        assert_eq!(node_bandwidth("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", 2), 153.6e9);
        assert_eq!(node_bandwidth("Xeon Phi 7110P", 1), 352e9);
        let clock = |name| find(Some(name), None).unwrap().base.unwrap().0;
        assert_eq!(clock("AMD EPYC 7H12 64-Core Processor"), 2.6e9);
        assert_eq!(clock("AMD EPYC 7F52 16-Core Processor"), 3.5e9);
        assert_eq!(clock("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz"), 2.4e9);
        assert_eq!(clock("Intel(R) Xeon(R) CPU E5-2680 0 @ 2.70GHz"), 2.7e9);
    }

    #[test]
    fn processor_name_matches_whole_words() {
        assert_eq!(
            find(Some("AMD EPYC 7702P 64-Core Processor"), None).unwrap().model.unwrap(),
            "EPYC 7702P"
        );
        assert_eq!(find(Some("Intel(R) Xeon(R) CPU E5-2660 v9 @ 2.00GHz"), None), None);
        assert_eq!(find(Some("AMD EPYC 77021"), None), None);
    }

    #[test]
    fn unnamed_amd_processor_is_found_by_its_generation() {
        let generation = |family, model| {
            find(Some("AMD EPYC"), Some(&x86("AuthenticAMD", family, model, 1))).map(|entry| {
                (entry.generation, entry.memory.map(|m| (m.channels, m.transfers_per_s.0)))
            })
        };
        assert_eq!(generation(0x17, 0x31), Some(("Rome".into(), Some((8, 3200e6)))));
        assert_eq!(generation(0x19, 0x01), Some(("Milan".into(), Some((8, 3200e6)))));
        assert_eq!(generation(0x19, 0x11), Some(("Genoa".into(), Some((12, 4800e6)))));
        assert_eq!(generation(0x1a, 0x02), Some(("Turin".into(), Some((12, 6400e6)))));
        assert_eq!(generation(0x1a, 0x44), None);
        let threadripper = x86("AuthenticAMD", 0x17, 0x31, 0);
        assert_eq!(find(Some("AMD Ryzen Threadripper 3990X"), Some(&threadripper)), None);
    }

    #[test]
    fn processors_with_fewer_channels_are_separate_entries() {
        assert_eq!(node_bandwidth("AMD EPYC 7282 16-Core Processor", 2), 2.0 * 85.344e9);
        let rome = x86("AuthenticAMD", 0x17, 0x31, 0);
        for model in ["7282 16-Core", "7272 12-Core", "7252 8-Core", "7232P 8-Core"] {
            let name = format!("AMD EPYC {model} Processor");
            let memory = find(Some(&name), Some(&rome)).unwrap().memory.unwrap();
            assert_eq!(
                (memory.channels, memory.transfers_per_s),
                (4, TransfersPerSec(2667e6)),
                "{name}"
            );
        }
        let naples = x86("AuthenticAMD", 0x17, 0x01, 2);
        assert_eq!(find(Some("AMD EPYC 3251 8-Core Processor"), Some(&naples)), None);
        let memory =
            |name: &str, identity: &ProcessorIdentity| find(Some(name), Some(identity))?.memory;
        assert!(memory("AMD EPYC-Rome Processor", &rome).unwrap().at_most);
        assert!(!memory("AMD EPYC 7742 64-Core Processor", &rome).unwrap().at_most);
    }

    #[test]
    fn unnamed_intel_processor_has_the_memory_limit_of_its_generation() {
        let memory = |name: &str, model, stepping| {
            let identity = x86("GenuineIntel", 6, model, stepping);
            let memory = find(Some(name), Some(&identity))?.memory?;
            assert!(memory.at_most && memory.note.is_some(), "{name}");
            Some(f64::from(memory.channels * memory.channel_bytes) * memory.transfers_per_s.0)
        };
        let nameless = "Intel(R) Xeon(R) Processor";
        assert_eq!(memory(nameless, 0x8f, 8), Some(307.2e9));
        assert_eq!(memory("Intel(R) Xeon(R) CPU @ 2.00GHz", 0x55, 3), Some(127.968e9));
        assert_eq!(memory(nameless, 0x55, 7), Some(140.784e9));
        assert_eq!(memory(nameless, 0x55, 11), Some(153.6e9));
        assert_eq!(memory("Intel Xeon Processor (Icelake)", 0x6a, 6), Some(204.8e9));
        assert_eq!(memory(nameless, 0xcf, 2), Some(358.4e9));
        assert_eq!(memory(nameless, 0xad, 1), Some(844.8e9));
        assert_eq!(memory(nameless, 0xaf, 3), Some(614.4e9));
        // Xeon Max has memory on the package; the i9 is not a server processor.
        assert_eq!(memory("Intel(R) Xeon(R) CPU Max 9460", 0x8f, 8), None);
        assert_eq!(memory("Intel(R) Core(TM) i9-7900X CPU @ 3.30GHz", 0x55, 4), None);
    }

    #[test]
    fn microarchitecture_is_found_by_family_model_and_stepping() {
        let name =
            |identity: ProcessorIdentity| microarchitecture(&identity).map(|row| row.name.as_str());
        assert_eq!(name(x86("GenuineIntel", 6, 0x55, 4)), Some("Skylake-SP"));
        assert_eq!(name(x86("GenuineIntel", 6, 0x55, 7)), Some("Cascade Lake"));
        assert_eq!(name(x86("GenuineIntel", 6, 0x55, 11)), Some("Cooper Lake"));
        assert_eq!(name(x86("GenuineIntel", 6, 0xad, 1)), Some("Granite Rapids"));
        assert_eq!(name(x86("AuthenticAMD", 0x19, 0xa0, 2)), Some("Zen 4c"));
        assert_eq!(name(x86("AuthenticAMD", 0x1a, 0x02, 1)), Some("Zen 5"));
        assert_eq!(name(x86("0x46", 0, 0x001, 0)), Some("A64FX"));
        assert_eq!(name(x86("0x41", 0, 0xd4f, 0)), Some("Neoverse V2"));
        assert_eq!(name(x86("GenuineIntel", 15, 4, 1)), None);
    }

    #[test]
    fn missing_instruction_set_lowers_peak() {
        let isa = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let per_cycle = |name: &str, sets: &[String]| {
            microarchitecture_named(name).unwrap().throughput(None, Some(sets)).map(|t| t.per_cycle)
        };
        let full = isa(&["sse2", "avx", "avx2", "fma", "avx512f"]);
        assert_eq!(per_cycle("Zen 5", &full), Some(32));
        assert_eq!(per_cycle("Zen 5", &isa(&["sse2", "avx", "avx2", "fma"])), Some(16));
        assert_eq!(per_cycle("Zen 4", &full), Some(16));
        assert_eq!(per_cycle("Haswell", &isa(&["sse2", "avx"])), Some(8));
        assert_eq!(per_cycle("Sandy Bridge", &isa(&["sse2", "avx"])), Some(8));
        assert_eq!(per_cycle("K10", &isa(&["sse2"])), Some(4));
        assert_eq!(per_cycle("Knights Landing", &full), Some(32));
        assert_eq!(per_cycle("A64FX", &isa(&["neon", "sve"])), Some(32));
        assert_eq!(per_cycle("Alder Lake", &full), None);
    }

    #[test]
    fn xeons_with_one_avx512_unit_have_half_peak() {
        let cascade = microarchitecture_named("Cascade Lake").unwrap();
        let per_cycle = |name| cascade.throughput(Some(name), None).map(|t| t.per_cycle);
        assert_eq!(per_cycle("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz"), Some(32));
        assert_eq!(per_cycle("Intel(R) Xeon(R) Gold 5218 CPU @ 2.30GHz"), Some(16));
        assert_eq!(per_cycle("Intel(R) Xeon(R) Gold 5222 CPU @ 3.80GHz"), Some(32));
        assert_eq!(per_cycle("Intel(R) Xeon(R) Silver 4216 CPU @ 2.10GHz"), Some(16));
    }

    #[test]
    fn unknown_processor_is_refused_with_suggestions() {
        assert_eq!(
            find_by_name("EPYC 9655X").unwrap_err().to_string(),
            "no processor \"EPYC 9655X\" in the catalog\nhint: did you mean \"EPYC 9655\" or \"EPYC 9655P\"?"
        );
        for typed in ["Xeon 8480", "8480", "Xeon Platinum 8480"] {
            let error = find_by_name(typed).unwrap_err().to_string();
            assert!(error.contains("did you mean \"Xeon Platinum 8480+\""), "{error}");
        }
        assert_eq!(
            find_by_name("Z80").unwrap_err().to_string(),
            "no processor \"Z80\" in the catalog\nhint: e.g. \"EPYC 9654\" or \"Xeon Platinum 8480+\""
        );
    }

    #[test]
    fn base_clock_is_read_from_intel_name() {
        assert_eq!(
            clock_in_name("Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz"),
            Some(Hertz(2.3e9))
        );
        assert_eq!(clock_in_name("AMD EPYC 7H12 64-Core Processor"), None);
    }
}
