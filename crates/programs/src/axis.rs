//! Axes of `sweep AXIS=VALUES -- PROGRAM`: settings of the placement, settings of the program, and environment
//! variables. Each axis is a row of the table below.

use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::names;
use nodegauge_measure::sweep::{self, AxisReader, AxisSyntax, InvalidAxisValue};
use nodegauge_placement::{JobPlacementOptions, PlacementSetting, ThreadCountList};
use nodegauge_toolchain::CommandLine;
use std::fmt;
use std::str::FromStr;

/// Prefix of the axis names of environment variables.
const ENVIRONMENT: &str = "env:";
/// Prefix of the names of environment variables that nodegauge itself reads.
const OWN: &str = "NODEGAUGE_";

/// Kind of pages that the kernel allocates for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramPages {
    /// Base pages only; transparent huge pages are disabled for the program.
    Base,
    /// Transparent huge pages, where the kernel provides them.
    Transparent,
}
names!(ProgramPages, "kind of pages", Base = "4k", Transparent = "thp");

/// Numbers of ranks and of threads per rank of a hybrid program, e.g. `8x16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HybridCounts {
    /// Number of ranks.
    pub ranks: u32,
    /// Number of threads per rank.
    pub threads: u32,
}

impl fmt::Display for HybridCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.ranks, self.threads)
    }
}

impl HybridCounts {
    /// Sets the numbers of ranks and of threads per rank.
    fn apply(self, job: &mut JobPlacementOptions) {
        job.ranks.ranks = Some(self.ranks);
        job.process.threads = ThreadCountList::new(vec![self.threads]);
    }
}

/// Maximum number of ranks, and of threads per rank.
const MAX_COUNT: u32 = 65_536;

impl FromStr for HybridCounts {
    type Err = SyntaxError;

    /// Parses `RANKSxTHREADS`.
    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("ranks and threads", "hybrid=8x16,16x8", text);
        let ranks = cursor.count(MAX_COUNT, "expected a number of ranks")?;
        cursor.expect('x', "expected 'x' after the number of ranks")?;
        let threads = cursor.count(MAX_COUNT, "expected a number of threads per rank after 'x'")?;
        cursor.finish("expected nothing after the number of threads")?;
        Ok(Self { ranks, threads })
    }
}

/// Environment variable with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentVariable {
    /// Name of the axis: `env:NAME`.
    axis: String,
    /// Value of the variable.
    pub value: String,
}

impl EnvironmentVariable {
    /// Returns the name of the variable.
    pub fn name(&self) -> &str {
        &self.axis[ENVIRONMENT.len()..]
    }

    /// Parses a value that the user typed for the axis of a variable, and removes the shell quotes.
    fn read(axis: &str, text: &str) -> Result<Self, InvalidAxisValue> {
        Ok(Self { axis: axis.to_owned(), value: unquoted(text)? })
    }

    /// Returns the value as an element of a list of axis values, with shell quotes if required.
    fn word(&self) -> String {
        if self.value.contains([',', '\'', '"', '\\']) {
            format!("'{}'", self.value.replace('\'', r"'\''"))
        } else {
            self.value.clone()
        }
    }
}

impl fmt::Display for EnvironmentVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.value)
    }
}

/// Settings that are environment variables; each variable is an axis of its own.
impl sweep::Setting for EnvironmentVariable {
    type Options = Vec<EnvironmentVariable>;
    const EXAMPLE: &'static str = "env:OMP_SCHEDULE='static,4',dynamic";

    fn names() -> Vec<&'static str> {
        vec!["env:NAME"]
    }

    fn axis(&self) -> &str {
        &self.axis
    }

    /// Returns the parser for the values of an axis; `None` if the axis is not a variable that the program may get.
    fn values(axis: &str) -> Option<AxisReader<Self>> {
        let name = axis.strip_prefix(ENVIRONMENT)?;
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !begins || !is_name || name.starts_with(OWN) {
            return None;
        }
        let axis = axis.to_owned();
        Some(AxisReader::comma_separated(move |text| Self::read(&axis, text)))
    }

    fn list(all: &[Self]) -> String {
        all.iter().map(Self::word).collect::<Vec<_>>().join(",")
    }

    fn is_given(_: &str, _: &Vec<EnvironmentVariable>) -> bool {
        false
    }

    fn apply(&self, variables: &mut Vec<EnvironmentVariable>) {
        variables.push(self.clone());
    }
}

/// Removes the shell quotes from a value.
fn unquoted(text: &str) -> Result<String, InvalidAxisValue> {
    if !text.contains(['\'', '"', '\\']) {
        return Ok(text.to_owned());
    }
    let words = CommandLine::parse("value", "env:NAME='a,b',c", text)?;
    match words.words() {
        [value] => Ok(value.clone()),
        _ => Err("expected one word".to_owned().into()),
    }
}

/// Options of the program in one combination of a sweep.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProgramCellOptions {
    /// Threads, ranks and memory of the program.
    pub job: JobPlacementOptions,
    /// Pages of the program; `None` to leave them unchanged.
    pub pages: Option<ProgramPages>,
    /// Environment variables of the program.
    pub variables: Vec<EnvironmentVariable>,
}

nodegauge_measure::settings! {
    /// Setting of a program with its value.
    pub enum ProgramSetting including Placement(PlacementSetting) of job including Variable(EnvironmentVariable) of variables
    sets ProgramCellOptions, e.g. "nodegauge sweep policy=0-5 -- ./solver input" {
        /// Numbers of ranks and of threads per rank.
        Hybrid(HybridCounts) = "hybrid", AxisSyntax::comma_separated(),
            given |_| false,
            set |cell, hybrid| hybrid.apply(&mut cell.job);
        /// Pages of the program.
        Pages(ProgramPages) = "pages", AxisSyntax::comma_separated().with_default(ProgramPages::ALL),
            given |cell| cell.pages.is_some(),
            set |cell, pages| cell.pages = Some(*pages);
    }
}

/// Axis of a sweep of a program: all values of one setting.
pub type ProgramAxis = sweep::Axis<ProgramSetting>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_axis_round_trips() {
        for text in [
            "threads=1,2-8:2",
            "ranks=1,2,4",
            "hybrid=8x16,16x8,32x4",
            "policy=0-5",
            "rank-map=block,cyclic",
            "bind=close,none",
            "per-cache=1,2",
            "places=cores;{0:4}:2:4",
            "numa=local;bind:0,1",
            "pages",
            "env:OMP_SCHEDULE='static,4',dynamic,",
            "env:_A1='it'\\''s',b",
        ] {
            let axis: ProgramAxis = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(axis.to_string().parse::<ProgramAxis>(), Ok(axis), "{text}");
        }
        let axis: ProgramAxis = "env:OMP_SCHEDULE='static,4',dynamic,".parse().unwrap();
        let values: Vec<String> = axis.settings().iter().map(ToString::to_string).collect();
        assert_eq!(
            (axis.name(), values),
            ("env:OMP_SCHEDULE", ["static,4", "dynamic", ""].map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn invalid_axis_is_reported_with_its_column() {
        for (text, at) in [
            ("thread=1", 0),
            ("hybrid=8", 8),
            ("hybrid=8x0", 9),
            ("policy=0-6", 9),
            ("pages=4k,2m", 9),
            ("env:=1", 0),
            ("env:1A=1", 0),
            ("env:A-B=1", 0),
            ("env:NODEGAUGE_DB=x", 0),
            ("env:A='x", 8),
            ("env:A", 5),
        ] {
            assert_eq!(text.parse::<ProgramAxis>().unwrap_err().at, at, "{text}");
        }
    }
}
