//! A moment by which runs are chosen: a date, a time, or how long ago.

use nodegauge_measure::record::rfc3339;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

/// A day or a second, as runs are dated: its beginning in RFC 3339, in UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment(String);

impl Moment {
    /// The first time that is in it. Times in RFC 3339 sort as text.
    pub(crate) fn first(&self) -> String {
        self.0.clone()
    }

    /// What sorts behind every time that is in it, and before every later one.
    pub(crate) fn end(&self) -> String {
        format!("{}~", self.0)
    }

    fn read(text: &str, now: SystemTime) -> Option<Self> {
        let at = |time: Option<SystemTime>| time.and_then(rfc3339).map(Self);
        // Of two days, of 36 hours ago, to the second.
        if let Ok(ago) = humantime::parse_duration(text) {
            return at(now.checked_sub(ago));
        }
        let time = |text: &str| humantime::parse_rfc3339_weak(text).ok();
        if text.len() == "2026-11-21".len() {
            return time(&format!("{text}T00:00:00")).map(|_| Self(text.to_owned()));
        }
        // An offset from UTC at the end, as in 2026-11-21T20:00:00+01:00.
        if let Some((local, [sign, offset @ ..])) = text
            .len()
            .checked_sub("+01:00".len())
            .and_then(|at| text.as_bytes().split_at_checked(at))
            && [b'+', b'-'].contains(sign)
        {
            let (local, offset) = (str::from_utf8(local).ok()?, str::from_utf8(offset).ok()?);
            let (hours, minutes) = offset.split_once(':')?;
            let (hours, minutes): (u64, u64) = (hours.parse().ok()?, minutes.parse().ok()?);
            let offset = Duration::from_secs((hours * 60 + minutes) * 60);
            let local = time(local)?;
            return at(match sign {
                b'+' => local.checked_sub(offset),
                _ => local.checked_add(offset),
            });
        }
        at(time(text))
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text, SystemTime::now()).ok_or_else(|| {
            "expected a date, a time in UTC or how long ago, e.g. 2026-11-21, 2026-11-21T20:00:00Z, 2d".to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_day_a_second_or_so_long_ago() {
        let now = humantime::parse_rfc3339("2026-11-21T20:00:00Z").unwrap();
        let read = |text: &str| Moment::read(text, now).map(|moment| moment.0);
        for (text, expected) in [
            ("2026-11-21", "2026-11-21"),
            ("2026-11-21T05:30:00Z", "2026-11-21T05:30:00Z"),
            ("2026-11-21 05:30:00", "2026-11-21T05:30:00Z"),
            ("2026-11-21T05:30:00+05:30", "2026-11-21T00:00:00Z"),
            ("2026-11-21T23:30:00-01:00", "2026-11-22T00:30:00Z"),
            ("2d", "2026-11-19T20:00:00Z"),
            ("36h", "2026-11-20T08:00:00Z"),
            ("1w", "2026-11-14T20:00:00Z"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
        for wrong in ["", "2", "yesterday", "2026-13-01", "2026-11-21T25:00:00Z", "90000y", "ü"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_day_has_all_its_seconds() {
        let day = Moment("2026-11-21".to_owned());
        let within = |time: &str| (day.first()..day.end()).contains(&time.to_owned());
        assert!(within("2026-11-21T00:00:00Z") && within("2026-11-21T23:59:59Z"));
        assert!(!within("2026-11-20T23:59:59Z") && !within("2026-11-22T00:00:00Z"));
        let second = Moment("2026-11-21T05:30:00Z".to_owned());
        assert!(second.end().as_str() > "2026-11-21T05:30:00Z");
        assert!(second.end().as_str() < "2026-11-21T05:30:01Z");
    }
}
