//! A daemon behind its HTTP door: its URL, the token that is shown there, and whose certificate is believed.

use crate::{wire::Wire, ClientError};
use duramen_api::segment;
use hyper::{
    header::HeaderValue,
    http::uri::{Authority, Scheme},
    Uri,
};
use rustls::{
    pki_types::{pem::PemObject, CertificateDer, ServerName},
    ClientConfig, RootCertStore,
};
use std::{io, net::IpAddr, path::Path, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The port of a URL that names none: what `duramen serve --http-listen` is given in all examples.
const PORT: u16 = 6433;

/// A daemon that is reached by a URL, with a token.
pub(crate) struct Remote {
    /// As it was given, for messages; it holds no secret.
    url: String,
    /// What the header `Host` says.
    host: HeaderValue,
    /// Without the brackets of an address of version 6.
    name: String,
    port: u16,
    tls: Option<TlsConnector>,
    authorization: HeaderValue,
    secret: String,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("url", &self.url).finish_non_exhaustive()
    }
}

impl std::fmt::Display for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.url)
    }
}

impl Remote {
    /// `token` is `NAME:SECRET`; `roots` a file of certificates (PEM) that are believed instead of the system's.
    pub(crate) fn new(url: &str, token: &str, roots: Option<&Path>) -> Result<Remote, ClientError> {
        let unfit = |what: &str| ClientError::BadUrl { url: shown(url), what: what.to_owned() };
        let uri: Uri = url.trim_end_matches('/').parse().map_err(|_| unfit("it is no URL"))?;
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.ok_or_else(|| unfit("it needs a host, and no user or password"))?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(unfit("it ends after the host and the port"));
        }
        let name = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => Some(connector(url, roots)?),
            // R4: the secret is in every request.
            Some(scheme) if *scheme == Scheme::HTTP && is_here(&name) => None,
            _ => return Err(unfit("it begins with https://, or, for this machine alone, with http://")),
        };
        let parts = token.split_once(':').filter(|(name, secret)| !name.is_empty() && !secret.is_empty());
        let (_, secret) = parts.ok_or_else(|| unfit("its token is not NAME:SECRET"))?;
        let mut authorization = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| unfit("its token has characters that no token has"))?;
        authorization.set_sensitive(true);
        let port = authority.port_u16().unwrap_or(PORT);
        let host =
            if authority.port().is_some() { authority.to_string() } else { format!("{authority}:{port}") };
        let host = Authority::try_from(host)
            .ok()
            .and_then(|host| HeaderValue::try_from(host.as_str()).ok())
            .ok_or_else(|| unfit("its host is no name"))?;
        Ok(Remote { url: shown(url), host, name, port, tls, authorization, secret: secret.to_owned() })
    }

    pub(crate) fn host(&self) -> HeaderValue {
        self.host.clone()
    }

    pub(crate) fn authorization(&self) -> HeaderValue {
        self.authorization.clone()
    }

    /// The URL of a branch with the secret that its door asks for.
    pub(crate) fn with_secret(&self, url: &str) -> String {
        let Some((user, rest)) = url.strip_prefix("postgresql://").and_then(|url| url.split_once('@')) else {
            return url.to_owned();
        };
        let mut whole = format!("postgresql://{user}:");
        segment::escape(&self.secret, &mut whole);
        whole.push('@');
        whole.push_str(rest);
        whole
    }

    /// A connection over which nothing was said yet.
    pub(crate) async fn connect(&self) -> io::Result<Wire> {
        let stream = TcpStream::connect((self.name.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Wire::Tcp(stream)) };
        let name = ServerName::try_from(self.name.clone()).map_err(io::Error::other)?;
        Ok(Wire::Tls(Box::new(tls.connect(name, stream).await?)))
    }
}

/// A URL without what may be a secret in it.
fn shown(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, host)| host))
        }
        None => "the URL".to_owned(),
    }
}

fn is_here(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn connector(url: &str, roots: Option<&Path>) -> Result<TlsConnector, ClientError> {
    let unfit = |what: String| ClientError::BadUrl { url: shown(url), what };
    let mut store = RootCertStore::empty();
    match roots {
        Some(file) => {
            let unreadable = |error: String| unfit(format!("{}: {error}", file.display()));
            let found = CertificateDer::pem_file_iter(file).map_err(|error| unreadable(error.to_string()))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
                store.add(certificate).map_err(|error| unreadable(error.to_string()))?;
            }
            if store.is_empty() {
                return Err(unreadable("it holds no certificate".to_owned()));
            }
        }
        None => {
            for certificate in rustls_native_certs::load_native_certs().certs {
                // One broken certificate of the system must not take the others away.
                let _ = store.add(certificate);
            }
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unfit(error.to_string()))?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R4, R7.
    #[test]
    fn a_secret_goes_to_this_machine_or_over_tls() {
        for url in ["https://db.example:6433", "https://db.example", "http://127.0.0.1:1/", "http://[::1]:1"]
        {
            let remote = Remote::new(url, "ci:secret", None).unwrap();
            assert!(!format!("{remote:?} {remote}").contains("secret"));
        }
        let without = Remote::new("https://db.example", "ci:secret", None).unwrap();
        let entered = "postgresql://ci:secret@db.example:6432/try";
        assert_eq!(without.with_secret("postgresql://ci@db.example:6432/try"), entered);
        assert_eq!((without.host().to_str().unwrap(), without.port), ("db.example:6433", 6433));
        for url in [
            "http://db.example:6433",
            "http://127.0.0.1.evil.example",
            "ftp://localhost",
            "localhost:6433",
            "https://localhost/x",
            "https://ci:hidden@localhost",
            "https://",
            "",
        ] {
            let said = Remote::new(url, "ci:secret", None).unwrap_err().to_string();
            assert!(!said.contains("hidden") && !said.contains("secret"), "{said}");
        }
        for token in ["", "ci", "ci:", ":s", "ci:a\nb"] {
            assert!(Remote::new("http://localhost:1", token, None).is_err(), "{token:?}");
        }
    }
}
