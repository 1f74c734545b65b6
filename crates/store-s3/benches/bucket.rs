//! What a store in a bucket costs: `make bench-store-s3`.
//!
//! Against versitygw on this host (`DURAMEN_VERSITYGW`), straight and behind a proxy that holds each request up as long as S3
//! takes. Everything that is compared is measured in the same run, by turns. `MEGABYTES` says how large the store is of which the
//! opening is timed, `SECONDS` how long requests are counted.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    reason = "a program that is run by hand, on helpers of tests"
)]

#[path = "../tests/it/client.rs"]
mod client;
#[path = "../tests/it/proxy.rs"]
mod proxy;
#[path = "../tests/it/server.rs"]
mod server;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use duramen_base::clock;
use duramen_store::{Durability, Options, Scope as _};
use duramen_store_s3::object_store::path::Path as Key;
use duramen_store_s3::object_store::{ObjectStore, PutMode, PutOptions};
use duramen_store_s3::{open_on, LogPlace, RemoteOptions};

use client::client;
use proxy::{Fault, Proxy};
use server::Server;

fn options() -> Options {
    Options { durability: Durability::Strict, ..Options::default() }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn percentile(times: &mut [Duration], part: f64) -> f64 {
    times.sort();
    times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3
}

/// Puts alone, one after another, on the condition that is used for the log, by the same runtime.
fn puts(bucket: &Arc<dyn ObjectStore>, runtime: &tokio::runtime::Runtime, count: usize) -> Vec<Duration> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut times = Vec::new();
    for _ in 0..count {
        let key = Key::from(format!("puts/{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let (bucket, begin) = (bucket.clone(), clock::now());
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let put = async move { bucket.put_opts(&key, vec![7; 250].into(), options).await };
        runtime.block_on(runtime.spawn(put)).unwrap().unwrap();
        times.push(begin.elapsed());
    }
    times
}

/// Commits of so many writers, each one after another.
fn commits(store: &duramen_store::Store, writers: usize, count: usize) -> Vec<Duration> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                scope.spawn(move || {
                    let main = store.branch("main").unwrap();
                    let mut times = Vec::new();
                    for n in 0..count {
                        let begin = clock::now();
                        main.kv().put(format!("{writer} {}", n % 1000), "x".repeat(100)).unwrap();
                        times.push(begin.elapsed());
                    }
                    times
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// The same commit through the write-ahead log of SlateDB: a put, and a flush that is asked for.
fn slate(bucket: &Arc<dyn ObjectStore>, runtime: &tokio::runtime::Runtime, count: usize) -> Vec<Duration> {
    let settings = slatedb::Settings { flush_interval: None, ..Default::default() };
    let db = slatedb::Db::builder("slate", bucket.clone()).with_settings(settings).with_db_cache_disabled();
    runtime.block_on(async move {
        let db = db.build().await.unwrap();
        let mut times = Vec::new();
        for n in 0..count {
            let begin = clock::now();
            db.put(format!("{}", n % 1000), vec![7_u8; 150]).await.unwrap();
            db.flush().await.unwrap();
            times.push(begin.elapsed());
        }
        db.close().await.unwrap();
        times
    })
}

fn latency(server: &Server) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!("a strict commit, milliseconds (p50, p99), beside one conditional put of 250 bytes alone");
    for (name, held_up) in [("straight", 0), ("held up 20 ms", 20)] {
        let proxy = Proxy::start(server.address());
        let address = if held_up > 0 { proxy.address() } else { server.address() };
        proxy.set_patience(Duration::from_millis(held_up * 4));
        proxy.breaks(1, u64::MAX / 2, Fault::Slow);
        let bucket = client(address);
        let count = if held_up > 0 { 60 } else { 300 };
        let store =
            open_on(bucket.clone(), true, &format!("l{held_up}"), options(), RemoteOptions::default());
        let store = store.unwrap();
        let (mut alone, mut one, mut eight) = (Vec::new(), Vec::new(), Vec::new());
        puts(&bucket, &runtime, 20);
        commits(&store, 8, 5);
        let mut rates = (0.0_f64, 0.0_f64);
        // By turns, so that whatever else this host does meets all of them.
        for _ in 0..5 {
            alone.extend(puts(&bucket, &runtime, count));
            let begin = clock::now();
            one.extend(commits(&store, 1, count));
            rates.0 = rates.0.max(count as f64 / begin.elapsed().as_secs_f64());
            let begin = clock::now();
            eight.extend(commits(&store, 8, count));
            rates.1 = rates.1.max(8.0 * count as f64 / begin.elapsed().as_secs_f64());
        }
        let mut by_slate = slate(&bucket, &runtime, count * 2);
        let base = percentile(&mut alone, 0.5);
        println!("  {name}");
        for (what, times) in [
            ("put alone", &mut alone),
            ("1 writer", &mut one),
            ("8 writers", &mut eight),
            ("SlateDB's log, 1", &mut by_slate),
        ] {
            let (p50, p99) = (percentile(times, 0.5), percentile(times, 0.99));
            println!("    {what:<18} {p50:8.2} {p99:8.2}   {:.2}x", p50 / base);
        }
        println!("    commits a second: {:.0} with 1 writer, {:.0} with 8", rates.0, rates.1);
        let counters = store.counters();
        println!("    log: {} commits in {} puts", counters.log_appends, counters.log_syncs);
    }
    let folder = tempfile::tempdir().unwrap();
    let remote = RemoteOptions {
        log: LogPlace::Local { folder: folder.path().to_owned(), gives_up: false },
        ..RemoteOptions::default()
    };
    let store = open_on(server.client(), true, "local", options(), remote).unwrap();
    let (mut one, mut eight) = (commits(&store, 1, 500), commits(&store, 8, 500));
    println!("  the log in a folder of this host");
    for (what, times) in [("1 writer", &mut one), ("8 writers", &mut eight)] {
        println!("    {what:<18} {:8.2} {:8.2}", percentile(times, 0.5), percentile(times, 0.99));
    }
}

/// Opens stores of several sizes, from nothing that is on this host.
fn opening(server: &Server) {
    let most = number("MEGABYTES", 1000);
    println!(
        "opening a store, and the first read, milliseconds; each request is held up 20 ms in the second pair"
    );
    let bucket = server.client();
    let fill =
        Options { durability: Durability::Memory, checkpoint_log_bytes: 256 << 20, ..Options::default() };
    let store = open_on(bucket, true, "large", fill, RemoteOptions::default()).unwrap();
    let main = store.branch("main").unwrap();
    let mut done = 0;
    let mut rng = duramen_base::entropy::rng(7);
    let begin = clock::now();
    for target in [most / 10, most] {
        while done < target {
            // Each MiB of what does not compress, in 16 pairs.
            let batch = (0..16).map(|n| {
                let value: Vec<u8> = (0..(64 << 10) / 8).flat_map(|_| rng.u64(..).to_le_bytes()).collect();
                (format!("{done:06} {n:02}"), duramen_store::Value::Bytes(value))
            });
            main.kv().put_many(batch.collect::<Vec<_>>()).unwrap();
            done += 1;
        }
        store.checkpoint().unwrap();
        let bytes = store.info().node_bytes;
        eprintln!("{done} MiB after {:?}", begin.elapsed());
        for held_up in [0, 20] {
            let proxy = Proxy::start(server.address());
            proxy.set_patience(Duration::from_millis(held_up * 4));
            proxy.breaks(1, u64::MAX / 2, Fault::Slow);
            let address = if held_up > 0 { proxy.address() } else { server.address() };
            let (mut opens, mut reads) = (Vec::new(), Vec::new());
            for turn in 0..5 {
                let bucket = client(address);
                let begin = clock::now();
                let read = Options { read_only: true, ..options() };
                let reader = open_on(bucket, true, "large", read, RemoteOptions::default()).unwrap();
                opens.push(begin.elapsed());
                let begin = clock::now();
                let key = format!("{:06} 03", turn * (done - 1) / 4);
                assert!(reader.branch("main").unwrap().kv().get(key).unwrap().is_some());
                reads.push(begin.elapsed());
            }
            let (open, read) = (percentile(&mut opens, 0.5), percentile(&mut reads, 0.5));
            let requests =
                if held_up > 0 { format!(", {:?} in all", proxy.by_method()) } else { String::new() };
            println!("  {:>6} MiB of nodes, held up {held_up:>2} ms: read-only {open:7.1}, first read {read:7.1}{requests}", bytes >> 20);
        }
    }
    store.close().unwrap();
    drop((main, store));
    for held_up in [0, 20] {
        let proxy = Proxy::start(server.address());
        proxy.set_patience(Duration::from_millis(held_up * 4));
        proxy.breaks(1, u64::MAX / 2, Fault::Slow);
        let mut opens = Vec::new();
        for _ in 0..5 {
            let bucket = client(proxy.address());
            let begin = clock::now();
            let store = open_on(bucket, true, "large", options(), RemoteOptions::default()).unwrap();
            opens.push(begin.elapsed());
            store.close().unwrap();
        }
        println!("  to write, held up {held_up:>2} ms: {:7.1}", percentile(&mut opens, 0.5));
    }
}

/// Requests an hour, idle and with commits.
fn requests(server: &Server) {
    let seconds = number("SECONDS", 60);
    println!("requests an hour, counted for {seconds} s");
    let proxy = Proxy::start(server.address());
    let store =
        open_on(client(proxy.address()), true, "requests", options(), RemoteOptions::default()).unwrap();
    let hour = |counts: std::collections::BTreeMap<String, u64>| {
        let mut text = String::new();
        for (method, count) in counts {
            text += &format!(" {method} {:.0}", count as f64 * 3600.0 / seconds as f64);
        }
        text
    };
    proxy.by_method();
    std::thread::sleep(Duration::from_secs(seconds));
    println!("  idle:                                {}", hour(proxy.by_method()));
    for (name, writers) in [("one after another", 1_u64), ("of 8 writers", 8)] {
        let main = store.branch("main").unwrap();
        let commits = AtomicU64::new(0);
        let begin = clock::now();
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let (main, commits) = (&main, &commits);
                scope.spawn(move || {
                    let each = Duration::from_secs_f64(writers as f64 / 100.0);
                    // All of them at the same time, as requests come that something wakes.
                    for n in 0_u32.. {
                        let due = each * n;
                        if due > Duration::from_secs(seconds) {
                            return;
                        }
                        std::thread::sleep(due.saturating_sub(begin.elapsed()));
                        main.kv().put(format!("{writer} {}", n % 1000), "x".repeat(100)).unwrap();
                        commits.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let rate = commits.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64();
        println!("  {rate:5.1} commits a second, {name:<17}: {}", hour(proxy.by_method()));
    }
    println!("  a checkpoint a minute adds:");
    proxy.by_method();
    for _ in 0..5 {
        commits(&store, 1, 50);
        let _ = proxy.by_method();
        store.checkpoint().unwrap();
        println!("   {:?}", proxy.by_method());
    }
    store.close().unwrap();
}

fn main() {
    let Some(server) = Server::start() else { return };
    let only = std::env::var("ONLY").unwrap_or_default();
    if only.is_empty() || only == "latency" {
        latency(&server);
    }
    if only.is_empty() || only == "requests" {
        requests(&server);
    }
    if only.is_empty() || only == "opening" {
        opening(&server);
    }
}
