//! A session on a server, and the connection below it, which ends with it.
//!
//! A client that is dropped in the middle of an answer leaves a connection that reads on, until the answer ends: a session that
//! holds its locks on somebody's tables meanwhile, for an answer that nobody wants.

use std::{
    ops::{Deref, DerefMut},
    pin::pin,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::oneshot,
    time::timeout,
};
use tokio_postgres::{tls::MakeTlsConnect, tls::TlsStream, Client, Connection, Socket};

/// How long a connection may take to end by itself, once nobody has its session.
const GRACE: Duration = Duration::from_millis(500);
/// How long the server may take to be told that nobody wants its answer.
const CANCEL_LIMIT: Duration = Duration::from_secs(10);

/// A session. When it is dropped, its statement is cancelled if one runs, and its connection is closed.
pub(crate) struct Connected {
    client: Client,
    /// Tells that it was dropped by being dropped.
    _held: oneshot::Sender<()>,
}

impl Connected {
    /// Drives a connection in the background. `tls` is how the server is reached to cancel what runs.
    pub(super) fn drive<S, T, M>(client: Client, connection: Connection<S, T>, tls: M) -> Connected
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: TlsStream + Unpin + Send + 'static,
        M: MakeTlsConnect<Socket> + Send + 'static,
        M::Stream: Send,
        M::TlsConnect: Send,
        <M::TlsConnect as tokio_postgres::tls::TlsConnect<Socket>>::Future: Send,
    {
        let (held, dropped) = oneshot::channel::<()>();
        let cancel = client.cancel_token();
        tokio::spawn(async move {
            let mut connection = pin!(connection);
            tokio::select! {
                _ = &mut connection => return,
                _ = dropped => {}
            }
            if timeout(GRACE, &mut connection).await.is_err() {
                // Best effort: it ends at its next write in any case, because nobody reads.
                let _ = timeout(CANCEL_LIMIT, cancel.cancel_query(tls)).await;
                let _ = timeout(GRACE, &mut connection).await;
            }
        });
        Connected { client, _held: held }
    }
}

impl Deref for Connected {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Connected {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}
