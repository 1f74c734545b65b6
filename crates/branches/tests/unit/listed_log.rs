//! The log read backwards holds each entry once, in order, and pages fit together.

use super::super::Audit;
use serde_json::json;
use std::fs;

fn numbers(audit: &Audit, limit: usize) -> Vec<u64> {
    let mut found = Vec::new();
    let mut at = None;
    loop {
        let page = audit.before(at, limit).unwrap();
        assert!(page.len() <= limit);
        for (from, event) in &page {
            assert!(*from < event.after && at.is_none_or(|at| event.after <= at));
            let value: serde_json::Value = serde_json::from_str(&event.json).unwrap();
            found.push(value["number"].as_u64().unwrap());
            at = Some(*from);
        }
        if page.is_empty() {
            return found;
        }
    }
}

#[test]
fn pages_of_any_size_hold_each_entry_once() {
    let dir = tempfile::tempdir().unwrap();
    let audit = Audit::open(dir.path()).unwrap();
    assert!(audit.before(None, 10).unwrap().is_empty());
    for number in 0..50 {
        // Some are longer than what is read at once.
        let filling = "x".repeat(if number % 7 == 0 { 300 << 10 } else { number % 13 });
        audit.append("leased", json!({ "number": number, "filling": filling })).unwrap();
    }
    let expected: Vec<u64> = (0..50).rev().collect();
    for limit in [1, 3, 50, 1000] {
        assert_eq!(numbers(&audit, limit), expected, "{limit} a page");
    }
}

#[test]
fn it_goes_from_segment_to_segment_and_over_what_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let audit = Audit::open(dir.path()).unwrap();
    let filling = "x".repeat(3 << 20);
    for number in 0..24 {
        audit.append("leased", json!({ "number": number, "filling": filling })).unwrap();
    }
    for number in 24..30 {
        audit.append("leased", json!({ "number": number })).unwrap();
    }
    assert_eq!(numbers(&audit, 4), (0..30).rev().collect::<Vec<_>>());
    assert!(audit.before(None, 1000).unwrap().len() < 30, "what is very long ends a page");
    let last = super::segments(dir.path()).unwrap().pop().unwrap().1;
    let text = fs::read_to_string(&last).unwrap();
    fs::write(&last, text.replace("{\"event\":\"leased\"", "{\"event\":7       ")).unwrap();
    assert!(numbers(&audit, 100).len() < 30, "it is told by the verification, and hides none but itself");
    for wrong in ["9-0", "1-1", "1-99999999999"] {
        assert!(audit.before(Some(wrong.parse().unwrap()), 1).is_err(), "{wrong}");
    }
}
