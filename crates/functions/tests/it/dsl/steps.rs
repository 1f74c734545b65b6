//! Steps and the nodes that hold others: the envelope of each.

use super::{gives, null, refused, session};

const A: &str = r#"{"node_type":"SQL","query":"a"}"#;
const B: &str = r#"{"node_type":"SQL","query":"b"}"#;
const C: &str = r#"{"node_type":"SQL","query":"c"}"#;

/// Writes A, B and C out.
fn full(pattern: &str) -> String {
    pattern.replace("<A>", A).replace("<B>", B).replace("<C>", C)
}

#[tokio::test]
async fn sql_steps_keep_their_text_and_their_parameters() {
    let (_database, client) = session().await;
    gives(
        &client,
        &[
            ("df.sql('SELECT 1')", r#"{"node_type":"SQL","query":"SELECT 1"}"#),
            (
                r#"df.sql(E'SELECT "x" -- \\ \t\n')"#,
                r#"{"node_type":"SQL","query":"SELECT \"x\" -- \\ \t\n"}"#,
            ),
            (
                r#"df.sql('SELECT $1, $2', '["$orders.id", 1.50]')"#,
                r#"{"node_type":"SQL","query":"SELECT $1, $2","params":["$orders.id", 1.50]}"#,
            ),
            ("df.sql('SELECT 1', NULL)", r#"{"node_type":"SQL","query":"SELECT 1"}"#),
        ],
    )
    .await;
    null(&client, &["df.sql(NULL)"]).await;
    refused(&client, &[("df.sql('SELECT $1', '{}')", "params must be a JSON array")]).await;
}

#[tokio::test]
async fn sequences_joins_and_races_wrap_what_they_hold() {
    let (_database, client) = session().await;
    let cases = [
        ("df.seq('a', 'b')", r#"{"node_type":"THEN","left_node":<A>,"right_node":<B>}"#),
        ("df.seq(df.sql('a'), 'b')", r#"{"node_type":"THEN","left_node":<A>,"right_node":<B>}"#),
        (r#"df.join('a', 'b')"#, r#"{"node_type":"JOIN","left_node":<A>,"right_node":<B>}"#),
        (
            "df.join3('a', 'b', 'c')",
            r#"{"node_type":"JOIN","left_node":<A>,"right_node":<B>,"extra_nodes":[<C>]}"#,
        ),
        ("df.join_all(ARRAY['a', 'b'])", r#"{"node_type":"JOIN","left_node":<A>,"right_node":<B>}"#),
        (
            "df.join_all(ARRAY['a', 'b', 'c', 'a'])",
            r#"{"node_type":"JOIN","left_node":<A>,"right_node":<B>,"extra_nodes":[<C>,<A>]}"#,
        ),
        ("df.race('a', 'b')", r#"{"node_type":"RACE","left_node":<A>,"right_node":<B>}"#),
        ("df.race_all(ARRAY['a'])", "<A>"),
        (
            "df.race_all(ARRAY['a', 'b', 'c'])",
            r#"{"node_type":"RACE","left_node":{"node_type":"RACE","left_node":<A>,"right_node":<B>},"right_node":<C>}"#,
        ),
    ];
    for (expression, expected) in cases {
        gives(&client, &[(expression, &full(expected))]).await;
    }
    null(
        &client,
        &[
            "df.seq(NULL, 'a')",
            "df.join('a', NULL)",
            "df.join3('a', 'b', NULL)",
            "df.race(NULL, 'a')",
            "df.join_all(NULL)",
            "df.race_all(NULL)",
        ],
    )
    .await;
    refused(
        &client,
        &[
            ("df.join_all(ARRAY['a'])", "at least two branches"),
            ("df.join_all('{}')", "at least two branches"),
            ("df.join_all(ARRAY['a', NULL, 'b'])", "no NULL"),
            ("df.race_all('{}')", "at least one branch"),
            ("df.race_all(ARRAY['a', NULL])", "no NULL"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_race_of_many_is_a_flat_tree() {
    let (_database, client) = session().await;
    // 300 branches, one below the other, would be deeper than anything may be.
    let count = "SELECT json_array_length(df._flatten(df.race_all(array_agg('SELECT ' || i)))) \
                 FROM generate_series(1, 300) AS i";
    assert_eq!(super::one(&client, count).await.as_deref(), Some("599"));
}

#[tokio::test]
async fn timers_take_parts_of_seconds_and_nothing_below_zero() {
    let (_database, client) = session().await;
    gives(
        &client,
        &[
            ("df.sleep(30)", r#"{"node_type":"SLEEP","query":"30"}"#),
            ("df.sleep(30::bigint)", r#"{"node_type":"SLEEP","query":"30"}"#),
            ("df.sleep(0)", r#"{"node_type":"SLEEP","query":"0"}"#),
            ("df.sleep(0.25)", r#"{"node_type":"SLEEP","query":"0.25"}"#),
            ("df.sleep(0.00001)", r#"{"node_type":"SLEEP","query":"0.00001"}"#),
            ("df.sleep(1e9)", r#"{"node_type":"SLEEP","query":"1000000000"}"#),
        ],
    )
    .await;
    null(&client, &["df.sleep(NULL)"]).await;
    refused(
        &client,
        &[
            ("df.sleep(-1)", "seconds must be between 0 and"),
            ("df.sleep(-0.001)", "seconds must be between 0 and"),
            ("df.sleep('NaN')", "seconds must be between 0 and"),
            ("df.sleep('Infinity')", "seconds must be between 0 and"),
        ],
    )
    .await;
}

#[tokio::test]
async fn signals_have_a_name_and_perhaps_a_timeout() {
    let (_database, client) = session().await;
    gives(
        &client,
        &[
            (r#"df.wait_for_signal('go')"#, r#"{"node_type":"SIGNAL","query":"{\"signal_name\":\"go\"}"}"#),
            (
                r#"df.wait_for_signal('g"o', 5)"#,
                r#"{"node_type":"SIGNAL","query":"{\"signal_name\":\"g\\\"o\",\"timeout_seconds\":5}"}"#,
            ),
        ],
    )
    .await;
    refused(
        &client,
        &[
            ("df.wait_for_signal('go', 0)", "timeout_seconds must be a whole number greater than 0"),
            ("df.wait_for_signal('go', -1)", "timeout_seconds must be a whole number greater than 0"),
            ("df.wait_for_signal('')", "name of the signal"),
            ("df.wait_for_signal(NULL)", "name of the signal"),
        ],
    )
    .await;
}

#[tokio::test]
async fn loops_and_breaks_have_their_forms() {
    let (_database, client) = session().await;
    let on = r#""query":"{\"continue_on_failure\":true}""#;
    let cases = [
        ("df.loop('a')", r#"{"node_type":"LOOP","left_node":<A>}"#.to_owned()),
        ("df.loop('a', NULL, NULL)", r#"{"node_type":"LOOP","left_node":<A>}"#.to_owned()),
        ("df.loop('a', 'b')", r#"{"node_type":"LOOP","left_node":<A>,"condition_node":<B>}"#.to_owned()),
        (
            "df.loop('a', 'b', true)",
            format!(r#"{{"node_type":"LOOP","left_node":<A>,"condition_node":<B>,{on}}}"#),
        ),
        (
            "df.loop('a', continue_on_failure => true)",
            format!(r#"{{"node_type":"LOOP","left_node":<A>,{on}}}"#),
        ),
        (r#"df.break()"#, r#"{"node_type":"BREAK"}"#.to_owned()),
        (r#"df.break(NULL)"#, r#"{"node_type":"BREAK"}"#.to_owned()),
        (r#"df.break('$r.v')"#, r#"{"node_type":"BREAK","query":"$r.v"}"#.to_owned()),
        (r#"df.break('{"a": 1}')"#, r#"{"node_type":"BREAK","query":"{\"a\": 1}"}"#.to_owned()),
    ];
    for (expression, expected) in cases {
        gives(&client, &[(expression, &full(&expected))]).await;
    }
    null(&client, &["df.loop(NULL)"]).await;
}

#[tokio::test]
async fn failures_are_retried_caught_and_cut_off() {
    let (_database, client) = session().await;
    let retry = |query: &str| {
        format!(r#"{{"node_type":"RETRY","left_node":<A>,"query":"{}"}}"#, query.replace('"', "\\\""))
    };
    let cases = [
        (
            "df.retry('a')",
            retry(
                r#"{"max_attempts":3,"initial_backoff_s":1,"max_backoff_s":60,"multiplier":2,"jitter":0.1}"#,
            ),
        ),
        (
            "df.retry('a', 5, 0.5, 10, 1.5, 0)",
            retry(
                r#"{"max_attempts":5,"initial_backoff_s":0.5,"max_backoff_s":10,"multiplier":1.5,"jitter":0}"#,
            ),
        ),
        ("df.catch('a', 'b')", r#"{"node_type":"CATCH","left_node":<A>,"right_node":<B>}"#.to_owned()),
        (
            "df.timeout('a', 1.5)",
            r#"{"node_type":"TIMEOUT","left_node":<A>,"query":"{\"seconds\":1.5}"}"#.to_owned(),
        ),
    ];
    for (expression, expected) in cases {
        gives(&client, &[(expression, &full(&expected))]).await;
    }
    null(&client, &["df.retry(NULL)", "df.catch('a', NULL)", "df.timeout('a', NULL)"]).await;
    refused(
        &client,
        &[
            ("df.retry('a', 0)", "max_attempts must be a whole number"),
            ("df.retry('a', 3, -1)", "initial_backoff_s must be a number of seconds"),
            ("df.retry('a', 3, 'NaN')", "initial_backoff_s must be a number of seconds"),
            ("df.retry('a', 3, 1, -1)", "max_backoff_s must be a number of seconds"),
            ("df.retry('a', 3, 1, 60, 0.5)", "multiplier must be a number from 1"),
            ("df.retry('a', 3, 1, 60, 2, 1.1)", "jitter must be a number from 0 to 1"),
            ("df.timeout('a', 0)", "seconds must be a number greater than 0"),
            ("df.timeout('a', -2)", "seconds must be a number greater than 0"),
            ("df.timeout('a', 'Infinity')", "seconds must be a number greater than 0"),
        ],
    )
    .await;
}

#[tokio::test]
async fn maps_and_children_have_their_forms() {
    let (_database, client) = session().await;
    let map = |query: &str| {
        format!(
            r#"{{"node_type":"MAP","left_node":<B>,"condition_node":<A>,"query":"{}"}}"#,
            query.replace('"', "\\\"")
        )
    };
    let call = |query: &str| {
        let text = query.replace('\\', "\\\\").replace('"', "\\\"");
        format!(r#"{{"node_type":"CALL","left_node":<A>,"query":"{text}"}}"#)
    };
    let cases = [
        ("df.map('a', 'b')", map(r#"{"item":"item","parallelism":10}"#)),
        ("df.map('a', 'b', 'row', 3)", map(r#"{"item":"row","parallelism":3}"#)),
        ("df.call('a')", call(r#"{"label":null,"await":true}"#)),
        (r#"df.call('a', 'the "child"', false)"#, call(r#"{"label":"the \"child\"","await":false}"#)),
    ];
    for (expression, expected) in cases {
        gives(&client, &[(expression, &full(&expected))]).await;
    }
    null(&client, &["df.map(NULL, 'b')", "df.call(NULL)"]).await;
    refused(
        &client,
        &[
            ("df.map('a', 'b', '1st')", "not a valid identifier"),
            ("df.map('a', 'b', 'x', 0)", "parallelism must be a whole number from 1"),
        ],
    )
    .await;
}
