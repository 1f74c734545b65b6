//! Whether both sides computed the same: skipping work is not a gain (X23).

use crate::event::{Sample, Side};
use crate::spec::Scale;
use std::collections::BTreeSet;

/// Where they did not, if the samples say what they computed.
pub(super) fn differ(samples: &[Sample], scales: &[Scale]) -> Option<String> {
    scales.iter().find_map(|scale| {
        let of = |side: Side| -> BTreeSet<&str> {
            let mine = samples.iter().filter(|it| it.side == side && it.scale == scale.name && it.has_figures());
            mine.filter_map(|sample| sample.output.as_deref()).collect()
        };
        let (base, candidate, scale) = (of(Side::Base), of(Side::Candidate), &scale.name);
        if base.len() > 1 {
            return Some(format!(
                "at scale {scale} the base computes something else from run to run, so it cannot be compared: let \
                 `measure.equal` name what does not vary"
            ));
        }
        let other = candidate.iter().find(|it| !base.is_empty() && !base.contains(*it))?;
        let was = base.first().copied().unwrap_or_default();
        Some(format!(
            "at scale {scale} the candidate computes something else than the base ({} and {}, `measure.equal`)",
            other.get(..8).unwrap_or(other),
            was.get(..8).unwrap_or(was)
        ))
    })
}
