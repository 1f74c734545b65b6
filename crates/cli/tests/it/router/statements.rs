//! S1 to S4: what holders run is in the audit log, if their source says so.

use super::{one, sessions::audit, Site};
use crate::support::{query, settle, until, Home};
use duramen_api::model::{Audited, ChangeSettings};
use serde_json::Value;
use std::{fs, os::unix::fs::MetadataExt};

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// The entries of the audit log about statements of a branch, by its name.
fn entries(home: &Home, name: &str) -> Vec<Value> {
    audit(home).into_iter().filter(|line| line["event"] == "statements" && line["name"] == name).collect()
}

/// Whether an entry names a statement by its hash.
fn has(entries: &[Value], text: &str) -> bool {
    let hash = hash(text);
    entries
        .iter()
        .flat_map(|entry| entry["first"].as_array().unwrap())
        .any(|first| first["hash"] == hash.as_str())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hashes_of_what_holders_run_are_in_the_audit_log() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let ci = site.user("ci").await;
    drop(site.enter(&ci, "app@before").await.expect("a branch of before"));
    let change = ChangeSettings { audit: Some(Audited::Statements), ..ChangeSettings::default() };
    site.connection.change_settings("app", &change).await.expect("the change");
    settle(&mut site.connection).await;

    let client = site.enter(&ci, "app@try").await.expect("a branch");
    client.batch_execute("select 'marked'").await.expect("a statement");
    client.batch_execute("select 'two\n\tlines\n=1:1= LOG:  statement: forged'").await.expect("lines");
    client.query("select x from t where y = $1", &[&"row 7"]).await.expect("a parameter");
    client.batch_execute("no statement at all").await.expect_err("it is none");
    // S1: nobody turns it off who may not.
    for sql in [
        "set log_statement = 'none'",
        "set log_min_messages = fatal",
        "alter role current_user set log_statement = 'none'",
        "alter role current_user set log_min_messages = fatal",
        "set lc_messages = 'de_DE.UTF-8'",
    ] {
        client.batch_execute(sql).await.expect_err(sql);
    }
    client.batch_execute("alter role current_user reset all").await.expect("what may be reset");
    let again = site.enter(&ci, "try").await.expect("another session");
    again.batch_execute("select 'after the reset'").await.expect("a statement");
    query(&mut site.connection, "try", "select 'over HTTP'").await.expect("rows");
    let expected = [
        "select 'marked'",
        "select 'two\n\tlines\n=1:1= LOG:  statement: forged'",
        "select x from t where y = $1\0Parameters: $1 = 'row 7'",
        "no statement at all",
        "set log_statement = 'none'",
        "select 'after the reset'",
    ];
    until("all of them are in the audit log", async || {
        let entries = entries(&home, "try");
        // A text that cannot be parsed is logged as an error alone.
        expected.iter().filter(|text| !text.starts_with("no ")).all(|text| has(&entries, text))
    })
    .await;
    assert!(!has(&entries(&home, "try"), "forged"));
    let from: Vec<u64> = entries(&home, "try").iter().map(|entry| entry["from"].as_u64().unwrap()).collect();
    assert!(from.is_sorted(), "{from:?}");

    // S2: what is run in the moment before the end is there too.
    let own = site.enter(&ci, "@app").await.expect("a branch of its own");
    own.batch_execute("select 'the last words'").await.expect("a statement");
    drop(own);
    until("they are in the audit log", async || {
        let all: Vec<Value> = audit(&home).into_iter().filter(|line| line["event"] == "statements").collect();
        has(&all, "select 'the last words'")
    })
    .await;
    assert_eq!(entries(&home, "before"), Vec::<Value>::new(), "it was made before");

    // S3: a flood is counted, and takes no room.
    let log =
        home.path().join("logs").join(format!("{}.log", entries(&home, "try")[0]["log"].as_str().unwrap()));
    let sql = format!("select length('{}')", "x".repeat(8 << 20));
    for _ in 0..20 {
        client.batch_execute(&sql).await.expect("a large statement");
    }
    client.batch_execute("select 'after the flood'").await.expect("a statement");
    until("it goes on after a flood", async || has(&entries(&home, "try"), "select 'after the flood'")).await;
    let told: u64 = entries(&home, "try")
        .iter()
        .map(|entry| {
            entry["to"].as_u64().unwrap() - entry["from"].as_u64().unwrap()
                + entry["lost"].as_u64().unwrap_or(0)
        })
        .sum();
    let kept = fs::metadata(&log).expect("the log");
    assert!(kept.len() >= 160 << 20 && told <= kept.len() && told >= 160 << 20, "{told} of {}", kept.len());
    until("little of it is kept", async || fs::metadata(&log).expect("the log").blocks() * 512 <= 16 << 20)
        .await;

    // S4: another daemon goes on where this one stopped.
    let last = entries(&home, "try").last().unwrap()["to"].as_u64().unwrap();
    site.stop().await;
    let mut site = Site::again(&home, &["--pg-listen", "127.0.0.1:0"]).await;
    let client = site.enter(&ci, "try").await.expect("a session");
    client.batch_execute("select 'another daemon'").await.expect("a statement");
    until("it goes on", async || has(&entries(&home, "try"), "select 'another daemon'")).await;
    let entries = entries(&home, "try");
    let after: Vec<&Value> = entries.iter().filter(|entry| entry["to"].as_u64() > Some(last)).collect();
    assert!(after.iter().all(|entry| entry["from"].as_u64() >= Some(last)), "{last}: {after:?}");
    assert_eq!(one::<i64>(&client, "select count(*) from t").await, 100);
    assert!(site.connection.verify_audit().await.expect("the audit log").intact);
    site.stop().await;
}
