//! `duramen branch diff --data` through a real daemon: what it tells is what was changed, and its SQL makes it so elsewhere.

use crate::support::{add_script, connect, create, entries, query, settle, wire, Home};
use serde_json::Value;

const SETUP: &str = "
create table orders (id bigint generated always as identity primary key, state text not null, total numeric, at timestamptz);
insert into orders (state, total, at) select 'new', i / 3.0, timestamptz '2026-01-01' + i * interval '1 minute'
  from generate_series(1, 20000) i;
create table notes (body text, data jsonb, raw bytea);
insert into notes select 'note ' || i % 10, jsonb_build_object('i', i % 5), decode(md5(i::text), 'hex') from generate_series(1, 300) i;
create table \"odd \"\"name\" (\"a b\" int primary key, v text);
insert into \"odd \"\"name\" values (1, E'it''s \\\\ here'), (2, null);
create table untouched (id int primary key, v text);
insert into untouched select i, 'x' from generate_series(1, 1000) i;
create sequence ticket;
";

/// What a holder does.
const WORK: &[&str] = &[
    "update orders set state = 'paid' where id % 1000 = 7",
    "delete from orders where id = 5",
    "insert into orders (state, total) values ('fresh', null)",
    "insert into notes values ('tab\there', null, '\\xff00'), ('note 3', '{\"i\": 3}', null)",
    "delete from notes where ctid in (select ctid from notes where body = 'note 1' order by ctid limit 2)",
    "update \"odd \"\"name\" set v = E'\\\\ '' \\n' where \"a b\" = 2",
    "select setval('ticket', 42)",
];

fn stdout(home: &Home, arguments: &[&str]) -> String {
    let output = home.run(arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// The rows and sequences that a branch is told of, without what of it was read.
fn told(home: &Home, name: &str) -> Vec<Value> {
    let text = stdout(home, &["--json", "branch", "diff", name, "--data"]);
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["kind"] != "table").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_is_told_and_its_script_makes_it_so_elsewhere() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, SETUP, 3, 1).await;
    settle(&mut connection).await;
    let branch = create(&mut connection, "one").await.unwrap();
    let nothing = stdout(&home, &["branch", "diff", "one", "--data"]);
    assert_eq!(nothing, "no row differs in 4 tables\n");
    let client = wire(&branch.url).await;
    for statement in WORK {
        client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }

    let shown = stdout(&home, &["branch", "diff", "one", "--data"]);
    assert!(shown.contains("public.orders\n"), "{shown}");
    assert!(shown.contains("  ~ id '7': state 'new' -> 'paid'\n"), "{shown}");
    assert!(shown.contains("  1 added, 1 removed, 20 changed\n"), "{shown}");
    assert!(shown.contains("public.ticket (sequence): 1 (not given out) -> 42\n"), "{shown}");
    assert!(!shown.contains("untouched") && !shown.contains("all of it was read"), "{shown}");
    let lines = told(&home, "one");
    let summary = lines.last().unwrap();
    assert_eq!((&summary["differing"], &summary["added"]), (&3.into(), &3.into()), "{summary}");
    assert_eq!((&summary["removed"], &summary["changed"]), (&3.into(), &21.into()), "{summary}");

    let csv =
        stdout(&home, &["branch", "diff", "one", "--data", "--table", "public.orders", "--format", "csv"]);
    assert!(
        csv.contains("\"public.orders\",\"changed\",\"{\"\"id\"\":\"\"7\"\"}\",\"state\",\"new\",\"paid\"\n"),
        "{csv}"
    );
    assert!(!csv.contains("notes"), "{csv}");

    // What one branch was told of makes another one the same.
    let script = stdout(&home, &["branch", "diff", "one", "--data", "--format", "sql"]);
    let other = create(&mut connection, "other").await.unwrap();
    wire(&other.url)
        .await
        .batch_execute(&script)
        .await
        .unwrap_or_else(|error| panic!("{error:?}:\n{script}"));
    assert_eq!(told(&home, "other"), lines);

    // A part of it does nothing.
    let cut = home.run(&["branch", "diff", "one", "--data", "--format", "sql", "--limit", "3"]);
    assert_eq!(cut.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&cut.stdout).ends_with("ROLLBACK;\n"));

    let unknown = home.run(&["branch", "diff", "one", "--data", "--table", "public.order"]);
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(unknown.status.code() == Some(1) && said.contains("public.order"), "{said}");
    daemon.stop().await.unwrap();
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_is_compared_with_its_own_snapshot_and_nothing_of_that_stays() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, SETUP, 1, 0).await;
    settle(&mut connection).await;
    create(&mut connection, "old").await.unwrap();
    query(&mut connection, "old", "update untouched set v = 'y' where id = 3").await.unwrap();
    // The next generation holds other rows.
    std::fs::write(home.beside("app.sql"), format!("{SETUP}; delete from untouched; delete from orders;"))
        .unwrap();
    connection.refresh_source("app", |_, _| {}).await.unwrap();
    settle(&mut connection).await;
    let of_old = |lines: Vec<Value>| {
        let rows: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "row").collect();
        assert_eq!(rows.len(), 1, "{lines:?}");
        assert_eq!((&rows[0]["table"], &rows[0]["key"]["id"]), (&"public.untouched".into(), &"3".into()));
    };
    let place = home.path().join("volumes/branches");
    let before = entries(&place);
    of_old(told(&home, "old"));
    settle(&mut connection).await;
    assert_eq!(entries(&place), before, "the clone that was made for it is gone");

    // After a stop and a start it is the same.
    drop(connection);
    daemon.stop().await.unwrap();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    of_old(told(&home, "old"));
    settle(&mut connection).await;

    // Somebody who holds a lock keeps the comparison from reading for so long, and no longer.
    let url = connection.administrator_url("old").await.unwrap().url;
    let client = wire(&url).await;
    client.batch_execute("begin; lock table public.untouched in access exclusive mode").await.unwrap();
    let refused = home.run(&["--json", "branch", "diff", "old", "--data"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("table_locked"), "{said}");
    client.batch_execute("rollback").await.unwrap();
    of_old(told(&home, "old"));
    let events = connection.evidence("old", None).await.unwrap().events;
    assert!(events.iter().any(|event| event["event"] == "data_compared"), "{events:?}");
    drop(client);
    daemon.stop().await.unwrap();
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// G11, G14: rows of generations are told in the words of the two, the script leads from the first to the second, and whoever is
/// killed meanwhile leaves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn generations_are_compared_and_the_script_leads_from_the_first_to_the_second() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, SETUP, 1, 0).await;
    let old = create(&mut connection, "old").await.unwrap();
    let mut later = format!(
        "{SETUP}; create table come (id int primary key, v text); insert into come values (1, E'\\x1b[2J');"
    );
    for statement in WORK {
        later += &format!("{statement};\n");
    }
    std::fs::write(home.beside("app.sql"), later).unwrap();
    stdout(&home, &["source", "refresh", "app"]);
    let table = ["--table", "public.orders", "--table", "public.notes", "--table", "public.ticket"];
    let shown = stdout(&home, &["source", "diff", "app", "1", "2", "--data"]);
    assert!(shown.contains("public.come, which generation 2 alone has\n"), "{shown}");
    assert!(shown.contains("  ~ id '7': state 'new' -> 'paid'\n") && !shown.contains('\u{1b}'), "{shown}");
    assert!(shown.contains("all of it was read"), "{shown}");
    let back = stdout(&home, &["source", "diff", "app", "2", "1", "--data"]);
    assert!(back.contains("public.come, which generation 1 has no more\n"), "{back}");
    let all = [&["source", "diff", "app", "1", "2", "--data", "--format", "sql"], &table[..]].concat();
    let script = stdout(&home, &all);
    wire(&old.url).await.batch_execute(&script).await.unwrap_or_else(|error| panic!("{error:?}:\n{script}"));
    let rows = |lines: &str| -> Vec<Value> {
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["kind"] == "row").collect()
    };
    let told =
        stdout(&home, &[&["--json", "source", "diff", "app", "1", "2", "--data"], &table[..]].concat());
    let branch = stdout(&home, &[&["--json", "branch", "diff", "old", "--data"], &table[..]].concat());
    assert_eq!(rows(&told), rows(&branch));
    assert_eq!(rows(&told).len(), 26, "{told}");
    let csv =
        stdout(&home, &["source", "diff", "app", "1", "2", "--data", "--format", "csv", "--limit", "1"]);
    assert!(csv.starts_with("table,change,key,column,old,new\n"), "{csv}");

    for (arguments, status, says) in [
        (&["source", "diff", "app", "1", "2", "--format", "sql"][..], 1, "text, json and ddl"),
        (&["source", "diff", "app", "1", "2", "--data", "--format", "ddl"], 1, "table, jsonl, csv and sql"),
        (&["source", "diff", "app", "1", "2", "--limit", "1"], 2, "--data"),
        (&["source", "diff", "app", "1", "3", "--data"], 1, "no generation"),
        (&["source", "diff", "app", "1", "2", "--data", "--format", "sql", "--limit", "1"], 1, ""),
    ] {
        let refused = home.run(arguments);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(status) && said.contains(says), "{arguments:?}: {said}");
    }

    // Clients that are killed, and then the daemon.
    stdout(&home, &["source", "label", "app", "1", "first"]);
    connection.destroy_branch("old").await.unwrap();
    settle(&mut connection).await;
    let place = home.path().join("volumes/branches");
    let before = entries(&place).len();
    for pause in [20, 80, 200] {
        let mut client = home
            .command(&["source", "diff", "app", "first", "2", "--data"])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
        client.kill().unwrap();
        client.wait().unwrap();
    }
    crate::support::until("nothing is left", async || entries(&place).len() == before).await;
    daemon.stop().await.unwrap();
    assert_eq!(home.left_overs(), Vec::<String>::new());
}
