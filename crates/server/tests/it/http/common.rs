//! A listener with made-up answers to a few requests, in a home of its own.

use bytes::Bytes;
use duramen_api::model::QueryRequest;
use duramen_client::socket_path;
use duramen_client::{ClientError, Connection, Encoded};
use duramen_server::{
    listener,
    reply::{self, Refusal, Reply},
};
use http_body_util::BodyExt;
use hyper::{body::Incoming, Request, Response, StatusCode};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{sleep, timeout},
};

/// What happened to a request that takes its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Started,
    Dropped,
    Done,
}

/// Tells what happens to the request that holds it.
struct Token(mpsc::UnboundedSender<Work>, bool);

impl Token {
    fn new(events: &mpsc::UnboundedSender<Work>) -> Token {
        events.send(Work::Started).ok();
        Token(events.clone(), false)
    }

    fn done(mut self) {
        self.1 = true;
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.send(if self.1 { Work::Done } else { Work::Dropped }).ok();
    }
}

/// The events, in their order.
pub(crate) struct Events(mpsc::UnboundedReceiver<Work>);

impl Events {
    /// Waits for the next event, which must be this one.
    pub(crate) async fn expect(&mut self, work: Work) {
        let next = timeout(Duration::from_secs(10), self.0.recv()).await.expect("nothing happened in time");
        assert_eq!(next, Some(work));
    }
}

/// The listener.
pub(crate) struct Site {
    home: TempDir,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Site {
    pub(crate) fn open() -> (Site, Events) {
        let home = tempfile::tempdir().expect("a temporary home");
        let listener = listener::bind_private(&socket_path(home.path())).expect("a socket in it");
        let (events, seen) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let handler = move |request| answer(request, events.clone());
        let stopped = async move {
            stopped.await.ok();
        };
        let task = tokio::spawn(listener::serve(listener, handler, stopped));
        (Site { home, stop: Some(stop), task }, Events(seen))
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        socket_path(self.home())
    }

    pub(crate) fn stop(&mut self) {
        self.stop.take().expect("it is stopped once").send(()).expect("it listens");
    }

    pub(crate) async fn ended(&mut self) {
        (&mut self.task).await.expect("it does not panic");
    }
}

/// A query with this text.
pub(crate) fn request(sql: &str) -> QueryRequest {
    QueryRequest { sql: Some(sql.to_owned()), ..QueryRequest::default() }
}

/// The same as it is sent.
pub(crate) fn body(sql: &str) -> Vec<u8> {
    serde_json::to_vec(&request(sql)).expect("a body")
}

/// Sends a query to the branch of this name, and returns the text of the reply.
pub(crate) async fn query_text(
    connection: &mut Connection,
    branch: &str,
    sql: &str,
) -> Result<Bytes, ClientError> {
    connection.query_text(branch, Encoded::new(&request(sql))?).await
}

/// Sends a query to be sent back.
pub(crate) async fn echo(connection: &mut Connection, sql: &str) -> Bytes {
    query_text(connection, "echo", sql).await.expect("an echo")
}

async fn answer(request: Request<Incoming>, events: mpsc::UnboundedSender<Work>) -> Response<Reply> {
    match request.uri().path() {
        "/v1/branches/echo/query" => {
            let body = request.into_body().collect().await.expect("a whole body").to_bytes();
            reply::text(StatusCode::OK, body)
        }
        "/hang" | "/v1/branches/hang/query" => {
            // As real handlers do: the body is read before the work begins.
            request.into_body().collect().await.expect("a whole body");
            let _token = Token::new(&events);
            std::future::pending().await
        }
        "/v1/branches/slow/query" => {
            let token = Token::new(&events);
            sleep(Duration::from_millis(300)).await;
            token.done();
            reply::text(StatusCode::OK, Bytes::from_static(b"slow"))
        }
        "/v1/branches/garbage" => reply::text(StatusCode::BAD_GATEWAY, Bytes::from_static(b"<html>")),
        path => Refusal::new(StatusCode::CONFLICT, "name_clash", format!("no {path}")).into_response(),
    }
}
