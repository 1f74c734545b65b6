//! How moments are read.

use super::*;

fn at(text: &str) -> Result<String, String> {
    let now = "2026-11-26T12:00:00Z".parse().unwrap();
    read(text, now, &TimeZone::get("Europe/Berlin").unwrap()).map(|found| found.to_string())
}

#[test]
fn a_moment_is_read_in_the_zone_that_is_meant() {
    for (text, moment) in [
        ("2026-11-22 09:13:05", "2026-11-22T08:13:05Z"),
        ("2026-07-22 09:13:05.123456", "2026-07-22T07:13:05.123456Z"),
        ("2026-11-22T09:13:05", "2026-11-22T08:13:05Z"),
        ("2026-11-22 09:13", "2026-11-22T08:13:00Z"),
        ("2026-11-22", "2026-11-21T23:00:00Z"),
        ("2026-11-22T09:13:05Z", "2026-11-22T09:13:05Z"),
        ("2026-11-22 09:13:05.5+00", "2026-11-22T09:13:05.5Z"),
        ("2026-11-22 09:13:05+05:30", "2026-11-22T03:43:05Z"),
        ("2026-11-22 09:13:05-0800", "2026-11-22T17:13:05Z"),
        ("2026-11-22 09:13:05 -08", "2026-11-22T17:13:05Z"),
        ("2026-11-22 09:13:05 America/New_York", "2026-11-22T14:13:05Z"),
        ("2026-11-22 09:13:05 UTC", "2026-11-22T09:13:05Z"),
        ("-10m", "2026-11-26T11:50:00Z"),
        ("-1h 30m", "2026-11-26T10:30:00Z"),
    ] {
        assert_eq!(at(text).as_deref(), Ok(moment), "{text}");
    }
}

#[test]
fn what_is_not_one_moment_is_refused() {
    assert!(at("2026-10-25 02:30:00").unwrap_err().contains("twice"));
    assert!(at("2026-03-29 02:30:00").unwrap_err().contains("no such time"));
    assert_eq!(at("2026-10-25 02:30:00+01").as_deref(), Ok("2026-10-25T01:30:00Z"));
    for text in [
        "",
        "now",
        "yesterday",
        "10m",
        "-",
        "-x",
        "2026-11-22 09:13:05+99",
        "2026-11-22 25:00:00",
        "2026-11-22 09:13:05 Atlantis/City",
        "2026-11-22 09:13:05+2",
        "9:13",
    ] {
        assert!(at(text).is_err(), "{text}");
    }
}
