//! HTTP nodes: their form, and what is refused before anything is sent.

use super::{gives, refused, session, stored};

/// An HTTP node with this query.
fn node(node_type: &str, query: &str) -> String {
    let text = query.replace('\\', "\\\\").replace('"', "\\\"");
    format!(r#"{{"node_type":"{node_type}","query":"{text}"}}"#)
}

#[tokio::test]
async fn requests_have_their_defaults() {
    let (_database, client) = session().await;
    let cases = [
        (
            "df.http('https://example.org/x')",
            r#"{"url":"https://example.org/x","method":"POST","timeout_seconds":30}"#,
        ),
        (
            r#"df.http('HTTP://example.org', 'get', 'a "body"', '{"X-Y": "z"}', 5)"#,
            r#"{"url":"HTTP://example.org","method":"GET","body":"a \"body\"","headers":{"X-Y": "z"},"timeout_seconds":5}"#,
        ),
        ("df.http('{base}/x', 'PUT')", r#"{"url":"{base}/x","method":"PUT","timeout_seconds":30}"#),
        ("df.http('$r.url', 'DELETE')", r#"{"url":"$r.url","method":"DELETE","timeout_seconds":30}"#),
        (
            "df.http(url => 'https://x', timeout_seconds => NULL, method => NULL)",
            r#"{"url":"https://x","method":"POST","timeout_seconds":30}"#,
        ),
    ];
    for (expression, query) in cases {
        gives(&client, &[(expression, &node("HTTP", query))]).await;
    }
    let parts = r#"[{"name": "a", "data_b64": "aGk="}, {"name": "b", "data_b64": "$r.body", "filename": "f", "content_type": "text/plain"}]"#;
    let query =
        r#"{"url":"https://x","method":"POST","parts":"#.to_owned() + parts + r#","timeout_seconds":30}"#;
    gives(
        &client,
        &[(&format!("df.http_multipart('https://x', parts => '{parts}')"), &node("HTTP_MULTIPART", &query))],
    )
    .await;
}

#[tokio::test]
async fn requests_that_cannot_be_sent_are_refused() {
    let (_database, client) = session().await;
    refused(
        &client,
        &[
            ("df.http('ftp://example.org')", "unsupported URL scheme"),
            ("df.http('file:///etc/passwd')", "unsupported URL scheme"),
            ("df.http('example.org')", "unsupported URL scheme"),
            ("df.http(' ')", "url must be a text that is not empty"),
            ("df.http(NULL)", "url must be a text that is not empty"),
            (r"df.http(E'https://x/\r\nHost: y')", "control character"),
            ("df.http('https://x', 'HEAD')", "unsupported HTTP method"),
            ("df.http('https://x', '')", "unsupported HTTP method"),
            ("df.http('https://x', headers => '[]')", "headers must be a JSON object"),
            (r#"df.http('https://x', headers => '{"a": 1}')"#, "must be a text of one line"),
            (r#"df.http('https://x', headers => '{"a": "b\r\nc: d"}')"#, "must be a text of one line"),
            (r#"df.http('https://x', headers => '{"a b": "c"}')"#, "cannot be the name of a header"),
            (r#"df.http('https://x', headers => '{"": "c"}')"#, "cannot be the name of a header"),
            ("df.http('https://x', timeout_seconds => 0)", "timeout_seconds must be a whole number"),
            ("df.http('https://x', timeout_seconds => -5)", "timeout_seconds must be a whole number"),
        ],
    )
    .await;
}

#[tokio::test]
async fn parts_that_cannot_be_sent_are_refused() {
    let (_database, client) = session().await;
    for (parts, expected) in [
        ("NULL", "parts must be a JSON array that is not empty"),
        ("'[]'", "parts must be a JSON array that is not empty"),
        ("'{}'", "parts must be a JSON array that is not empty"),
        ("'[1]'", "each of parts must be an object"),
        (r#"'[{"data_b64": ""}]'"#, "each of parts must be an object"),
        (r#"'[{"name": "", "data_b64": ""}]'"#, "each of parts must be an object"),
        (r#"'[{"name": "a"}]'"#, "each of parts must be an object"),
        (r#"'[{"name": "a", "data_b64": "", "more": 1}]'"#, "each of parts must be an object"),
        (r#"'[{"name": "a", "data_b64": "", "filename": "x\ny"}]'"#, "must be of one line"),
        (r#"'[{"name": "a", "data_b64": "aGk"}]'"#, "is not base64"),
        (r#"'[{"name": "a", "data_b64": "%%%%"}]'"#, "is not base64"),
        (r#"'[{"name": "a", "data_b64": "aGk=$r.body"}]'"#, "whole-value reference"),
        (r#"'[{"name": "a", "data_b64": "{a}{b}"}]'"#, "whole-value reference"),
    ] {
        let call = format!("df.http_multipart('https://x', parts => {parts})");
        refused(&client, &[(&call, expected)]).await;
    }
    let part = r#"[{"name": "a", "data_b64": ""}]"#;
    refused(
        &client,
        &[
            (&format!("df.http_multipart('https://x', 'GET', '{part}')"), "unsupported HTTP method"),
            (&format!("df.http_multipart('gopher://x', parts => '{part}')"), "unsupported URL scheme"),
        ],
    )
    .await;
    for data in ["", "aGk=", "aG k=", "$r", "$r.body", "$r.body?", "{file}"] {
        let parts = format!(r#"[{{"name": "a", "data_b64": "{data}"}}]"#);
        stored(&client, &format!("df.http_multipart('https://x', parts => '{parts}')")).await;
    }
}

#[tokio::test]
async fn requests_written_by_hand_meet_the_same_rules() {
    let (_database, client) = session().await;
    let check = |node_type: &str, query: &str| format!("df._flatten('{}')", node(node_type, query));
    for (node_type, query, expected) in [
        ("HTTP", r#"{"url":"ftp://x"}"#, "unsupported URL scheme"),
        ("HTTP", r#"{"url":5}"#, "url must be a text"),
        ("HTTP", r#"{"url":"https://x","method":"TRACE"}"#, "unsupported HTTP method"),
        ("HTTP", r#"{"url":"https://x","body":{}}"#, "body must be a text"),
        ("HTTP", r#"{"url":"https://x","timeout_seconds":0.5}"#, "timeout_seconds must be a whole number"),
        ("HTTP", r#"{"url":"https://x","proxy":"http://y"}"#, "unknown key proxy"),
        ("HTTP", "https://x", "the query must be the text of a JSON object"),
        ("HTTP_MULTIPART", r#"{"url":"https://x"}"#, "parts must be a JSON array"),
        (
            "HTTP_MULTIPART",
            r#"{"url":"https://x","body":"a","parts":[{"name":"a","data_b64":""}]}"#,
            "unknown key body",
        ),
    ] {
        refused(&client, &[(&check(node_type, query), expected)]).await;
    }
    // What is absent gets its default, and NULLs are left out.
    let sparse = node("HTTP", r#"{"url":"https://x","method":null,"body":null,"headers":null}"#);
    let query = node("HTTP", r#"{"url":"https://x","method":"POST","timeout_seconds":30}"#)
        .replace("node_type", "type");
    assert_eq!(stored(&client, &format!("'{sparse}'")).await, format!("[{query}]"));
}
