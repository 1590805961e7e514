//! Parser of BabelStream's output, as text and as CSV, and conversion to figures.
//!
//! The parser performs no input or output. A line is accepted only if the product of its rate and its minimum time
//! equals the counted bytes of its kernel.

use crate::GAUGE;
use crate::config::{DeviceConfig, DeviceStreamConfig};
use crate::kernels::babelstream_name;
use crate::names::STREAM;
use nodegauge_kernels::{Element, Kernel};
use nodegauge_measure::record::{Category, Measurement, Quoted, Validity};
use nodegauge_measure::{BytesPerSec, Seconds, Unit};
use std::fmt;

/// First line of the text form.
const TITLE: &str = "BabelStream";
/// Names of the first columns of the CSV form, before the column whose name contains the unit.
const CSV: &str = "function,num_times,n_elements,sizeof,max_";
/// Units of the rates that BabelStream prints, with the number of bytes per unit.
const UNITS: [(&str, f64); 4] =
    [("MB", 1e6), ("GB", 1e9), ("MiB", 1048576.0), ("GiB", 1073741824.0)];
/// Tolerance of the comparison of rate and time: times are printed with five decimal places.
const ROUNDED_SECONDS: f64 = 5.1e-6;

/// Line of the table, with the times of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BabelstreamLine {
    /// Kernel; BabelStream's Mul is Scale.
    pub kernel: Kernel,
    /// Best rate, B/s.
    pub rate: BytesPerSec,
    /// Minimum, maximum and average time, seconds.
    pub times: [Seconds; 3],
}

/// Parsed output of a BabelStream run.
#[derive(Debug, Clone, PartialEq)]
pub struct BabelStreamOutput {
    /// Version of BabelStream; `None` for the CSV form, which does not contain the version.
    pub version: Option<String>,
    /// Programming model of the build, e.g. `CUDA`.
    pub model: Option<String>,
    /// Name of the device.
    pub device: Option<String>,
    /// Type of the elements.
    pub element: Element,
    /// Elements per array.
    pub elements: u64,
    /// Number of runs of each kernel.
    pub repeats: u64,
    /// Message that BabelStream prints if results are wrong.
    pub failed: Option<String>,
    /// Lines of the table.
    pub lines: Vec<BabelstreamLine>,
}

impl BabelStreamOutput {
    /// Parses the output of a run. Returns `None` for the output of another program.
    ///
    /// # Errors
    /// Returns a message that names the missing or inconsistent part.
    pub fn read(text: &str) -> Option<Result<Self, String>> {
        let is_title = |line: &str| line.trim() == TITLE || line.starts_with(CSV);
        text.lines().any(is_title).then(|| Self::parse(text))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let value = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key))
                .map(|value| value.trim().to_owned())
        };
        let mut found = Self {
            version: value("Version:"),
            model: value("Implementation:"),
            device: text.lines().find_map(|line| {
                let (_, name) = line.strip_prefix("Using ")?.split_once("device ")?;
                Some(name.trim().to_owned())
            }),
            element: match value("Precision:").as_deref() {
                Some("float") => Element::F32,
                _ => Element::F64,
            },
            elements: value("Number of elements:").and_then(|n| n.parse().ok()).unwrap_or(0),
            repeats: value("Running").and_then(|words| number_before(&words, "times")).unwrap_or(0),
            failed: text.lines().find(|line| line.starts_with("FAILED")).map(str::to_owned),
            lines: Vec::new(),
        };
        let mut unit = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix(CSV) {
                unit = unit_of(rest.split("_per_sec").next().unwrap_or_default());
            } else if let Some(rest) = line.strip_prefix("Function ") {
                unit = unit_of(
                    rest.split_whitespace().next().unwrap_or_default().trim_end_matches("/s"),
                );
            } else if let Some(unit) = unit {
                let csv = line.contains(',');
                let mut words = line.split([',', ' ']).filter(|word| !word.is_empty());
                let Some(kernel) = words.next().and_then(kernel_of) else { continue };
                let numbers: Option<Vec<f64>> = words.map(|word| word.parse().ok()).collect();
                let numbers = numbers.unwrap_or_default();
                let [rate, least, most, average] = match (csv, numbers.as_slice()) {
                    (true, [repeats, elements, bytes, rest @ ..]) => {
                        (found.repeats, found.elements) = (*repeats as u64, *elements as u64);
                        found.element = if *bytes == 4.0 { Element::F32 } else { Element::F64 };
                        rest.try_into().ok()
                    }
                    (_, numbers) => numbers.try_into().ok(),
                }
                .ok_or_else(|| format!("expected a line with four figures: {line:?}"))?;
                found.lines.push(BabelstreamLine {
                    kernel,
                    rate: BytesPerSec(rate * unit),
                    times: [Seconds(least), Seconds(most), Seconds(average)],
                });
            }
        }
        if found.lines.is_empty() && found.failed.is_none() {
            return Err("the output has no table; the run did not finish".to_owned());
        }
        for line in &found.lines {
            let [least, most, average] = line.times.map(|time| time.0);
            let bytes = found.bytes(line.kernel);
            let positive = line.rate.0.is_finite() && line.rate.0 > 0.0 && least > 0.0;
            let off = (bytes / line.rate.0 - least).abs();
            let ordered = least <= average && average <= most && most.is_finite();
            if !positive || !ordered || off > ROUNDED_SECONDS + least * 1e-3 {
                let name = name_of(line.kernel);
                return Err(format!(
                    "rate and times of {name} are inconsistent with {} elements",
                    found.elements
                ));
            }
        }
        Ok(found)
    }

    /// Returns the bytes that STREAM counts for one pass of a kernel.
    fn bytes(&self, kernel: Kernel) -> f64 {
        kernel.counted(self.element) as f64 * self.elements as f64
    }

    /// Returns the figures of the run; `on` is the configuration of the device, if known.
    pub fn measurements(&self, on: Option<&DeviceConfig>) -> Vec<Measurement> {
        let named = DeviceConfig { device_name: self.device.clone(), ..DeviceConfig::default() };
        let words = [self.version.as_deref(), self.model.as_deref()];
        let version = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let config = DeviceStreamConfig {
            on: on.cloned().unwrap_or(named),
            engine: Some("babelstream".to_owned()),
            engine_version: Some(version).filter(|version| !version.is_empty()),
            element: Some(self.element.name().to_owned()),
            array_bytes: Some(self.elements * self.element.bytes()),
            ..DeviceStreamConfig::default()
        };
        let figure = |line: &BabelstreamLine| {
            let mut validity = Validity::valid();
            if let Some(failed) = &self.failed {
                validity.invalid(failed.clone());
            }
            Measurement::new(GAUGE, STREAM, line.kernel.name(), Unit::BytesPerSecond)
                .category(Category::Reference)
                .value(Quoted::Best, line.rate.0)
                .config(&config)
                .judged(validity)
        };
        self.lines.iter().map(figure).collect()
    }
}

/// Returns the number before the word `what`, e.g. `100` for `times` in `Classic kernels 100 times`.
fn number_before(words: &str, what: &str) -> Option<u64> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let at = words.iter().position(|word| *word == what)?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

fn unit_of(name: &str) -> Option<f64> {
    UNITS.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

/// Returns BabelStream's name of a kernel.
fn name_of(kernel: Kernel) -> String {
    let name = babelstream_name(kernel).unwrap_or_else(|| kernel.name());
    name[..1].to_uppercase() + &name[1..]
}

fn kernel_of(name: &str) -> Option<Kernel> {
    crate::kernels::kernels().map(|spec| spec.kernel).find(|kernel| name_of(*kernel) == name)
}

/// Prints the CSV form.
impl fmt::Display for BabelStreamOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{CSV}MB_per_sec,min_runtime,max_runtime,avg_runtime")?;
        for BabelstreamLine { kernel, rate, times } in &self.lines {
            let (name, repeats, elements) = (name_of(*kernel), self.repeats, self.elements);
            let [least, most, average] = times.map(|time| time.0);
            let (bytes, rate) = (self.element.bytes(), rate.0 / 1e6);
            writeln!(f, "{name},{repeats},{elements},{bytes},{rate},{least},{most},{average}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::record::Status;

    const TEXT: &str = include_str!("../tests/outputs/babelstream-text-2t.txt");
    const TABLE: &str = include_str!("../tests/outputs/babelstream-csv-2t.txt");

    fn read(text: &str) -> BabelStreamOutput {
        BabelStreamOutput::read(text).unwrap().unwrap()
    }

    #[test]
    fn both_forms_are_read_and_mul_is_scale() {
        let (text, table) = (read(TEXT), read(TABLE));
        assert_eq!((text.version.as_deref(), text.model.as_deref()), (Some("5.0"), Some("OpenMP")));
        for of in [&text, &table] {
            assert_eq!((of.elements, of.repeats, of.element), (33_554_432, 100, Element::F64));
            let names: Vec<_> = of.lines.iter().map(|line| line.kernel.name()).collect();
            assert_eq!(names, ["copy", "scale", "add", "triad", "dot"]);
        }
        assert_eq!(table.lines[3].rate, BytesPerSec(49616e6));
        let all = text.measurements(None);
        assert_eq!((all[0].value, all[0].category), (Some(49292.665e6), Category::Reference));
        let config: DeviceStreamConfig = all[0].read_config();
        assert_eq!(config.array_bytes, Some(268_435_456));
        assert_eq!(config.engine_version.as_deref(), Some("5.0 OpenMP"));
    }

    #[test]
    fn what_is_printed_reads_back() {
        let table = read(TABLE);
        assert_eq!(read(&table.to_string()), table);
    }

    #[test]
    fn devices_units_and_failures_are_read() {
        let text = TEXT.replace(
            "Implementation: OpenMP",
            "Implementation: CUDA\nUsing CUDA device NVIDIA H100",
        );
        assert_eq!(read(&text).device.as_deref(), Some("NVIDIA H100"));
        let halved = TABLE.replace("max_MB", "max_GB");
        assert!(BabelStreamOutput::read(&halved).unwrap().unwrap_err().contains("Copy"));
        let failed = format!("{TEXT}FAILED validation of sum: 1 (is) != 2 (should)\n");
        let all = read(&failed).measurements(None);
        assert!(all.iter().all(|m| m.validity.status == Status::Invalid && m.value.is_none()));
    }

    #[test]
    fn what_is_cut_is_refused_and_other_texts_are_none() {
        let cut = TEXT.split("Function").next().unwrap();
        assert!(BabelStreamOutput::read(cut).unwrap().is_err());
        assert!(BabelStreamOutput::read("STREAM version $Revision: 5.10 $").is_none());
    }
}
