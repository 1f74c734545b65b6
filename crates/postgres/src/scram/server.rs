//! The server's half: asks for the proof that somebody knows a password, and gives the proof that it has its verifier.

use super::verifier::Verifier;
use crate::secret::hmac_sha256;
use base64::{engine::general_purpose::STANDARD, Engine as _};
use duramen_base::entropy;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A message that is longer than this is none of the protocol's.
const MESSAGE_MAX: usize = 4096;

/// How somebody wants to prove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// `SCRAM-SHA-256`.
    Plain,
    /// `SCRAM-SHA-256-PLUS`: the proof also holds what identifies the TLS channel, so that nobody in between can pass it on.
    Plus,
}

impl Mechanism {
    /// Its name in the protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "SCRAM-SHA-256",
            Mechanism::Plus => "SCRAM-SHA-256-PLUS",
        }
    }

    /// The mechanism of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Mechanism> {
        [Mechanism::Plain, Mechanism::Plus].into_iter().find(|mechanism| mechanism.name() == name)
    }
}

/// What the channel can be told by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding<'a> {
    /// Nothing: no TLS, or a certificate whose hash is not defined. `SCRAM-SHA-256-PLUS` is then not offered.
    None,
    /// The hash of the server's certificate (`tls-server-end-point`, RFC 5929 section 4.1).
    EndPoint(&'a [u8]),
}

/// Why a login is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScramError {
    /// A message is not what the protocol has in this place.
    #[error("malformed SCRAM message: {0}")]
    Malformed(&'static str),
    /// What was said of the channel does not fit to it: somebody in between changed what was offered, or the channel is
    /// another one.
    #[error("SCRAM channel binding check failed")]
    Binding,
    /// The proof is not that of the password.
    #[error("the password is wrong")]
    WrongProof,
}

/// One login, after its first message.
#[derive(Debug)]
pub struct ServerExchange {
    verifier: Verifier,
    client_first_bare: String,
    server_first: String,
    nonce: String,
    /// What `c=` must hold.
    channel: Vec<u8>,
}

impl ServerExchange {
    /// Answers `client-first-message`, with the message to send.
    ///
    /// # Errors
    /// [`ScramError`]
    ///
    /// # Examples
    /// ```
    /// use duramen_postgres::{scram::{Binding, Mechanism, ServerExchange, Verifier}, Secret};
    /// use std::num::NonZeroU32;
    /// let verifier: Verifier = Secret::random().verifier(NonZeroU32::new(4096).unwrap()).parse().unwrap();
    /// let (_exchange, server_first) =
    ///     ServerExchange::begin(verifier, Mechanism::Plain, b"n,,n=,r=abc", Binding::None).unwrap();
    /// assert!(server_first.starts_with("r=abc"));
    /// ```
    pub fn begin(
        verifier: Verifier,
        mechanism: Mechanism,
        client_first: &[u8],
        binding: Binding<'_>,
    ) -> Result<(ServerExchange, String), ScramError> {
        let nonce = STANDARD.encode(entropy::random_bytes::<18>());
        ServerExchange::begin_with(verifier, mechanism, client_first, binding, &nonce)
    }

    fn begin_with(
        verifier: Verifier,
        mechanism: Mechanism,
        client_first: &[u8],
        binding: Binding<'_>,
        own_nonce: &str,
    ) -> Result<(ServerExchange, String), ScramError> {
        let text = text(client_first)?;
        let mut parts = text.splitn(3, ',');
        let mut part = || parts.next().ok_or(ScramError::Malformed("a part is missing"));
        let (flag, user, bare) = (part()?, part()?, part()?);
        let header = format!("{flag},{user},");
        let channel = match (flag, mechanism, binding) {
            // "Supported here, but not by you": a lie of somebody in between, if it was offered.
            ("y", Mechanism::Plain, Binding::EndPoint(_)) => return Err(ScramError::Binding),
            ("n" | "y", Mechanism::Plain, _) => header.clone().into_bytes(),
            ("p=tls-server-end-point", Mechanism::Plus, Binding::EndPoint(hash)) => {
                [header.as_bytes(), hash].concat()
            }
            _ => return Err(ScramError::Binding),
        };
        // Nobody logs in as somebody else.
        if !user.is_empty() {
            return Err(ScramError::Malformed("an authorization identity"));
        }
        let mut fields = bare.split(',');
        // The user's name is that of the startup message.
        fields.next().and_then(|field| field.strip_prefix("n=")).ok_or(ScramError::Malformed("no user"))?;
        let client_nonce = fields.next().and_then(|field| field.strip_prefix("r="));
        let client_nonce = client_nonce
            .filter(|nonce| !nonce.is_empty() && nonce.bytes().all(|byte| byte.is_ascii_graphic()));
        let nonce = format!("{}{own_nonce}", client_nonce.ok_or(ScramError::Malformed("no nonce"))?);
        let server_first = format!("r={nonce},s={},i={}", STANDARD.encode(&verifier.salt), verifier.rounds);
        let exchange = ServerExchange {
            client_first_bare: bare.to_owned(),
            server_first: server_first.clone(),
            verifier,
            nonce,
            channel,
        };
        Ok((exchange, server_first))
    }

    /// Judges `client-final-message`. If it holds the proof, the message to send, which holds ours.
    ///
    /// # Errors
    /// [`ScramError`]
    pub fn finish(self, client_final: &[u8]) -> Result<String, ScramError> {
        let text = text(client_final)?;
        let (unproven, proof) = text.rsplit_once(",p=").ok_or(ScramError::Malformed("no proof"))?;
        let mut fields = unproven.split(',');
        let mut field = |name: &str| fields.next().and_then(|field| field.strip_prefix(name));
        let channel = field("c=").and_then(|channel| STANDARD.decode(channel).ok());
        if channel.ok_or(ScramError::Malformed("no channel"))? != self.channel {
            return Err(ScramError::Binding);
        }
        if field("r=") != Some(self.nonce.as_str()) {
            return Err(ScramError::Malformed("another login's nonce"));
        }
        let proof: [u8; 32] = STANDARD
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or(ScramError::Malformed("a proof of another length"))?;
        let signed = format!("{},{},{unproven}", self.client_first_bare, self.server_first);
        let signature = hmac_sha256(&self.verifier.stored_key, signed.as_bytes());
        let client_key: Vec<u8> = proof.iter().zip(signature).map(|(proof, sign)| proof ^ sign).collect();
        let stored_key: [u8; 32] = Sha256::digest(client_key).into();
        if !bool::from(stored_key.ct_eq(&self.verifier.stored_key)) {
            return Err(ScramError::WrongProof);
        }
        let ours = hmac_sha256(&self.verifier.server_key, signed.as_bytes());
        Ok(format!("v={}", STANDARD.encode(ours)))
    }
}

fn text(message: &[u8]) -> Result<&str, ScramError> {
    if message.len() > MESSAGE_MAX {
        return Err(ScramError::Malformed("too long"));
    }
    std::str::from_utf8(message).map_err(|_| ScramError::Malformed("no text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{scram::ClientExchange, Secret};
    use std::num::NonZeroU32;

    fn verifier(secret: &Secret) -> Verifier {
        secret.verifier(NonZeroU32::new(64).unwrap()).parse().unwrap()
    }

    /// The example of RFC 7677, section 3, whole: here the name in the messages does not matter.
    #[test]
    fn the_example_of_the_rfc_is_accepted() {
        let verifier: Verifier = concat!(
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$",
            "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        )
        .parse()
        .unwrap();
        let (exchange, first) = ServerExchange::begin_with(
            verifier,
            Mechanism::Plain,
            b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            Binding::None,
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        )
        .unwrap();
        assert_eq!(
            first,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = exchange.finish(
            concat!(
                "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,",
                "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
            )
            .as_bytes(),
        );
        assert_eq!(last.unwrap(), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn both_halves_know_each_other_and_another_password_is_refused() {
        let secret = Secret::random();
        for (known, expected) in [(secret.clone(), true), (Secret::random(), false)] {
            let mut client = ClientExchange::begin();
            let (server, first) = ServerExchange::begin(
                verifier(&secret),
                Mechanism::Plain,
                client.first().as_bytes(),
                Binding::None,
            )
            .unwrap();
            let last = client.last(&known, first.as_bytes()).unwrap();
            match server.finish(last.as_bytes()) {
                Ok(proof) => assert!(expected && client.is_proven(proof.as_bytes())),
                Err(error) => assert!(!expected && error == ScramError::WrongProof, "{error}"),
            }
        }
    }

    #[test]
    fn a_binding_that_was_taken_away_or_is_of_another_channel_is_refused() {
        let begin = |mechanism, first: &str, binding| {
            ServerExchange::begin(verifier(&Secret::random()), mechanism, first.as_bytes(), binding)
                .map(|(exchange, _)| exchange)
        };
        let hash = Binding::EndPoint(b"hash");
        for (mechanism, first, binding) in [
            (Mechanism::Plain, "y,,n=,r=a", hash),
            (Mechanism::Plus, "n,,n=,r=a", hash),
            (Mechanism::Plus, "p=tls-unique,,n=,r=a", hash),
            (Mechanism::Plus, "p=tls-server-end-point,,n=,r=a", Binding::None),
            (Mechanism::Plain, "p=tls-server-end-point,,n=,r=a", hash),
        ] {
            let refused = begin(mechanism, first, binding);
            assert_eq!(refused.err(), Some(ScramError::Binding), "{first}");
        }
        begin(Mechanism::Plain, "y,,n=,r=a", Binding::None).unwrap();
        let exchange = begin(Mechanism::Plus, "p=tls-server-end-point,,n=,r=a", hash).unwrap();
        let channel = STANDARD.encode("p=tls-server-end-point,,hasj");
        let last = format!("c={channel},r={},p={}", exchange.nonce, STANDARD.encode([0; 32]));
        assert_eq!(exchange.finish(last.as_bytes()), Err(ScramError::Binding));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let long = format!("n,,n=,r={}", "a".repeat(MESSAGE_MAX));
        for first in
            ["", "n", "n,,", "n,,r=a", "n,,n=,r=", "n,,n=,r=a b", "n,a=bob,n=,r=a", "x,,n=,r=a", &long]
        {
            let begun = ServerExchange::begin(
                verifier(&Secret::random()),
                Mechanism::Plain,
                first.as_bytes(),
                Binding::None,
            );
            assert!(begun.is_err(), "{first}");
        }
        let proof = STANDARD.encode([0; 32]);
        for last in [
            "",
            "c=biws",
            "c=biws,r=NONCE",
            "c=biws,r=NONCE,p=",
            "c=biws,r=other,p=PROOF",
            "r=NONCE,c=biws,p=PROOF",
        ] {
            let (exchange, _) = ServerExchange::begin(
                verifier(&Secret::random()),
                Mechanism::Plain,
                b"n,,n=,r=a",
                Binding::None,
            )
            .unwrap();
            let last = last.replace("NONCE", &exchange.nonce).replace("PROOF", &proof);
            let refused = exchange.finish(last.as_bytes());
            assert!(
                matches!(refused, Err(ScramError::Malformed(_) | ScramError::Binding)),
                "{last}: {refused:?}"
            );
        }
    }
}
