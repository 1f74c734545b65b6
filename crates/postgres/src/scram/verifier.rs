//! What a server keeps of a password.

use crate::secret::{hmac_sha256, Secret, SALT_LEN};
use base64::{engine::general_purpose::STANDARD, Engine as _};
use std::{fmt, num::NonZeroU32, str::FromStr};
use subtle::ConstantTimeEq;

/// How the text form begins.
const PREFIX: &str = "SCRAM-SHA-256$";

/// What a server keeps of a password: enough to see that somebody knows it, and not enough to log in anywhere. Its text form
/// is that of `pg_authid.rolpassword`; its `Debug` form shows nothing.
///
/// # Examples
/// ```
/// use duramen_postgres::{scram::Verifier, Secret};
/// use std::num::NonZeroU32;
/// let text = Secret::random().verifier(NonZeroU32::new(4096).unwrap());
/// let verifier: Verifier = text.parse().unwrap();
/// assert_eq!(verifier.to_string(), text);
/// assert!("md5abc".parse::<Verifier>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    pub(super) salt: Vec<u8>,
    pub(super) rounds: NonZeroU32,
    pub(super) stored_key: [u8; 32],
    pub(super) server_key: [u8; 32],
}

/// A text that is no verifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a SCRAM-SHA-256 verifier, which looks like SCRAM-SHA-256$4096:SALT$STORED:SERVER")]
pub struct VerifierError;

impl Verifier {
    /// What stands for the verifier of a name that nobody has: the same for each question, so that a stranger cannot tell
    /// it from a real one, and not made of any password.
    ///
    /// # Examples
    /// ```
    /// use duramen_postgres::scram::Verifier;
    /// use std::num::NonZeroU32;
    /// let rounds = NonZeroU32::new(4096).unwrap();
    /// assert_eq!(Verifier::of_nobody(&[7; 32], "eve", rounds), Verifier::of_nobody(&[7; 32], "eve", rounds));
    /// assert_ne!(Verifier::of_nobody(&[7; 32], "eve", rounds), Verifier::of_nobody(&[7; 32], "bob", rounds));
    /// ```
    #[must_use]
    pub fn of_nobody(key: &[u8; 32], name: &str, rounds: NonZeroU32) -> Verifier {
        let tag = |what: &str| hmac_sha256(key, format!("{what} of nobody: {name}").as_bytes());
        Verifier {
            salt: tag("salt")[..SALT_LEN].to_vec(),
            rounds,
            stored_key: tag("stored key"),
            server_key: tag("server key"),
        }
    }

    /// Whether it was made of this password. Takes its rounds, which are milliseconds.
    ///
    /// # Examples
    /// ```
    /// use duramen_postgres::{scram::Verifier, Secret};
    /// use std::num::NonZeroU32;
    /// let secret = Secret::random();
    /// let verifier: Verifier = secret.verifier(NonZeroU32::new(4096).unwrap()).parse().unwrap();
    /// assert!(verifier.is_of(secret.expose()));
    /// assert!(!verifier.is_of("something else"));
    /// ```
    #[must_use]
    pub fn is_of(&self, password: &str) -> bool {
        let keys = Secret::from_text(password).keys(&self.salt, self.rounds);
        bool::from(keys.stored_key.ct_eq(&self.stored_key))
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| STANDARD.encode(bytes);
        let (salt, stored, server) = (text(&self.salt), text(&self.stored_key), text(&self.server_key));
        write!(f, "{PREFIX}{}:{salt}${stored}:{server}", self.rounds)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(..)")
    }
}

impl FromStr for Verifier {
    type Err = VerifierError;

    fn from_str(text: &str) -> Result<Verifier, VerifierError> {
        let parse = || -> Option<Verifier> {
            let (head, keys) = text.strip_prefix(PREFIX)?.split_once('$')?;
            let ((rounds, salt), (stored, server)) = (head.split_once(':')?, keys.split_once(':')?);
            let key = |text: &str| STANDARD.decode(text).ok()?.try_into().ok();
            Some(Verifier {
                salt: STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty())?,
                rounds: rounds.parse().ok()?,
                stored_key: key(stored)?,
                server_key: key(server)?,
            })
        };
        parse().ok_or(VerifierError)
    }
}
