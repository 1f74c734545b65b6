//! Moments as they are written on the command line.

use crate::parse;
use jiff::{
    civil::DateTime,
    tz::{AmbiguousOffset, Offset, TimeZone},
    SignedDuration, Timestamp,
};

/// How a moment is written, for those who wrote it otherwise.
const WAYS: &str =
    "write '2026-11-22 09:13:05' (in the time zone of this machine, or TZ), '2026-11-22 09:13:05+02', \
                    '2026-11-22T09:13:05Z', '2026-11-22 09:13:05 Europe/Berlin', or -10m";

/// A moment: with a time zone as RFC 3339 or psql writes it, or without one, in that of this machine; or a span before now.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    read(text.trim(), duramen_base::clock::utc_now(), &TimeZone::system())
}

fn read(text: &str, now: Timestamp, here: &TimeZone) -> Result<Timestamp, String> {
    let wrong = || format!("{text:?} is not a moment; {WAYS}");
    if let Some(span) = text.strip_prefix('-') {
        let span = SignedDuration::try_from(parse::span(span)?).map_err(|_| wrong())?;
        return now.checked_sub(span).map_err(|_| wrong());
    }
    if let Some((there, zone)) = text.rsplit_once(' ') {
        if let (Ok(there), Ok(zone)) = (there.parse::<DateTime>(), TimeZone::get(zone)) {
            return in_zone(text, there, &zone);
        }
    }
    // The sign of an offset comes behind a date, in which there are hyphens.
    let of_time = text.get(10..).ok_or_else(wrong)?;
    let (at, offset) = match of_time.rfind(['+', '-', 'Z', 'z']) {
        Some(at) => (10 + at, offset(&of_time[at..]).ok_or_else(wrong)?),
        None => return in_zone(text, text.parse().map_err(|_| wrong())?, here),
    };
    let there: DateTime = text[..at].trim_end().parse().map_err(|_| wrong())?;
    offset.to_timestamp(there).map_err(|_| wrong())
}

/// `Z`, `+02`, `+0530` or `+05:30`.
fn offset(text: &str) -> Option<Offset> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'Z' | b'z' => return (text.len() == 1).then_some(Offset::UTC),
        b'-' => (-1, &text[1..]),
        _ => (1, &text[1..]),
    };
    let (hours, minutes) = match (digits.len(), digits.split_once(':')) {
        (2, _) => (digits, "0"),
        (4, None) => digits.split_at(2),
        (5, Some((hours, minutes))) => (hours, minutes),
        _ => return None,
    };
    let part = |text: &str, most: i32| {
        text.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| text.parse().ok())
            .flatten()
            .filter(|it: &i32| *it <= most)
    };
    Offset::from_seconds(sign * (part(hours, 15)? * 3600 + part(minutes, 59)? * 60)).ok()
}

/// A local time that there was once: where clocks were put back there was one twice, and where they were put forward, none.
fn in_zone(text: &str, there: DateTime, zone: &TimeZone) -> Result<Timestamp, String> {
    let ambiguous = zone.to_ambiguous_timestamp(there);
    let how_often = match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => {
            return ambiguous.compatible().map_err(|error| format!("{text:?} is not a moment: {error}"))
        }
        AmbiguousOffset::Gap { .. } => "there was no such time",
        AmbiguousOffset::Fold { .. } => "that time was there twice",
    };
    Err(format!("{text:?}: {how_often}, because clocks were changed; write it with an offset, such as +02"))
}

#[cfg(test)]
#[path = "../tests/unit/written_moments.rs"]
mod tests;
