//! Who a request is from: the check of the token that it shows.

use super::{
    credentials::{self, Credentials, Shown},
    Shared,
};
use crate::{
    caller::{Caller, Visitor},
    console::{Browser, Shown as Cookie},
    door::{Failures, Place, Stranger},
    reply::Refusal,
    tokens::{Check, Grant, Tokens},
};
use duramen_base::clock;
use hyper::{http::uri::Authority, HeaderMap, Method, StatusCode};
use std::{
    net::{IpAddr, SocketAddr},
    sync::{Mutex, PoisonError},
};

/// The longest secret that is looked at, and the longest name.
const SECRET_MAX: usize = 256;

/// What a connection is counted as: a stranger's, then a token's.
#[derive(Debug)]
pub(super) struct Counted(Mutex<State>);

#[derive(Debug)]
struct State {
    stranger: Option<Stranger>,
    place: Option<Place>,
}

impl Counted {
    pub(super) fn of(stranger: Stranger) -> Counted {
        Counted(Mutex::new(State { stranger: Some(stranger), place: None }))
    }

    /// Counts the connection as that of a token's holder (H8).
    fn belongs_to(&self, shared: &Shared, grant: &Grant) -> Result<(), Refusal> {
        let token = &grant.token;
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.place.as_ref().is_some_and(|place| place.is_of(token)) {
            state.place = Some(shared.known.counts.places.take(token).ok_or_else(|| {
                let message = format!(
                    "the token {} has {} connections, which is as many as it may; close some",
                    token.name, token.max_connections
                );
                Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_connections", message)
            })?);
        }
        state.stranger = None;
        Ok(())
    }
}

/// Who sent a request with these headers, and what ends it if that is somebody. What shows a token is never a session's (W3).
pub(super) async fn caller(
    shared: &Shared,
    counted: &Counted,
    browser: &Browser,
    called: &Authority,
    (method, headers): (&Method, &HeaderMap),
) -> Result<(Caller, Option<Grant>), Refusal> {
    let (known, peer) = (&shared.known, browser.peer);
    let grant = match credentials::shown(headers) {
        Shown::Nothing => {
            let Cookie::Secret(secret) = browser.shown(headers) else { return Ok((Caller::Nobody, None)) };
            browser.is_own(method, headers)?;
            // A cookie outlives its session, and then it is nothing. A secret of 256 bits is not guessed, so none is counted.
            let grant = known.console.sessions.find(&known.tokens, secret, clock::utc_now());
            let Some(grant) = grant else { return Ok((Caller::Nobody, None)) };
            Some(grant)
        }
        Shown::Malformed => None,
        Shown::Credentials(credentials) => {
            check(&known.tokens, &known.counts.failures, peer, credentials).await?
        }
    };
    let Some(grant) = grant else { return Err(refused(&known.counts.failures, peer)) };
    counted.belongs_to(shared, &grant)?;
    let visitor = Visitor {
        token: grant.token.clone(),
        // R5.
        sees_unmasked: shared.options.unmasked_ok || peer.is_loopback(),
        router: shared.router.as_ref().map(|router| reached(router.view().address, called)),
        session: grant.session().cloned(),
    };
    Ok((Caller::Holder(visitor), Some(grant)))
}

/// What the holder of a token has, if these are its name and its secret. The right secret is never kept waiting for what others
/// at its address did (H6).
pub(crate) async fn check(
    tokens: &Tokens,
    failures: &Failures,
    peer: IpAddr,
    Credentials { name, secret }: Credentials,
) -> Result<Option<Grant>, Refusal> {
    if name.len() > SECRET_MAX || secret.len() > SECRET_MAX {
        return Ok(None);
    }
    match tokens.check(&name, &secret) {
        Check::Right(grant) => Ok(Some(grant)),
        Check::Wrong => Ok(None),
        Check::Slow(..) if failures.are_too_many(peer, clock::now()) => Err(too_many()),
        Check::Slow(verifier, grant) => {
            let checked = tokio::task::spawn_blocking(move || (verifier.is_of(&secret), secret)).await;
            let Ok((true, secret)) = checked else { return Ok(None) };
            if let Some(grant) = &grant {
                tokens.learn(grant, &secret);
            }
            Ok(grant)
        }
    }
}

/// The refusal of who showed what is wrong, which is counted (H1, H6).
pub(crate) fn refused(failures: &Failures, peer: IpAddr) -> Refusal {
    match failures.may_fail(peer, clock::now()) {
        true => Refusal::unauthenticated(),
        false => too_many(),
    }
}

fn too_many() -> Refusal {
    let message = "too many wrong secrets came from this address; wait a second, and see that the token is the right one";
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_failures", message)
}

/// The host and port at which the router is reached by who called the door by a name.
fn reached(router: SocketAddr, called: &Authority) -> String {
    if router.ip().is_unspecified() {
        format!("{}:{}", called.host(), router.port())
    } else {
        router.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_router_is_where_the_door_is_unless_it_has_an_address_of_its_own() {
        let called: Authority = "db.example:6433".parse().unwrap();
        let router = |text: &str| reached(text.parse().unwrap(), &called);
        assert_eq!(router("0.0.0.0:6432"), "db.example:6432");
        assert_eq!(router("127.0.0.1:6432"), "127.0.0.1:6432");
        assert_eq!(router("[::1]:6432"), "[::1]:6432");
    }
}
