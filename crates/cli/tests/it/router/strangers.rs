//! R3, R4 and R5: those who have proved nothing, and those from elsewhere.

use super::{one, psql, Site};
use crate::support::{text, Home};
use duramen_base::clock;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::Command,
    time::Duration,
};

/// Reads to the end of the connection, which must come in time.
pub(super) fn until_closed(mut stream: &TcpStream, limit: Duration) -> Vec<u8> {
    stream.set_read_timeout(Some(limit)).unwrap();
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Ok(_) => said,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => said,
        Err(error) => panic!("it is not closed within {limit:?}: {error}"),
    }
}

pub(super) fn startup(pairs: &[(&str, &str)]) -> Vec<u8> {
    let body: Vec<u8> =
        pairs.iter().flat_map(|(name, value)| format!("{name}\0{value}\0").into_bytes()).collect();
    let length = u32::try_from(body.len() + 9).unwrap();
    [&length.to_be_bytes()[..], &(3_u32 << 16).to_be_bytes(), &body, &[0]].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_proves_nothing_costs_little_and_keeps_nobody_out() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let ci = site.user("ci").await;
    let at: SocketAddr = site.router.address;
    let first = site.enter(&ci, "app@try").await.expect("a session");
    // More than there may be, each with half a packet.
    let mut strangers = Vec::new();
    for _ in 0..1100 {
        let mut stream = TcpStream::connect(at).expect("a connection");
        stream.write_all(&startup(&[("user", "ci")])[..6]).expect("half a packet");
        strangers.push(stream);
    }
    let began = clock::now();
    let client = site.enter(&ci, "try").await.expect("others are served");
    assert_eq!(one::<i64>(&client, "select count(*) from t").await, 100);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(until_closed(&strangers[0], Duration::from_secs(5)).is_empty(), "the oldest had to go");
    assert_eq!(one::<i32>(&first, "select 1").await, 1, "who is in stays");

    let said = |packet: &[u8]| {
        let mut stream = TcpStream::connect(at).expect("a connection");
        // The answer may come before all is sent.
        let _ = stream.write_all(packet);
        text(&until_closed(&stream, Duration::from_secs(8)))
    };
    // A packet of 100 MB, one of 0 bytes, HTTP, and noise.
    for packet in [&(100_u32 << 20).to_be_bytes()[..], &[0, 0, 0, 0], b"GET / HTTP/1.1\r\n\r\n", &[0xff; 64]]
    {
        assert!(said(packet).contains("08P01"), "{packet:?}");
    }
    let twice = [[0, 0, 0, 8, 4, 210, 22, 48], [0, 0, 0, 8, 4, 210, 22, 48]].concat();
    assert!(said(&twice).contains("asked for twice"));
    assert!(said(&startup(&[("user", "ci"), ("replication", "true")])).contains("0A000"));
    let logical = said(&startup(&[("user", "ci"), ("replication", "database")]));
    assert!(logical.contains("logical replication") && logical.contains("COPY"), "{logical}");
    assert!(said(&startup(&[("database", "try")])).contains("28000"));
    // A request to cancel what is not there, and bytes after the request for TLS.
    assert_eq!(said(&[0, 0, 0, 16, 4, 210, 22, 46, 0, 0, 0, 1, 0, 0, 0, 1]), "");
    let smuggled = [&[0, 0, 0, 8, 4, 210, 22, 47][..], &startup(&[("user", "ci")])].concat();
    assert!(!said(&smuggled).contains("SCRAM"), "what was sent before TLS is not read after it");
    // One who says nothing more ends by itself.
    let last = strangers.last().expect("strangers");
    assert!(until_closed(last, Duration::from_secs(15)).is_empty());
    drop(strangers);
    site.stop().await;
}

/// An address of this machine that is not loopback to whoever listens. Gone with this value.
struct Elsewhere;

const ELSEWHERE: &str = "198.51.100.77";

impl Elsewhere {
    fn new() -> Elsewhere {
        let output =
            Command::new("ip").args(["address", "add", &format!("{ELSEWHERE}/32"), "dev", "lo"]).output();
        let output = output.expect("ip runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        Elsewhere
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["address", "del", &format!("{ELSEWHERE}/32"), "dev", "lo"]).output();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_elsewhere_nothing_is_said_in_the_clear_and_only_masked_data_goes() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root gives this machine an address");
        return;
    }
    let _elsewhere = Elsewhere::new();
    let home = Home::new();
    let mut site = Site::open(&home, &["--pg-listen", "0.0.0.0:0"]).await;
    let ci = site.user("ci").await;
    let port = site.router.address.port();
    let url = |mode: &str| format!("postgresql://ci:{}@{ELSEWHERE}:{port}/app@try?sslmode={mode}", ci.secret);
    // R4: refused before a proof is asked for.
    let mut stream = TcpStream::connect((ELSEWHERE, port)).expect("a connection");
    stream.write_all(&startup(&[("user", "ci")])).expect("a packet");
    let said = text(&until_closed(&stream, Duration::from_secs(5)));
    assert!(said.contains("28000") && said.contains("TLS") && !said.contains("SCRAM"), "{said}");
    // R5.
    let refused = text(&psql(&url("require"), &["-c", "select 1"]).stderr);
    assert!(refused.contains("not masked"), "{refused}");
    let local = site.enter(&ci, "app@try").await.expect("loopback may");
    assert_eq!(one::<i64>(&local, "select count(*) from t").await, 100);
    drop(local);
    site.stop().await;

    let daemon = home.serve_with(&["--pg-listen", &format!("0.0.0.0:{port}"), "--unmasked-ok"]).await;
    let output = psql(&url("require"), &["-c", "select count(*) from t"]);
    assert_eq!(text(&output.stdout).trim(), "100", "{}", text(&output.stderr));
    assert!(text(&psql(&url("disable"), &["-c", "select 1"]).stderr).contains("TLS"));
    daemon.stop().await.expect("it stops in order");
}
