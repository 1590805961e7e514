//! Options of `apps`.

// Doc comments here are help texts, in which brackets are grammar and no links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::{Common, PlacementArgs};
use clap::{Args as ClapArgs, Subcommand};
use nodegauge_placement::{Policy, RankMap};

/// Which application.
#[derive(Debug, Subcommand)]
pub(crate) enum AppsCommand {
    /// Pi by the trapezoid rule: computes, needs no memory, and should not mind placement
    Trapezoid(TrapezoidArgs),
}

/// `apps trapezoid`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct TrapezoidArgs {
    /// Intervals of the sums [default: 1e6,1e7,1e9]
    #[arg(long = "n", value_name = "COUNTS", value_delimiter = ',', value_parser = count, help_heading = "What")]
    pub(crate) points: Vec<u64>,
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    /// Processes that sum up under each policy [default: one a core]
    #[arg(long, short = 'r', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Where")]
    pub(crate) ranks: Option<u32>,
    /// Socket or core of each rank: block, cyclic, core, spread [default: block]
    #[arg(long, value_name = "MAP", help_heading = "Where")]
    pub(crate) rank_map: Option<RankMap>,
    /// Policies of ranks, 0 to 5, e.g. 0,3; none for threads alone [default: all; see stream --policy]
    #[arg(long, value_name = "POLICIES", help_heading = "Where")]
    pub(crate) policy: Option<Policies>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Policies by their numbers; empty for none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policies(pub(crate) Vec<Policy>);

impl std::str::FromStr for Policies {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(Vec::new())),
            _ => text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self),
        }
    }
}

/// A number as it is, or as `1e6`.
fn count(text: &str) -> Result<u64, String> {
    let whole = |number: &f64| number.fract() == 0.0 && (1.0..=2f64.powi(53)).contains(number);
    let number: Result<f64, _> = text.trim().parse();
    match number.ok().filter(whole) {
        Some(number) => Ok(number as u64),
        None => Err("expected whole numbers, e.g. 1000000 or 1e6".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_whole() {
        assert_eq!((count("1e6"), count("31")), (Ok(1_000_000), Ok(31)));
        for wrong in ["0", "-1", "1.5", "1e30", "many", "", "nan", "inf"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn policies_are_numbers_or_none() {
        let of = |text: &str| text.parse::<Policies>().map(|of| of.0.len());
        assert_eq!((of("none"), of("0,3,5")), (Ok(0), Ok(3)));
        assert!(of("6").is_err() && of("").is_err() && of("0,,1").is_err());
    }
}
