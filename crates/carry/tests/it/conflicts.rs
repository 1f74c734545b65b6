//! What is not as it was keeps all of a change set from being applied, and is named.

use crate::support::{differences, parts, run, text, write, Server};
use duramen_carry::{apply, ApplyError, ApplyOptions, ChangeSet, Conflict, ConflictKind};
use std::time::Duration;

const SETUP: &str = r#"
create table item (id int primary key, v text, j json, n int);
create table bare (a int, t text);
create table gone (id int primary key); create table empty (id int);
create table parent (id int primary key, v text);
create table child (id int primary key, parent int references parent on delete cascade);
create table "od""d" ("k ' k" text primary key, "; drop table item; --" text);
insert into item select i, 'v' || i, '{"a": 1}', i from generate_series(1, 300) i;
insert into bare values (1, 'x'), (1, 'x'), (2, null);
insert into gone values (1), (2);
insert into parent values (1, 'p'), (2, 'p');
insert into child values (1, 1);
insert into "od""d" values ('1', 'one'), ('two''', E'tab\t\\');
"#;
const WORK: &[&str] = &[
    "update item set v = 'changed' where id <= 3",
    "delete from item where id = 4",
    "insert into item values (1000, 'new', null, 0)",
    "delete from bare where a = 1",
    "delete from child; delete from parent where id = 1",
    r#"update "od""d" set "; drop table item; --" = $$'); drop table item; --$$"#,
];

/// What others do to the target, the conflicts, and how one of them reads.
type Case = (&'static str, usize, &'static str);

const CASES: &[Case] = &[
    ("update item set n = 77 where id = 2", 1, "public.item [id '2']: n was '2', and is '77'"),
    ("update item set v = null, j = '{\"a\":1}' where id = 2", 1, "v was 'v2', and is NULL; j was"),
    ("delete from item where id in (3, 4)", 2, "public.item [id '4']: the row is not there any more"),
    ("insert into item values (1000, 'mine')", 1, "public.item [id '1000']: a row with this key is there already"),
    ("delete from bare where ctid = (select min(ctid) from bare where a = 1)", 1, "2 such rows are to go, and 1 are there"),
    ("insert into child values (2, 1)", 1, "1 rows of public.child that the change set does not know"),
    ("alter table item drop column j", 1, "the column j is not there"),
    ("alter table item alter n type bigint", 1, "the column n was integer, and is bigint"),
    ("alter table item drop constraint item_pkey", 1, "what identified its rows in the branch is not unique here"),
    ("drop table child", 1, "public.child: it is not there"),
    ("update \"od\"\"d\" set \"; drop table item; --\" = 'other' where \"k ' k\" = '1'", 1, "is 'other'"),
    ("delete from item", 4, "not there any more"),
    // What nobody in the branch touched is nobody's business.
    ("update item set v = 'others' where id > 10; insert into bare values (3, 'y'); insert into item values (2000, 'x')", 0, ""),
];

fn conflicts(error: ApplyError) -> (Vec<Conflict>, bool) {
    match error {
        ApplyError::Conflicts { conflicts, more } => (conflicts, more),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c3_rows_that_others_changed_are_named_and_nothing_is_done() {
    let server = Server::start();
    let [source, branch, _] = server.three(SETUP, WORK).await;
    let set = server.change_set(&source, &branch).await;
    for (work, count, words) in CASES {
        let target = server.copy(&source).await;
        run(&server.connect(&target).await, work).await;
        let before = server.copy(&target).await;
        let outcome = server.apply(&set, &target).await;
        if *count == 0 {
            outcome.unwrap_or_else(|error| panic!("{work}: {error:?}"));
            continue;
        }
        let (found, more) = conflicts(outcome.expect_err(work));
        let told: Vec<String> = found.iter().map(Conflict::to_string).collect();
        assert_eq!((found.len(), more), (*count, false), "{work}: {told:#?}");
        assert!(told.iter().any(|it| it.contains(words)), "{work}: {told:#?}");
        assert_eq!(differences(&server, &before, &target).await, Vec::<String>::new(), "{work}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c3_many_conflicts_are_cut_and_tables_that_go_have_no_more_rows() {
    let server = Server::start();
    let [source, branch, target] = server.three(SETUP, &["update item set n = n + 1"]).await;
    let set = server.change_set(&source, &branch).await;
    run(&server.connect(&target).await, "update item set v = 'x'").await;
    let (found, more) = conflicts(server.apply(&set, &target).await.unwrap_err());
    assert_eq!((found.len(), more), (100, true));

    let [source, branch, target] = server.three(SETUP, &["drop table gone; drop table empty"]).await;
    let set = server.change_set(&source, &branch).await;
    run(&server.connect(&target).await, "insert into gone values (3)").await;
    let (found, _) = conflicts(server.apply(&set, &target).await.unwrap_err());
    assert_eq!(found[0].kind, ConflictKind::MoreRows { expected: 2, found: 3 });
    run(&server.connect(&target).await, "delete from gone where id = 3; insert into empty values (1)").await;
    let (found, _) = conflicts(server.apply(&set, &target).await.unwrap_err());
    assert_eq!(found[0].kind, ConflictKind::MoreRows { expected: 0, found: 1 });
    run(&server.connect(&target).await, "delete from empty").await;
    server.apply(&set, &target).await.unwrap();
    assert_eq!(differences(&server, &branch, &target).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c3_what_others_commit_while_it_waits_is_seen() {
    let server = Server::start();
    let [source, branch, target] = server.three(SETUP, &["update item set v = 'mine' where id = 1"]).await;
    let set = server.change_set(&source, &branch).await;
    let other = server.connect(&target).await;
    run(&other, "begin; update item set n = 99 where id = 1").await;
    let waiting = async {
        let client = server.connect(&target).await;
        for _ in 0..1000 {
            let waits = text(&client, "select count(*)::text from pg_locks where not granted").await;
            if waits != "0" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it never waited for the lock");
    };
    let commit = async {
        waiting.await;
        run(&other, "commit").await;
    };
    let (outcome, ()) = tokio::join!(server.apply(&set, &target), commit);
    let (found, _) = conflicts(outcome.unwrap_err());
    assert!(found[0].to_string().contains("n was '1', and is '99'"), "{}", found[0]);

    // And it does not wait for ever.
    run(&other, "begin; update item set n = 1 where id = 1").await;
    let short = ApplyOptions { lock_timeout: Duration::from_millis(200), ..ApplyOptions::default() };
    let error = apply(&set, &server.target(&target), &short).await.unwrap_err();
    assert!(matches!(error, ApplyError::Locked { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_rows_that_a_policy_hides_are_no_missing_rows() {
    let server = Server::start();
    let [source, branch, target] = server.three(SETUP, &["update item set v = 'mine' where id = 1"]).await;
    let set = server.change_set(&source, &branch).await;
    let role = format!("r_{target}");
    run(
        &server.connect(&target).await,
        &format!(
            "create role {role} login; grant all on item to {role}; grant create, temporary on database {target} to {role}; \
             alter table item enable row level security; create policy p on item using (id > 100)"
        ),
    )
    .await;
    let options = ApplyOptions::default();
    let error = apply(&set, &server.target_as(&role, &target), &options).await.unwrap_err();
    assert!(matches!(&error, ApplyError::Refused { code: Some(code), .. } if code == "42501"), "{error:?}");
    run(&server.connect(&target).await, "alter table item disable row level security").await;
    apply(&set, &server.target_as(&role, &target), &options).await.unwrap();
    assert_eq!(text(&server.connect(&target).await, "select v from item where id = 1").await, "mine");
    assert_eq!(
        text(&server.connect(&target).await, "select applied_by from duramen.applied_changes").await,
        role
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c8_sequences_do_not_go_back_and_other_statements_are_no_part_of_it() {
    let server = Server::start();
    let script =
        "create sequence up; create sequence down increment by -1; create table t (id serial primary key); \
        select nextval('up'), nextval('down')";
    let work = &["select setval('up', 10); select setval('down', -10); insert into t default values"];
    let [source, branch, target] = server.three(script, work).await;
    let set = server.change_set(&source, &branch).await;
    run(&server.connect(&target).await, "select setval('up', 50); select setval('down', -5)").await;
    server.apply(&set, &target).await.unwrap();
    let client = server.connect(&target).await;
    let now = "select (select last_value from up) || ' ' || (select last_value from down) || ' ' || nextval('t_id_seq')";
    assert_eq!(text(&client, now).await, "50 -10 2");

    // Rows without the statements that they need are refused by their structure, before anything is done.
    let path = server.files.path().join("rows-alone.dpack");
    run(
        &server.connect(&branch).await,
        "create table fresh (id int primary key); insert into fresh values (1)",
    )
    .await;
    let (old, new) = (server.connect(&source).await, server.connect(&branch).await);
    write(&path, &[], &parts(&old, &new).await);
    drop((old, new));
    let target = server.copy(&source).await;
    assert!(server.apply(&ChangeSet::open(&path).unwrap(), &target).await.is_err());
}
