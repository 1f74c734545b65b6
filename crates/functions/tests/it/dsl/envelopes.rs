//! What `df.start` makes of a text: the flat graph, and every reason to refuse one.

use super::{refused, session, stored};
use crate::common::{one, rows};

const A: &str = r#"{"node_type":"SQL","query":"a"}"#;

/// Writes A out, and quotes for SQL.
fn written(pattern: &str) -> String {
    format!("df._flatten('{}')", pattern.replace("<A>", A).replace('\'', "''"))
}

#[tokio::test]
async fn plain_sql_is_one_node() {
    let (_database, client) = session().await;
    for (sql, expected) in [
        ("'SELECT 1'", r#"[{"type":"SQL","query":"SELECT 1"}]"#),
        ("'  SELECT 1;  '", r#"[{"type":"SQL","query":"  SELECT 1;  "}]"#),
        (r#"E'SELECT ''\\"\n'"#, r#"[{"type":"SQL","query":"SELECT '\\\"\n"}]"#),
        ("df.sql('SELECT 1')", r#"[{"type":"SQL","query":"SELECT 1"}]"#),
        ("'{statement}'", r#"[{"type":"SQL","query":"{statement}"}]"#),
        (r#"'{"a":1}'"#, r#"[{"type":"SQL","query":"{\"a\":1}"}]"#),
        ("'OPEN c'", r#"[{"type":"SQL","query":"OPEN c"}]"#),
        (
            r#"df.sql('SELECT $1', '["$a.b", {"x": [1]}]')"#,
            r#"[{"type":"SQL","query":"SELECT $1","params":["$a.b", {"x": [1]}]}]"#,
        ),
    ] {
        assert_eq!(stored(&client, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn plain_sql_costs_no_call() {
    let (_database, client) = session().await;
    let plan = "EXPLAIN (VERBOSE) SELECT df._flatten(fut) FROM unnest('{a,b}'::text[]) AS fut";
    let lines = rows(&client, plan).await;
    let output = lines.into_iter().flatten().flatten().collect::<Vec<_>>().join("\n");
    assert!(output.contains("to_json") && !output.contains("df._flatten("), "not inlined: {output}");
}

/// What starts, claims and lists call for every row is put in the place of the call: a call costs more than all of it.
#[tokio::test]
async fn what_is_called_for_every_row_costs_no_call() {
    let (_database, client) = session().await;
    for call in [
        "df._id(n)",
        "df._seq(n::text)",
        "df._node_id(n, 1)",
        "df._statement_graph(n::text)",
        "df._status_name('c', n > 1)",
    ] {
        let plan = format!("EXPLAIN (VERBOSE) SELECT {call} FROM generate_series(1::bigint, 2) AS n");
        let lines = rows(&client, &plan).await;
        let output = lines.into_iter().flatten().flatten().collect::<Vec<_>>().join("\n");
        assert!(!output.contains("df._"), "not inlined: {output}");
    }
}

#[tokio::test]
async fn graphs_are_numbered_from_the_root() {
    let (_database, client) = session().await;
    for (fut, expected) in [
        (
            "'a' ~> 'b' |=> 'n'",
            r#"[{"type":"THEN","name":"n","left":1,"right":2},{"type":"SQL","query":"a"},{"type":"SQL","query":"b"}]"#,
        ),
        (
            "df.join_all('{a,b,c,d}') ~> df.sleep(1)",
            concat!(
                r#"[{"type":"THEN","left":1,"right":6},{"type":"JOIN","left":2,"right":3,"extra":[4,5]},"#,
                r#"{"type":"SQL","query":"a"},{"type":"SQL","query":"b"},{"type":"SQL","query":"c"},"#,
                r#"{"type":"SQL","query":"d"},{"type":"SLEEP","query":"1"}]"#
            ),
        ),
        (
            "df.loop(df.seq('a', df.break('x')), 'c', true)",
            concat!(
                r#"[{"type":"LOOP","query":"{\"continue_on_failure\":true}","left":2,"condition":1},"#,
                r#"{"type":"SQL","query":"c"},{"type":"THEN","left":3,"right":4},{"type":"SQL","query":"a"},"#,
                r#"{"type":"BREAK","query":"x"}]"#
            ),
        ),
        (
            "df.map('a', df.call(df.retry('b')))",
            concat!(
                r#"[{"type":"MAP","query":"{\"item\":\"item\",\"parallelism\":10}","left":2,"condition":1},"#,
                r#"{"type":"SQL","query":"a"},{"type":"CALL","query":"{\"label\":null,\"await\":true}","left":3},"#,
                r#"{"type":"RETRY","query":"{\"max_attempts\":3,\"initial_backoff_s\":1,\"max_backoff_s\":60,"#,
                r#"\"multiplier\":2,\"jitter\":0.1}","left":4},{"type":"SQL","query":"b"}]"#
            ),
        ),
    ] {
        assert_eq!(stored(&client, fut).await, expected, "{fut}");
    }
}

#[tokio::test]
async fn envelopes_written_by_hand_are_brought_into_form() {
    let (_database, client) = session().await;
    for (text, expected) in [
        // Any order of keys, white space, and NULLs.
        (
            r#" { "result_name" : "n", "query":"a", "left_node":null, "node_type" : "SQL" } "#,
            r#"[{"type":"SQL","query":"a","name":"n"}]"#,
        ),
        (
            r#"{"node_type":"MAP","left_node":<A>,"condition_node":<A>,"query":"{\"parallelism\":2e0}"}"#,
            concat!(
                r#"[{"type":"MAP","query":"{\"item\":\"item\",\"parallelism\":2}","left":2,"condition":1},"#,
                r#"{"type":"SQL","query":"a"},{"type":"SQL","query":"a"}]"#
            ),
        ),
        (
            r#"{"node_type":"CALL","left_node":<A>}"#,
            r#"[{"type":"CALL","query":"{\"label\":null,\"await\":true}","left":1},{"type":"SQL","query":"a"}]"#,
        ),
        (
            r#"{"node_type":"LOOP","left_node":<A>,"query":"{\"continue_on_failure\":false}"}"#,
            r#"[{"type":"LOOP","left":1},{"type":"SQL","query":"a"}]"#,
        ),
        (
            r#"{"node_type":"SIGNAL","query":"{\"signal_name\":\"go\",\"timeout_seconds\":null}"}"#,
            r#"[{"type":"SIGNAL","query":"{\"signal_name\":\"go\"}"}]"#,
        ),
    ] {
        let found = one(&client, &format!("SELECT {}", written(text))).await;
        assert_eq!(found.as_deref(), Some(expected), "{text}");
    }
}

#[tokio::test]
async fn unknown_types_are_refused_with_the_list_of_known_ones() {
    let (_database, client) = session().await;
    let list =
        "Valid types: SQL, THEN, IF, JOIN, LOOP, BREAK, RACE, SLEEP, WAIT_SCHEDULE, HTTP, HTTP_MULTIPART, \
                SIGNAL, RETRY, CATCH, TIMEOUT, MAP, CALL";
    for text in [
        r#"{"node_type":"NOPE"}"#,
        r#"{"node_type":"NOPE","query":"SELECT 1"}"#,
        r#"{"node_type":"LOOP","left_node":{"node_type":"NOPE"}}"#,
    ] {
        refused(&client, &[(&written(text), "Unknown node_type 'NOPE'."), (&written(text), list)]).await;
    }
    refused(
        &client,
        &[
            (&written(r#"{"node_type":"sql","query":"a"}"#), "Unknown node_type 'sql'"),
            // A function took it for a text.
            (r#"df._flatten('a' ~> '{"node_type":"NOPE"}')"#, "Unknown node_type 'NOPE'"),
            (
                &written(r#"{"node_type":"THEN","left_node":<A>,"right_node":{"node_type":"X"}}"#),
                "(at right_node)",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn malformed_envelopes_are_refused() {
    let (_database, client) = session().await;
    for (text, expected) in [
        (r#"{"node_type":"SQL""#, "not valid JSON"),
        (r#"{"node_type":"SQL","query":"a"} x"#, "not valid JSON"),
        (r#"{"node_type":"SQL","query":"\u0000"}"#, "malformed durable function"),
        (r#"{"node_type":7}"#, "a node needs a node_type"),
        (r#"{"node_type":null}"#, "a node needs a node_type"),
        (r#"{"node_type":"LOOP","left_node":{}}"#, "a node needs a node_type (at left_node)"),
        (r#"{"node_type":"SQL"}"#, "SQL needs a query"),
        (r#"{"node_type":"SQL","query":7}"#, "query in SQL must be a text"),
        (r#"{"node_type":"SQL","query":"a","left_node":<A>}"#, "SQL has no left_node"),
        (r#"{"node_type":"SQL","query":"a","extra":1}"#, "unknown key 'extra' in a node of type SQL"),
        (r#"{"node_type":"SQL","query":"a","params":{}}"#, "params must be a JSON array"),
        (r#"{"node_type":"BREAK","params":[]}"#, "params is only valid on SQL nodes"),
        (r#"{"node_type":"SQL","query":"a","result_name":"1x"}"#, "'1x' is not a valid identifier"),
        (r#"{"node_type":"SQL","query":"a","result_name":5}"#, "result_name"),
        (r#"{"node_type":"THEN","left_node":<A>}"#, "THEN needs a right_node"),
        (r#"{"node_type":"THEN","right_node":<A>}"#, "THEN needs a left_node"),
        (
            r#"{"node_type":"THEN","left_node":"a","right_node":<A>}"#,
            "left_node in THEN must be a JSON object",
        ),
        (
            r#"{"node_type":"THEN","left_node":<A>,"right_node":[]}"#,
            "right_node in THEN must be a JSON object",
        ),
        (r#"{"node_type":"THEN","left_node":<A>,"right_node":<A>,"query":"a"}"#, "THEN has no query"),
        (r#"{"node_type":"LOOP","left_node":<A>,"right_node":<A>}"#, "LOOP has no right_node"),
        (r#"{"node_type":"IF","left_node":<A>,"right_node":<A>}"#, "IF needs a condition_node"),
        (
            r#"{"node_type":"IF","left_node":<A>,"right_node":<A>,"condition_node":"a"}"#,
            "condition_node in IF must be a JSON object",
        ),
        (
            r#"{"node_type":"THEN","left_node":<A>,"right_node":<A>,"condition_node":<A>}"#,
            "condition_node is only valid on IF, LOOP and MAP nodes",
        ),
        (
            r#"{"node_type":"RACE","left_node":<A>,"right_node":<A>,"extra_nodes":[<A>]}"#,
            "extra_nodes is only valid on JOIN nodes",
        ),
        (
            r#"{"node_type":"JOIN","left_node":<A>,"right_node":<A>,"extra_nodes":<A>}"#,
            "extra_nodes must be a JSON array",
        ),
        (
            r#"{"node_type":"JOIN","left_node":<A>,"right_node":<A>,"extra_nodes":["a"]}"#,
            "each of extra_nodes must be a JSON object",
        ),
        (r#"{"node_type":"MAP","left_node":<A>}"#, "MAP needs a condition_node"),
        (r#"{"node_type":"JOIN","left_node":<A>}"#, "JOIN needs a right_node"),
    ] {
        refused(&client, &[(&written(text), expected)]).await;
    }
}

#[tokio::test]
async fn conditions_do_not_hide_in_the_query() {
    let (_database, client) = session().await;
    for node_type in ["IF", "LOOP"] {
        let right = if node_type == "IF" { r#","right_node":<A>"# } else { "" };
        let text = format!(
            r#"{{"node_type":"{node_type}","left_node":<A>{right},"query":"{{\"condition_node\":{{}}}}"}}"#
        );
        let expected = format!(
            "condition_node in {node_type} must be a first-class Durofut field, not embedded in query"
        );
        refused(&client, &[(&written(&text), &expected)]).await;
    }
    for (query, expected) in [
        (r#"{\"condition_type\":\"other\"}"#, "must have the condition_type result_has_rows"),
        (r#"{\"condition_type\":\"result_has_rows\"}"#, "is not a valid identifier"),
        (r#"{\"condition_type\":\"result_has_rows\",\"result_name\":\"a b\"}"#, "is not a valid identifier"),
        ("a", "the query must be the text of a JSON object"),
    ] {
        let text = format!(r#"{{"node_type":"IF","left_node":<A>,"right_node":<A>,"query":"{query}"}}"#);
        refused(&client, &[(&written(&text), expected)]).await;
    }
    let both = r#"{"node_type":"IF","left_node":<A>,"right_node":<A>,"condition_node":<A>,"query":"{}"}"#;
    refused(&client, &[(&written(both), "either a condition_node or a query")]).await;
}

#[tokio::test]
async fn what_no_function_makes_is_refused() {
    let (_database, client) = session().await;
    let wrap = |node_type: &str, query: &str| {
        format!(
            r#"{{"node_type":"{node_type}","left_node":<A>,"query":"{}"}}"#,
            query.replace('\\', "\\\\").replace('"', "\\\"")
        )
    };
    for (node_type, query, expected) in [
        ("RETRY", r#"{"max_attempts":0}"#, "max_attempts must be a whole number"),
        ("RETRY", r#"{"max_attempts":2.5}"#, "max_attempts must be a whole number"),
        ("RETRY", r#"{"max_attempts":"3"}"#, "max_attempts must be a whole number"),
        ("RETRY", r#"{"jitter":2}"#, "jitter must be a number from 0 to 1"),
        ("RETRY", r#"{"attempts":2}"#, "RETRY has no key 'attempts'"),
        ("TIMEOUT", r#"{"seconds":0}"#, "seconds must be a number greater than 0"),
        ("TIMEOUT", "{}", "seconds must be a number greater than 0"),
        ("TIMEOUT", "5", "the query must be the text of a JSON object"),
        ("CALL", r#"{"label":5}"#, "label must be a text"),
        ("CALL", r#"{"await":"yes"}"#, "await must be true or false"),
        ("LOOP", r#"{"continue_on_failure":1}"#, "continue_on_failure must be true or false"),
        ("LOOP", r#"{"stop":1}"#, "LOOP has no key 'stop'"),
    ] {
        refused(&client, &[(&written(&wrap(node_type, query)), expected)]).await;
    }
    for (query, expected) in [
        (r#"{"item":"a b"}"#, "is not a valid identifier"),
        (r#"{"item":7}"#, "item must be the name of a result"),
        (r#"{"parallelism":0}"#, "parallelism must be a whole number"),
    ] {
        let text = wrap("MAP", query).replace(r#","query""#, r#","condition_node":<A>,"query""#);
        refused(&client, &[(&written(&text), expected)]).await;
    }
    for query in ["-1", "a", "", "1e3", "NaN", "10000000001", "1 2"] {
        let text = format!(r#"{{"node_type":"SLEEP","query":"{query}"}}"#);
        refused(&client, &[(&written(&text), "a number of seconds between 0 and")]).await;
    }
    for (query, expected) in [
        (r#"{\"signal_name\":\"\"}"#, "name of the signal"),
        (r#"{\"timeout_seconds\":5}"#, "name of the signal"),
        (r#"{\"signal_name\":\"go\",\"timeout_seconds\":0}"#, "timeout_seconds must be a whole number"),
        ("go", "the query must be the text of a JSON object"),
    ] {
        let text = format!(r#"{{"node_type":"SIGNAL","query":"{query}"}}"#);
        refused(&client, &[(&written(&text), expected)]).await;
    }
}

#[tokio::test]
async fn steps_that_cannot_be_meant_are_refused() {
    let (_database, client) = session().await;
    refused(
        &client,
        &[
            ("df._flatten('')", "a SQL step is empty"),
            (r"df._flatten(E' \n\t')", "a SQL step is empty"),
            ("df._flatten('a' ~> '')", "a SQL step is empty"),
            // What df.setvar returned.
            (
                "df._flatten('OK' ~> 'SELECT 1')",
                "df.setvar cannot be used as a workflow step. Call df.setvar before df.start().",
            ),
            (
                "df._flatten(df.setvar('x', '1') ~> 'SELECT 1')",
                "df.setvar cannot be used as a workflow step. Call df.setvar before df.start().",
            ),
            ("df._flatten(df.sql(df.sleep(1)))", "is itself a durable function"),
        ],
    )
    .await;
}
