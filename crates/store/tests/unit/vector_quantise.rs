use super::*;

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Numbers from -1 to 1, by a linear congruence.
fn numbers(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn bounds_hold_and_are_narrow() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::Euclidean] {
        for (seed, dimension) in [(1, 1), (2, 7), (3, 64), (4, 128), (5, 1000)] {
            let rows: Vec<Vec<f32>> = (0..37).map(|i| numbers(seed * 1000 + i, dimension)).collect();
            let encoded: Vec<Vec<u8>> = rows.iter().map(|v| bytes(v)).collect();
            let block = Block::build(metric, dimension, encoded.iter().map(Vec::as_slice)).unwrap();
            assert_eq!((block.rows(), block.dimension(), block.metric()), (37, dimension, metric));
            let query = numbers(seed, dimension);
            let prepared = metric.prepare(&query);
            let coded = CodedQuery::new(metric, &query, prepared.norm);
            let mut scratch = Scratch::default();
            assert!(coded.upper_bounds(&block, f64::NEG_INFINITY, &mut scratch));
            for (i, row) in rows.iter().enumerate() {
                let rank = metric.rank(&query, &prepared, encoded[i].as_chunks().0);
                let bounds = coded.bounds(&block, i, &scratch);
                let context = format!("{metric}, seed {seed}, row {i}: {rank} {bounds:?}");
                assert!(bounds.lower <= rank && rank <= bounds.upper, "{context}");
                assert_eq!(bounds.upper, scratch.uppers[i], "{context}");
                let size: f64 = row.iter().map(|x| f64::from(x * x)).sum::<f64>().sqrt() * prepared.norm;
                let size = if metric == Metric::Cosine { 1.0 } else { size };
                assert!(bounds.upper - bounds.lower < 0.06 * size, "{context}");
            }
        }
    }
}

#[test]
fn every_instruction_set_gives_the_same_products() {
    let rows: Vec<Vec<u8>> = (0..50).map(|i| bytes(&numbers(i, 131))).collect();
    let block = Block::build(Metric::Dot, 131, rows.iter().map(Vec::as_slice)).unwrap();
    let query = numbers(77, 131);
    let mut coded = CodedQuery::new(Metric::Dot, &query, Metric::Dot.prepare(&query).norm);
    let mut detected = Scratch::default();
    coded.upper_bounds(&block, 0.0, &mut detected);
    coded.simd = Simd::Portable;
    let mut portable = Scratch::default();
    coded.upper_bounds(&block, 0.0, &mut portable);
    assert_eq!(detected.products, portable.products);
    assert!(detected.products.iter().any(|product| *product != 0));
    // The compiler may fuse nothing, so the bounds are equal to the bit.
    assert_eq!(detected.uppers, portable.uppers);
}

#[test]
fn rows_below_the_threshold_are_told_at_once() {
    let rows: Vec<Vec<u8>> = (0..30).map(|i| bytes(&numbers(i, 40))).collect();
    let block = Block::build(Metric::Cosine, 40, rows.iter().map(Vec::as_slice)).unwrap();
    let query = numbers(99, 40);
    let coded = CodedQuery::new(Metric::Cosine, &query, Metric::Cosine.prepare(&query).norm);
    let mut scratch = Scratch::default();
    assert!(!coded.upper_bounds(&block, 1.1, &mut scratch));
    assert!(coded.upper_bounds(&block, -1.1, &mut scratch));
}

#[test]
fn blocks_are_a_quarter_of_the_vectors_and_may_be_empty() {
    let rows: Vec<Vec<u8>> = (0..32).map(|i| bytes(&numbers(i, 128))).collect();
    let block = Block::build(Metric::Cosine, 128, rows.iter().map(Vec::as_slice)).unwrap();
    assert!(block.memory_bytes() < 32 * (128 + 12) + 200, "{}", block.memory_bytes());
    let empty = Block::build(Metric::Cosine, 128, []).unwrap();
    assert_eq!(empty.rows(), 0);
    let query = numbers(1, 128);
    let coded = CodedQuery::new(Metric::Cosine, &query, 1.0);
    assert!(!coded.upper_bounds(&empty, f64::NEG_INFINITY, &mut Scratch::default()));
}

#[test]
fn rows_of_another_length_are_refused() {
    for length in [0, 1, 3, 4, 7, 9, 12] {
        let rows = vec![0; length];
        let refused = Block::build(Metric::Dot, 2, [rows.as_slice()]).err();
        assert_eq!(refused, Some(VectorError::DimensionMismatch { expected: 2, actual: length / 4 }));
    }
    for dimension in [0, 8193] {
        let refused = Block::build(Metric::Dot, dimension, []).err();
        assert_eq!(refused, Some(VectorError::DimensionOutOfRange { dimension }));
    }
}

#[test]
fn rounding_is_to_the_nearest() {
    for (x, whole) in [(0.4, 0.0), (0.6, 1.0), (-0.6, -1.0), (126.51, 127.0), (-32766.7, -32767.0)] {
        assert_eq!(round(x), whole);
    }
    for x in [1.0, 0.1, 1e-45, 3e38, 0.0] {
        assert!(f64::from(round_up(x)) >= x);
    }
}

#[test]
fn bounds_hold_for_norms_that_f32_rounds_coarsely() {
    let ulp = f32::from_bits(1);
    let rows: Vec<[f32; 2]> = (64..200).map(|i| [i as f32 * ulp, ulp]).collect();
    let encoded: Vec<Vec<u8>> = rows.iter().map(|v| bytes(v)).collect();
    for metric in [Metric::Cosine, Metric::Dot, Metric::Euclidean] {
        let block = Block::build(metric, 2, encoded.iter().map(Vec::as_slice)).unwrap();
        for query in [[0.0, 0.0], [ulp, 0.0], [100.0 * ulp, -ulp], [1.0, 1.0]] {
            let prepared = metric.prepare(&query);
            let coded = CodedQuery::new(metric, &query, prepared.norm);
            let mut scratch = Scratch::default();
            coded.upper_bounds(&block, f64::NEG_INFINITY, &mut scratch);
            for (i, row) in encoded.iter().enumerate() {
                let rank = metric.rank(&query, &prepared, row.as_chunks().0);
                let bounds = coded.bounds(&block, i, &scratch);
                assert!(bounds.lower <= rank && rank <= bounds.upper, "{metric}, row {i}: {rank} {bounds:?}");
            }
        }
    }
}

#[test]
fn joined_blocks_are_the_block_of_all_rows() {
    for (seed, dimension) in (0..).zip([1, 2, 7, 128]) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let parts: Vec<Vec<Vec<u8>>> = (0..9)
            .map(|_| {
                let row = |rng: &mut fastrand::Rng| {
                    (0..dimension).flat_map(|_| (rng.f32() - 0.5).to_le_bytes()).collect()
                };
                (0..rng.usize(0..40)).map(|_| row(&mut rng)).collect()
            })
            .collect();
        let build = |rows: &mut dyn Iterator<Item = &Vec<u8>>| {
            Block::build(Metric::Dot, dimension, rows.map(Vec::as_slice)).unwrap()
        };
        let blocks: Vec<_> = parts.iter().map(|part| build(&mut part.iter())).collect();
        let joined = Block::join(Metric::Dot, dimension, blocks.iter()).unwrap();
        let whole = build(&mut parts.iter().flatten());
        assert_eq!(joined.rows, whole.rows, "seed {seed}");
        assert_eq!(joined.codes, whole.codes, "seed {seed}");
        assert_eq!(
            (joined.scales, joined.residuals, joined.norms),
            (whole.scales, whole.residuals, whole.norms),
            "seed {seed}"
        );
        assert!(Block::join(Metric::Dot, dimension + 1, blocks.iter()).is_err());
        assert!(Block::join(Metric::Cosine, dimension, blocks.iter()).is_err());
    }
}

#[test]
fn groups_side_by_side_give_the_sums_of_each_alone() {
    let mut rng = fastrand::Rng::with_seed(3);
    let pairs: Vec<[i16; 2]> = (0..65).map(|_| [rng.i16(..), rng.i16(..)].map(|x| x / 2)).collect();
    let groups: Vec<Vec<[i8; STEP]>> =
        (0..4).map(|_| (0..65).map(|_| std::array::from_fn(|_| rng.i8(-127..))).collect()).collect();
    let all: [&[[i8; STEP]]; 4] = std::array::from_fn(|at| &groups[at][..]);
    let expected = all.map(|group| Portable.products([group], &pairs)[0]);
    assert_eq!(Portable.products(all, &pairs), expected);
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = avx2::Avx2::detect() {
        assert_eq!(avx2.products(all, &pairs), expected);
        assert_eq!(all.map(|group| avx2.products([group], &pairs)[0]), expected);
    }
}
