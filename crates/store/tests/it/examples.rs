//! The examples do what they say.

#![expect(dead_code, reason = "their `main` is that of a program of its own")]

use std::error::Error;
use std::path::Path;

#[path = "../../examples/agent_memory.rs"]
mod agent_memory;
#[path = "../../examples/job_queue.rs"]
mod job_queue;
#[path = "../../examples/search.rs"]
mod search;
#[path = "../../examples/time_travel.rs"]
mod time_travel;

fn runs(example: fn(&Path) -> Result<(), Box<dyn Error>>) {
    let folder = tempfile::tempdir().unwrap();
    example(folder.path()).unwrap();
}

#[test]
fn the_memory_of_an_agent_keeps_only_the_try_that_worked() {
    runs(agent_memory::run);
}

#[test]
fn each_job_of_the_queue_is_done_once() {
    runs(job_queue::run);
}

#[test]
fn texts_are_found_by_vectors_and_by_fields() {
    runs(search::run);
}

#[test]
fn what_was_is_read_and_brought_back() {
    runs(time_travel::run);
}
