//! Properties of a saved output of STREAM that the text lacks and the user gives.

use super::output::{OutputFormat, StreamOutput};
use crate::kernels::Element;
use nodegauge_gauge::readers::GivenRunProperties;
use nodegauge_measure::Bytes;

/// Contradiction between the text and a property that the user gave.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option} {given} contradicts the text: {found}")]
pub struct PropertyContradiction {
    /// Option of the property.
    pub option: &'static str,
    /// Value that the user gave.
    pub given: String,
    /// Value in the text.
    pub found: String,
}

/// Completes the properties in the text with those that the user gave.
///
/// # Errors
/// Fails if the text contradicts the user.
pub fn add_known_properties(
    known: &GivenRunProperties,
    output: &mut StreamOutput,
) -> Result<(), PropertyContradiction> {
    let given_size = known.element.map(|Bytes(bytes)| bytes);
    let printed_size = output.element.map(Element::bytes);
    check_agreement("--element", given_size, printed_size, "bytes in an element")?;
    let has_ranks = output.ranks.is_some();
    check_agreement("--ranks", known.ranks, output.ranks, "ranks")?;
    output.ranks = output.ranks.or(known.ranks);
    if output.output_format == OutputFormat::C && known.ranks.is_some() {
        output.output_format = OutputFormat::Mpi;
    }
    // The Fortran MPI version has the array length of one rank in its source.
    let parts = match output.output_format {
        OutputFormat::Fortran => output.ranks.unwrap_or(1),
        _ => 1,
    };
    if !has_ranks {
        output.elements = output.elements.and_then(|elements| elements.checked_mul(parts));
    }
    let printed_elements = output.elements.map(|elements| elements / parts);
    check_agreement("--size", known.elements, printed_elements, "elements in an array")?;
    let counted = output.threads.map(|(_, counted)| counted);
    check_agreement("--threads", known.threads, counted, "threads")?;
    check_agreement("--times", known.ntimes, output.ntimes, "runs of each kernel")?;
    let has_size = output.array_bytes().is_some();
    let is_consistent = output.contradiction().is_none();
    output.element = output.element.or(given_size.and_then(element_with_size));
    let given = known.elements.and_then(|elements| elements.checked_mul(parts));
    output.elements = output.elements.or(given);
    if !has_size
        && is_consistent
        && let Some(bytes) = output.array_bytes()
    {
        check_against_table(known, output, bytes)?;
    }
    output.threads = output.threads.or(known.threads.map(|threads| (threads, threads)));
    output.ntimes = output.ntimes.or(known.ntimes);
    output.compiler = known.compiler.clone();
    Ok(())
}

/// Checks that the array sizes that the user gave agree with the rates and times of the table.
fn check_against_table(
    known: &GivenRunProperties,
    output: &StreamOutput,
    bytes: u64,
) -> Result<(), PropertyContradiction> {
    if output.contradiction().is_none() {
        return Ok(());
    }
    let (option, given) = match (known.elements, known.element) {
        (Some(elements), _) => ("--size", elements.to_string()),
        (None, element) => {
            ("--element", element.map(|size| size.0.to_string()).unwrap_or_default())
        }
    };
    let found = format!(
        "arrays of about {:.4e} bytes (rate x minimum time of Copy / 2), not {bytes}",
        output.implied_array_bytes()
    );
    Err(PropertyContradiction { option, given, found })
}

/// Returns the element type with this size; `None` if there is none.
fn element_with_size(bytes: u64) -> Option<Element> {
    [Element::F32, Element::F64].into_iter().find(|element| element.bytes() == bytes)
}

/// Compares a value of the user with that of the text.
fn check_agreement(
    option: &'static str,
    given: Option<u64>,
    printed: Option<u64>,
    what: &str,
) -> Result<(), PropertyContradiction> {
    match (given, printed) {
        (Some(given), Some(printed)) if given != printed => Err(PropertyContradiction {
            option,
            given: given.to_string(),
            found: format!("{printed} {what}"),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: &str = include_str!("../../tests/outputs/stream-gcc-2t.txt");
    const FORTRAN: &str = include_str!("../../tests/outputs/stream-f-67M-2t.txt");

    /// Parses a text that contains only the table.
    fn bare(text: &str) -> StreamOutput {
        let at = text.lines().position(|line| line.starts_with("Function")).unwrap();
        let table: Vec<&str> = text.lines().skip(at).take(5).collect();
        StreamOutput::read_saved(&(table.join("\n") + "\n")).unwrap()
    }

    fn known() -> GivenRunProperties {
        GivenRunProperties {
            element: Some(Bytes(8)),
            elements: Some(1 << 26),
            threads: Some(2),
            ranks: None,
            ntimes: Some(20),
            compiler: Some("gcc -O3".to_owned()),
        }
    }

    #[test]
    fn options_complete_a_table_without_header_lines() {
        for text in [C, FORTRAN] {
            let (mut output, whole) = (bare(text), StreamOutput::read(text).unwrap());
            assert_eq!((output.array_bytes(), output.threads, output.ntimes), (None, None, None));
            assert!(!output.is_serial);
            add_known_properties(&known(), &mut output).unwrap();
            assert_eq!(output.output_format, whole.output_format);
            assert_eq!(output.array_bytes(), whole.array_bytes());
            assert_eq!((output.threads, output.ntimes), (whole.threads, whole.ntimes));
            assert_eq!(output.compiler.as_deref(), Some("gcc -O3"));
        }
    }

    #[test]
    fn ranks_option_selects_the_mpi_version_of_stream() {
        let ranked = GivenRunProperties { ranks: Some(2), elements: Some(1 << 25), ..known() };
        let mut fortran = bare(FORTRAN);
        add_known_properties(&ranked, &mut fortran).unwrap();
        assert_eq!((fortran.ranks, fortran.elements), (Some(2), Some(1 << 26)));
        let mut c = bare(C);
        add_known_properties(&GivenRunProperties { elements: Some(1 << 26), ..ranked }, &mut c)
            .unwrap();
        assert_eq!((c.output_format, c.elements), (OutputFormat::Mpi, Some(1 << 26)));
    }

    #[test]
    fn given_arrays_that_contradict_the_table_are_refused() {
        let wrong = GivenRunProperties { elements: Some(1 << 25), ..known() };
        let error = add_known_properties(&wrong, &mut bare(C)).unwrap_err().to_string();
        let expected = "--size 33554432 contradicts the text: arrays of about 5.3687e8 bytes";
        assert!(error.starts_with(expected), "{error}");
        let float = GivenRunProperties { element: Some(Bytes(4)), ..known() };
        assert_eq!(add_known_properties(&float, &mut bare(C)).unwrap_err().option, "--size");
        let mut part = bare(C);
        let half = GivenRunProperties { elements: Some(1 << 25), ..GivenRunProperties::default() };
        add_known_properties(&half, &mut part).unwrap();
        assert_eq!((part.elements, part.array_bytes()), (Some(1 << 25), None));
    }
}
