#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

/// The next moments after `from`, as many as are expected.
#[track_caller]
fn check(cron: &str, time_zone: &str, from: &str, expected: &[&str]) {
    let schedule = Schedule::parse(cron, time_zone).unwrap();
    let mut now = at(from);
    for (index, next) in expected.iter().enumerate() {
        now = schedule.next_after(now).unwrap();
        assert_eq!(now, at(next), "{cron} in {time_zone}, moment {index} after {from}");
    }
}

#[track_caller]
fn refuse(cron: &str, part: &str) {
    let error = Schedule::parse(cron, "UTC").unwrap_err().to_string();
    assert!(error.contains(part), "{cron:?}: {error}");
}

#[test]
fn every_minute_begins_after_now() {
    check("* * * * *", "UTC", "2026-11-22T02:47:58Z", &["2026-11-22T02:48:00Z", "2026-11-22T02:49:00Z"]);
    check("* * * * *", "UTC", "2026-12-31T23:59:00Z", &["2027-01-01T00:00:00Z"]);
    check(" 5\t* *  * * ", "utc", "2026-11-22T02:05:00.000001Z", &["2026-11-22T03:05:00Z"]);
}

#[test]
fn lists_ranges_and_steps() {
    check("*/20 3 * * *", "UTC", "2026-11-22T03:20:00Z", &["2026-11-22T03:40:00Z", "2026-11-23T03:00:00Z"]);
    check("50/4 3 * * *", "UTC", "2026-11-22T03:51:00Z", &["2026-11-22T03:54:00Z", "2026-11-22T03:58:00Z"]);
    check(
        "0 1-7/3,22 * * *",
        "UTC",
        "2026-11-22T01:00:00Z",
        &["2026-11-22T04:00:00Z", "2026-11-22T07:00:00Z", "2026-11-22T22:00:00Z", "2026-11-23T01:00:00Z"],
    );
    check(
        "0 0 1 JAN,Jul *",
        "UTC",
        "2026-11-22T00:00:00Z",
        &["2027-01-01T00:00:00Z", "2027-07-01T00:00:00Z"],
    );
    check(
        "0 0 1 feb-apr/2 *",
        "UTC",
        "2026-11-22T00:00:00Z",
        &["2027-02-01T00:00:00Z", "2027-04-01T00:00:00Z"],
    );
}

#[test]
fn sunday_is_zero_and_seven() {
    // 2026-11-22 is a Sunday.
    for sunday in ["0", "7", "sun", "SUN", "7-7", "sun-sun", "0,7"] {
        let cron = format!("0 12 * * {sunday}");
        check(&cron, "UTC", "2026-11-21T12:00:00Z", &["2026-11-22T12:00:00Z", "2026-11-29T12:00:00Z"]);
    }
    let weekdays = ["2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z", "2026-11-25T00:00:00Z"];
    check("0 0 * * 1-5", "UTC", "2026-11-20T00:00:00Z", &weekdays);
    check("0 0 * * mon-fri", "UTC", "2026-11-20T00:00:00Z", &weekdays);
    let weekend = ["2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z", "2026-11-28T00:00:00Z"];
    check("0 0 * * sat-sun", "UTC", "2026-11-20T00:00:00Z", &weekend);
    check("0 0 * * 6-7", "UTC", "2026-11-20T00:00:00Z", &weekend);
}

#[test]
fn one_day_field_is_enough_unless_one_is_a_star() {
    // The 13th, or a Friday.
    check(
        "0 0 13 * fri",
        "UTC",
        "2026-11-06T00:00:00Z",
        &[
            "2026-11-13T00:00:00Z",
            "2026-11-20T00:00:00Z",
            "2026-11-27T00:00:00Z",
            "2026-12-04T00:00:00Z",
            "2026-12-11T00:00:00Z",
            "2026-12-13T00:00:00Z",
        ],
    );
    check("0 0 13 * *", "UTC", "2026-11-06T00:00:00Z", &["2026-11-13T00:00:00Z", "2026-12-13T00:00:00Z"]);
    // Odd days that are Mondays: `*/2` begins with a star.
    check("0 0 */2 * mon", "UTC", "2026-11-22T00:00:00Z", &["2026-11-23T00:00:00Z", "2026-12-07T00:00:00Z"]);
}

#[test]
fn rare_dates_are_found_and_impossible_ones_refused() {
    check("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", &["2104-02-29T00:00:00Z"]);
    check("0 0 29 2 */7", "UTC", "2088-03-01T00:00:00Z", &["2128-02-29T00:00:00Z"]);
    check("0 0 31 * *", "UTC", "2026-11-01T00:00:00Z", &["2026-12-31T00:00:00Z", "2027-01-31T00:00:00Z"]);
    // The weekday alone is enough.
    check("0 0 30 2 mon", "UTC", "2027-01-31T00:00:00Z", &["2027-02-01T00:00:00Z"]);
    for cron in ["0 0 30 2 *", "0 0 30,31 2 *", "0 0 31 4,6,9,11 */2"] {
        refuse(cron, "it would never come");
    }
}

#[test]
fn a_time_zone_shifts_hours_and_days() {
    check("30 9 * * *", "Asia/Kolkata", "2026-11-22T03:00:00Z", &["2026-11-22T04:00:00Z"]);
    check("0 5 * * mon", "Pacific/Auckland", "2026-11-20T00:00:00Z", &["2026-11-22T16:00:00Z"]);
    check("0 9 * * *", "europe/berlin", "2026-03-28T08:00:00Z", &["2026-03-29T07:00:00Z"]);
}

#[test]
fn a_skipped_time_of_day_is_due_at_the_change() {
    // In Berlin the clock goes from 02:00 to 03:00 at 01:00 UTC.
    let expected = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
    check("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", &expected);
    // Several times in the gap are due once, together.
    check(
        "0,30 2,4 * * *",
        "Europe/Berlin",
        "2026-03-29T00:00:00Z",
        &["2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z", "2026-03-29T02:30:00Z", "2026-03-30T00:00:00Z"],
    );
    // A whole day was skipped: 2011-12-30 in Apia.
    check(
        "0 12 * * *",
        "Pacific/Apia",
        "2011-12-29T22:00:00Z",
        &["2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"],
    );
}

#[test]
fn a_repeated_time_of_day_is_due_once() {
    // In Berlin the clock goes from 03:00 to 02:00 at 01:00 UTC.
    let expected = ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
    check("30 2 * * *", "Europe/Berlin", "2026-10-24T01:00:00Z", &expected);
    check("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:01Z", &expected[1..]);
    check(
        "0,30 2 * * *",
        "Europe/Berlin",
        "2026-10-25T00:00:00Z",
        &["2026-10-25T00:30:00Z", "2026-10-26T01:00:00Z"],
    );
}

#[test]
fn a_rhythm_skips_and_repeats_with_the_clock() {
    check(
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-03-29T00:30:00Z",
        &["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"],
    );
    check("*/30 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", &["2026-03-30T00:00:00Z"]);
    check(
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-10-24T23:45:00Z",
        &[
            "2026-10-25T00:00:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:00:00Z",
            "2026-10-25T01:30:00Z",
            "2026-10-25T02:00:00Z",
        ],
    );
    // Half an hour only, at Lord Howe Island: back at 15:00 UTC from 02:00 to 01:30.
    check(
        "*/15 * * * *",
        "Australia/Lord_Howe",
        "2026-04-04T14:30:00Z",
        &["2026-04-04T14:45:00Z", "2026-04-04T15:00:00Z", "2026-04-04T15:15:00Z", "2026-04-04T15:30:00Z"],
    );
}

#[test]
fn moments_always_lie_ahead_and_in_order() {
    let seed = duramen_base::entropy::seed();
    let mut rng = duramen_base::entropy::rng(seed);
    let zones = ["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca"];
    let crons = ["*/7 * * * *", "30 1-3 * * *", "0 */5 * * 0", "59 23 28-31 * *", "15 2 29 2 *"];
    for round in 0..100 {
        let (zone, cron) = (zones[rng.usize(..zones.len())], crons[rng.usize(..crons.len())]);
        let schedule = Schedule::parse(cron, zone).unwrap();
        let start = Timestamp::from_second(rng.i64(1_500_000_000..2_000_000_000)).unwrap();
        let mut now = start;
        for _ in 0..20 {
            let next = schedule.next_after(now).unwrap();
            assert!(next > now, "{cron} in {zone}: {next} after {now}, round {round} of seed {seed}");
            // Nothing lies between: asked from any moment before it, the answer is the same.
            let between =
                now + jiff::SignedDuration::from_secs(rng.i64(0..next.as_second() - now.as_second()));
            let again = schedule.next_after(between);
            assert_eq!(again, Some(next), "{cron} in {zone} after {between}, round {round} of seed {seed}");
            now = next;
        }
    }
}

#[test]
fn other_dialects_are_refused() {
    for cron in ["", "* * * *", "0 * * * * *", "@daily", "* * * * * 2026"] {
        refuse(cron, "must have five fields");
    }
    refuse("60 * * * *", "\"60\" is not a valid minute: it goes from 0 to 59");
    refuse("* 24 * * *", "is not a valid hour");
    refuse("* * 0 * *", "is not a valid day of the month");
    refuse("* * 32 * *", "is not a valid day of the month");
    refuse("* * * 13 *", "is not a valid month: it goes from 1 to 12, or jan to dec");
    refuse("* * * 0 *", "is not a valid month");
    refuse("* * * * 8", "is not a valid weekday: it goes from 0 to 7, or sun to sat");
    refuse("* * * * monday", "is not a valid weekday");
    refuse("* * * mon *", "is not a valid month");
    refuse("jan * * * *", "is not a valid minute");
    for item in [
        "?", "L", "15W", "LW", "5#2", "5L", "-1", "+1", "1.5", "1,", ",1", "1-", "-", "1--2", "", "**", "*-5",
    ] {
        let error = Schedule::parse(&format!("0 0 {item}, * *"), "UTC").unwrap_err();
        assert!(matches!(error, ScheduleError::Field { .. }), "{item}: {error}");
    }
    for item in ["*/0", "*/60", "*/", "1/2/3", "*/-1", "*/+1", "*/x", "5-9/0", "*/1000", "/5"] {
        let error = Schedule::parse(&format!("{item} * * * *"), "UTC").unwrap_err();
        assert!(matches!(error, ScheduleError::Field { .. }), "{item}: {error}");
    }
    for item in ["5-1", "fri-mon"] {
        refuse(&format!("* * * * {item}"), "ends before it begins");
    }
    refuse("007 * * * *", "is not a valid minute");
    let long = "1,".repeat(1000);
    refuse(&format!("{long} * * * *"), "is not a valid minute");
}

#[test]
fn an_unknown_time_zone_is_refused() {
    for zone in ["", "Mars/Olympus", "../UTC", "CEST", "Europe/Berlin "] {
        let error = Schedule::parse("* * * * *", zone).unwrap_err();
        assert!(matches!(error, ScheduleError::TimeZone { .. }), "{zone}: {error}");
    }
}
