//! For which standby commits waited: a pure function of what was seen.

use std::collections::BTreeMap;
use std::time::Duration;

use super::quorum::Quorum;
use super::sample::{Position, Sample};
use crate::level::Level;

/// Who decided, over the positions of the primary's WAL in a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decided {
    /// By the name of the standby: for how many positions it was the one that was waited for.
    pub by: BTreeMap<String, u64>,
    /// For how many positions several came between the same two looks, so that nobody can say which of them it was.
    pub tied: u64,
}

impl Decided {
    /// For how many positions somebody was waited for.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by.values().sum::<u64>() + self.tied
    }

    /// In how many of a hundred a standby was it.
    #[must_use]
    pub fn percent(&self, name: &str) -> f64 {
        let count = self.by.get(name).copied().unwrap_or(0);
        100.0 * count as f64 / self.total().max(1) as f64
    }
}

/// With `FIRST n` a position is acknowledged by the slowest of the n that are synchronous when it comes to the primary's disk,
/// with `ANY n` by the n-th fastest. A position that was not acknowledged in the time is left out.
#[must_use]
pub fn decided(samples: &[Sample], quorum: Quorum, level: Level, [begin, end]: [Duration; 2]) -> Decided {
    let mut decided = Decided::default();
    let wanted = match quorum {
        Quorum::Nobody => return decided,
        Quorum::First(count) | Quorum::Any(count) => count,
    };
    if wanted == 0 || !level.waits_for_standby() {
        return decided;
    }
    // Where each standby was found last, so that each sample is passed once by each.
    let mut cursors: BTreeMap<&str, usize> = BTreeMap::new();
    let mut last = 0;
    for (index, sample) in samples.iter().enumerate() {
        let is_new = sample.flushed > last;
        last = last.max(sample.flushed);
        if !is_new || sample.at < begin || sample.at > end {
            continue;
        }
        let synchronous = sample.standbys.iter().filter(|(_, seen)| seen.is_synchronous);
        let mut arrivals: Vec<(usize, &str)> = Vec::new();
        for (name, _) in synchronous {
            let cursor = cursors.entry(name).or_insert(index);
            *cursor = (*cursor).max(index);
            while *cursor < samples.len() && !has(&samples[*cursor], name, level, sample.flushed) {
                *cursor += 1;
            }
            if *cursor < samples.len() {
                arrivals.push((*cursor, name));
            } else {
                // Those after it have not come either; but the next position may be asked of it again.
                *cursor = index;
            }
        }
        arrivals.sort_unstable();
        let place = match quorum {
            // One that has not come yet is still waited for.
            Quorum::First(_) if arrivals.len() < wanted => continue,
            Quorum::First(_) => arrivals.len(),
            _ => wanted,
        };
        let Some((arrived, name)) = arrivals.get(place - 1).copied() else { continue };
        let neighbours = [place.checked_sub(2), Some(place)];
        let is_tied = neighbours
            .into_iter()
            .flatten()
            .filter_map(|place| arrivals.get(place))
            .any(|(other, _)| *other == arrived);
        match is_tied {
            true => decided.tied += 1,
            false => *decided.by.entry(name.to_owned()).or_insert(0) += 1,
        }
    }
    decided
}

fn has(sample: &Sample, name: &str, level: Level, target: u64) -> bool {
    let position = |position: &Position| position.of(level);
    sample.standbys.get(name).is_some_and(|seen| position(&seen.position) >= target)
}
