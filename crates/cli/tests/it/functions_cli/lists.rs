//! Lists page through everything, and say so when they do not show it.

use super::{
    common,
    shell::{said, text, Shell},
};
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_cut_aloud_and_complete_on_demand() {
    const MANY: usize = 2345;
    let database = common::database().await;
    let alice = database.role("alice").await;
    let client = database.connect(&alice).await;
    client
        .batch_execute(&format!(
            "SELECT df.start_many(array_agg('SELECT ' || n), 'many') FROM generate_series(1, {MANY}) n"
        ))
        .await
        .unwrap();
    let shell = Shell::new(&database.url_as(&alice));
    let one = shell.start("SELECT 0");

    let output = shell.run(&["list"]);
    let printed = text(&output.stdout);
    assert_eq!(printed.lines().count(), 21, "{printed}");
    assert!(printed.starts_with("ID ") && printed.lines().nth(1).unwrap().starts_with(&one), "{printed}");
    assert!(text(&output.stderr).contains("there are more"), "{}", said(&output));

    let all = shell.json(&["list", "--all"]);
    let ids: BTreeSet<String> = all["instances"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), MANY + 1);
    assert!(all["next"].is_null());
    let labelled = shell.json(&["list", "--all", "--label", "many", "--status", "pending"]);
    assert_eq!(labelled["instances"].as_array().unwrap().len(), MANY);
    assert!(labelled["instances"].as_array().unwrap().iter().all(|row| row["label"] == "many"));
    assert_eq!(shell.json(&["list", "--status", "completed"])["instances"], serde_json::json!([]));

    // Page by page, by hand.
    let mut seen = BTreeSet::new();
    let mut after: Option<String> = None;
    loop {
        let mut arguments = vec!["list", "--limit", "1500"];
        if let Some(cursor) = &after {
            arguments.extend(["--after", cursor.as_str()]);
        }
        let page = shell.json(&arguments);
        for row in page["instances"].as_array().unwrap() {
            assert!(seen.insert(row["id"].as_str().unwrap().to_owned()), "{row} is there twice");
        }
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(seen, ids);
    let error = shell.fails(1, &["list", "--after", "nonsense"]);
    assert!(error.contains("invalid after_cursor"), "{error}");

    // An operator's smaller pages only take longer.
    let owner = database.owner().await;
    let small = format!("ALTER DATABASE {} SET df.list_instances_max_limit = 400", database.name());
    owner.batch_execute(&small).await.unwrap();
    assert_eq!(shell.json(&["list", "--all"])["instances"].as_array().unwrap().len(), MANY + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_found_counted_told_and_exported() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let shell = Shell::new(&database.url_as(&alice));
    shell.ok(&["queue", "set", "mail"]);
    let plain = shell.start("SELECT 0");
    let mut mailed = Vec::new();
    for n in 0..3 {
        let (label, input) = (format!("night {n}"), format!(r#"{{"n": {n}}}"#));
        let start = ["start", "SELECT 1", "--queue", "mail", "--label", &label, "--input", &input];
        mailed.push(shell.ok(&start).trim().to_owned());
    }
    let ids = |listed: serde_json::Value| -> BTreeSet<String> {
        let listed = listed["instances"].as_array().unwrap().iter();
        listed.map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    let all: BTreeSet<String> = mailed.iter().cloned().collect();
    assert_eq!(ids(shell.json(&["list", "--queue", "mail"])), all);
    assert_eq!(ids(shell.json(&["list", "--like", "night%", "--limit", "2"])).len(), 2);
    assert_eq!(ids(shell.json(&["list", "--input", r#"{"n": 1}"#])), [mailed[1].clone()].into());
    assert_eq!(ids(shell.json(&["list", "--until", "2020-01-01T00:00:00Z"])), BTreeSet::new());
    let since = ["list", "--since", "2020-01-01T00:00:00Z", "--role", &alice, "--all"];
    assert_eq!(ids(shell.json(&since)).len(), 4);
    let counted = shell.json(&["list", "--count"]);
    assert_eq!((&counted["total"], counted["groups"].as_array().unwrap().len()), (&4.into(), 2), "{counted}");
    let table = shell.ok(&["list", "--count", "--queue", "mail"]);
    assert!(table.contains("mail") && table.contains("3 in all"), "{table}");
    let refused = shell.fails(1, &["list", "--input", "{"]);
    assert!(refused.contains("invalid input syntax for type json"), "{refused}");

    let _worker = Shell::new(&database.url()).worker(&[]);
    shell.ok(&["await", &plain]);
    let told = shell.ok(&["show", &plain, "--timeline"]);
    assert!(told.starts_with("AT ") && told.contains("started") && told.contains("completed"), "{told}");
    let moments = shell.json(&["show", &plain, "--timeline"]);
    assert_eq!(moments[0]["event"], "started", "{moments}");
    let exported: serde_json::Value = serde_json::from_str(&shell.ok(&["export", &plain])).unwrap();
    assert_eq!((&exported["id"], &exported["status"]), (&plain.as_str().into(), &"completed".into()));
    for unknown in [&["show", "00000000", "--timeline"][..], &["export", "00000000"]] {
        assert!(shell.fails(1, unknown).contains("00000000"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn top_counts_what_is_there() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let shell = Shell::new(&database.url_as(&alice));
    shell.start("SELECT 1");
    shell.start("SELECT 2");
    let owner = Shell::new(&database.url());
    let sample = owner.json(&["top", "--count", "1"]);
    assert_eq!(sample["pending"], 2, "{sample}");
    assert_eq!(sample["running"], 0, "{sample}");
    assert!(sample["oldest_pending_s"].as_f64().unwrap() > 0.0, "{sample}");
    assert_eq!(sample["workers"], serde_json::json!([]), "{sample}");
    // A submitter sees its own, and no workers.
    let sample = shell.json(&["top", "--count", "1"]);
    assert_eq!((&sample["pending"], sample["workers"].is_null()), (&serde_json::json!(2), true), "{sample}");
    let lines = owner.ok(&["top", "--count", "3", "--interval", "100ms"]);
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(lines.lines().all(|line| line.contains("pending 2") && line.contains("workers 0")), "{lines}");
}
