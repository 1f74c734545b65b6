//! What is found at which path, and what is sent.

use super::*;
use flate2::read::GzDecoder;
use std::io::Read;

fn built() -> Site {
    let text = |text: &'static str| Cow::from(text.as_bytes());
    let long = Cow::from("body { margin: 0 }\n".repeat(100).into_bytes());
    let noise: Vec<u8> =
        (0..4096_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
    Site::new([
        ("index.html".to_owned(), text("<!doctype html><title>x</title>"), [1; 32]),
        ("favicon.svg".to_owned(), text("<svg/>"), [2; 32]),
        ("assets/index-abc123.css".to_owned(), long, [3; 32]),
        ("assets/font-def456.woff2".to_owned(), Cow::from(noise), [4; 32]),
    ])
}

#[test]
fn a_path_is_found_as_it_is_and_no_other_way() {
    let site = built();
    assert!(site.is_built());
    let paths: Vec<_> = site.paths().collect();
    assert_eq!(paths, ["/", "/assets/font-def456.woff2", "/assets/index-abc123.css", "/favicon.svg"]);
    for other in [
        "",
        "//",
        "/index.html/",
        "/assets",
        "/assets/",
        "/assets/../index.html",
        "/assets/../../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/assets/%69ndex-abc123.css",
        "/assets/index-abc123.css/",
        "/assets/index-ABC123.css",
        "/assets\\index-abc123.css",
        "favicon.svg",
        "/favicon.svg\0",
    ] {
        assert!(site.find(other).is_none(), "{other:?}");
    }
}

#[test]
fn each_file_is_sent_as_what_it_is() {
    let site = built();
    let of = |path: &str| site.find(path).unwrap();
    assert_eq!(of("/").kind(), "text/html; charset=utf-8");
    assert_eq!(of("/favicon.svg").kind(), "image/svg+xml");
    assert_eq!(kind("/LICENSE"), "application/octet-stream");
    assert_eq!(kind("/a.html.exe"), "application/octet-stream");
    assert!(of("/assets/index-abc123.css").is_hashed() && !of("/").is_hashed());
    assert_eq!(of("/").tag(), "01".repeat(16));
}

#[test]
fn what_gets_shorter_is_compressed_and_is_the_same() {
    let site = built();
    let css = site.find("/assets/index-abc123.css").unwrap();
    let zipped = css.zipped().expect("it repeats itself");
    assert!(zipped.len() < css.bytes().len() / 5);
    let mut text = Vec::new();
    GzDecoder::new(zipped).read_to_end(&mut text).unwrap();
    assert_eq!(text, css.bytes());
    assert!(std::ptr::eq(zipped, css.zipped().unwrap()), "once");
    assert!(site.find("/").unwrap().zipped().is_none(), "it is short");
}

/// W10.
#[test]
fn without_a_document_there_is_a_page_that_says_how_to_build_it() {
    for files in [vec![], vec![("assets/old-1.js".to_owned(), Cow::from(b"x".as_slice()), [5; 32])]] {
        let site = Site::new(files);
        assert!(!site.is_built());
        assert_eq!(site.paths().collect::<Vec<_>>(), ["/"]);
        let page = std::str::from_utf8(site.find("/").unwrap().bytes()).unwrap();
        assert!(page.contains("make web") && page.contains("make build"));
        // The policy of the page allows neither (W4).
        assert!(!page.contains("<script") && !page.contains("<style") && !page.contains("style="));
    }
}

#[test]
fn what_is_embedded_hides_no_request() {
    for path in crate::embedded().paths() {
        let first = path[1..].split('/').next().unwrap_or_default();
        assert!(
            !["v1", "mcp", "healthz", "readyz", "version", "openapi.json", "metrics"].contains(&first),
            "{path}"
        );
    }
}
