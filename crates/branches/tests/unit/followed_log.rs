//! Whoever follows the audit log reads each entry once, in order, whatever happens to the log meanwhile.

use super::{super::Audit, Position};
use serde_json::json;
use std::{fs, time::Duration};

fn append(audit: &Audit, numbers: std::ops::Range<u32>) {
    for number in numbers {
        audit.append("leased", json!({ "number": number })).unwrap();
    }
}

async fn read(events: &mut super::Events, count: usize) -> Vec<(Position, u64)> {
    let mut found = Vec::new();
    while found.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(10), events.next()).await;
        for event in next.expect("an event in time").unwrap().expect("an open log") {
            assert_eq!(event.name, "leased");
            let value: serde_json::Value = serde_json::from_str(&event.json).unwrap();
            found.push((event.after, value["number"].as_u64().unwrap()));
        }
    }
    found
}

#[tokio::test]
async fn a_follower_reads_what_comes_and_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let audit = Audit::open(dir.path()).unwrap();
    append(&audit, 0..3);
    let mut events = audit.follow(None).unwrap();
    append(&audit, 3..6);
    let first = read(&mut events, 3).await;
    assert_eq!(first.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [3, 4, 5]);
    // From between two entries, by another reader, after the log was opened anew.
    drop(events);
    drop(audit);
    let audit = Audit::open(dir.path()).unwrap();
    append(&audit, 6..8);
    let mut again = audit.follow(Some(first[0].0)).unwrap();
    let rest = read(&mut again, 4).await;
    assert_eq!(rest.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [4, 5, 6, 7]);
    drop(audit);
    assert_eq!(again.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_follower_goes_from_segment_to_segment_and_over_entries_of_any_length() {
    let dir = tempfile::tempdir().unwrap();
    let audit = Audit::open(dir.path()).unwrap();
    let mut events = audit.follow(None).unwrap();
    let filling = "x".repeat(3 << 20);
    // More than a segment holds.
    for number in 0..24 {
        audit.append("leased", json!({ "number": number, "filling": filling })).unwrap();
    }
    append(&audit, 24..26);
    let found = read(&mut events, 26).await;
    assert_eq!(found.iter().map(|(_, number)| *number).collect::<Vec<_>>(), (0..26).collect::<Vec<_>>());
    assert_eq!(found.last().unwrap().0.segment, 2);
}

#[tokio::test]
async fn positions_that_are_not_between_entries_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let audit = Audit::open(dir.path()).unwrap();
    append(&audit, 0..2);
    for wrong in ["1-1", "1-99999999", "2-0", "0-0", "18446744073709551615-0"] {
        let error = audit.follow(Some(wrong.parse().unwrap())).unwrap_err();
        assert_eq!(error.code, "unknown_position", "{wrong}");
    }
    for wrong in ["", "1", "-", "1-", "-1", "+1-0", "1-0x", "1-18446744073709551616", "1-0-0", "../1-0"] {
        assert!(wrong.parse::<Position>().is_err(), "{wrong}");
    }
    assert_eq!(audit.follow(Some("1-0".parse().unwrap())).unwrap().position().to_string(), "1-0");
}

#[tokio::test]
async fn a_damaged_entry_keeps_nobody_from_those_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let audit = Audit::open(dir.path()).unwrap();
    append(&audit, 0..3);
    let path = super::segment_path(dir.path(), 1);
    let mut bytes = fs::read(&path).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes[second..second + 40].fill(0xff);
    fs::write(&path, &bytes).unwrap();
    let mut events = audit.follow(Some("1-0".parse().unwrap())).unwrap();
    let numbers: Vec<_> = read(&mut events, 2).await.into_iter().map(|(_, number)| number).collect();
    assert_eq!(numbers, [0, 2]);
}
