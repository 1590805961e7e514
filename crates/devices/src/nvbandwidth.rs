//! Parser of the output of NVIDIA's nvbandwidth, as text and as JSON (`-j`), and conversion to figures.
//!
//! The parser does no I/O. Test cases that correspond to figures of `device links` get the names of these figures;
//! other test cases keep nvbandwidth's names.

use crate::GAUGE;
use crate::config::{DeviceConfig, LinkConfig};
use crate::info::DeviceInfo;
use crate::names::{DEVICE_TO_DEVICE, LINKS, TO_DEVICE, TO_HOST};
use nodegauge_gauge::readers::RunMark;
use nodegauge_measure::record::{Category, Measurement, QuotedStatistic, Validity};
use nodegauge_measure::{Unit, printed};
use std::fmt;

/// Driver whose devices nvbandwidth measures.
pub const DRIVER: &str = "cuda";
/// First words of the output in text form.
const TITLE: &str = "nvbandwidth Version:";
/// First word of the line after a matrix.
const SUM: &str = "SUM ";
/// Key of the JSON form.
const ROOT: &str = "nvbandwidth";
/// First word of the output of a test case.
const RUNNING: &str = "Running ";
/// Test cases that measure the same quantities as `device links`, with the names that `device links` uses.
const EQUIVALENT_CASES: [(&str, &str); 3] = [
    ("host_to_device_memcpy_ce", TO_DEVICE),
    ("device_to_host_memcpy_ce", TO_HOST),
    ("device_to_device_memcpy_write_ce", DEVICE_TO_DEVICE),
];

/// Test case with its matrix of results.
#[derive(Debug, Clone, PartialEq)]
pub struct TestCase {
    /// Name of the test case, e.g. `host_to_device_memcpy_ce`.
    pub name: String,
    /// Meaning of rows, columns and numbers, as printed by nvbandwidth.
    pub description: String,
    /// Rows of the matrix; `None` for entries that are not measured.
    pub rows: Vec<Vec<Option<f64>>>,
    /// True if the end of the matrix was not printed, so that rows may be missing.
    pub is_truncated: bool,
}

/// Parsed output of an nvbandwidth run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NvbandwidthOutput {
    /// Version of nvbandwidth.
    pub version: Option<String>,
    /// Version of the driver.
    pub driver: Option<String>,
    /// Names and PCI addresses of devices, in nvbandwidth's order.
    pub devices: Vec<(String, String)>,
    /// Test cases that finished.
    pub cases: Vec<TestCase>,
}

/// Returns a mark if the line begins the output of a run: a title, or the root of a JSON document.
pub(crate) fn mark(line: &str) -> Option<RunMark> {
    if line.starts_with(TITLE) {
        return Some(RunMark::TITLE);
    }
    let (_, rest) = line.split_once("\"nvbandwidth\"")?;
    rest.trim_start().starts_with(':').then_some(RunMark::DOCUMENT)
}

/// Returns the version of nvbandwidth that the output contains.
pub(crate) fn version(text: &str) -> Option<String> {
    let version = match text.lines().find_map(|line| line.trim().strip_prefix(TITLE)) {
        Some(version) => version,
        None => text.split_once("\"version\"")?.1.split('"').nth(1)?,
    };
    Some(version.trim().trim_start_matches('v').to_owned()).filter(|version| !version.is_empty())
}

impl TestCase {
    /// True if `sum` equals the sum of the matrix, within the rounding errors of entries with two decimals.
    fn has_sum(&self, sum: f64) -> bool {
        let entries = self.rows.iter().flatten().flatten();
        let own: f64 = entries.clone().sum();
        (own - sum).abs() <= 0.006 * (entries.count() as f64 + 1.0)
    }

    /// True if the name has only characters of names of nvbandwidth.
    fn has_name(&self) -> bool {
        let is_in_names = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !self.name.is_empty() && self.name.chars().all(is_in_names)
    }

    fn from_json(case: &serde_json::Value) -> Option<Self> {
        let mut rows = Vec::new();
        for row in list(&case["bandwidth_matrix"]) {
            let values = list(row).iter().map(|value| matrix_entry(value.as_str()?));
            rows.push(values.collect::<Option<Vec<Option<f64>>>>()?);
        }
        let is_even = rows.windows(2).all(|two| two[0].len() == two[1].len());
        let found = Self {
            name: word(&case["name"])?,
            description: word(&case["bandwidth_description"])?,
            rows: Some(rows).filter(|rows| !rows.is_empty() && is_even)?,
            is_truncated: false,
        };
        let is_known = found.has_name() && unit(&found.description).is_some();
        let sum = case["sum"].as_f64();
        (is_known && sum.is_none_or(|sum| found.has_sum(sum))).then_some(found)
    }
}

/// Returns the number of columns if a line has the column numbers of a matrix: `0 1 2`. Returns `None` for other lines,
/// which may be those of a log.
fn column_count(line: &str) -> Option<usize> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut numbers = words.iter().map(|word| word.parse::<usize>());
    let is_numbered = (0..words.len()).all(|at| numbers.next() == Some(Ok(at)));
    (is_numbered && !words.is_empty()).then_some(words.len())
}

/// Converts a JSON value to text.
fn word(at: &serde_json::Value) -> Option<String> {
    at.as_str().map(str::to_owned)
}

/// Returns the elements of a JSON array; empty if the value is not an array.
fn list(at: &serde_json::Value) -> &[serde_json::Value] {
    at.as_array().map_or(&[], Vec::as_slice)
}

/// Returns name and PCI address of an entry in the list of devices, e.g.
/// `0: NVIDIA H100 80GB HBM3 (00000000:1b:00): (host)`.
fn listed_device(entry: &serde_json::Value) -> Option<(String, String)> {
    let (_, rest) = entry.as_str()?.split_once(": ")?;
    split_device(rest.rsplit_once(": (").map_or(rest, |(device, _)| device))
}

impl NvbandwidthOutput {
    /// Parses the output of a run. Returns `None` for the output of another program.
    ///
    /// # Errors
    /// Returns a message that names the missing part.
    pub fn read(text: &str) -> Option<Result<Self, String>> {
        let found = if text.trim_start().starts_with('{') {
            if !text.lines().any(|line| mark(line.trim()).is_some()) {
                return None;
            }
            match Self::from_json(text) {
                Ok(found) => found,
                Err(cause) => return Some(Err(cause)),
            }
        } else if text.lines().any(|line| line.starts_with(TITLE)) {
            Self::from_text(text)
        } else {
            return None;
        };
        let empty = "the output has no matrix; no test case finished".to_owned();
        Some(if found.cases.is_empty() { Err(empty) } else { Ok(found) })
    }

    /// Returns nvbandwidth's test cases that correspond to these names of `device links`.
    pub fn test_cases(names: &[&str]) -> impl Iterator<Item = String> {
        let asked = EQUIVALENT_CASES.iter().filter(|(_, ours)| names.contains(ours));
        asked.map(|(theirs, _)| (*theirs).to_owned())
    }

    fn from_text(text: &str) -> Self {
        let mut found = Self::default();
        let mut name: Option<&str> = None;
        let mut case: Option<TestCase> = None;
        // The line with the column numbers determines the number of columns.
        let mut columns = 0;
        for line in printed::whole_lines(text).lines().map(str::trim_end) {
            if let Some(version) = line.strip_prefix(TITLE) {
                found.version = Some(version.trim().trim_start_matches('v').to_owned());
            } else if let Some(version) = line.strip_prefix("Driver Version:") {
                found.driver = Some(version.trim().to_owned());
            } else if let Some((_, device)) =
                line.strip_prefix("Device ").and_then(|rest| rest.split_once(": "))
            {
                found.devices.extend(split_device(device));
            } else if let Some(running) = line.strip_prefix(RUNNING) {
                name = Some(running.trim_end_matches('.'));
                case = None;
            } else if case.is_none() && unit(line.trim()).is_some() {
                // If the line with the name is missing, the matrix is not that of the previous name.
                case = name.take().map(|name| TestCase {
                    name: name.to_owned(),
                    description: line.trim().to_owned(),
                    rows: Vec::new(),
                    is_truncated: false,
                });
            } else if line.trim().is_empty() || line.starts_with(SUM) {
                if let Some(sum) = line.strip_prefix(SUM) {
                    found.check_sum(sum);
                }
                found.cases.extend(case.take().filter(|case| !case.rows.is_empty()));
            } else if let Some(case) = &mut case {
                let mut words = line.split_whitespace();
                // The line with the column numbers contains no values; values in the rows have a decimal point.
                let number: Option<usize> = words.next().and_then(|word| word.parse().ok());
                let values: Option<Vec<Option<f64>>> = words.map(matrix_entry).collect();
                let is_row = line.contains('.') || line.contains("N/A");
                if let Some(count) = column_count(line) {
                    columns = count;
                }
                // A row with an unexpected number follows a missing row, so this row and all following rows are
                // ignored.
                let is_next = number == Some(case.rows.len());
                let values = values.filter(|values| is_row && is_next && values.len() == columns);
                case.is_truncated |= is_row && values.is_none();
                case.rows.extend(values);
            }
        }
        let last = case.filter(|case| !case.rows.is_empty());
        found.cases.extend(last.map(|unended| TestCase { is_truncated: true, ..unended }));
        found.cases.retain(TestCase::has_name);
        found
    }

    /// Removes the last test case if its printed sum differs from the sum of its matrix. Each entry has two decimals.
    fn check_sum(&mut self, printed: &str) {
        let Some((name, sum)) = printed.trim().rsplit_once(' ') else { return };
        let Some(case) = self.cases.last().filter(|case| case.name == name) else { return };
        let agrees = sum.parse().is_ok_and(|sum: f64| case.has_sum(sum));
        if !agrees && !case.is_truncated {
            self.cases.pop();
        }
    }

    fn from_json(text: &str) -> Result<Self, String> {
        let mut documents = serde_json::Deserializer::from_str(text).into_iter();
        let json: serde_json::Value = documents
            .next()
            .ok_or("its JSON is empty")?
            .map_err(|error| format!("its JSON is invalid: {error}"))?;
        let root = json.get(ROOT).ok_or("its JSON has no object \"nvbandwidth\"")?;
        Ok(Self {
            version: word(&root["version"])
                .map(|version| version.trim_start_matches('v').to_owned()),
            driver: word(&root["Driver Version"]),
            devices: list(&root["GPU Device list"]).iter().filter_map(listed_device).collect(),
            cases: list(&root["testcases"]).iter().filter_map(TestCase::from_json).collect(),
        })
    }

    /// Returns the ID of device `number` among the given devices; `None` if it is not one of them. Without given
    /// devices, the ID contains nvbandwidth's number.
    fn id_among(&self, number: usize, among: &[&DeviceInfo]) -> Option<String> {
        if among.is_empty() {
            return Some(format!("{DRIVER}:{number}"));
        }
        let (_, pci) = self.devices.get(number)?;
        among.iter().find(|info| info.pci.as_ref() == Some(pci)).map(|info| info.id())
    }

    /// Returns the figures of a run. `bytes` is the size of its copies, if known. Only devices with the PCI addresses
    /// of `among` are included; if `among` is empty, all devices are included, with nvbandwidth's numbers.
    pub fn measurements(&self, bytes: Option<u64>, among: &[&DeviceInfo]) -> Vec<Measurement> {
        let mut all = Vec::new();
        for case in &self.cases {
            // A row of the matrix is a device or the host. For copies between devices, the description of the matrix
            // contains `GPU(row)`.
            let across = case.description.contains("GPU(row)");
            for (row, values) in case.rows.iter().enumerate() {
                for (column, value) in values.iter().enumerate() {
                    // The diagonal of a matrix of copies between devices is 0, because no device copies to itself.
                    let Some(value) = value.filter(|value| printed::can_be_figure(*value)) else {
                        continue;
                    };
                    let number = if across { row } else { column };
                    let Some((device, peer)) =
                        self.id_among(number, among).zip(self.id_among(column, among))
                    else {
                        continue;
                    };
                    let peer = across.then_some(peer);
                    all.push(self.figure(case, number, device, peer, value, bytes));
                }
            }
        }
        all
    }

    fn figure(
        &self,
        case: &TestCase,
        number: usize,
        device: String,
        peer: Option<String>,
        value: f64,
        bytes: Option<u64>,
    ) -> Measurement {
        let known = self.devices.get(number);
        let config = LinkConfig {
            on: DeviceConfig {
                device: Some(device),
                device_name: known.map(|(name, _)| name.clone()),
                pci: known.map(|(_, pci)| pci.clone()),
                driver_version: self.driver.clone(),
                ..DeviceConfig::default()
            },
            engine: Some("nvbandwidth".to_owned()),
            engine_version: self.version.clone(),
            message_bytes: bytes,
            host_memory: peer.is_none().then(|| "pinned".to_owned()),
            peer,
            clock: Some("device".to_owned()),
            ..LinkConfig::default()
        };
        let mut validity = Validity::valid();
        if case.is_truncated {
            validity.mark_suspect(format!(
                "the end of the matrix is missing: {}",
                printed::TRUNCATION_REASON
            ));
        }
        let same = EQUIVALENT_CASES.iter().find(|(theirs, _)| *theirs == case.name);
        let name = same.map_or(case.name.as_str(), |(_, ours)| ours);
        let CaseUnit { unit, factor } = unit(&case.description).unwrap_or(CaseUnit::RATE);
        Measurement::new(GAUGE, LINKS, name, unit)
            .with_category(Category::Reference)
            .with_value(QuotedStatistic::Median, value * factor)
            .with_config(&config)
            .with_validity(validity)
    }
}

/// Unit of the entries of a matrix.
#[derive(Debug, Clone, Copy)]
struct CaseUnit {
    /// Unit of the figures.
    unit: Unit,
    /// Factor from the printed numbers to this unit.
    factor: f64,
}

impl CaseUnit {
    const RATE: Self = Self { unit: Unit::BytesPerSecond, factor: 1e9 };
    const TIME: Self = Self { unit: Unit::Seconds, factor: 1e-9 };
}

/// Returns the unit at the end of the description of a matrix; `None` for other lines and units.
fn unit(description: &str) -> Option<CaseUnit> {
    if description.ends_with("(GB/s)") {
        return Some(CaseUnit::RATE);
    }
    description.ends_with("(ns)").then_some(CaseUnit::TIME)
}

/// Splits a text such as `NVIDIA H100 80GB HBM3 (00000000:1b:00)` into the name and the PCI address in the kernel's
/// format.
fn split_device(text: &str) -> Option<(String, String)> {
    let (name, address) = text.trim().strip_suffix(')')?.rsplit_once(" (")?;
    Some((name.to_owned(), format!("{}.0", address.get(4..)?.to_lowercase())))
}

/// Parses an entry of a matrix: a number or `N/A`.
fn matrix_entry(text: &str) -> Option<Option<f64>> {
    match text {
        "N/A" => Some(None),
        text => text.parse().ok().filter(|value: &f64| value.is_finite()).map(Some),
    }
}

/// Prints the output in text form.
impl fmt::Display for NvbandwidthOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{TITLE} v{}\n", self.version.as_deref().unwrap_or_default())?;
        writeln!(f, "Driver Version: {}\n", self.driver.as_deref().unwrap_or_default())?;
        for (index, (name, pci)) in self.devices.iter().enumerate() {
            let address = pci.trim_end_matches(".0");
            writeln!(f, "Device {index}: {name} (0000{address})")?;
        }
        for TestCase { name, description, rows, .. } in &self.cases {
            writeln!(f, "\n{RUNNING}{name}.\n{description}")?;
            let columns = 0..rows.first().map_or(0, Vec::len);
            let columns = columns.fold(String::new(), |line, column| format!("{line}{column:>10}"));
            writeln!(f, "  {columns}")?;
            for (row, values) in rows.iter().enumerate() {
                write!(f, "{row:>2}")?;
                for value in values {
                    match value {
                        Some(value) => write!(f, "{value:>10.2}")?,
                        None => write!(f, "{:>10}", "N/A")?,
                    }
                }
                writeln!(f)?;
            }
            let sum: f64 = rows.iter().flatten().flatten().sum();
            writeln!(f, "\n{SUM}{name} {sum:.2}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::record::Status;

    /// Output in the format of version 0.8, according to nvbandwidth's source.
    const TEXT: &str = include_str!("../tests/outputs/nvbandwidth-0.8.txt");

    fn read(text: &str) -> NvbandwidthOutput {
        NvbandwidthOutput::read(text).unwrap().unwrap()
    }

    #[test]
    fn nvbandwidth_matrices_become_link_figures() {
        let output = read(TEXT);
        assert_eq!(output.version.as_deref(), Some("0.8"));
        let h100 = |pci: &str| ("NVIDIA H100 80GB HBM3".to_owned(), pci.to_owned());
        assert_eq!(output.devices, [h100("0000:1b:00.0"), h100("0000:43:00.0")]);
        let all = output.measurements(Some(512 << 20), &[]);
        let one = |name: &str, device: &str| {
            let found = all.iter().find(|m| {
                let config: LinkConfig = m.read_config();
                m.name == name && config.on.device.as_deref() == Some(device)
            });
            found.map(|m| (m.value.unwrap(), m.read_config::<LinkConfig>())).unwrap()
        };
        let (rate, config) = one("host_to_device", "cuda:1");
        assert_eq!((rate, config.on.pci.as_deref()), (55.64e9, Some("0000:43:00.0")));
        assert_eq!((config.peer, config.message_bytes), (None, Some(512 << 20)));
        let (device_rate, device_config) = one("device_to_device", "cuda:1");
        assert_eq!((device_rate, device_config.peer.as_deref()), (392.60e9, Some("cuda:0")));
        assert!((one("host_device_latency_sm", "cuda:0").0 - 679.47e-9).abs() < 1e-15);
        assert_eq!(one("device_local_copy", "cuda:0").0, 1451.27e9);
        // Six test cases with two devices each.
        assert_eq!(all.len(), 12);
        // Only the second device is included, and another numbering lists this device first.
        let pci = Some("0000:43:00.0".to_owned());
        let second = DeviceInfo { driver: "cuda".to_owned(), pci, ..DeviceInfo::default() };
        let figures = output.measurements(None, &[&second]);
        let names: Vec<&str> = figures.iter().map(|m| m.name.as_str()).collect();
        assert!(names.contains(&"host_to_device") && !names.contains(&"device_to_device"));
        let is_first = |m: &Measurement| m.config["device"] == "cuda:0";
        assert!(figures.len() == 5 && figures.iter().all(is_first), "{figures:#?}");
    }

    #[test]
    fn matrix_without_name_or_known_unit_is_left_out() {
        let names = |text: &str| -> Vec<String> {
            read(text).cases.into_iter().map(|case| case.name).collect()
        };
        let all = names(TEXT);
        // The matrix below the missing line is not that of the test case before it.
        let unnamed = TEXT.replace("Running device_local_copy.\n", "");
        assert_eq!(names(&unnamed), all[..all.len() - 1]);
        let illegible = TEXT.replace("Running device_local_copy.", "Running device_\0copy.");
        assert_eq!(names(&illegible), all[..all.len() - 1]);
        let of_latency = |name: &String| name == "host_device_latency_sm";
        assert!(all.iter().any(of_latency));
        assert!(!names(&TEXT.replace("(ns)", "(us)")).iter().any(of_latency));
    }

    #[test]
    fn nvbandwidth_text_round_trips() {
        let output = read(TEXT);
        assert_eq!(read(&output.to_string()), output);
    }

    #[test]
    fn nvbandwidth_json_equals_its_text() {
        let text = read(TEXT);
        let rows = |case: &TestCase| -> Vec<Vec<String>> {
            let word = |value: &Option<f64>| value.map_or("N/A".to_owned(), |v| v.to_string());
            case.rows.iter().map(|row| row.iter().map(word).collect()).collect()
        };
        let cases = text.cases.iter().map(|case| {
            let sum: f64 = case.rows.iter().flatten().flatten().sum();
            serde_json::json!({"name": case.name, "status": "Passed",
                "bandwidth_description": case.description, "bandwidth_matrix": rows(case), "sum": sum})
        });
        let waived = serde_json::json!({"name": "device_to_host_memcpy_sm", "status": "Waived"});
        let json = serde_json::json!({"nvbandwidth": {
            "version": "v0.8", "Driver Version": "550.54.15",
            "GPU Device list": [
                "0: NVIDIA H100 80GB HBM3 (00000000:1b:00): (n01)",
                "1: NVIDIA H100 80GB HBM3 (00000000:43:00): (n01)",
            ],
            "testcases": cases.chain([waived]).collect::<Vec<_>>(),
        }});
        assert_eq!(read(&json.to_string()), text);
    }

    #[test]
    fn truncated_matrix_makes_figures_suspect() {
        let of = |text: &str| read(text).measurements(None, &[]);
        let last_row = TEXT.find("1452.03").unwrap();
        let cut = of(&TEXT[..last_row + 4]);
        assert_eq!(cut.len(), 10, "the last line has no line end");
        let without_end = of(&TEXT[..last_row + 8]);
        let doubted = without_end.iter().filter(|m| m.validity.status == Status::Suspect);
        assert_eq!((without_end.len(), doubted.count()), (12, 2));
        let torn = of(&TEXT.replace(" 0   1451.27   1452.03", " 0   1451.27"));
        assert_eq!(torn.len(), 10);
    }

    #[test]
    fn truncated_nvbandwidth_output_is_refused() {
        let cut = TEXT.split("Running").next().unwrap();
        assert!(NvbandwidthOutput::read(cut).unwrap().is_err());
        assert!(NvbandwidthOutput::read("{\"fio version\": \"fio-3.33\"}").is_none());
        assert!(NvbandwidthOutput::read("").is_none());
    }
}
