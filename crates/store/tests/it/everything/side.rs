//! What a branch should hold, as plain maps, and the comparison of a store with it.

use std::collections::BTreeMap;

use duramen_store::conflict::{ConflictId, OpenConflict};
use duramen_store::event::Direction;
use duramen_store::filter::Filter;
use duramen_store::index::{Index, Query};
use duramen_store::kv::Key;
use duramen_store::vector::SearchOptions;
use duramen_store::{Part, Primitive, Scope, StoreError};
use serde_json::{json, Value};

pub(crate) const SPACES: [&str; 2] = ["default", "second"];
pub(crate) const COLLECTION: &str = "points";
pub(crate) const INDEX: &str = "by-n";

/// Space and key.
pub(crate) type Place = (usize, String);

/// A log: the number of its first event, and what its events say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EventLog {
    pub(crate) first: u64,
    pub(crate) items: Vec<i64>,
}

/// A row that may have an open conflict: a pair, or else a vector.
pub(crate) type Row = (bool, Place);

/// What was kept of a row: base, ours and theirs, and which merge it was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    pub(crate) sides: [Option<Value>; 3],
    pub(crate) stamp: u64,
}

/// A branch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Side {
    pub(crate) pairs: BTreeMap<Place, i64>,
    pub(crate) cells: BTreeMap<Place, i64>,
    /// Two fields: a number, and how long a text is.
    pub(crate) documents: BTreeMap<Place, (i64, usize)>,
    pub(crate) logs: [EventLog; 2],
    pub(crate) vectors: BTreeMap<Place, [f32; 2]>,
    pub(crate) is_indexed: [bool; 2],
    pub(crate) kept: BTreeMap<Row, Kept>,
}

impl Side {
    /// What a row has, as it is shown of a conflict.
    pub(crate) fn shown(&self, (is_pair, place): &Row) -> Option<Value> {
        match is_pair {
            true => self.pairs.get(place).map(|n| json!(n)),
            false => self.vectors.get(place).map(shown_vector),
        }
    }
}

pub(crate) fn shown_vector(vector: &[f32; 2]) -> Value {
    json!({ "vector": vector, "metadata": null })
}

/// How the conflict of a row is named.
pub(crate) fn id_of((is_pair, (space, key)): &Row) -> ConflictId {
    match is_pair {
        true => ConflictId::new(Primitive::Kv, SPACES[*space], key),
        false => ConflictId::new(Primitive::Vector, SPACES[*space], &format!("{COLLECTION}/{key}")),
    }
}

fn conflicts<S: Scope>(scope: &S, side: &Side) -> Result<Result<(), String>, StoreError> {
    let mut found = Vec::new();
    let mut after: Option<ConflictId> = None;
    loop {
        let page = scope.conflicts().list(&Part::default(), after.as_ref(), 7)?;
        let sides = |open: OpenConflict| {
            let sides = [open.base, open.ours, open.theirs];
            (open.id.to_string(), sides, open.now, open.changed)
        };
        found.extend(page.items.into_iter().map(sides));
        match page.next {
            Some(next) => after = Some(next.id),
            None => break,
        }
    }
    let mut right = Vec::new();
    for (row, kept) in &side.kept {
        let now = side.shown(row);
        let is_changed = now != kept.sides[1];
        right.push((id_of(row).to_string(), kept.sides.clone(), now, is_changed));
    }
    right.sort_by(|a, b| a.0.cmp(&b.0));
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(differ("conflicts", &found, &right))
}

pub(crate) fn document(n: i64, len: usize) -> serde_json::Value {
    json!({ "n": n, "text": "x".repeat(len) })
}

/// The index of each space that may have one.
pub(crate) fn index() -> Index {
    Index::new(Primitive::Json, ["n"])
}

fn of<V>(map: &BTreeMap<Place, V>, space: usize) -> impl Iterator<Item = (&str, &V)> {
    map.range((space, String::new())..(space + 1, String::new())).map(|((_, key), value)| (&**key, value))
}

/// Compares all of it.
pub(crate) fn compare<S: Scope>(scope: &S, side: &Side, rng: &mut fastrand::Rng) -> Result<(), String> {
    read(scope, side, rng).unwrap_or_else(|error| Err(format!("it cannot be read: {error}")))
}

fn differ<T: std::fmt::Debug + PartialEq>(what: &str, found: &T, right: &T) -> Result<(), String> {
    if found == right {
        return Ok(());
    }
    Err(format!("{what}: {found:?}, not {right:?}"))
}

fn read<S: Scope>(scope: &S, side: &Side, rng: &mut fastrand::Rng) -> Result<Result<(), String>, StoreError> {
    for (number, name) in SPACES.into_iter().enumerate() {
        let space = scope.space(name)?;
        let pairs: Vec<(Key, i64)> = space
            .kv()
            .range(.., usize::MAX)?
            .into_iter()
            .map(|(key, value)| (key, value.as_i64().unwrap()))
            .collect();
        let right: Vec<_> = of(&side.pairs, number).map(|(key, value)| (Key::new(key), *value)).collect();
        let mut found = differ("pairs", &pairs, &right);
        let mut cells = Vec::new();
        for key in space.state().list("", None, usize::MAX)?.items {
            let cell = space.state().read(&key)?.unwrap();
            cells.push((key, cell.value.as_i64().unwrap()));
        }
        let right: Vec<_> = of(&side.cells, number).map(|(key, value)| (key.to_owned(), *value)).collect();
        found = found.and(differ("cells", &cells, &right));
        found = found.and(documents(&space, side, number, rng)?);
        found = found.and(events(&space, &side.logs[number])?);
        found = found.and(vectors(&space, side, number, rng)?);
        if let Err(reason) = found {
            return Ok(Err(format!("space {name}: {reason}")));
        }
    }
    conflicts(scope, side)
}

type Space<'s, S> = duramen_store::Space<'s, S>;

fn documents<S: Scope>(
    space: &Space<'_, S>,
    side: &Side,
    number: usize,
    rng: &mut fastrand::Rng,
) -> Result<Result<(), String>, StoreError> {
    let mut found = Vec::new();
    for key in space.json().list("", None, usize::MAX)?.items {
        let value = space.json().get(&key, "")?.unwrap().to_value()?;
        found.push((key, value));
    }
    let right = of(&side.documents, number).map(|(key, (n, len))| (key.to_owned(), document(*n, *len)));
    let right: Vec<_> = right.collect();
    let mut result = differ("documents", &found, &right);
    let has_index = !space.indexes().list()?.is_empty();
    result = result.and(differ("whether there is an index", &has_index, &side.is_indexed[number]));
    // The same rows, whether an index leads to them or a look at each.
    let n = rng.i64(0..8);
    for (text, is_wanted) in [
        (format!("n = {n}"), Box::new(move |it: i64| it == n) as Box<dyn Fn(i64) -> bool>),
        (format!("n > {n}"), Box::new(move |it: i64| it > n)),
    ] {
        let filter: Filter = text.parse().unwrap();
        let rows = space.json().find(&Query::new(filter), usize::MAX)?.rows;
        let mut keys: Vec<String> = rows.into_iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        let wanted = of(&side.documents, number).filter(|(_, (it, _))| is_wanted(*it));
        let wanted: Vec<String> = wanted.map(|(key, _)| key.to_owned()).collect();
        result = result.and(differ(&text, &keys, &wanted));
    }
    Ok(result)
}

fn events<S: Scope>(space: &Space<'_, S>, log: &EventLog) -> Result<Result<(), String>, StoreError> {
    let events = space.events().range(.., Direction::Forwards, None, usize::MAX)?.events;
    let mut found = Vec::new();
    for event in &events {
        let value: serde_json::Value = serde_json::from_str(event.payload.as_str()).unwrap();
        found.push((event.seq, value["n"].as_i64().unwrap()));
    }
    let right: Vec<_> = (log.first..).zip(log.items.iter().copied()).collect();
    let bad = space.events().verify()?.first_bad;
    let next = log.first + log.items.len() as u64;
    Ok(differ("events", &found, &right).and(differ("damage", &bad, &None)).and(differ(
        "the next number",
        &space.events().len()?,
        &next,
    )))
}

/// The nearest of a few points, which are far from each other as floats go.
fn vectors<S: Scope>(
    space: &Space<'_, S>,
    side: &Side,
    number: usize,
    rng: &mut fastrand::Rng,
) -> Result<Result<(), String>, StoreError> {
    let points = space.vectors().collection(COLLECTION);
    let listed = points.list("", None, usize::MAX)?.items;
    let right: Vec<String> = of(&side.vectors, number).map(|(key, _)| key.to_owned()).collect();
    let mut result = differ("vectors", &listed, &right);
    for (key, vector) in of(&side.vectors, number).step_by(3) {
        let found = points.get(key)?.map(|record| record.vector);
        result = result.and(differ("a vector", &found, &Some(vector.to_vec())));
    }
    let query = [rng.f32(), rng.f32()];
    let k = rng.usize(1..6);
    let found = points.search(&query, k, &SearchOptions::default())?;
    let found: Vec<String> = found.into_iter().map(|found| found.key).collect();
    let distance = |vector: &[f32; 2]| -> f64 {
        vector.iter().zip(query).map(|(a, b)| (f64::from(*a) - f64::from(b)).powi(2)).sum()
    };
    let mut nearest: Vec<(f64, &str)> =
        of(&side.vectors, number).map(|(key, vector)| (distance(vector), key)).collect();
    nearest.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)));
    let nearest: Vec<String> = nearest.into_iter().take(k).map(|(_, key)| key.to_owned()).collect();
    Ok(result.and(differ("the nearest", &found, &nearest)))
}
