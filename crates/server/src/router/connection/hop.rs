//! Sessions whose branch is on another node of the fleet: who has proved who it is here is passed on there, and its bytes after it.
//! What it may is decided there (FL-8), and nobody is passed on twice (FL-7).

use super::{goodbye, hung_up, Client, Session, Shared, Startup, Stop, PROOF_LIMIT};
use crate::{
    fleet::Peers,
    router::{
        message::{self, Fatal},
        sessions::Cancels,
        splice::{self, Counters, End},
        startup::{self, Target, Wishes, NEWEST},
    },
};
use bytes::{Buf, BytesMut};
use duramen_api::model::Policy;
use duramen_base::clock;
use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::server::TlsStream;

/// The longest word of one node to another.
const WORD_MAX: usize = 64 << 10;
/// The longest message before a session begins.
const MESSAGE_MAX: usize = 64 << 10;
/// The longest that all of them are together.
const GREETING_MAX: usize = 1 << 20;
/// How long another node may take until a session is in: a branch may have to be made for it.
const ENTER_LIMIT: Duration = Duration::from_secs(120);
/// How long a cancel request may take.
const CANCEL_LIMIT: Duration = Duration::from_secs(2);

/// What one node tells another before bytes go through.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    /// Somebody enters.
    Enter(Entering),
    /// A statement is to be cancelled.
    Cancel { number: u32, key: Vec<u8> },
}

#[derive(Debug, Serialize, Deserialize)]
struct Entering {
    /// The id of the token, whose secret was proved to be known.
    token: String,
    version: u32,
    user: String,
    database: Option<String>,
    policy: Option<Policy>,
    ttl_s: Option<i64>,
    parameters: Vec<(String, String)>,
    peer: SocketAddr,
}

/// Serves a session that another node passes on.
pub(in crate::router) async fn serve(shared: &Shared, stream: TlsStream<TcpStream>) {
    let mut client = Client::Tls(Box::new(stream));
    let began = clock::now();
    let Ok(Ok(word)) = timeout(PROOF_LIMIT, read(&mut client)).await else { return };
    let ended = match word {
        Word::Cancel { number, key } => {
            if let Some(Cancels::Here(canceller)) = shared.sessions.canceller(number, &key) {
                let _ = timeout(CANCEL_LIMIT, canceller.cancel()).await;
            }
            return;
        }
        Word::Enter(entering) => {
            let startup = Startup {
                version: entering.version,
                protocol_options: Vec::new(),
                user: entering.user,
                database: entering.database,
                wishes: Wishes { policy: entering.policy, ttl_s: entering.ttl_s },
                parameters: entering.parameters,
            };
            match shared.tokens.grant_with_id(&entering.token) {
                Some(grant) => {
                    super::enter(shared, &mut client, (entering.peer, began), startup, grant, true).await
                }
                None => Err(Fatal::not_let_in(&startup.user).into()),
            }
        }
    };
    goodbye(shared, &mut client, ended).await;
}

/// Passes a cancel request on.
pub(super) async fn cancel(fleet: &Peers, node: &str, number: u32, key: Vec<u8>) {
    let work = async {
        let mut stream = fleet.session(node).await.ok()?;
        write(&mut stream, &Word::Cancel { number, key }).await.ok()?;
        // It ends when it is done.
        let _ = stream.read_u8().await;
        Some(())
    };
    let _ = timeout(CANCEL_LIMIT, work).await;
}

impl Session<'_> {
    /// The node to which a session is passed on; nothing, if it is served here.
    pub(super) async fn node(&self, fleet: &Peers, startup: &Startup) -> Result<Option<String>, Stop> {
        let database = startup.database.as_deref().unwrap_or(&startup.user);
        let node = match Target::parse(database) {
            Target::Branch(name) => {
                let held =
                    startup::readings(name).position(|(branch, _)| self.shared.engine.has_name(branch));
                if let Some(held) = held {
                    // FL-4: etcd is not asked about what is here. A reading that comes first counts if it was seen elsewhere.
                    return Ok(startup::readings(name)
                        .take(held)
                        .find_map(|(branch, _)| fleet.seen_on(branch)));
                }
                let mut found = None;
                for (branch, _) in startup::readings(name) {
                    match fleet.node_of(branch, self.token).await {
                        Ok(Some(node)) => {
                            found = Some(node);
                            break;
                        }
                        Ok(None) => {}
                        Err(refusal) => return Err(Fatal::new("53000", refusal.body.message).into()),
                    }
                }
                Ok(found)
            }
            Target::Created { source, branch } => {
                fleet.node_for_session((Some(branch), source), startup.wishes.policy, self.token).await
            }
            Target::Own { source } => {
                fleet.node_for_session((None, source), startup.wishes.policy, self.token).await
            }
        };
        node.map_err(|refusal| Fatal::new("53000", refusal.body.message).into())
    }

    /// Passes a session on.
    pub(super) async fn pass_on(
        &self,
        fleet: &Peers,
        node: &str,
        client: &mut Client,
        startup: Startup,
    ) -> Result<(), Stop> {
        let long_key = startup.version >= NEWEST;
        let opening = async {
            let told = |message: String| Stop::from(Fatal::new("53000", message));
            let mut stream = fleet.session(node).await.map_err(|refusal| told(refusal.body.message))?;
            let entering = Entering {
                token: self.token.id.clone(),
                version: startup.version,
                user: startup.user,
                database: startup.database,
                policy: startup.wishes.policy,
                ttl_s: startup.wishes.ttl_s,
                parameters: startup.parameters,
                peer: self.peer,
            };
            write(&mut stream, &Word::Enter(entering)).await?;
            let greeting = greeting(&mut stream).await?;
            Ok::<_, Stop>((stream, greeting))
        };
        let away = |what: &str| Stop::from(Fatal::new("53000", format!("the node {node} {what}")));
        let (mut stream, greeting) = tokio::select! {
            opened = timeout(ENTER_LIMIT, opening) => {
                opened.unwrap_or_else(|_| Err(away("has not let the session in in time")))?
            }
            () = fleet.gone(node) => return Err(away("went away before it let the session in")),
            () = hung_up(client) => return Err(Stop::Gone),
        };
        let Greeting { mut out, key } = greeting;
        if let Some((number, key)) = key {
            self.key.enter_elsewhere(node.to_owned(), number, key);
            message::key(&mut out, self.key.number, &self.key.key);
            message::ready(&mut out);
            debug_assert!(self.key.key.len() == if long_key { 32 } else { 4 });
        }
        client.write_all(&out).await?;
        client.flush().await?;
        let counters = Counters::default();
        match splice::splice(client, &mut stream, None, &counters).await {
            Ok(End::Client | End::Server | End::Idle) | Err(_) => {}
        }
        let _ = stream.shutdown().await;
        Ok(())
    }
}

/// What a node said before a session began: all of it, but for the key and that it is ready; or why it does not begin.
struct Greeting {
    out: BytesMut,
    key: Option<(u32, Vec<u8>)>,
}

async fn greeting(stream: &mut (impl AsyncRead + Unpin)) -> Result<Greeting, Stop> {
    let mut out = BytesMut::new();
    let mut key = None;
    loop {
        let tag = stream.read_u8().await?;
        let length = stream.read_u32().await? as usize;
        if !(4..=MESSAGE_MAX).contains(&length) || out.len() + length > GREETING_MAX {
            return Err(Fatal::new("08P01", "another node said something that is too long").into());
        }
        let mut body = vec![0; length - 4];
        stream.read_exact(&mut body).await?;
        match tag {
            b'K' if body.len() > 4 => {
                let mut body = body.as_slice();
                key = Some((body.get_u32(), body.to_vec()));
            }
            b'Z' => return Ok(Greeting { out, key }),
            _ => {
                out.extend_from_slice(&[tag]);
                out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
                out.extend_from_slice(&body);
                if tag == b'E' {
                    return Err(Stop::Server(out.freeze()));
                }
            }
        }
    }
}

async fn write(stream: &mut (impl tokio::io::AsyncWrite + Unpin), word: &Word) -> std::io::Result<()> {
    let text = serde_json::to_vec(word).map_err(std::io::Error::other)?;
    let length = u32::try_from(text.len()).map_err(std::io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], &text].concat()).await?;
    stream.flush().await
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Word> {
    let length = stream.read_u32().await? as usize;
    if length > WORD_MAX {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length];
    stream.read_exact(&mut text).await?;
    serde_json::from_slice(&text).map_err(std::io::Error::other)
}
