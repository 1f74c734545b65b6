//! Documents for tests: real ones of small runs, and made ones.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail the test by panicking")]

use std::path::{Path, PathBuf};

use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::host::Host;
use duramen_reports::trends::{Better, Judge};
use duramen_reports::Document;
use jiff::{Timestamp, ToSpan};

/// Text that breaks what does not escape it.
pub(crate) const HOSTILE: &str =
    "</td></table><script>alert(1)</script> `|` @octocat #1 [x](y) https://a.b 'q' \"";

/// A document that a run of this name left.
pub(crate) fn fixture(name: &str) -> Document {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.json"));
    Document::read(&file).expect("the document of a real run")
}

/// All of them.
pub(crate) fn fixtures() -> Vec<Document> {
    ["packs", "packs_later", "store", "replication", "branches"].map(fixture).into()
}

pub(crate) fn host() -> Host {
    Host {
        cpu: "A processor".to_owned(),
        cores: 2,
        memory_bytes: 25_200_000_000,
        kernel: "Linux 6.1 x86_64".to_owned(),
        file_system: "ext4".to_owned(),
        load_average: [0.1, 1.0, 1.0],
        fsync_floor_us: 812.0,
    }
}

/// A run of the suite `store`, so many hours after the first, with one latency and one count.
pub(crate) fn run(hours: i64, put_us: f64, syncs: f64) -> Document {
    let mut evidence = Evidence::new("store", host());
    let first: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    evidence.started_at = first + hours.hours();
    evidence.finished_at = evidence.started_at + 1.minute();
    evidence.command = ["duramen", "lab", "run", "store"].map(str::to_owned).into();
    evidence.configure("rows", 1_000);
    evidence.configure("seed", hours);
    evidence.measurements.push(Measurement::scalar("put/strict", "us", put_us));
    evidence.measurements.push(Measurement::scalar("put/strict.syncs_per_op", "syncs", syncs));
    evidence.check("syncs happen", true, "all of them");
    evidence.decide();
    Document { file: PathBuf::from(format!("run-{hours}.json")), evidence }
}

/// Less is better of everything.
pub(crate) const LOWER: Judge<'static> = &|_, _| Better::Lower;
