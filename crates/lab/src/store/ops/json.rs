//! JSON documents of about 1 KB with ten fields on three levels.

use duramen_store::{Scope, StoreError};
use serde_json::{json, Value};

use crate::store::data::Key;
use crate::store::level::Level;
use crate::store::slice::Slice;

/// Documents that a listing shows.
const LISTED: u64 = 100;

/// Documents that a slice takes a place out of at most.
const DELETED_MOST: u64 = 10_000;

/// Characters that make a document take about 1 KB.
const NOTE_CHARS: usize = 640;

/// The place that is set and read: on the third level.
const PATH: &str = "$.shipping.address.code";

fn documents(level: &Level) -> u64 {
    (level.sizes.rows / 100).clamp(200, 10_000)
}

/// A document of about 1 KB: ten fields, three levels.
fn document(rng: &mut fastrand::Rng) -> Value {
    let note: String = (0..NOTE_CHARS).map(|_| rng.alphanumeric()).collect();
    json!({
        "order": rng.u32(..),
        "customer": { "name": format!("customer {}", rng.u32(..1_000_000)), "vip": rng.bool() },
        "items": [
            { "sku": format!("sku-{:06}", rng.u32(..1_000_000)), "count": rng.u8(1..9) },
            { "sku": format!("sku-{:06}", rng.u32(..1_000_000)), "count": rng.u8(1..9) },
        ],
        "shipping": {
            "method": "post",
            "address": { "city": "Hamburg", "street": "Rosenweg 7", "code": rng.u32(10_000..99_999) },
        },
        "currency": "EUR",
        "total": rng.u32(..100_000),
        "paid": rng.bool(),
        "channel": "web",
        "tags": ["new", "gift", "fragile"],
        "note": note,
    })
}

fn fill(level: &mut Level) -> Result<(), StoreError> {
    if !level.lacks("documents") {
        return Ok(());
    }
    let (mut rng, aside) = (level.rng(), level.aside());
    let many: Vec<Value> = (0..64).map(|_| document(&mut rng)).collect();
    for number in 0..documents(level) {
        aside.json().set(Key::from_number(number).as_str(), "$", &many[(number % 64) as usize])?;
    }
    Ok(())
}

pub(crate) fn set_root(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    fill(slice.level)?;
    let (mut rng, main, count) = (slice.level.rng(), slice.level.main(), documents(slice.level));
    let json = main.json();
    let many: Vec<Value> = (0..64).map(|_| document(&mut rng)).collect();
    let mut last = (Key::from_number(0), &Value::Null);
    slice.begin()?;
    while slice.more() {
        let (key, document) = (Key::from_number(rng.u64(0..count)), &many[rng.usize(..64)]);
        slice.time(|| json.set(key.as_str(), "$", document))?;
        last = (key, document);
    }
    slice.end();
    let found = json.get(last.0.as_str(), "$")?;
    slice.expect(found.and_then(|found| found.to_value().ok()).as_ref() == Some(last.1), || {
        "the last document that was set is not there".to_owned()
    });
    Ok(())
}

pub(crate) fn set_path(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    fill(slice.level)?;
    let (mut rng, main, count) = (slice.level.rng(), slice.level.main(), documents(slice.level));
    let json = main.json();
    let mut last = (Key::from_number(0), Value::Null);
    slice.begin()?;
    while slice.more() {
        let (key, value) = (Key::from_number(rng.u64(0..count)), Value::from(rng.u32(10_000..99_999)));
        slice.time(|| json.set(key.as_str(), PATH, &value))?;
        last = (key, value);
    }
    slice.end();
    let found = json.get(last.0.as_str(), PATH)?;
    slice.expect(found.and_then(|found| found.to_value().ok()) == Some(last.1), || {
        "the last place that was set does not hold its value".to_owned()
    });
    Ok(())
}

/// Takes a place out of documents, each time another one's.
pub(crate) fn delete_path(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let (mut rng, main, aside) = (slice.level.rng(), slice.level.main(), slice.level.aside());
    let many: Vec<Value> = (0..64).map(|_| document(&mut rng)).collect();
    let (kept, taken) = (aside.space("shortened")?, main.space("shortened")?);
    let (aside, json) = (kept.json(), taken.json());
    let count = slice.most.min(DELETED_MOST);
    slice.most = count;
    for number in 0..count {
        aside.set(Key::from_number(number).as_str(), "$", &many[(number % 64) as usize])?;
    }
    let (mut deleted, mut done) = (0_u64, 0_u64);
    slice.begin()?;
    while slice.more() {
        // In an order that is not that of the keys: a stride that is prime to the count.
        let key = Key::from_number((done * 7919) % count);
        deleted += u64::from(slice.time(|| json.delete(key.as_str(), PATH))?);
        done += 1;
    }
    slice.end();
    let (left, there) = (json.get(Key::from_number(0).as_str(), PATH)?, json.count("k")?);
    slice.expect(left.is_none() && deleted == done && there == count, || {
        format!("of {done} places {deleted} were deleted, and {there} of {count} documents are there")
    });
    Ok(())
}

/// Reads a place of a document, or with `$` all of it.
pub(crate) fn get(slice: &mut Slice<'_>, whole: bool) -> Result<(), StoreError> {
    fill(slice.level)?;
    let (mut rng, main, count) = (slice.level.rng(), slice.level.main(), documents(slice.level));
    let json = main.json();
    let path = if whole { "$" } else { PATH };
    let least = if whole { 512 } else { 1 };
    let mut missing = 0_u64;
    slice.begin()?;
    while slice.more() {
        let key = Key::from_number(rng.u64(0..count));
        let found = slice.time(|| json.get(key.as_str(), path))?;
        missing += u64::from(found.is_none_or(|found| found.as_str().len() < least));
    }
    slice.end();
    slice.expect(missing == 0, || format!("{missing} documents or places were not found"));
    Ok(())
}

pub(crate) fn list(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    fill(slice.level)?;
    let (mut rng, main, count) = (slice.level.rng(), slice.level.main(), documents(slice.level));
    let json = main.json();
    let mut short = 0_u64;
    slice.begin()?;
    while slice.more() {
        let key = Key::from_number(rng.u64(0..count / LISTED) * LISTED);
        // All keys but for the last two digits.
        let prefix = &key.as_str()[..14];
        let page = slice.time(|| json.list(prefix, None, LISTED as usize))?;
        short += u64::from(page.items.len() as u64 != LISTED);
    }
    slice.end();
    slice.expect(short == 0, || format!("{short} listings did not show {LISTED} keys"));
    Ok(())
}
