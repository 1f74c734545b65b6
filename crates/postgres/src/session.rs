//! A resident session: one connection that runs guarded statements in a single round trip each.
//!
//! Statements travel by the extended protocol, which makes the server itself refuse several statements in one
//! text. A guarded request is one pipeline, sent in one write and answered in one flush: each statement with a row
//! limit on its portal, in the implicit transaction that ends at the pipeline's end, or between `BEGIN READ ONLY` and
//! `COMMIT`. The time limit is kept here, by a cancel request, so that no `SET` in a statement can lift it; it also
//! costs the server nothing.
//! Source: the PostgreSQL documentation, "Frontend/Backend Protocol", sections on the extended query protocol
//! and on pipelining.

use crate::{
    collect::Collector,
    entry::Entry,
    frames::{Frame, Frames},
    scram::{ClientExchange, Refusal},
    secret::Secret,
    SOCKET_PORT,
};
use bytes::{Bytes, BytesMut};
use fallible_iterator::FallibleIterator;
use postgres_protocol::{
    authentication::sasl::SCRAM_SHA_256,
    message::{backend::Message, frontend},
    IsNull,
};
use std::{future::Future, io, path::Path, path::PathBuf, pin::pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::{sleep, timeout},
};

/// How long a statement may take to end after it was cancelled.
const GRACE: Duration = Duration::from_secs(5);
/// How often a cancel request is repeated: one that arrives before the server has begun the statement is lost.
const CANCEL_EVERY: Duration = Duration::from_millis(100);
/// SQLSTATE of a cancelled statement.
const CANCELLED: &str = "57014";
/// SQLSTATE of a wrong password.
const WRONG_SECRET: &str = "28P01";

/// One statement and its parameters, which are sent as text.
#[derive(Debug, Clone, Default)]
pub struct Statement {
    /// The SQL text: exactly one statement.
    pub sql: String,
    /// Values for `$1`, `$2`, ...
    pub parameters: Vec<Option<String>>,
}

/// What a statement may do and cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guard {
    /// Run in a READ ONLY transaction.
    pub read_only: bool,
    /// The request is cancelled after this time.
    pub timeout: Duration,
    /// At most this many rows are returned; more are reported as truncated and never computed.
    pub row_limit: u32,
    /// At most this many bytes of JSON rows are kept: a row that does not fit is left out with all that follow it, which
    /// is reported as truncated. No row that the server sends is held in memory beyond this.
    pub byte_limit: usize,
}

/// A result column.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type's name.
    #[serde(rename = "type")]
    pub type_name: String,
}

/// What one statement gave.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The columns; empty for a statement without a result.
    pub columns: Vec<Column>,
    /// The rows as a JSON array of arrays.
    pub rows_json: Vec<u8>,
    /// How many rows `rows_json` holds.
    pub row_count: u64,
    /// Whether there were more rows than the guard lets through.
    pub truncated: bool,
    /// The server's command tag, such as `SELECT 3` or `INSERT 0 1`.
    pub command: String,
}

impl Outcome {
    fn controls_transaction(&self) -> bool {
        const TAGS: [&str; 7] = [
            "BEGIN",
            "START TRANSACTION",
            "COMMIT",
            "ROLLBACK",
            "SAVEPOINT",
            "RELEASE",
            "PREPARE TRANSACTION",
        ];
        TAGS.contains(&self.command.as_str())
    }
}

/// An error report of the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (SQLSTATE {code}){}", .hint.as_ref().map(|hint| format!("; hint: {hint}")).unwrap_or_default())]
pub struct ServerError {
    /// The five-character SQLSTATE.
    pub code: String,
    /// The primary message.
    pub message: String,
    /// The server's hint, if it gave one.
    pub hint: Option<String>,
    /// Where in the statement it is, counted in characters from 1, if the server says so.
    pub position: Option<u32>,
}

/// Why a session failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The server refused the statement; the session goes on.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The connection broke; the session is of no more use.
    #[error("the connection to the branch's server broke: {0}")]
    Io(#[from] io::Error),
    /// The server did not answer in time; the session is of no more use.
    #[error("the server did not answer within {0:?}")]
    Timeout(Duration),
    /// The request ran longer than its guard allows and was cancelled; the session goes on.
    #[error("the statement ran longer than {0:?} and was cancelled")]
    Cancelled(Duration),
    /// A statement opened or ended a transaction by itself. What is open was rolled back and the session goes on.
    #[error("a statement began or ended a transaction; BEGIN, COMMIT and the like have no place in a query, and what ran before a COMMIT stays: send several statements in one request to run them in one transaction")]
    TransactionControl,
    /// A statement wanted to send rows outside of a result; they were dropped and the session goes on.
    #[error(
        "COPY ... TO STDOUT has nowhere to send its rows in a query; select them, or use the branch's URL"
    )]
    CopyToClient,
    /// A statement wanted to read rows from the client; the server failed it and the session goes on.
    #[error("COPY ... FROM STDIN has no rows to read in a query; insert the rows, or use the branch's URL")]
    CopyFromClient,
    /// The server has a verifier that no secret of ours made; whoever may change the role's password wrote it.
    #[error("the server asks for more rounds of a password than any verifier of ours has: set the role's password anew")]
    ForeignVerifier,
    /// The server sent something that this client does not speak.
    #[error("unexpected answer from the server: {0}")]
    Protocol(String),
    /// A statement or parameter holds a zero byte, which PostgreSQL cannot take.
    #[error("the statement or a parameter holds a zero byte")]
    ZeroByte,
}

impl SessionError {
    /// Whether a login failed because the role has another secret by now.
    #[must_use]
    pub fn secret_is_wrong(&self) -> bool {
        match self {
            SessionError::Server(error) => error.code == WRONG_SECRET,
            SessionError::ForeignVerifier => true,
            _ => false,
        }
    }

    /// Whether the session can be used again.
    #[must_use]
    pub fn session_survives(&self) -> bool {
        !matches!(
            self,
            SessionError::Io(_)
                | SessionError::Timeout(_)
                | SessionError::Protocol(_)
                | SessionError::ForeignVerifier
        )
    }
}

/// Ends the running statement of a session from outside.
#[derive(Debug, Clone)]
pub struct Canceller {
    socket: PathBuf,
    process_id: i32,
    secret_key: i32,
}

impl Canceller {
    /// For a server's socket; it has no process yet.
    #[must_use]
    pub fn new(socket: PathBuf) -> Canceller {
        Canceller { socket, process_id: 0, secret_key: 0 }
    }

    /// The process id of the server process whose statements it ends.
    #[must_use]
    pub fn process_id(&self) -> i32 {
        self.process_id
    }

    pub(crate) fn set_key(&mut self, process_id: i32, secret_key: i32) {
        (self.process_id, self.secret_key) = (process_id, secret_key);
    }

    /// Asks the server to cancel; the session itself then reports the cancellation.
    ///
    /// # Errors
    /// The socket's failure.
    pub async fn cancel(&self) -> io::Result<()> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        let mut message = BytesMut::new();
        frontend::cancel_request(self.process_id, self.secret_key, &mut message);
        stream.write_all(&message).await?;
        let mut end = [0_u8; 1];
        // The server closes the connection when it has sent the signal.
        let _ = timeout(Duration::from_secs(1), stream.read(&mut end)).await;
        Ok(())
    }

    /// Cancels, again and again, until `work`, which awaits the session's statement, ends.
    async fn cancel_until<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        let cancels = async {
            loop {
                // A failure means that the server is gone, and then so is the statement.
                let _ = timeout(Duration::from_secs(1), self.cancel()).await;
                sleep(CANCEL_EVERY).await;
            }
        };
        tokio::select! {
            output = &mut work => output,
            () = cancels => unreachable!("it has no end"),
        }
    }
}

/// One open connection to a server on this machine.
#[derive(Debug)]
pub struct Session {
    stream: UnixStream,
    frames: Frames,
    send: BytesMut,
    canceller: Arc<Canceller>,
}

impl Session {
    /// Connects through a socket directory as `role`, which the server asks for its secret by SCRAM-SHA-256.
    ///
    /// # Errors
    /// The server's refusal, a broken connection, or a timeout.
    pub async fn connect(
        socket_dir: &Path,
        role: &str,
        secret: &Secret,
        database: &str,
        limit: Duration,
    ) -> Result<Session, SessionError> {
        timeout(limit, Session::open(socket_dir, role, secret, database))
            .await
            .map_err(|_| SessionError::Timeout(limit))?
    }

    async fn open(
        socket_dir: &Path,
        role: &str,
        secret: &Secret,
        database: &str,
    ) -> Result<Session, SessionError> {
        let socket = socket_dir.join(format!(".s.PGSQL.{SOCKET_PORT}"));
        let stream = UnixStream::connect(&socket).await?;
        let mut canceller = Canceller::new(socket);
        let mut session = Session {
            stream,
            frames: Frames::new(),
            send: BytesMut::with_capacity(1024),
            canceller: Arc::new(canceller.clone()),
        };
        let parameters = [
            ("user", role),
            ("database", database),
            ("client_encoding", "UTF8"),
            ("application_name", "duramen"),
        ];
        frontend::startup_message(parameters, &mut session.send)?;
        session.flush().await?;
        session.authenticate(secret).await?;
        loop {
            match session.message().await? {
                Frame::Skipped | Frame::Whole(Message::ParameterStatus(_) | Message::NoticeResponse(_)) => {}
                Frame::Whole(Message::BackendKeyData(key)) => {
                    canceller.set_key(key.process_id(), key.secret_key());
                }
                Frame::Whole(Message::ReadyForQuery(_)) => {
                    session.canceller = Arc::new(canceller);
                    return Ok(session);
                }
                Frame::Error(error) => return Err(error.into()),
                _ => return Err(SessionError::Protocol("no answer to a login".to_owned())),
            }
        }
    }

    /// Proves that it knows the secret, and has the server prove that it knows its verifier. A server that lets
    /// everybody in is not the one that was prepared, and is refused.
    async fn authenticate(&mut self, secret: &Secret) -> Result<(), SessionError> {
        let unexpected = |what: &str| SessionError::Protocol(what.to_owned());
        match self.login_answer().await? {
            Frame::Whole(Message::AuthenticationSasl(body)) => {
                if !body.mechanisms().any(|name| Ok(name == SCRAM_SHA_256))? {
                    return Err(unexpected("the server does not offer SCRAM-SHA-256"));
                }
            }
            _ => return Err(unexpected("the server did not ask for the secret")),
        }
        let mut scram = ClientExchange::begin();
        frontend::sasl_initial_response(SCRAM_SHA_256, scram.first().as_bytes(), &mut self.send)?;
        self.flush().await?;
        let last = match self.login_answer().await? {
            Frame::Whole(Message::AuthenticationSaslContinue(body)) => scram.last(secret, body.data()),
            _ => return Err(unexpected("the login did not go on")),
        };
        let last = last.map_err(|refusal| match refusal {
            Refusal::ForeignVerifier => SessionError::ForeignVerifier,
            Refusal::Malformed(what) => unexpected(what),
        })?;
        frontend::sasl_response(last.as_bytes(), &mut self.send)?;
        self.flush().await?;
        match self.login_answer().await? {
            Frame::Whole(Message::AuthenticationSaslFinal(body)) if scram.is_proven(body.data()) => {}
            _ => return Err(unexpected("the server did not prove that it knows the secret")),
        }
        match self.login_answer().await? {
            Frame::Whole(Message::AuthenticationOk) => Ok(()),
            _ => Err(unexpected("the login did not end")),
        }
    }

    async fn login_answer(&mut self) -> Result<Frame, SessionError> {
        match self.message().await? {
            Frame::Error(error) => Err(error.into()),
            frame => Ok(frame),
        }
    }

    /// Speaks through an entry of somebody else before he does; gives its greeting too.
    #[must_use]
    pub fn of(entry: Entry) -> (Session, Bytes) {
        let Entry { stream, greeting, canceller } = entry;
        let session =
            Session { stream, frames: Frames::new(), send: BytesMut::with_capacity(1024), canceller };
        (session, greeting)
    }

    /// Leaves the session to somebody else, unless the server has said more than was asked for.
    #[must_use]
    pub fn into_entry(self, greeting: Bytes) -> Option<Entry> {
        let Session { stream, frames, canceller, .. } = self;
        frames.is_empty().then_some(Entry { stream, greeting, canceller })
    }

    /// The process id of the server process that serves this session.
    #[must_use]
    pub fn process_id(&self) -> i32 {
        self.canceller.process_id
    }

    /// A handle that ends this session's running statement.
    #[must_use]
    pub fn canceller(&self) -> Arc<Canceller> {
        Arc::clone(&self.canceller)
    }

    /// Runs statements under a guard, in one transaction and one round trip. All take effect or none.
    ///
    /// # Errors
    /// [`SessionError::Server`] leaves the session usable, with the transaction rolled back.
    pub async fn run(
        &mut self,
        statements: &[Statement],
        guard: Guard,
    ) -> Result<Vec<Outcome>, SessionError> {
        let canceller = Arc::clone(&self.canceller);
        let mut work = std::pin::pin!(self.run_unbounded(statements, guard));
        if let Ok(result) = timeout(guard.timeout, &mut work).await {
            return result;
        }
        match timeout(GRACE, canceller.cancel_until(work)).await {
            Ok(Err(SessionError::Server(error))) if error.code == CANCELLED => {
                Err(SessionError::Cancelled(guard.timeout))
            }
            Ok(result) => result,
            Err(_) => Err(SessionError::Timeout(guard.timeout + GRACE)),
        }
    }

    async fn run_unbounded(
        &mut self,
        statements: &[Statement],
        guard: Guard,
    ) -> Result<Vec<Outcome>, SessionError> {
        self.send.clear();
        if guard.read_only {
            self.control("BEGIN READ ONLY")?;
        }
        for statement in statements {
            if statement.sql.contains('\0')
                || statement.parameters.iter().flatten().any(|text| text.contains('\0'))
            {
                self.send.clear();
                return Err(SessionError::ZeroByte);
            }
            frontend::parse("", &statement.sql, [], &mut self.send)?;
            bind(&statement.parameters, &mut self.send)?;
            frontend::describe(b'P', "", &mut self.send)?;
            // One more than the limit tells whether there are more.
            let rows = i32::try_from(guard.row_limit).unwrap_or(i32::MAX - 1).saturating_add(1);
            frontend::execute("", rows, &mut self.send)?;
        }
        if guard.read_only {
            self.control("COMMIT")?;
        }
        // A COPY from the client, which has no rows for it, would wait for ever and swallow the Sync; everywhere else
        // the server takes no notice of this message.
        frontend::copy_fail("a query has no rows to copy", &mut self.send)?;
        frontend::sync(&mut self.send);
        self.flush().await?;

        let mut collector = Collector::new(guard, statements.len());
        let mut failure = None;
        let status = loop {
            match self.next(collector.row_limit()).await? {
                Frame::Whole(Message::ReadyForQuery(body)) => break body.status(),
                Frame::Whole(message) => collector.take(message)?,
                Frame::Error(error) => failure = failure.or(Some(error)),
                Frame::LongRow => collector.cut(),
                Frame::Skipped => {}
            }
        };
        if status != b'I' {
            self.simple("ROLLBACK").await?;
        }
        match failure {
            None if collector.copies_out() => Err(SessionError::CopyToClient),
            _ if collector.copies_in() => Err(SessionError::CopyFromClient),
            Some(error) => Err(error.into()),
            None if status != b'I' || collector.outcomes().iter().any(Outcome::controls_transaction) => {
                Err(SessionError::TransactionControl)
            }
            None => Ok(collector.into_outcomes()),
        }
    }

    /// Runs one statement and rolls it back: whatever it touched is warm afterwards, and nothing has changed but
    /// sequences, which no rollback puts back.
    ///
    /// # Errors
    /// As for [`Session::run`].
    pub async fn rehearse(&mut self, sql: &str) -> Result<(), SessionError> {
        self.send.clear();
        for text in ["BEGIN", sql, "ROLLBACK"] {
            self.control(text)?;
        }
        frontend::sync(&mut self.send);
        self.flush().await?;
        let (failure, status) = self.read_to_ready().await?;
        if status != b'I' {
            self.simple("ROLLBACK").await?;
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Runs a text of our own, which may hold several statements; rows are dropped.
    ///
    /// # Errors
    /// The server's refusal or a broken connection.
    pub async fn simple(&mut self, sql: &str) -> Result<(), SessionError> {
        self.send.clear();
        frontend::query(sql, &mut self.send)?;
        self.flush().await?;
        self.read_to_ready().await?.0.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Reads to the next `ReadyForQuery`: the first error on the way, and the transaction's status.
    async fn read_to_ready(&mut self) -> Result<(Option<ServerError>, u8), SessionError> {
        let mut failure = None;
        loop {
            match self.message().await? {
                Frame::Whole(Message::ReadyForQuery(body)) => return Ok((failure, body.status())),
                Frame::Error(error) => failure = failure.or(Some(error)),
                _ => {}
            }
        }
    }

    /// Adds one of our own statements to the pipeline.
    fn control(&mut self, sql: &str) -> io::Result<()> {
        frontend::parse("", sql, [], &mut self.send)?;
        bind(&[], &mut self.send)?;
        frontend::execute("", 0, &mut self.send)
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.send).await?;
        self.send.clear();
        Ok(())
    }

    /// The next message, of which a row may have `row_limit` bytes.
    async fn next(&mut self, row_limit: usize) -> Result<Frame, SessionError> {
        Ok(self.frames.next(&mut self.stream, row_limit).await?)
    }

    /// The next message, where none of ours is long.
    async fn message(&mut self) -> Result<Frame, SessionError> {
        self.next(0).await
    }
}

fn bind(parameters: &[Option<String>], send: &mut BytesMut) -> io::Result<()> {
    let result = frontend::bind(
        "",
        "",
        [],
        parameters,
        |parameter, buffer| match parameter {
            Some(text) => {
                buffer.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        },
        [],
        send,
    );
    result.map_err(|error| match error {
        frontend::BindError::Conversion(error) => io::Error::other(error),
        frontend::BindError::Serialization(error) => error,
    })
}
