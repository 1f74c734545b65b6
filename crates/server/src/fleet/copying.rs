//! Generations of sources from one node to another, on connections of their own (ALPN `duramen-copy/1`).

use super::{sources::settings_of, stall, Peers};
use crate::reply::Refusal;
use bytes::{Bytes, BytesMut};
use duramen_api::model::{SourceSettings, SourceView};
use duramen_base::clock;
use duramen_branches::{CopyHead, EngineError, Kind, WantedCopy};
use duramen_fleet::record::BringingRecord;
use serde::{de::DeserializeOwned, Deserialize, Serialize};
use std::{
    collections::HashSet,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{mpsc, SemaphorePermit},
    time::{sleep, timeout},
};

/// How long the other side may take to take or give the next bytes, or to answer.
const PROGRESS_LIMIT: Duration = Duration::from_secs(20);
/// How long a question, or a short answer, may take in all; and how long what is said of a generation before its files.
const QUESTION_LIMIT: Duration = Duration::from_secs(20);
const HEAD_LIMIT: Duration = Duration::from_secs(120);
/// How long the removal of a copy waits for other changes of sources; the question ends later.
const DROP_LIMIT: Duration = Duration::from_secs(10);
/// So much of a refusal is told on, in characters.
const REFUSAL_MAX: usize = 300;
/// How often, and how long after each other, etcd is asked whether a copy that has come is wanted.
const CONFIRM_TRIES: u32 = 5;
const CONFIRM_PAUSE: Duration = Duration::from_millis(500);
/// From this long on, a generation has to come at this rate at least, in bytes a second: nobody keeps others from coming by a trickle.
const TRICKLE_AFTER: Duration = Duration::from_secs(60);
const RATE_MIN: u64 = 32 << 10;
/// The longest question.
const ASKED_MAX: u32 = 64 << 10;
/// The longest answer: how a generation is used, with all that its import took out.
const ANSWER_MAX: u32 = 64 << 20;
/// Bytes that are read at a time, and parts that wait for the disk.
const CHUNK: usize = 256 << 10;
const PARTS_MAX: usize = 8;
/// Generations that are sent at a time.
pub(super) const SENDS_MAX: usize = 4;

/// What a node asks another one.
#[derive(Debug, Serialize, Deserialize)]
enum Asked {
    /// Send a generation.
    Fetch { source: String, id: String, generation: u32, digest: String },
    /// The keeper has removed a source: end its copy.
    Drop { source: String, id: String },
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
enum Answered {
    /// The files follow.
    Sends(Box<CopyHead>),
    /// The copy is gone.
    Dropped,
    /// Neither.
    Refused { code: String, message: String },
}

/// That a generation is sent to a node, as long as this lives.
struct Sending<'a> {
    receivers: &'a Mutex<HashSet<String>>,
    node: String,
    _place: SemaphorePermit<'a>,
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.receivers.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.node);
    }
}

impl Peers {
    /// Answers a node on a connection for copies.
    pub(super) async fn serve_copies(&self, node: &str, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let served = async {
            let answer = match whole(QUESTION_LIMIT, hear(&mut stream, ASKED_MAX)).await? {
                Asked::Fetch { source, id, generation, digest } => {
                    let head = match self.may_send(node) {
                        Ok(sending) => self
                            .engine
                            .copy_head(&source, &id, generation, &digest)
                            .map(|head| (sending, head))
                            .map_err(|error| refused(&error)),
                        Err(busy) => Err(busy),
                    };
                    match head {
                        Ok((_sending, head)) => {
                            let answer = Answered::Sends(Box::new(head));
                            whole(HEAD_LIMIT, say(&mut stream, &answer)).await?;
                            return self.send(&mut stream, &source, generation).await;
                        }
                        Err(refused) => refused,
                    }
                }
                Asked::Drop { source, id } => match self.drop_copy(node, &source, &id).await {
                    Ok(()) => Answered::Dropped,
                    Err(error) => refused(&error),
                },
            };
            whole(QUESTION_LIMIT, say(&mut stream, &answer)).await
        };
        match served.await {
            Ok(()) => drop(within(stream.shutdown()).await),
            // No end of the connection is said, so that what was sent is not taken for all.
            Err(error) => tracing::warn!(node, %error, "a copy of a source was not sent whole"),
        }
    }

    /// Lets a node receive a generation: so many at a time, and one each.
    fn may_send(&self, node: &str) -> Result<Sending<'_>, Answered> {
        let busy = |message: String| Answered::Refused { code: "busy".to_owned(), message };
        let Ok(place) = self.sends.try_acquire() else {
            return Err(busy(format!("{} sends as many generations as it may; try again", self.node())));
        };
        let mut receivers = self.receivers.lock().unwrap_or_else(PoisonError::into_inner);
        if !receivers.insert(node.to_owned()) {
            return Err(busy(format!("{} sends {node} a generation already; try again", self.node())));
        }
        Ok(Sending { receivers: &self.receivers, node: node.to_owned(), _place: place })
    }

    async fn send(
        &self,
        stream: &mut (impl AsyncWrite + Unpin),
        source: &str,
        generation: u32,
    ) -> io::Result<()> {
        let (told, parts) = mpsc::channel::<Bytes>(PARTS_MAX);
        let sending = self.engine.send_copy(source, generation, told);
        let (sent, passed) = tokio::join!(sending, pass(parts, stream));
        passed?;
        sent.map_err(io::Error::other)
    }

    /// Ends the copy of a source that its keeper has removed. That is told by the keeper itself, and etcd has no such source any more:
    /// of the two, neither alone ends anything (FL-19). A copy that is on its way is there before, or is not wanted any more after.
    async fn drop_copy(&self, node: &str, source: &str, id: &str) -> Result<(), EngineError> {
        let defined = self.fleet.source(source).await;
        let defined = defined
            .map_err(|error| EngineError::new(Kind::Unavailable, "fleet_silent", error.to_string()))?;
        if defined.is_some_and(|it| it.record.is_none_or(|record| record.id == id)) {
            let message = format!("the fleet has the source {source} still");
            return Err(EngineError::new(Kind::Conflict, "source_is_a_copy", message));
        }
        self.engine.remove_copy(source, (id, node), DROP_LIMIT).await
    }

    /// Has a node end its copy of a source.
    pub(super) async fn have_dropped(&self, node: &str, source: &str, id: &str) -> Result<(), String> {
        let mut stream = self.copies_of(node).await.map_err(|refusal| refusal.body.message)?;
        let asked = Asked::Drop { source: source.to_owned(), id: id.to_owned() };
        let answer = async {
            say(&mut stream, &asked).await?;
            hear::<Answered>(&mut stream, ASKED_MAX).await
        };
        match whole(QUESTION_LIMIT, answer).await {
            Ok(Answered::Dropped) => Ok(()),
            // It has none.
            Ok(Answered::Refused { code, .. }) if code == "unknown_source" => Ok(()),
            Ok(Answered::Refused { message, .. }) => Err(message),
            Ok(Answered::Sends(_)) => Err("it sends a generation, which nobody asked for".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Fetches a generation from the node that it is to come from.
    pub(super) async fn fetch(self: &Arc<Self>, wanted: WantedCopy) -> Result<SourceView, EngineError> {
        let from = wanted.from.clone();
        let lost = |what: String| EngineError::new(Kind::Unavailable, "copy_broken", what);
        let mut stream = self.copies_of(&from).await.map_err(|refusal| lost(refusal.body.message))?;
        let asked = Asked::Fetch {
            source: wanted.name.clone(),
            id: wanted.fleet.id.clone(),
            generation: wanted.generation,
            digest: wanted.digest.clone(),
        };
        let answer = async {
            say(&mut stream, &asked).await?;
            hear::<Answered>(&mut stream, ANSWER_MAX).await
        };
        let head = match whole(HEAD_LIMIT, answer).await {
            Ok(Answered::Sends(head)) => *head,
            Ok(Answered::Refused { message, .. }) => {
                let message: String = message.chars().take(REFUSAL_MAX).collect();
                return Err(lost(format!("{from} does not send it: {message}")));
            }
            Ok(Answered::Dropped) => return Err(lost(format!("{from} answers something else"))),
            Err(error) => return Err(lost(format!("{from}: {error}"))),
        };
        let (told, parts) = mpsc::channel(PARTS_MAX);
        let (offers, record) = (
            Arc::clone(&self.offers),
            BringingRecord {
                source: wanted.name.clone(),
                generation: wanted.generation,
                of: wanted.bytes,
                ..BringingRecord::default()
            },
        );
        offers.note(record.clone());
        let progress = move |done| offers.note(BringingRecord { done, ..record.clone() });
        let confirm = {
            let (peers, wanted) = (Arc::clone(self), wanted.clone());
            async move { peers.confirm(&wanted).await }
        };
        let bringing = self.engine.bring_copy(wanted, head, parts, progress, confirm);
        let passing = async {
            let mut buffer = BytesMut::with_capacity(CHUNK);
            let (begin, mut come) = (clock::now(), 0_u64);
            loop {
                buffer.reserve(CHUNK);
                let read = within(stream.read_buf(&mut buffer)).await;
                stall::at("while receiving").await;
                come += *read.as_ref().unwrap_or(&0) as u64;
                let part = match read {
                    Ok(0) => break,
                    Ok(_) if is_trickle(begin.elapsed(), come) => {
                        Err(io::Error::new(io::ErrorKind::TimedOut, "it comes too slowly"))
                    }
                    Ok(_) => Ok(buffer.split().freeze()),
                    Err(error) => Err(error),
                };
                let is_over = part.is_err();
                if told.send(part).await.is_err() || is_over {
                    break;
                }
            }
            drop(told);
        };
        let mut bringing = std::pin::pin!(bringing);
        tokio::select! {
            // What is wrong with it is known before all of it has come.
            brought = bringing.as_mut() => brought,
            () = passing => bringing.await,
        }
    }

    /// Whether a copy is still wanted that has come: as etcd has it now, and not as it was seen.
    async fn confirm(&self, wanted: &WantedCopy) -> Result<SourceSettings, EngineError> {
        let mut tries = 0;
        let found = loop {
            match self.fleet.source(&wanted.name).await {
                Ok(found) => break found,
                Err(error) if tries == CONFIRM_TRIES => {
                    return Err(EngineError::new(Kind::Unavailable, "fleet_silent", error.to_string()));
                }
                Err(_) => tries += 1,
            }
            sleep(CONFIRM_PAUSE).await;
        };
        let record = found.and_then(|found| found.record);
        let record = record.filter(|record| record.id == wanted.fleet.id && self.has_place(record));
        let record = record.ok_or_else(|| {
            let message =
                format!("the source {} was removed, or is to be elsewhere, while it came", wanted.name);
            EngineError::new(Kind::Conflict, "copy_unwanted", message)
        })?;
        settings_of(&record)
    }

    /// A connection to a node for copies.
    async fn copies_of(
        &self,
        node: &str,
    ) -> Result<tokio_rustls::client::TlsStream<tokio::net::TcpStream>, Refusal> {
        let address = self.reached(node)?;
        self.connections.copies(node, &address).await
    }
}

/// Passes on what comes. It ends with this, so that who reads the files learns that nobody receives.
async fn pass(mut parts: mpsc::Receiver<Bytes>, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let (begin, mut sent) = (clock::now(), 0);
    while let Some(part) = parts.recv().await {
        stall::at("while sending").await;
        within(stream.write_all(&part)).await?;
        sent += part.len() as u64;
        if is_trickle(begin.elapsed(), sent) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it is taken too slowly"));
        }
    }
    Ok(())
}

fn refused(error: &EngineError) -> Answered {
    Answered::Refused { code: error.code.to_owned(), message: error.message.clone() }
}

fn is_trickle(elapsed: Duration, bytes: u64) -> bool {
    elapsed > TRICKLE_AFTER && bytes / elapsed.as_secs() < RATE_MIN
}

/// All of it within a limit, however it moves.
async fn whole<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => {
            let what = format!("it was not done within {} s", limit.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        }
    }
}

async fn within<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match timeout(PROGRESS_LIMIT, work).await {
        Ok(done) => done,
        Err(_) => {
            let what = format!("nothing moved for {} s", PROGRESS_LIMIT.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        }
    }
}

async fn say(stream: &mut (impl AsyncWrite + Unpin), what: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(what).map_err(io::Error::other)?;
    let length = u32::try_from(text.len()).ok().filter(|length| *length <= ANSWER_MAX);
    let length =
        length.ok_or_else(|| io::Error::other("what is known of the generation is too long to be sent"))?;
    within(stream.write_all(&length.to_be_bytes())).await?;
    within(stream.write_all(&text)).await?;
    within(stream.flush()).await
}

async fn hear<T: DeserializeOwned>(stream: &mut (impl AsyncRead + Unpin), most: u32) -> io::Result<T> {
    let length = within(stream.read_u32()).await?;
    if length > most {
        return Err(io::Error::other(format!("a text of {length} bytes is too long")));
    }
    // What was said of its length takes no memory before it comes.
    let mut text = Vec::new();
    let mut rest = stream.take(u64::from(length));
    while within(rest.read_buf(&mut text)).await? > 0 {}
    if text.len() != length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&text).map_err(io::Error::other)
}
