//! What other nodes are served with: the same requests, on connections on which both have shown certificates of the fleet (FL-10).

use super::{
    protocol::{ALPN, ALPN_COPIES, ALPN_SESSIONS},
    who, Hop, Peers,
};
use crate::{
    door::{Share, Strangers},
    listener::{self, Course, Limits},
    reply::Refusal,
};
use axum::body::Body;
use duramen_fleet::authority::node_of;
use hyper::{body::Incoming, header::HeaderValue, Request, Response, StatusCode};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpStream, sync::Semaphore, time::timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

/// How long a node may take until it has shown who it is.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// One part in so many of the daemon's descriptors is for other nodes.
const PART: u64 = 8;
/// What a connection may take.
const LIMITS: Limits = Limits { head: Duration::from_secs(300), head_bytes: 64 << 10, dates: false };

/// One part in so many of the connections may be sessions of PostgreSQL clients, which last.
const SESSIONS_PART: usize = 2;

/// What keeps some of those who connect from taking what others need.
struct Places {
    /// Who has not shown yet that he is a node.
    strangers: Strangers,
    sessions: Semaphore,
}

impl Peers {
    /// Serves other nodes, and has names brought together with branches, until `stop` is ready.
    pub(crate) async fn serve(self: Arc<Peers>, found: axum::Router, stop: impl Future<Output = ()>) {
        let Some(listener) = self.take_listener() else { return };
        let acceptor = TlsAcceptor::from(self.trust.server(&[ALPN, ALPN_SESSIONS, ALPN_COPIES]));
        let reconciling = tokio::spawn({
            let peers = Arc::clone(&self);
            async move {
                tokio::join!(
                    peers.reconcile(),
                    peers.follow_tokens(),
                    peers.follow_definitions(),
                    peers.follow_sources()
                )
            }
        });
        let share = Share::of(PART, listener::CONNECTIONS_MAX);
        let places = Arc::new(Places {
            strangers: Strangers::new(share.strangers),
            sessions: Semaphore::new(share.connections as usize / SESSIONS_PART),
        });
        let each = move |(stream, peer), course| {
            let places = Arc::clone(&places);
            visit(Arc::clone(&self), (acceptor.clone(), places), found.clone(), stream, peer, course)
        };
        listener::serve_each(listener, share.connections, each, stop).await;
        reconciling.abort();
    }
}

async fn visit(
    peers: Arc<Peers>,
    (acceptor, places): (TlsAcceptor, Arc<Places>),
    found: axum::Router,
    stream: TcpStream,
    peer: SocketAddr,
    course: Course,
) {
    crate::door::prepare(&stream);
    let accepted = {
        let (_stranger, turned_away) = places.strangers.arrive();
        tokio::select! {
            accepted = timeout(HELLO_LIMIT, acceptor.accept(stream)) => accepted,
            () = turned_away.wait() => return,
        }
    };
    let stream = match accepted {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::warn!(%peer, %error, "refused a connection that did not come from a node of the fleet");
            return;
        }
        Err(_) => return,
    };
    let (_, session) = stream.get_ref();
    let shown = session.peer_certificates().and_then(|shown| shown.first()).and_then(|shown| node_of(shown));
    if let (Some(node), Some(ALPN_SESSIONS)) = (&shown, session.alpn_protocol()) {
        if !peers.fleet.is_member(node).await {
            tracing::warn!(%peer, node, "a session of a node that the fleet does not have was turned away");
            return;
        }
        let Ok(_place) = places.sessions.try_acquire() else {
            tracing::warn!(node, "there are as many sessions of other nodes as this one serves");
            return;
        };
        if let Some(router) = &peers.router {
            router.serve_passed_on(stream).await;
        }
        return;
    }
    if let (Some(node), Some(ALPN_COPIES)) = (&shown, session.alpn_protocol()) {
        // FL-10.
        if !peers.fleet.is_member(node).await {
            tracing::warn!(%peer, node, "a node that the fleet does not have was sent nothing");
            return;
        }
        peers.serve_copies(node, stream).await;
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
    // FL-10: certificates last for longer than nodes that are forgotten.
    if !peers.fleet.is_member(node).await {
        tracing::warn!(node, "a request of a node that the fleet does not have was refused");
        let message = format!("{node} is no node of this fleet, as far as {} knows", peers.node());
        let refusal = Refusal::new(StatusCode::FORBIDDEN, "not_a_member", message);
        return Refusal::into_response(refusal).map(Body::new);
    }
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
