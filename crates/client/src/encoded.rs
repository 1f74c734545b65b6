//! Bodies that are written before the request.

use super::ClientError;
use bytes::Bytes;
use serde::Serialize;
use std::marker::PhantomData;

/// A body that is JSON text already: for who times a request, or sends the same one many times.
#[derive(Debug, Clone)]
pub struct Encoded<T> {
    text: Bytes,
    of: PhantomData<T>,
}

impl<T: Serialize> Encoded<T> {
    /// Writes a body.
    ///
    /// # Errors
    /// [`ClientError::BadRequest`] when the value has no JSON form.
    pub fn new(value: &T) -> Result<Encoded<T>, ClientError> {
        let text = serde_json::to_vec(value).map_err(|error| ClientError::BadRequest {
            request: "a body".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Encoded { text: text.into(), of: PhantomData })
    }

    /// The text.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.text
    }
}
