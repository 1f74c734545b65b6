//! What an HTTP step asks for, with every `$name` and `{name}` already in place.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::request::{MAX_HEADERS, MAX_HEADER_BYTES};

/// One HTTP request of a step, ready to be performed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpCall {
    /// The whole URL. Not yet checked against any policy.
    pub url: String,
    /// The method, in upper case: `GET`, `POST`, `PUT`, `DELETE` or `PATCH`.
    pub method: String,
    /// The body, if the request has one of its own; a multipart request has [`HttpCall::parts`] instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The parts of a `multipart/form-data` request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<Part>>,
    /// Header names and values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How long the whole exchange may take, in seconds.
    pub timeout_s: u32,
}

impl HttpCall {
    /// Hands on the trace that the request belongs to, unless it says itself to which it does, or has as many headers as it may
    /// have.
    ///
    /// ```
    /// let mut call = duramen_functions::http::HttpCall::default();
    /// call.trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned());
    /// assert!(call.headers["traceparent"].ends_with("-01"));
    /// ```
    pub fn trace(&mut self, traceparent: String) {
        const NAME: &str = "traceparent";
        let bytes: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let has_room =
            self.headers.len() < MAX_HEADERS && bytes + NAME.len() + traceparent.len() <= MAX_HEADER_BYTES;
        if has_room && !self.headers.keys().any(|name| name.eq_ignore_ascii_case(NAME)) {
            self.headers.insert(NAME.to_owned(), traceparent);
        }
    }
}

/// One part of a `multipart/form-data` request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The name of the form's field.
    pub name: String,
    /// The content, in standard base64.
    pub data_b64: String,
    /// The file name, for parts that are files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// The media type of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}
