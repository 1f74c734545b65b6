//! What a turn lets in at once, beside other turns, other instances, and who changes its queue meanwhile.

use crate::common::{database, refusal};
use crate::worker::{execute, start, submitter};

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
