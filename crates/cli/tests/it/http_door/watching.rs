//! What a daemon tells of itself to those who watch it: figures, and what happens.

use super::client::{dial, request, Site, Who};
use crate::{
    dashboards::{panels_have_places, Page},
    support::until,
};
use duramen_api::token::Role;
use serde_json::{json, Value};
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};
use tokio_postgres::NoTls;

const DASHBOARD: &str = include_str!("../../../../../deploy/grafana/duramen-branches.json");

/// The value of one line of figures.
fn figure(text: &str, line: &str) -> Option<f64> {
    text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_count_what_was_done() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let who = site.token("eye", Role::User, &[]).await;
    let one = site.token("one", Role::Admin, &["app"]).await;
    let refused = one.get("/metrics");
    assert_eq!((refused.status, refused.code().as_str()), (403, "not_allowed"), "a token for some sources");
    let before = who.get("/metrics");
    assert_eq!(before.status, 200, "{before:?}");
    let kind = before.header("content-type").unwrap_or_default();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
    let lease = r#"duramen_lease_seconds_count{source="app",policy="read-write"}"#;
    let query = |outcome: &str| format!("duramen_query_seconds_count{{outcome=\"{outcome}\"}}");
    assert_eq!(figure(&before.body, lease), None);
    assert_eq!(who.post("/v1/branches", r#"{"name": "b"}"#).status, 200);
    assert_eq!(who.post("/v1/branches", r#"{"name": "c", "source": "none"}"#).status, 404);
    for sql in ["select 1", "select 2", "select x from nowhere"] {
        who.post("/v1/branches/b/query", &json!({ "sql": sql }).to_string());
    }
    assert_eq!(who.post("/v1/branches/b/reset", "").status, 200);
    let router = site.connection.doors().await.unwrap().postgres.unwrap().address;
    {
        let url = format!("postgresql://eye:{}@{router}/b", who.secret);
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("a session");
        let session = tokio::spawn(connection);
        client.simple_query("select 1").await.expect("an answer");
        assert_eq!(figure(&who.get("/metrics").body, "duramen_router_sessions"), Some(1.0));
        drop(client);
        session.await.unwrap().expect("it ends");
    }
    let ended = r#"duramen_router_connections_total{why="client"}"#;
    until("the session is over", async || figure(&who.get("/metrics").body, ended) == Some(1.0)).await;
    let text = who.get("/metrics").body;
    for (line, value) in [
        (lease, 1.0),
        (&query("ok"), 2.0),
        (&query("sql_error"), 1.0),
        (r#"duramen_reset_seconds_count{outcome="ok"}"#, 1.0),
        (r#"duramen_import_seconds_count{outcome="ok"}"#, 1.0),
        (r#"duramen_leases_refused_total{code="unknown_source"}"#, 1.0),
        (r#"duramen_http_request_seconds_count{operation="CreateBranch"}"#, 2.0),
        (r#"duramen_http_refusals_total{operation="CreateBranch",class="wrong"}"#, 1.0),
        ("duramen_leases_held", 1.0),
        ("duramen_router_sessions", 0.0),
        ("duramen_router_connect_seconds_count", 1.0),
        (r#"duramen_pool_target{source="app",policy="read-write"}"#, 1.0),
    ] {
        assert_eq!(figure(&text, line), Some(value), "{line} in\n{text}");
    }
    assert!(figure(&text, "duramen_audit_entries_total").is_some_and(|count| count > 5.0));
    assert!(figure(&text, "duramen_daemon_resident_memory_bytes").is_some_and(|bytes| bytes > 1e6));
    assert!(text.ends_with("# EOF\n"));
    assert!(!text.contains("\"b\""), "names of branches are no labels");
    Page::new(&text, "duramen_").is_shown_by(DASHBOARD);
    // Each metric is described, and no line stands twice, as scrapers demand.
    let mut lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let all = lines.len();
    let series = |line: &&str| line.rsplit_once(' ').map(|(series, _)| series.to_owned());
    lines.sort_unstable();
    lines.dedup_by_key(|line| series(line));
    assert_eq!(lines.len(), all);
}

#[test]
fn no_two_panels_of_the_dashboard_share_a_place_or_a_number() {
    panels_have_places(DASHBOARD);
}

/// Somebody who follows what happens.
struct Follower(BufReader<TcpStream>);

impl Follower {
    fn of(who: &Who, query: &str, headers: &str) -> Follower {
        let mut stream = dial(who.door);
        let headers = format!("authorization: {}\r\n{headers}", who.bearer);
        stream.write_all(request("GET", &format!("/v1/events{query}"), &headers, "").as_bytes()).unwrap();
        let mut follower = Follower(BufReader::new(stream));
        assert_eq!(follower.line().as_deref(), Some("HTTP/1.1 200 OK"));
        follower
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.0.read_line(&mut line).unwrap_or(0);
        (length > 0).then(|| line.trim_end().to_owned())
    }

    /// Where it began.
    fn position(&mut self) -> String {
        loop {
            let line = self.line().expect("the stream begins");
            if let Some(id) = line.strip_prefix("id: ") {
                return id.to_owned();
            }
        }
    }

    /// The next event: its id, its name and what it says. Nothing when the stream has ended.
    fn next(&mut self) -> Option<(String, String, Value)> {
        let (mut id, mut name) = (String::new(), String::new());
        loop {
            let line = self.line()?;
            if let Some(found) = line.strip_prefix("id: ") {
                found.clone_into(&mut id);
            } else if let Some(found) = line.strip_prefix("event: ") {
                found.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((id, name, serde_json::from_str(data).unwrap()));
            }
        }
    }
}

/// H3, H4, H9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_events_misses_none_and_is_sent_away_with_its_token() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let boss = site.token("boss", Role::Admin, &[]).await;
    let one = site.token("one", Role::Admin, &["app"]).await;
    let mut follower = Follower::of(&boss, "?events=leased,destroyed", "");
    assert_eq!(one.post("/v1/branches", r#"{"name": "b"}"#).status, 200);
    let (id, name, leased) = follower.next().expect("an event");
    assert_eq!((name.as_str(), &leased["name"], &leased["token"]), ("leased", &json!("b"), &json!(one.id)));
    assert_eq!(one.delete("/v1/branches/b").status, 200);
    assert_eq!(follower.next().expect("another").1, "destroyed");
    // It comes back later, and reads what was there meanwhile, with the events of other names.
    drop(follower);
    assert_eq!(one.post("/v1/branches", r#"{"name": "c"}"#).status, 200);
    let mut again = Follower::of(&boss, "", &format!("last-event-id: {id}\r\n"));
    let names: Vec<_> = std::iter::from_fn(|| again.next()).map(|(_, name, _)| name).take(2).collect();
    assert_eq!(names, ["destroyed", "leased"]);
    let mut after = Follower::of(&boss, &format!("?after={id}"), "");
    assert_eq!(after.next().expect("the same").1, "destroyed");
    for (wrong, status) in [("1-1", 404), ("x", 400), ("9-0", 404)] {
        assert_eq!(boss.get(&format!("/v1/events?after={wrong}")).status, status, "{wrong}");
    }
    // A stream ends with the token that it was asked for with, and not as if it were at its end.
    site.connection.revoke_token("boss").await.unwrap();
    let rest: Vec<_> = std::iter::from_fn(|| again.next()).map(|(_, name, _)| name).collect();
    assert!(rest.len() <= 1, "the end of the token may have been told: {rest:?}");
}

/// H2: of others' branches nothing is told, and of one's own no more than that something happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_token_is_told_of_what_it_sees_and_of_nothing_else() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    site.add_source("other").await;
    let one = site.token("one", Role::User, &["app"]).await;
    let two = site.token("two", Role::User, &[]).await;
    let eye = site.token("eye", Role::Viewer, &["app"]).await;
    let boss = site.token("boss", Role::Admin, &["other"]).await;
    let all = site.token("all", Role::Admin, &[]).await;
    let before = Follower::of(&all, "", "").position();
    let created = |who: &Who, name: &str, source: &str| {
        let body = json!({ "name": name, "source": source }).to_string();
        assert_eq!(who.post("/v1/branches", &body).status, 200, "{name}");
    };
    created(&one, "ones", "app");
    created(&two, "twos", "app");
    created(&two, "elsewhere", "other");
    for (who, branch) in [(&one, "ones"), (&two, "twos"), (&two, "elsewhere")] {
        let sql = json!({ "sql": "select 'a secret'" }).to_string();
        assert_eq!(who.post(&format!("/v1/branches/{branch}/query"), &sql).status, 200);
        assert_eq!(who.post(&format!("/v1/branches/{branch}/reset"), "").status, 200);
        assert_eq!(who.delete(&format!("/v1/branches/{branch}")).status, 200);
    }
    site.token("late", Role::User, &[]).await;
    let last = |name: &str, source: &str| created(&two, name, source);
    last("last-app", "app");
    last("last-other", "other");
    for (who, seen) in [
        (&one, vec!["ones"]),
        (&two, vec!["twos", "elsewhere"]),
        (&eye, vec!["ones", "twos"]),
        (&boss, vec!["elsewhere"]),
    ] {
        let mut follower = Follower::of(who, &format!("?after={before}"), "");
        // The branches of that time are gone, and yet their leases say whose they were.
        let mut found = Vec::new();
        let expected: usize = 3 * seen.len();
        while found.len() < expected {
            let (_, event, data) = follower.next().expect("an event");
            let name = data["name"].as_str().expect("a name").to_owned();
            if name.starts_with("last-") {
                continue;
            }
            assert!(seen.contains(&name.as_str()), "{name}: {data}");
            let fields: Vec<_> = data.as_object().unwrap().keys().map(String::as_str).collect();
            let known = ["event", "at", "branch", "name", "source"];
            assert!(fields.iter().all(|field| known.contains(field)), "{data}");
            assert_eq!(data["event"], json!(event));
            found.push((event, name));
        }
        for name in &seen {
            for event in ["leased", "reset", "destroyed"] {
                assert!(found.contains(&(event.to_owned(), (*name).to_owned())), "{event} {name}: {found:?}");
            }
        }
    }
    // An administrator for all sources is told everything.
    let mut follower = Follower::of(&all, &format!("?after={before}&events=statement,token_created"), "");
    assert_eq!(follower.next().expect("an event").1, "statement");

    // The log as a list.
    let list = |query: &str| all.get(&format!("/v1/audit{query}"));
    let newest = list("?limit=2").json();
    assert_eq!((&newest[0]["event"], newest.as_array().unwrap().len()), (&json!("leased"), 2));
    assert_eq!(newest[0]["entry"]["name"], json!("last-other"));
    let position = newest[1]["position"].as_str().unwrap();
    let next = list(&format!("?limit=1&before={position}")).json();
    assert_eq!(next[0]["event"], json!("token_created"));
    for (wrong, status) in [("?limit=0", 400), ("?limit=1001", 400), ("?before=x", 400), ("?before=9-9", 404)]
    {
        assert_eq!(list(wrong).status, status, "{wrong}");
    }
    for who in [&one, &two, &eye, &boss] {
        assert_eq!(who.get("/v1/audit").status, 403);
    }
    let shown = site.home.run(&["branch", "audit", "--limit", "1"]);
    assert!(crate::support::text(&shown.stdout).contains("last-other"), "{shown:?}");

    // One token does not take the places of all.
    let followers: Vec<_> = (0..8).map(|_| Follower::of(&eye, "", "")).collect();
    assert_eq!(eye.get("/v1/events").code(), "too_many_followers");
    let _ = Follower::of(&two, "", "");
    drop(followers);
}

/// H2: who is in a branch is told to its holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sessions_of_a_branch_are_its_holders() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let one = site.token("one", Role::User, &["app"]).await;
    let two = site.token("two", Role::User, &["app"]).await;
    let eye = site.token("eye", Role::Viewer, &["app"]).await;
    assert_eq!(one.post("/v1/branches", r#"{"name": "b"}"#).status, 200);
    let router = site.connection.doors().await.unwrap().postgres.unwrap().address;
    let url = format!("postgresql://one:{}@{router}/b?application_name=probe", one.secret);
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("a session");
    let session = tokio::spawn(connection);
    let long = format!("select pg_sleep(60) /* {} */", "x".repeat(3000));
    let running = tokio::spawn(async move {
        let failed = client.simple_query(&long).await.expect_err("it is cancelled");
        (failed, client)
    });
    let found = |who: &Who| who.get("/v1/branches/b/sessions");
    let mut own = Value::Null;
    until("the statement runs", async || {
        let all = found(&one).json();
        let all = all.as_array().cloned().unwrap_or_default();
        own = all.into_iter().find(|session| session["application"] == "probe").unwrap_or_default();
        own["state"] == "active" && own["waits_for"] == "Timeout: PgSleep"
    })
    .await;
    assert_eq!(own["statement"].as_str().unwrap().chars().count(), 1000);
    assert!(own["role"].is_string() && own["database"].is_string() && own["began_at"].is_string(), "{own}");
    let all = found(&one).json();
    let roles: Vec<_> = all.as_array().unwrap().iter().map(|session| session["role"].clone()).collect();
    assert!(!roles.contains(&json!("duramen_admin")), "the daemon's own are not shown: {roles:?}");
    let process = &own["process"];
    let cancel = |who: &Who, process: &Value, end: bool| {
        let body = json!({ "process": process, "end": end }).to_string();
        who.post("/v1/branches/b/sessions/cancel", &body)
    };
    for (who, status) in [(&two, 404), (&eye, 403)] {
        assert_eq!(found(who).status, status);
        assert_eq!(cancel(who, process, true).status, status);
    }
    assert_eq!(cancel(&one, &json!(1), false).code(), "unknown_session");
    assert_eq!(one.post("/v1/branches/b/sessions/cancel", "{}").status, 400, "which one?");
    let listed = site.home.run(&["branch", "sessions", "b"]);
    assert!(crate::support::text(&listed.stdout).contains("probe"), "{listed:?}");
    assert_eq!(cancel(&one, process, false).json(), json!({ "process": process, "end": false }));
    let (failed, client) = running.await.unwrap();
    assert_eq!(failed.code(), Some(&tokio_postgres::error::SqlState::QUERY_CANCELED));
    client.simple_query("select 1").await.expect("the session goes on");
    let process = process.to_string();
    let ended = site.home.run(&["branch", "cancel", "b", &process, "--end"]);
    assert!(ended.status.success(), "{ended:?}");
    client.simple_query("select 1").await.expect_err("it has ended");
    drop(client);
    let _ = session.await;
    for (event, token) in [("statement_cancelled", json!(one.id)), ("session_ended", Value::Null)] {
        let entries = site.audited(event);
        let tokens: Vec<_> = entries.iter().map(|entry| entry["token"].clone()).collect();
        assert!(tokens.contains(&token), "{event}: {entries:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_may_follow_and_a_daemon_ends_all_the_same() {
    let mut site = Site::open().await;
    let boss = site.token("boss", Role::Admin, &[]).await;
    let mut followers: Vec<_> = (0..64).map(|_| Follower::of(&boss, "", "")).collect();
    let refused = boss.get("/v1/events");
    assert_eq!((refused.status, refused.code().as_str()), (503, "too_many_followers"));
    assert_eq!(boss.get("/v1/branches").status, 200, "others are served");
    drop(followers.split_off(32));
    until("their places are free again", async || {
        let mut stream = dial(boss.door);
        let headers = format!("authorization: {}\r\n", boss.bearer);
        stream.write_all(request("GET", "/v1/events", &headers, "").as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).is_ok() && line.contains("200")
    })
    .await;
    let begin = duramen_base::clock::now();
    site.connection.shutdown().await.unwrap();
    while followers[0].line().is_some() {}
    assert!(begin.elapsed().as_secs() < 5, "nobody waits for those who follow");
}
