//! Passwords of our own, and what a server keeps of them.
//!
//! Source: RFC 5802 (SCRAM) and RFC 7677 (SCRAM-SHA-256); the text form of a verifier is that of `pg_authid.rolpassword`
//! in the PostgreSQL documentation.

use base64::{engine::general_purpose::STANDARD, Engine as _};
use duramen_measure::entropy;
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;

/// Length of a secret's text: 26 symbols of 5 bits cannot be guessed.
const LEN: usize = 26;
/// Length of a verifier's salt, in bytes.
const SALT_LEN: usize = 16;

/// A password that a program chose: 130 bits, of lower-case letters and digits, so that it needs no escapes in a URL.
/// Its `Debug` form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// A new random secret.
    #[must_use]
    pub fn random() -> Secret {
        Secret(entropy::token(LEN))
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
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), purpose.as_bytes());
        Secret(
            tag.as_ref().iter().take(LEN).map(|byte| char::from(SYMBOLS[usize::from(byte % 32)])).collect(),
        )
    }

    /// The text that a client gives as its password.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
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
        let mut salted = [0; digest::SHA256_OUTPUT_LEN];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, self.0.as_bytes(), &mut salted);
        let salted = hmac::Key::new(hmac::HMAC_SHA256, &salted);
        let client_key = hmac::sign(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let server_key = hmac::sign(&salted, b"Server Key");
        format!(
            "SCRAM-SHA-256${iterations}:{}${}:{}",
            STANDARD.encode(salt),
            STANDARD.encode(stored_key),
            STANDARD.encode(server_key)
        )
    }
}
