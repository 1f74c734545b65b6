//! etcd, asked with deadlines: what it answers, or that it did not.

use crate::{
    address::{Access, Address},
    figures::Figures,
    record::{Key, Keys},
};
use duramen_base::{clock, file};
use etcd_client::{
    Certificate, Client, ConnectOptions, GetOptions, GetResponse, Identity, LeaseClient, TlsOptions, Txn,
    TxnOpResponse, TxnResponse, WatchClient,
};
use std::{
    error::Error as _,
    path::Path,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc, PoisonError, RwLock,
    },
    time::Duration,
};
use tokio::time::timeout;

/// One question is answered within this, or asked again of another member.
pub(crate) const TRY: Duration = Duration::from_millis(1000);
/// Nobody is connected to for longer.
const CONNECT: Duration = Duration::from_millis(800);
/// How often a silent connection is asked whether it is alive. etcd refuses clients that ask more often than every 5 s.
const PING: Duration = Duration::from_secs(5);
/// How long it may take to answer that.
const PONG: Duration = Duration::from_secs(2);
/// The largest file with a password.
const PASSWORD_MAX: u64 = 4096;

/// Why etcd did not do something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// It did not answer: whether it did what it was asked is unknown.
    #[error("etcd ({members}) does not answer: {what}")]
    Silent {
        /// Its members.
        members: String,
        /// What was heard last.
        what: String,
    },
    /// It refuses: who asks is not known to it, or may not do that. Nothing was done.
    #[error("etcd ({members}) refuses: {what}; see --etcd-user, --etcd-password-file and --etcd-cert, and the role in docs/fleet.md")]
    Refused {
        /// Its members.
        members: String,
        /// What it said.
        what: String,
    },
    /// A file that is needed to ask it cannot be used.
    #[error("cannot use {path} for etcd: {what}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// etcd, and the keys of the fleet in it.
pub(crate) struct Etcd {
    pub(crate) keys: Keys,
    address: Address,
    access: Access,
    client: RwLock<Option<Client>>,
    writes: AtomicU64,
    pub(crate) figures: Figures,
}

impl std::fmt::Debug for Etcd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Etcd").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Etcd {
    pub(crate) fn new(address: Address, access: Access) -> Result<Arc<Etcd>, EtcdError> {
        // Looked at once, so that a file that is not there is told at the start.
        options(&address, &access, true)?;
        let keys = Keys::of(&address.fleet);
        Ok(Arc::new(Etcd {
            keys,
            address,
            access,
            client: RwLock::new(None),
            writes: AtomicU64::new(0),
            figures: Figures::default(),
        }))
    }

    /// How many transactions wrote to names, as far as they were answered.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    pub(crate) fn silent(&self, what: impl std::fmt::Display) -> EtcdError {
        EtcdError::Silent { members: self.address.members.join(", "), what: what.to_string() }
    }

    /// What follows from what etcd said, or from what kept it from being asked.
    pub(crate) fn failed(&self, error: &etcd_client::Error) -> EtcdError {
        /// Codes of gRPC: invalid argument, which a wrong password is, permission denied, unauthenticated.
        const REFUSALS: [i32; 3] = [3, 7, 16];
        match error {
            etcd_client::Error::GRpcStatus(status) if REFUSALS.contains(&i32::from(status.code())) => {
                EtcdError::Refused { members: self.address.members.join(", "), what: said(error) }
            }
            error => {
                let said = said(error);
                let may = self.may_refuse_certificate(&said);
                self.silent(format_args!("{said}{may}"))
            }
        }
    }

    /// A hint, where a connection ended in a way in which it ends when etcd does not accept the certificate of its client: with TLS 1.3
    /// that comes after the handshake, and often nothing but the end of the connection is heard of it.
    fn may_refuse_certificate(&self, said: &str) -> &'static str {
        let is_end = ["fatal alert", "broken pipe", "connection closed", "reset by peer"];
        match &self.access.identity {
            _ if !self.address.tls || !is_end.iter().any(|end| said.contains(end)) => "",
            Some(_) => " (it may not accept this node's certificate for it: --etcd-cert, --etcd-key)",
            None => " (it may ask its clients for a certificate: --etcd-cert, --etcd-key)",
        }
    }

    async fn client(&self) -> Result<Client, EtcdError> {
        if let Some(client) = &*self.client.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(client.clone());
        }
        // With a user it asks for a token, which needs an answer; without, nothing is connected to yet.
        let connecting =
            Client::connect(self.address.endpoints(), Some(options(&self.address, &self.access, true)?));
        let client = match timeout(TRY * 2, connecting).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(self.failed(&error)),
            Err(_) => return Err(self.silent("no connection")),
        };
        Ok(self.client.write().unwrap_or_else(PoisonError::into_inner).get_or_insert(client).clone())
    }

    pub(crate) async fn leases(&self) -> Result<LeaseClient, EtcdError> {
        Ok(self.client().await?.lease_client())
    }

    pub(crate) async fn watches(&self) -> Result<WatchClient, EtcdError> {
        Ok(self.client().await?.watch_client())
    }

    /// A client of one member alone, which answers also without a leader.
    pub(crate) async fn client_of(&self, member: usize) -> Result<Client, EtcdError> {
        let endpoints = self.address.endpoints();
        let endpoint = endpoints.get(member).ok_or_else(|| self.silent("there is no such member"))?;
        let connecting = Client::connect([endpoint], Some(options(&self.address, &self.access, false)?));
        self.within(connecting).await
    }

    /// Its members as the address has them, `HOST:PORT`.
    pub(crate) fn members(&self) -> &[String] {
        &self.address.members
    }

    /// The fleet that is meant.
    pub(crate) fn fleet(&self) -> &str {
        &self.address.fleet
    }

    /// Has something done within [`TRY`].
    pub(crate) async fn within<T>(
        &self,
        asked: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, EtcdError> {
        let begin = clock::now();
        let answer = timeout(TRY, asked).await;
        self.figures.asked(begin.elapsed(), matches!(answer, Ok(Ok(_))));
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.failed(&error)),
            Err(_) => Err(self.silent(format_args!("nothing within {} ms", TRY.as_millis()))),
        }
    }

    /// The value of a key, linearizable.
    pub(crate) async fn get(&self, key: Key<'_>) -> Result<Option<Found>, EtcdError> {
        self.get_at(self.keys.key(key)).await
    }

    /// The value of a key as etcd has it, linearizable.
    pub(crate) async fn get_at(&self, key: String) -> Result<Option<Found>, EtcdError> {
        let mut kv = self.client().await?.kv_client();
        let answer = self.within(kv.get(key, None)).await?;
        Ok(answer.kvs().first().map(Found::of))
    }

    /// All keys of the fleet.
    pub(crate) async fn all(&self) -> Result<GetResponse, EtcdError> {
        let mut kv = self.client().await?.kv_client().max_decoding_message_size(256 << 20);
        let options = GetOptions::new().with_prefix();
        // There may be many of them.
        match timeout(TRY * 10, kv.get(self.keys.prefix(), Some(options))).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.failed(&error)),
            Err(_) => Err(self.silent("not all keys in time")),
        }
    }

    /// A transaction. Where it fails, what is there is got by its `or_else`.
    pub(crate) async fn txn(&self, txn: Txn) -> Result<TxnResponse, EtcdError> {
        let mut kv = self.client().await?.kv_client();
        self.within(kv.txn(txn)).await
    }

    /// A transaction that writes to a name if it succeeds: those are counted (FL-9).
    pub(crate) async fn txn_of_name(&self, txn: Txn) -> Result<TxnResponse, EtcdError> {
        let answer = self.txn(txn).await?;
        if answer.succeeded() {
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(answer)
    }
}

/// A key that is there.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) value: Vec<u8>,
    pub(crate) created: i64,
    pub(crate) modified: i64,
}

impl Found {
    fn of(kv: &etcd_client::KeyValue) -> Found {
        Found { value: kv.value().to_vec(), created: kv.create_revision(), modified: kv.mod_revision() }
    }

    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.value).ok()
    }
}

/// What etcd said, or what kept it from being asked, down to its cause: a certificate that is not believed says so there.
fn said(error: &etcd_client::Error) -> String {
    let (mut text, mut cause): (String, Option<&(dyn std::error::Error + 'static)>) = match error {
        etcd_client::Error::GRpcStatus(status) => (status.message().to_owned(), status.source()),
        etcd_client::Error::TransportError(error) => (error.to_string(), error.source()),
        other => (other.to_string(), None),
    };
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// What the `or_else` of a transaction got, one for each of its operations.
pub(crate) fn gotten(answer: &TxnResponse) -> Vec<Option<Found>> {
    let got = answer.op_responses().into_iter().map(|answer| match answer {
        TxnOpResponse::Get(got) => got.kvs().first().map(Found::of),
        _ => None,
    });
    got.collect()
}

/// `led`: who is asked must have a leader.
fn options(address: &Address, access: &Access, led: bool) -> Result<ConnectOptions, EtcdError> {
    let mut options = ConnectOptions::new()
        .with_connect_timeout(CONNECT)
        .with_keep_alive(PING, PONG)
        .with_keep_alive_while_idle(true)
        // A member that is cut off from the others is of no use, also for a watch.
        .with_require_leader(led)
        .with_auto_token_refresh(true);
    if let Some((user, file)) = &access.user {
        let password = file::read_plain(file, PASSWORD_MAX)
            .map_err(|error| EtcdError::File { path: file.clone(), what: error.to_string() })?;
        options = options.with_user(user, password.trim_end_matches(['\n', '\r']));
    }
    if !address.tls {
        return Ok(options);
    }
    let read = |path: &Path| {
        std::fs::read(path)
            .map_err(|error| EtcdError::File { path: path.to_owned(), what: error.to_string() })
    };
    let mut tls = TlsOptions::new();
    match &access.authority {
        Some(path) => tls = tls.ca_certificate(Certificate::from_pem(read(path)?)),
        None => tls = tls.with_enabled_roots(),
    }
    if let Some((certificate, key)) = &access.identity {
        tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    Ok(options.with_tls(tls))
}
