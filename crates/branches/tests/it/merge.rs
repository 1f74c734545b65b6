//! Merging branches: invariants M1 to M10 of docs/design/merging.md. What becomes of rows is tested where it is decided, in
//! the crate `carry`.

use crate::support::{lease, majors, pool, query, rows, settle, Home};
use duramen_api::model::{
    BranchView, CreateBranch, MergeBranch, MergeEqual, MergeReport, MergeStatus, MergeStrategy,
    MergeTriggers, Policy, PromoteBranch, TakeSnapshot,
};
use duramen_branches::{Engine, EngineError};
use serde_json::json;
use std::{fs, sync::Arc};

const SCRIPT: &str = "create table item (id int primary key, stock int, name text); \
                      insert into item select i, 10, 'item ' || i from generate_series(1, 1000) i; \
                      create table log (line text); create sequence tickets;";

async fn fork(engine: &Arc<Engine>, from: &str, name: &str) -> BranchView {
    let request =
        CreateBranch { name: Some(name.to_owned()), from: Some(from.to_owned()), ..CreateBranch::default() };
    engine.create(request).await.expect("a child")
}

fn into(parent: &str) -> MergeBranch {
    MergeBranch {
        into: parent.to_owned(),
        strategy: MergeStrategy::Fail,
        equal: MergeEqual::Conflict,
        triggers: MergeTriggers::Refuse,
        dry_run: false,
    }
}

async fn merge(engine: &Arc<Engine>, child: &str, wanted: &MergeBranch) -> Result<MergeReport, EngineError> {
    engine.merge(None, child, wanted).await
}

async fn run(engine: &Arc<Engine>, name: &str, sql: &str) {
    query(engine, name, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

async fn refused(engine: &Arc<Engine>, child: &str, wanted: &MergeBranch) -> &'static str {
    merge(engine, child, wanted).await.expect_err("it is refused").code
}

/// M1, M2, M4, M5, under the policy that cannot make a schema, on every server that is installed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m4_what_a_child_changed_comes_into_its_parent_once() {
    for major in majors() {
        let home = Home::new();
        let engine = home.open().await;
        home.add_cluster(&engine, major, SCRIPT, pool(&[(Policy::ReadWrite, 1)])).await;
        lease(&engine, "parent", Policy::ReadWrite).await;
        run(&engine, "parent", "update item set name = 'before' where id = 5").await;
        let keep = TakeSnapshot { name: Some("common".to_owned()), quiesce: false };
        engine.take_snapshot("parent", keep).await.expect("a snapshot");
        fork(&engine, "parent@common", "child").await;
        fork(&engine, "parent@common", "sibling").await;
        assert_eq!(merge(&engine, "child", &into("parent")).await.unwrap().status, MergeStatus::NothingToDo);
        run(&engine, "child", "update item set stock = 9 where id <= 2").await;
        run(&engine, "child", "insert into log values ('child'), ('child')").await;
        run(&engine, "child", "select nextval('tickets')").await;
        run(&engine, "parent", "update item set name = 'parent' where id = 1").await;
        let dry = MergeBranch { dry_run: true, ..into("parent") };
        let told = merge(&engine, "child", &dry).await.expect("a dry run");
        assert_eq!(told.status, MergeStatus::WouldMerge);
        let tables: Vec<_> =
            told.tables.iter().map(|it| (it.name.as_str(), it.inserted, it.updated, it.deleted)).collect();
        assert_eq!(tables, [("item", 0, 2, 0), ("log", 2, 0, 0)]);
        let schemas = "select count(*) from pg_namespace where nspname = 'duramen'";
        assert_eq!(rows(&engine, "parent", schemas).await, json!([[0]]), "a dry run left something");
        let told = merge(&engine, "child", &into("parent")).await.expect("a merge");
        assert_eq!((told.status, told.sequences), (MergeStatus::Merged, 1), "{told:?}");
        let item = "select id, stock, name from item where id in (1, 2, 5) order by id";
        let expected = json!([[1, 9, "parent"], [2, 9, "item 2"], [5, 10, "before"]]);
        assert_eq!(rows(&engine, "parent", item).await, expected);
        assert_eq!(rows(&engine, "parent", "select count(*) from log").await, json!([[2]]));
        assert_eq!(rows(&engine, "parent", "select nextval('tickets')").await, json!([[2]]));
        let told = merge(&engine, "child", &into("parent")).await.expect("a second time");
        assert_eq!(told.status, MergeStatus::AlreadyMerged);
        assert!(told.merged_at.is_some());
        // A sibling is merged into a sibling, and into the parent that remembers a merge by now.
        run(&engine, "sibling", "update item set stock = 8 where id = 2").await;
        let told = merge(&engine, "child", &into("sibling")).await.expect("a sibling");
        assert_eq!(told.status, MergeStatus::Conflicts);
        assert_eq!(
            told.conflicts[0].message,
            "public.item [id '2']: stock was '10', and is '8' in the parent and '9' in the child"
        );
        let theirs = MergeBranch { strategy: MergeStrategy::Theirs, ..into("parent") };
        let told = merge(&engine, "sibling", &theirs).await.expect("the other child");
        assert_eq!((told.status, told.conflicts[0].taken.as_deref()), (MergeStatus::Merged, Some("theirs")));
        assert_eq!(rows(&engine, "parent", "select stock from item where id = 2").await, json!([[8]]));
        // More was changed since.
        run(&engine, "child", "update item set stock = 1 where id = 9").await;
        assert_eq!(refused(&engine, "child", &theirs).await, "merged_before");
        // A parent that goes back to before remembers nothing, and can take it over again.
        engine.reset("parent").await.expect("a reset");
        let told = merge(&engine, "child", &into("parent")).await.expect("a merge");
        assert_eq!(told.status, MergeStatus::Merged);
        // A new child has what the parent remembers, and is merged as any other.
        fork(&engine, "parent", "fresh").await;
        run(&engine, "fresh", "delete from item where id = 100").await;
        assert_eq!(merge(&engine, "fresh", &into("parent")).await.unwrap().status, MergeStatus::Merged);
        assert_eq!(rows(&engine, "parent", "select count(*) from item").await, json!([[999]]));
        let left = fs::read_dir(home.path().join("merges")).expect("the folder").count();
        assert_eq!(left, 0, "files of merges stay");
        engine.close().await.expect("close");
    }
}

/// M4: what an origin, or a generation that was promoted, remembers of change sets is no one's that the holder is, and merges are
/// written down there all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m4_branches_of_what_remembers_merges_already_remember_theirs() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "first", Policy::ReadWrite).await;
    fork(&engine, "first", "child").await;
    run(&engine, "child", "update item set stock = 1 where id = 1").await;
    assert_eq!(merge(&engine, "child", &into("first")).await.unwrap().status, MergeStatus::Merged);
    engine.promote("first", PromoteBranch::default(), |_, _| {}).await.expect("a promotion");
    lease(&engine, "second", Policy::ReadWrite).await;
    let remembered = "select count(*) from duramen.applied_changes";
    assert_eq!(rows(&engine, "second", remembered).await, json!([[1]]));
    fork(&engine, "second", "late").await;
    run(&engine, "late", "update item set stock = 2 where id = 2").await;
    assert_eq!(merge(&engine, "late", &into("second")).await.unwrap().status, MergeStatus::Merged);
    assert_eq!(rows(&engine, "second", remembered).await, json!([[2]]));
    engine.close().await.expect("close");
}

/// M5, M6: who may be merged into what.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m5_branches_that_have_nothing_in_common_are_refused() {
    let home = Home::new();
    let engine = home.open().await;
    let sizes = [(Policy::ReadWrite, 1), (Policy::ReadOnly, 1), (Policy::Ddl, 1)];
    home.add_script(&engine, SCRIPT, pool(&sizes)).await;
    lease(&engine, "parent", Policy::ReadWrite).await;
    lease(&engine, "reading", Policy::ReadOnly).await;
    lease(&engine, "defining", Policy::Ddl).await;
    fork(&engine, "parent", "child").await;
    fork(&engine, "child", "grandchild").await;
    run(&engine, "grandchild", "update item set stock = 1 where id = 1").await;
    assert_eq!(refused(&engine, "parent", &into("parent")).await, "not_related");
    assert_eq!(refused(&engine, "grandchild", &into("parent")).await, "not_related");
    assert_eq!(refused(&engine, "parent", &into("child")).await, "not_related");
    assert_eq!(refused(&engine, "child", &into("nobody")).await, "not_found");
    assert_eq!(refused(&engine, "parent", &into("reading")).await, "policy_forbids");
    let told = merge(&engine, "grandchild", &into("child")).await.expect("one step");
    assert_eq!(told.status, MergeStatus::Merged);
    assert_eq!(merge(&engine, "child", &into("parent")).await.unwrap().status, MergeStatus::Merged);
    assert_eq!(rows(&engine, "parent", "select stock from item where id = 1").await, json!([[1]]));
    // Of the same snapshot, under other policies.
    run(&engine, "defining", "create table fresh (id int primary key)").await;
    assert_eq!(refused(&engine, "defining", &into("parent")).await, "policy_forbids");
    assert_eq!(merge(&engine, "parent", &into("defining")).await.unwrap().status, MergeStatus::Merged);
    assert_eq!(rows(&engine, "defining", "select stock from item where id = 1").await, json!([[1]]));
    engine.close().await.expect("close");
}

/// Definitions: those of the child come, those that both changed are the same or are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_definitions_come_along_unless_both_sides_changed_them() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::Ddl, 1)])).await;
    lease(&engine, "parent", Policy::Ddl).await;
    for name in ["child", "same", "other"] {
        fork(&engine, "parent", name).await;
    }
    for name in ["child", "same"] {
        run(&engine, name, "alter table item add column kind text").await;
        run(&engine, name, "create table fresh (id int generated always as identity primary key, v text)")
            .await;
        run(&engine, name, &format!("insert into fresh (v) values ('{name}')")).await;
        run(&engine, name, &format!("update item set kind = '{name}' where id = {}", name.len())).await;
    }
    run(&engine, "other", "alter table item add column kind int").await;
    let told = merge(&engine, "child", &into("parent")).await.expect("a merge");
    assert_eq!(told.status, MergeStatus::Merged);
    assert_eq!(told.statements.len(), 3, "{:?}", told.statements);
    assert_eq!(rows(&engine, "parent", "select kind from item where id = 5").await, json!([["child"]]));
    // The parent has `fresh` with a row of the same key by now.
    let told = merge(&engine, "same", &into("parent")).await.expect("a merge");
    assert_eq!((told.status, told.conflicts[0].reason.as_str()), (MergeStatus::Conflicts, "inserted"));
    let ours = MergeBranch { strategy: MergeStrategy::Ours, ..into("parent") };
    let told = merge(&engine, "same", &ours).await.expect("a merge");
    assert_eq!((told.status, told.statements.len()), (MergeStatus::Merged, 0));
    assert_eq!(rows(&engine, "parent", "select kind from item where id = 4").await, json!([["same"]]));
    let error = merge(&engine, "other", &into("parent")).await.expect_err("both changed them");
    assert_eq!(error.code, "definitions_differ");
    assert!(error.message.contains("kind int"), "{error}");
    engine.close().await.expect("close");
}

/// M6: whatever hangs on the parent's tables, schemas and types runs as the parent's holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m6_code_of_the_parent_never_has_our_rights() {
    for major in majors() {
        let home = Home::new();
        let engine = home.open().await;
        // An event trigger of the source's fires in branches; its function belongs to somebody whose rights the holder has.
        let script = format!(
            "{SCRIPT} create table seen (who text, su text); grant all on seen to public;
             create function noted() returns trigger language plpgsql as $$ begin \
               insert into public.seen values (current_user, current_setting('is_superuser')); return new; end $$;
             create function happened() returns event_trigger language plpgsql as $$ begin \
               insert into public.seen values (current_user, current_setting('is_superuser')); end $$;
             create event trigger happened on ddl_command_end execute function happened();
             alter event trigger happened enable always;"
        );
        let sizes = [(Policy::ReadWrite, 1), (Policy::Ddl, 1)];
        home.add_cluster(&engine, major, &script, pool(&sizes)).await;
        for (policy, parent, child) in
            [(Policy::ReadWrite, "writing", "w-child"), (Policy::Ddl, "defining", "d-child")]
        {
            lease(&engine, parent, policy).await;
            fork(&engine, parent, child).await;
            run(&engine, child, "update item set stock = 1 where id < 4").await;
            if policy == Policy::Ddl {
                for sql in [
                    "create trigger noted before update on item for each row execute function noted()",
                    // What would be called if a name or an operator were looked up where the holder put it.
                    "create schema trap",
                    "create function trap.format(text, int) returns text language plpgsql as $$ begin perform public.noted_now(); return 'x'; end $$",
                    "create function public.noted_now() returns void language sql as $$ insert into public.seen values (current_user, current_setting('is_superuser')) $$",
                    "create function trap.eq(int, int) returns bool language plpgsql as $$ begin perform public.noted_now(); return true; end $$",
                    "create operator trap.= (leftarg = int, rightarg = int, function = trap.eq)",
                    "create rule noted as on insert to log do also insert into seen values (current_user, current_setting('is_superuser'))",
                ] {
                    run(&engine, parent, sql).await;
                }
                let database = "do $$ begin execute format('alter database %I set search_path = trap, public, pg_catalog', current_database()); exception when insufficient_privilege then null; end $$";
                let _ = query(&engine, parent, database).await;
                run(&engine, parent, "alter role current_user set search_path = trap, public, pg_catalog")
                    .await;
                run(&engine, child, "insert into log values ('x')").await;
            }
            run(&engine, parent, "truncate seen").await;
            let fire = MergeBranch { triggers: MergeTriggers::Fire, ..into(parent) };
            let told = merge(&engine, child, &fire).await;
            let told = told.unwrap_or_else(|error| panic!("PostgreSQL {major}, {policy}: {error}"));
            assert_eq!(told.status, MergeStatus::Merged, "{told:?}");
            let found = rows(&engine, parent, "select distinct who, su from public.seen order by 1, 2").await;
            let expected = json!([[policy.role(), "off"]]);
            assert_eq!(found, expected, "PostgreSQL {major}, {policy}: code ran with other rights, or never");
            let done = rows(&engine, parent, "select count(*) from public.item where stock = 1").await;
            assert_eq!(done, json!([[3]]));
            let enabled = "select evtenabled from pg_catalog.pg_event_trigger where evtname = 'happened'";
            assert_eq!(rows(&engine, parent, enabled).await, json!([["A"]]), "it is as it was");
        }
        engine.close().await.expect("close");
    }
}

/// M6: a login role of the source may merge what it may write, and is told nothing of rows that a policy hides from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m6_a_role_of_the_source_merges_with_its_own_rights() {
    let home = Home::new();
    let engine = home.open().await;
    let script = "create role app login; create table mine (id int primary key, v text); create table hidden (id int primary key, owner text, v text);
      create table closed (id int primary key, v text); insert into closed values (1, 'secret-c');
      insert into mine values (1, 'x'); insert into hidden values (1, 'app', 'x'), (2, 'boss', 'secret-b');
      grant select, insert, update, delete on mine, hidden to app; grant update (v), select (id) on closed to app;
      alter table hidden enable row level security; create policy own on hidden using (owner = current_user);";
    home.add_cluster(&engine, majors()[0], script, pool(&[])).await;
    let policy = Policy::Role("app".parse().expect("a role"));
    lease(&engine, "parent", policy).await;
    for (name, sql) in [
        ("plain", "update mine set v = 'y'"),
        ("rows", "update hidden set v = 'y' where id = 1"),
        ("columns", "update closed set v = 'y' where id = 1"),
    ] {
        fork(&engine, "parent", name).await;
        run(&engine, name, sql).await;
    }
    run(&engine, "parent", "update closed set v = 'z' where id = 1").await;
    assert_eq!(merge(&engine, "plain", &into("parent")).await.unwrap().status, MergeStatus::Merged);
    assert_eq!(rows(&engine, "parent", "select v from mine").await, json!([["y"]]));
    for name in ["rows", "columns"] {
        let error = merge(&engine, name, &into("parent")).await.expect_err("it is refused");
        assert_eq!(error.code, "merge_refused", "{error}");
        assert!(!error.message.contains("secret"), "{error}");
    }
    engine.close().await.expect("close");
}

/// M9: a merge whose caller goes away leaves nothing; what a killed daemon left goes at the next opening.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m9_a_merge_that_is_given_up_leaves_nothing() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SCRIPT, pool(&[(Policy::ReadWrite, 1)])).await;
    let parent = lease(&engine, "parent", Policy::ReadWrite).await;
    fork(&engine, "parent", "child").await;
    run(&engine, "child", "update item set stock = 1").await;
    // Somebody holds a row: the merge waits for it in the parent, and its caller leaves meanwhile.
    let (mut holder, connection) =
        tokio_postgres::connect(&parent.url, tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    let transaction = holder.transaction().await.expect("a transaction");
    transaction.execute("update item set name = 'held' where id = 1", &[]).await.expect("a lock");
    let waiting = {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move { merge(&engine, "child", &into("parent")).await })
    };
    let waits = "select count(*) from pg_stat_activity where application_name = 'duramen branch merge' and wait_event_type = 'Lock'";
    crate::support::until("the merge waits for the row", async || {
        rows(&engine, "parent", waits).await == json!([[1]])
    })
    .await;
    waiting.abort();
    assert!(waiting.await.expect_err("it was given up").is_cancelled());
    transaction.commit().await.expect("a commit");
    let sessions = "select count(*) from pg_stat_activity where application_name = 'duramen branch merge'";
    crate::support::until("its session ends", async || {
        rows(&engine, "parent", sessions).await == json!([[0]])
    })
    .await;
    let one = "select count(*) from item where stock = 1";
    assert_eq!(rows(&engine, "parent", one).await, json!([[0]]), "a part of it was done");
    let told = fs::read_dir(home.path().join("audit")).expect("the log").flatten().any(|file| {
        let text = fs::read_to_string(file.path()).unwrap_or_default();
        text.lines().any(|line| line.contains("branch_merged") && line.contains("unfinished"))
    });
    assert!(told, "a merge without an end is in the audit log");
    let merges = home.path().join("merges");
    assert_eq!(fs::read_dir(&merges).expect("the folder").count(), 0);
    // Held for longer than a merge waits: told, and nothing done.
    let transaction = holder.transaction().await.expect("a transaction");
    transaction.execute("update item set name = 'held' where id = 1", &[]).await.expect("a lock");
    assert_eq!(refused(&engine, "child", &into("parent")).await, "rows_locked");
    transaction.rollback().await.expect("a rollback");
    let told = merge(&engine, "child", &into("parent")).await.expect("a merge");
    assert_eq!(told.status, MergeStatus::Merged);
    drop(holder);
    fs::create_dir(merges.join("left")).expect("a folder");
    fs::write(merges.join("left/child.dpack"), "x").expect("a file");
    std::os::unix::fs::symlink("/etc", merges.join("link")).expect("a link");
    settle(&engine).await;
    engine.close().await.expect("close");
    let engine = home.open().await;
    assert_eq!(fs::read_dir(&merges).expect("the folder").count(), 0, "what was left is there");
    assert!(std::path::Path::new("/etc/passwd").exists());
    engine.close().await.expect("close");
}
