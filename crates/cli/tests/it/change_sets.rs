//! `duramen change` and `duramen try` through a real daemon: what was changed in one branch is carried to another database, once.

use crate::support::{add_script, connect, create, query, settle, text, wire, Home};
use duramen_api::model::{CreateBranch, Policy};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

const SETUP: &str = "
create table orders (id bigint generated always as identity primary key, state text not null, total numeric);
insert into orders (state, total) select 'new', i / 3.0 from generate_series(1, 20000) i;
create table notes (body text, data json);
insert into notes select 'note ' || i % 10, '{\"a\" : 1}' from generate_series(1, 300) i;
create table big (id int primary key, v text);
insert into big select i, 'v' from generate_series(1, 50000) i;
create sequence ticket;
";

/// What somebody who works on data and schema does.
const WORK: &[&str] = &[
    "update orders set state = 'paid' where id % 1000 = 7",
    "delete from orders where id = 5",
    "insert into orders (state, total) values ('fresh', null)",
    "delete from notes where ctid in (select ctid from notes where body = 'note 1' order by ctid limit 2)",
    "insert into notes values ('tab\there', null), ('note 3', '{}')",
    "alter table orders add column city text default 'here'",
    "update orders set city = 'there' where id < 10",
    "alter table big add column note text",
    "update big set note = 'n' where id % 5000 = 0",
    "create table invoice (id int primary key, orders bigint not null references orders)",
    "insert into invoice values (1, 1)",
    "create index on orders (state)",
    "select nextval('ticket')",
];

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).expect("it is JSON")
}

async fn lease(connection: &mut duramen_client::Connection, name: &str) -> String {
    let wanted =
        CreateBranch { name: Some(name.to_owned()), policy: Some(Policy::Ddl), ..CreateBranch::default() };
    connection.create_branch(&wanted).await.unwrap().url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_branch_changed_is_carried_to_another_database_once() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, SETUP, 2, 1).await;
    settle(&mut connection).await;
    let (work, target) = (lease(&mut connection, "work").await, lease(&mut connection, "target").await);
    let file = home.beside("work.dpack");
    let file = file.to_str().unwrap();

    let nothing = home.run(&["change", "make", "work", "--out", file]);
    assert!(stdout(&nothing).starts_with("nothing differs in work"), "{nothing:?}");
    assert!(!Path::new(file).exists());

    let client = wire(&work).await;
    for statement in WORK {
        client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    let made = json(&home.run(&["--json", "change", "make", "work", "--out", file]));
    let digest = made["digest"].as_str().unwrap().to_owned();
    let source = connection.source("app").await.unwrap();
    assert_eq!(made["changes"]["origin"]["snapshot_digest"], Value::from(source.digest));
    // A column with a default brings all rows; one without brings those that have something in it.
    let rows = &made["changes"]["rows"];
    assert_eq!(
        (&rows["changed"], &rows["added"], &rows["removed"]),
        (&20009.into(), &4.into(), &3.into()),
        "{made}"
    );

    // Evidence of the branch names the same digest of what differs, found by the daemon.
    let evidence = json(&home.run(&["--json", "branch", "evidence", "work", "--diff"]));
    assert_eq!(evidence["diff"]["digest"], made["changes"]["diff_digest"]);
    assert_eq!(evidence["diff"]["rows"], made["changes"]["rows"]);
    assert!(stdout(&home.run(&["branch", "evidence", "work", "--diff"]))
        .contains("4 rows added, 3 removed, 20009 changed"));
    assert!(json(&home.run(&["--json", "branch", "evidence", "work"])).get("diff").is_none());

    signatures(&home, file);

    // It is read before it is used.
    let shown = stdout(&home.run(&["change", "show", file, "--limit", "3"]));
    for words in
        ["create table public.invoice", &digest, "with the rights of whoever applies them", "20009 changed"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let ddl = stdout(&home.run(&["change", "show", file, "--format", "ddl"]));
    assert!(ddl.contains("alter table public.big add column note text;\n"), "{ddl}");
    let all = json(&home.run(&["change", "show", file, "--format", "json"]));
    assert_eq!(
        all["parts"].as_array().unwrap().iter().filter(|part| part.get("row").is_some()).count(),
        20016
    );
    assert!(stdout(&home.run(&["change", "verify", file])).starts_with("sound: "));
    assert_eq!(
        json(&home.run(&["--json", "pack", "info", file]))["changes"]["statements"],
        made["changes"]["statements"]
    );
    assert!(stdout(&home.run(&["pack", "verify", file])).contains(&digest));
    assert_eq!(home.run(&["pack", "cat", file]).status.code(), Some(2));

    // As it was: tried, done, and not done again.
    let apply = |more: &[&str]| home.run(&[&["change", "apply", file, "--to", &target], more].concat());
    let tried = apply(&["--dry-run"]);
    assert!(stdout(&tried).contains("it was taken back"), "{tried:?}");
    assert!(text(&tried.stderr).contains("run with the rights of"), "{tried:?}");
    assert!(stdout(&home.run(&["branch", "diff", "target", "--data"])).starts_with("no row differs"));
    assert_eq!(json(&apply(&["--json"]))["status"], "applied");
    assert_eq!(json(&apply(&["--json"]))["status"], "already-applied");
    assert!(stdout(&apply(&[])).contains("already applied to "));

    let left = connection.schema_diff("target", Some("work")).await.unwrap();
    let left: Vec<&str> =
        left.changes.iter().map(|it| it.name.as_str()).filter(|name| !name.starts_with("duramen")).collect();
    assert_eq!(left, Vec::<&str>::new());
    for table in ["orders", "notes", "big", "invoice"] {
        let sql = format!("select md5(string_agg(t::text, ',' order by t::text)) from {table} t");
        let here = query(&mut connection, "target", &sql).await.unwrap();
        assert_eq!(here, query(&mut connection, "work", &sql).await.unwrap(), "{table}");
    }
    // What the target remembers is carried nowhere, and what else is in it is the same change.
    let again = home.beside("again.dpack");
    let made = json(&home.run(&["--json", "change", "make", "target", "--out", again.to_str().unwrap()]));
    assert_eq!(made["changes"]["rows"], *rows);
    assert_eq!(made["changes"]["statements"], all["head"]["statements"]);

    // Not as it was: nothing is done, and it is told why.
    let other = lease(&mut connection, "other").await;
    query(&mut connection, "other", "update orders set total = 77 where id = 7").await.unwrap();
    let refused = home.run(&["change", "apply", file, "--to", &other]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("public.orders [id '7']: total was '2.3333333333333333', and is '77'"),
        "{refused:?}"
    );
    let refused = home.run(&["--json", "change", "apply", file, "--to", &other]);
    let told: Value = serde_json::from_str(&text(&refused.stdout)).unwrap();
    assert_eq!(
        (&told["status"], &told["conflicts"][0]["columns"][0]["found"]),
        (&"conflicts".into(), &"77".into())
    );

    // A damaged file is none.
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).unwrap();
    for command in [
        &["change", "verify", file][..],
        &["change", "show", file],
        &["change", "apply", file, "--to", &other],
    ] {
        let refused = home.run(command);
        assert_eq!(refused.status.code(), Some(1), "{command:?}");
        assert!(text(&refused.stderr).contains("is damaged between"), "{refused:?}");
    }
}

/// By OpenSSL's keys, where OpenSSL is there to make them: it is wherever this is built.
fn signatures(home: &Home, file: &str) {
    let [private, public, another, other] =
        ["key.pem", "public.pem", "another.pem", "other.pem"].map(|name| home.beside(name));
    let openssl = |arguments: &[&str]| {
        let made = Command::new("openssl").args(arguments).output().expect("openssl runs");
        assert!(made.status.success(), "{made:?}");
    };
    let [private, public, another, other] =
        [&private, &public, &another, &other].map(|path| path.to_str().unwrap());
    for (key, shown) in [(private, public), (another, other)] {
        openssl(&["genpkey", "-algorithm", "ed25519", "-out", key]);
        openssl(&["pkey", "-in", key, "-pubout", "-out", shown]);
    }
    let unsigned = home.run(&["change", "verify", file, "--key", public]);
    assert_eq!(unsigned.status.code(), Some(1), "{unsigned:?}");
    assert!(stdout(&home.run(&["change", "sign", file, "--key", private])).contains("signed by the key"));
    assert!(stdout(&home.run(&["change", "verify", file, "--key", public])).contains("signed by that key"));
    for command in [
        &["change", "verify", file, "--key", other][..],
        &["change", "apply", file, "--to", "postgres://nobody@/x?host=/nowhere", "--key", other],
    ] {
        let refused = home.run(command);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(
            text(&refused.stderr).contains("is not a signature of this change set by that key"),
            "{refused:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_of_a_source_that_changed_is_refused_where_that_matters() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(
        &home,
        &mut connection,
        "create table t (id int primary key); insert into t values (1);",
        2,
        1,
    )
    .await;
    settle(&mut connection).await;
    let create = |name: &str| home.run(&["--json", "branch", "create", name, "--require-clean-source"]);
    assert_eq!(json(&create("clean"))["name"], "clean");
    let of_branch = home.run(&["branch", "create", "child", "--from", "clean", "--require-clean-source"]);
    assert!(of_branch.status.success(), "{of_branch:?}");
    let script = home.beside("app.sql");
    fs::write(&script, "create table t (id int primary key); insert into t values (2);").unwrap();
    let refused = create("late");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains("\"code\":\"source_not_clean\""), "{refused:?}");
    assert!(home.run(&["branch", "create", "late"]).status.success(), "it is refused where it was asked for");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_tried_and_what_it_changed_is_kept() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, SETUP, 2, 1).await;
    settle(&mut connection).await;
    let file = home.beside("try.dpack");
    let file = file.to_str().unwrap();
    let run = |options: &[&str], script: &str| {
        home.run(&[&["try", "--out", file], options, &["--", "sh", "-c", script]].concat())
    };
    let psql = |sql: &str| format!("psql -X -q -A -t -v ON_ERROR_STOP=1 -c \"{sql}\"");

    // Its failure is passed on, and leaves neither a file nor a branch.
    let failed = run(&[], &format!("{}; exit 7", psql("delete from orders where id = 1")));
    assert_eq!(failed.status.code(), Some(7), "{failed:?}");
    assert!(text(&failed.stderr).contains("none, because the command failed"), "{failed:?}");
    assert!(!Path::new(file).exists());
    assert!(connection.branches().await.unwrap().is_empty());
    let nothing = run(&[], "echo nothing");
    assert!(
        stdout(&nothing) == "nothing\n" && text(&nothing.stderr).contains("because nothing differs"),
        "{nothing:?}"
    );
    let ended = run(&[], "kill -TERM $$");
    assert_eq!(ended.status.code(), Some(143), "{ended:?}");
    assert!(connection.branches().await.unwrap().is_empty());

    let tried = run(
        &["--policy", "ddl"],
        &psql("update orders set state = 'paid' where id < 4; create table fresh (id int)"),
    );
    let said = text(&tried.stderr);
    assert_eq!(tried.status.code(), Some(0), "{said}");
    for words in [
        "1 statement; 0 rows added, 0 removed, 3 changed in 1 table",
        &format!("duramen change apply {file} --to URL"),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(connection.branches().await.unwrap().is_empty());
    // What cannot be written is told, and the branch is gone all the same.
    let nowhere = home.run(&[
        "try",
        "--out",
        "/nowhere/x.dpack",
        "--",
        "sh",
        "-c",
        &psql("delete from orders where id = 1"),
    ]);
    assert_eq!(nowhere.status.code(), Some(1), "{nowhere:?}");
    assert!(connection.branches().await.unwrap().is_empty());

    let target = lease(&mut connection, "target").await;
    stdout(&home.run(&["change", "apply", file, "--to", &target]));
    let paid =
        query(&mut connection, "target", "select count(*) from orders where state = 'paid'").await.unwrap();
    assert_eq!(paid[0][0], 3);
    create(&mut connection, "untouched").await.unwrap();
    assert!(stdout(&home.run(&["branch", "diff", "untouched", "--data"])).starts_with("no row differs"));
}
