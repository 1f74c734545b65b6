//! Signals, cancel, pause and resume, delete, and waiting.

use super::{at_work, ended, session, started};
use crate::common::{maybe_one, one, refusal, rows};
use std::time::Duration;

const RUNNING: &str = r#"{"0":{"s":"running","at":"2026-11-22T01:00:00Z","x":"1"}}"#;

#[tokio::test]
async fn events_reach_the_inbox_of_the_instance() {
    let (database, client) = session().await;
    let id = started(&client, "'SELECT 1'").await;
    let call = |text: String| {
        let client = &client;
        async move { one(client, &format!("SELECT {text}")).await.unwrap() }
    };
    assert_eq!(call(format!("df.signal('{id}', 'go', '{{\"a\": [1]}}')")).await, "OK");
    assert_eq!(call(format!("df.signal('{id}', 'go')")).await, "OK");
    assert_eq!(call(format!("df.signal('{id}', 'go', 'not JSON')")).await, "OK");
    at_work(&database, &id, 1, RUNNING).await;
    assert_eq!(call(format!("df.pause('{id}')")).await, format!("Instance {id} paused"));
    assert_eq!(call(format!("df.resume('{id}')")).await, format!("Instance {id} resumed"));
    let cancelled = format!("Instance {id} cancelled: Cancelled by user");
    assert_eq!(call(format!("df.cancel('{id}')")).await, cancelled);
    assert_eq!(
        call(format!("df.cancel('{id}', 'it''s over')")).await,
        format!("Instance {id} cancelled: it's over")
    );
    let kept = rows(&client, "SELECT kind, name, data FROM df._inbox ORDER BY id").await;
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        kept,
        [
            [some("signal"), some("go"), some("{\"a\": [1]}")],
            [some("signal"), some("go"), some("{}")],
            [some("signal"), some("go"), some("\"not JSON\"")],
            [some("pause"), None, None],
            [some("resume"), None, None],
            [some("cancel"), None, some("\"Cancelled by user\"")],
            [some("cancel"), None, some("\"it's over\"")],
        ]
    );
    assert!(refusal(&client, &format!("SELECT df.signal('{id}', '')")).await.contains("must not be empty"));
}

#[tokio::test]
async fn what_has_ended_stays_as_it_is() {
    let (database, client) = session().await;
    let id = started(&client, "'SELECT 1'").await;
    ended(&database, &id, "c", "1").await;
    assert_eq!(one(&client, &format!("SELECT df.signal('{id}', 'go')")).await.as_deref(), Some("OK"));
    let said = one(&client, &format!("SELECT df.cancel('{id}', 'late')")).await;
    assert_eq!(said, Some(format!("Instance {id} cancelled: late")));
    for verb in ["pause", "resume"] {
        let said = refusal(&client, &format!("SELECT df.{verb}('{id}')")).await;
        assert!(said.contains(&format!("cannot {verb} instance {id}: it is completed")), "{said}");
    }
    assert_eq!(one(&client, &format!("SELECT df.status('{id}')")).await.as_deref(), Some("completed"));
    assert_eq!(one(&client, "SELECT count(*) FROM df._inbox").await.as_deref(), Some("0"));
}

#[tokio::test]
async fn an_unknown_instance_is_not_found() {
    let (_database, client) = session().await;
    for call in [
        "signal('0badc0de', 'x')",
        "cancel('0badc0de')",
        "pause('nonsense')",
        "resume('0badc0de')",
        "delete('0badc0de')",
        "await_instance('0badc0de')",
    ] {
        let said = refusal(&client, &format!("SELECT df.{call}")).await;
        assert!(said.contains("Instance not found or access denied: "), "{call}: {said}");
    }
}

#[tokio::test]
async fn only_what_has_ended_is_deleted_and_then_all_of_it() {
    let (database, client) = session().await;
    let id = started(&client, "'SELECT 1', idempotency_key => 'k'").await;
    let delete = format!("SELECT df.delete('{id}')");
    let said = refusal(&client, &delete).await;
    assert!(said.contains("it is pending") && said.contains("Cancel it first"), "{said}");
    at_work(&database, &id, 1, RUNNING).await;
    assert!(refusal(&client, &delete).await.contains("it is running"));
    one(&client, &format!("SELECT df.signal('{id}', 'late')")).await;
    let owner = database.owner().await;
    owner
        .batch_execute(
            "INSERT INTO df._execution SELECT seq, 1, submitted_by, 'n', now(), now(), 1 FROM df._work",
        )
        .await
        .unwrap();
    ended(&database, &id, "f", "\"x\"").await;
    assert_eq!(one(&client, &delete).await, Some(format!("Instance {id} deleted")));
    for table in ["_instance", "_ready", "_work", "_done", "_execution", "_inbox", "_key", "_request"] {
        let count = one(&owner, &format!("SELECT count(*) FROM df.{table}")).await;
        assert_eq!(count.as_deref(), Some("0"), "{table}");
    }
    assert!(refusal(&client, &delete).await.contains("not found"));
}

#[tokio::test]
async fn waiting_ends_with_the_instance() {
    let (database, client) = session().await;
    let id = started(&client, "'SELECT 1'").await;
    let role = one(&client, "SELECT current_user").await.unwrap();
    let waiter = database.connect(&role).await;
    let wait = format!("SELECT df.await_instance('{id}', 20)");
    let waiting = tokio::spawn(async move { maybe_one(&waiter, &wait).await });
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(!waiting.is_finished());
    ended(&database, &id, "f", "\"broken\"").await;
    assert_eq!(waiting.await.unwrap(), Ok(Some("failed".to_owned())));
    let old = one(&client, &format!("SELECT df.wait_for_completion('{id}')")).await;
    assert_eq!(old.as_deref(), Some("failed"));
}

#[tokio::test]
async fn waiting_in_vain_is_refused_at_once_or_times_out() {
    let (_database, client) = session().await;
    let id = started(&client, "'SELECT 1'").await;
    let said = refusal(&client, &format!("SELECT df.await_instance('{id}', 1)")).await;
    assert!(said.contains(&format!("Timeout after 1s waiting for instance {id}")), "{said}");
    for seconds in [0, -1] {
        let said = refusal(&client, &format!("SELECT df.await_instance('{id}', {seconds})")).await;
        assert!(said.contains("timeout_seconds must be greater than 0"), "{said}");
    }
    let said = refusal(&client, "BEGIN; SELECT df.await_instance(df.start('SELECT 1'))").await;
    assert!(said.contains("was started in this transaction"), "{said}");
    client.batch_execute("ROLLBACK").await.unwrap();
    client.batch_execute("BEGIN; SAVEPOINT a").await.unwrap();
    let inner = started(&client, "'SELECT 1'").await;
    client.batch_execute("RELEASE a").await.unwrap();
    let said = refusal(&client, &format!("SELECT df.await_instance('{inner}')")).await;
    assert!(said.contains("was started in this transaction"), "{said}");
    client.batch_execute("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    let said = refusal(&client, &format!("SELECT df.await_instance('{id}')")).await;
    assert!(said.contains("repeatable read"), "{said}");
    client.batch_execute("ROLLBACK; SET df.in_workflow = 'true'").await.unwrap();
    let said = refusal(&client, &format!("SELECT df.await_instance('{id}')")).await;
    assert!(said.contains("cannot be called inside a workflow"), "{said}");
}

/// What a caller has just asked for is what she sees, before any worker has heard of it; and when it is undone, it was not.
#[tokio::test]
async fn a_cancelled_instance_is_cancelled_to_whoever_sees_it() {
    let (database, client) = session().await;
    let id = one(&client, "SELECT df.start('SELECT 1' ~> 'SELECT 2', 'mine')").await.unwrap();
    let shown = [
        (format!("SELECT df.status('{id}')"), "cancelled"),
        (format!("SELECT status || ': ' || output FROM df.instance_info('{id}')"), "cancelled: enough"),
        (format!("SELECT status FROM df.instances WHERE id = '{id}'"), "cancelled"),
        ("SELECT status FROM df.list_instances()".to_owned(), "cancelled"),
        (
            format!("SELECT string_agg(DISTINCT inferred_status, ' ') FROM df.instance_nodes('{id}')"),
            "skipped",
        ),
    ];
    let other = database.connect(&one(&client, "SELECT current_user").await.unwrap()).await;
    client.batch_execute(&format!("BEGIN; SELECT df.cancel('{id}', 'enough')")).await.unwrap();
    for (sql, expected) in &shown {
        assert_eq!(one(&client, sql).await.as_deref(), Some(*expected), "{sql}");
        assert_ne!(one(&other, sql).await.as_deref(), Some(*expected), "{sql}, before the commit");
    }
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(one(&client, &shown[0].0).await.as_deref(), Some("pending"));
    client.batch_execute(&format!("SELECT df.cancel('{id}', 'enough')")).await.unwrap();
    for (sql, expected) in &shown {
        assert_eq!(one(&other, sql).await.as_deref(), Some(*expected), "{sql}, after the commit");
    }
}
