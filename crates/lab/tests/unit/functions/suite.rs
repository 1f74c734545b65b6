//! The suite "functions": its targets, what its checks notice, and that it clears up after itself.

mod checks;
mod documents;
mod options;
mod run;
mod statements;
mod targets;

use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::host::Host;
use std::time::Duration;

/// A document without figures, of a full run on a disk whose fsync takes so many milliseconds.
fn evidence(fsync_ms: f64) -> Evidence {
    let host = Host {
        cpu: "a processor".to_owned(),
        cores: 2,
        memory_bytes: 1 << 34,
        kernel: "Linux 6".to_owned(),
        file_system: "ext4".to_owned(),
        load_average: [0.5; 3],
        fsync_floor_us: 77_000.0,
    };
    let mut evidence = Evidence::new("functions", host);
    evidence.configure("phase", "all");
    evidence.configure("server_version", "18.6");
    evidence.configure("connections", 10);
    evidence.configure("worker_kills", 50);
    evidence.configure("postgres_kills", 10);
    set(&mut evidence, "fsync_floor", "us", fsync_ms * 1e3);
    evidence
}

/// Adds a single figure.
fn set(evidence: &mut Evidence, name: &str, unit: &str, value: f64) {
    evidence.measurements.push(Measurement::scalar(name, unit, value));
}

/// Adds a distribution of which all values are alike, in milliseconds.
fn spread(evidence: &mut Evidence, name: &str, ms: f64) {
    let mut latencies = LatencyHistogram::new();
    latencies.extend((0..100).map(|_| Duration::from_secs_f64(ms / 1e3)));
    evidence.measurements.push(Measurement::from_histogram(name, &latencies));
}
