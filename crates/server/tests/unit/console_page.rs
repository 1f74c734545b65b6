//! What is sent with a file of the page (W4), and when it is sent again.

use super::*;
use axum::body::to_bytes;
use flate2::read::GzDecoder;
use std::{borrow::Cow, io::Read, sync::LazyLock};

static SITE: LazyLock<Site> = LazyLock::new(|| {
    let script = Cow::from("let x = 1;\n".repeat(200).into_bytes());
    Site::new([
        ("index.html".to_owned(), Cow::from(b"<!doctype html>".as_slice()), [1; 32]),
        ("assets/index-abc123.js".to_owned(), script, [2; 32]),
    ])
});

struct Sent {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Sent {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

async fn ask(method: Method, path: &str, pairs: &[(&'static str, &str)]) -> Sent {
    let mut asked = HeaderMap::new();
    for (name, value) in pairs {
        asked.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let (head, body) = page(&SITE, &method, path, &asked).expect("it is there").into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap().to_vec();
    Sent { status: head.status.as_u16(), headers: head.headers, body }
}

#[tokio::test]
async fn each_reply_has_the_policy() {
    for (method, path) in [(Method::GET, "/"), (Method::GET, "/assets/index-abc123.js"), (Method::POST, "/")]
    {
        let sent = ask(method, path, &[]).await;
        let policy = sent.header("content-security-policy").unwrap();
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.split("; ").any(|found| found == part), "{part} in {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
        assert_eq!(sent.header("x-frame-options"), Some("DENY"));
        assert_eq!(sent.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(sent.header("cross-origin-opener-policy"), Some("same-origin"));
        assert!(sent.header("permissions-policy").is_some() && sent.header("set-cookie").is_none());
        assert_eq!(sent.header("access-control-allow-origin"), None);
    }
}

#[tokio::test]
async fn the_document_is_asked_for_each_time_and_what_it_names_is_kept() {
    let document = ask(Method::GET, "/", &[]).await;
    assert_eq!((document.status, document.body.as_slice()), (200, b"<!doctype html>".as_slice()));
    assert_eq!(document.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(document.header("cache-control"), Some("no-cache"));
    let script = ask(Method::GET, "/assets/index-abc123.js", &[]).await;
    assert_eq!(script.header("cache-control"), Some("public, max-age=31536000, immutable"));
    let tag = document.header("etag").unwrap();
    for known in [tag.to_owned(), format!("\"x\", W/{tag}"), "*".to_owned()] {
        let again = ask(Method::GET, "/", &[("if-none-match", &known)]).await;
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(tag)), "{known}");
        assert!(again.header("content-security-policy").is_some());
    }
    assert_eq!(ask(Method::GET, "/", &[("if-none-match", "\"x\"")]).await.status, 200);
}

#[tokio::test]
async fn a_file_is_sent_compressed_to_who_takes_that() {
    let path = "/assets/index-abc123.js";
    let plain = ask(Method::GET, path, &[]).await;
    for takes in ["gzip", "br, GZIP;q=0.5", "deflate , gzip ; q=1.0"] {
        let sent = ask(Method::GET, path, &[("accept-encoding", takes)]).await;
        assert_eq!(sent.header("content-encoding"), Some("gzip"), "{takes}");
        assert_eq!(sent.header("vary"), Some("accept-encoding"));
        assert_ne!(sent.header("etag"), plain.header("etag"), "other bytes, another tag");
        let mut text = Vec::new();
        GzDecoder::new(sent.body.as_slice()).read_to_end(&mut text).unwrap();
        assert_eq!(text, plain.body);
    }
    for other in ["", "br", "gzip;q=0", "gzip;q=x", "gzipx"] {
        let sent = ask(Method::GET, path, &[("accept-encoding", other)]).await;
        assert!(sent.header("content-encoding").is_none() && sent.body == plain.body, "{other}");
    }
}

#[tokio::test]
async fn files_are_read_and_nothing_else() {
    assert_eq!(ask(Method::HEAD, "/", &[]).await.status, 200);
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::PATCH, Method::TRACE] {
        let sent = ask(method.clone(), "/", &[]).await;
        assert_eq!((sent.status, sent.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    let none = HeaderMap::new();
    for path in ["/index.html", "/assets/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//", "/assets/"] {
        assert!(page(&SITE, &Method::GET, path, &none).is_none(), "{path}");
    }
}
