//! What the server receives.

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use duramen_functions::http::{HttpCall, Part};

use super::server::{fails, open, result, to, Server};

fn part(name: &str, data: &[u8]) -> Part {
    Part { name: name.to_owned(), data_b64: STANDARD.encode(data), ..Part::default() }
}

fn multipart(port: u16, parts: Vec<Part>) -> HttpCall {
    HttpCall { method: "POST".to_owned(), parts: Some(parts), ..to(port, "/echo") }
}

#[tokio::test]
async fn method_target_headers_and_body_arrive() {
    let server = Server::start().await;
    for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "patch"] {
        let mut call = to(server.port, "/echo?a=1&b=%20#fragment");
        call.method = method.to_owned();
        call.body = Some("{\"k\":\"gr\u{fc}n\"}".to_owned());
        call.headers.insert("Content-Type".to_owned(), "application/json".to_owned());
        call.headers.insert("X-Key".to_owned(), "secret".to_owned());
        assert!(result(&call).await.ok);
        let seen = server.seen().pop().unwrap();
        assert_eq!((seen.method, seen.target.as_str()), (method.to_uppercase(), "/echo?a=1&b=%20"));
        assert_eq!(seen.body, call.body.unwrap());
        assert_eq!(seen.headers["content-type"], "application/json");
        assert_eq!(seen.headers["x-key"], "secret");
        assert!(seen.headers["user-agent"].to_str().unwrap().starts_with("duramen/"));
        for absent in ["cookie", "referer", "proxy-connection", "accept-encoding", "transfer-encoding"] {
            assert!(!seen.headers.contains_key(absent), "{absent}");
        }
    }
}

#[tokio::test]
async fn the_user_agent_can_be_chosen() {
    let server = Server::start().await;
    let mut call = to(server.port, "/echo");
    call.headers.insert("user-agent".to_owned(), "mine/1".to_owned());
    result(&call).await;
    let seen = server.seen().pop().unwrap();
    assert_eq!(seen.headers.get_all("user-agent").iter().count(), 1);
    assert_eq!(seen.headers["user-agent"], "mine/1");
}

#[tokio::test]
async fn connections_are_used_again() {
    let server = Server::start().await;
    for _ in 0..5 {
        result(&to(server.port, "/echo")).await;
    }
    let seen = server.seen();
    assert!(seen.iter().all(|request| request.peer == seen[0].peer), "{seen:?}");
}

#[tokio::test]
async fn parts_arrive_as_a_form() {
    let server = Server::start().await;
    let mut file = part("the \"file\"\r\n", b"\x00\xff--duramen-\r\n");
    file.filename = Some("gr\u{fc}n\".bin".to_owned());
    file.content_type = Some("application/octet-stream".to_owned());
    for method in ["POST", "PUT", "PATCH"] {
        let mut call = multipart(server.port, vec![part("field", b"value"), file.clone()]);
        call.method = method.to_owned();
        assert!(result(&call).await.ok);
        let seen = server.seen().pop().unwrap();
        let kind = seen.headers["content-type"].to_str().unwrap();
        let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
        let mut expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"field\"\r\n\r\nvalue\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"the %22file%22%0D%0A\"; \
             filename=\"gr\u{fc}n%22.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n"
        )
        .into_bytes();
        expected.extend_from_slice(b"\x00\xff--duramen-\r\n");
        expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert_eq!(seen.body, expected);
    }
}

#[tokio::test]
async fn base64_may_be_broken_into_lines_or_lack_its_padding() {
    let server = Server::start().await;
    for data in ["YWJj\nZGU=", "YWJjZGU", " YWJj\r\nZGU= \n"] {
        let part = Part { name: "p".to_owned(), data_b64: data.to_owned(), ..Part::default() };
        assert!(result(&multipart(server.port, vec![part])).await.ok);
        let body = server.seen().pop().unwrap().body;
        assert!(body.windows(9).any(|bytes| bytes == b"\r\n\r\nabcde"), "{data:?}");
    }
}

#[tokio::test]
async fn parts_that_cannot_be_sent_are_named() {
    let port = 9;
    let policy = open();
    let bad = Part { name: "p".to_owned(), data_b64: "$x".to_owned(), ..Part::default() };
    let call = multipart(port, vec![part("a", b"a"), bad]);
    fails(&call, &policy, "22023", &["df.http_multipart() POST 127.0.0.1:9", "part 2 is not base64"]).await;

    let mut kind = part("p", b"x");
    kind.content_type = Some("text/plain\r\nX-Injected: 1".to_owned());
    fails(&multipart(port, vec![kind]), &policy, "22023", &["content_type of part 1"]).await;

    fails(&multipart(port, Vec::new()), &policy, "22023", &["at least one part"]).await;

    let mut call = multipart(port, vec![part("p", b"x")]);
    call.body = Some(String::new());
    fails(&call, &policy, "22023", &["a body or parts, not both"]).await;

    let mut call = multipart(port, vec![part("p", b"x")]);
    call.method = "DELETE".to_owned();
    fails(&call, &policy, "22023", &["a multipart request cannot be DELETE"]).await;

    let mut call = multipart(port, vec![part("p", b"x")]);
    call.headers.insert("content-type".to_owned(), "text/plain".to_owned());
    fails(&call, &policy, "22023", &["makes its own Content-Type"]).await;

    let large = vec![b'x'; 9 * 1024 * 1024];
    let call = multipart(port, vec![part("a", &large), part("b", &large)]);
    fails(&call, &policy, "54000", &["more than 16777216 bytes"]).await;
}

#[tokio::test]
async fn requests_have_limits() {
    let policy = open();
    let mut call = to(9, "/");
    call.method = "POST".to_owned();
    call.body = Some("x".repeat(16 * 1024 * 1024 + 1));
    fails(&call, &policy, "54000", &["df.http() POST 127.0.0.1:9", "more than 16777216 bytes"]).await;

    let call = to(9, &format!("/{}", "x".repeat(33_000)));
    fails(&call, &policy, "54000", &["and may have 32768"]).await;

    let mut call = to(9, "/");
    call.headers = (0..101).map(|n| (format!("x-{n}"), String::new())).collect();
    fails(&call, &policy, "54000", &["has 101 headers and may have 100"]).await;

    let mut call = to(9, "/");
    call.headers.insert("x".to_owned(), "x".repeat(65_536));
    fails(&call, &policy, "54000", &["have 65537 bytes and may have 65536"]).await;

    for timeout_s in [0, 3601] {
        let call = HttpCall { timeout_s, ..to(9, "/") };
        fails(&call, &policy, "22023", &["must be from 1 to 3600"]).await;
    }
}

#[tokio::test]
async fn a_body_of_just_the_limit_is_sent() {
    let server = Server::start().await;
    let mut call = to(server.port, "/echo");
    call.method = "PUT".to_owned();
    call.body = Some("x".repeat(16 * 1024 * 1024));
    assert_eq!(result(&call).await.body.len(), 16 * 1024 * 1024);
}

#[tokio::test]
async fn headers_that_frame_messages_or_break_lines_are_refused() {
    let policy = open();
    for name in ["Host", "content-length", "Transfer-Encoding", "Connection", "Upgrade", "TE", "Expect"] {
        let mut call = to(9, "/");
        call.headers.insert(name.to_owned(), "1".to_owned());
        fails(&call, &policy, "22023", &[&format!("the header {name:?} cannot be set")]).await;
    }
    for value in ["secret\r\nX-Injected: 1", "secret\n", "secret\0"] {
        let mut call = to(9, "/");
        call.headers.insert("x".to_owned(), value.to_owned());
        fails(&call, &policy, "22023", &["the header \"x\" has a value with control characters"]).await;
        assert!(!super::server::failure(&call, &policy).await.message.contains("secret"));
    }
    for name in ["", "a b", "a:b", "a\r\nb"] {
        let mut call = to(9, "/");
        call.headers.insert(name.to_owned(), "1".to_owned());
        fails(&call, &policy, "22023", &["a name that no header may have"]).await;
    }
    let mut call = to(9, "/");
    call.headers.insert("Accept".to_owned(), "a".to_owned());
    call.headers.insert("accept".to_owned(), "b".to_owned());
    fails(&call, &policy, "22023", &["is there twice"]).await;
}
