//! The doors of a home: its tokens, and what listens for their holders.

use crate::{
    console::Console,
    door::Counts,
    fleet::Peers,
    http_door::{HttpDoor, HttpError, HttpHandle, HttpOptions, Known},
    metrics::RouterMetrics,
    router::{Router, RouterError, RouterHandle, RouterOptions},
    tokens::{TokenError, Tokens},
    traces::Tracer,
};
use duramen_api::doors::DoorsView;
use duramen_api::token::{CreateToken, NewToken, Token};
use duramen_branches::{Engine, EngineError};
use serde_json::json;
use std::{net::SocketAddr, path::Path, sync::Arc};

/// The directory of a home in which tokens and the certificate are kept.
const DIR: &str = "doors";

/// The doors of a home.
#[derive(Debug)]
pub(crate) struct Doors {
    /// Or why they cannot be used.
    tokens: Result<Arc<Tokens>, EngineError>,
    router: Option<RouterHandle>,
    http: Option<HttpHandle>,
    /// Who is signed in at the HTTP door.
    console: Option<Arc<Console>>,
}

/// Why a door that should be open is not.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorError {
    /// That for PostgreSQL clients.
    #[error(transparent)]
    Router(#[from] RouterError),
    /// That for HTTP.
    #[error(transparent)]
    Http(#[from] HttpError),
}

/// What is to serve those who come by the doors.
#[derive(Debug, Default)]
pub(crate) struct Open {
    pub(crate) router: Option<Router>,
    pub(crate) http: Option<HttpDoor>,
}

impl Doors {
    /// Opens the doors of a home, and gives what is to serve there. Without its tokens nobody is let in, but the daemon
    /// serves who comes by its socket.
    pub(crate) fn open(
        (engine, tracer): (&Arc<Engine>, Option<Arc<Tracer>>),
        home: &Path,
        options: RouterOptions,
        http_listen: Option<SocketAddr>,
    ) -> Result<(Doors, Open), DoorError> {
        let dir = home.join(DIR);
        let tokens = match Tokens::open(&dir) {
            Ok(tokens) => Arc::new(tokens),
            Err(error) => {
                tracing::error!(%error, "nobody is let in by the doors");
                let doors =
                    Doors { tokens: Err(error.into_engine_error()), router: None, http: None, console: None };
                return Ok((doors, Open::default()));
            }
        };
        let http = http_listen.map(|address| HttpOptions {
            address,
            identity: options.identity.clone(),
            insecure: options.insecure,
            unmasked_ok: options.unmasked_ok,
        });
        let counts = Arc::<Counts>::default();
        let parts = (Arc::clone(engine), Arc::clone(&tokens), Arc::clone(&counts));
        let router = Router::bind(parts, tracer, &dir, options)?;
        let handle = router.as_ref().and_then(|router| router.handle().ok());
        if let Some(handle) = &handle {
            tracing::info!(address = %handle.view().address, "PostgreSQL clients can connect");
        }
        let console = http.as_ref().map(|_| Arc::new(Console::open(&dir, Arc::clone(&counts))));
        let http = http
            .zip(console.clone())
            .map(|(http, console)| {
                let known = Known { tokens: Arc::clone(&tokens), counts, console };
                HttpDoor::bind(known, handle.clone(), &dir, http)
            })
            .transpose()?;
        let http_handle = http.as_ref().map(HttpDoor::handle);
        if let Some(handle) = &http_handle {
            tracing::info!(address = %handle.view().address, "HTTP clients can connect");
        }
        let doors = Doors { tokens: Ok(tokens), router: handle, http: http_handle, console };
        Ok((doors, Open { router, http }))
    }

    pub(crate) fn view(&self) -> DoorsView {
        DoorsView {
            postgres: self.router.as_ref().map(RouterHandle::view),
            http: self.http.as_ref().map(HttpHandle::view),
            problem: self.tokens.as_ref().err().map(|error| error.message.clone()),
        }
    }

    /// Has the doors read their certificates anew, which may have been renewed. One that cannot be used changes nothing.
    pub(crate) fn read_certificates(&self) {
        let read = [
            self.router.as_ref().map(RouterHandle::read_certificate),
            self.http.as_ref().map(HttpHandle::read_certificate),
        ];
        for result in read.into_iter().flatten() {
            match result {
                Ok(()) => tracing::info!("a certificate was read anew"),
                Err(error) => tracing::error!(%error, "the certificate of before stays"),
            }
        }
    }

    /// What the router counts, if there is one.
    pub(crate) fn router_metrics(&self) -> Option<&RouterMetrics> {
        self.router.as_ref().map(RouterHandle::metrics)
    }

    /// Who is signed in at the HTTP door, if there is one.
    pub(crate) fn console(&self) -> Option<&Console> {
        self.console.as_deref()
    }

    /// The router, for who passes sessions on to it.
    #[cfg(feature = "fleet")]
    pub(crate) fn router(&self) -> Option<RouterHandle> {
        self.router.clone()
    }

    /// The tokens, for who follows them beside the doors.
    #[cfg(feature = "fleet")]
    pub(crate) fn shared_tokens(&self) -> Option<Arc<Tokens>> {
        self.tokens.as_ref().ok().cloned()
    }

    pub(crate) fn tokens(&self) -> Result<&Tokens, EngineError> {
        self.tokens.as_deref().map_err(EngineError::clone)
    }

    /// Makes a token. One that is not in the audit log does not exist.
    pub(crate) async fn create_token(
        &self,
        engine: &Engine,
        fleet: Option<&Peers>,
        wanted: CreateToken,
    ) -> Result<NewToken, EngineError> {
        let tokens = self.tokens()?;
        for source in &wanted.sources {
            engine.source(source)?;
        }
        let made = match fleet {
            Some(fleet) => fleet.create_token(tokens, wanted).await?,
            None => tokens.create(wanted).map_err(TokenError::into_engine_error)?,
        };
        if let Err(error) = noted(engine, "token_created", &made.token) {
            let _ = match fleet {
                Some(fleet) => fleet.revoke_token(tokens, &made.token.name).await.map(|(token, _)| token),
                None => tokens.revoke(&made.token.name).map_err(TokenError::into_engine_error),
            };
            return Err(error);
        }
        Ok(made)
    }

    /// Gives a token another secret.
    pub(crate) async fn rotate_token(
        &self,
        engine: &Engine,
        fleet: Option<&Peers>,
        name: &str,
    ) -> Result<NewToken, EngineError> {
        let made = match fleet {
            Some(fleet) => fleet.rotate_token(self.tokens()?, name).await?,
            None => self.tokens()?.rotate(name).map_err(TokenError::into_engine_error)?,
        };
        noted(engine, "token_rotated", &made.token)?;
        Ok(made)
    }

    /// Brings a token back that is suspended.
    pub(crate) async fn restore_token(
        &self,
        engine: &Engine,
        fleet: Option<&Peers>,
        name: &str,
    ) -> Result<Token, EngineError> {
        let tokens = self.tokens()?;
        let token = match fleet {
            Some(fleet) => fleet.restore_token(tokens, name).await?,
            None => tokens.restore(name, None).map_err(TokenError::into_engine_error)?,
        };
        noted(engine, "token_restored", &token)?;
        Ok(token)
    }

    /// Ends a token.
    pub(crate) async fn revoke_token(
        &self,
        engine: &Engine,
        fleet: Option<&Peers>,
        name: &str,
    ) -> Result<Token, EngineError> {
        let (token, later) = match fleet {
            Some(fleet) => fleet.revoke_token(self.tokens()?, name).await?,
            None => (self.tokens()?.revoke(name).map_err(TokenError::into_engine_error)?, None),
        };
        noted(engine, "token_revoked", &token)?;
        // It is revoked here, and not everywhere yet.
        later.map_or(Ok(token), Err)
    }
}

fn noted(engine: &Engine, event: &str, token: &Token) -> Result<(), EngineError> {
    engine.note(event, json!({ "token": token.id, "name": token.name, "role": token.role }))
}
