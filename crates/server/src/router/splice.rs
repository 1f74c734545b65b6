//! Passes bytes both ways between a client and its entry, and reads none of them.
//!
//! What was read is written at once, out of a buffer that all connections of a thread share. Only what a slow reader does not
//! take is kept, so an idle session has no buffers.

use duramen_base::clock;
use std::{
    future::poll_fn,
    io,
    mem::MaybeUninit,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{ready, Context, Poll},
    time::{Duration, Instant},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is read at once, and so the most that waits in one direction.
const BUFFER: usize = 32 << 10;
/// How many buffers are passed on before others of the thread have their turn.
const TURNS: u32 = 16;

/// What went through so far, to be read from elsewhere.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// From the client, in bytes.
    pub(super) sent: AtomicU64,
    /// To the client, in bytes.
    pub(super) received: AtomicU64,
}

/// How a splice ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The client closed the connection.
    Client,
    /// The server did.
    Server,
    /// Nothing went through for too long.
    Idle,
}

/// One direction.
#[derive(Default)]
struct Direction {
    /// What was read and not written yet, from `written` on.
    kept: Vec<u8>,
    written: usize,
    /// Something was written since the last flush.
    dirty: bool,
}

impl Direction {
    /// Passes on what is there. Ready when the reader has ended, and everything is written.
    fn poll<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut R,
        writer: &mut W,
        passed: &AtomicU64,
    ) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        for _ in 0..TURNS {
            while self.written < self.kept.len() {
                let count = ready!(Pin::new(&mut *writer).poll_write(cx, &self.kept[self.written..]))?;
                if count == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.written += count;
                self.dirty = true;
            }
            if !self.kept.is_empty() {
                (self.kept, self.written) = (Vec::new(), 0);
            }
            let mut space = [MaybeUninit::<u8>::uninit(); BUFFER];
            let mut buffer = ReadBuf::uninit(&mut space);
            match Pin::new(&mut *reader).poll_read(cx, &mut buffer) {
                Poll::Pending => {
                    if self.dirty {
                        ready!(Pin::new(&mut *writer).poll_flush(cx))?;
                        self.dirty = false;
                    }
                    return Poll::Pending;
                }
                Poll::Ready(read) => read?,
            }
            let bytes = buffer.filled();
            if bytes.is_empty() {
                ready!(Pin::new(&mut *writer).poll_flush(cx))?;
                return Poll::Ready(Ok(()));
            }
            passed.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            let count = match Pin::new(&mut *writer).poll_write(cx, bytes) {
                Poll::Ready(count) => count?,
                Poll::Pending => 0,
            };
            self.dirty |= count > 0;
            if count < bytes.len() {
                self.kept = bytes[count..].to_vec();
            }
        }
        // There is more, after the others.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Passes bytes on until one side closes its end. What the server said last still reaches the client.
///
/// # Errors
/// A side that broke.
pub(super) async fn splice<C, S>(
    client: &mut C,
    server: &mut S,
    idle: Option<Duration>,
    counters: &Counters,
) -> io::Result<End>
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut up, mut down) = (Direction::default(), Direction::default());
    let mut timer = idle.map(|idle| Box::pin(tokio::time::sleep(idle)));
    let mut last: (u64, Instant) = (0, clock::now());
    poll_fn(|cx| {
        // The server first: what it says at its end is worth more than what can no longer reach it.
        match down.poll(cx, server, client, &counters.received) {
            Poll::Ready(end) => return Poll::Ready(end.map(|()| End::Server)),
            Poll::Pending => {}
        }
        match up.poll(cx, client, server, &counters.sent) {
            Poll::Ready(end) => return Poll::Ready(end.map(|()| End::Client)),
            Poll::Pending => {}
        }
        let (Some(timer), Some(idle)) = (&mut timer, idle) else { return Poll::Pending };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let total = count(&counters.sent) + count(&counters.received);
        if total != last.0 {
            last = (total, clock::now());
        }
        // The timer is set anew only when it rings.
        while timer.as_mut().poll(cx).is_ready() {
            let quiet = last.1.elapsed();
            if quiet >= idle {
                return Poll::Ready(Ok(End::Idle));
            }
            timer.set(tokio::time::sleep(idle.saturating_sub(quiet)));
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
#[path = "../../tests/unit/splice.rs"]
mod tests;
