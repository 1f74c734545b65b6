//! Numbers that are drawn. Everything comes from the generator that is handed in, so that a run can be replayed.
//!
//! Zipf: by rejection, L. Devroye, "Non-Uniform Random Variate Generation" (1986), chapter X.6. Normal: the polar form of
//! G. E. P. Box and M. E. Muller (1958), cut off. Hashes: Fowler, Noll and Vo's FNV-1a, and A. Appleby's MurmurHash64A.

/// The parameter of a Zipf distribution is in this range: nearer to 1 hardly any draw is accepted.
pub(crate) const ZIPF: std::ops::RangeInclusive<f64> = 1.001..=1_000.0;
/// The least parameter of a normal distribution: how many standard deviations lie within half of the range.
pub(crate) const GAUSSIAN: f64 = 2.0;

fn ordered(min: i64, max: i64) -> Result<(), String> {
    if min > max {
        return Err(format!("the range from {min} to {max} is empty"));
    }
    if max.checked_sub(min).and_then(|width| width.checked_add(1)).is_none() {
        return Err(format!("the range from {min} to {max} is too wide"));
    }
    Ok(())
}

/// The number at a share from 0 (included) to 1 (excluded) of a range.
fn at(min: i64, max: i64, share: f64) -> i64 {
    let width = (max - min) as f64 + 1.0;
    min.saturating_add((width * share) as i64).clamp(min, max)
}

/// Each of a range alike.
pub(crate) fn uniform(rng: &mut fastrand::Rng, min: i64, max: i64) -> Result<i64, String> {
    ordered(min, max)?;
    Ok(rng.i64(min..=max))
}

/// The middle of a range most often; `parameter` standard deviations from the middle to each end.
pub(crate) fn gaussian(rng: &mut fastrand::Rng, min: i64, max: i64, parameter: f64) -> Result<i64, String> {
    ordered(min, max)?;
    if !parameter.is_finite() || parameter < GAUSSIAN {
        return Err(format!("the parameter {parameter} of random_gaussian is less than {GAUSSIAN}"));
    }
    loop {
        let (u, v) = (1.0 - rng.f64(), rng.f64());
        let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).sin();
        if (-parameter..parameter).contains(&normal) {
            return Ok(at(min, max, (normal + parameter) / (2.0 * parameter)));
        }
    }
}

/// The beginning of a range most often, less by the same factor from each to the next.
pub(crate) fn exponential(
    rng: &mut fastrand::Rng,
    min: i64,
    max: i64,
    parameter: f64,
) -> Result<i64, String> {
    ordered(min, max)?;
    if !parameter.is_finite() || parameter <= 0.0 {
        return Err(format!("the parameter {parameter} of random_exponential is not above zero"));
    }
    let cut = (-parameter).exp();
    let u = 1.0 - rng.f64();
    Ok(at(min, max, -(cut + (1.0 - cut) * u).ln() / parameter))
}

/// The first of a range most often, the n-th n^-parameter times as often.
pub(crate) fn zipfian(rng: &mut fastrand::Rng, min: i64, max: i64, parameter: f64) -> Result<i64, String> {
    ordered(min, max)?;
    if !ZIPF.contains(&parameter) {
        return Err(format!(
            "the parameter {parameter} of random_zipfian is not from {} to {}",
            ZIPF.start(),
            ZIPF.end()
        ));
    }
    let (count, less) = ((max - min) as f64 + 1.0, parameter - 1.0);
    if count <= 1.0 {
        return Ok(min);
    }
    let b = 2.0_f64.powf(less);
    loop {
        let (u, v) = (1.0 - rng.f64(), rng.f64());
        let x = u.powf(-1.0 / less).floor();
        let t = (1.0 + 1.0 / x).powf(less);
        if v * x * (t - 1.0) / (b - 1.0) <= t / b && x <= count {
            return Ok(min.saturating_add(x as i64 - 1).min(max));
        }
    }
}

/// FNV-1a of the eight bytes of a number, the lowest first.
pub(crate) fn fnv1a(number: i64, seed: i64) -> i64 {
    let bytes = number.to_le_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325 ^ seed as u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash as i64
}

/// MurmurHash64A of the eight bytes of a number.
pub(crate) fn murmur2(number: i64, seed: i64) -> i64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = seed as u64 ^ 8_u64.wrapping_mul(M);
    let mut key = (number as u64).wrapping_mul(M);
    key ^= key >> R;
    hash = (hash ^ key.wrapping_mul(M)).wrapping_mul(M);
    hash ^= hash >> R;
    hash = hash.wrapping_mul(M);
    (hash ^ (hash >> R)) as i64
}

/// Where a number goes when those from 0 to `size` are shuffled by a seed: a network of H. Feistel's kind over the next
/// power of four, walked until it is inside again. Not the permutation that pgbench has, but as good a one.
pub(crate) fn permute(number: i64, size: i64, seed: i64) -> Result<i64, String> {
    if size <= 0 {
        return Err(format!("the size {size} of permute is not above zero"));
    }
    let bits = (64 - (size as u64 - 1).leading_zeros()).max(2);
    let half = bits.div_ceil(2);
    let mask = (1_u64 << half) - 1;
    let mut at = number.rem_euclid(size) as u64;
    loop {
        let (mut left, mut right) = (at >> half, at & mask);
        for round in 0..4_i64 {
            let mixed = murmur2(right as i64, seed.wrapping_add(round)) as u64 & mask;
            (left, right) = (right, left ^ mixed);
        }
        at = (left << half) | right;
        if at < size as u64 {
            return Ok(at as i64);
        }
    }
}
