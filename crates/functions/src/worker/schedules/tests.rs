//! Which times have come.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn cron(text: &str, zone: &str) -> Rhythm {
    Rhythm::Cron(Schedule::parse(text, zone).unwrap())
}

fn minutes(count: i64) -> SignedDuration {
    SignedDuration::from_mins(count)
}

#[test]
fn a_schedule_begins_with_the_next_time_and_starts_nothing_before() {
    let found = due(&cron("0 9 * * *", "UTC"), at("2026-11-24T10:00:00Z"), None, minutes(1), None);
    assert_eq!(found, Due { next: Some(at("2026-11-25T09:00:00Z")), ..Due::default() });
}

#[test]
fn what_was_missed_is_made_up_for_if_it_is_not_too_long_ago() {
    let rhythm = cron("*/10 * * * *", "UTC");
    let now = at("2026-11-24T10:35:00Z");
    let next = Some(at("2026-11-24T10:00:00Z"));
    let found = due(&rhythm, now, next, minutes(16), None);
    assert_eq!(found.times, [at("2026-11-24T10:20:00Z"), at("2026-11-24T10:30:00Z")]);
    assert_eq!(found.next, Some(at("2026-11-24T10:40:00Z")));
    let found = due(&rhythm, now, next, minutes(0), None);
    assert_eq!((found.times.len(), found.next), (0, Some(at("2026-11-24T10:40:00Z"))));
    // One whose time has just come is started, whatever is made up for.
    let found = due(&rhythm, at("2026-11-24T10:30:02Z"), Some(at("2026-11-24T10:30:00Z")), minutes(0), None);
    assert_eq!(found.times, [at("2026-11-24T10:30:00Z")]);
    // Years, at once.
    let found = due(&cron("* * * * *", "UTC"), now, Some(at("2006-01-01T00:00:00Z")), minutes(2), None);
    assert_eq!(found.times.len(), 3);
    let every = Rhythm::Every(SignedDuration::from_secs(7));
    let found = due(&every, now, Some(at("2006-01-01T00:00:00Z")), SignedDuration::from_secs(20), None);
    assert_eq!(found.times.len(), 3, "{found:?}");
    let first = found.times[0].duration_since(at("2006-01-01T00:00:00Z")).as_secs();
    assert_eq!(first % 7, 0, "in the rhythm that it had");
}

#[test]
fn many_times_are_seen_to_a_hundred_at_a_time() {
    let every = Rhythm::Every(SignedDuration::from_secs(1));
    let now = at("2026-11-24T10:35:00Z");
    let found = due(&every, now, Some(now - minutes(10)), minutes(60), None);
    assert_eq!(
        (found.times.len(), found.next),
        (100, Some(now - minutes(10) + SignedDuration::from_secs(100)))
    );
}

#[test]
fn an_hour_that_comes_twice_or_not_at_all_is_one_time() {
    // In Berlin, the clock goes from 3 back to 2 on 2026-10-25, and from 2 on to 3 on 2026-03-29.
    let rhythm = cron("30 2 * * *", "Europe/Berlin");
    for (from, to, times) in [
        ("2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z", ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        ("2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z", ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
    ] {
        let fill = Some((at(from), at(to)));
        let found = due(&rhythm, at("2026-11-24T10:00:00Z"), None, minutes(0), fill);
        assert_eq!(found.filled, times.map(at), "{from}");
    }
}

#[test]
fn a_backfill_has_both_ends_and_goes_on_where_it_stopped() {
    let rhythm = cron("0 * * * *", "UTC");
    let now = at("2026-11-24T10:35:00Z");
    let (from, to) = (at("2026-11-01T00:00:00Z"), at("2026-11-05T05:00:00Z"));
    let found = due(&rhythm, now, None, minutes(0), Some((from, to)));
    assert_eq!((found.filled.len(), found.filled[0]), (100, from));
    let rest = due(&rhythm, now, found.next, minutes(0), Some((found.fill_from.unwrap(), to)));
    assert_eq!((rest.filled.len(), rest.filled.last(), rest.fill_from), (2, Some(&to), None));
}

#[test]
fn a_time_is_put_off_by_the_same_part_of_the_jitter_always() {
    let time = at("2026-11-24T10:00:00Z");
    let parts: Vec<f64> = (0..1000).map(|id| put_off(time, id, 10.0).as_secs_f64()).collect();
    assert_eq!(put_off(time, 7, 10.0).as_secs_f64(), parts[7]);
    assert!(parts.iter().all(|part| (0.0..10.0).contains(part)));
    let mean = parts.iter().sum::<f64>() / 1000.0;
    assert!((4.0..6.0).contains(&mean), "{mean}");
}
