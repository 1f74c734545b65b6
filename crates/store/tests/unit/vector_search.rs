use serde_json::json;

use super::*;
use crate::filter::Filter;
use crate::vector::{decode_row, encode_row};

const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::Euclidean];

/// The tests' own generator (splitmix64): small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// From -1 to 1.
    fn signed(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    fn vector(&mut self, dimension: usize) -> Vec<f32> {
        (0..dimension).map(|_| self.signed()).collect()
    }
}

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Scores computed the plain way, apart from the code under test.
fn plain_score(metric: Metric, a: &[f32], b: &[f32]) -> f64 {
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        a.iter().zip(b).map(|(a, b)| f(f64::from(*a), f64::from(*b))).sum()
    };
    match metric {
        Metric::Dot => sum(&|a, b| a * b),
        Metric::Euclidean => -sum(&|a, b| (a - b) * (a - b)).sqrt(),
        Metric::Cosine => {
            let norms = sum(&|a, _| a * a).sqrt() * sum(&|_, b| b * b).sqrt();
            if norms > 0.0 {
                sum(&|a, b| a * b) / norms
            } else {
                0.0
            }
        }
    }
}

/// Lays rows into leaves of uneven size, returned as (leaf, row) by index of the vector.
fn leaves(random: &mut Random, rows: usize) -> Vec<(u64, usize)> {
    let mut places = vec![];
    let mut leaf = 0;
    while places.len() < rows {
        let size = 1 + random.below(50);
        places.extend((0..size.min(rows - places.len())).map(|row| (leaf, row)));
        leaf += 1 + random.below(2) as u64;
    }
    places
}

fn blocks(metric: Metric, vectors: &[Vec<u8>], places: &[(u64, usize)]) -> Vec<(u64, Block)> {
    let dimension = vectors[0].len() / 4;
    let mut built = vec![];
    let mut start = 0;
    for part in places.chunk_by(|a, b| a.0 == b.0) {
        let rows = vectors[start..start + part.len()].iter().map(Vec::as_slice);
        built.push((part[0].0, Block::build(metric, dimension, rows).unwrap()));
        start += part.len();
    }
    built
}

/// Searches and compares with the exact scores of all rows, in one searcher and in two that are merged.
/// Returns how many rows were computed exactly.
fn check(
    what: &str,
    seed: u64,
    vectors: &[Vec<f32>],
    query: &[f32],
    k: usize,
    accept: &dyn Fn(usize) -> bool,
) -> usize {
    let encoded: Vec<Vec<u8>> = vectors.iter().map(|v| bytes(v)).collect();
    let places = leaves(&mut Random(seed), vectors.len());
    let index = |leaf: u64, row: usize| places.binary_search(&(leaf, row)).unwrap();
    let mut computed = 0;
    for metric in METRICS {
        let context =
            format!("{what}, seed {seed}, {metric}, k {k}, {} rows of {}", vectors.len(), query.len());
        let mut expected: Vec<(usize, f64)> = (0..vectors.len())
            .filter(|i| accept(*i))
            .map(|i| (i, metric.score(query, &vectors[i])))
            .collect();
        expected.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        // Distances that differ by less than an f64 can tell may tie; their squares then decide.
        if metric == Metric::Euclidean {
            let prepared = metric.prepare(query);
            let rank = |i: usize| metric.rank(query, &prepared, encoded[i].as_chunks().0);
            expected.sort_by(|a, b| rank(b.0).total_cmp(&rank(a.0)).then(a.0.cmp(&b.0)));
        }
        expected.truncate(k);

        let blocks = blocks(metric, &encoded, &places);
        let query_ = Query::new(metric, query, k).unwrap();
        let scan = |part: &[(u64, Block)]| {
            let mut searcher = Searcher::new(&query_);
            for (leaf, block) in part {
                searcher.offer(block, *leaf, |row| accept(index(*leaf, row))).unwrap();
            }
            searcher
        };
        let (first, second) = blocks.split_at(blocks.len() / 2);
        let mut merged = scan(second);
        merged.merge(scan(first));
        for searcher in [scan(&blocks), merged] {
            let hits = searcher
                .finish(|leaf, row| {
                    computed += 1;
                    Ok::<_, VectorError>(&encoded[index(leaf, row)])
                })
                .unwrap();
            let found: Vec<(usize, f64)> =
                hits.iter().map(|hit| (index(hit.leaf, hit.row), hit.score)).collect();
            assert_eq!(found, expected, "{context}");
            for (hit, (i, score)) in hits.iter().zip(&expected) {
                let plain = plain_score(metric, query, &vectors[*i]);
                // Relative to what was summed, which for a dot product may nearly cancel out.
                let size = match metric {
                    Metric::Cosine => 1.0,
                    Metric::Dot => magnitude(query) * magnitude(&vectors[*i]),
                    Metric::Euclidean => plain.abs(),
                };
                assert!((plain - score).abs() <= 1e-11 * size, "{context}: {plain} {score}");
                assert_eq!(hit.distance, metric.distance(*score), "{context}");
                assert!(!score.is_nan(), "{context}");
            }
        }
    }
    computed
}

fn magnitude(vector: &[f32]) -> f64 {
    vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt()
}

fn all(_: usize) -> bool {
    true
}

#[test]
fn random_vectors_are_found_as_by_computing_all() {
    for seed in 0..3 {
        let mut random = Random(seed);
        for dimension in [1, 2, 3, 15, 16, 31, 128, 129] {
            let vectors: Vec<_> = (0..300).map(|_| random.vector(dimension)).collect();
            let query = random.vector(dimension);
            for k in [1, 10, 300, 1000] {
                check("random", seed, &vectors, &query, k, &all);
            }
        }
    }
}

#[test]
fn clustered_vectors_are_found_and_few_are_computed() {
    for seed in 100..102 {
        let mut random = Random(seed);
        let centres: Vec<_> = (0..20).map(|_| random.vector(64)).collect();
        let near = |random: &mut Random, i: usize| -> Vec<f32> {
            centres[i].iter().map(|x| x + 0.2 * random.signed()).collect()
        };
        let vectors: Vec<_> = (0..2000)
            .map(|_| {
                let i = random.below(20);
                near(&mut random, i)
            })
            .collect();
        let query = near(&mut random, 7);
        let computed = check("clustered", seed, &vectors, &query, 10, &all);
        // Three metrics, twice each.
        assert!(computed < 6 * 200, "seed {seed}: {computed} rows were computed exactly");
    }
}

#[test]
fn ties_are_broken_by_the_order_of_keys() {
    for seed in 200..202 {
        let mut random = Random(seed);
        let distinct: Vec<_> = (0..5).map(|_| random.vector(24)).collect();
        let vectors: Vec<_> = (0..400).map(|_| distinct[random.below(5)].clone()).collect();
        for k in [1, 3, 100, 399] {
            check("duplicates", seed, &vectors, &distinct[2], k, &all);
        }
        // Collinear vectors tie for cosine only up to rounding.
        let vectors: Vec<Vec<f32>> =
            (0..200).map(|i| distinct[0].iter().map(|x| x * (1 + i % 4) as f32).collect()).collect();
        check("collinear", seed, &vectors, &distinct[0], 10, &all);
    }
}

#[test]
fn zero_vectors_score_zero_for_cosine() {
    let mut random = Random(300);
    let mut vectors: Vec<_> = (0..100).map(|_| random.vector(10)).collect();
    vectors[17] = vec![0.0; 10];
    vectors[61] = vec![-0.0; 10];
    for query in [random.vector(10), vec![0.0; 10]] {
        for k in [1, 60, 100] {
            check("zeros", 300, &vectors, &query, k, &all);
        }
    }
    let zeros = vec![vec![0.0; 10]; 50];
    check("all zero", 301, &zeros, &random.vector(10), 7, &all);
    assert_eq!(Metric::Cosine.score(&[0.0, 0.0], &[1.0, 0.0]), 0.0);
}

#[test]
fn huge_and_tiny_numbers_neither_overflow_nor_vanish() {
    let scales = [f32::MAX, 1e30, 1e19, 1.0, 1e-19, 1e-30, 1e-38, 1e-42, f32::from_bits(1)];
    for seed in 400..401 {
        let mut random = Random(seed);
        for row_scale in scales {
            for query_scale in scales {
                let scaled = |random: &mut Random, scale: f32| -> Vec<f32> {
                    random.vector(20).iter().map(|x| x * scale).collect()
                };
                let vectors: Vec<_> = (0..60).map(|_| scaled(&mut random, row_scale)).collect();
                let query = scaled(&mut random, query_scale);
                check(&format!("rows {row_scale:e}, query {query_scale:e}"), seed, &vectors, &query, 5, &all);
            }
        }
        // All magnitudes in one collection.
        let vectors: Vec<Vec<f32>> = (0..300)
            .map(|_| {
                let scale = scales[random.below(scales.len())];
                random.vector(20).iter().map(|x| x * scale).collect()
            })
            .collect();
        for scale in scales {
            let query: Vec<f32> = random.vector(20).iter().map(|x| x * scale).collect();
            check("mixed magnitudes", seed, &vectors, &query, 9, &all);
        }
    }
}

#[test]
fn the_largest_dimension_does_not_overflow_the_products() {
    let mut random = Random(500);
    let mut vectors: Vec<Vec<f32>> = (0..9).map(|_| random.vector(8192)).collect();
    vectors.extend([vec![1.0; 8192], vec![-1.0; 8192], vec![f32::MAX; 8192], vec![-f32::MAX; 8192]]);
    for query in [vec![1.0; 8192], vec![-f32::MAX; 8192], random.vector(8192)] {
        check("largest", 500, &vectors, &query, 4, &all);
    }
}

#[test]
fn a_filter_is_asked_only_about_rows_that_may_win() {
    let mut random = Random(600);
    let vectors: Vec<_> = (0..3000).map(|_| random.vector(32)).collect();
    let query = random.vector(32);
    for every in [2, 7, 500] {
        check("filtered", 600, &vectors, &query, 5, &|i| i % every == 0);
    }
    check("nothing accepted", 600, &vectors, &query, 5, &|_| false);

    let filter: Filter = "parity = even".parse().unwrap();
    let rows: Vec<Vec<u8>> = (0..)
        .zip(&vectors)
        .map(|(i, v)| {
            encode_row(32, v, Some(&json!({"parity": if i % 2 == 0 { "even" } else { "odd" }}))).unwrap()
        })
        .collect();
    let rows: Vec<_> = rows.iter().map(|bytes| decode_row(bytes).unwrap()).collect();
    let block = Block::build(Metric::Cosine, 32, rows.iter().map(|row| row.vector_bytes())).unwrap();
    let search = Query::new(Metric::Cosine, &query, 5).unwrap();
    let mut searcher = Searcher::new(&search);
    let mut asked = 0;
    let accept = |row: usize| {
        asked += 1;
        rows[row].fulfils(&filter).unwrap()
    };
    searcher.offer(&block, 3, accept).unwrap();
    assert!(asked < 600, "the filter ran on {asked} of 3000 rows");
    let hits = searcher.finish(|_, row| Ok::<_, VectorError>(rows[row].vector_bytes())).unwrap();
    assert_eq!(hits.len(), 5);
    assert!(hits.iter().all(|hit| hit.row % 2 == 0 && hit.leaf == 3));
}

#[test]
fn many_candidates_are_pruned_without_losing_any() {
    // Scores rise from row to row, so each row is a candidate when it comes.
    let vectors: Vec<Vec<f32>> = (0..3000).map(|i| vec![1.0, 0.002 * i as f32]).collect();
    check("rising", 700, &vectors, &[0.0, 1.0], 10, &all);
}

#[test]
fn what_cannot_be_searched_is_refused() {
    assert_eq!(Query::new(Metric::Dot, &[1.0], 0).err(), Some(VectorError::ZeroResults));
    assert_eq!(
        Query::new(Metric::Dot, &[1.0, f32::INFINITY], 1).err(),
        Some(VectorError::NotFinite { index: 1 })
    );
    assert_eq!(
        Query::new(Metric::Dot, &[], 1).err(),
        Some(VectorError::DimensionOutOfRange { dimension: 0 })
    );
    let query = Query::new(Metric::Dot, &[1.0, 2.0], 1).unwrap();
    let mismatch = VectorError::DimensionMismatch { expected: 2, actual: 3 };
    assert_eq!(query.score(&[0; 12]), Err(mismatch.clone()));
    let block = Block::build(Metric::Dot, 3, [[0; 12].as_slice()]).unwrap();
    assert_eq!(Searcher::new(&query).offer(&block, 0, |_| true), Err(mismatch.clone()));
    let other = Block::build(Metric::Cosine, 2, [[0; 8].as_slice()]).unwrap();
    assert!(matches!(Searcher::new(&query).offer(&other, 0, |_| true), Err(VectorError::Damaged { .. })));
    let block = Block::build(Metric::Dot, 2, [[0; 8].as_slice()]).unwrap();
    let mut searcher = Searcher::new(&query);
    searcher.offer(&block, 0, |_| true).unwrap();
    assert_eq!(searcher.finish(|_, _| Ok::<_, VectorError>([0u8; 12])), Err(mismatch));
    assert_eq!(Searcher::new(&query).finish(|_, _| Ok::<_, VectorError>([0u8; 8])), Ok(vec![]));
}

#[test]
fn damaged_numbers_in_stored_rows_rank_last_and_never_panic() {
    for seed in 800..820 {
        let mut random = Random(seed);
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -0.0];
        let mut rows: Vec<Vec<f32>> = (0..100).map(|_| random.vector(6)).collect();
        for i in [5, 50, 51, 52, 99] {
            let at = random.below(6);
            rows[i][at] = odd[random.below(odd.len())];
        }
        let rows: Vec<Vec<u8>> = rows.iter().map(|v| bytes(v)).collect();
        for metric in METRICS {
            let block = Block::build(metric, 6, rows.iter().map(Vec::as_slice)).unwrap();
            for k in [3, 200] {
                let query = Query::new(metric, &random.vector(6), k).unwrap();
                let mut searcher = Searcher::new(&query);
                searcher.offer(&block, 0, |_| true).unwrap();
                let hits = searcher.finish(|_, row| Ok::<_, VectorError>(&rows[row])).unwrap();
                assert_eq!(hits.len(), k.min(100), "seed {seed}, {metric}");
                assert!(hits.iter().all(|hit| !hit.score.is_nan()), "seed {seed}, {metric}");
                assert!(hits.is_sorted_by(|a, b| a.score >= b.score), "seed {seed}, {metric}");
            }
        }
    }
}
