//! The text of a role's executor is made of a template. What is filled in must not touch what the template says.

use crate::common::{self, one, refusal};
use crate::worker::{execute, run_step, submitter, TestWorker};

/// A message that named the submitter by a word of the template would name a number instead.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_places_to_fill_are_filled() {
    let database = common::database().await;
    let (alice, client, owner) = submitter(&database).await;
    let _worker = TestWorker::start(&database, 2).await;
    run_step(&client, "SELECT 1").await.completed();
    let oid = one(&owner, &format!("SELECT '{alice}'::regrole::oid")).await.expect("her number");
    let template = one(&owner, "SELECT df_run.executor_body()").await.expect("the template");
    for place in ["{{submitter}}", "{{before_step}}", "{{after_step}}"] {
        assert_eq!(template.matches(place).count(), 1, "{place}");
    }
    assert_eq!(template.matches("{{").count(), 3, "nothing else looks like a place to fill");
    let source = one(&owner, &format!("SELECT prosrc FROM pg_proc WHERE proname = 'r{oid}'")).await;
    let source = source.expect("the executor");
    assert!(!source.contains("{{") && !source.contains("}}"), "{source}");
    assert!(source.contains(&format!("pg_get_userbyid({oid}) IS DISTINCT FROM current_user")), "{source}");
    assert_eq!(source.matches(&oid).count(), 1, "the number stands in one place only: {source}");
}

/// Nobody who reads the refusal knows a role by its number.
#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_changed_hands_says_so_in_words() {
    let database = common::database().await;
    let (alice, client, owner) = submitter(&database).await;
    let worker = TestWorker::start(&database, 2).await;
    run_step(&client, "SELECT 1").await.completed();
    worker.kill();
    let oid = one(&owner, &format!("SELECT '{alice}'::regrole::oid")).await.expect("her number");
    let signature = "(text[], boolean[], text[], double precision, bigint, boolean)";
    execute(&owner, &[&format!("ALTER FUNCTION df_run.r{oid}{signature} OWNER TO CURRENT_USER")]).await;
    let call = format!("SELECT df_run.r{oid}('{{SELECT 1}}', '{{f}}', '{{}}', 1, 1, true)");
    let refused = refusal(&owner, &call).await;
    assert!(refused.contains("this executor does not run as its submitter: drop it"), "{refused}");
}
