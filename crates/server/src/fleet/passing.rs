//! Which node answers a request, and passing it on (FL-7).

use super::{
    agreeing::may_hear,
    connections::{unreachable, Said},
    is_of_a_branch,
    silence::gone,
    who, Peers, Way, NAME_ELSEWHERE,
};
use crate::{
    api::Call,
    caller::Caller,
    holders::onlooker,
    idempotency,
    reply::{self, Refusal},
};
use axum::body::Body;
use bytes::Bytes;
use duramen_api::{model::Policy, route::Op, token::Token};
use duramen_branches::Holder;
use duramen_fleet::{authority::host_name, member::Standing, view::NodeState};
use http_body_util::{BodyExt, Limited};
use hyper::{
    header::{HeaderName, HeaderValue, ACCEPT, CONTENT_TYPE, HOST},
    Request, Response, StatusCode,
};
use serde::Deserialize;
use std::{sync::Arc, time::Duration};

/// Pause before a create is sent to another node.
const PAUSE: Duration = Duration::from_millis(50);
/// How often another node is tried, when a name has moved meanwhile.
const TRIES: u32 = 3;
/// The longest refusal that is looked into.
const REFUSAL_MAX: usize = 64 << 10;
/// What of a request's head is passed on.
const PASSED: [HeaderName; 4] = [
    ACCEPT,
    CONTENT_TYPE,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("traceparent"),
];

/// Where a branch is.
enum Place {
    /// Here, or nowhere: this node answers.
    Here,
    /// On that node.
    There(String),
}

/// What of a create says where it is done.
#[derive(Deserialize)]
struct Wanted {
    name: Option<String>,
    source: Option<String>,
    from: Option<String>,
    policy: Option<Policy>,
    /// A generation, or a moment, that is not the current one.
    generation: Option<String>,
    at: Option<String>,
    lsn: Option<String>,
}

impl Peers {
    /// Where a request that did not come from another node is answered, and the answer if that is elsewhere.
    pub(crate) async fn way(&self, call: &Call<'_>, caller: &Caller, body: Body) -> Way {
        let op = call.endpoint.op;
        let way = match op {
            Op::Branches => return Way::Answered(self.list(call, caller).await),
            Op::Cluster => return Way::Answered(self.cluster(call, caller).await),
            Op::CreateBranch => self.create(call, caller, body).await,
            op if is_of_a_branch(op) => self.of_branch(call, caller, body).await,
            _ => return Way::Here(body, None),
        };
        way.unwrap_or_else(|refusal| Way::Answered(Err(refusal)))
    }

    async fn of_branch(&self, call: &Call<'_>, caller: &Caller, body: Body) -> Result<Way, Refusal> {
        let who = onlooking(caller);
        let mut known = match self.place(call.name, who.as_ref(), true).await? {
            Place::Here => return Ok(Way::Here(body, None)),
            Place::There(node) => node,
        };
        // Bodies about branches are short (`BODY_MAX`): it can be sent again.
        let bytes = call.collect(body).await?;
        for _ in 0..TRIES {
            let response = self.pass(&known, call, caller, Body::from(bytes.clone())).await?;
            if response.status() != StatusCode::NOT_FOUND {
                return Ok(Way::Answered(Ok(self.passed(&known, response))));
            }
            // It was there, or the view is behind: etcd knows where it is now.
            match self.place(call.name, who.as_ref(), false).await? {
                Place::There(node) if node != known => known = node,
                Place::There(_) => return Ok(Way::Answered(Ok(self.passed(&known, response)))),
                Place::Here => return Ok(Way::Here(Body::from(bytes), None)),
            }
        }
        Err(moves(call.name))
    }

    async fn create(&self, call: &Call<'_>, caller: &Caller, body: Body) -> Result<Way, Refusal> {
        let bytes = call.collect(body).await?;
        // A body that is wrong is refused here.
        let here = |bytes: Bytes| Way::Here(Body::from(bytes.clone()), Some(bytes));
        let Ok(mut wanted) = serde_json::from_slice::<Wanted>(&bytes) else { return Ok(here(bytes)) };
        let key = idempotency::shown(call.endpoint, &call.head.headers)?.filter(|_| wanted.name.is_none());
        let bytes = match key.map(|key| named(&who::id(caller), key, &bytes)) {
            Some(Some((name, body))) => {
                wanted.name = Some(name);
                body
            }
            _ => bytes,
        };
        let who = onlooking(caller);
        for attempt in 0..TRIES {
            if attempt > 0 {
                // What has the name is in the view a moment later.
                tokio::time::sleep(PAUSE).await;
            }
            let node = self.node_for(&wanted, who.as_ref(), false).await?;
            let Some(node) = node else { return Ok(here(bytes)) };
            let response = self.pass(&node, call, caller, Body::from(bytes.clone())).await?;
            if response.status() != StatusCode::CONFLICT {
                return Ok(Way::Answered(Ok(self.passed(&node, response))));
            }
            let (head, refusal) = response.into_parts();
            let text = tokio::select! {
                text = Limited::new(refusal, REFUSAL_MAX).collect() => text,
                () = gone(&self.fleet, &node) => return Err(unreachable(&node, "", "it went away while it answered")),
            };
            let text = text.map_err(|error| unreachable(&node, "", error))?.to_bytes();
            if !is_elsewhere(&text) {
                return Ok(Way::Answered(Ok(reply::passed_whole(head, text))));
            }
        }
        Err(moves(wanted.name.as_deref().unwrap_or_default()))
    }

    /// The node on which a branch is made, or is already; nothing, if that is this one.
    async fn node_for(
        &self,
        wanted: &Wanted,
        who: Option<&Holder>,
        for_session: bool,
    ) -> Result<Option<String>, Refusal> {
        let parent =
            wanted.from.as_deref().map(|from| from.split_once('@').map_or(from, |(parent, _)| parent));
        if let Some(parent) = parent {
            return Ok(match self.place(parent, who, true).await? {
                Place::Here => None,
                Place::There(node) => Some(node),
            });
        }
        if let Some(name) = &wanted.name {
            if self.engine.has_name(name) {
                return Ok(None);
            }
            let holder = self.fleet.view().name(name).map(|name| name.record.node.clone());
            if let Some(node) = holder {
                let state = self.fleet.view().state(&node);
                match state {
                    _ if node == self.fleet.node() => return Ok(None),
                    NodeState::Ready | NodeState::Draining => return Ok(Some(node)),
                    // It may have been freed, or taken, meanwhile: that is decided by who claims it.
                    NodeState::Unreachable | NodeState::Lost => {}
                }
            }
        }
        if !matches!(self.fleet.standing(), Standing::Member(_)) {
            // What is seen of others may be long over; this node says why it makes none.
            return Ok(None);
        }
        let policy = wanted.policy.unwrap_or_default().to_string();
        let own = self.fleet.node();
        let source = wanted.source.as_deref();
        if wanted.generation.is_some() || wanted.at.is_some() || wanted.lsn.is_some() {
            // Those are there where they were made: copies have the current generation.
            if let Some(keeper) = source.and_then(|source| self.keeper_of(source)) {
                return Ok(Some(keeper).filter(|node| node != own));
            }
        }
        let chosen = self.placed.choose(&self.fleet.view(), own, source, &policy, for_session);
        if let (None, Some(source)) = (&chosen, source) {
            self.is_here_or_nowhere(source)?;
        }
        Ok(chosen.filter(|node| node != own))
    }

    /// The node that keeps a source, if it is there.
    fn keeper_of(&self, name: &str) -> Option<String> {
        let keeper = self.fleet_source(name)?.keeper;
        let is_ready = self.fleet.view().state(&keeper) == NodeState::Ready;
        is_ready.then_some(keeper)
    }

    /// Refuses a create of a source of the fleet that no node offers which is there, and that this one has nothing of.
    fn is_here_or_nowhere(&self, name: &str) -> Result<(), Refusal> {
        let Some(source) = self.fleet_source(name) else { return Ok(()) };
        if self.engine.source_names().iter().any(|own| own == name) {
            return Ok(());
        }
        let copies: Vec<String> =
            source.copies.iter().map(|copy| format!("{} ({})", copy.node, copy.state)).collect();
        let message = format!(
            "no node that is there makes branches of {name} now; it is on {}. Have it on more nodes: duramen source settings {name} --replicas N, on {}",
            copies.join(", "),
            source.keeper
        );
        Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "source_unavailable", message))
    }

    /// Where a branch is: by what is held here, then by the view if that will do, then by etcd. A branch that who asks may not hear
    /// of is here, where there is none of that name: so it is answered as one of somebody else's that is here (FL-8).
    async fn place(&self, name: &str, who: Option<&Holder>, by_view: bool) -> Result<Place, Refusal> {
        if self.engine.has_name(name) {
            return Ok(Place::Here);
        }
        let seen = self.fleet.view().name(name).map(|name| name.record.clone());
        // A name that was this node's when the view was last heard of may be another one's by now: a daemon that was held for a
        // moment would say that there is no such branch.
        let record = match seen.filter(|record| by_view && record.node != self.fleet.node()) {
            Some(record) => Some(record),
            None => self.fleet.find(name).await.map_err(|error| {
                let message = format!("whether there is a branch {name} is unknown: {error}");
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "fleet_silent", message)
            })?,
        };
        let Some(record) = record.filter(|record| record.node != self.fleet.node()) else {
            return Ok(Place::Here);
        };
        let is_told = may_hear(who, &record);
        let node = record.node;
        let state = self.fleet.view().state(&node);
        match state {
            NodeState::Ready | NodeState::Draining => Ok(Place::There(node)),
            NodeState::Unreachable | NodeState::Lost if !is_told => Ok(Place::Here),
            NodeState::Unreachable => {
                let kept = self.fleet.node_view(&node).and_then(|node| node.kept_for).unwrap_or_default();
                let message = format!(
                    "the branch {name} is on the node {node}, which does not answer; it is lost if that goes on for {} s more",
                    kept.as_secs()
                );
                Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "node_unreachable", message))
            }
            NodeState::Lost => {
                let message = format!(
                    "the branch {name} was on the node {node}, which is lost; its name is free, and if the node comes back before \
                     that is taken, so does the branch"
                );
                Err(Refusal::new(StatusCode::GONE, "node_lost", message))
            }
        }
    }

    /// The other node that has a branch and is there, as far as was seen: etcd is not asked.
    pub(crate) fn seen_on(&self, branch: &str) -> Option<String> {
        let view = self.fleet.view();
        let node = view.name(branch).map(|name| name.record.node.clone())?;
        let is_there = matches!(view.state(&node), NodeState::Ready | NodeState::Draining);
        (is_there && node != self.fleet.node()).then_some(node)
    }

    /// What a node says, as it comes, for as long as it is there.
    fn passed(&self, node: &str, response: Response<Said>) -> Response<reply::Reply> {
        let (head, body) = response.into_parts();
        let (fleet, node) = (Arc::clone(&self.fleet), node.to_owned());
        reply::passed(head, body, Box::pin(async move { gone(&fleet, &node).await }))
    }

    /// Waits until a node to which something was passed on is not there any more.
    pub(crate) async fn gone(&self, node: &str) {
        gone(&self.fleet, node).await;
    }

    /// The node that has a branch; nothing, if that is this one, or none.
    pub(crate) async fn node_of(&self, branch: &str, token: &Token) -> Result<Option<String>, Refusal> {
        Ok(match self.place(branch, Some(&onlooker(token)), true).await? {
            Place::Here => None,
            Place::There(node) => Some(node),
        })
    }

    /// The node on which a session's branch is made, or is already; nothing, if that is this one.
    pub(crate) async fn node_for_session(
        &self,
        (name, source): (Option<&str>, &str),
        policy: Option<Policy>,
        token: &Token,
    ) -> Result<Option<String>, Refusal> {
        let (name, source) = (name.map(str::to_owned), Some(source.to_owned()));
        let wanted = Wanted { name, source, from: None, policy, generation: None, at: None, lsn: None };
        self.node_for(&wanted, Some(&onlooker(token)), true).await
    }

    /// A connection to a node for a session.
    pub(crate) async fn session(
        &self,
        node: &str,
    ) -> Result<tokio_rustls::client::TlsStream<tokio::net::TcpStream>, Refusal> {
        let address = self.reached(node)?;
        let session = self.connections.session(node, &address).await;
        self.hops.session(session.is_ok());
        session
    }

    /// Has a node answer.
    pub(super) async fn pass(
        &self,
        node: &str,
        call: &Call<'_>,
        caller: &Caller,
        body: Body,
    ) -> Result<Response<Said>, Refusal> {
        let target = call.head.uri.path_and_query().map_or("/", |target| target.as_str());
        self.ask(node, (call, target), caller, body).await
    }

    /// The same, with another target.
    pub(super) async fn ask(
        &self,
        node: &str,
        (call, target): (&Call<'_>, &str),
        caller: &Caller,
        body: Body,
    ) -> Result<Response<Said>, Refusal> {
        let address = self.reached(node)?;
        let mut request = Request::new(body);
        *request.method_mut() = call.endpoint.method.clone();
        *request.uri_mut() = target.parse().map_err(|error| call.bad(format_args!("{error}")))?;
        let headers = request.headers_mut();
        for name in PASSED {
            if let Some(value) = call.head.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        if let Ok(host) = HeaderValue::try_from(host_name(node)) {
            headers.insert(HOST, host);
        }
        if !who::write(caller, headers) {
            return Err(Refusal::unauthenticated());
        }
        let response = tokio::select! {
            biased;
            response = self.connections.send(node, &address, request) => response,
            () = gone(&self.fleet, node) => {
                self.connections.forget(node);
                let what = "it went away before it answered: whether it did what it was asked is unknown";
                Err(unreachable(node, &address, what))
            }
        };
        self.hops.passed(call.endpoint.op, response.is_ok());
        response
    }
}

/// Who asks, to those who tell of branches; nothing for who is on the machine.
fn onlooking(caller: &Caller) -> Option<Holder> {
    match caller {
        Caller::Holder(visitor) => Some(onlooker(&visitor.token)),
        Caller::Owner | Caller::Member | Caller::Stranger | Caller::Nobody => None,
    }
}

/// A create without a name gets one that follows from its key: so it is the same branch on whichever node it is asked for again, because a
/// name is given once (FL-1). Its name, and its body with it.
fn named(id: &str, key: &str, body: &Bytes) -> Option<(String, Bytes)> {
    let name = idempotency::name(id, key);
    let mut value: serde_json::Map<String, serde_json::Value> = match body.is_empty() {
        true => serde_json::Map::new(),
        false => serde_json::from_slice(body).ok()?,
    };
    value.insert("name".to_owned(), name.clone().into());
    Some((name, serde_json::to_vec(&value).ok()?.into()))
}

fn is_elsewhere(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Told {
        code: String,
    }
    serde_json::from_slice::<Told>(text).is_ok_and(|told| told.code == NAME_ELSEWHERE)
}

fn moves(name: &str) -> Refusal {
    let message = format!("the name {name} moves from node to node; try again");
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "name_moves", message)
}
