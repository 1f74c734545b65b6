//! A queue of jobs in state cells: workers claim by compare-and-swap, and a transaction ends a job and records that. Each job is
//! done once, whoever is faster.
//!
//! `cargo run -p duramen-store --example job_queue`

use std::error::Error;
use std::path::Path;

use duramen_store::{Branch, Options, Scope, Store, StoreError};
use serde_json::json;

const JOBS: u64 = 40;
const WORKERS: u64 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    run(tempfile::tempdir()?.path())
}

/// Takes the first job that waits, and says which; none when no job waits.
fn claim(queue: &Branch, worker: u64) -> Result<Option<String>, StoreError> {
    let mut after = None;
    loop {
        let page = queue.state().list("job/", after.as_deref(), 10)?;
        for key in page.items {
            let Some(cell) = queue.state().read(&key)? else { continue };
            if cell.value.as_str() != Some("waiting") {
                continue;
            }
            match queue.state().cas(&key, Some(cell.version), format!("of worker {worker}")) {
                Ok(_) => return Ok(Some(key)),
                // Another worker was first.
                Err(StoreError::VersionConflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let Some(next) = page.next else { return Ok(None) };
        after = Some(next);
    }
}

/// Works until no job waits. Returns how many it did.
fn work(queue: &Branch, worker: u64) -> Result<u64, StoreError> {
    let mut done = 0;
    while let Some(job) = claim(queue, worker)? {
        // All of it, or nothing: a job that is done has its record.
        queue.transact(|tx| {
            tx.state().set(&job, "done")?;
            tx.kv().add("done", 1)?;
            tx.events().append("done", json!({ "job": job, "worker": worker }))?;
            Ok(())
        })?;
        done += 1;
    }
    Ok(done)
}

/// Everything, in a folder.
pub(crate) fn run(folder: &Path) -> Result<(), Box<dyn Error>> {
    let store = Store::open(folder, Options::default())?;
    let queue = store.branch("main")?;
    for number in 0..JOBS {
        queue.state().init(&format!("job/{number:04}"), "waiting")?;
    }
    let done = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let queue = queue.clone();
                scope.spawn(move || work(&queue, worker))
            })
            .collect();
        let done = workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| "a worker panicked")?.map_err(Box::<dyn Error>::from));
        done.sum::<Result<u64, Box<dyn Error>>>()
    })?;
    println!("{done} jobs by {WORKERS} workers");
    assert_eq!(done, JOBS);
    assert_eq!(queue.kv().get("done")?, Some((JOBS as i64).into()));
    assert_eq!(queue.events().len()?, JOBS);
    // The log of events is chained by hashes: nothing was left out, and nothing changed.
    assert_eq!(queue.events().verify()?.first_bad, None);
    store.close()?;
    Ok(())
}
