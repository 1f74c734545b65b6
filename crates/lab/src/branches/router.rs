//! The same work through the router, as a client does it that has nothing but one URL: connecting creates the branch.
//!
//! The client is our own, because a driver computes 4,096 rounds of its password at each login, which is more than all else
//! that is measured, on the same processors.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use duramen_api::model::Policy;
use duramen_api::token::{CreateToken, Role};
use duramen_base::{clock, entropy};
use duramen_postgres::{log_in, quote_literal, Secret};
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::{backend::Message, frontend};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{Failure, Lived, STEP_DEADLINE};
use super::control::Control;
use super::options::Options;
use super::workload::{Change, Key, Plan, Read, PLAIN_READ};
use duramen_reports::suite::SuiteError;

/// How long a run waits until each branch of the pool has a process for its client.
const ENTRIES_LIMIT: Duration = Duration::from_secs(60);

/// A door with a token of the run's own.
pub(crate) struct Door {
    address: SocketAddr,
    token: String,
    secret: Secret,
    source: String,
    policy: Policy,
}

impl Door {
    /// Makes a token for a run.
    pub(crate) async fn open(
        control: &mut Control,
        options: &Options,
        policy: Policy,
    ) -> Result<Door, SuiteError> {
        let address = control.router().await?;
        let wanted = CreateToken {
            name: format!("lab-{}", entropy::token(8)),
            role: Role::User,
            policies: vec![policy],
            max_branches: Some(options.concurrency),
            max_connections: Some(options.concurrency),
            ..CreateToken::default()
        };
        let made = control.create_token(&wanted).await?;
        let door = Door {
            address,
            token: made.token.name,
            secret: Secret::from_text(&made.secret),
            source: options.source.clone(),
            policy,
        };
        // The keys are computed before anything is timed, and not by a hundred clients at once. There is no such branch.
        drop(door.enter("none").await);
        Ok(door)
    }

    /// Comes once, so that it is known with what clients come.
    pub(crate) async fn knock(&self) -> Result<(), Failure> {
        self.enter(&format!("@{}", self.source)).await.map(drop)
    }

    /// The name of the token.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    async fn enter(&self, database: &str) -> Result<Wire, Failure> {
        let refused = |error: &dyn Display| Failure::wrong("connect", error.to_string());
        let stream = TcpStream::connect(self.address).await.map_err(|error| refused(&error))?;
        stream.set_nodelay(true).map_err(|error| refused(&error))?;
        let policy = self.policy.to_string();
        let parameters = [("user", self.token.as_str()), ("database", database), ("duramen.policy", &policy)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let stream = log_in(stream, &self.secret, &parameters, STEP_DEADLINE).await;
        Ok(Wire { stream: stream.map_err(|error| refused(&error))?, received: BytesMut::new() })
    }

    /// Connects, which creates the branch, reads twice and writes.
    pub(crate) async fn work(&self, plan: &Plan, lived: &mut Lived) -> Result<(), Failure> {
        let begin = clock::now();
        let mut wire = self.enter(&format!("{}@{}", self.source, plan.name)).await?;
        lived.note("router_connect_ms", begin.elapsed());
        wire.read("first query", &plan.reads[0]).await?;
        lived.note("router_first_query_ms", begin.elapsed());
        let begin = clock::now();
        wire.read("second query", &plan.reads[1]).await?;
        lived.second_query = Some(begin.elapsed());
        if let Some(change) = &plan.change {
            let begin = clock::now();
            wire.write(change).await?;
            lived.write = Some(begin.elapsed());
        }
        Ok(())
    }
}

/// A session of the simple protocol.
struct Wire {
    stream: TcpStream,
    received: BytesMut,
}

type Row = Vec<Option<String>>;

impl Wire {
    async fn read(&mut self, step: &'static str, wanted: &Read) -> Result<(), Failure> {
        let sql = match &wanted.key {
            Key::Nothing => PLAIN_READ.to_owned(),
            Key::Airline(carrier) => {
                format!("select name from airlines where carrier = {}", quote_literal(carrier))
            }
            Key::Flight(flight) => {
                format!("select carrier, origin, dest from flights where id = {flight}")
            }
        };
        let rows = self.run(step, &sql).await?;
        let [row] = rows.as_slice() else {
            return Err(Failure::wrong(step, format!("{} rows instead of one", rows.len())));
        };
        match row.iter().flatten().find(|value| !wanted.expected.contains(value.as_str())) {
            Some(found) => Err(Failure::wrong(step, format!("expected {}, got {found:?}", wanted.expected))),
            None => Ok(()),
        }
    }

    async fn write(&mut self, change: &Change) -> Result<(), Failure> {
        let sql = match change {
            Change::Event { flight, kind, payload, .. } => format!(
                "insert into events (flight_id, kind, payload) values ({flight}, {}, {}::jsonb) returning id",
                quote_literal(kind),
                quote_literal(payload)
            ),
            Change::Schema { statements, .. } => statements.join(";\n"),
        };
        self.run("write", &sql).await.map(drop)
    }

    async fn run(&mut self, step: &'static str, sql: &str) -> Result<Vec<Row>, Failure> {
        tokio::time::timeout(STEP_DEADLINE, self.exchange(step, sql))
            .await
            .unwrap_or_else(|_| Err(Failure::deadline(step)))
    }

    async fn exchange(&mut self, step: &'static str, sql: &str) -> Result<Vec<Row>, Failure> {
        let broken = |error: &dyn Display| Failure::wrong(step, error.to_string());
        let mut send = BytesMut::new();
        frontend::query(sql, &mut send).map_err(|error| broken(&error))?;
        self.stream.write_all(&send).await.map_err(|error| broken(&error))?;
        let (mut rows, mut failure) = (Vec::new(), None);
        loop {
            match Message::parse(&mut self.received).map_err(|error| broken(&error))? {
                Some(Message::DataRow(body)) => {
                    let text = |range: Option<std::ops::Range<usize>>| {
                        Ok(range.map(|range| String::from_utf8_lossy(&body.buffer()[range]).into_owned()))
                    };
                    rows.push(body.ranges().map(text).collect().map_err(|error| broken(&error))?);
                }
                Some(Message::ErrorResponse(body)) => {
                    let mut fields = body.fields();
                    while let Ok(Some(field)) = fields.next() {
                        if field.type_() == b'M' {
                            failure = Some(String::from_utf8_lossy(field.value_bytes()).into_owned());
                        }
                    }
                }
                Some(Message::ReadyForQuery(_)) => break,
                Some(_) => {}
                None => {
                    let read = self.stream.read_buf(&mut self.received).await;
                    if read.map_err(|error| broken(&error))? == 0 {
                        let why = failure.unwrap_or_else(|| "the connection ended".to_owned());
                        return Err(Failure::wrong(step, why));
                    }
                }
            }
        }
        failure.map_or(Ok(rows), |message| Err(Failure::wrong(step, message)))
    }
}

/// Waits until every branch of the pool has a process that is ready for its client.
pub(crate) async fn until_entries(
    control: &mut Control,
    source: &str,
    policy: Policy,
) -> Result<(), SuiteError> {
    let begin = clock::now();
    while begin.elapsed() < ENTRIES_LIMIT {
        match control.pool(source, policy).await? {
            Some(pool) if pool.entries < pool.hot => tokio::time::sleep(Duration::from_millis(50)).await,
            _ => return Ok(()),
        }
    }
    Err(SuiteError::Failed(format!(
        "after {} s not every branch of the pool had a process for its client",
        ENTRIES_LIMIT.as_secs()
    )))
}
