//! A daemon with an HTTP door, and requests as they go over the wire.

use crate::support::{connect, until, Home, EXE};
use duramen_api::model::{AddSource, Origin, Policy, PoolSize, SourceSettings};
use duramen_api::token::{CreateToken, NewToken, Role};
use duramen_client::Connection;
use duramen_server::{lock::HomeLock, process::Daemon};
use serde_json::Value;
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// How long a reply may take.
const REPLY_LIMIT: Duration = Duration::from_secs(30);

/// A daemon with a door that listens somewhere.
pub(crate) struct Site {
    // Dropped before its home.
    pub(crate) daemon: Daemon,
    pub(crate) connection: Connection,
    pub(crate) door: SocketAddr,
    pub(crate) home: Home,
}

impl Site {
    pub(crate) async fn open() -> Site {
        Site::listening("127.0.0.1:0", &[]).await
    }

    pub(crate) async fn listening(address: &str, more: &[&str]) -> Site {
        let home = Home::new();
        let usual = ["--volume-size", "3G", "--pg-listen", address, "--http-listen", address];
        let arguments: Vec<String> = usual.iter().chain(more).map(|text| (*text).to_owned()).collect();
        let daemon = Daemon::spawn(EXE.as_ref(), &home.path(), &arguments, &home.beside("log"))
            .await
            .expect("the daemon serves");
        let mut connection = connect(&daemon).await;
        let door = connection.doors().await.expect("the doors").http.expect("it listens").address;
        Site { daemon, connection, door, home }
    }

    /// Ends the daemon, and has another one serve the same home.
    pub(crate) async fn again(&mut self) {
        self.connection.shutdown().await.expect("it stops");
        until("it has stopped", async || HomeLock::holder(&self.home.path()).is_none()).await;
        let listen = ["--volume-size", "3G", "--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"];
        let arguments = listen.map(str::to_owned);
        self.daemon = Daemon::spawn(EXE.as_ref(), &self.home.path(), &arguments, &self.home.beside("log"))
            .await
            .expect("the daemon serves");
        self.connection = connect(&self.daemon).await;
        self.door = self.connection.doors().await.expect("the doors").http.expect("it listens").address;
    }

    /// Imports a script of one table `t` as a source.
    pub(crate) async fn add_source(&mut self, name: &str) {
        let path = self.home.beside(&format!("{name}.sql"));
        fs::write(&path, "create table t (x int); insert into t values (1), (2);").expect("the script");
        let request = AddSource {
            name: name.to_owned(),
            origin: Origin::Script { path: path.display().to_string() },
            database: None,
            settings: SourceSettings {
                pool: PoolSize { hot: [(Policy::ReadWrite, 1)].into(), cold: 0 },
                ..SourceSettings::default()
            },
        };
        self.connection.add_source(&request, |_, _| {}).await.expect("the import");
    }

    pub(crate) async fn token(&mut self, name: &str, role: Role, sources: &[&str]) -> Who {
        let sources = sources.iter().map(|source| (*source).to_owned()).collect();
        self.make(CreateToken { name: name.to_owned(), role, sources, ..CreateToken::default() }).await
    }

    pub(crate) async fn make(&mut self, wanted: CreateToken) -> Who {
        let NewToken { token, secret } = self.connection.create_token(&wanted).await.expect("a token");
        Who { door: self.door, id: token.id, bearer: format!("Bearer {}:{secret}", token.name), secret }
    }

    /// The entries of the audit log that tell of an event.
    pub(crate) fn audited(&self, event: &str) -> Vec<Value> {
        let mut found = Vec::new();
        for file in fs::read_dir(self.home.path().join("audit")).expect("the audit log").flatten() {
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            found.extend(
                text.lines().filter_map(|line| serde_json::from_str::<Value>(&line[line.find('{')?..]).ok()),
            );
        }
        found.retain(|entry| entry["event"] == event);
        found
    }
}

/// Who asks with a token.
pub(crate) struct Who {
    pub(crate) door: SocketAddr,
    pub(crate) id: String,
    pub(crate) bearer: String,
    pub(crate) secret: String,
}

/// A reply.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }

    /// The word for programs of a refusal, whose form is checked.
    pub(crate) fn code(&self) -> String {
        assert!(self.status >= 400, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        assert_eq!(problem["detail"], problem["error"]["message"]);
        problem["code"].as_str().expect("a code").to_owned()
    }
}

impl Who {
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "", "")
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, "", body)
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, "", "")
    }

    /// A request with more header lines, each of which ends with CRLF.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        ask(self.door, &request(method, path, &format!("authorization: {}\r\n{headers}", self.bearer), body))
    }
}

/// The text of a request, after whose reply the connection ends.
pub(crate) fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends bytes, and reads until the door closes.
pub(crate) fn ask(door: SocketAddr, text: &str) -> Answer {
    let mut stream = dial(door);
    // The door may have refused, and closed, before it has all of it.
    let _ = stream.write_all(text.as_bytes());
    answer(&mut stream)
}

pub(crate) fn dial(door: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&door, REPLY_LIMIT).expect("the door is open");
    stream.set_read_timeout(Some(REPLY_LIMIT)).expect("a deadline");
    stream
}

/// Reads until the door closes.
pub(crate) fn answer(stream: &mut impl Read) -> Answer {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut part) {
        bytes.extend_from_slice(&part[..length]);
    }
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}
