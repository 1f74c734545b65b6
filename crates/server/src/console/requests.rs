//! What a browser asks about itself: to be signed in and out, and who it is.

use super::{browser::Browser, links, Console, Shown};
use crate::{
    api::{Answer, Api, Call},
    caller::{Caller, Visitor},
    http_door::{self, Credentials},
    reply::{self, json, Refusal},
    tokens::{Grant, TokenError},
};
use axum::body::Body;
use duramen_api::{
    console::{MakeConsoleLink, NewConsoleLink, SessionView, SignIn},
    route::{Op, ENDPOINTS},
    token::{CreateToken, Role, Token},
};
use duramen_base::{clock, entropy};
use duramen_branches::{EngineError, Kind};
use hyper::{header::SET_COOKIE, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::json as object;

/// What the names of tokens begin with that links are made for, and how many characters follow.
const NAME: &str = "console-";
const NAME_CHARS: usize = 6;
/// How long such a token lasts.
const LASTS: SignedDuration = SignedDuration::from_hours(12);

impl Api {
    /// Makes a link for somebody on the machine.
    pub(crate) async fn make_console_link(&self, wanted: MakeConsoleLink) -> Answer {
        let console = self.console()?;
        let now = clock::utc_now();
        let name = match wanted.token {
            Some(name) => name,
            None => self.make_console_token(now).await?,
        };
        let grant = self.doors.tokens()?.alive(&name).map_err(TokenError::into_engine_error)?;
        let token = Token::clone(&grant.token);
        self.engine.note("console_link_made", object!({ "token": token.id, "name": token.name }))?;
        let link = console.links.make(&grant, clock::now());
        let good_for = SignedDuration::try_from(links::GOOD_FOR).unwrap_or_default();
        let expires_at = now.checked_add(good_for).unwrap_or(Timestamp::MAX);
        json(&NewConsoleLink { link, expires_at, token })
    }

    /// Makes a token whose secret nobody gets, and removes those of before that have ended.
    async fn make_console_token(&self, now: Timestamp) -> Result<String, Refusal> {
        for old in
            self.doors.tokens()?.list().iter().filter(|token| is_made_here(token) && token.is_over(now))
        {
            // It lets nobody in, removed or not.
            if let Err(error) = self.doors.revoke_token(&self.engine, self.fleet.as_deref(), &old.name).await
            {
                tracing::debug!(%error, token = old.name, "a token of the console that is over is removed later");
            }
        }
        let wanted = CreateToken {
            name: format!("{NAME}{}", entropy::token(NAME_CHARS)),
            role: Role::Admin,
            expires_at: now.checked_add(LASTS).ok(),
            ..CreateToken::default()
        };
        let made = self.doors.create_token(&self.engine, self.fleet.as_deref(), wanted.clone()).await;
        let made = match made {
            // Without etcd the console shows what this machine has.
            Err(error) if error.kind == Kind::Unavailable => {
                self.doors.create_token(&self.engine, None, wanted).await
            }
            made => made,
        };
        Ok(made?.token.name)
    }

    /// Signs somebody in, who came by the HTTP door.
    pub(crate) async fn sign_in(&self, call: &Call<'_>, body: Body) -> Answer {
        let console = self.console()?;
        let Some(browser) = Browser::of(call.head) else {
            let message =
                "a browser is signed in at the HTTP door; on the daemon's socket nobody needs to be";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "not_allowed", message));
        };
        // A page of another site could sign somebody in as another one.
        browser.is_own(&call.head.method, &call.head.headers)?;
        let SignIn { link, name, secret } = call.read(body).await?;
        let tokens = self.doors.tokens()?;
        let failures = &console.counts.failures;
        let grant = match (link, name, secret) {
            (Some(link), None, None) => console.links.take(tokens, &link, clock::now()),
            (None, Some(name), Some(secret)) => {
                http_door::check(tokens, failures, browser.peer, Credentials { name, secret }).await?
            }
            _ => return Err(call.bad(format_args!("a sign-in has a link, or a name and a secret"))),
        };
        let Some(grant) = grant else {
            return Err(http_door::refused(failures, browser.peer));
        };
        let cookie = self.begin(console, browser, call, &grant)?;
        let mut response = reply::done();
        response.headers_mut().insert(SET_COOKIE, cookie);
        Ok(response)
    }

    /// Begins a session. One that is not in the audit log is none.
    fn begin(
        &self,
        console: &Console,
        browser: &Browser,
        call: &Call<'_>,
        grant: &Grant,
    ) -> Result<hyper::header::HeaderValue, Refusal> {
        let tokens = self.doors.tokens()?;
        let now = clock::utc_now();
        if let Shown::Secret(secret) = browser.shown(&call.head.headers) {
            // The cookie is about to be another one, so nobody could end the session of this one.
            if let Some(before) = console.sessions.find(tokens, secret, now).and_then(Grant::into_session) {
                console.sessions.end(&before).map_err(not_kept)?;
            }
        }
        let (secret, session) = console.sessions.begin(tokens, grant, now).map_err(not_kept)?;
        let Token { id, name, .. } = &*grant.token;
        let noted = object!({ "token": id, "name": name, "address": browser.peer });
        if let Err(error) = self.engine.note("signed_in", noted) {
            let _ = console.sessions.end(&session);
            return Err(error.into());
        }
        Ok(browser.given(&secret))
    }

    /// Ends the session by which a request came.
    pub(crate) fn sign_out(&self, call: &Call<'_>, visitor: &Visitor) -> Answer {
        let (Some(session), Some(browser)) = (&visitor.session, Browser::of(call.head)) else {
            let message = "this shows a token and is no session, so there is nothing to sign out of";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, "no_session", message));
        };
        self.console()?.sessions.end(session).map_err(not_kept)?;
        let Token { id, name, .. } = &*visitor.token;
        self.engine.note("signed_out", object!({ "token": id, "name": name }))?;
        let mut response = reply::done();
        response.headers_mut().insert(SET_COOKIE, browser.taken());
        Ok(response)
    }

    fn console(&self) -> Result<&Console, Refusal> {
        self.doors.console().ok_or_else(|| {
            let message = "the daemon has no HTTP door, at which browsers come in; start it with one: \
                           duramen serve --http-listen 127.0.0.1:6433";
            EngineError::new(Kind::Unavailable, "no_http_door", message.to_owned()).into()
        })
    }
}

/// Whose session or token a request is of (W7).
pub(crate) fn session(visitor: &Visitor, in_fleet: bool) -> SessionView {
    let caller = Caller::Holder(visitor.clone());
    // What nobody can do without a fleet is not offered.
    let is_there =
        |op: Op| in_fleet || !matches!(op, Op::Nodes | Op::Cluster | Op::NodeReport | Op::DrainNode);
    let operations =
        ENDPOINTS.iter().map(|endpoint| endpoint.op).filter(|op| is_there(*op) && caller.may(*op).is_ok());
    let token = Token::clone(&visitor.token);
    let session = visitor.session.as_ref();
    SessionView {
        signed_in_at: session.map(|session| session.began_at()),
        ends_at: session.map(|session| session.ends_at()).into_iter().chain(token.expires_at).min(),
        sees_unmasked: visitor.sees_unmasked,
        operations: operations.map(|op: Op| op.name().to_owned()).collect(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        token,
    }
}

/// Whether a token was made for a link.
fn is_made_here(token: &Token) -> bool {
    let rest = token.name.strip_prefix(NAME);
    rest.is_some_and(|rest| rest.len() == NAME_CHARS)
        && token.role == Role::Admin
        && token
            .expires_at
            .is_some_and(|end| (end.duration_since(token.created_at) - LASTS).as_secs().abs() < 60)
}

fn not_kept(error: super::sessions::NotKept) -> Refusal {
    EngineError::new(Kind::Failed, "sessions_failed", error.to_string()).into()
}
