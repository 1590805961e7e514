//! Grammar of lists of the ccNUMA lecture's numactl policies.

use super::LecturePolicy;
use crate::grammar;
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use std::str::FromStr;

/// List of policies by number, e.g. `0,3`, `0-5` or, as in the lecture, `0..5`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policies(pub Vec<LecturePolicy>);

impl IntoIterator for Policies {
    type Item = LecturePolicy;
    type IntoIter = std::vec::IntoIter<LecturePolicy>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromStr for Policies {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("policies", "--policy 0,3 or --policy 0-5", text);
        let policy = |input: &mut Cursor<'_>| {
            let at = input.position();
            let number = input.number("expected the number of a policy, 0 to 5")?;
            let policy = u8::try_from(number).ok().and_then(LecturePolicy::new);
            let beyond = || format!("policy {number} is out of range: expected 0 to 5");
            policy.ok_or_else(|| input.error_at(at, beyond()))
        };
        let policies =
            grammar::list(&mut cursor, None, "expected ',', '-' or the end", |cursor| {
                let first = policy(cursor)?;
                if cursor.eat('.') {
                    cursor.expect('.', "expected '..'")?;
                } else if !cursor.eat('-') {
                    return Ok(vec![first]);
                }
                let at = cursor.position();
                let last = policy(cursor)?;
                if last < first {
                    return Err(cursor.error_at(at, "a range must begin with the smaller number"));
                }
                Ok((first.number()..=last.number()).filter_map(LecturePolicy::new).collect())
            })?;
        Ok(Self(policies.concat()))
    }
}
