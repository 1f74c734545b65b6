//! A branch that becomes the next generation of its source: invariants G1 to G6.

use crate::support::{lease, majors, pool, query, rows, settle, until, Home};
use duramen_api::model::{
    ChangeSettings, CreateBranch, Mask, Masking, Policy, PromoteBranch, RoleName, SourceSettings, SourceView,
};
use duramen_branches::{Engine, EngineError};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    sync::{Arc, Mutex},
    time::Duration,
};

const SCRIPT: &str = "create table t (id int primary key, x text); insert into t values (1, 'source'); \
                      create sequence s; create unlogged table u (x int);";

async fn promote(engine: &Arc<Engine>, name: &str) -> Result<SourceView, EngineError> {
    engine.promote(name, PromoteBranch::default(), |_, _| {}).await
}

/// The names below a directory of the volume store.
fn volumes(home: &Home, dir: &str) -> Vec<String> {
    let found = fs::read_dir(home.path().join("volumes").join(dir)).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Nothing is left of a promotion: neither what was copied, nor what it was copied from.
fn is_clean(home: &Home) -> bool {
    volumes(home, "imports").is_empty()
        && !volumes(home, "branches").iter().any(|name| name.starts_with("s-"))
}

async fn lease_in(engine: &Arc<Engine>, name: &str, policy: Policy) -> u32 {
    lease(engine, name, policy).await.generation
}

/// G1, G2, G6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_branch_held_is_what_new_branches_begin_with() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 1), (Policy::Ddl, 1)])).await;
    let seeded = lease(&engine, "seeded", Policy::Ddl).await;
    for sql in [
        "insert into t values (2, 'branch')",
        "select setval('s', 41)",
        "insert into u values (1)",
        "create table made (id int primary key, x text)",
        "insert into made values (7, 'made')",
        "create view both_of_them as select t.x as a, made.x as b from t, made",
        "create function twice(int) returns int language sql security definer as 'select 2 * $1'",
        "create index on t (x)",
    ] {
        query(&engine, "seeded", sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let heard = Arc::new(Mutex::new(Vec::new()));
    let said = Arc::clone(&heard);
    let view = engine
        .promote("seeded", PromoteBranch::default(), move |step, _| {
            said.lock().unwrap().push(step.to_owned())
        })
        .await
        .expect("a promotion");
    assert_eq!(view.generation, 2);
    let of = view.promoted.expect("what it was");
    assert_eq!((of.id.as_str(), of.name.as_str(), of.generation), (&*seeded.id, "seeded", 1));
    assert!(heard.lock().unwrap().iter().any(|step| step == "taking a snapshot of the branch"));
    assert!(is_clean(&home), "{:?}", volumes(&home, "branches"));
    let kept = engine.verify_source("app").await.expect("a digest");
    assert!(kept.intact);

    for policy in [Policy::ReadOnly, Policy::ReadWrite, Policy::Ddl] {
        assert_eq!(lease_in(&engine, "next", policy).await, 2, "{policy}");
        let all = "select (select string_agg(x, ',' order by id) from t), (select count(*) from u), \
                   (select b from both_of_them limit 1), twice(21), (select last_value from s)";
        assert_eq!(
            rows(&engine, "next", all).await,
            json!([["source,branch", 0, "made", 42, 41]]),
            "{policy}"
        );
        if policy != Policy::ReadOnly {
            query(&engine, "next", "insert into made values (8, 'next')").await.expect("it is written to");
        }
        engine.destroy("next").expect("destroy");
    }
    // Whoever made something in a branch is nobody in the generation: holders of `ddl` change it as they change the rest.
    lease(&engine, "next", Policy::Ddl).await;
    query(&engine, "next", "alter table made add y int").await.expect("it is altered");
    engine.destroy("next").expect("destroy");

    // The branch goes on, of its own generation.
    query(&engine, "seeded", "insert into t values (3, 'after')").await.expect("it goes on");
    assert_eq!(engine.branch("seeded").expect("the branch").generation, 1);
    engine.reset("seeded").await.expect("a reset");
    assert_eq!(rows(&engine, "seeded", "select count(*) from t").await, json!([[1]]), "B14");
    engine.undo("seeded").await.expect("and back");
    assert_eq!(rows(&engine, "seeded", "select count(*) from t").await, json!([[3]]));
    // Twice, and out of the branch of a promoted generation.
    lease(&engine, "second", Policy::ReadWrite).await;
    query(&engine, "second", "insert into t values (4, 'second')").await.expect("a row");
    assert_eq!(promote(&engine, "second").await.expect("a promotion").generation, 3);
    assert_eq!(lease_in(&engine, "third", Policy::ReadOnly).await, 3);
    let held = "select string_agg(x, ',' order by id) from t";
    assert_eq!(rows(&engine, "third", held).await, json!([["source,branch,second"]]));

    // Earlier generations live as long as branches need them, and a refresh goes back to the origin.
    assert_eq!(engine.refresh_source("app", |_, _| {}).await.expect("a refresh").generation, 4);
    assert_eq!(lease_in(&engine, "fresh", Policy::ReadOnly).await, 4);
    assert_eq!(rows(&engine, "fresh", held).await, json!([["source"]]));
    let evidence = engine.evidence_with("third", None).await.expect("evidence");
    assert!(evidence.source.unchanged, "the origin is as it was: {:?}", evidence.source);
    settle(&engine).await;
    engine.close().await.expect("close");
    let engine = home.open().await;
    assert_eq!(rows(&engine, "third", held).await, json!([["source,branch,second"]]));
    for name in ["seeded", "second", "third"] {
        engine.destroy(name).expect("destroy");
    }
    until("only what is needed is left", async || volumes(&home, "snapshots") == ["app.000004"]).await;
    engine.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_branch_keeps_its_unlogged_rows() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "seeded", Policy::ReadWrite).await;
    query(&engine, "seeded", "insert into u values (1)").await.expect("a row");
    // Whoever asks it something starts its server again: not before the files were copied.
    let asking = Arc::clone(&engine);
    let asked = tokio::spawn(async move {
        loop {
            let _ = query(&asking, "seeded", "select 1").await;
        }
    });
    for count in 1..=4 {
        let view = engine.promote("seeded", PromoteBranch { quiesce: true }, |_, _| {}).await;
        assert_eq!(view.expect("a promotion").generation, 1 + count);
        let next = format!("next-{count}");
        lease(&engine, &next, Policy::ReadWrite).await;
        for name in ["seeded", &next] {
            assert_eq!(rows(&engine, name, "select count(*) from u").await, json!([[1]]), "{name}");
        }
    }
    asked.abort();
    engine.close().await.expect("close");
}

/// G5: a holder of one policy leaves nothing that holders of another may do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_that_a_holder_gave_are_not_carried_on() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::Ddl, 1)])).await;
    lease(&engine, "planted", Policy::Ddl).await;
    for sql in [
        "grant insert, update, delete on t to duramen_read, public",
        "grant create on schema public to duramen_read",
        "grant create, temporary on database app to duramen_read",
        "alter default privileges grant all on tables to duramen_read",
        "create table own (x int)",
        "grant all on own to duramen_read",
        "create function add_one() returns int language sql security definer as 'insert into own values (1) returning x'",
        "alter role duramen_ddl set search_path = nowhere",
        "alter role duramen_ddl set default_transaction_read_only = on",
        "create function shout() returns event_trigger language plpgsql as 'begin raise exception ''no''; end'",
    ] {
        let done = query(&engine, "planted", sql).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    promote(&engine, "planted").await.expect("a promotion");
    lease(&engine, "reader", Policy::ReadOnly).await;
    for sql in [
        "insert into t values (9, 'x')",
        "delete from t",
        "insert into own values (1)",
        "select add_one()",
        "create table other (x int)",
        "create temporary table other (x int)",
    ] {
        let url = engine.branch("reader").expect("the branch").url;
        let (client, connection) =
            tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("a session");
        tokio::spawn(connection);
        let text = format!("begin read write; {sql}; commit");
        let error = client.batch_execute(&text).await.expect_err(sql);
        let code = error.code().map(|code| code.code().to_owned());
        assert_eq!(code.as_deref(), Some("42501"), "{sql}: {error:?}");
    }
    lease(&engine, "writer", Policy::Ddl).await;
    query(&engine, "writer", "insert into t values (9, 'x')").await.expect("its settings are its own");
    let owners = "select count(*) from pg_class c join pg_roles o on o.oid = c.relowner \
                  where o.rolname in ('duramen_read', 'duramen_write', 'duramen_ddl')";
    assert_eq!(rows(&engine, "writer", owners).await, json!([[0]]));
    engine.close().await.expect("close");
}

/// Branches that are entered as roles of the source are, in a promoted generation, what they were (B47).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_of_the_source_keep_what_they_had() {
    let home = Home::new();
    let engine = home.open().await;
    let sql = "create role app login; create role boss login superuser; \
               create table t (id int, owner text); insert into t values (1, 'app'), (2, 'boss'); \
               alter table t enable row level security; create policy own on t using (owner = current_user); \
               grant select, insert on t to app; \
               create table log (x text); grant insert on log to public; \
               create table gone (x text); grant insert on gone to public; \
               create function noted() returns int language sql security definer as 'insert into log values (''x''); select 1';";
    let major = *majors().first().expect("a server");
    home.add_cluster(&engine, major, sql, pool(&[(Policy::Ddl, 1)])).await;
    lease(&engine, "seeded", Policy::Ddl).await;
    for sql in ["insert into t values (3, 'app')", "drop table gone", "revoke insert on log from public"] {
        query(&engine, "seeded", sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let view = promote(&engine, "seeded").await.expect("a promotion");
    assert_eq!(view.roles, ["app"]);
    let app: RoleName = "app".parse().expect("a name");
    assert_eq!(lease_in(&engine, "as-app", Policy::Role(app)).await, 2);
    assert_eq!(
        rows(&engine, "as-app", "select string_agg(id::text, ',' order by id) from t").await,
        json!([["1,3"]])
    );
    assert_eq!(rows(&engine, "as-app", "select noted()").await, json!([[1]]), "with its owner's rights");
    query(&engine, "as-app", "insert into log values ('y')").await.expect("what the public may");
    let boss: RoleName = "boss".parse().expect("a name");
    let request = CreateBranch { policy: Some(Policy::Role(boss)), ..CreateBranch::default() };
    assert_eq!(engine.create(request).await.expect_err("a superuser").code, "role_refused");
    engine.close().await.expect("close");
}

/// G4: masked stays masked. Rules are not applied to what was masked, and a branch of other rules is not promoted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_of_a_masked_source_makes_a_masked_generation() {
    let home = Home::new();
    let engine = home.open().await;
    let columns =
        |mask: Mask| BTreeMap::from([("public.t".to_owned(), BTreeMap::from([("x".to_owned(), mask)]))]);
    let masking = Masking { columns: columns(Mask::Hash), ..Masking::default() };
    let settings = SourceSettings { masking: Some(masking), ..pool(&[(Policy::ReadWrite, 1)]) };
    home.add_script(&engine, SCRIPT, settings).await;
    lease(&engine, "seeded", Policy::ReadWrite).await;
    let hashed = rows(&engine, "seeded", "select x from t").await;
    assert_ne!(hashed, json!([["source"]]));
    query(&engine, "seeded", "insert into t values (2, 'written in the branch')").await.expect("a row");
    let view = promote(&engine, "seeded").await.expect("a promotion");
    assert_eq!((view.generation, view.data.as_str()), (2, "masked"));
    let told = view.sanitised.iter().find(|item| item.kind == "masking").expect("what it says of the rules");
    assert!(told.object.contains("seeded") && told.action.contains("wrote itself"), "{told:?}");
    assert!(!home.path().join("scratch").exists(), "nothing is there that had to be overwritten");
    lease(&engine, "next", Policy::ReadWrite).await;
    let all = rows(&engine, "next", "select x from t order by id").await;
    assert_eq!(all, json!([[hashed[0][0]], ["written in the branch"]]));

    let masking = Masking { columns: columns(Mask::Null), ..Masking::default() };
    let change = ChangeSettings { masking: Some(masking), ..ChangeSettings::default() };
    engine.change_settings("app", change).await.expect("other rules");
    let error = promote(&engine, "next").await.expect_err("it was masked by others");
    assert_eq!(error.code, "rules_changed", "{error}");
    assert!(is_clean(&home));
    engine.close().await.expect("close");
}

/// G1: whoever goes away leaves the one or the other generation, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promotion_that_nobody_waits_for_leaves_nothing() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "seeded", Policy::ReadWrite).await;
    query(&engine, "seeded", "insert into t values (2, 'branch')").await.expect("a row");
    let mut ended = 0;
    for pause in [0, 20, 100, 300, 700, 1200, 2000, 3000] {
        let before = engine.source("app").expect("the source").generation;
        let made = tokio::time::timeout(Duration::from_millis(pause), promote(&engine, "seeded")).await;
        if let Ok(made) = made {
            made.expect("it was in time");
            ended += 1;
        }
        until("nothing is left", async || is_clean(&home)).await;
        let generation = engine.source("app").expect("the source").generation;
        assert!(generation == before || generation == before + 1, "{before}, {generation}");
        lease(&engine, "next", Policy::ReadWrite).await;
        let count = if generation == 1 { 1 } else { 2 };
        assert_eq!(
            rows(&engine, "next", "select count(*) from t").await,
            json!([[count]]),
            "after {pause} ms"
        );
        engine.destroy("next").expect("destroy");
        if ended == 2 {
            break;
        }
    }
    assert_eq!(rows(&engine, "seeded", "select count(*) from t").await, json!([[2]]));
    engine.close().await.expect("close");
}

/// G1: without room the earlier generation goes on to serve.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_store_keeps_the_earlier_generation() {
    let home = Home::with_small_store();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "seeded", Policy::ReadWrite).await;
    let fill = "insert into t select i, repeat(md5(i::text), 20) from generate_series(10, 60000) i";
    query(&engine, "seeded", fill).await.expect("45 MB");
    // The branch itself has written what it has to by then.
    engine.take_snapshot("seeded", Default::default()).await.expect("a snapshot");
    settle(&engine).await;
    let path = home.path().join("volumes/filling");
    let file = fs::File::create(&path).expect("a file");
    let mut left = 1400_u64 << 20;
    while left > 1 << 20 {
        let length = fs::metadata(&path).expect("its length").len();
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), length, left) {
            Ok(()) => {}
            Err(_) => left /= 2,
        }
    }
    // Room for the snapshot, and not for what is done to it.
    let length = fs::metadata(&path).expect("its length").len();
    file.set_len(length - (40 << 20)).expect("some room");
    let error = promote(&engine, "seeded").await.expect_err("no room");
    drop(file);
    fs::remove_file(&path).expect("the file goes");
    if error.code == "server_failed" {
        // The branch's own server was the first that found no room, and ended for it.
        assert_eq!(engine.source("app").expect("the source").generation, 1, "{error}");
        engine.close().await.expect("close");
        return;
    }
    assert_eq!(error.code, "disk_full", "{error}");
    engine
        .snapshots("seeded")
        .expect("snapshots")
        .iter()
        .for_each(|view| drop(engine.remove_snapshot("seeded", &view.id)));
    until("nothing is left", async || is_clean(&home)).await;
    assert_eq!(engine.source("app").expect("the source").generation, 1);
    engine.close().await.expect("close");
}

/// G3: what no server makes is not taken along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_in_a_data_directory_are_refused() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "seeded", Policy::ReadWrite).await;
    settle(&engine).await;
    let volume = volumes(&home, "branches")
        .into_iter()
        .map(|name| home.path().join("volumes/branches").join(name))
        .find(|dir| dir.join("postmaster.pid").exists())
        .expect("a volume");
    // Of every branch that there is, because which one is leased does not show.
    for name in volumes(&home, "branches") {
        let dir = home.path().join("volumes/branches").join(name);
        symlink("/etc/shadow", dir.join("global/pg_filenode.map.link")).expect("a link");
    }
    let error = promote(&engine, "seeded").await.expect_err("refused");
    assert_eq!(error.code, "branch_tampered", "{error}");
    assert!(is_clean(&home) && volume.exists());
    assert_eq!(engine.source("app").expect("the source").generation, 1);
    engine.close().await.expect("close");
}
