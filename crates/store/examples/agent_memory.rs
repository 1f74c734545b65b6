//! The memory of an agent: what it knows and what it did, and a branch for each thing that it tries. What fails is forgotten
//! at once and leaves nothing behind; what succeeds is merged.
//!
//! `cargo run -p duramen-store --example agent_memory`

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use duramen_store::{Branch, MergeOptions, Options, Part, Scope, Store};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    run(tempfile::tempdir()?.path())
}

/// One try of the agent, on a branch of its own: it may write what it likes.
fn attempt(memory: &Branch, plan: &str) -> Result<bool, Box<dyn Error>> {
    memory.events().append("plan", json!({ "text": plan }))?;
    memory.json().set("notes", "$.plan", json!(plan))?;
    let works = plan.contains("cache");
    memory.kv().put("latency_ms", if works { 12 } else { 480 })?;
    Ok(works)
}

/// Everything, in a folder.
pub(crate) fn run(folder: &Path) -> Result<(), Box<dyn Error>> {
    let store = Store::open(folder, Options::default())?;
    let main = store.branch("main")?;
    main.json().set("notes", "$", json!({ "goal": "answer within 50 ms" }))?;
    main.kv().put("latency_ms", 500)?;

    for (number, plan) in ["rewrite the query", "add a cache"].into_iter().enumerate() {
        let name = format!("try/{number}");
        // If the agent dies, the branch goes by itself.
        let branch = store.fork_for("main", &name, Duration::from_secs(3600))?;
        if attempt(&branch, plan)? {
            for change in store.diff("main", &name, &Part::default(), 100)?.entries {
                println!("{plan}: {:?} {}", change.change, change.key);
            }
            store.merge(&name, "main", MergeOptions::default())?;
        }
        store.delete_branch(&name)?;
    }

    // Only the second try is remembered.
    assert_eq!(main.kv().get("latency_ms")?, Some(12.into()));
    let notes = main.json().get("notes", "$")?.ok_or("the notes are gone")?.to_value()?;
    assert_eq!(notes, json!({ "goal": "answer within 50 ms", "plan": "add a cache" }));
    assert_eq!(main.events().len()?, 1);
    assert_eq!(store.branches(false)?.len(), 1);
    store.close()?;
    Ok(())
}
