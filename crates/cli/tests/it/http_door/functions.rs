//! Durable functions of an attached database, through the door: who sees them, who steers them, what is written down of that, and what a hostile
//! request comes to.

use super::client::{Answer, Site, Who};
use crate::{
    common::{self, one, Database, OWNER},
    functions_cli::shell::Shell,
    support::until,
};
use duramen_api::{
    attachments::{AddAttachment, AttachmentKind},
    token::Role,
};
use serde_json::{json, Value};

/// What is read of an attachment.
const READ: [&str; 5] = ["functions", "instances", "instance?id=00000000", "queues", "schedules"];

async fn attach(site: &mut Site, name: &str, at: &str) {
    let wanted = AddAttachment { name: name.to_owned(), kind: AttachmentKind::Functions, at: at.to_owned() };
    site.connection.add_attachment(&wanted).await.expect("it is attached");
}

async fn open() -> (Database<'static>, Site) {
    let database = common::database().await;
    let mut site = Site::open().await;
    attach(&mut site, "shop", &database.url()).await;
    (database, site)
}

fn get(who: &Who, path: &str) -> Answer {
    who.get(&format!("/v1/attachments/shop/{path}"))
}

fn control(who: &Who, body: &Value) -> Answer {
    who.post("/v1/attachments/shop/instance/control", &body.to_string())
}

/// H3, H4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_see_instances_and_administrators_steer_them_and_it_is_written_down() {
    let (database, mut site) = open().await;
    let alice = database.role("alice").await;
    let client = database.connect(&alice).await;
    let id = one(&client, "SELECT df.start(df.wait_for_signal('go'), 'waits')").await.expect("an id");
    let (boss, ci, eye) = (
        site.token("boss", Role::Admin, &[]).await,
        site.token("ci", Role::User, &[]).await,
        site.token("eye", Role::Viewer, &[]).await,
    );
    site.add_source("app").await;
    let narrow = site.token("narrow", Role::Admin, &["app"]).await;
    let cancel = json!({ "id": id, "action": "cancel", "reason": "enough" });
    for path in READ {
        for who in [&eye, &narrow] {
            let refused = get(who, path);
            assert_eq!((refused.status, refused.code().as_str()), (403, "not_allowed"), "{path}");
        }
        let expected = if path.starts_with("instance?") { 404 } else { 200 };
        assert_eq!(get(&ci, path).status, expected, "{path}");
    }
    for who in [&eye, &narrow, &ci] {
        assert_eq!(control(who, &cancel).code(), "not_allowed");
    }
    assert_eq!(site.audited("function_controlled"), [] as [Value; 0], "what is refused is not written down");

    let listed = get(&ci, "instances").json();
    assert_eq!((&listed[0]["id"], &listed[0]["label"]), (&json!(id), &json!("waits")));
    let shown = get(&ci, &format!("instance?id={id}")).json();
    assert_eq!((&shown["status"], &shown["nodes"][0]["node_type"]), (&json!("pending"), &json!("SIGNAL")));

    let _worker = Shell::new(&database.url()).worker(&[]);
    until("it waits", async || get(&ci, &format!("instance?id={id}")).json()["status"] == "running").await;
    let secret = "4111 1111 1111 1111";
    let signal = json!({ "id": id, "action": "signal", "signal": "other", "data": secret });
    assert_eq!(control(&boss, &signal).status, 200);
    let cancelled = control(&boss, &cancel);
    assert_eq!(cancelled.json()["status_before"], "running", "{cancelled:?}");
    until("it has ended", async || get(&ci, &format!("instance?id={id}")).json()["ended_at"].is_string())
        .await;
    let ended = get(&ci, &format!("instance?id={id}")).json();
    assert_eq!((&ended["status"], &ended["reason"]["text"]), (&json!("cancelled"), &json!("enough")));
    let forked = control(&boss, &json!({ "id": id, "action": "fork", "label": "again" })).json();
    assert!(forked["fork"].is_string(), "{forked}");
    // What was tried is written down, whatever came of it.
    let wrong = control(&boss, &json!({ "id": id, "action": "pause" }));
    assert_eq!((wrong.status, wrong.code().as_str()), (422, "refused_by_database"));
    assert!(wrong.json()["detail"].as_str().unwrap().contains("cannot pause"), "{wrong:?}");

    let written = site.audited("function_controlled");
    let actions: Vec<&Value> = written.iter().map(|entry| &entry["action"]).collect();
    assert_eq!(actions, ["signal", "cancel", "fork", "pause"]);
    for entry in &written {
        assert_eq!(
            (&entry["token"], &entry["attachment"], &entry["instance"]),
            (&json!(boss.id), &json!("shop"), &json!(id))
        );
        assert!(!entry.to_string().contains(secret), "what goes with a signal is not told: {entry}");
    }
    assert_eq!((&written[0]["detail"], &written[1]["detail"]), (&json!("other"), &json!("enough")));
}

/// A page says where the next one is, and pages do not overlap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_lead_from_one_to_the_next() {
    let (database, mut site) = open().await;
    let alice = database.role("alice").await;
    let client = database.connect(&alice).await;
    let many = "SELECT count(*) FROM df.start_many(ARRAY(SELECT 'SELECT ' || n FROM generate_series(1, 25) n), 'a&b=\u{e9} 100%')";
    assert_eq!(one(&client, many).await.as_deref(), Some("25"));
    let ci = site.token("ci", Role::User, &[]).await;
    let mut path =
        "/v1/attachments/shop/instances?limit=10&status=pending&search=b%3D%C3%A9%20100%25".to_owned();
    let mut seen = Vec::new();
    for expected in [10, 10, 5] {
        let page = ci.get(&path);
        assert_eq!(page.status, 200, "{page:?}");
        let rows = page.json();
        assert_eq!(rows.as_array().map(Vec::len), Some(expected), "{path}");
        seen.extend(rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()));
        match page.header("link") {
            Some(link) => {
                let (address, rel) = link.split_once(">; ").expect("a link");
                assert_eq!(rel, "rel=\"next\"");
                path = address.trim_start_matches('<').to_owned();
            }
            None => assert_eq!(expected, 5),
        }
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 25);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_make_no_sense_are_refused_and_harm_nothing() {
    let (database, mut site) = open().await;
    let alice = database.role("alice").await;
    let client = database.connect(&alice).await;
    let id = one(&client, "SELECT df.start('SELECT 1')").await.expect("an id");
    let boss = site.token("boss", Role::Admin, &[]).await;
    for (path, code) in [
        ("instances?limit=0", "bad_request"),
        ("instances?limit=1001", "bad_request"),
        ("instances?limit=x", "bad_request"),
        ("instances?status=done", "bad_request"),
        ("instances?search=%00", "bad_request"),
        ("instances?search=%ff", "bad_request"),
        ("instances?cursor=x", "refused_by_database"),
        ("instance", "bad_request"),
        ("instance?id=", "unknown_instance"),
        ("instance?id='%3B--", "unknown_instance"),
        ("instance?id=%00", "unknown_instance"),
    ] {
        let refused = get(&boss, path);
        assert_eq!(refused.code(), code, "{path}: {refused:?}");
    }
    let long = "a".repeat(2000);
    assert_eq!(get(&boss, &format!("instances?search={long}")).code(), "bad_request");
    assert_eq!(get(&boss, &format!("instance?id={long}")).code(), "unknown_instance");
    for (body, code) in [
        (json!({}), "bad_request"),
        (json!([id, "pause"]), "bad_request"),
        (json!({ "id": id, "action": "explode" }), "bad_request"),
        (json!({ "id": id, "action": "resume", "step": "DROP TABLE t" }), "bad_request"),
        (json!({ "id": id, "action": "fork", "step": "DROP TABLE t" }), "bad_request"),
        (json!({ "id": id, "action": "signal" }), "bad_request"),
        (json!({ "id": id, "action": "pause", "reason": "x" }), "bad_request"),
        (json!({ "id": id, "action": "cancel", "reason": "a\0b" }), "bad_request"),
        (json!({ "id": id, "action": "cancel", "reason": "a".repeat(70_000) }), "bad_request"),
        (json!({ "id": "00000000", "action": "pause" }), "unknown_instance"),
        (json!({ "id": "'; DROP SCHEMA df CASCADE; --", "action": "delete" }), "unknown_instance"),
    ] {
        let refused = control(&boss, &body);
        assert_eq!(refused.code(), code, "{body}: {refused:?}");
    }
    let status = one(&client, &format!("SELECT df.status('{id}')")).await;
    assert_eq!(status.as_deref(), Some("pending"));
    assert_eq!(site.audited("function_controlled").len(), 2, "what makes no sense is not tried");
    for path in READ {
        assert_eq!(boss.get(&format!("/v1/attachments/none/{path}")).code(), "unknown_attachment", "{path}");
    }
}

/// A database that is down or is none of ours is told with what to do, and hinders nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_cannot_be_asked_is_told_with_what_to_do() {
    let (database, mut site) = open().await;
    let server = database.server();
    let empty = server.empty_database().await;
    attach(&mut site, "empty", &server.url(OWNER, &empty)).await;
    attach(&mut site, "down", "postgresql://ops:hidden@127.0.0.1:1/shop").await;
    let folder = site.home.path();
    let store = AddAttachment {
        name: "notes".to_owned(),
        kind: AttachmentKind::Store,
        at: folder.display().to_string(),
    };
    site.connection.add_attachment(&store).await.expect("it is attached");
    let boss = site.token("boss", Role::Admin, &[]).await;
    for (name, status, code, words) in [
        ("empty", 409, "no_functions", "duramen fn install"),
        ("down", 503, "database_unreachable", "127.0.0.1"),
        ("notes", 400, "other_kind", "is a store"),
    ] {
        for path in READ {
            let refused = boss.get(&format!("/v1/attachments/{name}/{path}"));
            assert_eq!((refused.status, refused.code().as_str()), (status, code), "{name} {path}");
            assert!(refused.body.contains(words) && !refused.body.contains("hidden"), "{refused:?}");
        }
    }
    assert_eq!(get(&boss, "functions").status, 200);
}
