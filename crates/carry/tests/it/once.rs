//! A change set is applied once, whoever applies it, and whatever happens to the connection.

use crate::support::{differences, run, target_at, text, Server};
use duramen_carry::{apply, ApplyError, ApplyOptions, Counts, Outcome};
use std::{
    path::PathBuf,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    task::JoinHandle,
};

const SETUP: &str =
    "create table t (id int primary key, v int); insert into t select i, 0 from generate_series(1, 10) i;
    create table bare (a int)";
const WORK: &[&str] = &["update t set v = v + 1", "insert into bare values (1), (1)"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_a_second_time_nothing_is_done() {
    let server = Server::start();
    let [source, branch, target] = server.three(SETUP, WORK).await;
    let set = server.change_set(&source, &branch).await;
    let first = server.apply(&set, &target).await.unwrap();
    assert_eq!(first, Outcome::Applied(Counts { inserted: 2, updated: 10, ..Counts::default() }));
    // Even where it would fit once more.
    run(&server.connect(&target).await, "update t set v = 0").await;
    let Outcome::AlreadyApplied(applied) = server.apply(&set, &target).await.unwrap() else {
        panic!("twice")
    };
    assert_eq!(applied.by, "postgres");
    let client = server.connect(&target).await;
    assert_eq!(text(&client, "select sum(v) || ' ' || (select count(*) from bare) from t").await, "0 2");
    let noted =
        "select digest || branch || source || generation || inserted || updated from duramen.applied_changes";
    assert_eq!(text(&client, noted).await, format!("{}tryapp1210", set.digest()));

    // The record of what was applied is not included in change sets made from the target.
    drop(client);
    let copy = server.copy(&target).await;
    let [_, other, _] = server.three(SETUP, &["update t set v = 9 where id = 1"]).await;
    let another = server.change_set(&source, &other).await;
    server.apply(&another, &copy).await.unwrap();
    let away = server.change_set(&source, &copy).await;
    assert!(away.ddl().is_empty(), "{:?}", away.ddl());
    server.apply(&away, &server.copy(&source).await).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c4_of_several_at_a_time_one_does_it() {
    let server = Arc::new(Server::start());
    let [source, branch, target] = server.three(SETUP, WORK).await;
    let set = Arc::new(server.change_set(&source, &branch).await);
    for round in 0..3 {
        let target = if round == 0 { target.clone() } else { server.copy(&source).await };
        let all: Vec<_> = (0..6)
            .map(|_| {
                let (server, set, target) = (Arc::clone(&server), Arc::clone(&set), target.clone());
                tokio::spawn(async move { server.apply(&set, &target).await.unwrap() })
            })
            .collect();
        let mut applied = 0;
        for each in all {
            applied += u32::from(matches!(each.await.unwrap(), Outcome::Applied(_)));
        }
        assert_eq!(applied, 1);
        assert_eq!(text(&server.connect(&target).await, "select sum(v)::text from t").await, "10");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_somebody_elses_table_of_applied_sets_is_not_trusted() {
    let server = Server::start();
    let [source, branch, target] = server.three(SETUP, WORK).await;
    let set = server.change_set(&source, &branch).await;
    let role = format!("r_{target}");
    run(
        &server.connect(&target).await,
        &format!(
            "create role {role}; grant create on database {target} to {role}; set role {role}; create schema duramen; \
             create table duramen.applied_changes (digest text primary key, applied_at timestamptz, applied_by text)"
        ),
    )
    .await;
    let error = server.apply(&set, &target).await.unwrap_err();
    assert!(matches!(error, ApplyError::Registry(_)), "{error:?}");
}

/// Where a connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Break {
    /// The server never hears of the commit.
    Request,
    /// It has committed, and its answer does not come.
    Answer,
}

/// A proxy that breaks the first connection at its commit.
struct Proxy {
    dir: tempfile::TempDir,
    accepting: JoinHandle<()>,
    broke: Arc<AtomicBool>,
}

impl Proxy {
    fn start(upstream: PathBuf, at: Break) -> Proxy {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join(upstream.file_name().unwrap())).unwrap();
        let broke = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&broke);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = UnixStream::connect(&upstream).await.unwrap();
                tokio::spawn(pass(client, server, at, Arc::clone(&seen)));
            }
        });
        Proxy { dir, accepting, broke }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(mut client: UnixStream, mut server: UnixStream, at: Break, broke: Arc<AtomicBool>) {
    let (mut from_client, mut from_server) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(count @ 1..) = read else { return };
                let bytes = &from_client[..count];
                let is_commit = bytes.windows(7).any(|it| it == b"COMMIT\0") && !broke.load(Ordering::SeqCst);
                if is_commit {
                    broke.store(true, Ordering::SeqCst);
                    if at == Break::Answer {
                        server.write_all(bytes).await.unwrap();
                        // Its answer is there, and so it is done.
                        let _ = server.read(&mut from_server).await;
                    }
                    return;
                }
                if server.write_all(bytes).await.is_err() { return }
            }
            read = server.read(&mut from_server) => {
                let Ok(count @ 1..) = read else { return };
                if client.write_all(&from_server[..count]).await.is_err() { return }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_a_connection_that_breaks_at_the_commit_leaves_no_doubt() {
    let server = Server::start();
    let [source, branch, _] = server.three(SETUP, WORK).await;
    let set = server.change_set(&source, &branch).await;
    for at in [Break::Request, Break::Answer] {
        let target = server.copy(&source).await;
        let proxy = Proxy::start(server.socket(), at);
        let through = target_at(proxy.dir.path(), "postgres", &target);
        let outcome = apply(&set, &through, &ApplyOptions::default()).await;
        assert!(proxy.broke.load(Ordering::SeqCst), "it never came to a commit");
        match (at, outcome) {
            (Break::Request, Err(ApplyError::Lost { .. })) => {
                assert_eq!(differences(&server, &source, &target).await, Vec::<String>::new());
                // Again, by the same way: now it is done.
                let again = apply(&set, &through, &ApplyOptions::default()).await.unwrap();
                assert!(matches!(again, Outcome::Applied(_)), "{again:?}");
            }
            (Break::Answer, Ok(Outcome::Applied(_))) => {}
            (at, outcome) => panic!("{at:?}: {outcome:?}"),
        }
        assert_eq!(differences(&server, &branch, &target).await, Vec::<String>::new(), "{at:?}");
        let again = server.apply(&set, &target).await.unwrap();
        assert!(matches!(again, Outcome::AlreadyApplied(_)), "{again:?}");
    }
}
