//! A load that a server recorded does in a branch what it did there (R10): the rows are the same ones afterwards.

use super::{named, Rehearsal};
use crate::{
    running_origin::RunningOrigin,
    support::{add_script, connect, query, settle, until, wire, Home},
};
use serde_json::{json, Value};
use std::{fs, path::Path, time::Duration};
use tokio_postgres::{types::ToSql, Client};

const SCHEMA: &str = "
  create table account (id int primary key, balance bigint not null, note text);
  insert into account select i, 1000, null from generate_series(1, 100) i;
  create table entry (id serial primary key, account int, amount numeric, at timestamptz, tags text[]);
  create schema other; create table other.account (id int primary key, balance bigint not null, note text);
  insert into other.account values (1, 0, null);";

const STATE: &str = "
  select (select md5(string_agg(a::text, ',' order by id)) from account a),
         (select md5(string_agg((account, amount, at at time zone 'utc', tags)::text, ',' order by account, amount)) from entry),
         (select balance from other.account),
         (select count(*) from entry)";

/// What three clients of the origin do, at the same time.
async fn work(origin: &RunningOrigin) {
    let mut writers = Vec::new();
    for number in 0..2 {
        let client = origin.client().await;
        writers.push(tokio::spawn(write(client, number)));
    }
    let other = origin.client().await;
    other.batch_execute("SET search_path = other, public").await.unwrap();
    for amount in 0..40_i64 {
        let sql = "UPDATE account SET balance = balance + $1 WHERE id = 1";
        other.execute(sql, &[&amount]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    // Failed there, and fails here; nothing of its transaction stays.
    other.batch_execute("begin; update account set balance = 77").await.unwrap();
    other.batch_execute("select 1 / 0").await.unwrap_err();
    other.batch_execute("rollback").await.unwrap();
    // Several statements in one message, comments, a savepoint.
    let several = "/* web */ begin; update public.account set note = 'it''s; $1' where id = 3; savepoint s; \
                   delete from public.account; rollback to s; commit";
    other.batch_execute(several).await.unwrap();
    // What cannot be replayed: its data is in no log.
    let sink = other.copy_in::<_, &[u8]>("copy entry (account, amount) from stdin").await.unwrap();
    futures_util::pin_mut!(sink);
    sink.as_mut().finish().await.unwrap();
    // A transaction that is open when the recording ends never was committed.
    other.batch_execute("begin").await.unwrap();
    other.batch_execute("update other.account set balance = -1").await.unwrap();
}

async fn write(mut client: Client, number: i32) {
    let sql = "insert into entry (account, amount, at, tags) values ($1, $2::text::numeric, $3::text::timestamptz, $4)";
    let insert = client.prepare(sql).await.unwrap();
    for step in 0..30_i32 {
        let transaction = client.transaction().await.unwrap();
        let id = 1 + number * 50 + step;
        let amount = format!("{number}.{step:03}");
        let tags: Option<Vec<Option<String>>> =
            (step % 3 != 0).then(|| vec![Some("it's, \"a\" \\ {tag}".to_owned()), None]);
        let at = Some("2026-02-28 23:59:59.5+01");
        let values: [&(dyn ToSql + Sync); 4] = [&id, &amount, &at, &tags];
        transaction.execute(&insert, &values).await.unwrap();
        let note: Option<&str> = (step % 2 == 0).then_some("\u{fc}mlaut $2 = 'x', $3 = NULL");
        let update = "update account set balance = balance - $2, note = coalesce($3, note) where id = $1";
        transaction.execute(update, &[&id, &i64::from(step), &note]).await.unwrap();
        let simple = format!("update account set balance = balance * 2 where id = {id}");
        transaction.batch_execute(&simple).await.unwrap();
        transaction.commit().await.unwrap();
    }
}

/// Waits until the server wrote what the clients did to the end.
async fn written(folder: &Path) {
    for name in ["recorded.csv", "recorded.json"] {
        let path = folder.join(name);
        let has_last = async || fs::read_to_string(&path).is_ok_and(|text| text.contains("balance = -1"));
        until("the log is written", has_last).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_recorded_is_done_again_and_leaves_the_same_rows() {
    let home = Home::new();
    let (origin, folder) = RunningOrigin::that_records(&home);
    let boss = origin.client().await;
    boss.batch_execute("set log_statement = none").await.unwrap();
    boss.batch_execute(SCHEMA).await.unwrap();
    work(&origin).await;
    written(&folder).await;
    let state: Value = {
        let row = boss.query_one(STATE, &[]).await.unwrap();
        let text = |at: usize| row.get::<_, Option<String>>(at);
        json!([text(0), text(1), row.get::<_, i64>(2), row.get::<_, i64>(3)])
    };

    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, SCHEMA, 1, 1).await;
    settle(&mut connection).await;
    let rehearsal = Rehearsal { home: &home };
    for (name, clients, speed) in [("recorded.csv", "3", "1"), ("recorded.json", "2", "2")] {
        let recording = folder.join(name).display().to_string();
        let options = [
            "--replay",
            &recording,
            "--replay-speed",
            speed,
            "--load-clients",
            clients,
            "--before",
            "1s",
            "--after",
            "5s",
            "--keep",
        ];
        let lock = "begin; lock table account; select pg_sleep(0.5); commit";
        let (report, code, output) = rehearsal.run(&rehearsal.psql("lock.sql", lock), &options);
        assert_eq!(code, Some(0), "{output:?}");
        let load = &report["load"];
        let told = &load["recording"];
        // Two clients of 30 transactions with a statement that begins and one that ends each, and the third one.
        assert_eq!(told["sessions"], 3, "{told:#}");
        assert_eq!(told["transactions"], 30 + 30 + 40 + 1 + 1 + 1, "{told:#}");
        assert_eq!((&told["copies"], &told["errors"]), (&json!(1), &json!(1)), "{told:#}");
        assert_eq!((&told["without_parameters"], &told["elsewhere"]), (&json!(0), &json!(0)), "{told:#}");
        let ran: u64 = (0..3).map(|phase| load["transactions"][phase]["count"].as_u64().unwrap()).sum();
        assert_eq!((ran, &load["unfinished"]), (103, &json!(0)), "{load:#}");
        // It failed as it did there, and nothing else did.
        let errors = load["errors"].as_array().unwrap();
        assert_eq!(errors.len(), 1, "{errors:#?}");
        assert_eq!((&errors[0]["code"], &errors[0]["statement"]), (&json!("22012"), &json!("select ? / ?")));
        let statement = load["statements"].as_array().unwrap().iter();
        let of = |text: &str| {
            let found = statement.clone().find(|it| it["text"].as_str().is_some_and(|it| it.contains(text)));
            let found = found.unwrap_or_else(|| panic!("no {text} in {load:#}"));
            (0..3).map(|phase| found["phases"][phase]["count"].as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!(of("insert into entry"), 60);
        assert_eq!(of("set balance = balance * ? where id = ?"), 60);
        let branch = report["branch"].as_str().unwrap();
        let found = query(&mut connection, branch, STATE).await.unwrap();
        assert_eq!(found, json!([state]), "{name}");
        let shown = super::text(&output.stdout);
        assert!(shown.contains("103 transactions of 3 clients of the database postgres"), "{shown}");
        connection.destroy_branch(branch).await.unwrap();
    }
    a_load_that_meets_the_migration_is_told(&rehearsal, &folder);
    what_is_no_recording_is_refused(&rehearsal, &folder);
    daemon.stop().await.unwrap();
}

/// The gate counts recorded statements as it counts those of scripts.
fn a_load_that_meets_the_migration_is_told(rehearsal: &Rehearsal<'_>, folder: &Path) {
    let recording = folder.join("recorded.csv").display().to_string();
    let lock = "begin; lock table account, other.account; select pg_sleep(1.5); commit";
    let migrate = rehearsal.psql("lock.sql", lock);
    let options = [
        "--replay",
        &recording,
        "--replay-speed",
        "0.2",
        "--before",
        "300ms",
        "--after",
        "500ms",
        "--max-lock-wait",
        "500",
    ];
    let (report, code, output) = rehearsal.run(&migrate, &options);
    assert_eq!(code, Some(6), "{output:?}");
    let table = named(&report["locks"], "other.account");
    assert!(
        table["waiters"].as_u64() >= Some(1) && table["longest_wait_ms"].as_f64() > Some(500.0),
        "{table:#}"
    );
    // A recording that is over before the migration is told of.
    let options = ["--replay", &recording, "--replay-speed", "10", "--before", "0s", "--after", "100ms"];
    let (report, code, output) = rehearsal.run(&rehearsal.psql("sleep.sql", "select pg_sleep(3)"), &options);
    assert_eq!(code, Some(0), "{output:?}");
    assert!(super::findings(&report).iter().any(|it| it.starts_with("recording_ended: ")), "{report:#}");
}

fn what_is_no_recording_is_refused(rehearsal: &Rehearsal<'_>, folder: &Path) {
    let good = folder.join("recorded.csv").display().to_string();
    let text = fs::read_to_string(&good).unwrap();
    let plain = rehearsal.file("plain.log", "2026-11-22 09:13:05 UTC LOG:  statement: select 1\nmore\n");
    let broken = rehearsal.file("broken.csv", &text.replacen(" UTC,\"boss\"", " UTC\"boss\"", 3));
    let silent = rehearsal.file(
        "silent.json",
        "{\"timestamp\":\"2026-11-22 09:13:05.123 UTC\",\"error_severity\":\"LOG\",\"message\":\"checkpoint complete\"}\n",
    );
    for (options, said) in [
        (&["--replay", plain.as_str()][..], "plain.log: line 1: this is not an entry"),
        (&["--replay", &broken], "broken.csv: line "),
        (&["--replay", &silent], "log_statement = all"),
        (&["--replay", "/no/such/file"], "/no/such/file"),
        (&["--replay", &good, "--replay-speed", "0"], "times as fast"),
        (&["--replay", &good, "--replay-speed", "NaN"], "times as fast"),
        (&["--replay", &good, "--load", &plain], "--load"),
        (&["--replay-speed", "2"], "--replay"),
    ] {
        let (_, code, output) = rehearsal.run("exit 0", options);
        let shown = super::text(&output.stderr);
        assert!(code == Some(2) && shown.contains(said), "{options:?}: {output:?}");
    }
}

/// A recording of several databases is the one of the database that the branch has, or refused with the names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_other_databases_are_left_out() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, "create table t (x int)", 1, 1).await;
    settle(&mut connection).await;
    let rehearsal = Rehearsal { home: &home };
    let entry = |database: &str, sql: &str| {
        format!(
            "{{\"timestamp\":\"2026-11-22 09:13:05.123 UTC\",\"dbname\":\"{database}\",\"session_id\":\"1.{database}\",\
             \"error_severity\":\"LOG\",\"message\":\"statement: {sql}\"}}\n"
        )
    };
    let both = entry("a", "drop table t") + &entry("b", "insert into t values (2)");
    let (_, code, output) = rehearsal.run("exit 0", &["--replay", &rehearsal.file("both.json", &both)]);
    assert_eq!(code, Some(2), "{output:?}");
    assert!(super::text(&output.stderr).contains("several databases (a, b)"), "{output:?}");
    assert!(connection.branches().await.unwrap().is_empty(), "R2");

    let branch = connection.create_branch(&duramen_api::model::CreateBranch::default()).await.unwrap();
    let name = query(&mut connection, &branch.name, "select current_database()").await.unwrap();
    let name = name[0][0].as_str().unwrap().to_owned();
    wire(&branch.url).await.batch_execute("select 1").await.unwrap();
    connection.destroy_branch(&branch.name).await.unwrap();
    let all = both + &entry(&name, "insert into t values (1)") + "{\"timestamp\":\"2026-11-22 09:1";
    let recording = rehearsal.file("all.json", &all);
    let options = ["--replay", &recording, "--before", "200ms", "--after", "100ms", "--keep"];
    let (report, code, output) = rehearsal.run("exit 0", &options);
    assert_eq!(code, Some(0), "{output:?}");
    assert_eq!(report["load"]["recording"]["elsewhere"], 2, "{report:#}");
    let rows = query(&mut connection, report["branch"].as_str().unwrap(), "select x from t").await.unwrap();
    assert_eq!(rows, json!([[1]]));
    daemon.stop().await.unwrap();
}

/// R4, R7, R8: what stands in a recording is run as one statement of its client, or refused by the server; it ends no rehearsal, and stays text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_statements_end_nothing_and_stay_text() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, "create table t (x int); create table u (x int)", 1, 1).await;
    settle(&mut connection).await;
    let rehearsal = Rehearsal { home: &home };
    let database = "<img src=x onerror=alert(1)>\u{1b}[31m|`@all`";
    let mut log = String::new();
    let mut second = 0;
    let mut add = |message: &str, detail: &str| {
        second += 1;
        let entry = json!({"timestamp": format!("2026-11-22 09:13:05.{second:03} UTC"), "dbname": database, "session_id": "1.1",
            "error_severity": "LOG", "message": message, "detail": detail});
        log += &format!("{entry}\n");
    };
    // It can do no more than its holder, and nothing to the session of another one.
    let witness = home.beside("was-here");
    add(&format!("statement: copy t to program 'touch {}'", witness.display()), "");
    add("statement: select pg_terminate_backend(pg_backend_pid())", "");
    add("execute s: insert into t values ($1); drop table u", "parameters: $1 = '1'");
    add("execute s: insert into t values ($1)", "parameters: $1 = '1); drop table u; --'");
    add("execute s: insert into t values ($1)", "parameters: $1 = '1', $2 = '2'");
    add("execute s: insert into t values ($1)", "parameters: $1 = 'a\u{0}b'");
    add("statement: select 1 \u{0} drop table u", "");
    add("statement: select '\u{1b}[31m<script>', 'x' as \"\u{1b}[31m<script>\"", "");
    add("statement: begin; lock table t", "");
    add("execute s: insert into t values ($1)", "parameters: $1 = '7'");
    add("statement: commit", "");
    let recording = rehearsal.file("hostile.json", &log);
    let (html, md) = (rehearsal.file("h.html", ""), rehearsal.file("h.md", ""));
    let options = [
        "--replay",
        &recording,
        "--before",
        "3s",
        "--after",
        "1s",
        "--keep",
        "--html",
        &html,
        "--markdown",
        &md,
    ];
    let (report, code, output) = rehearsal.run("true", &options);
    assert!(matches!(code, Some(0 | 3)), "{output:?}");
    let shown = super::text(&output.stdout) + &super::text(&output.stderr);
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    let html = fs::read_to_string(html).unwrap();
    assert!(!html.contains("<img src=x") && !html.contains("<script>'"), "{html}");
    let md = fs::read_to_string(md).unwrap();
    assert!(!super::outside_of_code(&md).contains("<img"), "{md}");
    assert!(!witness.exists());
    let branch = report["branch"].as_str().unwrap();
    let rows =
        query(&mut connection, branch, "select (select array_agg(x) from t), to_regclass('u')::text").await;
    assert_eq!(rows.unwrap(), json!([["{7}", "u"]]), "{report:#}");
    connection.destroy_branch(branch).await.unwrap();

    // What looks at the branch is of the same role: who ends its sessions ends the rehearsal, and nothing of it stays.
    let end = "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and usename = current_user";
    let entry = json!({"timestamp": "2026-11-22 09:13:05.123 UTC", "dbname": "x", "session_id": "1.1", "error_severity": "LOG",
        "message": format!("statement: {end}")});
    let recording = rehearsal.file("ends.json", &format!("{entry}\n"));
    let (_, code, output) =
        rehearsal.run("sleep 1", &["--replay", &recording, "--before", "1s", "--after", "100ms"]);
    // As whoever reads it next is told: by the server's last words, or by a connection that is gone.
    let said = super::text(&output.stderr);
    let is_told = said.contains("connection closed") || said.contains("terminating connection");
    assert!(code == Some(1) && is_told, "{output:?}");
    assert!(connection.branches().await.unwrap().is_empty(), "R2");
    daemon.stop().await.unwrap();
}
