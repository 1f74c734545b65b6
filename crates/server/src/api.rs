//! The routes: which request calls what of the engine.

use crate::{
    caller::Caller,
    import,
    listener::BODY_MAX,
    reply::{self, json, Refusal, Reply},
    request::{MeasureCold, Removed, Stopping},
    segment,
};
use bytes::Bytes;
use duramen_branches::{model, Engine};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{
    body::{Body, Incoming},
    Method, Request, Response, StatusCode,
};
use serde::de::DeserializeOwned;
use std::{borrow::Cow, sync::Arc, time::Duration};
use tokio::{sync::watch, time::timeout};

/// How long a client may take to send a request's body.
const BODY_LIMIT: Duration = Duration::from_secs(30);
/// No route has more segments than this.
const SEGMENTS_MAX: usize = 4;
/// Branches whose memory is looked at when the request does not say how many.
const PSS_SAMPLE: u32 = 10;

/// What requests work on.
pub(crate) struct Api {
    pub(crate) engine: Arc<Engine>,
    /// Told `true` when the daemon is to stop.
    pub(crate) stop: watch::Sender<bool>,
}

type Answer = Result<Response<Reply>, Refusal>;

impl Api {
    /// Answers one request.
    pub(crate) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Reply> {
        self.route(request).await.unwrap_or_else(Refusal::into_response)
    }

    async fn route(&self, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let (method, path) = (&head.method, head.uri.path());
        let call = Call { method, path };
        let segments = call.segments()?;
        let words: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        let Some(("v1", words)) = words.split_first().map(|(version, words)| (*version, words)) else {
            return Err(call.unknown());
        };
        let caller = head.extensions.get::<Caller>();
        if !caller.is_some_and(|caller| caller.may(method, words)) {
            return Err(call.not_allowed());
        }
        let engine = &self.engine;
        // The requests of a branch's whole life come first; none of them awaits anything but its engine call.
        match (method, words) {
            (&Method::POST, ["branches", name, "query"]) => {
                let answer = engine.query(name, call.read(body).await?).await?;
                Ok(reply::text(StatusCode::OK, answer.0))
            }
            (&Method::POST, ["branches"]) => json(&engine.create(call.read(body).await?).await?),
            (&Method::DELETE, ["branches", name]) => json(&engine.destroy(name)?),
            (&Method::GET, ["branches", name]) => json(&engine.branch(name)?),
            (&Method::GET, ["branches"]) => json(&engine.branches()),
            (&Method::POST, ["branches", name, "reset"]) => json(&engine.reset(name).await?),
            (&Method::POST, ["branches", name, "renew"]) => {
                json(&engine.renew(name, call.read(body).await?)?)
            }
            (&Method::POST, ["branches", name, "protect"]) => {
                json(&engine.protect(name, call.read(body).await?)?)
            }
            (&Method::GET, ["branches", name, "administrator-url"]) => {
                json(&engine.administrator_url(name).await?)
            }
            (&Method::GET, ["branches", name, "evidence"]) => json(&engine.evidence(name).await?),
            (&Method::GET, ["status"]) => json(&engine.status()),
            (&Method::POST, ["audit", "verify"]) => json(&engine.verify_audit().await?),
            (&Method::POST, ["measure", "cold"]) => {
                let wanted: MeasureCold = call.read(body).await?;
                json(&engine.measure_cold(&wanted.source, wanted.policy).await?)
            }
            (&Method::POST, ["shutdown"]) => {
                tracing::info!("asked to stop");
                self.stop.send_replace(true);
                json(&Stopping { stopping: true })
            }
            (_, ["sources", rest @ ..]) => self.route_source(&call, rest, head.uri.query(), body).await,
            _ => Err(call.unknown()),
        }
    }

    async fn route_source(
        &self,
        call: &Call<'_>,
        words: &[&str],
        query: Option<&str>,
        body: Incoming,
    ) -> Answer {
        let engine = &self.engine;
        match (call.method, words) {
            (&Method::GET, []) => json(&engine.sources()),
            (&Method::POST, []) => {
                let wanted: model::AddSource = call.read(body).await?;
                let engine = Arc::clone(engine);
                let import = |tell| async move { engine.add_source(wanted, tell).await };
                import::run(self.stop.subscribe(), import).await
            }
            (&Method::POST, [name, "refresh"]) => {
                let (engine, name) = (Arc::clone(engine), (*name).to_owned());
                let import = |tell| async move { engine.refresh_source(&name, tell).await };
                import::run(self.stop.subscribe(), import).await
            }
            (&Method::GET, [name]) => json(&engine.source(name)?),
            (&Method::DELETE, [name]) => {
                engine.remove_source(name).await?;
                json(&Removed { removed: (*name).to_owned() })
            }
            (&Method::PATCH, [name, "settings"]) => {
                json(&engine.change_settings(name, call.read(body).await?).await?)
            }
            (&Method::POST, [name, "verify"]) => json(&engine.verify_source(name).await?),
            (&Method::POST, [name, "fingerprint"]) => json(&engine.fingerprint_source(name).await?),
            (&Method::GET, [name, "idle-pss"]) => json(&engine.idle_pss(name, call.sample(query)?).await?),
            _ => Err(call.unknown()),
        }
    }
}

/// Which request it is, for messages.
struct Call<'a> {
    method: &'a Method,
    path: &'a str,
}

impl Call<'_> {
    fn segments(&self) -> Result<Vec<Cow<'_, str>>, Refusal> {
        let path = self.path.strip_prefix('/').ok_or_else(|| self.unknown())?;
        // One more than any route has, so that a longer path matches none.
        let segments = path.splitn(SEGMENTS_MAX + 1, '/').map(segment::decode);
        segments.collect::<Option<_>>().ok_or_else(|| {
            let message = format!(
                "the path {:?} holds an escape that is no UTF-8 text; escape names as %XX",
                self.path
            );
            Refusal::new(StatusCode::BAD_REQUEST, "bad_request", message)
        })
    }

    fn not_allowed(&self) -> Refusal {
        let message = format!(
            "{} {} is for the daemon's user and root; members of the group `duramen` may hold branches",
            self.method, self.path
        );
        Refusal::new(StatusCode::FORBIDDEN, "not_allowed", message)
    }

    fn unknown(&self) -> Refusal {
        let message = format!(
            "there is no route {} {}; the crate documentation lists all routes",
            self.method, self.path
        );
        Refusal::new(StatusCode::NOT_FOUND, "unknown_route", message)
    }

    /// The request's body; no body at all stands for `{}`.
    async fn read<T: DeserializeOwned>(&self, body: Incoming) -> Result<T, Refusal> {
        let bytes = if body.is_end_stream() { Bytes::new() } else { self.collect(body).await? };
        let text = if bytes.is_empty() { b"{}" } else { bytes.as_ref() };
        serde_json::from_slice(text).map_err(|error| {
            let message = format!("the body of {} {} is wrong: {error}", self.method, self.path);
            Refusal::new(StatusCode::BAD_REQUEST, "bad_request", message)
        })
    }

    async fn collect(&self, body: Incoming) -> Result<Bytes, Refusal> {
        let refuse = |status, code, what: String| {
            Err(Refusal::new(status, code, format!("the body of {} {} {what}", self.method, self.path)))
        };
        match timeout(BODY_LIMIT, Limited::new(body, BODY_MAX).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let what = format!("is larger than {BODY_MAX} bytes; send less in one request");
                refuse(StatusCode::PAYLOAD_TOO_LARGE, "too_large", what)
            }
            Ok(Err(error)) => {
                refuse(StatusCode::BAD_REQUEST, "bad_request", format!("could not be read: {error}"))
            }
            Err(_) => {
                let what = format!("did not arrive within {} s", BODY_LIMIT.as_secs());
                refuse(StatusCode::REQUEST_TIMEOUT, "body_timeout", what)
            }
        }
    }

    fn sample(&self, query: Option<&str>) -> Result<u32, Refusal> {
        let mut pairs = query.unwrap_or_default().split('&');
        let Some(text) = pairs.find_map(|pair| pair.strip_prefix("sample=")) else { return Ok(PSS_SAMPLE) };
        text.parse().map_err(|_| {
            let message = format!("sample={text} of {} {} is no number of branches", self.method, self.path);
            Refusal::new(StatusCode::BAD_REQUEST, "bad_request", message)
        })
    }
}
