//! The certificates by which nodes know one another (FL-10): an authority of the fleet, whose key stays with who has made it, and one
//! certificate for each node, which names the node.

use crate::address::is_name;
use base64::{engine::general_purpose::STANDARD, Engine as _};
use duramen_base::{clock, entropy, file};
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::{
    pki_types::{pem::PemObject, CertificateDer, PrivateKeyDer, ServerName},
    server::WebPkiClientVerifier,
    ClientConfig, RootCertStore, ServerConfig,
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use x509_cert::{
    der::Decode,
    ext::pkix::{name::GeneralName, SubjectAltName},
    Certificate,
};

/// The authority's certificate, in a directory of the authority and in that of a node.
pub const AUTHORITY: &str = "fleet-ca.pem";
/// The authority's key, in its directory alone.
pub const AUTHORITY_KEY: &str = "fleet-ca-key.pem";
/// A node's certificate.
pub const CERTIFICATE: &str = "node.pem";
/// Its key.
pub const KEY: &str = "node-key.pem";
/// What host names in certificates of nodes end with.
const DOMAIN: &str = "node.duramen.internal";
/// Only who made them reads keys.
const KEY_MODE: u32 = 0o600;
const CERTIFICATE_MODE: u32 = 0o644;
/// How long certificates are good.
const AUTHORITY_DAYS: i64 = 3650;
const NODE_DAYS: i64 = 825;

/// Why there is no certificate, or none that is good.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// A file cannot be read or written, or holds something else.
    #[error("cannot use {path} for the fleet: {what}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// There is an authority already: another one would cut off the nodes that have certificates of it.
    #[error("there is an authority in {0} already; certify nodes with it (duramen node certify), or choose another directory")]
    Exists(PathBuf),
    /// The name cannot name a node.
    #[error("{0:?} cannot name a node: use 1 to 40 of a-z 0-9 - and neither begin nor end with -")]
    Name(String),
    /// The certificate is of another node.
    #[error("the certificate {path} is not that of the node {node}, but names {names}; make one: duramen node certify --node {node}")]
    OtherNode {
        /// The certificate.
        path: PathBuf,
        /// The node.
        node: String,
        /// What it names.
        names: String,
    },
    /// Certificate, key and authority do not fit to each other.
    #[error("the certificates in {dir} cannot be used: {what}; make new ones: duramen node certify")]
    Unfit {
        /// Where they are.
        dir: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// None could be made.
    #[error("no certificate can be made: {0}")]
    NotMade(String),
}

/// The host name that a node has in its certificate.
#[must_use]
pub fn host_name(node: &str) -> String {
    format!("{node}.{DOMAIN}")
}

/// Makes the authority of a fleet in a directory. Its key is needed for certifying nodes, and on none of them.
///
/// # Errors
/// When there is one already, or it cannot be written.
///
/// # Examples
/// ```
/// use duramen_fleet::authority::{certify, make, Trust};
/// let dir = tempfile::tempdir()?;
/// let (ca, node) = (dir.path().join("ca"), dir.path().join("a"));
/// make(&ca)?;
/// certify(&ca, "a", &node)?;
/// assert!(Trust::open(&node, "a").is_ok());
/// assert!(Trust::open(&node, "b").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn make(dir: &Path) -> Result<(), AuthorityError> {
    fs::create_dir_all(dir).map_err(|error| unusable(dir, &error))?;
    if dir.join(AUTHORITY).exists() || dir.join(AUTHORITY_KEY).exists() {
        return Err(AuthorityError::Exists(dir.to_owned()));
    }
    let key = KeyPair::generate().map_err(not_made)?;
    let parameters = authority_of(&format!("Duramen fleet {}", entropy::token(8)));
    let certificate = parameters.self_signed(&key).map_err(not_made)?;
    write(&dir.join(AUTHORITY_KEY), &pem("PRIVATE KEY", key.serialized_der()), KEY_MODE)?;
    write(&dir.join(AUTHORITY), &pem("CERTIFICATE", certificate.der()), CERTIFICATE_MODE)
}

/// Makes a certificate for a node, and puts it with the authority's certificate into a directory, which is to be brought to the node.
///
/// # Errors
/// When the authority cannot be read, or the files cannot be written.
pub fn certify(authority: &Path, node: &str, out: &Path) -> Result<(), AuthorityError> {
    if !is_name(node) {
        return Err(AuthorityError::Name(node.to_owned()));
    }
    let vouching = read_certificate(&authority.join(AUTHORITY))?;
    let key_file = authority.join(AUTHORITY_KEY);
    let signs = KeyPair::try_from(&read_key(&key_file)?)
        .map_err(|error| AuthorityError::File { path: key_file, what: error.to_string() })?;
    let issuer = Issuer::new(authority_of(&subject(&vouching, authority)?), signs);
    let mut parameters = CertificateParams::new([host_name(node)]).map_err(not_made)?;
    parameters.distinguished_name = named(&format!("Duramen node {node}"));
    parameters.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    parameters.use_authority_key_identifier_extension = true;
    lasting(&mut parameters, NODE_DAYS);
    let key = KeyPair::generate().map_err(not_made)?;
    let certificate = parameters.signed_by(&key, &issuer).map_err(not_made)?;
    fs::create_dir_all(out).map_err(|error| unusable(out, &error))?;
    write(&out.join(KEY), &pem("PRIVATE KEY", key.serialized_der()), KEY_MODE)?;
    write(&out.join(CERTIFICATE), &pem("CERTIFICATE", certificate.der()), CERTIFICATE_MODE)?;
    write(&out.join(AUTHORITY), &pem("CERTIFICATE", &vouching), CERTIFICATE_MODE)
}

/// What a node shows others, and by what it knows them.
#[derive(Clone)]
pub struct Trust {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    until: (Option<Timestamp>, Option<Timestamp>),
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trust").finish_non_exhaustive()
    }
}

impl Trust {
    /// Reads the certificates of a node.
    ///
    /// # Errors
    /// When a file is not there, is of another node, or not vouched for by the authority.
    pub fn open(dir: &Path, node: &str) -> Result<Trust, AuthorityError> {
        let unfit = |what: String| AuthorityError::Unfit { dir: dir.to_owned(), what };
        let authority = read_certificate(&dir.join(AUTHORITY))?;
        let path = dir.join(CERTIFICATE);
        let certificate = read_certificate(&path)?;
        let names = names_of(&certificate);
        if names.as_slice() != [host_name(node)] {
            return Err(AuthorityError::OtherNode { path, node: node.to_owned(), names: names.join(", ") });
        }
        let until = (end_of(&certificate), end_of(&authority));
        let mut roots = RootCertStore::empty();
        roots.add(authority).map_err(|error| unfit(error.to_string()))?;
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(|error| unfit(error.to_string()))?;
        // What others would refuse is told here, and not by them.
        let now = rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_millis(
            u64::try_from(clock::unix_ms()).unwrap_or(0),
        ));
        verifier.verify_client_cert(&certificate, &[], now).map_err(|error| unfit(error.to_string()))?;
        let key = || read_key(&dir.join(KEY));
        let only_13 = &[&rustls::version::TLS13];
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(only_13)
            .map(|config| config.with_client_cert_verifier(verifier))
            .map_err(|error| unfit(error.to_string()))?
            .with_single_cert(vec![certificate.clone()], key()?)
            .map_err(|error| unfit(error.to_string()))?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(only_13)
            .map_err(|error| unfit(error.to_string()))?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key()?)
            .map_err(|error| unfit(error.to_string()))?;
        Ok(Trust { server: Arc::new(server), client: Arc::new(client), until })
    }

    /// When the node's certificate ends, which is read anew when its daemon starts.
    #[must_use]
    pub fn certificate_until(&self) -> Option<Timestamp> {
        self.until.0
    }

    /// When the authority's certificate ends.
    #[must_use]
    pub fn authority_until(&self) -> Option<Timestamp> {
        self.until.1
    }

    /// What a node serves others with, by these protocols (ALPN).
    #[must_use]
    pub fn server(&self, protocols: &[&[u8]]) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.server);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    }

    /// What it connects to others with.
    #[must_use]
    pub fn client(&self, protocol: &[u8]) -> Arc<ClientConfig> {
        let mut config = ClientConfig::clone(&self.client);
        config.alpn_protocols = vec![protocol.to_vec()];
        Arc::new(config)
    }
}

/// What a node has to show in its certificate; nothing, if the text cannot name one.
#[must_use]
pub fn expected(node: &str) -> Option<ServerName<'static>> {
    is_name(node).then(|| ServerName::try_from(host_name(node)).ok()).flatten()
}

/// The node that a certificate, which was verified, is of.
#[must_use]
pub fn node_of(certificate: &[u8]) -> Option<String> {
    match names_of(certificate).as_slice() {
        [name] => {
            name.strip_suffix(DOMAIN)?.strip_suffix('.').filter(|node| is_name(node)).map(str::to_owned)
        }
        _ => None,
    }
}

fn authority_of(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = named(name);
    // It vouches for nodes, and for no other authority.
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    lasting(&mut parameters, AUTHORITY_DAYS);
    parameters
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

fn lasting(parameters: &mut CertificateParams, days: i64) {
    let now = clock::utc_now();
    let day = |days: i64| {
        let moment = now.checked_add(SignedDuration::from_hours(24 * days)).unwrap_or(now);
        let date = moment.to_zoned(jiff::tz::TimeZone::UTC).date();
        // Both are between 1 and 31.
        rcgen::date_time_ymd(i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    // Clocks differ.
    (parameters.not_before, parameters.not_after) = (day(-1), day(days));
}

/// The name of an authority, which is all that its certificate's name consists of.
fn subject(certificate: &[u8], dir: &Path) -> Result<String, AuthorityError> {
    let unfit = |what: String| AuthorityError::Unfit { dir: dir.to_owned(), what };
    let certificate = Certificate::from_der(certificate).map_err(|error| unfit(error.to_string()))?;
    let subject = certificate.tbs_certificate.subject.to_string();
    match subject.strip_prefix("CN=").filter(|name| !name.contains([',', '+', '\\'])) {
        Some(name) => Ok(name.to_owned()),
        None => Err(unfit(format!("{subject} is no authority of a fleet"))),
    }
}

fn end_of(certificate: &[u8]) -> Option<Timestamp> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let end = certificate.tbs_certificate.validity.not_after.to_unix_duration().as_secs();
    Timestamp::from_second(i64::try_from(end).ok()?).ok()
}

fn names_of(certificate: &[u8]) -> Vec<String> {
    let Ok(certificate) = Certificate::from_der(certificate) else { return Vec::new() };
    let Ok(Some((_, SubjectAltName(names)))) = certificate.tbs_certificate.get::<SubjectAltName>() else {
        return Vec::new();
    };
    let dns = |name: GeneralName| match name {
        GeneralName::DnsName(name) => Some(name.as_str().to_ascii_lowercase()),
        _ => None,
    };
    names.into_iter().filter_map(dns).collect()
}

fn read_certificate(path: &Path) -> Result<CertificateDer<'static>, AuthorityError> {
    CertificateDer::from_pem_file(path)
        .map_err(|error| AuthorityError::File { path: path.to_owned(), what: error.to_string() })
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, AuthorityError> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| AuthorityError::File { path: path.to_owned(), what: error.to_string() })
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), AuthorityError> {
    file::replace(path, text.as_bytes(), mode).map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, error: &std::io::Error) -> AuthorityError {
    AuthorityError::File { path: path.to_owned(), what: error.to_string() }
}

fn not_made(error: rcgen::Error) -> AuthorityError {
    AuthorityError::NotMade(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FL-10.
    #[test]
    fn a_certificate_is_good_for_its_node_and_its_fleet_alone() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        make(&at("one")).unwrap();
        make(&at("two")).unwrap();
        assert!(matches!(make(&at("one")), Err(AuthorityError::Exists(_))));
        certify(&at("one"), "a", &at("a")).unwrap();
        certify(&at("two"), "a", &at("a2")).unwrap();
        let trust = Trust::open(&at("a"), "a").unwrap();
        assert_eq!(trust.server(&[b"x"]).alpn_protocols, [b"x".to_vec()]);
        let days = |until: Option<Timestamp>| {
            let left = until.unwrap().duration_since(clock::utc_now());
            left.as_hours() / 24
        };
        assert!((NODE_DAYS - 2..=NODE_DAYS).contains(&days(trust.certificate_until())));
        assert!((AUTHORITY_DAYS - 2..=AUTHORITY_DAYS).contains(&days(trust.authority_until())));
        assert!(matches!(Trust::open(&at("a"), "b"), Err(AuthorityError::OtherNode { .. })));
        // One of another fleet, and a key of another node.
        fs::copy(at("a2").join(CERTIFICATE), at("a").join(CERTIFICATE)).unwrap();
        assert!(matches!(Trust::open(&at("a"), "a"), Err(AuthorityError::Unfit { .. })));
        certify(&at("one"), "a", &at("a")).unwrap();
        fs::copy(at("a2").join(KEY), at("a").join(KEY)).unwrap();
        assert!(matches!(Trust::open(&at("a"), "a"), Err(AuthorityError::Unfit { .. })));
        for name in ["", "A", "a.b", "../a", "a/b"] {
            assert!(matches!(certify(&at("one"), name, &at("x")), Err(AuthorityError::Name(_))), "{name:?}");
        }
        assert!(!at("a").join(AUTHORITY_KEY).exists());
        for key in [at("one").join(AUTHORITY_KEY), at("a").join(KEY)] {
            assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600, "{}", key.display());
        }
        let shown = read_certificate(&at("a2").join(CERTIFICATE)).unwrap();
        assert_eq!(node_of(&shown).as_deref(), Some("a"));
    }
}
