//! Chance for tests, from a seed.

use duramen_base::entropy;

pub(super) struct Chance(Box<dyn FnMut(u64) -> u64>);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        let mut rng = entropy::rng(seed);
        Chance(Box::new(move |limit| rng.u64(..limit)))
    }

    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.0)(limit as u64) as usize
    }

    /// A number from `low` up to below `high`.
    pub(super) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low)
    }

    /// True once in `n` times.
    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
