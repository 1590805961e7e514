//! Parser of BabelStream's output, as text and as CSV, and conversion to figures.
//!
//! The parser does no I/O. A line is accepted only if the product of its rate and its minimum time equals the counted
//! bytes of its kernel.

use crate::GAUGE;
use crate::config::{DeviceConfig, DeviceStreamConfig};
use crate::kernels::babelstream_name;
use crate::names::STREAM;
use nodegauge_gauge::readers::RunMark;
use nodegauge_kernels::{Element, Kernel};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Category, Measurement, QuotedStatistic, Validity};
use nodegauge_measure::{BytesPerSec, Seconds, Unit, UnitPrefix, printed};
use std::fmt;

/// First words of the text form; the second is that of version 2.
const TITLES: [&str; 2] = ["BabelStream", "GPU-STREAM"];
/// Names of the first columns in the CSV form; the name of the next column contains the unit.
const CSV: &str = "function,num_times,n_elements,sizeof,";
/// Units of the rates that BabelStream prints, with the number of bytes per unit. Versions 3 to 5 print `MBytes/sec` in
/// the text form and `mbytes` in the column name of the CSV form; later versions print `MB/s` and `MB`.
const UNITS: [(&str, UnitPrefix); 10] = [
    ("MB", UnitPrefix::Mega),
    ("GB", UnitPrefix::Giga),
    ("TB", UnitPrefix::Tera),
    ("MiB", UnitPrefix::Mebi),
    ("GiB", UnitPrefix::Gibi),
    ("TiB", UnitPrefix::Tebi),
    ("MBytes", UnitPrefix::Mega),
    ("MiBytes", UnitPrefix::Mebi),
    ("mbytes", UnitPrefix::Mega),
    ("mibytes", UnitPrefix::Mebi),
];
/// Tolerance in seconds for the comparison of rate and time: BabelStream prints times with five decimals.
const ROUNDED_SECONDS: f64 = 5.1e-6;
/// Maximum rounding error of the printed array size, in the printed unit. BabelStream prints the size with one decimal.
const ROUNDED_SIZE: f64 = 0.051;
/// Number of kernels that BabelStream runs unless the user selects one.
const USUAL_KERNELS: usize = 5;
/// First words of the messages that BabelStream prints if results are wrong.
const FAILURES: [&str; 2] = ["FAILED", "Validation failed"];
/// Words of the line that follows such a message, e.g. `Sum was 1923.4 but should be 1931.1`.
const WRONG_RESULT: &str = " but should be ";

/// Line of the table, with the times of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BabelStreamLine {
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
    /// Number of elements per array; computed from the printed size if the number was not printed.
    pub elements: u64,
    /// Relative rounding error of `elements`; 0 if the number was printed.
    pub elements_error: f64,
    /// Number of times that each kernel ran.
    pub repeats: u64,
    /// Number of kernels that the run selected; `None` if it was not printed.
    selected: Option<usize>,
    /// True if a rate is the mean over all repeats: with `--triad-only`, and with `--order Isolated`, for which
    /// BabelStream divides the time of all repeats by their number (`src/main.cpp`).
    is_total: bool,
    /// Message that BabelStream prints if results are wrong.
    pub failed: Option<String>,
    /// Lines of the table.
    pub lines: Vec<BabelStreamLine>,
}

/// Returns a mark if the line begins the output of a run: a title, or the header of a CSV table.
pub(crate) fn mark(line: &str) -> Option<RunMark> {
    let is_begin = TITLES.contains(&line) || line.starts_with(CSV);
    is_begin.then_some(RunMark::TITLE)
}

/// True if a line states that results are wrong.
fn is_failure(line: &str) -> bool {
    FAILURES.iter().any(|words| line.starts_with(words)) || line.contains(WRONG_RESULT)
}

impl BabelStreamOutput {
    /// Parses the output of a run. Returns `None` for the output of another program.
    ///
    /// # Errors
    /// Returns a message that names the missing or inconsistent part.
    pub fn read(text: &str) -> Option<Result<Self, String>> {
        text.lines().any(|line| mark(line.trim()).is_some()).then(|| Self::parse(text))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let running = value_after_key(text, "Running");
        let mut found = Self {
            version: value_after_key(text, "Version:"),
            model: value_after_key(text, "Implementation:"),
            device: text.lines().find_map(|line| {
                let (_, name) = line.trim().strip_prefix("Using ")?.split_once("device ")?;
                Some(name.trim().to_owned())
            }),
            element: match value_after_key(text, "Precision:").as_deref() {
                Some("float") => Element::F32,
                _ => Element::F64,
            },
            elements: value_after_key(text, "Number of elements:")
                .and_then(|n| n.parse().ok())
                .unwrap_or(0),
            elements_error: 0.0,
            repeats: running
                .as_deref()
                .and_then(|words| number_before(words, "times"))
                .unwrap_or(0),
            selected: running.as_deref().and_then(selected_kernels),
            is_total: running.as_deref().is_some_and(|words| words.contains("Isolated")),
            failed: text.lines().map(str::trim).find(|line| is_failure(line)).map(str::to_owned),
            lines: Vec::new(),
        };
        if found.elements == 0
            && let Some((bytes, error)) =
                value_after_key(text, "Array size:").as_deref().and_then(array_size)
        {
            found.elements = (bytes / found.element.bytes() as f64).round() as u64;
            found.elements_error = error;
        }
        let mut unit = None;
        for line in text.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix(CSV) {
                if rest.ends_with(",runtime") {
                    return found.with_csv_total(text);
                }
                let column = rest.strip_prefix("max_").and_then(|rest| rest.split_once("_per_sec"));
                let known = column.and_then(|(name, _)| rate_unit(name));
                unit = Some(known.ok_or_else(|| unsupported(rest))?);
            } else if let Some(rest) = line.strip_prefix("Function ") {
                let column = rest.split_whitespace().next().unwrap_or_default();
                let known = column.split_once('/').and_then(|(name, _)| rate_unit(name));
                unit = Some(known.ok_or_else(|| unsupported(column))?);
            } else if line.starts_with("Runtime (seconds):") {
                return found.with_total(text);
            } else if let Some(unit) = unit {
                let csv = line.contains(',');
                let mut words = line.split([',', ' ']).filter(|word| !word.is_empty());
                let Some(kernel) = words.next().and_then(kernel_by_name) else { continue };
                let numbers: Option<Vec<f64>> = words.map(|word| word.parse().ok()).collect();
                let numbers = numbers.unwrap_or_default();
                let [rate, min, max, average] = match (csv, numbers.as_slice()) {
                    (true, [repeats, elements, bytes, rest @ ..]) => {
                        (found.repeats, found.elements) = (*repeats as u64, *elements as u64);
                        found.element = if *bytes == 4.0 { Element::F32 } else { Element::F64 };
                        rest.try_into().ok()
                    }
                    (_, numbers) => numbers.try_into().ok(),
                }
                .ok_or_else(|| format!("expected a line with four figures: {line:?}"))?;
                if found.lines.iter().any(|known| known.kernel == kernel) {
                    return Err(format!("the table has several lines for {}", kernel_name(kernel)));
                }
                found.lines.push(BabelStreamLine {
                    kernel,
                    rate: BytesPerSec(rate * unit),
                    times: [Seconds(min), Seconds(max), Seconds(average)],
                });
            }
        }
        if found.lines.is_empty() && found.failed.is_none() {
            return Err("the output has no table; the run did not finish".to_owned());
        }
        for line in &found.lines {
            let [min, max, average] = line.times.map(|time| time.0);
            let bytes = found.bytes(line.kernel);
            let positive = printed::can_be_figure(line.rate.0) && printed::can_be_figure(min);
            let expected = bytes / line.rate.0;
            let off = (expected - min).abs();
            let ordered = min <= average && average <= max && max.is_finite();
            let rounding = ROUNDED_SECONDS + min * 1e-3 + expected * found.elements_error;
            if !positive || !ordered || off > rounding {
                let name = kernel_name(line.kernel);
                return Err(format!(
                    "rate and times of {name} are inconsistent with {} elements",
                    found.elements
                ));
            }
        }
        Ok(found)
    }

    /// Adds the rate of Triad that BabelStream computed from the total time of all repeats (`--triad-only`).
    fn with_total(mut self, text: &str) -> Result<Self, String> {
        let text = printed::whole_lines(text);
        let number = |key: &str| -> Option<(f64, f64)> {
            let word = value_after_key(text, key)?;
            let decimals = word.split_once('.').map_or(0, |(_, digits)| digits.len());
            Some((word.parse().ok()?, 0.6 * 0.1f64.powi(i32::try_from(decimals).ok()?)))
        };
        let (rate, unit) =
            [("Bandwidth (GB/s):", UnitPrefix::Giga), ("Bandwidth (GiB/s):", UnitPrefix::Gibi)]
                .into_iter()
                .find_map(|(key, prefix)| Some((number(key)?, prefix.factor())))
                .ok_or("the output has no bandwidth; the run did not finish")?;
        let seconds = number("Runtime (seconds):").ok_or("the total time cannot be read")?;
        self.total((rate.0 * unit, rate.1 * unit), seconds)
    }

    /// Adds the rate of Triad from the CSV form of a run with `--triad-only`.
    fn with_csv_total(mut self, text: &str) -> Result<Self, String> {
        let mut lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with(CSV));
        let header = lines.next().unwrap_or_default();
        let unit = match header.strip_prefix(CSV) {
            Some("gbytes_per_sec,runtime" | "GB_per_s,runtime") => 1e9,
            Some("gibytes_per_sec,runtime" | "GiB_per_s,runtime") => UnitPrefix::Gibi.factor(),
            _ => return Err(unsupported(header)),
        };
        let row = lines.next().and_then(|row| row.strip_prefix("Triad,"));
        let row = row.ok_or("the output has no row of Triad; the run did not finish")?;
        let numbers: Option<Vec<f64>> = row.split(',').map(|word| word.parse().ok()).collect();
        let Some([repeats, elements, bytes, rate, seconds]) = numbers.as_deref() else {
            return Err(format!("expected a line with five numbers: {row:?}"));
        };
        (self.repeats, self.elements) = (*repeats as u64, *elements as u64);
        self.element = if *bytes == 4.0 { Element::F32 } else { Element::F64 };
        self.total((rate * unit, rate * unit * 1e-4), (*seconds, seconds * 1e-4))
    }

    /// Adds the rate of Triad if it matches the bytes of all repeats divided by their total time. `rate` and `seconds`
    /// are pairs of a value and its rounding error.
    fn total(&mut self, rate: (f64, f64), seconds: (f64, f64)) -> Result<Self, String> {
        let bytes = self.bytes(Kernel::Triad) * self.repeats as f64;
        let least = bytes / (seconds.0 + seconds.1) - rate.1;
        let most = bytes / (seconds.0 - seconds.1).max(1e-9) + rate.1;
        if !printed::can_be_figure(rate.0) || !(least * 0.9999..=most * 1.0001).contains(&rate.0) {
            return Err(format!(
                "rate and time of Triad are inconsistent with {} elements",
                self.elements
            ));
        }
        let mean = Seconds(seconds.0 / self.repeats.max(1) as f64);
        self.selected = Some(1);
        self.is_total = true;
        self.lines.push(BabelStreamLine {
            kernel: Kernel::Triad,
            rate: BytesPerSec(rate.0),
            times: [mean; 3],
        });
        Ok(self.clone())
    }

    /// Returns the bytes that STREAM counts for one pass of a kernel.
    fn bytes(&self, kernel: Kernel) -> f64 {
        kernel.counted_bytes(self.element) as f64 * self.elements as f64
    }

    /// Returns the reason why the table may be incomplete.
    fn incomplete_reason(&self) -> Option<String> {
        let kernels = self.lines.len();
        let missing = self.selected.unwrap_or(USUAL_KERNELS).saturating_sub(kernels);
        (missing > 0).then(|| {
            let all = count_in_words(kernels + missing, "kernel");
            format!(
                "the table has {kernels} of {all}: {}, or only some kernels were selected",
                printed::TRUNCATION_REASON
            )
        })
    }

    /// Returns the figures of the run. They are suspect if the table may be incomplete. `on` is the configuration of
    /// the device, if known.
    pub fn measurements(&self, on: Option<&DeviceConfig>) -> Vec<Measurement> {
        let named = DeviceConfig { device_name: self.device.clone(), ..DeviceConfig::default() };
        let words = [self.version.as_deref(), self.model.as_deref()];
        let version = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let config = DeviceStreamConfig {
            on: on.cloned().unwrap_or(named),
            engine: Some("babelstream".to_owned()),
            engine_version: Some(version).filter(|version| !version.is_empty()),
            element: Some(self.element.name().to_owned()),
            array_bytes: Some(self.elements.saturating_mul(self.element.bytes())),
            ..DeviceStreamConfig::default()
        };
        let mut validity = Validity::valid();
        if let Some(failed) = &self.failed {
            validity.mark_invalid(failed.clone());
        }
        if let Some(reason) = self.incomplete_reason() {
            validity.mark_suspect(reason);
        }
        let mut all = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            let m = Measurement::new(GAUGE, STREAM, line.kernel.name(), Unit::BytesPerSecond)
                .with_category(Category::Reference)
                .with_value(
                    if self.is_total { QuotedStatistic::Mean } else { QuotedStatistic::Best },
                    line.rate.0,
                );
            all.push(m.with_config(&config).with_validity(validity.clone()));
        }
        all
    }
}

/// Returns the text after a key at the beginning of a line.
pub(crate) fn value_after_key(text: &str, key: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.trim().strip_prefix(key))?;
    Some(value.trim().to_owned())
}

/// Returns the number of kernels from the words after `Running`: `kernels 100 times` up to version 5, `Classic kernels
/// 100 times ...` and `Triad 100 times ...` in later versions; `None` if the words are unknown.
fn selected_kernels(words: &str) -> Option<usize> {
    // Version 6 prints the word twice before the name of a single kernel.
    let words = words.trim().trim_start_matches("Running").trim();
    match words.split_whitespace().next()? {
        "kernels" | "Classic" => Some(USUAL_KERNELS),
        "All" => Some(USUAL_KERNELS + 1),
        name => kernel_by_name(name).map(|_| 1),
    }
}

/// Parses the printed size of an array, e.g. `268.4 MB (=0.3 GB)`. Returns the bytes and their relative rounding error.
fn array_size(words: &str) -> Option<(f64, f64)> {
    let mut words = words.split_whitespace();
    let number: f64 = words.next()?.parse().ok()?;
    let unit = rate_unit(words.next()?)?;
    (number > 0.0).then_some((number * unit, ROUNDED_SIZE / number))
}

/// Returns the message for a CSV table with unknown columns.
fn unsupported(columns: &str) -> String {
    format!("unexpected columns of BabelStream's table: {columns:?}")
}

/// Returns the number before the word `what`, e.g. `100` for `times` in `Classic kernels 100 times`.
fn number_before(words: &str, what: &str) -> Option<u64> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let at = words.iter().position(|word| *word == what)?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

fn rate_unit(name: &str) -> Option<f64> {
    UNITS.iter().find(|(known, _)| *known == name).map(|(_, prefix)| prefix.factor())
}

/// Returns BabelStream's name of a kernel.
fn kernel_name(kernel: Kernel) -> String {
    let name = babelstream_name(kernel).unwrap_or_else(|| kernel.name());
    name[..1].to_uppercase() + &name[1..]
}

fn kernel_by_name(name: &str) -> Option<Kernel> {
    crate::kernels::kernels().map(|spec| spec.kernel).find(|kernel| kernel_name(*kernel) == name)
}

/// Prints the CSV form.
impl fmt::Display for BabelStreamOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{CSV}max_MB_per_sec,min_runtime,max_runtime,avg_runtime")?;
        for BabelStreamLine { kernel, rate, times } in &self.lines {
            let name = kernel_name(*kernel);
            let repeats = self.repeats;
            let elements = self.elements;
            let [min, max, average] = times.map(|time| time.0);
            let bytes = self.element.bytes();
            let rate = rate.0 / 1e6;
            writeln!(f, "{name},{repeats},{elements},{bytes},{rate},{min},{max},{average}")?;
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
    fn babelstream_5_text_and_csv_are_read() {
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
    fn babelstream_table_round_trips() {
        let table = read(TABLE);
        assert_eq!(read(&table.to_string()), table);
    }

    #[test]
    fn babelstream_devices_units_and_failures_are_read() {
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

    /// Output in the formats of versions 3.4 to 5.0, according to BabelStream's source. The text contains the array
    /// size instead of the number of elements.
    const RELEASED: &str = include_str!("../tests/outputs/babelstream-4.0-text.txt");
    const RELEASED_TABLE: &str = include_str!("../tests/outputs/babelstream-4.0-csv.txt");

    #[test]
    fn babelstream_4_text_and_csv_are_read() {
        for text in [RELEASED, RELEASED_TABLE] {
            let output = read(text);
            let all = output.measurements(None);
            let rates: Vec<f64> = all.iter().map(|m| m.value.unwrap().round() / 1e9).collect();
            assert_eq!(rates.len(), 5);
            assert!((rates[3] - 184.402).abs() < 0.001, "{rates:?}");
            assert!(all.iter().all(|m| m.validity.status == Status::Valid), "{all:#?}");
            assert_eq!(output.repeats, 100);
        }
        assert_eq!(read(RELEASED_TABLE).elements, 33_554_432);
        // The printed size has four digits.
        let elements = read(RELEASED).elements;
        assert!(elements.abs_diff(33_554_432) < 6500, "{elements}");
        let mebibytes = RELEASED_TABLE.replace("mbytes", "mibytes");
        assert!(BabelStreamOutput::read(&mebibytes).unwrap().unwrap_err().contains("Copy"));
        let in_mebibytes = RELEASED.replace("268.4 MB", "256.0 MiB").replace("MBytes", "MiBytes");
        assert!(BabelStreamOutput::read(&in_mebibytes).unwrap().is_err(), "rates are not MiB/s");
        let wrong = format!("{RELEASED}Validation failed on a[]. Average error 0.1\n");
        assert!(read(&wrong).measurements(None).iter().all(|m| m.value.is_none()));
    }

    #[test]
    fn table_with_missing_kernels_is_suspect() {
        let first = |text: &str| text.split("Mul").next().unwrap().to_owned();
        for text in [TEXT, TABLE, RELEASED, RELEASED_TABLE] {
            let all = read(&first(text)).measurements(None);
            assert_eq!((all.len(), all[0].validity.status), (1, Status::Suspect));
            assert_eq!(
                all[0].validity.reasons,
                [
                    "the table has 1 of 5 kernels: the output may be cut, or only some kernels were selected"
                ]
            );
        }
        // A run of one kernel is complete if the output states that one kernel was selected.
        let triad = TEXT.lines().filter(|line| {
            !["Copy", "Mul", "Add", "Dot"].iter().any(|name| line.starts_with(name))
        });
        let triad =
            triad.collect::<Vec<_>>().join("\n").replace(" Classic kernels", "Running Triad");
        assert_eq!(read(&triad).measurements(None)[0].validity.status, Status::Valid);
    }

    #[test]
    fn repeated_babelstream_line_is_refused() {
        let twice = format!("{RELEASED}{}", RELEASED.lines().nth(8).unwrap());
        assert!(BabelStreamOutput::read(&twice).unwrap().unwrap_err().contains("several lines"));
    }

    #[test]
    fn triad_rate_must_match_the_total_time() {
        let csv = format!("{CSV}gbytes_per_sec,runtime\nTriad,100,33554432,8,184.281,0.437\n");
        let text = "BabelStream\nVersion: 4.0\nRunning triad 100 times\nNumber of elements: 33554432\n\
            Precision: double\nRuntime (seconds): 0.43700\nBandwidth (GB/s):  184.281\n";
        for whole in [csv.as_str(), text] {
            let all = read(whole).measurements(None);
            assert_eq!(
                (all.len(), all[0].value, all[0].quoted),
                (1, Some(184.281e9), QuotedStatistic::Mean)
            );
            let wrong = whole.replace("184.281", "185.281");
            let error = BabelStreamOutput::read(&wrong).unwrap().unwrap_err();
            assert!(error.starts_with("rate and time of Triad are inconsistent"), "{error}");
        }
    }

    #[test]
    fn truncated_babelstream_output_is_refused() {
        let cut = TEXT.split("Function").next().unwrap();
        assert!(BabelStreamOutput::read(cut).unwrap().is_err());
        assert!(BabelStreamOutput::read("STREAM version $Revision: 5.10 $").is_none());
    }
}
