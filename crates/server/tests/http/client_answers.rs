//! Whatever comes back, or does not, the caller is told what it was and what to do.

use crate::common::Site;
use bytes::Bytes;
use duramen_server::client::{Client, ClientError, Method};

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
    let error = connection.delete::<()>("/taken").await.unwrap_err();
    assert_eq!(error.code(), Some("name_clash"));
    assert_eq!(error.to_string(), "no /taken");
    assert!(matches!(error, ClientError::Refused { status: 409, .. }));
    // A refusal costs nothing but the request.
    assert_eq!(connection.post::<_, Vec<u8>>("/echo", &[1, 2]).await.unwrap(), [1, 2]);
}

#[tokio::test]
async fn answers_that_are_not_understood_are_told_apart_from_refusals() {
    let (site, _work) = Site::open();
    let mut connection = Client::new(site.home()).connect().await.unwrap();
    let error = connection.post::<_, String>("/echo", &[1]).await.unwrap_err();
    assert!(matches!(error, ClientError::BadReply { .. }), "{error}");
    let error = connection.get::<String>("/garbage").await.unwrap_err();
    assert!(matches!(&error, ClientError::Refused { status: 502, .. }), "{error}");
    assert!(error.to_string().contains("<html>"), "{error}");
    let error = connection.get::<String>("no path").await.unwrap_err();
    assert!(matches!(error, ClientError::BadRequest { .. }), "{error}");
}

#[tokio::test]
async fn large_bodies_go_both_ways() {
    let (site, _work) = Site::open();
    let mut connection = Client::new(site.home()).connect().await.unwrap();
    let body = Bytes::from(vec![b'x'; 5 << 20]);
    assert_eq!(connection.send(Method::POST, "/echo", body.clone()).await.unwrap(), body);
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
                    assert_eq!(connection.post::<_, u32>("/echo", &number).await.unwrap(), number);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}
