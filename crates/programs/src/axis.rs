//! Grammar of `sweep AXIS=VALUES`: the settings under which the user's program runs.

use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::names;
use nodegauge_measure::sweep::{self, AxisSyntax, Wrong, one, several};
use nodegauge_placement::{
    Bind, MappedPolicy, NumaSpec, PlacesSpec, Policies, RankMap, ThreadList,
};
use nodegauge_toolchain::CommandLine;
use std::fmt;
use std::str::FromStr;

/// Beginning of the name of an axis of an environment variable.
const ENVIRONMENT: &str = "env:";
/// Beginning of the names of variables that nodegauge reads itself.
const OWN: &str = "NODEGAUGE_";

/// Pages of a program, which the kernel chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramPages {
    /// Base pages only; transparent huge pages are disabled for the program.
    Base,
    /// Transparent huge pages, as far as the kernel provides them.
    Transparent,
}
names!(ProgramPages, "kind of pages", Base = "4k", Transparent = "thp");

/// Number of ranks, and of threads per rank, of a hybrid program: `8x16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hybrid {
    /// Number of ranks.
    pub ranks: u32,
    /// Number of threads per rank.
    pub threads: u32,
}

impl fmt::Display for Hybrid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.ranks, self.threads)
    }
}

/// Maximum number of ranks, and of threads per rank.
const MOST: u32 = 65_536;

impl FromStr for Hybrid {
    type Err = SyntaxError;

    /// Parses `RANKSxTHREADS`.
    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("ranks and threads", "hybrid=8x16,16x8", text);
        let ranks = cursor.count(MOST, "expected a number of ranks")?;
        cursor.expect('x', "expected 'x' after the number of ranks")?;
        let threads = cursor.count(MOST, "expected a number of threads per rank after 'x'")?;
        cursor.finish("expected the end after the threads")?;
        Ok(Self { ranks, threads })
    }
}

/// Environment variable with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Name of the axis: `env:NAME`.
    axis: String,
    /// Value of the variable.
    pub value: String,
}

impl Variable {
    /// Returns the name of the variable.
    pub fn name(&self) -> &str {
        &self.axis[ENVIRONMENT.len()..]
    }

    /// Returns the syntax of the values of a variable; `None` if no variable of the program can have this name.
    fn values(axis: &str) -> Option<AxisSyntax<ProgramSetting>> {
        let name = axis.strip_prefix(ENVIRONMENT)?;
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !begins || !is_name || name.starts_with(OWN) {
            return None;
        }
        let axis = axis.to_owned();
        Some(AxisSyntax::parted(move |text| {
            let value = unquoted(text)?;
            Ok(vec![ProgramSetting::Variable(Self { axis: axis.clone(), value })])
        }))
    }
}

/// Returns a value without the quotes of a shell.
fn unquoted(text: &str) -> Result<String, Wrong> {
    if !text.contains(['\'', '"', '\\']) {
        return Ok(text.to_owned());
    }
    let words = CommandLine::read("value", "env:NAME='a,b',c", text)?;
    match words.words() {
        [value] => Ok(value.clone()),
        _ => Err(Wrong(0, "expected one word".to_owned())),
    }
}

/// Value of a setting under which the program runs.
#[derive(Debug, Clone, PartialEq)]
pub enum ProgramSetting {
    /// Number of threads, per rank if there are ranks.
    Threads(u32),
    /// Number of ranks.
    Ranks(u32),
    /// Numbers of ranks and of threads per rank.
    Hybrid(Hybrid),
    /// Policy for the CPUs and the memory of ranks, and their map if it is given with the policy.
    Policy(MappedPolicy),
    /// Socket or core of each rank.
    RankMap(RankMap),
    /// Binding policy of the threads.
    Bind(Bind),
    /// Number of threads per last-level cache.
    PerCache(u32),
    /// Places of the threads.
    Places(PlacesSpec),
    /// Memory policy of the process.
    Numa(NumaSpec),
    /// Pages of the program.
    Pages(ProgramPages),
    /// Environment variable.
    Variable(Variable),
}

impl fmt::Display for ProgramSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads(count) | Self::Ranks(count) | Self::PerCache(count) => count.fmt(f),
            Self::Hybrid(hybrid) => hybrid.fmt(f),
            Self::Policy(policy) => policy.fmt(f),
            Self::RankMap(map) => map.fmt(f),
            Self::Bind(bind) => bind.fmt(f),
            Self::Places(places) => places.fmt(f),
            Self::Numa(numa) => numa.fmt(f),
            Self::Pages(pages) => pages.fmt(f),
            Self::Variable(variable) => f.write_str(&variable.value),
        }
    }
}

/// Axis of a sweep of a program: all values of one setting.
pub type ProgramAxis = sweep::Axis<ProgramSetting>;

impl sweep::Setting for ProgramSetting {
    const EXAMPLE: &'static str = "nodegauge sweep policy=0-5 -- ./solver input";
    const EXPECTED: &'static str = "expected an axis of threads, ranks, hybrid, policy, rank-map, bind, per-cache, places, numa, pages or env:NAME";
    const MOST_AXES: usize = 3;

    fn axis(&self) -> &str {
        match self {
            Self::Threads(_) => "threads",
            Self::Ranks(_) => "ranks",
            Self::Hybrid(_) => "hybrid",
            Self::Policy(_) => "policy",
            Self::RankMap(_) => "rank-map",
            Self::Bind(_) => "bind",
            Self::PerCache(_) => "per-cache",
            Self::Places(_) => "places",
            Self::Numa(_) => "numa",
            Self::Pages(_) => "pages",
            Self::Variable(variable) => &variable.axis,
        }
    }

    fn also_sets(&self) -> Option<&'static str> {
        match self {
            Self::Policy(MappedPolicy { map: Some(_), .. }) => Some("rank-map"),
            _ => None,
        }
    }

    fn values(name: &str) -> Option<AxisSyntax<Self>> {
        type Read = fn(&str) -> Result<Vec<ProgramSetting>, Wrong>;
        let by_semicolon =
            |read: Read| AxisSyntax { separator: Some(';'), ..AxisSyntax::parted(read) };
        let all_maps = || RankMap::ALL.iter().copied().map(Self::RankMap).collect();
        let all_pages = || ProgramPages::ALL.iter().copied().map(Self::Pages).collect();
        Some(match name {
            "threads" => {
                AxisSyntax::listed(|text| several::<ThreadList, _, _>(text, Self::Threads))
            }
            "ranks" => AxisSyntax::listed(|text| several::<ThreadList, _, _>(text, Self::Ranks)),
            "per-cache" => {
                AxisSyntax::listed(|text| several::<ThreadList, _, _>(text, Self::PerCache))
            }
            "policy" => AxisSyntax::listed(|text| several::<Policies, _, _>(text, Self::Policy)),
            "hybrid" => AxisSyntax::parted(|text| one(text, Self::Hybrid)),
            "rank-map" => AxisSyntax::parted(|text| one(text, Self::RankMap)).or_alone(all_maps()),
            "bind" => AxisSyntax::parted(|text| one(text, Self::Bind)),
            "pages" => AxisSyntax::parted(|text| one(text, Self::Pages)).or_alone(all_pages()),
            "places" => by_semicolon(|text| one(text, Self::Places)),
            "numa" => by_semicolon(|text| one(text, Self::Numa)),
            _ => return Variable::values(name),
        })
    }

    fn listed(all: &[Self]) -> Option<String> {
        let count = |setting: &Self| match setting {
            Self::Threads(count) | Self::Ranks(count) | Self::PerCache(count) => Some(*count),
            _ => None,
        };
        let counts: Option<Vec<u32>> = all.iter().map(count).collect();
        Some(ThreadList::new(counts?)?.to_string())
    }

    fn word(&self) -> String {
        match self {
            Self::Variable(variable) if variable.value.contains([',', '\'', '"', '\\']) => {
                format!("'{}'", variable.value.replace('\'', r"'\''"))
            }
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_prints_and_parses_back() {
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
    fn a_wrong_axis_is_pointed_at() {
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
