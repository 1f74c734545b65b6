//! Resuming what failed, and forking what has ended: what completed is not done again, whatever happens meanwhile.

use crate::common::{database, one, refusal, rows};
use crate::worker::{ended, eventually, execute, literal, start, submitter, TestWorker, SOON};
use tokio_postgres::Client;

async fn ledger(client: &Client, role: &str) {
    execute(
        client,
        &[&format!("CREATE TABLE {role}.ledger (entry text, at timestamptz DEFAULT clock_timestamp())")],
    )
    .await;
}

fn entry(role: &str, text: &str) -> String {
    literal(&format!("INSERT INTO {role}.ledger VALUES ({text}) RETURNING entry"))
}

async fn entries(client: &Client, role: &str) -> String {
    let sql = format!("SELECT coalesce(string_agg(entry, ' ' ORDER BY at), '') FROM {role}.ledger");
    one(client, &sql).await.unwrap_or_default()
}

#[tokio::test]
async fn what_failed_goes_on_where_it_failed() {
    let database = database().await;
    let (role, client, owner) = submitter(&database).await;
    ledger(&client, &role).await;
    let _worker = TestWorker::start(&database, 2).await;
    let function = format!(
        "({} |=> 'a') ~> ({} & {}) ~> {} ~> {}",
        entry(&role, "'a'"),
        entry(&role, "$a || 'b'"),
        entry(&role, "'c'"),
        literal(&format!("INSERT INTO {role}.missing VALUES (1)")),
        entry(&role, "$a || 'd'"),
    );
    let id = start(&client, &format!("{function}, label => 'l'")).await;
    assert!(ended(&client, &id, SOON).await.failed().contains("missing"));
    // It fails again where it failed.
    execute(&client, &[&format!("SELECT df.resume('{id}')")]).await;
    assert!(ended(&client, &id, SOON).await.failed().contains("missing"));
    assert_eq!(entries(&client, &role).await.split(' ').count(), 3);
    execute(
        &client,
        &[&format!("CREATE TABLE {role}.missing (n int)"), &format!("SELECT df.resume('{id}')")],
    )
    .await;
    assert!(ended(&client, &id, SOON).await.completed().contains("\"ad\""));
    let mut all: Vec<String> = entries(&client, &role).await.split(' ').map(str::to_owned).collect();
    all.sort();
    assert_eq!(all, ["a", "ab", "ad", "c"]);
    let nodes = format!("SELECT string_agg(DISTINCT status, ' ') FROM df.instance_nodes('{id}')");
    assert_eq!(one(&client, &nodes).await.as_deref(), Some("completed"));
    let said = refusal(&client, &format!("SELECT df.resume('{id}')")).await;
    assert!(said.contains("it is completed"), "{said}");
    assert_eq!(one(&owner, "SELECT count(*) FROM df._request").await.as_deref(), Some("0"));
}

#[tokio::test]
async fn a_text_that_was_wrong_can_be_changed() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    ledger(&client, &role).await;
    let _worker = TestWorker::start(&database, 2).await;
    let id = start(
        &client,
        &format!("({} |=> 'a') ~> 'SELECT $a || 1/0' ~> 'SELECT 7 AS n'", entry(&role, "'a'")),
    )
    .await;
    ended(&client, &id, SOON).await.failed();
    execute(&client, &[&format!("SELECT df.resume('{id}', step => 'SELECT $a || ''!''')")]).await;
    assert!(ended(&client, &id, SOON).await.completed().contains("\"n\":7"));
    assert_eq!(entries(&client, &role).await, "a");
    // One step alone.
    let lone = start(&client, "'SELECT 1/0'").await;
    ended(&client, &lone, SOON).await.failed();
    execute(&client, &[&format!("SELECT df.resume('{lone}', step => 'SELECT 5 AS n')")]).await;
    assert!(ended(&client, &lone, SOON).await.completed().contains("\"n\":5"));
    let wait = start(&client, "df.timeout(df.wait_for_signal('never'), 0.05)").await;
    ended(&client, &wait, SOON).await.failed();
    let said = refusal(&client, &format!("SELECT df.resume('{wait}', step => 'SELECT 1')")).await;
    assert!(said.contains("only the text of a SQL step can be changed"), "{said}");
}

#[tokio::test]
async fn a_fork_begins_behind_what_was_done() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    ledger(&client, &role).await;
    let _worker = TestWorker::start(&database, 2).await;
    let function = format!(
        "({} |=> 'a') ~> ({} |=> 'b') ~> {}",
        entry(&role, "'a'"),
        entry(&role, "$a || 'b'"),
        entry(&role, "$b || 'c'")
    );
    let id = start(&client, &function).await;
    ended(&client, &id, SOON).await.completed();
    let fork = |arguments: &str| format!("SELECT df.fork('{id}', {arguments})");
    let second = one(&client, &fork("'b', label => 'again'")).await.unwrap();
    assert_ne!(second, id);
    ended(&client, &second, SOON).await.completed();
    assert_eq!(entries(&client, &role).await, "a ab abc ab abc");
    let changed =
        literal(&format!("INSERT INTO {role}.ledger VALUES (''x'') RETURNING entry").replace("''", "'"));
    let third = one(&client, &fork(&format!("'b', step => {changed}"))).await.unwrap();
    assert!(ended(&client, &third, SOON).await.completed().contains("\"xc\""));
    // The original is as it was.
    assert!(one(&client, &format!("SELECT df.explain('{id}')")).await.unwrap().contains("|| 'b'"));
    let whole = one(&client, &format!("SELECT df.fork('{id}')")).await.unwrap();
    assert_eq!(
        ended(&client, &whole, SOON).await.completed(),
        ended(&client, &id, SOON).await.completed(),
        "all of it was done"
    );
    assert_eq!(entries(&client, &role).await, "a ab abc ab abc x xc");
    let labels = "SELECT count(*) FROM df.instances WHERE label = 'again'";
    assert_eq!(one(&client, labels).await.as_deref(), Some("1"));
    for (arguments, reason) in [
        ("'nothing'", "has no step nothing"),
        ("'b', step => NULL, label => repeat('x', 2000)", "1000 bytes"),
    ] {
        let said = refusal(&client, &fork(arguments)).await;
        assert!(said.contains(reason), "{said}");
    }
}

/// Items of a `df.map` that are done stay done, though the instance failed or was cancelled and its worker was killed.
#[tokio::test]
async fn items_that_are_done_are_not_done_twice() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    ledger(&client, &role).await;
    execute(&client, &[&format!("CREATE TABLE {role}.gate (open bool)")]).await;
    let worker = TestWorker::start(&database, 2).await;
    let body = format!(
        "{} ~> df.sql('SELECT 1 / (CASE WHEN $item < 5 OR EXISTS (SELECT FROM {role}.gate) THEN 1 ELSE 0 END)')",
        entry(&role, "$item"),
    );
    let id = start(
        &client,
        &format!(
            "df.map('SELECT g::text FROM generate_series(1, 9) g', {}, parallelism => 2)",
            body.replace("$item <", "$item::int <")
        ),
    )
    .await;
    ended(&client, &id, SOON).await.failed();
    worker.kill();
    let before = entries(&client, &role).await;
    assert!(before.contains('5') && !before.contains('9'), "{before}");
    execute(
        &client,
        &[&format!("INSERT INTO {role}.gate VALUES (true)"), &format!("SELECT df.resume('{id}')")],
    )
    .await;
    let _worker = TestWorker::start(&database, 2).await;
    ended(&client, &id, SOON).await.completed();
    let mut all: Vec<String> = entries(&client, &role).await.split(' ').map(str::to_owned).collect();
    all.sort();
    assert_eq!(all, ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);

    let waits = format!(
        "df.map('SELECT g FROM generate_series(1, 3) g', {} ~> df.wait_for_signal('go' ), parallelism => 1)",
        entry(&role, "'w' || $item")
    );
    let id = start(&client, &waits).await;
    eventually(&client, &format!("SELECT count(*) FROM {role}.ledger WHERE entry = 'w1'"), "1", SOON).await;
    execute(&client, &[&format!("SELECT df.signal('{id}', 'go')")]).await;
    eventually(&client, &format!("SELECT count(*) FROM {role}.ledger WHERE entry = 'w2'"), "1", SOON).await;
    execute(&client, &[&format!("SELECT df.cancel('{id}')")]).await;
    assert_eq!(ended(&client, &id, SOON).await.status, "cancelled");
    execute(&client, &[&format!("SELECT df.resume('{id}')")]).await;
    for _ in 0..2 {
        execute(&client, &[&format!("SELECT df.signal('{id}', 'go')")]).await;
    }
    ended(&client, &id, SOON).await.completed();
    let twice = format!(
        "SELECT count(*) FROM (SELECT entry FROM {role}.ledger GROUP BY entry HAVING count(*) > 1) x"
    );
    assert_eq!(one(&client, &twice).await.as_deref(), Some("0"));
}

#[tokio::test]
async fn a_loop_at_the_root_goes_on_in_its_execution() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    ledger(&client, &role).await;
    execute(&client, &[&format!("CREATE TABLE {role}.gate (open bool)")]).await;
    let _worker = TestWorker::start(&database, 2).await;
    let check = literal(&format!(
        "SELECT 1 / (CASE WHEN (SELECT count(*) FROM {role}.ledger) < 2 OR EXISTS (SELECT FROM {role}.gate) THEN 1 ELSE 0 END)"
    ));
    let more = literal(&format!("SELECT count(*) < 3 FROM {role}.ledger"));
    let id = start(&client, &format!("df.loop({} ~> {check}, {more})", entry(&role, "'x'"))).await;
    ended(&client, &id, SOON).await.failed();
    execute(
        &client,
        &[&format!("INSERT INTO {role}.gate VALUES (true)"), &format!("SELECT df.resume('{id}')")],
    )
    .await;
    ended(&client, &id, SOON).await.completed();
    assert_eq!(entries(&client, &role).await, "x x x");
    let executions =
        rows(&client, &format!("SELECT execution_id, status FROM df.instance_executions('{id}') ORDER BY 1"))
            .await;
    let statuses: Vec<_> = executions.iter().map(|row| row[1].clone().unwrap()).collect();
    assert_eq!(statuses, ["ContinuedAsNew", "ContinuedAsNew", "Completed"]);
}

#[tokio::test]
async fn it_is_taken_up_once_by_whom_it_belongs_to() {
    let database = database().await;
    let (role, client, owner) = submitter(&database).await;
    ledger(&client, &role).await;
    let worker = TestWorker::start(&database, 2).await;
    let parent =
        start(&client, &format!("{} ~> df.call('SELECT 1/0', label => 'child')", entry(&role, "'p'"))).await;
    ended(&client, &parent, SOON).await.failed();
    let child = one(&client, "SELECT id FROM df.instances WHERE label = 'child'").await.unwrap();
    let said = refusal(&client, &format!("SELECT df.resume('{child}')")).await;
    assert!(said.contains(&format!("is a child of instance {parent}")), "{said}");
    let mallory = database.role("mallory").await;
    let mallory = database.connect(&mallory).await;
    let number = one(&owner, &format!("SELECT df._seq('{parent}')")).await.unwrap();
    let forged = format!(
        "WITH r AS (INSERT INTO df._request (submitted_by, action, arguments)
             VALUES (quote_ident(current_user)::regrole, 'fork', '{{\"seq\": {number}}}') RETURNING id)
         SELECT id FROM r"
    );
    for sql in [format!("SELECT df.resume('{parent}')"), format!("SELECT df.fork('{parent}')")] {
        assert!(refusal(&mallory, &sql).await.contains("not found or access denied"));
    }
    let request = one(&mallory, &forged).await.unwrap();
    let said = refusal(&mallory, &format!("SELECT df._revive_rows({request})")).await;
    assert!(said.contains("access denied"), "{said}");
    // Two at once: one waits for the other, and is told.
    let beside = database.connect(&role).await;
    execute(&client, &[&format!("BEGIN; SELECT df.resume('{parent}')")]).await;
    let sql = format!("SELECT df.resume('{parent}')");
    let racing = tokio::spawn(async move { refusal(&beside, &sql).await });
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(!racing.is_finished());
    execute(&client, &["COMMIT"]).await;
    let said = racing.await.unwrap();
    assert!(said.contains("taken up by somebody else"), "{said}");
    ended(&client, &parent, SOON).await.failed();
    assert_eq!(entries(&client, &role).await, "p");
    // Undone with its transaction.
    execute(&client, &[&format!("BEGIN; SELECT df.resume('{parent}'); ROLLBACK")]).await;
    assert_eq!(one(&client, &format!("SELECT df.status('{parent}')")).await.as_deref(), Some("failed"));
    // The owner may take up what belongs to others; it goes on as theirs.
    execute(&owner, &[&format!("SELECT df.resume('{parent}')")]).await;
    ended(&client, &parent, SOON).await.failed();
    drop(worker);
}
