//! Grammar of lists of the ccNUMA lecture's numactl policies, each with an optional map of ranks.

use super::{RankMap, RankPolicy};
use crate::grammar;
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::{SyntaxError, UnknownName};
use std::fmt;
use std::str::FromStr;

/// Policy of ranks, with an optional map of ranks to sockets: `4` or `4/even`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MappedPolicy {
    /// Policy for the CPUs and the memory of ranks.
    pub policy: RankPolicy,
    /// Map that belongs to this policy; `None` if the map is given elsewhere or is the default.
    pub map: Option<RankMap>,
}

impl From<RankPolicy> for MappedPolicy {
    fn from(policy: RankPolicy) -> Self {
        Self { policy, map: None }
    }
}

impl fmt::Display for MappedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.map {
            Some(map) => write!(f, "{}/{map}", self.policy),
            None => self.policy.fmt(f),
        }
    }
}

/// List of policies by number, e.g. `0,3`, `0-5` or, as in the lecture, `0..5`. A map may follow: `3/block,4/even`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policies(pub Vec<MappedPolicy>);

impl IntoIterator for Policies {
    type Item = MappedPolicy;
    type IntoIter = std::vec::IntoIter<MappedPolicy>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromStr for Policies {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let example = "--policy 0,3, --policy 0-5 or --policy 4,4/even";
        let mut cursor = Cursor::new("policies", example, text);
        let end = "expected ',', '-', '/' and a map, or the end";
        let policies = grammar::list(&mut cursor, None, end, |cursor| {
            let first = number(cursor)?;
            let mut last = first;
            let mut is_range = cursor.eat('-');
            if !is_range && cursor.eat('.') {
                cursor.expect('.', "expected '..'")?;
                is_range = true;
            }
            if is_range {
                let at = cursor.position();
                last = number(cursor)?;
                if last < first {
                    return Err(cursor.error_at(at, "a range must begin with the smaller number"));
                }
            }
            let map = map_after_slash(cursor)?;
            let all = (first.number()..=last.number()).filter_map(RankPolicy::new);
            Ok(all.map(|policy| MappedPolicy { policy, map }).collect::<Vec<_>>())
        })?;
        Ok(Self(policies.concat()))
    }
}

/// Parses the number of a policy.
fn number(cursor: &mut Cursor<'_>) -> Result<RankPolicy, SyntaxError> {
    let at = cursor.position();
    let number = cursor.number("expected the number of a policy, 0 to 5")?;
    let policy = u8::try_from(number).ok().and_then(RankPolicy::new);
    policy.ok_or_else(|| {
        cursor.error_at(at, format!("policy {number} is out of range: expected 0 to 5"))
    })
}

/// Parses the map after a slash; returns `None` if there is no slash.
fn map_after_slash(cursor: &mut Cursor<'_>) -> Result<Option<RankMap>, SyntaxError> {
    if !cursor.eat('/') {
        return Ok(None);
    }
    let at = cursor.position();
    let name = cursor.take_while(|c| c.is_ascii_alphabetic());
    if name.is_empty() {
        return Err(cursor.error_at(at, "expected a map after '/'"));
    }
    name.parse().map(Some).map_err(|unknown: UnknownName| cursor.unknown_at(at, &unknown))
}
