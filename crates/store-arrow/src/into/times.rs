//! Dates, times and moments as text.

use arrow_schema::TimeUnit;
use jiff::civil::{Date, DateTime, Time};
use jiff::{Span, Timestamp};

const DAY_S: i64 = 86_400;

/// How many of a unit a second has.
fn each(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn moment(count: i64, unit: TimeUnit) -> Option<Timestamp> {
    let each = each(unit);
    let nanos = count.rem_euclid(each) * (1_000_000_000 / each);
    Timestamp::new(count.div_euclid(each), i32::try_from(nanos).ok()?).ok()
}

/// A day, by its number since 1970.
pub(super) fn date(days: i64) -> Option<Date> {
    Date::new(1970, 1, 1).ok()?.checked_add(Span::new().try_days(days).ok()?).ok()
}

/// A day in milliseconds, without a time of day.
pub(super) fn date_of_ms(ms: i64) -> Option<Date> {
    (ms % (DAY_S * 1000) == 0).then(|| date(ms / (DAY_S * 1000))).flatten()
}

/// A moment in UTC.
pub(super) fn utc(count: i64, unit: TimeUnit) -> Option<Timestamp> {
    moment(count, unit)
}

/// A date and a time of day of no zone.
pub(super) fn civil(count: i64, unit: TimeUnit) -> Option<DateTime> {
    // Not by way of a moment: those end before the last day of the year 9999, which many write for "never".
    let in_day = DAY_S * each(unit);
    let (day, left) = (count.div_euclid(in_day), count.rem_euclid(in_day));
    let (seconds, parts) = (left / each(unit), left % each(unit));
    let time = Time::new(
        i8::try_from(seconds / 3600).ok()?,
        i8::try_from(seconds / 60 % 60).ok()?,
        i8::try_from(seconds % 60).ok()?,
        i32::try_from(parts * (1_000_000_000 / each(unit))).ok()?,
    );
    Some(date(day)?.to_datetime(time.ok()?))
}

/// A time of day.
pub(super) fn time(count: i64, unit: TimeUnit) -> Option<Time> {
    let is_in_day = (0..DAY_S * each(unit)).contains(&count);
    is_in_day.then(|| civil(count, unit)).flatten().map(|then| then.time())
}
