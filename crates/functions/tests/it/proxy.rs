//! A proxy between a worker and its server that stalls at one chosen round trip: then nothing passes in either direction, on
//! any connection, until it is let go on. It knows the protocol well enough to tell round trips by what is asked.

use super::common::Server;
use duramen_postgres::SOCKET_PORT;
use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        Arc, Mutex,
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    sync::watch,
    task::JoinHandle,
};

/// On which side of the server the round trip stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The server never hears of it, until it is too late.
    Request,
    /// The server has done it, and the worker does not hear.
    Answer,
}

/// The end of a request for TLS, which comes before anything else.
const SSL_REQUEST: [u8; 4] = 80_877_103_u32.to_be_bytes();
/// What a worker asks all the time, and what counts when it is answered with rows.
const LOOKS: [&str; 2] = ["df._claim", "df._take"];

/// A round trip: the `nth` one, from 0 on, in which a text is asked that contains `asks`, in a database.
#[derive(Clone, Debug)]
pub(crate) struct RoundTrip {
    pub(crate) database: String,
    pub(crate) asks: &'static str,
    pub(crate) nth: usize,
    pub(crate) side: Side,
}

impl RoundTrip {
    /// Whether there is such a thing: whether a look finds something is known when it is answered.
    pub(crate) fn is_possible(&self) -> bool {
        self.side == Side::Answer || !is_look(self.asks)
    }
}

pub(crate) struct Proxy {
    shared: Arc<Shared>,
    dir: tempfile::TempDir,
    accepting: JoinHandle<()>,
}

struct Shared {
    upstream: PathBuf,
    armed: AtomicBool,
    round_trips: AtomicUsize,
    stall_at: RoundTrip,
    /// Stall this one connection only.
    only_it: bool,
    /// What is stalled at, once it is reached.
    stalled: watch::Sender<bool>,
    /// Nothing passes.
    frozen: watch::Sender<bool>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.shared.frozen.send_replace(false);
    }
}

impl Proxy {
    /// A proxy that stalls everything at a round trip, counted from [`Proxy::arm`] on.
    pub(crate) fn start(server: &Server, stall_at: RoundTrip) -> Proxy {
        Proxy::make(server, stall_at, false)
    }

    /// A proxy that stalls the connection of one round trip, and no other.
    pub(crate) fn of_one_connection(server: &Server, stall_at: RoundTrip) -> Proxy {
        Proxy::make(server, stall_at, true)
    }

    fn make(server: &Server, stall_at: RoundTrip, only_it: bool) -> Proxy {
        let name = format!(".s.PGSQL.{SOCKET_PORT}");
        let dir = tempfile::Builder::new().prefix("df-proxy-").tempdir().expect("a directory");
        let listener = UnixListener::bind(dir.path().join(&name)).expect("a socket");
        let shared = Arc::new(Shared {
            upstream: server.socket_dir().join(&name),
            armed: AtomicBool::new(false),
            round_trips: AtomicUsize::new(0),
            stall_at,
            only_it,
            stalled: watch::Sender::new(false),
            frozen: watch::Sender::new(false),
        });
        let of_connections = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = UnixStream::connect(&of_connections.upstream).await else { continue };
                connection(Arc::clone(&of_connections), client, server);
            }
        });
        Proxy { shared, dir, accepting }
    }

    /// The connection string through the proxy.
    pub(crate) fn url(&self, role: &str, database: &str) -> String {
        let host = self.dir.path().display().to_string().replace('/', "%2F");
        format!("postgres://{role}@/{database}?host={host}&port={SOCKET_PORT}")
    }

    /// Begins to count.
    pub(crate) fn arm(&self) {
        self.shared.armed.store(true, Ordering::SeqCst);
    }

    /// Returns once it stalls.
    pub(crate) async fn stalled(&self) {
        let mut stalled = self.shared.stalled.subscribe();
        stalled.wait_for(|stalled| *stalled).await.expect("the proxy lives");
    }

    /// Lets everything go on, for good.
    pub(crate) fn go_on(&self) {
        self.shared.armed.store(false, Ordering::SeqCst);
        self.shared.frozen.send_replace(false);
    }
}

/// What one connection has asked and was not answered yet.
#[derive(Default)]
struct Asked {
    labels: VecDeque<String>,
    parsed: String,
    database: String,
    has_rows: bool,
    wants_tls: bool,
}

impl Shared {
    /// Counts a round trip, if it is like the chosen one. At that one it stalls. Returns whether this connection does.
    fn count(&self, label: &str, database: &str) -> bool {
        let RoundTrip { database: wanted, asks, nth, .. } = &self.stall_at;
        let counts = self.armed.load(Ordering::SeqCst) && database == wanted && label.contains(asks);
        if !counts || self.round_trips.fetch_add(1, Ordering::SeqCst) != *nth {
            return false;
        }
        self.frozen.send_replace(true);
        self.stalled.send_replace(true);
        true
    }

    /// Returns when what is to pass may pass.
    async fn passes(&self, this_one: bool) {
        if self.only_it && !this_one {
            return;
        }
        // The sender is not dropped before this.
        let _ = self.frozen.subscribe().wait_for(|frozen| !frozen).await;
    }
}

fn connection(shared: Arc<Shared>, client: UnixStream, server: UnixStream) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let asked = Arc::new(Mutex::new(Asked::default()));
    let this_one = Arc::new(AtomicBool::new(false));
    let (shared_too, asked_too, this_one_too) =
        (Arc::clone(&shared), Arc::clone(&asked), Arc::clone(&this_one));
    tokio::spawn(async move {
        let mut buffer = Vec::new();
        let mut begun = false;
        while read(&mut from_client, &mut buffer).await {
            let mut messages = Vec::new();
            while let Some(message) = next(&mut buffer, begun) {
                if message.ends_with(&SSL_REQUEST) {
                    asked.lock().unwrap().wants_tls = true;
                } else {
                    begun = true;
                }
                messages.push(message);
            }
            let labels: Vec<Option<String>> =
                messages.iter().map(|message| label(message, &mut asked.lock().unwrap())).collect();
            for (at, message) in messages.iter().enumerate() {
                if let Some(label) = &labels[at] {
                    let next = labels[at + 1..].iter().flatten().next();
                    // What begins a look is one, too, and not the beginning of what is looked for.
                    let label = match next.filter(|next| is_look(next)) {
                        Some(_) => "the beginning of a look".to_owned(),
                        None => label.clone(),
                    };
                    let database = asked.lock().unwrap().database.clone();
                    let stalls = shared.stall_at.side == Side::Request && shared.count(&label, &database);
                    this_one.fetch_or(stalls, Ordering::SeqCst);
                    asked.lock().unwrap().labels.push_back(label);
                }
                shared.passes(this_one.load(Ordering::SeqCst)).await;
                if to_server.write_all(message).await.is_err() {
                    return;
                }
            }
        }
        // The end passes, too.
        shared.passes(this_one.load(Ordering::SeqCst)).await;
    });
    tokio::spawn(async move {
        let (shared, asked, this_one) = (shared_too, asked_too, this_one_too);
        let mut buffer = Vec::new();
        while read(&mut from_server, &mut buffer).await {
            if std::mem::take(&mut asked.lock().unwrap().wants_tls) {
                // The one answer that is not a message: a letter.
                if to_client.write_all(&buffer.split_off(buffer.len() - 1)).await.is_err() {
                    return;
                }
            }
            while let Some(message) = next(&mut buffer, true) {
                let finished = {
                    let mut asked = asked.lock().unwrap();
                    match message[0] {
                        b'D' => {
                            asked.has_rows = true;
                            None
                        }
                        b'Z' => {
                            let has_rows = std::mem::take(&mut asked.has_rows);
                            asked.labels.pop_front().map(|label| (label, asked.database.clone(), has_rows))
                        }
                        _ => None,
                    }
                };
                if let Some((label, database, has_rows)) = finished {
                    let counts = has_rows || !is_look(&label);
                    let stalls =
                        shared.stall_at.side == Side::Answer && counts && shared.count(&label, &database);
                    this_one.fetch_or(stalls, Ordering::SeqCst);
                }
                shared.passes(this_one.load(Ordering::SeqCst)).await;
                if to_client.write_all(&message).await.is_err() {
                    return;
                }
            }
        }
        shared.passes(this_one.load(Ordering::SeqCst)).await;
    });
}

fn is_look(label: &str) -> bool {
    LOOKS.iter().any(|look| label.contains(look))
}

async fn read(from: &mut (impl AsyncReadExt + Unpin), buffer: &mut Vec<u8>) -> bool {
    matches!(from.read_buf(buffer).await, Ok(many) if many > 0)
}

/// Takes the next message from the front, if all of it is there. The first one of a client has no letter.
fn next(buffer: &mut Vec<u8>, has_letter: bool) -> Option<Vec<u8>> {
    let at = usize::from(has_letter);
    let length: [u8; 4] = buffer.get(at..at + 4)?.try_into().ok()?;
    let length = at + u32::from_be_bytes(length) as usize;
    (buffer.len() >= length).then(|| buffer.drain(..length).collect())
}

/// What a message of a client's asks, if the server will say that it is ready after it.
fn label(message: &[u8], asked: &mut Asked) -> Option<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\0', " ");
    match message[0] {
        b'Q' => Some(text(&message[5..])),
        b'P' => {
            asked.parsed = text(&message[5..]);
            None
        }
        b'S' => Some(std::mem::take(&mut asked.parsed)),
        0 if message.ends_with(&SSL_REQUEST) => None,
        0 => {
            // Names and values in turn, behind length and version.
            let words: Vec<String> = message[8..].split(|byte| *byte == 0).map(&text).collect();
            asked.database = words
                .chunks(2)
                .find(|pair| pair[0] == "database")
                .map(|pair| pair[1].clone())
                .unwrap_or_default();
            Some("a new session".to_owned())
        }
        _ => None,
    }
}
