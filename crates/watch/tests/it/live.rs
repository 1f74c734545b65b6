//! A real pair: everything that holds up a commit is made to happen, and is told as what it is.

use duramen_replication::{pair::Pair, scenario::Node, Options as PairOptions};
use duramen_watch::{
    attribution::{Stage, PAUSED, UNKNOWN},
    document,
    ledger::Stall,
    watch::{locked, Event},
    Options, Watch, WatchError,
};
use std::{future::Future, os::unix::fs::PermissionsExt, time::Duration};
use tokio::{sync::oneshot, time::timeout};
use tokio_postgres::Client;

/// How long each stall is made to last, at least.
const STALL: Duration = Duration::from_millis(900);
/// What must happen does so within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// The role that watches: it may look, and nothing else.
const ROLE: &str = "watcher";

struct World {
    pair: Pair,
    primary: Client,
    standby: Client,
    _dir: tempfile::TempDir,
}

impl World {
    async fn make() -> World {
        let dir = tempfile::Builder::new().prefix("watch-").tempdir().expect("a folder");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
        let options = PairOptions { quick: true, ..PairOptions::new(dir.path().join("servers"), "duramen") };
        let pair = Pair::open(&options, &|_| {}).await.expect("a pair");
        let primary = pair.connect(Node::Primary).await.expect("the primary");
        let standby = pair.connect(Node::Standby).await.expect("the standby");
        World { pair, primary, standby, _dir: dir }
    }

    fn dsn(&self, node: Node) -> String {
        let host = self.pair.target(node).host();
        format!("host={host} port={} user={ROLE} dbname=postgres", duramen_postgres::SOCKET_PORT)
    }

    /// A commit at a level, which waits in the background.
    async fn commit(&self, level: &str, sql: &'static str) -> tokio::task::JoinHandle<()> {
        let client = self.pair.connect(Node::Primary).await.expect("a session");
        client.batch_execute(&format!("SET synchronous_commit = {level}")).await.expect("a level");
        tokio::spawn(async move { client.batch_execute(sql).await.expect("a commit") })
    }

    /// Watches while something is done, and brings back the stalls.
    async fn watched(&self, options: &Options, doing: impl Future<Output = ()>) -> Vec<Stall> {
        let mut watch = Watch::begin(options).await.expect("a pair that can be watched");
        let (end, ended) = oneshot::channel::<()>();
        let mut stalls = Vec::new();
        let watching = watch.run(async { drop(ended.await) }, |event| match event {
            Event::Ended(stall) => stalls.push(stall.clone()),
            Event::Begun(_) | Event::Found => {}
            Event::Lost(why) => panic!("the primary was lost: {why}"),
        });
        let doing = async {
            doing.await;
            // It has been seen that nobody waits any more.
            tokio::time::sleep(Duration::from_millis(500)).await;
            let _ = end.send(());
        };
        timeout(PATIENCE, async { tokio::join!(watching, doing) }).await.expect("an end");
        stalls
    }
}

/// That one stall was seen, as long as it was, for this reason.
#[track_caller]
fn told(stalls: &[Stall], stage: Stage, cause: &str) {
    let [stall] = stalls else { panic!("one stall: {stalls:?}") };
    let reason = stall.reason().expect("a reason");
    assert_eq!((reason.stage, reason.cause), (stage, cause), "{stalls:?}");
    assert!(stall.length + Duration::from_millis(200) >= STALL, "{stalls:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_stall_is_told_as_what_it_is_by_a_role_that_may_only_look() {
    let world = World::make().await;
    let World { primary, standby, .. } = &world;
    primary
        .batch_execute(&format!(
            "SET synchronous_commit = local; CREATE ROLE {ROLE} LOGIN; CREATE TABLE t (id int, v int);
             INSERT INTO t SELECT i, 0 FROM generate_series(1, 1000) i"
        ))
        .await
        .expect("a table");
    world.pair.caught_up(PATIENCE).await.expect("the standby has it");
    let both = Options { primary: world.dsn(Node::Primary), standbys: vec![world.dsn(Node::Standby)] };

    // Who may not look is told what to grant.
    let refused = Watch::begin(&both).await.expect_err("no rights");
    assert!(matches!(refused, WatchError::Rights { node: "primary", .. }), "{refused}");
    assert!(refused.to_string().ends_with("GRANT pg_monitor TO watcher;"), "{refused}");
    primary
        .batch_execute(&format!("SET synchronous_commit = remote_apply; GRANT pg_monitor TO {ROLE}"))
        .await
        .expect("the right");

    let swapped = Options { primary: world.dsn(Node::Standby), standbys: Vec::new() };
    assert!(matches!(Watch::begin(&swapped).await, Err(WatchError::Role { is: "a standby", .. })));
    let before = settings(primary).await;

    // Nothing happens, and nothing is told.
    assert_eq!(world.watched(&both, tokio::time::sleep(STALL)).await, []);

    // A reader's snapshot.
    let stalls = world
        .watched(&both, async {
            standby
                .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t")
                .await
                .unwrap();
            primary
                .batch_execute("SET synchronous_commit = local; DELETE FROM t WHERE id % 2 = 0")
                .await
                .unwrap();
            primary.batch_execute("VACUUM t").await.unwrap();
            let commit = world.commit("remote_apply", "INSERT INTO t VALUES (0, 0)").await;
            tokio::time::sleep(STALL).await;
            standby.batch_execute("COMMIT").await.unwrap();
            commit.await.unwrap();
        })
        .await;
    told(&stalls, Stage::Replay, "snapshot");
    assert!(stalls[0].reader.as_ref().is_some_and(|reader| reader.contains("duramen-lab")), "{stalls:?}");

    // A reader's lock.
    let stalls = world
        .watched(&both, async {
            standby.batch_execute("BEGIN; SELECT count(*) FROM t").await.unwrap();
            primary.batch_execute("BEGIN; LOCK TABLE t; COMMIT").await.unwrap();
            let commit = world.commit("remote_apply", "INSERT INTO t VALUES (0, 0)").await;
            tokio::time::sleep(STALL).await;
            standby.batch_execute("COMMIT").await.unwrap();
            commit.await.unwrap();
        })
        .await;
    told(&stalls, Stage::Replay, "relation lock");
    assert!(stalls[0].reader.is_some(), "{stalls:?}");

    // A paused replay; and the same from the primary alone, which knows the stage only.
    let alone = Options { standbys: Vec::new(), ..both.clone() };
    for (options, cause) in [(&both, PAUSED), (&alone, UNKNOWN)] {
        let stalls = world
            .watched(options, async {
                standby.batch_execute("SELECT pg_wal_replay_pause()").await.unwrap();
                let commit = world.commit("remote_apply", "INSERT INTO t VALUES (0, 0)").await;
                tokio::time::sleep(STALL).await;
                standby.batch_execute("SELECT pg_wal_replay_resume()").await.unwrap();
                commit.await.unwrap();
            })
            .await;
        told(&stalls, Stage::Replay, cause);
    }

    // A receiver that hangs.
    let receiver: i32 = standby
        .query_one("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walreceiver'", &[])
        .await
        .unwrap()
        .get(0);
    let signal = |signal| {
        let process = rustix::process::Pid::from_raw(receiver).expect("a process");
        rustix::process::kill_process(process, signal).expect("a signal");
    };
    let stalls = world
        .watched(&both, async {
            signal(rustix::process::Signal::STOP);
            let commit = world.commit("remote_write", "INSERT INTO t VALUES (0, 0)").await;
            tokio::time::sleep(STALL).await;
            signal(rustix::process::Signal::CONT);
            commit.await.unwrap();
        })
        .await;
    told(&stalls, Stage::Write, "not received");

    // No standby.
    let mut watch = Watch::begin(&both).await.expect("a pair");
    let state = watch.state();
    let mut stalls = Vec::new();
    let doing = async {
        world.pair.stop_standby().await.expect("it stops");
        let commit = world.commit("on", "INSERT INTO t VALUES (0, 0)").await;
        tokio::time::sleep(STALL).await;
        world.pair.start_standby().await.expect("it starts");
        commit.await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    watch
        .run(doing, |event| {
            if let Event::Ended(stall) = event {
                stalls.push(stall.clone());
            }
        })
        .await;
    told(&stalls, Stage::Absent, "no standby");
    assert!(locked(&state).last.is_some());

    // What was seen is a document.
    let evidence = document::evidence(&watch, vec!["watch".to_owned()]).expect("a document");
    assert_eq!(document::stalls(&evidence).len(), 1);
    let finding = &evidence.findings[0];
    assert_eq!(finding.rule, "stall_at_absent");
    assert!(finding.text.contains("ANY 1 (a, b)"), "{}", finding.text);
    let text = evidence.to_json().expect("it can be written");
    let read = duramen_measure::evidence::Evidence::parse(text.as_bytes(), std::path::Path::new("w"))
        .expect("it is one");
    assert_eq!(read, evidence);

    assert_eq!(settings(primary).await, before, "nothing was changed");
    world.pair.close().await.expect("an end");
}

/// W10: what a hostile or unlucky user does to our own sessions.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_are_ended_or_hang_do_not_blind_the_watch() {
    let world = World::make().await;
    let World { primary, standby, .. } = &world;
    let role = format!("SET synchronous_commit = remote_apply; CREATE ROLE {ROLE} LOGIN IN ROLE pg_monitor; CREATE TABLE t (id int, v int)");
    primary.batch_execute(&role).await.expect("a role");
    let both = Options { primary: world.dsn(Node::Primary), standbys: vec![world.dsn(Node::Standby)] };
    let mut watch = Watch::begin(&both).await.expect("a pair");
    let state = watch.state();
    let own = "FROM pg_stat_activity WHERE application_name = 'duramen-watch'";
    let mut told = Vec::new();
    let doing = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        // Somebody ends our sessions on the primary.
        primary.batch_execute(&format!("SELECT pg_terminate_backend(pid) {own}")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(700)).await;
        // Our session on the standby hangs, and then the replay does.
        let hung: i32 = standby.query_one(&format!("SELECT pid {own}"), &[]).await.unwrap().get(0);
        let process = rustix::process::Pid::from_raw(hung).expect("a process");
        rustix::process::kill_process(process, rustix::process::Signal::STOP).expect("a signal");
        standby.batch_execute("SELECT pg_wal_replay_pause()").await.unwrap();
        let commit = world.commit("remote_apply", "INSERT INTO t VALUES (0, 0)").await;
        tokio::time::sleep(2 * STALL).await;
        rustix::process::kill_process(process, rustix::process::Signal::CONT).expect("a signal");
        standby.batch_execute("SELECT pg_wal_replay_resume()").await.unwrap();
        commit.await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    timeout(PATIENCE, watch.run(doing, |event| told.push(event.clone()))).await.expect("an end");
    assert!(matches!(told[..2], [Event::Lost(_), Event::Found]), "{told:?}");
    let [Event::Begun(_), Event::Ended(stall)] = &told[2..] else { panic!("{told:?}") };
    let reason = stall.reason().expect("a reason");
    assert_eq!(reason.stage, Stage::Replay, "{stall:?}");
    assert!([PAUSED, UNKNOWN].contains(&reason.cause), "{stall:?}");
    let state = locked(&state);
    assert!(state.ledger.blind() < Duration::from_secs(2), "{:?}", state.ledger.blind());
    assert!(stall.length + Duration::from_millis(300) >= 2 * STALL, "{stall:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_of_another_cluster_is_refused() {
    let (one, other) = (World::make().await, World::make().await);
    for world in [&one, &other] {
        let role =
            format!("SET synchronous_commit = remote_apply; CREATE ROLE {ROLE} LOGIN IN ROLE pg_monitor");
        world.primary.batch_execute(&role).await.expect("a role");
    }
    let mixed = Options { primary: one.dsn(Node::Primary), standbys: vec![other.dsn(Node::Standby)] };
    assert!(matches!(Watch::begin(&mixed).await, Err(WatchError::Stranger { .. })));
    let same = Options { primary: one.dsn(Node::Primary), standbys: vec![one.dsn(Node::Primary)] };
    assert!(matches!(Watch::begin(&same).await, Err(WatchError::Role { .. })));
}

/// All settings and roles of the server.
async fn settings(client: &Client) -> String {
    let sql = "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings
        WHERE name NOT IN ('synchronous_commit') AND source NOT IN ('session', 'client')";
    client.query_one(sql, &[]).await.expect("an answer").get(0)
}
