//! Pages of lists: at most so many, after a name.

use crate::{
    api::{Answer, Call},
    reply::{json, Refusal},
};
use duramen_api::{route::PAGE_MAX, segment};
use hyper::header::{HeaderValue, LINK};
use serde::Serialize;

/// Replies with a list that is in the order of its names, or with the page of it that was asked for. Where the next one begins
/// is in the header `Link` (RFC 8288).
pub(crate) fn reply<T: Serialize>(call: &Call<'_>, mut list: Vec<T>, name: impl Fn(&T) -> &String) -> Answer {
    let limit = limit(call)?;
    if let Some(cursor) = call.parameter("cursor")? {
        list.retain(|item| name(item).as_str() > cursor.as_ref());
    }
    let more = limit.is_some_and(|limit| list.len() > limit);
    if let Some(limit) = limit {
        list.truncate(limit);
    }
    let mut response = json(&list)?;
    if let (true, Some(last), Some(limit)) = (more, list.last(), limit) {
        let mut link = format!("<{}?limit={limit}&cursor=", call.endpoint.path);
        segment::escape(name(last), &mut link);
        link.push_str(">; rel=\"next\"");
        // What is escaped fits into a header.
        if let Ok(link) = HeaderValue::try_from(link) {
            response.headers_mut().insert(LINK, link);
        }
    }
    Ok(response)
}

/// How many the request asks for, if it says so.
pub(crate) fn limit(call: &Call<'_>) -> Result<Option<usize>, Refusal> {
    call.parameter("limit")?.map(|text| number(call, &text)).transpose()
}

fn number(call: &Call<'_>, text: &str) -> Result<usize, Refusal> {
    match text.parse::<u32>() {
        Ok(limit) if (1..=PAGE_MAX).contains(&limit) => Ok(limit as usize),
        _ => Err(call.bad(format_args!("limit={text} is not a number from 1 to {PAGE_MAX}"))),
    }
}
