//! What an HTTP step asks for, with every `$name` and `{name}` already in place.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
