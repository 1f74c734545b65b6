//! Generations of sources from one node to another, on connections of their own (ALPN `duramen-copy/1`).

use super::{stall, Peers};
use crate::reply::Refusal;
use bytes::{Bytes, BytesMut};
use duramen_api::model::SourceView;
use duramen_base::clock;
use duramen_branches::{CopyHead, EngineError, Kind, WantedCopy};
use duramen_fleet::record::BringingRecord;
use serde::{de::DeserializeOwned, Deserialize, Serialize};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    time::timeout,
};

/// How long the other side may take to take or give the next bytes, or to answer.
const PROGRESS_LIMIT: Duration = Duration::from_secs(20);
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

impl Peers {
    /// Answers a node on a connection for copies.
    pub(super) async fn serve_copies(&self, node: &str, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let Ok(_place) = self.sends.try_acquire() else {
            let busy = Answered::Refused {
                code: "busy".to_owned(),
                message: format!("{} sends as many generations as it may; try again", self.node()),
            };
            if say(&mut stream, &busy).await.is_ok() {
                let _ = within(stream.shutdown()).await;
            }
            return;
        };
        let served = async {
            match hear(&mut stream, ASKED_MAX).await? {
                Asked::Fetch { source, id, generation, digest } => {
                    let head = self.engine.copy_head(&source, &id, generation, &digest);
                    match head {
                        Ok(head) => {
                            say(&mut stream, &Answered::Sends(Box::new(head))).await?;
                            self.send(&mut stream, &source, generation).await
                        }
                        Err(error) => say(&mut stream, &refused(&error)).await,
                    }
                }
                Asked::Drop { source, id } => {
                    let answer = match self.drop_copy(node, &source, &id).await {
                        Ok(()) => Answered::Dropped,
                        Err(error) => refused(&error),
                    };
                    say(&mut stream, &answer).await
                }
            }
        };
        match served.await {
            Ok(()) => drop(within(stream.shutdown()).await),
            // No end of the connection is said, so that what was sent is not taken for all.
            Err(error) => tracing::warn!(node, %error, "a copy of a source was not sent whole"),
        }
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
    /// of the two, neither alone ends anything (FL-19).
    async fn drop_copy(&self, node: &str, source: &str, id: &str) -> Result<(), EngineError> {
        let local = self.engine.local_sources().into_iter().find(|local| local.name == source);
        let of = local.and_then(|local| local.fleet);
        let is_its_copy = of.is_some_and(|of| of.id == id && of.keeper == node && !of.is_kept_here);
        if !is_its_copy {
            let message = format!("{} has no copy of the source {source} that {node} keeps", self.node());
            return Err(EngineError::new(Kind::NotFound, "unknown_source", message));
        }
        let defined = self.fleet.source(source).await;
        let defined = defined
            .map_err(|error| EngineError::new(Kind::Unavailable, "fleet_silent", error.to_string()))?;
        if defined.is_some_and(|it| it.record.is_none_or(|record| record.id == id)) {
            let message = format!("the fleet has the source {source} still");
            return Err(EngineError::new(Kind::Conflict, "source_is_a_copy", message));
        }
        self.engine.remove_source(source).await
    }

    /// Has a node end its copy of a source.
    pub(super) async fn have_dropped(&self, node: &str, source: &str, id: &str) -> Result<(), String> {
        let mut stream = self.copies_of(node).await.map_err(|refusal| refusal.body.message)?;
        let asked = Asked::Drop { source: source.to_owned(), id: id.to_owned() };
        let answer = async {
            say(&mut stream, &asked).await?;
            hear::<Answered>(&mut stream, ANSWER_MAX).await
        };
        match answer.await {
            Ok(Answered::Dropped) => Ok(()),
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
        let head = match answer.await {
            Ok(Answered::Sends(head)) => *head,
            Ok(Answered::Refused { message, .. }) => {
                return Err(lost(format!("{from} does not send it: {message}")))
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
        let bringing = self.engine.bring_copy(wanted, head, parts, progress);
        let passing = async {
            let mut buffer = BytesMut::with_capacity(CHUNK);
            let (begin, mut come) = (clock::now(), 0_u64);
            loop {
                buffer.reserve(CHUNK);
                let read = within(stream.read_buf(&mut buffer)).await;
                stall::at("while receiving").await;
                come += *read.as_ref().unwrap_or(&0) as u64;
                let is_trickle =
                    begin.elapsed() > TRICKLE_AFTER && come / begin.elapsed().as_secs() < RATE_MIN;
                let part = match read {
                    Ok(0) => break,
                    Ok(_) if is_trickle => {
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
    while let Some(part) = parts.recv().await {
        stall::at("while sending").await;
        within(stream.write_all(&part)).await?;
    }
    Ok(())
}

fn refused(error: &EngineError) -> Answered {
    Answered::Refused { code: error.code.to_owned(), message: error.message.clone() }
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
