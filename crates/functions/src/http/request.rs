//! From what a step says to a request that can be sent, or the reason why not.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue, CONTENT_TYPE};
use reqwest::{Body, Method, Request, Url};

use super::call::HttpCall;
use super::error::HttpError;
use super::multipart;

/// The most bytes that the body of a request may have, all parts together.
pub const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;
/// The most bytes that a URL may have.
pub const MAX_URL_BYTES: usize = 32 * 1024;
/// The most headers that a step may set.
pub const MAX_HEADERS: usize = 100;
/// The most bytes that the names and values of the headers may have together.
pub const MAX_HEADER_BYTES: usize = 64 * 1024;
/// The longest time that a step may give a call, in seconds.
pub const MAX_TIMEOUT_S: u32 = 3600;

/// Headers that say where one message ends and who gets it. They are the client's: a step that sets them could make
/// two requests of one, or talk to a host behind the one that was allowed.
const RESERVED: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The method of a call, in upper case.
pub(super) fn method(call: &HttpCall) -> Result<Method, HttpError> {
    let name = call.method.to_ascii_uppercase();
    let method = match name.as_str() {
        "GET" => Method::GET,
        "POST" => Method::POST,
        "PUT" => Method::PUT,
        "DELETE" => Method::DELETE,
        "PATCH" => Method::PATCH,
        _ => {
            let text = format!("the method {:?} is not one of GET, POST, PUT, DELETE and PATCH", call.method);
            return Err(HttpError::Malformed(text));
        }
    };
    if call.parts.is_some() && (method == Method::GET || method == Method::DELETE) {
        let text = format!("a multipart request cannot be {method}: use POST, PUT or PATCH");
        return Err(HttpError::Malformed(text));
    }
    Ok(method)
}

/// The URL of a call, if it is one that HTTP steps can have.
pub(super) fn url(call: &HttpCall) -> Result<Url, HttpError> {
    let malformed = |text: String| Err(HttpError::Malformed(text));
    if call.url.len() > MAX_URL_BYTES {
        let text = format!("the URL has {} bytes and may have {MAX_URL_BYTES}", call.url.len());
        return Err(HttpError::TooLarge(text));
    }
    let url = match Url::parse(&call.url) {
        Ok(url) => url,
        Err(error) => return malformed(format!("the URL cannot be understood: {error}")),
    };
    if !matches!(url.scheme(), "http" | "https") {
        return malformed(format!("unsupported URL scheme {:?}: use http or https", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return malformed(
            "the URL holds a user name or a password, which logs would keep: send an Authorization header"
                .to_owned(),
        );
    }
    if url.host_str().unwrap_or_default().is_empty() {
        return malformed("the URL names no host".to_owned());
    }
    Ok(url)
}

/// How long the call may take.
pub(super) fn time_limit(call: &HttpCall) -> Result<Duration, HttpError> {
    if (1..=MAX_TIMEOUT_S).contains(&call.timeout_s) {
        return Ok(Duration::from_secs(u64::from(call.timeout_s)));
    }
    let text = format!("timeout_seconds is {} and must be from 1 to {MAX_TIMEOUT_S}", call.timeout_s);
    Err(HttpError::Malformed(text))
}

/// The request of a call whose method and URL have been judged.
pub(super) fn build(call: &HttpCall, method: Method, url: Url) -> Result<Request, HttpError> {
    let mut headers = headers(call)?;
    let body = match (&call.body, &call.parts) {
        (Some(_), Some(_)) => {
            return Err(HttpError::Malformed("a request has a body or parts, not both".to_owned()))
        }
        (None, Some(parts)) => {
            let (content_type, body) = multipart::encode(parts)?;
            if headers.insert(CONTENT_TYPE, content_type).is_some() {
                let text = "a multipart request makes its own Content-Type: leave that header away";
                return Err(HttpError::Malformed(text.to_owned()));
            }
            Some(Body::from(body))
        }
        (Some(body), None) if body.len() > MAX_REQUEST_BYTES => return Err(body_too_large()),
        (Some(body), None) => Some(Body::from(body.clone())),
        (None, None) => None,
    };
    let mut request = Request::new(method, url);
    *request.headers_mut() = headers;
    *request.body_mut() = body;
    Ok(request)
}

/// The failure of a request with too much in it.
pub(super) fn body_too_large() -> HttpError {
    HttpError::TooLarge(format!("the request's body has more than {MAX_REQUEST_BYTES} bytes (16 MiB)"))
}

fn headers(call: &HttpCall) -> Result<HeaderMap, HttpError> {
    if call.headers.len() > MAX_HEADERS {
        let text = format!("the request has {} headers and may have {MAX_HEADERS}", call.headers.len());
        return Err(HttpError::TooLarge(text));
    }
    let bytes: usize = call.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MAX_HEADER_BYTES {
        let text = format!("the request's headers have {bytes} bytes and may have {MAX_HEADER_BYTES}");
        return Err(HttpError::TooLarge(text));
    }
    let mut headers = HeaderMap::with_capacity(call.headers.len());
    for (name, value) in &call.headers {
        let malformed = |what: &str| Err(HttpError::Malformed(format!("the header {name:?} {what}")));
        let Ok(key) = HeaderName::from_bytes(name.as_bytes()) else {
            return malformed("has a name that no header may have");
        };
        if RESERVED.contains(&key.as_str()) {
            return malformed("cannot be set by a step");
        }
        let Ok(value) = HeaderValue::from_str(value) else {
            return malformed("has a value with control characters");
        };
        if headers.insert(key, value).is_some() {
            return malformed("is there twice, in different cases");
        }
    }
    Ok(headers)
}
