//! Reads the server's messages, and keeps no more of each than is wanted.
//!
//! Whoever may send statements decides how long values and texts of errors are: up to a gigabyte each. What is longer than
//! its limit is read in pieces and dropped.
//!
//! Every message is a byte that says what it is, four bytes with its length (themselves included) and its body.
//! Source: the PostgreSQL documentation, "Message Formats".

use crate::session::ServerError;
use bytes::{Buf, BytesMut};
use postgres_protocol::message::backend::{self, Message};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// What a buffer begins with, and goes back to after it has held more than [`BUFFER_KEPT`].
const BUFFER: usize = 4 << 10;
const BUFFER_KEPT: usize = 64 << 10;
/// The longest message that is read whole, rows aside: the description of 1,664 columns, the most there can be, is
/// 140 kB.
const MESSAGE_MAX: usize = 256 << 10;
/// What is kept of an error's text, in bytes.
const ERROR_TEXT_MAX: usize = 8 << 10;
/// The byte that says what a message is, and its length.
const HEADER: usize = 5;

/// A message of the server.
pub(crate) enum Frame {
    /// All of it.
    Whole(Message),
    /// An error, whose texts may have been cut.
    Error(ServerError),
    /// A row that is longer than is wanted.
    LongRow,
    /// Another message that is longer than any that is waited for.
    Skipped,
}

/// What was received and not read yet.
#[derive(Debug)]
pub(crate) struct Frames {
    received: BytesMut,
}

impl Frames {
    pub(crate) fn new() -> Frames {
        Frames { received: BytesMut::with_capacity(BUFFER) }
    }

    /// Whether nothing more was received than what was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// The next message. A row is returned if it has at most `row_limit` bytes, or is no longer than any other message may
    /// be.
    pub(crate) async fn next<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        row_limit: usize,
    ) -> io::Result<Frame> {
        if self.received.is_empty() && self.received.capacity() > BUFFER_KEPT {
            self.received = BytesMut::with_capacity(BUFFER);
        }
        self.fill(stream, HEADER).await?;
        let tag = self.received[0];
        let length = (&self.received[1..HEADER]).get_u32();
        let length = usize::try_from(length).ok().filter(|length| *length >= HEADER - 1);
        let Some(length) = length.map(|length| length + 1) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message has no length"));
        };
        if tag == backend::ERROR_RESPONSE_TAG {
            let kept = length.min(MESSAGE_MAX);
            self.fill(stream, kept).await?;
            let error = server_error(&self.received[HEADER..kept]);
            self.skip(stream, length).await?;
            return Ok(Frame::Error(error));
        }
        let limit = if tag == backend::DATA_ROW_TAG { row_limit.max(MESSAGE_MAX) } else { MESSAGE_MAX };
        if length > limit {
            self.skip(stream, length).await?;
            return Ok(if tag == backend::DATA_ROW_TAG { Frame::LongRow } else { Frame::Skipped });
        }
        self.fill(stream, length).await?;
        let message = Message::parse(&mut self.received)?;
        let short = || io::Error::new(io::ErrorKind::InvalidData, "a message is not as long as it says");
        message.map(Frame::Whole).ok_or_else(short)
    }

    /// Reads until `wanted` bytes are there.
    async fn fill<S: AsyncRead + Unpin>(&mut self, stream: &mut S, wanted: usize) -> io::Result<()> {
        while self.received.len() < wanted {
            if stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Reads and drops a message of `length` bytes.
    async fn skip<S: AsyncRead + Unpin>(&mut self, stream: &mut S, length: usize) -> io::Result<()> {
        let mut left = length;
        loop {
            let here = left.min(self.received.len());
            self.received.advance(here);
            left -= here;
            if left == 0 {
                return Ok(());
            }
            self.received.clear();
            self.fill(stream, 1).await?;
        }
    }
}

/// The error that a body tells of: fields of a byte and a text that ends with a zero, of which the last may be cut.
fn server_error(mut body: &[u8]) -> ServerError {
    let mut error = ServerError { code: String::new(), message: String::new(), hint: None, position: None };
    while let Some((kind, rest)) = body.split_first().filter(|(kind, _)| **kind != 0) {
        let end = rest.iter().position(|byte| *byte == 0);
        let value = &rest[..end.unwrap_or(rest.len())];
        body = end.map_or(&[], |end| &rest[end + 1..]);
        match kind {
            b'C' => error.code = text(value),
            b'M' => error.message = text(value),
            b'H' => error.hint = Some(text(value)),
            b'P' => error.position = text(value).parse().ok(),
            _ => {}
        }
    }
    error
}

/// The beginning of a text.
fn text(value: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(&value[..value.len().min(ERROR_TEXT_MAX)]).into_owned();
    if value.len() > ERROR_TEXT_MAX {
        text += " [...]";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).expect("a length");
        [&[tag], length.to_be_bytes().as_slice(), body].concat()
    }

    /// A row of one value.
    fn row(length: usize) -> Vec<u8> {
        let value = vec![b'x'; length];
        let count = u32::try_from(length).expect("a length").to_be_bytes();
        message(b'D', &[1_u16.to_be_bytes().as_slice(), &count, &value].concat())
    }

    #[tokio::test]
    async fn what_is_too_long_is_dropped_and_what_follows_is_read() {
        let error = [b"SERROR\0C22000\0M".as_slice(), &vec![b'e'; 3 * MESSAGE_MAX], b"\0Hlost\0\0"].concat();
        let sent = [
            row(10),
            row(MESSAGE_MAX * 2),
            row(MESSAGE_MAX * 4),
            message(b'N', &vec![b'n'; MESSAGE_MAX]),
            message(b'E', &error),
            message(b'E', b"SERROR\0C42601\0Mno\0Hdo\0P15\0\0"),
            message(b'Z', b"I"),
        ]
        .concat();
        for piece in [1 << 20, 7] {
            let (mut far, mut near) = tokio::io::duplex(piece);
            let sent = sent.clone();
            let sender = tokio::spawn(async move {
                tokio::io::AsyncWriteExt::write_all(&mut far, &sent).await.expect("it is read");
            });
            let mut frames = Frames::new();
            let mut next = async || frames.next(&mut near, MESSAGE_MAX * 3).await.expect("a message");
            assert!(matches!(next().await, Frame::Whole(Message::DataRow(_))));
            assert!(matches!(next().await, Frame::Whole(Message::DataRow(_))));
            assert!(matches!(next().await, Frame::LongRow));
            assert!(matches!(next().await, Frame::Skipped));
            let Frame::Error(error) = next().await else { panic!("no error") };
            assert_eq!((error.code.as_str(), error.hint, error.position), ("22000", None, None));
            assert!(error.message.starts_with("eee") && error.message.len() < ERROR_TEXT_MAX + 10);
            let Frame::Error(error) = next().await else { panic!("no error") };
            assert_eq!((error.message.as_str(), error.hint.as_deref()), ("no", Some("do")));
            assert_eq!(error.position, Some(15));
            assert!(matches!(next().await, Frame::Whole(Message::ReadyForQuery(_))));
            sender.await.expect("all was sent");
        }
    }

    #[tokio::test]
    async fn nonsense_is_an_error() {
        for sent in [&b"D\0\0\0\x03"[..], b"Z\0\0\0\x09I", b"E\xff\xff\xff\xff", b""] {
            let mut sent = sent;
            assert!(Frames::new().next(&mut sent, 0).await.is_err());
        }
    }
}
