//! Directories of measurements: documents of real runs, and made ones.

use duramen_attachments::lab::{Lab, Suites};
use duramen_measure::{
    evidence::{Evidence, Finding, Measurement},
    host::Host,
    target::{Standing, Target},
};
use duramen_reports::{
    page::{Report, Tile},
    suite::{Headline, Suite},
};
use jiff::{Timestamp, ToSpan};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// What would be code if anybody took it for that.
pub(crate) const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\u{202e}\u{0}'\"";

/// Where documents of real runs lie, of each format that was released.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/tests/fixtures")
}

/// A suite whose only target is that `put_us` is at most 5 us; one document makes it panic.
struct Example;

impl Suite for Example {
    fn name(&self) -> &'static str {
        "example"
    }

    fn about(&self) -> &'static str {
        "What a put takes"
    }

    fn targets(&self, evidence: &Evidence) -> Vec<Standing> {
        assert!(evidence.text_set("panics").is_none(), "a document that its suite does not expect");
        let target = Target::most("put", (), 5.0, "us");
        let standing = |measured| Standing { name: "put_us".to_owned(), ..target.hold(measured) };
        evidence.median("put_us").map(standing).into_iter().collect()
    }

    fn diagnose(&self, _evidence: &Evidence) -> Vec<Finding> {
        Vec::new()
    }

    fn headline(&self, _evidence: &Evidence) -> Option<Headline> {
        None
    }

    fn tiles(&self, evidence: &Evidence) -> Vec<Tile> {
        let figure = evidence.median("put_us").map(|figure| format!("{figure} us"));
        let tile = |figure| Tile { figure, what: "a put".to_owned(), beside: String::new() };
        figure.map(tile).into_iter().collect()
    }

    fn table(&self, _evidence: &Evidence) -> String {
        String::new()
    }

    fn page(&self, _evidence: &Evidence) -> Report {
        Report::new("example")
    }
}

static SUITES: [&dyn Suite; 1] = [&Example];

pub(crate) fn lab() -> Lab {
    Lab::new(Suites::new(&SUITES))
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
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

/// A run of the suite `example`, so many minutes after the first.
pub(crate) fn run(minutes: i64, put_us: f64) -> Evidence {
    let mut evidence = Evidence::new("example", host());
    let first: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    evidence.started_at = first + minutes.minutes();
    evidence.finished_at = evidence.started_at + 30.seconds();
    evidence.command = ["duramen", "lab", "run", "example"].map(str::to_owned).into();
    evidence.configure("rows", 1_000);
    evidence.configure("seed", minutes);
    evidence.measurements.push(Measurement::scalar("put_us", "us", put_us));
    evidence.measurements.push(Measurement::scalar("syncs", "syncs", 1.0));
    evidence.check("syncs happen", true, "all of them");
    evidence.decide();
    evidence
}

pub(crate) fn write(folder: &Path, name: &str, evidence: &Evidence) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
    evidence.write(&path).expect("the document");
}

/// Copies what lies in a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder");
    for entry in fs::read_dir(from).expect("the folder").flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).expect("the file");
    }
}
