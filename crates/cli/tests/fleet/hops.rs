//! The other side of a hop: a peer that stalls at each step of an answer, and strangers who hold the address of a node.

use crate::bed::{end, until, within, Bed, Made};
use crate::lives::code;
use crate::sessions::{enter, state, token};
use duramen_api::{
    model::QueryRequest,
    token::{NewToken, Role},
};
use duramen_base::clock;
use duramen_client::ClientError;
use duramen_fleet::{
    address::Access,
    authority::{self, Trust},
    member::{Fleet, Settings, Standing},
    record::Capacity,
};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{server::TlsStream, TlsAcceptor};

const ALPN: &[u8] = b"duramen-node/1";
const ALPN_SESSIONS: &[u8] = b"duramen-session/1";
/// Who waits for a node that is gone is told so within this.
const TOLD: Duration = Duration::from_secs(4);

/// Where a peer stops.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stall {
    /// It takes the connection, and says nothing.
    Handshake,
    /// It reads nothing of what it is asked.
    Request,
    /// It says nothing of its answer.
    Answer,
    /// It says half of the head of its answer.
    Head,
    /// It says half of the body.
    Body,
}

/// A node z, which is this test.
struct Peer {
    fleet: Arc<Fleet>,
    serving: JoinHandle<()>,
}

impl Peer {
    /// Registers it, and gives it the name `trap`.
    async fn join(bed: &Bed, address: SocketAddr, starts: usize, serving: JoinHandle<()>) -> Peer {
        let settings = Settings {
            etcd: format!("etcd://{}/test", bed.etcd.clients().join(",")).parse().expect("an address"),
            access: Access::default(),
            node: "z".to_owned(),
            advertise: address.to_string(),
            home: "h-z".to_owned(),
            starts: (0..=starts).map(|start| format!("s-{start}")).collect(),
            place: "p-z".to_owned(),
            sessions: true,
            version: "0".to_owned(),
            grace: Duration::from_secs(600),
        };
        let fleet = Fleet::join(settings, Box::new(Capacity::default)).expect("it begins");
        until("z is registered", async || matches!(fleet.standing(), Standing::Member(_))).await;
        let _ = fleet.claim("trap", "b-trap", Some("app"), None).await;
        until("a sees it", async || bed.node("a").sees("z").await == "ready").await;
        Peer { fleet, serving }
    }

    /// It is gone, as a node is whose lease is over: what it holds open stays open.
    async fn leave(&self) {
        self.fleet.leave().await;
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn listen(bed: &Bed) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((bed.network.switch(), 0)).await.expect("an address");
    let address = listener.local_addr().expect("its address");
    (listener, address)
}

/// Serves connections until they stall, and holds them open.
fn stalling(listener: TcpListener, certificates: &Path, stall: Stall) -> JoinHandle<()> {
    let trust = Trust::open(certificates, "z").expect("certificates");
    let acceptor = TlsAcceptor::from(trust.server(&[ALPN, ALPN_SESSIONS]));
    tokio::spawn(async move {
        let mut open = tokio::task::JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            open.spawn(stalled(acceptor.clone(), stream, stall));
        }
    })
}

async fn stalled(acceptor: TlsAcceptor, stream: TcpStream, stall: Stall) {
    if stall == Stall::Handshake {
        return std::future::pending::<()>().await;
    }
    let mut stream = acceptor.accept(stream).await.expect("a node");
    if stall == Stall::Request {
        return std::future::pending::<()>().await;
    }
    head(&mut stream).await;
    let said: &[u8] = match stall {
        Stall::Head => b"HTTP/1.1 200 OK\r\ncontent-type: application/js",
        Stall::Body => {
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"columns\":["
        }
        _ => b"",
    };
    stream.write_all(said).await.expect("it is said");
    stream.flush().await.expect("it is sent");
    std::future::pending::<()>().await;
}

/// Reads up to the end of a request's head.
async fn head(stream: &mut TlsStream<TcpStream>) -> Vec<u8> {
    let mut read = Vec::new();
    let mut part = [0; 4096];
    while !read.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut part).await {
            Ok(count) if count > 0 => read.extend_from_slice(&part[..count]),
            _ => break,
        }
    }
    read
}

/// How long it took to be told, and what.
async fn asked(bed: &Bed, large: bool) -> (Instant, Result<(), ClientError>) {
    let mut at = bed.node("a").client().with_deadline(Duration::from_secs(30)).connect().await.expect("a");
    // More than fits into what the two machines keep for a connection.
    let comment = if large { "x".repeat(7 << 20) } else { String::new() };
    let request = QueryRequest { sql: Some(format!("SELECT 1 -- {comment}")), ..QueryRequest::default() };
    let answer = at.query("trap", &request).await.map(drop);
    (clock::now(), answer)
}

/// A peer that stalls at any step of a hop is waited for until its registration ends, and no longer.
#[test]
fn a_peer_that_stalls_at_any_step_is_waited_for_until_it_is_gone() {
    within(Made { nodes: 2, ..Made::default() }, |bed| async move {
        let certificates = bed.dir.path().join("z");
        authority::certify(&bed.dir.path().join("ca"), "z", &certificates).expect("a certificate");
        let ci = token(&bed, "a", "ci", Role::Admin).await;
        for (starts, stall) in [Stall::Handshake, Stall::Request, Stall::Answer, Stall::Head, Stall::Body]
            .into_iter()
            .enumerate()
        {
            let (listener, address) = listen(&bed).await;
            let serving = stalling(listener, &certificates, stall);
            let peer = Peer::join(&bed, address, starts, serving).await;
            let begin = clock::now();
            if stall == Stall::Handshake {
                let (told, answer) = asked(&bed, false).await;
                assert_eq!(code(answer), "node_unreachable");
                assert!(told - begin < Duration::from_secs(3), "{:?}", told - begin);
            } else {
                let asking = asked(&bed, stall == Stall::Request);
                let leaving = async {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    let left = clock::now();
                    peer.leave().await;
                    left
                };
                let ((told, answer), left) = tokio::join!(asking, leaving);
                let answer = answer.expect_err("it was not answered");
                eprintln!("{stall:?}: {answer}");
                match (&answer, stall) {
                    (ClientError::Refused { body, .. }, _) => {
                        assert_eq!(body.code, "node_unreachable", "{stall:?}")
                    }
                    // A body that breaks off is not taken for whole.
                    (_, Stall::Body) => {}
                    (error, _) => panic!("{stall:?}: {error}"),
                }
                assert!(told > left && told - left < TOLD, "{stall:?}: {:?}", told - left);
            }
            // A session, which hears nothing either.
            if stall == Stall::Answer {
                let again = Peer::join(&bed, address, 90, tokio::spawn(async {})).await;
                let entering = enter(&bed, 0, &ci, "trap");
                let leaving = async {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    again.leave().await;
                    clock::now()
                };
                let (entered, left) = tokio::join!(entering, leaving);
                let error = entered.expect_err("it is not let in");
                assert_eq!(state(&error), "53000", "{error:?}");
                assert!(left.elapsed() < TOLD, "{:?}", left.elapsed());
                break_off(&bed, 91).await;
            } else {
                break_off(&bed, starts).await;
            }
            drop(peer);
        }
        bed.etcd.put("/duramen/test/v1/names/trap", None).await.expect("it goes");
        bed.etcd.put("/duramen/test/v1/members/z", None).await.expect("it goes");
        end(bed).await;
    });
}

/// Waits until z is gone, and forgets its starts, so that the next one is let in.
async fn break_off(bed: &Bed, _starts: usize) {
    bed.etcd.put("/duramen/test/v1/nodes/z", None).await.expect("it goes");
    until("z is gone", async || bed.node("a").sees("z").await != "ready").await;
    bed.etcd.put("/duramen/test/v1/members/z", None).await.expect("it goes");
}

/// Who holds the address of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stranger {
    /// He takes connections, and says nothing.
    Silent,
    /// He answers without TLS.
    Plain,
    /// He has a certificate of another authority.
    Foreign,
    /// He has the certificate of another node of the fleet.
    OtherNode,
    /// He is the node, of a version that speaks another protocol.
    Newer,
}

/// What a stranger came to know: the bytes on the wire, and what TLS let through.
#[derive(Default)]
struct Heard {
    wire: Vec<u8>,
    inside: Vec<u8>,
    connections: usize,
}

fn strange(
    listener: TcpListener,
    stranger: Stranger,
    certificates: Option<(PathBuf, &'static str)>,
    heard: Arc<Mutex<Heard>>,
) -> JoinHandle<()> {
    let acceptor = certificates.map(|(certificates, node)| {
        let trust = Trust::open(&certificates, node).expect("certificates");
        let protocols: &[&[u8]] = match stranger {
            Stranger::Newer => &[b"duramen-node/2", b"duramen-session/2"],
            _ => &[ALPN, ALPN_SESSIONS],
        };
        TlsAcceptor::from(trust.server(protocols))
    });
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let (acceptor, heard) = (acceptor.clone(), Arc::clone(&heard));
            heard.lock().unwrap().connections += 1;
            tokio::spawn(async move {
                match acceptor {
                    Some(acceptor) => {
                        let Ok(mut stream) = acceptor.accept(stream).await else { return };
                        let mut inside = Vec::new();
                        let _ = stream.read_to_end(&mut inside).await;
                        heard.lock().unwrap().inside.extend(inside);
                    }
                    None => {
                        let mut part = [0; 4096];
                        let count = stream.read(&mut part).await.unwrap_or(0);
                        heard.lock().unwrap().wire.extend_from_slice(&part[..count]);
                        if stranger == Stranger::Plain {
                            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
                        }
                        let mut rest = Vec::new();
                        let _ = stream.read_to_end(&mut rest).await;
                        heard.lock().unwrap().wire.extend(rest);
                    }
                }
            });
        }
    })
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text.as_bytes()))
}

async fn meet(bed: &Bed, ci: &NewToken, stranger: Stranger, certificates: Option<(PathBuf, &'static str)>) {
    let heard = Arc::new(Mutex::new(Heard::default()));
    let (listener, address) = listen(bed).await;
    let serving = strange(listener, stranger, certificates, Arc::clone(&heard));
    let peer = Peer::join(bed, address, 0, serving).await;
    let begin = clock::now();
    let (told, answer) = asked(bed, false).await;
    let Err(ClientError::Refused { status, body }) = answer else { panic!("{stranger:?}: {answer:?}") };
    eprintln!("{stranger:?}: {}", body.message);
    let expected = if stranger == Stranger::Newer { "other_protocol" } else { "node_unreachable" };
    assert_eq!((status, body.code.as_str()), (503, expected), "{stranger:?}");
    assert!(body.message.contains("the node z"), "{}", body.message);
    assert!(told - begin < Duration::from_secs(3), "{stranger:?}: {:?}", told - begin);
    let error = enter(bed, 0, ci, "trap").await.expect_err("nobody is let in");
    assert_eq!(state(&error), "53000", "{stranger:?}: {error:?}");
    let missing = {
        let mut at = bed.node("a").connect().await;
        at.branches().await.expect("a list");
        at.missing().map(str::to_owned)
    };
    assert!(missing.as_deref().is_some_and(|missing| missing.contains("z (")), "{stranger:?}: {missing:?}");
    // The port was tried, and nothing came but what begins a handshake.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let heard = std::mem::take(&mut *heard.lock().unwrap());
    assert!(heard.connections >= 2, "{stranger:?}");
    assert!(heard.inside.is_empty(), "FL-10: {stranger:?}: {}", String::from_utf8_lossy(&heard.inside));
    for secret in [
        "x-duramen",
        "caller",
        "HTTP/1.1",
        "SELECT",
        "owner",
        "/v1/",
        "Enter",
        &ci.token.id,
        &ci.secret,
        "SCRAM",
    ] {
        assert!(!holds(&heard.wire, secret), "FL-10: {stranger:?}: {secret}");
    }
    peer.leave().await;
    drop(peer);
    break_off(bed, 0).await;
}

/// FL-10: who holds the address of a node and is not that node learns nothing.
#[test]
fn a_stranger_at_the_address_of_a_node_learns_nothing() {
    within(Made { nodes: 2, ..Made::default() }, |bed| async move {
        let (ca, other) = (bed.dir.path().join("ca"), bed.dir.path().join("other"));
        authority::make(&other).expect("another authority");
        let made = |name: &str, authority: &Path, node: &str| {
            let dir = bed.dir.path().join(name);
            authority::certify(authority, node, &dir).expect("a certificate");
            dir
        };
        let (foreign, another, newer) =
            (made("foreign", &other, "z"), made("y", &ca, "y"), made("z", &ca, "z"));
        let ci = token(&bed, "a", "ci", Role::Admin).await;
        meet(&bed, &ci, Stranger::Silent, None).await;
        meet(&bed, &ci, Stranger::Plain, None).await;
        meet(&bed, &ci, Stranger::Foreign, Some((foreign, "z"))).await;
        meet(&bed, &ci, Stranger::OtherNode, Some((another, "y"))).await;
        meet(&bed, &ci, Stranger::Newer, Some((newer, "z"))).await;

        // A registration that says that it speaks another protocol: nothing is connected to.
        let (listener, address) = listen(&bed).await;
        let record = format!(
            r#"{{"address":"{address}","version":"9.9.9","capacity":{{"memory_free":1,"disk_free":1,"leases":0,"places":1}},"sessions":true,"protocol":2}}"#
        );
        bed.etcd.put("/duramen/test/v1/nodes/z", Some(&record)).await.expect("it is there");
        until("a sees it", async || bed.node("a").sees("z").await == "ready").await;
        let (_, answer) = asked(&bed, false).await;
        let Err(ClientError::Refused { body, .. }) = answer else { panic!("{answer:?}") };
        assert_eq!(body.code, "other_protocol");
        assert!(body.message.contains("9.9.9") && body.message.contains("upgrade"), "{}", body.message);
        let connected = tokio::time::timeout(Duration::from_millis(300), listener.accept()).await;
        assert!(connected.is_err(), "nothing is said to it");
        bed.etcd.put("/duramen/test/v1/nodes/z", None).await.expect("it goes");
        bed.etcd.put("/duramen/test/v1/names/trap", None).await.expect("it goes");
        end(bed).await;
    });
}
