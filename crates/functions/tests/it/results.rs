//! Results that are waited for and read together, by a program and in SQL.

use crate::common::{self, one, rows};
use crate::proxy::{Proxy, RoundTrip, Side};
use crate::worker::{self, execute, start, start_step, TestWorker, SOON};
use duramen_base::clock;
use duramen_functions::client::{Client, ClientError, Ended, Waiter};
use std::{sync::Arc, time::Duration};

fn ended(status: &str, output: Option<&str>) -> Ended {
    Ended { status: status.to_owned(), output: output.map(str::to_owned) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_learns_how_each_of_many_ended() {
    let database = common::database().await;
    let (alice, client, _) = worker::submitter(&database).await;
    let _worker = TestWorker::start(&database, 4).await;
    let waiter = Arc::new(Waiter::connect(&database.url_as(&alice)).await.unwrap());
    let starter = Arc::new(Client::connect(&database.url_as(&alice)).await.unwrap());
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..300 {
        let (waiter, starter) = (Arc::clone(&waiter), Arc::clone(&starter));
        waiting.spawn(async move {
            let step =
                if number % 10 == 0 { "SELECT 1/0".to_owned() } else { format!("SELECT {number} AS n") };
            let id = starter.start(&step, None).await.unwrap();
            (number, waiter.result(&id, SOON).await.unwrap())
        });
    }
    while let Some(joined) = waiting.join_next().await {
        let (number, found) = joined.unwrap();
        let output = format!(r#"{{"rows":[{{"n":{number}}}],"row_count":1}}"#);
        let expected = match number % 10 {
            0 => ended("failed", Some("division by zero")),
            _ => ended("completed", Some(&output)),
        };
        assert_eq!(found, expected, "{number}");
    }
    // One that is over, and is asked for twice; one that is cancelled; one that two wait for.
    let id = start_step(&client, "SELECT 7 AS n").await;
    let seven = ended("completed", Some(r#"{"rows":[{"n":7}],"row_count":1}"#));
    waiter.ended(&id, SOON).await.unwrap();
    for _ in 0..2 {
        assert_eq!(waiter.result(&id, SOON).await.unwrap(), seven);
    }
    let id = start(&client, "df.wait_for_signal('never')").await;
    let both = tokio::join!(waiter.result(&id, SOON), waiter.ended(&id, SOON), async {
        execute(&client, &[&format!("SELECT df.cancel('{id}', 'enough')")]).await;
    });
    assert_eq!(both.0.unwrap(), ended("cancelled", Some("enough")));
    both.1.unwrap();
}

/// Results that are too large to be read at once come one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn large_results_are_read_one_by_one() {
    let database = common::database().await;
    let (alice, _, _) = worker::submitter(&database).await;
    let _worker = TestWorker::start(&database, 4).await;
    let waiter = Arc::new(Waiter::connect(&database.url_as(&alice)).await.unwrap());
    let starter = Client::connect(&database.url_as(&alice)).await.unwrap();
    let ids = starter.start_many(&["SELECT repeat('x', 7000000) AS x"; 6]).await.unwrap();
    let mut waiting = tokio::task::JoinSet::new();
    for id in ids {
        let waiter = Arc::clone(&waiter);
        waiting.spawn(async move { waiter.result(&id, SOON).await.unwrap() });
    }
    while let Some(found) = waiting.join_next().await {
        let found = found.unwrap();
        assert_eq!(found.status, "completed");
        assert!(found.output.is_some_and(|output| output.len() > 7_000_000));
    }
}

/// A server that does not answer holds nobody longer than he wants to wait, and one question.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stalls_does_not_hold_who_waits() {
    let database = common::database().await;
    let (alice, client, _) = worker::submitter(&database).await;
    let stall_at =
        RoundTrip { database: database.name().to_owned(), asks: "df.results", nth: 0, side: Side::Request };
    let proxy = Proxy::start(database.server(), stall_at);
    let waiter = Waiter::connect(&proxy.url(&alice, database.name())).await.unwrap();
    proxy.arm();
    let id = start_step(&client, "SELECT 1").await;
    let began = clock::now();
    let late = waiter.result(&id, Duration::from_secs(3)).await;
    assert!(
        matches!(&late, Err(ClientError::Timeout { status, .. }) if status.contains("does not answer")),
        "{late:?}"
    );
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

/// Anybody of a role may notify in its channel. What counts is what is stored.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_somebody_made_up_is_not_believed() {
    let database = common::database().await;
    let (alice, client, _) = worker::submitter(&database).await;
    let _worker = TestWorker::start(&database, 4).await;
    let waiter = Waiter::connect(&database.url_as(&alice)).await.unwrap();
    let id = start(&client, "df.wait_for_signal('go') ~> 'SELECT 1 AS n'").await;
    let lies = async {
        for _ in 0..20 {
            execute(&client, &[&format!("SELECT pg_notify(df._done_channel(), '{id},{id},,nonsense')")])
                .await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        execute(&client, &[&format!("SELECT df.signal('{id}', 'go')")]).await;
    };
    let (found, ()) = tokio::join!(waiter.result(&id, SOON), lies);
    assert_eq!(found.unwrap(), ended("completed", Some(r#"{"rows":[{"n":1}],"row_count":1}"#)));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_in_vain_is_told() {
    let database = common::database().await;
    let (alice, client, _) = worker::submitter(&database).await;
    let bob = database.role("bob").await;
    let waiter = Waiter::connect(&database.url_as(&alice)).await.unwrap();
    // Nobody works.
    let id = start_step(&client, "SELECT 1").await;
    let began = clock::now();
    let late = waiter.result(&id, Duration::from_millis(300)).await;
    assert!(matches!(&late, Err(ClientError::Timeout { status, .. }) if status == "pending"), "{late:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    for unknown in
        [start_step(&database.connect(&bob).await, "SELECT 1").await, "00000000".to_owned(), "x".to_owned()]
    {
        let refused = waiter.result(&unknown, Duration::from_millis(100)).await;
        assert!(matches!(refused, Err(ClientError::Unknown(_))), "{refused:?}");
    }
    // A connection that is lost is an error, and soon.
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'duramen fn waiter'
        AND datname = current_database()";
    assert_eq!(one(&database.owner().await, kill).await.as_deref(), Some("1"));
    let began = clock::now();
    let lost = waiter.result(&id, SOON).await;
    assert!(matches!(lost, Err(ClientError::Server(_))), "{lost:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// `df.results` gives rows for what has ended and is the caller's own, and for nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn results_are_read_together_in_sql() {
    let database = common::database().await;
    let (_, client, _) = worker::submitter(&database).await;
    let bob = database.role("bob").await;
    let bobs = database.connect(&bob).await;
    let _worker = TestWorker::start(&database, 4).await;
    let good = start_step(&client, "SELECT 1 AS n").await;
    let bad = start_step(&client, "SELECT 1/0").await;
    let waits = start(&client, "df.wait_for_signal('never')").await;
    let others = start_step(&bobs, "SELECT 2 AS n").await;
    for (client, id) in [(&client, &good), (&client, &bad), (&bobs, &others)] {
        worker::ended(client, id, SOON).await;
    }
    let all = format!("'{good}', '{bad}', '{waits}', '{others}', NULL, 'x', '00000000', '{good}'");
    let read = format!("SELECT * FROM df.results(ARRAY[{all}]) ORDER BY status");
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        rows(&client, &read).await,
        [
            [some(&good), some("completed"), some(r#"{"rows":[{"n":1}],"row_count":1}"#)],
            [some(&bad), some("failed"), some("division by zero")],
        ]
    );
    let first = format!("SELECT count(*) FROM df.results(ARRAY['{good}', '{bad}'], 1)");
    assert_eq!(one(&client, &first).await.as_deref(), Some("1"), "the first has more than one byte");
    assert!(rows(&client, "SELECT * FROM df.results('{}')").await.is_empty());
    assert!(rows(&client, "SELECT * FROM df.results(NULL)").await.is_empty());
    let plan = rows(&client, &format!("EXPLAIN ANALYZE {read}")).await;
    assert!(!plan.is_empty());
}
