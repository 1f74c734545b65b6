//! Tokens of the fleet, and PostgreSQL clients at the routers of all nodes.

use crate::bed::{end, until, within, Bed, Made, HTTP_PORT, PG_PORT};
use crate::lives::code;
use duramen_api::token::{CreateToken, NewToken, Role};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_postgres::{Client, NoTls};

pub(crate) async fn token(bed: &Bed, node: &str, name: &str, role: Role) -> NewToken {
    let wanted = CreateToken { name: name.to_owned(), role, ..CreateToken::default() };
    let made = bed.node(node).connect().await.create_token(&wanted).await.expect("a token");
    for node in &bed.nodes {
        until("all nodes know it", async || {
            node.connect().await.tokens().await.unwrap().iter().any(|token| token.name == name)
        })
        .await;
    }
    made
}

pub(crate) async fn enter(
    bed: &Bed,
    number: usize,
    token: &NewToken,
    database: &str,
) -> Result<Client, tokio_postgres::Error> {
    let mut config = tokio_postgres::Config::new();
    config.host(bed.network.address(number).to_string()).port(PG_PORT).user(&token.token.name);
    config.password(&token.secret).dbname(database).connect_timeout(Duration::from_secs(20));
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The same, once the node knows the token.
pub(crate) async fn enter_soon(bed: &Bed, number: usize, token: &NewToken, database: &str) -> Client {
    let mut client = None;
    until("it is let in", async || {
        client = enter(bed, number, token, database).await.ok();
        client.is_some()
    })
    .await;
    client.expect("a session")
}

pub(crate) fn state(error: &tokio_postgres::Error) -> String {
    error.code().map_or_else(|| format!("{error:?}"), |code| code.code().to_owned())
}

/// What the HTTP door of a node answers.
pub(crate) async fn http(bed: &Bed, number: usize, path: &str, headers: &str) -> String {
    send(bed, number, ("GET", path), headers, "").await
}

/// The same, of any request.
pub(crate) async fn send(
    bed: &Bed,
    number: usize,
    (method, path): (&str, &str),
    headers: &str,
    body: &str,
) -> String {
    let address = bed.network.address(number);
    let mut stream = TcpStream::connect((address, HTTP_PORT)).await.expect("it listens");
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}:{HTTP_PORT}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    let mut text = Vec::new();
    stream.read_to_end(&mut text).await.expect("an answer");
    String::from_utf8_lossy(&text).into_owned()
}

/// The header by which the holder of a token is known over HTTP.
pub(crate) fn bearer(token: &NewToken) -> String {
    format!("authorization: Bearer {}:{}\r\n", token.token.name, token.secret)
}

/// FL-7, FL-8, FL-13, R6, R9.
#[test]
fn a_client_enters_any_branch_by_any_router_as_its_token_may() {
    within(Made::default(), |bed| async move {
        let mut at = bed.node("a").connect().await;
        let ci = token(&bed, "a", "ci", Role::User).await;
        let eve = token(&bed, "b", "eve", Role::User).await;
        let viewer = token(&bed, "c", "viewer", Role::Viewer).await;
        assert_eq!(
            code(
                bed.node("c")
                    .connect()
                    .await
                    .create_token(&CreateToken { name: "ci".to_owned(), ..CreateToken::default() })
                    .await
            ),
            "token_exists"
        );
        for node in ["a", "c"] {
            at.drain_node(node, true).await.expect("so that it is made on b");
        }
        // Made by connecting, on another node, and entered by all.
        let first = enter(&bed, 0, &ci, "app@s1").await.expect("a session");
        first.execute("INSERT INTO t VALUES (1, 'one')", &[]).await.expect("a row");
        assert_eq!(bed.held().await["s1"].0, "b");
        for number in 0..3 {
            let client = enter(&bed, number, &ci, "s1").await.expect("a session");
            let rows = client.query("SELECT note FROM t ORDER BY id", &[]).await.expect("rows");
            assert_eq!(rows.len(), 2, "{number}");
        }
        // R10: a branch for a connection alone, on another node, ends with it.
        let alone = enter(&bed, 2, &ci, "@app").await.expect("a session");
        alone.execute("INSERT INTO t VALUES (2, 'two')", &[]).await.expect("a row");
        assert_eq!(bed.held().await.len(), 2);
        drop(alone);
        until("it ends", async || bed.held().await.len() == 1).await;

        // R9: a cancel request reaches a statement on another node.
        let cancels = first.cancel_token();
        let slept =
            tokio::spawn(async move { first.execute("SELECT pg_sleep(60)", &[]).await.map(|_| first) });
        tokio::time::sleep(Duration::from_millis(500)).await;
        cancels.cancel_query(NoTls).await.expect("it is sent");
        let error =
            tokio::time::timeout(Duration::from_secs(10), slept).await.expect("it is cancelled").unwrap();
        assert_eq!(error.err().map(|error| state(&error)).as_deref(), Some("57014"));

        // FL-8: what the token may is decided where the branch is.
        for number in 0..3 {
            let error = enter(&bed, number, &eve, "s1").await.expect_err("it is somebody else's");
            assert_eq!(state(&error), "3D000", "{number}");
            let error = enter(&bed, number, &viewer, "s1").await.expect_err("it only looks");
            assert_eq!(state(&error), "42501", "{number}");
            let error = enter(&bed, number, &ci, "none").await.expect_err("there is none");
            assert_eq!(state(&error), "3D000", "{number}");
            let forged = "x-duramen-caller: owner\r\nx-duramen-router: evil:1\r\n";
            for (headers, status) in [
                (bearer(&ci), "200"),
                (bearer(&viewer), "200"),
                (bearer(&eve), "404"),
                (bearer(&eve) + forged, "404"),
                (forged.to_owned(), "401"),
                (format!("x-duramen-caller: token {} ci\r\n", ci.token.id), "401"),
            ] {
                let answer = http(&bed, number, "/v1/branches/s1", &headers).await;
                assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{number} {headers}: {answer}");
                assert!(!answer.contains("evil"), "{answer}");
            }
            let list = http(&bed, number, "/v1/branches", &bearer(&eve)).await;
            assert!(list.starts_with("HTTP/1.1 200") && !list.contains("s1"), "{list}");
            let list = http(&bed, number, "/v1/branches?limit=1", &bearer(&ci)).await;
            assert!(list.contains("\"s1\"") && !list.contains("sslmode"), "{list}");
        }

        // What a token may hold counts on all nodes.
        let wanted = CreateToken { name: "two".to_owned(), max_branches: Some(2), ..CreateToken::default() };
        let two = bed.node("a").connect().await.create_token(&wanted).await.expect("a token");
        for node in ["a", "b", "c"] {
            at.drain_node(node, node != "c").await.expect("so that it is made on c");
        }
        let mut kept = vec![enter_soon(&bed, 0, &two, "app@q1").await];
        at.drain_node("c", true).await.expect("and then on a");
        at.drain_node("a", false).await.expect("and then on a");
        kept.push(enter_soon(&bed, 1, &two, "app@q2").await);
        let held = bed.held().await;
        assert_eq!((held["q1"].0.as_str(), held["q2"].0.as_str()), ("c", "a"));
        let error = enter(&bed, 2, &two, "app@q3").await.expect_err("it has as many as it may");
        assert_eq!(state(&error), "53400");
        drop(kept);
        for name in ["q1", "q2"] {
            at.destroy_branch(name).await.expect("destroyed");
        }
        at.drain_node("b", false).await.expect("it takes some again");

        // R6: revoked on one node, a session that another one passes on ends, and nobody is let in anywhere.
        let client = enter(&bed, 2, &ci, "s1").await.expect("a session");
        bed.node("a").connect().await.revoke_token("ci").await.expect("it is revoked");
        until("the session ends", async || client.is_closed()).await;
        for number in 0..3 {
            until("nobody is let in", async || {
                enter(&bed, number, &ci, "s1")
                    .await
                    .err()
                    .is_some_and(|error| state(&error).starts_with("28"))
            })
            .await;
        }
        for node in ["a", "c"] {
            at.drain_node(node, false).await.expect("no more");
        }
        at.destroy_branch("s1").await.expect("destroyed");
        bed.settled().await;
        end(bed).await;
    });
}
