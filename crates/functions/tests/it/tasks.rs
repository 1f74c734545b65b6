//! Steps that programs of the user's do, events that instances tell, and failures that are worth another attempt.

use crate::common::{database, one, refusal, rows};
use crate::worker::{ended, eventually, execute, run, start, submitter, TestWorker, SOON};
use std::time::Duration;
use tokio_postgres::Client;

/// Claims one task; its token and its input.
async fn claim(client: &Client, name: &str, lease_s: f64) -> Option<(String, String)> {
    let sql = format!("SELECT token, input FROM df.claim_tasks('{{{name}}}', {lease_s})");
    let row = rows(client, &sql).await.into_iter().next()?;
    Some((row[0].clone()?, row[1].clone()?))
}

/// The same, when there is one.
async fn claimed(client: &Client, name: &str, lease_s: f64) -> (String, String) {
    for _ in 0..600 {
        if let Some(claimed) = claim(client, name, lease_s).await {
            return claimed;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no task {name}")
}

#[tokio::test]
async fn a_program_does_a_step() {
    let database = database().await;
    let (_, client, owner) = submitter(&database).await;
    let _worker = TestWorker::start(&database, 2).await;
    let id = start(
        &client,
        "('SELECT 7 AS n' |=> 'n') ~> (df.task('resize', '{\"width\": $n, \"name\": \"a\"}') |=> 'r') ~> 'SELECT ($r.size)::int + 1 AS next'",
    )
    .await;
    let (token, input) = claimed(&client, "resize", 60.0).await;
    assert_eq!(input, r#"{"name": "a", "width": 7}"#);
    assert_eq!(claim(&client, "resize", 60.0).await, None, "nobody else has it");
    assert!(one(&client, &format!("SELECT df.explain('{id}')")).await.unwrap().contains("TASK resize"));
    assert_eq!(one(&client, &format!("SELECT df.extend_task('{token}', 60)")).await.as_deref(), Some("t"));
    execute(&client, &[&format!("SELECT df.complete_task('{token}', '{{\"size\": 99}}')")]).await;
    assert!(ended(&client, &id, SOON).await.completed().contains("\"next\":100"));
    let said = refusal(&client, &format!("SELECT df.complete_task('{token}')")).await;
    assert!(said.contains("not wanted any more"), "{said}");
    assert_eq!(one(&owner, "SELECT count(*) FROM df._task").await.as_deref(), Some("0"));
    // A failure is one like others.
    let id = start(
        &client,
        "df.catch(df.task('resize'), 'SELECT $error.sqlstate || '' '' || $error.message AS e')",
    )
    .await;
    let (token, _) = claimed(&client, "resize", 60.0).await;
    execute(&client, &[&format!("SELECT df.fail_task('{token}', 'too large', 'XX001')")]).await;
    assert!(ended(&client, &id, SOON).await.completed().contains("XX001 too large"));
    // One that is given back is had by the next.
    start(&client, "df.task('resize')").await;
    let (token, _) = claimed(&client, "resize", 60.0).await;
    execute(&client, &[&format!("SELECT df.release_task('{token}')")]).await;
    let (next, _) = claimed(&client, "resize", 60.0).await;
    assert_ne!(token, next);
}

/// Of a program that is late and one that took its place, one end counts, and with it what that one wrote.
#[tokio::test]
async fn an_effect_and_its_end_commit_together_once() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    execute(&client, &[&format!("CREATE TABLE {role}.ledger (entry text)")]).await;
    let _worker = TestWorker::start(&database, 2).await;
    let id = start(&client, "df.task('pay')").await;
    let late = database.connect(&role).await;
    let (first, _) = claimed(&late, "pay", 0.2).await;
    execute(&late, &[&format!("BEGIN; INSERT INTO {role}.ledger VALUES ('first')")]).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (second, _) = claimed(&client, "pay", 60.0).await;
    assert_ne!(first, second);
    assert_eq!(one(&client, &format!("SELECT df.extend_task('{first}')")).await.as_deref(), Some("f"));
    let said = refusal(&late, &format!("SELECT df.complete_task('{first}')")).await;
    assert!(said.contains("claimed by somebody else"), "{said}");
    execute(&late, &["ROLLBACK"]).await;
    // This one dies after its effect and before its commit: neither counts.
    let dies = database.connect(&role).await;
    execute(
        &dies,
        &[&format!("BEGIN; INSERT INTO {role}.ledger VALUES ('dead'); SELECT df.complete_task('{second}')")],
    )
    .await;
    drop(dies);
    eventually(&client, &format!("SELECT df.extend_task('{second}', 60)"), "t", SOON).await;
    execute(
        &client,
        &[&format!("BEGIN; INSERT INTO {role}.ledger VALUES ('paid'); SELECT df.complete_task('{second}', '1'); COMMIT")],
    )
    .await;
    ended(&client, &id, SOON).await.completed();
    let all = one(&client, &format!("SELECT string_agg(entry, ' ') FROM {role}.ledger")).await;
    assert_eq!(all.as_deref(), Some("paid"));
}

#[tokio::test]
async fn a_task_that_nobody_needs_is_taken_back() {
    let database = database().await;
    let (_, client, owner) = submitter(&database).await;
    let _worker = TestWorker::start(&database, 2).await;
    let cancelled = start(&client, "df.task('t')").await;
    let (token, _) = claimed(&client, "t", 60.0).await;
    execute(&client, &[&format!("SELECT df.cancel('{cancelled}')")]).await;
    eventually(&client, &format!("SELECT df.extend_task('{token}')"), "f", SOON).await;
    let lost = run(&client, "df.task('t') | df.sleep(0.1)").await;
    lost.completed();
    let late = run(&client, "df.timeout(df.task('t'), 0.1)").await;
    assert!(late.failed().contains("not finished within 0.1 s"));
    assert_eq!(one(&owner, "SELECT count(*) FROM df._task").await.as_deref(), Some("0"));
    // One that is claimed again and again, and never ended, fails.
    let id = start(&client, "df.task('t', max_attempts => 2)").await;
    for _ in 0..2 {
        claimed(&client, "t", 0.1).await;
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert_eq!(claim(&client, "t", 60.0).await, None);
    assert!(ended(&client, &id, SOON).await.failed().contains("claimed 2 times"));
}

/// Nobody sees, claims or ends a task of another role; and what anybody sends by hand ends nothing but a task.
#[tokio::test]
async fn a_task_is_its_roles_own() {
    let database = database().await;
    let (_, client, owner) = submitter(&database).await;
    let mallory = database.role("mallory").await;
    let mallory = database.connect(&mallory).await;
    let worker = TestWorker::start(&database, 2).await;
    let id =
        start(&client, "df.task('t') ~> df.wait_for_signal('go') ~> 'SELECT pg_sleep(0.2), 1 AS n'").await;
    eventually(&client, "SELECT count(*) FROM df._task", "1", SOON).await;
    assert_eq!(claim(&mallory, "t", 60.0).await, None);
    let (token, _) = claimed(&client, "t", 60.0).await;
    assert_eq!(one(&mallory, &format!("SELECT df.extend_task('{token}')")).await.as_deref(), Some("f"));
    for sql in [
        format!("SELECT df.complete_task('{token}')"),
        format!("SELECT df.fail_task('{token}', 'no')"),
        "SELECT df.complete_task('1')".to_owned(),
        "INSERT INTO df._task (seq, cell, submitted_by, name, input, max_attempts) VALUES (1, '0', 10, 't', '1', 1)".to_owned(),
        "DELETE FROM df._task".to_owned(),
        "UPDATE df._task SET input = '1'".to_owned(),
    ] {
        refusal(&mallory, &sql).await;
    }
    execute(&client, &[&format!("SELECT df.complete_task('{token}', '1')")]).await;
    // Her own row, by hand, for a cell that is no task's: nothing has ended by that.
    let forge = format!(
        "INSERT INTO df._inbox (seq, submitted_by, kind, name, data)
         SELECT df._seq('{id}'), quote_ident(current_user)::regrole, 'activity', cell, '{{\"result\": 5}}'
         FROM unnest('{{0,1,2,3,4,3#0,4#0,nonsense}}'::text[]) cell"
    );
    execute(&client, &[&forge]).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(one(&client, &format!("SELECT df.status('{id}')")).await.as_deref(), Some("running"));
    execute(&client, &[&format!("SELECT df.signal('{id}', 'go')")]).await;
    assert!(ended(&client, &id, SOON).await.completed().contains("\"n\":1"));
    assert_eq!(one(&owner, "SELECT count(*) FROM df._task").await.as_deref(), Some("0"));
    drop(worker);
}

#[tokio::test]
async fn an_instance_tells_how_far_it_is() {
    let database = database().await;
    let (_, client, owner) = submitter(&database).await;
    let mallory = database.role("mallory").await;
    let mallory = database.connect(&mallory).await;
    let _worker = TestWorker::start(&database, 2).await;
    let tell =
        |value: &str| format!("'SELECT df.set_event(''{{sys_instance_id}}'', ''progress'', ''{value}'')'");
    let id = start(&client, &format!("{} ~> df.wait_for_signal('go') ~> {}", tell("50"), tell("100"))).await;
    let get = format!("SELECT df.get_event('{id}', 'progress', 20)");
    assert_eq!(one(&client, &get).await.as_deref(), Some("50"));
    assert_eq!(one(&client, &format!("SELECT df.get_event('{id}', 'other', 0.05)")).await, None);
    assert!(refusal(&mallory, &get).await.contains("not found or access denied"));
    let number = one(&owner, &format!("SELECT df._seq('{id}')")).await.unwrap();
    let said =
        refusal(&mallory, &format!("INSERT INTO df._event (seq, key, value) VALUES ({number}, 'k', '1')"))
            .await;
    assert!(said.contains("row-level security"), "{said}");
    execute(&client, &[&format!("SELECT df.signal('{id}', 'go')")]).await;
    ended(&client, &id, SOON).await.completed();
    let events = format!("SELECT string_agg(key || '=' || value, ' ') FROM df.events('{id}')");
    assert_eq!(one(&client, &events).await.as_deref(), Some("progress=100"));
    let many = format!("SELECT count(df.set_event('{id}', 'k' || g, '1')) FROM generate_series(1, 1000) g");
    let said = refusal(&client, &many).await;
    assert!(said.contains("takes no more"), "{said}");
    execute(&client, &[&format!("SELECT df.delete('{id}')")]).await;
    assert_eq!(one(&owner, "SELECT count(*) FROM df._event").await.as_deref(), Some("0"));
}

#[tokio::test]
async fn some_failures_are_not_worth_another_attempt() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    execute(&client, &[&format!("CREATE TABLE {role}.tries (n int); CREATE SEQUENCE {role}.tried")]).await;
    let _worker = TestWorker::start(&database, 2).await;
    let step = format!("'SELECT 1 / (0 * nextval(''{role}.tried''))'");
    for (states, tries) in [("{40,08}", "1"), ("{22}", "4"), ("{22012}", "7"), ("{22013}", "8"), ("{}", "11")]
    {
        run(&client, &format!("df.retry({step}, 3, 0.01, 0.01, 1, 0, '{states}')")).await.failed();
        let tried = format!("SELECT last_value FROM {role}.tried");
        assert_eq!(one(&client, &tried).await.as_deref(), Some(tries), "{states}");
    }
    let said = refusal(&client, "SELECT df.start(df.retry('SELECT 1', sqlstates => '{abc}'))").await;
    assert!(said.contains("codes of five characters"), "{said}");
}
