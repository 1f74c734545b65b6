//! Vector collections of 128 dimensions.

use duramen_store::vector::{Collection, Metric, SearchOptions};
use duramen_store::{Branch, Scope, StoreError};

use crate::store::data::Key;
use crate::store::level::Level;
use crate::store::slice::Slice;

const DIMENSION: usize = 128;
const METRIC: Metric = Metric::Cosine;

/// Vectors of the smaller collection.
const SMALL: u64 = 10_000;

/// Vectors that are found.
const TOP: usize = 10;

/// Rows of a fork that were changed before it is searched.
const CHANGED: u64 = 1_000;

/// Vectors that are put in one commit while a collection is filled.
const BATCH: u64 = 1_000;

/// Searches whose results are held against those of computing every score.
const VERIFIED: u64 = 3;

/// The most searches in a slice.
const SEARCHES_MOST: u64 = 2_000;

/// The collection that is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Searched {
    /// The smaller one, in the main branch.
    Small,
    /// The larger one, in a fork with changed rows.
    LargeInFork,
}

impl Searched {
    fn collection(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::LargeInFork => "large",
        }
    }

    fn recall(self) -> &'static str {
        match self {
            Self::Small => "vector.recall.10k128",
            Self::LargeInFork => "vector.recall.100k128",
        }
    }

    fn count(self, level: &Level) -> u64 {
        match self {
            Self::Small => SMALL.min(level.sizes.vectors),
            Self::LargeInFork => level.sizes.vectors,
        }
    }
}

fn collection<'b>(branch: &'b Branch, name: &str) -> Collection<'b, Branch> {
    branch.vectors().collection(name)
}

/// Fills a collection if it is not there.
fn fill(level: &mut Level, searched: Searched) -> Result<(), StoreError> {
    let name = searched.collection();
    if !level.lacks(name) {
        return Ok(());
    }
    let (mut rng, aside, count) = (level.rng(), level.aside(), searched.count(level));
    aside.vectors().create(name, DIMENSION, METRIC)?;
    let filled = collection(&aside, name);
    let mut made = 0;
    while made < count {
        let upto = count.min(made + BATCH);
        let row = |row| (Key::from_number(row).as_str().to_owned(), vector(&mut rng, DIMENSION), None);
        let rows: Vec<(String, Vec<f32>, Option<&serde_json::Value>)> = (made..upto).map(row).collect();
        filled.upsert_many(rows)?;
        made = upto;
    }
    if searched == Searched::LargeInFork {
        let fork = aside.fork("searched")?;
        let changed = collection(&fork, name);
        for _ in 0..CHANGED.min(count / 10) {
            let key = Key::from_number(rng.u64(0..count));
            changed.upsert(key.as_str(), &vector(&mut rng, DIMENSION), None)?;
        }
    }
    Ok(())
}

pub(crate) fn upsert(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    fill(slice.level, Searched::Small)?;
    let (mut rng, main) = (slice.level.rng(), slice.level.main());
    let count = Searched::Small.count(slice.level);
    let small = collection(&main, Searched::Small.collection());
    let vectors: Vec<Vec<f32>> = (0..64).map(|_| vector(&mut rng, DIMENSION)).collect();
    let mut last = (Key::from_number(0), 0);
    slice.begin()?;
    while slice.more() {
        let (key, index) = (Key::from_number(rng.u64(0..count)), rng.usize(..64));
        slice.time(|| small.upsert(key.as_str(), &vectors[index], None))?;
        last = (key, index);
    }
    slice.end();
    let found = small.get(last.0.as_str())?;
    slice.expect(found.is_some_and(|found| found.vector == vectors[last.1]), || {
        "the last vector that was put is not there".to_owned()
    });
    let there = small.count()?;
    slice.expect(there == count, || format!("{there} vectors are there instead of {count}"));
    Ok(())
}

pub(crate) fn get(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    fill(slice.level, Searched::Small)?;
    let (mut rng, main) = (slice.level.rng(), slice.level.main());
    let count = Searched::Small.count(slice.level);
    let small = collection(&main, Searched::Small.collection());
    let mut missing = 0_u64;
    slice.begin()?;
    while slice.more() {
        let key = Key::from_number(rng.u64(0..count));
        let found = slice.time(|| small.get(key.as_str()))?;
        missing += u64::from(found.is_none_or(|found| found.vector.len() != DIMENSION));
    }
    slice.end();
    slice.expect(missing == 0, || format!("{missing} vectors were not found"));
    Ok(())
}

pub(crate) fn search(slice: &mut Slice<'_>, searched: Searched) -> Result<(), StoreError> {
    fill(slice.level, searched)?;
    let mut rng = slice.level.rng();
    let branch = match searched {
        Searched::Small => slice.level.main(),
        Searched::LargeInFork => slice.level.store().branch("searched")?,
    };
    let count = searched.count(slice.level);
    let rows = collection(&branch, searched.collection());
    let options = SearchOptions::default();
    let queries: Vec<Vec<f32>> = (0..64).map(|_| vector(&mut rng, DIMENSION)).collect();
    slice.most = slice.most.min(SEARCHES_MOST);
    let mut short = 0_u64;
    let mut done = 0;
    slice.begin()?;
    while slice.more() {
        let found = slice.time(|| rows.search(&queries[done % 64], TOP, &options))?;
        short += u64::from(found.len() != TOP);
        done += 1;
    }
    slice.end();
    slice.expect(short == 0, || format!("{short} searches did not find {TOP} vectors"));
    if slice.level.lacks(searched.recall()) {
        let recall = recall(&rows, &queries, count)?;
        slice.sample.beside.push((searched.recall(), "ratio", recall));
        slice.expect(recall == 1.0, || format!("the recall of an exact search is {recall}"));
    }
    Ok(())
}

/// The share of the best vectors that searches find, by computing every score.
fn recall(rows: &Collection<'_, Branch>, queries: &[Vec<f32>], count: u64) -> Result<f64, StoreError> {
    let mut best: Vec<Vec<(f64, u64)>> = vec![Vec::new(); VERIFIED as usize];
    for row in 0..count {
        let Some(record) = rows.get(Key::from_number(row).as_str())? else { continue };
        for (query, best) in queries.iter().zip(&mut best) {
            best.push((METRIC.score(query, &record.vector), row));
        }
    }
    let mut right = 0;
    for (query, best) in queries.iter().zip(&mut best) {
        best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let found = rows.search(query, TOP, &SearchOptions::default())?;
        let is_best = |key: &str| best[..TOP].iter().any(|(_, row)| Key::from_number(*row).as_str() == key);
        right += found.iter().filter(|found| is_best(&found.key)).count();
    }
    Ok(right as f64 / (VERIFIED as usize * TOP) as f64)
}

/// A vector of random components between -1 and 1.
fn vector(rng: &mut fastrand::Rng, dimension: usize) -> Vec<f32> {
    (0..dimension).map(|_| rng.f32() * 2.0 - 1.0).collect()
}
