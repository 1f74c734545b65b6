//! What a turn lets in at once, beside other turns, other instances, and who changes its queue meanwhile.

use crate::common::{database, one, refusal};
use crate::worker::{ended, execute, start, submitter};
use std::time::Duration;

/// Limits: a partition has up to 200 characters, however simple the start is.
#[tokio::test]
async fn a_partition_that_is_too_long_is_refused() {
    let database = database().await;
    let (_, client, _) = submitter(&database).await;
    execute(&client, &["SELECT df.queue('q')", "SELECT df.start('SELECT 1')"]).await;
    let refused =
        refusal(&client, "SELECT df.start('SELECT 1', queue => 'q', partition => repeat('x', 201))").await;
    assert!(refused.contains("200 characters"), "{refused}");
    start(&client, "'SELECT 1', queue => 'q', partition => repeat('x', 200)").await;
}

/// Invariant F-23: who has cancelled an instance that waits sees that, also in a list that was asked for before it ended.
#[tokio::test]
async fn a_list_shows_who_was_cancelled_by_one_snapshot() {
    let database = database().await;
    let (role, client, owner) = submitter(&database).await;
    let ready = start(&client, "'SELECT 1'").await;
    execute(&client, &[&format!("SELECT df.cancel('{ready}')")]).await;
    let listing = database.connect(&role).await;
    for list in [
        "SELECT f.status FROM (SELECT pg_sleep(1) OFFSET 0) s, LATERAL df.find_instances(limit_count => CASE WHEN s IS NULL THEN 1 ELSE 9 END) f",
        "SELECT f.status FROM (SELECT pg_sleep(1) OFFSET 0) s, LATERAL df.list_instances(limit_count => CASE WHEN s IS NULL THEN 1 ELSE 9 END) f",
    ] {
        let asked = tokio::join!(one(&listing, list), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            execute(&owner, &["CREATE TEMPORARY TABLE kept AS SELECT * FROM df._inbox", "DELETE FROM df._inbox"]).await;
        });
        assert_eq!(asked.0.as_deref(), Some("cancelled"), "{list}");
        execute(&owner, &["INSERT INTO df._inbox OVERRIDING SYSTEM VALUE SELECT * FROM kept", "DROP TABLE kept"]).await;
    }
}
