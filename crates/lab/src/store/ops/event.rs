//! Event logs.

use duramen_store::event::Direction;
use duramen_store::{Branch, Scope, StoreError};
use serde_json::{json, Value};

use crate::store::level::Level;
use crate::store::options::Sabotage;
use crate::store::slice::Slice;

/// Events of the log that is read by type, of which every other one has the type.
const TYPED: u64 = 1_000;

/// Events that a range shows.
const RANGED: u64 = 100;

/// Events that are appended in one commit while a log is filled.
const BATCH: u64 = 1_000;

/// A log of this length is made in a small run, too.
const LENGTH_ALWAYS: u64 = 10_000;

/// Characters that make a payload of eight fields take about 512 bytes.
const NOTE_CHARS: usize = 300;

/// A payload of eight fields and about 512 bytes.
fn payload(rng: &mut fastrand::Rng) -> Value {
    let note: String = (0..NOTE_CHARS).map(|_| rng.alphanumeric()).collect();
    json!({
        "order": rng.u32(..),
        "customer": format!("customer-{:08}", rng.u32(..100_000_000)),
        "item": format!("item-{:06}", rng.u32(..1_000_000)),
        "amount": rng.u32(..100_000),
        "currency": "EUR",
        "channel": "web",
        "paid": rng.bool(),
        "note": note,
    })
}

/// Fills a log of a space with `count` events of alternating types.
fn fill(level: &mut Level, space: &'static str, count: u64) -> Result<(), StoreError> {
    if !level.lacks(space) {
        return Ok(());
    }
    let mut rng = level.rng();
    let aside = level.aside();
    let space = aside.space(space)?;
    let payloads: Vec<Value> = (0..16).map(|_| payload(&mut rng)).collect();
    let mut made = 0;
    while made < count {
        let upto = count.min(made + BATCH);
        let events = (made..upto).map(|seq| (type_of(seq), &payloads[(seq % 16) as usize]));
        space.events().append_batch(events)?;
        made = upto;
    }
    Ok(())
}

fn type_of(seq: u64) -> &'static str {
    if seq.is_multiple_of(2) {
        "paid"
    } else {
        "shipped"
    }
}

pub(crate) fn append(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    fill(slice.level, "events", TYPED)?;
    append_to(slice, "events")
}

/// Appends to a log that has a given length already, and does not become much longer.
pub(crate) fn append_after(
    slice: &mut Slice<'_>,
    space: &'static str,
    length: u64,
) -> Result<(), StoreError> {
    if length > slice.level.sizes.rows.max(LENGTH_ALWAYS) {
        return Ok(());
    }
    fill(slice.level, space, length)?;
    slice.most = slice.most.min(length / 10);
    append_to(slice, space)
}

fn append_to(slice: &mut Slice<'_>, space: &str) -> Result<(), StoreError> {
    let (mut rng, main) = (slice.level.rng(), slice.level.main());
    let space = main.space(space)?;
    let events = space.events();
    let payloads: Vec<Value> = (0..64).map(|_| payload(&mut rng)).collect();
    let reads_first = slice.level.sabotage == Sabotage::GrowingAppends;
    let before = events.len()?;
    let mut done = 0;
    slice.begin()?;
    while slice.more() {
        let payload = &payloads[(done % 64) as usize];
        let seq = slice.time(|| {
            if reads_first {
                events.range(.., Direction::Forwards, None, usize::MAX)?;
            }
            events.append("paid", payload)
        })?;
        slice.expect(seq == before + done, || format!("event {} got the number {seq}", before + done));
        done += 1;
    }
    slice.end();
    let last = events.get(before + done - 1)?;
    let expected = payloads[((done - 1) % 64) as usize].to_string();
    slice.expect(last.is_some_and(|event| event.payload.as_str() == expected), || {
        "the last event that was appended is not there".to_owned()
    });
    Ok(())
}

pub(crate) fn read(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    fill(slice.level, "events", TYPED)?;
    let (mut rng, main) = (slice.level.rng(), slice.level.main());
    let space = main.space("events")?;
    let events = space.events();
    let length = events.len()?;
    let mut missing = 0_u64;
    slice.begin()?;
    while slice.more() {
        let seq = rng.u64(0..length);
        let event = slice.time(|| events.get(seq))?;
        missing += u64::from(event.is_none_or(|event| event.seq != seq));
    }
    slice.end();
    slice.expect(missing == 0, || format!("{missing} events were not found"));
    Ok(())
}

/// A hundred events from a random one on.
pub(crate) fn range(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    fill(slice.level, "events", TYPED)?;
    let (mut rng, main) = (slice.level.rng(), slice.level.main());
    let space = main.space("events")?;
    let events = space.events();
    let length = events.len()?;
    let mut short = 0_u64;
    slice.begin()?;
    while slice.more() {
        let first = rng.u64(0..=length - RANGED);
        let page = slice.time(|| events.range(first.., Direction::Forwards, None, RANGED as usize))?;
        let is_it = page.events.len() as u64 == RANGED && page.events[0].seq == first;
        short += u64::from(!is_it);
    }
    slice.end();
    slice.expect(short == 0, || format!("{short} ranges did not show {RANGED} events"));
    Ok(())
}

/// Half of the events of a log of a thousand.
pub(crate) fn by_type(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    fill(slice.level, "typed", TYPED)?;
    let main: Branch = slice.level.main();
    let space = main.space("typed")?;
    let events = space.events();
    let mut short = 0_u64;
    slice.begin()?;
    while slice.more() {
        let found = slice.time(|| events.by_type("paid", None, TYPED as usize))?;
        short += u64::from(found.len() as u64 != TYPED / 2);
    }
    slice.end();
    slice.expect(short == 0, || format!("{short} readings by type did not find {} events", TYPED / 2));
    let report = events.verify()?;
    slice.expect(report.first_bad.is_none(), || "the chain of a log does not hold".to_owned());
    Ok(())
}
