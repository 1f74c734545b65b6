//! Sources that follow their origin by logical replication. The invariants F15 to F21 are in `docs/design/following.md`.

use crate::{
    dumps::lease_of,
    origin::OtherServer,
    support::{majors, pool, rows, settle, signal_all_below, until, Home},
};
use duramen_api::model::{AddSource, ChangeSettings, FollowSettings, FollowView, Origin, Policy, SourceView};
use duramen_branches::{Engine, EngineError};
use duramen_postgres::processes_below;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::{json, Value};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

const LOGICAL: &str = "wal_level = logical";
const PASSWORD: &str = "s3cret:of\\the-origin";
/// Owned by the role that the source's URL names, which is no superuser.
const SHOP: &str = "create role app login replication;; grant create on database shop to app;; set role app;;
create schema sales;;
create table sales.orders (id int generated always as identity primary key, state text, price numeric,
  gross numeric generated always as (price * 2) stored);;
insert into sales.orders (state, price) select 'new', i from generate_series(1, 1000) i;;
create table sales.log (at date, what text, primary key (at, what)) partition by range (at);;
create table sales.log_1 partition of sales.log for values from ('2026-01-01') to ('2026-02-01');;
create table sales.log_2 partition of sales.log for values from ('2026-02-01') to ('2026-03-01');;
insert into sales.log values ('2026-01-05', 'one'), ('2026-02-05', 'two');;
create table sales.whole (a int, b text);; alter table sales.whole replica identity full;;
insert into sales.whole values (1, 'x'), (1, 'x'), (2, 'y');;
create unlogged table sales.cache (id int);; insert into sales.cache values (1);;
create materialized view sales.total as select count(*)::int as orders, sum(gross)::int as gross from sales.orders;;
create materialized view sales.above as select orders + 1 as more from sales.total;;
create sequence sales.numbers increment -1;; select nextval('sales.numbers')";

fn logical(origin: &OtherServer, user: &str, pg: Option<u32>) -> Origin {
    let encoded = PASSWORD.replace(':', "%3A").replace('\\', "%5C");
    let url = origin.url().replace("boss@", &format!("{user}:{encoded}@"));
    Origin::Logical { url, pg, without_extensions: Vec::new() }
}

async fn shop(home: &Home, major: u32, more: &str) -> OtherServer {
    let origin = OtherServer::start_with(home, major, &format!("{LOGICAL}\n{more}")).await;
    origin.run("shop", SHOP).await;
    origin
}

async fn add(engine: &Arc<Engine>, origin: Origin) -> Result<SourceView, EngineError> {
    let settings = pool(&[(Policy::ReadWrite, 1)]);
    let request = AddSource { name: "app".to_owned(), origin, database: None, settings };
    engine.add_source(request, |_, _| {}).await
}

fn following(publication: Option<&str>, keep_wal: Option<u64>) -> ChangeSettings {
    let publication = publication.map(str::to_owned);
    let follow =
        FollowSettings { enabled: true, logical: true, publication, keep_wal, ..FollowSettings::default() };
    ChangeSettings { follow: Some(follow), ..ChangeSettings::default() }
}

fn unfollow() -> ChangeSettings {
    ChangeSettings { follow: Some(FollowSettings::default()), ..ChangeSettings::default() }
}

async fn refresh(engine: &Arc<Engine>) -> Result<u32, EngineError> {
    engine.refresh_source("app", |_, _| {}).await.map(|source| source.generation)
}

/// Imports it, and has it follow.
async fn follow(engine: &Arc<Engine>, origin: Origin) {
    add(engine, origin).await.expect("the import");
    engine.change_settings("app", following(None, None)).await.expect("it follows");
    refresh(engine).await.expect("the first generation of the follower");
}

fn view(engine: &Engine) -> FollowView {
    engine.source("app").expect("the source").follow.expect("it follows")
}

/// What a fresh branch says.
async fn look(engine: &Arc<Engine>, sql: &str) -> Value {
    settle(engine).await;
    lease_of(engine, "app", "look").await;
    let found = rows(engine, "look", sql).await;
    engine.destroy("look").expect("it is destroyed");
    found
}

async fn number(origin: &OtherServer, sql: &str) -> i64 {
    origin.client("boss", "shop").await.query_one(sql, &[]).await.expect("a row").get(0)
}

const SLOTS: &str = "select count(*) from pg_replication_slots";
const PUBLICATIONS: &str = "select count(*) from pg_publication";

fn follower(home: &Home) -> PathBuf {
    home.path().join("volumes/standbys/app")
}

/// By which a copy is known from the one that was there before it.
fn copy(home: &Home) -> String {
    fs::read_to_string(follower(home).join("duramen_follower")).expect("a marker")
}

/// The files below a directory that hold these bytes.
fn holders(dir: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let files = walkdir::WalkDir::new(dir).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    let holds = |path: &PathBuf| {
        fs::read(path).is_ok_and(|text| text.windows(bytes.len()).any(|window| window == bytes))
    };
    files.map(walkdir::DirEntry::into_path).filter(holds).collect()
}

/// Ends the follower by force.
fn stand_still(home: &Home) {
    signal_all_below(&follower(home), Signal::KILL);
}

/// F15, F16, F18, F19, F20: from the earliest version that is installed to each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_origin_wrote_is_in_the_next_generation_of_the_same_or_a_later_version() {
    let oldest = majors()[majors().len() - 1];
    for major in majors() {
        let home = Home::new();
        let engine = home.open().await;
        let mut origin = shop(&home, oldest, "").await;
        follow(&engine, logical(&origin, "app", Some(major))).await;
        let copied = copy(&home);
        assert_eq!((number(&origin, SLOTS).await, number(&origin, PUBLICATIONS).await), (1, 1));
        let all = "select (select count(*)::int from sales.orders), (select sum(gross)::int from sales.orders), \
                   (select count(*)::int from sales.log), (select string_agg(b, '' order by b) from sales.whole), \
                   (select count(*)::int from sales.cache), (select orders from sales.total), (select more from sales.above), \
                   (select last_value::int from sales.numbers), (select last_value::int from sales.orders_id_seq), \
                   (select count(*)::int from pg_subscription), (select count(*)::int from pg_publication)";
        let first = json!([[1000, 1_001_000, 2, "xxy", 0, 1000, 1001, -1, 1000, 0, 0]]);
        assert_eq!(look(&engine, all).await, first, "{major}");

        let changes = "insert into sales.orders (state, price) values ('later', 5);; delete from sales.orders where id <= 10;;
            update sales.orders set price = price + 1 where id = 11;; update sales.log set what = 'three', at = '2026-02-07' where what = 'one';;
            update sales.whole set b = 'z' where a = 2;; delete from sales.whole where a = 1;;
            insert into sales.whole values (3, 'q');; select nextval('sales.numbers') from generate_series(1, 5);;
            insert into sales.cache values (2)";
        origin.run("shop", changes).await;
        refresh(&engine).await.expect("a generation");
        let gross = 1_001_000 + 10 - 110 + 2;
        let second = json!([[991, gross, 2, "qz", 0, 991, 992, -6, 1001, 0, 0]]);
        assert_eq!(look(&engine, all).await, second, "{major}: F18, F19");
        origin.run("shop", "truncate sales.whole").await;
        refresh(&engine).await.expect("a generation");
        assert_eq!(look(&engine, "select count(*)::int from sales.whole").await, json!([[0]]));
        assert_eq!(copy(&home), copied, "the origin was copied once");
        let source = engine.source("app").expect("the source");
        assert!(source.server_version.starts_with(&format!("{major}.")), "{}", source.server_version);
        let told = |kind: &str, object: &str| {
            source.sanitised.iter().any(|entry| entry.kind == kind && entry.object.contains(object))
        };
        assert!(told("unlogged table", "cache") && told("role", "app"), "{:#?}", source.sanitised);

        engine.look_after_followed().await;
        let seen = view(&engine);
        assert_eq!((seen.state.as_str(), &seen.problem), ("streaming", &None), "{seen:?}");
        assert!(seen.lag_bytes.is_some_and(|lag| lag < 1 << 20), "{seen:?}");
        assert_eq!(seen.slot.as_deref(), Some(copied.as_str()), "{seen:?}");
        assert!(seen.advice.is_some_and(|it| it.contains("max_slot_wal_keep_size")));

        // F20: neither the password nor the way to the origin is in what branches are made of, nor in the follower.
        for told in [PASSWORD.as_bytes(), origin.socket().to_str().expect("UTF-8").as_bytes()] {
            for dir in [home.path().join("volumes/snapshots"), follower(&home)] {
                assert_eq!(holders(&dir, told), Vec::<PathBuf>::new(), "{}", String::from_utf8_lossy(told));
            }
        }

        // The origin stops and comes again; so does the daemon.
        origin.stop();
        engine.look_after_followed().await;
        assert!(view(&engine).problem.is_some());
        refresh(&engine).await.expect_err("the origin is down");
        origin.run_server();
        origin.run("shop", "insert into sales.orders (state) values ('again')").await;
        refresh(&engine).await.expect("a generation after the origin came again");
        assert_eq!(look(&engine, "select count(*)::int from sales.orders").await, json!([[992]]));
        engine.close().await.expect("it closes");
        assert_eq!(processes_below(&follower(&home)), Vec::<u32>::new());
        origin.run("shop", "insert into sales.orders (state) values ('while away')").await;
        let engine = home.open().await;
        refresh(&engine).await.expect("a generation of another daemon");
        assert_eq!(look(&engine, "select count(*)::int from sales.orders").await, json!([[993]]));
        assert_eq!(copy(&home), copied, "the origin was copied once");

        // F16.
        engine.change_settings("app", unfollow()).await.expect("it does not follow any more");
        assert_eq!((number(&origin, SLOTS).await, number(&origin, PUBLICATIONS).await), (0, 0));
        assert!(!follower(&home).exists() && engine.source("app").expect("it").follow.is_none());
        assert_eq!(processes_below(&home.path().join("volumes/standbys")), Vec::<u32>::new());
        refresh(&engine).await.expect("by a dump again");
        engine.close().await.expect("it closes");
    }
}

async fn refused(
    home: &Home,
    engine: &Arc<Engine>,
    origin: &OtherServer,
    change: ChangeSettings,
    expected: &[&str],
) {
    let slots = (number(origin, SLOTS).await, number(origin, PUBLICATIONS).await);
    let error = engine.change_settings("app", change).await.expect_err("it is refused");
    assert_eq!(error.code, "cannot_follow", "{error}");
    for text in expected {
        assert!(error.message.contains(text), "{text} in {error}");
    }
    assert!(engine.source("app").expect("the source").follow.is_none(), "nothing was changed");
    assert!(!home.path().join("at-origins").exists());
    assert_eq!((number(origin, SLOTS).await, number(origin, PUBLICATIONS).await), slots);
}

/// F15.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_followed_whole_is_refused_by_name_before_anything_is_made() {
    let home = Home::new();
    let engine = home.open().await;
    let oldest = majors()[majors().len() - 1];
    let mut origin = shop(&home, oldest, "").await;
    add(&engine, logical(&origin, "app", None)).await.expect("the import");
    let usual = || following(None, None);
    for (setup, teardown, expected) in [
        (
            "create table sales.a\"b (x int);; alter table sales.a\"b owner to app",
            "drop table sales.a\"b",
            vec!["sales.a\"b", "REPLICA IDENTITY FULL"],
        ),
        (
            "create table sales.later (x int primary key deferrable);; alter table sales.later owner to app",
            "drop table sales.later",
            vec!["sales.later"],
        ),
        (
            "alter table sales.log_2 replica identity nothing",
            "alter table sales.log_2 replica identity default",
            vec!["sales.log_2"],
        ),
        (
            "create table sales.of_boss (x int primary key)",
            "drop table sales.of_boss",
            vec!["sales.of_boss", "--publication"],
        ),
        ("select lo_from_bytea(4242, 'a large one')", "select lo_unlink(4242)", vec!["1 large objects"]),
        ("alter role app noreplication", "alter role app replication", vec!["REPLICATION"]),
        (
            "revoke create on database shop from app",
            "grant create on database shop to app",
            vec!["CREATE", "--publication"],
        ),
    ] {
        let setup = setup.replace("a\"b", "\"a\"\"b\"");
        origin.run("shop", &setup).await;
        refused(&home, &engine, &origin, usual(), &expected).await;
        origin.run("shop", &teardown.replace("a\"b", "\"a\"\"b\"")).await;
    }
    // One of the user's own has to publish all of each table.
    for (clauses, expected) in [
        ("for table sales.orders", "sales.whole"),
        ("for all tables with (publish = 'insert, update')", "kinds of changes"),
        ("for all tables with (publish_via_partition_root)", "publish_via_partition_root"),
        ("for table sales.orders where (id > 5), sales.log, sales.whole", "rows or columns of sales.orders"),
        ("for table sales.orders (id), sales.log, sales.whole", "rows or columns of sales.orders"),
    ] {
        origin.run("shop", &format!("create publication \"the 'one\" {clauses}")).await;
        refused(&home, &engine, &origin, following(Some("the 'one"), None), &[expected]).await;
        origin.run("shop", "drop publication \"the 'one\"").await;
    }
    let error =
        engine.change_settings("app", following(Some("missing"), None)).await.expect_err("there is none");
    assert!(error.message.contains("missing"), "{error}");

    let follow = Some(FollowSettings { enabled: true, ..FollowSettings::default() });
    let streams = ChangeSettings { follow, ..ChangeSettings::default() };
    refused(&home, &engine, &origin, streams, &["--logical"]).await;
    let follow = FollowSettings { enabled: true, logical: true, ..FollowSettings::default() };
    for follow in [
        FollowSettings { archive: Some("/srv/wal".to_owned()), ..follow.clone() },
        FollowSettings { keep_history_s: Some(3600), ..follow.clone() },
        FollowSettings { publication: Some(String::new()), ..follow.clone() },
    ] {
        let change = ChangeSettings { follow: Some(follow), ..ChangeSettings::default() };
        refused(&home, &engine, &origin, change, &["logical replication"]).await;
    }
    origin.stop();
    let settings = duramen_postgres::Settings::from_conf("wal_level = replica\n");
    origin.run_server_with(&settings);
    refused(&home, &engine, &origin, usual(), &["wal_level is replica"]).await;
    engine.close().await.expect("it closes");
}

/// F19.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_defined_otherwise_is_copied_anew_and_never_missing() {
    let home = Home::new();
    let engine = home.open().await;
    let oldest = majors()[majors().len() - 1];
    let origin = shop(&home, oldest, "").await;
    follow(&engine, logical(&origin, "app", None)).await;
    let mut copied = copy(&home);
    for (change, sql, expected) in [
        ("alter table sales.orders add seen int default 7", "select min(seen) from sales.orders", json!([[7]])),
        // What is defined is the same afterwards, and the rows are not.
        (
            "alter table sales.orders alter state type text using state || '!'",
            "select min(state) from sales.orders",
            json!([["new!"]]),
        ),
        (
            "create table sales.later (x int primary key);; insert into sales.later values (1)",
            "select count(*)::int from sales.later",
            json!([[1]]),
        ),
        (
            "create table sales.log_3 partition of sales.log for values from ('2026-03-01') to ('2026-04-01');;
             insert into sales.log values ('2026-03-03', 'march')",
            "select count(*)::int from sales.log",
            json!([[3]]),
        ),
        ("drop table sales.later", "select to_regclass('sales.later')::text", json!([[null]])),
        // Between the two, what is written is sent to nobody.
        (
            "alter publication PUBLICATION drop table sales.whole;; insert into sales.whole values (9, 'unseen');;
             alter publication PUBLICATION add table only sales.whole",
            "select count(*)::int from sales.whole where a = 9",
            json!([[1]]),
        ),
        (
            "drop publication PUBLICATION;; insert into sales.whole values (10, 'unseen')",
            "select count(*)::int from sales.whole where a = 10",
            json!([[1]]),
        ),
        (
            "select pg_terminate_backend(active_pid), pg_sleep(0.2) from pg_replication_slots;; \
             select pg_drop_replication_slot(slot_name) from pg_replication_slots;; insert into sales.whole values (11, 'unseen')",
            "select count(*)::int from sales.whole where a = 11",
            json!([[1]]),
        ),
    ] {
        if change.contains("pg_drop") {
            // It would be in use again at once.
            stand_still(&home);
        }
        let as_owner = if change.contains("pg_drop") || change.contains("publication") { "" } else { "set role app;; " };
        origin.run("shop", &format!("{as_owner}{}", change.replace("PUBLICATION", &copied))).await;
        refresh(&engine).await.unwrap_or_else(|error| panic!("{change}: {error}"));
        assert_eq!(look(&engine, sql).await, expected, "{change}");
        assert_ne!(copy(&home), copied, "{change}");
        copied = copy(&home);
        assert_eq!((number(&origin, SLOTS).await, number(&origin, PUBLICATIONS).await), (1, 1), "{change}");
        // What changes no definition does not.
        origin.run("shop", "vacuum (full, analyze) sales.whole;; vacuum analyze;; reindex table sales.orders").await;
        refresh(&engine).await.expect("a generation");
        assert_eq!(copy(&home), copied, "after {change}");
    }
    // What cannot be followed any more is refused, and the generation that is there stays.
    origin.run("shop", "set role app;; create table sales.heap (x int)").await;
    let error = refresh(&engine).await.expect_err("it has no identity");
    assert!(error.code == "cannot_follow" && error.message.contains("sales.heap"), "{error}");
    engine.look_after_followed().await;
    origin.run("shop", "drop table sales.heap").await;
    refresh(&engine).await.expect("a generation");
    engine.close().await.expect("it closes");
}

/// F15, F16, F19: with a publication of the owner's, under any name, the role needs no rights but to replicate and read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publication_of_the_owners_is_used_and_left_to_them() {
    let home = Home::new();
    let engine = home.open().await;
    let oldest = majors()[majors().len() - 1];
    let origin = shop(&home, oldest, "").await;
    let setup = "create role reader login replication;; grant pg_read_all_data to reader;;
        create publication \"the 'one\" for table sales.orders, sales.log_1, sales.log_2, sales.whole";
    origin.run("shop", setup).await;
    add(&engine, logical(&origin, "reader", None)).await.expect("the import");
    engine.change_settings("app", following(Some("the 'one"), None)).await.expect("it follows");
    refresh(&engine).await.expect("a generation");
    assert_eq!((number(&origin, SLOTS).await, number(&origin, PUBLICATIONS).await), (1, 1));
    origin.run("shop", "delete from sales.orders where id > 10").await;
    refresh(&engine).await.expect("a generation");
    assert_eq!(look(&engine, "select count(*)::int from sales.orders").await, json!([[10]]));
    // It publishes less by now: the owner is told, and no generation lacks anything.
    origin.run("shop", "alter publication \"the 'one\" set (publish = 'insert')").await;
    let error = refresh(&engine).await.expect_err("updates would be missing");
    assert!(error.code == "cannot_follow" && error.message.contains("the 'one"), "{error}");
    engine.change_settings("app", unfollow()).await.expect("it does not follow any more");
    assert_eq!((number(&origin, SLOTS).await, number(&origin, PUBLICATIONS).await), (0, 1));
    engine.close().await.expect("it closes");
}

/// What the superuser of the origin leaves to run wherever its rows go. In a follower it tries to become more than it is.
const HOSTILE: &str = "create table sales.seen (what text, who text, super text);; alter table sales.seen replica identity full;;
create function sales.note(what text) returns boolean security definer language plpgsql as $$ begin
  if exists (select from pg_catalog.pg_subscription where subname = 'duramen_follower') then
    insert into sales.seen values (what, current_user, current_setting('is_superuser'));
    begin execute 'create role owned superuser'; exception when others then null; end;
    begin execute 'copy (select 1) to program ''touch OWNED'''; exception when others then null; end;
    begin execute 'set role duramen_admin'; execute 'create role owned_too superuser'; exception when others then null; end;
  end if;
  return true; end $$;;
create function sales.probe(what text) returns boolean immutable security definer language plpgsql as $$ begin
  perform sales.note(what); return true; end $$;;
create function sales.fired() returns trigger language plpgsql as $$ begin perform sales.probe('trigger ' || tg_name); return new; end $$;;
create function sales.commanded() returns event_trigger language plpgsql as $$ begin perform sales.probe('event'); end $$;;
create table sales.bait (id int primary key, x text, y boolean generated always as (sales.probe('generated')) stored);;
insert into sales.bait values (1, 'a');;
alter table sales.bait add check (sales.probe('check'));;
create index on sales.bait ((sales.probe('index')));;
create trigger always before insert or update on sales.bait for each row execute function sales.fired();;
alter table sales.bait enable always trigger always;;
create trigger copied before insert or update on sales.bait for each row execute function sales.fired();;
alter table sales.bait enable replica trigger copied;;
create policy none on sales.bait using (sales.probe('policy'));;
alter table sales.bait enable row level security;; alter table sales.bait force row level security;;
create event trigger commanded on ddl_command_start execute function sales.commanded();;
alter event trigger commanded enable always";

/// F17.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_origin_wrote_runs_with_no_rights_when_it_is_applied() {
    let oldest = majors()[majors().len() - 1];
    for major in majors() {
        let home = Home::new();
        let engine = home.open().await;
        let origin = shop(&home, oldest, "").await;
        let owned = home.beside("owned");
        origin.run("shop", &HOSTILE.replace("OWNED", &owned.display().to_string())).await;
        follow(&engine, logical(&origin, "boss", Some(major))).await;
        let copied = copy(&home);
        for round in 2..=3 {
            let change =
                format!("insert into sales.bait values ({round}, 'b');; update sales.bait set x = 'c'");
            origin.run("shop", &change).await;
            refresh(&engine).await.expect("a generation");
        }
        assert_eq!(copy(&home), copied, "nothing kept it from being applied");
        let seen = "select string_agg(distinct what, ' ' order by what), string_agg(distinct who, ' '), \
                    string_agg(distinct super, ' ') from sales.seen";
        assert_eq!(
            look(&engine, seen).await,
            json!([["check generated index", "duramen_write", "off"]]),
            "{major}"
        );
        let there = "select (select count(*)::int from sales.bait where x = 'c'), \
            (select count(*)::int from pg_roles where rolname ~ '^owned'), \
            (select string_agg(tgenabled::text, '' order by tgname) from pg_trigger where tgrelid = 'sales.bait'::regclass), \
            (select evtenabled::text from pg_event_trigger), (select count(*)::int from pg_subscription), \
            (select rolsuper from pg_roles where rolname = 'duramen_write')";
        assert_eq!(look(&engine, there).await, json!([[3, 0, "AR", "A", 0, false]]), "{major}");
        assert!(!owned.exists());
        engine.close().await.expect("it closes");
    }
}

/// F17, F21: wherever a refresh is given up once the follower is to be laid down, it applies nothing with the rights that it then
/// has, and it is gone on with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_was_laid_down_by_half_applies_nothing_with_rights() {
    const STEPS: u32 = 12;
    let home = Home::new();
    let engine = home.open().await;
    let origin = shop(&home, majors()[majors().len() - 1], "").await;
    let owned = home.beside("owned");
    origin.run("shop", &HOSTILE.replace("OWNED", &owned.display().to_string())).await;
    follow(&engine, logical(&origin, "boss", Some(majors()[0]))).await;
    let copied = copy(&home);
    for step in 1..=STEPS {
        origin.run("shop", &format!("insert into sales.bait values ({}, 'b')", step + 1)).await;
        let laying_down = Arc::new(tokio::sync::Notify::new());
        let told = Arc::clone(&laying_down);
        let refreshing = engine.refresh_source("app", move |step, _| {
            if step.starts_with("laying the follower down") {
                told.notify_one();
            }
        });
        let giving_up = async {
            laying_down.notified().await;
            tokio::time::sleep(Duration::from_millis(u64::from(step) * 40)).await;
        };
        tokio::select! {
            refreshed = refreshing => drop(refreshed.expect("a generation")),
            () = giving_up => {}
        }
        until("it is connected", async || {
            engine.look_after_followed().await;
            view(&engine).state == "streaming"
        })
        .await;
    }
    refresh(&engine).await.expect("a generation");
    assert_eq!(copy(&home), copied, "the origin was copied once");
    let seen = "select (select count(*)::int from sales.bait), (select string_agg(distinct who || ' ' || super, ', ') from sales.seen)";
    assert_eq!(look(&engine, seen).await, json!([[STEPS + 1, "duramen_write off"]]));
    assert!(!owned.exists());
    engine.close().await.expect("it closes");
}

/// F17: a follower whose first connection failed subscribes with the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_could_not_subscribe_does_so_later() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = shop(&home, majors()[0], "").await;
    add(&engine, logical(&origin, "app", None)).await.expect("the import");
    engine.change_settings("app", following(None, None)).await.expect("it follows");
    let harmless = Arc::new(tokio::sync::Notify::new());
    let told = Arc::clone(&harmless);
    let refreshing = engine.refresh_source("app", move |step, _| {
        if step.starts_with("making the follower harmless") {
            told.notify_one();
        }
    });
    let rules = async |rules: &str| {
        origin.cluster.write_file("pg_hba.conf", rules).expect("hba");
        origin.run("shop", "select pg_reload_conf()").await;
    };
    let shut = async {
        harmless.notified().await;
        rules("local shop app reject\nlocal all all trust\n").await;
    };
    let (refused, ()) = tokio::join!(refreshing, shut);
    refused.expect_err("the follower is not let in");
    rules("local all all trust\nlocal replication all trust\n").await;
    refresh(&engine).await.expect("a generation");
    assert_eq!(look(&engine, "select count(*)::int from sales.orders").await, json!([[1000]]));
    engine.close().await.expect("it closes");
}

/// F18: what cannot be applied stops the follower, is told, and is not missing in a generation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_applied_is_told_and_copied() {
    let home = Home::new();
    let engine = home.open().await;
    let oldest = majors()[majors().len() - 1];
    let origin = shop(&home, oldest, "").await;
    let setup = "create function sales.odd() returns boolean language plpgsql as $$ begin
        if exists (select from pg_catalog.pg_subscription) then raise 'not in a follower'; end if; return true; end $$;;
        create table sales.odd (id int primary key, check (sales.odd()));; alter table sales.odd owner to app";
    origin.run("shop", setup).await;
    follow(&engine, logical(&origin, "app", None)).await;
    let copied = copy(&home);
    origin.run("shop", "insert into sales.odd values (1)").await;
    until("it is told", async || {
        engine.look_after_followed().await;
        let seen = view(&engine);
        seen.state == "waiting" && seen.problem.is_some_and(|it| it.contains("not in a follower"))
    })
    .await;
    refresh(&engine).await.expect("a generation of another copy");
    assert_ne!(copy(&home), copied);
    assert_eq!(look(&engine, "select count(*)::int from sales.odd").await, json!([[1]]));
    assert_eq!((number(&origin, SLOTS).await, number(&origin, PUBLICATIONS).await), (1, 1));
    // And while a refresh waits for it.
    origin.run("shop", "insert into sales.odd values (2)").await;
    refresh(&engine).await.expect("a generation of another copy");
    assert_eq!(look(&engine, "select count(*)::int from sales.odd").await, json!([[2]]));
    engine.close().await.expect("it closes");
}

/// F20: a password that does not hold any more stops the following, which says so, and nothing else; it goes on with one that does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_was_changed_is_told_and_nothing_is_lost() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = shop(&home, majors()[0], "").await;
    let rules = "local all app scram-sha-256\nlocal replication app scram-sha-256\nlocal all all trust\n";
    origin.cluster.write_file("pg_hba.conf", rules).expect("hba");
    let password = |word: &str| format!("alter role app password '{word}';; select pg_reload_conf()");
    origin.run("shop", &password(PASSWORD)).await;
    follow(&engine, logical(&origin, "app", None)).await;
    let copied = copy(&home);

    origin.run("shop", &password("another")).await;
    origin.run("shop", "select pg_terminate_backend(pid) from pg_stat_replication").await;
    origin.run("shop", "insert into sales.orders (state) values ('later')").await;
    let error = refresh(&engine).await.expect_err("nobody lets it in");
    assert!(error.message.contains("password"), "{error}");
    assert!(!error.message.contains(PASSWORD), "{error}");
    engine.look_after_followed().await;
    let problem = view(&engine).problem.expect("it is told");
    assert!(problem.contains("password") && !problem.contains(PASSWORD), "{problem}");
    assert_eq!(look(&engine, "select count(*)::int from sales.orders").await, json!([[1000]]));
    assert_eq!(number(&origin, SLOTS).await, 1, "what was not applied is kept");

    origin.run("shop", &password(PASSWORD)).await;
    refresh(&engine).await.expect("it is let in");
    assert_eq!(look(&engine, "select count(*)::int from sales.orders").await, json!([[1001]]));
    assert_eq!(copy(&home), copied, "the origin was copied once");
    engine.look_after_followed().await;
    assert_eq!(view(&engine).problem, None);
    engine.change_settings("app", unfollow()).await.expect("it does not follow any more");
    assert_eq!((number(&origin, SLOTS).await, number(&origin, PUBLICATIONS).await), (0, 0));
    engine.close().await.expect("it closes");
}

/// F16: what the origin keeps is limited, also by a follower that stands still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_of_which_too_much_is_kept_is_dropped_until_it_is_asked_for() {
    let home = Home::new();
    let engine = home.open().await;
    let oldest = majors()[majors().len() - 1];
    let origin = shop(&home, oldest, "").await;
    follow(&engine, logical(&origin, "app", None)).await;
    engine.change_settings("app", following(None, Some(4 << 20))).await.expect("less is kept");
    until("it streams", async || {
        engine.look_after_followed().await;
        view(&engine).state == "streaming"
    })
    .await;
    signal_all_below(&follower(&home), Signal::STOP);
    let much = "insert into sales.orders (state) select repeat('x', 500) from generate_series(1, 20000)";
    origin.run("shop", much).await;
    engine.look_after_followed().await;
    let seen = view(&engine);
    assert_eq!(seen.state, "stopped", "{seen:?}");
    assert!(seen.problem.is_some_and(|problem| problem.contains("--keep-wal")));
    assert_eq!((number(&origin, SLOTS).await, number(&origin, PUBLICATIONS).await), (0, 0));
    assert_eq!(processes_below(&follower(&home)), Vec::<u32>::new());
    // Nor does a copy have more kept.
    let error = {
        let lock = origin.client("boss", "shop").await;
        lock.batch_execute("begin; lock table sales.cache").await.expect("the copy waits");
        let writing = async {
            until("it is copied", async || number(&origin, SLOTS).await == 1).await;
            origin.run("shop", much).await;
        };
        tokio::join!(refresh(&engine), writing).0.expect_err("too much was written meanwhile")
    };
    assert_eq!(error.code, "slot_too_large", "{error}");
    assert_eq!((number(&origin, SLOTS).await, number(&origin, PUBLICATIONS).await), (0, 0));
    refresh(&engine).await.expect("by another copy");
    assert_eq!(look(&engine, "select count(*)::int from sales.orders").await, json!([[41000]]));
    engine.close().await.expect("it closes");
}

/// F16, F21: a copy that is given up, or whose daemon was killed, leaves nothing at the origin, and no follower that is taken for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_ends_a_copy_the_origin_keeps_nothing_for_it() {
    let home = Home::new();
    let engine = home.open().await;
    let oldest = majors()[majors().len() - 1];
    let origin = shop(&home, oldest, "").await;
    add(&engine, logical(&origin, "app", None)).await.expect("the import");
    engine.change_settings("app", following(None, None)).await.expect("it follows");
    for step in 1..=14 {
        let refreshing = refresh(&engine);
        let given_up = tokio::time::timeout(Duration::from_millis(step * 170), refreshing).await;
        if given_up.is_ok() {
            break;
        }
        // Its task ends in its own time; then the next look sees what is left.
        until("nothing is left that nobody uses", async || {
            engine.look_after_followed().await;
            let used = i64::from(fs::read_to_string(home.path().join("sources/app/follower.json")).is_ok());
            number(&origin, SLOTS).await == used && number(&origin, PUBLICATIONS).await == used
        })
        .await;
    }
    refresh(&engine).await.expect("a generation");
    let copied = copy(&home);
    engine.close().await.expect("it closes");

    // Killed before it was written down what the copy is of.
    fs::remove_file(home.path().join("sources/app/follower.json")).expect("it is gone");
    let engine = home.open().await;
    engine.look_after_followed().await;
    assert_eq!((number(&origin, SLOTS).await, number(&origin, PUBLICATIONS).await), (0, 0));
    refresh(&engine).await.expect("a generation of another copy");
    assert_ne!(copy(&home), copied);
    let copied = copy(&home);
    fs::write(follower(&home).join("duramen_follower"), "duramen_another").expect("of another slot");
    refresh(&engine).await.expect("a generation of another copy");
    assert_ne!(copy(&home), copied, "F21");
    assert_eq!((number(&origin, SLOTS).await, number(&origin, PUBLICATIONS).await), (1, 1));
    engine.close().await.expect("it closes");
}

/// F16: an origin that does not answer when its source is removed is not forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_at_an_origin_that_does_not_answer_is_dropped_later() {
    let home = Home::new();
    let engine = home.open().await;
    let oldest = majors()[majors().len() - 1];
    let mut origin = shop(&home, oldest, "").await;
    follow(&engine, logical(&origin, "app", None)).await;
    let slot = copy(&home);
    origin.stop();
    engine.remove_source("app").await.expect("it is removed");
    assert!(engine.status().warnings.iter().any(|it| it.contains(&slot)), "{:?}", engine.status().warnings);
    origin.run_server();
    assert_eq!(number(&origin, SLOTS).await, 1);
    engine.close().await.expect("it closes");
    let engine = home.open().await;
    engine.look_after_followed().await;
    assert_eq!((number(&origin, SLOTS).await, number(&origin, PUBLICATIONS).await), (0, 0));
    assert!(!engine.status().warnings.iter().any(|it| it.contains(&slot)), "{:?}", engine.status().warnings);
    assert_eq!(fs::read_dir(home.path().join("at-origins")).expect("a directory").count(), 0);
    engine.close().await.expect("it closes");
}

/// F18: a session of the origin that hangs is not waited for without an end, and nothing is missing silently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_origin_that_sends_nothing_makes_no_generation() {
    let mut home = Home::new();
    home.options.stall = Some(Duration::from_secs(8));
    let engine = home.open().await;
    let oldest = majors()[majors().len() - 1];
    let origin = shop(&home, oldest, "").await;
    follow(&engine, logical(&origin, "app", None)).await;
    let copied = copy(&home);
    let sender = "select coalesce(min(pid), 0)::int8 from pg_stat_replication";
    until("it sends", async || number(&origin, sender).await != 0).await;
    let pid = i32::try_from(number(&origin, sender).await).expect("a process");
    let pid = Pid::from_raw(pid).expect("a process");
    kill_process(pid, Signal::STOP).expect("it hangs");
    origin.run("shop", "delete from sales.whole").await;
    let error = refresh(&engine).await.expect_err("nothing comes");
    assert_eq!(error.code, "follower_behind", "{error}");
    kill_process(pid, Signal::CONT).expect("it goes on");
    refresh(&engine).await.expect("a generation");
    assert_eq!(look(&engine, "select count(*)::int from sales.whole").await, json!([[0]]));
    assert_eq!(copy(&home), copied, "the origin was copied once");
    engine.close().await.expect("it closes");
}
