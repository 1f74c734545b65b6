//! Passwords of our own, and what a server keeps of them.
//!
//! Source: RFC 5802 (SCRAM) and RFC 7677 (SCRAM-SHA-256); the text form of a verifier is that of `pg_authid.rolpassword`
//! in the PostgreSQL documentation.

use base64::{engine::general_purpose::STANDARD, Engine as _};
use duramen_base::entropy;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
};

/// Length of a secret's text: 26 symbols of 5 bits cannot be guessed.
const LEN: usize = 26;
/// Length of a verifier's salt, in bytes.
pub(crate) const SALT_LEN: usize = 16;

/// A password that a program chose: 130 bits, of lower-case letters and digits, so that it needs no escapes in a URL.
/// Its `Debug` form does not show it.
#[derive(Clone)]
pub struct Secret {
    text: String,
    /// Those of the salt and rounds that were asked for last.
    keys: Arc<Mutex<Option<Keys>>>,
}

/// What a salt and a number of rounds make of a secret.
#[derive(Clone)]
pub(crate) struct Keys {
    salt: Vec<u8>,
    rounds: NonZeroU32,
    pub(crate) client_key: [u8; 32],
    pub(crate) stored_key: [u8; 32],
    pub(crate) server_key: [u8; 32],
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.text == other.text
    }
}

impl Eq for Secret {}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// A new random secret.
    #[must_use]
    pub fn random() -> Secret {
        Secret::from_text(&entropy::token(LEN))
    }

    /// The secret that belongs to a purpose, out of a key that only the owner of the servers has: the same key and
    /// purpose give the same secret, and no secret tells anything of another one or of the key.
    ///
    /// # Examples
    /// ```
    /// use duramen_postgres::Secret;
    /// let key = [7; 32];
    /// assert_eq!(Secret::derived(&key, "branch a"), Secret::derived(&key, "branch a"));
    /// assert_ne!(Secret::derived(&key, "branch a"), Secret::derived(&key, "branch b"));
    /// ```
    #[must_use]
    pub fn derived(key: &[u8; 32], purpose: &str) -> Secret {
        const SYMBOLS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let tag = hmac_sha256(key, purpose.as_bytes());
        let symbols = tag.iter().take(LEN).map(|byte| char::from(SYMBOLS[usize::from(byte % 32)]));
        Secret::from_text(&symbols.collect::<String>())
    }

    /// The secret of a text, of which the caller knows that it is as hard to guess as one of ours.
    #[must_use]
    pub fn from_text(text: &str) -> Secret {
        Secret { text: text.to_owned(), keys: Arc::default() }
    }

    /// The text that a client gives as its password.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// What a server keeps, to be written where `ALTER ROLE ... PASSWORD` takes a password. More `iterations` make
    /// guessing slower, which a secret of 130 bits does not need, and every login too: clients refuse less than they
    /// think safe (pgjdbc: 4,096).
    ///
    /// # Examples
    /// ```
    /// use duramen_postgres::Secret;
    /// use std::num::NonZeroU32;
    /// let verifier = Secret::random().verifier(NonZeroU32::new(4096).unwrap());
    /// assert!(verifier.starts_with("SCRAM-SHA-256$4096:"));
    /// ```
    #[must_use]
    pub fn verifier(&self, iterations: NonZeroU32) -> String {
        let salt: [u8; SALT_LEN] = entropy::random_bytes();
        let keys = self.keys(&salt, iterations);
        format!(
            "SCRAM-SHA-256${iterations}:{}${}:{}",
            STANDARD.encode(salt),
            STANDARD.encode(keys.stored_key),
            STANDARD.encode(keys.server_key)
        )
    }

    /// The keys for a salt, computed unless they are those that were asked for last.
    pub(crate) fn keys(&self, salt: &[u8], rounds: NonZeroU32) -> Keys {
        let mut slot = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(keys) if keys.salt == salt && keys.rounds == rounds => keys.clone(),
            _ => slot.insert(Keys::new(&self.text, salt, rounds)).clone(),
        }
    }
}

impl Keys {
    fn new(secret: &str, salt: &[u8], rounds: NonZeroU32) -> Keys {
        let salted: [u8; 32] = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(secret.as_bytes(), salt, rounds.get());
        let client_key = hmac_sha256(&salted, b"Client Key");
        Keys {
            salt: salt.to_owned(),
            rounds,
            client_key,
            stored_key: Sha256::digest(client_key).into(),
            server_key: hmac_sha256(&salted, b"Server Key"),
        }
    }
}

pub(crate) fn hmac_sha256(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    // A key of any length will do.
    let mut tag = Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|never| unreachable!("{never}"));
    tag.update(message);
    tag.finalize().into_bytes().into()
}
