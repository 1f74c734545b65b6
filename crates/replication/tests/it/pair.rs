//! A pair of our own, with real servers.

use super::user::{folder, majors};
use duramen_base::clock;
use duramen_postgres::processes_below;
use duramen_replication::{
    pair::{Pair, DATABASE},
    scenario::Node,
    Options,
};
use duramen_reports::suite::SuiteError;
use rustix::process::{kill_process, Pid, Signal};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

fn assert_nothing_left(dir: &Path) {
    assert_eq!(std::fs::read_dir(dir).expect("it is there").count(), 0, "something is left in the folder");
    let dir = dir.canonicalize().expect("it is there");
    assert_eq!(processes_below(&dir), [0_u32; 0], "something still runs");
}

async fn setting(pair: &Pair, node: Node, name: &str) -> String {
    let client = pair.connect(node).await.unwrap();
    client.query_one("SELECT current_setting($1)", &[&name]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_pair_of_our_own_is_synchronous_and_leaves_nothing() {
    for major in majors() {
        let dir = folder();
        let options = Options { major: Some(major), quick: true, ..Options::new(dir.path(), "duramen") };
        let pair = Pair::open(&options, &|_| {}).await.unwrap();
        eprintln!("{major}: synchronous after {:?}", pair.ready_after().unwrap());
        assert!(pair.is_own() && pair.has_logical_decoding());
        assert_eq!(pair.major(), major);
        for name in ["fsync", "full_page_writes", "data_checksums"] {
            assert_eq!(setting(&pair, Node::Primary, name).await, "on", "{name}");
            assert_eq!(setting(&pair, Node::Standby, name).await, "on", "{name}");
        }
        assert_eq!(setting(&pair, Node::Primary, "listen_addresses").await, "");

        // What is committed at remote_apply is there to be read.
        let primary = pair.connect(Node::Primary).await.unwrap();
        primary
            .batch_execute("SET synchronous_commit TO remote_apply; CREATE TABLE t AS SELECT 1 AS id")
            .await
            .unwrap();
        let standby = pair.connect(Node::Standby).await.unwrap();
        let row = standby.query_one("SELECT current_database(), count(*) FROM t", &[]).await.unwrap();
        assert_eq!((row.get::<_, &str>(0), row.get::<_, i64>(1)), (DATABASE, 1));
        let rows = primary
            .query_one("SELECT count(*) FROM pg_get_wal_stats('0/1000000', pg_current_wal_flush_lsn())", &[])
            .await;
        assert!(rows.is_ok(), "{rows:?}");

        // Settings change on both, and go back.
        for (node, name, value) in [
            (Node::Standby, "hot_standby_feedback", "on"),
            (Node::Standby, "recovery_min_apply_delay", "50ms"),
            (Node::Primary, "log_min_duration_statement", "5s"),
        ] {
            let before = setting(&pair, node, name).await;
            pair.set(node, name, Some(value)).await.unwrap();
            assert_eq!(setting(&pair, node, name).await, value, "{name}");
            pair.set(node, name, None).await.unwrap();
            assert_eq!(setting(&pair, node, name).await, before, "{name}");
        }
        let refused = pair.set(Node::Primary, "no_such_setting", Some("1")).await;
        assert!(matches!(refused, Err(SuiteError::Refused { .. })), "{refused:?}");

        // The standby goes and comes back, and has what it missed.
        pair.stop_standby().await.unwrap();
        assert!(pair.connect(Node::Standby).await.is_err());
        primary
            .batch_execute("SET synchronous_commit TO local; INSERT INTO t SELECT generate_series(1, 100)")
            .await
            .unwrap();
        pair.start_standby().await.unwrap();
        pair.caught_up(PATIENCE).await.unwrap();
        let standby = pair.connect(Node::Standby).await.unwrap();
        assert_eq!(standby.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get::<_, i64>(0), 101);

        // A standby that cannot go on is noticed.
        pair.set(Node::Standby, "recovery_min_apply_delay", Some("1h")).await.unwrap();
        primary.batch_execute("INSERT INTO t VALUES (0)").await.unwrap();
        let late = pair.caught_up(Duration::from_millis(300)).await;
        assert!(matches!(late, Err(SuiteError::Timeout { .. })), "{late:?}");

        let (restored, detail) = pair.close().await.unwrap();
        assert!(restored, "{detail}");
        assert_nothing_left(dir.path());
    }
}

/// Tells the process that it is to hold a pair in this folder until it is killed.
const HOLD: &str = "DURAMEN_TEST_HOLD_PAIR";

/// The segments of shared memory that processes in a folder have mapped.
fn segments(dir: &Path) -> BTreeSet<PathBuf> {
    let maps = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let below = processes_below(&dir.canonicalize().expect("it is there"));
    let lines: Vec<String> = below.into_iter().map(maps).collect();
    let paths = lines.iter().flat_map(|maps| maps.lines()).filter_map(|line| line.split(' ').next_back());
    paths.filter(|path| path.starts_with("/dev/shm/PostgreSQL.")).map(PathBuf::from).collect()
}

#[tokio::test]
async fn a_pair_whose_run_is_killed_leaves_no_shared_memory() {
    if let Ok(dir) = std::env::var(HOLD) {
        let _pair =
            Pair::open(&Options { quick: true, ..Options::new(dir, "duramen") }, &|_| {}).await.unwrap();
        println!("it is there");
        return std::future::pending().await;
    }
    for stops in [false, true] {
        let dir = folder();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "pair::a_pair_whose_run_is_killed_leaves_no_shared_memory", "--nocapture"])
            .env(HOLD, dir.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        assert!(
            said.lines().map_while(Result::ok).any(|line| line.contains("it is there")),
            "it ended early"
        );
        let segments = segments(dir.path());
        assert!(!segments.is_empty(), "servers use shared memory");
        if stops {
            // A server that cannot hear that it is to end, and is killed.
            let root = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
            let file = std::fs::read_to_string(root.join("standby/postmaster.pid")).unwrap();
            let pid = Pid::from_raw(file.lines().next().unwrap().parse().unwrap()).unwrap();
            kill_process(pid, Signal::STOP).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let begin = clock::now();
        while std::fs::read_dir(dir.path()).unwrap().count() > 0 {
            assert!(begin.elapsed() < PATIENCE, "the guardian does not come to its end");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_nothing_left(dir.path());
        let left: Vec<_> = segments.iter().filter(|segment| segment.exists()).collect();
        assert!(left.is_empty(), "stopped: {stops}: {left:?}");
    }
}

#[tokio::test]
async fn a_pair_that_is_dropped_leaves_nothing() {
    let dir = folder();
    let pair =
        Pair::open(&Options { quick: true, ..Options::new(dir.path(), "duramen") }, &|_| {}).await.unwrap();
    drop(pair);
    assert_nothing_left(dir.path());
}
