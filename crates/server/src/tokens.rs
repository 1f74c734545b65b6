//! The tokens of a home: made, found, rotated and revoked.

use crate::console::Session;
use duramen_api::token::{CreateToken, NewToken, Token};
use duramen_base::{clock, entropy, file, suggest};
use duramen_branches::{check_name, EngineError, Kind};
use duramen_postgres::{scram::Verifier, Secret};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs, io,
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// What clients ask for at least (pgjdbc). A secret of 130 bits needs none.
const ROUNDS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not zero");
/// The name of the file in `doors`.
const FILE: &str = "tokens.json";
/// Only the daemon reads it.
const FILE_MODE: u32 = 0o600;
/// A home has no more tokens than this.
const TOKENS_MAX: usize = 10_000;

/// Why a token is not made, found or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The name is none.
    #[error(transparent)]
    Name(EngineError),
    /// The name is taken.
    #[error(
        "there is a token {0} already; rotate its secret (`duramen token rotate {0}`), or revoke it first"
    )]
    Exists(String),
    /// There is none of that name.
    #[error("there is no token {name:?}{}; `duramen token list` shows all", closest.as_ref().map(|known| format!("; did you mean {known}?")).unwrap_or_default())]
    NotFound {
        /// The name.
        name: String,
        /// The name that was probably meant.
        closest: Option<String>,
    },
    /// Its time is over.
    #[error("the time of the token {0} is over; make another one (`duramen token create`)")]
    Over(String),
    /// A number that makes no sense.
    #[error("{0}")]
    Invalid(&'static str),
    /// It is one of a fleet, and this daemon is in none.
    #[error("the token {0} is one of a fleet, which this daemon was started without: its new secret would be replaced by that of the fleet; rotate it on a node of the fleet, or revoke it here, which the fleet is told when this daemon is in it again")]
    OfFleet(String),
    /// None of that name is suspended.
    #[error("there is no suspended token {name:?}; {}", if known.is_empty() { "none is suspended".to_owned() } else { format!("suspended are: {}", known.join(", ")) })]
    NotSuspended {
        /// The name.
        name: String,
        /// Those that are.
        known: Vec<String>,
    },
    /// There are too many.
    #[error("there are {TOKENS_MAX} tokens, which is as many as a home may have; revoke some")]
    TooMany,
    /// The file cannot be read or written. What was asked for did not happen.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The file is not what this version writes.
    #[error("{path} is damaged: {what}; nobody is let in by it. Put it back from a copy, or remove it and make the tokens anew")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl TokenError {
    /// What callers of the interface are told.
    #[must_use]
    pub fn into_engine_error(self) -> EngineError {
        let (kind, code) = match &self {
            TokenError::Name(error) => return error.clone(),
            TokenError::Exists(_) => (Kind::Conflict, "token_exists"),
            TokenError::NotFound { .. } | TokenError::NotSuspended { .. } => {
                (Kind::NotFound, "no_such_token")
            }
            TokenError::Over(_) => (Kind::Conflict, "token_over"),
            TokenError::Invalid(_) => (Kind::Invalid, "bad_request"),
            TokenError::OfFleet(_) => (Kind::Conflict, "token_of_fleet"),
            TokenError::TooMany => (Kind::Unavailable, "too_many_tokens"),
            TokenError::Io { .. } | TokenError::Damaged { .. } => (Kind::Failed, "tokens_failed"),
        };
        EngineError::new(kind, code, self.to_string())
    }
}

#[derive(Serialize, Deserialize)]
struct File {
    /// What the salts of names follow from that nobody has.
    key: String,
    tokens: Vec<Line>,
    /// What is kept of tokens by which nobody is let in.
    #[serde(flatten)]
    apart: Apart,
}

/// What is kept of tokens by which nobody is let in.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Apart {
    /// Tokens that the fleet had, and has no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    suspended: Vec<Line>,
    /// Tokens that were revoked here, which the fleet was not told yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    revoked: Vec<Revoked>,
    /// Up to which revision of etcd tokens were followed by this process.
    #[serde(skip)]
    #[cfg_attr(not(feature = "fleet"), allow(dead_code, reason = "without a fleet nobody asks"))]
    seen: i64,
}

/// A token that was revoked here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Revoked {
    pub(crate) id: String,
    pub(crate) name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    token: Token,
    verifier: String,
    /// What its secret is compared with where it comes as it is, over HTTP. Not there in files of before, until it comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    /// Whether it is one of the fleet, which decides whether it is alive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shared: bool,
}

/// A token that is alive.
#[derive(Debug)]
struct Kept {
    token: Arc<Token>,
    verifier: Verifier,
    hash: Option<blake3::Hash>,
    bond: Bond,
    shared: bool,
    /// Since which revision of etcd the fleet has it, if it was made here.
    #[cfg_attr(not(feature = "fleet"), allow(dead_code, reason = "without a fleet nobody asks"))]
    revision: i64,
    /// Dropped when the secret is no longer good: what was entered by it ends.
    alive: watch::Sender<()>,
}

/// The tokens of a home.
#[derive(Debug)]
pub struct Tokens {
    path: PathBuf,
    key: [u8; 32],
    kept: Mutex<BTreeMap<String, Kept>>,
    /// Is locked after the others.
    apart: Mutex<Apart>,
}

/// What a secret that came as it is turns out to be.
#[derive(Debug)]
pub(crate) enum Check {
    /// That of the token.
    Right(Grant),
    /// Another one, or there is no such token, or its time is over.
    Wrong,
    /// Only the verifier can tell, and takes milliseconds. Who has it right is to be remembered by [`Tokens::learn`].
    Slow(Verifier, Option<Grant>),
}

/// What somebody who proved to know a token's secret has, as long as it is alive.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) token: Arc<Token>,
    bond: Bond,
    alive: watch::Receiver<()>,
    /// The session of a browser by which it came, if it did.
    session: Option<Arc<Session>>,
}

/// What is kept of a token where something else stands for it: it is good for as long as the token has the secret of now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bond {
    token: String,
    name: String,
    /// BLAKE3 over the verifier of the secret.
    secret: String,
}

impl Bond {
    /// Whether both are of one token.
    pub(crate) fn is_of(&self, other: &Bond) -> bool {
        self.token == other.token
    }
}

impl Grant {
    /// What can be kept of it.
    pub(crate) fn bond(&self) -> Bond {
        self.bond.clone()
    }

    /// The same, for as long as a session lasts.
    pub(crate) fn within(self, session: Arc<Session>) -> Grant {
        Grant { session: Some(session), ..self }
    }

    /// The session by which it came, if it did.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        self.session.as_ref()
    }

    /// The same, for who needs nothing else.
    pub(crate) fn into_session(self) -> Option<Arc<Session>> {
        self.session
    }

    /// Waits until the token is revoked or rotated, or its time is over, or that of the session.
    pub(crate) async fn ends(&mut self) {
        let time = async {
            match self.token.expires_at {
                // Looked at anew at times, because clocks are set.
                Some(_) => {
                    while !self.token.is_over(clock::utc_now()) {
                        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
                    }
                }
                None => std::future::pending().await,
            }
        };
        let session = async {
            match &self.session {
                Some(session) => session.ends().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Nothing is ever sent: it ends when the sender is dropped.
            _ = self.alive.changed() => {}
            () = time => {}
            () = session => {}
        }
    }
}

impl Tokens {
    /// Reads the tokens of a home, in its directory `doors`.
    ///
    /// # Errors
    /// When the file cannot be read, or is damaged.
    ///
    /// # Examples
    /// ```
    /// use duramen_api::token::CreateToken;
    /// use duramen_server::tokens::Tokens;
    /// let home = tempfile::tempdir()?;
    /// let tokens = Tokens::open(home.path())?;
    /// let made = tokens.create(CreateToken { name: "ci".to_owned(), ..CreateToken::default() })?;
    /// assert_eq!(made.secret.len(), 26);
    /// assert_eq!(Tokens::open(home.path())?.list(), [made.token]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(dir: &Path) -> Result<Tokens, TokenError> {
        let path = dir.join(FILE);
        // What was half written when a daemon was killed has verifiers in it.
        match file::remove_drafts(dir) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(TokenError::Io { doing: "remove what is half written beside", path, source });
            }
            _ => {}
        }
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            text => {
                Some(text.map_err(|source| TokenError::Io { doing: "read", path: path.clone(), source })?)
            }
        };
        let Some(text) = text else {
            let (kept, apart) = (Mutex::default(), Mutex::default());
            return Ok(Tokens { path, key: entropy::random_bytes(), kept, apart });
        };
        let damaged = |what: String| TokenError::Damaged { path: path.clone(), what };
        let file: File = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        let key =
            key_of(&file.key).ok_or_else(|| damaged("its key is not 64 hexadecimal digits".to_owned()))?;
        let mut kept = BTreeMap::new();
        for Line { token, verifier, hash, shared } in file.tokens {
            let verifier =
                verifier.parse().map_err(|error| damaged(format!("token {}: {error}", token.name)))?;
            let hash = hash.map(blake3::Hash::from_hex).transpose();
            let hash = hash.map_err(|error| damaged(format!("token {}: {error}", token.name)))?;
            kept.insert(token.name.clone(), Kept { shared, ..Kept::new(token, verifier, hash) });
        }
        Ok(Tokens { path, key, kept: Mutex::new(kept), apart: Mutex::new(file.apart) })
    }

    /// Makes a token. Its secret is in the answer, and nowhere else.
    ///
    /// # Errors
    /// [`TokenError`]
    pub fn create(&self, wanted: CreateToken) -> Result<NewToken, TokenError> {
        let mut kept = self.kept();
        let token = Tokens::wanted(&kept, wanted)?;
        self.put(&mut kept, token)
    }

    /// The token that is asked for, if there can be one.
    fn wanted(kept: &BTreeMap<String, Kept>, wanted: CreateToken) -> Result<Token, TokenError> {
        check_name("token", &wanted.name).map_err(TokenError::Name)?;
        let now = clock::utc_now();
        if wanted.expires_at.is_some_and(|end| end <= now) {
            return Err(TokenError::Invalid("the token would be over already; give a later end"));
        }
        if wanted.max_ttl_s.is_some_and(|ttl| ttl <= 0) {
            return Err(TokenError::Invalid("the longest lease must be above zero"));
        }
        if wanted.max_connections == Some(0) {
            return Err(TokenError::Invalid("a token without connections lets nobody in"));
        }
        if kept.contains_key(&wanted.name) {
            return Err(TokenError::Exists(wanted.name));
        }
        if kept.len() >= TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        Ok(Token::new(format!("t-{}", entropy::token(16)), wanted, now))
    }

    /// All tokens, by name.
    #[must_use]
    pub fn list(&self) -> Vec<Token> {
        self.kept().values().map(|kept| Token::clone(&kept.token)).collect()
    }

    /// Gives a token another secret. What was entered with the old one ends.
    ///
    /// # Errors
    /// When there is none of that name, or the change cannot be written down.
    pub fn rotate(&self, name: &str) -> Result<NewToken, TokenError> {
        let mut kept = self.kept();
        let found = find(&kept, name)?;
        if found.shared {
            return Err(TokenError::OfFleet(name.to_owned()));
        }
        let token = Token::clone(&found.token);
        self.put(&mut kept, token)
    }

    /// Ends a token, and what was entered by it. Its branches stay until their leases end. If it is one of a fleet, it is remembered that the
    /// fleet is to be told.
    ///
    /// # Errors
    /// When there is none of that name, or the change cannot be written down.
    pub fn revoke(&self, name: &str) -> Result<Token, TokenError> {
        let is_shared = find(&self.kept(), name)?.shared;
        self.end(name, is_shared)
    }

    /// The same; `tell`: the fleet is to be told.
    fn end(&self, name: &str, tell: bool) -> Result<Token, TokenError> {
        let mut kept = self.kept();
        let token = Token::clone(&find(&kept, name)?.token);
        let mut apart = self.apart();
        let mut changed = apart.clone();
        if tell {
            changed.revoked.push(Revoked { id: token.id.clone(), name: name.to_owned() });
        }
        let others = kept.iter().filter(|(other, _)| *other != name);
        self.write_with(others.map(|(_, kept)| kept.line()).collect(), &changed)?;
        *apart = changed;
        kept.remove(name);
        Ok(token)
    }

    /// What somebody who says that he has the token `name` must prove to know, and what he has then. For a name that nobody
    /// has, or whose time is over, it is something that nobody can prove, and looks the same.
    pub(crate) fn challenge(&self, name: &str) -> (Verifier, Option<Grant>) {
        let kept = self.kept();
        match kept.get(name).filter(|kept| !kept.token.is_over(clock::utc_now())) {
            Some(kept) => (kept.verifier.clone(), Some(kept.grant())),
            None => (Verifier::of_nobody(&self.key, name, ROUNDS), None),
        }
    }

    /// What the holder of a token has, if it is alive.
    ///
    /// # Errors
    /// When there is none of that name, or its time is over.
    pub(crate) fn alive(&self, name: &str) -> Result<Grant, TokenError> {
        let kept = self.kept();
        let found = find(&kept, name)?;
        if found.token.is_over(clock::utc_now()) {
            return Err(TokenError::Over(name.to_owned()));
        }
        Ok(found.grant())
    }

    /// What the holder of the token of that id has, if it is alive.
    #[cfg(feature = "fleet")]
    pub(crate) fn grant_with_id(&self, id: &str) -> Option<Grant> {
        let kept = self.kept();
        let found = kept.values().find(|kept| kept.token.id == id)?;
        (!found.token.is_over(clock::utc_now())).then(|| found.grant())
    }

    /// The token of that id and name, if it is alive.
    #[cfg(feature = "fleet")]
    pub(crate) fn with_id(&self, id: &str, name: &str) -> Option<Arc<Token>> {
        let kept = self.kept();
        let found = kept.get(name).filter(|kept| kept.token.id == id)?;
        (!found.token.is_over(clock::utc_now())).then(|| Arc::clone(&found.token))
    }

    /// What the holder of a token has for whom something else stands, if the token is alive and has the same secret.
    pub(crate) fn bound(&self, bond: &Bond) -> Option<Grant> {
        let kept = self.kept();
        let found = kept.get(&bond.name).filter(|kept| kept.bond == *bond)?;
        (!found.token.is_over(clock::utc_now())).then(|| found.grant())
    }

    /// Looks at a secret that somebody says is that of the token `name`. It is as long for a name that nobody has (H1).
    pub(crate) fn check(&self, name: &str, secret: &str) -> Check {
        let kept = self.kept();
        let known = kept.get(name).filter(|kept| !kept.token.is_over(clock::utc_now()));
        let hash = self.hash(known.map_or("", |kept| kept.token.id.as_str()), secret);
        match known {
            // The comparison takes the same time wherever the two differ.
            Some(Kept { hash: Some(right), .. }) if hash == *right => {
                known.map_or(Check::Wrong, |kept| Check::Right(kept.grant()))
            }
            Some(Kept { hash: Some(_), .. }) => Check::Wrong,
            Some(kept) => Check::Slow(kept.verifier.clone(), Some(kept.grant())),
            // While there are tokens that are slow, so is a name that nobody has.
            None if kept.values().any(|kept| kept.hash.is_none()) => {
                Check::Slow(Verifier::of_nobody(&self.key, name, ROUNDS), None)
            }
            None => Check::Wrong,
        }
    }

    /// Remembers the hash of a secret that its verifier was found to be of. That it cannot be written down does no harm.
    pub(crate) fn learn(&self, grant: &Grant, secret: &str) {
        let hash = self.hash(&grant.token.id, secret);
        let mut kept = self.kept();
        let Some(known) = kept.get_mut(&grant.token.name) else { return };
        // It may have been revoked, or rotated, meanwhile.
        if known.hash.is_none() && Arc::ptr_eq(&known.token, &grant.token) {
            known.hash = Some(hash);
            if let Err(error) = self.write(kept.values().map(Kept::line).collect()) {
                tracing::warn!(%error, "the hash of a token's secret is not kept");
            }
        }
    }

    /// What is kept of a secret: it has 130 random bits, so that one round is enough.
    fn hash(&self, id: &str, secret: &str) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in ["secret of a token", id, secret] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize()
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apart(&self) -> MutexGuard<'_, Apart> {
        self.apart.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a token with a new secret, written down first.
    fn put(&self, kept: &mut BTreeMap<String, Kept>, token: Token) -> Result<NewToken, TokenError> {
        let (line, made) = self.draft(token, false);
        self.keep(kept, line)?;
        Ok(made)
    }

    /// A token with a new secret, which is not kept yet.
    fn draft(&self, token: Token, shared: bool) -> (Line, NewToken) {
        let secret = Secret::random();
        let hash = self.hash(&token.id, secret.expose());
        let line = Line {
            token: token.clone(),
            verifier: secret.verifier(ROUNDS),
            hash: Some(hash.to_hex().to_string()),
            shared,
        };
        (line, NewToken { token, secret: secret.expose().to_owned() })
    }

    /// Keeps a token, written down first, instead of the one of that name.
    fn keep(&self, kept: &mut BTreeMap<String, Kept>, line: Line) -> Result<(), TokenError> {
        let verifier: Verifier =
            line.verifier.parse().map_err(|_| TokenError::Invalid("the verifier of a token is none"))?;
        let hash = line.hash.as_deref().and_then(|hash| blake3::Hash::from_hex(hash).ok());
        let others = kept.iter().filter(|(name, _)| **name != line.token.name).map(|(_, kept)| kept.line());
        self.write(others.chain([line.clone()]).collect())?;
        let Line { token, shared, .. } = line;
        kept.insert(token.name.clone(), Kept { shared, ..Kept::new(token, verifier, hash) });
        Ok(())
    }

    fn write(&self, tokens: Vec<Line>) -> Result<(), TokenError> {
        self.write_with(tokens, &self.apart())
    }

    fn write_with(&self, tokens: Vec<Line>, apart: &Apart) -> Result<(), TokenError> {
        let fail = |source| TokenError::Io { doing: "write", path: self.path.clone(), source };
        let key = self.key.iter().map(|byte| format!("{byte:02x}")).collect();
        let file = File { key, tokens, apart: apart.clone() };
        let text = serde_json::to_vec_pretty(&file).map_err(|error| fail(error.into()))?;
        file::replace(&self.path, &text, FILE_MODE).map_err(fail)
    }
}

impl Kept {
    fn new(token: Token, verifier: Verifier, hash: Option<blake3::Hash>) -> Kept {
        let secret = blake3::hash(verifier.to_string().as_bytes()).to_hex().to_string();
        let bond = Bond { token: token.id.clone(), name: token.name.clone(), secret };
        Kept {
            token: Arc::new(token),
            verifier,
            hash,
            bond,
            shared: false,
            revision: 0,
            alive: watch::Sender::new(()),
        }
    }

    fn grant(&self) -> Grant {
        Grant {
            token: Arc::clone(&self.token),
            bond: self.bond.clone(),
            alive: self.alive.subscribe(),
            session: None,
        }
    }

    fn line(&self) -> Line {
        Line {
            token: Token::clone(&self.token),
            verifier: self.verifier.to_string(),
            hash: self.hash.map(|hash| hash.to_hex().to_string()),
            shared: self.shared,
        }
    }
}

fn find<'a>(kept: &'a BTreeMap<String, Kept>, name: &str) -> Result<&'a Kept, TokenError> {
    kept.get(name).ok_or_else(|| TokenError::NotFound {
        name: name.to_owned(),
        closest: suggest::closest(name, kept.keys().map(String::as_str)).map(str::to_owned),
    })
}

fn key_of(text: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(key)
}

#[cfg(feature = "fleet")]
mod shared;
#[cfg(feature = "fleet")]
pub(crate) use shared::Followed;

#[cfg(feature = "fleet")]
pub(crate) use shared::Draft;

mod suspended;

#[cfg(test)]
#[path = "../tests/unit/tokens.rs"]
mod tests;
