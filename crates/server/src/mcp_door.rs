//! `/mcp` at the HTTP door: the protocol over HTTP, without sessions. Each request stands for itself and is its token's, so there
//! is nothing that somebody could open and forget, or take over (M5).

use crate::{api, caller::Caller, reply::Refusal};
use axum::{body::Body, extract::Request, routing::any, Router};
use bytes::Bytes;
use duramen_api::route::Route;
use duramen_mcp::{Answered, Asker, Here, Server};
use http_body_util::{BodyExt, Full};
use hyper::{http::request::Parts, Response};
use rmcp::transport::streamable_http_server::{
    session::never::NeverSessionManager, StreamableHttpServerConfig, StreamableHttpService,
};
use std::sync::Arc;
use tower_service::Service;

/// The requests that the daemon answers, for agents that come by its door.
#[derive(Debug)]
struct Found(Router);

/// The caller of an agent's request.
#[derive(Debug)]
struct Own {
    found: Router,
    caller: Caller,
}

impl Here for Found {
    fn asker(&self, head: &Parts) -> Option<Arc<dyn Asker>> {
        let caller = head.extensions.get::<Caller>()?.clone();
        Some(Arc::new(Own { found: self.0.clone(), caller }))
    }
}

impl Asker for Own {
    fn ask(&self, route: Route<'_>, body: Bytes) -> Answered {
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = route.method();
        let path = route.path().parse().map(|path| *request.uri_mut() = path);
        request.extensions_mut().insert::<Caller>(self.caller.clone());
        let mut found = self.found.clone();
        Box::pin(async move {
            path.map_err(|error| error.to_string())?;
            let response = match found.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.map_err(|error| error.to_string())?;
            Ok((status, body.to_bytes()))
        })
    }
}

/// Adds `/mcp` to the requests that `found` answers. Its tools make those.
pub(crate) fn with_mcp(found: Router) -> Router {
    let server = Server::here(Arc::new(Found(found.clone())));
    // Names and pages of other sites are the door's to check (H7), and it has.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_max_request_body_bytes(crate::listener::BODY_MAX);
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    let answer = move |request: Request| {
        let service = service.clone();
        async move {
            admitted(&service, request).await.unwrap_or_else(|refusal| refusal.into_response().map(Body::new))
        }
    };
    found.route("/mcp", any(answer))
}

/// Answers somebody who has shown a token (M1).
async fn admitted(
    service: &StreamableHttpService<Server, NeverSessionManager>,
    request: Request,
) -> Result<Response<Body>, Refusal> {
    match request.extensions().get::<Caller>() {
        Some(Caller::Holder(_)) => {}
        _ => return Err(Refusal::unauthenticated()),
    }
    let (head, body) = request.into_parts();
    let what = format!("{} {}", head.method, head.uri.path());
    let body = api::collect(&what, body).await?;
    Ok(service.handle(Request::from_parts(head, Full::new(body))).await.map(Body::new))
}
