use super::{TraceSettings, TraceSettingsError};

fn read(variables: &[(&str, &str)]) -> Result<Option<TraceSettings>, TraceSettingsError> {
    TraceSettings::from_variables(|wanted| {
        variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn the_path_for_traces_is_appended_to_the_endpoint() {
    for (endpoint, url) in [
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
        ("https://otel.example/in/", "https://otel.example/in/v1/traces"),
    ] {
        assert_eq!(read(&[(super::ENDPOINT, endpoint)]).unwrap().unwrap().url.as_str(), url);
    }
}

#[test]
fn headers_are_decoded_and_never_shown() {
    let settings = read(&[
        (super::ENDPOINT, "http://localhost:4318"),
        (super::HEADERS, "authorization=Bearer%20hush%2Cquiet, x-tenant = a"),
    ]);
    let settings = settings.unwrap().unwrap();
    assert_eq!(settings.headers["authorization"], "Bearer hush,quiet");
    assert_eq!(settings.headers["x-tenant"], "a");
    assert!(!format!("{settings:?}").contains("hush"));
    let refused = read(&[(super::ENDPOINT, "http://localhost:4318"), (super::HEADERS, "a=b,hush")]);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("entry 2") && !refused.contains("hush"), "{refused}");
    assert!(read(&[(super::ENDPOINT, "http://localhost:4318"), (super::HEADERS, "a=b%0Ac: d")]).is_err());
}

#[test]
fn nothing_is_traced_unless_there_is_an_endpoint() {
    assert!(read(&[]).unwrap().is_none());
    // What is not used is not looked at.
    assert!(read(&[(super::ENDPOINT, " "), (super::SAMPLER, "xray")]).unwrap().is_none());
}

#[test]
fn what_is_not_understood_is_refused() {
    assert!(read(&[(super::ENDPOINT, "localhost:4318")]).is_err());
    assert!(read(&[(super::ENDPOINT, "file:///tmp/x")]).is_err());
    let with = |name, value| read(&[(super::ENDPOINT, "http://localhost:4318"), (name, value)]);
    assert!(with(super::PROTOCOL, "grpc").is_err());
    assert!(with(super::PROTOCOL, "http/protobuf").is_ok());
    assert!(with(super::SAMPLER, "xray").is_err());
}
