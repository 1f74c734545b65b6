//! Where traces go, if the environment says where to.

/// The variable without which nothing is traced.
pub(crate) const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What the variables of OpenTelemetry say.
#[cfg(feature = "otlp")]
pub(crate) fn settings() -> Result<Option<duramen_traces::TraceSettings>, crate::failure::Failure> {
    let settings = duramen_traces::TraceSettings::from_variables(variable);
    let settings = settings.map_err(|error| crate::failure::Failure::Usage(error.to_string()))?;
    if settings.is_some() {
        tracing::info!("traces are sent to what {ENDPOINT} says");
    }
    Ok(settings)
}

/// Says that nothing is traced, where somebody expects it.
#[cfg(not(feature = "otlp"))]
pub(crate) fn warn() {
    if variable(ENDPOINT).is_some_and(|endpoint| !endpoint.trim().is_empty()) {
        tracing::warn!(
            "{ENDPOINT} is set, and this program was built without traces: build it with --features otlp, or take a package"
        );
    }
}
