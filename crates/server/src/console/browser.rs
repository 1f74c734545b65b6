//! What a browser says with a request: its cookie, and which page the request is of (W2, W3).

use crate::reply::Refusal;
use duramen_api::console::CONSOLE_HEADER;
use hyper::{
    header::{HeaderName, HeaderValue, COOKIE, ORIGIN},
    http::request::Parts,
    HeaderMap, Method, StatusCode,
};
use std::net::IpAddr;

/// Where a browser says whose page sent a request (Fetch Metadata).
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// How long a browser keeps the cookie: as long as a session may last.
const KEPT_S: i64 = super::sessions::AGE_MAX.as_secs();
/// The longest secret that is looked at.
const SECRET_MAX: usize = 256;

/// How a request came to the HTTP door.
#[derive(Debug, Clone)]
pub(crate) struct Browser {
    /// From where.
    pub(crate) peer: IpAddr,
    /// Whether by TLS.
    pub(crate) tls: bool,
    /// The port of the door. Browsers tell cookies of one host apart by nothing but their names, and it may have two daemons.
    pub(crate) port: u16,
}

/// What the cookies of a request hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown<'a> {
    /// No session: none, or two, of which nobody knows whose they are.
    Nothing,
    /// The secret of one.
    Secret(&'a str),
}

impl Browser {
    /// The name of the cookie. `__Host-` has a browser take it from this host alone, and by TLS.
    fn cookie(&self) -> String {
        format!("{}duramen-{}", if self.tls { "__Host-" } else { "" }, self.port)
    }

    /// The secret that the cookies of a request hold.
    pub(crate) fn shown<'a>(&self, headers: &'a HeaderMap) -> Shown<'a> {
        let name = self.cookie();
        let texts = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
        let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut own = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value);
        match (own.next(), own.next()) {
            (Some(secret), None) if secret.len() <= SECRET_MAX => Shown::Secret(secret),
            _ => Shown::Nothing,
        }
    }

    /// The header by which a browser gets the cookie.
    pub(super) fn given(&self, secret: &str) -> HeaderValue {
        self.set(secret, KEPT_S)
    }

    /// The header by which it loses the cookie.
    pub(super) fn taken(&self) -> HeaderValue {
        self.set("", 0)
    }

    fn set(&self, value: &str, max_age_s: i64) -> HeaderValue {
        let secure = if self.tls { "; Secure" } else { "" };
        let name = self.cookie();
        let text = format!("{name}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict{secure}");
        let mut header = HeaderValue::try_from(text).expect("base64 and numbers fit into a header");
        header.set_sensitive(true);
        header
    }

    /// Refuses a request with a cookie that another page may have sent (W3). That `Origin` names the door was looked at before (H7);
    /// here it is whether by the same scheme, where the door knows that.
    pub(crate) fn is_own(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
        let is_get = method == Method::GET || method == Method::HEAD;
        let sites_fit = headers.get_all(SITE).iter().all(|site| {
            // `none`: somebody typed the address.
            site == "same-origin" || (site == "none" && is_get)
        });
        let origins_fit = !self.tls
            || headers.get_all(ORIGIN).iter().all(|origin| origin.as_bytes().starts_with(b"https://"));
        if !sites_fit || !origins_fit {
            let message = "this comes from a page of another site, and a session is for the console's own";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "cross_origin", message));
        }
        let is_marked = headers.get(CONSOLE_HEADER).is_some_and(|value| value == "1");
        if !is_get && !is_marked {
            let message = "a request of a session needs the header `X-Duramen-Console: 1`; programs show a token instead \
                           (`Authorization: Bearer NAME:SECRET`)";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "no_console_header", message));
        }
        Ok(())
    }

    /// How a request came; nothing, if it did not come by the HTTP door.
    pub(super) fn of(head: &Parts) -> Option<&Browser> {
        head.extensions.get()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/browser.rs"]
mod tests;
