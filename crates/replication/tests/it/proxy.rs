//! The distance between two servers: delayed, in order, whole, and at full bandwidth.

use super::user::folder;
use duramen_base::clock;
use duramen_replication::{
    pair::{proxy::Proxy, Pair},
    scenario::Node,
    Options,
};
use duramen_reports::suite::SuiteError;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// A server that sends back what it gets, to the end. It ends with the process.
fn echo(dir: &Path) -> PathBuf {
    let path = dir.join("echo");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for caller in listener.incoming().flatten() {
            thread::spawn(move || {
                std::io::copy(&mut &caller, &mut &caller).and_then(|_| caller.shutdown(Shutdown::Write))
            });
        }
    });
    path
}

/// How long a byte takes there and back, at best: others use the machine too.
fn round_trip(mut stream: &UnixStream) -> Duration {
    let try_once = |_| {
        let begin = clock::now();
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        begin.elapsed()
    };
    (0..10).map(try_once).min().unwrap()
}

#[test]
fn a_byte_takes_the_round_trip_and_a_change_counts_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(&dir.path().join("proxy"), &echo(dir.path())).unwrap();
    let stream = UnixStream::connect(dir.path().join("proxy")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for rtt_ms in [0, 20, 60, 0, 7] {
        let rtt = Duration::from_millis(rtt_ms);
        proxy.set_rtt(rtt);
        let took = round_trip(&stream);
        assert!(took >= rtt, "{took:?} of {rtt:?}");
        assert!(took < rtt + Duration::from_millis(5), "{took:?} of {rtt:?}");
    }
    // What is on its way when the distance shrinks does not wait for the old one.
    proxy.set_rtt(Duration::from_secs(3600));
    (&stream).write_all(b"x").unwrap();
    thread::sleep(Duration::from_millis(20));
    proxy.set_rtt(Duration::ZERO);
    (&stream).read_exact(&mut [0]).unwrap();
}

#[test]
fn a_proxy_that_is_blocked_keeps_connections_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("proxy");
    let proxy = Proxy::start(&path, &echo(dir.path())).unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    round_trip(&stream);
    proxy.block(true);
    let mut later = UnixStream::connect(&path).unwrap();
    for stream in [&mut stream, &mut later] {
        stream.write_all(b"x").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let kind = stream.read(&mut [0]).unwrap_err().kind();
        assert!(matches!(kind, std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{kind:?}");
    }
    proxy.block(false);
    for stream in [&mut stream, &mut later] {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut read = [0];
        stream.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"x");
    }
}

#[test]
fn jitter_keeps_the_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("proxy");
    let proxy = Proxy::start(&path, &echo(dir.path())).unwrap();
    proxy.set_jitter(Duration::from_millis(20));
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for byte in 0..100 {
        stream.write_all(&[byte]).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    let mut read = [0; 100];
    stream.read_exact(&mut read).unwrap();
    assert!(read.into_iter().eq(0..100), "{read:?}");
    proxy.set_jitter(Duration::ZERO);
    round_trip(&stream);
}

#[test]
fn ten_megabytes_pass_at_once_whole_and_in_order() {
    const LENGTH: usize = 10 << 20;
    let dir = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(&dir.path().join("proxy"), &echo(dir.path())).unwrap();
    proxy.set_rtt(Duration::from_millis(200));
    let stream = UnixStream::connect(dir.path().join("proxy")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let sent: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8).collect();
    let begin = clock::now();
    let mut received = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(&sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        (&stream).read_to_end(&mut received).unwrap();
    });
    let took = begin.elapsed();
    assert!(received == sent, "{} bytes came back of {LENGTH}, or others", received.len());
    // One round trip for each chunk of 64 KiB would be 32 s.
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_proxy_that_is_dropped_cuts_its_connections() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("proxy");
    let proxy = Proxy::start(&path, &echo(dir.path())).unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    round_trip(&stream);
    drop(proxy);
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    assert!(UnixStream::connect(&path).is_err());
}

#[test]
fn a_caller_is_let_go_when_there_is_nobody_to_lead_him_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("proxy");
    let _proxy = Proxy::start(&path, &dir.path().join("nobody")).unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    let _ = echo(dir.path());
}

#[tokio::test]
async fn commits_that_wait_for_the_standby_take_the_round_trip() {
    let dir = folder();
    let options = Options { rtt_ms: vec![0, 100], quick: true, ..Options::new(dir.path(), "duramen") };
    let pair = Pair::open(&options, &|_| {}).await.unwrap();
    let primary = pair.connect(Node::Primary).await.unwrap();
    primary.batch_execute("CREATE TABLE t (id int)").await.unwrap();
    pair.set_rtt(Duration::from_millis(100)).unwrap();
    for (level, waits) in [("local", false), ("remote_write", true)] {
        primary.batch_execute(&format!("SET synchronous_commit TO {level}")).await.unwrap();
        let mut best = Duration::MAX;
        for _ in 0..5 {
            let begin = clock::now();
            primary.batch_execute("INSERT INTO t VALUES (1)").await.unwrap();
            best = best.min(begin.elapsed());
        }
        assert_eq!(best >= Duration::from_millis(100), waits, "{level}: {best:?}");
    }
    pair.set_rtt(Duration::ZERO).unwrap();
    pair.close().await.unwrap();

    let near =
        Pair::open(&Options { quick: true, ..Options::new(dir.path(), "duramen") }, &|_| {}).await.unwrap();
    let refused = near.set_rtt(Duration::from_millis(1));
    assert!(matches!(refused, Err(SuiteError::Options(_))), "{refused:?}");
    near.set_rtt(Duration::ZERO).unwrap();
}
