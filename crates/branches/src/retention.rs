//! Which generations of a source a rule keeps (G7). It knows no clock: only when each of them was made.

use duramen_api::keep::{Keep, Period};
use jiff::{tz::TimeZone, Timestamp};
use std::collections::BTreeMap;

/// A generation, and when it was made.
pub(crate) type Dated = (u32, Timestamp);

/// The generations that a rule keeps, with the parts of it that do.
///
/// Each part goes through the generations from the newest one back, and keeps the first one of each stretch of time that it
/// comes to, until it has as many as it keeps. So what is kept is kept for as long as no newer generations push it out,
/// however much time passes; and to keep what was kept changes nothing.
pub(crate) fn kept(keep: &Keep, generations: &[Dated]) -> BTreeMap<u32, Vec<Period>> {
    let mut newest_first: Vec<Dated> = generations.to_vec();
    // Two of the same moment are in the order in which they were made.
    newest_first.sort_by_key(|(number, made_at)| std::cmp::Reverse((*made_at, *number)));
    let mut kept: BTreeMap<u32, Vec<Period>> = BTreeMap::new();
    for (period, count) in keep.parts() {
        let mut last = None;
        let mut left = count;
        for (number, made_at) in &newest_first {
            let stretch = stretch(period, *number, *made_at);
            if left == 0 {
                break;
            }
            if last != Some(stretch) {
                kept.entry(*number).or_default().push(period);
                left -= 1;
            }
            last = Some(stretch);
        }
    }
    kept
}

/// Which stretch of time a generation is of. Later ones are greater.
fn stretch(period: Period, number: u32, made_at: Timestamp) -> (i64, i64) {
    let there = made_at.to_zoned(TimeZone::UTC);
    let year = i64::from(there.year());
    match period {
        Period::Last => (made_at.as_second(), i64::from(number)),
        Period::Hourly => (made_at.as_second().div_euclid(3600), 0),
        Period::Daily => (made_at.as_second().div_euclid(86_400), 0),
        Period::Weekly => {
            let week = there.date().iso_week_date();
            (i64::from(week.year()), i64::from(week.week()))
        }
        Period::Monthly => (year, i64::from(there.month())),
        Period::Yearly => (year, 0),
    }
}

#[cfg(test)]
#[path = "../tests/unit/retention.rs"]
mod tests;
