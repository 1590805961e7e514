//! Points in time that select runs: a date, a time, or a duration before now.

use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::record::{format_rfc3339, now_rfc3339};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

/// Maximum time by which the clock of another node may be ahead of the local clock. Synchronised clocks agree within
/// seconds. A day also covers a clock that was set to local time instead of UTC.
const CLOCK_SKEW: Duration = Duration::from_secs(24 * 3600);

/// Returns the latest plausible start of a run as RFC 3339 text. Such texts sort chronologically.
pub(crate) fn latest_plausible_start() -> String {
    let latest = SystemTime::now().checked_add(CLOCK_SKEW).and_then(format_rfc3339);
    latest.unwrap_or_else(now_rfc3339)
}

/// Day or second in UTC, stored as the prefix that all RFC 3339 times in it share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayOrSecond(String);

impl DayOrSecond {
    /// Returns the first time of the day or second as RFC 3339 text.
    pub(crate) fn first(&self) -> String {
        self.0.clone()
    }

    /// Returns a text that sorts after all times of the day or second, and before later times.
    pub(crate) fn end(&self) -> String {
        format!("{}~", self.0)
    }

    /// Returns the second that contains `time`; `None` for a time that RFC 3339 cannot represent.
    fn at(time: SystemTime) -> Option<Self> {
        format_rfc3339(time).map(Self)
    }

    fn read(text: &str, now: SystemTime) -> Option<Self> {
        // A duration such as `2d` or `36h` denotes the second that lies this long before now.
        if let Ok(ago) = humantime::parse_duration(text) {
            return Self::at(now.checked_sub(ago)?);
        }
        if text.len() == "2026-11-21".len() {
            return utc_time(&format!("{text}T00:00:00")).map(|_| Self(text.to_owned()));
        }
        // The time ends with an offset from UTC, as in 2026-11-21T20:00:00+01:00.
        if let Some((local, [sign, hours_and_minutes @ ..])) = text
            .len()
            .checked_sub("+01:00".len())
            .and_then(|length| text.as_bytes().split_at_checked(length))
            && [b'+', b'-'].contains(sign)
        {
            let local = utc_time(str::from_utf8(local).ok()?)?;
            let (hours, minutes) = str::from_utf8(hours_and_minutes).ok()?.split_once(':')?;
            let hours: u64 = hours.parse().ok()?;
            let minutes: u64 = minutes.parse().ok()?;
            let offset = Duration::from_secs((hours * 60 + minutes) * 60);
            return Self::at(match sign {
                b'+' => local.checked_sub(offset)?,
                _ => local.checked_add(offset)?,
            });
        }
        Self::at(utc_time(text)?)
    }
}

impl FromStr for DayOrSecond {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let example = "2026-11-21, 2026-11-21T20:00:00Z or 2d";
        let cursor = Cursor::new("moment", example, text);
        Self::read(text, SystemTime::now())
            .ok_or_else(|| cursor.error("expected a date, a time in UTC, or a duration before now"))
    }
}

/// Parses a date, or a date and time in UTC.
fn utc_time(moment: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339_weak(moment).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_times_and_ages_are_parsed() {
        let now = humantime::parse_rfc3339("2026-11-21T20:00:00Z").unwrap();
        let read = |text: &str| DayOrSecond::read(text, now).map(|moment| moment.0);
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
    fn day_includes_all_its_seconds() {
        let day = DayOrSecond("2026-11-21".to_owned());
        let within = |time: &str| (day.first()..day.end()).contains(&time.to_owned());
        assert!(within("2026-11-21T00:00:00Z") && within("2026-11-21T23:59:59Z"));
        assert!(!within("2026-11-20T23:59:59Z") && !within("2026-11-22T00:00:00Z"));
        let second = DayOrSecond("2026-11-21T05:30:00Z".to_owned());
        assert!(second.end().as_str() > "2026-11-21T05:30:00Z");
        assert!(second.end().as_str() < "2026-11-21T05:30:01Z");
    }
}
