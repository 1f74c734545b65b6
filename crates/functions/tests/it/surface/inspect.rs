//! Status, result, information, generations and nodes.

use super::{at_work, ended, session, started};
use crate::common::{one, refusal, rows};

#[tokio::test]
async fn status_and_result_follow_the_instance() {
    let (database, client) = session().await;
    let id = started(&client, "'SELECT 1', 'mine'").await;
    let status = format!("SELECT df.status('{id}')");
    let result = format!("SELECT df.result('{id}')");
    assert_eq!(one(&client, &status).await.as_deref(), Some("pending"));
    assert_eq!(one(&client, &result).await, None);
    at_work(&database, &id, 1, r#"{"0":{"s":"running","at":"2026-11-22T01:00:00Z","x":"1"}}"#).await;
    assert_eq!(one(&client, &status).await.as_deref(), Some("running"));
    ended(&database, &id, "c", r#"{"rows":[{"a":1}],"row_count":1}"#).await;
    assert_eq!(one(&client, &status).await.as_deref(), Some("completed"));
    assert_eq!(one(&client, &result).await.as_deref(), Some(r#"{"rows":[{"a":1}],"row_count":1}"#));
    let info = rows(&client, &format!("SELECT * FROM df.instance_info('{id}')")).await;
    let info: Vec<&str> = info[0].iter().map(|value| value.as_deref().unwrap_or("NULL")).collect();
    let output = r#"{"rows":[{"a":1}],"row_count":1}"#;
    assert_eq!(info, [&id, "mine", "durable-function", "1", "1", "completed", output]);

    for unknown in ["00000000", "", "XYZ", "0000000g"] {
        assert_eq!(one(&client, &format!("SELECT df.status('{unknown}')")).await, None);
        assert_eq!(one(&client, &format!("SELECT df.result('{unknown}')")).await, None);
        assert!(rows(&client, &format!("SELECT * FROM df.instance_info('{unknown}')")).await.is_empty());
        assert!(rows(&client, &format!("SELECT * FROM df.instance_nodes('{unknown}')")).await.is_empty());
    }
}

#[tokio::test]
async fn failures_show_their_text() {
    let (database, client) = session().await;
    let failed = started(&client, "'SELECT 1/0'").await;
    let cancelled = started(&client, "'SELECT 2'").await;
    ended(&database, &failed, "f", r#""division by zero""#).await;
    ended(&database, &cancelled, "x", r#""no longer wanted""#).await;
    assert_eq!(one(&client, &format!("SELECT df.result('{failed}')")).await, None);
    let listed =
        rows(&client, "SELECT instance_id, status, output FROM df.list_instances() ORDER BY status").await;
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(listed[0], [some(&cancelled), some("cancelled"), some("no longer wanted")]);
    assert_eq!(listed[1], [some(&failed), some("failed"), some("division by zero")]);
    let node = rows(
        &client,
        &format!("SELECT n.status, result, error, completed_at FROM df.nodes n JOIN df.instances i ON i.id = n.instance_id WHERE i.id = '{failed}'")
    )
    .await;
    assert_eq!(node[0], [some("failed"), some(r#""division by zero""#), None, None]);
}

#[tokio::test]
async fn every_generation_is_listed_the_last_one_at_all_times() {
    let (database, client) = session().await;
    let id = started(&client, "df.loop('SELECT 1')").await;
    let executions = format!("SELECT execution_id, status, output FROM df.instance_executions('{id}')");
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(rows(&client, &executions).await, [[some("1"), some("Pending"), None]]);
    let owner = database.owner().await;
    for n in 1..=6 {
        owner
            .batch_execute(&format!(
                "INSERT INTO df._execution SELECT seq, {n}, submitted_by, 'n', now(), now() + interval '1.5 s', 4, '{n}'
                 FROM df._started WHERE id = '{id}'"
            ))
            .await
            .unwrap();
    }
    at_work(&database, &id, 7, "{}").await;
    let listed = rows(&client, &executions).await;
    let numbers: Vec<&str> = listed.iter().map(|row| row[0].as_deref().unwrap()).collect();
    assert_eq!(numbers, ["7", "6", "5", "4", "3"], "five by default, the newest first");
    assert_eq!(listed[0][1], some("Running"));
    assert_eq!(listed[1], [some("6"), some("ContinuedAsNew"), some("6")]);
    let all = rows(&client, &format!("SELECT * FROM df.instance_executions('{id}', 100)")).await;
    assert_eq!(all.len(), 7);
    assert_eq!(all[6][2..4], [some("4"), some("1500")], "events and milliseconds");
    let listed = one(&client, "SELECT execution_count FROM df.list_instances()").await;
    assert_eq!(listed.as_deref(), Some("7"));
    let said = refusal(&client, &format!("SELECT * FROM df.instance_executions('{id}', 0)")).await;
    assert!(said.contains("limit_count must be at least 1"), "{said}");
}

/// Node types with their status and what is inferred, and which node type decided it.
async fn inferred(client: &tokio_postgres::Client, id: &str) -> Vec<String> {
    let nodes = rows(
        client,
        &format!(
            "SELECT n.query, n.node_type, n.status, n.inferred_status, a.node_type
             FROM df.instance_nodes('{id}') WITH ORDINALITY n
             LEFT JOIN df.instance_nodes('{id}') a ON a.node_id = n.inferred_status_from_ancestor_id
             ORDER BY n.ordinality"
        ),
    )
    .await;
    nodes
        .iter()
        .map(|row| {
            let text = |column: usize| row[column].as_deref().unwrap_or("-");
            let name = if text(1) == "SQL" { text(0) } else { text(1) };
            format!("{name} {} {} {}", text(2), text(3), text(4))
        })
        .collect()
}

#[tokio::test]
async fn nodes_tell_what_will_not_run_any_more() {
    let (database, client) = session().await;
    let cell = |status: &str, path: &str| {
        let value = match status {
            "completed" => r#","r":{"rows":[],"row_count":0}"#,
            "failed" => r#","e":"broken""#,
            _ => "",
        };
        format!(r#"{{"s":"{status}","at":"2026-11-22T01:02:03.5Z","x":"{path}"{value}}}"#)
    };
    // 0 THEN, 1 a, 2 IF, 3 c, 4 t, 5 RACE, 6 x, 7 y
    let choice = started(&client, "df.seq('a', df.if('c', 't', df.race('x', 'y')))").await;
    assert!(inferred(&client, &choice).await.iter().all(|node| node.ends_with("pending pending -")));
    let cells = format!(
        r#"{{"0":{},"1":{},"2":{},"3":{},"5":{},"6":{},"7":{}}}"#,
        cell("running", "1"),
        cell("completed", "1"),
        cell("running", "1"),
        cell("completed", "1"),
        cell("completed", "1"),
        cell("completed", "1"),
        cell("running", "1"),
    );
    at_work(&database, &choice, 1, &cells).await;
    assert_eq!(
        inferred(&client, &choice).await,
        [
            "THEN running running -",
            "a completed completed -",
            "IF running running -",
            "c completed completed -",
            "t pending skipped IF",
            "RACE completed completed -",
            "x completed completed -",
            "y running skipped RACE",
        ]
    );
    let details = rows(
        &client,
        &format!("SELECT status_details, updated_at FROM df.instance_nodes('{choice}') WHERE query = 'a'"),
    )
    .await;
    assert_eq!(details[0][0], Some(format!(r#"{{"execution_id":"{choice}::1"}}"#)));
    assert!(details[0][1].as_deref().unwrap().contains("01:02:03.5"));

    // 0 THEN, 1 a, 2 b: the left side has failed.
    let broken = started(&client, "df.seq('a', 'b')").await;
    let cells = format!(r#"{{"0":{},"1":{}}}"#, cell("failed", "1"), cell("failed", "1"));
    at_work(&database, &broken, 1, &cells).await;
    assert_eq!(
        inferred(&client, &broken).await,
        ["THEN failed failed -", "a failed failed -", "b pending skipped THEN"]
    );

    // A loop in a loop: the second turn of the outer loop is at `a`.
    let looped =
        started(&client, "df.loop(df.seq('a', df.loop(df.seq('b', 'c'), 'SELECT false')), 'w')").await;
    let order = rows(&client, &format!("SELECT node_type FROM df.instance_nodes('{looped}')")).await;
    assert_eq!(order.len(), 9);
    let query = rows(&client, &format!("SELECT query FROM df.instance_nodes('{looped}')")).await;
    let index =
        |name: &str| query.iter().position(|row| row[0].as_deref() == Some(name)).unwrap().to_string();
    let cells = format!(
        r#"{{"0":{},"{}":{},"{}":{},"{}":{},"{}":{}}}"#,
        cell("running", "2"),
        index("w"),
        cell("completed", "1"),
        index("a"),
        cell("running", "2"),
        index("b"),
        cell("completed", "1.3"),
        index("c"),
        cell("completed", "1.2"),
    );
    at_work(&database, &looped, 2, &cells).await;
    let found = inferred(&client, &looped).await;
    let of = |name: &str| found.iter().find(|line| line.starts_with(&format!("{name} "))).unwrap().as_str();
    assert_eq!(of("w"), "w completed pending LOOP");
    assert_eq!(of("a"), "a running running -");
    assert_eq!(of("b"), "b completed pending LOOP");
    assert_eq!(of("c"), "c completed pending LOOP");

    // An instance that was cancelled leaves nothing to run.
    let owner = database.owner().await;
    let cancelled = started(&client, "df.seq('a', 'b')").await;
    let state = format!(r#"{{"v":1,"execution":1,"cells":{{"0":{0},"1":{0}}}}}"#, cell("running", "1"));
    owner
        .batch_execute(&format!(
            "INSERT INTO df._done (seq, submitted_by, status, started_at, output, state)
             SELECT seq, submitted_by, 'x', now(), '\"stop\"', '{state}' FROM df._started WHERE id = '{cancelled}'"
        ))
        .await
        .unwrap();
    assert_eq!(
        inferred(&client, &cancelled).await,
        ["THEN running skipped THEN", "a running skipped THEN", "b pending skipped THEN"]
    );
    let compatible = rows(&client, &format!("SELECT * FROM df.instance_nodes('{looped}', 3)")).await;
    assert_eq!((compatible.len(), compatible[0].len()), (9, 10));
}

#[tokio::test]
async fn nodes_keep_their_structure_in_query() {
    let (database, client) = session().await;
    let id = started(
        &client,
        "df.loop(df.seq(df.join3('a', 'b', 'c'), df.if_rows('r', 'd', 'e')), 'SELECT true', true)",
    )
    .await;
    let nodes = rows(
        &client,
        &format!(
            "SELECT node_type, query, id, left_node, right_node FROM df.nodes WHERE instance_id = '{id}'"
        ),
    )
    .await;
    let find = |node_type: &str| nodes.iter().find(|node| node[0].as_deref() == Some(node_type)).unwrap();
    let of_query = |query: &str| {
        let node = nodes.iter().find(|node| node[1].as_deref() == Some(query)).unwrap();
        node[2].clone().unwrap()
    };
    let condition = of_query("SELECT true");
    assert_eq!(
        find("LOOP")[1],
        Some(format!(r#"{{"condition_node":"{condition}","continue_on_failure":true}}"#))
    );
    assert_eq!(find("JOIN")[1], Some(format!(r#"{{"extra_nodes":["{}"]}}"#, of_query("c"))));
    assert_eq!(find("JOIN")[3..5], [Some(of_query("a")), Some(of_query("b"))]);
    assert_eq!(find("IF")[1].as_deref(), Some(r#"{"condition_type":"result_has_rows","result_name":"r"}"#));
    assert_eq!(nodes.len(), 10);

    // Of a node that ran for several rows at once, the activation that changed last is shown.
    let mapped = started(&client, "df.map('SELECT 1', 'SELECT $item')").await;
    let cells = r#"{"2@1":{"s":"completed","at":"2026-11-22T01:00:01Z","x":"1","r":1},
        "2@2":{"s":"completed","at":"2026-11-22T01:00:09Z","x":"1","r":2},
        "2@3":{"s":"completed","at":"2026-11-22T01:00:05Z","x":"1","r":3},
        "1":{"s":"completed","at":"2026-11-22T01:00:00Z","x":"1","r":{"rows":[],"row_count":0}}}"#;
    let map = rows(&client, &format!("SELECT query FROM df.nodes WHERE instance_id = '{mapped}'")).await;
    assert_eq!(map.len(), 3);
    assert!(map[0][0].as_deref().unwrap().starts_with(r#"{"condition_node":""#), "{map:?}");
    assert!(map[0][0].as_deref().unwrap().contains(r#""item":"item""#), "{map:?}");
    let body = map.iter().position(|node| node[0].as_deref() == Some("SELECT $item")).unwrap();
    let cells = cells.replace("\"2@", &format!("\"{body}@"));
    let cells = if body == 2 { cells } else { cells.replace("\"1\":{", "\"2\":{") };
    at_work(&database, &mapped, 1, &cells).await;
    let shown = one(
        &client,
        &format!("SELECT result FROM df.nodes WHERE instance_id = '{mapped}' AND query = 'SELECT $item'"),
    )
    .await;
    assert_eq!(shown.as_deref(), Some("2"));
}

#[tokio::test]
async fn results_that_jsonb_cannot_hold_do_not_hide_the_others() {
    let (database, client) = session().await;
    let bad = started(&client, "'a'").await;
    let good = started(&client, "'b'").await;
    ended(&database, &bad, "c", r#"{"rows":[{"a":"\u0000"}],"row_count":1}"#).await;
    ended(&database, &good, "c", r#"{"rows":[],"row_count":0}"#).await;
    let results = rows(&client, "SELECT jsonb_typeof(result) FROM df.nodes ORDER BY query").await;
    assert_eq!(results, [[Some("string".to_owned())], [Some("object".to_owned())]]);
    let kept = one(&client, &format!("SELECT df.result('{bad}')")).await.unwrap();
    assert!(kept.contains("\\u0000"), "{kept}");
}

#[tokio::test]
async fn a_condition_on_an_id_reads_one_row_for_every_role() {
    let (_database, client) = session().await;
    started(&client, "'SELECT 1'").await;
    for view in ["df.instances WHERE id", "df.nodes WHERE instance_id"] {
        let plan = rows(&client, &format!("EXPLAIN SELECT * FROM {view} = 'abcd0123'")).await;
        let plan: Vec<String> = plan.into_iter().map(|row| row[0].clone().unwrap()).collect();
        assert!(plan.iter().any(|line| line.contains("_id_idx")), "{}", plan.join("\n"));
    }
}

#[tokio::test]
async fn figures_count_the_instances_of_all() {
    let (database, client) = session().await;
    for (fut, status) in [("'a'", "c"), ("'b'", "c"), ("'c'", "f"), ("'d'", "")] {
        let id = started(&client, fut).await;
        if status.is_empty() {
            at_work(&database, &id, 3, r#"{"0":{"s":"running","at":"2026-11-22T01:00:00Z","x":"3"}}"#).await;
        } else {
            ended(&database, &id, status, "null").await;
        }
    }
    started(&client, "'e'").await;
    let figures = rows(&database.owner().await, "SELECT * FROM df.metrics()").await;
    let figures: Vec<&str> = figures[0].iter().map(|value| value.as_deref().unwrap()).collect();
    assert_eq!(figures, ["5", "1", "2", "1", "7", "15"]);
}
