//! How a client is told apart by what stands before its first packet: the name of the server that it called, and the proxy that it
//! came through.

use super::{
    sessions::audit,
    strangers::{startup, until_closed},
    Site,
};
use crate::support::{text, until, Home};
use duramen_postgres::{log_in, Secret};
use std::{io::Write, net::SocketAddr, process::Command, time::Duration};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_names_no_database_enters_the_branch_of_its_servers_name() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let ci = site.user("ci").await;
    for name in ["try", "ci", "other"] {
        let client = site.enter(&ci, &format!("app@{name}")).await.expect("a branch");
        client.batch_execute(&format!("insert into t values (0, '{name}')")).await.expect("a row");
    }
    let psql = |host: &str, more: &str| {
        let info = format!(
            "host={host} hostaddr=127.0.0.1 port={} user=ci password={} sslmode=require {more}",
            site.router.address.port(),
            ci.secret
        );
        let output = Command::new("psql")
            .args(["-XAt", &info, "-c", "select y from t where x = 0"])
            .output()
            .expect("psql runs");
        format!("{}{}", text(&output.stdout), text(&output.stderr)).trim().to_owned()
    };
    assert_eq!(psql("try.localhost", ""), "try");
    // libpq sends the name of the user for a database that nobody gave.
    assert_eq!(psql("other.localhost", "dbname=ci"), "other");
    assert_eq!(psql("try.localhost", "dbname=other"), "other", "a database that is named counts");
    assert_eq!(psql("localhost", ""), "ci", "there is none");
    assert_eq!(psql("try.example", ""), "ci", "it is not a name of the door");
    assert_eq!(psql("try.localhost", "sslsni=0"), "ci", "it is not sent");
    let nothing = psql("nothing.localhost", "");
    assert!(nothing.contains("no branch \"nothing\""), "{nothing}");
    site.stop().await;
}

/// A header of the PROXY protocol, version 2, for IPv4.
fn header(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else { panic!("IPv4") };
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend(from.ip().octets().into_iter().chain(to.ip().octets()));
    header.extend(from.port().to_be_bytes().into_iter().chain(to.port().to_be_bytes()));
    header
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listed_proxy_says_who_its_clients_are_and_nobody_else_does() {
    let home = Home::new();
    let options = ["--pg-listen", "127.0.0.1:0", "--pg-proxy-protocol", "192.0.2.9,127.0.0.0/8"];
    let mut site = Site::open(&home, &options).await;
    let ci = site.user("ci").await;
    let at = site.router.address;
    let client: SocketAddr = "203.0.113.7:4711".parse().unwrap();
    let near: SocketAddr = "127.0.0.1:4712".parse().unwrap();
    let said = |bytes: &[u8]| {
        let mut stream = std::net::TcpStream::connect(at).expect("a connection");
        stream.write_all(bytes).expect("bytes");
        text(&until_closed(&stream, Duration::from_secs(12)))
    };
    let start = startup(&[("user", "ci"), ("database", "app@try")]);
    // R4: it is as far away as the proxy says.
    let far = said(&[header(client, at), start.clone()].concat());
    assert!(far.contains("28000") && far.contains("TLS"), "{far}");
    for wrong in [start.clone(), b"PROXY TCP4 203.0.113.7 127.0.0.1 4711 6432\r\n".to_vec(), {
        let mut header = header(near, at);
        header[14] = 0xff;
        header
    }] {
        let refused = said(&wrong);
        assert!(refused.contains("08P01") && refused.contains("PROXY"), "{refused}");
    }
    // The audit log has the client, and not the proxy.
    let mut stream = tokio::net::TcpStream::connect(at).await.expect("a connection");
    tokio::io::AsyncWriteExt::write_all(&mut stream, &header(near, at)).await.expect("a header");
    let parameters =
        [("user", "ci"), ("database", "app@try")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let stream = log_in(stream, &Secret::from_text(&ci.secret), &parameters, Duration::from_secs(30)).await;
    drop(stream.expect("it is let in"));
    until("the session is in the audit log", async || {
        audit(&home).iter().any(|line| line["event"] == "connected" && line["from"] == near.to_string())
    })
    .await;
    site.stop().await;

    // Who is not on the list says nothing of that kind.
    let mut site =
        Site::again(&home, &["--pg-listen", &at.to_string(), "--pg-proxy-protocol", "192.0.2.9"]).await;
    let refused = said(&header(near, at));
    assert!(refused.contains("08P01") && !refused.contains("PROXY"), "{refused}");
    site.enter(&ci, "app@try").await.expect("it goes on as before");
    site.connection.status().await.expect("it serves");
    site.stop().await;
}
