//! Where spans go, as the standard's environment variables say.

use percent_encoding::percent_decode_str;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;

use crate::sampler::{Sampler, SamplerError};

/// The variable without which nothing is traced.
pub const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const SERVICE: &str = "OTEL_SERVICE_NAME";
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
/// The service, unless one is named.
const SERVICE_DEFAULT: &str = "duramen";

/// Where spans go, and which.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    pub(crate) url: Url,
    /// Whose values are not shown.
    pub(crate) headers: HeaderMap,
    pub(crate) service: String,
    pub(crate) sampler: Sampler,
    pub(crate) texts: bool,
}

/// Which setting is not understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceSettingsError {
    /// Not an address to send spans to.
    #[error("{ENDPOINT} is not the URL of a collector ({0}): write it like http://localhost:4318")]
    Endpoint(String),
    /// Spans go over HTTP only.
    #[error("{PROTOCOL} is {0:?}, and spans go over http/protobuf only: unset it, and name the port for HTTP, which is usually 4318")]
    Protocol(String),
    /// What stands there may be a secret, and is not told.
    #[error("{HEADERS}: entry {0} is not a header; write name=value,name=value with %2C for a comma inside of a value")]
    Headers(usize),
    /// Which traces are sent.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
}

impl TraceSettings {
    /// Reads the variables `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`,
    /// `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`. `None`: there is no endpoint, and nothing is traced.
    ///
    /// ```
    /// use duramen_traces::TraceSettings;
    /// let of = |endpoint: &'static str| {
    ///     TraceSettings::from_variables(move |name| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| endpoint.to_owned()))
    /// };
    /// assert!(of("http://localhost:4318")?.is_some());
    /// assert!(of("")?.is_none());
    /// assert!(of("localhost").is_err());
    /// # Ok::<(), duramen_traces::TraceSettingsError>(())
    /// ```
    ///
    /// # Errors
    /// If there is an endpoint, when one of the variables is not understood.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, TraceSettingsError> {
        // An empty one counts as none: so the standard wants it.
        let variable =
            |name| variable(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let Some(endpoint) = variable(ENDPOINT) else { return Ok(None) };
        let url = traces_at(&endpoint)?;
        if let Some(protocol) = variable(PROTOCOL).filter(|protocol| protocol != "http/protobuf") {
            return Err(TraceSettingsError::Protocol(protocol));
        }
        let headers = variable(HEADERS).map_or_else(|| Ok(HeaderMap::new()), |text| headers(&text))?;
        let service = variable(SERVICE).unwrap_or_else(|| SERVICE_DEFAULT.to_owned());
        let sampler = Sampler::parse(variable(SAMPLER).as_deref(), variable(SAMPLER_ARGUMENT).as_deref())?;
        Ok(Some(Self { url, headers, service, sampler, texts: false }))
    }

    /// Whether spans also have the SQL texts of steps and the messages of failures, both of which may hold data.
    #[must_use]
    pub fn with_texts(self, texts: bool) -> Self {
        Self { texts, ..self }
    }
}

impl TraceSettings {
    /// Which traces are sent.
    #[must_use]
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Whether spans have texts that may hold data.
    #[must_use]
    pub fn has_texts(&self) -> bool {
        self.texts
    }
}

/// Where a collector at this address takes traces.
fn traces_at(endpoint: &str) -> Result<Url, TraceSettingsError> {
    let refused = |reason: &str| TraceSettingsError::Endpoint(reason.to_owned());
    let mut url = Url::parse(endpoint).map_err(|error| refused(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("its scheme is neither http nor https"));
    }
    let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

fn headers(text: &str) -> Result<HeaderMap, TraceSettingsError> {
    let mut headers = HeaderMap::new();
    for (index, entry) in text.split(',').enumerate().filter(|(_, entry)| !entry.trim().is_empty()) {
        let refused = || TraceSettingsError::Headers(index + 1);
        let (name, value) = entry.split_once('=').ok_or_else(refused)?;
        let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| refused())?;
        let value: Vec<u8> = percent_decode_str(value.trim()).collect();
        let mut value = HeaderValue::from_bytes(&value).map_err(|_| refused())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests;
