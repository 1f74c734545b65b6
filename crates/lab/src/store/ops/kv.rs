//! Pairs: put, get, delete, listings.

use std::hint::black_box;
use std::ops::ControlFlow;

use duramen_store::{Scope, StoreError, Value};

use crate::store::data::Key;
use crate::store::level::{Level, VALUE_BYTES};
use crate::store::options::Sabotage;
use crate::store::slice::Slice;

/// Bytes that a slice writes to the log at most, so that large values do not take the place of the disk.
const LOG_BYTES_MAX: u64 = 64 << 20;

/// Keys that a listing shows.
const LISTED: u64 = 100;

/// Pairs that are put or read in one call.
const MANY: usize = 100;

/// The size of the values, and the space that has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    B100,
    B128,
    KB1,
    KB8,
}

impl Size {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::B100 => VALUE_BYTES,
            Self::B128 => 128,
            Self::KB1 => 1024,
            Self::KB8 => 8192,
        }
    }

    fn space(self) -> &'static str {
        match self {
            Self::B100 => "default",
            Self::B128 => "v128",
            Self::KB1 => "v1k",
            Self::KB8 => "v8k",
        }
    }

    /// How many pairs there are: fewer of the larger.
    pub(crate) fn rows(self, rows: u64) -> u64 {
        match self {
            Self::B100 => rows,
            Self::B128 | Self::KB1 => rows / 10,
            Self::KB8 => rows / 100,
        }
    }
}

/// Fills the space of a size if it is empty.
fn fill(level: &mut Level, size: Size) -> Result<(), StoreError> {
    if size == Size::B100 || !level.lacks(size.space()) {
        return Ok(());
    }
    let (mut rng, pool, aside) = (level.rng(), level.pool.clone(), level.aside());
    let space = aside.space(size.space())?;
    for row in 0..size.rows(level.sizes.rows) {
        space.kv().put(Key::from_number(row).as_str(), pool.value(&mut rng, size.bytes()))?;
    }
    Ok(())
}

pub(crate) fn put(slice: &mut Slice<'_>, size: Size) -> Result<(), StoreError> {
    fill(slice.level, size)?;
    slice.most = slice.most.min(LOG_BYTES_MAX / size.bytes() as u64);
    let (mut rng, pool, main) = (slice.level.rng(), slice.level.pool.clone(), slice.level.main());
    let rows = size.rows(slice.level.sizes.rows);
    let space = main.space(size.space())?;
    let kv = space.kv();
    let mut last = (Key::from_number(0), None);
    slice.begin()?;
    while slice.more() {
        let (key, value) = (Key::from_number(rng.u64(0..rows)), pool.value(&mut rng, size.bytes()));
        slice.time(|| kv.put(key.as_str(), value))?;
        last = (key, Some(Value::from(value)));
    }
    slice.end();
    let found = kv.get(last.0.as_str())?;
    slice.expect(found == last.1, || "the last pair that was put is not there".to_owned());
    let count = kv.count("k")?;
    slice.expect(count == rows, || format!("{count} pairs are there instead of {rows}"));
    Ok(())
}

pub(crate) fn get(slice: &mut Slice<'_>, size: Size) -> Result<(), StoreError> {
    fill(slice.level, size)?;
    let (mut rng, main) = (slice.level.rng(), slice.level.main());
    let rows = size.rows(slice.level.sizes.rows);
    let space = main.space(size.space())?;
    let kv = space.kv();
    let beyond = if slice.level.sabotage == Sabotage::WrongReads { rows } else { 0 };
    let mut missing = 0_u64;
    slice.begin()?;
    while slice.more() {
        let key = Key::from_number(rng.u64(0..rows) + beyond);
        let found = slice.time(|| kv.get(key.as_str()))?;
        missing +=
            u64::from(found.as_ref().and_then(Value::as_bytes).is_none_or(|v| v.len() != size.bytes()));
    }
    slice.end();
    slice.expect(missing == 0, || format!("{missing} pairs were not found"));
    Ok(())
}

pub(crate) fn delete(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let (aside, main) = (slice.level.aside(), slice.level.main());
    let count = slice.most;
    let first = slice.level.sizes.rows;
    let spaces = (aside.space("deleted")?, main.space("deleted")?);
    let (aside, kv) = (spaces.0.kv(), spaces.1.kv());
    let pool = slice.level.pool.clone();
    let mut rng = slice.level.rng();
    for row in 0..count {
        aside.put(Key::from_number(first + row).as_str(), pool.value(&mut rng, VALUE_BYTES))?;
    }
    let before = kv.count("")?;
    let mut deleted = 0;
    slice.begin()?;
    while slice.more() {
        // In an order that is not that of the keys: a stride that is prime to the count.
        let key = Key::from_number(first + (deleted * 7919) % count);
        deleted += u64::from(slice.time(|| kv.delete(key.as_str()))?);
    }
    slice.end();
    let left = kv.count("")?;
    slice.expect(before - left == deleted && deleted > 0, || {
        format!("{before} pairs less {deleted} deleted are {left}")
    });
    Ok(())
}

pub(crate) fn list_prefix(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let (mut rng, main, rows) = (slice.level.rng(), slice.level.main(), slice.level.sizes.rows);
    let kv = main.kv();
    let mut short = 0_u64;
    slice.begin()?;
    while slice.more() {
        let key = Key::from_number(rng.u64(0..rows / LISTED) * LISTED);
        // All keys but for the last two digits.
        let prefix = &key.as_str()[..14];
        let page = slice.time(|| kv.list(prefix, None, LISTED as usize))?;
        short += u64::from(page.items.len() as u64 != LISTED);
    }
    slice.end();
    slice.expect(short == 0, || format!("{short} listings did not show {LISTED} keys"));
    Ok(())
}

pub(crate) fn range100(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let (mut rng, main, rows) = (slice.level.rng(), slice.level.main(), slice.level.sizes.rows);
    let kv = main.kv();
    let mut short = 0_u64;
    slice.begin()?;
    while slice.more() {
        let key = Key::from_number(rng.u64(0..rows - LISTED));
        let mut seen = 0_u64;
        slice.time(|| {
            kv.scan(key.as_str().., |key, value| {
                black_box((key, value));
                seen += 1;
                if seen == LISTED {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
        })?;
        short += u64::from(seen != LISTED);
    }
    slice.end();
    slice.expect(short == 0, || format!("{short} ranges did not show {LISTED} pairs"));
    Ok(())
}

/// Rows per second of a scan over all pairs.
pub(crate) fn scan(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let (main, rows) = (slice.level.main(), slice.level.sizes.rows);
    let kv = main.kv();
    slice.most = slice.most.min(10);
    slice.begin()?;
    while slice.more() {
        let mut seen = 0_u64;
        let begin = slice.sample.busy;
        slice.time(|| {
            kv.scan(.., |key, value| {
                black_box((key, value));
                seen += 1;
                ControlFlow::Continue(())
            })
        })?;
        let took = slice.sample.busy - begin;
        slice.sample.values.push(seen as f64 / took.as_secs_f64());
        slice.expect(seen == rows, || format!("a scan showed {seen} of {rows} pairs"));
    }
    slice.end();
    Ok(())
}

/// Asks for a key that is there and for one that is not, in turns.
pub(crate) fn exists(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let (mut rng, main, rows) = (slice.level.rng(), slice.level.main(), slice.level.sizes.rows);
    let kv = main.kv();
    let (mut wrong, mut is_there) = (0_u64, true);
    slice.begin()?;
    while slice.more() {
        let beyond = if is_there { 0 } else { 2 * rows };
        let key = Key::from_number(rng.u64(0..rows) + beyond);
        wrong += u64::from(slice.time(|| kv.exists(key.as_str()))? != is_there);
        is_there = !is_there;
    }
    slice.end();
    slice.expect(wrong == 0, || format!("{wrong} answers about keys were wrong"));
    Ok(())
}

/// A hundred pairs at random places in one commit.
pub(crate) fn put_many(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    slice.most = slice.most.min(LOG_BYTES_MAX / (MANY * VALUE_BYTES) as u64);
    let (mut rng, pool, main) = (slice.level.rng(), slice.level.pool.clone(), slice.level.main());
    let rows = slice.level.sizes.rows;
    let kv = main.kv();
    let mut last = None;
    slice.begin()?;
    while slice.more() {
        let keys: Vec<Key> = (0..MANY).map(|_| Key::from_number(rng.u64(0..rows))).collect();
        let value = pool.value(&mut rng, VALUE_BYTES);
        slice.time(|| kv.put_many(keys.iter().map(|key| (key.as_str(), value))))?;
        last = Some((keys, value));
    }
    slice.end();
    if let Some((keys, value)) = last {
        let found = kv.get_many(keys.iter().map(Key::as_str))?;
        let is_it = |found: &Option<Value>| found.as_ref().and_then(Value::as_bytes) == Some(value);
        slice.expect(found.iter().all(is_it), || "not all pairs that were put together are there".to_owned());
    }
    let count = kv.count("k")?;
    slice.expect(count == rows, || format!("{count} pairs are there instead of {rows}"));
    Ok(())
}

/// A hundred values of random keys as of one moment.
pub(crate) fn get_many(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let (mut rng, main, rows) = (slice.level.rng(), slice.level.main(), slice.level.sizes.rows);
    let kv = main.kv();
    let mut missing = 0;
    slice.begin()?;
    while slice.more() {
        let keys: Vec<Key> = (0..MANY).map(|_| Key::from_number(rng.u64(0..rows))).collect();
        let found = slice.time(|| kv.get_many(keys.iter().map(Key::as_str)))?;
        missing += MANY - found.iter().flatten().count();
    }
    slice.end();
    slice.expect(missing == 0, || format!("{missing} pairs were not found"));
    Ok(())
}
