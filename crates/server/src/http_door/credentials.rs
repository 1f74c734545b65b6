//! The name and the secret of a token, as the header `Authorization` has them.

use base64::{engine::general_purpose::STANDARD, Engine as _};
use hyper::{header::AUTHORIZATION, HeaderMap};

/// A name and a secret.
#[derive(PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) name: String,
    pub(crate) secret: String,
}

/// What a request says of who sent it.
#[derive(PartialEq, Eq)]
pub(super) enum Shown {
    /// Nothing.
    Nothing,
    /// Something that cannot be right: another scheme, no colon, or two headers.
    Malformed,
    /// A name and a secret.
    Credentials(Credentials),
}

/// `Bearer NAME:SECRET`, or `Basic` with the same in base64.
pub(super) fn shown(headers: &HeaderMap) -> Shown {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let Some(header) = all.next() else { return Shown::Nothing };
    if all.next().is_some() {
        return Shown::Malformed;
    }
    let read = || {
        let (scheme, rest) = header.to_str().ok()?.trim().split_once(' ')?;
        let rest = rest.trim();
        let pair = if scheme.eq_ignore_ascii_case("bearer") {
            rest.to_owned()
        } else if scheme.eq_ignore_ascii_case("basic") {
            String::from_utf8(STANDARD.decode(rest).ok()?).ok()?
        } else {
            return None;
        };
        let (name, secret) = pair.split_once(':')?;
        Some(Credentials { name: name.to_owned(), secret: secret.to_owned() })
    };
    read().map_or(Shown::Malformed, Shown::Credentials)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn of(headers: &[&str]) -> Option<(String, String)> {
        let mut map = HeaderMap::new();
        for header in headers {
            map.append(AUTHORIZATION, HeaderValue::from_str(header).unwrap());
        }
        match shown(&map) {
            Shown::Credentials(Credentials { name, secret }) => Some((name, secret)),
            Shown::Nothing | Shown::Malformed => None,
        }
    }

    #[test]
    fn both_schemes_say_the_same() {
        let expected = Some(("ci".to_owned(), "s3:cret".to_owned()));
        for header in ["Bearer ci:s3:cret", "bearer  ci:s3:cret", "Basic Y2k6czM6Y3JldA=="] {
            assert_eq!(of(&[header]), expected, "{header}");
        }
    }

    #[test]
    fn what_is_no_name_and_secret_is_nobody() {
        for header in ["Bearer", "Bearer ci", "Basic ci:s", "Basic Y2k=", "Digest ci:s", ":", "Basic /w=="] {
            assert_eq!(of(&[header]), None, "{header}");
        }
        assert_eq!(of(&["Bearer ci:a", "Bearer ci:b"]), None, "which of them?");
        assert!(shown(&HeaderMap::new()) == Shown::Nothing);
    }
}
