//! Choices, and the names of results.

use super::{gives, null, refused, session, stored};

#[tokio::test]
async fn a_choice_has_its_condition_as_a_node_or_tests_a_result() {
    let (_database, client) = session().await;
    let branches =
        r#""left_node":{"node_type":"SQL","query":"t"},"right_node":{"node_type":"SQL","query":"e"}"#;
    let first = format!(
        r#"{{"node_type":"IF",{branches},"condition_node":{{"node_type":"SQL","query":"SELECT true"}}}}"#
    );
    let second = format!(
        r#"{{"node_type":"IF",{branches},"query":"{{\"condition_type\":\"result_has_rows\",\"result_name\":\"found\"}}"}}"#
    );
    gives(&client, &[("df.if('SELECT true', 't', 'e')", &first), ("df.if_rows('found', 't', 'e')", &second)])
        .await;
    null(&client, &["df.if(NULL, 't', 'e')", "df.if_rows('found', 't', NULL)"]).await;
    refused(
        &client,
        &[
            ("df.if_rows('$found', 't', 'e')", "'$found' is not a valid identifier"),
            ("df.if_rows('', 't', 'e')", "not a valid identifier"),
        ],
    )
    .await;
    // The condition comes first: it also runs first.
    assert_eq!(
        stored(&client, "df.if('c', 't', 'e')").await,
        r#"[{"type":"IF","left":2,"right":3,"condition":1},{"type":"SQL","query":"c"},{"type":"SQL","query":"t"},{"type":"SQL","query":"e"}]"#
    );
    assert_eq!(
        stored(&client, "df.if_rows('x', 't', 'e')").await,
        concat!(
            r#"[{"type":"IF","query":"{\"condition_type\":\"result_has_rows\",\"result_name\":\"x\"}","left":1,"right":2},"#,
            r#"{"type":"SQL","query":"t"},{"type":"SQL","query":"e"}]"#
        )
    );
}

#[tokio::test]
async fn every_node_can_have_a_name_and_the_last_one_counts() {
    let (_database, client) = session().await;
    gives(
        &client,
        &[
            ("df.as('a', 'x')", r#"{"node_type":"SQL","query":"a","result_name":"x"}"#),
            ("df.as(df.as('a', 'x'), '_Y9')", r#"{"node_type":"SQL","query":"a","result_name":"_Y9"}"#),
            ("df.as_op('a', 'x')", r#"{"node_type":"SQL","query":"a","result_name":"x"}"#),
            (
                r#"df.as(' {"node_type":"SQL","result_name":"old","query":"a"} ', 'new')"#,
                r#"{"node_type":"SQL","query":"a","result_name":"new"}"#,
            ),
        ],
    )
    .await;
    null(&client, &["df.as(NULL, 'x')", "df.as('a', NULL)", "df.as_op('a', NULL)"]).await;
    for node in [
        "df.seq('a', 'b')",
        "df.if('a', 'b', 'c')",
        "df.loop('a')",
        "df.break('1')",
        "df.join('a', 'b')",
        "df.race('a', 'b')",
        "df.sleep(1)",
        "df.wait_for_schedule('* * * * *')",
        "df.http('https://example.org')",
        r#"df.http_multipart('https://example.org', parts => '[{"name": "a", "data_b64": "aGk="}]')"#,
        "df.wait_for_signal('go')",
        "df.retry('a')",
        "df.catch('a', 'b')",
        "df.timeout('a', 1)",
        "df.map('a', 'b')",
        "df.call('a')",
    ] {
        let graph = stored(&client, &format!("df.as({node}, 'named')")).await;
        assert!(graph.contains(r#""name":"named""#), "{node}: {graph}");
    }
}

#[tokio::test]
async fn a_name_is_an_identifier() {
    let (_database, client) = session().await;
    for name in ["1x", "x y", "", "x-y", "$x", "x.y", "x\n", "\u{e4}", "x?"] {
        refused(&client, &[(&format!("df.as('a', '{name}')"), "is not a valid identifier")]).await;
        refused(&client, &[(&format!("'a' |=> '{name}'"), "is not a valid identifier")]).await;
    }
}

#[tokio::test]
async fn a_plain_text_is_a_sql_step_and_an_envelope_stays_what_it_is() {
    let (_database, client) = session().await;
    gives(
        &client,
        &[
            // The same text, as written by hand: with white space, and not touched inside.
            (
                r#"df.loop('  {"node_type": "SLEEP", "query": "5"} ')"#,
                r#"{"node_type":"LOOP","left_node":{"node_type": "SLEEP", "query": "5"}}"#,
            ),
            // JSON without a valid node_type is a text like any other.
            (
                r#"df.loop('{"a":1}')"#,
                r#"{"node_type":"LOOP","left_node":{"node_type":"SQL","query":"{\"a\":1}"}}"#,
            ),
            (r#"df.loop('[1]')"#, r#"{"node_type":"LOOP","left_node":{"node_type":"SQL","query":"[1]"}}"#),
            // A statement may begin with a variable.
            (
                "df.loop('{statement} LIMIT 1')",
                r#"{"node_type":"LOOP","left_node":{"node_type":"SQL","query":"{statement} LIMIT 1"}}"#,
            ),
        ],
    )
    .await;
    refused(
        &client,
        &[
            (r#"df.loop('{"node_type":"THEN"}')"#, "THEN needs a left_node"),
            (
                r#"df.loop('{"node_type":"THEN","left_node":"x","right_node":{}}')"#,
                "left_node in THEN must be a JSON object",
            ),
            (r#"df.loop('{"node_type":"SQL","query":"x"')"#, "not valid JSON"),
            (r#"df.loop('{"node_type":7}')"#, "node_type must be a text"),
        ],
    )
    .await;
}
