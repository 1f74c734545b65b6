//! Times in version 1 files: text without a zone.
//!
//! The ecosystem's tools write the local time of their machine and no offset, so which moment is meant is not in the
//! file. It is read, and written, in the zone that the caller names.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::graph::Timestamp;

/// A time from its text: `2006-01-02 15:04:05.999999999` in a zone, or RFC 3339, which says its own. Of the two moments
/// of an hour that a clock shows twice, the first is meant.
pub(super) fn parse(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    let moment = match text.parse::<jiff::Timestamp>() {
        Ok(moment) => moment,
        Err(_) => text.parse::<DateTime>().ok()?.to_zoned(zone.clone()).ok()?.timestamp(),
    };
    let (seconds, nanos) = (moment.as_second(), moment.subsec_nanosecond());
    // Before 1970 the fraction counts backwards; on the wire it never does.
    Some(if nanos < 0 {
        Timestamp { seconds: seconds - 1, nanos: nanos + 1_000_000_000 }
    } else {
        Timestamp { seconds, nanos }
    })
}

/// The first second of the year 0: years before it have no form that other programs read.
const YEAR_0: i64 = -62_167_219_200;

/// The text of a time in a zone; none for one that no calendar has.
pub(super) fn format(time: Timestamp, zone: &TimeZone) -> Option<String> {
    let moment = jiff::Timestamp::new(time.seconds, 0).ok().filter(|_| time.seconds >= YEAR_0)?;
    let nanos = u32::try_from(time.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    let local = moment.to_zoned(zone.clone());
    let text = local.strftime("%Y-%m-%d %H:%M:%S").to_string();
    Some(match nanos {
        0 => text,
        nanos => format!("{text}.{}", format!("{nanos:09}").trim_end_matches('0')),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> Option<Timestamp> {
        parse(text, &TimeZone::UTC)
    }

    #[test]
    fn a_zone_says_which_moment_is_meant() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        assert_eq!(parse("2024-07-01 12:00:00", &berlin), utc("2024-07-01 10:00:00"));
        assert_eq!(parse("2024-01-01 12:00:00.25", &berlin), utc("2024-01-01 11:00:00.25"));
        // Which says its zone is not changed.
        assert_eq!(parse("2024-01-01T12:00:00Z", &berlin), utc("2024-01-01 12:00:00"));
        let time = utc("2024-07-01 10:00:00").unwrap();
        assert_eq!(format(time, &berlin).as_deref(), Some("2024-07-01 12:00:00"));
        // The hour that comes twice.
        assert_eq!(parse("2024-10-27 02:30:00", &berlin), utc("2024-10-27 00:30:00"));
    }

    #[test]
    fn times_come_back_as_they_were() {
        let times = [
            (0, 0),
            (1_700_000_000, 5),
            (1_700_000_000, 120_000_000),
            (-1, 999_999_999),
            (-86_400, 1),
            (YEAR_0, 0),
            (253_402_207_200, 7),
        ];
        for (seconds, nanos) in times {
            let time = Timestamp { seconds, nanos };
            let text = format(time, &TimeZone::UTC).unwrap();
            assert_eq!(parse(&text, &TimeZone::UTC), Some(time), "{text}");
        }
        assert_eq!(utc("2006-01-02 15:04:05.5").map(|time| time.nanos), Some(500_000_000));
        assert_eq!(utc("2006-01-02T15:04:05+01:00"), utc("2006-01-02 14:04:05"));
        assert_eq!(utc("yesterday"), None);
        for seconds in [i64::MIN, YEAR_0 - 1, 253_402_207_201, i64::MAX] {
            assert_eq!(format(Timestamp { seconds, nanos: 0 }, &TimeZone::UTC), None, "{seconds}");
        }
        assert_eq!(format(Timestamp { seconds: 0, nanos: -1 }, &TimeZone::UTC), None);
    }
}
