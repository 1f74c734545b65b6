//! The body of a `multipart/form-data` request.

use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::DecodePaddingMode;
use base64::{alphabet, Engine as _};
use duramen_base::entropy;
use reqwest::header::HeaderValue;

use super::call::Part;
use super::error::HttpError;
use super::request::MAX_REQUEST_BYTES;

/// Standard base64; padding may be missing, as many programs leave it away.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The parts as one body, with the `Content-Type` that names its boundary.
pub(super) fn encode(parts: &[Part]) -> Result<(HeaderValue, Vec<u8>), HttpError> {
    if parts.is_empty() {
        return Err(HttpError::Malformed("a multipart request needs at least one part".to_owned()));
    }
    // 24 random characters: no part can hold the boundary except by a chance of 1 in 10^35.
    let boundary = format!("duramen-{}", entropy::token(24));
    let mut body = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let data = decode(&part.data_b64).map_err(|error| {
            HttpError::Malformed(format!("data_b64 of part {} is not base64: {error}", index + 1))
        })?;
        let mut head =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", quoted(&part.name));
        if let Some(filename) = &part.filename {
            head.push_str(&format!("; filename=\"{}\"", quoted(filename)));
        }
        head.push_str("\r\n");
        if let Some(kind) = &part.content_type {
            // A line break in it would begin a header or a part of its own.
            if HeaderValue::from_str(kind).is_err() {
                let text = format!("content_type of part {} holds characters that no header may", index + 1);
                return Err(HttpError::Malformed(text));
            }
            head.push_str(&format!("Content-Type: {kind}\r\n"));
        }
        head.push_str("\r\n");
        if body.len() + head.len() + data.len() > MAX_REQUEST_BYTES {
            return Err(super::request::body_too_large());
        }
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(&data);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let content_type = HeaderValue::from_str(&format!("multipart/form-data; boundary={boundary}"))
        .map_err(|error| HttpError::Malformed(error.to_string()))?;
    Ok((content_type, body))
}

/// The bytes of a base64 text. PostgreSQL's `encode(.., 'base64')` breaks its lines, so line breaks are passed over.
fn decode(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    if text.contains(|c: char| c.is_ascii_whitespace()) {
        let joined: String = text.split_ascii_whitespace().collect();
        return BASE64.decode(joined);
    }
    BASE64.decode(text)
}

/// A name inside double quotes, escaped as browsers do it.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("%22"),
            '\r' => out.push_str("%0D"),
            '\n' => out.push_str("%0A"),
            '\0' => out.push_str("%00"),
            c => out.push(c),
        }
    }
    out
}
