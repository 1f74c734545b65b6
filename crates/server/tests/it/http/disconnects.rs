//! Without this, a client that leaves would keep its statement running in the branch.

use super::common::{body, echo, query_text, Site, Work};
use duramen_client::{Client, ClientError};
use std::time::Duration;
use tokio::{io::AsyncWriteExt, net::UnixStream, time::timeout};

const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_closed_connection_drops_what_its_request_was_doing() {
    let (site, mut work) = Site::open();
    for request in [
        "POST /hang HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc",
        "GET /hang HTTP/1.1\r\nhost: x\r\n\r\n",
    ] {
        let mut stream = UnixStream::connect(site.socket()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        work.expect(Work::Started).await;
        drop(stream);
        work.expect(Work::Dropped).await;
    }
}

#[tokio::test]
async fn dropping_a_request_of_the_client_drops_what_it_was_doing() {
    let (site, mut work) = Site::open();
    let mut connection = Client::new(site.home()).connect().await.unwrap();
    {
        let request = query_text(&mut connection, "hang", "select 1");
        tokio::select! {
            result = request => panic!("it never answers: {result:?}"),
            () = work.expect(Work::Started) => {}
        }
    }
    work.expect(Work::Dropped).await;
    // The same connection value goes on with a new socket.
    assert_eq!(echo(&mut connection, "select 1").await, body("select 1"));
}

#[tokio::test]
async fn a_deadline_that_passes_drops_what_the_request_was_doing() {
    let (site, mut work) = Site::open();
    let client = Client::new(site.home()).with_deadline(Duration::from_millis(100));
    let mut connection = client.connect().await.unwrap();
    let error = query_text(&mut connection, "hang", "select 1").await.unwrap_err();
    assert!(matches!(error, ClientError::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("POST /v1/branches/hang/query"), "{error}");
    work.expect(Work::Started).await;
    work.expect(Work::Dropped).await;
}

#[tokio::test]
async fn stopping_waits_for_requests_that_end() {
    let (mut site, mut work) = Site::open();
    let mut connection = Client::new(site.home()).connect().await.unwrap();
    let reply = tokio::spawn(async move { query_text(&mut connection, "slow", "select 1").await });
    work.expect(Work::Started).await;
    site.stop();
    assert_eq!(reply.await.unwrap().unwrap(), "slow");
    timeout(LIMIT, site.ended()).await.unwrap();
}

#[tokio::test]
async fn stopping_does_not_wait_for_idle_connections_and_refuses_new_ones() {
    let (mut site, _work) = Site::open();
    let client = Client::new(site.home());
    let mut connection = client.connect().await.unwrap();
    echo(&mut connection, "select 1").await;
    site.stop();
    timeout(Duration::from_secs(2), site.ended()).await.unwrap();
    assert!(matches!(client.connect().await.unwrap_err(), ClientError::NotRunning { .. }));
    // The kept connection finds out, and says the same.
    let error = query_text(&mut connection, "echo", "select 1").await.unwrap_err();
    assert!(matches!(error, ClientError::NotRunning { .. }), "{error}");
}

#[tokio::test]
async fn stopping_drops_requests_that_never_end() {
    let (mut site, mut work) = Site::open();
    let mut connection = Client::new(site.home()).connect().await.unwrap();
    let reply = tokio::spawn(async move { query_text(&mut connection, "hang", "select 1").await });
    work.expect(Work::Started).await;
    site.stop();
    work.expect(Work::Dropped).await;
    assert!(matches!(reply.await.unwrap().unwrap_err(), ClientError::Broken { .. }));
    timeout(LIMIT, site.ended()).await.unwrap();
}
