//! Agents that come with a token: to `/mcp`, or by a `duramen mcp` of their own. The invariants M1 to M6 are in
//! `docs/design/doors.md`.

use super::client::{answer, ask, dial, request, Answer, Site, Who};
use crate::{
    agents::conversation::{said, Agent},
    support::until,
};
use duramen_api::token::{CreateToken, Role};
use serde_json::{json, Value};
use std::{fs, io::Write};

const JSON: &str = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";

fn message(method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

fn call(tool: &str, arguments: Value) -> String {
    message("tools/call", json!({ "name": tool, "arguments": arguments }))
}

fn post(who: &Who, headers: &str, body: &str) -> Answer {
    who.ask("POST", "/mcp", &format!("{JSON}{headers}"), body)
}

fn tool(who: &Who, name: &str, arguments: Value) -> Result<Value, String> {
    let answer = post(who, "", &call(name, arguments));
    assert_eq!(answer.status, 200, "{answer:?}");
    said(&answer.json()).map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

fn hello() -> String {
    let client = json!({ "name": "test", "version": "1" });
    message(
        "initialize",
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client }),
    )
}

/// M1, M4, H2, H3, H5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holders_tools_do_what_its_token_may() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let one = site
        .make(CreateToken {
            name: "one".to_owned(),
            sources: vec!["app".to_owned()],
            max_ttl_s: Some(600),
            ..CreateToken::default()
        })
        .await;
    let two = site.token("two", Role::User, &["app"]).await;
    let viewer = site.token("eye", Role::Viewer, &["app"]).await;
    let admin = site.token("boss", Role::Admin, &["app"]).await;

    let made = tool(&one, "branch_create", json!({ "name": "b" })).unwrap();
    let view = site.connection.branch("b").await.unwrap();
    let lasts_s = view.expires_at.as_second() - view.created_at.as_second();
    assert!(lasts_s <= 600 && made["note"].as_str().unwrap().contains("600 s"), "{made}");
    assert_eq!(view.holder.as_deref(), Some(one.id.as_str()));
    let too_long = tool(&one, "branch_create", json!({ "name": "c", "ttl_s": 601 })).unwrap_err();
    assert!(too_long.starts_with("not_allowed"), "{too_long}");

    // The way in, and nothing of the branch's secret, nor of the token's.
    let secret = view.url.split("password=").nth(1).expect("its owner sees it").to_owned();
    let router = site.connection.doors().await.unwrap().postgres.unwrap().address;
    for who in [&one, &admin] {
        let url = tool(who, "branch_url", json!({ "branch": "b" })).unwrap();
        assert!(url["url"].as_str().unwrap().ends_with(&format!("@{router}/b")), "{url}");
        assert!(url["password"].as_str().unwrap().contains("the secret of the token"));
        for hidden in [&secret, &one.secret, &admin.secret] {
            assert!(!url.to_string().contains(hidden.as_str()), "{url}");
        }
    }
    let found = tool(&one, "query", json!({ "branch": "b", "sql": "delete from t returning x" })).unwrap();
    assert_eq!(found["rows"], json!([[1], [2]]));

    // Somebody else's.
    for (name, more) in [
        ("query", json!({ "sql": "select 1" })),
        ("explain", json!({ "sql": "select 1" })),
        ("describe", json!({})),
        ("branch_url", json!({})),
        ("branch_reset", json!({})),
        ("branch_destroy", json!({})),
    ] {
        let with = |branch: &str| {
            let mut arguments = more.clone();
            arguments["branch"] = json!(branch);
            tool(&two, name, arguments).unwrap_err()
        };
        assert_eq!(with("b").replace("\"b\"", "\"z\""), with("z"), "{name}: as if there were none");
    }
    assert!(
        tool(&two, "branch_create", json!({ "name": "b" })).unwrap_err().starts_with("name_"),
        "it is taken"
    );
    assert_eq!(tool(&two, "branch_list", json!({})).unwrap()["branches"], json!([]));
    let resources = post(&two, "", &message("resources/list", json!({}))).json();
    assert_eq!(resources["result"]["resources"], json!([]));
    for kind in ["schema", "evidence"] {
        let uri = format!("duramen://branches/b/{kind}");
        let read = post(&two, "", &message("resources/read", json!({ "uri": uri }))).json();
        assert!(read["error"]["message"].is_string() && read.get("result").is_none(), "{read}");
    }

    // A viewer looks; evidence is for administrators.
    assert_eq!(tool(&viewer, "branch_list", json!({})).unwrap()["branches"][0]["name"], "b");
    for (name, arguments) in [
        ("branch_create", json!({})),
        ("query", json!({ "branch": "b", "sql": "select 1" })),
        ("describe", json!({ "branch": "b" })),
        ("branch_destroy", json!({ "branch": "b" })),
        ("branch_evidence", json!({ "branch": "b" })),
    ] {
        let refused = tool(&viewer, name, arguments).unwrap_err();
        assert!(refused.starts_with("not_allowed"), "{name}: {refused}");
    }
    assert!(tool(&one, "branch_evidence", json!({ "branch": "b" })).unwrap_err().starts_with("not_allowed"));
    let evidence = tool(&admin, "branch_evidence", json!({ "branch": "b", "table": "public.t" })).unwrap();
    assert_eq!(
        (&evidence["snapshot"], &evidence["table"]["rows_in_branch"]),
        (&json!("unchanged"), &json!(0))
    );
    assert!(!evidence.to_string().contains(&secret), "{evidence}");

    // The same by a program of the agent's own, over TLS with the door's certificate.
    let ca = site.home.path().join("doors/certificate.pem");
    let url = format!("https://localhost:{}", site.door.port());
    let bridge = |token: Option<&str>| {
        let mut command = site.home.command(&["mcp", "--url", &url, "--ca"]);
        command.arg(&ca).env_remove("DURAMEN_TOKEN");
        command.envs(token.map(|token| ("DURAMEN_TOKEN", token)));
        command
    };
    let mut agent = Agent::start(&mut bridge(Some(&format!("one:{}", one.secret))));
    let found = agent.value("query", json!({ "branch": "b", "sql": "select count(*) from t" }));
    assert_eq!(found["rows"], json!([[0]]));
    let url_of = agent.value("branch_url", json!({ "branch": "b" })).to_string();
    assert!(!url_of.contains(&secret) && !url_of.contains(&one.secret), "{url_of}");
    assert!(agent.tool("branch_evidence", json!({ "branch": "b" })).unwrap_err().starts_with("not_allowed"));
    assert_eq!(agent.end(), Some(0));
    for (token, status, what) in
        [(None, 2, "DURAMEN_TOKEN"), (Some("one:wrong"), 1, "token"), (Some("one"), 2, "NAME:SECRET")]
    {
        let output = bridge(token).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(status) && text.contains(what), "{token:?}: {output:?}");
    }
}

/// M1, M5, M6, H1, H7, H8, H9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_pages_and_the_forgetful_get_nothing() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let one = site.token("one", Role::User, &[]).await;
    let two = site.token("two", Role::User, &[]).await;
    tool(&one, "branch_create", json!({ "name": "b" })).unwrap();

    // Without a token that is alive, not even what the protocol is.
    for headers in ["", "authorization: Bearer one:wrong\r\n", "authorization: Bearer nobody:x\r\n"] {
        for body in [hello(), message("tools/list", json!({})), "{".to_owned()] {
            let refused = ask(site.door, &request("POST", "/mcp", &format!("{JSON}{headers}"), &body));
            assert_eq!((refused.status, refused.code().as_str()), (401, "not_authenticated"));
        }
    }
    let page = post(&one, "origin: https://evil.example\r\n", &hello());
    assert_eq!((page.status, page.code().as_str()), (403, "cross_origin"));
    let text = request("POST", "/mcp", &format!("{JSON}authorization: {}\r\n", one.bearer), &hello());
    let rebound = ask(site.door, &text.replace("host: localhost", "host: evil.example"));
    assert_eq!((rebound.status, rebound.code().as_str()), (421, "unknown_host"));

    // There is no session to take over: whatever is sent as one, each request is its token's.
    let greeted = post(&one, "", &hello());
    assert_eq!((greeted.status, greeted.header("mcp-session-id")), (200, None), "{greeted:?}");
    assert_eq!(greeted.json()["result"]["serverInfo"]["name"], "duramen");
    for session in ["mcp-session-id: 1\r\n", "mcp-session-id: ../b\r\n"] {
        let body = call("query", json!({ "branch": "b", "sql": "select 1" }));
        assert!(said(&post(&two, session, &body).json()).is_err());
        assert!(said(&post(&one, session, &body).json()).is_ok());
    }
    for method in ["GET", "DELETE", "PUT"] {
        assert_eq!(one.ask(method, "/mcp", JSON, "").status, 405, "{method}");
    }

    // What is no message, or too much of one.
    for body in [
        "",
        "{",
        "[]",
        "null",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/nothing"}"#,
    ] {
        let refused = post(&one, "", body);
        assert!(refused.status >= 400 || refused.json().get("error").is_some(), "{body}: {refused:?}");
    }
    let large = post(&one, "", &call("query", json!({ "branch": "b", "sql": "x".repeat(9 << 20) })));
    assert_eq!((large.status, large.code().as_str()), (413, "too_large"));

    // A thousand who say hello and never come back leave nothing.
    for _ in 0..200 {
        assert_eq!(post(&one, "", &hello()).status, 200);
    }
    let status = site.connection.status().await.unwrap();
    let before = resident(status.pid);
    for _ in 0..1000 {
        assert_eq!(post(&one, "", &hello()).status, 200);
    }
    let grown = resident(status.pid).saturating_sub(before);
    assert!(grown < 4 << 20, "{grown} bytes");

    // Who hangs up, and whose token is revoked, ends what was asked for.
    let url = site.connection.branch("b").await.unwrap().url;
    let wire = crate::support::wire(&url).await;
    let sleeping =
        "select count(*) from pg_stat_activity where query = 'select pg_sleep(25)' and state = 'active'";
    let count = async || wire.query_one(sleeping, &[]).await.unwrap().get::<_, i64>(0);
    let sleep = call("query", json!({ "branch": "b", "sql": "select pg_sleep(25)" }));
    let text = request("POST", "/mcp", &format!("{JSON}authorization: {}\r\n", one.bearer), &sleep);
    let mut stream = dial(site.door);
    stream.write_all(text.as_bytes()).unwrap();
    until("it sleeps", async || count().await == 1).await;
    drop(stream);
    until("it sleeps no more", async || count().await == 0).await;
    let mut stream = dial(site.door);
    stream.write_all(text.as_bytes()).unwrap();
    until("it sleeps again", async || count().await == 1).await;
    site.connection.revoke_token("one").await.unwrap();
    assert_eq!(answer(&mut stream).status, 401);
    until("it sleeps no more", async || count().await == 0).await;
    assert_eq!(post(&one, "", &hello()).status, 401);
}

/// Memory of a process, in bytes.
fn resident(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).expect("it runs");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}
