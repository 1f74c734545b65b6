//! What clients do through the router, and what ends their sessions.

use super::{named, one, psql, Site};
use crate::support::{text, until, Home};
use duramen_api::token::CreateToken;
use duramen_postgres::Installation;
use futures_util::{SinkExt, StreamExt};
use std::{pin::pin, process::Command, time::Duration};
use tokio_postgres::{AsyncMessage, NoTls};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_url_is_all_that_a_client_needs() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let ci = site.user("ci").await;

    // It creates on connect, and is the same branch afterwards, with or without its source.
    let client = site.enter(&ci, "app@try").await.expect("a branch that was not there");
    client.batch_execute("insert into t values (0, 'mine')").await.expect("a write");
    let branches = site.connection.branches().await.expect("the branches");
    let branch = branches.iter().find(|branch| branch.name == "try").expect("the branch");
    assert_eq!(branch.holder.as_deref(), Some(ci.token.id.as_str()));
    for database in ["app@try", "try"] {
        let again = site.enter(&ci, database).await.expect("the same branch");
        assert_eq!(one::<i64>(&again, "select count(*) from t where x = 0").await, 1, "{database}");
    }
    // R10.
    let own = site.enter(&ci, "@app").await.expect("a branch of its own");
    assert_eq!(one::<i64>(&own, "select count(*) from t where x = 0").await, 0);
    assert_eq!(site.names().await.len(), 2);
    drop(own);
    until("the branch of one connection has ended", async || site.names().await == ["try"]).await;

    everything_goes_through(&site.url(&ci, "try"), &client).await;

    // What the branch is like is said in the same URL, and not to its server.
    let url = site.url(
        &ci,
        "app@schema?options=-c%20duramen.policy%3Dddl%20-c%20statement_timeout%3D5s&application_name=test",
    );
    let client = super::enter(&url).await.expect("a branch with a policy");
    client.batch_execute("create schema mine").await.expect("DDL");
    assert_eq!(one::<String>(&client, "show statement_timeout").await, "5s");
    assert_eq!(one::<String>(&client, "show application_name").await, "test");
    let clash = site.refused(&ci, "schema?options=-c%20duramen.policy%3Dread-only").await;
    assert!(clash.1.contains("has the policy ddl"), "{clash:?}");

    // Programs of others.
    let url = site.url(&ci, "try");
    for mode in ["disable", "prefer", "require"] {
        let output = psql(&format!("{url}?sslmode={mode}"), &["-c", "select count(*) from t"]);
        assert_eq!(text(&output.stdout).trim(), "101", "{mode}: {}", text(&output.stderr));
    }
    let bound = psql(&format!("{url}?sslmode=require&channel_binding=require"), &["-c", "select 1"]);
    assert_eq!(text(&bound.stdout).trim(), "1", "{}", text(&bound.stderr));
    let root = home.path().join("doors/certificate.pem");
    let full =
        psql(&format!("{url}?sslmode=verify-full&sslrootcert={}", root.display()), &["-c", "select 1"]);
    assert_eq!(text(&full.stdout).trim(), "1", "{}", text(&full.stderr));
    let installation = Installation::choose(&home.path(), None).expect("the server's programs");
    let dump = Command::new(installation.program("pg_dump")).args(["--data-only", "-t", "t", &url]).output();
    let dump = dump.expect("pg_dump runs");
    assert!(text(&dump.stdout).contains("mine"), "{}", text(&dump.stderr));

    // R8.
    drop(client);
    until("each session is in the audit log", async || {
        let lines = audit(&home);
        let count = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
        let begun = count("connected");
        // The first client is still there.
        begun >= 8 && begun == count("disconnected") + 1
    })
    .await;
    let lines = audit(&home);
    let last = lines.iter().rfind(|line| line["event"] == "disconnected").expect("one has ended");
    assert_eq!(last["token"], ci.token.id.as_str());
    assert!(last["received"].as_u64() > Some(0) && last["sent"].as_u64() > Some(0), "{last}");
    let whole = site.connection.verify_audit().await.expect("the log");
    assert!(whole.intact, "{whole:?}");
    assert!(
        !std::fs::read_to_string(home.beside("log")).expect("the daemon's log").contains(&ci.secret),
        "R7"
    );
    site.stop().await;
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

pub(super) fn audit(home: &Home) -> Vec<serde_json::Value> {
    let mut lines = Vec::new();
    for file in walkdir::WalkDir::new(home.path().join("audit")).sort_by_file_name().into_iter().flatten() {
        let text = std::fs::read_to_string(file.path()).unwrap_or_default();
        lines.extend(text.lines().filter_map(|line| serde_json::from_str(line.splitn(3, ' ').nth(2)?).ok()));
    }
    lines
}

/// What a client can do on a connection of its own it can do here.
async fn everything_goes_through(url: &str, client: &tokio_postgres::Client) {
    // COPY, both ways, in more than any buffer holds.
    client.batch_execute("create temp table big (line text)").await.expect("a temporary table");
    let sink = client.copy_in("copy big from stdin").await.expect("COPY in");
    let mut sink = pin!(sink);
    let row = format!("{}\n", "x".repeat(999));
    for _ in 0..200 {
        sink.send(bytes::Bytes::from(row.repeat(16))).await.expect("rows");
    }
    assert_eq!(sink.finish().await.expect("the end"), 3200);
    let mut out = pin!(client.copy_out("copy big to stdout").await.expect("COPY out"));
    let mut received = 0;
    while let Some(chunk) = out.next().await {
        received += chunk.expect("rows").len();
    }
    assert_eq!(received, 3_200_000);
    // Several statements on their way at once, prepared ones, and a large object.
    let prepared = client.prepare("select $1::int + 1").await.expect("a statement");
    let sums = futures_util::future::try_join_all((0..50).map(|i| {
        let prepared = &prepared;
        async move { client.query_one(prepared, &[&i]).await.map(|row| row.get::<_, i32>(0)) }
    }));
    assert_eq!(sums.await.expect("sums"), (1..=50).collect::<Vec<_>>());
    client
        .batch_execute("select lo_from_bytea(4711, decode(repeat('ab', 100000), 'hex'))")
        .await
        .expect("a large object");
    let read: Vec<u8> = one(client, "select lo_get(4711)").await;
    assert_eq!(read.len(), 100_000);
    client.batch_execute("set work_mem = '7MB'").await.expect("a setting");
    client.batch_execute("discard all").await.expect("a session that is as it began");
    assert_ne!(one::<String>(client, "show work_mem").await, "7MB");
    // Notifications come without being asked for.
    let (listener, mut connection) = tokio_postgres::connect(url, NoTls).await.expect("a second session");
    let (heard, mut hear) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(message) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let Ok(AsyncMessage::Notification(notification)) = message {
                heard.send(notification.payload().to_owned()).ok();
            }
        }
    });
    listener.batch_execute("listen news").await.expect("LISTEN");
    client.batch_execute("notify news, 'hello'").await.expect("NOTIFY");
    let payload = tokio::time::timeout(Duration::from_secs(10), hear.recv()).await.expect("in time");
    assert_eq!(payload.as_deref(), Some("hello"));
}

/// R9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_is_cancelled_by_the_key_of_its_session() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let ci = site.user("ci").await;
    let [one_, other] = [site.enter(&ci, "app@a").await.unwrap(), site.enter(&ci, "app@b").await.unwrap()];
    let (token, began) = (one_.cancel_token(), duramen_base::clock::now());
    let sleeping = tokio::spawn(async move { one_.batch_execute("select pg_sleep(60)").await });
    let untouched = tokio::spawn(async move { other.batch_execute("select pg_sleep(2)").await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    token.cancel_query(NoTls).await.expect("the request is sent");
    let error = sleeping.await.unwrap().expect_err("it was cancelled");
    assert_eq!(error.code().map(tokio_postgres::error::SqlState::code), Some("57014"));
    assert!(began.elapsed() < Duration::from_secs(30));
    untouched.await.unwrap().expect("another session goes on");
    site.stop().await;
}

/// R6; and a daemon that stops ends sessions too, and serves their tokens when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_end_with_their_token_and_with_the_daemon() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let mut tokens = vec![site.user("rotated").await, site.user("revoked").await, site.user("kept").await];
    let mut clients = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        clients.push(site.enter(token, &format!("app@b{index}")).await.expect("a session"));
    }
    // Its time begins last, and is long enough for a machine that is busy.
    let soon = duramen_base::clock::utc_now() + jiff::SignedDuration::from_secs(6);
    tokens.insert(2, site.token(CreateToken { expires_at: Some(soon), ..named("short") }).await);
    clients.insert(2, site.enter(&tokens[2], "app@b3").await.expect("a session"));
    assert_eq!(site.connection.doors().await.unwrap().postgres.unwrap().sessions, 4);
    let rotated = site.connection.rotate_token("rotated").await.expect("another secret");
    site.connection.revoke_token("revoked").await.expect("it is revoked");
    for client in &clients[..3] {
        until("the session has ended", async || client.is_closed()).await;
    }
    assert_eq!(one::<i32>(&clients[3], "select 1").await, 1, "another token's goes on");
    for (token, database) in [(&tokens[0], "b0"), (&tokens[1], "b1"), (&tokens[2], "b3")] {
        let (code, ..) = site.refused(token, database).await;
        assert_eq!(code.code(), "28P01", "{}", token.token.name);
    }
    site.enter(&rotated, "b0").await.expect("the branch is still there, with the new secret");
    // A daemon that is stopped does not wait for sessions for ever, and its tokens are there again.
    let port = site.router.address.to_string();
    site.stop().await;
    assert!(clients[3].is_closed());
    let daemon = home.serve_with(&["--pg-listen", &port]).await;
    let mut connection = crate::support::connect(&daemon).await;
    let router = connection.doors().await.unwrap().postgres.unwrap();
    let site = Site { daemon, connection, router };
    let client = site.enter(&tokens[3], "b2").await.expect("the branch came back");
    assert_eq!(one::<i64>(&client, "select count(*) from t").await, 100);
    site.stop().await;
}
