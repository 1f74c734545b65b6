//! What another database of several primitives published of itself: figures, and defects.
//!
//! StrataDB 0.1 (Apache-2.0), its own report of 2026-02-01: p50 of each operation at the levels none, buffered and strict. The
//! defects that the report names were fixed later that day; the figures were taken before that.

/// What it is called.
pub(crate) const NAME: &str = "StrataDB 0.1";

/// Where its figures come from.
pub(crate) const SOURCE: &str = "the report of its makers of 2026-02-01";

/// The machine that it was measured on.
pub(crate) const MACHINE: &str = "AMD Ryzen 7 7800X3D, 64 GB DDR5, NVMe, Linux 6.14";

/// About what one sync of that machine's disk took, in microseconds.
pub(crate) const SYNC_US: f64 = 6_100.0;

/// Whether the one that came after it can be run beside ours, and when that was tried.
pub(crate) const SUCCESSOR: &str =
    "The version that came after it cannot be run beside ours: on 2026-11-28 the registry of \
     Rust crates had stratadb 0.0.1 alone, which is there to hold the name and has no interface yet.";

/// The p50 of an operation at its three levels, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Row {
    /// Which of our operations do the same, one after the other.
    pub(crate) ours: &'static [&'static str],
    /// At none, buffered and strict.
    pub(crate) us: [f64; 3],
}

const fn row(ours: &'static [&'static str], us: [f64; 3]) -> Row {
    Row { ours, us }
}

/// All figures. Where it is not said what was read, the dearer of ours stands beside it.
pub(crate) const ROWS: &[Row] = &[
    row(&["kv.put.128B"], [0.922, 6_120.0, 6_540.0]),
    row(&["kv.put.1KB"], [1.02, 6_120.0, 6_570.0]),
    row(&["kv.put.8KB"], [3.93, 6_180.0, 6_630.0]),
    row(&["kv.get.128B"], [0.411, 0.483, 0.501]),
    row(&["kv.get.1KB"], [0.431, 0.484, 0.488]),
    row(&["kv.get.8KB"], [0.527, 0.655, 0.653]),
    row(&["kv.delete"], [1.75, 6_140.0, 6_540.0]),
    row(&["kv.list_prefix"], [934.0, 983.0, 946.0]),
    row(&["state.set"], [2.21, 6_130.0, 6_520.0]),
    row(&["state.read"], [1.10, 6_120.0, 6_470.0]),
    row(&["state.cas"], [2.04, 6_110.0, 6_500.0]),
    row(&["event.append"], [267.0, 6_530.0, 6_530.0]),
    row(&["event.read"], [4.24, 13_770.0, 15_490.0]),
    row(&["event.by_type"], [2_890.0, 12_120.0, 12_450.0]),
    row(&["json.set_root"], [6.04, 24_320.0, 27_580.0]),
    row(&["json.set_path"], [4.31, 24_270.0, 31_040.0]),
    row(&["json.get_root"], [3.89, 14_000.0, 16_140.0]),
    row(&["json.list"], [891.0, 15_620.0, 14_950.0]),
    row(&["vector.upsert"], [2.52, 13_890.0, 16_250.0]),
    row(&["vector.search.10k128"], [68_960.0, 70_190.0, 68_050.0]),
    row(&["vector.get"], [1.20, 1.11, 1.21]),
    row(&["branch.create"], [2.69, 13_860.0, 15_560.0]),
    row(&["branch.switch"], [0.451, 13_910.0, 15_550.0]),
    // Theirs makes the branch that it deletes.
    row(&["branch.create", "branch.delete"], [6.34, 92_530.0, 98_200.0]),
];

/// What the report calls its defects, and what of a run shows whether we have one, too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Defect {
    /// What is wrong there.
    pub(crate) what: &'static str,
    /// What shows it.
    pub(crate) shown_by: Shown,
}

/// What shows a defect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shown {
    /// These writes sync as often as they commit at the level buffered.
    BufferedSyncs(&'static [&'static str]),
    /// These reads sync at the level strict.
    ReadSyncs(&'static [&'static str]),
    /// This one appends to the log at the level strict.
    Appends(&'static str),
    /// The first takes this many times the second in memory.
    Times(&'static str, &'static str, f64),
    /// These writes sync more than once at the level strict.
    SeveralSyncs(&'static [&'static str]),
    /// At the level strict it takes more than this many syncs of the disk.
    Takes(&'static str, f64),
}

/// All six.
pub(crate) const DEFECTS: &[Defect] = &[
    Defect {
        what: "buffered does not batch",
        shown_by: Shown::BufferedSyncs(&["kv.put.128B", "state.set", "event.append", "json.set_root"]),
    },
    Defect {
        what: "reads of state, events, JSON and branches sync",
        shown_by: Shown::ReadSyncs(&["state.read", "event.read", "json.get_root", "branch.switch"]),
    },
    Defect { what: "switching to a branch writes", shown_by: Shown::Appends("branch.switch") },
    Defect {
        what: "appending an event takes 100 times a put",
        // Ten times would be too much already.
        shown_by: Shown::Times("event.append", "kv.put.128B", 10.0),
    },
    Defect {
        what: "a JSON operation syncs two to four times",
        shown_by: Shown::SeveralSyncs(&["json.set_root", "json.set_path", "json.delete_path"]),
    },
    Defect { what: "deleting a branch takes 93 to 233 ms", shown_by: Shown::Takes("branch.delete", 2.0) },
];
