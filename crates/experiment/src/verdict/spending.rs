//! How the error rate of a try is spent over its looks.
//!
//! The shares of the looks sum to one, so that by the union bound the rate of all looks together is that of the try,
//! however they depend on each other. Half of what is left goes to the next look: what helps much shows at once. The last
//! look has half at least, so that little is lost by looking early.

/// Before so many blocks nothing is kept.
pub(super) const FEWEST: u32 = 2;

/// The share of the error rate that the look after so many of all blocks has.
pub(super) fn share(blocks: u32, of: u32) -> f64 {
    let first = FEWEST.min(of);
    if blocks < first || blocks > of {
        return 0.0;
    }
    let early = |look: u32| 0.5_f64.powi(i32::try_from(look - first).unwrap_or(i32::MAX).saturating_add(2));
    if blocks < of {
        return early(blocks);
    }
    1.0 - (first..of).map(early).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn the_shares_sum_to_one_and_the_last_has_half_of_it_at_least() {
        for of in 1..60 {
            let sum: f64 = (0..=of + 1).map(|blocks| share(blocks, of)).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{of}: {sum}");
            assert!(share(of, of) >= 0.5, "{of}");
            assert!(of < 2 || share(1, of) == 0.0, "a single block keeps nothing");
        }
        assert_eq!((share(2, 12), share(3, 12)), (0.25, 0.125));
    }
}
