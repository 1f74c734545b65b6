//! Signatures of change sets: who made one, for whoever applies it.
//!
//! A signature is a file beside the change set. Keys are Ed25519, in the files that `openssl genpkey -algorithm ed25519` and
//! `openssl pkey -pubout` write. What is signed is the root digest of the pack, which proves every byte of it.

use base64::{engine::general_purpose::STANDARD, Engine};
use ring::signature::{Ed25519KeyPair, KeyPair, UnparsedPublicKey, ED25519};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// What stands before the digest in what is signed: no signature of anything else is one of a change set.
const CONTEXT: &[u8] = b"duramen change set, format 1, root digest\0";
/// The first line of a file with a signature.
const HEAD: &str = "duramen change set signature: ed25519";
/// What comes before the 32 bytes of a public key in a file: the name of the algorithm (RFC 8410).
const PUBLIC_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Bytes of a key's or a signature's file at most.
const FILE_BYTES_MAX: u64 = 16 << 10;

/// Why something cannot be signed, or a signature not be relied on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// A file cannot be read or written.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A file does not contain a key.
    #[error("{path} is no {what} key for Ed25519 in PEM; `{hint}` makes one")]
    NoKey {
        /// Which file.
        path: String,
        /// `private` or `public`.
        what: &'static str,
        /// The command that makes one.
        hint: &'static str,
    },
    /// A file does not contain a signature.
    #[error("{path} does not contain the signature of a change set; `duramen change sign` makes one")]
    NoSignature {
        /// Which file.
        path: String,
    },
    /// The signature is not that of this change set by this key.
    #[error(
        "{path} is not a signature of this change set by that key: do not apply it, and ask who sent it"
    )]
    Wrong {
        /// Which file.
        path: String,
    },
}

/// Where the signature of a change set lies: beside it.
#[must_use]
pub fn signature_file(set: &Path) -> PathBuf {
    let mut name = set.as_os_str().to_owned();
    name.push(".sig");
    PathBuf::from(name)
}

/// Signs the root digest of a change set. Returns the text of the signature's file, and the public key in hexadecimal digits.
///
/// # Errors
/// [`SignError`].
pub fn sign(root_digest: [u8; 32], key: &Path) -> Result<(String, String), SignError> {
    let no_key = || SignError::NoKey {
        path: key.display().to_string(),
        what: "private",
        hint: "openssl genpkey -algorithm ed25519 -out key.pem",
    };
    let der = pem(&read(key)?, "PRIVATE KEY").ok_or_else(no_key)?;
    // OpenSSL writes keys without their public half.
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map_err(|_| no_key())?;
    let signature = pair.sign(&message(root_digest));
    let public = duramen_pack::container::hex(pair.public_key().as_ref());
    Ok((format!("{HEAD}\n{}\n", STANDARD.encode(signature.as_ref())), public))
}

/// Checks the signature of a change set with a public key.
///
/// # Errors
/// [`SignError`].
pub fn check(root_digest: [u8; 32], signature: &Path, key: &Path) -> Result<(), SignError> {
    let no_key = || SignError::NoKey {
        path: key.display().to_string(),
        what: "public",
        hint: "openssl pkey -in key.pem -pubout -out public.pem",
    };
    let der = pem(&read(key)?, "PUBLIC KEY").ok_or_else(no_key)?;
    let public = der.strip_prefix(&PUBLIC_PREFIX).filter(|key| key.len() == 32).ok_or_else(no_key)?;
    let path = || signature.display().to_string();
    let text = read(signature)?;
    let line = text.strip_prefix(HEAD).map(str::trim);
    let bytes = line
        .and_then(|line| STANDARD.decode(line).ok())
        .ok_or_else(|| SignError::NoSignature { path: path() })?;
    let checked = UnparsedPublicKey::new(&ED25519, public).verify(&message(root_digest), &bytes);
    checked.map_err(|_| SignError::Wrong { path: path() })
}

fn message(root_digest: [u8; 32]) -> Vec<u8> {
    [CONTEXT, &root_digest].concat()
}

fn read(path: &Path) -> Result<String, SignError> {
    let failed = |source| SignError::Io { doing: "read", path: path.display().to_string(), source };
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > FILE_BYTES_MAX {
        return Err(failed(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is too large for a key or a signature",
        )));
    }
    fs::read_to_string(path).map_err(failed)
}

/// The bytes between the lines that name what they are.
fn pem(text: &str, what: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {what}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {what}-----"))?;
    let body: String = body.split_whitespace().collect();
    STANDARD.decode(body).ok()
}

#[cfg(test)]
mod tests {
    use super::{check, sign, signature_file, SignError};
    use std::fs;

    // Made by OpenSSL 3: `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout`.
    const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEICynXnvKT4Sho9ww8EXSgzTGOToVnONaZc4CpSxJZ2in\n-----END PRIVATE KEY-----\n";
    const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAu8vERAbcEF38kdhNaIInnK2VvARhPE3fboPII7dfl0M=\n-----END PUBLIC KEY-----\n";
    const OTHER: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAutqaekjehzEeKsgBkxoBRJve77F1WqVhHBPEkLvHypU=\n-----END PUBLIC KEY-----\n";

    #[test]
    fn c12_a_signature_is_of_one_change_set_by_one_key() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let (private, public, other) = (file("key", PRIVATE), file("pub", PUBLIC), file("other", OTHER));
        let (text, shown) = sign([7; 32], &private).unwrap();
        assert_eq!(shown.len(), 64);
        let signature = file("x.dpack.sig", &text);
        assert_eq!(signature_file(&dir.path().join("x.dpack")), signature);
        check([7; 32], &signature, &public).unwrap();
        assert!(matches!(check([8; 32], &signature, &public), Err(SignError::Wrong { .. })));
        assert!(matches!(check([7; 32], &signature, &other), Err(SignError::Wrong { .. })));
        for damaged in ["", "duramen", &text.replace("ed25519", "rsa"), &text[..text.len() - 9]] {
            let signature = file("damaged.sig", damaged);
            assert!(check([7; 32], &signature, &public).is_err(), "{damaged:?}");
        }
        assert!(matches!(sign([7; 32], &public), Err(SignError::NoKey { .. })));
        assert!(matches!(check([7; 32], &signature, &private), Err(SignError::NoKey { .. })));
        assert!(matches!(sign([7; 32], &dir.path().join("none")), Err(SignError::Io { .. })));
    }
}
