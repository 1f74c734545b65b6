//! Sources that follow their origin. The invariants F1 to F8 are in `docs/design/following.md`.

use crate::{
    filler::Filler,
    origin::{import, OtherServer},
    support::{lease, majors, rows, signal_all_below, until, Home},
};
use duramen_api::model::{ChangeSettings, FollowSettings, FollowView, Mask, Masking, Origin, Policy};
use duramen_branches::{Engine, EngineError};
use duramen_postgres::processes_below;
use rustix::process::Signal;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Of superusers of the origin, which lets everybody in.
const PASSWORD: &str = "s3cret:of\\the-origin";
const SETUP: &str = "create table orders (id int primary key, state text);;
insert into orders select i, 'new' from generate_series(1, 1000) i";

fn following(every_s: Option<u32>, keep_wal: Option<u64>) -> ChangeSettings {
    let follow = Some(FollowSettings { enabled: true, every_s, keep_wal, ..FollowSettings::default() });
    ChangeSettings { follow, ..ChangeSettings::default() }
}

/// An origin with a password in its URL, and a source of it that follows.
async fn followed(home: &Home, engine: &Arc<Engine>, major: u32, settings: &str) -> OtherServer {
    let origin = OtherServer::start_with(home, major, settings).await;
    origin.run("shop", SETUP).await;
    let encoded = PASSWORD.replace(':', "%3A").replace('\\', "%5C");
    let url = origin.url().replace("boss@", &format!("boss:{encoded}@"));
    import(engine, "app", Origin::Server { url }, &[Policy::ReadWrite]).await.expect("the import");
    engine.change_settings("app", following(None, None)).await.expect("it follows");
    refresh(engine).await.expect("the first generation of the standby");
    origin
}

async fn refresh(engine: &Arc<Engine>) -> Result<u32, EngineError> {
    engine.refresh_source("app", |_, _| {}).await.map(|source| source.generation)
}

fn view(engine: &Engine) -> FollowView {
    engine.source("app").expect("the source").follow.expect("it follows")
}

/// How many orders a fresh branch has.
async fn orders(engine: &Arc<Engine>) -> i64 {
    lease(engine, "look", Policy::ReadWrite).await;
    let found = rows(engine, "look", "select count(*) from orders").await;
    engine.destroy("look").expect("it is destroyed");
    found[0][0].as_i64().expect("a number")
}

async fn number(origin: &OtherServer, sql: &str) -> i64 {
    let client = origin.client("boss", "shop").await;
    client.query_one(sql, &[]).await.expect("a row").get(0)
}

fn standby(home: &Home) -> PathBuf {
    home.path().join("volumes/standbys/app")
}

/// By which a copy is known from the one that was there before it.
fn identity(path: &Path) -> SystemTime {
    fs::metadata(path.join("PG_VERSION")).and_then(|meta| meta.created()).expect("it is there")
}

/// The files below a directory that hold these bytes.
fn holders(dir: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let files = walkdir::WalkDir::new(dir).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    let holds = |path: &PathBuf| {
        fs::read(path).is_ok_and(|text| text.windows(bytes.len()).any(|window| window == bytes))
    };
    files.map(walkdir::DirEntry::into_path).filter(holds).collect()
}

/// F1, F2, F4, F6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_origin_wrote_is_in_the_next_generation_without_another_copy() {
    for major in majors() {
        let home = Home::new();
        let engine = home.open().await;
        let mut origin = followed(&home, &engine, major, "").await;
        assert_eq!(orders(&engine).await, 1000);
        let copied = identity(&standby(&home));

        for round in 1..=3 {
            origin.run("shop", &format!("insert into orders values ({}, 'x')", 2000 + round)).await;
            assert_eq!(refresh(&engine).await.expect("a generation"), 2 + round);
            assert_eq!(orders(&engine).await, 1000 + i64::from(round), "F2");
        }
        engine.look_after_followed().await;
        let seen = view(&engine);
        assert_eq!((seen.state.as_str(), &seen.problem), ("streaming", &None), "{seen:?}");
        assert!(seen.lag_bytes.is_some_and(|lag| lag < 1 << 20), "{seen:?}");

        // F6: neither the password nor the way to the origin is in what branches are made of.
        for told in
            [PASSWORD.as_bytes(), b"primary_conninfo", origin.socket().to_str().expect("UTF-8").as_bytes()]
        {
            let there = holders(&home.path().join("volumes/snapshots"), told);
            assert_eq!(there, Vec::<PathBuf>::new(), "{}", String::from_utf8_lossy(told));
        }
        assert_eq!(holders(&standby(&home), PASSWORD.as_bytes()), Vec::<PathBuf>::new());

        // The origin stops and comes again.
        origin.stop();
        engine.look_after_followed().await;
        assert!(view(&engine).problem.is_some());
        origin.run_server();
        origin.run("shop", "insert into orders values (3000, 'x')").await;
        refresh(&engine).await.expect("a generation after the origin came again");
        assert_eq!(orders(&engine).await, 1004);

        // F4: with us gone, nothing is kept for us.
        engine.close().await.expect("it closes");
        until("the slot is gone", async || {
            number(&origin, "select count(*) from pg_replication_slots").await == 0
        })
        .await;
        assert_eq!(processes_below(&standby(&home)), Vec::<u32>::new());
        origin.run("shop", "insert into orders values (4000, 'x')").await;
        let engine = home.open().await;
        refresh(&engine).await.expect("a generation of another daemon");
        assert_eq!(orders(&engine).await, 1005);
        assert_eq!(identity(&standby(&home)), copied, "the origin was copied once");

        let off = ChangeSettings { follow: Some(FollowSettings::default()), ..ChangeSettings::default() };
        engine.change_settings("app", off).await.expect("it does not follow any more");
        assert!(!standby(&home).exists() && engine.source("app").expect("it").follow.is_none());
        assert_eq!(processes_below(&home.path().join("volumes/standbys")), Vec::<u32>::new());
        refresh(&engine).await.expect("by a copy again");
        engine.close().await.expect("it closes");
    }
}

/// F3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_origin_that_is_another_server_by_now_is_copied_anew() {
    let home = Home::new();
    let engine = home.open().await;
    let major = majors()[0];
    let mut origin = followed(&home, &engine, major, "").await;
    let copied = identity(&standby(&home));
    origin.stop();
    fs::remove_dir_all(origin.cluster.data_dir()).expect("it is gone");
    drop(origin);
    let origin = OtherServer::start(&home, major).await;
    origin.run("shop", "create table orders (id int primary key);; insert into orders values (7)").await;
    refresh(&engine).await.expect("a generation of the new server");
    assert_eq!(orders(&engine).await, 1);
    assert_ne!(identity(&standby(&home)), copied);
    engine.close().await.expect("it closes");
}

/// The server that takes over has another timeline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_of_the_origin_is_followed() {
    let home = Home::new();
    let engine = home.open().await;
    let major = majors()[0];
    let mut origin = OtherServer::start(&home, major).await;
    origin.run("shop", SETUP).await;
    let (either, second) = origin.running_here_or_there(&home);
    import(&engine, "app", either, &[Policy::ReadWrite]).await.expect("the import");
    engine.change_settings("app", following(None, None)).await.expect("it follows");
    refresh(&engine).await.expect("the first generation");
    let copied = identity(&standby(&home));

    // What a standby of the origin's own would be when it is promoted.
    origin.stop();
    let mut other = origin.moved_to(&home.beside("second"), &second);
    other.promote().await;
    other.run("shop", "insert into orders values (5000, 'after')").await;
    assert_eq!(number(&other, "select timeline_id::int8 from pg_control_checkpoint()").await, 2);
    refresh(&engine).await.expect("a generation of the next timeline");
    assert_eq!(orders(&engine).await, 1001);
    assert_eq!(identity(&standby(&home)), copied);
    engine.close().await.expect("it closes");
}

/// F4: with an origin that admits the standby, and does not say how far it is, nobody would see its disk fill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_runs_only_while_its_origin_says_how_far_it_is() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = followed(&home, &engine, majors()[0], "").await;
    let watching = origin.client("boss", "shop").await;
    let slots = async || {
        let row = watching.query_one("select count(*) from pg_replication_slots", &[]).await.expect("a row");
        row.get::<_, i64>(0)
    };
    until("it streams", async || slots().await == 1).await;
    let admit = async |rules: &str| {
        origin.cluster.write_file("pg_hba.conf", rules).expect("hba");
        watching.batch_execute("select pg_reload_conf()").await.expect("it is read");
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    };
    admit("local replication all trust\nlocal all all reject\n").await;
    engine.look_after_followed().await;
    assert!(view(&engine).problem.is_some());
    until("the slot is gone", async || slots().await == 0).await;
    assert_eq!(processes_below(&standby(&home)), Vec::<u32>::new());

    // F8: a copy that cannot be made costs nothing that is there.
    let copied = identity(&standby(&home));
    admit("local replication all reject\nlocal all all trust\n").await;
    let refused = refresh(&engine).await.expect_err("neither a standby nor a copy is let in");
    assert_eq!(refused.code, "backup_failed", "{refused}");
    assert_eq!(identity(&standby(&home)), copied);
    admit("local all all trust\nlocal replication all trust\n").await;
    until("it streams again", async || {
        engine.look_after_followed().await;
        view(&engine).state == "streaming"
    })
    .await;
    refresh(&engine).await.expect("a generation");
    assert_eq!(identity(&standby(&home)), copied, "it goes on where it was");
    engine.close().await.expect("it closes");
}

/// F4: nor does a standby fill the store that branches write to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_is_stopped_while_the_store_is_short_of_room() {
    let home = Home::with_small_store();
    let engine = home.open().await;
    let _origin = followed(&home, &engine, majors()[0], "").await;
    engine.look_after_followed().await;
    assert_eq!(view(&engine).problem, None);
    let filler = Filler::begin(&home);
    until("it is stopped", async || {
        filler.leave(96 << 20);
        engine.look_after_followed().await;
        view(&engine).problem.is_some_and(|problem| problem.contains("short of room"))
    })
    .await;
    assert_eq!(processes_below(&standby(&home)), Vec::<u32>::new());
    filler.remove();
    until("it streams again", async || {
        engine.look_after_followed().await;
        view(&engine).state == "streaming"
    })
    .await;
    engine.close().await.expect("it closes");
}

/// F4: a standby that stands still does not fill the origin's disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_lacks_too_much_is_stopped_until_it_is_asked_for() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = followed(&home, &engine, majors()[0], "").await;
    engine.change_settings("app", following(None, Some(1 << 20))).await.expect("less is kept");
    engine.look_after_followed().await;
    assert_eq!(view(&engine).state, "streaming");
    let copied = identity(&standby(&home));
    signal_all_below(&standby(&home), Signal::STOP);
    origin
        .run("shop", "insert into orders select i, repeat('x', 500) from generate_series(10000, 20000) i")
        .await;
    engine.look_after_followed().await;
    let seen = view(&engine);
    assert_eq!(seen.state, "stopped", "{seen:?}");
    assert!(seen.problem.is_some_and(|problem| problem.contains("--keep-wal")));
    until("the slot is gone", async || {
        number(&origin, "select count(*) from pg_replication_slots").await == 0
    })
    .await;
    refresh(&engine).await.expect("what it lacked is still there");
    assert_eq!(orders(&engine).await, 11_001);
    assert_eq!(identity(&standby(&home)), copied, "the origin was copied once");
    engine.look_after_followed().await;
    assert_eq!(view(&engine).state, "streaming");
    engine.close().await.expect("it closes");
}

/// What the origin does not have any more is not waited for without an end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_whose_log_is_gone_is_made_anew() {
    let home = Home::new();
    let engine = home.open().await;
    let settings = "wal_keep_size = 0\nmax_wal_size = 32MB\nmin_wal_size = 32MB\n";
    let origin = followed(&home, &engine, majors()[0], settings).await;
    let copied = identity(&standby(&home));
    engine.close().await.expect("it closes");
    for _ in 0..6 {
        origin
            .run("shop", "update orders set state = state || 'y';; select pg_switch_wal();; checkpoint")
            .await;
    }
    let engine = home.open().await;
    refresh(&engine).await.expect("a generation of another copy");
    assert_eq!(orders(&engine).await, 1000);
    assert_ne!(identity(&standby(&home)), copied);
    engine.close().await.expect("it closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generations_are_made_when_it_is_time() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = followed(&home, &engine, majors()[0], "").await;
    engine.change_settings("app", following(Some(10), None)).await.expect("every 10 s");
    origin.run("shop", "insert into orders values (5000, 'x')").await;
    until("the next generation", async || {
        engine.look_after_followed().await;
        engine.source("app").expect("the source").generation == 3
    })
    .await;
    assert_eq!(orders(&engine).await, 1001);
    engine.close().await.expect("it closes");
}

/// F7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_masked_or_is_no_server_is_not_followed() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = followed(&home, &engine, majors()[0], "").await;
    let columns =
        BTreeMap::from([("public.orders".to_owned(), BTreeMap::from([("state".to_owned(), Mask::Null)]))]);
    let masking = Masking { columns, ..Masking::default() };
    let change = ChangeSettings { masking: Some(masking), ..ChangeSettings::default() };
    let refused = engine.change_settings("app", change).await.expect_err("it is followed");
    assert_eq!(refused.code, "cannot_follow");
    let refused = engine.change_settings("app", following(Some(1), None)).await.expect_err("too often");
    assert_eq!(refused.code, "cannot_follow");
    engine.remove_source("app").await.expect("it is removed");
    assert!(!standby(&home).exists());
    drop(origin);
    home.add_script(&engine, "create table t (a int)", crate::support::pool(&[])).await;
    let refused = engine.change_settings("app", following(None, None)).await.expect_err("a script");
    assert!(refused.message.contains("--url"), "{refused}");
    engine.close().await.expect("it closes");
}

/// The digest of a generation, once it was taken.
async fn sealed(engine: &Engine, generation: u32) -> String {
    let digest = || {
        let views = engine.generations("app").expect("its generations");
        views.into_iter().find(|it| it.generation == generation).expect("it is there").digest
    };
    until("its digest is taken", async || !digest().is_empty()).await;
    digest()
}

/// F22: neither is a table read at the origin, nor one written in the copy, that nobody changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generation_costs_what_was_changed() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = followed(&home, &engine, majors()[0], "").await;
    let setup =
        "create table stock as select i as id, repeat('y', 200) as pad from generate_series(1, 20000) i;; \
                 alter table stock add primary key (id);; analyze stock;; checkpoint";
    origin.run("shop", setup).await;
    // Visible to all, and not frozen: as nearly everything is in a database that is in use.
    origin.run("shop", "vacuum stock").await;
    let path: String = {
        let client = origin.client("boss", "shop").await;
        client.query_one("select pg_relation_filepath('stock')", &[]).await.expect("a row").get(0)
    };
    refresh(&engine).await.expect("a generation");
    let scans = "select coalesce(sum(seq_scan + idx_scan), 0)::bigint from pg_stat_user_tables where relname <> 'orders'";
    let before = number(&origin, scans).await;
    origin.run("shop", "update orders set state = 'sent' where id <= 10").await;
    let generation = refresh(&engine).await.expect("a generation");
    assert_eq!(number(&origin, scans).await, before, "the origin's tables were read");

    let snapshot = home.path().join(format!("volumes/snapshots/app.{generation:06}"));
    let (there, here) = (fs::read(standby(&home).join(&path)), fs::read(snapshot.join(&path)));
    let (there, here) = (there.expect("the standby's file"), here.expect("the snapshot's file"));
    let differing = there.chunks(8192).zip(here.chunks(8192)).filter(|(one, other)| one != other).count();
    // VACUUM looks at the last page in any case.
    assert!(there.len() == here.len() && there.len() > 500 * 8192, "{} and {}", there.len(), here.len());
    assert!(differing <= 1, "{differing} pages that nobody changed were written");

    lease(&engine, "try", Policy::ReadWrite).await;
    let found = rows(&engine, "try", "select count(*) from orders where state = 'sent'").await;
    assert_eq!(found[0][0].as_i64(), Some(10));
    let statistics = "select count(*) from pg_stats where tablename = 'stock'";
    assert_eq!(rows(&engine, "try", statistics).await[0][0].as_i64(), Some(2), "those of the origin");

    // What was put off is done, and holds.
    let digest = sealed(&engine, generation).await;
    assert_eq!(engine.source("app").expect("the source").digest, digest);
    let verified = engine.verify_source("app").await.expect("it is read");
    assert!(verified.intact && verified.found == digest && verified.expected == digest, "{verified:?}");
    // The origin is not compared with what it was, and not read for that.
    let before = number(&origin, scans).await;
    let evidence = engine.evidence("try").await.expect("evidence");
    assert_eq!((&evidence.snapshot_digest, &evidence.snapshot_digest_now), (&digest, &digest));
    assert!(!evidence.source.comparable && !evidence.source.unchanged, "{:?}", evidence.source);
    assert!(evidence.source.differences[0].contains("follows it"), "{:?}", evidence.source);
    assert_eq!(number(&origin, scans).await, before, "the origin's tables were read");

    // A digest that nobody took before the daemon ended is taken by the next, and by whoever needs it.
    let manifest = home.path().join(format!("sources/app/{generation:06}.json"));
    let forget = || {
        let text = fs::read_to_string(&manifest).expect("the manifest");
        assert!(text.contains(&digest), "{text}");
        fs::write(&manifest, text.replace(&digest, "")).expect("it is written");
    };
    engine.close().await.expect("it closes");
    forget();
    let engine = home.open().await;
    assert_eq!(sealed(&engine, generation).await, digest);
    forget();
    assert!(engine.verify_source("app").await.expect("it is read").intact);
    assert_eq!(sealed(&engine, generation).await, digest);
    forget();
    assert_eq!(engine.evidence("try").await.expect("evidence").snapshot_digest, digest);
    assert_eq!(sealed(&engine, generation).await, digest);
    engine.close().await.expect("it closes");
}

/// F22: a digest that is being taken brings nothing back of a source that is removed, and is none of the next one of its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_digest_is_of_no_other_source_of_that_name() {
    let home = Home::new();
    let engine = home.open().await;
    let dir = home.path().join("sources/app");
    for round in 0..6_u64 {
        let script = format!("create table t as select i from generate_series(1, {}) i;", 1000 + round);
        home.add_script(&engine, &script, Default::default()).await;
        let digest = engine.source("app").expect("the source").digest;
        let manifest = dir.join("000001.json");
        let text = fs::read_to_string(&manifest).expect("the manifest");
        fs::write(&manifest, text.replace(&digest, "")).expect("it is written");
        let asked = Arc::clone(&engine);
        let asking = tokio::spawn(async move { asked.verify_source("app").await });
        tokio::time::sleep(Duration::from_millis(round * 4)).await;
        engine.remove_source("app").await.expect("it is removed");
        // It was there long enough, or was not: both are told.
        if let Ok(verified) = asking.await.expect("no panic") {
            assert_eq!(verified.expected, digest, "round {round}");
        }
        assert!(!dir.exists(), "round {round}: something came back");
    }
    engine.close().await.expect("it closes");
}
