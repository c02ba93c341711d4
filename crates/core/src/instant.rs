//! Times as text: RFC 3339 date-times, and days.

use std::ops::Range;

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};

/// The instants that have a four-digit year: 0001-01-01 to the end of 9999, in microseconds.
const INSTANTS: Range<i64> = -62_135_596_800_000_000..253_402_300_800_000_000;
/// The minimum length of a date-time: `2002-08-22T18:26:25Z`.
const INSTANT_BYTES_MIN: usize = 20;
/// The maximum length of a text that is read as a time, so that this takes constant time.
const INSTANT_BYTES_MAX: usize = 64;
const DAY_BYTES: usize = 10;

/// Microseconds since 1970 of an RFC 3339 date-time, which names its offset: `2002-08-22T18:26:25Z`. Constant time.
#[must_use]
pub fn instant(text: &str) -> Option<i64> {
    let has_form = (INSTANT_BYTES_MIN..=INSTANT_BYTES_MAX).contains(&text.len()) && begins_with_day(text);
    let instant = has_form.then(|| DateTime::parse_from_rfc3339(text).ok()).flatten()?;
    Some(instant.with_timezone(&Utc).timestamp_micros()).filter(|micros| INSTANTS.contains(micros))
}

/// Parse an instant as [`instant`] does. Without an offset, UTC is assumed.
#[must_use]
pub fn instant_or_utc(text: &str) -> Option<i64> {
    instant(text).or_else(|| instant(&format!("{text}Z")))
}

/// Microseconds since 1970 of midnight UTC of a day, `2002-08-22`. Constant time.
#[must_use]
pub fn day(text: &str) -> Option<i64> {
    let has_form = text.len() == DAY_BYTES && begins_with_day(text);
    let day = has_form.then(|| NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()).flatten()?;
    Some(NaiveDateTime::from(day).and_utc().timestamp_micros()).filter(|micros| INSTANTS.contains(micros))
}

/// A quick look that tells most texts from times.
#[inline]
fn begins_with_day(text: &str) -> bool {
    matches!(text.as_bytes(), [b'0'..=b'9', _, _, _, b'-', _, _, b'-', _, _, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_names_its_offset_and_has_a_year_of_four_digits() {
        let noon = 1_769_860_800_000_000; // 2026-01-31T12:00:00Z
        for text in [
            "2026-01-31T12:00:00Z",
            "2026-01-31t12:00:00z",
            "2026-01-31 12:00:00Z",
            "2026-01-31T12:00:00.000+00:00",
            "2026-01-31T14:30:00+02:30",
        ] {
            assert_eq!(instant(text), Some(noon), "{text}");
        }
        assert_eq!(instant("2026-01-31T12:00:00.1234567Z"), Some(noon + 123_456));
        for text in [
            "",
            "2026-01-31",
            "2026-01-31T12:00:00",
            "2026-01-31T12:00Z",
            "20260131T120000Z",
            "2026-02-30T12:00:00Z",
            "2026-01-31T24:00:00Z",
            " 2026-01-31T12:00:00Z",
            "2026-01-31T12:00:00Zulu",
            "0001-01-01T00:00:00+01:00",
            "+2026-01-31T12:00:00Z",
            "２026-01-31T12:00:00Z",
        ] {
            assert_eq!(instant(text), None, "{text}");
        }
        assert_eq!(instant(&format!("2026-01-31T12:00:00.{}Z", "0".repeat(100))), None);
        assert_eq!(instant_or_utc("2026-01-31T12:00:00"), Some(noon));
    }

    #[test]
    fn a_day_is_a_date_and_nothing_else() {
        assert_eq!(day("2026-01-31"), Some(1_769_817_600_000_000));
        for text in ["2026-01-32", "2026-1-31", "+026-01-31", "2026-01-31Z", "2026-01-31T12:00:00Z", "0000-01-01"] {
            assert_eq!(day(text), None, "{text}");
        }
    }
}
