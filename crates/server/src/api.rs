//! What each request does: the router that finds it, and what of the engine answers it.

use crate::{
    attachments::Attached,
    caller::Caller,
    data_diff,
    doors::Doors,
    events::{self, seen::Seen, Followers},
    export,
    fleet::{self, Hop, Peers, Way, NAME_ELSEWHERE},
    idempotency::{self, Keys, Turn},
    import::{self, Form},
    listener::BODY_MAX,
    metrics::{self, Metrics},
    order::{Order, Orders},
    page, pair,
    reply::{self, json, Refusal, Reply},
    traces::Tracer,
};
use axum::{
    body::Body,
    extract::{FromRequestParts, RawPathParams, Request, State},
    routing::{on, MethodFilter},
    Router,
};
use bytes::Bytes;
use duramen_api::{
    fleet::{DrainNode, NodeChanged},
    model,
};
use duramen_api::{
    openapi,
    request::{MeasureCold, Removed, Stopping, Version},
    route::{Endpoint, Op, ENDPOINTS},
    segment,
};
use duramen_base::clock;
use duramen_branches::{Engine, EngineError, Holder, Kind, NotAPosition};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{body::Body as _, http::request::Parts, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::json as object;
use std::{borrow::Cow, sync::Arc, time::Duration};
use tokio::time::timeout;

/// How long a client may take to send a request's body.
const BODY_LIMIT: Duration = Duration::from_secs(30);
/// Branches whose memory is looked at when the request does not say how many.
const PSS_SAMPLE: u32 = 10;
/// Entries of the audit log when the request does not say how many.
const AUDIT_PAGE: usize = 100;

/// Pause before a name is asked for elsewhere.
const FLEET_PAUSE: Duration = Duration::from_millis(50);

/// What requests work on.
pub(crate) struct Api {
    pub(crate) engine: Arc<Engine>,
    pub(crate) doors: Doors,
    /// What is shown beside branches.
    pub(crate) attachments: Attached,
    /// The fleet that it is in, if it is in one.
    pub(crate) fleet: Option<Arc<Peers>>,
    pub(crate) metrics: Metrics,
    /// Who follows what happens.
    pub(crate) followers: Followers,
    /// What was replied to requests that may come again.
    pub(crate) keys: Keys,
    /// How it tells the daemon to end.
    pub(crate) orders: Orders,
    /// What traces requests, if something does.
    pub(crate) tracer: Option<Arc<Tracer>>,
}

pub(crate) type Answer = Result<Response<Reply>, Refusal>;

/// Finds what answers a request, and has it answered.
pub(crate) fn router(api: Arc<Api>) -> Router {
    let found = ENDPOINTS.iter().fold(Router::new(), |router, endpoint| {
        let filter =
            MethodFilter::try_from(endpoint.method.clone()).expect("the methods of the list are usual");
        let answer = move |State(api): State<Arc<Api>>, request: Request| async move {
            let begin = clock::now();
            let answer = async |request| sent(api.answer(endpoint, request).await);
            let response = match &api.tracer {
                Some(tracer) => tracer.request(endpoint, request, answer).await,
                None => answer(request).await,
            };
            api.metrics.answered(endpoint.op, response.status(), begin.elapsed());
            response
        };
        router.route(endpoint.path, on(filter, answer))
    });
    found
        .fallback(|request: Request| async move {
            let message = format!(
                "there is no route {} {}; GET /openapi.json has all of them",
                request.method(),
                request.uri().path()
            );
            sent(Err(Refusal::new(StatusCode::NOT_FOUND, "unknown_route", message)))
        })
        .method_not_allowed_fallback(|request: Request| async move {
            let message = format!(
                "{} is nothing that {} understands; GET /openapi.json has all routes",
                request.method(),
                request.uri().path()
            );
            sent(Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "unknown_route", message)))
        })
        .with_state(api)
}

fn sent(answer: Answer) -> Response<Body> {
    answer.unwrap_or_else(Refusal::into_response).map(Body::new)
}

impl Api {
    /// Answers one request.
    async fn answer(self: &Arc<Self>, endpoint: &'static Endpoint, request: Request) -> Answer {
        let (mut head, body) = request.into_parts();
        let caller = head.extensions.remove::<Caller>().unwrap_or(Caller::Nobody);
        caller.may(endpoint.op)?;
        let hop = head.extensions.get::<Hop>();
        if let Some(hop) = hop.filter(|_| !fleet::may_hop(endpoint.op)) {
            return Err(fleet::not_passed_on(endpoint.op, hop));
        }
        let hopped = hop.is_some();
        let names = RawPathParams::from_request_parts(&mut head, &()).await.map_err(|error| {
            Refusal::new(StatusCode::BAD_REQUEST, "bad_request", format!("{error}; escape names as %XX"))
        })?;
        let name = names.iter().next().map_or("", |(_, name)| name);
        match &self.fleet {
            // On the heap: without a fleet nobody pays for its size.
            Some(peers) if !hopped => {
                Box::pin(self.answer_in_fleet(peers, (endpoint, head, name), &caller, body)).await
            }
            Some(peers) => {
                let answer = Box::pin(self.answer_here((endpoint, head, name), &caller, body)).await;
                Self::settled(peers, endpoint, name, answer).await
            }
            None => self.answer_here((endpoint, head, name), &caller, body).await,
        }
    }

    /// Answers a request on the node of the fleet that it concerns.
    async fn answer_in_fleet(
        self: &Arc<Self>,
        peers: &Peers,
        (endpoint, head, name): (&'static Endpoint, Parts, &str),
        caller: &Caller,
        mut body: Body,
    ) -> Answer {
        // A name that turns out to be another node's is asked for there; it may move a few times.
        for _ in 0..3 {
            let call = Call { endpoint, head: &head, name };
            let (here, again) = match peers.way(&call, caller, body).await {
                Way::Answered(answer) => return answer,
                Way::Here(here, again) => (here, again),
            };
            let answer = self.answer_here((endpoint, head.clone(), name), caller, here).await;
            let moved = matches!(&answer, Err(refusal) if refusal.body.code == NAME_ELSEWHERE);
            match again.filter(|_| moved) {
                Some(again) => body = Body::from(again),
                None => return Self::settled(peers, endpoint, name, answer).await,
            }
            // What has the name is in the view a moment later.
            tokio::time::sleep(FLEET_PAUSE).await;
        }
        Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "name_moves",
            "the name moves from node to node; try again",
        ))
    }

    /// Who destroyed a branch can give its name to another one, on any node.
    async fn settled(peers: &Peers, endpoint: &Endpoint, name: &str, answer: Answer) -> Answer {
        if endpoint.op == Op::DestroyBranch && answer.is_ok() {
            peers.settled(name).await;
        }
        answer
    }

    async fn answer_here(
        self: &Arc<Self>,
        (endpoint, head, name): (&'static Endpoint, Parts, &str),
        caller: &Caller,
        body: Body,
    ) -> Answer {
        let call = Call { endpoint, head: &head, name };
        let Some(key) = idempotency::shown(endpoint, &head.headers)? else {
            return self.for_caller(&call, caller, body).await;
        };
        let body = call.collect(body).await?;
        let target = head.uri.path_and_query().map_or("", |target| target.as_str());
        match self.keys.turn(caller, key, &[endpoint.method.as_str().as_bytes(), target.as_bytes(), &body])? {
            Turn::Again(response) => Ok(response),
            Turn::First(claim) => {
                let (api, name, caller) = (Arc::clone(self), name.to_owned(), caller.clone());
                let work = async move {
                    let call = Call { endpoint, head: &head, name: &name };
                    let answer = api.for_caller(&call, &caller, Body::from(body)).await;
                    claim.answered(answer)
                };
                if !idempotency::goes_on(endpoint.op) {
                    return work.await;
                }
                // So the key stays with what goes on, and who shows it again is not taken for the first.
                tokio::spawn(work).await.unwrap_or_else(|error| {
                    Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()))
                })
            }
        }
    }

    async fn for_caller(&self, call: &Call<'_>, caller: &Caller, body: Body) -> Answer {
        match caller {
            Caller::Holder(visitor) => self.for_holder(call, visitor, body).await,
            Caller::Owner | Caller::Member | Caller::Stranger | Caller::Nobody => {
                self.for_machine(call, caller, body).await
            }
        }
    }

    /// Answers somebody on the machine, or something that is open to anybody.
    async fn for_machine(&self, call: &Call<'_>, caller: &Caller, body: Body) -> Answer {
        let (engine, name) = (&self.engine, call.name);
        match call.endpoint.op {
            Op::Query => {
                let answer = engine.query(name, call.read(body).await?).await?;
                Ok(reply::text(StatusCode::OK, answer.0))
            }
            Op::CreateBranch => {
                let wanted: model::CreateBranch = call.read(body).await?;
                if wanted.require_clean_source {
                    // All of the source is read for it, as for its fingerprint.
                    caller.may(Op::FingerprintSource)?;
                }
                json(&engine.create(wanted).await?)
            }
            Op::DestroyBranch => json(&engine.destroy(name)?),
            Op::Branch => json(&engine.branch(name)?),
            Op::Branches => page::reply(call, engine.branches(), |branch| &branch.name),
            Op::ResetBranch => json(&engine.reset(name).await?),
            Op::RenewBranch => json(&engine.renew(name, call.read(body).await?)?),
            Op::ProtectBranch => json(&engine.protect(name, call.read(body).await?)?),
            Op::BranchTree => {
                page::reply(call, tokio::task::block_in_place(|| engine.tree()), |node| &node.name)
            }
            Op::Snapshots => json(&engine.snapshots(name)?),
            Op::TakeSnapshot => json(&engine.take_snapshot(name, call.read(body).await?).await?),
            Op::RemoveSnapshot => json(&engine.remove_snapshot(name, &call.needed("snapshot")?)?),
            Op::RestoreBranch => json(&engine.restore(name, call.read(body).await?).await?),
            Op::UndoBranch => json(&engine.undo(name).await?),
            Op::PromoteBranch => {
                let wanted: model::PromoteBranch = call.read(body).await?;
                let (engine, name) = (Arc::clone(engine), name.to_owned());
                let promotion = |report| async move { engine.promote(&name, wanted, report).await };
                import::run(Form::accepted(&call.head.headers), self.orders.ending(), promotion).await
            }
            Op::MergeBranch => json(&engine.merge(None, name, &call.read(body).await?).await?),
            Op::AdministratorUrl => json(&engine.administrator_url(name).await?),
            Op::Evidence => {
                let table = call.parameter("table")?;
                json(&match call.flag("diff")? {
                    true => engine.evidence_and_diff(None, name, table.as_deref()).await?,
                    false => engine.evidence_with(name, table.as_deref()).await?,
                })
            }
            Op::SchemaDiff => {
                let against = call.parameter("against")?;
                json(&engine.schema_diff(name, against.as_deref()).await?)
            }
            Op::BranchSessions => json(&engine.sessions(None, name).await?),
            Op::CancelSession => json(&engine.cancel_session(None, name, call.read(body).await?).await?),
            Op::DataDiff => data_diff::run(self, call, None).await,
            Op::ExportBranch => export::run(self, call, None, export::wanted(call)?).await,
            Op::MeasureCold => {
                let wanted: MeasureCold = call.read(body).await?;
                json(&engine.measure_cold(&wanted.source, wanted.policy).await?)
            }
            Op::MakePair => pair::run(self, call, call.read(body).await?).await,
            Op::Shutdown => {
                tracing::info!("asked to stop");
                self.orders.give(Order::Stop);
                json(&Stopping { stopping: true })
            }
            Op::HandOver => {
                tracing::info!("asked to hand over");
                self.orders.give(Order::HandOver);
                json(&Stopping { stopping: true })
            }
            Op::AddAttachment => self.add_attachment(call.read(body).await?),
            Op::RemoveAttachment => self.remove_attachment(name),
            Op::ControlFunction => self.control_function(name, None, call.read(body).await?).await,
            Op::Doors => json(&self.doors.view()),
            Op::DrainNode => self.drain_node(name, None, call.read(body).await?).await,
            Op::ForgetNode => {
                self.in_fleet()?.forget(name).await?;
                json(&NodeChanged { node: name.to_owned() })
            }
            Op::Tokens => page::reply(call, self.doors.tokens()?.list(), |token| &token.name),
            Op::CreateToken => {
                json(&self.doors.create_token(engine, self.fleet.as_deref(), call.read(body).await?).await?)
            }
            Op::RotateToken => json(&self.doors.rotate_token(engine, self.fleet.as_deref(), name).await?),
            Op::RestoreToken => json(&self.doors.restore_token(engine, self.fleet.as_deref(), name).await?),
            Op::RevokeToken => json(&self.doors.revoke_token(engine, self.fleet.as_deref(), name).await?),
            Op::MakeConsoleLink => self.make_console_link(call.read(body).await?).await,
            Op::SignIn => self.sign_in(call, body).await,
            Op::Sources => page::reply(call, self.sources(), |source| &source.name),
            Op::AddSource => {
                let wanted: model::AddSource = call.read(body).await?;
                let (engine, fleet) = (Arc::clone(engine), self.fleet.clone());
                let import = |report| async move {
                    match fleet {
                        Some(peers) => peers.add_source(wanted, report).await,
                        None => engine.add_source(no_replicas(wanted)?, report).await,
                    }
                };
                import::run(Form::accepted(&call.head.headers), self.orders.ending(), import).await
            }
            Op::RefreshSource => {
                let (engine, name) = (Arc::clone(engine), name.to_owned());
                let import = |report| async move { engine.refresh_source(&name, report).await };
                import::run(Form::accepted(&call.head.headers), self.orders.ending(), import).await
            }
            Op::Source => json(&self.source(name)?),
            Op::ScanSource => json(&engine.scan_source(name)?),
            Op::LabelGeneration => json(&engine.label_generation(name, call.read(body).await?).await?),
            Op::Timeline => json(&engine.timeline(name)?),
            Op::GenerationDiff => {
                let (from, to) = (call.needed("from")?, call.needed("to")?);
                json(&engine.generation_diff(name, &from, &to).await?)
            }
            Op::GenerationDataDiff => data_diff::of_generations(self, call, None, false).await,
            Op::RemoveSource => {
                match &self.fleet {
                    Some(peers) => Box::pin(peers.remove_source(name)).await?,
                    None => engine.remove_source(name).await?,
                }
                json(&Removed { removed: name.to_owned() })
            }
            Op::ChangeSettings => {
                let change: model::ChangeSettings = call.read(body).await?;
                json(&match &self.fleet {
                    Some(peers) => Box::pin(peers.change_settings(name, change)).await?,
                    None if change.replicas.is_some() => return Err(fleet::no_fleet()),
                    None => engine.change_settings(name, change).await?,
                })
            }
            Op::IdlePss => json(&engine.idle_pss(name, call.sample()?).await?),
            _ => self.for_all(call).await,
        }
    }

    /// What has the same answer for everybody who may ask.
    pub(crate) async fn for_all(&self, call: &Call<'_>) -> Answer {
        let engine = &self.engine;
        match call.endpoint.op {
            Op::Health => Ok(reply::plain(StatusCode::OK, reply::PLAIN, "ok\n".to_owned())),
            Op::Ready => self.ready(),
            Op::Version => json(&Version { version: env!("CARGO_PKG_VERSION").to_owned() }),
            Op::OpenApi => json(&openapi::document()),
            Op::Metrics => self.measured(),
            Op::Events => self.events(call, None),
            Op::AuditLog => self.audit_log(call).await,
            Op::Attachments => {
                page::reply(call, self.attachments.registry()?.list(), |attached| &attached.name)
            }
            Op::LabRuns | Op::LabRun | Op::LabSeries | Op::LabComparison | Op::LabExperiments => {
                self.measured_in(call).await
            }
            Op::StoreBranches
            | Op::StoreContents
            | Op::StoreEntries
            | Op::StoreEntry
            | Op::StoreHistory
            | Op::StoreDifference
            | Op::Pack
            | Op::AccessSearch
            | Op::Access
            | Op::AccessWhy => self.stored(call).await,
            Op::Functions
            | Op::FunctionInstances
            | Op::FunctionInstance
            | Op::FunctionQueues
            | Op::FunctionSchedules
            | Op::FunctionShards => self.functions(call).await,
            Op::Status => json(&engine.status()),
            Op::Nodes => json(&self.in_fleet()?.view()),
            // In a fleet it has been answered on the way.
            Op::Cluster => Err(fleet::no_fleet()),
            Op::NodeReport => json(&self.in_fleet()?.report()),
            Op::VerifyAudit => json(&engine.verify_audit().await?),
            Op::Generations => json(&engine.generations(call.name)?),
            Op::VerifySource => json(&engine.verify_source(call.name).await?),
            Op::FingerprintSource => json(&engine.fingerprint_source(call.name).await?),
            _ => Err(call.not_here()),
        }
    }

    /// All sources here, with where they are in the fleet.
    pub(crate) fn sources(&self) -> Vec<model::SourceView> {
        let mut sources = self.engine.sources();
        sources.iter_mut().for_each(|source| self.place(source));
        sources
    }

    /// One of them.
    pub(crate) fn source(&self, name: &str) -> Result<model::SourceView, Refusal> {
        let mut source = self.engine.source(name)?;
        self.place(&mut source);
        Ok(source)
    }

    fn place(&self, source: &mut model::SourceView) {
        source.fleet = self.fleet.as_ref().and_then(|peers| peers.fleet_source(&source.name));
    }

    /// Has a node of the fleet take no new branches, or ends that; for the holder of a token, if one is named.
    pub(crate) async fn drain_node(&self, node: &str, token: Option<&str>, wanted: DrainNode) -> Answer {
        self.in_fleet()?.drain(node, wanted.drains).await?;
        let DrainNode { drains } = wanted;
        self.engine.note("node_drained", object!({ "node": node, "drains": drains, "token": token }))?;
        json(&NodeChanged { node: node.to_owned() })
    }

    fn in_fleet(&self) -> Result<&Peers, Refusal> {
        self.fleet.as_deref().ok_or_else(fleet::no_fleet)
    }

    /// Follows what happens; as the holder of a token who may not see all, if one is named.
    pub(crate) fn events(&self, call: &Call<'_>, onlooker: Option<Holder>) -> Answer {
        let last = call.head.headers.get("last-event-id").and_then(|id| id.to_str().ok());
        let after = call.parameter("after")?;
        let wanted = events::wanted(last, after.as_deref());
        let wanted = wanted.map_err(|error| call.bad(format_args!("{error}")))?;
        let names = call.parameter("events")?.unwrap_or_default();
        let names = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let place = self.followers.place(onlooker.as_ref().map(|onlooker| onlooker.id.as_str()))?;
        let seen = onlooker.map(|onlooker| Seen::by(&self.engine, onlooker));
        Ok(events::follow(self.engine.events(wanted)?, names, seen, self.orders.ending(), place))
    }

    async fn audit_log(&self, call: &Call<'_>) -> Answer {
        let limit = page::limit(call)?.unwrap_or(AUDIT_PAGE);
        let before = call.parameter("before")?;
        let before = before.map(|before| before.parse()).transpose();
        let before = before.map_err(|error: NotAPosition| call.bad(format_args!("{error}")))?;
        let found = self.engine.audit_log(before, limit).await?;
        let entries = found.into_iter().map(|(from, event)| {
            let entry = serde_json::from_str(&event.json).unwrap_or_default();
            model::AuditEntry { position: from.to_string(), event: event.name, entry }
        });
        json(&entries.collect::<Vec<_>>())
    }

    fn measured(&self) -> Answer {
        let text = self.metrics.text().map_err(|error| {
            let message = format!("the figures cannot be written: {error}");
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
        })?;
        Ok(reply::plain(StatusCode::OK, metrics::FORMAT, text))
    }

    /// Whether branches can be leased.
    fn ready(&self) -> Answer {
        let status = self.engine.status();
        match status.pool_error {
            None => Ok(reply::plain(StatusCode::OK, reply::PLAIN, "ready\n".to_owned())),
            Some(_) => Err(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "not_ready",
                "a pool cannot be filled; `duramen status` on the machine says why",
            )),
        }
    }
}

/// A source that is to be on this node alone, since there are no others.
fn no_replicas(wanted: model::AddSource) -> Result<model::AddSource, EngineError> {
    match wanted.settings.replicas {
        None => Ok(wanted),
        Some(_) => {
            let body = fleet::no_fleet().body;
            Err(EngineError::new(Kind::Conflict, "no_fleet", body.message))
        }
    }
}

/// One request, once it is known which.
pub(crate) struct Call<'a> {
    pub(crate) endpoint: &'static Endpoint,
    pub(crate) head: &'a Parts,
    /// The name in its path, if there is one.
    pub(crate) name: &'a str,
}

impl std::fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.endpoint.method, self.head.uri.path())
    }
}

impl Call<'_> {
    /// The value of a parameter after the question mark.
    pub(crate) fn parameter(&self, name: &str) -> Result<Option<Cow<'_, str>>, Refusal> {
        let query = self.head.uri.query().unwrap_or_default();
        let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let Some((_, value)) = pairs.find(|(key, _)| *key == name) else { return Ok(None) };
        match segment::decode(value) {
            Some(value) => Ok(Some(value)),
            None => Err(self.bad(format_args!("the value of {name} holds an escape that is not UTF-8 text"))),
        }
    }

    /// A parameter that is `true` or `false`; the latter if it is not there.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.parameter(name)?.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(text) => Err(self.bad(format_args!("{name}={text} is neither true nor false"))),
        }
    }

    /// The value of a parameter that has to be there.
    pub(crate) fn needed(&self, name: &str) -> Result<Cow<'_, str>, Refusal> {
        let missing = || self.bad(format_args!("the parameter {name} is missing; give ?{name}=..."));
        self.parameter(name)?.ok_or_else(missing)
    }

    /// The request's body; no body at all stands for `{}`.
    pub(crate) async fn read<T: DeserializeOwned>(&self, body: Body) -> Result<T, Refusal> {
        let bytes = if body.is_end_stream() { Bytes::new() } else { self.collect(body).await? };
        self.parse(&bytes)
    }

    /// The value that the text of a body stands for.
    pub(crate) fn parse<T: DeserializeOwned>(&self, bytes: &Bytes) -> Result<T, Refusal> {
        let text = if bytes.is_empty() { b"{}" } else { bytes.as_ref() };
        // An array would be read too, as the fields in their order.
        if text.trim_ascii_start().first() == Some(&b'[') {
            return Err(self.bad(format_args!("its body is an array, and has to be an object: {{...}}")));
        }
        serde_json::from_slice(text).map_err(|error| self.bad(format_args!("its body is wrong: {error}")))
    }

    /// The text of the request's body.
    pub(crate) async fn collect(&self, body: Body) -> Result<Bytes, Refusal> {
        collect(self, body).await
    }

    fn sample(&self) -> Result<u32, Refusal> {
        let Some(text) = self.parameter("sample")? else { return Ok(PSS_SAMPLE) };
        text.parse().map_err(|_| self.bad(format_args!("sample={text} is not a number of branches")))
    }

    /// A refusal of a request that is wrong itself.
    pub(crate) fn bad(&self, what: std::fmt::Arguments<'_>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "bad_request", format!("{self}: {what}"))
    }

    /// A refusal of what is not answered on this way.
    pub(crate) fn not_here(&self) -> Refusal {
        let message = format!("{self} is for {}", self.endpoint.op.open_to());
        Refusal::new(StatusCode::FORBIDDEN, "not_allowed", message)
    }
}

/// The text of the body of a request, which messages call `what` (H8).
pub(crate) async fn collect(what: &(impl std::fmt::Display + ?Sized), body: Body) -> Result<Bytes, Refusal> {
    let refuse =
        |status, code, how: String| Err(Refusal::new(status, code, format!("the body of {what} {how}")));
    match timeout(BODY_LIMIT, Limited::new(body, BODY_MAX).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let how = format!("is larger than {BODY_MAX} bytes; send less in one request");
            refuse(StatusCode::PAYLOAD_TOO_LARGE, "too_large", how)
        }
        Ok(Err(error)) => {
            refuse(StatusCode::BAD_REQUEST, "bad_request", format!("could not be read: {error}"))
        }
        Err(_) => {
            let how = format!("did not arrive within {} s", BODY_LIMIT.as_secs());
            refuse(StatusCode::REQUEST_TIMEOUT, "body_timeout", how)
        }
    }
}
