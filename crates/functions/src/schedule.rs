//! When a cron expression is due next, in a time zone.
//!
//! Five fields: minute, hour, day of the month, month, weekday. Each is a list of items: `*`, a number, a range
//! `a-b`, and any of these with a step `/n`; `a/n` goes from `a` to the end of the field. Months and weekdays have
//! names in any case, `jan` and `mon`. Weekdays go from 0, Sunday, to 7, Sunday again, and a range may end with `sun`.
//! When neither of the two day fields begins with `*`, a day is due if either of them says so, else if both do: as in
//! every cron since Vixie's. There are no seconds, and no `?`, `L`, `W` or `#`.
//!
//! # When clocks change
//! Where neither minute nor hour begins with `*`, a time of day is meant. If the clock skips it, it is due at the
//! moment of the change; if the clock shows it twice, it is due the first time only. Other expressions mean a rhythm:
//! what the clock skips is left out, and what it shows twice is due twice.

use std::collections::BTreeSet;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

/// How far ahead a date is looked for. The rarest one is a leap day on a given weekday: 40 years, over a century's end.
const YEARS_MAX: i64 = 50;

/// A schedule that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// Not five fields.
    #[error("the cron expression \"{cron}\" must have five fields: minute hour day month weekday")]
    Fields {
        /// As it was written.
        cron: String,
    },
    /// Something in one of the fields.
    #[error("the cron expression \"{cron}\" cannot be used: {problem}")]
    Field {
        /// As it was written.
        cron: String,
        /// What is wrong.
        problem: String,
    },
    /// A date such as the 30th of February, alone.
    #[error("the cron expression \"{cron}\" names a day that no such month has: it would never come")]
    Never {
        /// As it was written.
        cron: String,
    },
    /// A time zone that this machine does not know.
    #[error(
        "no time zone \"{time_zone}\" on the worker's machine: \
         use a name such as Europe/Berlin, or install tzdata ({source})"
    )]
    TimeZone {
        /// As it was written.
        time_zone: String,
        /// What the search said.
        source: jiff::Error,
    },
}

/// A cron expression in a time zone.
///
/// ```
/// use duramen_functions::schedule::Schedule;
/// let schedule = Schedule::parse("30 9 * * mon-fri", "Europe/Berlin")?;
/// let saturday = "2026-11-21T12:00:00Z".parse()?;
/// assert_eq!(schedule.next_after(saturday), Some("2026-11-23T08:30:00Z".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Schedule {
    minutes: BTreeSet<i8>,
    hours: BTreeSet<i8>,
    days: BTreeSet<i8>,
    months: BTreeSet<i8>,
    /// From 0, Sunday, to 6.
    weekdays: BTreeSet<i8>,
    /// A day has to be in both day fields, not only in one.
    both_days: bool,
    /// A time of day, not a rhythm.
    fixed: bool,
    time_zone: TimeZone,
}

/// One of the five fields.
struct Field {
    what: &'static str,
    low: i8,
    high: i8,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Field; 5] = [
    Field { what: "minute", low: 0, high: 59, names: &[] },
    Field { what: "hour", low: 0, high: 23, names: &[] },
    Field { what: "day of the month", low: 1, high: 31, names: &[] },
    Field { what: "month", low: 1, high: 12, names: &MONTHS },
    Field { what: "weekday", low: 0, high: 7, names: &WEEKDAYS },
];

impl Schedule {
    /// Reads a cron expression; `time_zone` is a name of the IANA database, in any case.
    ///
    /// # Errors
    /// [`ScheduleError`] says what of it cannot be used.
    pub fn parse(cron: &str, time_zone: &str) -> Result<Self, ScheduleError> {
        // The same characters as in `df._cron_problem`: what else is a space depends on who is asked.
        let texts: Vec<&str> = cron.split([' ', '\t', '\r', '\n']).filter(|text| !text.is_empty()).collect();
        let [minute, hour, day, _, weekday] = texts[..] else {
            return Err(ScheduleError::Fields { cron: cron.to_owned() });
        };
        let mut numbers = Vec::with_capacity(FIELDS.len());
        for (field, text) in FIELDS.iter().zip(&texts) {
            let problem = |problem| ScheduleError::Field { cron: cron.to_owned(), problem };
            numbers.push(field.numbers(text).map_err(problem)?);
        }
        let [minutes, hours, days, months, weekdays] = <[_; 5]>::try_from(numbers).expect("five fields");
        if weekday.starts_with('*') && !months.iter().any(|month| days.iter().any(|day| exists(*month, *day)))
        {
            return Err(ScheduleError::Never { cron: cron.to_owned() });
        }
        let time_zone = match time_zone {
            // Known even where no database is installed.
            utc if utc.eq_ignore_ascii_case("utc") => TimeZone::UTC,
            name => TimeZone::get(name)
                .map_err(|source| ScheduleError::TimeZone { time_zone: name.to_owned(), source })?,
        };
        Ok(Self {
            minutes,
            hours,
            days,
            months,
            weekdays: weekdays.into_iter().map(|day| day % 7).collect(),
            both_days: day.starts_with('*') || weekday.starts_with('*'),
            fixed: !minute.starts_with('*') && !hour.starts_with('*'),
            time_zone,
        })
    }

    /// The first moment after `now` at which it is due; `now` itself does not count. `None` when there is none in 50
    /// years.
    pub fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        let today = self.time_zone.to_datetime(now).date();
        // A clock that was set back over midnight may show a date again that was left before.
        let mut date = today.yesterday().ok()?;
        let last = today.checked_add(YEARS_MAX.years()).ok()?;
        while date <= last {
            if self.is_due_on(date) {
                let due = self.moments(date, now);
                if due.is_some() {
                    return due;
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    fn is_due_on(&self, date: Date) -> bool {
        let day = self.days.contains(&date.day());
        let weekday = self.weekdays.contains(&date.weekday().to_sunday_zero_offset());
        self.months.contains(&date.month()) && if self.both_days { day && weekday } else { day || weekday }
    }

    /// The first moment of a date that is after `now`.
    fn moments(&self, date: Date, now: Timestamp) -> Option<Timestamp> {
        let local = self.time_zone.to_datetime(now);
        // Within a day without a change of the clock, what it shows tells what is over.
        let changes = self.changes_on(date);
        let mut first: Option<Timestamp> = None;
        for hour in &self.hours {
            for minute in &self.minutes {
                let time = date.at(*hour, *minute, 0, 0);
                if !changes && time <= local {
                    continue;
                }
                let due = self.when(time).into_iter().flatten().filter(|due| *due > now).min();
                first = [first, due].into_iter().flatten().min();
                if first.is_some() && !changes {
                    return first;
                }
            }
        }
        first
    }

    /// Whether the clock changes on the date, or so close to it that it matters.
    fn changes_on(&self, date: Date) -> bool {
        let around = || {
            let from = date.yesterday().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
            let to = date.checked_add(2.days()).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
            Some(self.time_zone.following(from).next().is_some_and(|change| change.timestamp() <= to))
        };
        around().unwrap_or(true)
    }

    /// The moments at which the clock shows `time`, as far as it is due then.
    fn when(&self, time: DateTime) -> [Option<Timestamp>; 2] {
        let ambiguous = self.time_zone.to_ambiguous_timestamp(time);
        match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } => [ambiguous.unambiguous().ok(), None],
            AmbiguousOffset::Fold { .. } => {
                let later = if self.fixed { None } else { ambiguous.later().ok() };
                [ambiguous.earlier().ok(), later]
            }
            // Read by the clock as it will be, a skipped time lies before the change; the change comes next.
            AmbiguousOffset::Gap { .. } if self.fixed => {
                let before = ambiguous.earlier().ok();
                let change = before.and_then(|before| self.time_zone.following(before).next());
                [change.map(|change| change.timestamp()), None]
            }
            AmbiguousOffset::Gap { .. } => [None, None],
        }
    }
}

impl Field {
    /// The numbers that the text stands for, or what is wrong with it.
    fn numbers(&self, text: &str) -> Result<BTreeSet<i8>, String> {
        let mut numbers = BTreeSet::new();
        for item in text.split(',') {
            self.item(item, &mut numbers)?;
        }
        Ok(numbers)
    }

    fn item(&self, item: &str, numbers: &mut BTreeSet<i8>) -> Result<(), String> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (self.low, self.high),
            None if step.is_some() => (self.number(range, item)?, self.high),
            None => (self.number(range, item)?, self.number(range, item)?),
            Some((from, to)) => {
                let (from, last) = (self.number(from, item)?, self.number(to, item)?);
                // A week may also end with Sunday: sat-sun.
                let sunday = to.eq_ignore_ascii_case("sun") && from > 0;
                (from, if sunday { self.high } else { last })
            }
        };
        if from > to {
            return Err(format!("the range \"{item}\" in the {} ends before it begins", self.what));
        }
        let step = match step {
            None => 1,
            Some(step) => digits(step, 3)
                .and_then(|step| i8::try_from(step).ok())
                .filter(|step| (1..=self.high).contains(step))
                .ok_or_else(|| format!("the step in \"{item}\" is not between 1 and {}", self.high))?,
        };
        numbers.extend((from..=to).step_by(usize::from(step.unsigned_abs())));
        Ok(())
    }

    /// A number, or the name of one.
    fn number(&self, text: &str, item: &str) -> Result<i8, String> {
        let named = || {
            let index = self.names.iter().position(|name| name.eq_ignore_ascii_case(text))?;
            Some(self.low + i8::try_from(index).ok()?)
        };
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            let rule = "write *, a number, a range a-b, a step */n or a-b/n, or a list of them";
            return Err(format!("\"{item}\" is not a valid {}: {rule}", self.what));
        }
        let number = digits(text, 2).and_then(|number| i8::try_from(number).ok()).or_else(named);
        number.filter(|number| (self.low..=self.high).contains(number)).ok_or_else(|| {
            let names = match self.names {
                [first, .., last] => format!(", or {first} to {last}"),
                _ => String::new(),
            };
            format!(
                "\"{text}\" is not a valid {}: it goes from {} to {}{names}",
                self.what, self.low, self.high
            )
        })
    }
}

/// The number that `text` is, with no sign and at most `max` digits.
fn digits(text: &str, max: usize) -> Option<u16> {
    let plain = text.len() <= max && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// Whether some year has the day.
fn exists(month: i8, day: i8) -> bool {
    const LEAP_YEAR: i16 = 2024;
    Date::new(LEAP_YEAR, month, day).is_ok()
}

#[cfg(test)]
mod tests;
