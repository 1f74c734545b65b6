//! Which servers are believed, and how the connection to them is encrypted.

use std::{path::Path, sync::Arc};

use rustls::{
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        WebPkiServerVerifier,
    },
    pki_types::{pem::PemObject, CertificateDer, ServerName, UnixTime},
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{ConnectError, Encryption};

/// What a connection of this mode needs.
pub(super) fn connector(mode: SslMode) -> Result<MakeRustlsConnect, ConnectError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ConnectError::Tls(error.to_string()))?;
    let config = match mode {
        // As in libpq: these modes encrypt, and do not ask who the server is.
        SslMode::Prefer | SslMode::Disable => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer)).with_no_client_auth()
        }
        _ => {
            let mut roots = RootCertStore::empty();
            for certificate in rustls_native_certs::load_native_certs().certs {
                // One broken certificate of the system must not take the others away.
                let _ = roots.add(certificate);
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

/// What a connection needs that asks so much of its server; `roots` names the file of those whose certificates are
/// believed.
pub(super) fn verifying(
    encryption: Encryption,
    roots: Option<&Path>,
) -> Result<MakeRustlsConnect, ConnectError> {
    let fail = |error: &dyn std::error::Error| ConnectError::Tls(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| fail(&error))?
        .dangerous();
    if encryption < Encryption::VerifyCa {
        let config = builder.with_custom_certificate_verifier(Arc::new(AnyServer)).with_no_client_auth();
        return Ok(MakeRustlsConnect::new(config));
    }
    let mut store = RootCertStore::empty();
    match roots {
        Some(path) => {
            let unreadable = |error: &dyn std::error::Error| {
                ConnectError::Tls(format!("the certificates in {} cannot be read: {error}", path.display()))
            };
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
                let certificate = certificate.map_err(|error| unreadable(&error))?;
                store.add(certificate).map_err(|error| unreadable(&error))?;
            }
        }
        None => {
            for certificate in rustls_native_certs::load_native_certs().certs {
                // One broken certificate of the system must not take the others away.
                let _ = store.add(certificate);
            }
        }
    }
    let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider)
        .build()
        .map_err(|error| fail(&error))?;
    let verifier: Arc<dyn ServerCertVerifier> = match encryption {
        Encryption::VerifyFull => signed,
        _ => Arc::new(AnyName(signed)),
    };
    let config = builder.with_custom_certificate_verifier(verifier).with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// Accepts every name in a certificate that is trusted, which is what `sslmode=verify-ca` means.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The name is looked at last, after the chain.
        match self.0.verify_server_cert(certificate, others, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Accepts every certificate: encryption without authentication, which is what `sslmode=prefer` means.
#[derive(Debug)]
struct AnyServer;

impl rustls::client::danger::ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
