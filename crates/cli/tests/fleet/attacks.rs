//! Connections from outside the fleet, and nodes that claim to be another one.

use crate::bed::{end, within, Bed, Made, PORT};
use crate::lives::code;
use crate::support::create;
use duramen_fleet::authority::{self, Trust};
use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

const ALPN: &[u8] = b"duramen-node/1";

pub(crate) fn address(bed: &Bed, number: usize) -> SocketAddr {
    SocketAddr::new(bed.network.address(number), PORT)
}

/// What a node answers to a request, by a connection with these certificates; nothing, if it answers nothing.
async fn ask(to: SocketAddr, node: &str, certificates: &Path, shown: &str, request: &str) -> Option<String> {
    ask_by(ALPN, (to, node), (certificates, shown), request.as_bytes()).await
}

/// The same, by another protocol.
pub(crate) async fn ask_by(
    protocol: &'static [u8],
    (to, node): (SocketAddr, &str),
    (certificates, shown): (&Path, &str),
    request: &[u8],
) -> Option<String> {
    let trust = Trust::open(certificates, shown).expect("certificates");
    let stream = TcpStream::connect(to).await.expect("it listens");
    let name = authority::expected(node).expect("a node");
    let mut stream = TlsConnector::from(trust.client(protocol)).connect(name, stream).await.ok()?;
    stream.write_all(request).await.ok()?;
    let mut text = Vec::new();
    tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut text)).await.ok()?.ok()?;
    Some(String::from_utf8_lossy(&text).into_owned()).filter(|text| !text.is_empty())
}

fn get(path: &str, caller: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-duramen-caller: {caller}\r\nconnection: close\r\n\r\n")
}

/// FL-7, FL-8, FL-10.
#[test]
fn who_is_no_node_is_served_nothing_and_hops_end() {
    within(Made::default(), |bed| async move {
        let mut at = bed.node("a").connect().await;
        for node in ["a", "c"] {
            at.drain_node(node, true).await.expect("so that it is made on b");
        }
        create(&mut at, "x").await.expect("a branch on b");
        assert_eq!(bed.held().await["x"].0, "b");
        let (ca, other) = (bed.dir.path().join("ca"), bed.dir.path().join("other"));
        authority::make(&other).expect("another authority");
        let (evil, good) = (bed.dir.path().join("evil"), bed.dir.path().join("good"));
        authority::certify(&other, "a", &evil).expect("a certificate");
        authority::certify(&ca, "a", &good).expect("a certificate");

        // FL-10: by a certificate of another authority, none, and without TLS.
        let request = get("/v1/branches/x", "owner");
        assert_eq!(ask(address(&bed, 1), "b", &evil, "a", &request).await, None);
        let mut plain = TcpStream::connect(address(&bed, 1)).await.expect("it listens");
        plain.write_all(request.as_bytes()).await.expect("it is sent");
        let mut text = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(5), plain.read_to_end(&mut text)).await;
        assert!(!String::from_utf8_lossy(&text).contains("HTTP/1.1"), "{text:?}");
        let roots = rustls_config_without_certificate(&good);
        let stream = TcpStream::connect(address(&bed, 1)).await.expect("it listens");
        let connecting = TlsConnector::from(roots).connect(authority::expected("b").unwrap(), stream).await;
        if let Ok(mut stream) = connecting {
            // With TLS 1.3 the refusal comes after the client's last message.
            let _ = stream.write_all(request.as_bytes()).await;
            let mut text = Vec::new();
            let _ = stream.read_to_end(&mut text).await;
            assert!(text.is_empty(), "{}", String::from_utf8_lossy(&text));
        }
        // A node's own certificate is good for that node alone: c is not b.
        assert_eq!(ask(address(&bed, 2), "b", &good, "a", &request).await, None);

        // FL-10: nor is a certificate of the fleet's authority enough, if the fleet has no such node, or forgot it.
        let gone = bed.dir.path().join("gone");
        authority::certify(&ca, "gone", &gone).expect("a certificate");
        let answer = ask(address(&bed, 1), "b", &gone, "gone", &request).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("not_a_member"), "{answer}");

        // FL-7: b answers, c does not pass it on.
        let answer = ask(address(&bed, 1), "b", &good, "a", &request).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("x-duramen-node: b"), "{answer}");
        let answer = ask(address(&bed, 2), "c", &good, "a", &request).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        // What is not about branches stays on its machine, whoever asks.
        for path in ["/v1/status", "/v1/tokens", "/v1/doors", "/v1/branches/x/administrator-url", "/v1/nodes"]
        {
            let answer =
                ask(address(&bed, 1), "b", &good, "a", &get(path, "owner")).await.expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 403"), "{path}: {answer}");
        }
        // But for what a node says of itself, which others ask it; and it asks nobody else then.
        let answer = ask(address(&bed, 1), "b", &good, "a", &get("/v1/node", "owner")).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(r#""node":"b""#), "{answer}");
        let answer = ask(address(&bed, 1), "b", &good, "a", &get("/v1/cluster", "owner")).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        let answer =
            ask(address(&bed, 1), "b", &good, "a", &get("/v1/node", "token t-unknown")).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        // FL-8: a token that the node does not know, and a header that names no caller.
        for caller in ["token t-unknown ci", "token", "nobody", "", "owner token"] {
            let answer =
                ask(address(&bed, 1), "b", &good, "a", &get("/v1/branches/x", caller)).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 401"), "{caller}: {answer}");
        }

        // FL-10: a daemon with certificates of another authority says in etcd that it is a node: no request goes to it.
        let home = crate::support::Home::new();
        authority::certify(&other, "evil", &home.path().join("fleet")).expect("a certificate");
        // On the machine of a, whose ports are taken.
        let lone = bed.program_at(0, "evil", &home, "10m", &[], [PORT + 1, PORT + 2, PORT + 3]);
        lone.start(&bed.network).expect("it starts");
        crate::bed::until("it is there", async || bed.node("b").sees("evil").await == "ready").await;
        let claim = r#"{"node":"evil","id":"b-evil","claimed_at":"2026-01-02T03:04:05Z"}"#;
        bed.etcd.put("/duramen/test/v1/names/trap", Some(claim)).await.expect("a claim");
        crate::bed::until("a sees the claim", async || code(at.branch("trap").await) == "node_unreachable")
            .await;
        bed.etcd.put("/duramen/test/v1/names/trap", None).await.expect("it goes");
        lone.stop(Duration::from_secs(30));
        drop(lone);
        for node in ["a", "c"] {
            at.drain_node(node, false).await.expect("no more");
        }
        at.destroy_branch("x").await.expect("destroyed");
        end(bed).await;
    });
}

fn rustls_config_without_certificate(certificates: &Path) -> Arc<rustls::ClientConfig> {
    use rustls::pki_types::{pem::PemObject, CertificateDer};
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificates.join(authority::AUTHORITY)).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Arc::new(config)
}
