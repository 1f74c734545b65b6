//! A request whose reply was lost comes again: with its key it is done once (H10).

use super::client::{answer, dial, request, Site};
use duramen_api::token::Role;
use serde_json::json;
use std::io::Write;

fn key(key: &str) -> String {
    format!("idempotency-key: {key}\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_its_key_a_request_is_done_once() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let one = site.token("one", Role::User, &[]).await;
    let two = site.token("two", Role::User, &[]).await;

    let first = one.ask("POST", "/v1/branches", &key("k1"), "{}");
    assert_eq!((first.status, first.header("idempotent-replayed")), (200, None), "{first:?}");
    let again = one.ask("POST", "/v1/branches", &key("k1"), "{}");
    assert_eq!((again.status, again.header("idempotent-replayed")), (200, Some("true")), "{again:?}");
    assert_eq!(again.json(), first.json());
    let branch = first.json()["name"].as_str().expect("a name").to_owned();
    let other = two.ask("POST", "/v1/branches", &key("k1"), "{}");
    assert_ne!(other.json()["name"], json!(branch), "a key belongs to who showed it");

    let query = format!("/v1/branches/{branch}/query");
    let insert = json!({ "sql": "insert into t values (3)" }).to_string();
    for _ in 0..3 {
        assert_eq!(one.ask("POST", &query, &key("k2"), &insert).status, 200);
    }
    let counted = one.post(&query, &json!({ "sql": "select count(*) from t" }).to_string());
    assert_eq!(counted.json()["results"][0]["rows"], json!([[3]]), "{counted:?}");
    let reused = one.ask("POST", &query, &key("k2"), &json!({ "sql": "select 1" }).to_string());
    assert_eq!((reused.status, reused.code().as_str()), (422, "idempotency_key_reused"));
    // What was refused is asked anew.
    for _ in 0..2 {
        let sql = json!({ "sql": "select nothing" }).to_string();
        let refused = one.ask("POST", &query, &key("k3"), &sql);
        assert_eq!((refused.status, refused.code().as_str()), (422, "sql_error"));
        assert_eq!(refused.json()["position"], json!(8), "where it is wrong: {refused:?}");
    }

    // A slow one still runs when it comes again; given up, it can be asked again.
    let slow = json!({ "sql": "select pg_sleep(5)" }).to_string();
    // Which of two comes first is not known; the other one is refused.
    let mut first = dial(site.door);
    let headers = format!("authorization: {}\r\n{}", one.bearer, key("k4"));
    first.write_all(request("POST", &query, &headers, &slow).as_bytes()).expect("it is sent");
    let second = one.ask("POST", &query, &key("k4"), &slow);
    let answers = [answer(&mut first), second];
    let busy = answers.iter().find(|answer| answer.status != 200).expect("only one runs");
    assert_eq!((busy.status, busy.code().as_str()), (409, "request_in_progress"), "{answers:?}");
    assert!(answers.iter().any(|answer| answer.status == 200), "{answers:?}");
    let replayed = one.ask("POST", &query, &key("k4"), &slow);
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));

    let refused = one.ask("GET", "/v1/branches", &key("k5"), "");
    assert_eq!((refused.status, refused.code().as_str()), (400, "bad_idempotency_key"));
}

/// What goes on without its client keeps its key: who shows it again is told what was done, and it is not done again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_on_without_its_client_is_done_once() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let one = site.token("one", Role::User, &[]).await;
    let made = one.post("/v1/branches", "{}").json();
    let branch = made["name"].as_str().expect("a name").to_owned();
    let query = format!("/v1/branches/{branch}/query");
    let counted = || {
        let told = one.post(&query, &json!({ "sql": "select count(*)::int from t" }).to_string());
        told.json()["results"][0]["rows"][0][0].clone()
    };
    let insert = json!({ "sql": "insert into t values (3)" }).to_string();
    assert_eq!(one.post(&query, &insert).status, 200);
    assert_eq!(one.post(&format!("/v1/branches/{branch}/reset"), "").status, 200);
    assert_eq!(counted(), json!(2));
    for step in 0..6_u64 {
        // Back and forth: what is undone once is there in the odd rounds, and gone in the even ones.
        let undo = format!("/v1/branches/{branch}/undo");
        let shown = key(&format!("u{step}"));
        let headers = format!("authorization: {}\r\n{shown}", one.bearer);
        let mut first = dial(site.door);
        first.write_all(request("POST", &undo, &headers, "").as_bytes()).expect("it is sent");
        std::thread::sleep(std::time::Duration::from_millis(5 + 15 * step));
        drop(first);
        let told = loop {
            let told = one.ask("POST", &undo, &shown, "");
            if told.status != 409 {
                break told;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        assert_eq!(told.status, 200, "{told:?}");
        assert_eq!(counted(), json!(if step % 2 == 0 { 3 } else { 2 }), "{step}");
    }
}
