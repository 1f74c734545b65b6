//! One client, from its first byte to its last: hello, start-up, proof, target, entry, session.

#[cfg(feature = "fleet")]
pub(super) mod hop;

use super::{
    message::{self, Fatal},
    proxied::{self, Unknown},
    sessions::{Cancels, Key},
    splice::{self, Counters, End},
    startup::{self, First, Startup, Target, Wishes, NEWEST, PACKET_MAX},
    Shared,
};
use crate::{
    door::{self, Place},
    holders,
    tls::{Tls, ALPN},
    tokens::Grant,
};
use bytes::BytesMut;
use duramen_api::model::CreateBranch;
use duramen_api::token::{Forbidden, Role, Token};
use duramen_base::clock;
use duramen_branches::{steps, Door, EngineError, Holder, Kind, Running};
use duramen_postgres::{
    scram::{Binding, Mechanism, ScramError, ServerExchange},
    Entry, EntryError,
};
use serde_json::json;
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, ReadBuf},
    net::TcpStream,
    time::{sleep, timeout},
};

/// How long a client may take from its first byte to its proof.
const PROOF_LIMIT: Duration = Duration::from_secs(10);
/// How long it may take to read why it is refused.
const REFUSAL_LIMIT: Duration = Duration::from_secs(2);
/// A login that fails is answered this much later, so that guessing takes as long as it should.
const FAILURE_PAUSE: Duration = Duration::from_millis(250);
/// How often it is looked whether a client that waits, and has sent more already, is still there.
const HANG_UP_EVERY: Duration = Duration::from_millis(200);
/// The longest message of a proof, its type and length left out.
const PROOF_MAX: usize = 4096;
/// How long a branch lasts that a connection created and nobody said more about, in seconds.
const TTL_S: i64 = 3600;
/// When a branch of one connection is given another hour.
const PROLONG_EVERY: Duration = Duration::from_secs(1200);
/// The first byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;
/// How many names a hint has.
const NAMED_MAX: usize = 10;

/// The client's end, with or without TLS.
enum Client {
    Plain(TcpStream),
    Tls(Box<tokio_rustls::server::TlsStream<TcpStream>>),
    /// It is elsewhere right now, or a handshake failed.
    Gone,
}

/// Why a connection ends before its session.
enum Stop {
    /// The client is told.
    Fatal(Fatal),
    /// Its session is over, and it is told why.
    Over(Fatal),
    /// The branch's server refused, and the client is told what it said.
    Server(bytes::Bytes),
    /// The client is gone, or has nothing more to say.
    Gone,
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Stop {
        Stop::Gone
    }
}

impl From<Unknown> for Stop {
    fn from(unknown: Unknown) -> Stop {
        match unknown {
            Unknown::Wrong(wrong) => Fatal::from(wrong).into(),
            Unknown::Broken => Stop::Gone,
        }
    }
}

impl From<Fatal> for Stop {
    fn from(fatal: Fatal) -> Stop {
        Stop::Fatal(fatal)
    }
}

/// Serves one client.
pub(super) async fn serve(shared: &Shared, stream: TcpStream, peer: SocketAddr) {
    match shared.tracer {
        Some(_) => steps::watch(converse(shared, stream, peer)).await,
        None => converse(shared, stream, peer).await,
    }
}

async fn converse(shared: &Shared, stream: TcpStream, peer: SocketAddr) {
    door::prepare(&stream);
    let began = clock::now();
    let mut peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let mut client = Client::Plain(stream);
    let proved = {
        let (_stranger, turned_away) = shared.strangers.arrive();
        tokio::select! {
            proved = timeout(PROOF_LIMIT, hello(shared, &mut client, &mut peer)) => {
                proved.unwrap_or(Err(Stop::Gone))
            }
            () = turned_away.wait() => Err(Stop::Gone),
        }
    };
    let ended = match proved {
        Ok((startup, grant)) => enter(shared, &mut client, (peer, began), startup, grant, false).await,
        Err(stop) => Err(stop),
    };
    goodbye(shared, &mut client, ended).await;
}

/// Tells a client how it ended, and closes the connection.
async fn goodbye(shared: &Shared, client: &mut Client, ended: Result<(), Stop>) {
    let mut out = BytesMut::new();
    match ended {
        Ok(()) => {}
        Err(Stop::Gone) => shared.metrics.ended("gone before a session"),
        Err(Stop::Fatal(fatal)) => {
            shared.metrics.ended("refused");
            message::error(&mut out, &fatal);
        }
        Err(Stop::Over(fatal)) => message::error(&mut out, &fatal),
        Err(Stop::Server(said)) => {
            shared.metrics.ended("refused by the branch");
            out.extend_from_slice(&said);
        }
    }
    let goodbye = async {
        if !out.is_empty() {
            client.write_all(&out).await?;
        }
        client.shutdown().await
    };
    let _ = timeout(REFUSAL_LIMIT, goodbye).await;
}

/// From the first byte to the proof. `peer` becomes who a proxy says that it is.
async fn hello(
    shared: &Shared,
    client: &mut Client,
    peer: &mut SocketAddr,
) -> Result<(Startup, Grant), Stop> {
    let at = steps::begin();
    let tls = shared.certificate.tls();
    if let Client::Plain(stream) = client {
        if proxied::is_proxy(&shared.options.proxies, peer.ip()) {
            *peer = proxied::client_of(stream, *peer).await?;
        }
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Err(Stop::Gone);
        }
        if first[0] == TLS_HANDSHAKE {
            wrap(&tls, client).await?;
            match client {
                Client::Tls(stream) if stream.get_ref().1.alpn_protocol() == Some(ALPN) => {}
                _ => return Err(Fatal::new("08P01", "TLS at once needs the ALPN protocol postgresql").into()),
            }
        }
    }
    let mut refused_gss = false;
    let mut startup = loop {
        match startup::parse(&packet(client).await?).map_err(Fatal::from)? {
            First::Tls if matches!(client, Client::Plain(_)) => {
                client.write_all(b"S").await?;
                wrap(&tls, client).await?;
            }
            First::Gss if matches!(client, Client::Plain(_)) && !refused_gss => {
                refused_gss = true;
                client.write_all(b"N").await?;
            }
            First::Tls | First::Gss => {
                return Err(Fatal::new("08P01", "encryption was asked for twice").into());
            }
            First::Cancel { session, key } => {
                match shared.sessions.canceller(session, &key) {
                    Some(Cancels::Here(canceller)) => {
                        let _ = timeout(REFUSAL_LIMIT, canceller.cancel()).await;
                    }
                    #[cfg(feature = "fleet")]
                    Some(Cancels::Elsewhere { node, number, key }) => {
                        if let Some(fleet) = shared.fleet.get() {
                            hop::cancel(fleet, &node, number, key).await;
                        }
                    }
                    None => {}
                }
                return Err(Stop::Gone);
            }
            First::Startup(startup) => break startup,
        }
    };
    if matches!(client, Client::Plain(_)) && !peer.ip().is_loopback() && !shared.options.insecure {
        let fatal = Fatal::new("28000", "connections from other machines need TLS")
            .hint("Use sslmode=require or better.");
        return Err(fatal.into());
    }
    if let (Client::Tls(stream), None) = (&*client, &startup.database) {
        startup.database = stream.get_ref().1.server_name().and_then(|name| tls.first_label(name));
    }
    steps::note("connect", at);
    let mut out = BytesMut::new();
    if startup.version > NEWEST || !startup.protocol_options.is_empty() {
        message::negotiate(&mut out, startup.version, &startup.protocol_options);
    }
    let at = steps::begin();
    let proved = prove(shared, &tls, client, &startup.user, out).await?;
    steps::note("authentication", at);
    match proved {
        Some(grant) => Ok((startup, grant)),
        None => {
            // Whoever proves it is let in, however many others at its address did not (H6). It is counted before anything is
            // waited for, which may be cut off.
            let may_fail = shared.counts.failures.may_fail(peer.ip(), clock::now());
            sleep(FAILURE_PAUSE).await;
            if may_fail {
                Err(Fatal::not_let_in(&startup.user).into())
            } else {
                Err(Fatal::too_many_failures().into())
            }
        }
    }
}

/// Puts TLS around the connection. What came unencrypted after the request for it would be taken for the handshake, and fail.
async fn wrap(tls: &Tls, client: &mut Client) -> Result<(), Stop> {
    let plain = std::mem::replace(client, Client::Gone);
    let Client::Plain(stream) = plain else { return Err(Stop::Gone) };
    *client = Client::Tls(Box::new(tls.acceptor.accept(stream).await?));
    Ok(())
}

/// Waits until a client that is to wait has gone away.
async fn hung_up(client: &Client) {
    let stream = match client {
        Client::Plain(stream) => stream,
        Client::Tls(stream) => stream.get_ref().0,
        Client::Gone => return,
    };
    loop {
        match stream.ready(Interest::READABLE).await {
            Ok(ready) if !ready.is_read_closed() => sleep(HANG_UP_EVERY).await,
            _ => return,
        }
    }
}

/// A packet without a type: its length, and so much.
async fn packet(client: &mut Client) -> Result<Vec<u8>, Stop> {
    let length = client.read_u32().await? as usize;
    if !(8..=PACKET_MAX).contains(&length) {
        return Err(Fatal::new("08P01", "invalid length of a start-up packet").into());
    }
    let mut packet = vec![0; length - 4];
    client.read_exact(&mut packet).await?;
    Ok(packet)
}

/// Has the client prove that it knows the secret of the token `name`. Nothing if it does not, or there is no such token.
async fn prove(
    shared: &Shared,
    tls: &Tls,
    client: &mut Client,
    name: &str,
    mut out: BytesMut,
) -> Result<Option<Grant>, Stop> {
    let end_point = match client {
        Client::Tls(_) => tls.end_point.as_deref(),
        _ => None,
    };
    let binding = end_point.map_or(Binding::None, Binding::EndPoint);
    let (verifier, grant) = shared.tokens.challenge(name);
    let offered = [Mechanism::Plus, Mechanism::Plain].map(Mechanism::name);
    message::sasl(&mut out, if end_point.is_some() { &offered } else { &offered[1..] });
    client.write_all(&out).await?;
    out.clear();

    let malformed = |what: &str| Fatal::new("08P01", format!("malformed SASL message: {what}"));
    let first = answer(client).await?;
    let (mechanism, first) = message::sasl_initial(&first).ok_or_else(|| malformed("the first one"))?;
    let mechanism = Mechanism::of_name(mechanism).ok_or_else(|| malformed("another mechanism"))?;
    let refuse = |error: ScramError| match error {
        ScramError::Binding => Fatal::new("28000", error.to_string())
            .hint("Somebody between you and the router may have changed what was said, or the certificate."),
        error => Fatal::new("08P01", error.to_string()),
    };
    let (exchange, challenge) = ServerExchange::begin(verifier, mechanism, first, binding).map_err(refuse)?;
    message::sasl_continue(&mut out, &challenge);
    client.write_all(&out).await?;
    out.clear();
    match exchange.finish(&answer(client).await?) {
        // Nobody can prove what stands for a name that nobody has.
        Ok(proof) => {
            message::sasl_final(&mut out, &proof);
            client.write_all(&out).await?;
            Ok(grant)
        }
        Err(ScramError::WrongProof) => Ok(None),
        Err(error) => Err(refuse(error).into()),
    }
}

/// The body of a message of a proof.
async fn answer(client: &mut Client) -> Result<Vec<u8>, Stop> {
    let tag = client.read_u8().await?;
    let length = client.read_u32().await? as usize;
    if tag != b'p' || !(4..=PROOF_MAX + 4).contains(&length) {
        return Err(Fatal::new("08P01", "expected a SASL response").into());
    }
    let mut body = vec![0; length - 4];
    client.read_exact(&mut body).await?;
    Ok(body)
}

/// From the proof to the last byte. `hopped`: it was passed on by another node of the fleet.
async fn enter(
    shared: &Shared,
    client: &mut Client,
    (peer, began): (SocketAddr, Instant),
    startup: Startup,
    mut grant: Grant,
    hopped: bool,
) -> Result<(), Stop> {
    let token = grant.token.clone();
    let long_key = startup.version >= NEWEST;
    let Some(_place) = shared.counts.places.take(&token) else {
        let message =
            format!("too many connections for token \"{}\": it has {}", token.name, token.max_connections);
        return Err(Fatal::new("53300", message)
            .hint("Close some, or make a token that may have more.")
            .into());
    };
    let key = shared.sessions.begin(long_key);
    let session = Session { shared, token: &token, peer, began, key: &key, hopped };
    let work = async {
        #[cfg(feature = "fleet")]
        if let Some(fleet) = shared.fleet.get().filter(|_| !hopped) {
            if let Some(node) = session.node(fleet, &startup).await? {
                return Box::pin(session.pass_on(fleet, &node, client, startup)).await;
            }
        }
        let ready = tokio::select! {
            ready = session.prepare(startup) => ready?,
            // Nobody waits for a branch who is not there to enter it.
            () = hung_up(client) => return Err(Stop::Gone),
        };
        session.run(client, ready).await
    };
    tokio::select! {
        ended = work => ended,
        () = grant.ends() => Ok(()),
    }
}

/// A client that has proved who it is.
struct Session<'a> {
    shared: &'a Shared,
    token: &'a Token,
    peer: SocketAddr,
    /// When its first byte was waited for.
    began: Instant,
    key: &'a Key<'a>,
    /// Whether another node of the fleet passed it on.
    hopped: bool,
}

/// A branch that a client enters, with a process of its server. What is dropped first comes first: the process ends before the
/// branch does that was made for it.
struct Ready<'a> {
    entry: Entry,
    running: Running,
    _place: Option<Place>,
    own: Option<OwnBranch<'a>>,
    door: Door,
}

impl Session<'_> {
    /// Finds or makes the branch, and enters it.
    async fn prepare(&self, startup: Startup) -> Result<Ready<'_>, Stop> {
        let Startup { user, database, wishes, parameters, .. } = startup;
        // As in PostgreSQL: without a name it is that of the user.
        let database = database.unwrap_or(user);
        let (door, database, own) = self.find(&database, &wishes).await?;
        self.may_leave(&door)?;
        let place = self.place_in(&door)?;
        let at = steps::begin();
        let entered = door.enter(&database, parameters).await;
        steps::note("entry", at);
        let (entry, running) = entered.map_err(|error| refused(&door, error))?;
        Ok(Ready { entry, running, _place: place, own, door })
    }

    /// R13.
    fn place_in(&self, door: &Door) -> Result<Option<Place>, Fatal> {
        let Some(most) = door.connections_max else { return Ok(None) };
        let place = self.shared.counts.places.take_in(&door.id, most);
        place.map(Some).ok_or_else(|| {
            let message = format!("too many connections for branch \"{}\": it has {most}", door.name);
            Fatal::new("53300", message).hint("Close some, or raise the source's limit of connections.")
        })
    }

    async fn run(&self, client: &mut Client, ready: Ready<'_>) -> Result<(), Stop> {
        let Ready { entry, running, _place, own, door } = ready;
        let Entry { mut stream, greeting, canceller } = entry;
        let process = canceller.process_id();
        self.key.enter(Cancels::Here(canceller));
        // R8: written down before the client hears that it is in.
        let mut log = Log::begin(self, &door, process)?;
        self.shared.metrics.entered(self.began.elapsed());

        let mut out = BytesMut::with_capacity(greeting.len() + 64);
        out.extend_from_slice(&greeting);
        message::key(&mut out, self.key.number, &self.key.key);
        message::ready(&mut out);
        let at = steps::begin();
        client.write_all(&out).await?;
        client.flush().await?;
        if let Some(tracer) = &self.shared.tracer {
            steps::note("greeting", at);
            tracer.first_byte(&door, self.token, self.began);
        }
        let idle = self.shared.options.idle;
        let passing = async {
            match std::mem::replace(client, Client::Gone) {
                Client::Plain(plain) => {
                    let counters = Arc::clone(&log.counters);
                    let (plain, end) = self.shared.splicers.splice(plain, stream, idle, counters).await?;
                    *client = Client::Plain(plain);
                    Ok(end)
                }
                other => {
                    *client = other;
                    splice::splice(client, &mut stream, idle, &log.counters).await
                }
            }
        };
        let ended = tokio::select! {
            ended = passing => ended,
            () = self.keep(&door, own.is_some()) => Ok(End::Server),
        };
        log.why = match &ended {
            Ok(End::Client) => "client",
            Ok(End::Server) => "server",
            Ok(End::Idle) => "idle",
            Err(_) => "broken",
        };
        drop(log);
        if let Ok(End::Idle) = ended {
            let message = "terminating connection due to idle-session timeout";
            return Err(Stop::Over(Fatal::new("57P05", message)));
        }
        // The session counts for as long as its process does, which first ends its statement.
        *client = Client::Gone;
        drop(own);
        running.ended().await;
        Ok(())
    }

    /// Gives a branch of this connection more time for as long as it lives.
    async fn keep(&self, door: &Door, is_own: bool) {
        loop {
            sleep(PROLONG_EVERY).await;
            if is_own {
                if let Err(error) = self.shared.engine.prolong(&door.name, &door.id, TTL_S) {
                    tracing::warn!(%error, branch = door.name, "a branch of one connection is not prolonged");
                }
            }
        }
    }

    /// The branch that the client means, the database in it, and what ends it if it is the connection's own.
    async fn find(
        &self,
        database: &str,
        wishes: &Wishes,
    ) -> Result<(Door, String, Option<OwnBranch<'_>>), Stop> {
        let engine = &self.shared.engine;
        let holder = holders::holder(self.token);
        match Target::parse(database) {
            Target::Branch(name) => {
                let mut first = None;
                for (branch, database) in startup::readings(name) {
                    match engine.door(&holder, branch) {
                        Ok(door) => {
                            self.fits(&door, wishes)?;
                            let database = inner(&door, database)?;
                            return Ok((door, database, None));
                        }
                        Err(error) if error.kind == Kind::NotFound => {
                            first.get_or_insert(error);
                        }
                        Err(error) => return Err(self.told(error)),
                    }
                }
                Err(self.no_branch(name, &holder).into())
            }
            Target::Created { source, branch } => {
                let (door, _) = self.create(&holder, source, Some(branch), wishes).await?;
                let database = inner(&door, None)?;
                Ok((door, database, None))
            }
            Target::Own { source } => {
                let (door, own) = self.create(&holder, source, None, wishes).await?;
                let database = inner(&door, None)?;
                Ok((door, database, own))
            }
        }
    }

    async fn create(
        &self,
        holder: &Holder,
        source: &str,
        name: Option<&str>,
        wishes: &Wishes,
    ) -> Result<(Door, Option<OwnBranch<'_>>), Stop> {
        let forbidden = |error: Forbidden| Stop::from(Fatal::new("42501", error.to_string()));
        let policy = wishes.policy.unwrap_or_default();
        self.token.may_use(source, policy).map_err(forbidden)?;
        let ttl_s = self.token.ttl(wishes.ttl_s, TTL_S).map_err(forbidden)?;
        let request = CreateBranch {
            source: Some(source.to_owned()),
            name: name.map(str::to_owned),
            policy: Some(policy),
            ttl_s: Some(ttl_s),
            ..CreateBranch::default()
        };
        let engine = &self.shared.engine;
        let view = engine.create_for(holder, request).await.map_err(|error| self.told(error))?;
        // From here on a branch without a name is given back, whatever happens.
        let own =
            name.is_none().then(|| OwnBranch { shared: self.shared, name: view.name.clone(), id: view.id });
        let door = engine.door(holder, &view.name).map_err(|error| self.told(error))?;
        Ok((door, own))
    }

    /// Refuses a client that asks for another policy than its branch has.
    fn fits(&self, door: &Door, wishes: &Wishes) -> Result<(), Fatal> {
        self.token
            .may_use(&door.source, door.policy)
            .map_err(|error| Fatal::new("42501", error.to_string()))?;
        match wishes.policy {
            Some(policy) if policy != door.policy => {
                let message =
                    format!("branch \"{}\" has the policy {}, not {policy}", door.name, door.policy);
                Err(Fatal::new("22023", message)
                    .hint("The policy of a branch is decided when it is created."))
            }
            _ => Ok(()),
        }
    }

    /// R5.
    fn may_leave(&self, door: &Door) -> Result<(), Fatal> {
        if door.masked || self.shared.options.unmasked_ok || (self.peer.ip().is_loopback() && !self.hopped) {
            return Ok(());
        }
        let message =
            format!("the data of source \"{}\" is not masked, and stays on its machine", door.source);
        let hint = "Give the source rules for masking, or start the daemon with --unmasked-ok.";
        Err(Fatal::new("42501", message).hint(hint))
    }

    fn no_branch(&self, name: &str, holder: &Holder) -> Fatal {
        if self.token.role == Role::Viewer {
            return Fatal::new("42501", Forbidden::Role { token: self.token.name.clone() }.to_string());
        }
        let names = self.shared.engine.names_of(holder);
        let more = if names.len() > NAMED_MAX { ", ..." } else { "" };
        let list = names.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        let known = if names.is_empty() { "none".to_owned() } else { format!("{list}{more}") };
        Fatal::new("3D000", format!("no branch \"{name}\"")).hint(format!(
            "Branches of this token: {known}. SOURCE@{name} creates it; @SOURCE is a branch for this connection alone, and not for \
             pools."
        ))
    }

    /// What the engine refused.
    fn told(&self, error: EngineError) -> Stop {
        let code = match (error.kind, error.code) {
            (Kind::Quota, _) | (_, "too_many_leases") => "53400",
            (Kind::NotFound, _) => "3D000",
            (Kind::Conflict, _) => "42710",
            (Kind::Invalid, _) => "22023",
            (Kind::Unavailable | Kind::Timeout, _) => "53000",
            _ => "58000",
        };
        Fatal::new(code, error.message).into()
    }
}

/// The database to enter in a branch.
fn inner(door: &Door, database: Option<&str>) -> Result<String, Fatal> {
    match database {
        Some(name) if name != door.database && !door.all_databases => {
            let message =
                format!("branch \"{}\" admits to its database \"{}\" only", door.name, door.database);
            Err(Fatal::new("42501", message).hint("The source's setting all-databases admits to the others."))
        }
        Some(name) => Ok(name.to_owned()),
        None => Ok(door.database.clone()),
    }
}

fn refused(door: &Door, error: EntryError) -> Stop {
    match error {
        EntryError::Refused { message, .. } => Stop::Server(message),
        error => {
            tracing::warn!(%error, branch = door.name, "nobody can be let in");
            let message = format!("the server of branch \"{}\" cannot be entered", door.name);
            Fatal::new("08006", message).hint("Connect again; if it stays so, reset the branch.").into()
        }
    }
}

/// A branch that ends with its connection (R10).
struct OwnBranch<'a> {
    shared: &'a Shared,
    name: String,
    id: String,
}

impl Drop for OwnBranch<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.shared.engine.give_back(&self.name, &self.id) {
            tracing::error!(%error, branch = self.name, "a branch of one connection stays until its lease is over");
        }
    }
}

/// A session's lines in the audit log.
struct Log<'a, 'b> {
    session: &'a Session<'b>,
    branch: String,
    began: std::time::Instant,
    counters: Arc<Counters>,
    why: &'static str,
}

impl<'a, 'b> Log<'a, 'b> {
    fn begin(session: &'a Session<'b>, door: &Door, process: i32) -> Result<Log<'a, 'b>, Fatal> {
        let noted = session.shared.engine.note(
            "connected",
            json!({ "session": session.key.number, "token": session.token.id, "token_name": session.token.name,
                    "from": session.peer.to_string(), "branch": door.id, "name": door.name,
                    "process": process }),
        );
        noted.map_err(|error| Fatal::new("58030", error.message))?;
        Ok(Log {
            session,
            branch: door.id.clone(),
            began: clock::now(),
            counters: Arc::default(),
            // Until it is known better: nobody waited for its end.
            why: "ended by the daemon",
        })
    }
}

impl Drop for Log<'_, '_> {
    fn drop(&mut self) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (sent, received) = (count(&self.counters.sent), count(&self.counters.received));
        self.session.shared.metrics.left(self.why, sent, received);
        let duration_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let noted = self.session.shared.engine.note(
            "disconnected",
            json!({ "session": self.session.key.number, "token": self.session.token.id, "branch": self.branch,
                    "duration_ms": duration_ms, "sent": sent, "received": received, "why": self.why }),
        );
        if let Err(error) = noted {
            tracing::error!(%error, "the end of a session is not in the audit log");
        }
    }
}

impl AsyncRead for Client {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Client::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Client::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
            Client::Gone => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Client {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Client::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Client::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Client::Gone => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Client::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Client::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Client::Gone => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Client::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Client::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Client::Gone => Poll::Ready(Ok(())),
        }
    }
}
