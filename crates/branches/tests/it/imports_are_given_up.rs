//! An import that nobody waits for any more, or whose daemon stops, ends soon in the middle of its copy, and leaves nothing.

use crate::{
    origin::{import, OtherServer},
    slow_origin::{Pace, SlowOrigin},
    support::{majors, pool, Home},
};
use duramen_api::model::{AddSource, Origin, Policy, SourceSettings};
use duramen_base::clock;
use duramen_branches::{users_of, Engine, EngineError};
use duramen_postgres::processes_below;
use std::{
    fs,
    path::Path,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::Duration,
};
use tokio::task::JoinHandle;

/// How soon it ends.
const SOON: Duration = Duration::from_secs(30);
/// What a copy begins with, in progress.
const COPIES: [&str; 4] =
    ["base backup", "copying the data directory", "running the script", "restoring the archive"];

/// An import that runs.
struct Running {
    task: JoinHandle<Result<(), EngineError>>,
    /// Whether it copies.
    copies: Arc<AtomicBool>,
}

impl Running {
    fn start(engine: &Arc<Engine>, name: &str, origin: Origin, settings: SourceSettings) -> Running {
        let request =
            AddSource { name: name.to_owned(), origin, database: Some("shop".to_owned()), settings };
        let copies = Arc::new(AtomicBool::new(false));
        let (engine, seen) = (Arc::clone(engine), Arc::clone(&copies));
        let progress = move |doing: &str, _: Option<f64>| {
            seen.fetch_or(COPIES.contains(&doing), Ordering::Release);
        };
        let task = tokio::spawn(async move { engine.add_source(request, progress).await.map(drop) });
        Running { task, copies }
    }

    async fn until_it_copies(&self) {
        crate::support::until("it copies", async || {
            assert!(!self.task.is_finished(), "it has ended");
            self.copies.load(Ordering::Acquire)
        })
        .await;
    }

    /// Its caller goes away.
    async fn leave(self) {
        self.task.abort();
        assert!(self.task.await.is_err_and(|error| error.is_cancelled()));
    }
}

fn left_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().display().to_string()).collect()
}

/// What of an import that did not come to its end is there.
fn left_overs(home: &Home) -> Vec<String> {
    let places = [
        "volumes/imports",
        "volumes/snapshots",
        "sources",
        "run",
        "logs",
        "origins",
        "scratch",
        "scratch.btrfs",
    ];
    let mut left: Vec<String> = Vec::new();
    for path in places.map(|place| home.path().join(place)) {
        match path.is_file() {
            true => left.push(path.display().to_string()),
            false => left.extend(left_in(&path)),
        }
    }
    left.extend(processes_below(home.path()).iter().map(|pid| format!("process {pid}")));
    left.extend(users_of(home.path()));
    left
}

async fn nothing_is_left(home: &Home, what: &str) {
    let begin = clock::now();
    loop {
        let left = left_overs(home);
        if left.is_empty() {
            return;
        }
        assert!(begin.elapsed() < SOON, "{what}: after {:?} there is {left:?}", begin.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn masked() -> SourceSettings {
    let rules = r#"{"columns": {"public.t": {"word": "null"}}}"#;
    let masking = Some(serde_json::from_str(rules).expect("rules"));
    SourceSettings { masking, ..SourceSettings::default() }
}

/// Invariant B18. The copy of a server went on for as long as the server liked, under the eyes of nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_server_ends_with_its_caller() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = OtherServer::start(&home, majors()[0]).await;
    origin
        .run("shop", "create table t as select n as x, 'word ' || n as word from generate_series(1, 1000) n")
        .await;
    let slow = SlowOrigin::start(&home, "slow", &origin, "BASE_BACKUP", Pace::StopsAfter(1 << 20));
    for settings in [SourceSettings::default(), masked()] {
        let what = format!("masked: {}", settings.masking.is_some());
        let running = Running::start(&engine, "app", slow.origin(), settings.clone());
        running.until_it_copies().await;
        crate::support::until("the copy has begun", async || slow.met.load(Ordering::Acquire)).await;
        assert!(!left_overs(&home).is_empty(), "{what}: it runs");
        // One that waits for its turn is given up alone.
        let waits = Running::start(&engine, "other", slow.origin(), SourceSettings::default());
        tokio::time::sleep(Duration::from_millis(50)).await;
        waits.leave().await;
        assert!(!running.task.is_finished());
        running.leave().await;
        nothing_is_left(&home, &what).await;
        assert!(engine.sources().is_empty());
    }
    import(&engine, "app", origin.running(), &[]).await.expect("the next one");
    engine.close().await.expect("close");
}

/// The same for files and scripts, whose work waits for nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_files_ends_with_its_caller() {
    let home = Home::new();
    let engine = home.open().await;
    let script = home.beside("slow.sql");
    fs::write(&script, "create table t (x int); select pg_sleep(120);").expect("the script");
    let script = Origin::Script { path: script.display().to_string() };
    let running = Running::start(&engine, "app", script, pool(&[(Policy::ReadWrite, 1)]));
    running.until_it_copies().await;
    running.leave().await;
    nothing_is_left(&home, "a script").await;

    let mut origin = OtherServer::start(&home, majors()[0]).await;
    let slow = "create function slow(int) returns int immutable language sql as 'select $1';; \
                create table t (x int);; create index on t (slow(x));; insert into t values (1);; \
                create or replace function slow(int) returns int immutable language plpgsql as \
                $$ begin perform pg_catalog.pg_sleep(120); return $1; end $$";
    origin.run("shop", slow).await;
    let archive = crate::dumps::dump(&home, &origin, "directory", "slow.dir");
    let running = Running::start(&engine, "app", archive, pool(&[(Policy::ReadWrite, 1)]));
    running.until_it_copies().await;
    crate::support::until("the archive is restored", async || {
        left_in(&home.path().join("volumes/imports"))
            .iter()
            .any(|dir| Path::new(dir).join("duramen_archive").exists())
    })
    .await;
    running.leave().await;
    nothing_is_left(&home, "an archive").await;
    origin.stop();
    // Enough for the copy to be seen while it runs.
    let many = origin.cluster.data_dir().join("base/many");
    fs::create_dir(&many).expect("a directory");
    for number in 0..40_000 {
        fs::write(many.join(number.to_string()), "some bytes").expect("a file");
    }
    let running = Running::start(&engine, "app", origin.directory(), pool(&[(Policy::ReadWrite, 1)]));
    running.until_it_copies().await;
    running.leave().await;
    nothing_is_left(&home, "a data directory").await;
    assert!(engine.sources().is_empty());
    engine.close().await.expect("close");
}

/// A daemon that stops does not wait for a copy, and says why there is no source.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_stops_gives_up_a_copy() {
    let home = Home::new();
    let origin = OtherServer::start(&home, majors()[0]).await;
    origin.run("shop", "create table t as select 1 as x, 'word' as word").await;
    let slow = SlowOrigin::start(&home, "slow", &origin, "BASE_BACKUP", Pace::StopsAfter(1 << 20));
    for settings in [SourceSettings::default(), masked()] {
        let engine = home.open().await;
        let what = format!("masked: {}", settings.masking.is_some());
        let running = Running::start(&engine, "app", slow.origin(), settings);
        running.until_it_copies().await;
        let begin = clock::now();
        engine.close().await.expect("close");
        assert!(begin.elapsed() < SOON, "{what}: {:?}", begin.elapsed());
        let error = running.task.await.expect("an answer").expect_err("no source");
        assert_eq!(error.code, "stopping", "{what}: {error}");
        nothing_is_left(&home, &what).await;
    }
}
