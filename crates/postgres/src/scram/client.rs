//! The client's half, with keys that are computed once.
//!
//! Three things libraries do not do: they compute the keys again at each login, which is a fortieth of the CPU that a
//! new branch costs; they compute as many rounds as the server asks for, and in a branch the server says what a
//! holder wrote into its catalogue; and they block meanwhile.

use crate::secret::{hmac_sha256, Keys, Secret};
use base64::{engine::general_purpose::STANDARD, Engine as _};
use duramen_base::entropy;
use std::num::NonZeroU32;

/// No channel binding; nobody else's name.
const GS2_HEADER: &str = "n,,";
/// A server's verifier with more rounds than this is not one of ours: 17 ms of one core.
const ROUNDS_MAX: u32 = 1 << 17;

/// One login, from the first message to the server's proof.
///
/// # Examples
/// ```
/// use duramen_postgres::{scram::{Binding, ClientExchange, Mechanism, ServerExchange}, Secret};
/// use std::num::NonZeroU32;
/// let secret = Secret::random();
/// let verifier = secret.verifier(NonZeroU32::new(4096).unwrap()).parse().unwrap();
/// let mut client = ClientExchange::begin();
/// let first = client.first();
/// let (server, challenge) =
///     ServerExchange::begin(verifier, Mechanism::Plain, first.as_bytes(), Binding::None).unwrap();
/// let last = client.last(&secret, challenge.as_bytes()).unwrap();
/// let proof = server.finish(last.as_bytes()).unwrap();
/// assert!(client.is_proven(proof.as_bytes()));
/// ```
#[derive(Debug)]
pub struct ClientExchange {
    nonce: String,
    /// By which the server proves that it knows the verifier, once ours is sent.
    expected: Option<[u8; 32]>,
}

/// Why a login cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The message is not what the protocol has in this place.
    #[error("malformed SCRAM message: {0}")]
    Malformed(&'static str),
    /// The verifier is not one that a secret of ours made.
    #[error("the server has another verifier for the password")]
    ForeignVerifier,
}

impl ClientExchange {
    /// One with a nonce of its own.
    #[must_use]
    pub fn begin() -> ClientExchange {
        ClientExchange { nonce: STANDARD.encode(entropy::random_bytes::<18>()), expected: None }
    }

    /// `client-first-message`. PostgreSQL takes the user's name from the startup message.
    #[must_use]
    pub fn first(&self) -> String {
        format!("{GS2_HEADER}{}", self.first_bare())
    }

    fn first_bare(&self) -> String {
        format!("n=,r={}", self.nonce)
    }

    /// `client-final-message`, in answer to the server's first one.
    ///
    /// # Errors
    /// [`Refusal`]
    pub fn last(&mut self, secret: &Secret, server_first: &[u8]) -> Result<String, Refusal> {
        let text = std::str::from_utf8(server_first).map_err(|_| Refusal::Malformed("no text"))?;
        let mut fields = text.split(',');
        let mut field = |name: &str| fields.next().and_then(|field| field.strip_prefix(name));
        let nonce = field("r=").ok_or(Refusal::Malformed("no nonce"))?;
        if nonce.len() <= self.nonce.len() || !nonce.starts_with(&self.nonce) {
            return Err(Refusal::Malformed("another login's nonce"));
        }
        let salt = field("s=").and_then(|salt| STANDARD.decode(salt).ok());
        let salt = salt.ok_or(Refusal::Malformed("no salt"))?;
        let rounds: NonZeroU32 =
            field("i=").and_then(|rounds| rounds.parse().ok()).ok_or(Refusal::Malformed("no rounds"))?;
        if rounds.get() > ROUNDS_MAX {
            return Err(Refusal::ForeignVerifier);
        }
        let keys = secret.keys(&salt, rounds);
        let unproven = format!("c={},r={nonce}", STANDARD.encode(GS2_HEADER));
        let signed = format!("{},{text},{unproven}", self.first_bare());
        let Keys { client_key, stored_key, server_key, .. } = &keys;
        let signature = hmac_sha256(stored_key, signed.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, sign)| key ^ sign).collect();
        self.expected = Some(hmac_sha256(server_key, signed.as_bytes()));
        Ok(format!("{unproven},p={}", STANDARD.encode(proof)))
    }

    /// Whether `server-final-message` proves that the server knows the verifier.
    #[must_use]
    pub fn is_proven(&self, server_final: &[u8]) -> bool {
        let proof = server_final.strip_prefix(b"v=").and_then(|proof| STANDARD.decode(proof).ok());
        // Nobody learns from the time this takes: the server has had the whole text to compute it.
        proof.is_some_and(|proof| self.expected.is_some_and(|expected| proof == expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rfc() -> (ClientExchange, Secret) {
        let exchange = ClientExchange { nonce: "rOprNGfwEbeRWgbNEkqO".to_owned(), expected: None };
        (exchange, Secret::from_text("pencil"))
    }

    const SERVER_FIRST: &[u8] =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    /// The example of RFC 7677, section 3, but for the user's name, which PostgreSQL does not look at here: the proofs
    /// were computed with Python's `hashlib` and `hmac`.
    #[test]
    fn proofs_are_those_of_the_rfc() {
        let (mut exchange, secret) = rfc();
        let last = exchange.last(&secret, SERVER_FIRST).expect("it goes on");
        assert_eq!(
            last,
            concat!(
                "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=",
                "qvT2SWdEH5Q06albL+hjSYuUhCG7VndFyzIb7CK4n9k="
            )
        );
        assert!(exchange.is_proven(b"v=3HO6Qt1M4MKJrmlKaoOqLAI0/0TV0HZe7J9H3MBtSOg="));
        assert!(!exchange.is_proven(b"v="));
        assert!(!exchange.is_proven(b"e=other-error"));
        assert!(!rfc().0.is_proven(b"v="), "before the exchange");
    }

    #[test]
    fn what_is_not_of_this_login_is_refused() {
        for wrong in [
            "",
            "r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=rOprNGfwEbeRWgbNEkqOx,s=?,i=4096",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=0",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=-1",
            "m=ext,r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
        ] {
            let (mut exchange, secret) = rfc();
            let refused = exchange.last(&secret, wrong.as_bytes());
            assert!(matches!(refused, Err(Refusal::Malformed(_))), "{wrong}: {refused:?}");
        }
    }

    /// Two thousand million rounds would be ten minutes of a core, at the word of whoever may change the verifier.
    #[test]
    fn rounds_have_a_limit() {
        let (mut exchange, secret) = rfc();
        let endless = "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=2147483647";
        assert_eq!(exchange.last(&secret, endless.as_bytes()), Err(Refusal::ForeignVerifier));
    }
}
