//! What was, who changed it, and back to it: retained states, tags, the history of a key, and an audit log.
//!
//! `cargo run -p duramen-store --example time_travel`

use std::error::Error;
use std::path::Path;

use duramen_store::event::Direction;
use duramen_store::{Keep, Moment, Options, Primitive, Scope, Store, StoreError};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    run(tempfile::tempdir()?.path())
}

/// Everything, in a folder.
pub(crate) fn run(folder: &Path) -> Result<(), Box<dyn Error>> {
    let store = Store::open(folder, Options::default())?;
    let main = store.branch("main")?;
    store.keep_history("main", Some(Keep::each_commit().versions(1000)))?;

    // A change and who made it, in one commit.
    let change = |who: &str, limit: i64| -> Result<(), StoreError> {
        main.transact(|tx| {
            tx.kv().put("limit", limit)?;
            tx.events().append("limit", json!({ "who": who, "to": limit }))?;
            Ok(())
        })
    };
    change("Ada", 100)?;
    store.tag("main", "approved")?;
    change("Bob", 5_000)?;
    change("Bob", 90_000)?;

    // What it was, also while others write.
    let approved = Moment::Tag("approved".to_owned());
    assert_eq!(main.at(&approved)?.kv().get("limit")?, Some(100.into()));
    let values: Vec<_> = main
        .key_history(Primitive::Kv, "default", "limit", 10)?
        .into_iter()
        .map(|state| state.value)
        .collect();
    assert_eq!(values[..3], [Some(json!(90_000)), Some(json!(5_000)), Some(json!(100))]);

    // Who did it: the events cannot be changed without breaking their chain.
    assert_eq!(main.events().verify()?.first_bad, None);
    for event in main.events().range(.., Direction::Forwards, Some("limit"), 100)?.events {
        println!("{} {}", event.seq, event.payload);
    }

    // Back, but for the audit log: what was approved is picked, and the events stay.
    main.kv().put("limit", main.at(&approved)?.kv().get("limit")?.ok_or("there was no limit")?)?;
    main.events().append("restored", json!({ "to": "approved" }))?;
    assert_eq!((main.kv().get("limit")?, main.events().len()?), (Some(100.into()), 4));

    // All of it, in a branch to look around in.
    let then = store.fork_at("main", &approved, "as-approved")?;
    assert_eq!(then.events().len()?, 1);
    store.close()?;
    Ok(())
}
