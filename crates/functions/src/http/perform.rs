//! One call, from the policy's word to the envelope of the answer.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use duramen_base::clock;
use reqwest::{redirect, retry, Client, Request, Response, StatusCode, Url};
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;

use super::call::HttpCall;
use super::error::HttpError;
use super::policy::{HttpPolicy, Reach};
use super::request;
use super::resolve::{ResolveError, Resolver};
use crate::interpret::Failure;
use crate::json::Json;

/// The most bytes that the body of an answer may have.
pub const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;
/// How much of the body of a 5xx answer the failure quotes, in bytes.
const EXCERPT_BYTES: usize = 300;
/// How long the beginning of a 5xx answer's body may take; the status must not be lost to a body that never ends.
const EXCERPT_TIME: Duration = Duration::from_secs(2);
/// How long an idle connection is kept. Common servers close theirs after 5 s; a request that meets such a close on
/// its way fails, and a step that may not be idempotent cannot simply be sent again.
const IDLE_TIME: Duration = Duration::from_secs(3);
/// How many idle connections to one host are kept.
const IDLE_CONNECTIONS: usize = 16;

/// Performs the HTTP request of a step, if the policy allows it, and gives the envelope of the answer:
/// `{"status":200,"body":"..","encoding":"text","headers":{..},"ok":true,"duration_ms":12}`.
///
/// An answer with a status below 500 is a result; `ok` tells whether it is 2xx. Redirects are not followed but
/// results too. A body that is not text, or that holds a NUL character, which no `jsonb` can hold, is given in base64
/// (`"encoding":"base64"`). Headers that came more than once are joined by `, `.
///
/// The call's own time limit bounds everything: the resolution of the name, the connection, and the last byte of the
/// answer. Dropping the future ends the exchange.
///
/// # Errors
/// A [`Failure`] that names the method, the host and the cause when the policy or a limit forbids the request, when
/// the answer is 5xx, or when no whole answer came in time. Nothing is sent twice.
pub async fn perform(call: &HttpCall, policy: &HttpPolicy) -> Result<Json, Failure> {
    let function = if call.parts.is_some() { "df.http_multipart()" } else { "df.http()" };
    if !policy.enabled {
        return Err(HttpError::Disabled.into_failure(function));
    }
    let method = request::method(call).map_err(|error| error.into_failure(function))?;
    let what = format!("{function} {method}");
    let url = request::url(call).map_err(|error| error.into_failure(&what))?;
    let what = format!("{what} {}", place(&url));
    let envelope = async {
        let reach = policy.admit(&url)?;
        let time = request::time_limit(call)?;
        let request = request::build(call, method, url)?;
        let client = client(reach)?;
        match tokio::time::timeout(time, exchange(client, request)).await {
            Ok(envelope) => envelope,
            Err(_) => Err(HttpError::Timeout(call.timeout_s)),
        }
    };
    envelope.await.map_err(|error| error.into_failure(&what))
}

/// The host of a URL, with its port if that is not the scheme's own.
fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// What a step gets. The order of the fields is the order of the keys.
#[derive(Serialize)]
pub(crate) struct Envelope {
    status: u16,
    body: String,
    encoding: &'static str,
    headers: BTreeMap<String, String>,
    ok: bool,
    duration_ms: u64,
}

impl Envelope {
    /// What a service might have answered that was not asked. The status is below 500.
    pub(crate) fn stub(status: u16, body: String) -> Envelope {
        let ok = (200..300).contains(&status);
        Envelope { status, body, encoding: "text", headers: BTreeMap::new(), ok, duration_ms: 0 }
    }
}

async fn exchange(client: &Client, request: Request) -> Result<Json, HttpError> {
    let begin = clock::now();
    let mut response = client.execute(request).await.map_err(network)?;
    let status = response.status();
    if status.as_u16() >= 500 {
        return Err(HttpError::Server(server_error(status, response).await));
    }
    let headers = headers(&response);
    let (body, encoding) = match String::from_utf8(body(&mut response).await?) {
        Ok(text) if !text.contains('\0') => (text, "text"),
        Ok(text) => (STANDARD.encode(text), "base64"),
        Err(error) => (STANDARD.encode(error.as_bytes()), "base64"),
    };
    let envelope = Envelope {
        status: status.as_u16(),
        body,
        encoding,
        headers,
        ok: status.is_success(),
        duration_ms: u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    let text = serde_json::to_string(&envelope)
        .map_err(|error| HttpError::Network(format!("the answer cannot be written as JSON: {error}")))?;
    Ok(Json::from_valid(text))
}

/// The whole body of an answer.
async fn body(response: &mut Response) -> Result<Vec<u8>, HttpError> {
    let too_large = || {
        HttpError::TooLarge(format!(
            "the answer's body has more than {MAX_RESPONSE_BYTES} bytes (16 MiB); the server has acted on the request"
        ))
    };
    let announced = response.content_length().unwrap_or(0);
    if announced > MAX_RESPONSE_BYTES as u64 {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(network)? {
        if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The headers of an answer by name, in lower case.
fn headers(response: &Response) -> BTreeMap<String, String> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in response.headers() {
        let value = String::from_utf8_lossy(value.as_bytes());
        match headers.get_mut(name.as_str()) {
            Some(values) => {
                values.push_str(", ");
                values.push_str(&value);
            }
            None => {
                headers.insert(name.as_str().to_owned(), value.into_owned());
            }
        }
    }
    headers
}

/// What a 5xx answer says: its status, and the beginning of its body on one line.
async fn server_error(status: StatusCode, mut response: Response) -> String {
    let mut bytes = Vec::new();
    let read = async {
        while bytes.len() < EXCERPT_BYTES {
            match response.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk[..chunk.len().min(EXCERPT_BYTES)]),
                Ok(None) | Err(_) => break,
            }
        }
    };
    // What has come within the time is quoted, whole or not.
    let _ = tokio::time::timeout(EXCERPT_TIME, read).await;
    bytes.truncate(EXCERPT_BYTES);
    let text = String::from_utf8_lossy(&bytes);
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        return status.to_string();
    }
    format!("{status}, and its body begins: {}", words.join(" "))
}

/// Why an exchange broke, in the words of whoever broke it.
fn network(error: reqwest::Error) -> HttpError {
    let connecting = error.is_connect();
    let mut cause: &(dyn Error + 'static) = &error;
    let mut depth = 0;
    loop {
        if let Some(error) = cause.downcast_ref::<ResolveError>() {
            return match error {
                ResolveError::Unknown { .. } => HttpError::Network(error.to_string()),
                ResolveError::Private { .. } | ResolveError::Never { .. } => {
                    HttpError::Refused(error.to_string())
                }
            };
        }
        match cause.source() {
            Some(next) => cause = next,
            None => break,
        }
        depth += 1;
    }
    // The outermost error holds the URL, and a URL may hold a secret: only what lies below it is told.
    let cause = if depth == 0 { "the request cannot be sent".to_owned() } else { cause.to_string() };
    if connecting {
        return HttpError::Network(format!("no connection: {cause}"));
    }
    HttpError::Network(format!("the exchange broke: {cause}; whether the server has acted on it is unknown"))
}

/// The client for a reach, made at its first use. There are two, with pools of their own, so that a connection to a
/// private address is never there for a call that may not make one.
fn client(reach: Reach) -> Result<&'static Client, HttpError> {
    static PUBLIC: OnceLock<Result<Client, String>> = OnceLock::new();
    static PRIVATE: OnceLock<Result<Client, String>> = OnceLock::new();
    let client = match reach {
        Reach::Public => &PUBLIC,
        Reach::Private => &PRIVATE,
    };
    let client = client.get_or_init(|| new_client(reach));
    client.as_ref().map_err(|error| HttpError::Client(error.clone()))
}

fn new_client(reach: Reach) -> Result<Client, String> {
    Client::builder()
        .user_agent(concat!("duramen/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        // The environment's proxies would resolve names themselves, out of sight of the resolver.
        .no_proxy()
        .dns_resolver(Arc::new(Resolver { reach }))
        .http1_only()
        .tls_backend_preconfigured(tls()?)
        .pool_idle_timeout(IDLE_TIME)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .build()
        .map_err(|error| error.to_string())
}

/// TLS with the certificate authorities of the worker's host (or of `SSL_CERT_FILE`), which its operator maintains.
fn tls() -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // A host without authorities can still call http; its https calls fail with the reason.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
