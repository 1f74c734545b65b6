//! Whether a log is as it was written.

use std::ops::ControlFlow;

use duramen_tree::KeyRange;

use super::entry::{chain, decode_seq, scan, Keys, Start, Stored};
use crate::access::View;
use crate::error::StoreError;

/// So many events are read before their places in the index are looked up.
const CHUNK: usize = 1024;

/// What was found to be wrong with an event.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BadEvent {
    /// Its number.
    pub seq: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// What a check of a log found.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct EventReport {
    /// The number of the first event: those before were trimmed.
    pub first: u64,
    /// The events that are as they were written, up to the first that is not.
    pub checked: u64,
    /// The first event that is not as it was written; those after it were not looked at.
    pub first_bad: Option<BadEvent>,
}

pub(super) fn verify<V: View + ?Sized>(view: &V, keys: &Keys) -> Result<EventReport, StoreError> {
    let Start { seq: first, mut before } = Start::find(view, keys)?;
    let mut report = EventReport { first, ..EventReport::default() };
    let (start, end) = keys.entries(0, Some(first));
    scan(view, &KeyRange::new(&start, Some(&end)), |key, _| {
        let reason = format!("it is there, and the log begins with event {first}");
        report.first_bad = Some(BadEvent { seq: decode_seq(key)?, reason });
        Ok(ControlFlow::Break(()))
    })?;
    if report.first_bad.is_none() && first > 0 && !view.get(&keys.entry(first), &mut |_, _| {})? {
        let reason = "it is not there, and the log begins with it".to_owned();
        report.first_bad = Some(BadEvent { seq: first, reason });
    }
    if report.first_bad.is_some() {
        return Ok(report);
    }
    loop {
        // The index keys of the events of this round that are good in themselves.
        let mut indexed = Vec::new();
        let mut bad = None;
        let (start, end) = keys.entries(first + report.checked, None);
        scan(view, &KeyRange::new(&start, Some(&end)), |key, value| {
            let expected = first + report.checked + indexed.len() as u64;
            let found = decode_seq(key)?;
            let checked = match Stored::decode(found, value) {
                _ if found != expected => Err("it is not there, and later ones are".to_owned()),
                Ok(stored) => {
                    let hash = chain(&before, found, stored.at_ms, stored.event_type, stored.payload);
                    if hash == *stored.hash {
                        indexed.push(keys.index_entry(stored.event_type, found));
                        before = hash;
                        Ok(())
                    } else {
                        Err("its hash does not follow from it and the event before it".to_owned())
                    }
                }
                Err(error) => Err(error.to_string()),
            };
            bad = checked.err().map(|reason| BadEvent { seq: expected, reason });
            let go_on = bad.is_none() && indexed.len() < CHUNK;
            Ok(if go_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        let full = indexed.len() == CHUNK;
        for key in indexed {
            if !view.get(&key, &mut |_, _| {})? {
                let reason = "it is not in the index of its type".to_owned();
                report.first_bad = Some(BadEvent { seq: first + report.checked, reason });
                return Ok(report);
            }
            report.checked += 1;
        }
        report.first_bad = bad;
        if report.first_bad.is_some() || !full {
            return Ok(report);
        }
    }
}
