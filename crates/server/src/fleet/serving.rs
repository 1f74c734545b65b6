//! What other nodes are served with: the same requests, on connections on which both have shown certificates of the fleet (FL-10).

use super::{
    connections::{ALPN, ALPN_SESSIONS},
    who, Hop, Peers,
};
use crate::{
    door::Share,
    listener::{self, Course, Limits},
    reply::Refusal,
};
use axum::body::Body;
use duramen_fleet::authority::node_of;
use hyper::{body::Incoming, header::HeaderValue, Request, Response};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

/// How long a node may take until it has shown who it is.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// One part in so many of the daemon's descriptors is for other nodes.
const PART: u64 = 8;
/// What a connection may take.
const LIMITS: Limits = Limits { head: Duration::from_secs(300), head_bytes: 64 << 10, dates: false };

impl Peers {
    /// Serves other nodes, and has names brought together with branches, until `stop` is ready.
    pub(crate) async fn serve(self: Arc<Peers>, found: axum::Router, stop: impl Future<Output = ()>) {
        let Some(listener) = self.take_listener() else { return };
        let acceptor = TlsAcceptor::from(self.trust.server(&[ALPN, ALPN_SESSIONS]));
        let reconciling = tokio::spawn({
            let peers = Arc::clone(&self);
            async move { tokio::join!(peers.reconcile(), peers.follow_tokens()) }
        });
        let most = Share::of(PART, listener::CONNECTIONS_MAX).connections;
        let each = move |(stream, peer), course| {
            visit(Arc::clone(&self), acceptor.clone(), found.clone(), stream, peer, course)
        };
        listener::serve_each(listener, most, each, stop).await;
        reconciling.abort();
    }
}

async fn visit(
    peers: Arc<Peers>,
    acceptor: TlsAcceptor,
    found: axum::Router,
    stream: TcpStream,
    peer: SocketAddr,
    course: Course,
) {
    crate::door::prepare(&stream);
    let stream = match timeout(HELLO_LIMIT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::warn!(%peer, %error, "somebody who is no node of the fleet was turned away");
            return;
        }
        Err(_) => return,
    };
    let (_, session) = stream.get_ref();
    let shown = session.peer_certificates().and_then(|shown| shown.first()).and_then(|shown| node_of(shown));
    if let (Some(_), Some(ALPN_SESSIONS)) = (&shown, session.alpn_protocol()) {
        if let Some(router) = &peers.router {
            router.serve_passed_on(stream).await;
        }
        return;
    }
    let (Some(node), Some(ALPN)) = (shown, session.alpn_protocol()) else {
        tracing::warn!(%peer, "a certificate that names no node, or another protocol, was turned away");
        return;
    };
    let handler = |request| answer(&peers, &node, found.clone(), request);
    listener::converse(stream, handler, LIMITS, course).await;
}

async fn answer(
    peers: &Peers,
    node: &str,
    mut found: axum::Router,
    mut request: Request<Incoming>,
) -> Response<Body> {
    let caller = who::read(request.headers_mut(), peers.tokens.as_deref(), peers.unmasked_ok);
    let mut response = match caller {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(Hop { from: node.to_owned() });
            match found.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        }
        Err(refusal) => Refusal::into_response(refusal).map(Body::new),
    };
    if let Ok(own) = HeaderValue::try_from(peers.node()) {
        response.headers_mut().insert(duramen_api::fleet::NODE, own);
    }
    response
}
