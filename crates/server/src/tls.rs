//! TLS for those who come from elsewhere: the certificate, and what a login can be bound to.

use base64::{engine::general_purpose::STANDARD, Engine as _};
use duramen_base::{clock, file};
use jiff::SignedDuration;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::{
    pki_types::{pem::PemObject, CertificateDer, PrivateKeyDer},
    ServerConfig,
};
use sha2::{Digest, Sha256, Sha384, Sha512};
use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio_rustls::TlsAcceptor;
use x509_cert::{
    der::{oid::db::rfc5912, Decode},
    ext::pkix::{name::GeneralName, SubjectAltName},
    Certificate,
};

/// What ALPN calls the protocol of PostgreSQL.
pub(crate) const ALPN: &[u8] = b"postgresql";
/// What it calls HTTP.
pub(crate) const ALPN_HTTP: &[u8] = b"http/1.1";
/// Only the daemon reads what lies in `doors`.
const FILE_MODE: u32 = 0o600;
/// How long a certificate of ours is good: clients are given it by hand.
const DAYS_GOOD: i64 = 3650;

/// Where a certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, with those that vouch for it, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read or written, or holds something else.
    #[error("cannot use {path} for TLS: {what}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The two do not fit to each other, or the key is of an unknown kind.
    #[error("the certificate {certificate} and its key cannot be used: {what}")]
    Unfit {
        /// The certificate.
        certificate: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// None could be made.
    #[error("no certificate can be made: {0}")]
    NotMade(String),
}

/// A door's end of TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// What a login is bound to, where that is defined for the certificate.
    pub(crate) end_point: Option<Arc<[u8]>>,
    /// SHA-256 of the certificate, as `openssl x509 -fingerprint -sha256` writes it.
    pub(crate) fingerprint: String,
    /// The names that it is for, in lower case.
    pub(crate) names: Vec<String>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

impl Tls {
    /// With the identity that is given, or one of our own in `dir`, made if it is not there; for the protocol that ALPN calls
    /// `protocol`.
    pub(crate) fn open(given: Option<&Identity>, dir: &Path, protocol: &[u8]) -> Result<Tls, TlsError> {
        let own = Identity { certificate: dir.join("certificate.pem"), key: dir.join("key.pem") };
        let identity = given.unwrap_or(&own);
        if given.is_none() && !(own.certificate.exists() && own.key.exists()) {
            make(&own)?;
        }
        let chain = read(&identity.certificate, |pem| {
            CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>()
        })?;
        let key = read(&identity.key, PrivateKeyDer::from_pem_slice)?;
        let unfit = |what: String| TlsError::Unfit { certificate: identity.certificate.clone(), what };
        let first = chain.first().ok_or_else(|| unfit("it holds no certificate".to_owned()))?.clone();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map(|config| config.with_no_client_auth())
            .and_then(|config| config.with_single_cert(chain, key))
            .map_err(|error| unfit(error.to_string()))?;
        config.alpn_protocols = vec![protocol.to_vec()];
        let fingerprint: Vec<String> =
            Sha256::digest(&first).iter().map(|byte| format!("{byte:02X}")).collect();
        Ok(Tls {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            end_point: end_point(&first).map(Arc::from),
            fingerprint: fingerprint.join(":"),
            names: names(&first),
        })
    }
}

impl Tls {
    /// What stands before a name of the certificate, of the machine, or `localhost` in a server's name that a client called (SNI):
    /// `try` of `try.db.example`. Of several names that fit the longest counts.
    pub(crate) fn first_label(&self, called: &str) -> Option<String> {
        let called = called.to_ascii_lowercase();
        let machine = rustix::system::uname().nodename().to_str().map(str::to_ascii_lowercase).ok();
        let names = self.names.iter().map(|name| name.strip_prefix("*.").unwrap_or(name));
        let names = names.chain(machine.as_deref()).chain(["localhost"]).filter(|name| !name.is_empty());
        let before = names.filter_map(|name| called.strip_suffix(name));
        let shortest = before
            .filter(|label| label.is_empty() || label.ends_with('.'))
            .min_by_key(|label| label.len())?;
        shortest.strip_suffix('.').filter(|label| !label.is_empty()).map(str::to_owned)
    }
}

fn read<T>(
    path: &Path,
    parse: impl FnOnce(&[u8]) -> Result<T, rustls::pki_types::pem::Error>,
) -> Result<T, TlsError> {
    let fail = |what: String| TlsError::File { path: path.to_owned(), what };
    let pem = fs::read(path).map_err(|error| fail(error.to_string()))?;
    parse(&pem).map_err(|error| fail(error.to_string()))
}

/// Makes a certificate that vouches for itself.
fn make(own: &Identity) -> Result<(), TlsError> {
    let fail = |error: rcgen::Error| TlsError::NotMade(error.to_string());
    let host = rustix::system::uname().nodename().to_str().map(str::to_owned).ok();
    let names = ["localhost".to_owned()].into_iter().chain(host);
    let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let names: Vec<String> = names.chain(addresses.map(|address| address.to_string())).collect();
    let mut parameters = CertificateParams::new(names).map_err(fail)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, "Duramen");
    let now = clock::utc_now();
    let day = |days: i64| {
        let moment = now.checked_add(SignedDuration::from_hours(24 * days)).unwrap_or(now);
        let date = moment.to_zoned(jiff::tz::TimeZone::UTC).date();
        // Both are between 1 and 31.
        rcgen::date_time_ymd(i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    // Clocks differ.
    (parameters.not_before, parameters.not_after) = (day(-1), day(DAYS_GOOD));
    let key = KeyPair::generate().map_err(fail)?;
    let certificate = parameters.self_signed(&key).map_err(fail)?;
    // The key first: a certificate without one would not be made anew.
    for (path, label, der) in [
        (&own.key, "PRIVATE KEY", key.serialized_der()),
        (&own.certificate, "CERTIFICATE", certificate.der()),
    ] {
        file::replace(path, pem(label, der).as_bytes(), FILE_MODE)
            .map_err(|error| TlsError::File { path: path.clone(), what: error.to_string() })?;
    }
    Ok(())
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// The hash of a certificate by the hash of its signature (RFC 5929, section 4.1); nothing where that names none.
fn end_point(der: &[u8]) -> Option<Vec<u8>> {
    let certificate = Certificate::from_der(der).ok()?;
    match certificate.signature_algorithm.oid {
        // MD5 and SHA-1 stand for SHA-256.
        rfc5912::ECDSA_WITH_SHA_256
        | rfc5912::SHA_256_WITH_RSA_ENCRYPTION
        | rfc5912::SHA_1_WITH_RSA_ENCRYPTION => Some(Sha256::digest(der).to_vec()),
        rfc5912::ECDSA_WITH_SHA_384 | rfc5912::SHA_384_WITH_RSA_ENCRYPTION => {
            Some(Sha384::digest(der).to_vec())
        }
        rfc5912::ECDSA_WITH_SHA_512 | rfc5912::SHA_512_WITH_RSA_ENCRYPTION => {
            Some(Sha512::digest(der).to_vec())
        }
        _ => None,
    }
}

/// The host names that a certificate is for.
fn names(der: &[u8]) -> Vec<String> {
    let Ok(certificate) = Certificate::from_der(der) else { return Vec::new() };
    let Ok(Some((_, SubjectAltName(names)))) = certificate.tbs_certificate.get::<SubjectAltName>() else {
        return Vec::new();
    };
    let dns = |name: GeneralName| match name {
        GeneralName::DnsName(name) => Some(name.as_str().to_ascii_lowercase()),
        _ => None,
    };
    names.into_iter().filter_map(dns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_made_once_and_used_again() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let first = Tls::open(None, dir.path(), ALPN).unwrap();
        let again = Tls::open(None, dir.path(), ALPN).unwrap();
        assert_eq!(first.fingerprint, again.fingerprint);
        assert!(first.names.iter().any(|name| name == "localhost"));
        assert_eq!(first.end_point.as_ref().map(|hash| hash.len()), Some(32), "ECDSA with SHA-256");
        for file in ["key.pem", "certificate.pem"] {
            let mode = fs::metadata(dir.path().join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        fs::remove_file(dir.path().join("certificate.pem")).unwrap();
        assert_ne!(Tls::open(None, dir.path(), ALPN).unwrap().fingerprint, first.fingerprint);
    }

    #[test]
    fn a_servers_name_says_what_stands_before_a_name_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let mut tls = Tls::open(None, dir.path(), ALPN).unwrap();
        tls.names = ["*.db.example", "example"].map(str::to_owned).to_vec();
        for (called, label) in [
            ("try.db.example", Some("try")),
            ("TRY.DB.example", Some("try")),
            ("a.b.db.example", Some("a.b")),
            ("try.localhost", Some("try")),
            ("db.example", None),
            ("other.example", Some("other")),
            ("try.other", None),
            ("trydb.examples", None),
            ("localhost", None),
            (".localhost", None),
        ] {
            assert_eq!(tls.first_label(called).as_deref(), label, "{called}");
        }
    }

    #[test]
    fn what_is_no_identity_is_named() {
        let dir = tempfile::tempdir().unwrap();
        Tls::open(None, dir.path(), ALPN).unwrap();
        let file = |name: &str| dir.path().join(name);
        let open = |certificate: &str, key: &str| {
            Tls::open(Some(&Identity { certificate: file(certificate), key: file(key) }), dir.path(), ALPN)
        };
        let other = tempfile::tempdir().unwrap();
        Tls::open(None, other.path(), ALPN).unwrap();
        fs::copy(other.path().join("key.pem"), file("other.pem")).unwrap();
        fs::write(file("empty.pem"), "").unwrap();
        for (certificate, key) in [
            ("none.pem", "key.pem"),
            ("certificate.pem", "other.pem"),
            ("empty.pem", "key.pem"),
            ("certificate.pem", "empty.pem"),
        ] {
            let error = open(certificate, key).expect_err("it is refused").to_string();
            assert!(error.contains(".pem"), "{error}");
        }
        open("certificate.pem", "key.pem").unwrap();
    }
}
