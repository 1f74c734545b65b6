//! Answers that are failures, and answers that never come.

use duramen_base::clock;
use duramen_functions::http::HttpCall;

use super::server::{fails, get, open, policy, raw_server, to, Server};

#[tokio::test]
async fn a_5xx_answer_is_a_failure_with_its_beginning() {
    let server = Server::start().await;
    for (status, reason) in
        [(500, "500 Internal Server Error"), (503, "503 Service Unavailable"), (599, "599")]
    {
        let place = format!("df.http() GET 127.0.0.1:{} failed: the server answered {reason}", server.port);
        let texts = [place.as_str(), "its body begins: the reason is this"];
        fails(&to(server.port, &format!("/status/{status}")), &open(), "58000", &texts).await;
    }
    // No answer is asked for twice.
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn a_5xx_answer_whose_body_never_ends_is_told_in_time() {
    let port = raw_server(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 99\r\n\r\npart".to_vec(), true).await;
    let begin = clock::now();
    fails(&to(port, "/"), &open(), "58000", &["502 Bad Gateway, and its body begins: part"]).await;
    assert!(begin.elapsed().as_secs() < 15);
}

#[tokio::test]
async fn the_time_limit_bounds_the_whole_call() {
    let server = Server::start().await;
    let silent = raw_server(Vec::new(), true).await;
    let half = raw_server(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\npart".to_vec(), true).await;
    for (port, path) in [(server.port, "/slow"), (silent, "/"), (half, "/")] {
        let begin = clock::now();
        let call = HttpCall { timeout_s: 1, ..to(port, path) };
        let place = format!("df.http() GET 127.0.0.1:{port} failed: no complete answer within 1 s");
        fails(&call, &open(), "57014", &[&place]).await;
        assert!((900..15_000).contains(&begin.elapsed().as_millis()));
    }
}

#[tokio::test]
async fn answers_over_the_limit_are_failures() {
    let server = Server::start().await;
    let text = ["the answer's body has more than 16777216 bytes"];
    fails(&to(server.port, "/too-large"), &open(), "54000", &text).await;
    // Nothing announces how much comes here.
    let mut endless = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    endless.resize(18 * 1024 * 1024, b'x');
    let port = raw_server(endless, true).await;
    fails(&to(port, "/"), &open(), "54000", &text).await;
}

#[tokio::test]
async fn broken_exchanges_say_what_broke() {
    let closed = raw_server(Vec::new(), false).await;
    fails(&to(closed, "/"), &open(), "08006", &["the exchange broke", "is unknown"]).await;
    let short = raw_server(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\npart".to_vec(), false).await;
    fails(&to(short, "/"), &open(), "08006", &["the exchange broke"]).await;
    let nonsense = raw_server(b"SSH-2.0-server\r\n\r\n".to_vec(), false).await;
    fails(&to(nonsense, "/"), &open(), "08006", &["the exchange broke"]).await;
    let endless_head = raw_server(b"HTTP/1.1 200 OK\r\n".repeat(100_000), false).await;
    fails(&to(endless_head, "/"), &open(), "08006", &["the exchange broke"]).await;
}

#[tokio::test]
async fn connections_that_fail_say_why() {
    // Nobody listens on a port that was just given back.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let place = format!("df.http() GET 127.0.0.1:{port} failed: no connection: Connection refused");
    let mut call = to(port, "/secret-path?secret=1");
    fails(&call, &open(), "08006", &[&place]).await;
    assert!(!super::server::failure(&call, &open()).await.message.contains("secret"));

    // The server speaks no TLS.
    let server = Server::start().await;
    call.url = format!("https://127.0.0.1:{}/", server.port);
    fails(&call, &open(), "08006", &["no connection: "]).await;
}

#[tokio::test]
async fn a_name_that_is_nobodys_is_a_failure_of_the_network() {
    // No name has a label this long, so the name service is not even asked.
    let host = format!("{}.invalid", "x".repeat(64));
    let text = format!("df.http() GET {host} failed: host {host} cannot be resolved");
    let call = get(format!("http://{host}/"));
    fails(&call, &policy("*", false), "08006", &[&text]).await;
}
