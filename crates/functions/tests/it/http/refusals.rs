//! What is not sent.

use std::process::Command;

use duramen_functions::http::{HttpCall, HttpPolicy};

use super::server::{fails, get, open, policy, result, to, Server};

#[tokio::test]
async fn nothing_is_sent_unless_an_operator_enables_it() {
    let server = Server::start().await;
    let policy = HttpPolicy { enabled: false, ..open() };
    let texts = ["df.http() is disabled", "df.http = 'on'", "df.http_allowed_hosts"];
    fails(&to(server.port, "/echo"), &policy, "42501", &texts).await;
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn hosts_outside_the_list_are_refused() {
    for (hosts, url) in [
        ("", "http://example.org/"),
        ("example.org", "http://example.com/"),
        ("*.example.org", "http://example.org:8080/"),
    ] {
        let texts = ["df.http() GET example.", "was not sent: host example.", "is not in the allowed hosts"];
        fails(&get(url.to_owned()), &policy(hosts, true), "42501", &texts).await;
    }
}

#[tokio::test]
async fn names_of_this_host_are_refused_by_what_they_resolve_to() {
    let server = Server::start().await;
    let text = "host localhost resolves to a loopback address, which is not in the allowed ranges";
    // A star stands for public hosts, with or without the switch.
    for policy in [policy("*", false), policy("localhost", false), policy("*", true)] {
        let call = get(format!("http://localhost:{}/echo", server.port));
        fails(&call, &policy, "42501", &["was not sent", text]).await;
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_connection_of_an_open_policy_serves_no_closed_one() {
    let server = Server::start().await;
    let call = get(format!("http://localhost:{}/echo", server.port));
    assert!(result(&call).await.ok);
    fails(&call, &policy("localhost", false), "42501", &["not in the allowed ranges"]).await;
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn addresses_are_refused_in_every_spelling() {
    let server = Server::start().await;
    let spellings = [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
        "0.0.0.0",
        "0",
        "10.0.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "192.168.1.1",
        "224.0.0.1",
        "255.255.255.255",
        "8.8.8.8",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[ff02::1]",
        "[2606:4700::1111]",
    ];
    for spelling in spellings {
        let call = get(format!("http://{spelling}:{}/echo", server.port));
        let listed = format!("*, localhost, {}", "127.0.0.1, 10.0.0.1, 8.8.8.8, ::1");
        fails(&call, &policy(&listed, false), "42501", &["was not sent"]).await;
        fails(&call, &policy("*", true), "42501", &["was not sent"]).await;
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn the_name_service_cannot_be_made_to_read_addresses() {
    // Unusual spellings that the system's resolver might take for addresses never get as far as a connection.
    for host in ["0x7f.1.", "1.2.3.4.5", "127.0.0.0x1", "[::1%25lo]", "127.0.0.1%00.example.org"] {
        let failure = super::server::failure(&get(format!("http://{host}/")), &policy("*", true)).await;
        assert!(["42501", "22023", "08006"].contains(&failure.sqlstate.as_deref().unwrap()), "{failure:?}");
        assert!(!failure.message.contains("no connection"), "{failure:?}");
    }
}

#[tokio::test]
async fn only_http_and_https_are_spoken() {
    for url in ["ftp://127.0.0.1/", "file:///etc/passwd", "gopher://127.0.0.1/", "ws://127.0.0.1/", "data:,x"]
    {
        fails(&get(url.to_owned()), &open(), "22023", &["df.http() GET", "unsupported URL scheme"]).await;
    }
    for url in
        ["", "/path", "127.0.0.1/x", "http://", "http://a b/", "http://[::1/", "http://127.0.0.1:99999/"]
    {
        fails(&get(url.to_owned()), &open(), "22023", &["the URL cannot be understood"]).await;
    }
}

#[tokio::test]
async fn other_methods_are_refused() {
    for method in ["", "HEAD", "OPTIONS", "TRACE", "CONNECT", "GET / HTTP/1.1\r\nX: y"] {
        let call = HttpCall { method: method.to_owned(), ..to(9, "/") };
        fails(&call, &open(), "22023", &["is not one of GET, POST, PUT, DELETE and PATCH"]).await;
    }
}

#[tokio::test]
async fn credentials_in_urls_are_refused_and_not_repeated() {
    for user in ["user:hunter2", "hunter2", ":hunter2", "hunter2:"] {
        let call = get(format!("http://{user}@127.0.0.1:9/"));
        fails(&call, &open(), "22023", &["send an Authorization header"]).await;
        assert!(!super::server::failure(&call, &open()).await.message.contains("hunter2"));
    }
}

#[tokio::test]
async fn backslashes_and_at_signs_do_not_hide_a_host() {
    let server = Server::start().await;
    let policy = policy("example.org", true);
    for text in ["http://127.0.0.1:PORT\\@example.org/", "http://127.0.0.1:PORT#@example.org/"] {
        let call = get(text.replace("PORT", &server.port.to_string()));
        fails(&call, &policy, "42501", &["host 127.0.0.1 is not in the allowed hosts"]).await;
    }
    assert!(server.seen().is_empty());
}

/// Runs the test below in a process whose environment names proxies.
#[test]
fn proxies_of_the_environment_are_ignored() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "http::refusals::a_call_reaches_the_server_itself"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env(name, "http://127.0.0.1:9");
    }
    let output = command.env_remove("NO_PROXY").env_remove("no_proxy").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[tokio::test]
async fn a_call_reaches_the_server_itself() {
    let server = Server::start().await;
    assert!(result(&to(server.port, "/echo")).await.ok);
    assert_eq!(server.seen()[0].target, "/echo");
}
