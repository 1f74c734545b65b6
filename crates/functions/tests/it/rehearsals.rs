//! Rehearsals in copies: F-28 (a worker that rehearses does nothing outside, whenever an instance was started), F-29 (an answer
//! is the one that was written down, or that an instance of the original was given). The copies are the files of a stopped server.

use crate::common::{one, Server, OWNER};
use crate::copies::{allow_http, World};
use crate::worker::{ended, eventually, execute, start, TestWorker, SOON};
use duramen_functions::rehearsal::{Answers, Rehearsal};
use duramen_functions::schema::{self, External, SchemaError};
use std::time::Duration;
use tokio_postgres::Client;

const ALICE: &str = "alice";
const HOME: &str = "home";
/// Later than anything that a test waits for.
const HORIZON: Duration = Duration::from_secs(30);

/// A server with instances of the past and in flight. Each of those waits for a signal first.
async fn original(world: &World) -> Server {
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let admin = server.connect(OWNER, "postgres").await;
    execute(
        &admin,
        &[&format!("CREATE DATABASE {HOME} TEMPLATE template0"), "CREATE DATABASE other TEMPLATE template0"],
    )
    .await;
    execute(&admin, &[&format!("CREATE ROLE {ALICE} LOGIN")]).await;
    schema::install(&server.url(OWNER, HOME)).await.unwrap();
    let owner = server.connect(OWNER, HOME).await;
    execute(&owner, &[&format!("SELECT df.grant_usage('{ALICE}', include_http => true)")]).await;
    allow_http(&server, HOME).await;
    let client = server.connect(ALICE, HOME).await;
    let worker = TestWorker::start_at(&server.url(OWNER, HOME), 4).await;
    let call = world.call();
    let pay = format!("df.wait_for_signal('go') ~> {call}, 'pay'");
    let resize = "df.wait_for_signal('go') ~> df.task('resize', '{}'), 'resize'";
    // The past: two that were answered, of which the later counts.
    let (paid, first, second) =
        (start(&client, &pay).await, start(&client, resize).await, start(&client, resize).await);
    for (id, result) in [(&paid, None), (&first, Some(1)), (&second, Some(2))] {
        execute(&client, &[&format!("SELECT df.signal('{id}', 'go')")]).await;
        if let Some(result) = result {
            eventually(&client, "SELECT count(*) FROM df._task WHERE ended_at IS NULL", "1", SOON).await;
            let done =
                format!("SELECT df.complete_task(token, '{result}') FROM df.claim_tasks('{{resize}}', 60)");
            execute(&client, &[&done]).await;
        }
        ended(&client, id, SOON).await.completed();
    }
    assert_eq!(world.calls(), 1);
    for expression in [
        pay.as_str(),
        resize,
        &format!("df.wait_for_signal('go') ~> {call} ~> 'SELECT 1', 'unknown'"),
        "df.wait_for_signal('go') ~> df.task('mail', '{}'), 'mail'",
        "df.wait_for_signal('go') ~> 'SELECT 1', 'elsewhere', 'other'",
    ] {
        start(&client, expression).await;
    }
    eventually(&owner, "SELECT count(*) FROM df._work", "5", SOON).await;
    worker.kill();
    server
}

async fn go(client: &Client) {
    execute(client, &["SELECT df.signal(id, 'go') FROM df.instances WHERE status = 'running'"]).await;
}

/// How the newest of a label has ended.
async fn of(client: &Client, label: &str) -> crate::worker::Ended {
    let newest =
        format!("SELECT id FROM df.instances WHERE label = '{label}' ORDER BY created_at DESC LIMIT 1");
    ended(client, &one(client, &newest).await.unwrap(), SOON).await
}

fn listed(text: &str) -> Answers {
    Answers::listed(serde_json::from_str(text).unwrap()).unwrap()
}

/// F-28, F-29
#[tokio::test(flavor = "multi_thread")]
async fn a_rehearsal_answers_from_a_list_or_from_the_record_and_reaches_nothing() {
    let world = World::start().await;
    let server = original(&world).await;
    let calls = world.calls();

    // From the record; what it does not know is null.
    let now = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";
    let copied: jiff::Timestamp =
        one(&server.connect(OWNER, HOME).await, now).await.unwrap().parse().unwrap();
    let copy = server.copy_with(&[("duramen.identity", "recorded")]);
    let url = copy.url(OWNER, HOME);
    assert_eq!(schema::adopt_as(&url, External::Stub).await.unwrap().instances, Some(5));
    let worker = TestWorker::rehearse_at(&url, Rehearsal::Stub(Answers::of_record(copied))).await;
    let client = copy.connect(ALICE, HOME).await;
    go(&client).await;
    let paid = of(&client, "pay").await.completed();
    assert!(paid.contains("\"body\":\"ok\"") && paid.contains("\"status\":200"), "{paid}");
    assert_eq!(of(&client, "resize").await.completed(), "2", "the newest counts");
    of(&client, "unknown").await.completed();
    assert_eq!(of(&client, "mail").await.completed(), "null");
    assert_eq!(of(&client, "elsewhere").await.completed(), "null");
    // What is started now is rehearsed, too, where an adoption alone would let it call.
    start(&client, &format!("{}, 'late'", world.call())).await;
    assert_eq!(of(&client, "late").await.completed(), "null");
    let ended = worker.monitor().rests(HORIZON).await.unwrap();
    assert_eq!((ended.completed, ended.failed, ended.waiting), (6, 0, 0), "{ended:?}");
    worker.kill();
    // A rehearsal is no record: what was null there is not an answer.
    let strict = Answers::of_record(copied).strict();
    let worker = TestWorker::rehearse_at(&url, Rehearsal::Stub(strict)).await;
    start(&client, "df.task('mail', '{}'), 'mail'").await;
    let said = of(&client, "mail").await.failed();
    assert!(said.contains("no answer for task mail"), "{said}");
    start(&client, "'CREATE DATABASE third', 'server'").await;
    let said = of(&client, "server").await.failed();
    assert!(said.contains("whole server"), "{said}");
    let ended = worker.monitor().rests(HORIZON).await.unwrap();
    assert_eq!((ended.failed, ended.failures.len()), (2, 2), "{ended:?}");
    worker.kill();
    assert_eq!(world.calls(), calls);

    // From a list.
    let copy = server.copy_with(&[("duramen.identity", "listed")]);
    let url = copy.url(OWNER, HOME);
    schema::adopt_as(&url, External::Stub).await.unwrap();
    match schema::adopt_as(&url, External::Skip).await {
        Err(error @ SchemaError::Decided { .. }) => {
            assert!(error.to_string().contains("--external=stub"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let answers = listed(
        r#"{"answers": [{"http": "GET http://127.0.0.1:*", "status": 201, "body": {"id": 7}},
            {"task": "resize", "error": "the disk is full", "sqlstate": "53100"},
            {"task": "mail", "leave": true},
            {"database": "other", "result": {"rows": [{"n": 1}], "row_count": 1}}]}"#,
    );
    let worker = TestWorker::rehearse_at(&url, Rehearsal::Stub(answers)).await;
    let client = copy.connect(ALICE, HOME).await;
    go(&client).await;
    let paid = of(&client, "pay").await.completed();
    assert!(paid.contains(r#""body":"{\"id\":7}""#) && paid.contains("201"), "{paid}");
    assert!(of(&client, "resize").await.failed().contains("the disk is full"));
    assert!(of(&client, "elsewhere").await.completed().contains("\"n\":1"));
    // A program does what is left to it.
    let claim = "SELECT df.complete_task(token, '9') FROM df.claim_tasks('{mail}', 60)";
    eventually(&client, "SELECT count(*) FROM df._task WHERE ended_at IS NULL", "1", SOON).await;
    execute(&client, &[claim]).await;
    assert_eq!(of(&client, "mail").await.completed(), "9");
    worker.kill();

    let copy = server.copy_with(&[("duramen.identity", "skipped")]);
    let url = copy.url(OWNER, HOME);
    schema::adopt_as(&url, External::Skip).await.unwrap();
    let worker = TestWorker::rehearse_at(&url, Rehearsal::Skip).await;
    let client = copy.connect(ALICE, HOME).await;
    go(&client).await;
    for label in ["pay", "resize", "unknown", "mail", "elsewhere"] {
        let said = of(&client, label).await.failed();
        assert!(said.contains("skipped"), "{label}: {said}");
    }
    worker.kill();
    assert_eq!(world.calls(), calls, "F-28");
}

/// What waits for a signal or for long does not keep a worker from its rest; what is due, or held by a queue, does.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_rests_when_nothing_goes_on_by_itself() {
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let database = server.database().await;
    let alice = database.role("alice").await;
    let client = database.connect(&alice).await;
    execute(&client, &["SELECT df.queue('one', concurrency => 1)", "SELECT df.queue('off')"]).await;
    execute(&client, &["SELECT df.pause_queue('off')"]).await;
    let worker = TestWorker::start(&database, 2).await;
    start(&client, "df.wait_for_signal('never')").await;
    start(&client, "df.sleep(3600)").await;
    start(&client, "'SELECT 1', queue => 'off'").await;
    let short = start(&client, "df.sleep(1) ~> 'SELECT 1/0', 'short'").await;
    for _ in 0..3 {
        start(&client, "'SELECT pg_sleep(0.3)', queue => 'one'").await;
    }
    start(&client, "df.catch(df.call('SELECT 1/0'), 'SELECT 1')").await;
    let ended = worker.monitor().rests(HORIZON).await.unwrap();
    assert_eq!((ended.completed, ended.failed, ended.cancelled, ended.waiting), (4, 1, 0, 3), "{ended:?}");
    assert_eq!(ended.failures[0].id, short);
    assert!(ended.failures[0].error.as_ref().unwrap().contains("division by zero"), "{ended:?}");
}
