//! What a holder of a branch can make the daemon hold or wait for: not more than a reply may have, and not longer than a
//! statement may take.

use crate::support::{self, connect, create, post, query, settle, until, wire, Home};
use duramen_api::model::{QueryRequest, StatementReply};
use duramen_client::socket_path;
use duramen_client::{ClientError, Connection};
use duramen_server::process::Daemon;
use std::{fs, io::Write, os::unix::net::UnixStream};

/// A function whose statement goes on when it is cancelled.
const STUBBORN: &str =
    "do $$ begin loop begin perform pg_sleep(3600); exception when query_canceled then null; \
                        end; end loop; end $$";

/// How much memory the daemon has, and had at the most, in MiB.
fn memory(daemon: &Daemon) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("the daemon's status");
    let line = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.trim().trim_end_matches(" kB").parse::<u64>().expect(name) >> 10
    };
    (line("VmRSS:"), line("VmHWM:"))
}

async fn with_branch(home: &Home) -> (Daemon, Connection) {
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    support::add_script(home, &mut connection, "create table t (x int);", 1, 0).await;
    create(&mut connection, "b").await.expect("a branch");
    (daemon, connection)
}

async fn ask(
    connection: &mut Connection,
    sql: &str,
    limit: Option<u64>,
) -> Result<StatementReply, ClientError> {
    let request = QueryRequest { sql: Some(sql.to_owned()), timeout_ms: limit, ..QueryRequest::default() };
    connection.query("b", &request).await.map(|mut reply| reply.results.remove(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_values_errors_and_notices_do_not_fill_the_daemon() {
    let home = Home::new();
    let (daemon, mut connection) = with_branch(&home).await;
    let (before, _) = memory(&daemon);

    let result = ask(&mut connection, "select repeat('x', 256 << 20)", None).await.expect("an answer");
    assert_eq!((result.row_count, result.truncated), (0, true));
    let rows = "select repeat('x', 1 << 20) from generate_series(1, 200)";
    let result = ask(&mut connection, rows, None).await.expect("an answer");
    assert!(result.truncated && (10..=16).contains(&result.row_count), "{} rows", result.row_count);
    // What stands behind a row that is left out is left out too: there are no gaps.
    let gap = "select repeat('x', case i when 3 then 64 << 20 else 1 end) from generate_series(1, 5) i";
    let result = ask(&mut connection, gap, None).await.expect("an answer");
    assert_eq!((result.row_count, result.truncated), (2, true));
    drop(result);
    let raise = |level: &str| format!("do $$ begin raise {level} '%', repeat('y', 200 << 20); end $$");
    ask(&mut connection, &raise("notice"), None).await.expect("a notice is not an error");
    let error = ask(&mut connection, &raise("exception"), None).await.expect_err("an exception").to_string();
    assert!(error.contains("yyyy") && error.len() < 20_000, "{} bytes", error.len());
    let rows = query(&mut connection, "b", "select 1").await.expect("the session goes on");
    assert_eq!(rows, serde_json::json!([[1]]));

    let (_, most) = memory(&daemon);
    assert!(most < before + 120, "from {before} to {most} MiB");
    until("the memory goes back", async || memory(&daemon).0 < before + 40).await;
    daemon.stop().await.expect("it stops in order");
}

/// How many statements of its kind run.
async fn running(client: &tokio_postgres::Client) -> i64 {
    let active =
        "select count(*) from pg_stat_activity where state = 'active' and query like 'do $$ begin loop%'";
    client.query_one(active, &[]).await.expect("the activity").get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_catches_its_cancellation_ends_with_its_session() {
    let home = Home::new();
    let (daemon, mut connection) = with_branch(&home).await;
    let url = connection.branch("b").await.expect("the branch").url;
    let client = wire(&url).await;

    // Its time runs out.
    let error = ask(&mut connection, STUBBORN, Some(300)).await.expect_err("it never ends");
    assert!(format!("{error:?}").contains("server_timeout"), "{error:?}");
    assert_eq!(running(&client).await, 0, "when it is told to have ended, it has");
    let rows = query(&mut connection, "b", "select 1").await.expect("a new session");
    assert_eq!(rows, serde_json::json!([[1]]));

    // Its caller goes away.
    let body = serde_json::json!({"sql": STUBBORN}).to_string();
    let mut stream = UnixStream::connect(socket_path(&home.path())).expect("the daemon's socket");
    stream.write_all(post("/v1/branches/b/query", &body).as_bytes()).expect("a request");
    until("it runs", async || running(&client).await == 1).await;
    drop(stream);
    until("it is ended", async || running(&client).await == 0).await;
    let rows = query(&mut connection, "b", "select 1").await.expect("a new session");
    assert_eq!(rows, serde_json::json!([[1]]));

    // All the while the server has served others.
    assert!(!client.is_closed());
    settle(&mut connection).await;
    daemon.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}
