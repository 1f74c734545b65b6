//! What callers get wrong, and what breaks while they are served: a clear error with the next step, and
//! nothing that is left behind.

use crate::support::{lease, pool, query, rows, settle, until, Home};
use duramen_api::model::{ChangeSettings, CreateBranch, Policy, QueryRequest, QueryStatement, RenewBranch};
use duramen_branches::{Engine, EngineError};
use duramen_postgres::processes_below;
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// How long a thing that happens by itself may take.
const SOON: Duration = Duration::from_secs(10);

#[track_caller]
fn assert_says(error: &EngineError, code: &str, parts: &[&str]) {
    assert_eq!(error.code, code, "{error}");
    for part in parts {
        assert!(error.message.contains(part), "{part:?} is missing in: {error}");
    }
}

/// The engine of a home with source `app` and one branch `b`, and one more ready.
async fn with_branch(home: &Home, sql: &str, policy: Policy) -> Arc<Engine> {
    let engine = home.open().await;
    home.add_script(&engine, sql, pool(&[(policy, 1)])).await;
    lease(&engine, "b", policy).await;
    engine
}

/// A session of one's own to a branch, by its URL.
async fn wire(engine: &Engine, name: &str) -> tokio_postgres::Client {
    let url = engine.branch(name).expect("the branch").url;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the wire");
    tokio::spawn(connection);
    client
}

async fn close(engine: &Engine, home: &Home) {
    engine.close().await.expect("close");
    assert!(processes_below(home.path()).is_empty(), "no process is left");
}

/// Unknown names, name clashes, ends in the past and sizes out of bounds are refused, and change nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_make_no_sense_are_refused_with_the_next_step() {
    let home = Home::new();
    let engine = with_branch(&home, "create table t (x int);", Policy::ReadWrite).await;
    let refused = async |request: CreateBranch| engine.create(request).await.expect_err("it is refused");

    let named = |name: &str| CreateBranch { source: Some(name.to_owned()), ..CreateBranch::default() };
    assert_says(&refused(named("ap")).await, "unknown_source", &["did you mean app?"]);
    assert_says(&refused(named("zebra")).await, "unknown_source", &["\"zebra\"", "duramen source add"]);
    assert!(!refused(named("zebra")).await.message.contains("did you mean"));
    let error = engine.branch("c").expect_err("no branch c");
    assert_says(&error, "not_found", &["duramen branch list"]);

    for policy in [Policy::ReadOnly, Policy::Ddl] {
        let clash =
            CreateBranch { name: Some("b".to_owned()), policy: Some(policy), ..CreateBranch::default() };
        let parts = ["branch b exists", "under policy read-write", "destroy it"];
        assert_says(&refused(clash).await, "name_clash", &parts);
    }
    for name in ["", "A", "../x", "-x", "a b", &"x".repeat(64)] {
        let bad = CreateBranch { name: Some(name.to_owned()), ..CreateBranch::default() };
        assert_says(&refused(bad).await, "bad_name", &["cannot name a branch"]);
    }

    let past: jiff::Timestamp = "2001-01-01T00:00:00Z".parse().expect("a moment");
    for (ttl_s, expires_at) in
        [(Some(0), None), (Some(-5), None), (Some(i64::MIN + 1), None), (None, Some(past))]
    {
        let late = CreateBranch { ttl_s, expires_at, ..CreateBranch::default() };
        assert_says(&refused(late).await, "ttl_in_the_past", &["above zero"]);
        let error = engine.renew("b", RenewBranch { ttl_s, expires_at }).expect_err("it is refused");
        assert_says(&error, "ttl_in_the_past", &["above zero"]);
    }
    let long = CreateBranch { ttl_s: Some(i64::MAX), ..CreateBranch::default() };
    assert_says(&refused(long).await, "bad_ttl", &["days at most"]);

    let settings = async |change: ChangeSettings| {
        engine.change_settings("app", change).await.expect_err("the settings are refused")
    };
    for name in ["hba_file", "LISTEN_ADDRESSES", "archive_command", "shared_preload_libraries", "a b", "x;y"]
    {
        let server = [(name.to_owned(), "1".to_owned())].into();
        let error = settings(ChangeSettings { server, ..ChangeSettings::default() }).await;
        assert_says(&error, "bad_setting", &[name]);
    }
    let hot = [(Policy::ReadWrite, 2001)].into();
    let error = settings(ChangeSettings { hot, ..ChangeSettings::default() }).await;
    assert_says(&error, "pool_too_large", &["2000"]);
    let hot = [(Policy::ReadWrite, u32::MAX), (Policy::Ddl, u32::MAX)].into();
    let error = settings(ChangeSettings { hot, ..ChangeSettings::default() }).await;
    assert_says(&error, "pool_too_large", &["2000"]);

    assert_eq!(engine.branches().len(), 1, "nothing was leased");
    assert_eq!(engine.source("app").expect("app").settings, pool(&[(Policy::ReadWrite, 1)]));
    close(&engine, &home).await;
}

/// A query ends at its row cap and at its time limit, and the session goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_end_at_their_limits() {
    let home = Home::new();
    let engine = with_branch(&home, "create table t (x int);", Policy::ReadWrite).await;
    let ask = async |request: QueryRequest| engine.query("b", request).await;
    let one = |sql: &str| QueryRequest { sql: Some(sql.to_owned()), ..QueryRequest::default() };

    let pid = rows(&engine, "b", "select pg_backend_pid()").await;
    for (cap, truncated) in [(1, true), (10, true), (11, false), (100_000, false)] {
        let request = QueryRequest { max_rows: Some(cap), ..one("select generate_series(1, 11)") };
        let answer = ask(request).await.expect("rows");
        let reply: duramen_api::model::QueryReply = serde_json::from_slice(&answer.0).expect("a reply");
        let result = &reply.results[0];
        let all: Vec<[u32; 1]> = serde_json::from_str(result.rows.get()).expect("rows");
        assert_eq!(all, (1..=cap.min(11)).map(|n| [n]).collect::<Vec<_>>());
        assert_eq!((result.row_count, result.truncated), (u64::from(cap.min(11)), truncated), "cap {cap}");
    }
    for max_rows in [0, 100_001] {
        let error = ask(QueryRequest { max_rows: Some(max_rows), ..one("select 1") }).await.expect_err("cap");
        assert_says(&error, "bad_row_cap", &["1 to 100000"]);
    }

    for timeout_ms in [1, 200] {
        let request = QueryRequest { timeout_ms: Some(timeout_ms), ..one("select pg_sleep(30)") };
        let error = ask(request).await.expect_err("it takes too long");
        assert_says(&error, "statement_timeout", &["--timeout"]);
        assert_eq!(rows(&engine, "b", "select pg_backend_pid()").await, pid, "the session goes on");
    }
    let request = QueryRequest {
        timeout_ms: Some(300),
        statements: ["insert into t values (1)", "select pg_sleep(30)"]
            .map(|sql| QueryStatement { sql: sql.to_owned(), params: Vec::new() })
            .to_vec(),
        ..QueryRequest::default()
    };
    assert_says(&ask(request).await.expect_err("it takes too long"), "statement_timeout", &[]);
    assert_eq!(rows(&engine, "b", "select count(*) from t").await, json!([[0]]), "all or nothing");
    for timeout_ms in [0, 600_001, u64::MAX] {
        let request = QueryRequest { timeout_ms: Some(timeout_ms), ..one("select 1") };
        assert_says(&ask(request).await.expect_err("limit"), "bad_timeout", &["1 to 600000"]);
    }

    let many = QueryRequest {
        statements: vec![QueryStatement { sql: "select 1".to_owned(), params: Vec::new() }; 65],
        ..QueryRequest::default()
    };
    assert_says(&ask(many).await.expect_err("too many"), "bad_query", &["at most 64 statements"]);
    assert_says(&ask(QueryRequest::default()).await.expect_err("nothing"), "bad_query", &["sql"]);
    let both = QueryRequest { statements: vec![QueryStatement::default()], ..one("select 1") };
    assert_says(&ask(both).await.expect_err("both"), "bad_query", &["either"]);
    assert_says(&ask(one("select 'a\0b'")).await.expect_err("a zero"), "zero_byte", &["zero byte"]);
    let zero = QueryRequest { params: vec![json!("a\0b")], ..one("select $1::text") };
    assert_says(&ask(zero).await.expect_err("a zero"), "zero_byte", &["zero byte"]);
    assert_eq!(rows(&engine, "b", "select pg_backend_pid()").await, pid, "the session goes on");
    close(&engine, &home).await;
}

/// No statement changes the state of the session's transaction for the next one, under no policy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_do_not_control_transactions() {
    let home = Home::new();
    let engine = home.open().await;
    let policies = [Policy::ReadOnly, Policy::ReadWrite, Policy::Ddl];
    home.add_script(&engine, "create table t (x int);", pool(&policies.map(|policy| (policy, 1)))).await;
    for policy in policies {
        let name = policy.name();
        lease(&engine, name, policy).await;
        let texts =
            ["BEGIN", "start transaction isolation level serializable", "COMMIT", "ROLLBACK", "END", "ABORT"];
        for sql in texts.into_iter().chain(["COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "SAVEPOINT a"]) {
            let error = query(&engine, name, sql).await.expect_err(sql);
            // Some of them the server itself refuses outside a transaction.
            if error.sqlstate.as_deref() != Some("25P01") {
                assert_says(&error, "transaction_control", &["several statements in one request"]);
            }
            let state = "select current_setting('transaction_isolation'), \
                         (select count(*) from pg_locks where transactionid is not null)";
            assert_eq!(
                rows(&engine, name, state).await,
                json!([["read committed", 0]]),
                "{name}, after {sql}"
            );
        }
    }
    let statements = ["insert into t values (1)", "BEGIN", "insert into t values (2)"];
    let request = QueryRequest {
        statements: statements.map(|sql| QueryStatement { sql: sql.to_owned(), params: Vec::new() }).to_vec(),
        ..QueryRequest::default()
    };
    let error = engine.query("read-write", request).await.expect_err("it is refused");
    assert_says(&error, "transaction_control", &[]);
    assert_eq!(rows(&engine, "read-write", "select count(*) from t").await, json!([[0]]), "all or nothing");
    let error = query(&engine, "read-write", "PREPARE TRANSACTION 'x'").await.expect_err("it is refused");
    assert!(["sql_error", "transaction_control"].contains(&error.code), "{error}");
    close(&engine, &home).await;
}

/// COPY to and from the client has no partner on the query path: it is refused, and never hangs or drops rows unsaid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_does_not_hang_a_query() {
    let home = Home::new();
    let engine = with_branch(&home, "create table t as select 1 as x;", Policy::ReadWrite).await;
    for sql in ["copy t from stdin", "copy t to stdout", "copy (select generate_series(1, 100000)) to stdout"]
    {
        let answer = tokio::time::timeout(SOON, query(&engine, "b", sql)).await.expect("it does not hang");
        let code = answer.expect_err(sql).code;
        assert_eq!(code, if sql.ends_with("stdin") { "copy_from_client" } else { "copy_to_client" }, "{sql}");
        assert_eq!(rows(&engine, "b", "select count(*) from t").await, json!([[1]]), "after {sql}");
    }
    close(&engine, &home).await;
}

/// A caller that goes away takes its statement along: a running one is cancelled, a waiting one never runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_away_takes_its_statement_along() {
    let home = Home::new();
    let engine = with_branch(&home, "create table t (x int);", Policy::ReadWrite).await;
    let client = wire(&engine, "b").await;
    let active =
        "select count(*) from pg_stat_activity where state = 'active' and query like '%pg_sleep(30)%' \
                  and pid <> pg_backend_pid()";
    let running = async || client.query_one(active, &[]).await.expect("the activity").get::<_, i64>(0);

    let work = tokio::spawn({
        let engine = engine.clone();
        async move { query(&engine, "b", "select pg_sleep(30)").await.map(drop) }
    });
    until("the statement runs", async || running().await == 1).await;
    // These wait for the session behind it.
    let waiting: Vec<_> = (0..8)
        .map(|number| {
            let engine = engine.clone();
            let sql = format!("insert into t select {number} from pg_sleep(30)");
            tokio::spawn(async move { query(&engine, "b", &sql).await.map(drop) })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    for task in waiting {
        task.abort();
        assert!(task.await.is_err_and(|error| error.is_cancelled()));
    }
    work.abort();
    assert!(work.await.is_err_and(|error| error.is_cancelled()));
    until("the statements are gone", async || running().await == 0).await;
    let answer = tokio::time::timeout(SOON, rows(&engine, "b", "select count(*) from t")).await;
    assert_eq!(answer.expect("the session answers"), json!([[0]]));
    close(&engine, &home).await;
}

/// A branch's server killed from outside: the next query, or the one after it, works again on the same data,
/// and nothing of the dead server is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_whose_server_was_killed_comes_back() {
    let home = Home::new();
    let engine = with_branch(&home, "create table t (x int);", Policy::ReadWrite).await;
    query(&engine, "b", "insert into t values (7)").await.expect("a row");
    settle(&engine).await;
    for round in 0..3 {
        let postmaster = postmaster_of(&engine, "b").await.expect("it runs");
        let pid = i32::try_from(postmaster).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("the kill");
        // Its sessions may live on for a moment.
        until("another server answers", async || match query(&engine, "b", "select x from t").await {
            Ok(_) => {
                let now = postmaster_of(&engine, "b").await.unwrap_or_default();
                now != postmaster && processes_below(home.path()).contains(&now)
            }
            Err(error) => {
                assert_says(&error, "session_lost", &["the next query opens a new session"]);
                false
            }
        })
        .await;
        assert_eq!(rows(&engine, "b", "select x from t").await, json!([[7]]), "round {round}");
        wire(&engine, "b").await.query_one("select x from t", &[]).await.expect("the same URL works");
    }
    engine.destroy("b").expect("destroy");
    settle(&engine).await;
    let left = std::fs::read_dir(home.path().join("volumes/branches")).expect("volumes").count();
    assert_eq!(left, 1, "only the pool's branch is left");
    close(&engine, &home).await;
}

/// The postmaster of a branch, which is the parent of its session's process.
async fn postmaster_of(engine: &Arc<Engine>, name: &str) -> Result<u32, EngineError> {
    let reply = query(engine, name, "select pg_backend_pid()").await?;
    let backend: [[u32; 1]; 1] = serde_json::from_str(reply.results[0].rows.get()).expect("one number");
    let status = std::fs::read_to_string(format!("/proc/{}/status", backend[0][0])).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap_or_default();
    Ok(parent.trim().parse().unwrap_or_default())
}

/// What a policy does not allow is answered with the policy that does, and what is missing with how to get it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_name_the_way_on() {
    let home = Home::new();
    let engine = home.open().await;
    let error = engine.create(CreateBranch::default()).await.expect_err("nothing to branch");
    assert_says(&error, "no_source", &["source add"]);
    home.add_script(&engine, "create table t (x int);", pool(&[(Policy::ReadWrite, 0)])).await;
    let ask = async |branch: &str, sql: &str| {
        let request = QueryRequest { sql: Some(sql.to_owned()), ..QueryRequest::default() };
        engine.query(branch, request).await.map(drop)
    };
    lease(&engine, "rw", Policy::ReadWrite).await;
    lease(&engine, "ro", Policy::ReadOnly).await;
    let error = ask("rw", "create table u (x int)").await.expect_err("no DDL here");
    assert_says(&error, "sql_error", &["--policy ddl"]);
    let error = ask("ro", "insert into t values (1)").await.expect_err("no writes here");
    assert_says(&error, "sql_error", &["--policy read-write"]);
    let error = ask("rw", "select 1/0").await.expect_err("wrong");
    assert!(!error.message.contains("--policy"), "{error}");
    close(&engine, &home).await;
}

/// Archives of pg_dump are restored; a dump that names roles of elsewhere says how to dump without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dumps_are_imported_in_both_formats() {
    let home = Home::new();
    let engine = home.open().await;
    let script = "create table t (x int); alter table t owner to somebody;";
    let error = home.try_script(&engine, script, pool(&[])).await.expect_err("no such role");
    assert_says(&error, "bad_script", &["somebody", "--no-owner"]);

    // A branch with DDL makes the archive: roles that are not there, owners and grants in it.
    let script = "create table t as select g as x from generate_series(1, 1000) g; create index on t (x);";
    home.add_script(&engine, script, pool(&[(Policy::Ddl, 0)])).await;
    let branch = lease(&engine, "d", Policy::Ddl).await;
    let installation = duramen_postgres::Installation::choose(home.path(), None).expect("servers");
    let archive = home.beside("app.dump");
    let output = std::process::Command::new(installation.program("pg_dump"))
        .args(["--format=custom", "--file"])
        .args([archive.display().to_string(), branch.url])
        .output()
        .expect("pg_dump runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let request = duramen_api::model::AddSource {
        name: "restored".to_owned(),
        origin: duramen_api::model::Origin::Script { path: archive.display().to_string() },
        database: None,
        settings: pool(&[(Policy::ReadWrite, 0)]),
    };
    engine.add_source(request, |_, _| {}).await.expect("the archive is restored");
    let request = CreateBranch {
        name: Some("r".to_owned()),
        source: Some("restored".to_owned()),
        ..CreateBranch::default()
    };
    engine.create(request).await.expect("a branch");
    assert_eq!(rows(&engine, "r", "select count(*)::int, max(x) from t").await, json!([[1000, 1000]]));
    close(&engine, &home).await;
}

/// Settings with which no server starts are refused with the end of its log, and the pool goes on as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_tried_on_a_server_before_they_are_kept() {
    let home = Home::new();
    let engine = with_branch(&home, "create table t as select 5 as x;", Policy::ReadWrite).await;
    let before = engine.source("app").expect("app").settings;
    for (name, value) in [("shared_buffers", "bogus"), ("no_such_guc", "1"), ("shared_buffers", "100TB")] {
        let server = [(name.to_owned(), value.to_owned())].into();
        let change = ChangeSettings { server, ..ChangeSettings::default() };
        let error = engine.change_settings("app", change).await.expect_err("no server starts");
        assert_says(&error, "bad_setting", &["nothing was changed", "its last log lines", name]);
    }
    assert_eq!(engine.source("app").expect("app").settings, before);
    assert_eq!(engine.status().pool_error, None);
    lease(&engine, "c", Policy::ReadWrite).await;
    assert_eq!(rows(&engine, "c", "select x from t").await, json!([[5]]));
    let server = [("work_mem".to_owned(), "5MB".to_owned())].into();
    engine.change_settings("app", ChangeSettings { server, ..ChangeSettings::default() }).await.expect("set");
    lease(&engine, "d", Policy::ReadWrite).await;
    assert_eq!(rows(&engine, "d", "show work_mem").await, json!([["5MB"]]));
    settle(&engine).await;
    let volumes = std::fs::read_dir(home.path().join("volumes/branches")).expect("volumes").count();
    assert!(volumes <= 4, "nothing of the trials is left: {volumes}");
    close(&engine, &home).await;
}

/// A source whose first settings let no server start is not added, and nothing of it is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_with_settings_that_do_not_work_is_not_added() {
    let home = Home::new();
    let engine = home.open().await;
    let mut settings = pool(&[(Policy::ReadWrite, 1)]);
    settings.server.insert("no_such_guc".to_owned(), "1".to_owned());
    let error = home.try_script(&engine, "create table t (x int);", settings).await.expect_err("refused");
    assert_says(&error, "bad_setting", &["no_such_guc"]);
    assert!(engine.sources().is_empty());
    home.add_script(&engine, "create table t (x int);", pool(&[(Policy::ReadWrite, 1)])).await;
    close(&engine, &home).await;
}

/// A caller that stops waiting for a branch leaves the queue, and the branch made for it goes to the next
/// one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_goes_away_leaves_the_queue() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t (x int);", pool(&[(Policy::ReadWrite, 0)])).await;
    let work = tokio::spawn({
        let engine = engine.clone();
        async move { engine.create(CreateBranch::default()).await.map(drop) }
    });
    tokio::time::sleep(Duration::from_millis(5)).await;
    work.abort();
    let _ = work.await;
    until("nobody waits and nothing is leased", async || {
        let status = engine.status();
        status.pools.iter().all(|pool| pool.waiting == 0)
    })
    .await;
    lease(&engine, "b", Policy::ReadWrite).await;
    settle(&engine).await;
    close(&engine, &home).await;
}

/// Invariant B6, for creates that wait for a branch at the same time: the second one failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_of_one_name_that_wait_together_get_the_same_branch() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t (x int);", pool(&[(Policy::ReadWrite, 0)])).await;
    let create = async || {
        let request = CreateBranch { name: Some("b".to_owned()), ..CreateBranch::default() };
        engine.create(request).await.expect("a lease")
    };
    let (one, two, three) = tokio::join!(create(), create(), create());
    assert!(one.id == two.id && two.id == three.id, "{} {} {}", one.id, two.id, three.id);
    assert_eq!([one, two, three].iter().filter(|view| !view.existing).count(), 1, "one made it");
    settle(&engine).await;
    let volumes = std::fs::read_dir(home.path().join("volumes/branches")).expect("volumes").count();
    assert_eq!(volumes, 1, "what the others were given is gone");
    close(&engine, &home).await;
}
