//! Branches of branches, and branches that go back: invariants L1 to L9.

use crate::filler::{Filler, LITTLE};
use crate::support::{lease, pool, query, rows, settle, until, Home};
use duramen_api::model::{
    BranchView, CreateBranch, Policy, RestoreBranch, SnapshotKind, SnapshotSettings, SourceSettings,
    TakeSnapshot,
};
use duramen_branches::{Engine, EngineError, WantedDiff};
use duramen_changes::Part;
use serde_json::json;
use std::{
    fs,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::Duration,
};

const SCRIPT: &str = "create table t (id int primary key, x text); insert into t values (1, 'source'); \
                      create unlogged table u (x int);";

async fn fork(engine: &Arc<Engine>, from: &str, name: &str) -> Result<BranchView, EngineError> {
    let request =
        CreateBranch { name: Some(name.to_owned()), from: Some(from.to_owned()), ..CreateBranch::default() };
    engine.create(request).await
}

async fn keep(engine: &Arc<Engine>, name: &str, called: &str) -> Result<String, EngineError> {
    let request = TakeSnapshot { name: Some(called.to_owned()), quiesce: false };
    engine.take_snapshot(name, request).await.map(|view| view.id)
}

async fn restore(engine: &Arc<Engine>, name: &str, to: &str) -> Result<BranchView, EngineError> {
    engine.restore(name, RestoreBranch { to: to.to_owned() }).await
}

/// The volumes of snapshots that there are.
fn volumes(home: &Home) -> usize {
    let found = fs::read_dir(home.path().join("volumes/branches")).expect("volumes").flatten();
    found.filter(|entry| entry.file_name().to_string_lossy().starts_with("s-")).count()
}

async fn connected(url: &str) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// L1, L3, L4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_holds_what_its_parent_held_and_depends_on_nothing_else() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 1)])).await;
    let parent = lease(&engine, "parent", Policy::ReadWrite).await;
    query(&engine, "parent", "insert into t values (2, 'parent')").await.expect("a row");
    query(&engine, "parent", "insert into u values (1)").await.expect("an unlogged row");

    let child = fork(&engine, "parent", "child").await.expect("a child");
    let of = child.parent.as_ref().expect("what it was made of");
    assert_eq!((of.id.as_str(), of.name.as_str(), of.unlogged.as_str()), (&*parent.id, "parent", "empty"));
    assert_eq!((child.policy, child.source.as_str()), (Policy::ReadWrite, "app"));
    assert_ne!((&child.id, &child.url), (&parent.id, &parent.url));
    let all = "select string_agg(x, ',' order by id) from t";
    assert_eq!(rows(&engine, "child", all).await, json!([["source,parent"]]));
    assert_eq!(rows(&engine, "child", "select count(*) from u").await, json!([[0]]));
    let again = fork(&engine, "parent", "child").await.expect("the same again");
    assert!(again.existing && again.id == child.id);

    query(&engine, "child", "insert into t values (3, 'child')").await.expect("a row");
    query(&engine, "parent", "update t set x = 'changed' where id = 2").await.expect("a change");
    assert_eq!(rows(&engine, "child", all).await, json!([["source,parent,child"]]));
    assert_eq!(rows(&engine, "parent", all).await, json!([["source,changed"]]));

    let grandchild = fork(&engine, "child", "grandchild").await.expect("a grandchild");
    assert_eq!(grandchild.parent.expect("what it was made of").id, child.id);
    engine.reset("child").await.expect("a reset");
    assert_eq!(rows(&engine, "child", all).await, json!([["source,parent"]]), "what it was made of");
    engine.destroy("parent").expect("a parent can go");
    engine.reset("child").await.expect("its child stays");
    assert_eq!(rows(&engine, "child", all).await, json!([["source,parent"]]));
    engine.destroy("child").expect("destroy");
    engine.reset("grandchild").await.expect("so does a grandchild");
    assert_eq!(rows(&engine, "grandchild", all).await, json!([["source,parent,child"]]));

    engine.destroy("grandchild").expect("destroy");
    settle(&engine).await;
    assert_eq!(volumes(&home), 0, "nobody needs a snapshot any more");
    engine.close().await.expect("close");
}

/// L1, L2: two rows are always equal in the parent, and every number that was acknowledged before a child was asked for is in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_of_a_busy_parent_is_whole() {
    let home = Home::new();
    let engine = home.open().await;
    let script = "create table a (n bigint); create table b (n bigint); insert into a values (0); insert into b values (0); \
                  create table log (n bigint primary key, pad text);";
    home.add_script(&engine, script, pool(&[(Policy::ReadWrite, 1)])).await;
    let parent = lease(&engine, "parent", Policy::ReadWrite).await;
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(std::sync::atomic::AtomicI64::new(0)));
    let writer = {
        let (stop, done, url) = (Arc::clone(&stop), Arc::clone(&done), parent.url.clone());
        tokio::spawn(async move {
            let mut client = connected(&url).await.expect("a connection");
            while !stop.load(Ordering::Acquire) {
                let n = done.load(Ordering::Acquire) + 1;
                let transaction = client.transaction().await.expect("a transaction");
                transaction.execute("update a set n = $1", &[&n]).await.expect("a");
                transaction
                    .execute("insert into log values ($1, repeat('x', 500))", &[&n])
                    .await
                    .expect("log");
                transaction.execute("update b set n = $1", &[&n]).await.expect("b");
                transaction.commit().await.expect("a commit");
                done.store(n, Ordering::Release);
            }
        })
    };
    until("the parent is busy", async || done.load(Ordering::Acquire) > 50).await;
    for number in 0..8 {
        let before = done.load(Ordering::Acquire);
        let name = format!("c{number}");
        fork(&engine, "parent", &name).await.expect("a child");
        let found = rows(
            &engine,
            &name,
            "select a.n, b.n, (select count(*) from log), (select max(n) from log) from a, b",
        )
        .await;
        let [a, b, count, last] = [0, 1, 2, 3].map(|i| found[0][i].as_i64().expect("a number"));
        assert!(a == b && count == a && last == a, "{name}: {found}");
        assert!(a >= before, "{name}: {a} of at least {before}");
        engine.destroy(&name).expect("destroy");
    }
    stop.store(true, Ordering::Release);
    writer.await.expect("the parent went on");
    let n = done.load(Ordering::Acquire);
    assert_eq!(rows(&engine, "parent", "select n from b").await, json!([[n]]), "it lost nothing");
    engine.close().await.expect("close");
}

/// Rows that differ from what a branch was made of: added, removed, changed.
async fn differences(engine: &Arc<Engine>, name: &str) -> (u64, u64, u64) {
    let (told, mut hear) = tokio::sync::mpsc::channel(1000);
    let wanted = WantedDiff { rows: 100, ..WantedDiff::default() };
    let heard = async {
        let mut counts = (0, 0, 0);
        while let Some(part) = hear.recv().await {
            if let Part::Ending(ending) = part {
                counts = (counts.0 + ending.added, counts.1 + ending.removed, counts.2 + ending.changed);
            }
        }
        counts
    };
    let compare = async {
        let compared = engine.data_diff(None, name, wanted, &told).await;
        drop(told);
        compared.expect("a comparison");
    };
    tokio::join!(compare, heard).1
}

/// L4: a child is compared with what it was made of, also when that was written to meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_differs_from_its_parent_as_it_was() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 2)])).await;
    let parent = lease(&engine, "parent", Policy::ReadWrite).await;
    engine.administrator_url("parent").await.expect("its administrator has a secret of its own by now");
    query(&engine, "parent", "insert into t select i, 'x' from generate_series(10, 5000) i")
        .await
        .expect("rows");
    // What is under way then ends without a commit in the child, and with one in the parent.
    let client = connected(&parent.url).await.expect("a connection");
    client
        .batch_execute("begin; insert into t values (9001, 'open'); delete from t where id = 11")
        .await
        .expect("open");
    fork(&engine, "parent", "child").await.expect("a child");
    client.batch_execute("commit").await.expect("a commit");
    assert_eq!(differences(&engine, "child").await, (0, 0, 0));
    query(&engine, "child", "update t set x = 'y' where id in (20, 3000)").await.expect("two");
    query(&engine, "child", "delete from t where id = 1").await.expect("one");
    query(&engine, "child", "insert into t values (9002, 'new')").await.expect("one");
    assert_eq!(differences(&engine, "child").await, (1, 1, 2));
    engine.destroy("parent").expect("destroy");
    assert_eq!(differences(&engine, "child").await, (1, 1, 2));
    engine.undo("child").await.expect_err("it never went back");
    engine.reset("child").await.expect("a reset");
    assert_eq!(differences(&engine, "child").await, (0, 0, 0));
    engine.close().await.expect("close");
}

/// L3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_secrets_of_a_parent_open_no_child() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 1)])).await;
    let parent = lease(&engine, "parent", Policy::ReadWrite).await;
    let admin_of_parent = engine.administrator_url("parent").await.expect("its administrator").url;
    let child = fork(&engine, "parent", "child").await.expect("a child");
    let admin_of_child = engine.administrator_url("child").await.expect("its administrator").url;
    let secret = |url: &str| url.split("password=").nth(1).expect("a secret").to_owned();
    for (of_child, of_parent) in [(&child.url, &parent.url), (&admin_of_child, &admin_of_parent)] {
        connected(of_child).await.expect("its own secret opens it");
        let mixed = of_child.replace(&secret(of_child), &secret(of_parent));
        let error = connected(&mixed).await.expect_err("refused");
        assert_eq!(error.code(), Some(&tokio_postgres::error::SqlState::INVALID_PASSWORD), "{error:?}");
    }
    // And that goes on down the line, through resets and a new daemon.
    fork(&engine, "child", "grandchild").await.expect("a grandchild");
    engine.reset("grandchild").await.expect("a reset");
    engine.close().await.expect("close");
    let engine = home.open().await;
    let admin = engine.administrator_url("grandchild").await.expect("its administrator").url;
    connected(&admin).await.expect("its own secret opens it");
    let mixed = admin.replace(&secret(&admin), &secret(&admin_of_parent));
    connected(&mixed).await.expect_err("refused");
    engine.close().await.expect("close");
}

/// L5, L6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_goes_back_and_forth_and_loses_nothing() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "try", Policy::ReadWrite).await;
    let count = "select count(*) from t";
    assert_eq!(engine.undo("try").await.expect_err("nothing was done").code, "nothing_to_undo");
    query(&engine, "try", "insert into t values (2, 'two')").await.expect("a row");
    let first = keep(&engine, "try", "two").await.expect("a snapshot");
    assert_eq!(keep(&engine, "try", "two").await.expect_err("again").code, "snapshot_exists");
    query(&engine, "try", "insert into t values (3, 'three')").await.expect("a row");
    let between = duramen_base::clock::utc_now();

    assert_eq!(restore(&engine, "try", "tow").await.expect_err("misspelt").code, "unknown_snapshot");
    let early = restore(&engine, "try", "2001-01-01T00:00:00Z").await.expect_err("too early");
    assert_eq!(early.code, "unknown_snapshot");
    restore(&engine, "try", "two").await.expect("a restore");
    assert_eq!(rows(&engine, "try", count).await, json!([[2]]));
    engine.undo("try").await.expect("an undo");
    assert_eq!(rows(&engine, "try", count).await, json!([[3]]), "what it was before");
    engine.undo("try").await.expect("an undo of the undo");
    assert_eq!(rows(&engine, "try", count).await, json!([[2]]));
    engine.reset("try").await.expect("a reset");
    assert_eq!(rows(&engine, "try", count).await, json!([[1]]));
    engine.undo("try").await.expect("an undo of the reset");
    assert_eq!(rows(&engine, "try", count).await, json!([[2]]));
    restore(&engine, "try", &between.to_string()).await.expect("the newest one of that time");
    assert_eq!(rows(&engine, "try", count).await, json!([[2]]), "that is the named one");

    // Three are kept that nobody asked for, and those of names.
    let kinds: Vec<SnapshotKind> =
        engine.snapshots("try").expect("snapshots").into_iter().map(|view| view.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == SnapshotKind::Named).count(), 1);
    assert_eq!(kinds.len(), 4, "{kinds:?}");

    // Another daemon knows them, and a child of an early one.
    fork(&engine, "try@two", "child").await.expect("a child of a snapshot");
    engine.remove_snapshot("try", "two").expect("it is removed");
    assert_eq!(engine.remove_snapshot("try", &first).expect_err("again").code, "unknown_snapshot");
    engine.close().await.expect("close");
    let engine = home.open().await;
    assert_eq!(engine.snapshots("try").expect("snapshots").len(), 3);
    engine.reset("child").await.expect("its base is still there");
    assert_eq!(rows(&engine, "child", count).await, json!([[2]]));
    engine.undo("try").await.expect("an undo");
    let tree = engine.tree();
    assert_eq!(tree.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["child", "try"]);
    assert_eq!(tree[0].parent.as_ref().expect("its parent").name, "try");
    for name in ["try", "child"] {
        engine.destroy(name).expect("destroy");
    }
    settle(&engine).await;
    assert_eq!(volumes(&home), 0);
    engine.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_parent_keeps_its_unlogged_rows() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "parent", Policy::ReadWrite).await;
    query(&engine, "parent", "insert into u values (1)").await.expect("an unlogged row");
    let request = CreateBranch { from: Some("parent".to_owned()), quiesce: true, ..CreateBranch::default() };
    let child = engine.create(request).await.expect("a child");
    assert_eq!(child.parent.expect("what it was made of").unlogged, "kept");
    for name in [child.name.as_str(), "parent"] {
        assert_eq!(rows(&engine, name, "select count(*) from u").await, json!([[1]]), "{name}");
    }
    engine.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_child_cannot_be_is_refused() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "parent", Policy::ReadWrite).await;
    lease(&engine, "other", Policy::ReadWrite).await;
    let wanted = |from: &str| CreateBranch { from: Some(from.to_owned()), ..CreateBranch::default() };
    let cases = [
        (CreateBranch { source: Some("elsewhere".to_owned()), ..wanted("parent") }, "other_than_parent"),
        (CreateBranch { policy: Some(Policy::Ddl), ..wanted("parent") }, "other_than_parent"),
        (CreateBranch { name: Some("other".to_owned()), ..wanted("parent") }, "name_clash"),
        (wanted("parnet"), "not_found"),
        (wanted("parent@nothing"), "unknown_snapshot"),
        (wanted("../parent"), "bad_name"),
    ];
    for (request, code) in cases {
        let error = engine.create(request.clone()).await.expect_err("refused");
        assert_eq!(error.code, code, "{request:?}: {error}");
    }
    settle(&engine).await;
    assert_eq!((engine.branches().len(), volumes(&home)), (2, 0), "nothing is left of them");
    engine.close().await.expect("close");
}

/// A caller who goes away leaves neither a branch nor a snapshot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_nobody_waits_for_leaves_nothing() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "parent", Policy::ReadWrite).await;
    for pause in [0, 2, 5, 10, 20, 40] {
        let making = fork(&engine, "parent", "child");
        let left = tokio::time::timeout(Duration::from_millis(pause), making).await;
        if left.is_ok() {
            engine.destroy("child").expect("it was made in time");
        }
    }
    until("nothing is left", async || {
        engine.status().settled && volumes(&home) == 0 && engine.branches().len() == 1
    })
    .await;
    engine.close().await.expect("close");
}

/// L9: bytes count for who wrote them, as long as anybody needs them, and no longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_child_shares_is_not_its_own() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "parent", Policy::ReadWrite).await;
    let fill = "insert into t select i, repeat(md5(i::text), 20) from generate_series(10, 40000) i";
    query(&engine, "parent", fill).await.expect("30 MB");
    fork(&engine, "parent", "child").await.expect("a child");
    if engine.branch("child").expect("child").disk.is_none() {
        println!("no quotas here: nothing to look at");
        engine.close().await.expect("close");
        return;
    }
    let own = |name: &str| {
        let node = engine.tree().into_iter().find(|node| node.name == name).expect("a node");
        (node.own_bytes.expect("own"), node.shared_bytes.expect("shared"))
    };
    let (parent, _) = own("parent");
    let (child, shared) = own("child");
    assert!(parent > 25 << 20, "{parent}");
    assert!(child < 20 << 20 && shared > 25 << 20, "{child} own, {shared} shared");
    engine.destroy("parent").expect("destroy");
    settle(&engine).await;
    let (after, shared) = own("child");
    assert!(after < 20 << 20 && shared > 25 << 20, "{after} own, {shared} shared");
    assert_eq!(rows(&engine, "child", "select count(*) from t").await, json!([[39992]]));
    engine.close().await.expect("close");
}

/// L10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_nearly_full_keeps_nothing_that_nobody_asked_for() {
    let home = Home::with_small_store();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "try", Policy::ReadWrite).await;
    keep(&engine, "try", "wanted").await.expect("a snapshot");
    engine.reset("try").await.expect("a reset");
    assert_eq!(engine.snapshots("try").expect("snapshots").len(), 2);
    let filler = Filler::begin(&home);
    until("what nobody asked for ends", async || {
        filler.leave(LITTLE);
        engine.snapshots("try").expect("snapshots").iter().all(|it| it.kind == SnapshotKind::Named)
    })
    .await;
    filler.leave(LITTLE);
    engine.reset("try").await.expect("a reset");
    assert_eq!(engine.snapshots("try").expect("snapshots").len(), 1, "the one that was asked for");
    assert_eq!(engine.undo("try").await.expect_err("nothing is kept").code, "nothing_to_undo");
    filler.remove();
    engine.close().await.expect("close");
}

/// Snapshots that are taken without being asked for, and ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_are_taken_at_an_interval_and_only_so_many_kept() {
    let home = Home::new();
    let engine = home.open().await;
    let snapshots = SnapshotSettings { every_s: Some(5), ..SnapshotSettings::default() };
    let often = SourceSettings { snapshots, ..pool(&[(Policy::ReadWrite, 1)]) };
    let refused = home.try_script(&engine, SCRIPT, often).await.expect_err("too often");
    assert_eq!(refused.code, "bad_snapshot_settings");
    let snapshots = SnapshotSettings { every_s: Some(10), keep: Some(1), keep_s: None };
    home.add_script(&engine, SCRIPT, SourceSettings { snapshots, ..pool(&[(Policy::ReadWrite, 1)]) }).await;
    lease(&engine, "try", Policy::ReadWrite).await;
    until("one is taken", async || !engine.snapshots("try").expect("snapshots").is_empty()).await;
    let first = engine.snapshots("try").expect("snapshots").remove(0);
    assert_eq!(first.kind, SnapshotKind::Interval);
    query(&engine, "try", "insert into t values (2, 'two')").await.expect("a row");
    until("the next one takes its place", async || {
        let found = engine.snapshots("try").expect("snapshots");
        found.len() == 1 && found[0].id != first.id
    })
    .await;
    engine.close().await.expect("close");
}
