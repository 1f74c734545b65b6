//! Entering a server of ours for somebody else: the login is ours, what follows is his.
//!
//! The start-up packet is the client's, but for who he is and where. What the server says until it is ready (its settings,
//! notices) is kept as it came, to be passed on.

use crate::{
    frames::{Frame, Frames},
    scram::{ClientExchange, Refusal},
    secret::Secret,
    session::Canceller,
    settings::quote_literal,
    SOCKET_PORT,
};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use postgres_protocol::{
    authentication::sasl::SCRAM_SHA_256,
    message::{
        backend::{self, Message},
        frontend,
    },
};
use std::{io, path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::UnixStream,
    time::timeout,
};

/// A byte that says what a message is, and its length.
const HEADER: usize = 5;
/// The longest message of a login.
const MESSAGE_MAX: usize = 64 << 10;
/// What all messages of a login together may take.
const GREETING_MAX: usize = 256 << 10;

/// A server process that is ready for its first statement, which nobody has sent yet.
#[derive(Debug)]
pub struct Entry {
    /// The connection; nothing of it is read yet.
    pub stream: UnixStream,
    /// What the server said of itself: `ParameterStatus` and `NoticeResponse` messages, one after the other.
    pub greeting: Bytes,
    /// Ends its running statement.
    pub canceller: Arc<Canceller>,
}

/// Why nobody was let in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// The server refused: its `ErrorResponse`, whole, to be passed on.
    #[error("the server refused the login{}", told(message))]
    Refused {
        /// The message, with its header.
        message: Bytes,
        /// Its SQLSTATE.
        code: String,
    },
    /// The connection broke, or there is no server.
    #[error("the connection to the server broke: {0}")]
    Io(#[from] io::Error),
    /// It took too long.
    #[error("the server did not let anybody in within {0:?}")]
    Timeout(Duration),
    /// The server has another verifier, which somebody else wrote.
    #[error("the server has another password for the role")]
    OtherSecret,
    /// The server sent something that is not part of a login.
    #[error("unexpected answer from the server: {0}")]
    Protocol(&'static str),
}

fn told(message: &[u8]) -> String {
    let text = message.get(HEADER..).and_then(|body| {
        body.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(b"M").map(String::from_utf8_lossy))
    });
    text.map_or_else(String::new, |text| format!(": {text}"))
}

impl Entry {
    /// Logs in through a socket directory with the parameters of a start-up packet, `user` and `database` among them, and
    /// waits until the server is ready.
    ///
    /// # Errors
    /// [`EntryError`]
    pub async fn open(
        socket_dir: &Path,
        secret: &Secret,
        parameters: &[(String, String)],
        limit: Duration,
    ) -> Result<Entry, EntryError> {
        let socket = socket_dir.join(format!(".s.PGSQL.{SOCKET_PORT}"));
        let login = async {
            let stream = UnixStream::connect(&socket).await?;
            Login::run(stream, secret, parameters).await
        };
        let LoggedIn { stream, greeting, process_id, secret_key } =
            timeout(limit, login).await.map_err(|_| EntryError::Timeout(limit))??;
        let mut canceller = Canceller::new(socket);
        canceller.set_key(process_id, secret_key);
        Ok(Entry { stream, greeting, canceller: Arc::new(canceller) })
    }
}

/// Logs in over any connection, with keys that the secret has computed once, and waits until the server is ready: what a
/// client costs that logs in with a password as it is, but for the rounds of that.
///
/// # Errors
/// [`EntryError`]
pub async fn log_in<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    secret: &Secret,
    parameters: &[(String, String)],
    limit: Duration,
) -> Result<S, EntryError> {
    let logged_in = timeout(limit, Login::run(stream, secret, parameters)).await;
    Ok(logged_in.map_err(|_| EntryError::Timeout(limit))??.stream)
}

impl Entry {
    /// Whether the process is still there, and has said nothing since it was ready.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let mut byte = [0];
        matches!(self.stream.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Gives the session the name by which administrators know its program, as if it had come with it.
    ///
    /// # Errors
    /// [`EntryError`]; it is then of no more use.
    pub async fn name_application(&mut self, name: &str, limit: Duration) -> Result<(), EntryError> {
        let named = async {
            let mut send = BytesMut::new();
            frontend::query(&format!("set application_name = {}", quote_literal(name)), &mut send)?;
            self.stream.write_all(&send).await?;
            let mut frames = Frames::new();
            let mut greeting = BytesMut::from(&self.greeting[..]);
            loop {
                match frames.next(&mut self.stream, 0).await? {
                    Frame::Whole(Message::ParameterStatus(status)) => {
                        // The later one counts.
                        parameter_status(&mut greeting, status.name()?, status.value()?);
                    }
                    Frame::Whole(Message::ReadyForQuery(_)) if frames.is_empty() => break,
                    Frame::Whole(Message::CommandComplete(_) | Message::NoticeResponse(_)) => {}
                    _ => return Err(EntryError::Protocol("no name is given")),
                }
            }
            self.greeting = greeting.freeze();
            Ok(())
        };
        timeout(limit, named).await.map_err(|_| EntryError::Timeout(limit))?
    }
}

/// Writes a `ParameterStatus`.
fn parameter_status(out: &mut BytesMut, name: &str, value: &str) {
    out.put_u8(backend::PARAMETER_STATUS_TAG);
    let length = 4 + name.len() + 1 + value.len() + 1;
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    for text in [name, value] {
        out.extend_from_slice(text.as_bytes());
        out.put_u8(0);
    }
}

/// A login under way.
struct Login<S> {
    stream: S,
    received: BytesMut,
    send: BytesMut,
}

/// The end of a login.
struct LoggedIn<S> {
    stream: S,
    greeting: Bytes,
    process_id: i32,
    secret_key: i32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Login<S> {
    async fn run(
        stream: S,
        secret: &Secret,
        parameters: &[(String, String)],
    ) -> Result<LoggedIn<S>, EntryError> {
        let mut login =
            Login { stream, received: BytesMut::with_capacity(1024), send: BytesMut::with_capacity(512) };
        let parameters = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        frontend::startup_message(parameters, &mut login.send)?;
        login.prove(secret).await?;
        let mut greeting = BytesMut::new();
        let (mut process_id, mut secret_key) = (0, 0);
        loop {
            let message = login.message().await?;
            if greeting.len() + message.len() > GREETING_MAX {
                return Err(EntryError::Protocol("a greeting without end"));
            }
            match message[0] {
                backend::PARAMETER_STATUS_TAG | backend::NOTICE_RESPONSE_TAG => {
                    greeting.extend_from_slice(&message);
                }
                backend::BACKEND_KEY_DATA_TAG => match parse(&message)? {
                    Message::BackendKeyData(key) => {
                        (process_id, secret_key) = (key.process_id(), key.secret_key());
                    }
                    _ => return Err(EntryError::Protocol("a key that is none")),
                },
                backend::READY_FOR_QUERY_TAG => break,
                _ => return Err(EntryError::Protocol("no end of a login")),
            }
        }
        if !login.received.is_empty() {
            return Err(EntryError::Protocol("more than was asked for"));
        }
        Ok(LoggedIn { stream: login.stream, greeting: greeting.freeze(), process_id, secret_key })
    }

    /// Proves that it knows the secret, and has the server prove that it knows its verifier.
    async fn prove(&mut self, secret: &Secret) -> Result<(), EntryError> {
        match self.answer().await? {
            Message::AuthenticationSasl(body)
                if fallible_iterator::FallibleIterator::any(&mut body.mechanisms(), |name| {
                    Ok(name == SCRAM_SHA_256)
                })? => {}
            _ => return Err(EntryError::Protocol("it did not ask for the secret")),
        }
        let mut scram = ClientExchange::begin();
        frontend::sasl_initial_response(SCRAM_SHA_256, scram.first().as_bytes(), &mut self.send)?;
        let last = match self.answer().await? {
            Message::AuthenticationSaslContinue(body) => scram.last(secret, body.data()),
            _ => return Err(EntryError::Protocol("the login did not go on")),
        };
        let last = last.map_err(|refusal| match refusal {
            Refusal::ForeignVerifier => EntryError::OtherSecret,
            Refusal::Malformed(what) => EntryError::Protocol(what),
        })?;
        frontend::sasl_response(last.as_bytes(), &mut self.send)?;
        match self.answer().await {
            Ok(Message::AuthenticationSaslFinal(body)) if scram.is_proven(body.data()) => {}
            Err(EntryError::Refused { code, .. }) if code == "28P01" => return Err(EntryError::OtherSecret),
            Err(error) => return Err(error),
            Ok(_) => return Err(EntryError::Protocol("it did not prove that it knows the secret")),
        }
        match self.answer().await? {
            Message::AuthenticationOk => Ok(()),
            _ => Err(EntryError::Protocol("the login did not end")),
        }
    }

    /// Sends what is to be sent, and reads a message.
    async fn answer(&mut self) -> Result<Message, EntryError> {
        self.stream.write_all(&self.send).await?;
        self.send.clear();
        let message = self.message().await?;
        parse(&message)
    }

    /// The next message, whole. An error of the server is one here.
    async fn message(&mut self) -> Result<Bytes, EntryError> {
        self.fill(HEADER).await?;
        let length = (&self.received[1..HEADER]).get_u32() as usize + 1;
        if !(HEADER..=MESSAGE_MAX).contains(&length) {
            return Err(EntryError::Protocol("a message of no such length"));
        }
        self.fill(length).await?;
        let message = self.received.split_to(length).freeze();
        if message[0] != backend::ERROR_RESPONSE_TAG {
            return Ok(message);
        }
        let fields = message[HEADER..].split(|byte| *byte == 0);
        let code = fields.filter_map(|field| field.strip_prefix(b"C")).map(String::from_utf8_lossy).next();
        Err(EntryError::Refused { code: code.unwrap_or_default().into_owned(), message })
    }

    async fn fill(&mut self, wanted: usize) -> io::Result<()> {
        while self.received.len() < wanted {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

fn parse(message: &[u8]) -> Result<Message, EntryError> {
    let parsed = Message::parse(&mut BytesMut::from(message))?;
    parsed.ok_or(EntryError::Protocol("a message that is not as long as it says"))
}
