//! The parts of the suite "branches" that need no daemon.

mod checks;
mod documents;
mod options;
mod pool;
mod scale;
mod targets;
mod workload;

use duramen_measure::evidence::Evidence;
use duramen_measure::host::Host;

/// A document of a run with a given setup and no figures.
fn evidence(write: &str, runner: &str, concurrency: u32, pool: u32) -> Evidence {
    let host = Host {
        cpu: "a processor".to_owned(),
        cores: 2,
        memory_bytes: 1 << 34,
        kernel: "Linux 6".to_owned(),
        file_system: "ext4".to_owned(),
        load_average: [0.5; 3],
        fsync_floor_us: 900.0,
    };
    let mut evidence = Evidence::new("branches", host);
    evidence.configure("write", write);
    evidence.configure("runner", runner);
    evidence.configure("concurrency", concurrency);
    evidence.configure("pool", pool);
    evidence
}
