//! The trace that a start belongs to. (What a worker makes of it is tested where tracing is built in.)

use super::session;
use crate::common::{maybe_one, one, rows};
use crate::worker::{ended, TestWorker, SOON};
use tokio_postgres::Client;

const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-11111111111111111111111111111111-2222222222222222-00";

/// The trace of each instance that was started, by label; instances without one are left out.
async fn traced(client: &Client) -> Vec<(String, String)> {
    let sql =
        "SELECT label, vars ->> 'df.traceparent' FROM df._started WHERE vars ->> 'df.traceparent' IS NOT NULL
        ORDER BY seq";
    let value = |value: &Option<String>| value.clone().unwrap();
    rows(client, sql).await.iter().map(|row| (value(&row[0]), value(&row[1]))).collect()
}

async fn set(client: &Client, traceparent: &str) -> bool {
    one(client, &format!("SELECT df.set_traceparent('{traceparent}')")).await.as_deref() == Some("t")
}

/// T-6
#[tokio::test]
async fn whatever_a_transaction_starts_belongs_to_its_trace_and_nothing_after_it() {
    let (_database, client) = session().await;
    one(&client, "SELECT df.queue('q')").await;
    one(&client, "SELECT df.schedule('s', 'SELECT 1', every => interval '1 hour', label => 'fired')").await;
    // This session has been on the short way, and is on it again afterwards.
    one(&client, "SELECT df.start('SELECT 1', 'before')").await;
    client.batch_execute("BEGIN").await.unwrap();
    assert!(set(&client, GIVEN).await);
    for statement in [
        "SELECT df.start('SELECT 1', 'plain')",
        "SELECT df.start('SELECT 1', 'plain again')",
        "SELECT df.start('SELECT 1' ~> 'SELECT 2', 'graph')",
        "SELECT df.start('SELECT 1', 'queued', queue => 'q')",
        "SELECT df.start('SELECT 1', 'later', queue => 'q', delay => interval '1 hour', dedup => 'd')",
        "SELECT df.start('SELECT 1', 'once', idempotency_key => 'k')",
        "SELECT count(*) FROM df.start_many('{SELECT 1, SELECT 2}', 'many')",
        "SELECT count(*) FROM df.start_many('{SELECT 1}', 'many queued', queue => 'q')",
        "SELECT df.trigger_schedule('s')",
    ] {
        one(&client, statement).await;
    }
    client.batch_execute("COMMIT").await.unwrap();
    one(&client, "SELECT df.start('SELECT 1', 'after')").await;
    let expected =
        ["plain", "plain again", "graph", "queued", "later", "once", "many", "many", "many queued", "fired"];
    let expected: Vec<_> = expected.iter().map(|label| ((*label).to_owned(), GIVEN.to_owned())).collect();
    assert_eq!(traced(&client).await, expected);
}

#[tokio::test]
async fn the_last_trace_of_a_transaction_counts_and_null_is_none() {
    let (_database, client) = session().await;
    one(&client, "SELECT df.setvar('kept', 'yes')").await;
    client.batch_execute("BEGIN").await.unwrap();
    assert!(set(&client, GIVEN).await);
    assert!(set(&client, OTHER).await);
    one(&client, "SELECT df.start('SELECT 1', 'other')").await;
    assert_eq!(one(&client, "SELECT df.set_traceparent(NULL)").await.as_deref(), Some("f"));
    one(&client, "SELECT df.start('SELECT 1', 'none')").await;
    client.batch_execute("COMMIT").await.unwrap();
    // In one statement: what FROM says comes first.
    one(&client, &format!("SELECT df.start('SELECT 1', 'one statement') FROM df.set_traceparent('{GIVEN}')"))
        .await;
    let pair = |label: &str, trace: &str| (label.to_owned(), trace.to_owned());
    assert_eq!(traced(&client).await, [pair("other", OTHER), pair("one statement", GIVEN)]);
    let vars = "SELECT vars::jsonb FROM df._started WHERE label = 'other'";
    let vars = one(&client, vars).await.unwrap();
    assert!(vars.contains(r#""kept": "yes""#), "{vars}");
}

#[tokio::test]
async fn a_start_in_a_transaction_of_its_own_belongs_to_the_trace_too() {
    let (database, client) = session().await;
    if let Err(error) = database.owner().await.batch_execute("CREATE EXTENSION dblink").await {
        eprintln!("not tested: {}", crate::common::text(&error));
        return;
    }
    client.batch_execute("BEGIN").await.unwrap();
    assert!(set(&client, GIVEN).await);
    one(&client, "SELECT df.start('SELECT 1', 'new', transaction_mode => 'new')").await;
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(traced(&client).await, [("new".to_owned(), GIVEN.to_owned())]);
}

/// T-5: what an outsider has sent is no error, and nothing but a traceparent is kept, whatever way it takes.
#[tokio::test]
async fn what_is_no_traceparent_counts_as_none() {
    let (_database, client) = session().await;
    let later = format!("cc{}-what-comes-with-it", &GIVEN[2..]);
    let long = format!("cc{}-{}", &GIVEN[2..], "x".repeat(1 << 20));
    let hostile = [
        String::new(),
        GIVEN.to_uppercase(),
        GIVEN[..54].to_owned(),
        format!("{GIVEN}-00"),
        format!("{GIVEN}\n"),
        format!("ff{}", &GIVEN[2..]),
        format!("00-{}{}", "0".repeat(32), &GIVEN[35..]),
        format!("{}{}{}", &GIVEN[..36], "0".repeat(16), &GIVEN[52..]),
        format!("{GIVEN} -c role=postgres"),
        "'' OR 1 = 1 --".to_owned(),
        long,
    ];
    for text in &hostile {
        client.batch_execute("BEGIN").await.unwrap();
        assert!(!set(&client, &text.replace('\'', "''")).await, "{text:.80}");
        one(&client, "SELECT df.start('SELECT 1', 'hostile')").await;
        // And past the function, which is the setting's only reader that anybody has to use.
        client.execute("SELECT set_config('df.traceparent', $1, true)", &[text]).await.unwrap();
        one(&client, "SELECT df.start('SELECT 1' ~> 'SELECT 2', 'hostile')").await;
        client.batch_execute("COMMIT").await.unwrap();
    }
    assert_eq!(traced(&client).await, []);
    // A later version is read as far as this one is known.
    client.batch_execute("BEGIN").await.unwrap();
    assert!(set(&client, &later).await);
    one(&client, "SELECT df.start('SELECT 1', 'later version')").await;
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(traced(&client).await, [("later version".to_owned(), GIVEN.to_owned())]);
}

/// Also with a worker that does not trace, or in which it was not built in.
#[tokio::test(flavor = "multi_thread")]
async fn children_inherit_the_trace_and_steps_can_read_it() {
    let (database, client) = session().await;
    let _worker = TestWorker::start(&database, 2).await;
    let start = format!(
        "SELECT df.start(df.call('SELECT ''{{df.traceparent}}'' AS trace')) FROM df.set_traceparent('{GIVEN}')"
    );
    let id = maybe_one(&client, &start).await.unwrap().unwrap();
    let output = ended(&client, &id, SOON).await.completed();
    assert!(output.contains(GIVEN), "{output}");
}
