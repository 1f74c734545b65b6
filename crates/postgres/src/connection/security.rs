//! What a connection string says of encryption: `sslmode` with all of libpq's words, and the certificates it names.

use super::{tls, without_password, ConnectError};
use std::path::{Path, PathBuf};
use tokio_postgres::{config::SslMode, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How much is asked of a connection, as libpq writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encryption {
    /// None.
    Disable,
    /// If the server offers it (`allow` and `prefer`).
    Prefer,
    /// Always, with whoever answers.
    Require,
    /// With a server whose certificate somebody trusted has signed.
    VerifyCa,
    /// And which has the name that was asked for.
    VerifyFull,
}

/// What a connection string says of encryption.
#[derive(Debug, Clone)]
pub struct Security {
    encryption: Encryption,
    /// Whose certificates are believed; those of the system if no file is named.
    roots: Option<PathBuf>,
}

/// Parameters of libpq that are understood here, because the client does not know them.
const SSLMODE: &str = "sslmode";
const SSLROOTCERT: &str = "sslrootcert";
/// As a parameter of a URL the client takes it for one host, whatever it holds.
const HOST: &str = "host";

impl Security {
    /// No encryption: for sockets of this machine.
    #[must_use]
    pub fn none() -> Security {
        Security { encryption: Encryption::Disable, roots: None }
    }

    /// Reads a URL or a `key=value` string, as libpq writes them.
    ///
    /// # Errors
    /// [`ConnectError::Url`].
    pub fn parse(url: &str) -> Result<(Config, Security), ConnectError> {
        let wrong = |cause: String| ConnectError::Url { url: without_password(url), cause };
        let (rest, taken) = take(url);
        let mut security = Security { encryption: Encryption::Prefer, roots: None };
        let mut hosts = Vec::new();
        for (key, value) in taken {
            match (key.as_str(), value.as_str()) {
                (HOST, names) => hosts.extend(names.split(',').map(str::to_owned)),
                (SSLMODE, word) => {
                    security.encryption =
                        encryption(word).ok_or_else(|| wrong(format!("{word:?} is no sslmode")))?
                }
                (_, "system") => security.roots = None,
                (_, path) => security.roots = Some(PathBuf::from(path)),
            }
        }
        if security.encryption == Encryption::Require && security.roots.is_some() {
            // As in libpq.
            security.encryption = Encryption::VerifyCa;
        }
        let mut config: Config = rest.parse().map_err(|error| wrong(super::with_sources(&error)))?;
        for host in hosts {
            config.host(host);
        }
        config.ssl_mode(match security.encryption {
            Encryption::Disable => SslMode::Disable,
            Encryption::Prefer => SslMode::Prefer,
            _ => SslMode::Require,
        });
        Ok((config, security))
    }

    /// How much is asked.
    #[must_use]
    pub fn encryption(&self) -> Encryption {
        self.encryption
    }

    /// Whether nothing but an encrypted connection will do.
    #[must_use]
    pub fn demands(&self) -> bool {
        self.encryption >= Encryption::Require
    }

    /// What connections need for TLS.
    ///
    /// # Errors
    /// [`ConnectError::Tls`].
    pub fn connector(&self) -> Result<MakeRustlsConnect, ConnectError> {
        tls::verifying(self.encryption, self.roots.as_deref())
    }

    /// The same for a program that uses libpq: names and values of parameters.
    #[must_use]
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let word = match self.encryption {
            Encryption::Disable => "disable",
            Encryption::Prefer => "prefer",
            Encryption::Require => "require",
            Encryption::VerifyCa => "verify-ca",
            Encryption::VerifyFull => "verify-full",
        };
        let roots = |path: &Path| (SSLROOTCERT, path.display().to_string());
        let mut parameters = vec![(SSLMODE, word.to_owned())];
        match (&self.roots, self.encryption) {
            (Some(path), _) => parameters.push(roots(path)),
            (None, Encryption::VerifyCa | Encryption::VerifyFull) => {
                parameters.extend(SYSTEM_ROOTS.iter().map(Path::new).find(|path| path.exists()).map(roots));
            }
            (None, _) => {}
        }
        parameters
    }
}

/// Where the certificates that a system believes are kept in one file. libpq knows `sslrootcert=system` from 16 on only.
const SYSTEM_ROOTS: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

fn encryption(word: &str) -> Option<Encryption> {
    Some(match word {
        "disable" => Encryption::Disable,
        "allow" | "prefer" => Encryption::Prefer,
        "require" => Encryption::Require,
        "verify-ca" => Encryption::VerifyCa,
        "verify-full" => Encryption::VerifyFull,
        _ => return None,
    })
}

/// A connection string without what is understood here, and that.
fn take(url: &str) -> (String, Vec<(String, String)>) {
    if url.contains("://") {
        let Some((base, query)) = url.split_once('?') else { return (url.to_owned(), Vec::new()) };
        let mut taken = Vec::new();
        let kept: Vec<&str> = query
            .split('&')
            .filter(|pair| match pair.split_once('=') {
                Some((key @ (SSLMODE | SSLROOTCERT | HOST), value)) => {
                    taken.push((key.to_owned(), unescape(value)));
                    false
                }
                _ => true,
            })
            .collect();
        let rest = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
        return (rest, taken);
    }
    let mut taken = Vec::new();
    let mut rest = String::new();
    for (key, written, value) in words(url) {
        match key {
            SSLMODE | SSLROOTCERT => taken.push((key.to_owned(), value)),
            _ => {
                rest.push_str(written);
                rest.push(' ');
            }
        }
    }
    (rest, taken)
}

/// The `key=value` words of a text, each as it is written and with its value. What is no such word comes out as it is.
fn words(text: &str) -> Vec<(&str, &str, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let Some(equals) = rest.find('=') else {
            found.push(("", rest, String::new()));
            break;
        };
        let key = rest[..equals].trim();
        let begin = equals + 1 + (rest[equals + 1..].len() - rest[equals + 1..].trim_start().len());
        let quoted = rest[begin..].starts_with('\'');
        let (mut value, mut escaped, mut end) = (String::new(), false, rest.len());
        for (at, c) in rest[begin..].char_indices().skip(usize::from(quoted)) {
            match c {
                c if escaped => {
                    value.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                '\'' if quoted => {
                    end = begin + at + 1;
                    break;
                }
                c if !quoted && c.is_whitespace() => {
                    end = begin + at;
                    break;
                }
                c => value.push(c),
            }
        }
        found.push((key, &rest[..end], value));
        rest = rest[end..].trim_start();
    }
    found
}

/// Takes the escapes of a URL out of a value. One that is none stays as it is.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_postgres::config::Host;

    #[test]
    fn what_is_said_of_encryption_is_read_out_of_every_form() {
        for (url, wanted, roots) in [
            ("postgresql://u:p@h/d", Encryption::Prefer, None),
            ("postgresql://u@h/d?sslmode=disable", Encryption::Disable, None),
            ("postgresql://u@a,b:1/d?target_session_attrs=read-write&sslmode=verify-full&sslrootcert=/a%20b", Encryption::VerifyFull, Some("/a b")),
            ("postgresql://u@h/d?sslmode=require&sslrootcert=/x", Encryption::VerifyCa, Some("/x")),
            ("postgresql://u@h/d?sslmode=verify-full&sslrootcert=system", Encryption::VerifyFull, None),
            ("host=h user=u sslmode = 'verify-ca' sslrootcert='/a \\'b' password='x sslmode=disable'", Encryption::VerifyCa, Some("/a 'b")),
            ("host=h user=u sslmode=allow", Encryption::Prefer, None),
        ] {
            let (config, security) = Security::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!((security.encryption, security.roots.as_deref()), (wanted, roots.map(Path::new)), "{url}");
            assert_eq!(config.get_user(), Some("u"), "{url}");
        }
        let (config, _) = Security::parse("postgresql://u@/d?host=/a,b%2Ec&port=1,2").unwrap();
        let hosts = [Host::Unix("/a".into()), Host::Tcp("b.c".to_owned())];
        assert_eq!((config.get_hosts(), config.get_ports()), (&hosts[..], &[1, 2][..]));
        for url in ["postgresql://u@h/d?sslmode=never", "host=h sslmode=", "nonsense"] {
            assert!(Security::parse(url).is_err(), "{url}");
        }
    }
}
