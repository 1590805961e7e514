//! Macros of stream.c on the compiler's command line, as users copy it: `clang -O3 -DSTREAM_ARRAY_SIZE=430080000 ...`.
//! They set the options of the run, so that the native kernels use the same arrays. They remain in the command.

use crate::compiled::CompilerChoice;
use crate::kernels::Element;
use crate::size::SizeSpec;
use nodegauge_measure::Failure;
use nodegauge_toolchain::CommandLine;

/// Values of the macros of stream.c; `None` for a macro that is not defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamMacros {
    /// Number of elements per array (`STREAM_ARRAY_SIZE`).
    pub elements: Option<u64>,
    /// Number of runs of each kernel (`NTIMES`).
    pub ntimes: Option<u64>,
    /// Padding between the arrays, elements (`OFFSET`).
    pub offset: Option<u64>,
    /// Type of the elements (`STREAM_TYPE`).
    pub element: Option<Element>,
}

/// Returns the value of a numeric macro, which must be at least `least`; `None` if the command does not define it.
fn number(command: &CommandLine, name: &str, least: u64) -> Result<Option<u64>, Failure> {
    let Some(text) = command.macro_value(name) else { return Ok(None) };
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let value = digits.parse().ok().filter(|value| (least..1 << 50).contains(value));
    value.map(Some).ok_or_else(|| invalid(name, text))
}

impl StreamMacros {
    /// Returns the macros that the commands define. Every command must define the same macros.
    ///
    /// # Errors
    /// Fails if the commands differ, or if a value has no equivalent.
    pub fn from_choices(choices: &[CompilerChoice]) -> Result<Self, Failure> {
        let mut found: Option<(Self, &CommandLine)> = None;
        for choice in choices {
            let CompilerChoice::Command(command) = choice else { continue };
            let macros = Self::from_command(command)?;
            match found {
                Some((first, other)) if first != macros => {
                    return Err(Failure::usage(format!(
                        "'{command}' and '{other}' define different macros of stream.c"
                    ))
                    .hint("define the same -DSTREAM_ARRAY_SIZE, NTIMES, OFFSET and STREAM_TYPE"));
                }
                Some(_) => {}
                None => found = Some((macros, command)),
            }
        }
        Ok(found.map(|(macros, _)| macros).unwrap_or_default())
    }

    fn from_command(command: &CommandLine) -> Result<Self, Failure> {
        let element = match command.macro_value("STREAM_TYPE") {
            None => None,
            Some("double") => Some(Element::F64),
            Some("float") => Some(Element::F32),
            Some(other) => return Err(invalid("STREAM_TYPE", other)),
        };
        Ok(Self {
            elements: number(command, "STREAM_ARRAY_SIZE", 1)?,
            // stream.c does not count the first run.
            ntimes: number(command, "NTIMES", 2)?,
            offset: number(command, "OFFSET", 0)?,
            element,
        })
    }

    /// Returns the array size; the macros apply if the options do not set it.
    ///
    /// # Errors
    /// Fails if an option contradicts a macro.
    pub fn size(&self, option: SizeSpec) -> Result<SizeSpec, Failure> {
        let Some(elements) = self.elements else { return Ok(option) };
        let of_macro = SizeSpec::Elements(elements);
        if option == SizeSpec::Auto || option == of_macro {
            return Ok(of_macro);
        }
        let problem = format!("-DSTREAM_ARRAY_SIZE={elements} contradicts --size {option}");
        Err(Failure::usage(problem).hint("leave out --size"))
    }
}

fn invalid(name: &str, text: &str) -> Failure {
    Failure::usage(format!("-D{name}={text}: invalid value"))
        .hint("numbers must be integers, and STREAM_TYPE double or float")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn macros(commands: &[&str]) -> Result<StreamMacros, Failure> {
        let choices: Vec<CompilerChoice> =
            commands.iter().map(|command| command.parse().unwrap()).collect();
        StreamMacros::from_choices(&choices)
    }

    #[test]
    fn macros_of_a_compile_line_set_the_arrays() {
        let line = "clang -DSTREAM_TYPE=double -DSTREAM_ARRAY_SIZE=430080000 -DNTIMES=10 -O3 -mcmodel=large \
                    -fopenmp -fnt-store";
        let found = macros(&[line]).unwrap();
        let expected = StreamMacros {
            elements: Some(430_080_000),
            ntimes: Some(10),
            offset: None,
            element: Some(Element::F64),
        };
        assert_eq!(found, expected);
        assert_eq!(found.size(SizeSpec::Auto).unwrap(), SizeSpec::Elements(430_080_000));
        assert!(found.size(SizeSpec::Elements(5)).is_err());
        assert_eq!(macros(&["gcc -O2", "native"]).unwrap(), StreamMacros::default());
        assert_eq!(macros(&["gcc -D OFFSET=8"]).unwrap().offset, Some(8));
    }

    #[test]
    fn conflicting_or_unsupported_macros_are_refused() {
        assert!(macros(&["gcc -DNTIMES=10", "clang -DNTIMES=20"]).is_err());
        for wrong in ["-DNTIMES=1", "-DNTIMES=x", "-DSTREAM_TYPE=int", "-DSTREAM_ARRAY_SIZE=0"] {
            assert!(macros(&[&format!("gcc {wrong}")]).is_err(), "{wrong}");
        }
    }
}
