//! What was promised is known again after a restart; what ended or was torn is not.

use super::{Journal, LeaseRecord, Opened};
use crate::model::Policy;
use duramen_base::clock;
use std::fs;

fn lease(id: &str, protected: bool) -> LeaseRecord {
    LeaseRecord {
        id: id.to_owned(),
        name: format!("name-of-{id}"),
        source: "flights".to_owned(),
        generation: 1,
        policy: Policy::Ddl,
        volume: "v-1".to_owned(),
        socket: "s".to_owned(),
        durable: false,
        all_databases: false,
        audits_statements: false,
        created_at: clock::utc_now(),
        expires_at: clock::utc_now(),
        protected,
        boot: "boot".to_owned(),
        problem: None,
        unentered: false,
        holder: None,
        base: None,
        inherited: None,
    }
}

#[test]
fn the_last_line_of_an_id_counts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("leases.jsonl");
    let Opened { journal, leases, .. } = Journal::open(&path).unwrap();
    assert!(leases.is_empty());
    journal.put(&lease("a", false)).unwrap();
    journal.put(&lease("b", false)).unwrap();
    let changed = lease("a", true);
    journal.put(&changed).unwrap();
    journal.end("b").unwrap();
    drop(journal);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text + "{\"lease\":{\"id\":\"torn").unwrap();
    let Opened { leases, damaged, .. } = Journal::open(&path).unwrap();
    assert_eq!(
        (leases, damaged),
        (vec![changed], None),
        "a torn tail was never acknowledged: it is not damage"
    );
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1, "rewritten to what counts");
}

/// FL-3: what was given another name is not taken for ended when somebody else gets its earlier one.
#[test]
fn a_lease_with_another_name_outlives_who_gets_the_earlier_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("leases.jsonl");
    let Opened { journal, .. } = Journal::open(&path).unwrap();
    let named = |id: &str, name: &str| LeaseRecord { name: name.to_owned(), ..lease(id, false) };
    journal.put(&named("a", "try")).unwrap();
    journal.put(&named("a", "try.was-1")).unwrap();
    journal.put(&named("b", "try")).unwrap();
    drop(journal);
    let Opened { leases, damaged, .. } = Journal::open(&path).unwrap();
    let names: Vec<&str> = leases.iter().map(|lease| lease.name.as_str()).collect();
    assert_eq!((names, damaged), (vec!["try.was-1", "try"], None));
}

/// A damaged line was left out with a warning, the file was rewritten without it, and what it had named was swept; a
/// byte that is not UTF-8 kept the daemon from starting. B22.
#[test]
fn a_damaged_line_keeps_the_journal_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("leases.jsonl");
    let Opened { journal, .. } = Journal::open(&path).unwrap();
    for id in ["a", "b", "c"] {
        journal.put(&lease(id, true)).unwrap();
    }
    drop(journal);
    let mut bytes = fs::read(&path).unwrap();
    // One that no longer reads, and one whose lease would have lost its protection.
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 5;
    bytes[second] = 0xff;
    fs::write(&path, &bytes).unwrap();
    let Opened { journal, leases, damaged, .. } = Journal::open(&path).unwrap();
    assert_eq!(leases.iter().map(|lease| lease.id.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(fs::read(damaged.expect("a copy")).unwrap(), bytes);
    // Until what it may have named is safe, it stays as it is: the daemon may be killed before.
    let again = Journal::open(&path).unwrap();
    assert_eq!((again.leases, again.damaged), (leases.clone(), Some(path.with_extension("damaged-1.jsonl"))));
    journal.rewrite(&leases, &[]).unwrap();
    let Opened { leases, damaged, .. } = Journal::open(&path).unwrap();
    assert_eq!((leases.len(), damaged), (2, None), "told once");
}

/// Both leases came back, one of them not reachable, because the map of names holds one of a name.
#[test]
fn of_two_leases_of_a_name_the_later_one_counts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("leases.jsonl");
    let Opened { journal, .. } = Journal::open(&path).unwrap();
    let named = |id: &str| LeaseRecord { name: "try".to_owned(), ..lease(id, false) };
    journal.put(&named("later-by-its-id")).unwrap();
    journal.end("later-by-its-id").unwrap();
    journal.put(&named("a")).unwrap();
    drop(journal);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("{\"end\"", "{\"enf\"")).unwrap();
    let Opened { leases, damaged, .. } = Journal::open(&path).unwrap();
    assert_eq!(leases.iter().map(|lease| lease.id.as_str()).collect::<Vec<_>>(), ["a"]);
    assert!(damaged.is_some(), "what the earlier one had goes to the quarantine");
}
