//! Times in version 1 files: text without a zone.
//!
//! The reference writes the local time of the machine and no offset, so which moment is meant cannot be known. They are
//! taken as UTC, which is what the reference's own reader does, and written as UTC.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::graph::Timestamp;

/// A time from its text: `2006-01-02 15:04:05.999999999`, or RFC 3339.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    let moment = match text.parse::<jiff::Timestamp>() {
        Ok(moment) => moment,
        Err(_) => text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp(),
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

/// The text of a time; none for one that no calendar has.
pub(super) fn format(time: Timestamp) -> Option<String> {
    let moment = jiff::Timestamp::new(time.seconds, 0).ok().filter(|_| time.seconds >= YEAR_0)?;
    let nanos = u32::try_from(time.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    let text = moment.strftime("%Y-%m-%d %H:%M:%S").to_string();
    Some(match nanos {
        0 => text,
        nanos => format!("{text}.{}", format!("{nanos:09}").trim_end_matches('0')),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let text = format(time).unwrap();
            assert_eq!(parse(&text), Some(time), "{text}");
        }
        assert_eq!(parse("2006-01-02 15:04:05.5").map(|time| time.nanos), Some(500_000_000));
        assert_eq!(parse("2006-01-02T15:04:05+01:00"), parse("2006-01-02 14:04:05"));
        assert_eq!(parse("yesterday"), None);
        for seconds in [i64::MIN, YEAR_0 - 1, 253_402_207_201, i64::MAX] {
            assert_eq!(format(Timestamp { seconds, nanos: 0 }), None, "{seconds}");
        }
        assert_eq!(format(Timestamp { seconds: 0, nanos: -1 }), None);
    }
}
