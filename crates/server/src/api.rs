//! The routes: which request calls what of the engine.

use crate::{
    caller::Caller,
    doors::Doors,
    import,
    listener::BODY_MAX,
    order::{Order, Orders},
    reply::{self, json, Refusal, Reply},
    request::{MeasureCold, Removed, Stopping},
    route::{Route, SEGMENTS_MAX},
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
use tokio::time::timeout;

/// How long a client may take to send a request's body.
const BODY_LIMIT: Duration = Duration::from_secs(30);
/// Branches whose memory is looked at when the request does not say how many.
const PSS_SAMPLE: u32 = 10;

/// What requests work on.
pub(crate) struct Api {
    pub(crate) engine: Arc<Engine>,
    pub(crate) doors: Doors,
    /// How it tells the daemon to end.
    pub(crate) orders: Orders,
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
        let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        let ["v1", words @ ..] = segments.as_slice() else { return Err(call.unknown()) };
        let caller = head.extensions.get::<Caller>();
        if !caller.is_some_and(|caller| caller.may(method, words)) {
            return Err(call.not_allowed());
        }
        let route = Route::parse(method, &segments, head.uri.query()).ok_or_else(|| call.unknown())?;
        let engine = &self.engine;
        match route {
            Route::Query(name) => {
                let answer = engine.query(name, call.read(body).await?).await?;
                Ok(reply::text(StatusCode::OK, answer.0))
            }
            Route::CreateBranch => json(&engine.create(call.read(body).await?).await?),
            Route::DestroyBranch(name) => json(&engine.destroy(name)?),
            Route::Branch(name) => json(&engine.branch(name)?),
            Route::Branches => json(&engine.branches()),
            Route::ResetBranch(name) => json(&engine.reset(name).await?),
            Route::RenewBranch(name) => json(&engine.renew(name, call.read(body).await?)?),
            Route::ProtectBranch(name) => json(&engine.protect(name, call.read(body).await?)?),
            Route::AdministratorUrl(name) => json(&engine.administrator_url(name).await?),
            Route::Evidence(name, table) => {
                let table = table.map(|table| call.unescaped(table)).transpose()?;
                json(&engine.evidence_with(name, table.as_deref()).await?)
            }
            Route::Status => json(&engine.status()),
            Route::VerifyAudit => json(&engine.verify_audit().await?),
            Route::MeasureCold => {
                let wanted: MeasureCold = call.read(body).await?;
                json(&engine.measure_cold(&wanted.source, wanted.policy).await?)
            }
            Route::Shutdown => {
                tracing::info!("asked to stop");
                self.orders.give(Order::Stop);
                json(&Stopping { stopping: true })
            }
            Route::HandOver => {
                tracing::info!("asked to hand over");
                self.orders.give(Order::HandOver);
                json(&Stopping { stopping: true })
            }
            Route::Doors => json(&self.doors.view()),
            Route::Tokens => json(&self.doors.tokens()?.list()),
            Route::CreateToken => json(&self.doors.create_token(engine, call.read(body).await?)?),
            Route::RotateToken(name) => json(&self.doors.rotate_token(engine, name)?),
            Route::RevokeToken(name) => json(&self.doors.revoke_token(engine, name)?),
            Route::Sources => json(&engine.sources()),
            Route::AddSource => {
                let wanted: model::AddSource = call.read(body).await?;
                let engine = Arc::clone(engine);
                let import = |report| async move { engine.add_source(wanted, report).await };
                import::run(self.orders.ending(), import).await
            }
            Route::RefreshSource(name) => {
                let (engine, name) = (Arc::clone(engine), name.to_owned());
                let import = |report| async move { engine.refresh_source(&name, report).await };
                import::run(self.orders.ending(), import).await
            }
            Route::Source(name) => json(&engine.source(name)?),
            Route::RemoveSource(name) => {
                engine.remove_source(name).await?;
                json(&Removed { removed: name.to_owned() })
            }
            Route::ChangeSettings(name) => json(&engine.change_settings(name, call.read(body).await?).await?),
            Route::VerifySource(name) => json(&engine.verify_source(name).await?),
            Route::FingerprintSource(name) => json(&engine.fingerprint_source(name).await?),
            Route::IdlePss(name, sample) => json(&engine.idle_pss(name, call.sample(sample)?).await?),
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
        path.splitn(SEGMENTS_MAX + 1, '/').map(|segment| self.unescaped(segment)).collect()
    }

    fn unescaped<'a>(&self, text: &'a str) -> Result<Cow<'a, str>, Refusal> {
        segment::decode(text).ok_or_else(|| {
            let message = format!(
                "the path {:?} holds an escape that is not UTF-8 text; escape names as %XX",
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

    fn sample(&self, text: Option<&str>) -> Result<u32, Refusal> {
        let Some(text) = text else { return Ok(PSS_SAMPLE) };
        text.parse().map_err(|_| {
            let message =
                format!("sample={text} of {} {} is not a number of branches", self.method, self.path);
            Refusal::new(StatusCode::BAD_REQUEST, "bad_request", message)
        })
    }
}
