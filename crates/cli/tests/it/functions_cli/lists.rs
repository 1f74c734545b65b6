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
