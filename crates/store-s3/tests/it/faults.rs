//! Every request of a life of a store is broken in every way, one at a time; and a process is killed at every request.
//!
//! Whatever happens: what was acknowledged at the level strict is there when the store is opened again, the rest is there as
//! a whole or not at all, and nothing waits for ever.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_store_s3::object_store::ObjectStore;
use duramen_store_s3::{open_on, RemoteOptions};
use real::{Durability, Options, Scope as _, Store, StoreError};

use crate::client::{client, client_with};
use crate::proxy::{Fault, Proxy};
use crate::server::Server;

/// A request is given up after this, and everything after that.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(400);
const DEADLINE: Duration = Duration::from_secs(3);
/// No life takes longer than this, whatever is broken.
const LIFE_MAX: Duration = Duration::from_secs(60);
/// Faults at so many requests of each kind are tried, unless `DURAMEN_SOAK_FAULTS` is set: then all are.
const SAMPLE: usize = 10;
/// Lives at the same time.
const THREADS: usize = 6;

fn remote() -> RemoteOptions {
    RemoteOptions {
        request_timeout: REQUEST_TIMEOUT,
        deadline: DEADLINE,
        retries_max: 4,
        ..RemoteOptions::default()
    }
}

fn options() -> Options {
    Options { durability: Durability::Strict, segment_bytes: 1 << 16, ..Options::default() }
}

/// What is committed in a life, one after another. Each commit writes two keys that must agree.
const COMMITS: i64 = 14;

fn commit(store: &Store, number: i64) -> Result<(), StoreError> {
    let main = store.branch("main")?;
    main.transact(|tx| {
        tx.kv().put(format!("a{number:04}"), "x".repeat(number as usize * 37))?;
        tx.kv().put(format!("b{number:04}"), number)
    })?;
    match number {
        3 => drop(store.fork("main", "fork")?),
        5 | 10 => store.checkpoint()?,
        7 => store.branch("fork")?.kv().put("of the fork", 7).map(drop)?,
        12 => store.compact()?,
        _ => {}
    }
    Ok(())
}

/// Lives until an error or the end. Returns the last commit that was acknowledged, and the error.
fn live(bucket: &Arc<dyn ObjectStore>, path: &str, mut told: impl FnMut(i64)) -> (i64, Option<String>) {
    let mut acknowledged = 0;
    let store = match open_on(bucket.clone(), true, path, options(), remote()) {
        Ok(store) => store,
        Err(error) => return (0, Some(error.to_string())),
    };
    for number in last(&store).unwrap_or(0) + 1..=COMMITS {
        if let Err(error) = commit(&store, number) {
            return (acknowledged, Some(error.to_string()));
        }
        acknowledged = number;
        told(number);
    }
    match store.close() {
        Ok(()) => (acknowledged, None),
        Err(error) => (acknowledged, Some(error.to_string())),
    }
}

/// The last commit that is there, if those that are there are whole and without a gap.
fn last(store: &Store) -> Result<i64, String> {
    let main = store.branch("main").map_err(|error| error.to_string())?;
    let found = main.kv().range(.., usize::MAX).map_err(|error| error.to_string())?;
    let found: BTreeMap<String, _> = found.into_iter().map(|(key, value)| (key.to_string(), value)).collect();
    let last = found.len() as i64 / 2;
    for number in 1..=last {
        let a = found.get(&format!("a{number:04}")).and_then(|value| value.as_str());
        let b = found.get(&format!("b{number:04}")).and_then(|value| value.as_i64());
        if a != Some(&"x".repeat(number as usize * 37)) || b != Some(number) {
            return Err(format!("commit {number} of {last} is not whole: {a:?}, {b:?}"));
        }
    }
    if found.len() as i64 != last * 2 {
        return Err(format!("{} keys are there", found.len()));
    }
    let has_fork = store.branches(false).map_err(|error| error.to_string())?.len() == 2;
    if last > 3 && !has_fork {
        return Err(format!("the fork is missing after commit {last}"));
    }
    Ok(last)
}

/// Opens what is left, and compares.
fn check(bucket: &Arc<dyn ObjectStore>, path: &str, acknowledged: i64) -> Result<i64, String> {
    let store = open_on(bucket.clone(), true, path, options(), RemoteOptions::default())
        .map_err(|error| format!("it cannot be opened again: {error}"))?;
    let found = last(&store)?;
    if found < acknowledged {
        return Err(format!("{acknowledged} commits were acknowledged, and {found} are there"));
    }
    // And it goes on. The fork is a commit of its own, after the third.
    if found == 3 && store.branches(false).map_err(|error| error.to_string())?.len() == 1 {
        store.fork("main", "fork").map_err(|error| error.to_string())?;
    }
    for number in found + 1..=COMMITS {
        commit(&store, number).map_err(|error| format!("commit {number} after that: {error}"))?;
    }
    let verified = store.verify(&mut |_| ()).map_err(|error| error.to_string())?;
    if !verified.is_whole() {
        return Err(format!("{verified:?}"));
    }
    store.close().map_err(|error| error.to_string())?;
    Ok(found)
}

fn path() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("faults/{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

#[test]
fn every_request_broken_in_every_way_loses_nothing() {
    let Some(server) = Server::start() else { return };
    let direct = server.client();
    let proxy = Proxy::start(server.address());
    let (acknowledged, error) = live(&client(proxy.address()), &path(), |_| ());
    assert_eq!((acknowledged, error), (COMMITS, None));
    let requests = proxy.requests();
    println!("{requests} requests in a life: {:?}", proxy.by_method());
    assert!(requests > 40, "{requests}");
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut rng = entropy::rng(seed);
    let all = std::env::var_os("DURAMEN_SOAK_FAULTS").is_some();
    let mut jobs = Vec::new();
    for fault in Fault::ALL {
        let mut numbers: Vec<u64> = (1..=requests).collect();
        if !all {
            rng.shuffle(&mut numbers);
            numbers.truncate(SAMPLE);
        }
        // One request, which may be repeated with success; or all from there on.
        jobs.extend(
            numbers.into_iter().map(|number| (fault, number, if rng.u32(..4) == 0 { 1000 } else { 1 })),
        );
    }
    let (jobs, failures) = (Mutex::new(jobs), Mutex::new(Vec::new()));
    let tally = Mutex::new(BTreeMap::<String, u64>::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| loop {
                let Some((fault, number, count)) = jobs.lock().unwrap().pop() else { return };
                match one_life(&server, &direct, fault, number, count) {
                    Ok(came) => *tally.lock().unwrap().entry(format!("{fault:?}: {came}")).or_default() += 1,
                    Err(reason) => {
                        failures
                            .lock()
                            .unwrap()
                            .push(format!("{fault:?} at {number}, {count} times: {reason}"));
                    }
                }
            });
        }
    });
    let (failures, tally) = (failures.into_inner().unwrap(), tally.into_inner().unwrap());
    println!("{tally:#?}");
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n"));
    // One broken request is not the end.
    let went_on = |fault: Fault| tally.get(&format!("{fault:?}: went on")).copied().unwrap_or(0);
    for fault in [Fault::Error, Fault::Busy, Fault::Lost, Fault::DoneAndLost, Fault::HalfAnswered] {
        assert!(went_on(fault) > 0, "{fault:?}");
    }
}

/// A life in which some requests are broken. What came of it.
fn one_life(
    server: &Server,
    direct: &Arc<dyn ObjectStore>,
    fault: Fault,
    number: u64,
    count: u64,
) -> Result<&'static str, String> {
    let proxy = Proxy::start(server.address());
    proxy.set_patience(REQUEST_TIMEOUT * 2);
    proxy.breaks(number, count, fault);
    let path = path();
    let begin = clock::now();
    let (acknowledged, error) = live(&client_with(proxy.address(), REQUEST_TIMEOUT), &path, |_| ());
    let took = begin.elapsed();
    let told = |reason: String| format!("{error:?}: {reason}");
    if took > LIFE_MAX {
        return Err(told(format!("it took {took:?}")));
    }
    // The request that comes late comes now.
    if fault == Fault::Late {
        std::thread::sleep(REQUEST_TIMEOUT * 2);
    }
    if error.is_none() && acknowledged < COMMITS {
        return Err(told(format!("{acknowledged} commits")));
    }
    let found = check(direct, &path, acknowledged).map_err(told)?;
    Ok(match (&error, found > acknowledged) {
        (None, _) => "went on",
        (Some(_), false) => "ended with an error",
        (Some(_), true) => "ended with an error, and more is there than was acknowledged",
    })
}

const ADDRESS_VARIABLE: &str = "DURAMEN_TEST_LIFE_ADDRESS";
const PATH_VARIABLE: &str = "DURAMEN_TEST_LIFE_PATH";

/// The child's part. It does nothing when the test is run by itself.
#[test]
fn child() {
    let Ok(address) = std::env::var(ADDRESS_VARIABLE) else { return };
    let path = std::env::var(PATH_VARIABLE).unwrap();
    let mut out = std::io::stderr();
    let (_, error) = live(&client(&address), &path, |number| {
        out.write_all(format!("acknowledged {number}\n").as_bytes()).unwrap();
    });
    assert_eq!(error, None);
}

#[test]
fn a_process_that_is_killed_at_any_request_loses_nothing() {
    let Some(server) = Server::start() else { return };
    let direct = server.client();
    let counting = Proxy::start(server.address());
    let (acknowledged, error) = live(&client(counting.address()), &path(), |_| ());
    assert_eq!((acknowledged, error), (COMMITS, None));
    let mut more = 0;
    for number in 1..=counting.requests() {
        // Before the server has done it, and after, by turns.
        for after in [false, true] {
            let proxy = Proxy::start(server.address());
            let path = path();
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "faults::child", "--nocapture", "--test-threads", "1"])
                .env(ADDRESS_VARIABLE, proxy.address())
                .env(PATH_VARIABLE, &path)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let pid = rustix::process::Pid::from_child(&child);
            proxy.watch(move |at, _, is_done| {
                if at == number && is_done == after {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            });
            let output = child.wait_with_output().unwrap();
            let told = BufReader::new(&output.stderr[..]).lines().map_while(Result::ok);
            let told = told.filter_map(|line| line.strip_prefix("acknowledged ")?.parse::<i64>().ok()).max();
            let told = told.unwrap_or(0);
            let found = check(&direct, &path, told);
            let found = found.unwrap_or_else(|reason| panic!("killed at {number}, after {after}: {reason}"));
            more += u64::from(found > told);
        }
    }
    println!("{} requests; {more} times more was there than was told", counting.requests());
}
