//! Entity tags: who asks again for what he has already is told so in a line (RFC 9110, section 8.8.3).

use axum::body::{to_bytes, Body};
use hyper::{
    body::Body as _,
    header::{HeaderValue, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH},
    HeaderMap, Response, StatusCode,
};

/// Gives the reply to a GET its tag; or, if it is one that the client has already, says that alone.
pub(super) async fn tagged(asked: &HeaderMap, reply: Response<Body>) -> Response<Body> {
    let (mut head, body) = reply.into_parts();
    let size = body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
    let Some(size) = size.filter(|_| head.status == StatusCode::OK) else {
        return Response::from_parts(head, body);
    };
    // It is there already, in one piece.
    let Ok(body) = to_bytes(body, size).await else {
        head.status = StatusCode::INTERNAL_SERVER_ERROR;
        return Response::from_parts(head, Body::empty());
    };
    let tag = format!("\"{}\"", &blake3::hash(&body).to_hex().as_str()[..32]);
    let known = asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag);
    if let Ok(tag) = HeaderValue::try_from(tag) {
        head.headers.insert(ETAG, tag);
        // It is the token's holder's, and may be another one at once.
        head.headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    }
    if is_known {
        head.status = StatusCode::NOT_MODIFIED;
        head.headers.remove(CONTENT_TYPE);
        head.headers.remove(CONTENT_LENGTH);
        return Response::from_parts(head, Body::empty());
    }
    Response::from_parts(head, Body::from(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(known: &str, text: &'static str) -> (StatusCode, HeaderValue, usize) {
        let asked = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_str(known).unwrap())]);
        let reply = tagged(&asked, Response::new(Body::from(text))).await;
        let (head, body) = reply.into_parts();
        (head.status, head.headers[ETAG].clone(), to_bytes(body, 100).await.unwrap().len())
    }

    #[tokio::test]
    async fn what_is_known_is_not_sent_again() {
        let (status, tag, length) = ask("\"other\"", "one").await;
        assert_eq!((status, length), (StatusCode::OK, 3));
        let tag = tag.to_str().unwrap();
        for known in [tag.to_owned(), format!("\"x\", W/{tag}"), "*".to_owned()] {
            let (status, again, length) = ask(&known, "one").await;
            assert_eq!((status, again.to_str().unwrap(), length), (StatusCode::NOT_MODIFIED, tag, 0));
        }
        assert_eq!(ask(tag, "two").await.0, StatusCode::OK);
    }
}
