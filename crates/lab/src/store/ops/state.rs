//! State cells.

use duramen_store::{Scope, StoreError};

use crate::store::data::Key;
use crate::store::level::{Level, VALUE_BYTES};
use crate::store::slice::Slice;

/// How many cells there are.
fn cells(level: &Level) -> u64 {
    level.sizes.rows / 10
}

fn fill(level: &mut Level) -> Result<(), StoreError> {
    if !level.lacks("cells") {
        return Ok(());
    }
    let (mut rng, pool, aside) = (level.rng(), level.pool.clone(), level.aside());
    for cell in 0..cells(level) {
        aside.state().init(Key::from_number(cell).as_str(), pool.value(&mut rng, VALUE_BYTES))?;
    }
    Ok(())
}

pub(crate) fn set(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    fill(slice.level)?;
    let (mut rng, pool, main) = (slice.level.rng(), slice.level.pool.clone(), slice.level.main());
    let (state, cells) = (main.state(), cells(slice.level));
    let mut last = (Key::from_number(0), 0);
    slice.begin()?;
    while slice.more() {
        let (key, value) = (Key::from_number(rng.u64(0..cells)), pool.value(&mut rng, VALUE_BYTES));
        let version = slice.time(|| state.set(key.as_str(), value))?;
        last = (key, version);
    }
    slice.end();
    let found = state.read(last.0.as_str())?.map(|cell| cell.version);
    slice.expect(found == Some(last.1), || format!("a cell has version {found:?}, not {}", last.1));
    Ok(())
}

pub(crate) fn read(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    fill(slice.level)?;
    let (mut rng, main, cells) = (slice.level.rng(), slice.level.main(), cells(slice.level));
    let state = main.state();
    let mut missing = 0_u64;
    slice.begin()?;
    while slice.more() {
        let key = Key::from_number(rng.u64(0..cells));
        missing += u64::from(slice.time(|| state.read(key.as_str()))?.is_none());
    }
    slice.end();
    slice.expect(missing == 0, || format!("{missing} cells were not found"));
    Ok(())
}

pub(crate) fn cas(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    fill(slice.level)?;
    let (mut rng, pool, main) = (slice.level.rng(), slice.level.pool.clone(), slice.level.main());
    let (state, cells) = (main.state(), cells(slice.level));
    let mut wrong = 0_u64;
    slice.begin()?;
    while slice.more() {
        let (key, value) = (Key::from_number(rng.u64(0..cells)), pool.value(&mut rng, VALUE_BYTES));
        let expected = state.read(key.as_str())?.map(|cell| cell.version);
        let version = slice.time(|| state.cas(key.as_str(), expected, value))?;
        wrong += u64::from(expected.is_none_or(|before| version <= before));
    }
    slice.end();
    let refused = state.cas(Key::from_number(0).as_str(), Some(u64::MAX), 1);
    slice.expect(refused.is_err(), || "a cell was swapped although it had another version".to_owned());
    slice.expect(wrong == 0, || format!("{wrong} swaps did not give a later version"));
    Ok(())
}

/// Makes cells that were not there, among those that are.
pub(crate) fn init(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    fill(slice.level)?;
    let (mut rng, pool) = (slice.level.rng(), slice.level.pool.clone());
    let (main, aside, cells) = (slice.level.main(), slice.level.aside(), cells(slice.level));
    let (state, count) = (main.state(), slice.most);
    // Beyond those that the others use, in an order that is not that of the keys: a stride that is prime to the count.
    let key_of = |number: u64| Key::from_number(cells + (number * 7919) % count);
    let mut made = 0;
    slice.begin()?;
    while slice.more() {
        let (key, value) = (key_of(made), pool.value(&mut rng, VALUE_BYTES));
        slice.time(|| state.init(key.as_str(), value))?;
        made += 1;
    }
    slice.end();
    let there = state.count("k")? - cells;
    slice.expect(there == made, || format!("{there} cells were made instead of {made}"));
    // The next slice makes them again.
    for number in 0..made {
        aside.state().delete(key_of(number).as_str())?;
    }
    Ok(())
}
