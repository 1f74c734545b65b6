//! Whether both sides changed as much in their branches: skipping work is not a gain (X14).

use crate::event::{Sample, Side};
use crate::spec::Scale;
use std::collections::{BTreeMap, BTreeSet};

/// What is counted of a table, in the order of [`Data::rows`](crate::event::Data::rows), and the word after it.
const KINDS: [(&str, &str); 3] = [("inserted", "into"), ("updated", "of"), ("deleted", "from")];

/// So many runs have an average.
const RUNS_ENOUGH: u64 = 4;

/// Rows that a run changed, by table.
type Rows<'s> = &'s BTreeMap<String, [u64; 3]>;

/// Where the sides differ, if they do. A count that is the same in all runs of the base must be so in those of the candidate.
/// Where it varies, as in a benchmark that runs for a given time, the candidate must not have less on average than the base
/// ever had.
///
/// `known` are other runs of the base, those of the A/A run. Where there are only a few of the candidate so far, they say
/// nothing of an average.
pub(super) fn differ(samples: &[Sample], known: &[Sample], scales: &[Scale]) -> Option<String> {
    scales.iter().find_map(|scale| {
        let of = |side: Side| -> Vec<Rows<'_>> {
            let more = known.iter().filter(|it| side == Side::Base && it.scale == scale.name);
            let mine = samples.iter().filter(|it| it.side == side && it.scale == scale.name);
            more.chain(mine).filter_map(|sample| sample.data.as_ref()).map(|data| &data.rows).collect()
        };
        let (base, candidate) = (of(Side::Base), of(Side::Candidate));
        let tables: BTreeSet<&String> = base.iter().chain(&candidate).flat_map(|rows| rows.keys()).collect();
        let each = tables.into_iter().flat_map(|table| (0..KINDS.len()).map(move |kind| (table, kind)));
        each.into_iter().find_map(|(table, kind)| {
            let (done, preposition) = KINDS[kind];
            let counts = |runs: &[Rows<'_>]| -> Vec<u64> {
                runs.iter().map(|rows| rows.get(table).map_or(0, |counts| counts[kind])).collect()
            };
            let (here, there) = compare(&counts(&base), &counts(&candidate))?;
            let scale = &scale.name;
            Some(format!(
                "at scale {scale} the candidate {done} {here} rows {preposition} {table}, and the base {there}: what \
                 does other work cannot be compared"
            ))
        })
    })
}

/// What the candidate did and the base, if they do not agree.
fn compare(base: &[u64], candidate: &[u64]) -> Option<(String, String)> {
    let (low, high) = (*base.iter().min()?, *base.iter().max()?);
    if low == high {
        let other = candidate.iter().find(|count| **count != low)?;
        return Some((other.to_string(), low.to_string()));
    }
    let runs = u64::try_from(candidate.len()).ok().filter(|runs| *runs >= RUNS_ENOUGH)?;
    let mean = candidate.iter().sum::<u64>() / runs;
    (mean < low).then(|| (format!("{mean} (on average)"), format!("{low} to {high}")))
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn what_never_varies_must_agree_and_what_does_must_not_be_less() {
        assert_eq!(compare(&[5, 5], &[5, 5]), None);
        assert!(compare(&[5, 5], &[5, 4]).is_some());
        assert!(compare(&[0, 0], &[0, 1]).is_some());
        assert_eq!(compare(&[5, 9], &[90, 100]), None, "a faster one does more in the same time");
        assert_eq!(compare(&[5, 9], &[4, 8]), None);
        assert!(compare(&[5, 9], &[4, 4, 4, 4]).is_some());
        assert_eq!(compare(&[5, 9], &[4, 4]), None, "too few to tell");
        assert_eq!(compare(&[], &[4]), None);
        assert_eq!(compare(&[5, 9], &[]), None);
    }
}
