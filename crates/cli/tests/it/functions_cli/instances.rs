//! The life of an instance, command by command.

use super::{
    common,
    shell::{text, until, Shell},
};
use serde_json::json;
use std::{io::Write, process::Stdio};

#[tokio::test(flavor = "multi_thread")]
async fn results_are_printed_as_the_server_wrote_them() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let _worker = Shell::new(&database.url()).worker(&[]);
    let shell = Shell::new(&database.url_as(&alice));

    let printed = shell.ok(&["start", "SELECT 2 AS z, 1 AS a", "--wait", "--timeout", "30s"]);
    assert_eq!(printed, "{\"rows\":[{\"z\":2,\"a\":1}],\"row_count\":1}\n");
    let done = shell.json(&["start", "'SELECT 20 AS n' |=> 'x' ~> 'SELECT $x.n + 1 AS n'", "--wait"]);
    assert_eq!(
        (&done["status"], &done["result"]["rows"]),
        (&json!("completed"), &json!([{ "n": 21 }])),
        "{done}"
    );
    assert!(done["error"].is_null(), "{done}");

    let id = done["id"].as_str().unwrap();
    assert_eq!(shell.ok(&["status", id]), "completed\n");
    assert_eq!(shell.json(&["status", id]), json!({ "id": id, "status": "completed" }));
    assert_eq!(shell.ok(&["result", id]), "{\"rows\":[{\"n\":21}],\"row_count\":1}\n");
    assert_eq!(shell.json(&["result", id]), done);
    assert_eq!(shell.json(&["await", id]), done);

    let given =
        shell.ok(&["start", "SELECT $input.city AS city", "--input", "{\"city\":\"Oslo\"}", "--wait"]);
    assert!(given.contains("\"Oslo\""), "{given}");

    let first = shell.ok(&["start", "SELECT 1", "--key", "order-1", "--label", "orders"]);
    assert_eq!(shell.ok(&["start", "SELECT 1", "--key", "order-1"]), first);
    let labelled = shell.json(&["list", "--label", "orders"]);
    assert_eq!(labelled["instances"].as_array().unwrap().len(), 1, "{labelled}");

    let mut command = shell.command(&["start", "-", "--wait"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT 7 AS n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "{\"rows\":[{\"n\":7}],\"row_count\":1}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_an_exit_status_with_its_reason() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let _worker = Shell::new(&database.url()).worker(&[]);
    let shell = Shell::new(&database.url_as(&alice));
    let error = shell.fails(1, &["start", "SELECT 1 / 0", "--wait"]);
    assert!(error.contains("failed") && error.contains("division by zero"), "{error}");
    let id = shell.start("SELECT 1 / 0");
    let error = shell.fails(1, &["await", &id]);
    assert!(
        error.contains("division by zero") && error.contains(&format!("duramen fn explain {id}")),
        "{error}"
    );
    let output = shell.run(&["await", &id, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value["status"], &value["result"]), (&json!("failed"), &json!(null)), "{value}");
    assert!(value["error"].as_str().unwrap().contains("division by zero"), "{value}");
    let listed = shell.json(&["list", "--status", "failed"]);
    assert_eq!(listed["instances"].as_array().unwrap().len(), 2, "{listed}");
    assert!(listed["instances"][0]["error"].as_str().unwrap().contains("division by zero"), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_shown_signalled_paused_and_cancelled() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let worker = Shell::new(&database.url()).worker(&[]);
    let shell = Shell::new(&database.url_as(&alice));

    let id = shell.start("'SELECT 1 AS one' |=> 'first' ~> df.wait_for_signal('go') |=> 'go' ~> 'SELECT 2'");
    until("it waits", || shell.ok(&["status", &id]) == "running\n");
    let error = shell.fails(1, &["result", &id]);
    assert!(error.contains("is running") && error.contains(&format!("duramen fn await {id}")), "{error}");
    let error = shell.fails(1, &["await", &id, "--timeout", "300ms"]);
    assert!(error.contains("Timeout after") && error.contains("duramen fn await"), "{error}");
    let error = shell.fails(1, &["delete", &id]);
    assert!(error.contains("it is running"), "{error}");

    let shown = shell.json(&["show", &id]);
    assert_eq!((&shown["id"], &shown["status"]), (&json!(id), &json!("running")), "{shown}");
    assert_eq!(shown["submitted_by"], json!(alice), "{shown}");
    let nodes = shown["nodes"].as_array().unwrap();
    let first = nodes.iter().find(|node| node["name"] == "first").unwrap();
    assert_eq!(
        (&first["status"], &first["result"]["row_count"]),
        (&json!("completed"), &json!(1)),
        "{first}"
    );
    assert_eq!(shown["executions"][0]["status"], "Running", "{shown}");
    let printed = shell.ok(&["show", &id]);
    assert!(printed.contains("SELECT 1 AS one") && printed.contains("EXECUTION"), "{printed}");
    let tree = shell.ok(&["explain", &id]);
    assert!(tree.contains(&id) && tree.contains("SIGNAL go"), "{tree}");

    shell.ok(&["pause", &id]);
    until("it is paused", || shell.json(&["show", &id])["paused"] == true);
    assert!(shell.ok(&["show", &id]).contains("running (paused)"));
    assert_eq!(shell.json(&["resume", &id])["id"], json!(id));
    assert!(shell.ok(&["signal", &id, "go", "{\"by\": \"Ada\"}"]).contains("go"));
    assert!(shell.ok(&["await", &id, "--timeout", "30s"]).contains("\"row_count\":1"));
    let shown = shell.json(&["show", &id]);
    let go = shown["nodes"].as_array().unwrap().iter().find(|node| node["type"] == "SIGNAL").cloned();
    assert_eq!(go.unwrap()["result"]["data"], json!({ "by": "Ada" }), "{shown}");
    assert!(shell.ok(&["cancel", &id]).contains("completed already"));
    shell.ok(&["delete", &id]);
    shell.fails(1, &["status", &id]);

    let id = shell.start("SELECT pg_sleep(600)");
    until("it runs", || shell.ok(&["status", &id]) == "running\n");
    let cancelled = shell.json(&["cancel", &id, "--reason", "the customer called"]);
    assert_eq!(cancelled["cancelled"], true, "{cancelled}");
    let error = shell.fails(1, &["await", &id, "--timeout", "30s"]);
    assert!(error.contains("was cancelled: the customer called"), "{error}");
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_are_drawn_before_they_start() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let shell = Shell::new(&database.url_as(&alice));
    assert_eq!(shell.ok(&["explain", "SELECT 1"]), "SQL: SELECT 1\n");
    let tree = shell.json(&["explain", "'SELECT 1' & df.sleep(5)"]);
    let tree = tree["explanation"].as_str().unwrap();
    assert!(tree.starts_with("JOIN (2)") && tree.contains("SLEEP 5s"), "{tree}");
}
