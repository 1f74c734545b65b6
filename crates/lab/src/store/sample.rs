//! What is taken of one operation at one level.

use std::time::Duration;

use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::statistics::median;
use duramen_store::Counters;

/// Where a sample stood when a slice began.
#[derive(Debug)]
pub(crate) struct Mark {
    latencies: LatencyHistogram,
    values: usize,
    ops: u64,
    busy: Duration,
}

/// Latencies and costs of an operation at a level.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) latencies: LatencyHistogram,
    /// Figures of an operation that has no latency: rows per second, seconds.
    pub(crate) values: Vec<f64>,
    /// A value of each slice: its median, or what it gave.
    pub(crate) blocks: Vec<f64>,
    /// Operations a second of each slice.
    pub(crate) rates: Vec<f64>,
    pub(crate) ops: u64,
    /// Time in which the operations were under way: with several threads, of the wall.
    pub(crate) busy: Duration,
    pub(crate) appends: u64,
    pub(crate) syncs: u64,
    pub(crate) log_bytes: u64,
    /// What one sync of the disk took right before each slice, if the operation waits for it.
    pub(crate) floor: LatencyHistogram,
    /// Other figures that the operation gave: name, unit, value.
    pub(crate) beside: Vec<(&'static str, &'static str, f64)>,
    /// What was not as it should be.
    pub(crate) wrong: Vec<String>,
}

impl Sample {
    pub(crate) fn new() -> Self {
        Self {
            latencies: LatencyHistogram::fine(),
            values: Vec::new(),
            blocks: Vec::new(),
            rates: Vec::new(),
            ops: 0,
            busy: Duration::ZERO,
            appends: 0,
            syncs: 0,
            log_bytes: 0,
            floor: LatencyHistogram::fine(),
            beside: Vec::new(),
            wrong: Vec::new(),
        }
    }

    pub(crate) fn count(&mut self, before: &Counters, after: &Counters) {
        self.appends += after.log_appends - before.log_appends;
        self.syncs += after.log_syncs - before.log_syncs;
        self.log_bytes += after.log_bytes - before.log_bytes;
    }

    /// What a slice adds to before, to be closed with [`close`](Self::close).
    pub(crate) fn open(&self) -> Mark {
        Mark { latencies: self.latencies.clone(), values: self.values.len(), ops: self.ops, busy: self.busy }
    }

    /// Keeps what a slice gave as a block: the quantile `q` of its latencies, or the middle of its values.
    pub(crate) fn close(&mut self, mark: &Mark, q: f64) {
        let latencies = self.latencies.since(&mark.latencies);
        let values = self.values.get(mark.values..).and_then(median);
        let us = (!latencies.is_empty()).then(|| latencies.quantile(q).as_nanos() as f64 / 1e3);
        self.blocks.extend(values.or(us));
        let (ops, busy) = (self.ops - mark.ops, self.busy.saturating_sub(mark.busy));
        if ops > 0 && !busy.is_zero() {
            self.rates.push(ops as f64 / busy.as_secs_f64());
        }
    }

    /// Adds the measurements of the sample. `unit` is that of the values.
    pub(crate) fn note(&self, name: &str, unit: &str, evidence: &mut Evidence) {
        if self.ops == 0 {
            return;
        }
        let each = |blocks: &[f64]| blocks.iter().map(|block| vec![*block]).collect();
        evidence.keep_blocks(name, each(&self.blocks));
        if self.values.is_empty() && !self.busy.is_zero() {
            evidence.keep_blocks(&format!("{name}.ops_per_s"), each(&self.rates));
        }
        let figures = &mut evidence.measurements;
        if self.values.is_empty() {
            figures.push(Measurement::from_histogram_us(name, &self.latencies));
            if !self.busy.is_zero() {
                let rate = self.ops as f64 / self.busy.as_secs_f64();
                figures.push(Measurement::scalar(format!("{name}.ops_per_s"), "1/s", rate));
            }
        } else {
            figures.push(Measurement::from_values(name, unit, &self.values));
        }
        if !self.floor.is_empty() {
            let us = |q| self.floor.quantile(q).as_nanos() as f64 / 1e3;
            figures.push(Measurement::scalar(format!("{name}.fsync_floor_us"), "us", us(0.5)));
            figures.push(Measurement::scalar(format!("{name}.fsync_floor_p95_us"), "us", us(0.95)));
        }
        let per_op = |count: u64| count as f64 / self.ops as f64;
        let costs = [
            ("appends_per_op", "appends", self.appends),
            ("syncs_per_op", "syncs", self.syncs),
            ("log_bytes_per_op", "bytes", self.log_bytes),
        ];
        for (figure, unit, count) in costs {
            figures.push(Measurement::scalar(format!("{name}.{figure}"), unit, per_op(count)));
        }
    }
}
