//! The page's files over HTTP. They are the same for everybody, so no cookie is looked at.

use crate::reply::Refusal;
use axum::body::Body;
use bytes::Bytes;
use duramen_console::{File, Site};
use hyper::{
    header::{
        HeaderName, HeaderValue, ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING,
        CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_FRAME_OPTIONS,
    },
    HeaderMap, Method, Response, StatusCode,
};

/// W4.
const POLICY: &str =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; \
                      connect-src 'self'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'";
const ALWAYS: [(HeaderName, &str); 7] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
    (VARY, "accept-encoding"),
];

/// The reply to a request for one of the page's files; nothing, if there is none at this path.
pub(crate) fn page(
    site: &'static Site,
    method: &Method,
    path: &str,
    asked: &HeaderMap,
) -> Option<Response<Body>> {
    let file = site.find(path)?;
    let mut response = match *method {
        Method::GET | Method::HEAD => sent(file, asked),
        _ => {
            let message = format!("{path} is a part of the console's page, and can be read only");
            let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "unknown_route", message);
            let mut response = refusal.into_response().map(Body::new);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            response
        }
    };
    for (name, value) in ALWAYS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Some(response)
}

fn sent(file: &'static File, asked: &HeaderMap) -> Response<Body> {
    let zipped = if takes_gzip(asked) { file.zipped() } else { None };
    let tag = format!("\"{}{}\"", file.tag(), if zipped.is_some() { "-gzip" } else { "" });
    let known = asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag);
    let body = if is_known { &[] } else { zipped.unwrap_or_else(|| file.bytes()) };
    let mut response = Response::new(Body::from(Bytes::from_static(body)));
    let headers = response.headers_mut();
    headers.insert(ETAG, HeaderValue::try_from(tag).expect("hexadecimal digits fit into a header"));
    let kept = if file.is_hashed() { "public, max-age=31536000, immutable" } else { "no-cache" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(kept));
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.kind()));
    if zipped.is_some() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Whether a client takes gzip (RFC 9110, section 12.5.3).
fn takes_gzip(asked: &HeaderMap) -> bool {
    let texts = asked.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").map_or(Ok(1.0), |weight| weight.trim().parse::<f32>());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_ok_and(|weight| weight > 0.0)
    })
}

#[cfg(test)]
#[path = "../../tests/unit/console_page.rs"]
mod tests;
