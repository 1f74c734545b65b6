//! `df.explain`: trees of what is written, and of what runs.

use super::{
    common::{one, take},
    refused, session,
};
use tokio_postgres::Client;

async fn explained(client: &Client, input: &str) -> String {
    let row = client.query_one("SELECT df.explain($1)", &[&input]).await;
    row.unwrap_or_else(|error| panic!("{input}: {}", crate::common::text(&error))).get(0)
}

#[tokio::test]
async fn plain_sql_envelopes_and_expressions_are_told_apart() {
    let (_database, client) = session().await;
    for (input, expected) in [
        ("SELECT 1", "SQL: SELECT 1"),
        ("SELECT 1\n  FROM df.vars", "SQL: SELECT 1 FROM df.vars"),
        ("SELECT '~>' AS arrow", "SQL: SELECT '~>' AS arrow"),
        ("{statement}", "SQL: {statement}"),
        (r#"{"node_type":"SLEEP","query":"30","result_name":"nap"}"#, "SLEEP 30s |=> nap"),
        ("df.sleep(0.5)", "SLEEP 0.5s"),
        ("@> 'SELECT 1'", "LOOP (infinite)\n  SQL: SELECT 1"),
        ("'a' ~> 'b' ; ", "SQL: a\nSQL: b"),
        ("df.wait_for_signal('go', 3) -- and a remark", "SIGNAL go (timeout 3s)"),
    ] {
        assert_eq!(explained(&client, input).await, expected, "{input}");
    }
    assert_eq!(one(&client, "SELECT df.explain(NULL)").await, None);
}

#[tokio::test]
async fn every_node_has_its_place_in_the_tree() {
    let (_database, client) = session().await;
    let tree = explained(
        &client,
        "'a' |=> 'x' ~> df.if('c', 't' ~> 't2', df.break('1')) ~> df.if_rows('x', 't', 'e')
         ~> df.loop('b', 'w', true) ~> df.join3('1', '2', '3' ~> '4' |=> 'both') ~> df.race('1', '2')
         ~> df.wait_for_schedule('0 9 * * mon', 'Europe/Berlin') ~> df.http('https://x', 'GET')
         ~> df.http_multipart('https://x', parts => '[{\"name\": \"a\", \"data_b64\": \"\"}]')
         ~> df.retry(df.timeout('slow', 1.5)) ~> df.catch('bad', 'handle') ~> df.map('rows', 'each')
         ~> df.call('child', 'kid', false) ~> df.sql('SELECT $1', '[1]') ~> df.wait_for_signal('go')",
    )
    .await;
    let expected = "\
SQL: a |=> x
IF
  condition:
    SQL: c
  then:
    SQL: t
    SQL: t2
  else:
    BREAK 1
IF $x has rows
  then:
    SQL: t
  else:
    SQL: e
LOOP (while), continues on failure
  body:
    SQL: b
  while:
    SQL: w
JOIN (3)
  branch 1:
    SQL: 1
  branch 2:
    SQL: 2
  branch 3:
    THEN |=> both
      SQL: 3
      SQL: 4
RACE (2)
  branch 1:
    SQL: 1
  branch 2:
    SQL: 2
WAIT_SCHEDULE 0 9 * * mon (Europe/Berlin)
HTTP GET https://x
HTTP_MULTIPART POST https://x (1 parts)
RETRY (up to 3 attempts, backoff 1s to 60s, x 2)
  TIMEOUT 1.5s
    SQL: slow
CATCH
  body:
    SQL: bad
  handler:
    SQL: handle
MAP ($item, 10 at a time)
  items:
    SQL: rows
  body:
    SQL: each
CALL kid, not awaited
  SQL: child
SQL: SELECT $1 <- [1]
SIGNAL go";
    assert_eq!(tree, expected);
}

#[tokio::test]
async fn what_cannot_be_explained_is_refused() {
    let (_database, client) = session().await;
    refused(
        &client,
        &[
            ("df.explain('0123abcd')", "Instance not found or access denied: 0123abcd"),
            (r#"df.explain('{"node_type":"X"}')"#, "Unknown node_type 'X'"),
            ("df.explain('df.sleep(-1)')", "seconds must be between 0 and"),
            ("df.explain('df.sleep(')", "syntax error"),
            ("df.explain('df.sleep(NULL)')", "the expression gives NULL"),
            ("df.explain('')", "a SQL step is empty"),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_instance_shows_what_has_happened() {
    let (database, client) = session().await;
    let id =
        one(&client, "SELECT df.start('SELECT 1' ~> df.if('SELECT true', 'a', 'b'), 'mine')").await.unwrap();
    // No worker runs: nothing has begun.
    assert_eq!(
        explained(&client, &id).await,
        format!(
            "Instance {id} (mine): pending\n\u{25cb} SQL: SELECT 1\n\u{25cb} IF\n  condition:\n    \
             \u{25cb} SQL: SELECT true\n  then:\n    \u{25cb} SQL: a\n  else:\n    \u{25cb} SQL: b"
        )
    );
    // As a worker would leave it: the first step done, the condition under way.
    let owner = database.owner().await;
    owner.batch_execute(&take("true")).await.unwrap();
    let begin = |state: &str| {
        format!(
            "INSERT INTO df._work (seq, submitted_by, started_at, updated_at, state)
             SELECT seq, submitted_by, now(), now(), '{state}' FROM df._instance WHERE seq = df._seq('{id}')
             ON CONFLICT (seq) DO UPDATE SET state = excluded.state"
        )
    };
    let result = r#"{"rows":[{"n":1}],"row_count":1}"#;
    let at = r#""at":"2030-01-01T00:00:00Z","x":"1""#;
    owner
        .batch_execute(&begin(&format!(
            r#"{{"v":1,"execution":1,"cells":{{"0":{{"s":"running",{at}}},"1":{{"s":"completed",{at},"r":{result}}},
                "2":{{"s":"running",{at}}},"3":{{"s":"running",{at}}}}}}}"#
        )))
        .await
        .unwrap();
    let tree = explained(&client, &id).await;
    for line in [
        "(mine): running",
        "\u{2713} SQL: SELECT 1",
        "\u{23f3} IF",
        "\u{23f3} SQL: SELECT true",
        "\u{25cb} SQL: a",
    ] {
        assert!(tree.contains(line), "{line:?} in {tree}");
    }
    // The right side was taken, and fails: the left is skipped.
    let bool_result = r#"{"rows":[{"bool":true}],"row_count":1}"#;
    let state = format!(
        r#"{{"v":1,"execution":1,"cells":{{"0":{{"s":"failed",{at},"e":"no"}},"1":{{"s":"completed",{at},"r":{result}}},
            "2":{{"s":"failed",{at},"e":"no"}},"3":{{"s":"completed",{at},"r":{bool_result}}},
            "4":{{"s":"failed",{at},"e":"no such thing"}}}}}}"#
    );
    owner
        .batch_execute(&format!(
            "DELETE FROM df._work;
             INSERT INTO df._done (seq, submitted_by, status, started_at, output, state)
             SELECT seq, submitted_by, 'f', now(), '\"no such thing\"', '{state}' FROM df._instance"
        ))
        .await
        .unwrap();
    let tree = explained(&client, &id).await;
    for line in [
        "(mine): failed",
        "\u{2713} SQL: SELECT 1",
        "\u{2713} SQL: SELECT true",
        "\u{2717} SQL: a (failed: no such thing)",
        "\u{2298} SQL: b",
    ] {
        assert!(tree.contains(line), "{line:?} in {tree}");
    }
    // Nobody else sees it.
    let bob = database.role("bob").await;
    let stranger = database.connect(&bob).await;
    refused(&stranger, &[(&format!("df.explain('{id}')"), "Instance not found or access denied")]).await;
}
