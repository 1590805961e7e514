//! Parser for the output of stream.c (5.10 and earlier), of its MPI version, and of stream.f. It also accepts outputs
//! that documents quote, with other text around them or with the table alone. All functions are pure.
//!
//! The table is accepted only if it is consistent: all four kernels, positive figures, and the product of each rate and
//! its minimum time equals the bytes that the kernel counts. The text "Solution Validates" alone does not prove correct
//! results; see [`StreamOutput::max_finite_passes`].

use super::table::{self, StreamTable};
pub use super::table::{KernelLine, header_lines};
pub use super::unread::StreamOutputError;
use super::unread::first_line_part;
use crate::kernels::{Element, Kernel, STREAM};

/// Program that printed an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// The output is that of stream.c.
    C,
    /// The output is that of stream.f.
    Fortran,
    /// The output is that of the MPI version of stream.c.
    Mpi,
}

impl OutputFormat {
    /// Returns the name of the program in records.
    pub fn engine(self) -> &'static str {
        match self {
            Self::C => "stream.c",
            Self::Fortran => "stream.f",
            Self::Mpi => "stream_mpi.c",
        }
    }
}

/// Result of the check that the program made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportedCheck {
    /// The program printed "Solution Validates".
    Passed,
    /// The program printed "Failed Validation ..."; contains the printed text.
    Failed(String),
    /// The program printed no result.
    Absent,
}

/// Parsed output of a run of STREAM.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamOutput {
    /// Program that printed the output.
    pub output_format: OutputFormat,
    /// Version of the program, e.g. `5.10`.
    pub version: Option<String>,
    /// Type of the elements; `None` if the text does not state it.
    pub element: Option<Element>,
    /// Number of elements per array, of all ranks together; `None` if the text does not state it.
    pub elements: Option<u64>,
    /// Padding between arrays, elements.
    pub offset: u64,
    /// Number of runs of each kernel; `None` if the text does not state it.
    pub ntimes: Option<u64>,
    /// Number of threads requested and number counted by the program; `None` for a build without OpenMP, and if the
    /// text does not state them.
    pub threads: Option<(u64, u64)>,
    /// True if the text shows that the build has no OpenMP.
    pub is_serial: bool,
    /// Number of MPI ranks; `None` without MPI, and if the text does not state it.
    pub ranks: Option<u64>,
    /// Compiler and its flags, if the user gives them.
    pub compiler: Option<String>,
    /// Lines of the four kernels, in STREAM's order.
    pub lines: [KernelLine; 4],
    /// Result of the check that the program made.
    pub check: ReportedCheck,
    /// True if the program reports that the compared values are not finite.
    pub has_non_finite: bool,
    /// True if the obsolete macro `N` was set, which has no effect.
    pub has_obsolete_macro: bool,
    /// Scalar of Scale and Triad.
    pub scalar: f64,
    /// Complete output, as printed.
    pub text: String,
}

/// Scalar of Scale and Triad in stream.c.
const SCALAR: f64 = 3.0;

impl StreamOutput {
    /// Parses the complete output of a run.
    ///
    /// # Errors
    /// Fails if the text is not a complete output of STREAM.
    pub fn read(text: &str) -> Result<Self, StreamOutputError> {
        let output = Self::read_saved(text)?;
        if output.element.is_none() {
            return Err(StreamOutputError::Missing("the size of an element"));
        }
        if output.elements.is_none() {
            return Err(StreamOutputError::Missing("the length of its arrays"));
        }
        if output.ntimes.is_none() {
            return Err(StreamOutputError::Missing("the number of passes"));
        }
        Ok(output)
    }

    /// Parses a saved output, which may contain only the table. Properties that the text lacks are unknown.
    ///
    /// # Errors
    ///
    /// Fails if the text has no table, or if the table is ambiguous.
    pub fn read_saved(text: &str) -> Result<Self, StreamOutputError> {
        let StreamTable { lines, has_best_rate } = table::read(text)?;
        let printed_lines = PrintedLines::new(text);
        let ranks_of_c = printed_lines.count("Data is distributed across")?;
        let bytes_of_c = printed_lines.bytes("This system uses")?;
        let bytes_of_fortran = printed_lines.bytes("Assuming")?;
        let passes_of_c = printed_lines
            .count("Each kernel will be executed")?
            .or(printed_lines.count("Each test is run")?);
        let passes_of_fortran = printed_lines.count("You are running each test")?;
        let is_c = has_best_rate || bytes_of_c.is_some() || passes_of_c.is_some();
        let output_format = match ranks_of_c {
            Some(_) => OutputFormat::Mpi,
            None if is_c => OutputFormat::C,
            None => OutputFormat::Fortran,
        };
        let is_fortran = output_format == OutputFormat::Fortran;
        let element = match if is_fortran { bytes_of_fortran } else { bytes_of_c } {
            None => None,
            Some(4) => Some(Element::F32),
            Some(8) => Some(Element::F64),
            Some(_) => return Err(StreamOutputError::Missing("the size of an element")),
        };
        let elements = match output_format {
            OutputFormat::Mpi => printed_lines.count("Total Aggregate Array size =")?,
            _ => printed_lines.count("Array size =")?,
        };
        // stream_mpi.f prints the array length of one rank, and the rate of all ranks.
        let processors = printed_lines.count("Number of processors =")?;
        let ranks = if is_fortran { processors } else { ranks_of_c };
        let elements = match (output_format, ranks) {
            (OutputFormat::Fortran, Some(ranks)) => elements.and_then(|n| n.checked_mul(ranks)),
            _ => elements,
        };
        let requested = printed_lines.count("Number of Threads requested =")?;
        let counted = printed_lines.count("Number of Threads counted =")?;
        let of_fortran = printed_lines.count("Number of Threads =")?;
        let requested_per_rank =
            printed_lines.count("Number of Threads requested for each MPI rank =")?;
        let counted_per_rank = printed_lines.count("Number of Threads counted for rank 0 =")?;
        let of_all_ranks =
            product(requested_per_rank, ranks_of_c).zip(product(counted_per_rank, ranks_of_c));
        let threads = requested.zip(counted).or(of_fortran.map(|n| (n, n))).or(of_all_ranks);
        let ntimes = if is_fortran { passes_of_fortran } else { passes_of_c };
        // The number of threads is printed between these two lines.
        let has_neighbours = ntimes.is_some() && printed_lines.has("Your clock granularity");
        Ok(Self {
            output_format,
            version: between(text, "$Revision: ", " $"),
            element,
            elements,
            offset: printed_lines.offset()?,
            ntimes,
            threads,
            is_serial: has_neighbours && threads.is_none() && ranks.is_none(),
            ranks,
            compiler: None,
            lines,
            check: check(&printed_lines),
            has_non_finite: has_non_finite(text),
            has_obsolete_macro: text.contains("set the preprocessor variable N "),
            scalar: between(text, "SCALAR value used for this run is ", "\n")
                .and_then(|number| number.trim().parse().ok())
                .unwrap_or(SCALAR),
            text: text.to_owned(),
        })
    }

    /// Returns the size of one array in bytes.
    pub fn array_bytes(&self) -> Option<u64> {
        Some(self.elements?.saturating_mul(self.element?.bytes()))
    }

    /// Returns the maximum number of passes for which all values remain finite. A pass multiplies `a` by s(2 + s),
    /// which is 15 for s = 3; `a` starts at 2. With more passes the program compares infinities. The difference of
    /// infinities is NaN, and every comparison with NaN is false, so that the program prints "Solution Validates"
    /// regardless of the contents of the arrays.
    pub fn max_finite_passes(&self) -> u64 {
        let growth = self.scalar * (2.0 + self.scalar);
        if growth <= 1.0 {
            return u64::MAX;
        }
        // For an unknown type, the limit that holds for every type applies.
        let largest = match self.element {
            Some(Element::F32) => f64::from(f32::MAX),
            Some(Element::F64) | None => f64::MAX,
        };
        ((largest / 2.0).ln() / growth.ln()).floor() as u64
    }

    /// Returns the size of an array in bytes, computed from the rate and the minimum time of a kernel, with the
    /// relative error of the printed digits.
    fn implied(&self, at: usize) -> (f64, f64) {
        let line = &self.lines[at];
        let least = line.times[1].0;
        // The element size cancels.
        let arrays = STREAM[at].counted_bytes(Element::F64) as f64 / Element::F64.bytes() as f64;
        let error = 0.6 * line.step.0 / least + line.rate_step.0 / line.rate.0 + 1e-6;
        (line.rate.0 * least / arrays, error)
    }

    /// Returns the size of an array in bytes, computed from the rate and the minimum time of Copy.
    pub fn implied_array_bytes(&self) -> f64 {
        self.implied(0).0
    }

    /// Returns the first kernel whose rate differs from its bytes divided by its minimum time by more than the
    /// precision of the printed digits. If the size of the arrays is unknown, returns the first kernel whose array size
    /// differs from that of Copy.
    pub fn contradiction(&self) -> Option<Kernel> {
        let known = self.array_bytes().map(|bytes| (bytes as f64, 0.0));
        let (expected, its_error) = known.unwrap_or_else(|| self.implied(0));
        for (at, kernel) in STREAM.into_iter().enumerate() {
            let (bytes, error) = self.implied(at);
            if (bytes / expected - 1.0).abs() > error + its_error {
                return Some(kernel);
            }
        }
        None
    }
}

/// Returns the product of two numbers; `None` if one of them is unknown or the product is too large.
fn product(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one?.checked_mul(other?)
}

/// Lines before and after the table, without the prefixes that documents add.
struct PrintedLines<'a>(Vec<(usize, &'a str)>);

impl<'a> PrintedLines<'a> {
    fn new(text: &'a str) -> Self {
        let mut lines = Vec::new();
        for (at, line) in text.lines().enumerate() {
            lines.push((at + 1, line.trim_start_matches(|c: char| !c.is_alphanumeric())));
        }
        Self(lines)
    }

    /// True if a line begins with the label.
    fn has(&self, label: &str) -> bool {
        self.0.iter().any(|(_, line)| text_after_label(line, label).is_some())
    }

    /// Returns the number after a label at the beginning of a line; `None` if no line has the label.
    fn count(&self, label: &'static str) -> Result<Option<u64>, StreamOutputError> {
        let behind =
            self.0.iter().filter_map(|(at, line)| Some((*at, text_after_label(line, label)?)));
        Self::common_number(label, behind)
    }

    /// Returns the number of bytes after a label; counts in other units are ignored.
    fn bytes(&self, label: &'static str) -> Result<Option<u64>, StreamOutputError> {
        let behind =
            self.0.iter().filter_map(|(at, line)| Some((*at, text_after_label(line, label)?)));
        Self::common_number(
            label,
            behind.filter(|(_, end)| end.split_whitespace().nth(1) == Some("bytes")),
        )
    }

    /// Returns the padding between arrays, which stream.c prints on the same line as the length.
    fn offset(&self) -> Result<u64, StreamOutputError> {
        const LABEL: &str = "Offset =";
        let mut ends = Vec::new();
        for (at, line) in &self.0 {
            if !line.starts_with("Array size") && !line.starts_with("Offset") {
                continue;
            }
            if let Some(from) = line.find("Offset")
                && let Some(end) = text_after_label(&line[from..], LABEL)
            {
                ends.push((*at, end));
            }
        }
        Ok(Self::common_number(LABEL, ends.into_iter())?.unwrap_or(0))
    }

    /// Returns the number at the beginning of these line ends. All line ends must begin with the same number.
    fn common_number(
        label: &'static str,
        ends: impl Iterator<Item = (usize, &'a str)>,
    ) -> Result<Option<u64>, StreamOutputError> {
        let mut found: Option<(usize, u64)> = None;
        for (line, end) in ends {
            let word = end.split_whitespace().next().unwrap_or_default();
            if !word.starts_with(|c: char| c.is_ascii_digit()) {
                continue;
            }
            let digits = word.trim_end_matches(|c: char| !c.is_ascii_digit());
            let Some(count) = table::parse_count(digits) else {
                return Err(StreamOutputError::NoCount {
                    label,
                    text: first_line_part(word),
                    line,
                });
            };
            match found {
                Some((other, first)) if first != count => {
                    let lines = [other, line];
                    return Err(StreamOutputError::Contradiction {
                        label,
                        first,
                        second: count,
                        lines,
                    });
                }
                _ => found = Some((line, count)),
            }
        }
        Ok(found.map(|(_, count)| count))
    }
}

/// Returns the rest of a line after the label at its beginning. The words of the label may be separated by any number
/// of spaces.
fn text_after_label<'a>(line: &'a str, label: &str) -> Option<&'a str> {
    let mut rest = line;
    for word in label.split(' ') {
        rest = rest.trim_start().strip_prefix(word)?;
    }
    Some(rest.trim_start())
}

fn check(printed_lines: &PrintedLines<'_>) -> ReportedCheck {
    if let Some((_, line)) =
        printed_lines.0.iter().find(|(_, line)| line.starts_with("Failed Valid"))
    {
        return ReportedCheck::Failed(first_line_part(line.trim_end()));
    }
    if printed_lines.has("Solution Validates") {
        ReportedCheck::Passed
    } else {
        ReportedCheck::Absent
    }
}

/// True if the output of a verbose build contains values or errors that are not finite.
fn has_non_finite(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .filter(|line| {
            ["Expected a(1)", "Observed a(1)", "Rel Errors"]
                .iter()
                .any(|start| line.starts_with(start))
        })
        .any(|line| line.split_whitespace().any(|word| word.contains("nan") || word == "inf"))
}

fn between(text: &str, before: &str, behind: &str) -> Option<String> {
    let rest = text.split_once(before)?.1;
    rest.split_once(behind).map(|(inside, _)| inside.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Seconds;
    use proptest::prelude::*;

    macro_rules! recorded {
        ($name:literal) => {
            include_str!(concat!("../../tests/outputs/stream-", $name, ".txt"))
        };
    }

    #[test]
    fn output_of_stream_compiled_by_gcc_is_read_exactly() {
        let output = StreamOutput::read(recorded!("gcc-2t")).unwrap();
        assert_eq!(
            (output.output_format, output.version.as_deref()),
            (OutputFormat::C, Some("5.10"))
        );
        assert_eq!((output.element, output.elements), (Some(Element::F64), Some(1 << 26)));
        assert_eq!((output.offset, output.is_serial), (0, false));
        assert_eq!((output.ntimes, output.threads, output.ranks), (Some(20), Some((2, 2)), None));
        assert_eq!(output.array_bytes(), Some(512 << 20));
        let rates: Vec<f64> = output.lines.iter().map(|line| line.rate.0).collect();
        assert_eq!(rates, [35_632.3e6, 30_072.7e6, 21_529.1e6, 22_189.7e6]);
        assert_eq!(output.lines[3].times, [0.083_601, 0.072_584, 0.096_988].map(Seconds));
        assert_eq!(output.check, ReportedCheck::Passed);
        assert!(!output.has_non_finite && !output.has_obsolete_macro);
        assert_eq!(output.contradiction(), None);
    }

    #[test]
    fn all_recorded_outputs_are_read() {
        let of = |text| StreamOutput::read(text).unwrap();
        let all = [
            (of(recorded!("clang-2t")), OutputFormat::C, 30_586.2e6),
            (of(recorded!("gcc-verbose-2t")), OutputFormat::C, 22_176.2e6),
            (of(recorded!("gcc-float-2t")), OutputFormat::C, 29_248.7e6),
            (of(recorded!("gcc-ntimes300-2t")), OutputFormat::C, 60_915.8e6),
            (of(recorded!("f-67M-2t")), OutputFormat::Fortran, 27_353.7e6),
            (of(recorded!("mpi-2r")), OutputFormat::Mpi, 36_332.2e6),
        ];
        for (output, output_format, triad) in &all {
            assert_eq!((output.output_format, output.lines[3].rate.0), (*output_format, *triad));
            assert_eq!(output.check, ReportedCheck::Passed);
            assert_eq!(output.contradiction(), None, "{output:?}");
        }
        let elements: Vec<u64> = all.iter().filter_map(|(output, _, _)| output.elements).collect();
        assert_eq!(elements, [1 << 26, 1 << 26, 1 << 26, 4_000_000, 1 << 26, 1 << 26]);
        assert_eq!(all[2].0.element, Some(Element::F32));
        assert_eq!(all[4].0.threads, Some((2, 2)));
        assert_eq!((all[5].0.threads, all[5].0.ranks, all[5].0.scalar), (None, Some(2), 0.42));
        assert_eq!(all[5].0.version.as_deref(), Some("1.8"));
    }

    #[test]
    fn message_of_a_failed_validation_is_kept() {
        let output = StreamOutput::read(recorded!("gcc-corrupt-2t")).unwrap();
        assert_eq!(
            output.check,
            ReportedCheck::Failed(
                "Failed Validation on array a[], AvgRelAbsErr > epsilon (1.000000e-13)".to_owned()
            )
        );
    }

    #[test]
    fn overflow_after_too_many_passes_is_detected() {
        let output = StreamOutput::read(recorded!("gcc-ntimes300-2t")).unwrap();
        assert_eq!((output.ntimes, output.max_finite_passes()), (Some(300), 261));
        assert!(output.has_non_finite);
        let float = StreamOutput::read(recorded!("gcc-float-2t")).unwrap();
        assert_eq!(float.max_finite_passes(), 32);
        assert!(StreamOutput::read(recorded!("mpi-2r")).unwrap().max_finite_passes() > 40_000);
    }

    #[test]
    fn threads_of_all_ranks_are_counted() {
        let lines = "Number of Threads requested for each MPI rank = 9\n\
                     Number of Threads counted for rank 0 = 8\nYour clock granularity";
        let text = recorded!("mpi-2r");
        assert!(text.contains("Your clock granularity") || text.contains("Your timer granularity"));
        let text =
            text.replace("Your clock granularity", lines).replace("Your timer granularity", lines);
        let output = StreamOutput::read(&text).unwrap();
        assert_eq!((output.ranks, output.threads), (Some(2), Some((18, 16))));
    }

    #[test]
    fn maximum_numbers_of_passes_match_floating_point_arithmetic() {
        let finite = |ntimes: u64| (0..ntimes).fold(2.0f64, |a, _| 15.0 * a).is_finite();
        assert!(finite(261) && !finite(262));
        let finite_f32 = |ntimes: u64| (0..ntimes).fold(2.0f32, |a, _| 15.0 * a).is_finite();
        assert!(finite_f32(32) && !finite_f32(33));
    }

    #[test]
    fn obsolete_macro_and_serial_build_are_detected() {
        let text = recorded!("gcc-2t").replace("Number of Threads", "Number of Shreds").replace(
            "Each kernel",
            "It appears that you set the preprocessor variable N when\nEach kernel",
        );
        let output = StreamOutput::read(&text).unwrap();
        assert!(output.has_obsolete_macro && output.threads.is_none() && output.is_serial);
    }

    #[test]
    fn output_of_another_program_is_refused_with_a_reason() {
        let whole = recorded!("gcc-2t");
        let cases = [
            (String::new(), "the program printed nothing"),
            ("-----\n".to_owned(), "the program printed nothing"),
            (
                "Good day, world\n".to_owned(),
                "the program printed \"Good day, world\" instead of a STREAM table",
            ),
            (
                whole.replace("Best Rate MB/s", "Size"),
                "the table is not that of stream.c: \"Function    Size  Avg time     Min time     Max time\" (line 26)",
            ),
            (
                whole.replace("Best Rate MB/s", "Rate (MFLOP/s)"),
                "the rates have no known unit: \"Function    Rate (MFLOP/s)  Avg time     Min time     Max time\" (line 26)",
            ),
            (
                whole.replace("Add:", "Odd:"),
                "the table has no line for Add (its header is line 26)",
            ),
            (
                whole.replace("0.072584", "-"),
                "the table has an invalid line: \"Triad:          22189.7     0.083601     -     0.096988\" (line 30)",
            ),
            (
                whole.replace("22189.7", "inf"),
                "the table has an invalid line: \"Triad:          inf     0.083601     0.072584     0.096988\" (line 30)",
            ),
            (
                whole.replace("22189.7", "1e308"),
                "the table has an invalid line: \"Triad:          1e308     0.083601     0.072584     0.096988\" (line 30)",
            ),
            (
                format!("{whole}Triad:          42189.7     0.083601     0.072584     0.096988\n"),
                "the output has several lines for Triad; which of them is the result is unknown (line 34)",
            ),
            (
                whole.replace("Array size", "Size"),
                "the program did not print the length of its arrays",
            ),
            (
                whole.replace("executed 20", "executed"),
                "the program did not print the number of passes",
            ),
            (whole.replace("uses 8", "uses 3"), "the program did not print the size of an element"),
        ];
        for (text, message) in cases {
            assert_eq!(StreamOutput::read(&text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn headers_of_several_runs_are_found() {
        let (c, fortran) = (recorded!("gcc-2t"), recorded!("f-67M-2t"));
        let texts = [c, fortran, &[c, fortran, c].concat(), ""];
        assert_eq!(texts.map(|text| header_lines(text).len()), [1, 1, 3, 0]);
    }

    #[test]
    fn header_lines_are_read_only_at_line_starts() {
        let whole = recorded!("f-67M-2t");
        let mpi = whole
            .replace(" Array size =", "> Number of processors =          16\n> Array size =")
            .replace(" Number of Threads =            2\n", "");
        let of_ranks = StreamOutput::read_saved(&mpi).unwrap();
        assert_eq!((of_ranks.ranks, of_ranks.threads), (Some(16), None));
        assert_eq!((of_ranks.elements, of_ranks.is_serial), (Some(16 << 26), false));
        let prose = format!("The Array size = 7, and Solution Validates is printed.\n{whole}");
        let output = StreamOutput::read_saved(&prose.replace(" Solution Validates!", "")).unwrap();
        assert_eq!((output.elements, output.check), (Some(1 << 26), ReportedCheck::Absent));
        let marks = whole.replace("67108864", "67,108,864");
        assert_eq!(StreamOutput::read(&marks).unwrap().elements, Some(1 << 26));
    }

    #[test]
    fn header_of_old_stream_c_is_read() {
        let old = recorded!("gcc-2t").replace("Best Rate MB/s", "Rate (MB/s)");
        let old = old.replace("Each kernel will be executed 20", "Each test is run 20");
        let output = StreamOutput::read(&old).unwrap();
        assert_eq!((output.output_format, output.ntimes), (OutputFormat::C, Some(20)));
    }

    #[test]
    fn rates_of_all_kernels_must_imply_one_array_size() {
        let whole = recorded!("gcc-2t");
        let table = &whole[whole.find("Function").unwrap()..];
        assert_eq!(StreamOutput::read_saved(table).unwrap().contradiction(), None);
        let wrong = table.replace("21529.1", "215.291");
        assert_eq!(StreamOutput::read_saved(&wrong).unwrap().contradiction(), Some(Kernel::Add));
    }

    #[test]
    fn edited_table_is_detected_as_contradictory() {
        let text = recorded!("gcc-2t").replace("22189.7", "42189.7");
        assert_eq!(StreamOutput::read(&text).unwrap().contradiction(), Some(Kernel::Triad));
    }

    proptest! {
        #[test]
        fn stream_reader_never_panics(cut in 0usize..2200, insert in ".{0,20}") {
            let whole = recorded!("gcc-2t");
            let cut = cut.min(whole.len());
            let _ = StreamOutput::read(&format!("{}{insert}{}", &whole[..cut], &whole[cut..]));
            let _ = StreamOutput::read(&whole[..cut]);
        }
    }
}
