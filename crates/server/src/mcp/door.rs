//! `/mcp` at the HTTP door: the protocol over HTTP, without sessions. Each request stands for itself and is its token's, so there
//! is nothing that somebody could open and forget, or take over (M5).

use super::{interface::Way, server::Server};
use crate::{api, caller::Caller, reply::Refusal};
use axum::{body::Body, extract::Request, routing::any, Router};
use http_body_util::Full;
use hyper::Response;
use rmcp::transport::streamable_http_server::{
    session::never::NeverSessionManager, StreamableHttpServerConfig, StreamableHttpService,
};
use std::sync::Arc;

/// Adds `/mcp` to the requests that `found` answers. Its tools make those.
pub(crate) fn with_mcp(found: Router) -> Router {
    let server = Server::new(Way::Here(found.clone()));
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
