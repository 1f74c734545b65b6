//! F-19: the results of instances take so much memory of a worker, whatever is asked of it, and it is given back.

use super::Scene;
use crate::worker::{start, TestWorker};
use std::{
    io::Read,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// What tells the test below that it is the worker.
const URL: &str = "DF_TEST_WORKER_URL";
/// The memory that the worker may use for results.
const MEMORY: usize = 64 << 20;

/// The worker of the test below, in a process of its own, so that its memory can be measured. It ends with its input.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_for_a_worker() {
    let Ok(url) = std::env::var(URL) else { return };
    let _worker = TestWorker::start_with_memory(&url, 10, MEMORY).await;
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await.unwrap().unwrap();
}

/// A figure of a process, in MiB.
fn mib(of: &Child, figure: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", of.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<usize>().unwrap() >> 10
}

#[tokio::test(flavor = "multi_thread")]
async fn large_results_of_many_instances_do_not_fill_the_memory() {
    let scene = Scene::set().await;
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["worker_faults::memory::a_process_for_a_worker", "--exact"])
        .env(URL, scene.database.url())
        // Large buffers go back when they are freed, as with the allocator of the program.
        .env("MALLOC_MMAP_THRESHOLD_", "131072")
        .env("MALLOC_ARENA_MAX", "2")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // In turns, and outside of them: 20 instances that hold 4 MB each, and so 80 MB, of which several copies are made.
    let large = |number: u32| {
        let nap = if number.is_multiple_of(2) { "" } else { ", pg_sleep(0.1)::text" };
        format!("'SELECT repeat(''x'', 1000000) AS x{nap}'")
    };
    for number in 0..20 {
        let four = vec![large(number); 4].join(", ");
        start(&scene.client, &format!("df.join_all(ARRAY[{four}]) ~> 'SELECT 1'")).await;
    }
    scene.all_ended(Duration::from_secs(120)).await;
    scene.ledger_is_exact(0).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (most, now) = (mib(&process, "VmHWM"), mib(&process, "VmRSS"));
    eprintln!("the most was {most} MiB, and now it is {now} MiB");
    drop(process.stdin.take());
    process.wait().unwrap();
    // Beside the results: the program, and its connections.
    assert!(most < 250, "the worker took {most} MiB");
    assert!(now < 100, "the worker keeps {now} MiB");
}
