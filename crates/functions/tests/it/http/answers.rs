//! What the envelope holds.

use duramen_functions::http::perform;

use super::server::{get, open, raw_server, result, to, Server};

#[tokio::test]
async fn an_envelope_has_its_fields_in_order() {
    let server = Server::start().await;
    let mut call = to(server.port, "/echo");
    call.method = "POST".to_owned();
    call.body = Some("hello".to_owned());
    let json = perform(&call, &open()).await.unwrap();
    let start = r#"{"status":200,"body":"hello","encoding":"text","headers":{"content-length":"5","#;
    assert!(json.text().starts_with(start), "{}", json.text());
    let end = json.text().find(r#"},"ok":true,"duration_ms":"#).unwrap();
    assert!(json.text()[end..].ends_with('}'), "{}", json.text());

    let envelope = result(&call).await;
    assert_eq!(envelope.headers["content-type"], "text/plain");
    assert!(envelope.duration_ms < 20_000);
}

#[tokio::test]
async fn time_is_measured_in_milliseconds() {
    // The body ends when the connection does: after the time that the server holds it, which the client waits for.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut stream, _) = listener.accept().await.unwrap();
        drop(stream.read(&mut [0; 4096]).await);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\na").await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        stream.write_all(b"b").await.unwrap();
    });
    let envelope = result(&to(port, "/")).await;
    assert_eq!(envelope.body, "ab");
    assert!((300..20_000).contains(&envelope.duration_ms), "{}", envelope.duration_ms);
}

#[tokio::test]
async fn a_4xx_answer_is_a_result_that_is_not_ok() {
    let server = Server::start().await;
    for status in [400, 401, 404, 418, 429, 499] {
        let envelope = result(&to(server.port, &format!("/status/{status}"))).await;
        assert_eq!((envelope.status, envelope.ok), (status, false));
        assert_eq!(envelope.body, "the  reason\r\nis this");
    }
}

#[tokio::test]
async fn every_2xx_answer_is_ok() {
    let server = Server::start().await;
    for status in [200, 201, 202, 204, 206] {
        let envelope = result(&to(server.port, &format!("/status/{status}"))).await;
        assert_eq!((envelope.status, envelope.ok), (status, true));
    }
    assert_eq!(result(&to(server.port, "/status/204")).await.body, "");
}

#[tokio::test]
async fn a_redirect_is_a_result_and_is_not_followed() {
    let server = Server::start().await;
    let envelope = result(&to(server.port, "/redirect")).await;
    assert_eq!((envelope.status, envelope.ok, envelope.body.as_str()), (302, false, "moved"));
    assert_eq!(envelope.headers["location"], "/echo");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn text_is_given_as_it_is_and_other_bytes_in_base64() {
    let server = Server::start().await;
    let envelope = result(&to(server.port, "/unicode")).await;
    assert_eq!((envelope.encoding.as_str(), envelope.body.as_str()), ("text", "gr\u{fc}n \"q\" \u{1f332}\n"));
    let envelope = result(&to(server.port, "/binary")).await;
    assert_eq!((envelope.encoding.as_str(), envelope.body.as_str()), ("base64", "/wD+"));
    // PostgreSQL's jsonb cannot hold this character.
    let envelope = result(&to(server.port, "/nul")).await;
    assert_eq!((envelope.encoding.as_str(), envelope.body.as_str()), ("base64", "YQBi"));
}

#[tokio::test]
async fn repeated_headers_are_joined() {
    let server = Server::start().await;
    let envelope = result(&to(server.port, "/headers")).await;
    assert_eq!(envelope.headers["x-twice"], "one, two");
    assert_eq!(envelope.headers["x-latin"], "\u{fffd}");
}

#[tokio::test]
async fn a_body_of_just_the_limit_is_given() {
    let server = Server::start().await;
    assert_eq!(result(&to(server.port, "/large")).await.body.len(), 16 * 1024 * 1024);
}

#[tokio::test]
async fn an_answer_without_a_length_ends_with_its_connection() {
    let port = raw_server(b"HTTP/1.1 200 OK\r\n\r\nall of it".to_vec(), false).await;
    assert_eq!(result(&to(port, "/")).await.body, "all of it");
}

#[tokio::test]
async fn a_name_with_private_addresses_can_be_opened() {
    let server = Server::start().await;
    for host in ["localhost", "LOCALHOST"] {
        let envelope = result(&get(format!("http://{host}:{}/echo", server.port))).await;
        assert_eq!(envelope.status, 200, "{host}");
    }
    assert_eq!(server.seen()[0].headers["host"], format!("localhost:{}", server.port));
}
