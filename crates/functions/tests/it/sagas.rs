//! Steps with what undoes them: undone once, the latest first, when the instance fails or is cancelled.

use crate::common::{database, one, refusal};
use crate::worker::{ended, eventually, execute, start, submitter, TestWorker, SOON};
use tokio_postgres::Client;

async fn ledger(client: &Client, role: &str) {
    let sql = format!("CREATE TABLE {role}.ledger (entry text, at timestamptz DEFAULT clock_timestamp())");
    execute(client, &[&sql]).await;
}

/// A step that makes an entry, and undoes it by another one.
fn step(role: &str, text: &str) -> String {
    format!(
        "df.step('INSERT INTO {role}.ledger VALUES (''{text}'') RETURNING entry',
             'INSERT INTO {role}.ledger VALUES (''un'' || $result)')"
    )
}

async fn entries(client: &Client, role: &str) -> String {
    let sql = format!("SELECT coalesce(string_agg(entry, ' ' ORDER BY at), '') FROM {role}.ledger");
    one(client, &sql).await.unwrap_or_default()
}

/// Invariant F-27, though the worker is killed in the midst of it.
#[tokio::test]
async fn what_was_done_is_undone_once() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    ledger(&client, &role).await;
    let worker = TestWorker::start(&database, 2).await;
    let slow = format!(
        "df.step('INSERT INTO {role}.ledger VALUES (''c'') RETURNING entry',
             df.sleep(1) ~> 'INSERT INTO {role}.ledger VALUES (''un'' || $result)')"
    );
    let function =
        format!("{} ~> ({} & 'SELECT 1') ~> {slow} ~> 'SELECT 1 / 0'", step(&role, "a"), step(&role, "b"));
    let id = start(&client, &function).await;
    eventually(&client, "SELECT count(*) FROM df.instances WHERE label = 'undo'", "1", SOON).await;
    assert_eq!(one(&client, &format!("SELECT df.status('{id}')")).await.as_deref(), Some("running"));
    worker.kill();
    let _worker = TestWorker::start(&database, 2).await;
    assert!(ended(&client, &id, SOON).await.failed().contains("division by zero"));
    assert_eq!(entries(&client, &role).await, "a b c unc unb una");
    let said = refusal(&client, &format!("SELECT df.resume('{id}')")).await;
    assert!(said.contains("were undone"), "{said}");
    // Drawn before and after.
    assert!(one(&client, &format!("SELECT df.explain('{id}')")).await.unwrap().contains("undo:"));
}

#[tokio::test]
async fn a_cancelled_instance_is_undone_and_a_caught_failure_is_not() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    ledger(&client, &role).await;
    let _worker = TestWorker::start(&database, 2).await;
    let id = start(&client, &format!("{} ~> df.wait_for_signal('go')", step(&role, "a"))).await;
    eventually(&client, &format!("SELECT count(*) FROM {role}.ledger"), "1", SOON).await;
    execute(&client, &[&format!("SELECT df.cancel('{id}', 'enough')")]).await;
    let end = ended(&client, &id, SOON).await;
    assert_eq!((end.status.as_str(), end.output.as_str()), ("cancelled", "enough"));
    assert_eq!(entries(&client, &role).await, "a una");
    let caught = format!("{} ~> df.catch('SELECT 1 / 0', 'SELECT 2')", step(&role, "b"));
    let id = start(&client, &caught).await;
    ended(&client, &id, SOON).await.completed();
    assert_eq!(entries(&client, &role).await, "a una b");
    let stuck = "df.step('SELECT 1', 'SELECT 1 / 0') ~> 'SELECT nothing'";
    let id = start(&client, stuck).await;
    let said = ended(&client, &id, SOON).await.failed();
    assert!(
        said.contains("\"nothing\" does not exist; and it could not be undone: division by zero"),
        "{said}"
    );
}
