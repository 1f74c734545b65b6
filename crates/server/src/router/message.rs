//! What the router itself says to clients.
//!
//! Source: the PostgreSQL documentation, "Message Formats" and "Error and Notice Message Fields".

use super::startup::{Wrong, NEWEST};
use bytes::{BufMut, BytesMut};

/// A refusal, or a failure: what PostgreSQL's `FATAL` errors are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fatal {
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) hint: String,
}

impl Fatal {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Fatal {
        Fatal { code, message: message.into(), hint: String::new() }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Fatal {
        self.hint = hint.into();
        self
    }

    /// What every login that fails is told, whatever was wrong.
    pub(super) fn not_let_in(user: &str) -> Fatal {
        Fatal::new("28P01", format!("password authentication failed for token \"{user}\""))
            .hint("The user is the name of a token, and the password its secret: duramen token list, duramen token create.")
    }
}

impl Fatal {
    /// What it is told in its place by an address that failed too often.
    pub(super) fn too_many_failures() -> Fatal {
        Fatal::new("53400", "too many wrong secrets came from this address")
            .hint("Wait a second, and see that the token and its secret are the right ones.")
    }
}

impl From<Wrong> for Fatal {
    fn from(wrong: Wrong) -> Fatal {
        Fatal { code: wrong.code, message: wrong.message, hint: wrong.hint.to_owned() }
    }
}

/// A message of a type and a body.
fn message(out: &mut BytesMut, tag: u8, body: impl FnOnce(&mut BytesMut)) {
    out.put_u8(tag);
    let start = out.len();
    out.put_u32(0);
    body(out);
    // What is written here is a few hundred bytes.
    let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// A text up to its first zero byte, and one.
fn text(out: &mut BytesMut, text: &str) {
    out.extend_from_slice(text.split('\0').next().unwrap_or_default().as_bytes());
    out.put_u8(0);
}

/// `ErrorResponse`
pub(super) fn error(out: &mut BytesMut, fatal: &Fatal) {
    message(out, b'E', |out| {
        let fields = [
            (b'S', "FATAL"),
            (b'V', "FATAL"),
            (b'C', fatal.code),
            (b'M', &fatal.message),
            (b'H', &fatal.hint),
        ];
        for (field, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            out.put_u8(field);
            text(out, value);
        }
        out.put_u8(0);
    });
}

/// `NegotiateProtocolVersion`
pub(super) fn negotiate(out: &mut BytesMut, version: u32, unknown: &[String]) {
    message(out, b'v', |out| {
        out.put_u32(version.min(NEWEST));
        out.put_u32(u32::try_from(unknown.len()).unwrap_or(u32::MAX));
        unknown.iter().for_each(|option| text(out, option));
    });
}

const AUTHENTICATION: u8 = b'R';

/// `AuthenticationSASL`
pub(super) fn sasl(out: &mut BytesMut, mechanisms: &[&str]) {
    message(out, AUTHENTICATION, |out| {
        out.put_u32(10);
        mechanisms.iter().for_each(|mechanism| text(out, mechanism));
        out.put_u8(0);
    });
}

/// `AuthenticationSASLContinue`
pub(super) fn sasl_continue(out: &mut BytesMut, data: &str) {
    message(out, AUTHENTICATION, |out| {
        out.put_u32(11);
        out.extend_from_slice(data.as_bytes());
    });
}

/// `AuthenticationSASLFinal`, and `AuthenticationOk`.
pub(super) fn sasl_final(out: &mut BytesMut, data: &str) {
    message(out, AUTHENTICATION, |out| {
        out.put_u32(12);
        out.extend_from_slice(data.as_bytes());
    });
    message(out, AUTHENTICATION, |out| out.put_u32(0));
}

/// `BackendKeyData`
pub(super) fn key(out: &mut BytesMut, session: u32, key: &[u8]) {
    message(out, b'K', |out| {
        out.put_u32(session);
        out.extend_from_slice(key);
    });
}

/// `ReadyForQuery`, outside of a transaction.
pub(super) fn ready(out: &mut BytesMut) {
    message(out, b'Z', |out| out.put_u8(b'I'));
}

/// `SASLInitialResponse`: the mechanism, and its first message.
pub(super) fn sasl_initial(body: &[u8]) -> Option<(&str, &[u8])> {
    let end = body.iter().position(|byte| *byte == 0)?;
    let (mechanism, rest) = (std::str::from_utf8(&body[..end]).ok()?, &body[end + 1..]);
    let (length, data) = rest.split_first_chunk()?;
    (usize::try_from(u32::from_be_bytes(*length)).ok()? == data.len()).then_some((mechanism, data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use postgres_protocol::message::{backend::Message, frontend};

    #[test]
    fn messages_are_what_clients_read() {
        let mut out = BytesMut::new();
        error(&mut out, &Fatal::new("42501", "no\0pe").hint("try"));
        sasl(&mut out, &["SCRAM-SHA-256"]);
        sasl_continue(&mut out, "r=1");
        sasl_final(&mut out, "v=2");
        key(&mut out, 7, &[0, 0, 0, 9]);
        ready(&mut out);
        let mut next = || Message::parse(&mut out).unwrap().unwrap();
        assert!(matches!(next(), Message::ErrorResponse(_)));
        assert!(matches!(next(), Message::AuthenticationSasl(_)));
        assert!(matches!(next(), Message::AuthenticationSaslContinue(body) if body.data() == b"r=1"));
        assert!(matches!(next(), Message::AuthenticationSaslFinal(body) if body.data() == b"v=2"));
        assert!(matches!(next(), Message::AuthenticationOk));
        assert!(
            matches!(next(), Message::BackendKeyData(key) if (key.process_id(), key.secret_key()) == (7, 9))
        );
        assert!(matches!(next(), Message::ReadyForQuery(body) if body.status() == b'I'));
        assert!(out.is_empty());
    }

    #[test]
    fn the_first_sasl_message_is_read_as_clients_write_it() {
        let mut sent = BytesMut::new();
        frontend::sasl_initial_response("SCRAM-SHA-256", b"n,,n=,r=a", &mut sent).unwrap();
        assert_eq!(sasl_initial(&sent[5..]), Some(("SCRAM-SHA-256", &b"n,,n=,r=a"[..])));
        for end in 5..sent.len() {
            assert_eq!(sasl_initial(&sent[5..end]), None);
        }
    }
}
