//! Whatever comes back, or does not, the caller is told what it was and what to do.

use super::common::{body, echo, request, Site};
use duramen_client::{Client, ClientError};

#[tokio::test]
async fn without_a_daemon_the_command_that_starts_one_is_named() {
    let home = tempfile::tempdir().unwrap();
    let error = Client::new(home.path()).connect().await.unwrap_err();
    assert!(matches!(error, ClientError::NotRunning { .. }), "{error}");
    let next = format!("duramen serve --home {}", home.path().display());
    assert!(error.to_string().contains(&next), "{error}");
}

#[tokio::test]
async fn refusals_keep_status_and_reason() {
    let (site, _work) = Site::open();
    let mut connection = Client::new(site.home()).connect().await.unwrap();
    let error = connection.destroy_branch("taken").await.unwrap_err();
    assert_eq!(error.code(), Some("name_clash"));
    assert_eq!(error.to_string(), "no /v1/branches/taken");
    assert!(matches!(error, ClientError::Refused { status: 409, .. }));
    // A refusal costs nothing but the request.
    assert_eq!(echo(&mut connection, "[1, 2]").await, body("[1, 2]"));
}

#[tokio::test]
async fn answers_that_are_not_understood_are_told_apart_from_refusals() {
    let (site, _work) = Site::open();
    let mut connection = Client::new(site.home()).connect().await.unwrap();
    let error = connection.query("echo", &request("[1]")).await.unwrap_err();
    assert!(matches!(error, ClientError::BadReply { .. }), "{error}");
    let error = connection.branch("garbage").await.unwrap_err();
    assert!(matches!(&error, ClientError::Refused { status: 502, .. }), "{error}");
    assert!(error.to_string().contains("<html>"), "{error}");
    // Longer than any path may be.
    let error = connection.branch(&"x".repeat(70_000)).await.unwrap_err();
    assert!(matches!(error, ClientError::BadRequest { .. }), "{error}");
}

#[tokio::test]
async fn large_bodies_go_both_ways() {
    let (site, _work) = Site::open();
    let mut connection = Client::new(site.home()).connect().await.unwrap();
    let sql = "x".repeat(5 << 20);
    assert_eq!(echo(&mut connection, &sql).await, body(&sql));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_connect_at_once_and_each_gets_its_own_answer() {
    let (site, _work) = Site::open();
    let client = Client::new(site.home());
    let tasks: Vec<_> = (0..1000_u32)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut connection = client.connect().await.unwrap();
                for _ in 0..3 {
                    let number = number.to_string();
                    assert_eq!(echo(&mut connection, &number).await, body(&number));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}
