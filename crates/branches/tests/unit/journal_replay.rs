//! What was promised is known again after a restart; what ended or was torn is not.

use super::{Journal, LeaseRecord};
use crate::model::Policy;
use duramen_measure::clock;
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
        created_at: clock::utc_now(),
        expires_at: clock::utc_now(),
        protected,
        boot: "boot".to_owned(),
    }
}

#[test]
fn the_last_line_of_an_id_counts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("leases.jsonl");
    let (journal, leases) = Journal::open(&path).unwrap();
    assert!(leases.is_empty());
    journal.put(&lease("a", false)).unwrap();
    journal.put(&lease("b", false)).unwrap();
    let changed = lease("a", true);
    journal.put(&changed).unwrap();
    journal.end("b").unwrap();
    drop(journal);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text + "{\"lease\":{\"id\":\"torn").unwrap();
    let (_, leases) = Journal::open(&path).unwrap();
    assert_eq!(leases, [changed]);
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1, "rewritten to what counts");
}
