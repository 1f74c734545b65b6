//! Spans of a daemon, as a collector gets them, from a request to the first byte of a client. The invariants are those of
//! docs/design/traces.md.

#[path = "../../../functions/tests/it/traces/collector.rs"]
#[allow(dead_code, reason = "the tests of durable functions use the rest")]
mod collector;

use crate::support::{add_script, connect, install, settle, Home, EXE};
use collector::{number, string, Collector};
use duramen_api::token::{CreateToken, NewToken};
use duramen_server::process::Daemon;
use duramen_traces::{Span, SpanKind};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A daemon that sends traces to a collector, with a token.
struct Site {
    daemon: Daemon,
    http: u16,
    router: u16,
    token: NewToken,
}

impl Site {
    async fn open(home: &Home, collector: &Collector) -> Site {
        let program = home.beside("traced");
        let text = format!(
            "#!/bin/sh\nOTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:{} exec {EXE} \"$@\"\n",
            collector.port
        );
        install(&program, &text);
        let args = ["--volume-size", "3G", "--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]
            .map(str::to_owned);
        let daemon = Daemon::spawn(&program, &home.path(), &args, &home.beside("log")).await.unwrap();
        let mut connection = connect(&daemon).await;
        add_script(home, &mut connection, "create table t (x int)", 2, 0).await;
        settle(&mut connection).await;
        let doors = connection.doors().await.unwrap();
        let (http, router) = (doors.http.unwrap().address.port(), doors.postgres.unwrap().address.port());
        let wanted = CreateToken { name: "ci".to_owned(), ..CreateToken::default() };
        let token = connection.create_token(&wanted).await.unwrap();
        Site { daemon, http, router, token }
    }

    /// The status of a request.
    async fn request(&self, line: &str, headers: &str, body: &str) -> u16 {
        let mut stream = TcpStream::connect(("127.0.0.1", self.http)).await.unwrap();
        let length = body.len();
        let text = format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        reply[9..12].parse().unwrap()
    }

    fn shown(&self) -> String {
        format!("authorization: Bearer ci:{}\r\n", self.token.secret)
    }

    async fn enter(&self, database: &str) {
        let url = format!("postgresql://ci:{}@localhost:{}/{database}", self.token.secret, self.router);
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        let running = tokio::spawn(connection);
        client.query_one("select 1", &[]).await.unwrap();
        drop(client);
        running.await.unwrap().unwrap();
    }
}

/// The only span that fits.
fn one<'s>(spans: &'s [Span], what: &str, fits: impl Fn(&Span) -> bool) -> &'s Span {
    let found: Vec<&Span> = spans.iter().filter(|span| fits(span)).collect();
    assert_eq!(found.len(), 1, "{what}: {found:#?} of {spans:#?}");
    found[0]
}

/// The names of what a span has below it, which lasts no longer than it, in the order of their ends.
fn below(spans: &[Span], parent: &Span) -> Vec<String> {
    let children = spans
        .iter()
        .filter(|span| span.parent_span_id == parent.span_id && span.kind == SpanKind::Internal as i32);
    children
        .map(|child| {
            assert_eq!(child.trace_id, parent.trace_id);
            assert!(child.start_time_unix_nano >= parent.start_time_unix_nano, "{child:#?} {parent:#?}");
            assert!(child.end_time_unix_nano <= parent.end_time_unix_nano, "{child:#?} {parent:#?}");
            child.name.clone()
        })
        .collect()
}

/// T-10, T-11
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_one_trace_from_its_request_to_the_first_byte_of_its_first_client() {
    let home = Home::new();
    let collector = Collector::start(&[]).await;
    let site = Site::open(&home, &collector).await;
    let traced = format!("{}traceparent: 00-{TRACE}-{CALLER}-01\r\n", site.shown());
    assert_eq!(site.request("POST /v1/branches", &traced, r#"{"name":"try"}"#).await, 200);
    site.enter("try").await;
    // The same again: it is the first client that the trace is about.
    site.enter("try").await;
    // Neither has a span: of nobody, and of a trace that is not sampled.
    let foreign = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\n");
    assert_eq!(site.request("GET /v1/branches", &foreign, "").await, 401);
    let unsampled = format!("{}traceparent: 00-{TRACE}-{CALLER}-00\r\n", site.shown());
    assert_eq!(site.request("GET /v1/branches/try", &unsampled, "").await, 200);
    // The daemon sends what it has when it stops.
    let Site { daemon, token, .. } = site;
    daemon.stop().await.unwrap();
    let spans = collector.spans();

    let mut ours: Vec<Span> = spans.iter().filter(|span| hex(&span.trace_id) == TRACE).cloned().collect();
    ours.sort_by_key(|span| span.end_time_unix_nano);
    let request = one(&ours, "the request", |span| {
        span.kind == SpanKind::Server as i32 && hex(&span.parent_span_id) == CALLER
    });
    assert_eq!(request.name, "POST /v1/branches");
    assert_eq!(number(&request.attributes, "http.response.status_code"), Some(200));
    assert_eq!(string(&request.attributes, "duramen.token"), Some(token.token.id.clone()));
    assert_eq!(below(&ours, request), ["take", "journal", "announce"]);
    let entered = one(&ours, "the first client", |span| span.name == "first byte");
    assert_eq!(entered.parent_span_id, request.span_id);
    assert_eq!(
        string(&entered.attributes, "duramen.branch.id"),
        string(&request.attributes, "duramen.branch.id")
    );
    assert_eq!(below(&ours, entered), ["connect", "authentication", "entry", "greeting"]);
    assert!(entered.start_time_unix_nano >= request.start_time_unix_nano);
    assert_eq!(ours.len(), 9, "{ours:#?}");
    assert_eq!(collector.resource("service.name").as_deref(), Some("duramen"));
    // Those that no caller gave are traces of their own.
    one(&spans, "the token's", |span| span.name == "POST /v1/tokens" && span.parent_span_id.is_empty());
    assert!(!collector.has_seen(&token.secret));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_made_by_connecting_has_a_trace_and_one_that_is_waited_for_says_so() {
    let home = Home::new();
    let collector = Collector::start(&[]).await;
    let site = Site::open(&home, &collector).await;
    site.enter("@app").await;
    let shown = site.shown();
    // One more than is ready.
    let statuses = tokio::join!(
        site.request("POST /v1/branches", &shown, "{}"),
        site.request("POST /v1/branches", &shown, "{}"),
        site.request("POST /v1/branches", &shown, "{}"),
    );
    assert_eq!(statuses, (200, 200, 200));
    let Site { daemon, .. } = site;
    daemon.stop().await.unwrap();
    let mut spans = collector.spans();
    spans.sort_by_key(|span| span.end_time_unix_nano);
    let entered = one(&spans, "the client", |span| span.name == "first byte");
    assert!(entered.parent_span_id.is_empty());
    assert_eq!(
        below(&spans, entered),
        ["connect", "authentication", "take", "journal", "announce", "entry", "greeting"]
    );
    let leases: Vec<&Span> = spans.iter().filter(|span| span.name == "POST /v1/branches").collect();
    assert_eq!(leases.len(), 3);
    let ways: Vec<Vec<String>> = leases.iter().map(|lease| below(&spans, lease)).collect();
    assert!(ways.contains(&["queue", "journal", "announce"].map(str::to_owned).to_vec()), "{ways:?}");
}

/// T-3
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_does_not_wait_for_its_collector() {
    let home = Home::new();
    let collector = Collector::start(&[collector::Mood::Stalls; 100]).await;
    let site = Site::open(&home, &collector).await;
    let shown = site.shown();
    let began = duramen_base::clock::now();
    for _ in 0..20 {
        assert_eq!(site.request("GET /v1/branches", &shown, "").await, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let Site { daemon, .. } = site;
    let began = duramen_base::clock::now();
    daemon.stop().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(collector.spans().len(), 0);
}
