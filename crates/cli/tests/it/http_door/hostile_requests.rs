//! Requests that no client of good will sends.

use super::client::{answer, ask, dial, request, Site};
use duramen_api::token::Role;
use duramen_base::clock;
use std::{io::Write, time::Duration};

/// H7, H8: what is wrong with the request itself. None of it is a failure of the daemon, and it serves on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_not_what_they_seem_are_refused() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let ci = site.token("ci", Role::User, &[]).await;
    let authorization = format!("authorization: {}\r\n", ci.bearer);
    let with_host = |host: &str| {
        ask(
            site.door,
            &format!("GET /v1/branches HTTP/1.1\r\n{host}connection: close\r\n{authorization}\r\n"),
        )
    };
    assert_eq!(with_host("host: localhost\r\n").status, 200);
    assert_eq!(with_host("host: 127.0.0.1:1\r\n").status, 200);
    for host in ["host: evil.example\r\n", "host: localhost\r\nhost: evil.example\r\n", ""] {
        let refused = with_host(host);
        assert_eq!((refused.status, refused.code().as_str()), (421, "unknown_host"), "H7: {host:?}");
    }

    // No page of another site, and no permission for one to ask.
    let page = ci.ask("GET", "/v1/branches", "origin: https://evil.example\r\n", "");
    assert_eq!((page.status, page.code().as_str()), (403, "cross_origin"));
    let asked = ci.ask(
        "OPTIONS",
        "/v1/branches",
        "origin: https://evil.example\r\naccess-control-request-method: POST\r\n",
        "",
    );
    assert!(asked.status == 403 && !asked.head.to_lowercase().contains("access-control"), "{asked:?}");

    // Smuggling: one length and not two, and never what comes after as a request of its own.
    let hidden = "GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for lengths in [
        format!("content-length: {}\r\ntransfer-encoding: chunked\r\n", 5 + hidden.len()),
        format!("transfer-encoding: chunked\r\ncontent-length: {}\r\n", 5 + hidden.len()),
        "content-length: 5\r\ncontent-length: 6\r\n".to_owned(),
        "transfer-encoding: identity, chunked, identity\r\n".to_owned(),
        "content-length: -5\r\n".to_owned(),
        "content-length: +5\r\n".to_owned(),
    ] {
        let text = format!(
            "POST /v1/branches/none/renew HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{authorization}{lengths}\r\n\
             0\r\n\r\n{hidden}"
        );
        let refused = ask(site.door, &text);
        // Without a reply, where what follows a last request ends the connection.
        assert!(matches!(refused.status, 0 | 400 | 404), "{lengths}: {refused:?}");
        assert!(!refused.body.contains("HTTP/1.1 200"), "{lengths}: {refused:?}");
    }

    let twice = format!(
        "POST /v1/branches/none/renew HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{authorization}\
         content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    );
    let refused = ask(site.door, &twice);
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (404, "not_found"),
        "it is read by its chunks alone"
    );

    // Too much: of heads before anything is looked at, of bodies only of who is somebody.
    let huge = format!("x-filler: {}\r\n", "a".repeat(64 << 10));
    // The reply may be lost where the door closes on what is still on its way.
    assert!(matches!(ci.ask("GET", "/v1/branches", &huge, "").status, 0 | 431));
    let many: String = (0..100).map(|number| format!("x-{number}: a\r\n")).collect();
    assert!(matches!(ci.ask("GET", "/v1/branches", &many, "").status, 0 | 431));
    let body = format!("{{\"name\": \"{}\"}}", "a".repeat(9 << 20));
    let refused = ci.post("/v1/branches", &body);
    assert_eq!((refused.status, refused.code().as_str()), (413, "too_large"));
    assert_eq!(ask(site.door, &request("POST", "/v1/branches", "", &body)).status, 401);

    // Names are names: no SQL, no path, no other escape from a segment.
    for name in ["b%27%3B%20drop%20table%20t%3B--", "..%2F..%2Fetc%2Fpasswd", "%00", "a%2Fquery", "%C3%A9"] {
        assert_eq!(ci.get(&format!("/v1/branches/{name}")).status, 404, "{name}");
        let made = ci.post("/v1/branches", &format!("{{\"name\": \"{}\"}}", name.replace('%', "\\\\")));
        assert_eq!((made.status, made.code().as_str()), (400, "bad_name"), "{name}");
    }
    assert_eq!(ci.get("/v1/branches/%FF").code(), "bad_request");
    for path in
        ["/v1/../v1/status", "/v1/branches/../../status", "//v1/branches", "/v1/branches/", "/etc/passwd"]
    {
        assert_eq!(ci.get(path).code(), "unknown_route", "{path}");
    }
    let wrong = ci.ask("PUT", "/v1/branches", "", "");
    assert_eq!((wrong.status, wrong.code().as_str()), (405, "unknown_route"));
    for body in [
        "{",
        "{\"label\": 1}",
        "\u{0}",
        "{\"ttl_s\": 1e99}",
        "{\"name\": null, \"name\": null}",
        "[]",
        " [null]",
    ] {
        assert_eq!(ci.post("/v1/branches", body).code(), "bad_request", "{body:?}");
    }
    for junk in ["GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\u{16}\u{3}\u{1}\u{0}\u{5}hello"] {
        assert!(ask(site.door, junk).status <= 400, "{junk:?}");
    }
    assert_eq!(ci.get("/v1/branches").status, 200, "it serves on");
}

/// H8: who opens connections and says nothing, or half of something, does not keep others out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_half_open_connections_do_not_keep_others_out() {
    let mut site = Site::open().await;
    let ci = site.token("ci", Role::User, &[]).await;
    let half = |number: usize| {
        let mut stream = dial(site.door);
        match number % 3 {
            0 => {}
            1 => stream.write_all(b"GET /v1/branches HTTP/1.1\r\nhost: local").unwrap(),
            // The beginning of TLS.
            _ => stream.write_all(&[0x16, 3, 1]).unwrap(),
        }
        stream
    };
    let mut open: Vec<_> = (0..1000).map(half).collect();
    let begin = clock::now();
    for _ in 0..20 {
        assert_eq!(ci.get("/v1/branches").status, 200);
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    // More than there may be: the oldest have to go, and who has shown a token stays.
    open.extend((1000..1200).map(half));
    assert_eq!(ci.get("/v1/branches").status, 200);
    let mut oldest = open.remove(0);
    let ended = tokio::task::spawn_blocking(move || answer(&mut oldest));
    let ended = tokio::time::timeout(Duration::from_secs(5), ended).await.expect("it was ended").unwrap();
    assert_eq!(ended.head, "");
}

/// H8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_has_no_more_connections_than_it_may() {
    let mut site = Site::open().await;
    let wanted = duramen_api::token::CreateToken {
        name: "ci".to_owned(),
        max_connections: Some(2),
        ..Default::default()
    };
    let ci = site.make(wanted).await;
    // Connections that stay open after a reply.
    let keep = || {
        use std::io::Read;
        let mut stream = dial(site.door);
        let text =
            format!("GET /v1/branches HTTP/1.1\r\nhost: localhost\r\nauthorization: {}\r\n\r\n", ci.bearer);
        stream.write_all(text.as_bytes()).unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200");
        stream
    };
    let held = [keep(), keep()];
    let refused = ci.get("/v1/branches");
    assert_eq!((refused.status, refused.code().as_str()), (429, "too_many_connections"));
    drop(held);
    crate::support::until("they are given back", async || ci.get("/v1/branches").status == 200).await;
}
