//! The parts of the suite "branches" that need no daemon.

mod checks;
mod documents;
mod options;
mod pool;
mod scale;
mod targets;
mod workload;

use super::client::Lived;
use super::workload::{encode, one, plain_read, Change, Plan};
use duramen_api::model::CreateBranch;
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

/// A plan of two plain reads and an event.
pub(crate) fn plan() -> Plan {
    let read = || plain_read().unwrap();
    let request = one("select 1", Vec::new()).unwrap();
    Plan {
        name: "lab-1".to_owned(),
        create: encode(&CreateBranch::default()).unwrap(),
        policy: "read-write",
        reads: [read(), read()],
        point: read(),
        change: Some(Change::Event { request, flight: 7, kind: "delayed", payload: "{}".to_owned() }),
    }
}

/// The figures that a client has under names of their own.
pub(crate) fn names(lived: &Lived) -> Vec<&'static str> {
    lived.others.iter().map(|(name, _)| *name).collect()
}
