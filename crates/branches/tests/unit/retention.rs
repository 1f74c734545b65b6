//! G7: rules keep what a plain reading of them says.

use super::*;
use duramen_base::entropy;
use jiff::civil::{date, Weekday};
use std::collections::{BTreeMap, BTreeSet};

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn numbers(keep: &str, generations: &[Dated]) -> Vec<u32> {
    kept(&keep.parse().expect("a rule"), generations).into_keys().collect()
}

#[test]
fn the_newest_of_each_stretch_is_kept() {
    let made = [
        (1, at("2026-01-01T10:00:00Z")),
        (2, at("2026-01-01T23:59:59Z")),
        (3, at("2026-01-02T00:00:00Z")),
        (4, at("2026-01-04T12:00:00Z")), // A Sunday.
        (5, at("2026-01-05T00:00:00Z")),
        (6, at("2026-02-01T08:00:00Z")),
        (7, at("2026-02-01T08:00:00Z")),
    ];
    assert_eq!(numbers("", &made), Vec::<u32>::new());
    assert_eq!(numbers("2 last", &made), [6, 7]);
    assert_eq!(numbers("1 hourly", &made), [7], "of one moment the later number");
    assert_eq!(numbers("3 daily", &made), [4, 5, 7], "days without any are not counted");
    assert_eq!(numbers("9 daily", &made), [2, 3, 4, 5, 7]);
    assert_eq!(numbers("2 weekly", &made), [5, 7], "weeks begin on Monday");
    assert_eq!(numbers("3 weekly", &made), [4, 5, 7]);
    assert_eq!(numbers("5 monthly", &made), [5, 7]);
    assert_eq!(numbers("5 yearly", &made), [7]);
    assert_eq!(numbers("1 daily, 3 weekly, 1 last", &made), [4, 5, 7]);
    // The year of a week is not always that of its days.
    let turn =
        [(1, at("2024-12-29T00:00:00Z")), (2, at("2024-12-30T00:00:00Z")), (3, at("2025-01-05T23:00:00Z"))];
    assert_eq!(numbers("9 weekly", &turn), [1, 3]);
    assert_eq!(
        numbers("9 daily", &[(1, at("1969-12-31T23:00:00Z")), (2, at("1970-01-01T00:00:00Z"))]),
        [1, 2]
    );
}

/// The same, by sets: for each part, the stretches that there are, the last ones of these, and the newest of each. Days are
/// counted on the calendar, not in seconds.
fn model(keep: &Keep, generations: &[Dated]) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for (period, count) in keep.parts() {
        let mut by_stretch: BTreeMap<String, Dated> = BTreeMap::new();
        for &(number, made_at) in generations {
            let there = made_at.to_zoned(TimeZone::UTC);
            let monday = {
                let mut day = there.date();
                while day.weekday() != Weekday::Monday {
                    day = day.yesterday().expect("a day before");
                }
                day
            };
            let key = match period {
                Period::Last => format!("{:020} {number:010}", made_at.as_nanosecond()),
                Period::Hourly => there.strftime("%Y-%m-%d %H").to_string(),
                Period::Daily => there.strftime("%Y-%m-%d").to_string(),
                Period::Weekly => monday.to_string(),
                Period::Monthly => there.strftime("%Y-%m").to_string(),
                Period::Yearly => there.strftime("%Y").to_string(),
            };
            let newest = by_stretch.entry(key).or_insert((number, made_at));
            if (made_at, number) > (newest.1, newest.0) {
                *newest = (number, made_at);
            }
        }
        found.extend(by_stretch.values().rev().take(count as usize).map(|(number, _)| *number));
    }
    found
}

#[test]
fn rules_keep_what_the_model_keeps() {
    let seed = entropy::seed();
    println!("seed {seed}");
    let mut rng = entropy::rng(seed);
    let begin = date(2023, 11, 20).to_zoned(TimeZone::UTC).expect("a time").timestamp().as_second();
    for round in 0..400 {
        let span: i64 = [3_600 * 30, 86_400 * 20, 86_400 * 90, 86_400 * 900][rng.usize(0..4)];
        let generations: Vec<Dated> = (0..rng.u32(0..40))
            .map(|number| {
                let second = begin + rng.i64(0..span);
                // Often on the edge of a stretch.
                let second = if rng.bool() { second - second.rem_euclid(3_600) } else { second };
                (number + 1, Timestamp::from_second(second).expect("a time"))
            })
            .collect();
        let mut parts: Vec<String> = Vec::new();
        for period in Period::ALL {
            if rng.bool() {
                parts.push(format!("{} {}", rng.u32(1..9), period.name()));
            }
        }
        let text = parts.join(", ");
        let keep: Keep = text.parse().expect("a rule");
        let found = kept(&keep, &generations);
        let names: BTreeSet<u32> = found.keys().copied().collect();
        assert_eq!(names, model(&keep, &generations), "round {round}: {text}: {generations:?}");
        // What is kept is kept when the rest is gone.
        let left: Vec<Dated> =
            generations.iter().copied().filter(|(number, _)| names.contains(number)).collect();
        assert_eq!(kept(&keep, &left), found, "round {round}: {text}: {generations:?}");
        // The newest one is kept by every rule, and no part keeps more than it says.
        let newest = generations.iter().max_by_key(|(number, made_at)| (*made_at, *number));
        assert!(keep.is_empty() || newest.is_none_or(|(number, _)| names.contains(number)), "round {round}");
        for (period, count) in keep.parts() {
            let by_it = found.values().filter(|periods| periods.contains(&period)).count();
            assert!(by_it <= count as usize, "round {round}: {by_it} by {period:?} of {text}");
        }
    }
}
