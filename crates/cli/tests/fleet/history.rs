//! What clients asked and were told, for the checker: one operation a line.

use duramen_base::clock;
use serde_json::json;
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    time::Instant,
};

/// What came of an operation.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    /// It was done: on the branch of that id, which a create may have found there.
    Done { id: String, existing: bool },
    /// There is none of that name.
    None,
    /// Nobody knows whether it was done.
    Unknown,
}

/// A history.
#[derive(Clone)]
pub(crate) struct History {
    begin: Instant,
    lines: Arc<Mutex<Vec<serde_json::Value>>>,
}

impl History {
    pub(crate) fn new() -> History {
        History { begin: clock::now(), lines: Arc::default() }
    }

    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).expect("a short test")
    }

    pub(crate) fn note(&self, client: usize, op: &str, name: &str, call: u64, told: &Told) {
        let (what, id, existing) = match told {
            Told::Done { id, existing } => ("done", id.as_str(), *existing),
            Told::None => ("none", "", false),
            Told::Unknown => ("unknown", "", false),
        };
        let line = json!({
            "client": client, "op": op, "name": name, "call": call, "return": self.now(), "told": what, "id": id,
            "existing": existing,
        });
        self.lines.lock().expect("nobody panics there").push(line);
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.lock().expect("nobody panics there").len()
    }

    /// Has porcupine look whether it is linearizable. The history stays where it is not.
    pub(crate) fn check(&self, dir: &Path) {
        let path = dir.join("history.jsonl");
        let mut file = std::fs::File::create(&path).expect("a file");
        for line in self.lines.lock().expect("nobody panics there").iter() {
            writeln!(file, "{line}").expect("a line");
        }
        let output = check(&path);
        print!("{}", String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            let kept = std::env::temp_dir().join("duramen-fleet-history.jsonl");
            let _ = std::fs::copy(&path, &kept);
            panic!(
                "the history is not linearizable, and is kept in {}:\n{}{}",
                kept.display(),
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

fn check(path: &Path) -> std::process::Output {
    let checker = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/checker");
    let go = ["go", "/usr/local/go/bin/go"]
        .into_iter()
        .find(|go| Command::new(go).arg("version").output().is_ok());
    let go = go.expect("the checker of histories needs Go; apt-get install golang-go, or from go.dev");
    Command::new(go)
        .args(["run", "-mod=readonly", "."])
        .arg(path)
        .current_dir(checker)
        .env("CGO_ENABLED", "0")
        .output()
        .expect("go runs")
}

/// The checker finds what is wrong: a name given twice, a lease lost, one back from the dead.
#[test]
fn the_checker_refuses_what_is_not_linearizable() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = |lines: &[(&str, u64, u64, &str, &str, bool)]| {
        let path = dir.path().join("h.jsonl");
        let text: Vec<String> = lines
            .iter()
            .enumerate()
            .map(|(client, (op, call, back, told, id, existing))| {
                json!({ "client": client, "op": op, "name": "n", "call": call, "return": back, "told": told, "id": id,
                        "existing": existing })
                .to_string()
            })
            .collect();
        std::fs::write(&path, text.join("\n")).expect("a file");
        check(&path).status.success()
    };
    let done = "done";
    assert!(run(&[("create", 1, 2, done, "x", false), ("get", 3, 4, done, "x", false)]));
    assert!(run(&[("create", 1, 9, done, "x", false), ("create", 2, 3, done, "x", true)]));
    assert!(
        run(&[("create", 1, 2, "unknown", "", false), ("get", 3, 4, done, "x", false)]),
        "it may have been done"
    );
    assert!(run(&[("create", 1, 2, "unknown", "", false), ("get", 3, 4, "none", "", false)]), "or not");
    assert!(run(&[
        ("create", 1, 2, done, "x", false),
        ("destroy", 3, 4, "unknown", "", false),
        ("get", 5, 6, done, "x", false),
        ("create", 7, 8, done, "y", false),
    ]));
    assert!(!run(&[("create", 1, 2, done, "x", false), ("create", 3, 4, done, "y", false)]), "given twice");
    assert!(
        !run(&[("create", 1, 5, done, "x", false), ("create", 2, 6, done, "y", false)]),
        "beside each other"
    );
    assert!(!run(&[("create", 1, 2, done, "x", false), ("get", 3, 4, "none", "", false)]), "lost");
    assert!(!run(&[
        ("create", 1, 2, done, "x", false),
        ("destroy", 3, 4, done, "x", false),
        ("get", 5, 6, done, "x", false)
    ]));
}
