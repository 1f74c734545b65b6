//! The latencies of all rounds, and how they become measurements.

use std::collections::BTreeMap;

use duramen_base::clock;
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::histogram::LatencyHistogram;

use super::client::Lived;
use super::rounds::RoundFigures;

/// Latencies of the steps. Only steps that succeeded are counted here; the others are counted by a check.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    pub(crate) lease: LatencyHistogram,
    pub(crate) first_query: LatencyHistogram,
    pub(crate) second_query: LatencyHistogram,
    pub(crate) write: LatencyHistogram,
    pub(crate) write_server: LatencyHistogram,
    pub(crate) destroy: LatencyHistogram,
    pub(crate) point_read: LatencyHistogram,
    pub(crate) wire_first_query: LatencyHistogram,
    /// What only one way to a branch has, by the names of the figures.
    pub(crate) others: BTreeMap<&'static str, LatencyHistogram>,
}

impl Latencies {
    /// Counts what one client met.
    pub(crate) fn add(&mut self, lived: &Lived) {
        self.lease.extend(lived.lease);
        self.first_query.extend(lived.first_query);
        self.second_query.extend(lived.second_query);
        self.write.extend(lived.write);
        self.write_server.extend(lived.write_server);
        self.destroy.extend(lived.destroy);
        self.wire_first_query.extend(lived.wire_first_query);
        for (figure, took) in &lived.others {
            self.others.entry(figure).or_default().record(*took);
        }
    }

    /// Adds those of a round, or of what came beside the rounds.
    pub(crate) fn merge(&mut self, other: &Latencies) {
        self.lease.merge(&other.lease);
        self.first_query.merge(&other.first_query);
        self.second_query.merge(&other.second_query);
        self.write.merge(&other.write);
        self.write_server.merge(&other.write_server);
        self.destroy.merge(&other.destroy);
        self.point_read.merge(&other.point_read);
        self.wire_first_query.merge(&other.wire_first_query);
        for (figure, latencies) in &other.others {
            self.others.entry(figure).or_default().merge(latencies);
        }
    }

    /// Those that have values, by the names of the figures.
    fn known(&self) -> impl Iterator<Item = (&'static str, &LatencyHistogram)> {
        let all = [
            ("lease_ms", &self.lease),
            ("first_query_ms", &self.first_query),
            ("second_query_ms", &self.second_query),
            ("write_ms", &self.write),
            ("write_server_ms", &self.write_server),
            ("destroy_ms", &self.destroy),
            ("point_read_ms", &self.point_read),
            ("wire_first_query_ms", &self.wire_first_query),
        ];
        let others = self.others.iter().map(|(name, histogram)| (*name, histogram));
        all.into_iter().chain(others).filter(|(_, histogram)| !histogram.is_empty())
    }

    /// Adds the measurements that have values: a step that was not asked for has no figure at all. The medians of the
    /// rounds are the blocks.
    pub(crate) fn note(&self, rounds: &[Latencies], evidence: &mut Evidence) {
        let mut blocks: BTreeMap<&str, Vec<Vec<f64>>> = BTreeMap::new();
        for (name, latencies) in rounds.iter().flat_map(Latencies::known) {
            blocks.entry(name).or_default().push(vec![clock::ms(latencies.quantile(0.5))]);
        }
        for (name, latencies) in self.known() {
            evidence.keep_blocks(name, blocks.remove(name).unwrap_or_default());
            evidence.measurements.push(Measurement::from_histogram(name, latencies));
        }
    }
}

/// Adds the figures that there is one of in each round.
pub(crate) fn note_rounds(rounds: &[RoundFigures], evidence: &mut Evidence) {
    let of =
        |figure: fn(&RoundFigures) -> Option<f64>| -> Vec<f64> { rounds.iter().filter_map(figure).collect() };
    note_values(evidence, "wall_ms", "ms", &of(|round| Some(round.wall_ms)));
    note_values(evidence, "refill_ms", "ms", &of(|round| round.refill_ms));
    note_values(evidence, "refill_clone_ms", "ms", &of(|round| round.clone_ms));
    note_values(evidence, "refill_start_ms", "ms", &of(|round| round.start_ms));
    note_values(evidence, "refill_connect_ms", "ms", &of(|round| round.connect_ms));
}

/// Adds a measurement, if there are values, each of which is a block.
pub(crate) fn note_values(evidence: &mut Evidence, name: &str, unit: &str, values: &[f64]) {
    if !values.is_empty() {
        evidence.keep_blocks(name, values.iter().map(|value| vec![*value]).collect());
        evidence.measurements.push(Measurement::from_values(name, unit, values));
    }
}
